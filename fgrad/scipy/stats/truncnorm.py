"""The normal distribution cut off at `a` and `b` standard deviations from `loc`."""

from __future__ import annotations

from typing import Any

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import log_ndtr
from fgrad.scipy.stats import norm
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


def _log_difference(high: Any, low: Any) -> Any:
    """log(exp(high) - exp(low)), for low <= high."""
    step = fnp.where(high == low, -INF, low - high)
    return high + fnp.log1p(-fnp.exp(step))


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability between `a` and `b`, each taken from the nearer tail."""
    upper = a > 0  # mirror an interval to the right of 0, where the distribution function is near 1
    low = fnp.where(upper, -b, a)
    high = fnp.where(upper, -a, b)
    return _log_difference(log_ndtr(high), log_ndtr(low))


@public()
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, a, b, loc, scale = floats("logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    value = norm.logpdf(z) - _log_mass(a, b) - fnp.log(scale)
    value = fnp.where((z < a) | (z > b), -INF, value)
    return fnp.where(a >= b, fnp.nan, value)


@public()
def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, a, b, loc, scale))


@public()
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    x, a, b, loc, scale = floats("logcdf", x, a, b, loc, scale)
    z = fnp.clip((x - loc) / scale, a, b)
    value = fnp.minimum(_log_mass(a, z) - _log_mass(a, b), 0)
    value = fnp.where(z <= a, -INF, fnp.where(z >= b, 0.0, value))
    return fnp.where(a >= b, fnp.nan, value)


@public()
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return fnp.exp(logcdf(x, a, b, loc, scale))


@public()
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    x, a, b, loc, scale = floats("logsf", x, a, b, loc, scale)
    return logcdf(-x, -b, -a, -loc, scale)


@public()
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf."""
    return fnp.exp(logsf(x, a, b, loc, scale))


document(
    globals(),
    "-1.0, 2.0",
    "[0.0, 1.5]",
    cdf="[0.41698873, 0.9461796 ]",
    logcdf="[-0.8746961 , -0.05532286]",
    logpdf="[-0.71877223, -1.8437724 ]",
    logsf="[-0.5395488, -2.9221032]",
    pdf="[0.48735026, 0.15821943]",
    sf="[0.5830112 , 0.05382038]",
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
