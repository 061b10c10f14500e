"""The wrapped Cauchy distribution: angles 0 to 2 pi with concentration `c` in 0..1."""

from __future__ import annotations

import math

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density; NaN unless 0 < c < 1."""
    x, c = floats("logpdf", x, c)
    value = fnp.log1p(-c * c) - math.log(2 * math.pi) - fnp.log1p(c * c - 2 * c * fnp.cos(x))
    value = fnp.where((x >= 0) & (x <= 2 * math.pi), value, -INF)
    return fnp.where((c > 0) & (c < 1), value, fnp.nan)


@public()
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, c))


document(
    globals(),
    "0.25",
    "[0.0, 0.5]",
    logpdf="[-1.3270514, -1.4303437]",
    pdf="[0.26525825, 0.23922667]",
)

__all__ = ["logpdf", "pdf"]
