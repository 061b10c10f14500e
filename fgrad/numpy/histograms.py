"""Histograms: how many elements fall in each bin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import (
    from_host,
    host,
    lift,
    public,
)
from fgrad.numpy.joining import unstack
from fgrad.numpy.searching import count_before
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


# ---- histograms
def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None) -> Array:
    """The edges of equally wide bins from the smallest to the largest element (or over `range`).

    Edges that are given are returned themselves.

    bins   a number, or the edges; a rule's name ("auto" ..) for concrete arrays

    -> [bins + 1] floats.

    >>> histogram_bin_edges(array([0.0, 4.0]), 4)
    Array([0., 1., 2., 3., 4.], dtype=float32)
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
        low, high = (cast_node(v, dtype) for v in span)
    elif not x.size:
        low, high = build.const(0, dtype), build.const(1, dtype)
    else:
        low, high = (build.reduce_(x, range(x.ndim), op) for op in (Op.MIN, Op.MAX))
    same = build.eq(low, high)
    low, high = (
        build.where(same, build.sub(low, 0.5), low),
        build.where(same, build.add(high, 0.5), high),
    )
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
    a: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """(how many elements fall in each bin, the edges of the bins).

    bins   a number (or a rule's name for concrete arrays), or ascending edges; the last bin has both of its edges
    weights   shaped as `a`, counted instead of 1; density   counts become a density whose integral is 1

    >>> histogram(array([1, 2, 2, 5]), bins=array([0, 2, 4, 6]))
    (Array([1, 2, 1], dtype=int64), Array([0., 2., 4., 6.], dtype=float32))
    """
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
    w = build.const(1, kind, place.shape) if weights is None else cast_node(weights, kind)
    counts = build.update(build.const(0, kind, (math.prod(sizes),)), w, mode=Mode.ADD, idx=place)
    out = build.reshape(counts, tuple(sizes))
    if density:
        out = build.div(out, build.broadcast_to(build.reduce_(out, range(out.ndim)), out.shape))
        for i, (_, e) in enumerate(pairs):
            width = build.sub(build.slice_axis(e, 0, 1, e.size), build.slice_axis(e, 0, 0, e.size - 1))
            out = build.div(out, build.expand(width, [(k, m) for k, m in enumerate(out.shape) if k != i]))
    return Tracer(out)


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """The counts of points in boxes, and the edges of the boxes along every axis, as a pair.

    Points are rows [n, d], or d vectors.

    sample    float[n, d], or d arrays float[n]
    bins      how many along every axis; or for each axis a number, or its edges, ascending
    range     for each axis (low, high), or None: from its smallest to its largest value
    weights   [n]: what each point counts
    density   divides by the total and by the volume of the box

    Raises ShapeError for points that are no rows, ArgumentError where `bins` or `range` do not fit their number.

    >>> points = fnp.array([[0.0, 0.0], [0.2, 0.9], [1.0, 1.0]])
    >>> counts, edges = fnp.histogramdd(points, bins=2)
    >>> counts
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    >>> edges[0]
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    if isinstance(sample, list | tuple):
        columns: list[Any] = list(sample)
    else:
        points = sample if isinstance(sample, Array) else from_host(np.asarray(sample))
        if points.ndim != 2:
            raise note_user_line(ShapeError(f"histogramdd takes points as rows [n, d], got shape {points.shape}"))
        columns = list(unstack(points, axis=1))
    d = len(columns)
    each = [bins] * d if isinstance(bins, int | np.integer) else list(bins)
    spans = [None] * d if range is None else list(range)
    if len(each) != d or len(spans) != d:
        raise note_user_line(ArgumentError(f"histogramdd: {d} coordinates need as many entries in bins and range"))
    edges = [histogram_bin_edges(c, b, r) for c, b, r in zip(columns, each, spans, strict=True)]
    return _histogramdd(columns, edges, weights, bool(density)), edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """(counts in every cell, the edges along x, those along y).

    bins   a number or edges for both, or a pair of these

    >>> histogram2d(array([0.0, 1.0, 1.0]), array([0.0, 1.0, 2.0]), bins=2)[0]
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    if not isinstance(bins, int | np.integer) and len(bins) > 2:  # edges for both
        bins = [bins, bins]
    counts, (first, second) = histogramdd([x, y], bins, range, weights, density)
    return counts, first, second
