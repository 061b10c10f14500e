"""Tracebacks of the user's frames only: what leaves a public function has none of fgrad's inside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast

from fgrad.config import Config, config
from fgrad.errors import CallbackFailedError, FgradError, SpecError, is_plumbing

_F = TypeVar("_F", bound=Callable[..., Any])
# What fgrad raises on purpose. Anything else that begins inside fgrad is a bug, and keeps its frames.
_MEANT = (FgradError, TypeError, ValueError, IndexError, OverflowError, NotImplementedError, OSError)
# What fgrad calls: their frames below its own are no user's either.
_LIBRARIES = sys.stdlib_module_names | {"numpy", "scipy", "ml_dtypes", "llvmlite", "cffi"}


def trim(error: BaseException) -> None:
    """Take the frames inside fgrad out of the traceback of `error`, and of what it was caused by.

    FGRAD_TRACEBACK=full leaves all as they are. A ``raise`` that follows adds no frame of its own.
    """
    if config.traceback == "full":
        return
    seen: set[int] = set()
    rest: list[tuple[BaseException | None, bool]] = [(error, False)]
    while rest:
        e, is_meant = rest.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        if is_meant or not _is_bug(e):
            e.__traceback__ = _without_ours(e.__traceback__)
        rest += [(e.__cause__, isinstance(e, CallbackFailedError)), (e.__context__, False)]


def trimmed(f: _F) -> _F:
    """`f` with the tracebacks of its errors cut to the user's frames."""

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return cast(_F, call)


def trim_methods(cls: type, names: Iterable[str] = ()) -> None:
    """Make the public methods of `cls` cut the tracebacks of their errors, and the special ones in `names`."""
    for name, f in list(vars(cls).items()):
        if type(f) is FunctionType and (name in names or not name.startswith("_")) and not _trims(f):
            setattr(cls, name, trimmed(f))


def trim_public(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Make the functions called `names` of a public module cut the tracebacks of their errors.

    They are replaced there and in the module that defines them. Functions imported from there before are the plain
    ones: what calls them inside fgrad is itself called through a function that cuts.
    """
    for name in names:
        f: Any = namespace.get(name)
        if type(f) is FunctionType and not _trims(f):
            home = vars(sys.modules[f.__module__])
            at_home: Any = home.get(f.__name__)
            if at_home is f:
                home[f.__name__] = at_home = trimmed(f)
            namespace[name] = at_home if getattr(at_home, "__wrapped__", None) is f else trimmed(f)


def _trims(f: FunctionType) -> bool:
    """Whether `f` cuts tracebacks itself."""
    return "trim" in f.__code__.co_names


def _is_bug(e: BaseException) -> bool:
    if isinstance(e, _MEANT) and not isinstance(e, SpecError):
        return False
    tb = e.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is None or (isinstance(e, AttributeError) and tb.tb_frame.f_code.co_name == "__getattr__"):
        return False
    return is_plumbing(tb.tb_frame)


def _without_ours(tb: TracebackType | None) -> TracebackType | None:
    kept = []
    inside = False
    while tb is not None:
        root = tb.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        inside = is_plumbing(tb.tb_frame) or (inside and root in _LIBRARIES)
        if not inside:
            kept.append(tb)
        tb = tb.tb_next
    following: TracebackType | None = None
    for t in reversed(kept):
        following = TracebackType(following, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return following


trim_methods(Config, ("__getattr__",))
