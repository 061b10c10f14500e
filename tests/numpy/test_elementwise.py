"""Functions of numbers: values, dtypes and special cases as NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 3.0, 1e-3]
NUMBERS: dict[str, Any] = {
    "float32": np.array(SPECIAL, np.float32),
    "float64": np.array(SPECIAL),
    "float16": np.array(SPECIAL, np.float16),
    "int32": np.array([0, 1, -1, 5, -7, 127, 3, 2, -3, 12, 6, 9], np.int32),
    "uint8": np.arange(12, dtype=np.uint8) * 20,
    "bool": np.array([True, False] * 6),
    "complex64": (np.arange(12) * 0.3 - 1.5 + 1j * np.linspace(-2, 1, 12)).astype(np.complex64),
}


def test_functions_of_analysis_turn_integers_into_the_default_float() -> None:
    for name in ("sin", "exp", "sqrt", "rint", "sinc", "deg2rad"):
        f = getattr(fnp, name)
        assert f(np.int8(1)).dtype == np.float32
        assert f(True).dtype == np.float32
        assert f(fnp.ones(2, fnp.bfloat16)).dtype == fnp.bfloat16


def test_python_numbers_are_weak(same: Callable[..., None]) -> None:
    small = fnp.ones(3, np.float16)
    assert (small * 2.5).dtype == np.float16
    assert (fnp.ones(3, np.int8) + 1).dtype == np.int8
    assert (fnp.ones(3, np.int8) + 1.5).dtype == np.float32
    assert (fnp.ones(3, np.int8) + np.int16(1)).dtype == np.int16
    assert (small + 1j).dtype == np.complex64
    assert (2 - small).dtype == np.float16
    assert fnp.add(1, 2).weak_type
    same(3 / fnp.array([1.0, 2.0]), np.float32([3, 1.5]))


def test_a_python_int_that_does_not_fit_overflows() -> None:
    with pytest.raises(OverflowError, match="300 does not fit in uint8"):
        fnp.ones(3, np.uint8) + 300
    with pytest.raises(OverflowError, match="-1 does not fit in uint8"):
        fnp.multiply(-1, fnp.ones(3, np.uint8))
    assert (fnp.zeros(1, np.uint64) + (2**64 - 1)).tolist() == [2**64 - 1]
    with pytest.raises(OverflowError):
        fnp.add(1, 2**70)


def test_integers_divided_by_zero_give_zero(same: Callable[..., None]) -> None:
    x = fnp.array([7, -7, 0], dtype=np.int32)
    same(x // 0, np.int32([0, 0, 0]))
    same(x % 0, np.int32([0, 0, 0]))
    same(fnp.fmod(x, 0), np.int32([0, 0, 0]))
    same(fnp.array([-128], dtype=np.int8) // -1, np.int8([-128]))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, -1, -2, 2.0, -3.0, 0.5, 40])
def test_powers_with_python_exponents(n: float, same: Callable[..., None]) -> None:
    x = NUMBERS["float32"]
    with np.errstate(all="ignore"):
        wanted = np.power(x, np.full_like(x, n))
    same(fnp.power(x, n), wanted)
    assert (fnp.array(x) ** n).dtype == np.float32


def test_integer_powers_are_exact_and_wrap(same: Callable[..., None]) -> None:
    x = np.arange(-5, 6)
    for n in (0, 1, 5, 27):
        same(fnp.power(x, n), x**n)
        same(fnp.power(x, np.full(11, n)), x**n)
    same(fnp.power(np.array([1, -1, -1, 2, 0]), np.array([-3, -3, -2, -1, -1])), [1, -1, 1, 0, 0])
    with pytest.raises(ValueError, match="integers have no integer power -1"):
        fnp.power(x, -1)


def test_clip_takes_bounds_on_either_side(same: Callable[..., None]) -> None:
    x = NUMBERS["float32"]
    same(fnp.clip(x, -1, 1), np.clip(x, np.float32(-1), np.float32(1)))
    same(fnp.clip(x, max=0.5), np.clip(x, None, np.float32(0.5)))
    same(fnp.clip(NUMBERS["int32"], 0, 5), np.clip(NUMBERS["int32"], 0, 5))
    same(fnp.clip(x), x)


@pytest.mark.parametrize("decimals", [0, 1, 2, -1, -2])
def test_round_halves_go_to_the_even_digit(decimals: int, as_numpy: Callable[..., None]) -> None:
    as_numpy("round", np.array([0.5, 1.5, 2.675, -12.25, 155.0, 250.0]), decimals)
    as_numpy("round", np.array([15, 25, -35, 149, -250], np.int64), decimals)


def test_ldexp_scales_exactly_through_subnormals(as_numpy: Callable[..., None]) -> None:
    x = np.array([1.0, -1.5, 3.0, 0.0, np.inf, 2.0**-1022])
    for n in (-1080, -1074, -60, 0, 31, 1020, 2000):
        as_numpy("ldexp", x, np.full(6, n))
    as_numpy("ldexp", x.astype(np.float32), np.arange(-140, 160, 50))


def test_bits_are_packed_and_unpacked(as_numpy: Callable[..., None], rng: np.random.Generator) -> None:
    x = rng.integers(0, 2, (3, 13)).astype(np.uint8)
    for order in ("big", "little"):
        as_numpy("packbits", x, axis=1, bitorder=order)
        as_numpy("unpackbits", x, axis=0, bitorder=order, count=20)
    as_numpy("packbits", x > 0)


def test_shifts_by_the_width_and_more_give_zero(same: Callable[..., None]) -> None:
    x = np.array([1, -1, 127], np.int8)
    same(fnp.left_shift(x, np.int8([3, 8, 9])), np.int8([8, 0, 0]))
    same(fnp.right_shift(x, np.int8([3, 8, 9])), np.int8([0, -1, 0]))


def test_angle_of_reals_and_complex_numbers(as_numpy: Callable[..., None]) -> None:
    as_numpy("angle", NUMBERS["complex64"])
    as_numpy("angle", NUMBERS["complex64"], True)
    as_numpy("angle", NUMBERS["float32"][:7])


def test_arrays_of_no_elements_and_of_no_axes(same: Callable[..., None]) -> None:
    empty = np.zeros((0, 3), np.float32)
    same(fnp.exp(empty) + 1, empty)
    same(fnp.maximum(empty, 1.0), empty)
    assert fnp.add(2.0, 3).shape == ()
    assert float(fnp.sin(0.0)) == 0


def test_equality_of_whole_arrays() -> None:
    x = NUMBERS["float32"]
    assert not fnp.array_equal(x, x)
    assert fnp.array_equal(x, x, equal_nan=True)
    assert not fnp.array_equal(x, x[:3])
    assert fnp.array_equiv(np.ones((2, 3)), np.ones(3))
    assert not fnp.array_equiv(np.ones(2), np.ones(3))
    assert fnp.allclose(x[:7], x[:7] + np.float32(1e-9))


def test_the_binary_logarithm_of_a_complex_sum(same: Callable[..., None]) -> None:
    x, y = np.array([1 + 2j, -3j, 800.0]), np.array([0.5, 2 - 1j, 799 + 1j])
    same(fnp.logaddexp2(x, y)[:2], (np.log(2**x[:2] + 2**y[:2]) / np.log(2)))
    same(fnp.logaddexp2(x, y)[2:], x[2:] + np.log2(1 + 2 ** (y - x)[2:]))
