"""What the distributions share: parameters brought to one floating dtype and shape, and what their docstrings say."""

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


_COMMON = """

All arguments broadcast together; the result has their shape and common floating dtype, float32 where all are whole
numbers. Raises DtypeError for complex numbers and ShapeError where shapes do not broadcast.

>>> {distribution}.{function}(fnp.array({points}){parameters})
Array({result}, dtype=float32)
"""


def document(module: dict[str, Any], parameters: str, at: str, **results: str) -> None:
    """Add to the docstrings of a distribution's functions what they all say, and to each its example.

    module       `globals()` of the distribution
    parameters   those of the examples, as text: "2.0, 3.0"
    at           the points of the examples; the inverse functions are shown at two probabilities
    results      by function, what its example prints
    """
    for function, result in results.items():
        points = "[0.25, 0.75]" if function in ("ppf", "isf") else at
        module[function].__doc__ = (module[function].__doc__ or "") + _COMMON.format(
            distribution=module["__name__"].rpartition(".")[2],
            function=function,
            points=points,
            parameters=f", {parameters}" if parameters else "",
            result=result,
        )


__all__ = ["INF", "document", "floats", "inside", "whole"]
