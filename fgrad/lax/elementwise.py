"""Functions of numbers, applied to every element.

Most are the functions of `fgrad.numpy` under the names that low-level code uses; operands broadcast and are promoted.
What is defined here differs: division of integers rounds towards zero, `rem` has the sign of the dividend.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from fgrad import numpy as functions
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import binary, common, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_real, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

abs = functions.abs
acos = functions.arccos
acosh = functions.arccosh
add = functions.add
asin = functions.arcsin
asinh = functions.arcsinh
atan = functions.arctan
atan2 = functions.arctan2
atanh = functions.arctanh
cbrt = functions.cbrt
ceil = functions.ceil
conj = functions.conj
cos = functions.cos
cosh = functions.cosh
exp = functions.exp
exp2 = functions.exp2
expm1 = functions.expm1
floor = functions.floor
imag = functions.imag
log = functions.log
log1p = functions.log1p
max = functions.maximum
min = functions.minimum
mul = functions.multiply
neg = functions.negative
pow = functions.power
real = functions.real
reciprocal = functions.reciprocal
sign = functions.sign
sin = functions.sin
sinh = functions.sinh
sqrt = functions.sqrt
square = functions.square
sub = functions.subtract
tan = functions.tan
tanh = functions.tanh
eq = functions.equal
ne = functions.not_equal
lt = functions.less
le = functions.less_equal
gt = functions.greater
ge = functions.greater_equal


# ---- division
@binary
def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y; integers round towards zero, and by zero give 0.

    The operands broadcast; dtypes are promoted.

    >>> lax.div(fnp.array([7, -7]), 2)
    Array([ 3, -3], dtype=int64)
    """
    (a, b), dtype, weak = common("div", x, y)
    need(dtype is not dt.bool_, "div", "bools cannot be divided; convert with .astype")
    if not dtype.is_int:
        return Tracer(build.div(a, b), weak)
    return Tracer(quotient(a, b), weak)


def quotient(x: UOp, y: UOp) -> UOp:
    """The quotient of integers, rounded towards zero."""
    floored = build.idiv(x, y)
    if not x.dtype.is_signed:
        return floored
    inexact = build.ne(build.mod(x, y), 0)
    below = build.and_(inexact, build.ne(build.lt(x, 0), build.lt(y, 0)))
    return build.add(floored, build.cast(below, x.dtype))


rem = functions.fmod


# ---- powers and exponentials
@public(static=("y",))
def integer_pow(x: ArrayLike, y: int) -> Array:
    """x ** y for a Python integer `y`, by repeated squaring; a negative power is the reciprocal of the positive one.

    Raises DtypeError for a negative power of integers.

    >>> lax.integer_pow(fnp.array([2.0, -3.0]), 3)
    Array([  8., -27.], dtype=float32)
    """
    t = lift(x)
    n = int(y)
    need(
        n >= 0 or t.node.dtype.is_inexact,
        "integer_pow",
        "integers have no negative powers; convert with .astype",
    )
    out = power_node(t.node, -n if n < 0 else n)
    return Tracer(build.div(1, out) if n < 0 else out, t.weak)


def power_node(x: UOp, n: int) -> UOp:
    """x ** n for n >= 0."""
    if n == 0:
        return build.const_like(1, x)
    out: UOp | None = None
    square_ = x
    while n:
        if n & 1:
            out = square_ if out is None else build.mul(out, square_)
        n >>= 1
        if n:
            square_ = build.mul(square_, square_)
    assert out is not None
    return out


def float_node(name: str, x: ArrayLike) -> tuple[UOp, bool]:
    """-> (node, weak) of a floating array; integers and bools become the default float."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(dtype.is_float, name, f"it is defined for real numbers, not for {dtype}")
    return node, weak


def _real_function(name: str, op: Op, x: ArrayLike) -> Array:
    node, weak = float_node(name, x)
    return Tracer(uop(op, (node,)), weak)


@public()
def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x).

    inf at 0, NaN below; rounded once.

    >>> lax.rsqrt(fnp.array([4.0, 0.0]))
    Array([0.5, inf], dtype=float32)
    """
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(build.rsqrt(node), weak)


