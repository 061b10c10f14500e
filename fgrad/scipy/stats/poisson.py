"""The Poisson distribution with mean `mu`."""

from __future__ import annotations

import math

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import gammaincc, gammaln, xlogy
from fgrad.scipy.stats.common import INF, document, floats, whole
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike

_SMALL = 64.0  # means below it have their entropy summed; from it on the series is right to 1e-8
_SUMMED = 192  # terms of that sum: 16 standard deviations beyond the mean


@public()
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`."""
    k, mu, loc = floats("logpmf", k, mu, loc)
    x = k - loc
    within = (x >= 0) & whole(x)
    safe = fnp.where(within, x, 0.0)
    return fnp.where(within, xlogy(safe, mu) - gammaln(safe + 1) - mu, -INF)


@public()
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return fnp.exp(logpmf(k, mu, loc))


@public()
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The distribution function."""
    k, mu, loc = floats("cdf", k, mu, loc)
    x = fnp.floor(k - loc)
    return fnp.where(x < 0, 0.0, gammaincc(fnp.maximum(x, 0) + 1, mu))


@public()
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy in nats: summed term by term for small means, by its asymptotic series for large ones.

    0 where mu is 0, NaN where it is negative.

    Source of the series: R. J. Evans and others, SIAM Review 30 (1988), problem 87-6.

    >>> poisson.entropy(fnp.array([0.0, 3.0, 100.0]))
    Array([0.       , 1.9314703, 3.7206862], dtype=float32)
    """
    mu, loc = floats("entropy", mu, loc)
    small = fnp.clip(mu, 0, _SMALL)
    k = fnp.reshape(fnp.arange(_SUMMED, dtype=mu.dtype), (_SUMMED, *[1] * mu.ndim))
    logs = xlogy(k, small) - gammaln(k + 1) - small
    summed = -fnp.sum(fnp.exp(logs) * fnp.where(fnp.isinf(logs), 0.0, logs), axis=0)
    # the asymptotic series in 1 / mu: R. J. Evans and others, SIAM Review 30 (1988), problem 87-6
    inverse = 1 / fnp.maximum(mu, _SMALL)
    series = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360)))
    large = 0.5 * (math.log(2 * math.pi * math.e) - fnp.log(inverse)) - series
    value = fnp.where(mu < _SMALL, summed, large)
    return fnp.where(mu < 0, fnp.nan, fnp.where(mu == 0, 0.0, value))


document(
    globals(),
    "3.0",
    "[0.0, 2.0]",
    cdf="[0.04978707, 0.4231901 ]",
    logpmf="[-3.       , -1.4959226]",
    pmf="[0.04978707, 0.22404182]",
)

__all__ = ["cdf", "entropy", "logpmf", "pmf"]
