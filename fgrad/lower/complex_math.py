"""Complex arithmetic and functions on pairs of real nodes.

Branch cuts and signed zeros follow Kahan, "Branch cuts for complex elementary functions" (1987); infinities, NaNs and
zeros in one part are as the Python array API standard says (2024.12, "special cases" of each function), which is C99
(annex G) with few exceptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

Pair = tuple[UOp, UOp]


def _f(op: Op, *xs: UOp) -> UOp:
    return uop(op, xs)


def _like(value: float, x: UOp) -> UOp:
    return b.const(value, x.dtype, x.shape)


def _is_inf(x: UOp) -> UOp:
    return b.eq(b.abs_(x), _like(math.inf, x))


def _is_odd(x: UOp) -> UOp:
    """Infinite or NaN."""
    return b.not_(b.lt(b.abs_(x), _like(math.inf, x)))


def _is_zero(x: UOp) -> UOp:
    return b.eq(x, _like(0, x))


def _signed(value: float, x: UOp) -> UOp:
    """`value` with the sign of x."""
    return _f(Op.COPYSIGN, _like(value, x), x)


def _select(*cases: tuple[UOp, Pair], other: Pair) -> Pair:
    """The pair of the first case that holds, else `other`."""
    for c, z in reversed(cases):
        other = b.where(c, z[0], other[0]), b.where(c, z[1], other[1])
    return other


def add(x: Pair, y: Pair) -> Pair:
    return b.add(x[0], y[0]), b.add(x[1], y[1])


def sub(x: Pair, y: Pair) -> Pair:
    return b.sub(x[0], y[0]), b.sub(x[1], y[1])


def neg(x: Pair) -> Pair:
    return b.neg(x[0]), b.neg(x[1])


def conj(x: Pair) -> Pair:
    return x[0], b.neg(x[1])


def mul(x: Pair, y: Pair) -> Pair:
    return (
        b.sub(b.mul(x[0], y[0]), b.mul(x[1], y[1])),
        b.add(b.mul(x[0], y[1]), b.mul(x[1], y[0])),
    )


def div(x: Pair, y: Pair) -> Pair:
    """Smith's algorithm (1962): the quotient of the divisor's parts is taken the way that is at
    most 1.
    """
    (p, q), (c, d) = x, y
    wide = b.le(b.abs_(d), b.abs_(c))
    big, small = b.where(wide, c, d), b.where(wide, d, c)
    r = b.where(b.eq(small, _like(0, small)), b.mul(small, 0.0), b.div(small, big))
    below = b.add(big, b.mul(small, r))
    re = b.where(wide, b.add(p, b.mul(q, r)), b.add(b.mul(p, r), q))
    im = b.where(wide, b.sub(q, b.mul(p, r)), b.sub(b.mul(q, r), p))
    return b.div(re, below), b.div(im, below)


def exp(z: Pair) -> Pair:
    x, y = z
    e = b.exp(x)
    far = b.and_(_is_odd(y), _is_inf(x))  # the direction is lost: 0, or infinite
    size = b.where(b.lt(x, _like(0, x)), _like(0, x), _like(math.nan, x))
    return _select((_is_zero(y), (e, y)), (far, (e, size)), other=(b.mul(e, b.cos(y)), b.mul(e, b.sin(y))))


def expm1(z: Pair) -> Pair:
    x, y = z
    half = b.sin(b.mul(y, 0.5))
    e = _f(Op.EXPM1, x)
    re = b.sub(b.mul(e, b.cos(y)), b.mul(b.mul(half, half), 2.0))
    far = b.and_(_is_odd(y), _is_inf(x))
    size = b.where(b.lt(x, _like(0, x)), _like(0, x), _like(math.nan, x))
    return _select((_is_zero(y), (e, y)), (far, (e, size)), other=(re, b.mul(b.exp(x), b.sin(y))))


def log(z: Pair) -> Pair:
    x, y = z
    size = _f(Op.HYPOT, x, y)
    long, short = b.maximum(b.abs_(x), b.abs_(y)), b.minimum(b.abs_(x), b.abs_(y))
    inner = b.add(b.mul(b.add(long, -1.0), b.add(long, 1.0)), b.mul(short, short))  # |z|^2 - 1, to all its digits
    near = b.and_(b.lt(_like(0.5, x), size), b.lt(size, _like(2.0, x)))
    re = b.where(near, b.mul(_f(Op.LOG1P, b.where(near, inner, _like(0, x))), 0.5), b.log(size))
    return re, _f(Op.ATAN2, y, x)


def log1p(z: Pair) -> Pair:
    x, y = z
    shifted = b.add(x, 1.0)
    inner = b.add(b.mul(x, b.add(x, 2.0)), b.mul(y, y))
    far = b.lt(_like(1e3, x), _f(Op.HYPOT, x, y))  # where the square could overflow, and 1 is no longer small
    re = b.where(far, b.log(_f(Op.HYPOT, shifted, y)), b.mul(_f(Op.LOG1P, inner), 0.5))
    return re, _f(Op.ATAN2, y, shifted)


def sqrt(z: Pair) -> Pair:
    x, y = z
    t = b.sqrt(b.mul(b.add(b.abs_(x), _f(Op.HYPOT, x, y)), 0.5))
    other = b.div(b.abs_(y), b.mul(t, 2.0))
    zero = b.eq(t, _like(0, t))
    other = b.where(zero, t, other)
    right = b.le(_like(0, x), x)
    root = b.where(right, t, other), _f(Op.COPYSIGN, b.where(right, other, t), y)
    return _select((_is_inf(y), (_like(math.inf, x), y)), other=root)


def rsqrt(z: Pair) -> Pair:
    return div((_like(1, z[0]), _like(0, z[0])), sqrt(z))


def sinh(z: Pair) -> Pair:
    x, y = z
    nan = _like(math.nan, x)
    s = _f(Op.SINH, x)
    on_axis = b.where(b.or_(_is_zero(x), _is_inf(x)), x, nan)
    return _select(
        (_is_zero(y), (s, y)), (_is_odd(y), (on_axis, nan)),
        other=(b.mul(s, b.cos(y)), b.mul(_f(Op.COSH, x), b.sin(y))),
    )  # fmt: skip


def cosh(z: Pair) -> Pair:
    x, y = z
    nan = _like(math.nan, x)
    c = _f(Op.COSH, x)
    lost = b.where(_is_inf(x), b.abs_(x), nan), b.where(_is_zero(x), x, nan)
    return _select(
        (_is_zero(y), (c, b.mul(y, _signed(1, x)))), (_is_odd(y), lost),
        other=(b.mul(c, b.cos(y)), b.mul(_f(Op.SINH, x), b.sin(y))),
    )  # fmt: skip


def tanh(z: Pair) -> Pair:
    x, y = z
    nan = _like(math.nan, x)
    limit = 44.0 if x.dtype is dt.float64 else 20.0  # beyond it tanh is 1 up to rounding
    far = b.lt(_like(limit, x), b.abs_(x))
    near = b.where(far, _like(0, x), x)
    t, s = _f(Op.TAN, y), _f(Op.SINH, near)
    beta = b.add(b.mul(t, t), 1.0)
    rho = b.sqrt(b.add(b.mul(s, s), 1.0))
    below = b.add(b.mul(beta, b.mul(s, s)), 1.0)
    re, im = b.div(b.mul(b.mul(beta, rho), s), below), b.div(t, below)
    decay = b.mul(b.exp(b.mul(b.abs_(x), -2.0)), b.mul(b.mul(b.sin(y), b.cos(y)), 4.0))
    return _select(
        (_is_inf(x), (_signed(1, x), _signed(0, y))),
        (_is_zero(y), (_f(Op.TANH, x), y)),
        (_is_odd(y), (b.where(_is_zero(x), x, nan), nan)),
        (far, (_signed(1, x), decay)),
        other=(re, im),
    )


def _times_i(z: Pair) -> Pair:
    return b.neg(z[1]), z[0]


def _over_i(z: Pair) -> Pair:
    return z[1], b.neg(z[0])


def rotated(f: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """g(z) = f(i z) / i."""
    return lambda z: _over_i(f(_times_i(z)))


def cos(z: Pair) -> Pair:
    return cosh(_times_i(z))


def _around_one(z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z), sqrt(1 + z)."""
    x, y = z
    return sqrt((b.sub(_like(1, x), x), b.neg(y))), sqrt((b.add(x, 1.0), y))


