"""Special functions under SciPy's names. Integers become the default float; results have the dtype of the arguments."""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad import numpy as functions
from fgrad.lax import elementwise
from fgrad.lax.elementwise import float_node
from fgrad.lax.special import Formula, bessel_i0e, bessel_i1e, betainc, igamma, igammac, polygamma
from fgrad.lax.special import zeta as hurwitz_zeta
from fgrad.nn.normalizations import log_softmax, logsumexp, softmax
from fgrad.numpy.common import binary, common, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop import dtype as dt
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


def _log1p(x: UOp) -> UOp:
    return uop(Op.LOG1P, (x,))


def _lgamma(x: UOp) -> UOp:
    return uop(Op.LGAMMA, (x,))


def _like(value: float, x: UOp) -> UOp:
    return build.const_like(value, x)


def _in_double(f: Callable[..., UOp]) -> Callable[..., UOp]:
    """`f` computed in float64."""
    return lambda *xs: build.cast(f(*[build.cast(x, dt.float64) for x in xs]), xs[0].dtype)


def _unary(name: str, f: Callable[[UOp], UOp], x: ArrayLike) -> Array:
    node, weak = float_node(name, x)
    return Tracer(f(node), weak)


def _nary(name: str, f: Callable[..., UOp], *xs: ArrayLike) -> Array:
    nodes, dtype, weak = common(name, *xs, least=dt.default_float())
    need(dtype.is_float, name, f"it is defined for real numbers, not for {dtype}")
    return Tracer(f(*nodes), weak)


# ---- logarithms that are 0 at 0
def _times_log(x: UOp, y: UOp) -> UOp:
    zero = build.and_(build.eq(x, 0), build.eq(y, y))
    return where(zero, build.zeros_like(x), mul(x, log(where(zero, _like(1, y), y))))


def _times_log1p(x: UOp, y: UOp) -> UOp:
    zero = build.and_(build.eq(x, 0), build.eq(y, y))
    return where(zero, build.zeros_like(x), mul(x, _log1p(where(zero, _like(0, y), y))))


def _ratio(x: UOp, y: UOp) -> UOp:
    """x / y, 0 where x is 0."""
    zero = build.eq(x, 0)
    return where(zero, build.zeros_like(x), div(x, where(zero, _like(1, y), y)))


_XLOGY = Formula("xlogy", _times_log, (lambda x, y: log(y), _ratio))
_XLOG1PY = Formula("xlog1py", _times_log1p, (lambda x, y: _log1p(y), lambda x, y: _ratio(x, add(y, 1))))


@binary
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log(y), which is 0 where x is 0."""
    return _nary("xlogy", _XLOGY.node, x, y)


@binary
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log(1 + y), which is 0 where x is 0."""
    return _nary("xlog1py", _XLOG1PY.node, x, y)


@public()
def entr(x: ArrayLike) -> Array:
    """-x * log(x): 0 at 0, -inf below."""

    def value(v: UOp) -> UOp:
        return where(build.lt(v, 0), _like(-math.inf, v), neg(_XLOGY.node(v, v)))

    return _unary("entr", value, x)


def _relative_entropy(p: UOp, q: UOp) -> UOp:
    inside = build.and_(build.lt(0, p), build.lt(0, q))
    safe_p, safe_q = where(inside, p, _like(1, p)), where(inside, q, _like(1, q))
    edge = build.and_(build.eq(p, 0), build.le(0, q))
    outside = where(edge, build.zeros_like(p), _like(math.inf, p))
    outside = where(build.eq(add(p, q), add(p, q)), outside, add(p, q))
    return where(inside, mul(safe_p, log(div(safe_p, safe_q))), outside)


@binary
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p * log(p / q): 0 where p is 0, inf where one is negative."""
    return _nary("rel_entr", _relative_entropy, p, q)


@binary
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """rel_entr(p, q) - p + q."""
    return _nary("kl_div", lambda a, b: add(sub(_relative_entropy(a, b), a), b), p, q)


@public()
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of expit."""
    return _unary("logit", lambda v: sub(log(v), _log1p(neg(v))), x)


@binary
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x ** lmbda - 1) / lmbda; log(x) where lmbda is 0."""
    return _nary("boxcox", lambda v, k: _box_cox(log(v), k), x, lmbda)


@binary
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, lmbda), exact for small x."""
    return _nary("boxcox1p", lambda v, k: _box_cox(_log1p(v), k), x, lmbda)


def _box_cox(logarithm: UOp, k: UOp) -> UOp:
    zero = build.eq(k, 0)
    safe = where(zero, _like(1, k), k)
    return where(zero, logarithm, div(uop(Op.EXPM1, (mul(logarithm, safe),)), safe))


# ---- the normal distribution
_ROOT_2PI = math.sqrt(2 * math.pi)
_TAIL = -12.0  # below, the asymptotic series has all digits


