"""pad: more elements around an array, in all of NumPy's modes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, note_user_line
from fgrad.numpy.common import lift, public
from fgrad.numpy.moments import mean_node
from fgrad.numpy.repeating import take_static
from fgrad.numpy.statistics import median
from fgrad.trace.arraylike import Array
from fgrad.trace.stage import stages
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, is_scalar
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__ = ["pad"]

_OPTIONS = {
    "constant": "constant_values", "linear_ramp": "end_values", "maximum": "stat_length",
    "minimum": "stat_length",
    "mean": "stat_length", "median": "stat_length", "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "edge": None, "wrap": None, "empty": None,
}  # fmt: skip


def _pairs(x: Any, rank: int, name: str) -> list[tuple[Any, Any]]:
    """Pairs for every axis from a number, (before, after), one pair, or a pair for each."""
    if isinstance(x, dict):
        out: list[tuple[Any, Any]] = [(0, 0)] * rank
        for axis, pair in x.items():
            out[axis] = tuple(pair) if isinstance(pair, tuple | list) else (pair, pair)
        return out
    if isinstance(x, np.ndarray):
        x = x.tolist()
    if not isinstance(x, list | tuple):
        return [(x, x)] * rank
    if x and not any(isinstance(p, list | tuple) for p in x):
        if len(x) == 1:
            return [(x[0], x[0])] * rank
        if len(x) == 2:
            return [(x[0], x[1])] * rank
    rows = [tuple(p) if isinstance(p, list | tuple) else (p, p) for p in x]
    rows = [(p[0], p[0]) if len(p) == 1 else p for p in rows]
    if len(rows) == 1:
        rows = rows * rank
    if len(rows) != rank or any(len(p) != 2 for p in rows):
        raise note_user_line(ArgumentError(f"pad: {name}={x!r} does not give a pair for each of {rank} axes"))
    return [(p[0], p[1]) for p in rows]


def _beside(x: UOp, low: UOp, high: UOp, axis: int) -> UOp:
    return (
        build.concatenate([p for p in (low, x, high) if p.shape[axis]], axis) if x.size or low.size or high.size else x
    )


def _spread(x: UOp, n: int, axis: int) -> UOp:
    """A slice of size 1, n times."""
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    return build.broadcast_to(x, shape)


def _mirror(x: UOp, widths: tuple[int, int], axis: int, mode: str, odd: bool) -> UOp:
    """reflect and symmetric: even ones pick elements, odd ones continue through the edge."""
    n = x.shape[axis]
    padded: Any = np.pad
    positions = [int(i) for i in padded(np.arange(n), widths, mode=mode)]
    if not odd:
        return take_static(x, positions, axis)
    # every new element is sign * mirrored + a multiple of each edge: NumPy's own padding of
    # unit vectors tells which
    mirrored = take_static(x, positions, axis)
    own = padded(np.eye(n), (widths, (0, 0)), mode=mode, reflect_type="odd")  # rows: weights of x's elements
    weights = [own[:, k] for k in range(n)]
    sign = np.where(own[np.arange(len(own)), positions] < 0, -1, 1)
    edges = [
        weights[0] - sign * (np.asarray(positions) == 0),
        weights[n - 1] - sign * (np.asarray(positions) == n - 1),
    ]
    if n == 1:
        edges = [weights[0] - sign, np.zeros(len(own))]

    def along(values: Any) -> UOp:
        node = cast_node(np.asarray(values, np.int64), x.dtype)
        return build.expand(node, [(i, m) for i, m in enumerate(mirrored.shape) if i != axis])

    out = build.mul(mirrored, along(sign))
    for k, extra in ((0, edges[0]), (n - 1, edges[1])):
        if np.any(extra):
            part = _spread(build.slice_axis(x, axis, k, k + 1), len(own), axis)
            out = build.add(out, build.mul(part, along(extra)))
    return out


def _ramp(x: UOp, end: UOp, n: int, axis: int, before: bool) -> UOp:
    """n elements from `end` linearly to the edge (excluded), or back; integers are rounded down."""
    size = x.shape[axis]
    edge = build.slice_axis(x, axis, 0, 1) if before else build.slice_axis(x, axis, size - 1, size)
    wide = dt.float64 if not x.dtype.is_inexact else dt.accumulator(x.dtype)
    k = build.cast(build.iota(n), wide)
    k = k if before else build.sub(build.const_like(n - 1, k), k)
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    k = build.expand(k, [(i, m) for i, m in enumerate(shape) if i != axis])
    first = build.broadcast_to(build.cast(end, wide), shape)
    step = build.div(build.sub(_spread(build.cast(edge, wide), n, axis), first), max(n, 1))
    out = build.add(first, build.mul(k, step))
    return build.cast(out if x.dtype.is_inexact else build.floor(out), x.dtype)


def _statistic(x: UOp, axis: int, mode: str) -> UOp:
    """One slice that sums the given ones up."""
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if mode in ("maximum", "minimum"):
        return build.reshape(build.reduce_(x, (axis,), Op.MAX if mode == "maximum" else Op.MIN), shape)
    wide = build.cast(x, dt.default_float() if not x.dtype.is_inexact else dt.accumulator(x.dtype))
    y = mean_node(wide, (axis,), True) if mode == "mean" else lift(median(Tracer(wide), axis, keepdims=True)).node
    return build.cast(y if x.dtype.is_inexact else build.round_(y), x.dtype)


@public(static=("widths", "mode", "lengths", "odd"))
def _pad(x: ArrayLike, values: Any, widths: Any, mode: str, lengths: Any, odd: bool) -> Array:
    t = lift(x)
    y = t.node
    if mode == "empty" or (mode == "constant" and values is None):
        return Tracer(build.pad(y, [(low, high, 0) for low, high in widths]), t.weak)
    for axis, (low, high) in enumerate(widths):
        n = y.shape[axis]
        if not (low or high):
            continue
        if mode == "constant" or mode == "linear_ramp":
            ends = [cast_node(v, y.dtype) for v in values[axis]]
            if mode == "constant":
                parts = [build.broadcast_to(e, (*y.shape[:axis], k, *y.shape[axis + 1 :]))
                         for e, k in zip(ends, (low, high), strict=True)]  # fmt: skip
            else:
                parts = [_ramp(y, e, k, axis, b) for e, k, b in zip(ends, (low, high), (True, False), strict=True)]
            y = _beside(y, parts[0], parts[1], axis)
            continue
        if not n:
            raise note_user_line(ValueError(f"pad: axis {axis} is empty, so mode {mode!r} has nothing to take from"))
        if mode == "edge":
            first, last = build.slice_axis(y, axis, 0, 1), build.slice_axis(y, axis, n - 1, n)
            y = _beside(y, _spread(first, low, axis), _spread(last, high, axis), axis)
        elif mode == "wrap":
            y = take_static(y, [i % n for i in range(-low, n + high)], axis)
        elif mode in ("reflect", "symmetric"):
            y = _mirror(y, (low, high), axis, mode, odd)
        else:
            reach = [n if m is None else min(m, n) for m in (lengths[axis] if lengths else (None, None))]
            first = _statistic(build.slice_axis(y, axis, 0, reach[0]), axis, mode)
            last = _statistic(build.slice_axis(y, axis, n - reach[1], n), axis, mode)
            y = _beside(y, _spread(first, low, axis), _spread(last, high, axis), axis)
    return Tracer(y, t.weak)


def pad(array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Array:
    """The array with (before, after) more elements along every axis.

    pad_width   a number, (before, after), or a pair for each axis
    mode        "constant" (constant_values=0), "edge", "reflect", "symmetric"
                (reflect_type="even"), "wrap",
                "linear_ramp" (end_values=0), "maximum", "minimum", "mean", "median"
                (stat_length=None), "empty" (zeros),
                or a function as numpy.pad takes (concrete arrays only)

    >>> pad(array([1, 2]), 1)
    Array([0, 1, 2, 0], dtype=int64)
    """
    if callable(mode):
        data = array.concrete() if isinstance(array, Array) else np.asarray(array)
        return (
            lift(np.pad(data, pad_width, mode, **kwargs))
            if stages()
            else _copy(np.pad(data, pad_width, mode, **kwargs))
        )
    if mode not in _OPTIONS:
        raise ValueError(f"pad: mode must be one of {', '.join(_OPTIONS)}, got {mode!r}")
    unknown = set(kwargs) - {_OPTIONS[mode]}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise note_user_line(ValueError(f"pad: unsupported keyword arguments for mode {mode!r}: {names}"))
    rank = array.ndim if isinstance(array, Array) else np.ndim(array)
    widths = tuple([(operator.index(a), operator.index(b)) for a, b in _pairs(pad_width, rank, "pad_width")])
    if any(w < 0 for pair in widths for w in pair):
        raise note_user_line(ValueError(f"pad: widths must not be negative, got {pad_width}"))
    values = None
    if mode == "linear_ramp":
        values = _pairs(kwargs.get("end_values", 0), rank, "end_values")
    elif mode == "constant":
        given = kwargs.get("constant_values", 0)
        plain_zero = is_scalar(given) and not isinstance(given, np.generic) and given == 0
        values = None if plain_zero else _pairs(given, rank, "constant_values")
    length = kwargs.get("stat_length")
    lengths = None if length is None else tuple(_pairs(length, rank, "stat_length"))
    return _pad(array, values, widths, mode, lengths, kwargs.get("reflect_type", "even") == "odd")


@public()
def _copy(x: ArrayLike) -> Array:
    t = lift(x)
    return Tracer(t.node, t.weak)
