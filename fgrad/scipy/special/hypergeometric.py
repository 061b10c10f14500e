"""Hypergeometric functions of real arguments, by their power series, in float64.

Formula numbers are those of the NIST Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.lax.special import Formula, iterate, program_of
from fgrad.numpy.common import public
from fgrad.scipy.special.common import in_double, lgamma, like, nary
from fgrad.scipy.special.elementary import sign_of_gamma
from fgrad.trace.arraylike import Array
from fgrad.trace.interpret import jvp_program
from fgrad.trace.tracer import ArrayLike
from fgrad.uop import build
from fgrad.uop.build import add, and_, div, exp, log, lt, mul, neg, or_, sub, where
from fgrad.uop.node import UOp

__all__ = ["hyp1f1", "hyp2f1"]

_EPS = 2.0**-54
_STEPS = 1_000_000  # terms of a series; what has not converged by then is given as it is


def _summed(ratio: Callable[[UOp], UOp], like_: UOp) -> UOp:
    """1 + r(0) + r(0) r(1) + .., where r(k) = ratio(k) is the quotient of two terms."""

    def step(state: list[UOp]) -> list[UOp]:
        term, total, k = state
        term = mul(term, ratio(k))
        return [term, add(total, term), add(k, 1)]

    def going(state: list[UOp]) -> UOp:
        term, total, k = state
        return and_(lt(mul(build.abs_(total), _EPS), build.abs_(term)), lt(k, float(_STEPS)))

    one = like(1, like_)
    return iterate(going, step, [one, one, build.zeros_like(like_)])[1]


def _is_pole(x: UOp) -> UOp:
    """Whether x is 0, -1, -2, .."""
    return and_(build.le(x, 0), build.eq(x, build.floor(x)))


def _partial(value: Callable[..., UOp], place: int) -> Callable[..., UOp]:
    """The partial derivative of `value` in one argument: forward through the series."""

    def slope(*xs: UOp) -> UOp:
        program = program_of(value, tuple([(x.dtype, x.shape) for x in xs]))
        forward, _ = jvp_program(program, tuple([i == place for i in range(len(xs))]))
        return forward.inline([*xs, like(1, xs[place])])[1]

    return slope


# ---- 1F1
def _hyp1f1(a: UOp, b: UOp, x: UOp) -> UOp:
    """The series; for x < 0 after Kummer's transformation (DLMF 13.2.39), so that its terms do not cancel."""
    ends = _ends(a, b)
    bad = and_(_is_pole(b), build.not_(ends))
    is_negative = and_(lt(x, 0), build.not_(ends))
    numerator = where(is_negative, sub(b, a), a)
    numerator = where(bad, build.zeros_like(a), numerator)
    denominator = where(bad, like(1, b), b)
    at = where(is_negative, neg(x), x)

    def ratio(k: UOp) -> UOp:
        below = add(denominator, k)
        safe = where(build.eq(below, 0), like(1, below), below)
        return div(mul(add(numerator, k), at), mul(safe, add(k, 1)))

    total = _summed(ratio, x)
    total = where(is_negative, mul(total, exp(x)), total)
    return where(bad, like(math.inf, x), total)


def _ends(a: UOp, b: UOp) -> UOp:
    """Whether the series is a polynomial: a is 0, -1, .., and b does not vanish before."""
    return and_(_is_pole(a), or_(build.not_(_is_pole(b)), build.le(b, a)))


_HYP1F1 = Formula(
    "hyp1f1",
    in_double(_hyp1f1),
    (
        in_double(_partial(_hyp1f1, 0)),
        in_double(_partial(_hyp1f1, 1)),
        in_double(lambda a, b, x: mul(div(a, b), _hyp1f1(add(a, 1), add(b, 1), x))),
    ),
)


