"""The Bernoulli distribution: `loc + 1` with probability `p`, else `loc`."""

from __future__ import annotations

from typing import Any

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import xlog1py, xlogy
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


def _valid(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


@public()
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`."""
    k, p, loc = floats("logpmf", k, p, loc)
    x = k - loc
    value = xlogy(x, p) + xlog1py(1 - x, -p)
    value = fnp.where((x == 0) | (x == 1), value, -INF)
    return fnp.where(_valid(p), value, fnp.nan)


@public()
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return fnp.exp(logpmf(k, p, loc))


@public()
def cdf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The distribution function."""
    k, p, loc = floats("cdf", k, p, loc)
    x = k - loc
    value = fnp.where(x < 0, 0.0, fnp.where(x < 1, 1 - p, 1.0))
    return fnp.where(_valid(p) & ~fnp.isnan(x), value, fnp.nan)


@public()
def ppf(q: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The inverse of cdf: the smallest value whose cdf reaches `q`; NaN for q outside 0..1."""
    q, p, loc = floats("ppf", q, p, loc)
    value = loc + fnp.where(q == 0, -1.0, fnp.where(q <= 1 - p, 0.0, 1.0))
    return fnp.where(_valid(p) & _valid(q), value, fnp.nan)


document(
    globals(),
    "0.25",
    "[0.0, 1.0]",
    cdf="[0.75, 1.  ]",
    logpmf="[-0.28768206, -1.3862944 ]",
    pmf="[0.75, 0.25]",
    ppf="[0., 0.]",
)

__all__ = ["cdf", "logpmf", "pmf", "ppf"]
