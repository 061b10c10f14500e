"""sqrt, rsqrt, cbrt and hypot: an approximation and a correction with the exact residual."""

from math import inf

from fgrad.lower.functions.coefficients import coefficients
from fgrad.lower.functions.pairs import (
    exponent_bits,
    fast_two_sum,
    float_as_int,
    int_as_float,
    polynomial,
    pow2,
    sqrt_pair,
    two_prod,
)
from fgrad.lower.functions.value import Value, fma, where


def sqrt(x: Value) -> Value:
    """The correctly rounded square root."""
    return x.sqrt()


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x), practically correctly rounded; infinite at +-0, with its sign."""
    ordinary = (x > 0.0) & (x < inf)
    v = where(ordinary, x, 1.0)
    y = 1.0 / v.sqrt()
    h = v * y
    residual = fma(-h, y, 1.0) - fma(v, y, -h) * y
    special = 1.0 / where(ordinary, 1.0, x).sqrt()
    return where(ordinary, fma(y * 0.5, residual, y), special)


def cbrt(x: Value) -> Value:
    """The cube root of x, practically correctly rounded, without a division.

    |x| = M 8^q with M in [1, 8); M^(-1/3) by a polynomial and third-order steps.
    """
    k = x.format
    a = x.abs()
    ordinary = (a > 0.0) & (a < inf)
    a = where(ordinary, a, 1.0)
    subnormal = a < k.smallest
    up = 24 if k.p == 24 else 54  # a multiple of 3
    i = where(subnormal, a * 2.0**up, a).bits()
    e = int_as_float(i >> k.fraction_bits) - (k.magic + k.bias)
    q = fma(e, 1 / 3, -1 / 3).rint()
    j = fma(q, -3.0, e)  # 0, 1 or 2
    m = ((i & ((1 << k.fraction_bits) - 1)) | k.one_bits).as_float()
    one, two = j > 0.5, j > 1.5
    big_m = m * where(two, 4.0, where(one, 2.0, 1.0))
    root_of_power = where(two, 2.0 ** (-2 / 3), where(one, 2.0 ** (-1 / 3), 1.0))
    r = polynomial(m, coefficients("inverse_cbrt", k.p)) * root_of_power
    for _ in range(1 if k.p == 24 else 2):
        h = fma(-(big_m * r), r * r, 1.0)
        r = fma(r * h, fma(h, 2 / 9, 1 / 3), r)
    r_square = r * r
    y = big_m * r_square
    square, square_low = two_prod(y, y)
    residual = fma(-square, y, big_m) - square_low * y
    y = fma(residual * r_square, 1 / 3, y)
    q = where(subnormal, q - up / 3, q)
    y = y * pow2(float_as_int(q) + k.bias)
    return where(ordinary, y.copysign(x), x)


def hypot(x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2) without overflow on the way; infinite if either is, even beside a NaN."""
    k = x.format
    a, b = x.abs(), y.abs()
    greater = a > b
    high = where(greater, a, b)
    low = where(greater, b, a)
    ordinary = (high > 0.0) & (high < inf) & (low >= 0.0)
    high = where(ordinary, high, 1.0)
    small = high < 2.0**-60
    lift = 2.0 ** (2 * k.p + 40)
    up = where(small, lift, 1.0)
    high = high * up
    low = where(ordinary, low, 0.0) * up
    e = exponent_bits(high)
    low = where(low < high * 2.0 ** -(k.p + 2), 0.0, low)
    unscale = pow2(2 * k.bias + 1 - e)
    high, low = high * unscale, low * unscale
    p, p_low = two_prod(high, high)
    q, q_low = two_prod(low, low)
    s, error = fast_two_sum(p, q)
    root, root_low = sqrt_pair(s, error + (p_low + q_low))
    result = (root + root_low) * pow2(e - 1) * where(small, 1 / lift, 1.0)
    special = where(a.equals(inf) | b.equals(inf), inf, a + b)
    return where(ordinary, result, special)
