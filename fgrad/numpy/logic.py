"""Comparison, logic, bits and the anatomy of numbers, elementwise."""

from __future__ import annotations

import math

from fgrad.numpy.common import binary, broadcast, common, lift, need, no_out, public, truth
from fgrad.numpy.extremes import has_nan, less_complex
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "allclose", "array_equal", "array_equiv", "equal", "greater", "greater_equal", "isclose",
    "iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
    "signbit",
]  # fmt: skip


# ---- comparison
@binary
def equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 == x2, as bool; NaN equals nothing.

    The operands broadcast.

    >>> equal(array([1.0, nan]), array([1.0, nan]))
    Array([ True, False], dtype=bool)
    """
    (x, y), _, _ = common("equal", x1, x2)
    return Tracer(build.eq(x, y))


@binary
def not_equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 != x2, as bool.

    The operands broadcast; NaN differs from everything.

    >>> not_equal(array([1.0, nan]), array([1.0, nan]))
    Array([False,  True], dtype=bool)
    """
    (x, y), _, _ = common("not_equal", x1, x2)
    return Tracer(build.ne(x, y))


def _compare(name: str, x1: ArrayLike, x2: ArrayLike, or_equal: bool) -> Array:
    (x, y), dtype, _ = common(name, x1, x2)
    if dtype.is_complex:
        return Tracer(less_complex(x, y, or_equal))
    return Tracer(build.le(x, y) if or_equal else build.lt(x, y))


