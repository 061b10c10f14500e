"""Kernels of the ops that are a cluster of their own: copies, UPDATE, PREFIX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fgrad.lower.cost import STREAM_BYTES, tasks_for, work_ns
from fgrad.lower.graph import leaves
from fgrad.lower.index import Cond, Expr, Index, Ranges, add, constant, scale
from fgrad.lower.kernel import (
    Acc,
    Buffer,
    Fold,
    Keep,
    Kernel,
    Loop,
    LoopKind,
    Reduction,
    Scratch,
    Stmt,
    Store,
)
from fgrad.lower.limits import Limits
from fgrad.lower.rows import MANY_COLUMNS, Built, divisor_near
from fgrad.lower.width import choose_width
from fgrad.uop.build import expand
from fgrad.uop.dtype import accumulator
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Update

RUNNING = 2048  # columns whose running values one task holds: long rows keep memory streaming
COLUMNS = 512  # of the rest axes that one task of an indexed update writes
_WIDE = 1 << 63
IsLeaf = Callable[[UOp], bool]


class Sketch:
    """A kernel in the making: ranges, what it reads, loops around a body."""

    def __init__(self, name: str, roots: Sequence[UOp], is_leaf: IsLeaf, limits: Limits) -> None:
        self.name = name
        self.limits = limits
        self.ranges = Ranges()
        self.nodes, computed = _below(roots, is_leaf)
        self.loads = {u: i for i, u in enumerate(self.nodes)}
        self.width = choose_width(limits, computed)
        self.scratch: tuple[Scratch, ...] = ()
        self.buffers = [Buffer(u.dtype, u.size, True, False) for u in self.nodes]

    def target(self, u: UOp, read: bool = False) -> int:
        """The number of the buffer written, which has the dtype and size of `u`."""
        self.buffers.append(Buffer(u.dtype, u.size, read, True))
        return len(self.buffers) - 1

    def loop(self, e: Expr, size: int, kind: LoopKind, body: Sequence[Stmt], unroll: int = 1) -> tuple[Stmt, ...]:
        return (Loop(e[1][0][0], size, kind, tuple(body), unroll),) if e[1] else tuple(body)

    def finish(self, body: Sequence[Stmt], elements: int, tasks_over: int, targets: Sequence[UOp]) -> Built:
        """The kernel; `tasks_over`: positions of the outermost loop if its order is free, else 1."""
        moved = 2 * elements * max([b.dtype.itemsize for b in self.buffers])
        work = work_ns(elements * 4, self.width, moved)
        tasks = tasks_for(work, tasks_over)
        if tasks_over > 1:
            tasks = -(-tasks_over // -(-tasks_over // tasks))
        kernel = Kernel(
            self.name, self.ranges, tuple(self.buffers), self.loads, tuple(body), self.scratch, tasks,
            flops=elements, bytes=moved, work_ns=work, width=self.width, about=tuple(targets),
        )  # fmt: skip
        return Built(kernel, (*self.nodes, *targets))


def _below(roots: Sequence[UOp], is_leaf: IsLeaf) -> tuple[list[UOp], list[UOp]]:
    """-> (leaves read below `roots`, all nodes evaluated)."""
    seen: dict[UOp, None] = {}
    found: list[UOp] = []
    stack = list(reversed(roots))
    while stack:
        u = stack.pop()
        if u in seen:
            continue
        seen[u] = None
        if is_leaf(u):
            found.append(u)
        else:
            stack += reversed(u.src)
    return found, list(seen)


def read_below(roots: Sequence[UOp], is_leaf: IsLeaf) -> list[UOp]:
    """The nodes read from memory below `roots`, in the order they are met."""
    return _below(roots, is_leaf)[0]


def build_copy(name: str, u: UOp, limits: Limits) -> Built:
    """Copy the memory of `u` (read and written as one flat array)."""
    sketch = Sketch(name, (u,), lambda _: True, limits)
    out = sketch.target(u)
    r = sketch.ranges.range(u.size)
    index = tuple(sketch.ranges.delinear(r, u.shape))
    store = Store(out, sketch.ranges.address(index, u.shape), u, index)
    body = sketch.loop(r, u.size, LoopKind.VEC, (store,), 4)
    return sketch.finish(body, u.size, u.size // (sketch.width * 4), (u,))


def build_prefix(name: str, u: UOp, is_leaf: IsLeaf, limits: Limits) -> Built:
    """A running reduction: in order along its axis, in lanes along the last other axis.

    A second source is what a running sum begins with, at each place along the other axes (from `prepare`); it is added
    to the sum of the elements.
    """
    op, axis, reverse = u.arg
    x = u.src[0]
    sketch = Sketch(name, u.src, is_leaf, limits)
    ranges = sketch.ranges
    out = sketch.target(u)
    axes = ranges.ranges(u.shape)
    index = list(axes)
    if reverse and axes[axis][1]:
        index[axis] = add(constant(u.shape[axis] - 1), axes[axis], -1)
    at: Index = tuple(index)
    alone = value = u
    if len(u.src) > 1:
        alone = uop(Op.PREFIX, (x,), u.arg)
        value = uop(Op.ADD, (expand(u.src[1], [(axis, u.shape[axis])]), alone))
    acc = Acc(alone, op)
    others = [i for i in range(u.ndim) if i != axis and u.shape[i] != 1]
    if others and others[-1] > axis and accumulator(u.dtype) is u.dtype:
        if u.shape[others[-1]] >= MANY_COLUMNS and u.shape[axis] > 1:
            return _prefix_rows(sketch, u, value, acc, at, axes, out)
    store = Store(out, ranges.address(at, u.shape), value, at)
    body: tuple[Stmt, ...] = sketch.loop(axes[axis], u.shape[axis], LoopKind.SEQ, (Fold(acc, x, at), store))
    body = (Reduction((acc,), body),)
    if others and others[-1] > axis:
        i = others.pop()
        body = sketch.loop(axes[i], u.shape[i], LoopKind.VEC, body, 2)
    else:
        sketch.width = 1
    for i in reversed(others):
        body = sketch.loop(axes[i], u.shape[i], LoopKind.TASK if i == others[0] else LoopKind.SEQ, body)
    return sketch.finish(body, u.size, u.shape[others[0]] if others else 1, (u,))


def _prefix_rows(
    sketch: Sketch, u: UOp, value: UOp, acc: Acc, at: Index, axes: Sequence[Expr], out: int
) -> Built:
    """Row after row for a block of columns, whose running values are in scratch."""
    ranges, axis = sketch.ranges, u.arg[1]
    lane = max(i for i in range(u.ndim) if i != axis and u.shape[i] != 1)
    n = u.shape[lane]
    width = divisor_near(n, RUNNING)
    width = width if width >= MANY_COLUMNS else n
    block, column = ranges.range(n // width), ranges.range(width)
    moved = {axes[lane][1][0][0]: add(scale(block, width), column)}
    at = tuple([ranges.substitute(e, moved) for e in at])
    row, rows = axes[axis], u.shape[axis]
    fold = Fold(acc, u.src[0], at)
    keep = Keep(0, column, acc.node, at, u.arg[0], row)
    streaming = u.size * u.dtype.itemsize >= STREAM_BYTES and width % sketch.width == 0
    store = Store(out, ranges.address(at, u.shape), value, at, streaming=streaming)
    body = sketch.loop(column, width, LoopKind.VEC, (Reduction((acc,), (fold,)), keep, store), 4)
    body = sketch.loop(row, rows, LoopKind.SEQ, body)
    outer = [(axes[i], u.shape[i]) for i in range(u.ndim) if i not in (axis, lane)]
    loops = [(e, size) for e, size in [*outer, (block, n // width)] if e[1]]
    for k, (e, size) in reversed(list(enumerate(loops))):
        body = sketch.loop(e, size, LoopKind.TASK if k == 0 else LoopKind.SEQ, body)
    sketch.scratch = (Scratch(u.dtype, width),)
    return sketch.finish(body, u.size, loops[0][1] if loops else 1, (u,))


def build_update(name: str, u: UOp, is_leaf: IsLeaf, limits: Limits) -> tuple[Built, bool]:
    """The kernel that writes the part into a buffer that already holds the old contents.

    -> (kernel, whether it may run in the old version's own memory: it reads that only where it
    writes).
    """
    arg: Update = u.arg
    value = u.src[1]
    more = list(u.src[2:])
    gate = more.pop() if arg.gated else None
    roots = [value, *more, *([gate] if gate is not None else [])]
    sketch = Sketch(name, roots, is_leaf, limits)
    out = sketch.target(u, read=arg.mode is not Mode.SET)
    if arg.box is not None:
        built, address = _update_box(sketch, u, more, gate, out)
    else:
        built, address = _update_indexed(sketch, u, more[0], gate, out)
    return built, _reads_in_place(sketch, u, is_leaf, address, roots, built)


def _reads_in_place(sketch: Sketch, u: UOp, is_leaf: IsLeaf, address: Expr, roots: Sequence[UOp], built: Built) -> bool:
    old = u.src[0]
    while not is_leaf(old) and old.src:
        old = old.src[0]
    if old not in sketch.loads:
        return True
    if u.arg.indexed:
        return False  # elements written earlier may be read later
    for s in built.kernel.walk():
        if isinstance(s, Store):
            for root, index in ((s.value, s.index), (s.gate, s.gate_index)):
                if root is None:
                    continue
                found, _ = leaves(sketch.ranges, root, index, is_leaf)
                if any(x is old and e != address for x, e, _ in found):
                    return False
    starts = [x for x in u.src[2 : len(u.src) - u.arg.gated]]
    return old not in _below(starts, is_leaf)[0]


def _update_box(sketch: Sketch, u: UOp, starts: list[UOp], gate: UOp | None, out: int) -> tuple[Built, Expr]:
    ranges = sketch.ranges
    value = u.src[1]
    axes = ranges.ranges(value.shape)
    at: list[Expr] = []
    computed = iter(starts)
    for e, n, (start, size, step) in zip(axes, u.shape, u.arg.box, strict=True):
        moved = scale(e, step)
        if start is None:
            moved = add(moved, ranges.value(next(computed), (), 0, n - ((size - 1) * step + 1)))
        else:
            moved = (moved[0] + start, moved[1])
        at.append(moved)
    address = ranges.address(at, u.shape)
    store = Store(
        out,
        address,
        value,
        axes,
        mode=u.arg.mode,
        gate=gate,
        gate_index=axes if gate is not None else (),
    )
    body: tuple[Stmt, ...] = (store,)
    kept = [i for i, n in enumerate(value.shape) if n != 1]
    first = kept[0] if kept else 0
    over = 1
    for i in reversed(kept):
        if i == kept[-1]:
            body = sketch.loop(axes[i], value.shape[i], LoopKind.VEC, body, 4)
            over = value.shape[i] // (sketch.width * 4)
        else:
            kind = LoopKind.TASK if i == first else LoopKind.SEQ
            body = sketch.loop(axes[i], value.shape[i], kind, body)
            over = value.shape[i]
    return sketch.finish(body, value.size, over, (u,)), address


def _update_indexed(sketch: Sketch, u: UOp, idx: UOp, gate: UOp | None, out: int) -> tuple[Built, Expr]:
    """Index positions in order; the axes after the indexed one in lanes, and over tasks if they are
    long.
    """
    ranges = sketch.ranges
    arg: Update = u.arg
    value = u.src[1]
    places = ranges.ranges(idx.shape)
    rest_shape = u.shape[arg.batch + 1 :]
    n = math.prod(rest_shape)
    chunks = n // COLUMNS if n > 2 * COLUMNS and n % COLUMNS == 0 else 1
    outer, inner = ranges.range(chunks), ranges.range(n // chunks)
    flat = add(scale(outer, n // chunks), inner)
    rest = tuple(ranges.delinear(flat, rest_shape))
    size = u.shape[arg.batch]
    conds: list[Cond] = [(ranges.value(idx, places, -_WIDE, _WIDE - 1, clamped=False), 0, size)]
    at = (*places[: arg.batch], ranges.value(idx, places, 0, size - 1), *rest)
    address = ranges.address(at, u.shape)
    index = (*places, *rest)
    store = Store(
        out,
        address,
        value,
        index,
        tuple(conds),
        arg.mode,
        gate=gate,
        gate_index=places if gate is not None else (),
    )
    body: tuple[Stmt, ...] = sketch.loop(inner, n // chunks, LoopKind.VEC, (store,), 4)
    if n == 1:
        sketch.width = 1
    over = 1
    for i in reversed(range(idx.ndim)):
        kind = LoopKind.TASK if i == 0 and arg.batch and chunks == 1 else LoopKind.SEQ
        body = sketch.loop(places[i], idx.shape[i], kind, body)
        over = idx.shape[i] if kind is LoopKind.TASK else over
    if chunks > 1:
        body = sketch.loop(outer, chunks, LoopKind.TASK, body)
        over = chunks
    return sketch.finish(body, value.size, over, (u,)), address
