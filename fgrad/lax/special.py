"""Special functions of two arguments, Bessel functions, polygamma: made of series and continued fractions.

All are computed in float64, whatever the dtype of the result. Formula numbers are those of the
NIST Digital Library of
Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.lax.elementwise import float_node
from fgrad.lax.loops import while_loop
from fgrad.numpy.common import binary, common, need, public
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.interpret import jvp_program
from fgrad.trace.maybe import Maybe, add_
from fgrad.trace.stage import Stage
from fgrad.trace.staging import trace
from fgrad.trace.tracer import ArrayLike, Tracer, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.build import add, div, exp, log, mul, neg, sub, where
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, Program, close, gets

_EPS = 2.0**-53
_STEPS = 20_000  # more than any argument needs that gives neither 0 nor 1


def iterate(
    going: Callable[[list[UOp]], UOp], step: Callable[[list[UOp]], list[UOp]], state: Sequence[UOp]
) -> list[UOp]:
    """A WHILE on nodes: `step` as long as any element of `going` is true."""

    def nodes(values: Any) -> list[UOp]:
        return [lift(v).node for v in values]

    def condition(values: Any) -> Tracer:
        flag = going(nodes(values))
        return Tracer(build.reduce_(flag, range(flag.ndim), Op.OR))

    out = while_loop(
        condition,
        lambda values: [Tracer(n) for n in step(nodes(values))],
        [Tracer(s) for s in state],
    )
    return nodes(out)


def lgamma(x: UOp) -> UOp:
    """log |gamma(x)|."""
    return uop(Op.LGAMMA, (x,))


# ---- derivatives given by formulas
@lru_cache(maxsize=512)
def program_of(f: Callable[..., UOp], avals: tuple[tuple[DType, tuple[int, ...]], ...]) -> Program:
    """`f`, a function of nodes, as a Program over parameters of these dtypes and shapes."""
    in_tree = tree.structure((tuple([0] * len(avals)), {}))

    def run(*xs: Any) -> Tracer:
        return Tracer(f(*[lift(x).node for x in xs]))

    traced = trace(run, in_tree, [Aval(d, s) for d, s in avals], Stage("a special function"))
    return close(traced.params, traced.outs)


def inlined(f: Callable[..., UOp], *xs: UOp) -> UOp:
    """f(*xs), staged once for their dtypes and shapes."""
    return program_of(f, tuple([(x.dtype, x.shape) for x in xs])).inline(xs)[0]


@dataclass(frozen=True, slots=True)
class Formula:
    """A function of nodes, and its partial derivatives as functions of the same (None: not known)."""

    name: str
    value: Callable[..., UOp]
    partials: tuple[Callable[..., UOp] | None, ...]

    def jvp(self, primals: Sequence[UOp], tangents: Sequence[Maybe]) -> tuple[list[UOp], list[Maybe]]:
        """The sum of (partial derivative * tangent)."""
        total: Maybe = None
        for i, (partial, t) in enumerate(zip(self.partials, tangents, strict=True)):
            if t is None:
                continue
            if partial is None:
                raise NotImplementedError(f"the derivative of {self.name} in its argument {i}; use stop_gradient on it")
            total = add_(total, mul(t, inlined(partial, *primals)))
        return [self.node(*primals)], [total]

    def node(self, *xs: UOp) -> UOp:
        """The function as a CALL that knows its derivative."""
        body = program_of(self.value, tuple([(x.dtype, x.shape) for x in xs]))
        return gets(uop(Op.CALL, tuple(xs), Call(body, "custom_jvp", self.name, self)))[0]


def _in_double(f: Callable[..., UOp], *xs: UOp) -> UOp:
    """`f` computed in float64, given back in the dtype of its arguments."""
    return build.cast(f(*[build.cast(x, dt.float64) for x in xs]), xs[0].dtype)


def _pair(name: str, x: ArrayLike, y: ArrayLike) -> tuple[list[UOp], bool]:
    nodes, dtype, weak = common(name, x, y, least=dt.default_float())
    need(dtype.is_float, name, f"it is defined for real numbers, not for {dtype}")
    return nodes, weak


# ---- incomplete gamma functions
def _gamma_factor(a: UOp, x: UOp) -> UOp:
    """x^a e^-x / gamma(a)."""
    return exp(sub(sub(mul(a, log(x)), x), lgamma(a)))


def _lower_series(a: UOp, x: UOp) -> UOp:
    """P(a, x) for x < a + 1 by its power series (DLMF 8.7.1)."""

    def step(state: list[UOp]) -> list[UOp]:
        n, term, total, i = state
        n = add(n, 1)
        term = mul(term, div(x, n))
        return [n, term, add(total, term), add(i, 1)]

    def going(state: list[UOp]) -> UOp:
        _, term, total, i = state
        return build.and_(build.lt(mul(build.abs_(total), _EPS), build.abs_(term)), build.lt(i, _STEPS))

    first = div(1, a)
    out = iterate(going, step, [a, first, first, build.const(0, dt.int64, a.shape)])
    return mul(out[2], _gamma_factor(a, x))


def _upper_fraction(a: UOp, x: UOp) -> UOp:
    """Q(a, x) for x >= a + 1 by its continued fraction (DLMF 8.9.2), evaluated from the front (modified Lentz)."""
    tiny = 1e-300

    def step(state: list[UOp]) -> list[UOp]:
        b, c, d, h, _, i = state
        i = add(i, 1)
        k = build.cast(i, dt.float64)
        numerator = mul(k, sub(a, k))
        b = add(b, 2)
        d = _apart(add(mul(numerator, d), b), tiny)
        c = _apart(add(b, div(numerator, c)), tiny)
        d = div(1, d)
        factor = mul(d, c)
        return [b, c, d, mul(h, factor), factor, i]

    def going(state: list[UOp]) -> UOp:
        return build.and_(build.lt(2 * _EPS, build.abs_(sub(state[4], 1))), build.lt(state[5], _STEPS))

    b = add(sub(x, a), 1)
    d = div(1, b)
    start = [b, build.const(1 / tiny, dt.float64, a.shape), d, d, build.const_like(0, a)]
    out = iterate(going, step, [*start, build.const(0, dt.int64, a.shape)])
    return mul(out[3], _gamma_factor(a, x))


def _apart(x: UOp, tiny: float) -> UOp:
    """`x`, or `tiny` where it is smaller than that."""
    return where(build.lt(build.abs_(x), tiny), build.const_like(tiny, x), x)


def _incomplete_gamma(a: UOp, x: UOp, upper: bool) -> UOp:
    """P(a, x), or Q(a, x) = 1 - P(a, x) if `upper`; NaN outside of a > 0, x >= 0."""
    ordinary = build.and_(build.and_(build.lt(0, a), build.lt(0, x)), build.lt(x, math.inf))
    ordinary = build.and_(ordinary, build.lt(a, math.inf))
    is_series = build.lt(x, add(a, 1))
    one = build.const_like(1, a)
    a1, x1 = (
        where(build.and_(ordinary, is_series), a, one),
        where(build.and_(ordinary, is_series), x, one),
    )
    use_fraction = build.and_(ordinary, build.not_(is_series))
    a2, x2 = where(use_fraction, a, one), where(use_fraction, x, build.const_like(3, a))
    lower, over = _lower_series(a1, x1), _upper_fraction(a2, x2)
    value = where(is_series, sub(1, lower) if upper else lower, over if upper else sub(1, over))
    zero = build.const_like(0, a)
    at_zero, at_infinity = (one, zero) if upper else (zero, one)
    edge = where(build.eq(x, 0), at_zero, at_infinity)
    edge = where(build.eq(a, math.inf), at_zero, edge)
    edge = where(build.and_(build.eq(a, 0), build.lt(0, x)), at_infinity, edge)
    defined = build.and_(build.le(0, a), build.and_(build.le(0, x), build.lt(0, add(a, x))))
    edge = where(defined, edge, build.const_like(math.nan, a))
    return where(ordinary, value, edge)


def _gamma_density(a: UOp, x: UOp) -> UOp:
    """The derivative of P(a, x) in x."""
    return _in_double(lambda p, q: exp(sub(sub(mul(sub(p, 1), log(q)), q), lgamma(p))), a, x)


def _lower(a: UOp, x: UOp) -> UOp:
    return _incomplete_gamma(a, x, False)


def gamma_grad_a(a: UOp, x: UOp) -> UOp:
    """The derivative of P(a, x) in a: forward through the series."""
    wide = [build.cast(v, dt.float64) for v in (a, x)]
    program = program_of(_lower, tuple([(v.dtype, v.shape) for v in wide]))
    forward, _ = jvp_program(program, (True, False))
    return build.cast(forward.inline([*wide, build.const_like(1, wide[0])])[1], a.dtype)


_IGAMMA = Formula(
    "igamma",
    lambda a, x: _in_double(_lower, a, x),
    (gamma_grad_a, _gamma_density),
)
_IGAMMAC = Formula(
    "igammac",
    lambda a, x: _in_double(lambda p, q: _incomplete_gamma(p, q, True), a, x),
    (lambda a, x: neg(gamma_grad_a(a, x)), lambda a, x: neg(_gamma_density(a, x))),
)


@binary
def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function P(a, x).

    Floats, which broadcast; a > 0 and x >= 0, else NaN.

    Source: DLMF 8.7.1 and 8.9.2.

    >>> lax.igamma(2.0, fnp.array([0.0, 1.0, 50.0]))
    Array([0.        , 0.26424113, 1.        ], dtype=float32)
    """
    nodes, weak = _pair("igamma", a, x)
    return Tracer(_IGAMMA.node(*nodes), weak)


