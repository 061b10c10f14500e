"""jvp: carries (primal, tangent). A tangent of None is an exact zero.

A row receives the node and its operands' tangents, not all None, and returns the node's tangent.
Rows of tuple-valued ops receive a list of tangents and return (new members, tangents of the
members): a call then carries both. Conventions at kinks: max and min share ties evenly, but 0
against a constant (relu); abs, hypot 0 at 0; x**0 has derivative 0; sqrt inf at 0, but 0 of a sum
of squares. Functions that level off have an exact zero where a computed operand is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fgrad.trace import call, collective, control_jvp  # noqa: F401  rows of this table
from fgrad.trace.interpret import jvp, jvp_program, push
from fgrad.trace.maybe import Maybe, add_, instantiate, mul_, where_
from fgrad.trace.products import addends
from fgrad.trace.singular import can_be_infinite, is_sum_of_squares
from fgrad.trace.special_derivatives import (
    extreme_tangent,
    product_tangent,
    running_extreme_tangent,
    running_product_tangent,
    trigamma,
)  # fmt: skip
from fgrad.trace.update import take_along, update_tangent
from fgrad.uop.build import (
    add,
    and_,
    complex_,
    const_like,
    cos,
    div,
    eq,
    exp,
    gather,
    imag,
    iota_along,
    is_const,
    lt,
    mul,
    neg,
    not_,
    or_,
    real,
    rsqrt,
    scalar_of,
    sin,
    sub,
    where,
    zeros_like,
)  # fmt: skip
from fgrad.uop.node import UOp, paused_gc, uop
from fgrad.uop.op import BITWISE, COMPARE, LEAVES, ROUNDING, Op
from fgrad.uop.program import Program, close, gets

__all__ = ["jvp", "jvp_of", "jvp_program", "push"]


def jvp_of(program: Program, moves: Sequence[bool]) -> Program:
    """(*params, *tangents of the params that move) -> (*outs, *tangents of all outs).

    Tangents have the dtypes of their primals; where there is none (integers, constants) it is
    zeros.
    """
    with paused_gc():
        body, moving = jvp_program(program, tuple(moves))
        n = len(program.outs)
        found = iter(body.outs[n:])
        tangents = [
            next(found) if m else zeros_like(o) for o, m in zip(body.outs[:n], moving, strict=True)
        ]
        return close(body.params, [*body.outs[:n], *tangents], program.effects)


def _one_minus_square(x: UOp) -> UOp:
    return mul(sub(1, x), add(x, 1))


# ---- leaves, and what is flat almost everywhere or has no tangent
jvp(*LEAVES, Op.BITCAST, Op.NOT, *ROUNDING)(lambda u, *_: None)
# ---- movement: the same on the tangent
jvp(Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.FLIP, Op.WINDOW, Op.SKEW)(
    lambda u, dx: u.like(dx)
)
jvp(Op.SHRINK)(lambda u, dx, *_: None if dx is None else u.like(dx, *u.src[1:]))
# ---- elementwise, one operand
jvp(Op.CAST)(lambda u, dx: u.like(dx) if u.dtype.is_inexact else None)
jvp(Op.NEG)(lambda u, dx: neg(dx))


@jvp(Op.ABS)
def _(u: UOp, dx: UOp) -> Maybe:
    """0 at 0, whatever comes in."""
    x = u.src[0]
    return where_(eq(x, 0), None, mul(dx, uop(Op.COPYSIGN, (const_like(1, x), x))))


@jvp(Op.SQRT)
def _(u: UOp, dx: UOp) -> Maybe:
    """inf at 0, but of a sum of squares 0, as a norm."""
    d = mul(dx, div(0.5, u))
    return where_(eq(u, 0), None, d) if is_sum_of_squares(u.src[0]) else d


def _settled(x: UOp, d: UOp, at: float = math.inf) -> Maybe:
    """The tangent `d`, which is exactly 0 where `x` is infinite: nothing moves there any more.

    at   inf: either infinity, -inf: only that one
    """
    if not x.dtype.is_float or not can_be_infinite(x):
        return d
    return where_(eq(uop(Op.ABS, (x,)) if at > 0 else x, at), None, d)


jvp(Op.RSQRT)(lambda u, dx: _settled(u.src[0], mul(dx, mul(div(u, u.src[0]), -0.5))))
jvp(Op.CBRT)(lambda u, dx: mul(dx, div(1 / 3, mul(u, u))))
jvp(Op.EXP)(lambda u, dx: _settled(u.src[0], mul(dx, u), -math.inf))
jvp(Op.EXP2)(lambda u, dx: _settled(u.src[0], mul(dx, mul(u, math.log(2))), -math.inf))
jvp(Op.EXPM1)(lambda u, dx: _settled(u.src[0], mul(dx, add(u, 1)), -math.inf))
jvp(Op.LOG)(lambda u, dx: div(dx, u.src[0]))
jvp(Op.LOG2)(lambda u, dx: div(dx, mul(u.src[0], math.log(2))))
jvp(Op.LOG10)(lambda u, dx: div(dx, mul(u.src[0], math.log(10))))
jvp(Op.LOG1P)(lambda u, dx: div(dx, add(u.src[0], 1)))
jvp(Op.SIN)(lambda u, dx: mul(dx, cos(u.src[0])))
jvp(Op.COS)(lambda u, dx: neg(mul(dx, sin(u.src[0]))))
jvp(Op.TAN)(lambda u, dx: mul(dx, add(mul(u, u), 1)))
jvp(Op.ASIN)(lambda u, dx: mul(dx, rsqrt(_one_minus_square(u.src[0]))))
jvp(Op.ACOS)(lambda u, dx: neg(mul(dx, rsqrt(_one_minus_square(u.src[0])))))
jvp(Op.ATAN)(lambda u, dx: _settled(u.src[0], div(dx, add(mul(u.src[0], u.src[0]), 1))))
jvp(Op.SINH)(lambda u, dx: mul(dx, uop(Op.COSH, u.src)))
jvp(Op.COSH)(lambda u, dx: mul(dx, uop(Op.SINH, u.src)))
jvp(Op.TANH)(lambda u, dx: _settled(u.src[0], mul(dx, sub(1, mul(u, u)))))
jvp(Op.ASINH)(lambda u, dx: mul(dx, rsqrt(add(mul(u.src[0], u.src[0]), 1))))


@jvp(Op.ACOSH)
def _(u: UOp, dx: UOp) -> UOp:
    """Two roots: for complex operands the root of the product lies on another branch."""
    x = u.src[0]
    return mul(dx, mul(rsqrt(sub(x, 1)), rsqrt(add(x, 1))))


jvp(Op.ATANH)(lambda u, dx: div(dx, _one_minus_square(u.src[0])))
jvp(Op.SIGMOID)(lambda u, dx: _settled(u.src[0], mul(dx, mul(u, sub(1, u)))))
jvp(Op.SOFTPLUS)(lambda u, dx: mul(dx, uop(Op.SIGMOID, (u.src[0],))))


def _gauss(x: UOp) -> UOp:
    """The derivative of erf, 2/sqrt(pi) exp(-x^2)."""
    return mul(exp(neg(mul(x, x))), 2 / math.sqrt(math.pi))


jvp(Op.ERF)(lambda u, dx: _settled(u.src[0], mul(dx, _gauss(u.src[0]))))
jvp(Op.ERFC)(lambda u, dx: _settled(u.src[0], neg(mul(dx, _gauss(u.src[0])))))
jvp(Op.ERF_INV)(lambda u, dx: mul(dx, mul(exp(mul(u, u)), math.sqrt(math.pi) / 2)))
jvp(Op.LGAMMA)(lambda u, dx: mul(dx, uop(Op.DIGAMMA, u.src)))
jvp(Op.DIGAMMA)(lambda u, dx: mul(dx, trigamma(u.src[0])))
jvp(Op.REAL)(lambda u, dx: real(dx))
jvp(Op.IMAG)(lambda u, dx: imag(dx))
# ---- elementwise, two operands
jvp(Op.ADD)(lambda u, dx, dy: add_(dx, dy))


@jvp(Op.MUL)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    x, y = u.src
    if x is y:
        return add_(mul_(dx, x), mul_(dx, x))
    return add_(mul_(dx, y), mul_(x, dy))


@jvp(Op.DIV)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    y = u.src[1]
    return add_(
        None if dx is None else div(dx, y),
        None if dy is None else _settled(y, neg(mul(dy, div(u, y)))),
    )


jvp(Op.IDIV, *BITWISE, Op.SHL, Op.SHR, *COMPARE, Op.THREEFRY)(lambda u, *_: None)


@jvp(Op.MOD)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    """x - y * q; q is taken from the result, because floor(x / y) can be off by one."""
    x, y = u.src
    if dy is None:
        return dx
    return add_(dx, neg(mul(dy, uop(Op.ROUND, (div(sub(x, u), y),)))))


@jvp(Op.MAX, Op.MIN)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    x, y = u.src
    x_wins, y_wins = (lt(y, x), lt(x, y)) if u.op is Op.MAX else (lt(x, y), lt(y, x))
    if is_const(y) or is_const(x):
        return where_(x_wins, dx, None) if dy is None else where_(y_wins, dy, None)
    if x is y:
        return dx
    shared = mul_(add_(dx, dy), const_like(0.5, u))
    return where_(x_wins, dx, where_(y_wins, dy, shared))


@jvp(Op.POW)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    """x**0 has derivative 0 in x, also at 0 and NaN; 0**y has derivative 0 in y."""
    x, y = u.src
    d: Maybe = None
    if dx is not None:
        if is_const(y) and scalar_of(y).imag == 0:
            d = _power_tangent(x, float(scalar_of(y).real), dx)
        else:
            flat = and_(eq(y, 0), not_(lt(0, uop(Op.ABS, (x,)))))
            slope = where(flat, 0, mul(y, uop(Op.POW, (x, where(flat, 1, sub(y, 1))))))
            d = mul_(dx, slope)
    if dy is not None:
        zero = eq(x, 0)
        d = add_(d, mul(dy, where(zero, 0, mul(u, uop(Op.LOG, (where(zero, 1, x),))))))
    return d


def _power_tangent(x: UOp, c: float, dx: UOp) -> Maybe:
    """The tangent of x**c; of roots of sums of squares 0 at 0, as for sqrt."""
    if c in (0, 1):
        return dx if c else None
    d = mul(dx, mul(x if c == 2 else uop(Op.POW, (x, const_like(c - 1, x))), c))
    if 0.5 <= c < 1 and is_sum_of_squares(x):
        return where_(eq(x, 0), None, d)
    return _settled(x, d) if c < 0 else d


@jvp(Op.ATAN2)
def _(u: UOp, dy: Maybe, dx: Maybe) -> Maybe:
    """(x dy - y dx) / (x^2 + y^2), divided twice by the distance, which does not overflow.

    0 at the origin, and where a computed operand is infinite.
    """
    y, x = u.src
    r = uop(Op.HYPOT, (x, y))
    origin = eq(r, 0)
    if can_be_infinite(x) or can_be_infinite(y):
        origin = or_(origin, eq(r, math.inf))
    safe = where(origin, 1, r)
    d = add_(
        None if dy is None else mul(dy, div(div(x, safe), safe)),
        None if dx is None else neg(mul(dx, div(div(y, safe), safe))),
    )
    return where_(origin, None, d)


@jvp(Op.HYPOT)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    """0 at the origin."""
    origin = eq(u, 0)
    safe = where(origin, 1, u)
    x, y = u.src
    return where_(origin, None, add_(mul_(dx, div(x, safe)), mul_(dy, div(y, safe))))


@jvp(Op.LOGADDEXP)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    """Each operand's share is the sigmoid of what it is ahead; of equal infinities a half."""
    x, y = u.src
    same = and_(eq(x, y), eq(uop(Op.ABS, (x,)), math.inf))
    ahead = where(same, const_like(0, x), sub(x, y))
    return add_(mul_(dx, uop(Op.SIGMOID, (ahead,))), mul_(dy, uop(Op.SIGMOID, (neg(ahead),))))


