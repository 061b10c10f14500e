"""The generalized normal distribution, whose density falls as exp(-|x| ** beta)."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import gammainc, gammaln
from fgrad.scipy.stats.common import document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density."""
    x, beta = floats("logpdf", x, beta)
    return fnp.log(0.5 * beta) - gammaln(1 / beta) - fnp.abs(x) ** beta


@public()
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, beta))


@public()
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The distribution function."""
    x, beta = floats("cdf", x, beta)
    return 0.5 * (1 + fnp.sign(x) * gammainc(1 / beta, fnp.abs(x) ** beta))


document(
    globals(),
    "1.5",
    "[0.0, 2.0]",
    cdf="[0.5      , 0.9858804]",
    logpdf="[-0.5908323, -3.4192593]",
    pdf="[0.5538661 , 0.03273667]",
)

__all__ = ["cdf", "logpdf", "pdf"]
