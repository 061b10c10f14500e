"""Operands that reach every part of a function: wide, usual, near its zeros, poles and seams."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

Arrays = list[NDArray[np.floating]]

# The interval where the function is interesting; float32 clips the exponential ones by overflow.
USUAL = {
    "exp": (-746, 710.5),
    "exp2": (-1076, 1025),
    "expm1": (-45, 710.5),
    "sinh": (-711, 711),
    "cosh": (-711, 711),
    "sigmoid": (-750, 50),
    "softplus": (-750, 50),
    "sin": (-1e3, 1e3),
    "cos": (-1e3, 1e3),
    "tan": (-1e3, 1e3),
    "tanh": (-25, 25),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-1, 1),
    "erfinv": (-1, 1),
    "acosh": (1, 10),
    "log1p": (-1, 3),
    "erf": (-6.5, 6.5),
    "erfc": (-6.5, 27.5),
    "lgamma": (0, 20),
    "digamma": (0, 20),
}
SINGLE_USUAL = {
    "exp": (-104, 89),
    "exp2": (-150, 129),
    "expm1": (-20, 89),
    "sinh": (-90, 90),
    "cosh": (-90, 90),
    "sigmoid": (-105, 20),
    "softplus": (-105, 20),
    "erfc": (-4.5, 10.2),
}
CENTRE = {  # zeros and poles that are not at 0
    "log": (1,),
    "log2": (1,),
    "log10": (1,),
    "acosh": (1,),
    "log1p": (-1,),
    "asin": (1, -1, 0.5),
    "acos": (1, -1, 0.5),
    "atanh": (1, -1),
    "erfinv": (1, -1),
    "lgamma": (1, 2, 1.5, 0.5, 8, -2.457024738220801, -7),
    "digamma": (1, 2, 3, 6, 1.4616321449683623, -0.5040830082644554, -5),
    "atan": (0.41421356, 2.41421356),
    "erf": (0.5,),
    "erfc": (0.5,),
    "tan": (np.pi / 2, 5 * np.pi),
    "sin": (np.pi, 1e5 * np.pi),
    "cos": (np.pi / 2, 1e5 * np.pi / 2),
}


class Sampler:
    def __init__(self, rng: np.random.Generator, dtype: DTypeLike) -> None:
        self.rng = rng
        self.dtype = np.dtype(dtype)
        self.single = self.dtype == np.float32
        self.fraction_bits, self.bias = (23, 127) if self.single else (52, 1023)

    def uniform(self, low: float, high: float, n: int) -> NDArray[np.floating]:
        return self.rng.uniform(low, high, n).astype(self.dtype)

    def exponents(self, low: int, high: int, n: int) -> NDArray[np.floating]:
        """Either sign, random fraction, exponents from low to high within the format."""
        low, high = (min(max(e + self.bias, 0), 2 * self.bias) for e in (low, high))
        unsigned = np.uint32 if self.single else np.uint64
        e = self.rng.integers(low, high + 1, n).astype(unsigned)
        f = self.rng.integers(0, 1 << self.fraction_bits, n).astype(unsigned)
        sign = self.rng.integers(0, 2, n).astype(unsigned)
        width = 8 * self.dtype.itemsize
        return ((sign << (width - 1)) | (e << self.fraction_bits) | f).view(self.dtype)

    def around(self, centre: float, n: int) -> NDArray[np.floating]:
        steps = self.rng.integers(1, self.fraction_bits + 2, n)
        offsets = np.ldexp(self.rng.uniform(-1, 1, n), -steps)
        return (centre * (1 + offsets)).astype(self.dtype)

    def unary(self, name: str, n: int) -> Arrays:
        low, high = USUAL.get(name, (-10, 10))
        if self.single:
            low, high = SINGLE_USUAL.get(name, (low, high))
        parts = [
            self.uniform(low, high, n),
            self.exponents(-40, 12, n),
            self.exponents(-1100, 1100, n // 2),
            self.uniform(-2, 2, n // 2),
        ]
        for centre in CENTRE.get(name, ()):
            parts.append(self.around(centre, n // 4))
        if name in ("lgamma", "digamma"):
            parts.append(self.uniform(-30, 0, n))
        if name in ("sin", "cos", "tan"):
            quadrants = self.rng.integers(-(2**40), 2**40, n) >> self.rng.integers(0, 40, n)
            parts.append((quadrants * (np.pi / 2)).astype(self.dtype))
            parts.append(self.exponents(14, 1100, n))
        if name == "exp2":
            parts.append(self.rng.integers(-1080, 1030, n // 4).astype(self.dtype))
        return [np.concatenate(parts)]

    def pow(self, n: int) -> Arrays:
        x = np.abs(
            np.concatenate(
                [
                    self.exponents(-10, 10, n),
                    self.exponents(-1, 0, n),
                    self.around(1, n),
                    self.exponents(-1022, 1023, n),
                ]
            )
        )
        low, high = (-106, 90) if self.single else (-750, 715)
        with np.errstate(all="ignore"):
            wanted_log = self.rng.uniform(low, high, len(x))
            y = (wanted_log / np.log(x.astype(np.float64))).astype(self.dtype)
        y[-n:] = self.rng.integers(-20, 20, n)
        return [x, np.where(np.isfinite(y), y, np.asarray(0.5, self.dtype))]

    def logaddexp(self, n: int) -> Arrays:
        r = 110 if self.single else 800
        x = [self.uniform(-r, r, 2 * n), self.uniform(-5, 5, n), self.exponents(-60, 20, n)]
        y = [self.uniform(-r, r, n), self.uniform(-60, 5, 2 * n), self.exponents(-60, 20, n)]
        return [np.concatenate(x), np.concatenate(y)]

    def plane(self, n: int) -> Arrays:
        ranges = ((-10, 10), (-1100, 1100), (-1100, -900), (900, 1100), (0, 0))
        others = ((-10, 10), (-1100, 1100), (-1100, -900), (900, 1100), (-25, 1))
        x = [self.exponents(low, high, n) for low, high in ranges]
        y = [self.exponents(low, high, n) for low, high in others]
        return [np.concatenate(x), np.concatenate(y)]


@pytest.fixture
def operands(rng: np.random.Generator) -> Callable[[str, DTypeLike, int], Arrays]:
    """operands(name, dtype, n): arrays of some n lanes for each part of the function's domain."""

    def draw(name: str, dtype: DTypeLike, n: int) -> Arrays:
        sampler = Sampler(rng, dtype)
        if name == "pow":
            return sampler.pow(n)
        if name == "logaddexp":
            return sampler.logaddexp(n)
        if name in ("atan2", "hypot"):
            return sampler.plane(n)
        return sampler.unary(name, n)

    return draw
