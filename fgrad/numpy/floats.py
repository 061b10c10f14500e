"""The anatomy of floating-point numbers: fractions, exponents, neighbours."""

from __future__ import annotations

import math

from fgrad.numpy.bits import signed, unsigned
from fgrad.numpy.common import binary, broadcast, common, is_nan, lift, need, no_out, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["frexp", "ldexp", "modf", "nextafter", "spacing"]


# ---- the anatomy of floats
class _Layout:
    """Bits of a floating dtype: mantissa width and exponent bias."""

    def __init__(self, dtype: DType) -> None:
        info = dt.finfo(dtype)
        self.mantissa = int(info.nmant)
        self.bias = 1 - int(info.minexp)


@public()
def modf(x: ArrayLike, out: None = None) -> tuple[Array, Array]:
    """(fraction, whole part), both with the sign of x.

    >>> modf(array([2.75, -0.5]))
    (Array([ 0.75, -0.5 ], dtype=float32), Array([ 2., -0.], dtype=float32))
    """
    no_out(out, "modf")
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "modf", "it takes real numbers")
    whole = build.trunc(node)
    infinite = build.eq(build.abs_(node), math.inf)
    part = build.where(infinite, build.zeros_like(node), build.sub(node, whole))
    return Tracer(uop(Op.COPYSIGN, (part, node)), weak), Tracer(whole, weak)


def _power_of_two(n: UOp, dtype: DType) -> UOp:
    """2**n for int64 n in the normal range of `dtype`."""
    lay = _Layout(dtype)
    word = build.shl(build.cast(build.add(n, lay.bias), signed(dtype)), lay.mantissa)
    return build.bitcast(word, dtype)


def _scale(x: UOp, n: UOp) -> UOp:
    """x * 2**n, rounded at most once: three normal factors, none of which overflows before the
    product does.
    """
    bias = _Layout(x.dtype).bias
    # beyond 3 * bias every finite number is 0 or inf already
    n = build.maximum(build.minimum(n, 3 * (bias - 1)), -3 * (bias - 1))
    for _ in range(3):
        step = build.maximum(build.minimum(n, bias - 1), -(bias - 1))
        x, n = build.mul(x, _power_of_two(step, x.dtype)), build.sub(n, step)
    return x


@public()
def ldexp(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 * 2**x2 for integers x2.

    x1 and x2 broadcast. Rounded once, also where the result is subnormal.

    >>> ldexp(array([0.5, 3.0]), array([4, -1]))
    Array([8. , 1.5], dtype=float32)
    """
    (x,), dtype, weak = promoted(x1, least=dt.default_float())
    n = lift(x2).node
    need(n.dtype.is_int, "ldexp", f"the exponent must be an integer, got {n.dtype}")
    need(not dtype.is_complex, "ldexp", "it takes real numbers")
    x, n = broadcast("ldexp", build.cast(x, dt.accumulator(dtype)), build.cast(n, dt.int64))
    return Tracer(build.cast(_scale(x, n), dtype), weak)


@public()
def frexp(x: ArrayLike) -> tuple[Array, Array]:
    """(m, n) with x = m * 2**n, 0.5 <= |m| < 1, n int32; n = 0 for zero, infinities and NaN.

    >>> frexp(array([8.0, -0.1]))
    (Array([ 0.5, -0.8], dtype=float32), Array([ 4, -3], dtype=int32))
    """
    (given,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "frexp", "it takes real numbers")
    node = build.cast(given, dt.accumulator(dtype))
    lay = _Layout(node.dtype)
    special = build.or_(build.eq(node, 0), build.not_(build.lt(build.abs_(node), math.inf)))
    # subnormal numbers are lifted into the normal range first
    tiny = build.lt(build.abs_(node), build.const_like(dt.finfo(node.dtype).tiny, node))
    lift_by = lay.mantissa + 2
    normal = build.where(tiny, build.mul(node, 2.0**lift_by), node)
    word = build.bitcast(normal, unsigned(node.dtype))
    field = build.and_(build.shr(word, lay.mantissa), 2 * lay.bias + 1)
    n = build.sub(
        build.cast(field, dt.int32),
        build.where(
            tiny,
            build.const(lay.bias - 1 + lift_by, dt.int32, node.shape),
            build.const(lay.bias - 1, dt.int32, node.shape),
        ),
    )
    n = build.where(special, build.zeros_like(n), n)
    # exact, and unlike a change of bits it has a derivative: 2**-n
    m = build.where(special, node, _scale(node, build.neg(build.cast(n, dt.int64))))
    return Tracer(build.cast(m, dtype), weak), Tracer(n)


def _next(x: UOp, y: UOp) -> UOp:
    word = build.bitcast(x, signed(x.dtype))
    away = build.eq(build.lt(x, y), build.lt(build.zeros_like(x), x))  # the magnitude grows
    moved = build.where(away, build.add(word, 1), build.sub(word, 1))
    least = build.bitcast(build.const(1, word.dtype, word.shape), x.dtype)
    out = build.bitcast(moved, x.dtype)
    out = build.where(build.eq(x, 0), uop(Op.COPYSIGN, (least, y)), out)
    out = build.where(build.eq(x, y), y, out)
    return build.where(build.or_(is_nan(x), is_nan(y)), build.const_like(math.nan, x), out)


@binary
def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The float next to x1 in the direction of x2.

    x1 and x2 broadcast. Its derivative is 0.

    >>> float(nextafter(float32(1), float32(2))) - 1
    1.1920928955078125e-07
    """
    (x, y), dtype, weak = common("nextafter", x1, x2, least=dt.default_float())
    need(not dtype.is_complex, "nextafter", "it takes real numbers")
    return Tracer(_next(x, y), weak)


@public()
def spacing(x: ArrayLike) -> Array:
    """The distance from x to the next float away from zero, with the sign of x.

    NaN for infinities. Its derivative is 0.

    >>> spacing(array([1.0, -1024.0]))
    Array([ 1.1920929e-07, -1.2207031e-04], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "spacing", "it takes real numbers")
    # by its bits, so that its derivative is 0: the power of two of x's exponent, as many places down
    lay = _Layout(node.dtype)
    word = build.bitcast(node, unsigned(node.dtype))
    power = build.bitcast(build.and_(word, (2 * lay.bias + 1) << lay.mantissa), node.dtype)
    least = build.bitcast(build.const(1, word.dtype, word.shape), node.dtype)
    gap = build.maximum(build.mul(power, 2.0**-lay.mantissa), least)
    finite = build.lt(build.abs_(node), math.inf)
    signed_gap = uop(Op.COPYSIGN, (gap, node))
    return Tracer(build.where(finite, signed_gap, build.const_like(math.nan, node)), weak)