@jvp(Op.COPYSIGN)
def _(u: UOp, dx: Maybe, dy: Maybe) -> Maybe:
    """|x| with a sign that does not move: as abs, 0 at 0."""
    x = u.src[0]
    if dx is None:
        return None
    one = const_like(1, x)
    flips = mul(uop(Op.COPYSIGN, (one, x)), uop(Op.COPYSIGN, (one, u)))
    return where_(eq(x, 0), None, mul(dx, flips))


jvp(Op.COMPLEX)(lambda u, dx, dy: complex_(instantiate(dx, u.src[0]), instantiate(dy, u.src[1])))
jvp(Op.WHERE)(lambda u, _, dx, dy: where_(u.src[0], dx, dy))


# ---- across elements
@jvp(Op.REDUCE)
def _(u: UOp, dx: UOp) -> Maybe:
    """A sum of products is summed product by product (see products.py)."""
    op, axes = u.arg
    if op is Op.ADD:
        terms = [u.like(t) for t in addends(dx)]
        total = terms[0]
        for t in terms[1:]:
            total = add(total, t)
        return total
    if op is Op.MUL:
        return product_tangent(u.src[0], dx, axes)
    return extreme_tangent(u, dx)


@jvp(Op.PREFIX)
def _(u: UOp, dx: UOp) -> UOp:
    op = u.arg[0]
    if op is Op.ADD:
        return u.like(dx)
    return running_product_tangent(u, dx) if op is Op.MUL else running_extreme_tangent(u, dx)


