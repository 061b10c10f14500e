"""softmax, logsumexp and their relatives: shifted by the maximum, so that nothing overflows.

Where every element is -inf (or masked by `where`), logsumexp is -inf, softmax is 0, and gradients
are 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.lax.derivatives import still_node
from fgrad.numpy.common import axes_of, need, public
from fgrad.numpy.elementwise import magnitude
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, div, exp, log, mul, sub, where
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

Axis = Any


def _operand(name: str, x: ArrayLike) -> tuple[UOp, bool]:
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(dtype.is_float, name, f"it takes real numbers, not {dtype}")
    return node, weak


def _kept(x: UOp, where_: Any, fill: float) -> UOp:
    """`x`, with `fill` where the mask is false."""
    if where_ is None:
        return x
    mask = cast_node(where_, dt.bool_)
    shape = build.broadcast_shapes(x.shape, mask.shape)
    x = build.broadcast_to(x, shape)
    return where(build.broadcast_to(mask, shape), x, build.const_like(fill, x))


def _along(x: UOp, like: UOp, axes: tuple[int, ...]) -> UOp:
    return build.spread(x, like, axes)


def _shift(x: UOp, axes: tuple[int, ...]) -> UOp:
    """The maximum over `axes` as a constant of the derivative; 0 where it is not finite."""
    top = still_node(build.reduce_(x, axes, Op.MAX))
    return where(build.lt(build.abs_(top), math.inf), top, build.const_like(0, top))


def _apart(x: UOp, axes: tuple[int, ...]) -> tuple[UOp, UOp, UOp]:
    """-> (exp(x - shift), their sum over `axes`, shift), in float32 for half types."""
    wide = build.cast(x, dt.accumulator(x.dtype))
    shift = _shift(wide, axes)
    parts = exp(sub(wide, _along(shift, wide, axes)))
    return parts, build.reduce_(parts, axes), shift


def _log_total(total: UOp, shift: UOp) -> UOp:
    """log(total) + shift; a total of 0 gives -inf with gradient 0."""
    empty = build.eq(total, 0)
    safe = where(empty, build.const_like(1, total), total)
    return where(empty, build.const_like(-math.inf, total), add(log(safe), shift))


def _largest_exponent(x: UOp) -> float:
    """exp of it is finite, also when a few are added."""
    return math.log(float(np.finfo(x.dtype.np).max)) - 4


def _restored(x: UOp, like: UOp, axes: tuple[int, ...], keepdims: bool) -> UOp:
    if not keepdims:
        return x
    return build.reshape(x, tuple([1 if i in axes else n for i, n in enumerate(like.shape)]))


@public(static=("axis", "keepdims", "return_sign"))
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b * exp(a))) over `axis` (all by default), without overflow.

    a            may be complex
    b            factors; with `return_sign` the sum may be negative: gives (log |sum|, its sign), where the sign of
                 a complex sum is sum / |sum|
    where        elements to count

    >>> logsumexp(fnp.array([1000.0, 0.0]))
    Array(1000., dtype=float32)
    """
    (x,), dtype, weak = promoted(a, least=dt.default_float())
    if dtype.is_complex or (b is not None and lift(b).node.dtype.is_complex):
        found = _complex_logsumexp(a, b, axis, keepdims, where)
        return found if return_sign else _log_of(*found)
    need(dtype.is_float, "logsumexp", f"it takes numbers, not {dtype}")
    factor = None
    if b is not None:
        nodes, _, _ = promoted(a, b, least=dt.default_float())
        shape = build.broadcast_shapes(*[n.shape for n in nodes])
        x, factor = [build.broadcast_to(n, shape) for n in nodes]
        # a factor of 0 takes its element out, whatever it is
        counted = build.where(build.eq(factor, 0), build.const_like(-math.inf, x), x)
    else:
        counted = x
    x, counted = _kept(x, where, -math.inf), _kept(counted, where, -math.inf)
    axes = axes_of(axis, x.ndim, "logsumexp")
    shift = _shift(build.cast(counted, dt.accumulator(x.dtype)), axes)
    wide = build.cast(x, dt.accumulator(x.dtype))
    moved = sub(wide, _along(shift, wide, axes))
    if factor is not None:
        # it stays where its exponential is finite: the derivative in the factor asks for that
        out = build.and_(build.eq(factor, 0), build.not_(build.lt(moved, _largest_exponent(moved))))
        moved = build.where(out, build.const_like(-math.inf, moved), moved)
    parts = exp(moved)
    if factor is not None:
        parts = mul(parts, build.broadcast_to(build.cast(factor, wide.dtype), parts.shape))
    total = build.reduce_(parts, axes)
    if return_sign:
        sign = build.where(build.lt(total, 0), build.const_like(-1, total), build.const_like(1, total))
        sign = build.where(build.eq(total, 0), total, sign)
        value = _log_total(build.abs_(total), shift)
        outs = [_restored(build.cast(v, x.dtype), x, axes, keepdims) for v in (value, sign)]
        return Tracer(outs[0], weak), Tracer(outs[1], weak)
    if factor is not None:
        nan = build.const_like(math.nan, total)
        value = build.where(build.lt(total, 0), nan, _log_total(build.abs_(total), shift))
    else:
        value = _log_total(total, shift)
    return Tracer(_restored(build.cast(value, x.dtype), x, axes, keepdims), weak)


