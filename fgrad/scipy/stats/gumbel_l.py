"""The left-skewed Gumbel distribution: the law of the smallest of many values."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.stats.common import document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, loc, scale = floats("logpdf", x, loc, scale)
    z = (x - loc) / scale
    return fnp.where(scale > 0, z - fnp.exp(z) - fnp.log(scale), fnp.nan)


@public()
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, loc, scale))


@public()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    x, loc, scale = floats("logsf", x, loc, scale)
    return fnp.where(scale > 0, -fnp.exp((x - loc) / scale), fnp.nan)


@public()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf."""
    return fnp.exp(logsf(x, loc, scale))


@public()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function, exact in the lower tail."""
    return -fnp.expm1(logsf(x, loc, scale))


@public()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return fnp.log(cdf(x, loc, scale))


@public()
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf; NaN for p outside 0..1."""
    p, loc, scale = floats("ppf", p, loc, scale)
    value = loc + scale * fnp.log(-fnp.log1p(-p))
    return fnp.where((p >= 0) & (p <= 1) & (scale > 0), value, fnp.nan)


document(
    globals(),
    "",
    "[-1.0, 0.5]",
    cdf="[0.30779937, 0.8077043 ]",
    logcdf="[-1.178307  , -0.21355921]",
    logpdf="[-1.3678794, -1.1487212]",
    logsf="[-0.36787945, -1.6487212 ]",
    pdf="[0.2546464 , 0.31704193]",
    ppf="[-1.2458994 ,  0.32663426]",
    sf="[0.6922006 , 0.19229566]",
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
