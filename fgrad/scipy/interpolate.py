"""Interpolation on grids under SciPy's names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import numpy as functions
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import as_array, public
from fgrad.numpy.searching import count_before
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, mul, sub, where
from fgrad.uop.node import UOp

__all__ = ["RegularGridInterpolator"]

_METHODS = ("linear", "nearest")


@public(static=("method", "extrapolate"))
def _at(points: Any, values: ArrayLike, xi: ArrayLike, fill: ArrayLike, method: str, extrapolate: bool) -> Array:
    nodes, dtype, _ = promoted(values, xi, *points, least=dt.default_float())
    table, queries, *axes = nodes
    k, lead = len(axes), queries.shape[:-1]
    outside = build.const(False, dt.bool_, lead)
    choices: list[list[tuple[UOp, UOp]]] = []  # along every axis (position, weight) of the neighbours
    for axis, grid in enumerate(axes):
        x = build.reshape(build.slice_axis(queries, queries.ndim - 1, axis, axis + 1), lead)
        n = grid.shape[0]
        first, last = (build.gather(grid, build.const(i, dt.int64, lead)) for i in (0, n - 1))
        outside = build.or_(outside, build.or_(build.lt(x, first), build.lt(last, x)))
        low = build.maximum(build.minimum(sub(count_before(grid, x, True), 1), n - 2), 0)
        high = build.minimum(add(low, 1), n - 1)
        x0, x1 = build.gather(grid, low), build.gather(grid, high)
        width = sub(x1, x0)
        flat = build.eq(width, 0)
        part = build.div(sub(x, x0), where(flat, build.const_like(1, width), width))
        if method == "nearest":
            choices.append([(where(build.le(part, 0.5), low, high), build.const_like(1, part))])
        else:
            choices.append([(low, sub(1, part)), (high, part)])
    rest = table.shape[k:]
    rows = build.reshape(table, (math.prod(table.shape[:k]), *rest))
    out = build.const(0, dtype, (*lead, *rest))
    for corner in itertools.product(*choices):
        place, weight = build.const(0, dt.int64, lead), build.const(1, dtype, lead)
        for (index, factor), n in zip(corner, table.shape[:k], strict=True):
            place, weight = add(mul(place, n), index), mul(weight, factor)
        wide = build.expand(weight, [(len(lead) + i, n) for i, n in enumerate(rest)])
        out = add(out, mul(build.gather(rows, place), wide))
    if extrapolate:
        return Tracer(out)
    beyond = build.expand(outside, [(len(lead) + i, n) for i, n in enumerate(rest)])
    return Tracer(where(beyond, build.broadcast_to(cast_node(fill, dtype), out.shape), out))


class RegularGridInterpolator:
    """The function through values on a grid, given by one ascending vector of coordinates for every axis.

    points         the coordinates: [n_0], [n_1], ..
    values         [n_0, n_1, .., *rest]
    method         "linear" or "nearest"
    bounds_error   True raises ValueError for positions outside of the grid, which must then be concrete
    fill_value     what the function is outside; None extrapolates

    >>> f = RegularGridInterpolator((np.arange(3.0), np.arange(2.0)), np.arange(6.0).reshape(3, 2))
    >>> f(np.array([[0.5, 0.5], [2.0, 1.0]]))
    Array([1.5, 5. ], dtype=float64)
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = math.nan,
    ) -> None:
        _check_method(method)
        self.grid = tuple([as_array(p) for p in points])
        self.values = as_array(values)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        if len(self.grid) > self.values.ndim:
            raise note_user_line(
                ShapeError(f"RegularGridInterpolator: {len(self.grid)} axes of points, {self.values.ndim} of values")
            )
        for i, p in enumerate(self.grid):
            if p.ndim != 1 or p.shape[0] != self.values.shape[i]:
                raise note_user_line(
                    ShapeError(
                        f"RegularGridInterpolator: axis {i} has {self.values.shape[i]} values, and points of shape "
                        f"{p.shape}"
                    )
                )

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The function at positions [.., k] (or a tuple of k arrays that broadcast), shaped [.., *rest]."""
        how = self.method if method is None else method
        _check_method(how)
        at = functions.stack(functions.broadcast_arrays(*xi), -1) if isinstance(xi, tuple) else as_array(xi)
        k = len(self.grid)
        if k == 1 and (at.ndim < 2 or at.shape[-1] != 1):
            at = functions.reshape(at, (*at.shape, 1))
        if not at.ndim or at.shape[-1] != k:
            raise note_user_line(
                ShapeError(f"RegularGridInterpolator: positions of shape {at.shape} for a grid with {k} axes")
            )
        if self.bounds_error:
            self._check_bounds(at)
        fill = 0.0 if self.fill_value is None else self.fill_value
        return _at(list(self.grid), self.values, at, fill, how, self.fill_value is None)

    def _check_bounds(self, at: Array) -> None:
        where_, places = np.asarray(at), [np.asarray(p) for p in self.grid]
        for i, p in enumerate(places):
            if p.size and ((where_[..., i] < p[0]) | (where_[..., i] > p[-1])).any():
                raise note_user_line(ValueError(f"a position is out of bounds in dimension {i}: {p[0]} to {p[-1]}"))


def _check_method(method: str) -> None:
    if method not in _METHODS:
        raise note_user_line(ArgumentError(f"method must be 'linear' or 'nearest', got {method!r}"))