@binary
def less(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 < x2, as bool; complex numbers compare by real, then imaginary part.

    The operands broadcast; False where either is NaN.

    >>> less(array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """
    return _compare("less", x1, x2, False)


@binary
def less_equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 <= x2, as bool.

    The operands broadcast; False where either is NaN.

    >>> less_equal(array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """
    return _compare("less_equal", x1, x2, True)


@binary
def greater(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 > x2, as bool.

    The operands broadcast; False where either is NaN.

    >>> greater(array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """
    return _compare("greater", x2, x1, False)


@binary
def greater_equal(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 >= x2, as bool.

    The operands broadcast; False where either is NaN.

    >>> greater_equal(array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """
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
    r, t = (build.broadcast_to(cast_node(v, real), gap.shape) for v in (rtol, atol))
    finite = build.lt(size, build.const_like(math.inf, size))
    near = build.and_(build.le(gap, build.add(t, build.mul(r, size))), finite)
    out = build.or_(same, near)
    return build.or_(out, build.and_(has_nan(x), has_nan(y))) if equal_nan else out


@public(static=("equal_nan",))
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """|a - b| <= atol + rtol * |b|, elementwise; infinities equal themselves only.

    The operands broadcast; equal_nan: NaN is close to NaN. -> bool.

    >>> isclose(array([1.0, 1.1, nan]), array([1.000001, 1.0, nan]), equal_nan=True)
    Array([ True, False,  True], dtype=bool)
    """
    return Tracer(_close("isclose", a, b, rtol, atol, equal_nan))


@public(static=("equal_nan",))
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements are close (see `isclose`), as a 0-d bool array.

    The arrays broadcast.

    >>> allclose(array([1.0, 2.0]), array([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    close = _close("allclose", a, b, rtol, atol, equal_nan)
    return Tracer(build.reduce_(close, range(close.ndim), Op.AND))


@public(static=("equal_nan",))
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether shapes and all elements are equal, as a 0-d bool array.

    equal_nan: NaN equals NaN. Arrays of different shapes are not equal.

    >>> array_equal(array([1, nan]), array([1, nan]), equal_nan=True)
    Array(True, dtype=bool)
    """
    (x, y), dtype, _ = promoted(a1, a2)
    if x.shape != y.shape:
        return Tracer(build.const(False, dt.bool_))
    same = build.eq(x, y)
    if equal_nan and dtype.is_inexact:
        same = build.or_(same, build.and_(has_nan(x), has_nan(y)))
    return Tracer(build.reduce_(same, range(same.ndim), Op.AND))


@public()
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether the arrays are equal once broadcast together, as a 0-d bool array.

    Arrays that do not broadcast are not equivalent.

    >>> array_equiv(array([[1, 2], [1, 2]]), array([1, 2]))
    Array(True, dtype=bool)
    """
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
    """Whether both are nonzero.

    The operands broadcast; -> bool.

    >>> logical_and(array([1, 0, 2]), array([True, True, False]))
    Array([ True, False, False], dtype=bool)
    """
    return _logical("logical_and", Op.AND, x1, x2)


@public()
def logical_or(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Whether either is nonzero.

    The operands broadcast; -> bool.

    >>> logical_or(array([1, 0, 0]), array([True, True, False]))
    Array([ True,  True, False], dtype=bool)
    """
    return _logical("logical_or", Op.OR, x1, x2)


@public()
def logical_xor(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Whether exactly one is nonzero.

    The operands broadcast; -> bool.

    >>> logical_xor(array([1, 0, 2]), array([True, True, False]))
    Array([False,  True,  True], dtype=bool)
    """
    return _logical("logical_xor", Op.XOR, x1, x2)


@public()
def logical_not(x: ArrayLike) -> Array:
    """Whether it is zero.

    -> bool, shaped as x.

    >>> logical_not(array([1.5, 0.0]))
    Array([False,  True], dtype=bool)
    """
    return Tracer(build.not_(truth(lift(x).node)))


# ---- kinds of numbers
@public()
def isnan(x: ArrayLike) -> Array:
    """Whether it is NaN.

    -> bool, shaped as x; of a complex number whether either part is.

    >>> isnan(array([1.0, inf, nan]))
    Array([False, False,  True], dtype=bool)
    """
    return Tracer(has_nan(lift(x).node))


def _infinite(x: UOp) -> UOp:
    if x.dtype.is_complex:
        return build.or_(_infinite(build.real(x)), _infinite(build.imag(x)))
    if not x.dtype.is_float:
        return build.const(False, dt.bool_, x.shape)
    return build.eq(build.abs_(x), math.inf)


@public()
def isinf(x: ArrayLike) -> Array:
    """Whether it is an infinity.

    -> bool, shaped as x; of a complex number whether either part is.

    >>> isinf(array([1.0, -inf, nan]))
    Array([False,  True, False], dtype=bool)
    """
    return Tracer(_infinite(lift(x).node))


@public()
def isfinite(x: ArrayLike) -> Array:
    """Whether it is neither an infinity nor NaN.

    -> bool, shaped as x; True for integers and bools.

    >>> isfinite(array([1.0, inf, nan]))
    Array([ True, False, False], dtype=bool)
    """
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
    """Whether it is +inf.

    -> bool, shaped as x; complex numbers are refused with DtypeError.

    >>> isposinf(array([-inf, inf, nan]))
    Array([False,  True, False], dtype=bool)
    """
    no_out(out, "isposinf")
    return _is_value("isposinf", x, math.inf)


@public()
def isneginf(x: ArrayLike, out: None = None) -> Array:
    """Whether it is -inf.

    -> bool, shaped as x; complex numbers are refused with DtypeError.

    >>> isneginf(array([-inf, inf, nan]))
    Array([ True, False, False], dtype=bool)
    """
    no_out(out, "isneginf")
    return _is_value("isneginf", x, -math.inf)


@public()
def isreal(x: ArrayLike) -> Array:
    """Whether its imaginary part is zero.

    -> bool, shaped as x; True for real dtypes.

    >>> isreal(array([1 + 2j, 3 + 0j]))
    Array([False,  True], dtype=bool)
    """
    node = lift(x).node
    if node.dtype.is_complex:
        return Tracer(build.eq(build.imag(node), 0))
    return Tracer(build.const(True, dt.bool_, node.shape))


@public()
def iscomplex(x: ArrayLike) -> Array:
    """Whether its imaginary part is not zero.

    -> bool, shaped as x; False for real dtypes.

    >>> iscomplex(array([1 + 2j, 3 + 0j]))
    Array([ True, False], dtype=bool)
    """
    return Tracer(build.not_(lift(isreal(x)).node))


@public()
def signbit(x: ArrayLike) -> Array:
    """Whether the sign is set (of -0.0 and negative NaN too).

    -> bool, shaped as x; complex numbers are refused with DtypeError.

    >>> signbit(array([-0.0, 1.0, -2.0]))
    Array([ True, False,  True], dtype=bool)
    """
    node = lift(x).node
    need(not node.dtype.is_complex, "signbit", "complex numbers have no sign")
    if not node.dtype.is_float:
        return Tracer(build.lt(node, 0) if node.dtype.is_signed else build.const(False, dt.bool_, node.shape))
    return Tracer(build.lt(uop(Op.COPYSIGN, (build.const_like(1, node), node)), 0))
