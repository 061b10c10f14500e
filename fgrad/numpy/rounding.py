"""Rounding to integers and to decimals, elementwise."""

from __future__ import annotations

from fgrad.numpy.common import alias, lift, need, no_out, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["around", "ceil", "floor", "rint", "round", "trunc"]


# ---- rounding
def _rounding(name: str, op: Op, x: ArrayLike) -> Array:
    t = lift(x)
    need(
        not t.node.dtype.is_complex,
        name,
        "complex numbers cannot be rounded this way; round the parts",
    )
    return Tracer(uop(op, (t.node,)) if t.node.dtype.is_float else t.node, t.weak)


@public()
def floor(x: ArrayLike) -> Array:
    """The largest integer not above x, in x's dtype.

    Integers are themselves; complex numbers are refused with DtypeError. The derivative is 0.

    >>> floor(array([1.2, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """
    return _rounding("floor", Op.FLOOR, x)


@public()
def ceil(x: ArrayLike) -> Array:
    """The smallest integer not below x, in x's dtype.

    Integers are themselves; complex numbers are refused with DtypeError. The derivative is 0.

    >>> ceil(array([1.2, -1.2]))
    Array([ 2., -1.], dtype=float32)
    """
    return _rounding("ceil", Op.CEIL, x)


@public()
def trunc(x: ArrayLike) -> Array:
    """x without its fraction, in x's dtype.

    Integers are themselves; complex numbers are refused with DtypeError. The derivative is 0.

    >>> trunc(array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """
    return _rounding("trunc", Op.TRUNC, x)


fix = trunc


@public()
def rint(x: ArrayLike) -> Array:
    """The nearest integer as a float; halves go to the even one.

    Integers and bools become the default float. The derivative is 0.

    >>> rint(array([0.5, 1.5, -1.2]))
    Array([ 0.,  2., -1.], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    return Tracer(_round_parts(node), weak)


def _round_parts(x: UOp) -> UOp:
    if x.dtype.is_complex:
        return build.complex_(build.round_(build.real(x)), build.round_(build.imag(x)))
    return build.round_(x)


@public(static=("decimals",))
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` to that many decimals (negative: tens, hundreds ..); halves go to the even digit.

    Dtype and shape are those of `a`.

    >>> around(array([0.5, 1.25, 17.0]), 1)
    Array([ 0.5,  1.2, 17. ], dtype=float32)
    """
    no_out(out, "round")
    t = lift(a)
    x, n = t.node, int(decimals)
    if not x.dtype.is_inexact:
        if n >= 0 or x.dtype is dt.bool_:
            return Tracer(x, t.weak)
        unit = 10**-n
        if unit > dt.int_range(x.dtype)[1]:
            return Tracer(build.zeros_like(x), t.weak)
        quotient, rest = build.idiv(x, unit), build.mod(x, unit)
        odd = build.eq(build.and_(quotient, 1), 1)
        up = build.or_(
            build.lt(build.const_like(unit // 2, rest), rest),
            build.and_(build.eq(rest, unit // 2), odd),
        )
        return Tracer(build.mul(build.add(quotient, build.cast(up, x.dtype)), unit), t.weak)
    if n == 0:
        return Tracer(_round_parts(x), t.weak)
    wide = build.cast(x, dt.accumulator(x.dtype))
    scale = build.const_like(10.0 ** builtin_abs(n), wide)
    scaled = _round_parts(build.mul(wide, scale) if n > 0 else build.div(wide, scale))
    back = build.div(scaled, scale) if n > 0 else build.mul(scaled, scale)
    return Tracer(build.cast(back, x.dtype), t.weak)


def builtin_abs(n: int) -> int:
    """|n| of a Python int (`abs` is the array function here)."""
    return n if n >= 0 else -n


around = alias(round, "around")
