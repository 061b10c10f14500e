"""Error-free transformations, pairs, and the bit work on exponents.

A pair (h, l) is an unevaluated sum with |l| at most about one ulp of h: nearly twice the precision.
A pair must be normalised like that before it is divided, multiplied or handed to a logarithm.
Names in this room end in `_low` for the low part. Method: Dekker 1971, Knuth TAOCP 4.2.2.
"""

from collections.abc import Sequence

from fgrad.lower.functions.value import Operand, Value, fma, where


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error, exactly."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error, exactly if |a| >= |b| or a = 0."""
    s = a + b
    return s, b - (s - a)


def two_prod(a: Value, b: Value) -> tuple[Value, Value]:
    """a * b and its rounding error, exactly unless the error is subnormal."""
    p = a * b
    return p, fma(a, b, -p)


def div_pair(n: Value, n_low: Operand, d: Value, d_low: Value) -> tuple[Value, Value]:
    """(n + n_low) / (d + d_low) as a pair, with one division."""
    reciprocal = 1.0 / d
    q = n * reciprocal
    remainder = fma(-q, d, n) + fma(-q, d_low, n_low)
    return q, remainder * reciprocal


def sqrt_pair(v: Value, v_low: Operand) -> tuple[Value, Value]:
    """The square root of v + v_low as a pair; 0 at 0."""
    r = v.sqrt()
    safe = where(r.equals(0.0), 1.0, r)
    return r, (fma(-r, r, v) + v_low) * (0.5 / safe)


def polynomial(x: Value, c: Sequence[float]) -> Value:
    """c[0] + c[1] x + c[2] x^2 + ... by Horner's rule."""
    total = x.const(c[-1])
    for coefficient in reversed(c[:-1]):
        total = fma(total, x, coefficient)
    return total


def polynomial_pair(x: Value, c: Sequence[float], steps: int) -> tuple[Value, Value, Value]:
    """The polynomial as a pair, its last `steps` Horner steps compensated.

    In those steps |c[j]| must exceed the rest. The third value is the last inner value, which is
    about the polynomial's slope.
    """
    assert steps > 0
    inner = total = polynomial(x, c[steps:])
    low: Value | None = None
    for coefficient in reversed(c[:steps]):
        inner = total
        product, product_low = two_prod(x, total)
        total, error = fast_two_sum(x.const(coefficient), product)
        low = error + (product_low if low is None else fma(x, low, product_low))
    assert low is not None
    return total, low, inner


def pow2(e: Value) -> Value:
    """2^(e - bias) for a biased exponent e in 1..2 bias."""
    return (e << e.format.fraction_bits).as_float()


def scale(y: Value, n: Value) -> Value:
    """y * 2^n in two steps: only the second may round into the subnormals or overflow."""
    return scale_biased(y, n + 2 * y.format.bias)


def scale_biased(y: Value, e: Value) -> Value:
    """y * 2^(e - 2 bias) in two steps; of e, bits that cannot reach an exponent are ignored."""
    half = e >> 1  # of a positive number, so that no arithmetic shift is needed
    return y * pow2(half) * pow2(e - half)


def exponent_bits(x: Value) -> Value:
    """The biased exponent of x >= 0."""
    return x.bits() >> x.format.fraction_bits


def int_as_float(e: Value) -> Value:
    """magic + e as a float, for an integer 0 <= e < 2^(p-2): the caller subtracts the magic."""
    return (e | e.format.magic_bits).as_float()


def float_as_int(n: Value) -> Value:
    """The integer n of a float with an integral value, |n| < 2^(p-2)."""
    k = n.format
    return (n + k.magic).bits() - k.magic_bits


def xor_sign(y: Value, sign: Value) -> Value:
    """y with its sign flipped where the integer `sign` has the sign bit (its other bits are 0)."""
    return (y.bits() ^ sign).as_float()


def sign_bit(x: Value) -> Value:
    """The sign bit of x in place."""
    return x.bits() & x.format.sign_bit


def is_negative(x: Value) -> Value:
    """True where the sign bit is set, so also for -0."""
    return x.bits() < 0


def clamp_below(x: Value, limit: float) -> Value:
    """The smaller of x and limit; a NaN stays."""
    return where(x > limit, limit, x)
