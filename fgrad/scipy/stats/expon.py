"""The exponential distribution, from `loc` on, with mean `loc + scale`."""

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
    z = (x - loc) / scale
    return fnp.where(z < 0, -INF, -z - fnp.log(scale))


@public()
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, loc, scale))


@public()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = floats("cdf", x, loc, scale)
    return -fnp.expm1(fnp.minimum(-(x - loc) / scale, 0))


@public()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return fnp.log(cdf(x, loc, scale))


@public()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf, exact in the upper tail."""
    return fnp.exp(logsf(x, loc, scale))


@public()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    x, loc, scale = floats("logsf", x, loc, scale)
    return fnp.minimum(-(x - loc) / scale, 0)


@public()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf; NaN for q outside 0..1."""
    q, loc, scale = floats("ppf", q, loc, scale)
    value = loc - scale * fnp.log1p(-q)
    return fnp.where((q >= 0) & (q <= 1), value, fnp.nan)


document(
    globals(),
    "0, 2.0",
    "[0.5, 2.0]",
    cdf="[0.22119921, 0.63212055]",
    logcdf="[-1.5086915 , -0.45867515]",
    logpdf="[-0.9431472, -1.6931472]",
    logsf="[-0.25, -1.  ]",
    pdf="[0.3894004 , 0.18393973]",
    ppf="[0.5753641, 2.7725887]",
    sf="[0.7788008 , 0.36787945]",
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
