"""The Pareto distribution with exponent `b`, from `loc + scale` on."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, b, loc, scale = floats("logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    safe = fnp.where(z < 1, 1.0, z)
    return fnp.where(z < 1, -INF, fnp.log(b / scale) - (b + 1) * fnp.log(safe))


@public()
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, b, loc, scale))


@public()
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    x, b, loc, scale = floats("logsf", x, b, loc, scale)
    return -b * fnp.log(fnp.maximum((x - loc) / scale, 1))


@public()
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf, exact in the upper tail."""
    return fnp.exp(logsf(x, b, loc, scale))


@public()
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return -fnp.expm1(logsf(x, b, loc, scale))


@public()
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return fnp.log(cdf(x, b, loc, scale))


@public()
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of cdf; NaN for q outside 0..1."""
    q, b, loc, scale = floats("ppf", q, b, loc, scale)
    value = loc + scale * fnp.exp(-fnp.log1p(-q) / b)
    return fnp.where((q >= 0) & (q <= 1), value, fnp.nan)


document(
    globals(),
    "3.0",
    "[1.5, 2.0]",
    cdf="[0.7037037, 0.875    ]",
    logcdf="[-0.35139787, -0.13353139]",
    logpdf="[-0.5232481, -1.6739764]",
    logsf="[-1.2163953, -2.0794415]",
    pdf="[0.59259266, 0.1875    ]",
    ppf="[1.1006424, 1.587401 ]",
    sf="[0.29629633, 0.125     ]",
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