@binary
def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), exactly.

    Floats, which broadcast; a > 0 and x >= 0, else NaN.

    Source: DLMF 8.7.1 and 8.9.2.

    >>> lax.igammac(2.0, fnp.array([0.0, 1.0, 10.0]))
    Array([1.000000e+00, 7.357589e-01, 4.993992e-04], dtype=float32)
    """
    nodes, weak = _pair("igammac", a, x)
    return Tracer(_IGAMMAC.node(*nodes), weak)


@binary
def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of igamma(a, x) in a.

    >>> lax.igamma_grad_a(2.0, fnp.array([0.5, 1.0]))
    Array([-0.15103424, -0.27619603], dtype=float32)
    """
    nodes, weak = _pair("igamma_grad_a", a, x)
    return Tracer(inlined(gamma_grad_a, *nodes), weak)


def sample_slope(a: UOp, sample: UOp) -> UOp:
    """How a gamma-distributed sample moves with a: -(dP/da) / (dP/dx), where P stays."""
    return neg(div(gamma_grad_a(a, sample), _gamma_density(a, sample)))


@binary
def random_gamma_grad(a: ArrayLike, sample: ArrayLike) -> Array:
    """The derivative in `a` of a sample of the gamma distribution.

    Floats, which broadcast; a > 0, else NaN.

    Source: Figurnov, Mohamed, Mnih: Implicit Reparameterization Gradients (2018).

    >>> lax.random_gamma_grad(2.0, fnp.array([1.0, 3.0]))
    Array([0.7507786, 1.320857 ], dtype=float32)
    """
    nodes, weak = _pair("random_gamma_grad", a, sample)
    return Tracer(inlined(sample_slope, *nodes), weak)


