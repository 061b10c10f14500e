"""Special functions that are also defined for complex numbers: gamma and its logarithm, Faddeeva's function.

Complex arguments are computed in complex128.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from fgrad.lax.special import Formula
from fgrad.numpy.common import need, public
from fgrad.scipy.special.common import horner, in_double, lgamma, like, unary
from fgrad.scipy.special.elementary import sign_of_gamma
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, and_, complex_, div, exp, log, lt, mul, neg, sub, where
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["erfcx", "gamma", "loggamma", "wofz"]


def _in_wide(f: Callable[[UOp], UOp]) -> Callable[[UOp], UOp]:
    """`f` computed in complex128."""
    return lambda z: build.cast(f(build.cast(z, dt.complex128)), z.dtype)


def _either(name: str, x: ArrayLike, real: Callable[[UOp], UOp], wide: Callable[[UOp], UOp]) -> Array:
    """One formula for real arguments, another for complex ones."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    return Tracer(wide(node), weak) if dtype.is_complex else unary(name, real, x)


# ---- gamma
_SHIFT = 16  # Stirling's formula is applied to arguments moved to the right by so much


def _log_sine(z: UOp) -> UOp:
    """log sin(pi z) for Im z >= 0, continued from the middle of (0, 1): linear but for what falls off upward."""
    turn = complex_(neg(mul(build.imag(z), math.pi)), mul(build.real(z), math.pi))  # i pi z
    fading = exp(mul(turn, 2))
    return add(sub(log(sub(1, fading)), turn), complex(-math.log(2), math.pi / 2))


def _log_gamma(z: UOp) -> UOp:
    """By Stirling's formula (DLMF 5.11.1) after a shift (DLMF 5.5.1); far to the left by reflection (DLMF 5.5.3)."""
    below = build.or_(lt(build.imag(z), 0), build.eq(uop(Op.COPYSIGN, (like(1, build.imag(z)), build.imag(z))), -1))
    up = complex_(build.real(z), build.abs_(build.imag(z)))
    is_left = lt(build.real(up), -6.0)
    mirrored = sub(1, up)
    y = where(is_left, mirrored, up)
    shifted = add(y, float(_SHIFT))
    square = div(1, mul(shifted, shifted))
    terms = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]
    stirling = div(horner(list(terms), square), shifted)
    value = add(sub(mul(sub(shifted, 0.5), log(shifted)), shifted), add(stirling, 0.5 * math.log(2 * math.pi)))
    for k in range(_SHIFT):
        value = sub(value, log(add(y, float(k))))
    reflected = sub(sub(math.log(math.pi), _log_sine(where(is_left, up, like(0.5, up)))), value)
    value = where(is_left, reflected, value)
    value = complex_(build.real(value), where(below, neg(build.imag(value)), build.imag(value)))
    real = build.real(z)
    pole = and_(and_(build.eq(build.imag(z), 0), build.le(real, 0)), build.eq(real, build.floor(real)))
    return where(pole, like(complex(math.nan, math.nan), z), value)


@public()
def loggamma(x: ArrayLike) -> Array:
    """The principal branch of the logarithm of gamma: real for x > 0 (NaN below), complex for complex numbers
    (where it is small, near 1 and 2, only to 15 places).

    Source: DLMF 5.11.1, 5.5.1 and 5.5.3.

    >>> loggamma(4.0)
    Array(1.7917595, dtype=float32, weak_type=True)
    """
    return _either("loggamma", x, lambda v: where(lt(v, 0), like(math.nan, v), lgamma(v)), _in_wide(_log_gamma))


def _gamma(x: UOp) -> UOp:
    value = mul(sign_of_gamma(x), exp(lgamma(x)))
    return where(build.eq(x, 0), div(1, x), value)


@public()
def gamma(x: ArrayLike) -> Array:
    """The gamma function, of real and complex numbers.

    >>> gamma(5.0)
    Array(24., dtype=float32, weak_type=True)
    """
    return _either("gamma", x, in_double(_gamma), _in_wide(lambda z: exp(_log_gamma(z))))


