"""erf, erfc and erfinv.

erfc's tail: G(t) = (x + 2.5) e^(x^2) erfc x in t = (x - 2.5) / (x + 2.5), one polynomial on the
whole range (Shepherd and Laframboise 1981). erfinv: the variable w = -log(1 - x^2) (Giles 2010).
"""

from math import inf, nan

from fgrad.lower.functions.coefficients import coefficients
from fgrad.lower.functions.exponential import exp_pair
from fgrad.lower.functions.logarithm import log
from fgrad.lower.functions.pairs import (
    clamp_below,
    fast_two_sum,
    polynomial,
    polynomial_pair,
    pow2,
    scale,
    two_prod,
    two_sum,
)
from fgrad.lower.functions.value import Value, fma, where

_SHIFT = 2.5


def _erfc_tail(a: Value) -> tuple[Value, Value, Value]:
    """erfc(a) = (h + low) 2^n for a in [0.49, where erfc rounds to 0]."""
    p = a.format.p
    d, d_low = two_sum(a, a.const(_SHIFT))
    n, n_low = two_sum(a, a.const(-_SHIFT))
    reciprocal = 1.0 / d
    t = n * reciprocal
    t_low = (fma(-t, d, n) + fma(-t, d_low, n_low)) * reciprocal
    g, g_low, slope = polynomial_pair(t, coefficients("erfcx", p), 3)
    g_low = g_low + fma(t_low, slope, coefficients("erfcx_low", p)[0])
    w = g * reciprocal
    w_low = (fma(-w, d, g) + fma(-w, d_low, g_low)) * reciprocal
    square, square_low = two_prod(a, a)
    h, low, power = exp_pair(-square, -square_low)
    y = w * h
    return y, fma(w, h, -y) + fma(w, low, w_low * h), power


def _lift(x: Value, tiny: Value) -> tuple[Value, Value]:
    """Factors that carry tiny lanes away from the subnormals and back: c x may be subnormal."""
    up = 2.0 ** (2 * x.format.p + 16)
    return where(tiny, up, 1.0), where(tiny, 1 / up, 1.0)


def erf(x: Value) -> Value:
    """The error function of x."""
    k = x.format
    a = x.abs()
    tiny = a < 2.0 ** -(k.p + 8)
    up, down = _lift(x, tiny)
    v = x * up
    y = clamp_below(where(tiny, 0.0, a), 0.5)
    z = y * y
    c, c_low = k.two_over_sqrt_pi
    series = fma(z, polynomial(z, coefficients("erf", k.p)), c_low)
    centre = (fma(v, c, v * series) * down).copysign(x)
    big = a > 0.5
    b = clamp_below(where(big, a, 1.0), 4.2 if k.p == 24 else 6.2)
    h, low, n = _erfc_tail(b)
    power = pow2(n + k.bias)
    q, error = fast_two_sum(x.const(1.0), h * -power)
    return where(big, (q + (error - low * power)).copysign(x), centre)


def erfc(x: Value) -> Value:
    """1 - erf(x), relatively accurate down to the subnormal results."""
    k = x.format
    a = x.abs()
    y = where(a < k.linear_below, 0.0, x)
    y = where(y.abs() > 0.5, 0.5, y)
    z = y * y
    c, c_low = k.two_over_sqrt_pi
    product, product_low = two_prod(y, x.const(c))
    series = fma(z, polynomial(z, coefficients("erf", k.p)), c_low)
    product_low = product_low + y * series
    h, error = fast_two_sum(x.const(1.0), -product)
    centre = h + (error - product_low)
    out = a > (10.06 if k.p == 24 else 27.23)
    big = a > 0.5
    tail, tail_low, n = _erfc_tail(where(out, 1.0, where(big, a, 0.5)))
    tail = where(out, 0.0, tail)
    tail_low = where(out, 0.0, tail_low)
    negative = x < 0.0
    power = pow2(where(n < -64, -64, n) + k.bias)
    q, error = fast_two_sum(x.const(2.0), tail * -power)
    mirrored = q + (error - tail_low * power)
    outer = where(negative, mirrored, scale(tail + tail_low, where(negative, 0, n)))
    return where(x.is_nan(), x, where(big, outer, centre))


def _head_and_rest(v: Value, name: str) -> tuple[Value, Value]:
    """Polynomial `name` at v as a pair; its first coefficient dominates."""
    c = coefficients(name, v.format.p)
    c_low = coefficients(name + "_low", v.format.p)[0]
    return fast_two_sum(v.const(c[0]), fma(v, polynomial(v, c[1:]), c_low))


def erfinv(x: Value) -> Value:
    """The inverse of erf: x P(w) in the centre, x P(sqrt w - c) in one or two tail pieces."""
    k = x.format
    single = k.p == 24
    a = x.abs()
    tiny = a < 2.0 ** -(k.p + 8)
    up, down = _lift(x, tiny)
    y = where(tiny | (a >= 1.0), 0.0, a)
    w = -log((1.0 - y) * (y + 1.0))
    cut = 5.0 if single else 6.25
    far = w > cut
    root = where(far, w, cut).sqrt()
    centre, centre_low = _head_and_rest(w, "erfinv_centre")
    tail, tail_low = _head_and_rest(root - (3.0 if single else 3.25), "erfinv_tail")
    if not single:
        end, end_low = _head_and_rest(root - 5.0, "erfinv_end")
        at_end = w > 16.0
        tail = where(at_end, end, tail)
        tail_low = where(at_end, end_low, tail_low)
    v = x * up
    r = fma(v, where(far, tail, centre), v * where(far, tail_low, centre_low)) * down
    r = r.copysign(x)
    r = where(a.equals(1.0), x.const(inf).copysign(x), r)
    return where((a > 1.0) | x.is_nan(), nan, r)
