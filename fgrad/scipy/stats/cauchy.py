"""The Cauchy distribution with median `loc` and half width `scale`."""

from __future__ import annotations

import math

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.stats.common import floats
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


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