def _ndtr(x: UOp) -> UOp:
    return mul(uop(Op.ERFC, (mul(x, -math.sqrt(0.5)),)), 0.5)


def _log_ndtr(x: UOp) -> UOp:
    """log of the normal distribution function, in three pieces (tail: DLMF 7.12.1)."""
    is_upper, is_tail = build.lt(0, x), build.lt(x, _TAIL)
    upper = _log1p(neg(_ndtr(neg(where(is_upper, x, _like(1, x))))))
    middle = log(_ndtr(where(build.or_(is_upper, is_tail), _like(-1, x), x)))
    far = where(is_tail, x, _like(2 * _TAIL, x))
    square = div(1, mul(far, far))
    series = _like(0, x)
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
    goal = log(where(inside, q, _like(0.5, q)))
    center = mul(uop(Op.ERF_INV, (sub(mul(where(inside, q, _like(0.5, q)), 2), 1),)), math.sqrt(2))
    far = build.sqrt(mul(goal, -2))
    start = where(build.lt(goal, -14.0), neg(far), center)
    x = start
    for _ in range(5):
        x = sub(x, div(sub(_log_ndtr(x), goal), _log_ndtr_slope(x)))
    x = where(is_upper, neg(x), x)
    edge = where(
        build.eq(p, 0),
        _like(-math.inf, p),
        where(build.eq(p, 1), _like(math.inf, p), _like(math.nan, p)),
    )
    return where(inside, x, edge)


_LOG_NDTR = Formula("log_ndtr", _in_double(_log_ndtr), (_in_double(_log_ndtr_slope),))


def _ndtri_slope(p: UOp) -> UOp:
    x = _ndtri(p)
    return mul(exp(mul(mul(x, x), 0.5)), _ROOT_2PI)


_NDTRI = Formula("ndtri", _in_double(_ndtri), (_in_double(_ndtri_slope),))


@public()
def ndtr(x: ArrayLike) -> Array:
    """The distribution function of the standard normal distribution."""
    return _unary("ndtr", _ndtr, x)


@public(static=("series_order",))
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), right also far below 0 (`series_order` is accepted for compatibility)."""
    return _unary("log_ndtr", _LOG_NDTR.node, x)


@public()
def ndtri(p: ArrayLike) -> Array:
    """The inverse of ndtr."""
    return _unary("ndtri", _NDTRI.node, p)


# ---- gamma and beta
def _sign_of_gamma(x: UOp) -> UOp:
    floor = build.floor(x)
    odd = build.eq(sub(floor, mul(build.floor(mul(floor, 0.5)), 2)), 1)
    sign = where(build.and_(build.lt(x, 0), odd), _like(-1, x), _like(1, x))
    pole = build.and_(build.eq(floor, x), build.lt(x, 0))
    sign = where(pole, _like(math.nan, x), sign)
    return where(build.eq(x, x), sign, x)


@public()
def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma(x); NaN at its poles below 0."""
    return _unary("gammasgn", _sign_of_gamma, x)


def _gamma(x: UOp) -> UOp:
    zero = build.eq(x, 0)
    value = mul(_sign_of_gamma(x), exp(_lgamma(x)))
    return where(zero, div(1, x), value)


@public()
def gamma(x: ArrayLike) -> Array:
    """The gamma function."""
    return _unary("gamma", _in_double(_gamma), x)


@public()
def loggamma(x: ArrayLike) -> Array:
    """log(gamma(x)) for x > 0; NaN below (complex results are not supported)."""
    return _unary("loggamma", lambda v: where(build.lt(v, 0), _like(math.nan, v), _lgamma(v)), x)


def _betaln(a: UOp, b: UOp) -> UOp:
    return sub(add(_lgamma(a), _lgamma(b)), _lgamma(add(a, b)))