# ---- incomplete beta function
def _beta_fraction(a: UOp, b: UOp, x: UOp) -> UOp:
    """The continued fraction of I_x(a, b) (DLMF 8.17.22), by the modified Lentz method."""
    tiny = 1e-300
    total = add(a, b)

    def lentz(c: UOp, d: UOp, h: UOp, numerator: UOp) -> tuple[UOp, UOp, UOp, UOp]:
        d = div(1, _apart(add(mul(numerator, d), 1), tiny))
        c = _apart(add(div(numerator, c), 1), tiny)
        factor = mul(d, c)
        return c, d, mul(h, factor), factor

    def step(state: list[UOp]) -> list[UOp]:
        c, d, h, _, i = state
        i = add(i, 1)
        m = build.cast(i, dt.float64)
        at = add(a, mul(m, 2))
        even = div(mul(mul(m, sub(b, m)), x), mul(sub(at, 1), at))
        c, d, h, _ = lentz(c, d, h, even)
        odd = neg(div(mul(mul(add(a, m), add(total, m)), x), mul(at, add(at, 1))))
        c, d, h, factor = lentz(c, d, h, odd)
        return [c, d, h, factor, i]

    def going(state: list[UOp]) -> UOp:
        return build.and_(build.lt(2 * _EPS, build.abs_(sub(state[3], 1))), build.lt(state[4], _STEPS))

    d = div(1, _apart(sub(1, div(mul(total, x), add(a, 1))), tiny))
    start = [
        build.const_like(1, a),
        d,
        d,
        build.const_like(0, a),
        build.const(0, dt.int64, a.shape),
    ]
    return iterate(going, step, start)[2]


