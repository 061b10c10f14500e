"""The normal distribution of vectors, with a mean vector and a covariance matrix."""

from __future__ import annotations

import math

from fgrad import numpy as fnp
from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import public
from fgrad.scipy.linalg import solve_triangular
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift
from fgrad.uop import dtype as dt


@public(static=("allow_singular",))
def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: bool | None = None) -> Array:
    """The logarithm of the density: x [*batch, n], mean [*batch, n] or scalar, cov [n, n] or scalar -> [*batch].

    A scalar `cov` is a variance common to all axes, and makes no axis of n elements necessary.
    Raises ShapeError when shapes do not fit.

    >>> multivariate_normal.logpdf(fnp.array([1.0, 0.0]), fnp.zeros(2), fnp.array([[2.0, 0.0], [0.0, 1.0]]))
    Array(-2.4344506, dtype=float32)
    """
    if allow_singular:
        raise NotImplementedError("logpdf with allow_singular; add a small multiple of the identity to cov")
    value, centre, matrix = fnp.multiply(x, 1.0), lift(mean), lift(cov)
    if not centre.shape:  # one-dimensional: independent normals would be another distribution
        if matrix.shape not in ((), (1,), (1, 1)):
            raise note_user_line(ShapeError(f"logpdf: a scalar mean needs a scalar cov, got shape {matrix.shape}"))
        spread = fnp.reshape(matrix, ())
        z = value - centre
        return -0.5 * (z * z / spread + fnp.log(spread) + math.log(2 * math.pi))
    n = centre.shape[-1]
    if not matrix.shape:
        z = value - centre
        size = fnp.broadcast_shapes(value.shape, centre.shape)[-1]
        return -0.5 * (fnp.sum(z * z, axis=-1) / matrix + size * (math.log(2 * math.pi) + fnp.log(matrix)))
    if matrix.ndim < 2 or matrix.shape[-2:] != (n, n):
        raise note_user_line(ShapeError(f"logpdf: cov must be [..., {n}, {n}] for this mean, got {matrix.shape}"))
    factor = fnp.linalg.cholesky(fnp.multiply(matrix, 1.0))
    z = value - centre
    batch = fnp.broadcast_shapes(z.shape[:-1], factor.shape[:-2])
    z, factor = fnp.broadcast_to(z, (*batch, n)), fnp.broadcast_to(factor, (*batch, n, n))
    dtype = dt.promote((lift(z).node.dtype, False), (lift(factor).node.dtype, False))[0].np
    white = solve_triangular(factor.astype(dtype), z.astype(dtype)[..., None], lower=True)[..., 0]
    log_det = fnp.sum(fnp.log(fnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    return -0.5 * fnp.sum(white * white, axis=-1) - n / 2 * math.log(2 * math.pi) - log_det


@public(static=("allow_singular",))
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: bool | None = None) -> Array:
    """The density; shapes as in logpdf.

    >>> multivariate_normal.pdf(fnp.array([1.0, 0.0]), fnp.zeros(2), 2.0)
    Array(0.061975, dtype=float32)
    """
    return fnp.exp(logpdf(x, mean, cov, allow_singular))


__all__ = ["logpdf", "pdf"]
