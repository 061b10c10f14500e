"""The Dirichlet distribution: points of the simplex with concentrations `alpha`."""

from __future__ import annotations

from fgrad import numpy as fnp
from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import public
from fgrad.scipy.special import gammaln, xlogy
from fgrad.scipy.stats.common import INF
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift


@public()
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density: x [k, *batch] or [k - 1, *batch] (the rest is 1 - sum), alpha [k] -> [*batch].

    Raises ShapeError when the sizes do not fit. Points off the simplex have -inf.

    >>> dirichlet.logpdf(fnp.array([0.25, 0.75]), fnp.array([2.0, 3.0]))
    Array(0.5232482, dtype=float32)
    """
    point, weights = lift(x), lift(alpha)
    if weights.ndim != 1:
        raise note_user_line(ShapeError(f"logpdf: alpha must have one axis, got shape {weights.shape}"))
    n = weights.shape[0]
    if point.ndim == 0 or point.shape[0] not in (n, n - 1):
        raise note_user_line(
            ShapeError(f"logpdf: the first axis of x must have {n} or {n - 1} elements, got shape {point.shape}")
        )
    values = fnp.multiply(point, 1.0)
    if point.shape[0] == n - 1:
        values = fnp.concatenate([values, 1 - fnp.sum(values, axis=0, keepdims=True)], axis=0)
    alphas = fnp.reshape(fnp.multiply(weights, 1.0), (n, *[1] * (values.ndim - 1)))
    total = fnp.sum(xlogy(alphas - 1, values), axis=0)
    constant = gammaln(fnp.sum(weights)) - fnp.sum(gammaln(weights))
    on_simplex = fnp.all(values > 0, axis=0) & (fnp.abs(fnp.sum(values, axis=0) - 1) < 1e-6)
    return fnp.where(on_simplex, total + constant, -INF)


@public()
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density; shapes as in logpdf.

    >>> dirichlet.pdf(fnp.array([0.25, 0.75]), fnp.array([2.0, 3.0]))
    Array(1.6875001, dtype=float32)
    """
    return fnp.exp(logpdf(x, alpha))


__all__ = ["logpdf", "pdf"]
