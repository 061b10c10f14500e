"""A machine that computes at once on NumPy arrays, with an exact fused multiply-add.

It is the meaning of the functions: the PYTHON device runs on it, and compiled code is compared with
it bit for bit. Arrays broadcast; constants are NumPy scalars.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fgrad.lower.functions.machine import Kind, Machine

Lanes: TypeAlias = "NDArray[Any]"
_Doubles: TypeAlias = "NDArray[np.float64]"


class NumpyMachine(Machine[Lanes]):
    """Evaluates on arrays of `dtype`, float32 or float64.

    Raises TypeError for another dtype.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.float_type = np.dtype(dtype)
        if self.float_type not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(f"functions work in float32 or float64, got {self.float_type}")
        single = self.float_type == np.float32
        self.p = 24 if single else 53
        self.int_type = np.dtype(np.int32 if single else np.int64)
        self.unsigned_type = np.dtype(np.uint32 if single else np.uint64)

    def const(self, value: float) -> Lanes:
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(value, self.float_type)

    def int_const(self, value: int) -> Lanes:
        wrapped = value & ((1 << 8 * self.int_type.itemsize) - 1)
        return np.asarray(wrapped, self.unsigned_type).view(self.int_type)

    def add(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.add, x, y)

    def sub(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.subtract, x, y)

    def mul(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.multiply, x, y)

    def div(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.divide, x, y)

    def fma(self, x: Lanes, y: Lanes, z: Lanes) -> Lanes:
        return _quiet(_fma_single if self.p == 24 else _fma_double, x, y, z)

    def sqrt(self, x: Lanes) -> Lanes:
        return _quiet(np.sqrt, x)

    def rint(self, x: Lanes) -> Lanes:
        return _quiet(np.rint, x)

    def abs(self, x: Lanes) -> Lanes:
        return np.asarray(np.abs(x))

    def neg(self, x: Lanes) -> Lanes:
        return np.asarray(np.negative(x))

    def copysign(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.copysign(x, y))

    def lt(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.less, x, y)

    def le(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.less_equal, x, y)

    def eq(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.equal, x, y)

    def ne(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.not_equal, x, y)

    def int_add(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.add, x, y)

    def int_sub(self, x: Lanes, y: Lanes) -> Lanes:
        return _quiet(np.subtract, x, y)

    def int_and(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.bitwise_and(x, y))

    def int_or(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.bitwise_or(x, y))

    def int_xor(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.bitwise_xor(x, y))

    def shl(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.left_shift(x, y))

    def lshr(self, x: Lanes, y: Lanes) -> Lanes:
        unsigned = np.asarray(x).view(self.unsigned_type)
        shifted = np.right_shift(unsigned, np.asarray(y).view(self.unsigned_type))
        return np.asarray(shifted).view(self.int_type)

    def int_lt(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.less(x, y))

    def int_ne(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.not_equal(x, y))

    def mask_and(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.logical_and(x, y))

    def mask_or(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.logical_or(x, y))

    def mask_xor(self, x: Lanes, y: Lanes) -> Lanes:
        return np.asarray(np.logical_xor(x, y))

    def mask_not(self, x: Lanes) -> Lanes:
        return np.asarray(np.logical_not(x))

    def bits(self, x: Lanes) -> Lanes:
        return np.asarray(x).view(self.int_type)

    def from_bits(self, x: Lanes) -> Lanes:
        return np.asarray(x).view(self.float_type)

    def select(self, kind: Kind, mask: Lanes, x: Lanes, y: Lanes) -> Lanes:
        return np.where(mask, x, y)

    def branch_any(
        self,
        mask: Lanes,
        kinds: tuple[Kind, ...],
        then: Callable[[], tuple[Lanes, ...]],
        otherwise: Callable[[], tuple[Lanes, ...]],
    ) -> tuple[Lanes, ...]:
        if not np.any(mask):
            return otherwise()
        return super().branch_any(mask, kinds, then, otherwise)


def _quiet(operation: Callable[..., Any], *operands: Lanes) -> Lanes:
    """Overflow, NaN and division by zero are ordinary values here."""
    with np.errstate(all="ignore"):
        return np.asarray(operation(*operands))


def _two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _to_odd(h: Lanes, low: Lanes) -> Lanes:
    """h + low, where low is the exact error, rounded to odd: then one later rounding is right."""
    i = np.asarray(h).view(np.int64)
    inexact_even = (low != 0) & (i & 1 == 0) & np.isfinite(h)
    step = np.where((low > 0) == (h > 0), 1, -1)
    return np.asarray(np.where(inexact_even, i + step, i)).view(np.float64)


def _fma_single(x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """float32: the product is exact in float64, the sum is rounded to odd and then once more."""
    product = np.asarray(x, np.float64) * y
    s, error = _two_sum(product, np.asarray(z, np.float64))
    exact = ~np.isfinite(s) | (s == 0)
    return np.where(exact, s, _to_odd(s, error)).astype(np.float32)


def _split(x: _Doubles) -> tuple[_Doubles, _Doubles]:
    """x in [1/2, 1) as two halves of 26 bits (Dekker 1971)."""
    t = 134217729.0 * x  # 2^27 + 1
    high = t - (t - x)
    return high, x - high


def _fma_double(x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """float64, after Boldo and Melquiond (2008) on operands scaled to fractions.

    Results in or next to the subnormals are redone in rational arithmetic, lane by lane.
    """
    x, y, z = np.broadcast_arrays(np.asarray(x, np.float64), y, z)
    product_ok = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    ordinary = product_ok & np.isfinite(z) & (z != 0)
    fx, ex = np.frexp(np.where(ordinary, x, 1.0))
    fy, ey = np.frexp(np.where(ordinary, y, 1.0))
    fz, ez = np.frexp(np.where(ordinary, z, 1.0))
    ep = ex + ey
    # A summand 2^200 times smaller than the other acts only by its sign: it may as well be larger.
    e = np.maximum(ep, ez)
    ep, ez = np.maximum(ep, e - 200), np.maximum(ez, e - 200)

    p = fx * fy
    (xh, xl), (yh, yl) = _split(fx), _split(fy)
    p_low = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
    p, p_low = np.ldexp(p, ep - e), np.ldexp(p_low, ep - e)
    t, t_low = _two_sum(np.ldexp(fz, ez - e), p_low)
    v, v_low = _two_sum(p, t)
    rest, rest_low = _two_sum(t_low, v_low)
    scaled = v + _to_odd(rest, rest_low)
    result = np.ldexp(scaled, e)

    result = np.where(ordinary, result, np.where(product_ok & (z == 0), x * y, x * y + z))
    low = ordinary & (scaled != 0) & (np.abs(result) <= 2.0**-1021)
    if low.any():
        result[low] = [
            _rational_fma(*operands) for operands in zip(x[low], y[low], z[low], strict=True)
        ]
    return result


def _rational_fma(x: float, y: float, z: float) -> float:
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    return float(exact) if exact > 0 else -float(-exact)  # a result that rounds to 0 has a sign