def _at_infinity(x: UOp, y: UOp) -> UOp:
    return b.or_(_is_inf(x), _is_inf(y))


def _is_far(x: UOp, y: UOp) -> UOp:
    """Where 1 is nothing next to z^2: the inverse functions are logarithms of 2 z."""
    limit = _like(2.0**30, x)
    return b.or_(b.lt(limit, b.abs_(x)), b.lt(limit, b.abs_(y)))


def _log_twice(x: UOp, y: UOp) -> UOp:
    """log |2 z|, without overflow."""
    return b.add(b.log(_f(Op.HYPOT, b.mul(x, 0.25), b.mul(y, 0.25))), math.log(8))


def asin(z: Pair) -> Pair:
    x, y = z
    m, p = _around_one(z)
    angle = _f(Op.COPYSIGN, _f(Op.ATAN2, b.abs_(x), b.abs_(y)), x)
    return _select(
        (_is_far(x, y), (angle, _f(Op.COPYSIGN, _log_twice(x, y), y))),
        (_is_zero(x), (x, _f(Op.ASINH, y))),
        other=(_f(Op.ATAN2, x, mul(m, p)[0]), _f(Op.ASINH, mul(conj(m), p)[1])),
    )


def acos(z: Pair) -> Pair:
    x, y = z
    m, p = _around_one(z)
    return _select(
        (_is_far(x, y), (_f(Op.ATAN2, b.abs_(y), x), _f(Op.COPYSIGN, _log_twice(x, y), b.neg(y)))),
        (_is_zero(x), (_like(math.pi / 2, x), b.neg(_f(Op.ASINH, y)))),
        other=(b.mul(_f(Op.ATAN2, m[0], p[0]), 2.0), _f(Op.ASINH, mul(conj(p), m)[1])),
    )


