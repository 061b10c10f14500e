"""The beta-binomial distribution: successes in `n` trials of a probability that is beta(a, b)."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import betaln
from fgrad.scipy.stats.common import INF, document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`."""
    k, n, a, b, loc = floats("logpmf", k, n, a, b, loc)
    y = fnp.floor(k) - loc
    within = (y >= 0) & (y <= n)
    safe = fnp.where(within, y, 0.0)
    combinations = -fnp.log1p(n) - betaln(n - safe + 1, safe + 1)
    value = combinations + betaln(safe + a, n - safe + b) - betaln(a, b)
    value = fnp.where(within, value, -INF)
    return fnp.where((n >= 0) & (a > 0) & (b > 0), value, fnp.nan)


@public()
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return fnp.exp(logpmf(k, n, a, b, loc))


document(
    globals(),
    "5, 2.0, 3.0",
    "[0.0, 2.0]",
    logpmf="[-1.7917595, -1.4350843]",
    pmf="[0.16666667, 0.23809528]",
)

__all__ = ["logpmf", "pmf"]
