"""Stages: a function runs once on tracers and leaves a Program.

Every thread has a stack of open stages. There are no trace levels: a PARAM belongs to the stage that opened it, an
outer tracer used inside is simply a free node. A *concrete* stage (un-jitted grad, vjp, jvp, linearize) knows what
its parameters stand for, so a tracer asked for a value can answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fgrad.errors import LeakedTracerError
from fgrad.trace.buffers import hoist_buffers
from fgrad.uop.node import Storage, UOp, substitute, toposort, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Program, close


class Stage:
    """One function being traced. `what` names the transformation, for errors.

    is_reversed   it is differentiated in reverse mode: what Refs are in the backward pass matters
    repeats       it is the body or the condition of a loop
    branch        (which `cond`, which of its branches) it is
    """

    __slots__ = ("what", "params", "concrete", "buffers", "axes", "refs", "is_reversed", "repeats", "branch")

    def __init__(
        self,
        what: str,
        concrete: bool = False,
        is_reversed: bool = False,
        repeats: bool = False,
        branch: tuple[int, int] | None = None,
    ) -> None:
        self.what = what
        self.is_reversed = is_reversed
        self.repeats = repeats
        self.branch = branch
        self.params: list[UOp] = []
        self.concrete: dict[UOp, UOp] | None = {} if concrete else None
        self.buffers: dict[int, tuple[object, UOp]] = {}
        self.axes: dict[Any, int] = {}  # named axes that vmap opened here: name -> size
        self.refs: dict[Any, Any] = {}


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Stage] = []
        self.may_trace = True


_local = _Local()
open_stages: list[Stage] = []
"""All open stages of all threads: generated code may take its short path only while this is empty."""


def stages() -> list[Stage]:
    """The open stages of this thread, outermost first."""
    return _local.stack


def is_tracing() -> bool:
    """Whether any stage is open in this thread."""
    return bool(_local.stack)


@contextmanager
def opened(stage: Stage) -> Iterator[Stage]:
    """Trace into `stage` inside the block."""
    stack = _local.stack
    stack.append(stage)
    open_stages.append(stage)
    try:
        yield stage
    finally:
        stack.pop()
        open_stages.remove(stage)


@contextmanager
def without_tracing() -> Iterator[None]:
    """Raise RuntimeError where a function would be traced inside the block: to hold that all of them are compiled.

    >>> f = jit(lambda x: x + 1)
    >>> with no_tracing():
    ...     f(1.0)
    Traceback (most recent call last):
    RuntimeError: jit(<lambda>) would be traced inside no_tracing(); call it before with arguments like these
    """
    before, _local.may_trace = _local.may_trace, False
    try:
        yield
    finally:
        _local.may_trace = before


def check_may_trace(name: str) -> None:
    """Raise RuntimeError inside `without_tracing`."""
    if not _local.may_trace:
        raise RuntimeError(f"{name} would be traced inside no_tracing(); call it before with arguments like these")


@contextmanager
def suspended() -> Iterator[None]:
    """Leave all transformations for a while: operations inside the block run at once, on concrete values.

    A traced value that comes from outside of the block has none: using it there raises ConcretizationError or
    LeakedTracerError.

    >>> @jit
    ... def f(x):
    ...     with ensure_compile_time_eval():
    ...         size = int(fnp.sum(fnp.arange(3)))  # a Python number, although f is being traced
    ...     return fnp.full(size, x)
    >>> f(2.0)
    Array([2., 2., 2.], dtype=float32, weak_type=True)
    """
    stack = _local.stack
    _local.stack = []
    try:
        yield
    finally:
        _local.stack = stack


def named_axis_size(name: Any) -> int | None:
    """Size of the innermost open axis called `name`; None when there is none."""
    for stage in reversed(_local.stack):
        if name in stage.axes:
            return stage.axes[name]
    return None


def buffer_node(array: Any, dtype: Any, shape: tuple[int, ...]) -> UOp:
    """The BUFFER of a concrete array; one array is one node within the outermost open stage."""
    stack = _local.stack
    if not stack:
        return uop(Op.BUFFER, (), Storage(dtype, shape, array))
    known = stack[0].buffers
    entry = known.get(id(array))
    if entry is None:
        entry = known[id(array)] = (array, uop(Op.BUFFER, (), Storage(dtype, shape, array)))
    return entry[1]


def open_params_below(roots: Sequence[UOp]) -> list[UOp]:
    """The open PARAMs that `roots` depend on."""
    return [u for u in toposort(roots, 1) if u.op is Op.PARAM]


def origins(roots: Sequence[UOp]) -> str:
    """Which arguments `roots` depend on, in words."""
    names = [p.arg[0][2] for p in open_params_below(roots)]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return shown or "constants only"


def check_leaks(roots: Sequence[UOp], what: str) -> None:
    """Raise LeakedTracerError when `roots` depend on a PARAM of a stage that is closed."""
    if all(r.born < 1 for r in roots):
        return
    alive = {p for stage in _local.stack for p in stage.params}
    for p in open_params_below(roots):
        if p not in alive:
            raise LeakedTracerError(
                f"Encountered an unexpected tracer: {what} uses a tracer made from {p.arg[0][2]} "
                f"({p.dtype}{list(p.shape)}), whose trace has ended; return the value from that function instead of "
                "storing it outside"
            )


def concrete_value(roots: Sequence[UOp]) -> list[UOp] | None:
    """`roots` with every open PARAM replaced by what it stands for; None if one of them stands for nothing."""
    out = list(roots)
    for stage in reversed(_local.stack):
        if all(r.born < 1 for r in out):
            return out
        if stage.concrete:
            out = substitute(out, stage.concrete, 1)
    return out if all(r.born < 1 for r in out) else None


def lift_buffers(params: Sequence[UOp], outs: Sequence[UOp]) -> tuple[list[UOp], Program]:
    """-> (BUFFER nodes used, Program over (*params, *buffers)). For the outermost program of a call."""
    outs = hoist_buffers(outs)
    used = [u for u in toposort(outs, 0) if u.op is Op.BUFFER]
    return used, close((*params, *used), outs)


@dataclass(slots=True)
class Hooks:
    """What `run` lends to this room: how to run a graph, and how to make an Array of host data."""

    execute: Callable[[Sequence[UOp]], list[Any]] | None = None
    execute_program: Callable[..., list[Any]] | None = None
    from_host: Callable[..., Any] | None = None


hooks = Hooks()


def execute(outs: Sequence[UOp]) -> list[Any]:
    """Run a graph whose leaves are BUFFERs and constants; gives concrete Arrays."""
    assert hooks.execute is not None, "fgrad.run is imported by the package"
    return hooks.execute(outs)
