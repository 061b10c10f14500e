"""Reductions and running reductions along axes. The dtype stays: sums of int8 wrap, sums of half
types are carried in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.analysis import log_add
from fgrad.numpy.common import axes_of, axis_of, need, public
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.stage import Stage
from fgrad.trace.staging import trace, without_refs
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, cast_real, is_scalar, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import REDUCERS, Op

Axes = Sequence[int]


def _reduce(name: str, op: Op, operand: ArrayLike, axes: Axes) -> Array:
    t = lift(operand)
    at = axes_of(tuple(axes), t.ndim, name) if len(axes) else ()
    kind = t.node.dtype
    if op in (Op.MAX, Op.MIN):
        need(not kind.is_complex, name, "complex numbers have no order; reduce abs(x) instead")
    if op in (Op.AND, Op.OR, Op.XOR):
        need(kind.is_int or kind is dt.bool_, name, f"it takes bools and integers, not {kind}")
    return Tracer(build.reduce_(t.node, at, op), t.weak)


@public(static=("axes", "out_sharding"))
def reduce_sum(operand: ArrayLike, axes: Axes, out_sharding: None = None) -> Array:
    """The sum over `axes`, which disappear.

    The dtype stays: small integers wrap around, small floats are summed in float32.

    >>> lax.reduce_sum(fnp.array([[1, 5], [7, 2]]), (1,))
    Array([6, 9], dtype=int64)
    """
    return _reduce("reduce_sum", Op.ADD, operand, axes)


@public(static=("axes",))
def reduce_prod(operand: ArrayLike, axes: Axes) -> Array:
    """The product over `axes`, which disappear.

    The dtype stays: small integers wrap around.

    >>> lax.reduce_prod(fnp.array([[1, 5], [7, 2]]), (1,))
    Array([ 5, 14], dtype=int64)
    """
    return _reduce("reduce_prod", Op.MUL, operand, axes)


@public(static=("axes",))
def reduce_max(operand: ArrayLike, axes: Axes) -> Array:
    """The maximum over `axes`, which disappear; NaN wins. Ties share the gradient.

    >>> lax.reduce_max(fnp.array([[1, 5], [7, 2]]), (1,))
    Array([5, 7], dtype=int64)
    """
    return _reduce("reduce_max", Op.MAX, operand, axes)


@public(static=("axes",))
def reduce_min(operand: ArrayLike, axes: Axes) -> Array:
    """The minimum over `axes`, which disappear; NaN wins. Ties share the gradient.

    >>> lax.reduce_min(fnp.array([[1, 5], [7, 2]]), (1,))
    Array([1, 2], dtype=int64)
    """
    return _reduce("reduce_min", Op.MIN, operand, axes)


@public(static=("axes",))
def reduce_and(operand: ArrayLike, axes: Axes) -> Array:
    """Bitwise and over `axes`, which disappear.

    Integers or bools.

    >>> lax.reduce_and(fnp.array([12, 10]), (0,))
    Array(8, dtype=int64)
    """
    return _reduce("reduce_and", Op.AND, operand, axes)


@public(static=("axes",))
def reduce_or(operand: ArrayLike, axes: Axes) -> Array:
    """Bitwise or over `axes`, which disappear.

    Integers or bools.

    >>> lax.reduce_or(fnp.array([12, 10]), (0,))
    Array(14, dtype=int64)
    """
    return _reduce("reduce_or", Op.OR, operand, axes)


@public(static=("axes",))
def reduce_xor(operand: ArrayLike, axes: Axes) -> Array:
    """Bitwise exclusive or over `axes`, which disappear.

    Integers or bools.

    >>> lax.reduce_xor(fnp.array([12, 10]), (0,))
    Array(6, dtype=int64)
    """
    return _reduce("reduce_xor", Op.XOR, operand, axes)


# ---- by a function
def monoid_of(computation: Callable[..., Any], dtype: DType) -> Op | None:
    """The reducer that `computation(x, y)` is on scalars of `dtype`; None when it is another function."""
    aval = Aval(dtype, ())
    what = "the function of a reduction"
    traced = without_refs(trace(computation, tree.flat_arguments(2), [aval, aval], Stage(what)), what)
    if len(traced.outs) != 1:
        return None
    out = traced.outs[0]
    if out.op in REDUCERS and set(out.src) == set(traced.params) and len(out.src) == 2:
        return out.op
    return None


def identity_of(op: Op, dtype: DType) -> Any:
    """The value that changes nothing: 0 for ADD, the lowest for MAX, and so on."""
    if op in (Op.MAX, Op.MIN):
        if dtype.is_float:
            infinite = np.array(-np.inf if op is Op.MAX else np.inf).astype(dtype.np)
            limits = dt.finfo(dtype)
            return infinite if np.isinf(infinite) else limits.min if op is Op.MAX else limits.max
        return dt.int_range(dtype)[0 if op is Op.MAX else 1]
    if op is Op.AND:
        return True if dtype is dt.bool_ else -1 if dtype.is_signed else dt.int_range(dtype)[1]
    return 1 if op is Op.MUL else 0


def with_init(op: Op, total: UOp, init: Any) -> UOp:
    """`total` combined with the initial value, unless that is the identity."""
    if is_scalar(init):
        start = cast_real(init, total.dtype)
        if build.scalar_of(start) == identity_of(op, total.dtype):
            return total
    start = cast_real(init, total.dtype)
    return uop(op, (total, build.broadcast_to(start, total.shape)))


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[..., Any],
    dimensions: Axes,
    out_sharding: None = None,
) -> Any:
    """Arrays combined over `dimensions` by `computation(x, y)`, an associative function, starting at `init_values`.

    operands      an array, or a pytree of arrays of one shape, which `computation` takes together
    computation   of two trees of arrays (made of elementwise functions); one of add, mul, max,
                  min, and, or, xor is fastest

    >>> lax.reduce(fnp.array([[1, 2], [3, 4]]), 0, lax.add, (1,))
    Array([3, 7], dtype=int64)
    """
    leaves, spec = tree.flatten(operands)
    inits = tree.leaves_of(init_values)
    if len(inits) != len(leaves):
        raise note_user_line(
            ArgumentError(f"reduce needs one initial value for each of {len(leaves)} arrays, got {len(inits)}")
        )
    if len({lift(x).shape for x in leaves}) != 1:
        raise note_user_line(
            ShapeError(f"reduce needs arrays of one shape, got {', '.join(str(lift(x).shape) for x in leaves)}")
        )
    axes = tuple(dimensions)
    if len(leaves) == 1:
        op = monoid_of(computation, lift(leaves[0]).node.dtype)
        if op is not None:
            static = inits[0] if is_scalar(inits[0]) else None
            return tree.unflatten(
                spec,
                [_reduce_by(leaves[0], None if static is not None else inits[0], static, op, axes)],
            )
    return tree.unflatten(spec, _fold(leaves, inits, Combining(computation, spec), axes))


@public(static=("static", "op", "axes"))
def _reduce_by(x: ArrayLike, init: Any, static: Any, op: Op, axes: Axes) -> Array:
    total = _reduce("reduce", op, x, axes)
    node = lift(total).node
    return Tracer(with_init(op, node, init if static is None else static), lift(x).weak)


class Combining:
    """A function of trees and their structure, as a static value (compared by the function)."""

    def __init__(self, f: Callable[..., Any], spec: tree.TreeDef) -> None:
        self.f, self.spec = f, spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Combining) and self.f is other.f and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.f)


@public(static=("combine", "axes"))
def _fold(xs: list[Any], inits: list[Any], combine: Combining, axes: Axes) -> list[Array]:
    nodes = [lift(x).node for x in xs]
    at = axes_of(axes, nodes[0].ndim, "reduce") if axes else ()
    starts = [cast_real(i, x.dtype) for i, x in zip(inits, nodes, strict=True)]
    return [Tracer(v) for v in folded(nodes, starts, combine, at)]


def folded(nodes: list[UOp], inits: list[UOp], combine: Combining, at: Sequence[int]) -> list[UOp]:
    """Arrays of one shape combined over the axes `at`: halves, until one element is left, and it with `inits`."""
    rest = [i for i in range(nodes[0].ndim) if i not in at]
    kept = tuple([nodes[0].shape[i] for i in rest])
    flat = [build.permute(x, [*at, *rest]) for x in nodes]
    n = 1
    for a in at:
        n *= nodes[0].shape[a]
    parts = [build.reshape(x, (n, *kept)) for x in flat]

    def together(left: list[UOp], right: list[UOp]) -> list[UOp]:
        a, b = [tree.unflatten(combine.spec, [Tracer(v) for v in side]) for side in (left, right)]
        return [cast_node(y, x.dtype) for x, y in zip(left, tree.leaves_of(combine.f(a, b)), strict=True)]

    starts = [build.broadcast_to(i, kept) for i in inits]
    if n == 0:
        return starts
    while n > 1:
        half = n // 2
        low = [build.slice_axis(p, 0, 0, half) for p in parts]
        high = [build.slice_axis(p, 0, half, 2 * half) for p in parts]
        merged = together(low, high)
        if n % 2:
            last = [build.slice_axis(p, 0, n - 1, n) for p in parts]
            merged = [build.concatenate([m, z], 0) for m, z in zip(merged, last, strict=True)]
        parts, n = merged, half + n % 2
    return together(starts, [build.reshape(p, kept) for p in parts])


# ---- positions
def extreme_index(x: UOp, axis: int, op: Op) -> UOp:
    """The first position of the largest (MAX) or smallest (MIN) element along `axis`; of the
    first NaN, if there is one.
    """
    top = build.spread(build.reduce_(x, [axis], op), x, [axis])
    hit = build.eq(x, top)
    if x.dtype.is_float:
        hit = build.or_(hit, build.ne(x, x))
    at = build.where(hit, build.iota_along(x.shape, axis), build.const(x.shape[axis], dt.int64))
    return build.reduce_(at, [axis], Op.MIN)


def _arg(name: str, op: Op, operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    x = lift(operand).node
    need(not x.dtype.is_complex, name, "complex numbers have no order; use abs(x)")
    kind = to_dtype(index_dtype)
    need(kind.is_int, name, f"index_dtype must be an integer type, but got {kind}")
    at = axis_of(axis, x.ndim, name)
    if x.shape[at] == 0:
        raise note_user_line(ShapeError(f"{name} along axis {at} of shape {x.shape}, which has no elements"))
    return Tracer(build.cast(extreme_index(x, at, op), kind))


@public(static=("axis", "index_dtype"))
def argmax(operand: ArrayLike, axis: int, index_dtype: Any = int) -> Array:
    """The first position of the maximum along `axis`; of the first NaN, if there is one.

    -> index_dtype, by default int64; the axis must have elements.

    >>> lax.argmax(fnp.array([[1, 5], [7, 2]]), 1)
    Array([1, 0], dtype=int64)
    """
    return _arg("argmax", Op.MAX, operand, axis, index_dtype)


@public(static=("axis", "index_dtype"))
def argmin(operand: ArrayLike, axis: int, index_dtype: Any = int) -> Array:
    """The first position of the minimum along `axis`; of the first NaN, if there is one.

    -> index_dtype, by default int64; the axis must have elements.

    >>> lax.argmin(fnp.array([[1, 5], [7, 2]]), 1)
    Array([0, 1], dtype=int64)
    """
    return _arg("argmin", Op.MIN, operand, axis, index_dtype)


# ---- running
def _running(name: str, op: Op, operand: ArrayLike, axis: int, reverse: bool) -> Array:
    t = lift(operand)
    at = axis_of(axis, t.ndim, name)
    need(t.node.dtype is not dt.bool_, name, "bools are not accumulated; convert with .astype")
    if op in (Op.MAX, Op.MIN):
        need(not t.node.dtype.is_complex, name, "complex numbers have no order")
    return Tracer(uop(Op.PREFIX, (t.node,), (op, at, bool(reverse))), t.weak)


@public(static=("axis", "reverse"))
def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running sums along `axis`, from the end with `reverse`.

    Shape and dtype stay: small integers wrap around.

    >>> lax.cumsum(fnp.array([1, 2, 3]), reverse=True)
    Array([6, 5, 3], dtype=int64)
    """
    return _running("cumsum", Op.ADD, operand, axis, reverse)


