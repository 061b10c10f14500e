"""The geometric distribution: trials of probability `p` up to the first success."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import xlog1py
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`."""
    k, p, loc = floats("logpmf", k, p, loc)
    x = k - loc
    return fnp.where(x <= 0, -INF, xlog1py(x - 1, -p) + fnp.log(p))


@public()
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return fnp.exp(logpmf(k, p, loc))


document(
    globals(),
    "0.25",
    "[1.0, 3.0]",
    logpmf="[-1.3862944, -1.9616585]",
    pmf="[0.25    , 0.140625]",
)

__all__ = ["logpmf", "pmf"]
