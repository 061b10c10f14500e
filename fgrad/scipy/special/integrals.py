"""Integrals without a closed form: exponential, sine and cosine, Fresnel, Dawson, Spence, Owen.

All are computed in float64. Formula numbers are those of the NIST Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.lax.elementwise import float_node
from fgrad.lax.special import Formula
from fgrad.numpy.common import binary, public
from fgrad.scipy.special.common import horner, in_double, like, log1p, nary, unary
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop.build import add, and_, div, exp, log, lt, mul, neg, sub, where
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["dawsn", "exp1", "expi", "expn", "fresnel", "owens_t", "sici", "spence"]

_EULER = 0.57721566490153286
Pair = tuple[UOp, UOp]  # real and imaginary part


# ---- exponential integrals
def _ein(x: UOp, terms: int) -> UOp:
    """The sum of x^k / (k k!) over k >= 1 (DLMF 6.6.2)."""
    total = build.zeros_like(x)
    for k in range(terms, 0, -1):
        total = mul(add(total, 1.0 / k), mul(x, 1.0 / k))
    return total


def _exp1(x: UOp) -> UOp:
    is_far = lt(2.0, x)
    near = where(build.or_(is_far, build.le(x, 0)), like(1, x), x)
    far = where(is_far, x, like(3, x))
    tail = add(far, 101.0)
    for k in range(100, 0, -1):  # DLMF 6.9.1, from the back
        tail = add(far, div(k, add(1, div(k, tail))))
    out = where(is_far, div(exp(neg(far)), tail), sub(neg(_ein(neg(near), 30)), add(log(near), _EULER)))
    edge = where(build.eq(x, 0), like(math.inf, x), like(math.nan, x))
    return where(lt(0, x), out, edge)


_EXP1 = Formula("exp1", in_double(_exp1), (in_double(lambda x: neg(div(exp(neg(x)), x))),))


@public()
def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1 for x > 0; inf at 0, NaN below.

    Shape as x; integers become the default float.

    Source: DLMF 6.6.2 and 6.9.1.

    >>> exp1(fnp.array([0.5, 1.0, 10.0]))
    Array([5.5977362e-01, 2.1938394e-01, 4.1569688e-06], dtype=float32)
    """
    return unary("exp1", _EXP1.node, x)


_EI_SERIES_END = 40.0  # beyond, the smallest term of the asymptotic series is below the last digit


def _expi(x: UOp) -> UOp:
    """Below 0 it is -E1(-x); above a series of positive terms, then the asymptotic one (DLMF 6.12.2)."""
    is_negative, is_far = lt(x, 0), lt(_EI_SERIES_END, x)
    below = neg(_exp1(where(is_negative, neg(x), like(1, x))))
    near = where(and_(lt(0, x), build.not_(is_far)), x, like(1, x))
    series = add(_ein(near, 140), add(log(near), _EULER))
    far = where(and_(is_far, lt(x, math.inf)), x, like(50, x))
    tail = horner([float(math.factorial(k)) for k in range(40)], div(1, far))
    above = where(is_far, mul(div(exp(far), far), tail), series)
    out = where(is_negative, below, above)
    out = where(build.eq(x, 0), like(-math.inf, x), out)
    return where(build.or_(build.ne(x, x), build.eq(x, math.inf)), x, out)


_EXPI = Formula("expi", in_double(_expi), (in_double(lambda x: div(exp(x), x)),))


