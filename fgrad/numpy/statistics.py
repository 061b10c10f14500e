"""Order statistics, averages, covariances and histograms."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import Axis, DTypeLike, axes_of, from_host, host, lift, need, no_out, public
from fgrad.numpy.common import restore_axes
from fgrad.numpy.creation import listed
from fgrad.numpy.elementwise import has_nan
from fgrad.numpy.products import dot
from fgrad.numpy.reductions import mean_node
from fgrad.numpy.sorting import count_before, sorted_with
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op

__all__ = [
    "average", "corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "median",
    "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip

# Hyndman & Fan 1996: the virtual position of quantile q among n elements is n*q + a + q*(1-a-b) - 1
_CONTINUOUS = {
    "linear": (1.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip
_ROUNDED = ("lower", "higher", "nearest", "midpoint")
METHODS = (*_CONTINUOUS, *_ROUNDED, "inverted_cdf")


def _pick(ordered: UOp, at: UOp) -> UOp:
    """[b.., n], [b.., k] float positions -> [b.., k]."""
    return build.gather(ordered, build.cast(at, dt.int64), ordered.ndim - 1)


def _quantile(
    name: str, a: ArrayLike, q: ArrayLike, axis: Axis, method: str, keepdims: bool, skip_nan: bool
) -> Array:
    if method not in METHODS:
        raise ValueError(f"{name}: method must be one of {', '.join(METHODS)}, got {method!r}")
    (x, level), dtype, _ = promoted(a, listed(q), least=dt.default_float())
    need(not dtype.is_complex, name, "complex numbers have no order")
    axes = axes_of(axis, x.ndim, name)
    rest = [i for i in range(x.ndim) if i not in axes]
    lead = tuple([x.shape[i] for i in rest])
    n = math.prod(x.shape[i] for i in axes)
    flat = build.reshape(build.permute(x, (*rest, *axes)), (*lead, n))
    k = level.size
    shape = (*lead, k)
    if n:
        y = _at_levels(flat, build.reshape(level, (k,)), shape, method, skip_nan)
    else:
        y = build.const(math.nan, dtype, shape)
    y = build.permute(y, (len(lead), *range(len(lead))))
    kept = tuple([1 if i in axes else m for i, m in enumerate(x.shape)]) if keepdims else lead
    return Tracer(build.reshape(y, (*level.shape, *kept)))


def _at_levels(x: UOp, level: UOp, shape: tuple[int, ...], method: str, skip_nan: bool) -> UOp:
    """Quantiles of the rows of x [b.., n] at `level` [k], as [b.., k]."""
    n = x.shape[-1]
    ordered = sorted_with(x, (), x.ndim - 1)[0]
    q = build.broadcast_to(level, shape)
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
        # a whole position takes its element alone, so that an infinite neighbour does not make it NaN
        exact = build.or_(build.eq(part, 0), build.eq(a, b))
        mixed = build.add(build.mul(a, build.sub(build.const_like(1, part), part)), build.mul(b, part))
        out = build.where(exact, a, mixed)
    out_of_range = build.not_(build.and_(build.le(zero, q), build.le(q, build.const_like(1, q))))
    return build.where(build.or_(bad, out_of_range), build.const_like(math.nan, out), out)


def _no_weights(weights: Any, name: str) -> None:
    if weights is not None:
        raise NotImplementedError(f"{name}: weights= is not supported; repeat the elements, or sort and use cumsum of the weights")


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: None = None,
) -> Array:  # fmt: skip
    """The value below which the fraction q of the elements lies, q.shape in front; NaN if there is a NaN.

    method   linear, lower, higher, nearest, midpoint, hazen, weibull, median_unbiased, normal_unbiased, inverted_cdf,
             interpolated_inverted_cdf
    """
    no_out(out, "quantile")
    _no_weights(weights, "quantile")
    return _quantile("quantile", a, q, axis, method, keepdims, False)


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: None = None,
) -> Array:  # fmt: skip
    """`quantile` that skips NaN."""
    no_out(out, "nanquantile")
    _no_weights(weights, "nanquantile")
    return _quantile("nanquantile", a, q, axis, method, keepdims, True)


def _percent(q: ArrayLike) -> Array:
    (node,), _, weak = promoted(listed(q), least=dt.default_float())
    return Tracer(build.div(node, 100), weak)


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def percentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: None = None,
) -> Array:  # fmt: skip
    """`quantile` at q / 100."""
    no_out(out, "percentile")
    _no_weights(weights, "percentile")
    return _quantile("percentile", a, _percent(q), axis, method, keepdims, False)


@public(static=("axis", "overwrite_input", "method", "keepdims"))
def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: None = None,
) -> Array:  # fmt: skip
    """`nanquantile` at q / 100."""
    no_out(out, "nanpercentile")
    _no_weights(weights, "nanpercentile")
    return _quantile("nanpercentile", a, _percent(q), axis, method, keepdims, True)


@public(static=("axis", "overwrite_input", "keepdims"))
def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle element, or the mean of the two middle ones; NaN if there is a NaN."""
    no_out(out, "median")
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