@public()
def logistic(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)), without overflow.

    Floats only; relatively accurate where it is small.

    >>> lax.logistic(fnp.array([-100.0, 0.0, 2.0]))
    Array([3.783506e-44, 5.000000e-01, 8.807971e-01], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    if dtype.is_complex:
        one = build.const_like(1, node)
        return Tracer(build.div(one, build.add(one, build.exp(build.neg(node)))), weak)
    return Tracer(uop(Op.SIGMOID, (node,)), weak)


# ---- special functions that are ops
@public()
def erf(x: ArrayLike) -> Array:
    """The error function.

    Floats only; shape and dtype are those of x.

    >>> lax.erf(fnp.array([-1.0, 0.0, 1.0]))
    Array([-0.8427008,  0.       ,  0.8427008], dtype=float32)
    """
    return _real_function("erf", Op.ERF, x)


@public()
def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), without cancellation.

    Floats only; relatively accurate for large x too.

    >>> lax.erfc(fnp.array([0.0, 5.0]))
    Array([1.0000000e+00, 1.5374598e-12], dtype=float32)
    """
    return _real_function("erfc", Op.ERFC, x)


@public()
def erf_inv(x: ArrayLike) -> Array:
    """The inverse of erf on (-1, 1).

    Floats only; -inf and inf at the ends, NaN beyond.

    >>> lax.erf_inv(fnp.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.47693628,        inf], dtype=float32)
    """
    return _real_function("erf_inv", Op.ERF_INV, x)


@public()
def lgamma(x: ArrayLike) -> Array:
    """log(abs(gamma(x))).

    Floats only; inf at 0, -1, -2 ..

    >>> lax.lgamma(fnp.array([0.5, 1.0, 10.0]))
    Array([ 0.5723649,  0.       , 12.801827 ], dtype=float32)
    """
    return _real_function("lgamma", Op.LGAMMA, x)


@public()
def digamma(x: ArrayLike) -> Array:
    """The derivative of lgamma.

    Floats only; -inf at 0, NaN at -1, -2 ..

    >>> lax.digamma(fnp.array([1.0, 2.0]))
    Array([-0.5772157 ,  0.42278433], dtype=float32)
    """
    return _real_function("digamma", Op.DIGAMMA, x)


# ---- rounding
class RoundingMethod(Enum):
    """What `round` does with halves.

    >>> fgrad.lax.round(fnp.array([0.5, 2.5]), RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=float32)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


