"""The exact values of the functions: mpmath judges, wider floats say quickly where to look."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import scipy.special
from numpy.typing import NDArray

Wide = NDArray[np.floating[Any]]
BITS = 200  # of mpmath's working precision

# long double, where that is wider than float64: its last bit is far below what is measured
WIDER: type[np.floating[Any]] | None = np.longdouble if np.finfo(np.longdouble).nmant > 60 else None


def _sigmoid(x: Wide) -> Wide:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _log_add(x: Wide, y: Wide) -> Wide:
    return np.where(x == y, x + np.log(x.dtype.type(2)), np.maximum(x, y) + np.log1p(np.exp(-np.abs(x - y))))


# In the dtype of their operands.
QUICK: dict[str, Callable[..., Wide]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.where(x > 100, x, np.log1p(np.exp(np.minimum(x, 100)))),
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": _log_add,
}
# In float64 only, to a few units of its last place: enough for float32. They overflow too early.
QUICK_DOUBLE: dict[str, Callable[..., Wide]] = {
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.digamma,
}


def _lgamma(x: Any) -> Any:
    if x > 0:
        return mpmath.loggamma(x)
    return mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x)


def _digamma(x: Any) -> Any:
    if x > 0:
        return mpmath.digamma(x)
    return mpmath.digamma(1 - x) - mpmath.pi * mpmath.cospi(x) / mpmath.sinpi(x)


EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log10": lambda x: mpmath.log(x) / mpmath.log(10),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "erfc": lambda x: mpmath.erfc(x) if abs(x) < 40 else mpmath.mpf(2 * (x < 0)),
    "lgamma": _lgamma,
    "digamma": _digamma,
    "pow": mpmath.power,
    "logaddexp": lambda x, y: max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y))),
}


def exactly(name: str, xs: tuple[float, ...], near: float) -> Any:
    """The exact value at finite operands inside the domain, as an mpf.

    near  the computed value; the inverse error function is one Newton step away from it
    """
    points = [mpmath.mpf(x) for x in xs]
    if name != "erfinv":
        return mpmath.re((EXACT.get(name) or getattr(mpmath, name))(*points))
    y = mpmath.mpf(near)
    slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y)
    step = (mpmath.erf(y) - points[0]) / slope
    return y - step / (1 + y * step)  # Halley's rule: the error left is the cube of the step


def quickly(name: str, xs: list[Wide]) -> tuple[Wide, bool]:
    """-> (values in a wider format, whether they are good enough to rank errors by).

    float32 is judged in float64; float64 in long double, where there is one for the function.
    """
    with np.errstate(all="ignore"):
        if xs[0].dtype == np.float32:
            f = QUICK.get(name) or QUICK_DOUBLE[name]
            return f(*(x.astype(np.float64) for x in xs)), True
        if name in QUICK and WIDER is not None:
            return QUICK[name](*(x.astype(WIDER) for x in xs)), True
        return (QUICK.get(name) or QUICK_DOUBLE[name])(*xs), False


def is_pole(name: str, xs: list[Wide]) -> NDArray[np.bool_]:
    """Where a function of QUICK_DOUBLE is infinite or undefined at a finite number."""
    x = np.where(np.isfinite(xs[0]), xs[0], 0.5)
    if name in ("lgamma", "digamma"):
        return np.asarray((x <= 0) & (x % 1 == 0))
    return np.asarray((name == "erfinv") & (np.abs(x) >= 1))


def is_absolute(name: str, xs: list[Wide]) -> NDArray[np.bool_]:
    """Where the unit is that of results of at least 1: near zeros that no float hits."""
    if name in ("lgamma", "digamma"):
        return np.asarray(xs[0] < 0)
    return np.full(xs[0].shape, name == "logaddexp")


def unit(exact: Any, bits: int, absolute: bool) -> Any:
    """The last place of a format with that many bits at an exact value, as an mpf."""
    least = -149 if bits == 24 else -1074
    exponent = mpmath.frexp(exact)[1] if exact else least
    return mpmath.mpf(2) ** max((max(exponent, 1) if absolute else exponent) - bits, least)


def units(exact: Wide, bits: int, absolute: NDArray[np.bool_]) -> Wide:
    """`unit` of every element, in the dtype of `exact`."""
    least = -149 if bits == 24 else -1074
    exponent = np.frexp(np.where(np.isfinite(exact), exact, 1))[1]
    exponent = np.where(exact == 0, least, exponent)
    exponent = np.where(absolute, np.maximum(exponent, 1), exponent)
    return np.ldexp(exact.dtype.type(1), np.maximum(exponent - bits, least))
