"""Special functions under SciPy's names. Integers become the default float; results have the dtype of the arguments."""

from __future__ import annotations

import math

from fgrad import numpy as functions
from fgrad.lax import elementwise
from fgrad.lax.special import Formula, bessel_i0e, bessel_i1e, betainc, igamma, igammac, polygamma
from fgrad.lax.special import zeta as hurwitz_zeta
from fgrad.nn.normalizations import log_softmax, logsumexp, softmax
from fgrad.numpy.common import binary, public
from fgrad.scipy.special.common import horner, in_double, lgamma, like, log1p, nary, unary
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike
from fgrad.uop import build
from fgrad.uop.build import add, div, exp, log, mul, neg, sub, where
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

digamma = elementwise.digamma
erf = elementwise.erf
erfc = elementwise.erfc
erfinv = elementwise.erf_inv
expit = elementwise.logistic
gammaln = elementwise.lgamma
gammainc = igamma
gammaincc = igammac
i0e = bessel_i0e
i1e = bessel_i1e
sinc = functions.sinc


# ---- logarithms that are 0 at 0
def _times_log(x: UOp, y: UOp) -> UOp:
    zero = build.and_(build.eq(x, 0), build.eq(y, y))
    return where(zero, build.zeros_like(x), mul(x, log(where(zero, like(1, y), y))))


def _times_log1p(x: UOp, y: UOp) -> UOp:
    zero = build.and_(build.eq(x, 0), build.eq(y, y))
    return where(zero, build.zeros_like(x), mul(x, log1p(where(zero, like(0, y), y))))


def _ratio(x: UOp, y: UOp) -> UOp:
    """x / y, 0 where x is 0."""
    zero = build.eq(x, 0)
    return where(zero, build.zeros_like(x), div(x, where(zero, like(1, y), y)))


_XLOGY = Formula("xlogy", _times_log, (lambda x, y: log(y), _ratio))
_XLOG1PY = Formula("xlog1py", _times_log1p, (lambda x, y: log1p(y), lambda x, y: _ratio(x, add(y, 1))))


@binary
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log(y), which is 0 where x is 0.

    The arguments broadcast. The derivative in y is 0 there, that in x is not.

    >>> xlogy(fnp.array([0.0, 2.0]), fnp.array([0.0, 3.0]))
    Array([0.       , 2.1972246], dtype=float32)
    """
    return nary("xlogy", _XLOGY.node, x, y)


@binary
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log(1 + y), which is 0 where x is 0.

    The arguments broadcast. The derivative in y is 0 there, that in x is not.

    >>> xlog1py(fnp.array([0.0, 2.0]), fnp.array([-1.0, 1.0]))
    Array([0.       , 1.3862944], dtype=float32)
    """
    return nary("xlog1py", _XLOG1PY.node, x, y)


@public()
def entr(x: ArrayLike) -> Array:
    """-x * log(x): 0 at 0, -inf below.

    Shape as x; integers become the default float.

    >>> entr(fnp.array([0.0, 0.5, -1.0]))
    Array([-0.       ,  0.3465736,       -inf], dtype=float32)
    """

    def value(v: UOp) -> UOp:
        return where(build.lt(v, 0), like(-math.inf, v), neg(_XLOGY.node(v, v)))

    return unary("entr", value, x)


def _relative_entropy(p: UOp, q: UOp) -> UOp:
    inside = build.and_(build.lt(0, p), build.lt(0, q))
    safe_p, safe_q = where(inside, p, like(1, p)), where(inside, q, like(1, q))
    edge = build.and_(build.eq(p, 0), build.le(0, q))
    outside = where(edge, build.zeros_like(p), like(math.inf, p))
    outside = where(build.eq(add(p, q), add(p, q)), outside, add(p, q))
    return where(inside, mul(safe_p, log(div(safe_p, safe_q))), outside)