def _complex_logsumexp(a: Any, b: Any, axis: Axis, keepdims: bool, where_: Any) -> tuple[Tracer, Tracer]:
    """(log |sum|, sum / |sum|) of complex numbers: shifted by the largest real part; of an empty sum (-inf, 0)."""
    nodes, dtype, weak = promoted(a, 1.0 if b is None else b, least=dt.default_float())
    shape = build.broadcast_shapes(*[n.shape for n in nodes])
    x, factor = [_kept(build.broadcast_to(n, shape), where_, 0.0) for n in nodes]
    axes = axes_of(axis, x.ndim, "logsumexp")
    counts = _kept(build.ne(factor, build.zeros_like(factor)), where_, False)
    real = build.real(x)
    shift = _shift(build.where(counts, real, build.const_like(-math.inf, real)), axes)
    moved = build.sub(x, build.cast(_along(shift, real, axes), dtype))
    safe = build.where(counts, moved, build.zeros_like(moved))
    total = build.reduce_(build.where(counts, mul(exp(safe), factor), build.zeros_like(x)), axes)
    size = magnitude(total)
    one = build.where(build.eq(size, 0), build.const_like(1, size), size)
    sign = build.div(total, build.cast(one, dtype))
    value, sign = [_restored(v, x, axes, keepdims) for v in (_log_total(size, shift), sign)]
    return Tracer(value, weak), Tracer(sign, weak)


def _log_of(size: Tracer, sign: Tracer) -> Tracer:
    """The complex logarithm of a number, from that of its absolute value and from its sign."""
    angle = uop(Op.ATAN2, (build.imag(sign.node), build.real(sign.node)))
    return Tracer(build.complex_(size.node, angle), size.weak)


@public(static=("axis", "keepdims"))
def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """log(mean(exp(x))) over `axis`, without overflow; `where` selects the elements that count.

    axis   an axis, several, or None: all

    >>> nn.logmeanexp(fnp.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    node, weak = _operand("logmeanexp", x)
    node = _kept(node, where, -math.inf)
    axes = axes_of(axis, node.ndim, "logmeanexp")
    _, total, shift = _apart(node, axes)
    ones = build.cast(_kept(build.const_like(1, node), where, 0.0), total.dtype)
    count = build.reduce_(ones, axes)
    value = build.cast(sub(_log_total(total, shift), log(count)), node.dtype)
    return Tracer(_restored(value, node, axes, keepdims), weak)


@public(static=("axis",))
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along `axis`; elements where the mask `where` is false get 0.

    >>> softmax(fnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    node, weak = _operand("softmax", x)
    node = _kept(node, where, -math.inf)
    axes = axes_of(axis, node.ndim, "softmax")
    parts, total, _ = _apart(node, axes)
    total = build.where(build.eq(total, 0), build.const_like(1, total), total)
    return Tracer(build.cast(div(parts, _along(total, parts, axes)), node.dtype), weak)


@public(static=("axis",))
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)) along `axis`; elements where the mask `where` is false get -inf.

    Shape as x; axis   an axis, several, or None: all.

    >>> nn.log_softmax(fnp.array([0.0, 1000.0]))
    Array([-1000.,     0.], dtype=float32)
    """
    node, weak = _operand("log_softmax", x)
    node = _kept(node, where, -math.inf)
    axes = axes_of(axis, node.ndim, "log_softmax")
    wide = build.cast(node, dt.accumulator(node.dtype))
    shift = _shift(wide, axes)
    moved = sub(wide, _along(shift, wide, axes))
    total = build.reduce_(exp(moved), axes)
    total = build.where(build.eq(total, 0), build.const_like(1, total), total)
    out = sub(moved, _along(log(total), wide, axes))
    return Tracer(build.cast(out, node.dtype), weak)


@public(static=("axis", "epsilon", "algorithm"))
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: float = 1e-5,
    where: ArrayLike | None = None,
    algorithm: Any = None,
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) along `axis`; mean and variance are those of `x` unless given.

    Shape as x; `where` selects the elements that count.

    >>> nn.standardize(fnp.array([1.0, 2.0, 3.0]))
    Array([-1.2247356,  0.       ,  1.2247356], dtype=float32)
    """
    node, weak = _operand("standardize", x)
    axes = axes_of(axis, node.ndim, "standardize")
    wide = build.cast(node, dt.accumulator(node.dtype))
    ones = build.const_like(1, wide) if where is None else _kept(build.const_like(1, wide), where, 0.0)
    count = build.reduce_(ones, axes)

    def average(values: UOp) -> UOp:
        return div(build.reduce_(_kept(values, where, 0.0), axes), count)

    center = _along(average(wide), wide, axes) if mean is None else _given(mean, wide, axes)
    apart = sub(wide, center)
    if variance is None:
        spread = _along(average(mul(apart, apart)), wide, axes)
    else:
        spread = _given(variance, wide, axes)
    return Tracer(build.cast(mul(apart, uop(Op.RSQRT, (add(spread, epsilon),))), node.dtype), weak)


def _given(value: ArrayLike, like: UOp, axes: tuple[int, ...]) -> UOp:
    """A mean or variance, with or without the axes it was taken over."""
    node = cast_node(value, like.dtype)
    kept = tuple([n for i, n in enumerate(like.shape) if i not in axes])
    return _along(node, like, axes) if node.shape == kept and len(axes) else build.broadcast_to(node, like.shape)


__all__ = ["log_softmax", "logmeanexp", "logsumexp", "softmax", "standardize"]
