"""lgamma and digamma: a polynomial near 2, shifts, an asymptotic series, reflection below 0."""

from math import inf, nan

from fgrad.lower.functions.coefficients import coefficients
from fgrad.lower.functions.logarithm import log_pair, log_reduce
from fgrad.lower.functions.pairs import (
    clamp_below,
    div_pair,
    fast_two_sum,
    polynomial,
    pow2,
    sign_bit,
    two_prod,
    two_sum,
    xor_sign,
)
from fgrad.lower.functions.trigonometric import sin_cos_kernel
from fgrad.lower.functions.value import Value, fma, where

_LGAMMA_FAR = 8.0  # Stirling's series holds from here


def _sin_cos_pi(a: Value) -> tuple[Value, Value, Value, Value, Value]:
    """r = a - rint(a), and the pairs sin(pi |r|), cos(pi r)."""
    k = a.format
    r = a - a.rint()
    u = r.abs()
    swap = u > 0.25
    v = where(swap, 0.5 - u, u)
    angle, angle_low = two_prod(v, a.const(k.pi[0]))
    s, s_low, c, c_low = sin_cos_kernel(angle, fma(v, k.pi[1], angle_low))
    s, s_low = fast_two_sum(s, s_low)
    c, c_low = fast_two_sum(c, c_low)
    return (
        r,
        where(swap, c, s),
        where(swap, c_low, s_low),
        where(swap, s, c),
        where(swap, s_low, c_low),
    )


def _lgamma_positive(a: Value) -> tuple[Value, Value, Value]:
    """lgamma(a) for 0 < a < inf as a head and a rest, and the sum to return for positive a.

    Below 8 it is u Q(u) with u = a - 2 (or the shift of a that lies in [-1/2, 1/2]), minus the
    logarithm of a or a (a + 1), or plus that of the product (a - 1) (a - 2) ...; from 8 on it is
    Stirling's series. One logarithm serves all.
    """
    k = a.format
    far = a >= _LGAMMA_FAR
    lowest, low = a < 0.5, a < 1.5
    tiny = a < 2.0 ** -(k.p + 8)
    near = where(far, 2.0, a)
    small = where(tiny, 0.0, a)
    u = where(lowest, small, where(low, near - 1.0, near - near.rint()))
    product = where(lowest, fma(small, small, a), where(low, near, 1.0))
    for j in range(1, 7):
        product = where(near.rint() >= j + 2.0, product * (near - float(j)), product)
    m, e, _ = log_reduce(where(far, a, product))
    log_h, log_low = log_pair(m - 1.0, 0.0, e)

    c = coefficients("lgamma", k.p)
    q, q_low = two_prod(u, a.const(c[0]))
    q, q_low = fast_two_sum(q, fma(u * u, polynomial(u, c[1:]), q_low))
    near_h, error = two_sum(q, where(low, -log_h, log_h))
    rest = q_low + where(low, -log_low, log_low) + u * coefficients("lgamma_low", k.p)[0]
    near_low = error + rest

    # Stirling: (a - 1/2) (log a - 1) + log(2 pi) / 2 - 1/2 + P(1/a^2) / a
    huge = a > 2.0 ** (k.p + 4)
    w = 1.0 / where(far & ~huge, a, _LGAMMA_FAR)
    t = a - 0.5
    g, g_low = fast_two_sum(log_h, a.const(-1.0))
    g_low = g_low + log_low
    far_h = t * g
    series = k.half_log_two_pi_minus_half + w * polynomial(w * w, coefficients("stirling", k.p))
    far_low = where(huge, 0.0, fma(t, g, -far_h) + t * g_low + series)
    h = where(far, far_h, near_h)
    rest = where(far, far_low, near_low)
    return h, rest, h + rest


