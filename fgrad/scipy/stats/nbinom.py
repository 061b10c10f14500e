"""The negative binomial distribution: failures before success number `n` of probability `p`."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import gammaln, xlog1py, xlogy
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`."""
    k, n, p, loc = floats("logpmf", k, n, p, loc)
    y = k - loc
    safe = fnp.maximum(y, 0)
    combinations = gammaln(safe + n) - gammaln(n) - gammaln(safe + 1)
    return fnp.where(y < 0, -INF, combinations + xlogy(n, p) + xlog1py(safe, -p))


@public()
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return fnp.exp(logpmf(k, n, p, loc))


document(
    globals(),
    "3, 0.5",
    "[0.0, 2.0]",
    logpmf="[-2.0794415, -1.6739764]",
    pmf="[0.125 , 0.1875]",
)

__all__ = ["logpmf", "pmf"]
