"""Exponentials, logarithms, trigonometry and complex numbers, elementwise.

Integers and bools become the default float."""

from __future__ import annotations

import math

from fgrad.numpy.common import alias, binary, common, lift, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import Number
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "acos", "acosh", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "conj", "conjugate",
    "copysign", "cos", "cosh", "deg2rad", "degrees", "exp", "exp2", "expm1", "hypot", "i0",
    "imag", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "rad2deg", "radians",
    "real", "sin", "sinc", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip


# ---- exponentials and logarithms
def _smooth(op: Op, x: ArrayLike) -> Array:
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(uop(op, (node,)), weak)


def _scaled(op: Op, x: ArrayLike, before: Number | None, after: Number | None, plain: Op) -> Array:
    """`op` for reals; for complex numbers plain(x * before) * after."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    if not dtype.is_complex:
        return Tracer(uop(op, (node,)), weak)
    if before is not None:
        node = build.mul(node, before)
    node = uop(plain, (node,))
    return Tracer(node if after is None else build.mul(node, after), weak)


@public()
def exp(x: ArrayLike) -> Array:
    """e**x.

    Of every element; integers and bools become the default float. Overflows to inf.

    >>> exp(array([0.0, 1.0, 100.0]))
    Array([1.       , 2.7182817,       inf], dtype=float32)
    """
    return _smooth(Op.EXP, x)


@public()
def exp2(x: ArrayLike) -> Array:
    """2**x.

    Of every element; integers and bools become the default float, and give exact powers.

    >>> exp2(array([0, 3, -1]))
    Array([1. , 8. , 0.5], dtype=float32)
    """
    return _scaled(Op.EXP2, x, math.log(2), None, Op.EXP)


@public()
def expm1(x: ArrayLike) -> Array:
    """exp(x) - 1, accurate near 0.

    Where exp(x) - 1 would lose its digits. Integers and bools become the default float.

    >>> expm1(array([1e-10, 1.0]))
    Array([1.0000000e-10, 1.7182819e+00], dtype=float32)
    """
    return _smooth(Op.EXPM1, x)


@public()
def log(x: ArrayLike) -> Array:
    """The natural logarithm: -inf at 0, NaN below.

    Integers and bools become the default float; complex numbers have the principal value.

    >>> log(array([1.0, e, 0.0]))
    Array([  0.,   1., -inf], dtype=float32)
    """
    return _smooth(Op.LOG, x)


@public()
def log2(x: ArrayLike) -> Array:
    """The logarithm to base 2.

    -inf at 0, NaN below. Exact at powers of two; integers become the default float.

    >>> log2(array([8, 10]))
    Array([3.      , 3.321928], dtype=float32)
    """
    return _scaled(Op.LOG2, x, None, 1 / math.log(2), Op.LOG)


@public()
def log10(x: ArrayLike) -> Array:
    """The logarithm to base 10.

    -inf at 0, NaN below. Exact at powers of ten; integers become the default float.

    >>> log10(array([1000, 2]))
    Array([3.     , 0.30103], dtype=float32)
    """
    return _scaled(Op.LOG10, x, None, 1 / math.log(10), Op.LOG)


@public()
def log1p(x: ArrayLike) -> Array:
    """log(1 + x), accurate near 0.

    -inf at -1, NaN below. Integers and bools become the default float.

    >>> log1p(array([1e-10, 1.0]))
    Array([1.000000e-10, 6.931472e-01], dtype=float32)
    """
    return _smooth(Op.LOG1P, x)


@public()
def sqrt(x: ArrayLike) -> Array:
    """The square root; NaN for negative reals. Its derivative at 0 is inf.

    Integers and bools become the default float; complex numbers have the root with a real part >= 0.

    >>> sqrt(array([4.0, 2.0, -1.0]))
    Array([2.       , 1.4142135,       nan], dtype=float32)
    >>> sqrt(array([-4 + 0j]))
    Array([0.+2.j], dtype=complex64)
    """
    return _smooth(Op.SQRT, x)


@public()
def cbrt(x: ArrayLike) -> Array:
    """The real cube root, of negative numbers too.

    The shape is that of x; integers become the default float, complex numbers are refused with DtypeError.

    >>> cbrt(array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """
    return _smooth(Op.CBRT, x)


def log_add(x: UOp, y: UOp) -> UOp:
    """log(exp(x) + exp(y)) of two reals, without overflow."""
    return uop(Op.LOGADDEXP, (x, y))


def _complex_log_add(x: UOp, y: UOp) -> UOp:
    m = build.maximum(build.real(x), build.real(y))
    shift = build.cast(build.where(build.eq(build.abs_(m), math.inf), build.zeros_like(m), m), x.dtype)
    total = build.add(build.exp(build.sub(x, shift)), build.exp(build.sub(y, shift)))
    return build.add(build.log(total), shift)


@binary
def logaddexp(x1: ArrayLike, x2: ArrayLike) -> Array:
    """log(exp(x1) + exp(x2)), without overflow.

    x1 and x2 broadcast; both may be -inf. Integers become the default float.

    >>> logaddexp(1000.0, 1000.0)
    Array(1000.6932, dtype=float32, weak_type=True)
    """
    (x, y), dtype, weak = common("logaddexp", x1, x2, least=dt.default_float())
    return Tracer((_complex_log_add if dtype.is_complex else log_add)(x, y), weak)


@binary
def logaddexp2(x1: ArrayLike, x2: ArrayLike) -> Array:
    """log2(2**x1 + 2**x2), without overflow.

    x1 and x2 broadcast; both may be -inf. Integers become the default float, complex numbers are refused.

    >>> logaddexp2(array([1.0, 3.0]), array([1.0, 3.0]))
    Array([2., 4.], dtype=float32)
    """
    (x, y), dtype, weak = common("logaddexp2", x1, x2, least=dt.default_float())
    ln2 = math.log(2)
    if dtype.is_complex:
        return Tracer(build.div(_complex_log_add(build.mul(x, ln2), build.mul(y, ln2)), ln2), weak)
    return Tracer(build.div(log_add(build.mul(x, ln2), build.mul(y, ln2)), ln2), weak)


# ---- trigonometry
@public()
def sin(x: ArrayLike) -> Array:
    """The sine of an angle in radians.

    Of every element; integers and bools become the default float. Accurate for large angles too.

    >>> sin(array([0.0, pi / 2, 1e10]))
    Array([ 0.        ,  1.        , -0.48750603], dtype=float32)
    """
    return _smooth(Op.SIN, x)


@public()
def cos(x: ArrayLike) -> Array:
    """The cosine of an angle in radians.

    Of every element; integers and bools become the default float. Accurate for large angles too.

    >>> cos(array([0.0, pi, 1e10]))
    Array([ 1.        , -1.        ,  0.87311965], dtype=float32)
    """
    return _smooth(Op.COS, x)


@public()
def tan(x: ArrayLike) -> Array:
    """The tangent of an angle in radians.

    Of every element; integers and bools become the default float.

    >>> tan(array([0.0, pi / 4]))
    Array([0., 1.], dtype=float32)
    """
    return _smooth(Op.TAN, x)


@public()
def arcsin(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] with that sine; NaN outside [-1, 1].

    Integers and bools become the default float; complex numbers have the principal value.

    >>> arcsin(array([0.0, 0.5, 1.0]))
    Array([0.       , 0.5235988, 1.5707964], dtype=float32)
    """
    return _smooth(Op.ASIN, x)


@public()
def arccos(x: ArrayLike) -> Array:
    """The angle in [0, pi] with that cosine; NaN outside [-1, 1].

    Integers and bools become the default float; complex numbers have the principal value.

    >>> arccos(array([1.0, 0.0, -1.0]))
    Array([0.       , 1.5707964, 3.1415927], dtype=float32)
    """
    return _smooth(Op.ACOS, x)


@public()
def arctan(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] with that tangent.

    Integers and bools become the default float; complex numbers have the principal value.

    >>> arctan(array([0.0, 1.0, inf]))
    Array([0.       , 0.7853982, 1.5707964], dtype=float32)
    """
    return _smooth(Op.ATAN, x)


@public()
def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine.

    Of every element; integers and bools become the default float. Accurate near 0, overflows to inf.

    >>> sinh(array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """
    return _smooth(Op.SINH, x)


@public()
def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine.

    Of every element; integers and bools become the default float. Overflows to inf.

    >>> cosh(array([0.0, 1.0, 100.0]))
    Array([1.       , 1.5430807,       inf], dtype=float32)
    """
    return _smooth(Op.COSH, x)


@public()
def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent.

    Of every element; integers and bools become the default float.

    >>> tanh(array([-inf, 0.0, 0.5]))
    Array([-1.        ,  0.        ,  0.46211717], dtype=float32)
    """
    return _smooth(Op.TANH, x)


@public()
def arcsinh(x: ArrayLike) -> Array:
    """The number with that hyperbolic sine.

    Integers and bools become the default float; complex numbers have the principal value.

    >>> arcsinh(array([-1.0, 0.0, 1.0]))
    Array([-0.8813736,  0.       ,  0.8813736], dtype=float32)
    """
    return _smooth(Op.ASINH, x)


@public()
def arccosh(x: ArrayLike) -> Array:
    """The number >= 0 with that hyperbolic cosine; NaN below 1.

    Integers and bools become the default float; complex numbers have the principal value.

    >>> arccosh(array([1.0, 2.0]))
    Array([0.      , 1.316958], dtype=float32)
    """
    return _smooth(Op.ACOSH, x)


@public()
def arctanh(x: ArrayLike) -> Array:
    """The number with that hyperbolic tangent; NaN outside [-1, 1].

    -inf and inf at -1 and 1. Integers and bools become the default float.

    >>> arctanh(array([0.0, 0.5, 1.0]))
    Array([0.        , 0.54930615,        inf], dtype=float32)
    """
    return _smooth(Op.ATANH, x)


asin = alias(arcsin, "asin")
acos = alias(arccos, "acos")
atan = alias(arctan, "atan")
asinh = alias(arcsinh, "asinh")
acosh = alias(arccosh, "acosh")
atanh = alias(arctanh, "atanh")


def _float_pair(name: str, op: Op, x1: ArrayLike, x2: ArrayLike) -> Array:
    (x, y), dtype, weak = common(name, x1, x2, least=dt.default_float())
    need(not dtype.is_complex, name, "it takes real numbers")
    return Tracer(uop(op, (x, y)), weak)


@binary
def arctan2(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The angle of the point (x2, x1) in [-pi, pi].

    x1 and x2 broadcast; signed zeros choose the side of the cut. Complex numbers are refused with DtypeError.

    >>> arctan2(array([1.0, -0.0]), array([1.0, -1.0]))
    Array([ 0.7853982, -3.1415927], dtype=float32)
    """
    return _float_pair("arctan2", Op.ATAN2, x1, x2)


atan2 = alias(arctan2, "atan2")


@binary
def hypot(x1: ArrayLike, x2: ArrayLike) -> Array:
    """sqrt(x1**2 + x2**2), without overflow.

    x1 and x2 broadcast; integers become the default float. The derivative at (0, 0) is 0.

    >>> hypot(3e30, 4e30)
    Array(5.e+30, dtype=float32, weak_type=True)
    """
    return _float_pair("hypot", Op.HYPOT, x1, x2)


@binary
def copysign(x1: ArrayLike, x2: ArrayLike) -> Array:
    """|x1| with the sign of x2 (signed zeros count).

    x1 and x2 broadcast; integers become the default float.

    >>> copysign(array([1.0, 2.0]), array([-1.0, -0.0]))
    Array([-1., -2.], dtype=float32)
    """
    return _float_pair("copysign", Op.COPYSIGN, x1, x2)


@public()
def deg2rad(x: ArrayLike) -> Array:
    """Degrees to radians.

    x * pi / 180 of real numbers; integers become the default float.

    >>> deg2rad(array([0.0, 90.0, 180.0]))
    Array([0.       , 1.5707964, 3.1415927], dtype=float32)
    """
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(build.mul(node, math.pi / 180), weak)


@public()
def rad2deg(x: ArrayLike) -> Array:
    """Radians to degrees.

    x * 180 / pi of real numbers; integers become the default float.

    >>> rad2deg(array([0.0, pi]))
    Array([  0., 180.], dtype=float32)
    """
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(build.mul(node, 180 / math.pi), weak)


radians = alias(deg2rad, "radians")
degrees = alias(rad2deg, "degrees")


@public()
def sinc(x: ArrayLike) -> Array:
    """sin(pi x) / (pi x), 1 at 0 (with the derivatives of the function there, up to the second).

    Of real and complex numbers; integers become the default float.

    >>> sinc(array([0.0, 0.5, 1.0]))
    Array([ 1.0000000e+00,  6.3661975e-01, -2.7827534e-08], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    angle_ = build.mul(node, math.pi)
    zero = build.eq(node, 0)
    safe = uop(Op.WHERE, (zero, build.const_like(1, node), angle_))
    near = build.sub(build.const_like(1, node), build.div(build.mul(angle_, angle_), 6))
    return Tracer(build.where(zero, near, build.div(build.sin(safe), safe)), weak)


# half of the trapezoid nodes; exp(-N*N/2x) < 1e-16 for N = 232 up to x = 710, where I0 overflows
BESSEL_NODES = 116


@public()
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0.

    The mean of exp(x cos t) over the circle by the trapezoid rule, which converges exponentially.

    Of real numbers; even, and accurate for all of them until it overflows.

    >>> i0(array([0.0, 1.0, 5.0]))
    Array([ 1.      ,  1.266066, 27.239874], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "i0", "it takes real numbers")
    size = build.abs_(build.cast(node, dt.accumulator(dtype)))
    k = build.cast(build.iota(BESSEL_NODES + 1), size.dtype)
    drop = build.sub(build.cos(build.mul(k, math.pi / BESSEL_NODES)), build.const_like(1, k))
    ends = build.or_(build.eq(k, 0), build.eq(k, BESSEL_NODES))
    weight = build.where(ends, build.const_like(0.5 / BESSEL_NODES, k), build.const_like(1 / BESSEL_NODES, k))
    wide = build.expand(size, [(size.ndim, BESSEL_NODES + 1)])
    terms = build.mul(
        build.exp(build.mul(wide, build.broadcast_to(drop, wide.shape))),
        build.broadcast_to(weight, wide.shape),
    )
    total = build.mul(build.exp(size), build.reduce_(terms, (size.ndim,)))
    return Tracer(build.cast(total, dtype), weak)


# ---- complex numbers
@public()
def real(val: ArrayLike) -> Array:
    """The real part; real numbers themselves.

    -> the real dtype of val.

    >>> real(array([1 + 2j, 3.0]))
    Array([1., 3.], dtype=float32)
    """
    t = lift(val)
    return Tracer(build.real(t.node) if t.node.dtype.is_complex else t.node, t.weak)


@public()
def imag(val: ArrayLike) -> Array:
    """The imaginary part; zeros for real numbers.

    -> the real dtype of val.

    >>> imag(array([1 + 2j, 3.0]))
    Array([2., 0.], dtype=float32)
    """
    t = lift(val)
    return Tracer(build.imag(t.node) if t.node.dtype.is_complex else build.zeros_like(t.node), t.weak)


@public()
def conjugate(x: ArrayLike) -> Array:
    """The complex conjugate; real numbers themselves.

    Shape and dtype are those of x.

    >>> conj(array([1 + 2j, 3.0]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    t = lift(x)
    if not t.node.dtype.is_complex:
        return Tracer(t.node, t.weak)
    return Tracer(build.complex_(build.real(t.node), build.neg(build.imag(t.node))), t.weak)


conj = alias(conjugate, "conj")


@public(static=("deg",))
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The argument of a complex number, in radians or degrees.

    -> the real dtype of z; reals give 0, or pi where negative. The derivative at 0 is 0.

    >>> angle(array([1j, -1.0, 2.0]))
    Array([1.5707964, 3.1415927, 0.       ], dtype=float32)
    >>> angle(1 + 1j, deg=True)
    Array(45., dtype=float32, weak_type=True)
    """
    (node,), dtype, weak = promoted(z, least=dt.default_float())
    if dtype.is_complex:
        re, im = build.real(node), build.imag(node)
    else:
        re, im = node, build.zeros_like(node)
    out = uop(Op.ATAN2, (im, re))
    return Tracer(build.mul(out, 180 / math.pi) if deg else out, weak)
