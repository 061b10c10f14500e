"""Arithmetic, exponentials, trigonometry: functions of numbers, applied to every element.

Operands broadcast together and are promoted to one dtype (Python numbers are weak: they take the
array's). Functions
of real analysis turn integers and bools into the default float. Integers wrap; division of integers
by zero gives 0.
"""

from __future__ import annotations

import math

from fgrad.numpy.common import alias, binary, common, is_nan, lift, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import Kind
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "abs", "absolute", "add", "divide", "divmod", "fabs", "floor_divide", "fmod", "mod",
    "multiply", "negative", "positive", "reciprocal", "remainder", "sign", "square", "subtract",
    "true_divide",
]  # fmt: skip


# ---- arithmetic
@binary
def add(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 + x2; of bools: or.

    >>> add(array([1, 2]), 0.5)
    Array([1.5, 2.5], dtype=float32, weak_type=True)
    """
    (x, y), _, weak = common("add", x1, x2)
    return Tracer(build.add(x, y), weak)


@binary
def subtract(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 - x2. Raises DtypeError for bools (use logical_xor).

    The operands broadcast; integers wrap around.

    >>> subtract(array([1, 2, 3]), 0.5)
    Array([0.5, 1.5, 2.5], dtype=float32, weak_type=True)
    """
    (x, y), dtype, weak = common("subtract", x1, x2)
    need(
        dtype is not dt.bool_,
        "subtract",
        "bools have no difference; use logical_xor, or convert with .astype",
    )
    return Tracer(build.sub(x, y), weak)


@binary
def multiply(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 * x2; of bools: and.

    The operands broadcast; integers wrap around.

    >>> multiply(array([1, 2, 3]), 0.5)
    Array([0.5, 1. , 1.5], dtype=float32, weak_type=True)
    """
    (x, y), _, weak = common("multiply", x1, x2)
    return Tracer(build.mul(x, y), weak)


@binary
def divide(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 / x2; integers become the default float first.

    The operands broadcast. By zero: inf with the sign of both, or NaN for 0 / 0.

    >>> divide(array([1, 2]), 4)
    Array([0.25, 0.5 ], dtype=float32)
    >>> divide(array([1.0, 0.0]), 0.0)
    Array([inf, nan], dtype=float32)
    """
    (x, y), _, weak = common("divide", x1, x2, least=dt.default_float())
    return Tracer(build.div(x, y), weak)


true_divide = alias(divide, "true_divide")


def _real_operands(name: str, x1: ArrayLike, x2: ArrayLike) -> tuple[UOp, UOp, bool]:
    """Operands of integer division: bools become int8, complex ones are refused."""
    (x, y), dtype, weak = common(name, x1, x2)
    need(not dtype.is_complex, name, "complex numbers have no floor and no remainder; use divide")
    if dtype is dt.bool_:
        x, y = build.cast(x, dt.int8), build.cast(y, dt.int8)
    return x, y, weak


def _floor_divide(x: UOp, y: UOp) -> UOp:
    if x.dtype.is_int:
        return build.idiv(x, y)
    quotient = build.div(x, y)
    rest = uop(Op.COPYSIGN, (build.mod(build.abs_(x), build.abs_(y)), x))
    # x - rest is a multiple of y, so its quotient is an integer up to rounding
    whole = build.round_(build.div(build.sub(x, rest), y))
    below = build.and_(build.ne(rest, 0), build.xor(build.lt(rest, 0), build.lt(y, 0)))
    whole = build.where(below, build.sub(whole, 1), whole)
    whole = uop(Op.WHERE, (build.eq(whole, 0), uop(Op.COPYSIGN, (build.zeros_like(x), quotient)), whole))
    return build.where(build.eq(y, 0), quotient, whole)


@binary
def floor_divide(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The largest integer not above x1 / x2. Integer division by zero gives 0.

    The operands broadcast; integers stay integers. Its derivative is 0.

    >>> floor_divide(array([7, -7]), 2)
    Array([ 3, -4], dtype=int64)
    >>> floor_divide(5.5, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x, y, weak = _real_operands("floor_divide", x1, x2)
    return Tracer(_floor_divide(x, y), weak)


@binary
def mod(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 - x2 * floor(x1 / x2): the sign of x2. Integers modulo zero give 0.

    The operands broadcast; floats modulo zero give NaN.

    >>> mod(array([7, -7]), 3)
    Array([1, 2], dtype=int64)
    """
    x, y, weak = _real_operands("mod", x1, x2)
    return Tracer(build.mod(x, y), weak)


remainder = alias(mod, "remainder")


@binary
def divmod(x1: ArrayLike, x2: ArrayLike) -> tuple[Array, Array]:
    """(x1 // x2, x1 % x2).

    The operands broadcast; integers divided by zero give (0, 0).

    >>> divmod(array([7, -7]), 3)
    (Array([ 2, -3], dtype=int64), Array([1, 2], dtype=int64))
    """
    x, y, weak = _real_operands("divmod", x1, x2)
    return Tracer(_floor_divide(x, y), weak), Tracer(build.mod(x, y), weak)


@binary
def fmod(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The remainder of the division rounded towards zero: the sign of x1.

    The operands broadcast. Integers modulo zero give 0, floats NaN.

    >>> fmod(array([7, -7]), 3)
    Array([ 1, -1], dtype=int64)
    """
    x, y, weak = _real_operands("fmod", x1, x2)
    if x.dtype.is_float:
        return Tracer(uop(Op.COPYSIGN, (build.mod(build.abs_(x), build.abs_(y)), x)), weak)
    m = build.mod(x, y)
    if not x.dtype.is_signed:
        return Tracer(m, weak)
    differ = build.and_(build.xor(build.lt(x, 0), build.lt(y, 0)), build.ne(m, 0))
    return Tracer(build.where(differ, build.sub(m, y), m), weak)


@public()
def negative(x: ArrayLike) -> Array:
    """-x. Raises DtypeError for bools (use logical_not).

    Unsigned integers wrap around.

    >>> negative(array([1.0, -2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    t = lift(x)
    need(t.node.dtype is not dt.bool_, "negative", "bools have no negative; use logical_not")
    return Tracer(build.neg(t.node), t.weak)


@public()
def positive(x: ArrayLike) -> Array:
    """+x: the numbers themselves. Raises DtypeError for bools.

    >>> positive(array([1.0, -2.0]))
    Array([ 1., -2.], dtype=float32)
    """
    t = lift(x)
    need(t.node.dtype is not dt.bool_, "positive", "bools are no numbers; convert with .astype")
    return Tracer(t.node, t.weak)


def magnitude(x: UOp) -> UOp:
    """|x| of any dtype, as a real number."""
    if x.dtype.is_complex:
        return uop(Op.HYPOT, (build.real(x), build.imag(x)))
    return x if x.dtype.kind in (Kind.BOOL, Kind.UINT) else build.abs_(x)


@public()
def abs(x: ArrayLike) -> Array:
    """|x|; real for complex x. The smallest integer stays negative. Derivative 0 at 0.

    The shape is that of x; bools are themselves.

    >>> abs(array([-1.5, 2.0]))
    Array([1.5, 2. ], dtype=float32)
    >>> abs(3 + 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    t = lift(x)
    return Tracer(magnitude(t.node), t.weak)


absolute = alias(abs, "absolute")


@public()
def fabs(x: ArrayLike) -> Array:
    """|x| as a float.

    Integers and bools become the default float; complex numbers are refused with DtypeError.

    >>> fabs(array([-1, 2]))
    Array([1., 2.], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "fabs", "it takes real numbers; use abs")
    return Tracer(build.abs_(node), weak)


@public()
def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 (NaN stays NaN); of complex numbers x / |x|.

    Shape and dtype are those of x; the derivative is 0.

    >>> sign(array([-2.5, 0.0, nan]))
    Array([-1.,  0., nan], dtype=float32)
    >>> sign(3 + 4j)
    Array(0.6+0.8j, dtype=complex64, weak_type=True)
    """
    t = lift(x)
    n, dtype = t.node, t.node.dtype
    need(dtype is not dt.bool_, "sign", "bools have no sign; convert with .astype")
    if dtype.is_complex:
        m = magnitude(n)
        scale = build.where(build.eq(m, 0), 1, m)
        unit = build.div(n, build.cast(scale, dtype))
        return Tracer(build.where(build.eq(m, 0), build.zeros_like(n), unit), t.weak)
    zero = build.zeros_like(n)
    if dtype.is_float:
        zero = build.where(is_nan(n), math.nan, zero)
    below = build.where(build.lt(n, 0), -1, zero) if dtype.kind is not Kind.UINT else zero
    return Tracer(build.where(build.lt(build.zeros_like(n), n), 1, below), t.weak)


@public()
def square(x: ArrayLike) -> Array:
    """x * x.

    Shape and dtype are those of x; integers wrap around.

    >>> square(array([-3, 2]))
    Array([9, 4], dtype=int64)
    """
    t = lift(x)
    return Tracer(build.mul(t.node, t.node), t.weak)


@public()
def reciprocal(x: ArrayLike) -> Array:
    """1 / x; integers become the default float first.

    Of 0: inf with its sign.

    >>> reciprocal(array([2.0, 0.5, 0.0]))
    Array([0.5, 2. , inf], dtype=float32)
    """
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(build.div(build.const_like(1, node), node), weak)
