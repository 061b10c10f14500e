"""asin, acos, atan and atan2."""

from math import inf

from fgrad.lower.functions.coefficients import coefficients
from fgrad.lower.functions.pairs import (
    clamp_below,
    div_pair,
    exponent_bits,
    fast_two_sum,
    is_negative,
    polynomial,
    pow2,
    sqrt_pair,
    two_sum,
)
from fgrad.lower.functions.value import Value, fma, where

_TAN_PI_8 = 0.41421356237309503
_TAN_3_PI_8 = 2.414213562373095


def _asin_parts(x: Value) -> tuple[Value, Value, Value, Value]:
    """big, s, t, tiny with asin(s) = s + t, where s = |x|, or sqrt((1 - |x|) / 2) if |x| > 1/2.

    t includes the low part of s. Above 1 the square root of a negative number makes the NaN.
    """
    a = x.abs()
    big = a > 0.5
    half = (1.0 - a) * 0.5  # exact where big
    tiny = a < x.format.cubic_below
    y = where(tiny, 0.0, a)
    z = where(big, half, y * y)
    s, s_low = sqrt_pair(where(big, half, 0.25), 0.0)
    s = where(big, s, a)
    s_low = where(big, s_low, 0.0)
    series = polynomial(z, coefficients("asin", x.format.p))
    t = fma(where(tiny, 0.0, s) * z, series, s_low)
    return big, s, t, tiny


def asin(x: Value) -> Value:
    """The arc sine of x; NaN outside [-1, 1]."""
    k = x.format
    big, s, t, tiny = _asin_parts(x)
    h, error = fast_two_sum(x.const(k.half_pi[0]), s * -2.0)
    y = where(big, h + (error + fma(t, -2.0, k.half_pi[1])), s + t)
    return where(tiny, x, y.copysign(x))


def acos(x: Value) -> Value:
    """The arc cosine of x; NaN outside [-1, 1]."""
    k = x.format
    big, s, t, _ = _asin_parts(x)
    negative = x < 0.0
    s = where(s < k.linear_below * 2.0**-8, 0.0, s)
    base = where(big, where(negative, k.pi[0], 0.0), k.half_pi[0])
    base_low = where(big, where(negative, k.pi[1], 0.0), k.half_pi[1])
    factor = where(big, where(negative, -2.0, 2.0), where(negative, 1.0, -1.0))
    h, error = fast_two_sum(base, s * factor)
    return h + (error + fma(t, factor, base_low))


def _atan_kernel(
    n: Value,
    n_low: Value,
    d: Value,
    d_low: Value,
    base: Value,
    base_low: Value,
    flip: Value | None = None,
) -> Value:
    """base + atan((n + n_low) / (d + d_low)), quotient within tan(pi/8); minus where `flip`."""
    t, t_low = div_pair(n, n_low, d, d_low)
    if flip is not None:
        t = where(flip, -t, t)
        t_low = where(flip, -t_low, t_low)
    z = t * t
    series = polynomial(z, coefficients("atan", t.format.p))
    h, error = fast_two_sum(base, t)
    return h + (error + fma(t * z, series, t_low + base_low))


def atan(x: Value) -> Value:
    """The arc tangent of x: of |x|, (|x| - 1) / (|x| + 1) or -1 / |x|, by one division."""
    k = x.format
    a = x.abs()
    tiny = a < k.cubic_below
    a = clamp_below(where(tiny, 0.5, a), 2.0 ** (k.p + 7))
    one = x.const(1.0)
    middle, big = a > _TAN_PI_8, a > _TAN_3_PI_8
    m, m_low = two_sum(a, -one)
    s, s_low = two_sum(a, one)
    n = where(big, -1.0, where(middle, m, a))
    d = where(big, a, where(middle, s, one))
    near_one = middle & ~big
    quarter, half = k.quarter_pi, k.half_pi
    y = _atan_kernel(
        n,
        where(near_one, m_low, 0.0),
        d,
        where(near_one, s_low, 0.0),
        where(big, half[0], where(middle, quarter[0], 0.0)),
        where(big, half[1], where(middle, quarter[1], 0.0)),
    )
    return where(tiny, x, y.copysign(x))


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in [-pi, pi], with IEEE's special cases.

    The quotient is the smaller over the larger, reduced as in `atan`; what is added is 0 to 4
    quarters of pi, computed from three flags.
    """
    k = x.format
    ax, ay = x.abs(), y.abs()
    x_infinite, y_infinite = ax.equals(inf), ay.equals(inf)
    infinite = x_infinite | y_infinite
    ax = where(infinite, where(x_infinite, 1.0, 0.0), ax)
    ay = where(infinite, where(y_infinite, 1.0, 0.0), ay)
    swap = ay > ax
    d = where(swap, ay, ax)
    n = where(swap, ax, ay)
    d = where(d.equals(0.0), 1.0, d)
    up = where(d < 2.0 ** (3 * k.p - k.bias), 2.0 ** (3 * k.p), 1.0)
    d, n = d * up, n * up
    low = n < d * 2.0 ** -(k.p + 8)  # nothing beside the base, or y / x itself
    n = where(low, 0.0, n)
    unscale = pow2(2 * k.bias + 1 - exponent_bits(d))
    d, n = d * unscale, n * unscale
    middle = n > d * _TAN_PI_8
    m, m_low = two_sum(n, -d)
    s, s_low = two_sum(n, d)
    left = is_negative(x)
    quarters = where(middle, 1.0, 0.0)
    quarters = where(swap, 2.0 - quarters, quarters)
    quarters = where(left, 4.0 - quarters, quarters)
    base = quarters * k.quarter_pi[0]
    base_low = fma(quarters, k.quarter_pi[0], -base) + quarters * k.quarter_pi[1]
    angle = _atan_kernel(
        where(middle, m, n),
        where(middle, m_low, 0.0),
        where(middle, s, d),
        where(middle, s_low, 0.0),
        base,
        base_low,
        flip=left ^ swap,
    )
    direct = low & ~swap & ~left
    safe = where(ax.equals(0.0), 1.0, ax)
    quotient = where(direct, ay, 1.0) / where(direct, safe, 1.0)
    angle = where(direct, quotient, angle)
    return where(x.is_nan() | y.is_nan(), x + y, angle.copysign(y))
