"""The Cauchy distribution with median `loc` and half width `scale`."""

from __future__ import annotations

import math

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
    return -fnp.log1p(z * z) - fnp.log(scale) - math.log(math.pi)


@public()
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, loc, scale))


@public()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function, exact in the lower tail."""
    x, loc, scale = floats("cdf", x, loc, scale)
    return fnp.arctan2(fnp.ones_like(x), -(x - loc) / scale) / math.pi


@public()
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return fnp.log(cdf(x, loc, scale))


@public()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf, exact in the upper tail."""
    x, loc, scale = floats("sf", x, loc, scale)
    return cdf(-x, -loc, scale)


@public()
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    return fnp.log(sf(x, loc, scale))


@public()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf."""
    q, loc, scale = floats("ppf", q, loc, scale)
    return loc + scale * fnp.tan(math.pi * (q - 0.5))


@public()
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of sf."""
    q, loc, scale = floats("isf", q, loc, scale)
    return loc + scale * fnp.tan(math.pi * (0.5 - q))


document(
    globals(),
    "",
    "[0.0, 2.0]",
    cdf="[0.5      , 0.8524164]",
    isf="[ 1., -1.]",
    logcdf="[-0.6931472 , -0.15968014]",
    logpdf="[-1.1447299, -2.7541678]",
    logsf="[-0.6931472, -1.9133604]",
    pdf="[0.3183099 , 0.06366198]",
    ppf="[-1.,  1.]",
    sf="[0.5       , 0.14758362]",
)

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
