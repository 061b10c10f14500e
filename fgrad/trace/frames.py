"""Tracebacks of the user's frames only: what leaves a public function has none of fgrad's inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from fgrad.config import config
from fgrad.errors import FgradError, SpecError, is_plumbing

_F = TypeVar("_F", bound=Callable[..., Any])
# What fgrad raises on purpose. Anything else that begins inside fgrad is a bug, and keeps its frames.
_MEANT = (FgradError, TypeError, ValueError, IndexError, OverflowError, NotImplementedError)


def trim(error: BaseException) -> None:
    """Take the frames inside fgrad out of the traceback of `error`, and of what it was caused by.

    FGRAD_TRACEBACK=full leaves all as they are. A ``raise`` that follows adds no frame of its own.
    """
    if config.traceback == "full":
        return
    seen: set[int] = set()
    rest: list[BaseException | None] = [error]
    while rest:
        e = rest.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        if not _is_bug(e):
            e.__traceback__ = _without_ours(e.__traceback__)
        rest += [e.__cause__, e.__context__]


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


def _is_bug(e: BaseException) -> bool:
    if isinstance(e, _MEANT) and not isinstance(e, SpecError):
        return False
    tb = e.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and is_plumbing(tb.tb_frame)


def _without_ours(tb: TracebackType | None) -> TracebackType | None:
    kept = []
    while tb is not None:
        if not is_plumbing(tb.tb_frame):
            kept.append(tb)
        tb = tb.tb_next
    following: TracebackType | None = None
    for t in reversed(kept):
        following = TracebackType(following, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return following
