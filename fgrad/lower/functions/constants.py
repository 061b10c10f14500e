"""Mathematical constants of a float format, exact to the last bit.

pi, log 2 and log 10 come from Machin-like series in integer arithmetic, so that they can be cut
into as many parts as a function needs. A "pair" here is a constant as an unevaluated sum.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isqrt

_PI_BITS = 1400  # 2/pi must reach below the last bit of the largest float64: 1024 + 53 + guard
_LOG_BITS = 400

# The positive zero of digamma, and log(2 pi): decimal expansions.
_DIGAMMA_ROOT = Fraction("1.4616321449683623412626595423257213284681962040064")
_LOG_TWO_PI = Fraction("1.83787706640934548356065947281123527972279494727556682563430308")


def _inverse_series(k: int, bits: int, alternate: bool) -> Fraction:
    """atan(1/k) if the terms alternate, else atanh(1/k), to `bits` bits."""
    one = 1 << (bits + 32)
    term = total = one // k
    n, sign = 3, -1 if alternate else 1
    while term:
        term //= k * k
        total += sign * (term // n)
        n += 2
        sign = -sign if alternate else sign
    return Fraction(total, one)


@cache
def pi() -> Fraction:
    """pi by Machin's formula, 16 atan(1/5) - 4 atan(1/239)."""
    return 16 * _inverse_series(5, _PI_BITS, True) - 4 * _inverse_series(239, _PI_BITS, True)


@cache
def log_two() -> Fraction:
    """log 2 = 2 atanh(1/3)."""
    return 2 * _inverse_series(3, _LOG_BITS, False)


@cache
def log_ten() -> Fraction:
    """log 10 = 3 log 2 + 2 atanh(1/9), since 10 = 8 * 5/4."""
    return 3 * log_two() + 2 * _inverse_series(9, _LOG_BITS, False)


def _sqrt(q: Fraction, bits: int = 300) -> Fraction:
    return Fraction(isqrt((q.numerator << (2 * bits)) // q.denominator), 1 << bits)


def round_to(q: Fraction, p: int) -> float:
    """q rounded to p bits, ties to even (p <= 53, result in the normal range of float64)."""
    if q == 0:
        return 0.0
    size = abs(q)
    e = size.numerator.bit_length() - size.denominator.bit_length() - p
    while size / Fraction(2) ** e >= 2**p:
        e += 1
    while size / Fraction(2) ** e < 2 ** (p - 1):
        e -= 1
    rounded = float(round(size / Fraction(2) ** e) * Fraction(2) ** e)
    return rounded if q > 0 else -rounded


def cut(q: Fraction, *bits: int) -> tuple[float, ...]:
    """q as an unevaluated sum of floats of the given numbers of bits."""
    parts: list[float] = []
    for p in bits:
        parts.append(round_to(q, p))
        q -= Fraction(parts[-1])
    return tuple(parts)


@dataclass(frozen=True)
class Format:
    """Layout, thresholds and constants of a float format."""

    p: int  # bits of precision
    width: int
    bias: int
    fraction_bits: int
    smallest: float  # least normal number
    magic: float  # adding 1.5 * 2^(p-1) rounds to an integer
    magic_bits: int
    one_bits: int
    sqrt_half_bits: int
    sign_bit: int
    linear_below: float  # f(x) = x + c x^2 rounds to x below this
    cubic_below: float  # f(x) = x + c x^3 rounds to x below this
    exp_lowest: float  # e^x rounds to 0 below this
    exp_highest: float  # e^x overflows from here at the latest
    sinh_highest: float
    digamma_far: float  # the asymptotic series of digamma holds from here
    log2_e: tuple[float, ...]
    log10_e: tuple[float, ...]
    log_2: tuple[float, ...]
    log_2_short: tuple[float, ...]  # the head times an exponent is exact
    log10_2_short: tuple[float, ...]
    pi: tuple[float, ...]
    half_pi: tuple[float, ...]  # three parts
    quarter_pi: tuple[float, ...]
    two_over_pi: float
    two_over_pi_chunks: tuple[float, ...]  # integers of p bits, most significant first
    two_over_sqrt_pi: tuple[float, ...]
    two_thirds: tuple[float, ...]
    half_log_two_pi_minus_half: float
    digamma_root: tuple[float, ...]
    digamma_root_minus_one: tuple[float, ...]


@cache
def format_of(p: int) -> Format:
    """The format with p bits of precision: 24 (float32) or 53 (float64)."""
    assert p in (24, 53), f"no float format with {p} bits of precision"
    single = p == 24
    bias, f = (127, 23) if single else (1023, 52)
    short = p - (9 if single else 12)  # bits of an exponent, with one to spare
    two_over_pi = 2 / pi()
    chunks = 9 if single else 24
    return Format(
        p=p,
        width=32 if single else 64,
        bias=bias,
        fraction_bits=f,
        smallest=2.0 ** (1 - bias),
        magic=1.5 * 2.0**f,
        magic_bits=((bias + f) << f) | (1 << (f - 1)),
        one_bits=bias << f,
        sqrt_half_bits=0x3F3504F3 if single else 0x3FE6A09E667F3BCD,
        sign_bit=1 << (31 if single else 63),
        linear_below=2.0 ** -(p + 2),
        cubic_below=2.0 ** -(p // 2 + 1),
        exp_lowest=float(-log_two() * (bias + f)),
        exp_highest=89.0 if single else 710.0,
        sinh_highest=89.6 if single else 710.6,
        digamma_far=4.0 if single else 6.0,
        log2_e=cut(1 / log_two(), p, p),
        log10_e=cut(1 / log_ten(), p, p),
        log_2=cut(log_two(), p, p),
        log_2_short=cut(log_two(), short, p),
        log10_2_short=cut(log_two() / log_ten(), short, p),
        pi=cut(pi(), p, p),
        half_pi=cut(pi() / 2, p, p, p),
        quarter_pi=cut(pi() / 4, p, p),
        two_over_pi=round_to(two_over_pi, p),
        two_over_pi_chunks=tuple(
            float((two_over_pi.numerator << (p * (j + 1))) // two_over_pi.denominator & (2**p - 1))
            for j in range(chunks)
        ),
        two_over_sqrt_pi=cut(2 / _sqrt(pi()), p, p),
        two_thirds=cut(Fraction(2, 3), p, p),
        half_log_two_pi_minus_half=round_to(_LOG_TWO_PI / 2 - Fraction(1, 2), p),
        digamma_root=cut(_DIGAMMA_ROOT, p, p),
        digamma_root_minus_one=cut(_DIGAMMA_ROOT - 1, p, p),
    )
