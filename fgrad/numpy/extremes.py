"""Order: the larger and the smaller one, bounds, and what replaces NaN, elementwise."""

from __future__ import annotations

import math

from fgrad.numpy.common import binary, common, is_nan, lift, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["clip", "fmax", "fmin", "heaviside", "maximum", "minimum", "nan_to_num"]


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
    """The larger one; NaN if either is. At ties the derivative is shared evenly.

    The operands broadcast.

    >>> maximum(array([1.0, nan, 3.0]), 2.0)
    Array([ 2., nan,  3.], dtype=float32)
    """
    return _extreme("maximum", Op.MAX, x1, x2)


@binary
def minimum(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller one; NaN if either is. At ties the derivative is shared evenly.

    The operands broadcast.

    >>> minimum(array([1.0, nan, 3.0]), 2.0)
    Array([ 1., nan,  2.], dtype=float32)
    """
    return _extreme("minimum", Op.MIN, x1, x2)


def _extreme_number(name: str, op: Op, x1: ArrayLike, x2: ArrayLike) -> Array:
    (x, y), dtype, weak = common(name, x1, x2)
    both = lift(_extreme(name, op, Tracer(x), Tracer(y))).node
    return Tracer(build.where(has_nan(x), y, build.where(has_nan(y), x, both)), weak)


@binary
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger one; a NaN counts as missing.

    The operands broadcast; NaN where both are. At ties the derivative is shared evenly.

    >>> fmax(array([1.0, nan]), 0.5)
    Array([1. , 0.5], dtype=float32)
    """
    return _extreme_number("fmax", Op.MAX, x1, x2)


@binary
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller one; a NaN counts as missing.

    The operands broadcast; NaN where both are. At ties the derivative is shared evenly.

    >>> fmin(array([1.0, nan]), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """
    return _extreme_number("fmin", Op.MIN, x1, x2)


@public()
def clip(
    arr: ArrayLike,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """minimum(maximum(arr, min), max), where None is no bound.

    The derivative is 1 inside and at the bounds, 0 outside.

    >>> clip(array([-2., 0.5, 3.]), 0, 1)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    given = [b for b in (low, high) if b is not None]
    (x, *bounds), dtype, weak = common("clip", arr, *given)
    need(not dtype.is_complex, "clip", "complex numbers have no order")
    fence = [(b, is_nan(b) if dtype.is_float else None) for b in bounds]
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
    """0 for negative x1, x2 for zero, 1 for positive.

    The operands broadcast; NaN stays NaN.

    >>> heaviside(array([-1.5, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    (x, y), _, weak = common("heaviside", x1, x2, least=dt.default_float())
    step = build.where(build.lt(x, 0), build.zeros_like(x), build.const_like(1, x))
    step = build.where(is_nan(x), build.const_like(math.nan, x), step)
    return Tracer(build.where(build.eq(x, 0), y, step), weak)


@public()
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """x with NaN and the infinities replaced.

    By `nan`, and by default the largest and smallest finite numbers.

    Integers and bools are themselves; `copy` is accepted for NumPy's sake.

    >>> nan_to_num(array([nan, inf, 1.0]), posinf=9.0)
    Array([0., 9., 1.], dtype=float32)
    """
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
    return build.broadcast_to(cast_node(x, node.dtype), node.shape)