@binary
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p * log(p / q): 0 where p is 0, inf where one is negative.

    The arguments broadcast; the terms of a relative entropy.

    >>> rel_entr(fnp.array([0.5, 0.0]), 0.25)
    Array([0.3465736, 0.       ], dtype=float32)
    """
    return nary("rel_entr", _relative_entropy, p, q)


@binary
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """rel_entr(p, q) - p + q.

    The arguments broadcast; the terms of a divergence, >= 0.

    >>> kl_div(fnp.array([0.5, 1.0]), 0.5)
    Array([0.        , 0.19314718], dtype=float32)
    """
    return nary("kl_div", lambda a, b: add(sub(_relative_entropy(a, b), a), b), p, q)


@public()
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of expit.

    Shape as x; -inf at 0, inf at 1, NaN outside.

    >>> logit(fnp.array([0.5, 0.9, 1.0]))
    Array([0.       , 2.1972244,       inf], dtype=float32)
    """
    return unary("logit", lambda v: sub(log(v), log1p(neg(v))), x)


@binary
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x ** lmbda - 1) / lmbda; log(x) where lmbda is 0.

    The arguments broadcast; NaN for x < 0.

    >>> boxcox(fnp.array([1.0, 4.0]), 0.5)
    Array([0., 2.], dtype=float32)
    """
    return nary("boxcox", lambda v, k: _box_cox(log(v), k), x, lmbda)


@binary
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, lmbda), exact for small x.

    The arguments broadcast.

    >>> boxcox1p(fnp.array([0.0, 3.0]), 0.5)
    Array([0., 2.], dtype=float32)
    """
    return nary("boxcox1p", lambda v, k: _box_cox(log1p(v), k), x, lmbda)


def _box_cox(logarithm: UOp, k: UOp) -> UOp:
    zero = build.eq(k, 0)
    safe = where(zero, like(1, k), k)
    return where(zero, logarithm, div(uop(Op.EXPM1, (mul(logarithm, safe),)), safe))


# ---- the normal distribution
_ROOT_2PI = math.sqrt(2 * math.pi)
_TAIL = -12.0  # below, the asymptotic series has all digits


def _ndtr(x: UOp) -> UOp:
    return mul(uop(Op.ERFC, (mul(x, -math.sqrt(0.5)),)), 0.5)


def _log_ndtr(x: UOp) -> UOp:
    """log of the normal distribution function, in three pieces (tail: DLMF 7.12.1)."""
    is_upper, is_tail = build.lt(0, x), build.lt(x, _TAIL)
    upper = log1p(neg(_ndtr(neg(where(is_upper, x, like(1, x))))))
    middle = log(_ndtr(where(build.or_(is_upper, is_tail), like(-1, x), x)))
    far = where(is_tail, x, like(2 * _TAIL, x))
    square = div(1, mul(far, far))
    series = like(0, x)
    for k in range(14, -1, -1):
        series = add(mul(series, mul(square, -(2 * k + 1.0))), 1)
    tail = sub(sub(log(series), log(neg(far))), add(mul(mul(far, far), 0.5), math.log(_ROOT_2PI)))
    out = where(is_upper, upper, where(is_tail, tail, middle))
    return where(build.eq(x, -math.inf), x, out)


def _log_ndtr_slope(x: UOp) -> UOp:
    """The density over the distribution function; -x far in the lower tail."""
    small = build.maximum(x, -1e8)
    return exp(sub(mul(mul(small, small), -0.5), add(_log_ndtr(small), math.log(_ROOT_2PI))))


def _ndtri(p: UOp) -> UOp:
    """Newton's method on the logarithm, from the lower side."""
    is_upper = build.lt(0.5, p)
    q = where(is_upper, sub(1, p), p)
    inside = build.and_(build.lt(0, q), build.le(q, 0.5))
    goal = log(where(inside, q, like(0.5, q)))
    center = mul(uop(Op.ERF_INV, (sub(mul(where(inside, q, like(0.5, q)), 2), 1),)), math.sqrt(2))
    far = build.sqrt(mul(goal, -2))
    start = where(build.lt(goal, -14.0), neg(far), center)
    x = start
    for _ in range(5):
        x = sub(x, div(sub(_log_ndtr(x), goal), _log_ndtr_slope(x)))
    x = where(is_upper, neg(x), x)
    edge = where(
        build.eq(p, 0),
        like(-math.inf, p),
        where(build.eq(p, 1), like(math.inf, p), like(math.nan, p)),
    )
    return where(inside, x, edge)


_LOG_NDTR = Formula("log_ndtr", in_double(_log_ndtr), (in_double(_log_ndtr_slope),))


def _ndtri_slope(p: UOp) -> UOp:
    x = _ndtri(p)
    return mul(exp(mul(mul(x, x), 0.5)), _ROOT_2PI)


