"""The Laplace distribution: exponential to both sides of `loc`."""

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
    return -fnp.abs(x - loc) / scale - fnp.log(scale) - math.log(2)


@public()
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, loc, scale))


@public()
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, loc, scale = floats("cdf", x, loc, scale)
    z = (x - loc) / scale
    tail = 0.5 * fnp.exp(-fnp.abs(z))
    return fnp.where(z <= 0, tail, 1 - tail)


document(
    globals(),
    "0, 2.0",
    "[0.0, 1.0]",
    cdf="[0.5       , 0.69673467]",
    logpdf="[-1.3862944, -1.8862944]",
    pdf="[0.25      , 0.15163267]",
)

__all__ = ["cdf", "logpdf", "pdf"]
