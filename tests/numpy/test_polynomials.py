"""Polynomials, interpolation, functions over axes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import grad, jit
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


def test_leading_zeros_of_polynomials_are_trimmed(same: Callable[..., None]) -> None:
    u, v = np.array([1.0, 3, 2, 7]), np.array([1.0, 0, 0])
    same(fnp.polydiv(np.polymul(v, [1, 2]), v, trim_leading_zeros=True), np.polydiv(np.polymul(v, [1, 2]), v))
    same(fnp.polydiv(u, v, trim_leading_zeros=True), np.polydiv(u, v))
    same(fnp.polymul([0, 0, 1, 2], [0, 3], trim_leading_zeros=True), [3, 6])


@pytest.mark.parametrize(
    "p", [[1, -3, 2], [0, 0, 1, -3, 2, 0], [0, 2, 0], [0, 0, 0], [5.0], [1, 2, 3 + 1j], [0, 3, 0, 0, 1]], ids=str
)
def test_roots_of_a_known_number_have_nan_for_the_missing_ones(p: Any) -> None:
    wanted = np.sort_complex(np.roots(p))
    found = np.asarray(jit(lambda p: fnp.roots(p, strip_zeros=False))(np.array(p)))
    assert found.shape == (len(p) - 1,)
    assert np.isnan(found).sum() == len(p) - 1 - len(wanted)
    np.testing.assert_allclose(np.sort_complex(found[~np.isnan(found)]), wanted, atol=1e-5)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_polynomials_are_fitted_in_a_stage(columns: tuple[int, ...], same: Callable[..., None]) -> None:
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=8), rng.uniform(1, 2, 8)
    y = rng.normal(size=(8, *columns))
    for options in ({}, {"w": w}, {"cov": True, "w": w}, {"cov": "unscaled"}, {"rcond": 0.1}, {"full": True}):
        found = jit(lambda x, y, options=options: fnp.polyfit(x, y, 2, **options))(x, y)
        same(found, np.polyfit(x, y, 2, **options))
    z = x + 1j * w
    same(jit(lambda x, y: fnp.polyfit(x, y, 2))(z, y), np.polyfit(z, y, 2))
    slope = grad(lambda y: fnp.sum(fnp.polyfit(x, y, 2)[0]))(y)
    moved = np.polyfit(x, y + 1e-3 * np.eye(8)[0].reshape(8, *(1,) * len(columns)), 2) - np.polyfit(x, y, 2)
    np.testing.assert_allclose(slope[0], moved[0] / 1e-3, rtol=1e-6)
    with pytest.raises(ShapeError, match="polyfit takes points"):
        fnp.polyfit(x, y[:5], 2)
    with pytest.raises(ValueError, match="too few to scale the covariance"):
        fnp.polyfit(x[:3], y[:3], 2, cov=True)


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


def test_polynomials_are_imported_when_asked_for() -> None:
    from fgrad.numpy import polynomials

    assert {*polynomials.__all__} == fnp._POLYNOMIALS <= {*dir(fnp), *fnp.__all__}
    assert all(getattr(fnp, name) is getattr(polynomials, name) for name in polynomials.__all__)