_NDTRI = Formula("ndtri", in_double(_ndtri), (in_double(_ndtri_slope),))


@public()
def ndtr(x: ArrayLike) -> Array:
    """The distribution function of the standard normal distribution.

    Shape as x; relatively accurate far below 0.

    >>> ndtr(fnp.array([-10.0, 0.0, 1.96]))
    Array([7.619853e-24, 5.000000e-01, 9.750021e-01], dtype=float32)
    """
    return unary("ndtr", _ndtr, x)


@public(static=("series_order",))
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), right also far below 0 (`series_order` is accepted for compatibility).

    Shape as x; integers become the default float.

    Source: DLMF 7.12.1 in the tail.

    >>> log_ndtr(fnp.array([-100.0, 0.0]))
    Array([-5.0055244e+03, -6.9314718e-01], dtype=float32)
    """
    return unary("log_ndtr", _LOG_NDTR.node, x)


@public()
def ndtri(p: ArrayLike) -> Array:
    """The inverse of ndtr.

    Shape as p; -inf at 0, inf at 1, NaN outside.

    >>> ndtri(fnp.array([0.5, 0.975, 1.0]))
    Array([0.       , 1.9599644,       inf], dtype=float32)
    """
    return unary("ndtri", _NDTRI.node, p)


# ---- gamma and beta
def sign_of_gamma(x: UOp) -> UOp:
    """1 or -1, the sign of gamma; NaN at its poles below 0."""
    floor = build.floor(x)
    odd = build.eq(sub(floor, mul(build.floor(mul(floor, 0.5)), 2)), 1)
    sign = where(build.and_(build.lt(x, 0), odd), like(-1, x), like(1, x))
    pole = build.and_(build.eq(floor, x), build.lt(x, 0))
    sign = where(pole, like(math.nan, x), sign)
    return where(build.eq(x, x), sign, x)


@public()
def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma(x); NaN at its poles below 0.

    Shape as x.

    >>> gammasgn(fnp.array([2.5, -0.5, -1.5]))
    Array([ 1., -1.,  1.], dtype=float32)
    """
    return unary("gammasgn", sign_of_gamma, x)


def _stirling(x: UOp) -> UOp:
    """What Stirling's formula for log gamma leaves out, for x >= 10 (DLMF 5.11.1)."""
    y = div(1, mul(x, x))
    terms = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400]
    return div(horner(terms, y), x)


def _betaln(a: UOp, b: UOp) -> UOp:
    """The logarithms of gamma of large numbers would cancel: their difference is taken in Stirling's formula."""
    low, high = build.minimum(a, b), build.maximum(a, b)
    is_large = build.and_(build.le(10, high), build.lt(0, low))
    y = where(is_large, high, like(10, high))
    x = where(is_large, low, like(1, low))
    total = add(x, y)
    far = sub(add(sub(x, mul(x, log(total))), lgamma(x)), mul(sub(y, 0.5), log1p(div(x, y))))
    far = add(far, sub(_stirling(y), _stirling(total)))
    near = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    return where(is_large, far, near)


def _betaln_slope(x: UOp, total: UOp) -> UOp:
    return sub(uop(Op.DIGAMMA, (x,)), uop(Op.DIGAMMA, (total,)))


_BETALN = Formula(
    "betaln",
    in_double(_betaln),
    (
        in_double(lambda a, b: _betaln_slope(a, add(a, b))),
        in_double(lambda a, b: _betaln_slope(b, add(a, b))),
    ),
)