def lgamma(x: Value) -> Value:
    """log |gamma(x)|; infinite at the poles.

    Below 0, by reflection, log(pi / (|x| sin(pi |x|))) - lgamma|x|: absolute accuracy near zeros.
    """
    k = x.format
    magnitude = x.abs()
    special = ~(magnitude < inf) | magnitude.equals(0.0)
    a = where(special, 1.0, magnitude)
    h, low, positive = _lgamma_positive(a)

    negative = x < -(2.0 ** -(k.p + 8))
    b = where(negative, a, 0.5)
    r, s, s_low, _, _ = _sin_cos_pi(b)
    pole = r.equals(0.0)
    s = where(pole, 1.0, s)
    b = where(pole, 1.0, b)
    d, d_low = two_prod(b, s)
    q, q_low = div_pair(x.const(k.pi[0]), k.pi[1], d, fma(b, s_low, d_low))
    m, e, biased = log_reduce(q)
    f, f_low = fast_two_sum(m - 1.0, q_low * pow2(2 * k.bias - biased))
    log_h, log_low = log_pair(f, f_low, e)
    s1, error = two_sum(log_h, -h)
    reflected = s1 + (error + (log_low - low))
    y = where(negative, where(pole, inf, reflected), positive)
    return where(x.is_nan(), x, where(special, inf, y))


def _harmonic_shift(v: Value) -> tuple[Value, Value, Value]:
    """The sum of 1 / (v - j), j = 1 .. s, as a fraction n / d, and v - s in [1, 2) for v >= 1."""
    steps = range(1, int(v.format.digamma_far) - 1)
    n, d, shift = v.const(0.0), v.const(1.0), v.const(0.0)
    for j in steps:
        taken = v >= j + 1.0
        f = v - float(j)
        n = where(taken, fma(n, f, d), n)
        d = where(taken, d * f, d)
        shift = where(taken, float(j), shift)
    return n, d, v - shift


def digamma(x: Value) -> Value:
    """The derivative of lgamma; NaN at the negative poles, -+infinite at +-0.

    On [1, 2] it is (x - x0) D(x - 3/2) with the zero x0 as a pair; below 1, and up to 4 (float64:
    6), a fraction is added; beyond, log x - 1/(2x) - P(1/x^2)/x^2. Below 0: 1/|x| + pi cot(pi |x|)
    is added.
    """
    k = x.format
    magnitude = x.abs()
    special = ~(magnitude < inf)
    tiny = magnitude < 2.0 ** -(k.p + 8)
    a = where(special | tiny, 1.0, magnitude)
    far = a >= k.digamma_far
    negative = x < 0.0
    low = a < 1.0
    v = where(far, 1.5, a)
    n, d, base = _harmonic_shift(v)
    u = where(low, v - 0.5, base - 1.5)
    root, root_m1 = k.digamma_root, k.digamma_root_minus_one
    distance = where(low, (v - root_m1[0]) - root_m1[1], (base - root[0]) - root[1])
    c = coefficients("digamma", k.p)
    c_low = coefficients("digamma_low", k.p)[0]
    near = distance * (fma(u, polynomial(u, c[1:]), c_low) + c[0])
    # One division: n/d, or -1/a below 1, with the 1/|x| of negative x in it: these cancel below 1.
    fraction_n = where(low, where(negative, 0.0, -1.0), where(negative, fma(n, v, d), n))
    fraction_d = where(low, v, where(negative, d * v, d))

    big = where(far, a, 8.0)
    w = 1.0 / clamp_below(big, 2.0 ** (k.p + 8))
    w2 = w * w
    m, e, _ = log_reduce(big)
    log_h, log_low = log_pair(m - 1.0, 0.0, e)
    half = where(negative, w * 0.5, w * -0.5)  # -1/(2a), and the 1/|x| of negative x
    series = log_low + half - w2 * polynomial(w2, coefficients("digamma_far", k.p))
    y = where(far, log_h, near)
    y_low = where(far, series, fraction_n / fraction_d)

    r, s, s_low, cos, cos_low = _sin_cos_pi(where(negative, a, 0.25))
    pole = r.equals(0.0)
    q, q_low = div_pair(cos, cos_low, where(pole, 1.0, s), s_low)
    cot = q * k.pi[0]
    cot_low = fma(q, k.pi[0], -cot) + (q_low * k.pi[0] + q * k.pi[1])
    sign = sign_bit(r)
    s1, error = two_sum(y, xor_sign(cot, sign))
    reflected = s1 + (error + (y_low + xor_sign(cot_low, sign)))
    y = where(negative, reflected, y + y_low)
    y = where(negative & pole, nan, y)
    y = where(tiny, -1.0 / where(tiny, x, 1.0), y)
    return where(special, where(x.equals(inf), x, nan), y)
