"""Norms and products of matrices; frequencies."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad.errors import ShapeError


@pytest.mark.parametrize("kind", ["float32", "complex64", "int64"])
def test_norms(kind: str, cube: Any, same: Callable[..., None]) -> None:
    x = (cube * 3).astype(kind)
    if kind == "complex64":
        x = x + 1j * x[::-1]
    same(fnp.linalg.norm(x), np.linalg.norm(x))
    for p in (None, 2, 1, 0, 3, np.inf, -np.inf, 0.5):
        same(fnp.linalg.norm(x, p, 0), np.linalg.norm(x, p, 0))
        same(fnp.linalg.vector_norm(x, axis=(0, 1), ord=p or 2, keepdims=True),
             np.linalg.vector_norm(x, axis=(0, 1), ord=p or 2, keepdims=True))  # fmt: skip
    for p in (None, "fro", 1, -1, np.inf, -np.inf):
        same(fnp.linalg.norm(x, p, (0, 1)), np.linalg.norm(x, p, (0, 1)))
        same(fnp.linalg.norm(x, p, (2, 0), keepdims=True), np.linalg.norm(x, p, (2, 0), keepdims=True))
    same(fnp.linalg.matrix_norm(x), np.linalg.matrix_norm(x))


def test_products_of_matrices(rng: np.random.Generator, cube: Any, same: Callable[..., None]) -> None:
    x = rng.normal(size=(2, 3, 3))
    for n in range(6):
        same(fnp.linalg.matrix_power(x, n), np.linalg.matrix_power(x, n))
    chain = [rng.normal(size=s) for s in ((2, 5), (5, 3), (3, 7), (7,))]
    same(fnp.linalg.multi_dot(chain), np.linalg.multi_dot(chain))
    same(fnp.linalg.trace(cube, offset=1), np.linalg.trace(cube, offset=1))
    same(fnp.linalg.diagonal(cube), np.linalg.diagonal(cube))
    same(fnp.linalg.outer(x[0, 0], x[0, 1]), np.linalg.outer(x[0, 0], x[0, 1]))
    same(fnp.linalg.cross(x[0], x[1]), np.linalg.cross(x[0], x[1]))


@pytest.mark.parametrize("n", [1, 5, 6])
def test_frequencies(n: int, same: Callable[..., None]) -> None:
    same(fnp.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5))
    same(fnp.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5))
    same(fnp.fft.fftshift(np.arange(n)), np.fft.fftshift(np.arange(n)))
    same(fnp.fft.ifftshift(np.arange(n)), np.fft.ifftshift(np.arange(n)))


def test_powers_of_what_is_not_square_are_refused() -> None:
    with pytest.raises(ShapeError, match="square"):
        fnp.linalg.matrix_power(fnp.ones((2, 3)), 2)
