"""sin, cos and tan: reduction modulo pi/2, two polynomials, the quadrant by selects."""

from fgrad.lower.functions.coefficients import coefficients
from fgrad.lower.functions.pairs import div_pair, fast_two_sum, polynomial, xor_sign
from fgrad.lower.functions.reduction import reduce_half_pi
from fgrad.lower.functions.value import Value, fma, where


def sin_cos_kernel(r: Value, r_low: Value) -> tuple[Value, Value, Value, Value]:
    """sin, its low part, cos, its low part, for |r| <= 0.8; the sums are not normalised.

    sin r = r + r^3 S(r^2), cos r = 1 - r^2/2 + r^4 C(r^2), with the rounding errors of r^2 and of
    1 - r^2/2 put back.
    """
    p = r.format.p
    z = r * r
    z_low = fma(r, r, -z)
    sin_low = fma(z * r, polynomial(z, coefficients("sin", p)), r_low * fma(z, -0.5, 1.0))
    half_z = z * 0.5
    w = 1.0 - half_z
    correction = fma(z_low, -0.5, -(r * r_low))
    cos_tail = fma(z * z, polynomial(z, coefficients("cos", p)), correction)
    return r, sin_low, w, ((1.0 - w) - half_z) + cos_tail


def sin(x: Value) -> Value:
    """The sine of x radians, for every finite x."""
    k = x.format
    tiny = x.abs() < k.cubic_below
    r, r_low, n = reduce_half_pi(where(tiny, 0.0, x))
    s, s_low, c, c_low = sin_cos_kernel(r, r_low)
    odd = (n & 1).differs(0)
    y = where(odd, c + c_low, s + s_low)
    return where(tiny, x, xor_sign(y, (n & 2) << (k.width - 2)))


def cos(x: Value) -> Value:
    """The cosine of x radians, for every finite x."""
    k = x.format
    tiny = x.abs() < k.cubic_below
    r, r_low, n = reduce_half_pi(where(tiny, 0.0, x))
    s, s_low, c, c_low = sin_cos_kernel(r, r_low)
    odd = (n & 1).differs(0)
    y = where(odd, s + s_low, c + c_low)
    return xor_sign(y, ((n + 1) & 2) << (k.width - 2))


def tan(x: Value) -> Value:
    """The tangent of x radians, for every finite x: one pair over the other."""
    k = x.format
    tiny = x.abs() < k.cubic_below
    r, r_low, n = reduce_half_pi(where(tiny, 0.5, x))
    s, s_low, c, c_low = sin_cos_kernel(r, r_low)
    s, s_low = fast_two_sum(s, s_low)
    c, c_low = fast_two_sum(c, c_low)
    odd = (n & 1).differs(0)
    y, y_low = div_pair(
        where(odd, c, s), where(odd, c_low, s_low), where(odd, s, c), where(odd, s_low, c_low)
    )
    return where(tiny, x, xor_sign(y + y_low, (n & 1) << (k.width - 1)))
