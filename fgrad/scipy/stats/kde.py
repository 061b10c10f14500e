"""A density estimated from points: a normal distribution around each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import optree

from fgrad import numpy as fnp
from fgrad import random
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.scipy.linalg import cho_factor, cho_solve
from fgrad.scipy.special import logsumexp, ndtr
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


class gaussian_kde:  # noqa: N801  the name users know
    """The density that has a normal distribution around each of the points `dataset` [n] or [d, n].

    dataset     the points, one a column
    bw_method   `scott` (default) or `silverman`: the rule for the width; or the factor itself; or a function of the
                estimate that gives it
    weights     [n] weights of the points, not necessarily of sum 1; equal by default

    It is a pytree, so it can be passed to jitted functions.

    >>> kde = gaussian_kde(fnp.array([0.0, 1.0, 3.0]))
    >>> kde(fnp.array([1.0, 5.0]))
    Array([0.21489535, 0.02923472], dtype=float32)
    >>> kde.integrate_box_1d(-9.0, 9.0)
    Array(0.9999999, dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset: ArrayLike, bw_method: Any = None, weights: ArrayLike | None = None) -> None:
        points = fnp.atleast_2d(fnp.multiply(fnp.asarray(dataset), 1.0))
        if points.dtype.kind == "c":
            raise note_user_line(ArgumentError("gaussian_kde: the points must be real"))
        if points.size <= 1:
            raise note_user_line(ShapeError("gaussian_kde: there must be more than one point"))
        self.dataset = points
        n = points.shape[1]
        if weights is None:
            self.weights = fnp.full((n,), 1 / n, dtype=points.dtype)
        else:
            given = fnp.asarray(weights).astype(points.dtype)
            if given.shape != (n,):
                raise note_user_line(ShapeError(f"gaussian_kde: weights must be [{n}], got shape {given.shape}"))
            self.weights = given / fnp.sum(given)
        self.neff = 1 / fnp.sum(self.weights**2)
        factor = self._factor(bw_method)
        spread = fnp.atleast_2d(fnp.cov(points, bias=False, aweights=self.weights)).astype(points.dtype)
        self.covariance = spread * factor**2
        self.inv_cov = fnp.linalg.inv(spread) / factor**2

    def _factor(self, bw_method: Any) -> Any:
        if bw_method is None or bw_method == "scott":
            return self.neff ** (-1.0 / (self.d + 4))
        if isinstance(bw_method, str):
            if bw_method != "silverman":
                raise note_user_line(ArgumentError(f"gaussian_kde: bw_method is scott or silverman, not {bw_method!r}"))
            return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))
        return bw_method(self) if isinstance(bw_method, Callable) else bw_method  # type: ignore[arg-type]

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self.dataset.shape[1])

    def _check(self, points: ArrayLike) -> Any:
        points = fnp.atleast_2d(fnp.asarray(points))
        d, m = points.shape
        if d != self.d:
            if d == 1 and m == self.d:
                return fnp.reshape(points, (self.d, 1))
            raise note_user_line(ShapeError(f"points have {d} coordinates, the estimate has {self.d}"))
        return points

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at `x` [d, m] (or [m] for one coordinate) -> [m]."""
        points = self._check(x)
        factor, _ = cho_factor(self.inv_cov, lower=True)
        factor = fnp.tril(factor)
        here, there = fnp.matmul(factor.T, self.dataset), fnp.matmul(factor.T, points)
        energy = fnp.sum((here[:, :, None] - there[:, None, :]) ** 2, axis=0) / 2
        return logsumexp(fnp.log(self.weights)[:, None] - energy, axis=0) + self._log_norm(factor)

    def _log_norm(self, factor: Any) -> Any:
        return fnp.sum(fnp.log(fnp.diagonal(factor))) - self.d / 2 * math.log(2 * math.pi)

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at `points` [d, m] (or [m] for one coordinate) -> [m]."""
        return fnp.exp(self.logpdf(points))

    __call__ = evaluate
    pdf = evaluate

    def _overlap(self, mean: Any, cov: Any) -> Any:
        """Densities of the normal of that covariance around `mean` [d, 1] at all points -> [n]."""
        lower, _ = cho_factor(cov, lower=True)
        norm = -self.d / 2 * math.log(2 * math.pi) - fnp.sum(fnp.log(fnp.diagonal(lower)))
        apart = self.dataset - mean
        return fnp.exp(norm - fnp.sum(apart * cho_solve((lower, True), apart), axis=0) / 2)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the product with a normal density of mean [d] and covariance [d, d]."""
        centre = fnp.atleast_1d(fnp.squeeze(fnp.asarray(mean)))
        spread = fnp.atleast_2d(fnp.asarray(cov))
        if centre.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise note_user_line(
                ShapeError(
                    f"integrate_gaussian: mean must be [{self.d}] and cov [{self.d}, {self.d}], "
                    f"got {centre.shape} and {spread.shape}"
                )
            )
        return fnp.sum(self._overlap(centre[:, None], self.covariance + spread) * self.weights)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability between `low` and `high`, for one coordinate."""
        if self.d != 1:
            raise note_user_line(ShapeError(f"integrate_box_1d is for one coordinate, the estimate has {self.d}"))
        sigma = fnp.squeeze(fnp.sqrt(self.covariance))
        low_z, high_z = [fnp.squeeze((v - self.dataset) / sigma) for v in (fnp.asarray(low), fnp.asarray(high))]
        return fnp.sum(self.weights * (ndtr(high_z) - ndtr(low_z)))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two estimates."""
        if other.d != self.d:
            raise note_user_line(ShapeError(f"integrate_kde: {self.d} and {other.d} coordinates"))
        covariance = self.covariance + other.covariance
        parts = [fnp.sum(self._overlap(other.dataset[:, i : i + 1], covariance) * self.weights) for i in range(other.n)]
        return fnp.sum(fnp.stack(parts) * other.weights)

    def resample(self, key: Any, shape: Any = ()) -> Array:
        """Points drawn from the density: -> [d, *shape]."""
        at, around = random.split(key)
        chosen = random.choice(at, self.n, shape=tuple(shape), p=self.weights)
        noise = random.multivariate_normal(
            around, fnp.zeros(self.d, self.covariance.dtype), self.covariance, tuple(shape), self.dataset.dtype
        )
        return self.dataset[:, chosen] + fnp.moveaxis(noise, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Not there: use integrate_box_1d, or integrate `pdf` yourself."""
        raise NotImplementedError("integrate_box; use integrate_box_1d, or integrate pdf numerically")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not there: an estimate is not changed; make a new one with bw_method=."""
        raise NotImplementedError("set_bandwidth; make a new gaussian_kde with bw_method=")


def _flatten(kde: gaussian_kde) -> tuple[tuple[Any, ...], None]:
    return (kde.neff, kde.dataset, kde.weights, kde.covariance, kde.inv_cov), None


def _unflatten(_: None, children: Any) -> gaussian_kde:
    kde = object.__new__(gaussian_kde)
    kde.neff, kde.dataset, kde.weights, kde.covariance, kde.inv_cov = children
    return kde


_register: Any = optree.register_pytree_node
_register(gaussian_kde, _flatten, _unflatten, namespace=tree.NAMESPACE)

__all__ = ["gaussian_kde"]