@public()
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei, the principal value of the integral of exp(t) / t up to x; -inf at 0.

    Source: DLMF 6.6.2 and 6.12.2.

    >>> expi(1.0)
    Array(1.8951178, dtype=float32, weak_type=True)
    """
    return unary("expi", _EXPI.node, x)


def _expn(n: UOp, x: UOp) -> UOp:
    """E_n(x) for n >= 1: a series up to 2 (DLMF 8.19.8), beyond a continued fraction (DLMF 8.19.17, contracted)."""
    is_far = lt(2.0, x)
    ordinary = and_(lt(0, n), lt(0, x))
    order = where(ordinary, n, like(1, n))
    near = where(and_(ordinary, build.not_(is_far)), x, like(1, x))
    term = like(1, x)
    total = build.zeros_like(x)
    for m in range(32):
        gap = sub(m + 1.0, order)
        here = build.eq(gap, 0)
        total = add(total, where(here, build.zeros_like(x), div(term, where(here, like(1, gap), gap))))
        term = mul(term, mul(near, -1.0 / (m + 1)))
    before = sub(order, 1)
    size = exp(sub(mul(before, log(near)), uop(Op.LGAMMA, (order,))))
    odd = build.eq(sub(before, mul(build.floor(mul(before, 0.5)), 2)), 1)
    head = mul(where(odd, neg(size), size), sub(uop(Op.DIGAMMA, (order,)), log(near)))
    series = sub(head, total)
    far = where(and_(ordinary, is_far), x, like(3, x))
    tail = add(far, add(order, 120.0))
    for k in range(60, 0, -1):
        tail = sub(add(far, add(order, 2.0 * (k - 1))), div(mul(add(order, k - 1.0), float(k)), tail))
    out = where(is_far, div(exp(neg(far)), tail), series)
    at_zero = where(lt(1, n), div(1, where(lt(1, n), sub(n, 1), like(1, n))), like(math.inf, n))
    order_zero = div(exp(neg(x)), x)
    edge = where(build.eq(x, 0), at_zero, like(math.nan, x))
    out = where(ordinary, out, where(and_(build.eq(n, 0), lt(0, x)), order_zero, edge))
    return where(lt(n, 0), like(math.nan, n), out)


def _expn_slope(n: UOp, x: UOp) -> UOp:
    first = div(mul(exp(neg(x)), add(x, 1)), mul(x, x))
    zero = build.eq(n, 0)
    return neg(where(zero, first, _expn(where(zero, like(1, n), sub(n, 1)), x)))


_EXPN = Formula("expn", in_double(_expn), (None, in_double(_expn_slope)))


@binary
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral E_n(x), the integral of exp(-x t) / t^n over t >= 1, for n = 0, 1, .. and x >= 0.

    NaN elsewhere; differentiable in x.

    Source: DLMF 8.19.8 and 8.19.17.

    >>> expn(2, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return nary("expn", _EXPN.node, n, x)


# ---- sine and cosine integrals
def _reciprocal(z: Pair) -> Pair:
    size = add(mul(z[0], z[0]), mul(z[1], z[1]))
    return div(z[0], size), neg(div(z[1], size))


def _sine_cosine(x: UOp) -> Pair:
    """(Si, Ci) of x >= 0: power series up to 4 (DLMF 6.6.5, 6.6.6), beyond E1(i x) by its continued fraction."""
    is_far = lt(4.0, x)
    near = where(is_far, like(1, x), x)
    safe = where(build.eq(near, 0), like(1, x), near)
    square = mul(near, near)
    odd = [(-1.0) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(18)]
    even = [0.0, *[(-1.0) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, 18)]]
    sine = mul(horner(odd, square), near)
    cosine = add(add(log(safe), _EULER), horner(even, square))
    cosine = where(build.eq(near, 0), like(-math.inf, x), cosine)
    far = where(and_(is_far, lt(x, math.inf)), x, like(5, x))
    z: Pair = (like(161.0, x), far)
    for k in range(79, -1, -1):
        re, im = _reciprocal(z)
        z = (sub(2.0 * k + 1, mul(re, float((k + 1) ** 2))), sub(far, mul(im, float((k + 1) ** 2))))
    re, im = _reciprocal(z)
    c, s = build.cos(far), build.sin(far)
    sine = where(is_far, add(sub(mul(im, c), mul(re, s)), math.pi / 2), sine)
    cosine = where(is_far, neg(add(mul(re, c), mul(im, s))), cosine)
    infinite = build.eq(x, math.inf)
    sine, cosine = where(infinite, like(math.pi / 2, x), sine), where(infinite, build.zeros_like(x), cosine)
    return sine, cosine


def _si(x: UOp) -> UOp:
    value = _sine_cosine(build.abs_(x))[0]
    return where(lt(x, 0), neg(value), where(build.eq(x, x), value, x))


def _ci(x: UOp) -> UOp:
    value = _sine_cosine(build.abs_(x))[1]
    return where(build.and_(build.eq(x, x), lt(-math.inf, x)), value, like(math.nan, x))


def _sinc(x: UOp) -> UOp:
    zero = build.eq(x, 0)
    return where(zero, like(1, x), div(build.sin(x), where(zero, like(1, x), x)))


_SI = Formula("si", in_double(_si), (in_double(_sinc),))
_CI = Formula("ci", in_double(_ci), (in_double(lambda x: div(build.cos(x), x)),))


@public()
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """(the integral of sin(t) / t from 0 to x, euler's constant + log|x| + that of (cos(t) - 1) / t).

    Complex numbers raise DtypeError.

    Source: DLMF 6.6.5, 6.6.6 and 6.9.1.

    >>> sici(1.0)
    (Array(0.94608307, ...), Array(0.33740392, ...))
    """
    node, weak = float_node("sici", x)
    return Tracer(_SI.node(node), weak), Tracer(_CI.node(node), weak)


# ---- Fresnel integrals
def _fresnel(x: UOp) -> Pair:
    """(S, C) of x >= 0: power series up to 1.5 (DLMF 7.6.4, 7.6.6), beyond erfc((1 - i) sqrt(pi) x / 2) by its
    continued fraction (DLMF 7.9.3).
    """
    is_far = lt(1.5, x)
    near = where(is_far, like(1, x), x)
    quarter = mul(mul(near, near), math.pi / 2)
    square = mul(quarter, quarter)
    sine = [(-1.0) ** k / (math.factorial(2 * k + 1) * (4 * k + 3)) for k in range(16)]
    cosine = [(-1.0) ** k / (math.factorial(2 * k) * (4 * k + 1)) for k in range(16)]
    s, c = mul(mul(horner(sine, square), quarter), near), mul(horner(cosine, square), near)
    far = where(and_(is_far, lt(x, 1e15)), x, like(2, x))
    turn = mul(mul(far, far), -math.pi)
    z: Pair = (like(241.0, x), turn)
    for k in range(60, 0, -1):
        re, im = _reciprocal(z)
        weight = -float((2 * k - 1) * 2 * k)
        z = (add(mul(re, weight), 4.0 * k - 3), add(mul(im, weight), turn))
    re, im = _reciprocal(z)
    re, im = mul(far, add(re, im)), mul(far, sub(im, re))  # times (x - i x)
    # the angle pi x^2 / 2 as a part of a turn, which x^2 holds exactly enough
    angle = mul(sub(mul(far, far), mul(build.floor(mul(mul(far, far), 0.25)), 4)), math.pi / 2)
    cos, sin = build.cos(angle), build.sin(angle)
    left = (sub(1, sub(mul(cos, re), mul(sin, im))), neg(add(mul(cos, im), mul(sin, re))))
    c = where(is_far, mul(sub(left[0], left[1]), 0.5), c)
    s = where(is_far, mul(add(left[0], left[1]), 0.5), s)
    huge = build.le(1e15, x)
    return where(huge, like(0.5, x), s), where(huge, like(0.5, x), c)


def _signed(part: int, x: UOp) -> UOp:
    value = _fresnel(build.abs_(x))[part]
    return where(lt(x, 0), neg(value), where(build.eq(x, x), value, x))


def _quarter_turns(x: UOp) -> UOp:
    return mul(mul(x, x), math.pi / 2)


_FRESNEL_S = Formula(
    "fresnel S", in_double(lambda x: _signed(0, x)), (in_double(lambda x: build.sin(_quarter_turns(x))),)
)
_FRESNEL_C = Formula(
    "fresnel C", in_double(lambda x: _signed(1, x)), (in_double(lambda x: build.cos(_quarter_turns(x))),)
)


@public()
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """(S, C): the integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.

    Source: DLMF 7.6.4, 7.6.6 and 7.9.3.

    >>> fresnel(1.0)
    (Array(0.43825915, ...), Array(0.7798934, ...))
    """
    node, weak = float_node("fresnel", x)
    return Tracer(_FRESNEL_S.node(node), weak), Tracer(_FRESNEL_C.node(node), weak)


# ---- Dawson's integral
_STEP = 0.2  # of the sampled sum: its error is exp(-(pi / (2 * step))^2), far below the last digit


def _dawsn(x: UOp) -> UOp:
    """Sampled Gaussians around x (after Rybicki 1989): sum over odd n of exp(-(x - n h)^2) / n."""
    is_far, is_small = lt(1e7, build.abs_(x)), lt(build.abs_(x), 0.2)
    y = where(is_far, like(1, x), x)
    even = mul(build.round_(mul(y, 0.5 / _STEP)), 2)
    rest = sub(y, mul(even, _STEP))
    up, down = exp(mul(rest, 2 * _STEP)), exp(mul(rest, -2 * _STEP))
    total = build.zeros_like(x)
    plus, minus = up, down
    for k in range(1, 32, 2):
        weight = math.exp(-((k * _STEP) ** 2))
        total = add(total, mul(add(div(plus, add(even, float(k))), div(minus, sub(even, float(k)))), weight))
        plus, minus = mul(plus, mul(up, up)), mul(minus, mul(down, down))
    value = mul(mul(total, exp(neg(mul(rest, rest)))), 1 / math.sqrt(math.pi))
    small = where(is_small, x, build.zeros_like(x))
    coefficients = [1.0]
    for k in range(1, 9):  # DLMF 7.6.3
        coefficients.append(-2 * coefficients[-1] / (2 * k + 1))
    series = mul(horner(coefficients, mul(small, small)), small)
    return where(is_far, div(0.5, x), where(is_small, series, value))


_DAWSN = Formula("dawsn", in_double(_dawsn), (in_double(lambda x: sub(1, mul(mul(x, _dawsn(x)), 2))),))


@public()
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral: exp(-x^2) times the integral of exp(t^2) from 0 to x.

    Source: G. B. Rybicki, Computers in Physics 3 (1989).

    >>> dawsn(1.0)
    Array(0.5380795, dtype=float32, weak_type=True)
    """
    return unary("dawsn", _DAWSN.node, x)


# ---- the dilogarithm
def _spence(x: UOp) -> UOp:
    """Brought to [1/2, 1] by inversion and reflection (DLMF 25.12.4, 25.12.6), there a series in log x."""
    is_high = lt(1, x)
    inside = and_(lt(0, x), lt(x, math.inf))
    y = where(inside, x, like(1, x))
    y = where(is_high, div(1, y), y)
    is_low = lt(y, 0.5)
    other = sub(1, y)
    v = neg(log(where(is_low, other, y)))  # with u = 1 - y: Li2(u) = sum of B_k v^(k+1) / (k+1)!
    even = [1.0, *[float(b) / math.factorial(2 * k + 3) for k, b in enumerate(_EVEN_BERNOULLI)]]
    series = mul(v, sub(horner(even, mul(v, v)), mul(v, 0.25)))
    low = where(is_low, y, like(0.25, x))
    reflected = sub(math.pi**2 / 6, add(mul(log(low), log1p(neg(low))), series))
    out = where(is_low, reflected, series)
    out = where(is_high, neg(add(mul(mul(log(y), log(y)), 0.5), out)), out)
    edge = where(build.eq(x, math.inf), like(-math.inf, x), like(math.nan, x))
    return where(inside, out, where(build.eq(x, 0), like(math.pi**2 / 6, x), edge))


_EVEN_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def _spence_slope(x: UOp) -> UOp:
    near = lt(build.abs_(sub(x, 1)), 1e-4)
    gap = where(near, sub(x, 1), build.zeros_like(x))
    safe = where(near, like(2, x), x)
    series = horner([-1.0, 1 / 2, -1 / 3, 1 / 4], gap)
    return where(near, series, div(log(safe), sub(1, safe)))


_SPENCE = Formula("spence", in_double(_spence), (in_double(_spence_slope),))


@public()
def spence(x: ArrayLike) -> Array:
    """The integral of log(t) / (1 - t) from 1 to x, for x >= 0: the dilogarithm of 1 - x. NaN below 0.

    Source: DLMF 25.12.4 and 25.12.6.

    >>> spence(0.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return unary("spence", _SPENCE.node, x)


# ---- Owen's T function
_NODES, _WEIGHTS = (v.tolist() for v in np.polynomial.legendre.leggauss(36))


def _ndtr(x: UOp) -> UOp:
    return mul(uop(Op.ERFC, (mul(x, -math.sqrt(0.5)),)), 0.5)


def _owens_t(h: UOp, a: UOp) -> UOp:
    """Gauss quadrature over [0, |a|] for |a| <= 1, else from T(|a h|, 1 / |a|) (Owen 1956, eq. 2.3)."""
    x, top = build.abs_(h), build.abs_(a)
    is_steep = lt(1.0, top)
    steep = where(is_steep, top, like(2, a))
    moved = where(build.eq(x, 0), x, mul(x, steep))
    y, b = where(is_steep, moved, x), where(is_steep, div(1, steep), top)
    half = mul(mul(y, y), -0.5)
    total = build.zeros_like(h)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        t = mul(b, 0.5 * (node + 1))
        square = add(mul(t, t), 1)
        total = add(total, mul(div(exp(mul(half, square)), square), weight))
    area = mul(mul(total, b), 0.25 / math.pi)
    p, q = _ndtr(neg(x)), _ndtr(neg(moved))  # upper tails, without cancellation
    turned = sub(mul(add(p, q), 0.5), add(mul(p, q), area))
    out = where(is_steep, turned, area)
    out = where(build.or_(build.ne(h, h), build.ne(a, a)), add(h, a), out)
    return where(lt(a, 0), neg(out), out)


def _owens_in_h(h: UOp, a: UOp) -> UOp:
    inner = uop(Op.ERF, (mul(mul(h, a), math.sqrt(0.5)),))
    return mul(mul(exp(mul(mul(h, h), -0.5)), inner), -0.5 / math.sqrt(2 * math.pi))


def _owens_in_a(h: UOp, a: UOp) -> UOp:
    square = add(mul(a, a), 1)
    return div(mul(exp(mul(mul(mul(h, h), square), -0.5)), 0.5 / math.pi), square)


_OWENS = Formula("owens_t", in_double(_owens_t), (in_double(_owens_in_h), in_double(_owens_in_a)))


@binary
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function: the probability that X > h and 0 < Y < a X, for independent standard normal X and Y.

    Source: D. B. Owen, Annals of Mathematical Statistics 27 (1956), equation 2.3.

    >>> owens_t(0.0, 1.0)
    Array(0.125, dtype=float32, weak_type=True)
    """
    return nary("owens_t", _OWENS.node, h, a)