def _incomplete_beta(a: UOp, b: UOp, x: UOp) -> UOp:
    """I_x(a, b); NaN outside of a, b > 0 and 0 <= x <= 1."""
    inside = build.and_(build.lt(0, x), build.lt(x, 1))
    positive = build.and_(build.lt(0, a), build.lt(0, b))
    ordinary = build.and_(inside, positive)
    one, half = build.const_like(1, a), build.const_like(0.5, a)
    p, q, y = where(ordinary, a, one), where(ordinary, b, one), where(ordinary, x, half)
    is_low = build.lt(y, div(add(p, 1), add(add(p, q), 2)))  # else the mirror image converges faster
    s, t = where(is_low, p, q), where(is_low, q, p)
    z = where(is_low, y, sub(1, y))
    front = sub(lgamma(add(p, q)), add(lgamma(p), lgamma(q)))
    front = exp(add(front, add(mul(p, log(y)), mul(q, uop(Op.LOG1P, (neg(y),))))))
    value = div(mul(front, _beta_fraction(s, t, z)), s)
    value = where(is_low, value, sub(1, value))
    edge = where(build.eq(x, 0), build.const_like(0, a), one)
    defined = build.and_(positive, build.and_(build.le(0, x), build.le(x, 1)))
    return where(ordinary, value, where(defined, edge, build.const_like(math.nan, a)))


def _beta_density(a: UOp, b: UOp, x: UOp) -> UOp:
    def density(p: UOp, q: UOp, y: UOp) -> UOp:
        front = sub(lgamma(add(p, q)), add(lgamma(p), lgamma(q)))
        tail = mul(sub(q, 1), uop(Op.LOG1P, (neg(y),)))
        return exp(add(front, add(mul(sub(p, 1), log(y)), tail)))

    return _in_double(density, a, b, x)


_BETAINC = Formula(
    "betainc",
    lambda a, b, x: _in_double(_incomplete_beta, a, b, x),
    (None, None, _beta_density),
)


