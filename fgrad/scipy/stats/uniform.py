"""The uniform distribution on `loc` to `loc + scale`."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, loc, scale = floats("logpdf", x, loc, scale)
    return fnp.where((x < loc) | (x > loc + scale), -INF, -fnp.log(scale))


@public()
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, loc, scale))


@public()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = floats("cdf", x, loc, scale)
    return fnp.clip((x - loc) / scale, 0, 1)


@public()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf; NaN for q outside 0..1."""
    q, loc, scale = floats("ppf", q, loc, scale)
    return fnp.where((q < 0) | (q > 1), fnp.nan, q * scale + loc)


document(
    globals(),
    "0, 2.0",
    "[0.75, 3.0]",
    cdf="[0.375, 1.   ]",
    logpdf="[-0.6931472,       -inf]",
    pdf="[0.5, 0. ]",
    ppf="[0.5, 1.5]",
)

__all__ = ["cdf", "logpdf", "pdf", "ppf"]
