"""The binomial distribution: successes in `n` trials of probability `p`."""

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
    within = (y >= 0) & (y <= n)
    safe = fnp.where(within, y, 0.0)
    combinations = gammaln(n + 1) - gammaln(safe + 1) - gammaln(n - safe + 1)
    value = combinations + xlogy(safe, p) + xlog1py(n - safe, -p)
    value = fnp.where(within, value, -INF)
    return fnp.where((n >= 0) & (p >= 0) & (p <= 1), value, fnp.nan)


@public()
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return fnp.exp(logpmf(k, n, p, loc))


document(
    globals(),
    "5, 0.5",
    "[0.0, 2.0]",
    logpmf="[-3.465736 , -1.1631508]",
    pmf="[0.03125, 0.3125 ]",
)

__all__ = ["logpmf", "pmf"]