@jvp(Op.SORT)
def _(u: UOp, d: list[Maybe]) -> tuple[list[UOp], list[Maybe]]:
    """Sort the positions along; tangents are then permuted as their primals were."""
    axis = u.arg
    n = len(u.src)
    members = gets(uop(Op.SORT, (*u.src, iota_along(u.src[0].shape, axis)), axis))
    order = members[n]
    return members[:n], [None if t is None else take_along(t, order, axis) for t in d]


jvp(Op.GATHER)(lambda u, dx, _: None if dx is None else gather(dx, u.src[1], u.arg))
jvp(Op.UPDATE)(lambda u, dold, dvalue, *_: update_tangent(u, dold, dvalue))
# ---- calls: control_jvp.py, call.py; across devices: collective.py


@jvp(Op.TUPLE)
def _(u: UOp, d: list[Maybe]) -> tuple[list[UOp], list[Maybe]]:
    return list(u.src), d


@jvp(Op.GET)
def _(u: UOp, d: Any) -> Maybe:
    raise AssertionError("push reads members itself: every row of a tuple-valued op returns a list")


# ---- memory
jvp.refuse(
    Op.LOAD,
    Op.STORE,
    because="reads and writes become versions before derivatives are taken; see functionalise",
)
jvp(Op.AFTER)(lambda u, dx, *_: dx)
