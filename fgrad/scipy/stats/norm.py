"""The normal distribution with mean `loc` and standard deviation `scale`."""

from __future__ import annotations

import math

from fgrad import numpy as functions
from fgrad.numpy.common import common, need, public
from fgrad.scipy import special
from fgrad.scipy.stats.common import document
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop import dtype as dt


def _standard(x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> Array:
    return functions.divide(functions.subtract(x, loc), scale)


@public()
def logpdf(x: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """The logarithm of the density."""
    (v, m, s), dtype, weak = common("logpdf", x, loc, scale, least=dt.default_float())
    need(dtype.is_float, "logpdf", f"it is defined for real numbers, not for {dtype}")
    z = build.div(build.sub(v, m), s)
    constant = 0.5 * math.log(2 * math.pi)
    return Tracer(build.sub(build.mul(build.mul(z, z), -0.5), build.add(build.log(s), constant)), weak)


@public()
def pdf(x: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """The density."""
    return functions.exp(logpdf(x, loc, scale))


@public()
def cdf(x: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """The distribution function."""
    return special.ndtr(_standard(x, loc, scale))


@public()
def logcdf(x: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """The logarithm of the distribution function."""
    return special.log_ndtr(_standard(x, loc, scale))


@public()
def sf(x: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """1 - cdf, exact in the upper tail."""
    return special.ndtr(functions.negative(_standard(x, loc, scale)))


@public()
def logsf(x: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """The logarithm of 1 - cdf."""
    return special.log_ndtr(functions.negative(_standard(x, loc, scale)))


@public()
def ppf(q: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """The inverse of cdf."""
    return functions.add(functions.multiply(special.ndtri(q), scale), loc)


@public()
def isf(q: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Array:
    """The inverse of sf."""
    return functions.subtract(loc, functions.multiply(special.ndtri(q), scale))


document(
    globals(),
    "1.0, 2.0",
    "[0.0, 1.5]",
    cdf="[0.30853754, 0.5987063 ]",
    isf="[ 2.3489795 , -0.34897947]",
    logcdf="[-1.1759118, -0.5129841]",
    logpdf="[-1.7370857, -1.6433357]",
    logsf="[-0.3689464 , -0.91306174]",
    pdf="[0.17603266, 0.19333406]",
    ppf="[-0.34897947,  2.3489795 ]",
    sf="[0.69146246, 0.40129367]",
)

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