def acosh(z: Pair) -> Pair:
    x, y = z
    m, p = sqrt((b.add(x, -1.0), y)), sqrt((b.add(x, 1.0), y))
    return _select(
        (_is_far(x, y), (_log_twice(x, y), _f(Op.ATAN2, y, x))),
        (_is_zero(x), (_f(Op.ASINH, b.abs_(y)), _signed(math.pi / 2, y))),
        other=(_f(Op.ASINH, mul(conj(m), p)[0]), b.mul(_f(Op.ATAN2, m[1], p[0]), 2.0)),
    )


def atanh(z: Pair) -> Pair:
    x, y = z
    one = _like(1, x)
    gap, sum_ = b.sub(one, x), b.add(x, 1.0)
    square = b.mul(y, y)
    re = _f(Op.LOG1P, b.div(b.mul(x, 4.0), b.add(b.mul(gap, gap), square)))
    im = _f(Op.ATAN2, b.mul(y, 2.0), b.sub(b.mul(gap, sum_), square))
    turn = b.where(b.eq(y, y), _signed(math.pi / 2, y), y)
    far_turn = b.where(b.eq(x, x), turn, x)
    quarter = _f(Op.HYPOT, b.mul(x, 0.25), b.mul(y, 0.25))
    return _select(
        (_at_infinity(x, y), (_signed(0, x), turn)),
        (_is_far(x, y), (b.mul(b.div(b.div(b.mul(x, 0.25), quarter), quarter), 0.25), far_turn)),  # x / |z|^2
        (_is_zero(x), (x, _f(Op.ATAN, y))),
        other=(b.mul(re, 0.25), b.mul(im, 0.5)),
    )


FUNCTIONS: dict[Op, Callable[[Pair], Pair]] = {
    Op.NEG: neg, Op.SQRT: sqrt, Op.RSQRT: rsqrt, Op.EXP: exp, Op.EXPM1: expm1, Op.LOG: log, Op.LOG1P: log1p,
    Op.SIN: rotated(sinh), Op.COS: cos, Op.TAN: rotated(tanh), Op.ASIN: asin, Op.ACOS: acos, Op.ATAN: rotated(atanh),
    Op.SINH: sinh, Op.COSH: cosh, Op.TANH: tanh, Op.ASINH: rotated(asin), Op.ACOSH: acosh, Op.ATANH: atanh,
}  # fmt: skip
