"""Builders: the functions every other room makes nodes with.

They broadcast shapes, turn Python numbers into constants of the other operand's dtype, and drop movement that moves
nothing. They do not promote dtypes: that is decided at the public face. Nothing here changes a value, a NaN or a sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.errors import ShapeError
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import LEAVES, Mode, Op
from fgrad.uop.program import Update

Shape = tuple[int, ...]
Number = bool | int | float | complex | np.generic
Operand = UOp | Number


# ---- leaves
def const(value: Number, dtype: DType, shape: Shape = ()) -> UOp:
    """A constant: a scalar CONST, expanded to `shape`."""
    u = uop(Op.CONST, (), (dtype, np.asarray(value).astype(dtype.np).tobytes()))
    return u if shape == () else uop(Op.EXPAND, (u,), tuple(enumerate(shape)))


def const_like(value: Number, u: UOp) -> UOp:
    """A constant with the dtype and shape of `u`."""
    return const(value, u.dtype, u.shape)


def zeros_like(u: UOp) -> UOp:
    return const(0, u.dtype, u.shape)


def iota(n: int, dtype: DType = dt.int64) -> UOp:
    """0, 1, .. n-1."""
    return uop(Op.IOTA, (), (dtype, n))


def iota_along(shape: Shape, axis: int, dtype: DType = dt.int64) -> UOp:
    """An array of `shape` whose elements are their position along `axis`."""
    return expand(iota(shape[axis], dtype), [(i, n) for i, n in enumerate(shape) if i != axis])


# ---- movement
def reshape(x: UOp, shape: Shape) -> UOp:
    return x if x.shape == shape else uop(Op.RESHAPE, (x,), shape)


def permute(x: UOp, axes: Sequence[int]) -> UOp:
    axes = tuple(axes)
    return x if axes == tuple(range(len(axes))) and len(axes) == x.ndim else uop(Op.PERMUTE, (x,), axes)


def expand(x: UOp, axes: Sequence[tuple[int, int]]) -> UOp:
    """Insert (axis of the result, size) pairs, ascending."""
    return uop(Op.EXPAND, (x,), tuple(axes)) if axes else x


def broadcast_to(x: UOp, shape: Shape) -> UOp:
    """NumPy's broadcasting of `x` to `shape`."""
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    if lead < 0:
        raise ShapeError(f"cannot broadcast shape {x.shape} to {shape}: it has more axes")
    keep: list[int] = []
    new = list(enumerate(shape[:lead]))
    for i, (a, b) in enumerate(zip(x.shape, shape[lead:], strict=True)):
        if a == b:
            keep.append(a)
        elif a == 1:
            new.append((lead + i, b))
        else:
            raise ShapeError(f"cannot broadcast shape {x.shape} to {shape}: axis {i} has {a} elements, not {b}")
    return expand(reshape(x, tuple(keep)), new)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that `shapes` broadcast to; raises ShapeError naming all of them."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    out: list[int] = []
    for i in range(1, max(map(len, shapes)) + 1):
        sizes = {s[-i] for s in shapes if len(s) >= i} - {1}
        if len(sizes) > 1:
            raise ShapeError(f"shapes {', '.join(map(str, shapes))} do not broadcast together")
        out.append(sizes.pop() if sizes else 1)
    return tuple(reversed(out))


def pad(x: UOp, widths: Sequence[tuple[int, int, int]]) -> UOp:
    """Zeros around (lo, hi) and between (interior) the elements of each axis."""
    return uop(Op.PAD, (x,), tuple(widths)) if any(any(w) for w in widths) else x


def shrink(x: UOp, box: Sequence[tuple[int | None, int, int]], starts: Sequence[UOp] = ()) -> UOp:
    """The part (start, size, step) of each axis; a start of None takes the next of `starts` (int64 scalars)."""
    box = tuple(box)
    if all(b == (0, n, 1) for b, n in zip(box, x.shape, strict=True)):
        return x
    return uop(Op.SHRINK, (x, *starts), box)


