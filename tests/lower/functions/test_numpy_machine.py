"""The NumPy machine: its fused multiply-add is exact, and functions stay clear of subnormals."""

from collections.abc import Callable
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrad.lower.functions.numpy_machine import NumpyMachine
from fgrad.lower.functions.table import FUNCTIONS

doubles = st.floats(allow_nan=False, allow_infinity=False)
singles = st.floats(allow_nan=False, allow_infinity=False, width=32)


def exact_fma(x: float, y: float, z: float) -> Fraction:
    return Fraction(x) * Fraction(y) + Fraction(z)


def check_double(x: float, y: float, z: float) -> None:
    got = float(NumpyMachine(np.float64).fma(*(np.array([q]) for q in (x, y, z)))[0])
    exact = exact_fma(x, y, z)
    try:
        assert got == float(exact), (x, y, z)
    except OverflowError:
        assert got == (inf if exact > 0 else -inf), (x, y, z)


@given(doubles, doubles, doubles)
def test_fma_of_doubles_rounds_once(x: float, y: float, z: float) -> None:
    check_double(x, y, z)


@given(doubles, doubles, st.integers(-3, 3))
def test_fma_of_doubles_survives_cancellation(x: float, y: float, steps: int) -> None:
    with np.errstate(all="ignore"):
        z = -float(np.float64(x) * np.float64(y))
        for _ in range(abs(steps)):
            z = float(np.nextafter(z, inf if steps > 0 else -inf))
    if np.isfinite(z):
        check_double(x, y, z)


@given(st.integers(-1080, -1015), st.integers(1, 2**53), st.integers(1, 2**53), doubles)
def test_fma_of_doubles_rounds_once_into_the_subnormals(e: int, a: int, b: int, z: float) -> None:
    check_double(np.ldexp(float(a), -53), np.ldexp(float(b), e - 53), np.ldexp(z % 1.0, e))


def test_fma_of_doubles_breaks_a_tie_by_a_far_summand() -> None:
    x, y = 1 + 2.0**-30, 1 + 2.0**-23  # the product ends half an ulp above a double
    for z in (5e-324, -5e-324, 1e-300, -1e-300, 0.0):
        check_double(x, y, z)
    check_double(2.0**1000, 1.5, -5e-324)
    check_double(5e-324, 5e-324, 1.0)
    check_double(5e-324, 5e-324, -0.0)


@given(singles, singles, singles)
def test_fma_of_singles_rounds_once(x: float, y: float, z: float) -> None:
    operands = [np.array([q], np.float32) for q in (x, y, z)]
    got = NumpyMachine(np.float32).fma(*operands)[0]
    exact = exact_fma(x, y, z)
    around = np.array([np.nextafter(got, np.float32(-inf)), np.nextafter(got, np.float32(inf))])
    if not np.isfinite(got):
        assert abs(exact) >= (2 - Fraction(1, 2**24)) * 2**127
        return
    error = abs(Fraction(float(got)) - exact)
    for other in around[np.isfinite(around)]:
        distance = abs(Fraction(float(other)) - exact)
        even = int(got.view(np.int32)) % 2 == 0
        assert error < distance or (error == distance and even), (x, y, z)


def test_fma_keeps_special_values() -> None:
    x = np.array([inf, nan, 1.0, 0.0, -0.0, 2.0, -1e-200])
    y = np.array([1.0, 1.0, inf, inf, 1.0, 3.0, 1e-200])
    z = np.array([1.0, 1.0, -inf, 1.0, -0.0, -6.0, 0.0])
    got = NumpyMachine(np.float64).fma(x, y, z)
    expected = np.array([inf, nan, nan, nan, -0.0, 0.0, -0.0])
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.array_equal(np.signbit(got)[4:], [True, False, True])


def test_another_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match="float32 or float64, got int32"):
        NumpyMachine(np.int32)


class Watcher(NumpyMachine):
    """Remembers the lanes in which some arithmetic result was subnormal."""

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(dtype)
        self.seen = np.zeros(shape, bool)

    def watch(self, result: Any) -> Any:
        self.seen |= (result != 0) & (abs(result) < np.finfo(self.float_type).tiny)
        return result

    def add(self, x: Any, y: Any) -> Any:
        return self.watch(super().add(x, y))

    def sub(self, x: Any, y: Any) -> Any:
        return self.watch(super().sub(x, y))

    def mul(self, x: Any, y: Any) -> Any:
        return self.watch(super().mul(x, y))

    def div(self, x: Any, y: Any) -> Any:
        return self.watch(super().div(x, y))

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.watch(super().fma(x, y, z))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"logaddexp"}))
def test_a_normal_result_is_made_without_subnormals(
    name: str, dtype: Any, operands: Callable[..., list[Any]]
) -> None:
    xs = operands(name, dtype, 1000)
    machine = Watcher(dtype, xs[0].shape)
    y = FUNCTIONS[name](machine, *xs)
    tiny = np.finfo(dtype).tiny
    usual = np.ones(xs[0].shape, bool)
    for q in (y, *xs):
        usual &= ~((q != 0) & (abs(q) < 4 * tiny))  # half of a number above that is normal
    for i in np.flatnonzero(machine.seen & usual):
        pytest.fail(f"{name}({[q[i] for q in xs]}) = {y[i]} goes through a subnormal")
