"""x^y as e^(y log |x|) in pairs, then the special cases of IEEE 754 in the order of their rank."""

from math import inf, nan

from fgrad.lower.functions.exponential import exp_pair
from fgrad.lower.functions.logarithm import log_pair, log_reduce
from fgrad.lower.functions.pairs import is_negative, scale
from fgrad.lower.functions.value import Value, fma, where


def _power_of_magnitude(ax: Value, y: Value, ay: Value) -> Value:
    """ax^y for ordinary positive ax and any y that is not NaN."""
    k = ax.format
    m, e, _ = log_reduce(ax)
    log_h, log_low = log_pair(m - 1.0, 0.0, e, fine=True)
    y = where(ay < 2.0 ** -(k.p + 16), 0.0, y)  # the result is 1
    product = y * log_h
    limit = k.exp_highest * 1.1 + 8.0
    far = product.abs() > limit
    low = where(far, 0.0, fma(y, log_h, -product) + y * log_low)
    product = where(far, ax.const(limit).copysign(product), product)
    under = product < k.exp_lowest - 1.0
    flat = under | (product.abs() < 2.0 ** -(k.p + 4))
    over = product > k.exp_highest
    product = where(over, k.exp_highest, where(flat, 0.0, product))
    low = where(over | flat, 0.0, low)
    h, low, n = exp_pair(product, low)
    return where(under, 0.0, where(over, inf, scale(h + low, n)))


def pow(x: Value, y: Value) -> Value:
    """x to the power y."""
    k = x.format
    ax, ay = x.abs(), y.abs()
    zero, infinite = ax.equals(0.0), ax.equals(inf)
    result = _power_of_magnitude(where(zero | infinite | x.is_nan(), 1.0, ax), y, ay)

    whole = 2.0**k.fraction_bits  # every float from here on is an integer
    integral = (ay >= whole) | ((ay + whole) - whole).equals(ay)
    half = ay * 0.5
    odd = integral & ((half + whole) - whole).differs(half) & (ay < 2 * whole)
    grows = y > 0.0

    result = where(ax.equals(1.0), 1.0, result)  # also for infinite y
    extreme = where((infinite & grows) | (zero & ~grows), inf, 0.0)
    result = where(zero | infinite, extreme, result)
    result = where((x < 0.0) & ~integral & (ax < inf), nan, result)
    result = where(is_negative(x) & odd, -result, result)
    result = where(x.is_nan() | y.is_nan(), x + y, result)
    return where(y.equals(0.0) | x.equals(1.0), 1.0, result)