@public()
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function I_x(a, b); differentiable in x.

    Floats, which broadcast; a, b > 0 and 0 <= x <= 1, else NaN.

    Source: DLMF 8.17.22.

    >>> lax.betainc(2.0, 3.0, fnp.array([0.0, 0.5, 1.0]))
    Array([0.    , 0.6875, 1.    ], dtype=float32)
    """
    nodes, dtype, weak = common("betainc", a, b, x, least=dt.default_float())
    need(dtype.is_float, "betainc", f"it is defined for real numbers, not for {dtype}")
    return Tracer(_BETAINC.node(*nodes), weak)


# ---- Hurwitz zeta and polygamma
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
_DIRECT = 10  # terms summed before the Euler-Maclaurin expansion takes over


def zeta_node(s: UOp, q: UOp) -> UOp:
    """sum of (q + k)^-s over k >= 0, for s > 1 and q > 0: Euler-Maclaurin (DLMF 25.11.5)."""

    def power(base: UOp, exponent: UOp) -> UOp:
        return exp(mul(exponent, log(base)))

    minus = neg(s)
    total = power(q, minus)
    for k in range(1, _DIRECT):
        total = add(total, power(add(q, k), minus))
    w = add(q, _DIRECT)
    last = power(w, minus)
    total = add(total, add(div(mul(last, w), sub(s, 1)), mul(last, 0.5)))
    rising, factor = s, div(last, w)
    square = mul(w, w)
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total = add(total, mul(mul(rising, factor), bernoulli / math.factorial(2 * j)))
        rising = mul(rising, mul(add(s, 2 * j - 1), add(s, 2 * j)))
        factor = div(factor, square)
    return total


@binary
def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """The Hurwitz zeta function, the sum of (q + k)^-x over k >= 0.

    It is for x > 1 and q > 0; inf at x = 1, NaN elsewhere.

    Source: DLMF 25.11.5.

    >>> lax.zeta(2.0, fnp.array([1.0, 2.0]))
    Array([1.644934  , 0.64493406], dtype=float32)
    """
    (s, shift), weak = _pair("zeta", x, q)

    def value(s: UOp, shift: UOp) -> UOp:
        good = build.and_(build.lt(1, s), build.lt(0, shift))
        two, one = build.const_like(2, s), build.const_like(1, s)
        found = zeta_node(where(good, s, two), where(good, shift, one))
        pole = build.or_(build.eq(s, 1), build.and_(build.lt(1, s), build.eq(shift, 0)))
        return where(good, found, where(pole, build.const_like(math.inf, s), build.const_like(math.nan, s)))

    return Tracer(_in_double(value, s, shift), weak)


@public(static=("m",))
def _polygamma(m: int, x: ArrayLike) -> Array:
    node, weak = float_node("polygamma", x)
    if m == 0:
        return Tracer(uop(Op.DIGAMMA, (node,)), weak)
    sign = 1.0 if m % 2 else -1.0

    def value(y: UOp) -> UOp:
        good = build.lt(0, y)
        found = zeta_node(build.const_like(m + 1, y), where(good, y, build.const_like(1, y)))
        # below 0 the derivatives of the reflection formula would be needed
        rest = where(build.eq(y, 0), build.const_like(sign * math.inf, y), build.const_like(math.nan, y))
        return where(good, mul(found, sign * math.factorial(m)), rest)

    return Tracer(_in_double(value, node), weak)


def _polygamma_of(m: UOp, x: UOp) -> UOp:
    """The derivative of order m of digamma: (-1)^(m + 1) m! zeta(m + 1, x); NaN for orders that are none."""
    good = build.and_(build.lt(0, m), build.lt(0, x))
    order, y = where(good, m, build.const_like(1, m)), where(good, x, build.const_like(1, x))
    size = mul(exp(lgamma(add(order, 1))), zeta_node(add(order, 1), y))
    size = where(build.eq(x, 0), build.const_like(math.inf, x), size)
    odd = build.eq(sub(m, mul(build.floor(mul(m, 0.5)), 2)), 1)
    value = where(odd, size, neg(size))
    value = where(build.le(0, x), value, build.const_like(math.nan, x))
    value = where(build.eq(m, 0), uop(Op.DIGAMMA, (x,)), value)
    return where(build.and_(build.le(0, m), build.eq(m, build.floor(m))), value, build.const_like(math.nan, x))


_POLYGAMMA = Formula(
    "polygamma",
    lambda m, x: _in_double(_polygamma_of, m, x),
    (None, lambda m, x: _in_double(lambda n, y: _polygamma_of(add(n, 1), y), m, x)),
)


@binary
def _polygamma_of_orders(m: ArrayLike, x: ArrayLike) -> Array:
    nodes, weak = _pair("polygamma", m, x)
    return Tracer(_POLYGAMMA.node(*nodes), weak)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of order `m` (an integer >= 0, or an array of them) of digamma, for x > 0; NaN below, for m > 0.

    Source: DLMF 25.11.12.

    >>> polygamma(1, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    if not isinstance(m, int | np.integer):
        return _polygamma_of_orders(m, x)
    order = int(m)
    need(order >= 0, "polygamma", f"the order must be an integer of at least 0, got {m}")
    return _polygamma(order, x)


# ---- modified Bessel functions
_SERIES_END = 22.0  # beyond, the asymptotic series is exact in float64


def _bessel_series(x: UOp, order: int) -> UOp:
    """I_order(x) / (x/2)^order by its power series (DLMF 10.25.2), for |x| up to _SERIES_END; all
    terms are positive.
    """
    t = mul(mul(x, x), 0.25)
    total = build.const_like(0, x)
    for k in range(59, -1, -1):
        total = add(mul(total, t), 1.0 / (math.factorial(k) * math.factorial(k + order)))
    return total


def _bessel_tail(x: UOp, order: int) -> UOp:
    """sqrt(2 pi x) e^-x I_order(x) by its asymptotic series (DLMF 10.40.1)."""
    mu = 4 * order * order
    coefficients = [1.0]
    for k in range(1, 26):
        coefficients.append(-coefficients[-1] * (mu - (2 * k - 1) ** 2) / (8 * k))
    z = div(1, x)
    total = build.const_like(0, x)
    for c in reversed(coefficients):
        total = add(mul(total, z), c)
    return total


def bessel_node(x: UOp, order: int) -> UOp:
    """e^-|x| I_order(x) for order 0 or 1."""
    size = build.abs_(x)
    is_small = build.le(size, _SERIES_END)
    small = where(is_small, size, build.const_like(0, x))
    large = where(is_small, build.const_like(_SERIES_END, x), size)
    near = mul(_bessel_series(small, order), exp(neg(small)))
    if order:
        near = mul(near, mul(small, 0.5))
    far = div(_bessel_tail(large, order), build.sqrt(mul(large, 2 * math.pi)))
    value = where(is_small, near, far)
    return where(build.lt(x, 0), neg(value), value) if order else value


def _bessel_slope(x: UOp, order: int) -> UOp:
    """The derivative of e^-|x| I_order(x) (DLMF 10.29.3)."""
    i0, i1 = bessel_node(x, 0), bessel_node(x, 1)
    sign = where(build.lt(x, 0), build.const_like(-1, x), where(build.lt(0, x), build.const_like(1, x), x))
    if order == 0:
        return sub(i1, mul(sign, i0))
    safe = where(build.eq(x, 0), build.const_like(1, x), x)
    ratio = where(build.eq(x, 0), build.const_like(0.5, x), div(i1, safe))
    return sub(sub(i0, ratio), mul(sign, i1))


_I0E = Formula(
    "bessel_i0e",
    lambda x: _in_double(lambda y: bessel_node(y, 0), x),
    (lambda x: _in_double(lambda y: _bessel_slope(y, 0), x),),
)
_I1E = Formula(
    "bessel_i1e",
    lambda x: _in_double(lambda y: bessel_node(y, 1), x),
    (lambda x: _in_double(lambda y: _bessel_slope(y, 1), x),),
)


@public()
def bessel_i0e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of order 0.

    Floats only; shape and dtype are those of x.

    Source: DLMF 10.25.2 and 10.40.1.

    >>> lax.bessel_i0e(fnp.array([0.0, 1.0, 100.0]))
    Array([1.        , 0.4657596 , 0.03994438], dtype=float32)
    """
    node, weak = float_node("bessel_i0e", x)
    return Tracer(_I0E.node(node), weak)


@public()
def bessel_i1e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of order 1.

    Floats only; shape and dtype are those of x.

    Source: DLMF 10.25.2 and 10.40.1.

    >>> lax.bessel_i1e(fnp.array([0.0, 1.0, 100.0]))
    Array([0.        , 0.20791042, 0.03974415], dtype=float32)
    """
    node, weak = float_node("bessel_i1e", x)
    return Tracer(_I1E.node(node), weak)


__all__ = [
    "bessel_i0e", "bessel_i1e", "betainc", "igamma", "igamma_grad_a", "igammac", "polygamma",
    "random_gamma_grad", "zeta",
]  # fmt: skip
