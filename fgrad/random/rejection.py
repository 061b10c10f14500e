"""Gamma, Poisson and binomial numbers, which take a random number of tries, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.errors import DtypeError, ShapeError, note_user_line
from fgrad.lax.scans import scan
from fgrad.lax.special import inlined, iterate, program_of, sample_slope
from fgrad.random.continuous import (
    DTypeLike,
    Shape,
    exponential_node,
    log,
    log1p,
    normal_node,
    power,
    sample_shape,
    sign_node,
)  # fmt: skip
from fgrad.random.keys import normal_shape, single
from fgrad.random.threefry import Words, counters, float_of, split_words, threefry, uniform_node
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.maybe import Maybe
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.trace.vmap import vmap
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, div, exp, mul, neg, sub, where
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, gets


# ---- gamma
def _one_gamma(k0: UOp, k1: UOp, alpha: UOp, in_logs: bool) -> UOp:
    """One gamma number (its logarithm if `in_logs`).

    Marsaglia, Tsang: A Simple Method for Generating Gamma Variables (2000). For alpha < 1 a
    number for alpha + 1 is scaled by
    u ** (1 / alpha).
    """
    dtype = alpha.dtype
    is_large = build.le(1, alpha)
    d = sub(where(is_large, alpha, add(alpha, 1)), 1 / 3)
    c = div(1 / 3, build.sqrt(d))
    key, boost = split_words((k0, k1))

    def candidate(state: list[UOp]) -> list[UOp]:
        following, fresh = split_words((state[0], state[1]))
        x = normal_node(fresh, (), dtype)
        return [*following, x, add(mul(x, c), 1)]

    def rejected(state: list[UOp]) -> UOp:
        square, cube, u = state[2:]
        quick = build.le(sub(1, mul(mul(square, square), 0.0331)), u)
        bound = add(mul(square, 0.5), mul(d, add(sub(1, cube), log(cube))))
        return build.and_(quick, build.le(bound, log(u)))

    def attempt(state: list[UOp]) -> list[UOp]:
        following, x_key, u_key = split_words((state[0], state[1]), 3)
        zero, minus = build.const(0, dtype), build.const(-1, dtype)
        x, v = iterate(lambda s: build.le(s[3], 0), candidate, [*x_key, zero, minus])[2:]
        return [*following, mul(x, x), mul(mul(v, v), v), uniform_node(u_key, (), dtype)]

    start = [build.const(n, dtype) for n in (0, 1, 2)]  # rejected, so that the loop begins
    cube = iterate(rejected, attempt, [*key, *start])[3]
    if in_logs:
        lift_ = neg(exponential_node(boost, (), dtype))
        none = build.or_(is_large, build.eq(lift_, 0))
        return add(add(log(d), log(cube)), where(none, build.const(0, dtype), div(lift_, alpha)))
    samples = sub(1, uniform_node(boost, (), dtype))
    scale = where(is_large, build.const(1, dtype), power(samples, div(1, alpha)))
    return mul(mul(d, cube), scale)


def _many_gammas(k0: UOp, k1: UOp, alpha: UOp, in_logs: bool) -> UOp:
    """One number for every alpha, each from a key of its own."""
    n = alpha.size
    hi, lo = threefry((k0, k1), *counters((n,)))

    def one(first: Any, second: Any, a: Any) -> Tracer:
        return Tracer(_one_gamma(lift(first).node, lift(second).node, lift(a).node, in_logs))

    flat = Tracer(build.reshape(alpha, (n,)))
    return build.reshape(lift(vmap(one)(Tracer(hi), Tracer(lo), flat)).node, alpha.shape)


def _sample(k0: UOp, k1: UOp, alpha: UOp) -> UOp:
    return _many_gammas(k0, k1, alpha, False)


def _log_sample(k0: UOp, k1: UOp, alpha: UOp) -> UOp:
    return _many_gammas(k0, k1, alpha, True)


def _log_slope(alpha: UOp, out: UOp) -> UOp:
    sample = exp(out)
    return div(sample_slope(alpha, sample), sample)


@dataclass(frozen=True, slots=True)
class _GammaRule:
    """A sample moves with alpha so that its place in the distribution stays.

    (Figurnov, Mohamed, Mnih: Implicit Reparameterization Gradients, 2018.)
    """

    value: Callable[..., UOp]
    slope: Callable[..., UOp]

    def jvp(self, primals: Sequence[UOp], tangents: Sequence[Maybe]) -> tuple[list[UOp], list[Maybe]]:
        """Keys do not move."""
        out = self.node(*primals)
        moved = tangents[2]
        return [out], [None if moved is None else mul(moved, inlined(self.slope, primals[2], out))]

    def node(self, *args: UOp) -> UOp:
        """The samples for (k0, k1, alpha), as a CALL that knows its derivative."""
        body = program_of(self.value, tuple([(x.dtype, x.shape) for x in args]))
        return gets(uop(Op.CALL, args, Call(body, "custom_jvp", "gamma", self)))[0]


_GAMMA, _LOGGAMMA = _GammaRule(_sample, sample_slope), _GammaRule(_log_sample, _log_slope)


def gamma_node(key: Words, alpha: UOp, in_logs: bool = False) -> UOp:
    """Gamma numbers (their logarithms) of scale 1, one for every element of `alpha`."""
    if not alpha.size:
        return alpha
    return (_LOGGAMMA if in_logs else _GAMMA).node(*key, alpha)


def _gammas(name: str, key: Any, a: ArrayLike, shape: Shape, dtype: DTypeLike, in_logs: bool) -> Array:
    kind = float_of(dtype, name)
    alpha = cast_node(a, kind)
    size = sample_shape(shape, name, alpha)
    return Tracer(gamma_node(single(key, name), build.broadcast_to(alpha, size), in_logs))


@public(static=("shape", "dtype"))
def gamma(key: Any, a: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Gamma numbers of shape parameter `a` and scale 1; differentiable in `a`.

    key     one key
    shape   of the result, to which `a` broadcasts; that of `a` by default
    dtype   floating; float32 by default

    NaN where `a` is negative. Raises DtypeError for a dtype that is not floating.

    Source: G. Marsaglia, W. W. Tsang, ACM Trans. Math. Software 26 (2000); derivative: Figurnov and others (2018).

    >>> gamma(key(0), 0.5, (2,)).shape
    (2,)
    """
    return _gammas("gamma", key, a, shape, dtype, False)


