"""Where the functions are tried: all bit patterns at a stride, their usual interval, their seams."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

# The interval in which the result is neither constant nor out of range, for float64 and float32.
INTERVALS: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "exp": ((-746, 710.5), (-104, 89)),
    "exp2": ((-1076, 1025), (-150, 129)),
    "expm1": ((-45, 710.5), (-20, 89)),
    "sinh": ((-711, 711), (-90, 90)),
    "cosh": ((-711, 711), (-90, 90)),
    "sigmoid": ((-750, 50), (-105, 20)),
    "softplus": ((-750, 50), (-105, 20)),
    "erfc": ((-6.5, 27.5), (-4.5, 10.2)),
    "erf": ((-6.5, 6.5), (-4.5, 4.5)),
    "sin": ((-1e4, 1e4), (-1e4, 1e4)),
    "cos": ((-1e4, 1e4), (-1e4, 1e4)),
    "tan": ((-1e4, 1e4), (-1e4, 1e4)),
    "tanh": ((-25, 25), (-12, 12)),
    "asin": ((-1, 1), (-1, 1)),
    "acos": ((-1, 1), (-1, 1)),
    "atanh": ((-1, 1), (-1, 1)),
    "erfinv": ((-1, 1), (-1, 1)),
    "acosh": ((1, 10), (1, 10)),
    "log1p": ((-1, 3), (-1, 3)),
    "lgamma": ((-30, 20), (-30, 20)),
    "digamma": ((-30, 20), (-30, 20)),
}
# Zeros and poles that are not at 0, and where one formula ends and the next begins.
SEAMS: dict[str, tuple[float, ...]] = {
    "log": (1,),
    "log2": (1,),
    "log10": (1,),
    "acosh": (1,),
    "log1p": (-1,),
    "asin": (1, -1, 0.5),
    "acos": (1, -1, 0.5),
    "atanh": (1, -1),
    "erfinv": (1, -1, 0.9945, 0.999),
    "lgamma": (1, 2, 1.5, 0.5, 8, -2.457024738220801, -7),
    "digamma": (1, 2, 3, 6, 1.4616321449683623, -0.5040830082644554, -5),
    "atan": (math.tan(math.pi / 8), math.tan(3 * math.pi / 8)),
    "erf": (0.5,),
    "erfc": (0.5,),
    "sin": (math.pi, 1e5 * math.pi),
    "cos": (math.pi / 2, 1e5 * math.pi / 2),
    "tan": (math.pi / 2, 5 * math.pi),
}


def sweep(dtype: np.dtype[Any], count: int, start: int = 0) -> Floats:
    """About `count` floats whose bit patterns are equally spaced: both signs and every exponent."""
    width = 8 * dtype.itemsize
    step = (2**width // count) | 1  # odd, so that the low bits of the fraction change too
    patterns = np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(start)
    return patterns.astype(f"u{dtype.itemsize}").view(dtype)


class Draw:
    """Random operands of one dtype; the same in every run."""

    def __init__(self, name: str, dtype: np.dtype[Any], count: int) -> None:
        self.rng = np.random.default_rng(len(name) * 1000 + ord(name[0]))
        self.name = name
        self.dtype = dtype
        self.count = count
        self.single = dtype == np.float32

    def uniform(self, low: float, high: float, count: int) -> Floats:
        return self.rng.uniform(low, high, count).astype(self.dtype)

    def around(self, centre: float, count: int) -> Floats:
        """Numbers at all distances from a point, down to its neighbours."""
        steps = self.rng.integers(1, 25 if self.single else 54, count)
        return (centre * (1 + np.ldexp(self.rng.uniform(-1, 1, count), -steps))).astype(self.dtype)

    def exponents(self, low: int, high: int, count: int) -> Floats:
        """Both signs, exponents from `low` to `high`."""
        powers = self.rng.integers(low, high + 1, count)
        fraction = self.rng.uniform(1, 2, count) * self.rng.choice([-1.0, 1.0], count)
        with np.errstate(over="ignore"):  # a fraction that is rounded up beyond the largest number
            return np.ldexp(fraction, powers).astype(self.dtype)

    def unary(self) -> list[Floats]:
        """Half equally spaced patterns, a quarter usual numbers, a quarter around the seams."""
        low, high = INTERVALS.get(self.name, ((-10, 10), (-10, 10)))[self.single]
        seams = SEAMS.get(self.name, (1.0,))
        near = [self.around(seam, self.count // (4 * len(seams))) for seam in seams]
        usual = self.uniform(low, high, self.count // 4)
        if self.name in ("lgamma", "digamma"):  # far negative ones are only absolutely accurate
            usual[::2] = np.abs(usual[::2])
        if self.name in ("sin", "cos", "tan"):  # the hard ones: next to multiples of pi / 2
            turns = self.rng.integers(-(2**40), 2**40, self.count // 8)
            usual[: len(turns)] = (turns >> self.rng.integers(0, 40, len(turns))) * (math.pi / 2)
        return [np.concatenate([sweep(self.dtype, self.count // 2), usual, *near])]

    def pair(self) -> list[Floats]:
        """Operands of a function of two numbers, in parts that its formula tells apart."""
        n = self.count // 4
        if self.name == "pow":
            return self.powers(n)
        if self.name == "logaddexp":
            r = 110 if self.single else 800
            x = [self.uniform(-r, r, 2 * n), self.uniform(-5, 5, n), self.exponents(-60, 20, n)]
            y = [self.uniform(-r, r, n), self.uniform(-60, 5, 2 * n), self.exponents(-60, 20, n)]
            return [np.concatenate(x), np.concatenate(y)]
        least, most = (-149, 127) if self.single else (-1074, 1023)
        ranges = ((-10, 10), (least, most), (least, least + 60), (most - 30, most))
        others = ((-10, 10), (least, most), (least, least + 60), (-25, 1))
        x = [self.exponents(low, high, n) for low, high in ranges]
        y = [self.exponents(low, high, n) for low, high in others]
        return [np.concatenate(x), np.concatenate(y)]

    def powers(self, n: int) -> list[Floats]:
        """Positive bases; exponents that make any result, some of them integers."""
        bases = [self.exponents(-10, 10, n), self.exponents(-1, 0, n), self.around(1, n)]
        x = np.abs(np.concatenate([*bases, self.exponents(*((-126, 127) if self.single else (-1022, 1023)), n)]))
        low, high = (-106, 90) if self.single else (-750, 715)
        with np.errstate(divide="ignore", over="ignore"):  # a base of 1
            y = self.rng.uniform(low, high, len(x)) / np.log(x.astype(np.float64))
            y = y.astype(self.dtype)
        y[-n:] = self.rng.integers(-20, 20, n)
        return [x, np.where(np.isfinite(y), y, self.dtype.type(0.5))]


def operands(name: str, arity: int, dtype: np.dtype[Any], count: int) -> list[Floats]:
    """About `count` operands of a function, reaching every part of its domain."""
    draw = Draw(name, dtype, count)
    return draw.pair() if arity == 2 else draw.unary()
