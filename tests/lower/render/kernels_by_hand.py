"""Kernels written by hand, for the renderers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.lower.index import Expr, Ranges
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
    Sort,
    Stmt,
    Store,
)
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, slot_param, uop
from fgrad.uop.op import Mode, Op


def param(slot: int, dtype: DType, *shape: int) -> UOp:
    return slot_param(slot, dtype, shape)


def nest(
    index: Sequence[Expr], sizes: Sequence[int], *body: Stmt, kind: LoopKind = LoopKind.SEQ
) -> tuple[Stmt, ...]:
    """Loops over the ranges in `index` (those of one position need none), outermost first."""
    out = body
    for e, n in reversed(list(zip(index, sizes, strict=True))):
        if e[1]:
            out = (Loop(e[1][0][0], n, kind, out),)
    return out


def kernel(
    ranges: Ranges,
    loads: Sequence[UOp],
    outs: Sequence[UOp],
    body: Sequence[Stmt],
    scratch: tuple[Scratch, ...] = (),
) -> Kernel:
    """Buffers: one for each of `loads`, then one for each of `outs`."""
    buffers = [Buffer(u.dtype, u.size, True, False) for u in loads]
    buffers += [Buffer(u.dtype, u.size, False, True) for u in outs]
    return Kernel(
        "k", ranges, tuple(buffers), {u: i for i, u in enumerate(loads)}, tuple(body), scratch
    )


def elementwise(root: UOp, loads: Sequence[UOp]) -> Kernel:
    """One loop nest that stores every element of `root`."""
    ranges = Ranges()
    index = ranges.ranges(root.shape)
    store = Store(len(loads), ranges.address(index, root.shape), root, index)
    return kernel(ranges, loads, [root], nest(index, root.shape, store))


def reduction(root: UOp, loads: Sequence[UOp]) -> Kernel:
    """A REDUCE, its result stored."""
    ranges = Ranges()
    x, (op, axes) = root.src[0], root.arg
    inner = {a: ranges.range(x.shape[a]) for a in axes}
    outer = ranges.ranges(root.shape)
    kept = iter(outer)
    index = tuple([inner[a] if a in inner else next(kept) for a in range(x.ndim)])
    acc = Acc(root, op)
    folds = nest(list(inner.values()), [x.shape[a] for a in axes], Fold(acc, x, index))
    store = Store(len(loads), ranges.address(outer, root.shape), root, outer)
    return kernel(ranges, loads, [root], nest(outer, root.shape, Reduction((acc,), folds), store))


def softmax(x: UOp) -> Kernel:
    """Three loops over each row, exp kept in scratch."""
    ranges = Ranges()
    rows, n = x.shape
    r, c = ranges.ranges(x.shape)
    index = (r, c)
    largest = b.reduce_(x, (1,), Op.MAX)
    e = uop(Op.EXP, (b.sub(x, b.spread(largest, x, (1,))),))
    total = b.reduce_(e, (1,))
    y = uop(Op.DIV, (e, b.spread(total, x, (1,))))
    m, d = Acc(largest, Op.MAX), Acc(total, Op.ADD)

    def loop(*body: Stmt) -> Stmt:
        return Loop(c[1][0][0], n, LoopKind.VEC, body, 2)

    row = (
        Reduction((m,), (loop(Fold(m, x, index)),)),
        Reduction((d,), (loop(Keep(0, c, e, index), Fold(d, e, index)),)),
        loop(Store(1, ranges.address(index, x.shape), y, index)),
    )
    body = (Loop(r[1][0][0], rows, LoopKind.TASK, row),)
    return kernel(ranges, [x], [y], body, (Scratch(x.dtype, n),))


def prefix(x: UOp) -> Kernel:
    """A running sum along axis 1."""
    ranges = Ranges()
    node = uop(Op.PREFIX, (x,), (Op.ADD, 1, False))
    index = ranges.ranges(x.shape)
    acc = Acc(node, Op.ADD)
    store = Store(1, ranges.address(index, x.shape), node, index)
    inner = nest(index[1:], x.shape[1:], Fold(acc, x, index), store)
    return kernel(ranges, [x], [node], nest(index[:1], x.shape[:1], Reduction((acc,), inner)))


def scatter(n: int, idx: UOp, value: UOp, mode: Mode) -> Kernel:
    """out[idx[i]] = mode(out[idx[i]], value[i]) where idx[i] is in bounds."""
    ranges = Ranges()
    (i,) = ranges.ranges(idx.shape)
    raw = ranges.value(idx, (i,), -(1 << 63), (1 << 63) - 1, clamped=False)
    store = Store(2, ranges.value(idx, (i,), 0, n - 1), value, (i,), ((raw, 0, n),), mode)
    out = Buffer(value.dtype, n, True, True)
    k = kernel(ranges, [idx, value], [], nest((i,), idx.shape, store))
    return Kernel("k", ranges, (*k.buffers, out), k.loads, k.body)


def sort(key: UOp, payload: UOp) -> Kernel:
    rows, n = key.shape
    ranges = Ranges()
    body = (Sort(rows, n, (0, 1), (2, 3), 0),)
    return kernel(ranges, [key, payload], [key, payload], body, (Scratch(dt.uint8, 8 * n),))


def product(m: int, n: int, k: int, dtype: DType = dt.float32) -> tuple[Kernel, UOp]:
    """A matrix product as a sum over an expanded product."""
    x, y = param(0, dtype, m, k), param(1, dtype, k, n)
    a = b.expand(x, ((1, n),))
    c = b.expand(b.permute(y, (1, 0)), ((0, m),))
    root = b.reduce_(uop(Op.MUL, (a, c)), (2,))
    return reduction(root, [x, y]), root


def flat(x: object, dtype: DType) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(x).astype(dtype.np)).ravel()