@binary
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log(abs(beta(a, b))).

    Of floats that broadcast; where beta itself overflows, too.

    Source: DLMF 5.11.1 for large arguments.

    >>> betaln(200.0, 300.0)
    Array(-337.9801, dtype=float32, weak_type=True)
    """
    return nary("betaln", _BETALN.node, a, b)


@binary
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """gamma(a) * gamma(b) / gamma(a + b).

    Of floats that broadcast; integers become the default float.

    >>> beta(2.0, fnp.array([1.0, 3.0]))
    Array([0.5       , 0.08333334], dtype=float32)
    """

    def value(p: UOp, q: UOp) -> UOp:
        sign = mul(mul(sign_of_gamma(p), sign_of_gamma(q)), sign_of_gamma(add(p, q)))
        return mul(sign, exp(_BETALN.node(p, q)))

    return nary("beta", in_double(value), a, b)


@public()
def _factorial(n: ArrayLike) -> Array:
    def value(v: UOp) -> UOp:
        safe = where(build.lt(v, 0), build.zeros_like(v), v)
        return where(build.lt(v, 0), build.zeros_like(v), exp(lgamma(add(safe, 1))))

    return unary("factorial", in_double(value), n)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """n! as a float; 0 for n < 0.

    Shape as n; `exact` is refused.

    >>> factorial(fnp.array([0, 3, 5]))
    Array([  1.,   6., 120.], dtype=float32)
    """
    if exact:
        raise NotImplementedError("factorial with exact=True; use math.factorial on Python ints")
    return _factorial(n)


@binary
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """gamma(z + m) / gamma(z).

    The arguments broadcast.

    >>> poch(2.0, fnp.array([0.0, 1.0, 3.0]))
    Array([ 1.,  2., 24.], dtype=float32)
    """

    def value(a: UOp, k: UOp) -> UOp:
        sign = mul(sign_of_gamma(add(a, k)), sign_of_gamma(a))
        return where(build.eq(k, 0), like(1, a), mul(sign, exp(sub(lgamma(add(a, k)), lgamma(a)))))

    return nary("poch", in_double(value), z, m)


@public(static=("d",))
def multigammaln(a: ArrayLike, d: int) -> Array:
    """log of the multivariate gamma function of dimension `d`.

    Shape as a, which must be above (d - 1) / 2.

    >>> multigammaln(fnp.array([2.0, 3.0]), 2)
    Array([0.4515827, 1.550195 ], dtype=float32)
    """

    def value(v: UOp) -> UOp:
        total = like(0.25 * d * (d - 1) * math.log(math.pi), v)
        for j in range(d):
            total = add(total, lgamma(sub(v, j / 2)))
        return total

    return unary("multigammaln", in_double(value), a)


@public(static=("repetition",))
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:  # noqa: N803  SciPy's name
    """How many ways there are to choose `k` of `N` things, as a float; 0 for k < 0 or k > N.

    The arguments broadcast; `repetition` lets things be chosen again.

    >>> comb(5, fnp.array([0, 2, 6]))
    Array([ 1., 10.,  0.], dtype=float32)
    """

    def value(n: UOp, m: UOp) -> UOp:
        n = sub(add(n, m), 1) if repetition else n
        good = build.and_(build.and_(build.le(m, n), build.le(0, m)), build.le(0, n))
        a, b = where(good, n, like(1, n)), where(good, m, like(0, m))
        ways = sub(lgamma(add(a, 1)), add(lgamma(add(b, 1)), lgamma(add(sub(a, b), 1))))
        ways = exp(ways)
        whole = build.lt(ways, 2.0**40)  # integers come out exactly
        whole = build.and_(whole, build.and_(build.eq(a, build.floor(a)), build.eq(b, build.floor(b))))
        return where(good, where(whole, build.round_(ways), ways), like(0, n))

    return nary("comb", in_double(value), N, k)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Riemann (q given: Hurwitz) zeta function for x > 1.

    The arguments broadcast; inf at x = 1.

    Source: DLMF 25.11.5.

    >>> zeta(fnp.array([2.0, 4.0]))
    Array([1.644934 , 1.0823232], dtype=float32)
    """
    return hurwitz_zeta(x, 1.0 if q is None else q)


# ---- Bessel functions
@public()
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    Shape as x; overflows to inf (i0e does not).

    Source: DLMF 10.25.2 and 10.40.1.

    >>> i0(fnp.array([0.0, 1.0]))
    Array([1.       , 1.2660658], dtype=float32)
    """
    return functions.multiply(bessel_i0e(x), functions.exp(functions.abs(x)))


@public()
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    Shape as x; overflows to inf (i1e does not).

    Source: DLMF 10.25.2 and 10.40.1.

    >>> i1(fnp.array([0.0, 1.0]))
    Array([0.       , 0.5651591], dtype=float32)
    """
    return functions.multiply(bessel_i1e(x), functions.exp(functions.abs(x)))


__all__ = [
    "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "digamma", "entr", "erf", "erfc",
    "erfinv", "expit", "factorial", "gammainc", "gammaincc", "gammaln", "gammasgn", "i0",
    "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln",
    "ndtr", "ndtri", "poch", "polygamma", "rel_entr", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