@public()
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's function 1F1(a; b; x), for real numbers; inf where b is 0, -1, .. and the series does not end before.

    All digits where the terms of the series (for x < 0: of exp(x) 1F1(b - a; b; -x)) have one sign, as for
    0 < a < b; elsewhere they may cancel.

    Source: DLMF 13.2.2 and 13.2.39.

    >>> hyp1f1(1.0, 2.0, 1.0)
    Array(1.7182819, dtype=float32, weak_type=True)
    """
    return nary("hyp1f1", _HYP1F1.node, a, b, x)


# ---- 2F1
def _gauss_sum(a: UOp, b: UOp, c: UOp) -> UOp:
    """2F1 at x = 1 for c > a + b (DLMF 15.4.20)."""
    size = sub(add(lgamma(c), lgamma(sub(sub(c, a), b))), add(lgamma(sub(c, a)), lgamma(sub(c, b))))
    sign = mul(sign_of_gamma(c), mul(sign_of_gamma(sub(c, a)), sign_of_gamma(sub(c, b))))
    vanishes = or_(_is_pole(sub(c, a)), _is_pole(sub(c, b)))
    return where(vanishes, build.zeros_like(a), mul(where(vanishes, like(1, a), sign), exp(size)))


def _hyp2f1(a: UOp, b: UOp, c: UOp, x: UOp) -> UOp:
    """The series for 0 <= x < 1, after Pfaff's transformation for x < 0 (DLMF 15.8.1), and after Euler's where it
    makes the terms fall faster.
    """
    # a series that ends is summed as it stands; the parameter that ends it becomes a
    swap = and_(_ends(b, c), build.not_(_ends(a, c)))
    a, b = where(swap, b, a), where(swap, a, b)
    ends = _ends(a, c)
    bad = and_(_is_pole(c), build.not_(ends))
    outside = and_(build.le(1, x), build.not_(ends))
    idle = or_(bad, outside)
    is_negative = and_(lt(x, 0), build.not_(or_(ends, bad)))
    base = where(or_(is_negative, and_(build.not_(ends), build.not_(idle))), sub(1, x), like(1, x))
    scale = log(base)
    p, q, r = a, where(is_negative, sub(c, b), b), where(idle, like(1, c), c)
    at = where(is_negative, div(x, where(is_negative, sub(x, 1), like(1, x))), x)
    power = where(is_negative, neg(a), build.zeros_like(a))
    # Euler: 2F1(p, q; r; z) = (1 - z)^(r - p - q) 2F1(r - p, r - q; r; z), with 1 - z = 1 / (1 - x) after Pfaff
    gap = sub(sub(r, p), q)
    turn = and_(lt(gap, 0), build.not_(or_(ends, idle)))
    power = add(power, where(turn, where(is_negative, neg(gap), gap), build.zeros_like(gap)))
    p, q = where(turn, sub(r, p), p), where(turn, sub(r, q), q)
    p = where(idle, build.zeros_like(p), p)

    def ratio(k: UOp) -> UOp:
        below = add(r, k)
        safe = where(build.eq(below, 0), like(1, below), below)
        return div(mul(mul(add(p, k), add(q, k)), at), mul(safe, add(k, 1)))

    total = mul(_summed(ratio, x), exp(mul(power, scale)))
    at_one = and_(build.eq(x, 1), lt(0, sub(sub(c, a), b)))
    here = and_(at_one, and_(outside, build.not_(bad)))
    safe_c = where(here, c, like(3, c))
    limit = _gauss_sum(where(here, a, like(1, a)), where(here, b, like(1, b)), safe_c)
    total = where(idle, where(here, limit, like(math.inf, x)), total)
    # an empty series is 1 whatever the rest
    return where(or_(build.eq(a, 0), build.eq(x, 0)), like(1, x), total)


_HYP2F1 = Formula(
    "hyp2f1",
    in_double(_hyp2f1),
    (
        in_double(_partial(_hyp2f1, 0)),
        in_double(_partial(_hyp2f1, 1)),
        in_double(_partial(_hyp2f1, 2)),
        in_double(lambda a, b, c, x: mul(div(mul(a, b), c), _hyp2f1(add(a, 1), add(b, 1), add(c, 1), x))),
    ),
)


@public()
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's function 2F1(a, b; c; x), for real numbers.

    inf for x > 1 (and at 1 for c <= a + b), and where c is 0, -1, .., unless the series ends before. Terms are added
    until they no longer count, but no more than a million: near x = 1 or far below 0 this takes long, and large
    a and b lose digits.

    Source: DLMF 15.2.1, 15.4.20 and 15.8.1.

    >>> hyp2f1(1.0, 1.0, 2.0, 0.5)
    Array(1.3862944, dtype=float32, weak_type=True)
    """
    return nary("hyp2f1", _HYP2F1.node, a, b, c, x)


