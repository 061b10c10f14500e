"""The beta distribution with shapes `a` and `b` on `loc` to `loc + scale`."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import betainc, betaln, xlog1py, xlogy
from fgrad.scipy.stats.common import INF, document, floats, inside
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    x, a, b, loc, scale = floats("logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    within = (z >= 0) & (z <= 1)
    safe = fnp.where(within, z, 0.5)
    value = xlogy(a - 1, safe) + xlog1py(b - 1, -safe) - betaln(a, b) - fnp.log(scale)
    value = inside(within | fnp.isnan(z), value, -INF)
    return fnp.where((a > 0) & (b > 0) & (scale > 0) & ~fnp.isnan(z), value, fnp.nan)


@public()
def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, a, b, loc, scale))


@public()
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    x, a, b, loc, scale = floats("cdf", x, a, b, loc, scale)
    return betainc(a, b, fnp.clip((x - loc) / scale, 0, 1))


@public()
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return fnp.log(cdf(x, a, b, loc, scale))


@public()
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf, exact in the upper tail."""
    x, a, b, loc, scale = floats("sf", x, a, b, loc, scale)
    return betainc(b, a, fnp.clip(1 - (x - loc) / scale, 0, 1))


@public()
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of 1 - cdf."""
    return fnp.log(sf(x, a, b, loc, scale))


document(
    globals(),
    "2.0, 3.0",
    "[0.25, 0.5]",
    cdf="[0.26171875, 0.6875    ]",
    logcdf="[-1.3404849 , -0.37469345]",
    logpdf="[0.5232482 , 0.40546513]",
    logsf="[-0.30343044, -1.1631508 ]",
    pdf="[1.6875001, 1.5      ]",
    sf="[0.73828125, 0.3125    ]",
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
