"""Images of any rank under SciPy's names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import as_array, broadcast, lift, public
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, mul, sub, where
from fgrad.uop.node import UOp

__all__ = ["map_coordinates"]


def _mirrored(i: UOp, n: int) -> UOp:
    """.. 2 1 0 1 2 .. n-1 n-2 .."""
    period = max(2 * n - 2, 1)
    at = build.mod(i, period)
    return build.minimum(at, sub(period, at)) if n > 1 else build.zeros_like(i)


def _reflected(i: UOp, n: int) -> UOp:
    """.. 1 0 0 1 .. n-1 n-1 n-2 .."""
    at = build.mod(i, 2 * n)
    return build.minimum(at, sub(2 * n - 1, at))


_MODES: dict[str, Callable[[UOp, int], UOp]] = {
    "constant": lambda i, n: i,
    "nearest": lambda i, n: build.maximum(build.minimum(i, n - 1), 0),
    "wrap": build.mod,
    "mirror": _mirrored,
    "reflect": _reflected,
}


def map_coordinates(
    input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant", cval: ArrayLike = 0.0
) -> Array:
    """`input` at positions between its elements: an array of coordinates for each axis, all of one shape -> that shape.

    order   0: the nearest element; 1: linear interpolation
    mode    what is beyond the edges: "constant" (cval), "nearest", "wrap" (period n), "mirror" (period 2 n - 2) or
            "reflect" (period 2 n)

    Integers are rounded. Differentiable in `input` and, with order 1, in `coordinates`.

    >>> map_coordinates(fnp.array([0.0, 10.0, 20.0]), [fnp.array([0.5, 1.25])], 1)
    Array([ 5. , 12.5], dtype=float32)
    """
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates requires order<=1, got {order}; splines are not there")
    if mode not in _MODES:
        raise NotImplementedError(f"map_coordinates does not yet support mode {mode!r}; use one of {', '.join(_MODES)}")
    rank = np.ndim(input)
    if len(coordinates) != rank:
        raise note_user_line(
            ShapeError(
                f"map_coordinates: coordinates must be a sequence of length {rank} (input.ndim), got {len(coordinates)}"
            )
        )
    return _mapped(input, [as_array(c) for c in coordinates], cval, order, mode)


@public(static=("order", "mode"))
def _mapped(input: ArrayLike, coordinates: Sequence[ArrayLike], cval: ArrayLike, order: int, mode: str) -> Array:
    t = lift(input)
    x = t.node
    places = [lift(c).node for c in coordinates]
    places = broadcast("map_coordinates", *places) if places else []
    shape = places[0].shape if places else ()
    wide = dt.float64 if x.dtype.is_int else x.dtype
    # along every axis: (position, whether it lies in the array, its weight) of the neighbours
    neighbours: list[list[tuple[UOp, UOp, UOp]]] = []
    for c, n in zip(places, x.shape, strict=True):
        position = c if c.dtype.is_float else build.cast(c, dt.float64)
        if order == 0:
            options: list[tuple[UOp, UOp | None]] = [(build.floor(add(position, 0.5)), None)]
        else:
            below = build.floor(position)
            above = sub(position, below)
            options = [(below, sub(1, above)), (add(below, 1), above)]
        entries = []
        for value, weight in options:
            index = build.cast(value, dt.int64)
            inside = build.and_(build.le(0, index), build.lt(index, n))
            factor = build.const(1, wide, shape) if weight is None else build.cast(weight, wide)
            entries.append((_MODES[mode](index, n), inside, factor))
        neighbours.append(entries)
    filler = build.broadcast_to(cast_node(cval, x.dtype), shape)
    flat = build.reshape(x, (x.size,))
    total = build.const(0, wide, shape)
    for corner in itertools.product(*neighbours):
        at, weight = build.const(0, dt.int64, shape), build.const(1, wide, shape)
        is_in = build.const(True, dt.bool_, shape)
        for (index, inside, factor), n in zip(corner, x.shape, strict=True):
            at, weight, is_in = add(mul(at, n), index), mul(weight, factor), build.and_(is_in, inside)
        if mode == "constant":
            value = where(is_in, build.gather(flat, where(is_in, at, build.zeros_like(at))), filler)
        else:
            value = build.gather(flat, at)
        total = add(total, mul(build.cast(value, wide), weight))
    if x.dtype.is_int:  # halves away from 0
        sign = where(build.lt(total, 0), build.const_like(-1, total), build.const_like(1, total))
        total = mul(build.floor(add(build.abs_(total), 0.5)), sign)
    return Tracer(build.cast(total, x.dtype), t.weak)

trim_public(globals(), __all__)