@public(static=("axis", "reverse"))
def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running products along `axis`, from the end with `reverse`.

    Shape and dtype stay: small integers wrap around.

    >>> lax.cumprod(fnp.array([1, 2, 3]), reverse=True)
    Array([6, 6, 3], dtype=int64)
    """
    return _running("cumprod", Op.MUL, operand, axis, reverse)


@public(static=("axis", "reverse"))
def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running maxima along `axis`, from the end with `reverse`.

    Shape and dtype stay; NaN wins from where it stands.

    >>> lax.cummax(fnp.array([1, 3, 2, 4]))
    Array([1, 3, 3, 4], dtype=int64)
    """
    return _running("cummax", Op.MAX, operand, axis, reverse)


@public(static=("axis", "reverse"))
def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running minima along `axis`, from the end with `reverse`.

    Shape and dtype stay; NaN wins from where it stands.

    >>> lax.cummin(fnp.array([3, 1, 2, 0]))
    Array([3, 1, 1, 0], dtype=int64)
    """
    return _running("cummin", Op.MIN, operand, axis, reverse)


@public(static=("axis", "reverse"))
def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Running log(sum(exp(x))) along `axis`, without overflow.

    Floats only; shape and dtype stay.

    >>> lax.cumlogsumexp(fnp.array([1000.0, 1000.0])) - 1000
    Array([0.        , 0.69317627], dtype=float32)
    """
    t = lift(operand)
    need(t.node.dtype.is_float, "cumlogsumexp", f"it takes floats, not {t.node.dtype}")
    at = axis_of(axis, t.ndim, "cumlogsumexp")
    x = build.flip(t.node, [at]) if reverse else t.node
    n, step = x.shape[at], 1
    low = build.const(-np.inf, x.dtype)
    while step < n:  # every element meets the one `step` before it, which stands for the 2 * step before
        shifted = build.slice_axis(x, at, 0, n - step)
        shape = list(x.shape)
        shape[at] = step
        head = build.broadcast_to(low, tuple(shape))
        x = log_add(x, build.concatenate([head, shifted], at))
        step *= 2
    return Tracer(build.flip(x, [at]) if reverse else x, t.weak)


__all__ = [
    "argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce", "reduce_and",
    "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor",
]  # fmt: skip
