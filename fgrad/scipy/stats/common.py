"""What the distributions share: parameters brought to one floating dtype and shape."""

from __future__ import annotations

import math
from typing import Any

from fgrad import numpy as fnp
from fgrad.numpy.common import common, need
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import dtype as dt

INF = math.inf


def floats(name: str, *xs: ArrayLike) -> list[Any]:
    """The arguments as arrays of one real floating dtype and one shape.

    Raises DtypeError for complex numbers and ShapeError for shapes that do not broadcast.
    """
    nodes, dtype, weak = common(name, *xs, least=dt.default_float())
    need(dtype.is_float, name, f"it is defined for real numbers, not for {dtype}")
    return [Tracer(n, weak) for n in nodes]


def inside(condition: Any, value: Any, outside: float) -> Any:
    """`value` where `condition` holds, else the constant `outside`; NaN in `value` stays NaN."""
    return fnp.where(fnp.logical_or(condition, fnp.isnan(value)), value, outside)


def whole(k: Any) -> Any:
    """Where `k` is an integer."""
    return fnp.equal(k, fnp.floor(k))


__all__ = ["INF", "floats", "inside", "whole"]