# ---- the scaled error functions
@lru_cache(maxsize=1)
def _weideman() -> tuple[float, list[float]]:
    """(L, coefficients) of the expansion of Weideman 1994, eq. 38, with 40 terms, the lowest power first."""
    n = 40
    scale = math.sqrt(n / math.sqrt(2))
    k = np.arange(-2 * n + 1, 2 * n)
    t = scale * np.tan(k * np.pi / (4 * n))
    values = np.concatenate([[0.0], np.exp(-(t**2)) * (scale**2 + t**2)])
    found = np.fft.fft(np.fft.fftshift(values)).real / (4 * n)
    return scale, found[1 : n + 1].tolist()


def _upper_faddeeva(z: UOp) -> UOp:
    """w(z) for Im z >= 0."""
    scale, coefficients = _weideman()
    iz = complex_(neg(build.imag(z)), build.real(z))
    below = sub(scale, iz)
    series = horner(list(coefficients), div(add(iz, scale), below))
    return add(div(mul(series, 2), mul(below, below)), div(1 / math.sqrt(math.pi), below))


def _faddeeva(z: UOp) -> UOp:
    """Below the real axis w(z) = 2 exp(-z^2) - w(-z) (DLMF 7.4.2)."""
    is_lower = lt(build.imag(z), 0)
    upper = _upper_faddeeva(where(is_lower, neg(z), z))
    low = where(is_lower, z, build.zeros_like(z))
    re, im = build.real(low), build.imag(low)
    # -z^2, without the cancellation of two large squares
    minus = complex_(mul(sub(im, re), add(im, re)), neg(mul(mul(re, im), 2)))
    return where(is_lower, sub(mul(exp(minus), 2), upper), upper)


def _faddeeva_slope(z: UOp) -> UOp:
    return add(neg(mul(mul(z, _faddeeva(z)), 2)), complex(0, 2 / math.sqrt(math.pi)))


_WOFZ = Formula("wofz", _in_wide(_faddeeva), (_in_wide(_faddeeva_slope),))


@public()
def wofz(z: ArrayLike) -> Array:
    """Faddeeva's function exp(-z^2) erfc(-i z), complex.

    Source: J. A. C. Weideman, SIAM J. Numer. Anal. 31 (1994), equation 38.

    >>> wofz(0j)
    Array(1.+0.j, dtype=complex64, weak_type=True)
    """
    (node,), dtype, weak = promoted(z, least=dt.default_float())
    need(dtype.is_inexact, "wofz", f"it is defined for numbers, not for {dtype}")
    return Tracer(_WOFZ.node(build.cast(node, dt.complex_of(dtype))), weak)


def _erfcx(x: UOp) -> UOp:
    """exp(x^2) erfc(x): the product up to 5, beyond a continued fraction from the back (DLMF 7.9.1)."""
    is_far = lt(5.0, x)
    near = where(is_far, build.zeros_like(x), x)
    far = where(is_far, x, like(6, x))
    tail = far
    for k in range(40, 0, -1):
        tail = add(far, div(k / 2, tail))
    return where(is_far, div(1 / math.sqrt(math.pi), tail), mul(exp(mul(near, near)), uop(Op.ERFC, (near,))))


_ERFCX = Formula(
    "erfcx",
    in_double(_erfcx),
    (in_double(lambda x: sub(mul(mul(x, _erfcx(x)), 2), 2 / math.sqrt(math.pi))),),
)


@public()
def erfcx(x: ArrayLike) -> Array:
    """exp(x^2) * erfc(x) of real and complex numbers, without overflow and underflow for positive x.

    Source: DLMF 7.9.1.

    >>> erfcx(100.0)
    Array(0.00564161, dtype=float32, weak_type=True)
    """
    return _either("erfcx", x, _ERFCX.node, lambda z: _WOFZ.node(complex_(neg(build.imag(z)), build.real(z))))
