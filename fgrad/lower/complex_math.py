"""Complex arithmetic and functions on pairs of real nodes.

Branch cuts and signed zeros follow Kahan, "Branch cuts for complex elementary functions" (1987).
"""

from __future__ import annotations

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
    e = b.exp(z[0])
    flat = b.eq(z[1], _like(0, z[1]))
    return b.where(flat, e, b.mul(e, b.cos(z[1]))), b.where(flat, z[1], b.mul(e, b.sin(z[1])))


def expm1(z: Pair) -> Pair:
    half = b.sin(b.mul(z[1], 0.5))
    re = b.sub(b.mul(_f(Op.EXPM1, z[0]), b.cos(z[1])), b.mul(b.mul(half, half), 2.0))
    return re, b.mul(b.exp(z[0]), b.sin(z[1]))


def log(z: Pair) -> Pair:
    return b.log(_f(Op.HYPOT, *z)), _f(Op.ATAN2, z[1], z[0])


def log1p(z: Pair) -> Pair:
    x, y = z
    inner = b.add(b.mul(x, b.add(x, 2.0)), b.mul(y, y))
    return b.mul(_f(Op.LOG1P, inner), 0.5), _f(Op.ATAN2, y, b.add(x, 1.0))


def sqrt(z: Pair) -> Pair:
    x, y = z
    t = b.sqrt(b.mul(b.add(b.abs_(x), _f(Op.HYPOT, x, y)), 0.5))
    other = b.div(b.abs_(y), b.mul(t, 2.0))
    zero = b.eq(t, _like(0, t))
    other = b.where(zero, t, other)
    right = b.le(_like(0, x), x)
    return b.where(right, t, other), _f(Op.COPYSIGN, b.where(right, other, t), y)


def rsqrt(z: Pair) -> Pair:
    return div((_like(1, z[0]), _like(0, z[0])), sqrt(z))


def sinh(z: Pair) -> Pair:
    x, y = z
    return b.mul(_f(Op.SINH, x), b.cos(y)), b.mul(_f(Op.COSH, x), b.sin(y))


def cosh(z: Pair) -> Pair:
    x, y = z
    return b.mul(_f(Op.COSH, x), b.cos(y)), b.mul(_f(Op.SINH, x), b.sin(y))


def tanh(z: Pair) -> Pair:
    x, y = z
    limit = 44.0 if x.dtype is dt.float64 else 20.0  # beyond it tanh is 1 up to rounding
    far = b.lt(_like(limit, x), b.abs_(x))
    near = b.where(far, _like(0, x), x)
    t, s = _f(Op.TAN, y), _f(Op.SINH, near)
    beta = b.add(b.mul(t, t), 1.0)
    rho = b.sqrt(b.add(b.mul(s, s), 1.0))
    below = b.add(b.mul(beta, b.mul(s, s)), 1.0)
    re, im = b.div(b.mul(b.mul(beta, rho), s), below), b.div(t, below)
    decay = b.mul(b.exp(b.mul(b.abs_(x), -2.0)), b.mul(b.mul(b.sin(y), b.cos(y)), 4.0))
    return b.where(far, _f(Op.COPYSIGN, _like(1, x), x), re), b.where(far, decay, im)


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


def asin(z: Pair) -> Pair:
    m, p = _around_one(z)
    return _f(Op.ATAN2, z[0], mul(m, p)[0]), _f(Op.ASINH, mul(conj(m), p)[1])


def acos(z: Pair) -> Pair:
    m, p = _around_one(z)
    return b.mul(_f(Op.ATAN2, m[0], p[0]), 2.0), _f(Op.ASINH, mul(conj(p), m)[1])


def acosh(z: Pair) -> Pair:
    x, y = z
    m, p = sqrt((b.add(x, -1.0), y)), sqrt((b.add(x, 1.0), y))
    return _f(Op.ASINH, mul(conj(m), p)[0]), b.mul(_f(Op.ATAN2, m[1], p[0]), 2.0)


def atanh(z: Pair) -> Pair:
    x, y = z
    one = _like(1, x)
    gap, sum_ = b.sub(one, x), b.add(x, 1.0)
    square = b.mul(y, y)
    re = _f(Op.LOG1P, b.div(b.mul(x, 4.0), b.add(b.mul(gap, gap), square)))
    im = _f(Op.ATAN2, b.mul(y, 2.0), b.sub(b.mul(gap, sum_), square))
    return b.mul(re, 0.25), b.mul(im, 0.5)


FUNCTIONS: dict[Op, Callable[[Pair], Pair]] = {
    Op.NEG: neg, Op.SQRT: sqrt, Op.RSQRT: rsqrt, Op.EXP: exp, Op.EXPM1: expm1, Op.LOG: log, Op.LOG1P: log1p,
    Op.SIN: rotated(sinh), Op.COS: cos, Op.TAN: rotated(tanh), Op.ASIN: asin, Op.ACOS: acos, Op.ATAN: rotated(atanh),
    Op.SINH: sinh, Op.COSH: cosh, Op.TANH: tanh, Op.ASINH: rotated(asin), Op.ACOSH: acosh, Op.ATANH: atanh,
}  # fmt: skip
