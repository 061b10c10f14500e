"""sinh, cosh, tanh from e^x - 1 as a pair, and their inverses from log1p of a pair.

One range each: the pairs make the usual case distinctions near 0 unnecessary.
"""

from math import inf, nan

from fgrad.lower.functions.exponential import exp_pair, expm1_quarter
from fgrad.lower.functions.logarithm import log1p_pair
from fgrad.lower.functions.pairs import (
    clamp_below,
    div_pair,
    fast_two_sum,
    pow2,
    sqrt_pair,
    two_prod,
    two_sum,
)
from fgrad.lower.functions.value import Value, where

_SATURATED = 22.0  # e^-2x is below half an ulp from here


def sinh(x: Value) -> Value:
    """(e^x - e^-x) / 2 = (m + m / (1 + m)) / 2 with m = e^|x| - 1, which never cancels."""
    a = x.abs()
    tiny = a < x.format.cubic_below
    a = clamp_below(where(tiny, 0.0, a), x.format.sinh_highest)
    m, m_low = expm1_quarter(a)  # in quarters, so that nothing overflows early
    big = a > _SATURATED
    bounded = where(big, 1.0, m)
    d, d_low = two_sum(x.const(1.0), bounded * 4.0)
    q, q_low = div_pair(bounded, where(big, 0.0, m_low), d, d_low + m_low * 4.0)
    q = where(big, 0.25, q)
    q_low = where(big, 0.0, q_low)
    h, error = two_sum(m, q)
    half = h + (error + (m_low + q_low))
    return where(tiny, x, (half + half).copysign(x))


def cosh(x: Value) -> Value:
    """(e^x + e^-x) / 2."""
    k = x.format
    a = x.abs()
    a = clamp_below(where(a < k.cubic_below, 0.0, a), k.sinh_highest)
    h, low, n = exp_pair(a, 0.0)
    power = pow2(n + (k.bias - 2))
    e, e_low = h * power, low * power
    big = a > _SATURATED
    q, q_low = div_pair(x.const(0.0625), 0.0, where(big, 1.0, e), where(big, 0.0, e_low))
    q = where(big, 0.0, q)
    q_low = where(big, 0.0, q_low)
    s, error = fast_two_sum(e, q)
    half = s + (error + (e_low + q_low))
    return half + half


def tanh(x: Value) -> Value:
    """-m / (2 + m) with m = e^(-2|x|) - 1."""
    a = x.abs()
    tiny = a < x.format.cubic_below
    a = clamp_below(where(tiny, 0.0, a), _SATURATED)
    m, m_low = expm1_quarter(a * -2.0)
    d, d_low = fast_two_sum(x.const(0.5), m)
    q, q_low = div_pair(m, m_low, d, d_low + m_low)
    return where(tiny, x, (q + q_low).copysign(x))


def asinh(x: Value) -> Value:
    """log1p(u), u = |x| + x^2 / (1 + sqrt(1 + x^2)); log(2 |x|) where x^2 is all that counts."""
    k = x.format
    a = x.abs()
    tiny = a < k.cubic_below
    big = a > 2.0 ** (k.p // 2 + 4)
    y = where(tiny | big, 1.0, a)
    square, square_low = two_prod(y, y)
    v, v_low = two_sum(x.const(1.0), square)
    root, root_low = sqrt_pair(v, v_low + square_low)
    d, d_low = two_sum(x.const(1.0), root)
    q, q_low = div_pair(square, square_low, d, d_low + root_low)
    u, u_low = two_sum(y, q)
    h, low = log1p_pair(where(big, a, u), u_low + q_low, big)
    return where(tiny | a.equals(inf) | x.is_nan(), x, (h + low).copysign(x))


def acosh(x: Value) -> Value:
    """log1p(u), u = (x - 1) + sqrt(x^2 - 1), the cancellation exact; log(2 x) for large x."""
    k = x.format
    big = x > 2.0 ** (k.p // 2 + 4)
    y = where(big | (x < 1.0), 2.0, x)
    minus_one = x.const(-1.0)
    square, square_low = two_prod(y, y)
    v, v_low = fast_two_sum(square, minus_one)
    v, v_low = fast_two_sum(v, v_low + square_low)
    root, root_low = sqrt_pair(v, v_low)
    t, t_low = two_sum(y, minus_one)
    u, u_low = two_sum(t, root)
    h, low = log1p_pair(where(big, x, u), u_low + (t_low + root_low), big)
    result = where(x.equals(inf), x, h + low)
    return where((x < 1.0) | x.is_nan(), nan, result)


def atanh(x: Value) -> Value:
    """log1p(2 |x| / (1 - |x|)) / 2."""
    a = x.abs()
    tiny = a < x.format.cubic_below
    y = where(tiny | (a >= 1.0), 0.5, a)
    d, d_low = fast_two_sum(x.const(1.0), -y)
    q, q_low = div_pair(y + y, 0.0, d, d_low)
    h, low = log1p_pair(q, q_low)
    result = where(a.equals(1.0), inf, (h + low) * 0.5).copysign(x)
    return where(tiny, x, where((a > 1.0) | x.is_nan(), nan, result))
