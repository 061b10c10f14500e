"""Tracers that say where they were made, while a check wants to know: their user's line, themselves.

Tracing asks for no setting. Instead, the constructor of Tracer is exchanged when `check` changes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any
from weakref import ref

from fgrad.config import config
from fgrad.errors import LeakedTracerError, note_user_line, user_frame
from fgrad.trace.stage import open_params_below
from fgrad.trace.tracer import Tracer
from fgrad.uop.lines import lines
from fgrad.uop.node import UOp

_alive: list[ref[Tracer]] = []  # in the order in which they were made
_plain = Tracer.__init__


def _recording(self: Tracer, node: UOp, weak: bool = False, wide: UOp | None = None) -> None:
    _plain(self, node, weak, wide)
    if node.src:
        lines.note_below(node, user_frame())
    if "leaks" in config.check:
        _alive.append(ref(self))


def check_alive(params: Sequence[UOp], what: str) -> None:
    """Look, when a stage has closed, for tracers made from its `params` that somebody still keeps.

    Raises LeakedTracerError saying where the first one was made, and by what kinds of object it is
    kept.
    """
    own = set(params)
    if not any([not own.isdisjoint(open_params_below([t.node])) for t in _left()]):
        return
    gc.collect()  # some may be kept by cycles only
    left = _left()
    for number in range(len(left)):  # no enumerate: its tuple would count among those who keep it
        t = left[number]
        if own.isdisjoint(open_params_below([t.node])):
            continue
        del _alive[number]  # it is reported once
        holders = [x for x in gc.get_referrers(t) if x is not left and not isinstance(x, FrameType)]
        names = ", ".join(sorted({_kind_of_holder(x) for x in holders})) or "a running function"
        made = lines.of(t.node) or t.node.arg[0][2]
        raise note_user_line(
            LeakedTracerError(
                f"{what} has ended, but a tracer of it ({t.aval}) is kept by {names}; it was made at {made}. Return "
                "the value from the function instead of storing it outside"
            )
        )


def _left() -> list[Tracer]:
    """The tracers that still exist."""
    left = [t for t in (r() for r in _alive) if t is not None]
    _alive[:] = [ref(t) for t in left]
    return left


def _kind_of_holder(x: Any) -> str:
    """A word for an object that keeps a tracer."""
    if isinstance(x, dict):
        owners = [o for o in gc.get_referrers(x) if getattr(o, "__dict__", None) is x]
        if owners:
            owner = owners[0]
            return f"module {owner.__name__}" if isinstance(owner, ModuleType) else f"a {type(owner).__name__}"
    return "a closure" if type(x).__name__ == "cell" else f"a {type(x).__name__}"


@contextmanager
def recording() -> Iterator[None]:
    """Note the lines of what is traced inside the block."""
    _record(True)
    try:
        yield
    finally:
        _settings_changed()


def _settings_changed() -> None:
    _record(bool(config.check & {"nan", "leaks"}) or any(w.partition(":")[0] in ("hw", "kernels") for w in config.show))


def _record(wanted: bool) -> None:
    if wanted != lines.recording:
        lines.recording = wanted
        setattr(Tracer, "__init__", _recording if wanted else _plain)  # noqa: B010
        if not wanted:
            lines.clear()
            _alive.clear()


_settings_changed()
config.on_change.append(_settings_changed)
