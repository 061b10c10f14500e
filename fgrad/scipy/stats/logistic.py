"""The logistic distribution, whose distribution function is expit."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import expit, logit
from fgrad.scipy.stats.common import document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, loc, scale = floats("logpdf", x, loc, scale)
    z = fnp.abs(x - loc) / scale  # the density is even; so the exponential never overflows
    return -z - 2 * fnp.log1p(fnp.exp(-z)) - fnp.log(scale)


@public()
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, loc, scale))


@public()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = floats("cdf", x, loc, scale)
    return expit((x - loc) / scale)


@public()
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf, exact in the upper tail."""
    x, loc, scale = floats("sf", x, loc, scale)
    return expit(-(x - loc) / scale)


@public()
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf."""
    q, loc, scale = floats("ppf", q, loc, scale)
    return loc + scale * logit(q)


@public()
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of sf."""
    q, loc, scale = floats("isf", q, loc, scale)
    return loc - scale * logit(q)


document(
    globals(),
    "",
    "[0.0, 2.0]",
    cdf="[0.5      , 0.8807971]",
    isf="[ 1.0986123, -1.0986123]",
    logpdf="[-1.3862944, -2.253856 ]",
    pdf="[0.25     , 0.1049936]",
    ppf="[-1.0986123,  1.0986123]",
    sf="[0.5       , 0.11920292]",
)

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
