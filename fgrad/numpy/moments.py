"""Means, variances and deviations, with `where=` and their NaN-skipping kin."""

from __future__ import annotations

import math

from fgrad.errors import note_user_line
from fgrad.numpy.common import (
    Axis,
    DTypeLike,
    axes_of,
    lift,
    no_out,
    public,
    reduced,
    truth,
)
from fgrad.numpy.reductions import _without_nan, masked
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__ = ["mean", "nanmean", "nanstd", "nanvar", "std", "var"]


# ---- moments
def _float_result(x: UOp, dtype: DTypeLike) -> tuple[UOp, DType]:
    """-> (x in the dtype that moments are computed in, dtype of the result)."""
    if dtype is not None:
        kind = to_dtype(dtype)
    else:
        kind = x.dtype if x.dtype.is_inexact else dt.default_float()
    return build.cast(x, dt.accumulator(kind) if kind.is_inexact else dt.default_float()), kind


def _count(x: UOp, axes: tuple[int, ...], where: UOp | None, keepdims: bool) -> UOp:
    """How many elements are averaged, in x's real dtype."""
    real = dt.real_of(x.dtype)
    if where is None:
        n = build.const(math.prod(x.shape[i] for i in axes), real)
        kept = [1 if i in axes else s for i, s in enumerate(x.shape) if keepdims or i not in axes]
        return build.broadcast_to(n, tuple(kept))
    mask = build.broadcast_to(where, x.shape)
    return build.cast(reduced(build.cast(mask, dt.int64), axes, Op.ADD, keepdims), real)


def mean_node(x: UOp, axes: tuple[int, ...], keepdims: bool, where: UOp | None = None) -> UOp:
    """The mean of floats over `axes`; `where` is a bool mask."""
    kept = masked(x, None if where is None else Tracer(where), 0, "mean")
    total = reduced(kept, axes, Op.ADD, keepdims)
    return build.div(total, build.cast(_count(x, axes, where, keepdims), x.dtype))


def _mask(where: ArrayLike | None) -> UOp | None:
    return None if where is None else truth(lift(where).node)


@public(static=("axis", "dtype", "keepdims"))
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The arithmetic mean; NaN over no elements.

    axis       an axis, several, or None: all. They disappear; with `keepdims` they stay with size 1
    dtype      of the result; integers give the default float, half types are added in float32 and keep theirs
    where      a mask that broadcasts to `a`: other elements do not count

    >>> mean(array([[1, 2], [3, 4]]), axis=0)
    Array([2., 3.], dtype=float32)
    """
    no_out(out, "mean")
    t = lift(a)
    x, kind = _float_result(t.node, dtype)
    y = mean_node(x, axes_of(axis, x.ndim, "mean"), keepdims, _mask(where))
    return Tracer(build.cast(y, kind), t.weak and dtype is None)


def _variance(
    name: str,
    a: ArrayLike,
    axis: Axis,
    dtype: DTypeLike,
    ddof: ArrayLike,
    keepdims: bool,
    where: UOp | None,
    given: ArrayLike | None,
    root: bool,
) -> Array:
    t = lift(a)
    if t.node.dtype.is_complex and dtype is not None and not to_dtype(dtype).is_complex:
        raise note_user_line(
            ValueError(f"{name}: dtype={to_dtype(dtype)} would drop the imaginary parts; give a complex one")
        )
    x, kind = _float_result(t.node, dtype)
    axes = axes_of(axis, x.ndim, name)
    if given is None:
        centre = mean_node(x, axes, True, where)
    else:
        centre = cast_node(given, x.dtype)
    gap = build.sub(x, build.broadcast_to(centre, x.shape))
    if x.dtype.is_complex:
        re, im = build.real(gap), build.imag(gap)
        square = build.add(build.mul(re, re), build.mul(im, im))
    else:
        square = build.mul(gap, gap)
    total = reduced(masked(square, None if where is None else Tracer(where), 0, name), axes, Op.ADD, keepdims)
    count = _count(square, axes, where, keepdims)
    free = build.sub(count, build.broadcast_to(cast_node(ddof, count.dtype), count.shape))
    free = build.where(build.lt(free, 0), build.zeros_like(free), free)
    out = build.div(total, free)
    if root:  # derivative 0 where the variance is 0, not infinity
        zero = build.eq(out, 0)
        out = build.where(zero, out, build.sqrt(build.where(zero, build.const_like(1, out), out)))
    return Tracer(build.cast(out, dt.real_of(kind)), t.weak and dtype is None)


@public(static=("axis", "dtype", "keepdims"))
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """The mean squared distance from the mean, sum(|a - mean|**2) / (n - ddof).

    `axis`, `dtype`, `keepdims` and `where` as in `mean`. Real also for complex `a`.

    mean         the mean (with keepdims), if it is known already
    correction   the array API's name of ddof

    >>> var(array([1.0, 2.0, 3.0, 4.0])), var(array([1.0, 2.0, 3.0, 4.0]), ddof=1)
    (Array(1.25, dtype=float32), Array(1.6666666, dtype=float32))
    """
    no_out(out, "var")
    free = ddof if correction is None else correction
    return _variance("var", a, axis, dtype, free, keepdims, _mask(where), mean, False)


@public(static=("axis", "dtype", "keepdims"))
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """The square root of `var`. Its derivative is 0 where all elements are equal.

    Arguments as in `var`.

    >>> std(array([[1.0, 3.0], [2.0, 2.0]]), axis=1)
    Array([1., 0.], dtype=float32)
    """
    no_out(out, "std")
    free = ddof if correction is None else correction
    return _variance("std", a, axis, dtype, free, keepdims, _mask(where), mean, True)


def _good(a: ArrayLike, where: ArrayLike | None) -> tuple[Tracer, UOp]:
    """-> (the array with NaN replaced by 0, where it counts)."""
    t, bad = _without_nan(a, lambda d: 0)
    good = build.not_(bad)
    if where is None:
        return t, good
    mask, good = (build.broadcast_to(x, t.shape) for x in (truth(lift(where).node), good))
    return t, build.and_(mask, good)


@public(static=("axis", "dtype", "keepdims"))
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """`mean` that skips NaN; NaN where there is nothing else.

    Arguments as in `mean`; the derivative at a NaN is 0.

    >>> nanmean(array([1.0, nan, 3.0]))
    Array(2., dtype=float32)
    """
    no_out(out, "nanmean")
    t, good = _good(a, where)
    x, kind = _float_result(t.node, dtype)
    y = mean_node(x, axes_of(axis, x.ndim, "nanmean"), keepdims, good)
    return Tracer(build.cast(y, kind), t.weak and dtype is None)


@public(static=("axis", "dtype", "keepdims"))
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """`var` that skips NaN; NaN where nothing else is left.

    Arguments as in `var`.

    >>> nanvar(array([1.0, nan, 3.0]))
    Array(1., dtype=float32)
    """
    no_out(out, "nanvar")
    t, good = _good(a, where)
    return _variance("nanvar", t, axis, dtype, ddof, keepdims, good, mean, False)


@public(static=("axis", "dtype", "keepdims"))
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: ArrayLike = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """`std` that skips NaN; NaN where nothing else is left.

    Arguments as in `var`.

    >>> nanstd(array([1.0, nan, 3.0]))
    Array(1., dtype=float32)
    """
    no_out(out, "nanstd")
    t, good = _good(a, where)
    return _variance("nanstd", t, axis, dtype, ddof, keepdims, good, mean, True)
