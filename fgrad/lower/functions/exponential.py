"""exp, exp2 and expm1, and the pair e^x = (h + low) 2^n the other functions build on.

n = rint(x / log 2), r = x - n log 2: the first step of the subtraction is exact, because the result
is a multiple of an ulp that fits. Then e^r = 1 + r + r^2 P(r).
"""

from fgrad.lower.functions.coefficients import coefficients
from fgrad.lower.functions.pairs import (
    clamp_below,
    fast_two_sum,
    polynomial,
    pow2,
    scale,
    scale_biased,
    two_sum,
)
from fgrad.lower.functions.value import Operand, Value, fma, where


def _kernel(r: Value, r_low: Value | None, name: str) -> tuple[Value, Value]:
    """e^(r + r_low), |r| <= 0.3475, as a sum that is not normalised; `name` is the polynomial."""
    tail = polynomial(r, coefficients(name, r.format.p)) * r
    tail = tail * r if r_low is None else fma(tail, r, fma(r, r_low, r_low))
    h = r + 1.0
    return h, (r - (h - 1.0)) + tail


def _short_kernel(r: Value) -> tuple[Value, Value]:
    """As `_kernel` for one number r, in fewer steps; r^2 is never formed, so that it is never subnormal."""
    tail = polynomial(r, coefficients("exp_short", r.format.p)) * r
    h = r + 1.0
    return h, fma(tail, r, r - (h - 1.0))


def exp_pair(x: Value, x_low: Operand) -> tuple[Value, Value, Value]:
    """e^(x + x_low) = (h + low) 2^n with h in [0.7, 1.42): h, low and the integer n."""
    k = x.format
    shifted = fma(x, k.log2_e[0], k.magic)
    n = shifted - k.magic
    # The low part goes in only after renormalising: n log_2[1] may be many ulps of a small r.
    r, r_low = fast_two_sum(fma(n, -k.log_2[0], x), fma(n, -k.log_2[1], x_low))
    h, low = fast_two_sum(*_kernel(r, r_low, "exp"))
    return h, low, shifted.bits() - k.magic_bits


def exp(x: Value) -> Value:
    """e^x."""
    k = x.format
    under = x < k.exp_lowest
    y = clamp_below(where(under, 0.0, x), k.exp_highest)  # overflows in `scale`
    magic = k.magic + 2.0 * k.bias  # so that the last bits of the sum are n + 2 bias
    shifted = fma(y, k.log2_e[0], magic)
    n = shifted - magic
    r = fma(n, -k.log_2[1], fma(n, -k.log_2[0], y))
    h, low = _short_kernel(r)
    return where(under, 0.0, scale_biased(h + low, shifted.bits()))


def exp2(x: Value) -> Value:
    """2^x, exact for integers."""
    k = x.format
    under = x < -float(k.bias + k.fraction_bits)
    y = where(under | (x.abs() < k.linear_below), 0.0, x)
    y = clamp_below(y, k.bias + 1.0)
    shifted = y + k.magic
    fraction = y - (shifted - k.magic)
    r = fraction * k.log_2[0]
    r_low = fma(fraction, k.log_2[0], -r) + fraction * k.log_2[1]
    h, low = _kernel(r, r_low, "exp_short")
    result = scale(h + low, shifted.bits() - k.magic_bits)
    return where(under, 0.0, result)


def expm1_quarter(x: Value) -> tuple[Value, Value]:
    """(e^x - 1) / 4 as a pair, -40 <= x < 711; in quarters so that 2^n never overflows."""
    h, low, n = exp_pair(x, 0.0)
    power = pow2(n + (x.format.bias - 2))
    a, error = two_sum(h * power, x.const(-0.25))
    return fast_two_sum(a, error + low * power)


def expm1(x: Value) -> Value:
    """e^x - 1, accurate near 0."""
    k = x.format
    tiny = x.abs() < k.linear_below
    y = where(tiny, 0.0, x)
    y = where(y < -40.0, -40.0, y)
    a, _ = expm1_quarter(clamp_below(y, k.exp_highest))
    return where(tiny, x, a * 4.0)
