"""Comparison, logic, bits and the anatomy of numbers, elementwise."""
from __future__ import annotations

import math

import numpy as np

from fgrad.numpy.common import binary, broadcast, common, is_nan, lift, need, no_out, public, truth
from fgrad.numpy.elementwise import has_nan, less_complex
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, Kind
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "array_equal", "array_equiv", "allclose", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "equal", "frexp", "gcd", "greater",
    "greater_equal", "invert", "isclose", "iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal",
    "lcm", "ldexp", "left_shift", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor",
    "modf", "nextafter", "not_equal", "packbits", "right_shift", "signbit", "spacing", "unpackbits",
]  # fmt: skip


# ---- comparison
@binary
def equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 == x2, as bool; NaN equals nothing."""
    (x, y), _, _ = common("equal", x1, x2)
    return Tracer(build.eq(x, y))


@binary
def not_equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 != x2, as bool."""
    (x, y), _, _ = common("not_equal", x1, x2)
    return Tracer(build.ne(x, y))


def _compare(name: str, x1: ArrayLike, x2: ArrayLike, or_equal: bool) -> Array:
    (x, y), dtype, _ = common(name, x1, x2)
    if dtype.is_complex:
        return Tracer(less_complex(x, y, or_equal))
    return Tracer(build.le(x, y) if or_equal else build.lt(x, y))


