"""x modulo pi/2 as a pair, for every x: a three-part pi/2, or the method of Payne and Hanek.

The latter is for large x. 2/pi is kept as integers of p bits. Of x 2/pi modulo 4 only five
consecutive ones matter; a barrel of selects picks them, so that there is no table and no gather.
"""

from fgrad.lower.functions.machine import Kind
from fgrad.lower.functions.pairs import (
    fast_two_sum,
    float_as_int,
    int_as_float,
    pow2,
    two_prod,
    two_sum,
)
from fgrad.lower.functions.value import Value, branch_any, fma, where

_CHUNKS = 5  # that matter for one x


def large_from(p: int) -> float:
    """From this |x| on the three-part reduction is not good enough."""
    return 2.0**16 if p == 24 else 2.0**36


def _reduce_medium(x: Value) -> tuple[Value, Value, Value]:
    """x - n pi/2 as a pair and n (only its low bits are valid), |x| < large_from(p)."""
    k = x.format
    shifted = fma(x, k.two_over_pi, k.magic)
    n = shifted - k.magic
    r = fma(n, -k.half_pi[0], x)  # exact
    product = n * k.half_pi[1]
    product_low = fma(n, k.half_pi[1], -product)
    h, error = two_sum(r, -product)
    low = fma(n, -k.half_pi[2], error - product_low)
    return (*fast_two_sum(h, low), shifted.bits())


def _chunks_from(first: Value, x: Value) -> list[Value]:
    """The five chunks of 2/pi from integer `first` on: a barrel shifter made of selects."""
    chunks = [x.const(c) for c in x.format.two_over_pi_chunks]
    step = 4 if x.format.p == 24 else 16
    while step:
        needed = min(_CHUNKS + step - 1, len(chunks))
        bit = (first & step).differs(0)
        chunks = [
            where(bit, chunks[i + step], chunks[i]) if i + step < len(chunks) else chunks[i]
            for i in range(needed)
        ]
        step >>= 1
    return chunks


def _modulo_4(h: Value) -> Value:
    return fma((h * 0.25).rint(), -4.0, h)


def _reduce_large(x: Value) -> tuple[Value, Value, Value]:
    """The same for |x| >= 2^(p+3) and good from large_from(p) on; NaN for infinities and NaN."""
    k = x.format
    p = k.p
    e = (x.bits() >> k.fraction_bits) & ((2 << (k.width - p - 1)) - 1)
    e_float = int_as_float(e) - (k.magic + k.bias + k.fraction_bits + 2)
    first = (e_float * (1.0 / p) - 0.495).rint()  # floor of e_float / p
    first = where(first > 0.0, first, 0.0)
    chunks = _chunks_from((first + k.magic).bits(), x)
    scaled = x * pow2(k.bias - float_as_int(first * float(p)))
    (a, a_low), (b, b_low), (c, c_low), (d, d_low), (last, _) = (
        two_prod(scaled * 2.0 ** (-p * (i + 1)), chunk) for i, chunk in enumerate(chunks)
    )
    # Quadrants: the leading products modulo 4, then the sum of all with a second level of errors.
    s, e1 = two_sum(_modulo_4(a), _modulo_4(a_low))
    s, e2 = two_sum(s, _modulo_4(b))
    s, e3 = two_sum(s, b_low)
    s, e4 = two_sum(s, c)
    n = s.rint()
    s = s - n
    t, f1 = two_sum(e1, e2)
    t, f2 = two_sum(t, e3)
    t, f3 = two_sum(t, e4)
    t, f4 = two_sum(t, c_low)
    t, f5 = two_sum(t, d)
    s, f6 = two_sum(s, t)
    rest = ((f1 + f2) + (f3 + f4)) + ((f5 + f6) + (d_low + last))
    s, s_low = fast_two_sum(s, rest)
    r, error = two_prod(s, x.const(k.half_pi[0]))
    low = error + fma(s, k.half_pi[1], s_low * k.half_pi[0])
    return (*fast_two_sum(r, low), (n + k.magic).bits())


def reduce_half_pi(x: Value) -> tuple[Value, Value, Value]:
    """x - n pi/2 as a pair, |r| <= 0.8, and an integer whose two low bits are those of n."""
    limit = large_from(x.format.p)
    large = ~(x.abs() < limit)  # also NaN
    r, r_low, n = branch_any(
        large,
        (Kind.FLOAT, Kind.FLOAT, Kind.INT),
        lambda: _reduce_large(where(large, x, limit)),
        lambda: _reduce_medium(where(large, 0.0, x)),
    )
    return r, r_low, n
