"""sigmoid, softplus and logaddexp: e^-|x| as a pair, then a quotient or a logarithm.

Relative accuracy reaches down into the subnormal results.
"""

from math import inf

from fgrad.lower.functions.exponential import exp_pair
from fgrad.lower.functions.logarithm import log1p_pair
from fgrad.lower.functions.pairs import div_pair, fast_two_sum, pow2, scale, two_sum
from fgrad.lower.functions.value import Operand, Value, where

_LEAST_POWER = -64  # 1 + h 2^n is 1 to more than twice the precision below this n


def _bounded_power(n: Value) -> Value:
    """2^n, but not below 2^-64."""
    return pow2(where(n < _LEAST_POWER, _LEAST_POWER, n) + n.format.bias)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x)."""
    k = x.format
    under = x < k.exp_lowest
    a = x.abs()
    a = where(a > -k.exp_lowest, -k.exp_lowest, a)
    a = where(a < k.linear_below, 0.0, a)
    h, low, n = exp_pair(-a, 0.0)
    power = _bounded_power(n)
    d, d_low = fast_two_sum(x.const(1.0), h * power)
    negative = x < 0.0
    q, q_low = div_pair(where(negative, h, 1.0), where(negative, low, 0.0), d, d_low + low * power)
    y = scale(q + q_low, where(negative & ~under, n, 0))
    return where(x.is_nan(), x, where(under, 0.0, y))


def _log1p_of_exp_minus(a: Value, a_low: Operand, out: Value) -> tuple[Value, Value, Value, Value]:
    """log(1 + t) for t = e^-(a + a_low), a >= 0: far, the logarithm as a pair, and t itself.

    Where `far`, t is so small that it is its own logarithm and the pair is meaningless; where
    `out`, t counts as 0.
    """
    far = a > (20.0 if a.format.p == 24 else 40.0)
    b = where(out, 0.0, a)
    b_low = where(out, 0.0, -a_low) if isinstance(a_low, Value) else -a_low
    h, low, n = exp_pair(-b, b_low)
    power = _bounded_power(n)
    t = where(far, 1.0, h * power)
    t_low = where(far, 0.0, low * power)
    log_h, log_low = log1p_pair(t, t_low)
    full = where(far, scale(h + low, where(far, n, 0)), t)
    return far, log_h, log_low, where(out, 0.0, full)


def softplus(x: Value) -> Value:
    """log(1 + e^x)."""
    k = x.format
    a = x.abs()
    a = where(a < k.linear_below, 0.0, a)
    out = (x > 40.0) | (a > -k.exp_lowest)
    far, log_h, log_low, full = _log1p_of_exp_minus(a, 0.0, out)
    positive = x > 0.0
    s, error = two_sum(where(positive, x, 0.0), log_h)
    y = where(far, where(positive, x, full), s + (error + log_low))
    return where(x.is_nan(), x, y)


def logaddexp(x: Value, y: Value) -> Value:
    """log(e^x + e^y): the larger plus log(1 + e^-d), d their exact difference as a pair."""
    k = x.format
    greater = x > y
    high = where(greater, x, y)
    low = where(greater, y, x)
    same = x.equals(y)  # also equal infinities
    d, d_low = two_sum(high, -low)
    limit = -k.exp_lowest
    # Beyond this distance e^-d is lost beside a maximum of ordinary size.
    distance, size = (60.0, 2.0**-60) if k.p == 24 else (600.0, 2.0**-800)
    out = (d > limit) | ((d > distance) & (high.abs() > size))
    d = where(same, 0.0, where(out, 2 * limit, d))
    d_low = where(same | out, 0.0, d_low)
    small = d < k.linear_below
    d = where(small, 0.0, d)
    d_low = where(small, 0.0, d_low)
    far, log_h, log_low, full = _log1p_of_exp_minus(d, d_low, out)
    s, error = two_sum(high, where(far, full, log_h))
    result = where(high.abs().equals(inf), high, s + (error + where(far, 0.0, log_low)))
    result = where(out, high + full, result)
    return where(x.is_nan() | y.is_nan(), x + y, result)
