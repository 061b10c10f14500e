"""What the functions are at zeros, infinities, NaN, poles and the ends of their domains."""

from math import inf, nan, pi
from typing import Any

import numpy as np
import pytest

from fgrad.lower.functions.numpy_machine import NumpyMachine
from fgrad.lower.functions.table import FUNCTIONS

ODD_LINEAR = [(0.0, 0.0), (-0.0, -0.0)]
LOGARITHM = [(inf, inf), (0.0, -inf), (-0.0, -inf), (-1.0, nan), (-inf, nan), (1.0, 0.0)]
CASES = {
    "exp": [(inf, inf), (-inf, 0.0), (0.0, 1.0), (-0.0, 1.0), (1e30, inf), (-1e30, 0.0)],
    "exp2": [(inf, inf), (-inf, 0.0), (0.0, 1.0), (3.0, 8.0), (-5.0, 1 / 32), (1e30, inf)],
    "expm1": [(inf, inf), (-inf, -1.0), (1e30, inf), (-1e30, -1.0), *ODD_LINEAR],
    "log": LOGARITHM,
    "log2": [*LOGARITHM, (8.0, 3.0), (0.125, -3.0)],
    "log10": [*LOGARITHM, (1000.0, 3.0), (1e10, 10.0)],
    "log1p": [(inf, inf), (-1.0, -inf), (-2.0, nan), (-inf, nan), *ODD_LINEAR],
    "sin": [(inf, nan), (-inf, nan), *ODD_LINEAR],
    "cos": [(inf, nan), (-inf, nan), (0.0, 1.0), (-0.0, 1.0)],
    "tan": [(inf, nan), (-inf, nan), *ODD_LINEAR],
    "asin": [(1.5, nan), (-inf, nan), (inf, nan), (1.0, pi / 2), (-1.0, -pi / 2), *ODD_LINEAR],
    "acos": [(1.5, nan), (-1.5, nan), (inf, nan), (1.0, 0.0), (-1.0, pi), (0.0, pi / 2)],
    "atan": [(inf, pi / 2), (-inf, -pi / 2), (1.0, pi / 4), *ODD_LINEAR],
    "sinh": [(inf, inf), (-inf, -inf), (1e30, inf), *ODD_LINEAR],
    "cosh": [(inf, inf), (-inf, inf), (0.0, 1.0), (-1e30, inf)],
    "tanh": [(inf, 1.0), (-inf, -1.0), (50.0, 1.0), (-1e30, -1.0), *ODD_LINEAR],
    "asinh": [(inf, inf), (-inf, -inf), *ODD_LINEAR],
    "acosh": [(inf, inf), (1.0, 0.0), (0.5, nan), (-inf, nan)],
    "atanh": [(1.0, inf), (-1.0, -inf), (2.0, nan), (-inf, nan), (inf, nan), *ODD_LINEAR],
    "sqrt": [(inf, inf), (-1.0, nan), (-inf, nan), (4.0, 2.0), *ODD_LINEAR],
    "rsqrt": [(inf, 0.0), (0.0, inf), (-0.0, -inf), (-1.0, nan), (-inf, nan), (4.0, 0.5)],
    "cbrt": [(inf, inf), (-inf, -inf), (27.0, 3.0), (-8.0, -2.0), *ODD_LINEAR],
    "erf": [(inf, 1.0), (-inf, -1.0), (30.0, 1.0), *ODD_LINEAR],
    "erfc": [(inf, 0.0), (-inf, 2.0), (0.0, 1.0), (-0.0, 1.0), (30.0, 0.0), (-30.0, 2.0)],
    "sigmoid": [(inf, 1.0), (-inf, 0.0), (0.0, 0.5), (-1e30, 0.0), (1e30, 1.0)],
    "softplus": [(inf, inf), (-inf, 0.0), (-1e30, 0.0), (1e30, 1e30)],
    "erfinv": [(1.0, inf), (-1.0, -inf), (2.0, nan), (-inf, nan), *ODD_LINEAR],
    "lgamma": [(inf, inf), (-inf, inf), (0.0, inf), (-0.0, inf), (-3.0, inf), (1.0, 0.0)]
    + [(2.0, 0.0), (-1e20, inf)],
    "digamma": [(inf, inf), (-inf, nan), (0.0, -inf), (-0.0, inf), (-3.0, nan), (-1e20, nan)],
}
AWKWARD = [0.0, 0.5, 1.0, 2.0, 3.0, 1.5, 1e10, 8388607.0, 16777215.0, 16777216.0, 16777217.0]
AWKWARD += [33554431.0, 2.0**53 - 1, 2.0**53, 1e30, inf, 1e-45, 1e-38, 5e-324, 1e-320, 1e-300]
AWKWARD += [1 - 2.0**-24, 1 + 2.0**-23, 1 - 2.0**-53, 1 + 2.0**-52]
REFERENCE = {
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
}


def same(x: Any, y: Any) -> Any:
    """Equal with the sign of zero, or both NaN."""
    return (np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))


def test_every_function_has_special_cases() -> None:
    assert set(CASES) | set(REFERENCE) == set(FUNCTIONS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(CASES))
def test_value_at_a_special_argument(name: str, dtype: Any) -> None:
    x, expected = (np.array(q, dtype) for q in zip(*CASES[name], (nan, nan), strict=True))
    y = FUNCTIONS[name](NumpyMachine(dtype), x)
    for i in np.flatnonzero(~same(y, expected)):
        pytest.fail(f"{name}({x[i]}) = {y[i]!r}, not {expected[i]!r}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_value_at_a_pair_of_awkward_arguments(name: str, dtype: Any) -> None:
    v = np.array(AWKWARD, np.float64).astype(dtype)
    v = np.concatenate([v, -v, np.array([nan], dtype)])
    x, y = (q.ravel() for q in np.meshgrid(v, v))
    got = FUNCTIONS[name](NumpyMachine(dtype), x, y)
    with np.errstate(all="ignore"):
        expected = REFERENCE[name](x, y)
    # Elsewhere the reference has errors of its own; here a result is right or wrong.
    certain = ~np.isfinite(expected) | (expected == 0) | (abs(x) == 1) & (abs(expected) == 1)
    certain |= (y == 0) & (expected == 1) | ~np.isfinite(got) | (got == 0)
    for i in np.flatnonzero(certain & ~same(got, expected)):
        pytest.fail(f"{name}({x[i]}, {y[i]}) = {got[i]!r}, not {expected[i]!r}")


@pytest.mark.parametrize("name", ["log2", "exp2"])
def test_powers_of_two_are_exact(name: str) -> None:
    n = np.arange(-1022, 1024).astype(np.float64)
    powers = np.ldexp(1.0, n.astype(int))
    x, y = (powers, n) if name == "log2" else (n, powers)
    assert np.array_equal(FUNCTIONS[name](NumpyMachine(np.float64), x), y)


def test_log10_of_powers_of_ten_is_exact() -> None:
    n = np.arange(23)  # 10**22 is the last that float64 holds
    x = np.array([float(10**k) for k in range(23)])
    assert np.array_equal(FUNCTIONS["log10"](NumpyMachine(np.float64), x), n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh"])
def test_tiny_arguments_come_back(name: str, dtype: Any) -> None:
    info = np.finfo(dtype)
    x = np.array([info.smallest_subnormal, info.tiny, -info.tiny / 4, info.tiny * 3], dtype)
    assert np.array_equal(FUNCTIONS[name](NumpyMachine(dtype), x), x)
