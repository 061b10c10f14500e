"""Polynomials, interpolation, functions over axes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad.errors import ArgumentError, ShapeError


def test_polynomials(as_numpy: Callable[..., None], cube: Any, ints: Any) -> None:
    as_numpy("polyval", [1.0, 2, 3], cube)
    as_numpy("polyval", np.array([1, 2, 3]), ints)
    as_numpy("polyadd", [1, 2], [1, 2, 3])
    as_numpy("polysub", [1, 2], [1, 2, 3])
    as_numpy("polymul", [1, 2], [1, 2, 3])
    as_numpy("polydiv", np.array([1.0, 2, 3, 4]), np.array([1.0, 2]))
    as_numpy("polydiv", np.array([1.0, 2]), np.array([1.0, 2, 3]))
    as_numpy("polyder", np.array([1.0, 2, 3, 4]), 2)
    as_numpy("polyint", np.array([1.0, 2, 3]), 2, [1, 2])
    as_numpy("poly", np.array([1.0, 2, 3]))
    as_numpy("polyfit", np.arange(5.0), np.arange(5.0) ** 2, 2)
    assert sorted(np.asarray(fnp.roots(np.array([1.0, -3, 2]))).real) == pytest.approx([1, 2])


def test_interpolation(as_numpy: Callable[..., None], same: Callable[..., None]) -> None:
    points, values = np.array([0.0, 1, 2.5, 4]), np.array([1.0, 3, 2, 5])
    at = np.linspace(-1, 6, 30)
    as_numpy("interp", at, points, values)
    as_numpy("interp", at, points, values, left=-9.0, right=9.0)
    as_numpy("interp", at, points[[2, 0, 1, 3]], values[[2, 0, 1, 3]], period=5.0)
    as_numpy("interp", 2.0, points, values)
    same(fnp.interp(5.0, points, values, right="extrapolate"), 7.0)
    with pytest.raises(ArgumentError, match="extrapolate"):
        fnp.interp(1.0, points, values, left="zero")


def test_angles_are_unwrapped(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("unwrap", np.array([0, 3.0, 6.5, 1, 2, -4, 10]))
    as_numpy("unwrap", np.cumsum(cube * 3, 1), axis=1)
    as_numpy("unwrap", np.array([0, 1, 2, -1, 0]), period=4)


def test_functions_along_and_over_axes(same: Callable[..., None], cube: Any) -> None:
    for f, n in [
        (lambda v: v[::-1] * 2, lambda v: v[::-1] * 2),
        (fnp.sum, np.sum),
        (lambda v: fnp.outer(v, v), lambda v: np.outer(v, v)),
    ]:
        same(fnp.apply_along_axis(f, 1, cube), np.apply_along_axis(n, 1, cube))
    same(fnp.apply_over_axes(fnp.sum, cube, [0, 2]), np.apply_over_axes(np.sum, cube, [0, 2]))


def test_vectorize_maps_over_what_the_signature_leaves(same: Callable[..., None], cube: Any) -> None:
    plain = fnp.vectorize(lambda a, b: a * b + 1)
    same(plain(cube, cube[:1]), cube * cube[:1] + 1)
    product = fnp.vectorize(fnp.dot, signature="(n,m),(m)->(n)")
    same(product(cube, cube[0, 0]), cube @ cube[0, 0])
    power = fnp.vectorize(lambda x, n: x**n, excluded={1})
    same(power(cube, 2), cube**2)
    with pytest.raises(ShapeError, match="axis m has 2 and 4 elements"):
        product(cube, cube[0, :, 0])
    with pytest.raises(ArgumentError, match="is not of the form"):
        fnp.vectorize(fnp.dot, signature="n,m->n")
