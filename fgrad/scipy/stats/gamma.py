"""The gamma distribution with shape `a`, from `loc` on, stretched by `scale`."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import gammainc, gammaincc, gammaln, xlogy
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, a, loc, scale = floats("logpdf", x, a, loc, scale)
    z = (x - loc) / scale
    outside = z < 0
    safe = fnp.where(outside, 1.0, z)
    value = xlogy(a - 1, safe) - safe - gammaln(a) - fnp.log(scale)
    return fnp.where(outside, -INF, value)


@public()
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, a, loc, scale))


@public()
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, a, loc, scale = floats("cdf", x, a, loc, scale)
    return gammainc(a, fnp.maximum((x - loc) / scale, 0))


@public()
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return fnp.log(cdf(x, a, loc, scale))


@public()
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf, exact in the upper tail."""
    x, a, loc, scale = floats("sf", x, a, loc, scale)
    return gammaincc(a, fnp.maximum((x - loc) / scale, 0))


@public()
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    return fnp.log(sf(x, a, loc, scale))


document(
    globals(),
    "2.0",
    "[0.5, 2.0]",
    cdf="[0.09020401, 0.59399414]",
    logcdf="[-2.4056814, -0.5208858]",
    logpdf="[-1.1931472, -1.3068528]",
    logsf="[-0.09453488, -0.9013877 ]",
    pdf="[0.30326533, 0.27067056]",
    sf="[0.909796  , 0.40600586]",
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
