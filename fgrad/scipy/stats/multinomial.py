"""The multinomial distribution: counts of `n` draws from classes with probabilities `p`."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import gammaln, xlogy
from fgrad.scipy.stats.common import INF, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift


@public()
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts: x [*batch, k], n [*batch], p [*batch, k] -> [*batch].

    -inf where the counts do not add up to `n`.

    >>> multinomial.logpmf(fnp.array([[1.0, 2.0], [1.0, 1.0]]), 3, fnp.array([0.5, 0.5]))
    Array([-0.98082924,        -inf], dtype=float32)
    """
    x, p = floats("logpmf", x, p)
    n = fnp.asarray(lift(n)).astype(x.dtype)
    value = gammaln(n + 1) + fnp.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)
    return fnp.where(fnp.equal(n, fnp.sum(x, axis=-1)), value, -INF)


@public()
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of the counts; shapes as in logpmf.

    >>> multinomial.pmf(fnp.array([1.0, 2.0]), 3, fnp.array([0.5, 0.5]))
    Array(0.375, dtype=float32)
    """
    return fnp.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]
