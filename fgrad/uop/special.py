"""Special functions in float64 that NumPy does not have: the judges of the compiled ones.

Each takes and returns float64 arrays. Slow (some call `math` once per element), accurate to a few
units in the last place, and free of SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def _each(f: Callable[[float], float]) -> Callable[[Array], Array]:
    """The array function that applies `f` to every element."""

    def apply(x: Array) -> Array:
        return np.array([f(v) for v in x.ravel().tolist()], np.float64).reshape(x.shape)

    return apply


def _lgamma(x: float) -> float:
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.inf  # a pole
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


erf = _each(math.erf)
erfc = _each(math.erfc)
lgamma = _each(_lgamma)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without cancellation on either side."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _erf_inv(x: float) -> float:
    a = abs(x)
    if not a < 1:
        return math.copysign(math.inf, x) if a == 1 else math.nan
    if a < 1e-9:  # erf is linear here
        return x * (math.sqrt(math.pi) / 2)
    # S. Winitzki's closed form (2008) is good to 2e-3; each step of Halley's rule triples that.
    log = math.log1p(-x * x)
    half = 2 / (math.pi * 0.147) + log / 2
    y = math.sqrt(math.sqrt(half * half - log / 0.147) - half)
    for _ in range(4):
        error = math.erf(y) - a if a < 0.5 else (1 - a) - math.erfc(y)
        step = error / (2 / math.sqrt(math.pi) * math.exp(-y * y))
        y -= step / (1 + y * step)
    return math.copysign(y, x)


erf_inv = _each(_erf_inv)

# B(2k) / 2k of the asymptotic series of digamma, Abramowitz & Stegun 6.3.18
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _digamma(x: float) -> float:
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0:
        if x == math.floor(x):
            return math.nan
        away = x - round(x)  # tan has period pi: keep its argument small and exact
        return _digamma(1 - x) - math.pi / math.tan(math.pi * away)
    shift = 0.0
    while x < 12:
        shift -= 1 / x
        x += 1
    z = 1 / (x * x)
    series = 0.0
    for c in reversed(_DIGAMMA):
        series = (series + c) * z
    return shift + (math.log(x) - 0.5 / x - series)


digamma = _each(_digamma)
