"""UOp: one interned, immutable node. Equal nodes are the same object.

The table is weak and takes no lock: `setdefault` on a dict is atomic, and a dead entry is removed only while it
really is dead. dtype, shape and `born` are computed once, when the table misses, so errors point at the user's
line.
"""

from __future__ import annotations

import gc
import threading
import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from fgrad.errors import user_frame
from fgrad.uop.dtype import DType
from fgrad.uop.lines import lines
from fgrad.uop.op import Op

Src = tuple["UOp", ...]


class UOp:
    """A node: `op`, `src` (sources), `arg`, and the inferred `dtype` and `shape`.

    Tuple-valued nodes (SCAN, SORT, ..) have a tuple of dtypes and a tuple of shapes; GET picks one.
    `born` is the largest serial of an open PARAM below (BUFFERs count as 0; -1: closed).
    """

    __slots__ = ("op", "src", "arg", "dtype", "shape", "born", "__weakref__")
    op: Op
    src: Src
    arg: Any
    dtype: DType
    shape: tuple[int, ...]
    born: int

    def __init__(self, op: Op, src: Src, arg: Any, dtype: DType, shape: tuple[int, ...], born: int) -> None:
        self.op = op
        self.src = src
        self.arg = arg
        self.dtype = dtype
        self.shape = shape
        self.born = born

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for m in self.shape:
            n *= m
        return n

    def like(self, *src: UOp) -> UOp:
        """The same operation on other sources."""
        return uop(self.op, src, self.arg)

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.dtype}{list(self.shape)}>"

    def __reduce__(self) -> Any:
        raise TypeError("a UOp is not pickled by itself; pickle the Program that holds it")


class Storage:
    """The identity of a piece of memory: what BUFFER nodes refer to. `owner` keeps the bytes alive."""

    __slots__ = ("dtype", "shape", "owner", "external", "__weakref__")

    def __init__(self, dtype: DType, shape: tuple[int, ...], owner: object = None, external: bool = False) -> None:
        self.dtype = dtype
        self.shape = shape
        self.owner = owner
        self.external = external


_RAW = (Op.STORE, Op.LOAD)
"""Only graphs built by hand have these: their lines are noted always, for errors about the order."""


class _Entry(weakref.ref["UOp"]):
    __slots__ = ("key",)
    key: Any


_TABLE: dict[Any, _Entry] = {}
_get = _TABLE.get
Infer = Callable[[Src, Any], tuple[DType, tuple[int, ...]]]
INFER: dict[Op, Infer] = {}  # filled by infer.py


def _dead(entry: _Entry) -> None:
    _remove_dead_weakref(_TABLE, entry.key)


def uop(op: Op, src: Src = (), arg: Any = None) -> UOp:
    """The node of this op, sources and arg: the existing one, or a new one with inferred dtype and shape.

    Raises ShapeError or DtypeError when the sources do not fit the op.
    """
    key = (op, src, arg)
    entry = _get(key)
    if entry is not None:
        found = entry()
        if found is not None:
            return found
    dtype, shape = INFER[op](src, arg)
    born = -1
    for s in src:
        if s.born > born:
            born = s.born
    if op is Op.PARAM:
        if type(arg[0]) is tuple:
            born = arg[0][1]
    elif op is Op.BUFFER:
        born = 0
    node = UOp(op, src, arg, dtype, shape, born)
    if op in _RAW:
        lines.note(node, user_frame())
    entry = _Entry(node, _dead)
    entry.key = key
    while True:
        held = _TABLE.setdefault(key, entry)
        if held is entry:
            return node
        found = held()
        if found is not None:
            return found
        _remove_dead_weakref(_TABLE, key)


def table_size() -> int:
    """How many nodes are alive (for leak tests)."""
    return len(_TABLE)


_serial = count(1)


def open_param(dtype: DType, shape: tuple[int, ...], name: str = "p") -> UOp:
    """A PARAM unique to the stage that opens it; closing a Program renames it to its slot."""
    return uop(Op.PARAM, (), (("p", next(_serial), name), dtype, shape))


def slot_param(slot: int, dtype: DType, shape: tuple[int, ...]) -> UOp:
    """The closed PARAM number `slot`."""
    return uop(Op.PARAM, (), (slot, dtype, shape))


def toposort(roots: Sequence[UOp], since: int = -2) -> list[UOp]:
    """All nodes below `roots`, sources first, each once; nodes born before `since` are left out."""
    seen: set[UOp] = set()
    out: list[UOp] = []
    stack: list[UOp | None] = list(roots[::-1])
    pop, push, add, emit = stack.pop, stack.append, seen.add, out.append
    while stack:
        u = pop()
        if u is None:
            emit(pop())  # type: ignore[arg-type]
            continue
        if u in seen or u.born < since:
            continue
        add(u)
        src = u.src
        if not src:
            emit(u)
            continue
        push(u)
        push(None)
        for s in reversed(src):
            if s not in seen:
                push(s)
    return out


def substitute(roots: Sequence[UOp], mapping: Mapping[UOp, UOp], since: int = -2) -> list[UOp]:
    """`roots` with nodes replaced by `mapping`; nodes born before `since` stand for themselves unless named."""
    done = dict(mapping)
    get = done.get
    for u in toposort(roots, since):
        if u in done:
            continue
        src = u.src
        new = tuple([get(s, s) for s in src])
        done[u] = u if new == src else uop(u.op, new, u.arg)
    if lines.recording:
        lines.carry(done)
    return [get(r, r) for r in roots]


_gc_lock = threading.Lock()
_gc_depth = 0
_gc_was_on = False


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the cyclic collector: nodes form no cycles, and it costs more than all the rest (TRACE 1)."""
    global _gc_depth, _gc_was_on
    with _gc_lock:
        if _gc_depth == 0:
            _gc_was_on = gc.isenabled()
            gc.disable()
        _gc_depth += 1
    try:
        yield
    finally:
        with _gc_lock:
            _gc_depth -= 1
            if _gc_depth == 0 and _gc_was_on:
                gc.enable()


def const_value(u: UOp) -> Any:
    """The NumPy scalar of a CONST."""
    dtype, data = u.arg
    return np.frombuffer(data, dtype.np)[0]
