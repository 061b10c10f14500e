"""Bits of integers: combined, shifted, counted; the upper half of products."""

from __future__ import annotations

from fgrad.errors import DtypeError, note_user_line
from fgrad.numpy.common import binary, common, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp


def _bit_operands(name: str, x: ArrayLike, y: ArrayLike) -> tuple[UOp, UOp, bool]:
    (a, b), dtype, weak = common(name, x, y)
    need(
        dtype.is_int or dtype is dt.bool_,
        name,
        f"{dtype} numbers have no bits to combine; use .view or .astype",
    )
    return a, b, weak


@binary
def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """x & y.

    Integers or bools, which broadcast; dtypes are promoted.

    >>> lax.bitwise_and(fnp.array([12, 7]), 10)
    Array([8, 2], dtype=int64)
    """
    a, b, weak = _bit_operands("bitwise_and", x, y)
    return Tracer(build.and_(a, b), weak)


@binary
def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """x | y.

    Integers or bools, which broadcast; dtypes are promoted.

    >>> lax.bitwise_or(fnp.array([12, 7]), 10)
    Array([14, 15], dtype=int64)
    """
    a, b, weak = _bit_operands("bitwise_or", x, y)
    return Tracer(build.or_(a, b), weak)


@binary
def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """x ^ y.

    Integers or bools, which broadcast; dtypes are promoted.

    >>> lax.bitwise_xor(fnp.array([12, 7]), 10)
    Array([ 6, 13], dtype=int64)
    """
    a, b, weak = _bit_operands("bitwise_xor", x, y)
    return Tracer(build.xor(a, b), weak)


@public()
def bitwise_not(x: ArrayLike) -> Array:
    """All bits flipped.

    Integers; of bools: not.

    >>> lax.bitwise_not(fnp.array([0, 7]))
    Array([-1, -8], dtype=int64)
    """
    t = lift(x)
    return Tracer(build.not_(t.node), t.weak)


def _shift_operands(name: str, x: ArrayLike, y: ArrayLike) -> tuple[UOp, UOp, bool]:
    a, b, weak = _bit_operands(name, x, y)
    need(a.dtype is not dt.bool_, name, "bools cannot be shifted; convert with .astype")
    return a, b, weak


@binary
def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """x << y; 0 for shifts by the width or more.

    Integers, which broadcast; dtypes are promoted.

    >>> lax.shift_left(fnp.array([1, 3]), fnp.array([4, 70]))
    Array([16,  0], dtype=int64)
    """
    a, b, weak = _shift_operands("shift_left", x, y)
    return Tracer(build.shl(a, b), weak)


@binary
def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x >> y, filled with the sign bit.

    Integers, which broadcast; dtypes are promoted.

    >>> lax.shift_right_arithmetic(fnp.array([-8, 8]), 1)
    Array([-4,  4], dtype=int64)
    """
    a, b, weak = _shift_operands("shift_right_arithmetic", x, y)
    if not a.dtype.is_signed:
        signed = _signed(a)
        out = build.shr(signed, build.bitcast(b, signed.dtype))
        return Tracer(build.bitcast(out, a.dtype), weak)
    return Tracer(build.shr(a, b), weak)


@binary
def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x >> y, filled with zeros.

    Integers, which broadcast; dtypes are promoted.

    >>> lax.shift_right_logical(fnp.array([-8, 8], "int8"), np.int8(1))
    Array([124,   4], dtype=int8)
    """
    a, b, weak = _shift_operands("shift_right_logical", x, y)
    bits, by = unsigned(a), unsigned(b)
    return Tracer(build.bitcast(build.shr(bits, by), a.dtype), weak)


_UNSIGNED = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}
_SIGNED = {1: dt.int8, 2: dt.int16, 4: dt.int32, 8: dt.int64}


def unsigned(x: UOp) -> UOp:
    """The same bits as unsigned integers."""
    return build.bitcast(x, _UNSIGNED[x.dtype.itemsize])


def _signed(x: UOp) -> UOp:
    return build.bitcast(x, _SIGNED[x.dtype.itemsize])


def count_ones(x: UOp) -> UOp:
    """Number of set bits of unsigned integers: pairs, then nibbles, then bytes are added up side by side."""
    width = x.dtype.bits
    mask = (1 << width) - 1
    pairs, nibbles, bytes_ = [int(m * (mask // 255)) for m in (0x55, 0x33, 0x0F)]
    x = build.sub(x, build.and_(build.shr(x, 1), pairs))
    x = build.add(build.and_(x, nibbles), build.and_(build.shr(x, 2), nibbles))
    x = build.and_(build.add(x, build.shr(x, 4)), bytes_)
    if width == 8:
        return x
    return build.shr(build.mul(x, mask // 255), width - 8)


@public()
def population_count(x: ArrayLike) -> Array:
    """Number of set bits, in the dtype of `x`.

    Integers only.

    >>> lax.population_count(fnp.array([0, 7, 255], "uint8"))
    Array([0, 3, 8], dtype=uint8)
    """
    t = lift(x)
    if not t.node.dtype.is_int:
        raise note_user_line(
            DtypeError(f"population_count does not accept dtype {t.node.dtype}; it counts the bits of integers")
        )
    return Tracer(build.bitcast(count_ones(unsigned(t.node)), t.node.dtype), t.weak)


@public()
def clz(x: ArrayLike) -> Array:
    """Number of leading zero bits, in the dtype of `x`.

    Integers only.

    >>> lax.clz(fnp.array([0, 1, 255], "uint8"))
    Array([8, 7, 0], dtype=uint8)
    """
    t = lift(x)
    need(t.node.dtype.is_int, "clz", f"it counts the bits of integers, not of {t.node.dtype}")
    bits = unsigned(t.node)
    step = 1
    while step < bits.dtype.bits:  # fill every bit below the highest one
        bits = build.or_(bits, build.shr(bits, step))
        step *= 2
    return Tracer(build.bitcast(count_ones(build.not_(bits)), t.node.dtype), t.weak)


@binary
def mulhi(x: ArrayLike, y: ArrayLike) -> Array:
    """The upper half of the bits of the product of integers.

    The operands broadcast; dtypes are promoted.

    >>> lax.mulhi(fnp.array([200], "uint8"), fnp.array([3], "uint8"))
    Array([2], dtype=uint8)
    """
    (a, b), dtype, weak = common("mulhi", x, y)
    need(dtype.is_int, "mulhi", f"it multiplies integers, not {dtype}")
    if dtype.itemsize < 8:
        wide = dt.int64 if dtype.is_signed else dt.uint64
        product = build.mul(build.cast(a, wide), build.cast(b, wide))
        return Tracer(build.cast(build.shr(product, dtype.bits), dtype), weak)
    low = 0xFFFFFFFF
    u, v = unsigned(a), unsigned(b)
    u0, u1, v0, v1 = build.and_(u, low), build.shr(u, 32), build.and_(v, low), build.shr(v, 32)
    middle = build.add(build.mul(u1, v0), build.shr(build.mul(u0, v0), 32))
    cross = build.add(build.mul(u0, v1), build.and_(middle, low))
    top = build.add(build.add(build.mul(u1, v1), build.shr(middle, 32)), build.shr(cross, 32))
    if not dtype.is_signed:
        return Tracer(top, weak)
    for one, other in ((a, v), (b, u)):  # a negative number stands for 2^64 more
        top = build.sub(top, build.where(build.lt(one, 0), other, build.zeros_like(other)))
    return Tracer(build.bitcast(top, dtype), weak)


__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "mulhi", "population_count", "shift_left",
    "shift_right_arithmetic", "shift_right_logical",
]  # fmt: skip