@binary
def less(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 < x2, as bool; complex numbers compare by real, then imaginary part."""
    return _compare("less", x1, x2, False)


@binary
def less_equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 <= x2, as bool."""
    return _compare("less_equal", x1, x2, True)


@binary
def greater(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 > x2, as bool."""
    return _compare("greater", x2, x1, False)


@binary
def greater_equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 >= x2, as bool."""
    return _compare("greater_equal", x2, x1, True)


def _close(name: str, a: ArrayLike, b: ArrayLike, rtol: ArrayLike, atol: ArrayLike, equal_nan: bool) -> UOp:
    (x, y), dtype, _ = common(name, a, b)
    if not dtype.is_inexact:
        (x, y), dtype, _ = common(name, Tracer(x), Tracer(y), least=dt.default_float())
    same = build.eq(x, y)
    real = dt.real_of(dtype)
    gap, size = build.sub(x, y), y
    if dtype.is_complex:
        gap, size = (uop(Op.HYPOT, (build.real(v), build.imag(v))) for v in (gap, size))
    else:
        gap, size = build.abs_(gap), build.abs_(size)
    r, t = (build.broadcast_to(build.cast(lift(v).node, real), gap.shape) for v in (rtol, atol))
    finite = build.lt(size, build.const_like(math.inf, size))
    near = build.and_(build.le(gap, build.add(t, build.mul(r, size))), finite)
    out = build.or_(same, near)
    return build.or_(out, build.and_(has_nan(x), has_nan(y))) if equal_nan else out


@public(static=("equal_nan",))
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """|a - b| <= atol + rtol * |b|, elementwise; infinities equal themselves only."""
    return Tracer(_close("isclose", a, b, rtol, atol, equal_nan))


@public(static=("equal_nan",))
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close (see `isclose`), as a 0-d bool array."""
    close = _close("allclose", a, b, rtol, atol, equal_nan)
    return Tracer(build.reduce_(close, range(close.ndim), Op.AND))


@public(static=("equal_nan",))
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether shapes and all elements are equal, as a 0-d bool array."""
    (x, y), dtype, _ = promoted(a1, a2)
    if x.shape != y.shape:
        return Tracer(build.const(False, dt.bool_))
    same = build.eq(x, y)
    if equal_nan and dtype.is_inexact:
        same = build.or_(same, build.and_(has_nan(x), has_nan(y)))
    return Tracer(build.reduce_(same, range(same.ndim), Op.AND))


@public()
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether the arrays are equal once broadcast together, as a 0-d bool array."""
    (x, y), _, _ = promoted(a1, a2)
    try:
        shape = build.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return Tracer(build.const(False, dt.bool_))
    same = build.eq(build.broadcast_to(x, shape), build.broadcast_to(y, shape))
    return Tracer(build.reduce_(same, range(same.ndim), Op.AND))


# ---- logic
def _logical(name: str, op: Op, x1: ArrayLike, x2: ArrayLike) -> Array:
    x, y = broadcast(name, truth(lift(x1).node), truth(lift(x2).node))
    return Tracer(uop(op, (x, y)))


@public()
def logical_and(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Whether both are nonzero."""
    return _logical("logical_and", Op.AND, x1, x2)


@public()
def logical_or(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Whether either is nonzero."""
    return _logical("logical_or", Op.OR, x1, x2)


@public()
def logical_xor(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Whether exactly one is nonzero."""
    return _logical("logical_xor", Op.XOR, x1, x2)


@public()
def logical_not(x: ArrayLike) -> Array:
    """Whether it is zero."""
    return Tracer(build.not_(truth(lift(x).node)))


# ---- bits
def _bits(name: str, op: Op, x1: ArrayLike, x2: ArrayLike, bools: bool = True) -> Array:
    (x, y), dtype, weak = common(name, x1, x2)
    need(not dtype.is_inexact, name, f"{dtype} has no bits to combine; convert with .astype, or use .view")
    if dtype is dt.bool_ and not bools:
        x, y = build.cast(x, dt.int8), build.cast(y, dt.int8)
    return Tracer(uop(op, (x, y)), weak)


@binary
def bitwise_and(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 & x2 of integers or bools."""
    return _bits("bitwise_and", Op.AND, x1, x2)


@binary
def bitwise_or(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 | x2 of integers or bools."""
    return _bits("bitwise_or", Op.OR, x1, x2)


@binary
def bitwise_xor(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 ^ x2 of integers or bools."""
    return _bits("bitwise_xor", Op.XOR, x1, x2)


@binary
def left_shift(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 << x2 of integers; 0 when all bits are shifted out."""
    return _bits("left_shift", Op.SHL, x1, x2, bools=False)


@binary
def right_shift(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 >> x2 of integers; the sign is kept."""
    return _bits("right_shift", Op.SHR, x1, x2, bools=False)


@public()
def invert(x: ArrayLike) -> Array:
    """~x: all bits flipped; of bools: not."""
    t = lift(x)
    need(not t.node.dtype.is_inexact, "invert", f"{t.node.dtype} has no bits to flip; convert with .astype")
    return Tracer(build.not_(t.node), t.weak)


bitwise_not = bitwise_invert = invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


def unsigned(dtype: DType) -> DType:
    """The unsigned integer as wide as `dtype`."""
    return {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}[dtype.itemsize]


def signed(dtype: DType) -> DType:
    """The signed integer as wide as `dtype`."""
    return {1: dt.int8, 2: dt.int16, 4: dt.int32, 8: dt.int64}[dtype.itemsize]


@public()
def bitwise_count(x: ArrayLike) -> Array:
    """The number of 1 bits in |x|, as uint8."""
    t = lift(x)
    need(t.node.dtype.kind in (Kind.INT, Kind.UINT, Kind.BOOL), "bitwise_count", "only integers have bits to count")
    if t.node.dtype is dt.bool_:
        return Tracer(build.cast(t.node, dt.uint8))
    v = build.abs_(t.node) if t.node.dtype.is_signed else t.node
    v = build.cast(v, unsigned(v.dtype))
    bits = v.dtype.bits
    shift = 1
    while shift < bits:  # sums of neighbouring fields: 1 bit wide, then 2, 4 ..
        mask = sum(((1 << shift) - 1) << at for at in range(0, bits, 2 * shift))
        v = build.add(build.and_(v, mask), build.and_(build.shr(v, shift), mask))
        shift *= 2
    return Tracer(build.cast(v, dt.uint8))


@public(static=("axis", "bitorder"))
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Groups of eight bools (or integers, nonzero is 1) along `axis` as uint8; the last group is padded with 0."""
    x = truth(lift(a).node)
    if axis is None:
        x, axis = build.reshape(x, (x.size,)), 0
    axis %= x.ndim
    n = x.shape[axis]
    x = build.pad(x, [(0, -n % 8, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
    x = build.reshape(x, (*x.shape[:axis], -(-n // 8), 8, *x.shape[axis + 1 :]))
    k = build.iota(8, dt.uint8)
    place = build.shl(build.const(1, dt.uint8, (8,)), build.sub(7, k) if bitorder == "big" else k)
    weight = build.broadcast_to(build.reshape(place, (8, *(1,) * (x.ndim - axis - 2))), x.shape)
    return Tracer(build.reduce_(build.mul(build.cast(x, dt.uint8), weight), (axis + 1,)))


@public(static=("axis", "count", "bitorder"))
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of uint8 numbers along `axis`, as uint8 zeros and ones."""
    x = lift(a).node
    need(x.dtype is dt.uint8, "unpackbits", f"it takes uint8, got {x.dtype}")
    if axis is None:
        x, axis = build.reshape(x, (x.size,)), 0
    axis %= x.ndim
    n = x.shape[axis]
    wide = build.expand(x, [(axis + 1, 8)])
    k = build.iota(8, dt.uint8)
    shift = build.reshape(build.sub(7, k) if bitorder == "big" else k, (8, *(1,) * (x.ndim - axis - 1)))
    bits = build.and_(build.shr(wide, build.broadcast_to(shift, wide.shape)), 1)
    out = build.reshape(bits, (*x.shape[:axis], n * 8, *x.shape[axis + 1 :]))
    keep = n * 8 if count is None else count if count >= 0 else max(0, n * 8 + count)
    if keep > n * 8:
        out = build.pad(out, [(0, keep - n * 8, 0) if i == axis else (0, 0, 0) for i in range(out.ndim)])
    return Tracer(build.slice_axis(out, axis, 0, keep))


# ---- integers
def _integers(name: str, x1: ArrayLike, x2: ArrayLike) -> tuple[UOp, UOp, bool]:
    (x, y), dtype, weak = common(name, x1, x2)
    need(dtype.is_int, name, f"it takes integers, got {dtype}")
    return (x, y, weak) if dtype.kind is Kind.UINT else (build.abs_(x), build.abs_(y), weak)


def euclid(x: UOp, y: UOp) -> UOp:
    """gcd by Euclid's algorithm; the number of steps is bounded by the Fibonacci numbers of the width."""
    phi = (1 + math.sqrt(5)) / 2
    for _ in range(math.ceil(x.dtype.bits / math.log2(phi)) + 1):
        done = build.eq(y, 0)
        x, y = build.where(done, x, y), build.mod(x, y)  # modulo 0 is 0
    return x


@binary
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor, >= 0; gcd(0, 0) is 0."""
    x, y, weak = _integers("gcd", x1, x2)
    return Tracer(euclid(x, y), weak)


@binary
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple, >= 0; 0 if either is 0."""
    x, y, weak = _integers("lcm", x1, x2)
    return Tracer(build.mul(build.idiv(x, euclid(x, y)), y), weak)  # divided by 0 is 0


# ---- kinds of numbers
@public()
def isnan(x: ArrayLike) -> Array:
    """Whether it is NaN."""
    return Tracer(has_nan(lift(x).node))


def _infinite(x: UOp) -> UOp:
    if x.dtype.is_complex:
        return build.or_(_infinite(build.real(x)), _infinite(build.imag(x)))
    if not x.dtype.is_float:
        return build.const(False, dt.bool_, x.shape)
    return build.eq(build.abs_(x), math.inf)


@public()
def isinf(x: ArrayLike) -> Array:
    """Whether it is an infinity."""
    return Tracer(_infinite(lift(x).node))


@public()
def isfinite(x: ArrayLike) -> Array:
    """Whether it is neither an infinity nor NaN."""
    node = lift(x).node
    if node.dtype.is_complex:
        parts = [build.lt(build.abs_(f(node)), math.inf) for f in (build.real, build.imag)]
        return Tracer(build.and_(*parts))
    if not node.dtype.is_float:
        return Tracer(build.const(True, dt.bool_, node.shape))
    return Tracer(build.lt(build.abs_(node), math.inf))


def _is_value(name: str, x: ArrayLike, value: float) -> Array:
    node = lift(x).node
    need(not node.dtype.is_complex, name, "complex infinities have no sign")
    if not node.dtype.is_float:
        return Tracer(build.const(False, dt.bool_, node.shape))
    return Tracer(build.eq(node, value))


@public()
def isposinf(x: ArrayLike, out: None = None) -> Array:
    """Whether it is +inf."""
    no_out(out, "isposinf")
    return _is_value("isposinf", x, math.inf)


@public()
def isneginf(x: ArrayLike, out: None = None) -> Array:
    """Whether it is -inf."""
    no_out(out, "isneginf")
    return _is_value("isneginf", x, -math.inf)


@public()
def isreal(x: ArrayLike) -> Array:
    """Whether its imaginary part is zero."""
    node = lift(x).node
    if node.dtype.is_complex:
        return Tracer(build.eq(build.imag(node), 0))
    return Tracer(build.const(True, dt.bool_, node.shape))


@public()
def iscomplex(x: ArrayLike) -> Array:
    """Whether its imaginary part is not zero."""
    return Tracer(build.not_(lift(isreal(x)).node))


@public()
def signbit(x: ArrayLike) -> Array:
    """Whether the sign is set (of -0.0 and negative NaN too)."""
    node = lift(x).node
    need(not node.dtype.is_complex, "signbit", "complex numbers have no sign")
    if not node.dtype.is_float:
        return Tracer(build.lt(node, 0) if node.dtype.is_signed else build.const(False, dt.bool_, node.shape))
    return Tracer(build.lt(uop(Op.COPYSIGN, (build.const_like(1, node), node)), 0))


# ---- the anatomy of floats
class _Layout:
    """Bits of a floating dtype: mantissa width and exponent bias."""

    def __init__(self, dtype: DType) -> None:
        info = dt.finfo(dtype)
        self.mantissa = int(info.nmant)
        self.bias = 1 - int(info.minexp)


@public()
def modf(x: ArrayLike, out: None = None) -> tuple[Array, Array]:
    """(fraction, whole part), both with the sign of x."""
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
    """x * 2**n, rounded at most once: three normal factors, none of which overflows before the product does."""
    bias = _Layout(x.dtype).bias
    # beyond 3 * bias every finite number is 0 or inf already
    n = build.maximum(build.minimum(n, 3 * (bias - 1)), -3 * (bias - 1))
    for _ in range(3):
        step = build.maximum(build.minimum(n, bias - 1), -(bias - 1))
        x, n = build.mul(x, _power_of_two(step, x.dtype)), build.sub(n, step)
    return x


@public()
def ldexp(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 * 2**x2 for integers x2."""
    (x,), dtype, weak = promoted(x1, least=dt.default_float())
    n = lift(x2).node
    need(n.dtype.is_int, "ldexp", f"the exponent must be an integer, got {n.dtype}")
    need(not dtype.is_complex, "ldexp", "it takes real numbers")
    x, n = broadcast("ldexp", build.cast(x, dt.accumulator(dtype)), build.cast(n, dt.int64))
    return Tracer(build.cast(_scale(x, n), dtype), weak)


@public()
def frexp(x: ArrayLike) -> tuple[Array, Array]:
    """(m, n) with x = m * 2**n and 0.5 <= |m| < 1; n is int32. Zero, infinities and NaN have n = 0."""
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
    n = build.sub(build.cast(field, dt.int32), build.where(
        tiny, build.const(lay.bias - 1 + lift_by, dt.int32, node.shape),
        build.const(lay.bias - 1, dt.int32, node.shape)))  # fmt: skip
    n = build.where(special, build.zeros_like(n), n)
    exponent_mask = ((2 * lay.bias + 1) << lay.mantissa) ^ ((1 << word.dtype.bits) - 1)
    half = build.or_(build.and_(word, exponent_mask), (lay.bias - 1) << lay.mantissa)
    m = build.where(special, node, build.bitcast(half, node.dtype))
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
    """The float next to x1 in the direction of x2."""
    (x, y), dtype, weak = common("nextafter", x1, x2, least=dt.default_float())
    need(not dtype.is_complex, "nextafter", "it takes real numbers")
    return Tracer(_next(x, y), weak)


@public()
def spacing(x: ArrayLike) -> Array:
    """The distance from x to the next float away from zero, with the sign of x."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(not dtype.is_complex, "spacing", "it takes real numbers")
    far = uop(Op.COPYSIGN, (build.const_like(math.inf, node), node))
    gap = build.sub(_next(node, far), node)
    infinite = build.eq(build.abs_(node), math.inf)
    return Tracer(build.where(infinite, build.const_like(np.nan, node), gap), weak)