@binary
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log(abs(beta(a, b)))."""
    return _nary("betaln", _in_double(_betaln), a, b)


@binary
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """gamma(a) * gamma(b) / gamma(a + b)."""

    def value(p: UOp, q: UOp) -> UOp:
        sign = mul(mul(_sign_of_gamma(p), _sign_of_gamma(q)), _sign_of_gamma(add(p, q)))
        return mul(sign, exp(_betaln(p, q)))

    return _nary("beta", _in_double(value), a, b)


@public()
def _factorial(n: ArrayLike) -> Array:
    def value(v: UOp) -> UOp:
        safe = where(build.lt(v, 0), build.zeros_like(v), v)
        return where(build.lt(v, 0), build.zeros_like(v), exp(_lgamma(add(safe, 1))))

    return _unary("factorial", _in_double(value), n)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """n! as a float; 0 for n < 0."""
    if exact:
        raise NotImplementedError("factorial with exact=True; use math.factorial on Python ints")
    return _factorial(n)


@binary
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """gamma(z + m) / gamma(z)."""

    def value(a: UOp, k: UOp) -> UOp:
        sign = mul(_sign_of_gamma(add(a, k)), _sign_of_gamma(a))
        return where(build.eq(k, 0), _like(1, a), mul(sign, exp(sub(_lgamma(add(a, k)), _lgamma(a)))))

    return _nary("poch", _in_double(value), z, m)


@public(static=("d",))
def multigammaln(a: ArrayLike, d: int) -> Array:
    """log of the multivariate gamma function of dimension `d`."""

    def value(v: UOp) -> UOp:
        total = _like(0.25 * d * (d - 1) * math.log(math.pi), v)
        for j in range(d):
            total = add(total, _lgamma(sub(v, j / 2)))
        return total

    return _unary("multigammaln", _in_double(value), a)


@public(static=("repetition",))
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:  # noqa: N803  SciPy's name
    """How many ways there are to choose `k` of `N` things, as a float; 0 for k < 0 or k > N."""

    def value(n: UOp, m: UOp) -> UOp:
        n = sub(add(n, m), 1) if repetition else n
        good = build.and_(build.and_(build.le(m, n), build.le(0, m)), build.le(0, n))
        a, b = where(good, n, _like(1, n)), where(good, m, _like(0, m))
        ways = sub(_lgamma(add(a, 1)), add(_lgamma(add(b, 1)), _lgamma(add(sub(a, b), 1))))
        ways = exp(ways)
        whole = build.lt(ways, 2.0**40)  # integers come out exactly
        whole = build.and_(whole, build.and_(build.eq(a, build.floor(a)), build.eq(b, build.floor(b))))
        return where(good, where(whole, build.round_(ways), ways), _like(0, n))

    return _nary("comb", _in_double(value), N, k)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Riemann (q given: Hurwitz) zeta function for x > 1."""
    return hurwitz_zeta(x, 1.0 if q is None else q)


# ---- scaled error function and exponential integrals
def _erfcx(x: UOp) -> UOp:
    """exp(x^2) erfc(x): the product up to 5, beyond a continued fraction from the back (DLMF 7.9.1)."""
    is_far = build.lt(5.0, x)
    near = where(is_far, build.zeros_like(x), x)
    far = where(is_far, x, _like(6, x))
    tail = far
    for k in range(40, 0, -1):
        tail = add(far, div(k / 2, tail))
    return where(is_far, div(1 / math.sqrt(math.pi), tail), mul(exp(mul(near, near)), uop(Op.ERFC, (near,))))


_ERFCX = Formula(
    "erfcx",
    _in_double(_erfcx),
    (_in_double(lambda x: sub(mul(mul(x, _erfcx(x)), 2), 2 / math.sqrt(math.pi))),),
)


@public()
def erfcx(x: ArrayLike) -> Array:
    """exp(x^2) * erfc(x), without overflow and underflow for positive x."""
    return _unary("erfcx", _ERFCX.node, x)


_EULER = 0.57721566490153286


def _ein(x: UOp, terms: int) -> UOp:
    """The sum of x^k / (k k!) over k >= 1 (DLMF 6.6.2)."""
    total = build.zeros_like(x)
    for k in range(terms, 0, -1):
        total = mul(add(total, 1.0 / k), mul(x, 1.0 / k))
    return total


def _exp1(x: UOp) -> UOp:
    is_far = build.lt(2.0, x)
    near = where(build.or_(is_far, build.le(x, 0)), _like(1, x), x)
    far = where(is_far, x, _like(3, x))
    tail = add(far, 101.0)
    for k in range(100, 0, -1):  # DLMF 6.9.1, from the back
        tail = add(far, div(k, add(1, div(k, tail))))
    out = where(is_far, div(exp(neg(far)), tail), sub(neg(_ein(neg(near), 30)), add(log(near), _EULER)))
    edge = where(build.eq(x, 0), _like(math.inf, x), _like(math.nan, x))
    return where(build.lt(0, x), out, edge)


_EXP1 = Formula("exp1", _in_double(_exp1), (_in_double(lambda x: neg(div(exp(neg(x)), x))),))


@public()
def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1 for x > 0; inf at 0, NaN below."""
    return _unary("exp1", _EXP1.node, x)


# ---- Bessel functions
@public()
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0."""
    return functions.multiply(bessel_i0e(x), functions.exp(functions.abs(x)))


@public()
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1."""
    return functions.multiply(bessel_i1e(x), functions.exp(functions.abs(x)))


__all__ = [
    "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "digamma", "entr", "erf", "erfc", "erfcx",
    "erfinv", "exp1", "expit", "factorial", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "i0",
    "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln",
    "ndtr", "ndtri", "poch", "polygamma", "rel_entr", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
