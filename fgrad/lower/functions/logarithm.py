"""log, log2, log10 and log1p, and the logarithms as pairs the other functions build on.

x = m 2^e with m in [sqrt(1/2), sqrt 2); log 2 is split so that e times its head is exact.
`log_fast` is good to about a third of an ulp, `log_pair` to 2^-(p+12) for 40 operations more.
"""

from math import inf, nan

from fgrad.lower.functions.coefficients import coefficients
from fgrad.lower.functions.pairs import (
    div_pair,
    fast_two_sum,
    int_as_float,
    polynomial,
    polynomial_pair,
    pow2,
    two_sum,
)
from fgrad.lower.functions.value import Operand, Value, fma, where


def log_reduce(x: Value) -> tuple[Value, Value, Value]:
    """m, e as a float, and the biased e of a positive finite x, which may be subnormal.

    The biased exponent is that of x * 2^p where x is subnormal.
    """
    k = x.format
    subnormal = x < k.smallest
    i = where(subnormal, x * 2.0**k.p, x).bits()
    biased = (i + (k.one_bits - k.sqrt_half_bits)) >> k.fraction_bits
    offset = -(k.magic + k.bias)
    e = int_as_float(biased) + where(subnormal, offset - k.p, offset)
    m = (i - ((biased - k.bias) << k.fraction_bits)).as_float()
    return m, e, biased


def log_pair(f: Value, f_low: Operand, e: Value | None, fine: bool = False) -> tuple[Value, Value]:
    """log(1 + f + f_low) + e log 2 as a pair, 1 + f in [sqrt(1/2), sqrt 2]; e = None is 0.

    Relative error about 2^-(p+12); with `fine`, 7 operations more, about 2^-(p+15).
    s = f / (2 + f), log(1 + f) = 2 s + s^3 (2/3 + z P(z)) with z = s^2, all as pairs.
    """
    k = f.format
    c = coefficients("atanh", k.p)
    d = f + 2.0
    d_low = (f - (d - 2.0)) + f_low
    s, s_low = div_pair(f, f_low, d, d_low)
    z = s * s
    z_low = fma(s + s, s_low, fma(s, s, -z))
    third, third_low = k.two_thirds
    if fine:
        g, g_low, slope = polynomial_pair(z, (third, *c), 2)
        g_low = fma(z_low, slope, g_low + third_low)
    else:
        g, g_low = fast_two_sum(s.const(third), z * polynomial(z, c))
        g_low = g_low + third_low
    q = z * g
    q_low = fma(z, g, -q) + fma(z, g_low, z_low * g)
    cube = s * q
    cube_low = fma(s, q, -cube) + fma(s, q_low, s_low * q)
    low = (s_low + s_low) + cube_low
    if e is None:
        h, error = fast_two_sum(s + s, cube)
        return fast_two_sum(h, error + low)
    h, error = fast_two_sum(e * k.log_2_short[0], s + s)
    h, error_2 = fast_two_sum(h, cube)
    return fast_two_sum(h, (error + error_2) + fma(e, k.log_2_short[1], low))


def log_fast(f: Value, f_low: Value | None, e: Value) -> tuple[Value, Value]:
    """log(1 + f + f_low) + e log 2 as a pair good to about a third of an ulp."""
    k = f.format
    z = f * f
    low = e * k.log_2_short[1]
    if f_low is not None:
        low = low + fma(f_low, -f, f_low)  # f_low / (1 + f)
    if k.p == 24:
        tail = fma(z, -0.5, fma(f, z * polynomial(f, coefficients("log", k.p)), low))
    else:
        s = f / (f + 2.0)
        w = s * s
        half_z = z * 0.5
        series = fma(w, polynomial(w, coefficients("atanh_short", k.p)), half_z)
        tail = fma(s, series, low) - half_z
    h, error = fast_two_sum(e * k.log_2_short[0], f)
    return h, error + tail


def _with_special_values(x: Value, y: Value) -> Value:
    """y = log x for ordinary x, and what a logarithm is elsewhere."""
    y = where(x.equals(inf), x, y)
    y = where(x.equals(0.0), -inf, y)
    return where((x < 0.0) | x.is_nan(), nan, y)


def log(x: Value) -> Value:
    """The natural logarithm of x."""
    m, e, _ = log_reduce(x)
    h, low = log_fast(m - 1.0, None, e)
    return _with_special_values(x, h + low)


def _log_of_base(x: Value, inverse: tuple[float, ...], unit: tuple[float, ...]) -> Value:
    """log(m) * inverse + e * unit, where `inverse` is 1 / log(base) and `unit` log_base(2)."""
    m, e, _ = log_reduce(x)
    h, low = log_pair(m - 1.0, 0.0, None)
    a = h * inverse[0]
    a_low = fma(h, inverse[0], -a) + fma(h, inverse[1], low * inverse[0])
    s, error = fast_two_sum(e * unit[0], a)
    if unit[1]:
        a_low = fma(e, unit[1], a_low)
    return _with_special_values(x, s + (error + a_low))


def log2(x: Value) -> Value:
    """The logarithm of x to base 2, exact for powers of two."""
    return _log_of_base(x, x.format.log2_e, (1.0, 0.0))


def log10(x: Value) -> Value:
    """The logarithm of x to base 10, exact for powers of ten."""
    return _log_of_base(x, x.format.log10_e, x.format.log10_2_short)


def log1p_pair(u: Value, u_low: Value | None, big: Value | None = None) -> tuple[Value, Value]:
    """log(1 + u + u_low) as a pair; where `big`, log(2 u) instead."""
    k = u.format
    limit = k.bias + 2 * k.p  # from this biased exponent on, the 1 of 1 + u does not matter
    w, lost = two_sum(u.const(1.0), u)
    if big is not None:
        w = where(big, u, w)
        lost = where(big, 0.0, lost)
        u_low = None if u_low is None else where(big, 0.0, u_low)
    m, e, biased = log_reduce(w)
    huge = biased > limit
    unscale = pow2(2 * k.bias - where(huge, limit, biased))
    f, f_low = fast_two_sum(m - 1.0, where(huge, 0.0, lost) * unscale)
    if u_low is not None:
        # Added after the renormalisation: `lost` may be all of f.
        f_low = f_low + where(huge, 0.0, u_low) * unscale
    if big is not None:
        e = where(big, e + 1.0, e)
    return log_fast(f, f_low, e)


def log1p(x: Value) -> Value:
    """log(1 + x), accurate near 0."""
    tiny = x.abs() < x.format.linear_below
    h, low = log1p_pair(where(tiny, 0.0, x), None)
    y = where(tiny, x, h + low)
    y = where(x.equals(inf), x, y)
    y = where(x.equals(-1.0), -inf, y)
    return where((x < -1.0) | x.is_nan(), nan, y)