@public(static=("shape", "dtype"))
def loggamma(key: Any, a: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Logarithms of gamma numbers, right also where the numbers themselves underflow (small `a`).

    Arguments as in `gamma`.

    >>> loggamma(key(0), 1e-6) < -100
    Array(True, dtype=bool)
    """
    return _gammas("loggamma", key, a, shape, dtype, True)


# ---- made of gamma numbers
@public(static=("shape", "dtype"))
def beta(key: Any, a: ArrayLike, b: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Beta numbers of shape parameters `a` and `b`.

    Arguments as in `gamma`; `a` and `b` broadcast.

    >>> beta(key(0), 1.0, 2.0, (3,)).shape
    (3,)
    """
    kind = float_of(dtype, "beta")
    p, q = cast_node(a, kind), cast_node(b, kind)
    size = sample_shape(shape, "beta", p, q)
    keys = split_words(single(key, "beta"))
    logs = [gamma_node(k, build.broadcast_to(x, size), True) for k, x in zip(keys, (p, q), strict=True)]
    top = build.maximum(*logs)
    one, other = [exp(sub(x, top)) for x in logs]
    return Tracer(div(one, add(one, other)))


@public(static=("shape", "dtype"))
def dirichlet(key: Any, alpha: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Dirichlet vectors: [*shape, n] for concentrations `alpha` [.., n].

    shape   in front of the last axis; that of the batch of `alpha` by default

    >>> fnp.sum(dirichlet(key(0), fnp.ones(3), (2,)), axis=1).shape
    (2,)
    """
    kind = float_of(dtype, "dirichlet")
    a = cast_node(alpha, kind)
    if a.ndim < 1:
        raise note_user_line(ShapeError("dirichlet needs alpha with at least one axis"))
    lead = a.shape[:-1] if shape is None else normal_shape(shape, "dirichlet")
    size = (*lead, a.shape[-1])
    logs = gamma_node(single(key, "dirichlet"), build.broadcast_to(a, size), True)
    axis = [logs.ndim - 1]
    top = build.spread(build.reduce_(logs, axis, Op.MAX), logs, axis)
    parts = exp(sub(logs, top))
    return Tracer(div(parts, build.spread(build.reduce_(parts, axis), parts, axis)))


@public(static=("shape", "dtype"))
def t(key: Any, df: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Student t numbers with `df` degrees of freedom.

    Arguments as in `gamma`.

    >>> t(key(0), 3.0, (2,)).shape
    (2,)
    """
    kind = float_of(dtype, "t")
    freedom = cast_node(df, kind)
    size = sample_shape(shape, "t", freedom)
    k1, k2 = split_words(single(key, "t"))
    half = div(build.broadcast_to(freedom, size), 2)
    return Tracer(mul(normal_node(k1, size, kind), build.sqrt(div(half, gamma_node(k2, half)))))


def _chisquare_node(key: Words, df: UOp) -> UOp:
    return mul(exp(gamma_node(key, div(df, 2), True)), 2)


@public(static=("shape", "dtype"))
def chisquare(key: Any, df: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Chi-square numbers with `df` degrees of freedom.

    Arguments as in `gamma`.

    >>> chisquare(key(0), fnp.array([1.0, 2.0])).shape
    (2,)
    """
    freedom = cast_node(df, float_of(dtype, "chisquare"))
    size = sample_shape(shape, "chisquare", freedom)
    return Tracer(_chisquare_node(single(key, "chisquare"), build.broadcast_to(freedom, size)))


@public(static=("shape", "dtype"))
def f(key: Any, dfnum: ArrayLike, dfden: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """F numbers with `dfnum` and `dfden` degrees of freedom.

    Arguments as in `gamma`; `dfnum` and `dfden` broadcast.

    >>> f(key(0), 2.0, 3.0, (2,)).shape
    (2,)
    """
    kind = float_of(dtype, "f")
    num, den = cast_node(dfnum, kind), cast_node(dfden, kind)
    size = sample_shape(shape, "f", num, den)
    den_key, num_key = split_words(single(key, "f"))
    num, den = [build.broadcast_to(x, size) for x in (num, den)]
    return Tracer(div(div(_chisquare_node(num_key, num), num), div(_chisquare_node(den_key, den), den)))


def _generalized_normal_node(key: Words, p: UOp, size: tuple[int, ...]) -> UOp:
    k1, k2 = split_words(key)
    inverse = div(1, build.broadcast_to(p, size))
    return mul(sign_node(k2, size, p.dtype), power(gamma_node(k1, inverse), inverse))


@public(static=("shape", "dtype"))
def generalized_normal(key: Any, p: ArrayLike, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Numbers with density proportional to exp(-|x| ** p).

    `shape` and `dtype` as in `gamma`; `p` broadcasts to the shape.

    >>> generalized_normal(key(0), 2.0, (2,)).shape
    (2,)
    """
    exponent = cast_node(p, float_of(dtype, "generalized_normal"))
    size = sample_shape(shape, "generalized_normal", exponent)
    return Tracer(_generalized_normal_node(single(key, "generalized_normal"), exponent, size))


@public(static=("d", "shape", "dtype"))
def ball(key: Any, d: int, p: ArrayLike = 2, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Points [*shape, d] uniform in the unit ball of the p-norm in `d` dimensions.

    >>> ball(key(0), 2, shape=(3,)).shape
    (3, 2)
    """
    kind = float_of(dtype, "ball")
    exponent = cast_node(p, kind)
    full = normal_shape((*normal_shape(shape, "ball"), d), "ball")
    size = full[:-1]
    k1, k2 = split_words(single(key, "ball"))
    g = _generalized_normal_node(k1, exponent, full)
    e = exponential_node(k2, size, kind)
    length = add(build.reduce_(power(build.abs_(g), exponent), [len(size)]), e)
    radius = power(length, div(1, exponent))
    return Tracer(div(g, build.expand(radius, [(len(size), d)])))


# ---- Poisson
def _poisson_by_products(key: Words, lam: UOp) -> UOp:
    """Counts uniform numbers until their product is below exp(-lam): for small lam (Knuth)."""
    size, least = lam.shape, neg(lam)

    def step(state: list[UOp]) -> list[UOp]:
        following, fresh = split_words((state[0], state[1]))
        count, total = state[2:]
        count = where(build.lt(least, total), add(count, 1), count)
        return [*following, count, add(total, log(uniform_node(fresh, size, dt.float32)))]

    start = [build.const(0, dt.int64, size), build.const(0, dt.float32, size)]
    return sub(iterate(lambda s: build.lt(least, s[3]), step, [*key, *start])[2], 1)


def _poisson_by_rejection(key: Words, lam: UOp) -> UOp:
    """Hormann: The Transformed Rejection Method for Generating Poisson Random Variables (1993), for lam >= 10."""
    size, dtype = lam.shape, lam.dtype
    b = add(mul(build.sqrt(lam), 2.53), 0.931)
    a = add(mul(b, 0.02483), -0.059)
    inverse_alpha = add(div(1.1328, sub(b, 3.4)), 1.1239)
    v_r = sub(0.9277, div(3.6224, sub(b, 2)))

    def step(state: list[UOp]) -> list[UOp]:
        following, first, second = split_words((state[0], state[1]), 3)
        count, done = state[2:]
        u = sub(uniform_node(first, size, dtype), 0.5)
        v = uniform_node(second, size, dtype)
        us = sub(0.5, build.abs_(u))
        k = build.floor(add(add(mul(add(div(mul(a, 2), us), b), u), lam), 0.43))
        s = log(div(mul(v, inverse_alpha), add(div(a, mul(us, us)), b)))
        limit = sub(sub(mul(k, log(lam)), lam), uop(Op.LGAMMA, (add(k, 1),)))
        quick = build.and_(build.le(0.07, us), build.le(v, v_r))
        hopeless = build.or_(build.lt(k, 0), build.and_(build.lt(us, 0.013), build.lt(us, v)))
        accept = build.or_(quick, build.and_(build.not_(hopeless), build.le(s, limit)))
        return [*following, where(accept, k, count), build.or_(done, accept)]

    start = [build.const(-1, dtype, size), build.const(False, dt.bool_, size)]
    return build.cast(iterate(lambda s: build.not_(s[3]), step, [*key, *start])[2], dt.int64)


@public(static=("shape", "dtype"))
def poisson(key: Any, lam: ArrayLike, shape: Shape = None, dtype: DTypeLike = int) -> Array:
    """Poisson numbers of rate `lam`, as integers of `dtype`.

    shape   of the result, to which `lam` broadcasts; that of `lam` by default
    dtype   an integer dtype; int64 by default

    -1 where `lam` is negative or NaN.

    Source: W. Hormann, Insurance: Mathematics and Economics 12 (1993), algorithm PTRS, for rates from 10 on.

    >>> poisson(key(0), 3.0, (2,)).dtype
    dtype('int64')
    """
    kind = to_dtype(dtype)
    if not kind.is_int:
        raise note_user_line(DtypeError(f"poisson gives integers, not {kind}"))
    rate = cast_node(lam, dt.float32)
    size = sample_shape(shape, "poisson", rate)
    rate = build.broadcast_to(rate, size)
    words = single(key, "poisson")
    is_small = build.or_(build.ne(rate, rate), build.lt(rate, 10))
    low = _poisson_by_products(words, where(is_small, rate, build.const(0, dt.float32)))
    high = _poisson_by_rejection(words, where(is_small, build.const(1e5, dt.float32), rate))
    out = where(is_small, low, high)
    return Tracer(build.cast(where(build.eq(rate, 0), build.const_like(0, out), out), kind))


# ---- binomial
_STIRLING = [  # log(k!) minus Stirling's formula, k = 0 .. 9
    math.lgamma(k + 1) - (0.5 * math.log(2 * math.pi) + (k + 0.5) * math.log(k + 1) - (k + 1)) for k in range(10)
]  # fmt: skip


def _stirling_tail(k: UOp) -> UOp:
    """What Stirling's formula lacks of log(k!): a table for k <= 9, its series beyond."""
    small = build.minimum(build.maximum(k, 0), 9)
    next_ = add(small, 1)
    square = mul(add(k, 1), add(k, 1))
    series = div(sub(1 / 12, div(sub(1 / 360, div(1 / 1260, square)), square)), add(k, 1))
    out = series
    for i, value in enumerate(_STIRLING):
        out = where(build.eq(next_, i + 1.0), where(build.le(k, 9), build.const_like(value, k), out), out)
    return out


def _binomial_by_inversion(key: Words, count: UOp, p: UOp) -> UOp:
    """Adds up geometric numbers until they exceed the count."""
    size, dtype = p.shape, p.dtype
    slope = log1p(neg(p))

    def step(state: list[UOp]) -> list[UOp]:
        fresh, following = split_words((state[0], state[1]))
        n, total = state[2:]
        n = where(build.le(total, count), add(n, 1), n)
        gap = build.ceil(div(log(uniform_node(fresh, size, dtype)), slope))
        return [*following, n, add(total, gap)]

    zero = build.const(0, dtype, size)
    return sub(iterate(lambda s: build.le(s[3], count), step, [*key, zero, zero])[2], 1)


def _binomial_by_rejection(key: Words, count: UOp, p: UOp) -> UOp:
    """Hormann: The Generation of Binomial Random Variates (1993), algorithm BTRS, for count * p > 10."""
    size, dtype = p.shape, p.dtype
    deviation = build.sqrt(mul(mul(count, p), sub(1, p)))
    b = add(mul(deviation, 2.53), 1.15)
    a = add(add(mul(b, 0.0248), -0.0873), mul(p, 0.01))
    c = add(mul(count, p), 0.5)
    v_r = sub(0.92, div(4.2, b))
    r = div(p, sub(1, p))
    alpha = mul(add(div(5.1, b), 2.83), deviation)
    m = build.floor(mul(add(count, 1), p))
    rest = add(sub(count, m), 1)

    def step(state: list[UOp]) -> list[UOp]:
        following, first, second = split_words((state[0], state[1]), 3)
        found, done = state[2:]
        u = sub(uniform_node(first, size, dtype), 0.5)
        v = uniform_node(second, size, dtype)
        us = sub(0.5, build.abs_(u))
        quick = build.and_(build.le(0.07, us), build.le(v, v_r))
        k = build.floor(add(mul(add(div(mul(a, 2), us), b), u), c))
        hopeless = build.or_(build.lt(k, 0), build.lt(count, k))
        left = add(sub(count, k), 1)
        height = log(div(mul(v, alpha), add(div(a, mul(us, us)), b)))
        bound = add(
            mul(add(m, 0.5), log(div(add(m, 1), mul(r, rest)))),
            add(
                mul(add(count, 1), log(div(rest, left))),
                mul(add(k, 0.5), log(div(mul(r, left), add(k, 1)))),
            ),
        )
        tails = add(_stirling_tail(m), _stirling_tail(sub(count, m)))
        bound = sub(add(bound, tails), add(_stirling_tail(k), _stirling_tail(sub(count, k))))
        accept = build.or_(quick, build.and_(build.not_(hopeless), build.le(height, bound)))
        return [*following, where(accept, k, found), build.or_(done, accept)]

    start = [build.const(-1, dtype, size), build.const(False, dt.bool_, size)]
    return iterate(lambda s: build.not_(s[3]), step, [*key, *start])[2]


def binomial_node(key: Words, count: UOp, chance: UOp) -> UOp:
    """How many of `count` tries succeed; both have one shape and dtype."""
    inner = chance.dtype
    is_less = build.lt(chance, 0.5)
    q = where(is_less, chance, sub(1, chance))  # of the rarer outcome
    valid = build.and_(build.and_(build.le(0, chance), build.le(chance, 1)), build.le(0, count))
    endless = build.eq(count, math.inf)
    q = where(valid, q, build.const(0.01, inner))
    count = build.floor(count)
    is_small = build.or_(build.not_(valid), build.le(mul(count, q), 10))
    zero, many, half = [build.const(x, inner) for x in (0, 1e4, 0.5)]
    plain = build.and_(is_small, valid)
    regular = build.and_(build.not_(is_small), build.not_(endless))
    low = _binomial_by_inversion(key, where(plain, count, zero), q)
    high = _binomial_by_rejection(key, where(regular, count, many), where(regular, q, half))
    out = where(is_small, low, high)
    out = where(endless, build.const(np.inf, inner), where(is_less, out, sub(count, out)))
    return where(valid, out, build.const(np.nan, inner))


def _counted(n: ArrayLike, p: ArrayLike) -> tuple[UOp, UOp]:
    """(n, p) in the dtype of the probabilities, at least float32."""
    given = lift(p).node.dtype
    inner: DType = given if given.is_float and given.itemsize >= 4 else dt.default_float()
    return cast_node(n, inner), cast_node(p, inner)


@public(static=("shape", "dtype"))
def binomial(key: Any, n: ArrayLike, p: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """How many of `n` tries succeed, each with probability `p`, as floats of `dtype`.

    `n` and `p` broadcast to `shape`; NaN where n is negative or p is no probability.

    Source: W. Hormann, J. Stat. Comput. Simul. 46 (1993), algorithm BTRS, for n * p above 10.

    >>> binomial(key(0), 10, fnp.array([0.0, 1.0]))
    Array([ 0., 10.], dtype=float32)
    """
    kind = float_of(dtype, "binomial")
    count, chance = _counted(n, p)
    size = sample_shape(shape, "binomial", count, chance)
    count, chance = build.broadcast_to(count, size), build.broadcast_to(chance, size)
    return Tracer(build.cast(binomial_node(single(key, "binomial"), count, chance), kind))


@public(static=("shape", "dtype", "unroll"))
def multinomial(
    key: Any,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape = None,
    dtype: DTypeLike = None,
    unroll: int | bool = 1,
) -> Array:
    """How often each of k outcomes occurs in `n` tries, with probabilities p[.., k]; floats [.., k] of `dtype`.

    shape    of the result, ending in k; that of `p` by default
    unroll   is accepted for JAX's sake

    >>> fnp.sum(multinomial(key(0), 5, fnp.array([0.5, 0.25, 0.25])))
    Array(5., dtype=float32)
    """
    kind = float_of(dtype, "multinomial")
    count, chance = _counted(n, p)
    size = sample_shape(shape, "multinomial", chance)
    chance = build.broadcast_to(chance, size)
    count = build.broadcast_to(count, size[:-1])
    last = len(size) - 1
    left = uop(Op.PREFIX, (chance,), (Op.ADD, last, True))
    ratio = div(chance, where(build.eq(left, 0), build.const_like(1, left), left))
    ratio = build.minimum(build.maximum(ratio, 0), 1)
    hi, lo = threefry(single(key, "multinomial"), *counters((size[-1],)))

    def step(remaining: Any, x: Any) -> tuple[Tracer, Tracer]:
        k0, k1, here = [lift(v).node for v in x]
        got = binomial_node((k0, k1), lift(remaining).node, here)
        return Tracer(sub(lift(remaining).node, got)), Tracer(got)

    first = build.permute(ratio, [last, *range(last)])
    counts = lift(scan(step, Tracer(count), (Tracer(hi), Tracer(lo), Tracer(first)))[1]).node
    return Tracer(build.cast(build.permute(counts, [*range(1, last + 1), 0]), kind))


__all__ = [
    "ball", "beta", "binomial", "binomial_node", "chisquare", "dirichlet", "f", "gamma", "gamma_node",
    "generalized_normal", "loggamma", "multinomial", "poisson", "t",
]  # fmt: skip
