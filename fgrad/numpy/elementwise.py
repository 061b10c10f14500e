"""Arithmetic, exponentials, trigonometry: functions of numbers, applied to every element.

Operands broadcast together and are promoted to one dtype (Python numbers are weak: they take the array's). Functions
of real analysis turn integers and bools into the default float. Integers wrap; division of integers by zero gives 0.
"""
from __future__ import annotations

import math


from fgrad.errors import note_user_line
from fgrad.numpy.common import binary, common, is_nan, lift, need, no_out, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import Number
from fgrad.uop.dtype import Kind
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "around", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clip", "conj", "conjugate",
    "copysign", "cos", "cosh", "deg2rad", "degrees", "divide", "divmod", "exp", "exp2", "expm1", "fabs", "float_power",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "heaviside", "hypot", "i0", "imag", "log", "log10", "log1p",
    "log2", "logaddexp", "logaddexp2", "maximum", "minimum", "mod", "multiply", "nan_to_num", "negative", "positive",
    "pow", "power", "rad2deg", "radians", "real", "reciprocal", "remainder", "rint", "round", "sign", "sin", "sinc",
    "sinh", "sqrt", "square", "subtract", "tan", "tanh", "true_divide", "trunc",
]  # fmt: skip


# ---- arithmetic
@binary
def add(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 + x2; of bools: or.

    >>> add(array([1, 2]), 0.5)
    Array([1.5, 2.5], dtype=float32)
    """
    (x, y), _, weak = common("add", x1, x2)
    return Tracer(build.add(x, y), weak)


@binary
def subtract(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 - x2. Raises DtypeError for bools (use logical_xor)."""
    (x, y), dtype, weak = common("subtract", x1, x2)
    need(dtype is not dt.bool_, "subtract", "bools have no difference; use logical_xor, or convert with .astype")
    return Tracer(build.sub(x, y), weak)


@binary
def multiply(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 * x2; of bools: and."""
    (x, y), _, weak = common("multiply", x1, x2)
    return Tracer(build.mul(x, y), weak)


@binary
def divide(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 / x2; integers become the default float first."""
    (x, y), _, weak = common("divide", x1, x2, least=dt.default_float())
    return Tracer(build.div(x, y), weak)


true_divide = divide


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
    """The largest integer not above x1 / x2. Integer division by zero gives 0."""
    x, y, weak = _real_operands("floor_divide", x1, x2)
    return Tracer(_floor_divide(x, y), weak)


@binary
def mod(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 - x2 * floor(x1 / x2): the sign of x2. Integers modulo zero give 0."""
    x, y, weak = _real_operands("mod", x1, x2)
    return Tracer(build.mod(x, y), weak)


remainder = mod


@binary
def divmod(x1: ArrayLike, x2: ArrayLike) -> tuple[Array, Array]:
    """(x1 // x2, x1 % x2)."""
    x, y, weak = _real_operands("divmod", x1, x2)
    return Tracer(_floor_divide(x, y), weak), Tracer(build.mod(x, y), weak)


@binary
def fmod(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The remainder of the division rounded towards zero: the sign of x1."""
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
    """-x. Raises DtypeError for bools (use logical_not)."""
    t = lift(x)
    need(t.node.dtype is not dt.bool_, "negative", "bools have no negative; use logical_not")
    return Tracer(build.neg(t.node), t.weak)


@public()
def positive(x: ArrayLike) -> Array:
    """+x: the numbers themselves. Raises DtypeError for bools."""
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
    """|x|; real for complex x. The smallest integer is its own absolute value. Derivative 0 at 0."""
    t = lift(x)
    return Tracer(magnitude(t.node), t.weak)


absolute = abs


@public()
def fabs(x: ArrayLike) -> Array:
    """|x| as a float."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "fabs", "it takes real numbers; use abs")
    return Tracer(build.abs_(node), weak)


@public()
def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 (NaN stays NaN); of complex numbers x / |x|."""
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
    """x * x."""
    t = lift(x)
    return Tracer(build.mul(t.node, t.node), t.weak)


@public()
def reciprocal(x: ArrayLike) -> Array:
    """1 / x; integers become the default float first."""
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(build.div(build.const_like(1, node), node), weak)


# ---- powers
STATIC_EXPONENT = 16  # Python ints up to here become products; larger ones would compile anew for every value


def power(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 to the power x2.

    A Python int as exponent gives products, exact for integers. 0**0 is 1. Integers to a computed negative power give the
    truncated reciprocal (0, 1 or -1); a negative Python int as the exponent of integers raises ValueError.

    >>> power(array([1., 2.]), 3)
    Array([1., 8.], dtype=float32)
    """
    if type(x2) is float and x2.is_integer() and lift_dtype(x1).is_inexact:
        x2 = int(x2) if -STATIC_EXPONENT <= x2 <= STATIC_EXPONENT else x2
    if isinstance(x2, int) and not isinstance(x2, bool):
        if x2 < 0 and not lift_dtype(x1).is_inexact:
            raise note_user_line(
                ValueError(f"power: integers have no integer power {x2}; convert with .astype(float) or use float_power")
            )
        if -STATIC_EXPONENT <= x2 <= STATIC_EXPONENT:
            return _integer_power(x1, x2)
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


pow = power


@binary
def float_power(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1**x2 computed in floats, so that integers may have negative powers."""
    (x, y), dtype, weak = common("float_power", x1, x2, least=dt.default_float())
    return lift(_power(Tracer(x, weak), Tracer(y, weak)))


# ---- order
def _larger(x: UOp, y: UOp) -> UOp:
    """Where x > y; complex numbers compare by real part, then by imaginary part."""
    if not x.dtype.is_complex:
        return build.lt(y, x)
    return less_complex(y, x)


def less_complex(x: UOp, y: UOp, or_equal: bool = False) -> UOp:
    """Lexicographic order of complex numbers."""
    a, b = build.real(x), build.real(y)
    tie = (build.le if or_equal else build.lt)(build.imag(x), build.imag(y))
    return build.or_(build.lt(a, b), build.and_(build.eq(a, b), tie))


def has_nan(x: UOp) -> UOp:
    """Where x (of any dtype) is NaN."""
    if x.dtype.is_complex:
        return build.or_(is_nan(build.real(x)), is_nan(build.imag(x)))
    return is_nan(x) if x.dtype.is_float else build.const(False, dt.bool_, x.shape)


def _extreme(name: str, op: Op, x1: ArrayLike, x2: ArrayLike) -> Array:
    (x, y), dtype, weak = common(name, x1, x2)
    if not dtype.is_complex:
        return Tracer(uop(op, (x, y)), weak)
    first = _larger(x, y) if op is Op.MAX else _larger(y, x)
    return Tracer(build.where(build.or_(has_nan(x), build.and_(first, build.not_(has_nan(y)))), x, y), weak)


@binary
def maximum(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger one; NaN if either is. At ties the derivative is shared evenly."""
    return _extreme("maximum", Op.MAX, x1, x2)


@binary
def minimum(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller one; NaN if either is. At ties the derivative is shared evenly."""
    return _extreme("minimum", Op.MIN, x1, x2)


def _extreme_number(name: str, op: Op, x1: ArrayLike, x2: ArrayLike) -> Array:
    (x, y), dtype, weak = common(name, x1, x2)
    both = lift(_extreme(name, op, Tracer(x), Tracer(y))).node
    return Tracer(build.where(has_nan(x), y, build.where(has_nan(y), x, both)), weak)


@binary
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger one; a NaN counts as missing."""
    return _extreme_number("fmax", Op.MAX, x1, x2)


@binary
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller one; a NaN counts as missing."""
    return _extreme_number("fmin", Op.MIN, x1, x2)


@public()
def clip(
    arr: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None,
    *, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """minimum(maximum(arr, min), max), where None is no bound. The derivative is 1 inside and at the bounds, 0 outside.

    >>> clip(array([-2., 0.5, 3.]), 0, 1)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    given = [b for b in (low, high) if b is not None]
    (x, *bounds), dtype, weak = common("clip", arr, *given)
    need(not dtype.is_complex, "clip", "complex numbers have no order")
    if dtype.is_float:
        fence = [(b, is_nan(b)) for b in bounds]
    else:
        fence = [(b, None) for b in bounds]
    at = iter(fence)
    if low is not None:
        b, bad = next(at)
        below = build.lt(x, b)
        x = build.where(below if bad is None else build.or_(below, bad), b, x)
    if high is not None:
        b, bad = next(at)
        above = build.lt(b, x)
        x = build.where(above if bad is None else build.or_(above, bad), b, x)
    return Tracer(x, weak)


@binary
def heaviside(x1: ArrayLike, x2: ArrayLike) -> Array:
    """0 for negative x1, x2 for zero, 1 for positive."""
    (x, y), _, weak = common("heaviside", x1, x2, least=dt.default_float())
    step = build.where(build.lt(x, 0), build.zeros_like(x), build.const_like(1, x))
    step = build.where(is_nan(x), build.const_like(math.nan, x), step)
    return Tracer(build.where(build.eq(x, 0), y, step), weak)


@public()
def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """x with NaN and the infinities replaced (by `nan` and the largest and smallest finite numbers)."""
    t = lift(x)
    node = t.node
    if not node.dtype.is_inexact:
        return Tracer(node, t.weak)
    if node.dtype.is_complex:
        parts = [lift(nan_to_num(Tracer(f(node)), copy, nan, posinf, neginf)).node for f in (build.real, build.imag)]
        return Tracer(build.complex_(*parts), t.weak)
    info = dt.finfo(node.dtype)
    high = build.const_like(info.max, node) if posinf is None else _like(posinf, node)
    low = build.const_like(info.min, node) if neginf is None else _like(neginf, node)
    y = build.where(is_nan(node), _like(nan, node), node)
    y = build.where(build.eq(node, math.inf), high, y)
    return Tracer(build.where(build.eq(node, -math.inf), low, y), t.weak)


def _like(x: ArrayLike, node: UOp) -> UOp:
    return build.broadcast_to(build.cast(lift(x).node, node.dtype), node.shape)


# ---- rounding
def _rounding(name: str, op: Op, x: ArrayLike) -> Array:
    t = lift(x)
    need(not t.node.dtype.is_complex, name, "complex numbers cannot be rounded this way; round the parts")
    return Tracer(uop(op, (t.node,)) if t.node.dtype.is_float else t.node, t.weak)


@public()
def floor(x: ArrayLike) -> Array:
    """The largest integer not above x, in x's dtype."""
    return _rounding("floor", Op.FLOOR, x)


@public()
def ceil(x: ArrayLike) -> Array:
    """The smallest integer not below x, in x's dtype."""
    return _rounding("ceil", Op.CEIL, x)


@public()
def trunc(x: ArrayLike) -> Array:
    """x without its fraction, in x's dtype."""
    return _rounding("trunc", Op.TRUNC, x)


fix = trunc


@public()
def rint(x: ArrayLike) -> Array:
    """The nearest integer as a float; halves go to the even one."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    return Tracer(_round_parts(node), weak)


def _round_parts(x: UOp) -> UOp:
    if x.dtype.is_complex:
        return build.complex_(build.round_(build.real(x)), build.round_(build.imag(x)))
    return build.round_(x)


@public(static=("decimals",))
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` to that many decimals (negative: tens, hundreds ..); halves go to the even digit."""
    no_out(out, "round")
    t = lift(a)
    x, n = t.node, int(decimals)
    if not x.dtype.is_inexact:
        if n >= 0 or x.dtype is dt.bool_:
            return Tracer(x, t.weak)
        unit = 10 ** -n
        if unit > dt.int_range(x.dtype)[1]:
            return Tracer(build.zeros_like(x), t.weak)
        quotient, rest = build.idiv(x, unit), build.mod(x, unit)
        odd = build.eq(build.and_(quotient, 1), 1)
        up = build.or_(build.lt(build.const_like(unit // 2, rest), rest), build.and_(build.eq(rest, unit // 2), odd))
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


around = round


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
    """e**x."""
    return _smooth(Op.EXP, x)


@public()
def exp2(x: ArrayLike) -> Array:
    """2**x."""
    return _scaled(Op.EXP2, x, math.log(2), None, Op.EXP)


@public()
def expm1(x: ArrayLike) -> Array:
    """exp(x) - 1, accurate near 0."""
    return _smooth(Op.EXPM1, x)


@public()
def log(x: ArrayLike) -> Array:
    """The natural logarithm: -inf at 0, NaN below."""
    return _smooth(Op.LOG, x)


@public()
def log2(x: ArrayLike) -> Array:
    """The logarithm to base 2."""
    return _scaled(Op.LOG2, x, None, 1 / math.log(2), Op.LOG)


@public()
def log10(x: ArrayLike) -> Array:
    """The logarithm to base 10."""
    return _scaled(Op.LOG10, x, None, 1 / math.log(10), Op.LOG)


@public()
def log1p(x: ArrayLike) -> Array:
    """log(1 + x), accurate near 0."""
    return _smooth(Op.LOG1P, x)


@public()
def sqrt(x: ArrayLike) -> Array:
    """The square root; NaN for negative reals. Its derivative at 0 is inf."""
    return _smooth(Op.SQRT, x)


@public()
def cbrt(x: ArrayLike) -> Array:
    """The real cube root, of negative numbers too."""
    return _smooth(Op.CBRT, x)


def log_add(x: UOp, y: UOp) -> UOp:
    """log(exp(x) + exp(y)); equal operands first, so that inf - inf never arises and ties share the derivative."""
    equal = build.eq(x, y)
    half = build.const_like(0.5, x)
    tie = build.add(build.add(build.mul(x, half), build.mul(y, half)), math.log(2))
    gap = build.where(equal, build.zeros_like(x), build.sub(x, y))
    rest = uop(Op.LOG1P, (build.exp(build.neg(build.abs_(gap))),))
    return build.where(equal, tie, build.add(build.maximum(x, y), rest))


@binary
def logaddexp(x1: ArrayLike, x2: ArrayLike) -> Array:
    """log(exp(x1) + exp(x2)), without overflow."""
    (x, y), dtype, weak = common("logaddexp", x1, x2, least=dt.default_float())
    if dtype.is_complex:
        m = build.maximum(build.real(x), build.real(y))
        shift = build.cast(build.where(build.eq(build.abs_(m), math.inf), build.zeros_like(m), m), dtype)
        total = build.add(build.exp(build.sub(x, shift)), build.exp(build.sub(y, shift)))
        return Tracer(build.add(build.log(total), shift), weak)
    return Tracer(log_add(x, y), weak)


@binary
def logaddexp2(x1: ArrayLike, x2: ArrayLike) -> Array:
    """log2(2**x1 + 2**x2), without overflow."""
    (x, y), dtype, weak = common("logaddexp2", x1, x2, least=dt.default_float())
    need(not dtype.is_complex, "logaddexp2", "it takes real numbers; use logaddexp")
    ln2 = math.log(2)
    return Tracer(build.div(log_add(build.mul(x, ln2), build.mul(y, ln2)), ln2), weak)


# ---- trigonometry
@public()
def sin(x: ArrayLike) -> Array:
    """The sine of an angle in radians."""
    return _smooth(Op.SIN, x)


@public()
def cos(x: ArrayLike) -> Array:
    """The cosine of an angle in radians."""
    return _smooth(Op.COS, x)


@public()
def tan(x: ArrayLike) -> Array:
    """The tangent of an angle in radians."""
    return _smooth(Op.TAN, x)


@public()
def arcsin(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] with that sine; NaN outside [-1, 1]."""
    return _smooth(Op.ASIN, x)


@public()
def arccos(x: ArrayLike) -> Array:
    """The angle in [0, pi] with that cosine; NaN outside [-1, 1]."""
    return _smooth(Op.ACOS, x)


@public()
def arctan(x: ArrayLike) -> Array:
    """The angle in [-pi/2, pi/2] with that tangent."""
    return _smooth(Op.ATAN, x)


@public()
def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine."""
    return _smooth(Op.SINH, x)


@public()
def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine."""
    return _smooth(Op.COSH, x)


@public()
def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent."""
    return _smooth(Op.TANH, x)


@public()
def arcsinh(x: ArrayLike) -> Array:
    """The number with that hyperbolic sine."""
    return _smooth(Op.ASINH, x)


@public()
def arccosh(x: ArrayLike) -> Array:
    """The number >= 0 with that hyperbolic cosine; NaN below 1."""
    return _smooth(Op.ACOSH, x)


@public()
def arctanh(x: ArrayLike) -> Array:
    """The number with that hyperbolic tangent; NaN outside [-1, 1]."""
    return _smooth(Op.ATANH, x)


asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh


def _float_pair(name: str, op: Op, x1: ArrayLike, x2: ArrayLike) -> Array:
    (x, y), dtype, weak = common(name, x1, x2, least=dt.default_float())
    need(not dtype.is_complex, name, "it takes real numbers")
    return Tracer(uop(op, (x, y)), weak)


@binary
def arctan2(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The angle of the point (x2, x1) in [-pi, pi]."""
    return _float_pair("arctan2", Op.ATAN2, x1, x2)


atan2 = arctan2


@binary
def hypot(x1: ArrayLike, x2: ArrayLike) -> Array:
    """sqrt(x1**2 + x2**2), without overflow."""
    return _float_pair("hypot", Op.HYPOT, x1, x2)


@binary
def copysign(x1: ArrayLike, x2: ArrayLike) -> Array:
    """|x1| with the sign of x2 (signed zeros count)."""
    return _float_pair("copysign", Op.COPYSIGN, x1, x2)


@public()
def deg2rad(x: ArrayLike) -> Array:
    """Degrees to radians."""
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(build.mul(node, math.pi / 180), weak)


@public()
def rad2deg(x: ArrayLike) -> Array:
    """Radians to degrees."""
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(build.mul(node, 180 / math.pi), weak)


radians, degrees = deg2rad, rad2deg


@public()
def sinc(x: ArrayLike) -> Array:
    """sin(pi x) / (pi x), 1 at 0 (with the derivatives of the function there, up to the second)."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    angle_ = build.mul(node, math.pi)
    zero = build.eq(node, 0)
    safe = uop(Op.WHERE, (zero, build.const_like(1, node), angle_))
    near = build.sub(build.const_like(1, node), build.div(build.mul(angle_, angle_), 6))
    return Tracer(build.where(zero, near, build.div(build.sin(safe), safe)), weak)


BESSEL_NODES = 116  # half of the trapezoid nodes; exp(-N*N/2x) < 1e-16 for N = 232 up to x = 710, where I0 overflows


@public()
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0.

    The mean of exp(x cos t) over the circle by the trapezoid rule, which converges exponentially.
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "i0", "it takes real numbers")
    size = build.abs_(build.cast(node, dt.accumulator(dtype)))
    k = build.cast(build.iota(BESSEL_NODES + 1), size.dtype)
    drop = build.sub(build.cos(build.mul(k, math.pi / BESSEL_NODES)), build.const_like(1, k))
    ends = build.or_(build.eq(k, 0), build.eq(k, BESSEL_NODES))
    weight = build.where(ends, build.const_like(0.5 / BESSEL_NODES, k), build.const_like(1 / BESSEL_NODES, k))
    wide = build.expand(size, [(size.ndim, BESSEL_NODES + 1)])
    terms = build.mul(build.exp(build.mul(wide, build.broadcast_to(drop, wide.shape))),
                      build.broadcast_to(weight, wide.shape))  # fmt: skip
    total = build.mul(build.exp(size), build.reduce_(terms, (size.ndim,)))
    return Tracer(build.cast(total, dtype), weak)


# ---- complex numbers
@public()
def real(val: ArrayLike) -> Array:
    """The real part; real numbers themselves."""
    t = lift(val)
    return Tracer(build.real(t.node) if t.node.dtype.is_complex else t.node, t.weak)


@public()
def imag(val: ArrayLike) -> Array:
    """The imaginary part; zeros for real numbers."""
    t = lift(val)
    return Tracer(build.imag(t.node) if t.node.dtype.is_complex else build.zeros_like(t.node), t.weak)


@public()
def conjugate(x: ArrayLike) -> Array:
    """The complex conjugate; real numbers themselves."""
    t = lift(x)
    if not t.node.dtype.is_complex:
        return Tracer(t.node, t.weak)
    return Tracer(build.complex_(build.real(t.node), build.neg(build.imag(t.node))), t.weak)


conj = conjugate


@public(static=("deg",))
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The argument of a complex number, in radians or degrees."""
    (node,), dtype, weak = promoted(z, least=dt.default_float())
    if dtype.is_complex:
        re, im = build.real(node), build.imag(node)
    else:
        re, im = node, build.zeros_like(node)
    out = uop(Op.ATAN2, (im, re))
    return Tracer(build.mul(out, 180 / math.pi) if deg else out, weak)