@public(static=("axis", "overwrite_input", "keepdims"))
def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """`median` that skips NaN."""
    no_out(out, "nanmedian")
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)


@public(static=("axis", "returned", "keepdims"))
def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """sum(a * weights) / sum(weights), the mean without weights; with `returned` also the sum of the weights.

    weights   shaped as `a`, or a vector along the one axis
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
        if w.ndim != 1 or len(axes) != 1 or axis is None:
            raise note_user_line(
                ShapeError(f"average: weights of shape {w.shape} for an array of {x.shape}; give one weight each, or a vector "
                           "and its axis")  # fmt: skip
            )
        if w.size != x.shape[axes[0]]:
            raise note_user_line(ShapeError(f"average: {w.size} weights for {x.shape[axes[0]]} elements"))
        w = build.expand(w, [(i, n) for i, n in enumerate(x.shape) if i != axes[0]])
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
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, *, dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    """[variables, observations] -> [variables, variables]: covariances.

    fweights   how often each observation counts (integers);  aweights   how important it is
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
    frequency: UOp | None = None
    if fweights is not None:
        frequency = w = build.cast(listed(fweights).node, real)
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
            norm = build.sub(total, build.div(build.mul(build.reduce_(build.mul(w, importance), (0,)), free), total))
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
    """[variables, observations] -> [variables, variables]: correlation coefficients, in [-1, 1]."""
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


# ---- histograms
def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """The edges of equally wide bins from the smallest to the largest element (or over `range`); given ones themselves.

    bins   a number, or the edges; a rule's name ("auto" ..) for concrete arrays
    """
    if isinstance(bins, str):
        data = host(a, "histogram_bin_edges", "give the number of bins")
        return from_host(np.histogram_bin_edges(data, bins, range).astype(dt.default_float().np))
    if isinstance(bins, int | np.integer):
        return _bin_edges(a, None if range is None else list(range), int(bins))
    return _as_floats(bins if isinstance(bins, Array) else np.asarray(bins))


@public()
def _as_floats(x: ArrayLike) -> Array:
    return Tracer(promoted(x, least=dt.default_float())[0][0])


@public(static=("bins",))
def _bin_edges(a: ArrayLike, span: Any, bins: int) -> Array:
    (x,), dtype, _ = promoted(a, least=dt.default_float())
    if span is not None:
        low, high = (build.cast(lift(v).node, dtype) for v in span)
    elif not x.size:
        low, high = build.const(0, dtype), build.const(1, dtype)
    else:
        low, high = (build.reduce_(x, range(x.ndim), op) for op in (Op.MIN, Op.MAX))
    same = build.eq(low, high)
    low, high = build.where(same, build.sub(low, 0.5), low), build.where(same, build.add(high, 0.5), high)
    shape = (bins + 1,)
    ramp = build.cast(build.iota(bins + 1), dtype)
    width = build.div(build.sub(high, low), bins)
    edges = build.add(build.broadcast_to(low, shape), build.mul(ramp, build.broadcast_to(width, shape)))
    last = build.eq(build.iota(bins + 1), bins)
    return Tracer(build.where(last, build.broadcast_to(high, shape), edges))


def _bin_of(x: UOp, edges: UOp) -> UOp:
    """int64: the bin of every element, -1 outside; the last bin includes its right edge."""
    n = edges.size - 1
    place = build.sub(count_before(edges, x, True), 1)
    first, last = (build.broadcast_to(build.reshape(build.slice_axis(edges, 0, k, k + 1), ()), x.shape) for k in (0, n))
    place = build.where(build.eq(x, last), build.const_like(n - 1, place), place)
    held = build.and_(build.le(first, x), build.le(x, last))
    return build.where(held, place, build.const_like(-1, place))


