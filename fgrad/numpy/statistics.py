"""Order statistics, averages, covariances and histograms."""

from __future__ import annotations

import math
from typing import Any

from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import (
    Axis,
    DTypeLike,
    axes_of,
    axis_of,
    lift,
    need,
    no_out,
    public,
    restore_axes,
)
from fgrad.numpy.creation import listed
from fgrad.numpy.extremes import has_nan
from fgrad.numpy.moments import mean_node
from fgrad.numpy.products import dot
from fgrad.numpy.sorting import sorted_with
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, aval_of, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp

__all__ = [
    "average", "corrcoef", "cov", "median", "nanmedian", "nanpercentile", "nanquantile",
    "percentile", "quantile",
]  # fmt: skip


# Hyndman & Fan 1996: the virtual position of quantile q among n elements is n*q + a + q*(1-a-b) - 1
_CONTINUOUS = {
    "linear": (1.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip


_ROUNDED = ("lower", "higher", "nearest", "midpoint")


METHODS = (*_CONTINUOUS, *_ROUNDED, "inverted_cdf")


def _pick(ordered: UOp, at: UOp) -> UOp:
    """[b.., n], [b.., k] float positions -> [b.., k]."""
    return build.gather(ordered, build.cast(at, dt.int64), ordered.ndim - 1)


def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    percent: bool = False,
) -> Array:
    if method not in METHODS:
        raise ValueError(f"{name}: method must be one of {', '.join(METHODS)}, got {method!r}")
    is_list = isinstance(q, list | tuple)
    if is_list and q and not any(isinstance(each, list | tuple) or aval_of(each).shape for each in q):
        # each by itself, so that Python numbers are as exact as the elements
        (x, *levels), dtype, _ = promoted(a, *q, least=dt.default_float())
        level = build.concatenate([build.reshape(each, (1,)) for each in levels], 0)
    else:
        (x, level), dtype, _ = promoted(a, listed(q) if is_list else q, least=dt.default_float())
    need(not dtype.is_complex, name, "complex numbers have no order")
    axes = axes_of(axis, x.ndim, name)
    rest = [i for i in range(x.ndim) if i not in axes]
    lead = tuple([x.shape[i] for i in rest])
    n = math.prod(x.shape[i] for i in axes)
    flat = build.reshape(build.permute(x, (*rest, *axes)), (*lead, n))
    k = level.size
    shape = (*lead, k)
    if percent:  # in the common dtype: whole percents of float64 elements are no float32
        level = build.div(level, 100)
    if n:
        y = _at_levels(flat, build.reshape(level, (k,)), shape, method, skip_nan)
    else:
        y = build.const(math.nan, dtype, shape)
    y = build.permute(y, (len(lead), *range(len(lead))))
    kept = tuple([1 if i in axes else m for i, m in enumerate(x.shape)]) if keepdims else lead
    return Tracer(build.reshape(y, (*level.shape, *kept)))


def _at_levels(x: UOp, level: UOp, shape: tuple[int, ...], method: str, skip_nan: bool) -> UOp:
    """Quantiles of the rows of x [b.., n] at `level` [k], as [b.., k].

    Positions are numbers up to n, which the small floats do not hold.
    """
    n, dtype = x.shape[-1], x.dtype
    wide = dt.float64 if n > 1 << 20 else dt.accumulator(dtype)
    ordered = build.cast(sorted_with(x, (), x.ndim - 1)[0], wide)
    q = build.broadcast_to(build.cast(level, wide), shape)
    if skip_nan:  # NaN are sorted to the end: the others are the first `count`
        good = build.cast(build.not_(has_nan(x)), dt.int64)
        count = build.cast(build.expand(build.reduce_(good, (x.ndim - 1,)), [(x.ndim - 1, shape[-1])]), q.dtype)
        bad = build.eq(count, 0)
        count = build.where(bad, build.const_like(1, count), count)
    else:
        count = build.const_like(n, q)
        last = build.slice_axis(ordered, x.ndim - 1, n - 1, n)
        bad = build.broadcast_to(has_nan(last), shape)
    top = build.sub(count, 1)
    zero = build.zeros_like(q)

    def inside(at: UOp) -> UOp:
        return build.minimum(build.maximum(at, zero), top)

    if method == "inverted_cdf":
        out = _pick(ordered, inside(build.sub(build.ceil(build.mul(count, q)), 1)))
    elif method in _ROUNDED:
        at = build.mul(q, top)
        low, high = inside(build.floor(at)), inside(build.ceil(at))
        if method == "midpoint":
            out = build.mul(build.add(_pick(ordered, low), _pick(ordered, high)), 0.5)
        else:
            out = _pick(ordered, {"lower": low, "higher": high}.get(method, inside(build.round_(at))))
    else:
        alpha, beta = _CONTINUOUS[method]
        if method == "linear":
            at = inside(build.mul(q, top))
        else:
            at = inside(build.add(build.mul(count, q), build.add(build.mul(q, 1 - alpha - beta), alpha - 1)))
        low = build.floor(at)
        part = build.sub(at, low)
        a, b = _pick(ordered, low), _pick(ordered, inside(build.add(low, 1)))
        # a whole position takes its element alone, so that an infinite neighbour does not
        # make it NaN
        exact = build.or_(build.eq(part, 0), build.eq(a, b))
        mixed = build.add(build.mul(a, build.sub(build.const_like(1, part), part)), build.mul(b, part))
        out = build.where(exact, a, mixed)
    out_of_range = build.not_(build.and_(build.le(zero, q), build.le(q, build.const_like(1, q))))
    return build.cast(build.where(build.or_(bad, out_of_range), build.const_like(math.nan, out), out), dtype)


def _no_weights(weights: Any, name: str) -> None:
    if weights is not None:
        raise NotImplementedError(
            f"{name}: weights= is not supported; repeat the elements, or sort and use cumsum of the weights"
        )


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Array:
    """The value below which the fraction `q` of the elements lies; NaN if there is a NaN.

    q        a number in [0, 1], or several: their shape stands in front
    axis     an axis, several, or None: all
    method   linear, lower, higher, nearest, midpoint, hazen, weibull, median_unbiased, normal_unbiased,
             inverted_cdf, interpolated_inverted_cdf

    Integers are taken as the default float. `weights` are not supported: raises NotImplementedError.

    >>> quantile(array([1.0, 2.0, 3.0, 4.0]), array([0.0, 0.5, 1.0]))
    Array([1. , 2.5, 4. ], dtype=float32)
    """
    no_out(out, "quantile")
    _no_weights(weights, "quantile")
    return _quantile("quantile", a, q, axis, method, keepdims, False)


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Array:
    """`quantile` that skips NaN.

    Arguments as in `quantile`; NaN where there is nothing else.

    >>> nanquantile(array([1.0, nan, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    no_out(out, "nanquantile")
    _no_weights(weights, "nanquantile")
    return _quantile("nanquantile", a, q, axis, method, keepdims, True)


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Array:
    """`quantile` at q / 100.

    Arguments as in `quantile`.

    >>> percentile(array([1.0, 2.0, 3.0]), 50)
    Array(2., dtype=float32)
    """
    no_out(out, "percentile")
    _no_weights(weights, "percentile")
    return _quantile("percentile", a, q, axis, method, keepdims, False, percent=True)


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Array:
    """`nanquantile` at q / 100.

    Arguments as in `quantile`.

    >>> nanpercentile(array([1.0, nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    no_out(out, "nanpercentile")
    _no_weights(weights, "nanpercentile")
    return _quantile("nanpercentile", a, q, axis, method, keepdims, True, percent=True)


@public(static=("axis", "overwrite_input", "keepdims"))
def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element, or the mean of the two middle ones; NaN if there is a NaN.

    `axis` and `keepdims` as in `quantile`; integers are taken as the default float.

    >>> median(array([[1, 2, 3], [6, 5, 4]]), axis=1)
    Array([2., 5.], dtype=float32)
    """
    no_out(out, "median")
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


@public(static=("axis", "overwrite_input", "keepdims"))
def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """`median` that skips NaN.

    Arguments as in `median`; NaN where there is nothing else.

    >>> nanmedian(array([1.0, nan, 3.0]))
    Array(2., dtype=float32)
    """
    no_out(out, "nanmedian")
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)


def _listed_axes(axis: Any) -> list[Any]:
    return list(axis) if isinstance(axis, list | tuple) else [axis]


@public(static=("axis", "returned", "keepdims"))
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean sum(a * weights) / sum(weights), or the mean without weights.

    weights    shaped as `a`, or as its axes `axis`, in that order (a vector along one axis)
    returned   -> (average, sum of the weights)

    >>> average(array([1.0, 2.0]), weights=array([3.0, 1.0]))
    Array(1.25, dtype=float32)
    """
    if weights is None:
        (x,), _, weak = promoted(a, least=dt.default_float())
        axes = axes_of(axis, x.ndim, "average")
        y = build.cast(mean_node(build.cast(x, dt.accumulator(x.dtype)), axes, keepdims), x.dtype)
        count = build.const(math.prod(x.shape[i] for i in axes), y.dtype, y.shape)
        return (Tracer(y, weak), Tracer(count)) if returned else Tracer(y, weak)
    (x, w), dtype, weak = promoted(a, listed(weights), least=dt.default_float())
    axes = axes_of(axis, x.ndim, "average")
    if w.shape != x.shape:
        given = [] if axis is None else [axis_of(i, x.ndim, "average") for i in _listed_axes(axis)]
        if not given or w.shape != tuple([x.shape[i] for i in given]):
            raise note_user_line(
                ShapeError(
                    f"average: weights of shape {w.shape} for axis={axis} of an array of shape {x.shape}; give one "
                    "weight each, or weights shaped as the axes"
                )
            )
        w = build.permute(w, sorted(range(len(given)), key=given.__getitem__))
        w = build.expand(w, [(i, n) for i, n in enumerate(x.shape) if i not in axes])
    wide = dt.accumulator(dtype)
    x, w = build.cast(x, wide), build.cast(w, wide)
    total = build.reduce_(w, axes)
    y = build.div(build.reduce_(build.mul(x, w), axes), total)
    if keepdims:
        y, total = (restore_axes(v, axes, x.ndim) for v in (y, total))
    out = Tracer(build.cast(y, dtype), weak)
    return (out, Tracer(build.cast(total, dtype))) if returned else out


# ---- covariance
def _observations(m: ArrayLike, y: ArrayLike | None, rowvar: bool, name: str) -> UOp:
    given = [m] if y is None else [m, y]
    nodes, dtype, _ = promoted(*given, least=dt.default_float())
    rows = []
    for v in nodes:
        if v.ndim > 2:
            raise note_user_line(ShapeError(f"{name} takes vectors and matrices, got shape {v.shape}"))
        v = build.reshape(v, (1, v.size)) if v.ndim < 2 else v
        rows.append(v if rowvar or v.shape[0] == 1 else build.permute(v, (1, 0)))
    if len({v.shape[1] for v in rows}) > 1:
        raise note_user_line(ShapeError(f"{name}: different numbers of observations in {[v.shape for v in nodes]}"))
    return build.concatenate(rows, 0)


@public(static=("rowvar", "bias", "ddof", "dtype"))
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike = None,
) -> Array:
    """The covariances of variables: [variables, observations] -> [variables, variables].

    y          more variables
    rowvar     False: `m` is [observations, variables]
    ddof       the divisor is the number of observations - ddof: 1 by default, 0 with `bias`
    fweights   how often each observation counts (integers)
    aweights   how important it is

    >>> cov(array([[1.0, 2.0, 3.0], [1.0, 3.0, 5.0]]))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    x = _observations(m, y, rowvar, "cov")
    if dtype is not None:
        x = build.cast(x, to_dtype(dtype))
    kind = x.dtype
    x = build.cast(x, dt.accumulator(kind))
    free = (0 if bias else 1) if ddof is None else ddof
    n = x.shape[1]
    real = dt.real_of(x.dtype)
    w: UOp | None = None
    if fweights is not None:
        w = build.cast(listed(fweights).node, real)
    if aweights is not None:
        importance = build.cast(listed(aweights).node, real)
        w = importance if w is None else build.mul(w, importance)
    if w is None:
        total = build.const(n, real)
        centre = build.reduce_(x, (1,))
        norm = build.const(max(n - free, 0), real)
    else:
        total = build.reduce_(w, (0,))
        wide = build.cast(build.expand(w, [(0, x.shape[0])]), x.dtype)
        centre = build.reduce_(build.mul(x, wide), (1,))
        if free == 0:
            norm = total
        elif aweights is None:
            norm = build.sub(total, free)
        else:
            norm = build.sub(
                total,
                build.div(build.mul(build.reduce_(build.mul(w, importance), (0,)), free), total),
            )
    centre = build.div(centre, build.broadcast_to(build.cast(total, x.dtype), centre.shape))
    gap = build.sub(x, build.expand(centre, [(1, n)]))
    other = gap if w is None else build.mul(gap, build.cast(build.expand(w, [(0, x.shape[0])]), x.dtype))
    if x.dtype.is_complex:
        other = build.complex_(build.real(other), build.neg(build.imag(other)))
    out = lift(dot(Tracer(gap), Tracer(build.permute(other, (1, 0))))).node
    out = build.div(out, build.broadcast_to(build.cast(norm, out.dtype), out.shape))
    out = build.cast(out, kind)
    return Tracer(build.reshape(out, ()) if out.shape == (1, 1) else out)


@public(static=("rowvar", "dtype"))
def corrcoef(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike = None) -> Array:
    """The correlation coefficients of variables, in [-1, 1]: [variables, observations] -> [variables, variables].

    `y` and `rowvar` as in `cov`; NaN for a variable that does not vary.

    >>> corrcoef(array([[1.0, 2.0, 3.0], [1.0, 3.0, 5.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    c = lift(cov(m, y, rowvar, dtype=dtype)).node
    if not c.ndim:
        return Tracer(build.div(c, c))
    n = c.shape[0]
    variance = build.slice_axis(build.reshape(c, (n * n,)), 0, 0, (n - 1) * (n + 1) + 1, n + 1)
    real = build.real(variance) if c.dtype.is_complex else variance
    deviation = build.cast(build.sqrt(real), c.dtype)
    out = build.div(build.div(c, build.expand(deviation, [(1, n)])), build.expand(deviation, [(0, n)]))

    def clipped(v: UOp) -> UOp:
        v = build.where(build.lt(v, -1), -1, v)
        return build.where(build.lt(build.const_like(1, v), v), 1, v)

    if c.dtype.is_complex:
        return Tracer(build.complex_(clipped(build.real(out)), clipped(build.imag(out))))
    return Tracer(clipped(out))