def slice_axis(x: UOp, axis: int, start: int, stop: int, step: int = 1) -> UOp:
    """x[.., start:stop:step, ..] with 0 <= start <= stop <= n and step >= 1."""
    size = max(0, -(-(stop - start) // step))
    return shrink(x, [(start if size else 0, size, step) if i == axis else (0, n, 1) for i, n in enumerate(x.shape)])


def flip(x: UOp, axes: Sequence[int]) -> UOp:
    axes = tuple(sorted(axes))
    return uop(Op.FLIP, (x,), axes) if axes else x


def bitcast(x: UOp, dtype: DType) -> UOp:
    return x if x.dtype is dtype else uop(Op.BITCAST, (x,), dtype)


def window(x: UOp, axis: int, size: int, stride: int = 1, dilation: int = 1) -> UOp:
    """[.. n ..] -> [.. o .., size]: the windows of `size` elements along `axis`, on a new last axis."""
    n = x.shape[axis]
    o = max(0, (n - (size - 1) * dilation - 1) // stride + 1)
    return uop(Op.WINDOW, (expand(x, [(x.ndim, size)]),), (axis, x.ndim, n, o, stride, dilation))


def concatenate(xs: Sequence[UOp], axis: int) -> UOp:
    """Parts side by side along `axis`, each written into one buffer."""
    if len(xs) == 1:
        return xs[0]
    shape = list(xs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in xs)
    out = const(0, xs[0].dtype, tuple(shape))
    at = 0
    for x in xs:
        if x.shape[axis]:
            box = tuple([(at, x.shape[axis], 1) if i == axis else (0, n, 1) for i, n in enumerate(shape)])
            out = uop(Op.UPDATE, (out, x), Update(Mode.SET, box))
        at += x.shape[axis]
    return out


# ---- elementwise
def cast(x: UOp, dtype: DType) -> UOp:
    return x if x.dtype is dtype else uop(Op.CAST, (x,), dtype)


def operands(*xs: Operand) -> list[UOp]:
    """Python numbers become constants of the first node's dtype; all are broadcast together."""
    like = next(x for x in xs if isinstance(x, UOp))
    nodes = [x if isinstance(x, UOp) else const(x, like.dtype) for x in xs]
    shape = nodes[0].shape
    for x in nodes:
        if x.shape != shape:
            shape = broadcast_shapes(*[y.shape for y in nodes])
            return [broadcast_to(y, shape) for y in nodes]
    return nodes


def unary(op: Op) -> Callable[[UOp], UOp]:
    """The builder of a one-operand op."""

    def build(x: UOp) -> UOp:
        return uop(op, (x,))

    build.__name__ = op.name.lower()
    return build


def binary(op: Op) -> Callable[[Operand, Operand], UOp]:
    """The builder of a two-operand op; broadcasts, takes Python numbers on either side."""

    def build(x: Operand, y: Operand) -> UOp:
        if isinstance(x, UOp) and isinstance(y, UOp) and x.shape == y.shape:
            return uop(op, (x, y))
        return uop(op, tuple(operands(x, y)))

    build.__name__ = op.name.lower()
    return build


neg, not_, abs_ = unary(Op.NEG), unary(Op.NOT), unary(Op.ABS)
floor, ceil, trunc, round_ = unary(Op.FLOOR), unary(Op.CEIL), unary(Op.TRUNC), unary(Op.ROUND)
sqrt, rsqrt, exp, log = unary(Op.SQRT), unary(Op.RSQRT), unary(Op.EXP), unary(Op.LOG)
sin, cos, tanh = unary(Op.SIN), unary(Op.COS), unary(Op.TANH)
real, imag = unary(Op.REAL), unary(Op.IMAG)
add, mul, div = binary(Op.ADD), binary(Op.MUL), binary(Op.DIV)
idiv, mod = binary(Op.IDIV), binary(Op.MOD)
maximum, minimum = binary(Op.MAX), binary(Op.MIN)
and_, or_, xor = binary(Op.AND), binary(Op.OR), binary(Op.XOR)
shl, shr = binary(Op.SHL), binary(Op.SHR)
lt, le, eq = binary(Op.LT), binary(Op.LE), binary(Op.EQ)
complex_ = binary(Op.COMPLEX)


def sub(x: Operand, y: Operand) -> UOp:
    """x - y, as x + (-y): the same bits."""
    a, b = operands(x, y)
    return uop(Op.ADD, (a, uop(Op.NEG, (b,))))


def ne(x: Operand, y: Operand) -> UOp:
    return not_(eq(x, y))


def where(c: UOp, x: Operand, y: Operand) -> UOp:
    """x where `c` is true, else y."""
    a, b = operands(x, y)
    if not (c.shape == a.shape):
        shape = broadcast_shapes(c.shape, a.shape)
        c, a, b = broadcast_to(c, shape), broadcast_to(a, shape), broadcast_to(b, shape)
    return uop(Op.WHERE, (c, a, b))


# ---- across elements
def reduce_(x: UOp, axes: Sequence[int], op: Op = Op.ADD) -> UOp:
    """Combine over `axes` (non-negative), which disappear."""
    axes = tuple(sorted(axes))
    return uop(Op.REDUCE, (x,), (op, axes)) if axes else x


def spread(x: UOp, like: UOp, axes: Sequence[int]) -> UOp:
    """The transpose of a sum over `axes` of `like`: put the axes back."""
    return expand(x, [(a, like.shape[a]) for a in axes])


def gather(x: UOp, idx: UOp, batch: int = 0) -> UOp:
    """out[b.., i.., r..] = x[b.., idx[b.., i..], r..]; 0 where the index is out of bounds."""
    return uop(Op.GATHER, (x, idx), batch)


def update(
    old: UOp,
    value: UOp,
    *,
    mode: Mode = Mode.SET,
    box: Sequence[tuple[int | None, int, int]] | None = None,
    starts: Sequence[UOp] = (),
    idx: UOp | None = None,
    gate: UOp | None = None,
    batch: int = 0,
) -> UOp:
    """`old` with a part replaced by (or combined with) `value`: see Update."""
    arg = Update(mode, None if box is None else tuple(box), idx is not None, gate is not None, batch)
    extra = [x for x in (idx, gate) if x is not None]
    return uop(Op.UPDATE, (old, value, *starts, *extra), arg)


def is_const(u: UOp) -> bool:
    """A constant of any shape: a CONST below RESHAPE and EXPAND."""
    while u.op in (Op.EXPAND, Op.RESHAPE, Op.PERMUTE):
        u = u.src[0]
    return u.op is Op.CONST


def scalar_of(u: UOp) -> Any:
    """The NumPy scalar that every element of a constant is (see `is_const`)."""
    while u.op is not Op.CONST:
        u = u.src[0]
    return np.frombuffer(u.arg[1], u.arg[0].np)[0]


def is_leaf(u: UOp) -> bool:
    return u.op in LEAVES
