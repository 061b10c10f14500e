"""Every function against 200-bit arithmetic, in units in the last place of the exact result."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from fgrad.lower.functions.bounds import BOUNDS
from fgrad.lower.functions.numpy_machine import NumpyMachine
from fgrad.lower.functions.table import FUNCTIONS

EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log10": lambda x: mpmath.log(x) / mpmath.log(10),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "lgamma": lambda x: mpmath.loggamma(x) if x > 0 else mpmath.log(abs(mpmath.gamma(x))),
    "erfc": lambda x: mpmath.erfc(x) if abs(x) < 40 else mpmath.mpf(2 * (x < 0)),
    "pow": mpmath.power,
    "logaddexp": lambda x, y: max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y))),
}
# Near zeros that are not at 0 these are accurate absolutely: errors in ulps of at least 1 there.
ABSOLUTE = {
    "lgamma": lambda x: x < 0,
    "digamma": lambda x: x < 0,
    "logaddexp": lambda x, y: True,
}
SLOW = {"erfinv": 40, "lgamma": 120, "digamma": 120}  # lanes per part, for mpmath's sake


def in_domain(name: str, x: Any) -> bool:
    """Whether the function is real and finite at x, and mpmath can tell."""
    match name:
        case "log" | "log2" | "log10" | "rsqrt":
            return bool(x > 0)
        case "sqrt":
            return bool(x >= 0)
        case "log1p":
            return bool(x > -1)
        case "acosh":
            return bool(x >= 1)
        case "asin" | "acos":
            return bool(abs(x) <= 1)
        case "atanh" | "erfinv":
            return bool(abs(x) < 1)
        case "lgamma":
            return bool((x > 0 or x != np.floor(x)) and x > -1e4)
        case "digamma":
            return bool((x > 0 or x != np.floor(x)) and x > -1e4 and x != 0)
        case _:
            return True


def error_in_ulp(y: Any, exact: Any, p: int, absolute: bool) -> float:
    least, highest = (-149, 128) if p == 24 else (-1074, 1024)
    if not np.isfinite(y):
        overflows = abs(exact) >= mpmath.mpf(2) ** highest * (1 - mpmath.mpf(2) ** (-p))
        return 0.0 if overflows and y == mpmath.sign(exact) * np.inf else float("inf")
    exponent = mpmath.frexp(exact)[1] if exact else least
    if absolute:
        exponent = max(exponent, 1)
    return float(abs(mpmath.mpf(float(y)) - exact) / mpmath.mpf(2) ** max(exponent - p, least))


def test_every_function_has_a_bound() -> None:
    assert set(BOUNDS) == set(FUNCTIONS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_error_is_within_the_bound(
    name: str, dtype: Any, operands: Callable[..., list[Any]]
) -> None:
    machine = NumpyMachine(dtype)
    xs = operands(name, dtype, SLOW.get(name, 1200))
    ys = FUNCTIONS[name](machine, *xs)
    exact = EXACT.get(name) or getattr(mpmath, name)
    absolute = ABSOLUTE.get(name, lambda *_: False)
    bound = BOUNDS[name][dtype is np.float64]
    with mpmath.workprec(200):
        for y, *lanes in zip(ys, *xs, strict=True):
            if len(lanes) == 1 and not in_domain(name, lanes[0]):
                continue
            true = mpmath.re(exact(*(mpmath.mpf(float(q)) for q in lanes)))
            error = error_in_ulp(y, true, machine.p, absolute(*lanes))
            assert error <= bound, f"{name}({lanes}) = {y!r} is off by {error:.3f} ulp"
