"""What every elementwise op means, in NumPy.

`MEANING[op](u, *operands) -> array` of `u`'s dtype. The reference evaluator and the constant folder
of `simplify` both read this table, so that a folded constant is what the program would have had.

Small floats are computed in float32 and rounded once per op; smooth functions of all real floats
are computed in float64 and rounded. Integers wrap. Call under `np.errstate(all="ignore")`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad.uop.infer  # noqa: F401  fills the table without which no node can be made
from fgrad.uop import dtype as dt
from fgrad.uop import special
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

Array = np.ndarray[Any, np.dtype[Any]]
Meaning = Callable[..., Array]
MEANING: dict[Op, Meaning] = {}


def means(*ops: Op) -> Callable[[Meaning], Meaning]:
    """Enter a row of the table."""

    def enter(row: Meaning) -> Meaning:
        for op in ops:
            MEANING[op] = row
        return row

    return enter


def convert(x: Array, to: DType) -> Array:
    """CAST: floats to integers truncate and saturate, NaN gives 0; integers wrap; bool: x != 0."""
    if to is dt.bool_:
        return np.not_equal(x, np.zeros((), x.dtype))
    if x.dtype.kind == "c" and not to.is_complex:
        x = x.real
    if to.is_int and x.dtype.kind not in "biu":
        wide = np.trunc(x.astype(np.float64))
        lo, hi = dt.int_range(to)
        # hi + 1 is a power of two, hence exact in float64, which hi of 64-bit types is not
        inside = np.where((wide >= lo) & (wide < hi + 1), wide, 0).astype(to.np)
        return np.where(wide >= hi + 1, hi, np.where(wide < lo, lo, inside)).astype(to.np)
    return x.astype(to.np)


def _in_accumulator(f: Callable[..., Array]) -> Meaning:
    """An exact or once-rounded operation: small floats pass through float32."""

    def row(u: UOp, *xs: Array) -> Array:
        if u.src[0].dtype in dt.SMALL_FLOATS:
            xs = tuple([x.astype(np.float32) for x in xs])
        return np.asarray(f(*xs)).astype(u.dtype.np, copy=False)

    return row


def _smooth(f: Callable[..., Array]) -> Meaning:
    """A function computed in float64 (complex: complex128), then rounded to the dtype."""

    def row(u: UOp, *xs: Array) -> Array:
        wide = np.complex128 if u.dtype.is_complex else np.float64
        y = np.asarray(f(*[x.astype(wide) for x in xs]))
        if u.dtype in dt.SMALL_FLOATS:
            y = y.astype(np.float32)
        return y.astype(u.dtype.np)

    return row


def _by_kind(of_bool: Callable[..., Array], of_numbers: Callable[..., Array]) -> Meaning:
    numbers = _in_accumulator(of_numbers)
    return lambda u, x, y: of_bool(x, y) if u.dtype is dt.bool_ else numbers(u, x, y)


means(Op.CAST)(lambda u, x: convert(x, u.dtype))
means(Op.NEG)(_in_accumulator(np.negative))
means(Op.NOT)(_in_accumulator(np.invert))
means(Op.ABS)(_in_accumulator(np.abs))
means(Op.FLOOR)(_in_accumulator(np.floor))
means(Op.CEIL)(_in_accumulator(np.ceil))
means(Op.TRUNC)(_in_accumulator(np.trunc))
means(Op.ROUND)(_in_accumulator(np.rint))
means(Op.SQRT)(_smooth(np.sqrt))
means(Op.RSQRT)(_smooth(lambda x: 1.0 / np.sqrt(x)))
means(Op.CBRT)(_smooth(np.cbrt))
means(Op.EXP)(_smooth(np.exp))
means(Op.EXP2)(_smooth(np.exp2))
means(Op.EXPM1)(_smooth(np.expm1))
means(Op.LOG)(_smooth(np.log))
means(Op.LOG2)(_smooth(np.log2))
means(Op.LOG10)(_smooth(np.log10))
means(Op.LOG1P)(_smooth(np.log1p))
means(Op.SIN)(_smooth(np.sin))
means(Op.COS)(_smooth(np.cos))
means(Op.TAN)(_smooth(np.tan))
means(Op.ASIN)(_smooth(np.arcsin))
means(Op.ACOS)(_smooth(np.arccos))
means(Op.ATAN)(_smooth(np.arctan))
means(Op.SINH)(_smooth(np.sinh))
means(Op.COSH)(_smooth(np.cosh))
means(Op.TANH)(_smooth(np.tanh))
means(Op.ASINH)(_smooth(np.arcsinh))
means(Op.ACOSH)(_smooth(np.arccosh))
means(Op.ATANH)(_smooth(np.arctanh))
means(Op.SIGMOID)(_smooth(special.sigmoid))
means(Op.SOFTPLUS)(_smooth(lambda x: np.logaddexp(x, 0)))
means(Op.ERF)(_smooth(special.erf))
means(Op.ERFC)(_smooth(special.erfc))
means(Op.ERF_INV)(_smooth(special.erf_inv))
means(Op.LGAMMA)(_smooth(special.lgamma))
means(Op.DIGAMMA)(_smooth(special.digamma))
means(Op.REAL)(lambda u, x: x.real.copy())
means(Op.IMAG)(lambda u, x: x.imag.copy())
means(Op.ADD)(_by_kind(np.logical_or, np.add))
means(Op.MUL)(_by_kind(np.logical_and, np.multiply))
means(Op.DIV)(_in_accumulator(np.divide))


@means(Op.IDIV)
def _(u: UOp, x: Array, y: Array) -> Array:
    """Floor; by zero 0; the smallest integer by -1 wraps to itself."""
    safe = np.where(y == 0, np.ones_like(y), y)
    return np.where(y == 0, np.zeros_like(x), np.floor_divide(x, safe))


@means(Op.MOD)
def _(u: UOp, x: Array, y: Array) -> Array:
    """The sign of the divisor; integers by zero 0, floats by zero NaN."""
    if u.dtype.is_float:
        return _float_mod(u, x, y)
    safe = np.where(y == 0, np.ones_like(y), y)
    return np.where(y == 0, np.zeros_like(x), np.mod(x, safe))


_float_mod = _in_accumulator(np.mod)
means(Op.MAX)(_in_accumulator(np.maximum))
means(Op.MIN)(_in_accumulator(np.minimum))
means(Op.POW)(_smooth(np.power))
means(Op.ATAN2)(_smooth(np.arctan2))
means(Op.HYPOT)(_smooth(np.hypot))
means(Op.LOGADDEXP)(_smooth(np.logaddexp))
means(Op.COPYSIGN)(_in_accumulator(np.copysign))
means(Op.AND)(_in_accumulator(np.bitwise_and))
means(Op.OR)(_in_accumulator(np.bitwise_or))
means(Op.XOR)(_in_accumulator(np.bitwise_xor))


@means(Op.SHL, Op.SHR)
def _(u: UOp, x: Array, n: Array) -> Array:
    """A count outside 0 .. width-1 (negative ones too) shifts everything out."""
    bits = u.dtype.bits
    out = (n < 0) | (n >= bits)
    count = np.where(out, np.zeros_like(n), n)
    if u.op is Op.SHL:
        return np.where(out, np.zeros_like(x), np.left_shift(x, count))
    count = np.where(out, np.full_like(n, bits - 1), n)
    gone = np.zeros_like(x) if not u.dtype.is_signed else np.right_shift(x, count)
    return np.where(out, gone, np.right_shift(x, count))


means(Op.LT)(_in_accumulator(np.less))
means(Op.LE)(_in_accumulator(np.less_equal))
means(Op.EQ)(_in_accumulator(np.equal))


@means(Op.COMPLEX)
def _(u: UOp, re: Array, im: Array) -> Array:
    out = np.empty(re.shape, u.dtype.np)
    out.real, out.imag = re, im
    return out


@means(Op.WHERE)
def _(u: UOp, c: Array, x: Array, y: Array) -> Array:
    return np.where(c, x, y)


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al. 2011, table 2, threefry2x32


@means(Op.THREEFRY)
def _(u: UOp, k0: Array, k1: Array, x0: Array, x1: Array) -> Array:
    """Threefry-2x32-20 of the counter (x0, x1) under the key (k0, k1); arg picks the word."""
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    first: Array = x0 + k0
    second: Array = x1 + k1
    for block in range(5):
        for r in _ROTATIONS[block % 2]:
            first = first + second
            second = ((second << np.uint32(r)) | (second >> np.uint32(32 - r))) ^ first
        first = first + keys[(block + 1) % 3]
        second = second + keys[(block + 2) % 3] + np.uint32(block + 1)
    return second if u.arg else first


def apply(u: UOp, *xs: Array) -> Array:
    """The value of elementwise node `u` on operand arrays of its sources' dtypes."""
    return np.asarray(MEANING[u.op](u, *xs), u.dtype.np)


def identity(op: Op, dtype: DType) -> Any:
    """The value of a REDUCE by `op` over no elements."""
    if op in (Op.MAX, Op.MIN):
        if not dtype.is_float:
            return dt.int_range(dtype)[op is Op.MIN]
        limits = dt.finfo(dtype)
        has_infinity = dtype not in dt.WITHOUT_INFINITY
        low = -np.inf if has_infinity else float(limits.min)
        return low if op is Op.MAX else -low
    if op is Op.AND:  # all bits set
        return True if dtype is dt.bool_ else -1 if dtype.is_signed else dt.int_range(dtype)[1]
    return 1 if op is Op.MUL else 0
