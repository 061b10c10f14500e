"""Sums, extremes, moments and running totals, over all kinds of axes and dtypes."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import lax
from fgrad.errors import ShapeError


@pytest.fixture(autouse=True)
def _numpy_may_warn() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def test_sums_and_products_start_from_initial(ints: Any, as_numpy: Callable[..., None]) -> None:
    as_numpy("sum", ints, axis=1, initial=5)
    as_numpy("prod", ints, axis=1, initial=2)
    as_numpy("max", ints[:0], axis=0, initial=3)


def test_dtypes_of_sums() -> None:
    assert fnp.sum(fnp.ones(3, np.int8)).dtype == np.int64
    assert fnp.sum(fnp.ones(3, np.uint8)).dtype == np.uint64
    assert fnp.sum(fnp.ones(3, bool)).dtype == np.int64
    assert fnp.sum(fnp.ones(3, np.int8), promote_integers=False).dtype == np.int8
    assert fnp.mean(fnp.ones(3, np.int8)).dtype == np.float32
    assert fnp.sum(fnp.ones(3), dtype=np.float64).dtype == np.float64
    assert fnp.var(fnp.ones(3, np.complex64)).dtype == np.float32
    assert fnp.cumsum(fnp.ones(3, np.uint16)).dtype == np.uint64


def test_small_floats_are_summed_in_float32() -> None:
    many = fnp.full(4096, 1.0, np.float16)
    assert float(fnp.sum(many)) == 4096
    assert float(fnp.mean(many)) == 1
    assert float(fnp.sum(fnp.full(1000, 1.0, fnp.bfloat16))) == 1000


def test_nanargmax_of_nothing_but_nan_is_minus_one() -> None:
    assert int(fnp.nanargmax(fnp.full(3, np.nan))) == -1


def test_running_products_of_complex_numbers_from_the_end(cube: Any, same: Callable[..., None]) -> None:
    z = cube + 1j * cube[::-1]
    same(lax.cumprod(z, 1, reverse=True), np.flip(np.cumprod(np.flip(z, 1), 1), 1))


def test_moments_with_degrees_of_freedom_and_a_known_mean(cube: Any, as_numpy: Callable[..., None]) -> None:
    as_numpy("var", cube, axis=1, ddof=1)
    as_numpy("std", cube, axis=1, correction=1)
    as_numpy("var", cube, axis=1, mean=cube.mean(axis=1, keepdims=True))
    as_numpy("ptp", cube, axis=1)
    as_numpy("trace", cube, 1, 0, 1)


def test_errors_of_reductions() -> None:
    x = fnp.zeros((0, 3))
    with pytest.raises(ValueError, match=r"max over axes \(0, 1\) of shape \(0, 3\).*give initial="):
        fnp.max(x)
    assert fnp.max(x, axis=1).shape == (0,)
    with pytest.raises(ShapeError, match="sum: axis 5 is out of bounds"):
        fnp.sum(x, axis=5)
    with pytest.raises(ValueError, match="nanvar: dtype=float32 would drop the imaginary parts"):
        fnp.nanvar(np.ones(3, np.complex64), dtype=np.float32)
    with pytest.raises(ShapeError, match="repeated axis"):
        fnp.sum(x, axis=(0, -2))
    with pytest.raises(NotImplementedError, match="out= cannot be written"):
        fnp.sum(x, out=x)
    with pytest.raises(ValueError, match="no elements to choose from"):
        fnp.argmax(x, axis=0)


@pytest.mark.parametrize(
    "shape, axis", [((200_000,), 0), ((4099,), 0), ((3, 6000), 1), ((5003, 300), 0), ((2, 4096, 5), 1)]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_long_running_sums_have_the_error_of_short_ones(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    """One after the other, 200 000 times 0.1 is off by a thousandth, and by more the longer it gets."""
    for x in (np.full(shape, 0.1, np.float32), np.full(shape, 0.1 - 0.2j, np.complex64)):
        wide = np.cumsum(x.astype(np.complex128), axis)
        wanted = np.flip(wide, axis) if reverse else wide
        got = lax.cumsum(x, axis, reverse=reverse)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_long_running_sums_keep_signs_and_infinities() -> None:
    for n in (4096, 4099):  # in blocks of one length, and with room at the end
        for reverse in (False, True):
            assert np.signbit(lax.cumsum(np.full(n, -0.0, np.float32), 0, reverse=reverse)).all()
        x = np.ones(n, np.float32)
        x[1500], x[3500] = np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(fnp.cumsum(x), np.cumsum(x))
        half = np.full(n, 1 / 64, np.float16)
        np.testing.assert_allclose(fnp.cumsum(half), np.cumsum(half, dtype=np.float32), rtol=1e-3)
