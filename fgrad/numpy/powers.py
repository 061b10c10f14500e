"""Powers, elementwise."""

from __future__ import annotations

from fgrad.errors import note_user_line
from fgrad.numpy.common import alias, binary, common, lift, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["float_power", "pow", "power"]


# ---- powers
STATIC_EXPONENT = 16  # Python ints up to here become products; larger ones would compile anew for every value


def power(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 to the power x2.

    A Python int as exponent gives products, exact for integers. 0**0 is 1. Integers to a computed
    negative power give the
    truncated reciprocal (0, 1 or -1); a negative Python int as the exponent of integers raises
    ValueError.

    >>> power(array([1., 2.]), 3)
    Array([1., 8.], dtype=float32)
    """
    if type(x2) is float and x2.is_integer() and lift_dtype(x1).is_inexact:
        x2 = int(x2) if -STATIC_EXPONENT <= x2 <= STATIC_EXPONENT else x2
    if isinstance(x2, int) and not isinstance(x2, bool):
        if x2 < 0 and not lift_dtype(x1).is_inexact:
            raise note_user_line(
                ValueError(
                    f"power: integers have no integer power {x2}; convert with .astype(float) or use float_power"
                )
            )
        if -STATIC_EXPONENT <= x2 <= STATIC_EXPONENT:
            return _integer_power(x1, n=x2)
    return _power(x1, x2)


def lift_dtype(x: ArrayLike) -> dt.DType:
    """The dtype of anything array-like."""
    return x.aval.dtype if isinstance(x, Array) else lift(x).node.dtype


def repeated_product(x: UOp, n: int) -> UOp:
    """x**n for n >= 1 by squaring."""
    out: UOp | None = None
    while True:
        if n & 1:
            out = x if out is None else build.mul(out, x)
        n >>= 1
        if not n:
            assert out is not None
            return out
        x = build.mul(x, x)


@public(static=("n",))
def _integer_power(x: ArrayLike, n: int) -> Array:
    (node, _), dtype, weak = promoted(x, n)
    if n == 0:
        return Tracer(build.const_like(1, node), weak)
    y = repeated_product(node, n if n > 0 else -n)
    return Tracer(y if n > 0 else build.div(build.const_like(1, y), y), weak)


@binary
def _power(x1: ArrayLike, x2: ArrayLike) -> Array:
    (x, y), dtype, weak = common("power", x1, x2)
    if dtype is dt.bool_:
        x, y = build.cast(x, dt.int8), build.cast(y, dt.int8)
    if x.dtype.is_complex:
        zero = build.eq(x, 0)
        safe = uop(Op.WHERE, (zero, build.const_like(1, x), x))
        general = uop(Op.EXP, (build.mul(uop(Op.LOG, (safe,)), y),))
        at_zero = build.where(build.eq(y, 0), build.const_like(1, x), build.zeros_like(x))
        return Tracer(build.where(zero, at_zero, general), weak)
    if x.dtype.is_float:
        return Tracer(uop(Op.POW, (x, y)), weak)
    return Tracer(_int_power(x, y), weak)


def _int_power(x: UOp, y: UOp) -> UOp:
    """x**y of integers, modulo the width, by squaring over all bits of y."""
    out, base, bits = build.const_like(1, x), x, y
    for i in range(x.dtype.bits - x.dtype.is_signed):
        out = build.where(build.eq(build.and_(bits, 1), 1), build.mul(out, base), out)
        if i + 1 < x.dtype.bits - x.dtype.is_signed:
            base, bits = build.mul(base, base), build.shr(bits, 1)
    if not x.dtype.is_signed:
        return out
    one = build.const_like(1, x)
    alternating = build.where(build.eq(build.and_(y, 1), 1), build.const_like(-1, x), one)
    reciprocal_ = build.where(build.eq(x, 1), one, build.where(build.eq(x, -1), alternating, build.zeros_like(x)))
    return build.where(build.lt(y, 0), reciprocal_, out)


pow = alias(power, "pow")


@binary
def float_power(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1**x2 computed in floats, so that integers may have negative powers.

    The operands broadcast; integers become the default float.

    >>> float_power(array([1, 2]), -1)
    Array([1. , 0.5], dtype=float32)
    """
    (x, y), dtype, weak = common("float_power", x1, x2, least=dt.default_float())
    return lift(_power(Tracer(x, weak), Tracer(y, weak)))