@public(static=("density",))
def _histogram(a: ArrayLike, edges: ArrayLike, weights: ArrayLike | None, density: bool) -> Array:
    (x, e), dtype, _ = promoted(a, edges, least=dt.default_float())
    flat = build.reshape(x, (x.size,))
    n = e.size - 1
    if weights is None:
        w = build.const(1, dt.int64, flat.shape)
    else:
        given = lift(weights).node
        if given.shape != x.shape:
            raise note_user_line(ShapeError(f"histogram: weights of shape {given.shape} for an array of {x.shape}"))
        w = build.reshape(given, (x.size,))
    counts = build.update(build.const(0, w.dtype, (n,)), w, mode=Mode.ADD, idx=_bin_of(flat, e))
    if not density:
        return Tracer(counts)
    wide = build.cast(counts, dtype)
    width = build.sub(build.slice_axis(e, 0, 1, n + 1), build.slice_axis(e, 0, 0, n))
    total = build.broadcast_to(build.reduce_(wide, (0,)), (n,))
    return Tracer(build.div(build.div(wide, width), total))


def histogram(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None
) -> tuple[Array, Array]:
    """(how many elements fall in each bin, the edges of the bins)."""
    edges = histogram_bin_edges(a, bins, range, weights)
    return _histogram(a, edges, weights, bool(density)), edges


@public(static=("density",))
def _histogramdd(columns: Any, edges: Any, weights: ArrayLike | None, density: bool) -> Array:
    pairs = [promoted(c, e, least=dt.default_float())[0] for c, e in zip(columns, edges, strict=True)]
    sizes = [e.size - 1 for _, e in pairs]
    place: UOp | None = None
    inside: UOp | None = None
    for (x, e), n in zip(pairs, sizes, strict=True):
        at = _bin_of(x, e)
        here = build.le(build.const_like(0, at), at)
        place = at if place is None else build.add(build.mul(place, n), at)
        inside = here if inside is None else build.and_(inside, here)
    assert place is not None and inside is not None
    place = build.where(inside, place, build.const_like(-1, place))
    kind = pairs[0][1].dtype
    w = build.const(1, kind, place.shape) if weights is None else build.cast(lift(weights).node, kind)
    counts = build.update(build.const(0, kind, (math.prod(sizes),)), w, mode=Mode.ADD, idx=place)
    out = build.reshape(counts, tuple(sizes))
    if density:
        out = build.div(out, build.broadcast_to(build.reduce_(out, range(out.ndim)), out.shape))
        for i, (_, e) in enumerate(pairs):
            width = build.sub(build.slice_axis(e, 0, 1, e.size), build.slice_axis(e, 0, 0, e.size - 1))
            out = build.div(out, build.expand(width, [(k, m) for k, m in enumerate(out.shape) if k != i]))
    return Tracer(out)


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None
) -> tuple[Array, list[Array]]:
    """(counts in every box, the edges along every axis) of points given as rows [n, d], or as d vectors."""
    if isinstance(sample, list | tuple):
        columns: list[Any] = list(sample)
    else:
        points = sample if isinstance(sample, Array) else from_host(np.asarray(sample))
        if points.ndim != 2:
            raise note_user_line(ShapeError(f"histogramdd takes points as rows [n, d], got shape {points.shape}"))
        columns = [points[:, k] for k in builtin_range(points.shape[1])]  # type: ignore[index]
    d = len(columns)
    each = [bins] * d if isinstance(bins, int | np.integer) else list(bins)
    spans = [None] * d if range is None else list(range)
    if len(each) != d or len(spans) != d:
        raise note_user_line(ArgumentError(f"histogramdd: {d} coordinates need as many entries in bins and range"))
    edges = [histogram_bin_edges(c, b, r) for c, b, r in zip(columns, each, spans, strict=True)]
    return _histogramdd(columns, edges, weights, bool(density)), edges


def builtin_range(n: int) -> Sequence[int]:
    """0 .. n-1 (`range` is an argument of the functions here)."""
    return [*map(int, np.arange(n))]


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(counts in every cell, the edges along x, those along y)."""
    if not isinstance(bins, int | np.integer) and (len(bins) != 2 or np.ndim(bins) == 1 and len(bins) > 2):
        bins = [bins, bins]
    counts, (first, second) = histogramdd([x, y], bins, range, weights, density)
    return counts, first, second