@public(static=("rounding_method",))
def round(x: ArrayLike, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest integer, as a float; halves go away from zero (the default) or to the even side.

    Floats only; the derivative is 0.

    >>> lax.round(fnp.array([0.5, 1.5, -0.5]))
    Array([ 1.,  2., -1.], dtype=float32)
    >>> lax.round(fnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=float32)
    """
    t = lift(x)
    need(t.node.dtype.is_float, "round", f"{t.node.dtype} numbers are round already")
    if RoundingMethod(rounding_method) is RoundingMethod.TO_NEAREST_EVEN:
        return Tracer(build.round_(t.node), t.weak)
    size = build.abs_(t.node)
    whole = build.floor(size)
    up = build.le(0.5, build.sub(size, whole))  # the difference is exact
    rounded = build.where(up, build.add(whole, 1), whole)
    return Tracer(uop(Op.COPYSIGN, (rounded, t.node)), t.weak)


@public()
def is_finite(x: ArrayLike) -> Array:
    """Whether a number is neither infinite nor NaN.

    -> bool, shaped as x.

    >>> lax.is_finite(fnp.array([1.0, np.inf, np.nan]))
    Array([ True, False, False], dtype=bool)
    """
    node = lift(x).node
    need(node.dtype.is_inexact, "is_finite", f"{node.dtype} numbers are always finite")
    parts = [build.real(node), build.imag(node)] if node.dtype.is_complex else [node]
    checks = [build.lt(build.abs_(p), math.inf) for p in parts]
    return Tracer(checks[0] if len(checks) == 1 else build.and_(*checks))


@binary
def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next representable number after x1 in the direction of x2.

    Floats only. Its derivative is 0.

    >>> float(lax.nextafter(np.float32(1), np.float32(2))) - 1
    1.1920928955078125e-07
    """
    (x, y), dtype, weak = common("nextafter", x1, x2, least=dt.default_float())
    need(dtype.is_float, "nextafter", f"it is defined for real numbers, not for {dtype}")
    holder = {1: dt.int8, 2: dt.int16, 4: dt.int32, 8: dt.int64}[dtype.itemsize]
    raw = build.bitcast(x, holder)
    up = build.lt(x, y)
    grows = build.eq(up, build.le(0, raw))  # the magnitude of the bits grows away from zero
    stepped = build.add(raw, build.where(grows, build.const_like(1, raw), build.const_like(-1, raw)))
    smallest = build.where(up, build.const_like(1, raw), build.const_like(dt.int_range(holder)[0] + 1, raw))
    moved = build.bitcast(build.where(build.eq(x, 0), smallest, stepped), dtype)
    nan = build.add(x, y)
    same = build.where(build.eq(x, y), y, moved)
    is_number = build.and_(build.eq(x, x), build.eq(y, y))
    return Tracer(build.where(is_number, same, nan), weak)


@public(static=("exponent_bits", "mantissa_bits"))
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """The numbers rounded to a float format with that many bits; only existing dtypes' formats are supported.

    >>> lax.reduce_precision(fnp.array(1 / 3), 8, 7) == fnp.bfloat16(1 / 3)
    Array(True, dtype=bool)
    """
    t = lift(operand)
    need(
        t.node.dtype.is_float,
        "reduce_precision",
        f"it is defined for floats, not for {t.node.dtype}",
    )
    formats = {(5, 10): dt.float16, (8, 7): dt.bfloat16, (8, 23): dt.float32, (11, 52): dt.float64}
    target = formats.get((exponent_bits, mantissa_bits))
    if target is None:
        raise NotImplementedError(
            f"reduce_precision to {exponent_bits} exponent and {mantissa_bits} mantissa bits; "
            f"use one of {list(formats)}"
        )
    if target.itemsize >= t.node.dtype.itemsize:
        return t
    return Tracer(build.cast(build.cast(t.node, target), t.node.dtype), t.weak)


# ---- choices
@public()
def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """x + 1j * y of float32 or float64 parts.

    -> complex64 or complex128.

    >>> lax.complex(fnp.array([1.0, 2.0]), fnp.array([0.0, 3.0]))
    Array([1.+0.j, 2.+3.j], dtype=complex64)
    """
    (a, b), _, _ = common("complex", x, y, least=dt.default_float())
    return Tracer(build.complex_(a, b))


@public()
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """`x` moved into [min, max]; the bounds are scalars or shaped as `x`, and take its dtype. NaN stays.

    The gradient is 1 inside and at the bounds.

    >>> lax.clamp(0.0, fnp.array([-1.0, 0.5, 2.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    t = lift(x)
    node = t.node
    low, high = [build.broadcast_to(cast_real(b, node.dtype), node.shape) for b in (min, max)]
    if not node.dtype.is_float:
        return Tracer(build.minimum(build.maximum(node, low), high), t.weak)
    raised = build.where(build.lt(node, low), low, node)
    return Tracer(build.where(build.lt(high, raised), high, raised), t.weak)


@public(moves=True)
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where `pred`, else on_false; `pred` is a scalar or has their shape.

    Dtypes are promoted. What is not chosen has no gradient.

    >>> lax.select(fnp.array([True, False]), fnp.array([1, 2]), fnp.array([10, 20]))
    Array([ 1, 20], dtype=int64)
    """
    condition = lift(pred).node
    need(
        condition.dtype is dt.bool_,
        "select",
        f"pred must be bool, got {condition.dtype}; compare it with 0",
    )
    (a, b), _, weak = common("select", on_true, on_false)
    _check_which("select", condition, a)
    return Tracer(build.where(build.broadcast_to(condition, a.shape), a, b), weak)


def _check_which(name: str, which: UOp, case: UOp) -> None:
    if which.shape not in ((), case.shape):
        raise note_user_line(
            ShapeError(
                f"{name} needs a selector that is a scalar or shaped as the cases {case.shape}, got {which.shape}"
            )
        )


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """cases[which], element by element; `which` is bool for two cases, else an int32 index.

    `which` is a scalar or has their shape; indices beyond the cases take the nearest.

    >>> lax.select_n(fnp.array([0, 2, 1]), fnp.array([1, 2, 3]), fnp.array([4, 5, 6]), fnp.array([7, 8, 9]))
    Array([1, 8, 6], dtype=int64)
    """
    if not cases:
        raise note_user_line(ArgumentError("select_n needs at least one case"))
    return _select_n(which, list(cases))


@public()
def _select_n(which: ArrayLike, cases: list[ArrayLike]) -> Array:
    selector = lift(which).node
    nodes, _, weak = common("select_n", *cases) if len(cases) > 1 else ([lift(cases[0]).node], None, False)
    _check_which("select_n", selector, nodes[0])
    selector = build.broadcast_to(selector, nodes[0].shape)
    if selector.dtype is dt.bool_:
        if len(nodes) > 2:
            raise note_user_line(ArgumentError(f"select_n with a bool selector takes two cases, got {len(nodes)}"))
        return Tracer(build.where(selector, nodes[-1], nodes[0]), weak)
    need(
        selector.dtype.is_int,
        "select_n",
        f"the selector must be bool or integer, got {selector.dtype}",
    )
    out = nodes[-1]
    for i in range(len(nodes) - 2, -1, -1):  # an index below 0 counts as 0, past the end as the last
        out = build.where(build.le(selector, i), nodes[i], out)
    return Tracer(out, weak)


__all__ = [
    "RoundingMethod", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
    "clamp", "complex", "conj", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2",
    "expm1", "floor", "ge", "gt", "imag", "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic",
    "lt", "max", "min", "mul", "ne", "neg", "nextafter", "pow", "real", "reciprocal", "reduce_precision", "rem",
    "round", "rsqrt", "select", "select_n", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan", "tanh",
]  # fmt: skip
