"""Student's t distribution with `df` degrees of freedom."""

from __future__ import annotations

import math

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import gammaln
from fgrad.scipy.stats.common import document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, df, loc, scale = floats("logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    half = (df + 1) / 2
    constant = gammaln(half) - gammaln(df / 2) - 0.5 * fnp.log(df * math.pi) - fnp.log(scale)
    return constant - half * fnp.log1p(z * z / df)


@public()
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, df, loc, scale))


document(
    globals(),
    "4",
    "[0.0, 2.0]",
    logpdf="[-0.98082924, -2.7136972 ]",
    pdf="[0.375     , 0.06629126]",
)

__all__ = ["logpdf", "pdf"]
