"""The chi-squared distribution with `df` degrees of freedom: gamma(df / 2) stretched by 2."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.stats import gamma
from fgrad.scipy.stats.common import document
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    return gamma.logpdf(x, fnp.divide(df, 2), loc, fnp.multiply(scale, 2))


@public()
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, df, loc, scale))


@public()
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return gamma.cdf(x, fnp.divide(df, 2), loc, fnp.multiply(scale, 2))


@public()
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return fnp.log(cdf(x, df, loc, scale))


@public()
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf, exact in the upper tail."""
    return gamma.sf(x, fnp.divide(df, 2), loc, fnp.multiply(scale, 2))


@public()
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    return fnp.log(sf(x, df, loc, scale))


document(
    globals(),
    "3",
    "[0.5, 2.0]",
    cdf="[0.08110859, 0.4275933 ]",
    logcdf="[-2.5119665, -0.8495828]",
    logpdf="[-1.5155121, -1.5723649]",
    logsf="[-0.08458731, -0.5579055 ]",
    pdf="[0.21969564, 0.20755376]",
    sf="[0.91889143, 0.5724067 ]",
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
