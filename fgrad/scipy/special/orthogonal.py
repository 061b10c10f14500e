"""Bessel functions of integer order, spherical harmonics, Bernoulli numbers: families that recurrences give."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, note_user_line
from fgrad.lax.elementwise import float_node
from fgrad.numpy.common import broadcast, from_host, host, lift, need, public, size_of
from fgrad.scipy.special.common import like
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, and_, div, eq, lt, mul, neg, sub, where
from fgrad.uop.node import UOp

__all__ = ["bernoulli", "bessel_jn", "sph_harm_y"]


def bernoulli(n: int) -> Array:
    """[n + 1]: the Bernoulli numbers B_0 to B_n, with B_1 = -1/2.

    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    count = size_of(n, "bernoulli")
    numbers = [Fraction(1)]
    row = [Fraction(1)]  # of the triangle of Akiyama and Tanigawa, exact
    for m in range(1, count + 1):
        row.append(Fraction(1, m + 1))
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
        numbers.append(-row[0] if m == 1 else row[0])
    return from_host(np.array([float(b) for b in numbers]), dt.default_float())


@public(static=("v", "n_iter"))
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """[v + 1, *s]: the Bessel functions J_0(z) to J_v(z) of real z [*s].

    n_iter   the order at which the backward recurrence begins: more than v, and more than |z| by a third

    Source: DLMF 10.10.1, from the back.

    >>> bessel_jn(1.0, v=1)
    Array([0.7651977 , 0.44005057], dtype=float32, weak_type=True)
    """
    order, last = size_of(v, "bessel_jn"), size_of(n_iter, "bessel_jn")
    if last <= order:
        raise note_user_line(ArgumentError(f"bessel_jn: n_iter must be more than v = {order}, got {last}"))
    node, weak = float_node("bessel_jn", z)
    x = build.cast(node, dt.float64)
    # ratios of neighbours J_n / J_(n - 1), from the back (DLMF 10.10.1); J_0 + 2 (J_2 + J_4 + ..) = 1 sets the scale
    ratios = [build.zeros_like(x)]
    for n in range(last, 0, -1):
        below = sub(2.0 * n, mul(x, ratios[-1]))
        ratios.append(div(x, where(eq(below, 0), like(1e-300, x), below)))
    ratios.reverse()
    terms, total = [like(1, x)], like(1, x)
    for n in range(1, last + 1):
        terms.append(mul(terms[-1], ratios[n - 1]))
        if n % 2 == 0:
            total = add(total, mul(terms[-1], 2))
    rows = [build.reshape(build.cast(div(t, total), node.dtype), (1, *node.shape)) for t in terms[: order + 1]]
    return Tracer(build.concatenate(rows, 0), weak)


def _legendre(n: UOp, m: UOp, x: UOp, y: UOp, top: int) -> UOp:
    """The normalised Legendre function of degree n and order m >= 0 at (cos, sin) = (x, y), for n up to `top`."""
    value, before, last = (build.zeros_like(x) for _ in range(3))
    diagonal = like(math.sqrt(0.25 / math.pi), x)
    square = mul(m, m)
    for degree in range(top + 1):
        d = float(degree)
        if degree:
            diagonal = mul(mul(diagonal, y), -math.sqrt((2 * d + 1) / (2 * d)))
        above = lt(m, d)
        room = where(above, sub(d * d, square), like(1, x))
        grow = build.sqrt(div(4 * d * d - 1, room)) if degree else like(1, x)
        room = where(lt(m, d - 1), sub((d - 1) ** 2, square), build.zeros_like(x))
        shift = build.sqrt(div(room, 4 * (d - 1) ** 2 - 1 if degree > 1 else 1.0))
        climbed = mul(grow, sub(mul(x, last), mul(shift, before)))
        now = where(eq(m, d), diagonal, where(above, climbed, build.zeros_like(x)))
        before, last = last, now
        value = where(eq(n, d), now, value)
    return value


@public(static=("n_max",))
def _sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, n_max: int) -> Array:
    (polar, turn), kind, _ = promoted(theta, phi, least=dt.default_float())
    need(kind.is_float, "sph_harm_y", f"the angles are real numbers, not {kind}")
    degree, order = lift(n).node, lift(m).node
    need(degree.dtype.is_int and order.dtype.is_int, "sph_harm_y", "degree and order are integers")
    nodes = broadcast("sph_harm_y", *[build.cast(v, dt.float64) for v in (degree, order, polar, turn)])
    degree, order, polar, turn = nodes
    size = build.abs_(order)
    value = _legendre(degree, size, build.cos(polar), build.abs_(build.sin(polar)), n_max)
    odd = eq(sub(size, mul(build.floor(mul(size, 0.5)), 2)), 1)
    value = where(and_(lt(order, 0), odd), neg(value), value)  # the conjugate, with the sign of the order
    angle = mul(order, turn)
    out = build.complex_(mul(value, build.cos(angle)), mul(value, build.sin(angle)))
    return Tracer(build.cast(out, dt.complex_of(kind)))


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: int | None = None, n_max: int | None = None
) -> Array:
    """The spherical harmonic of degree n and order m (integers, |m| <= n), complex.

    theta   the polar angle, 0 to pi
    phi     the azimuth
    n_max   the largest degree; needed when `n` is traced

    >>> sph_harm_y(1, 0, 0.0, 0.0)
    Array(0.48860252+0.j, dtype=complex64)
    """
    if diff_n:
        raise NotImplementedError("sph_harm_y: diff_n is not there; use grad or jvp for derivatives")
    if n_max is None:
        degrees: Any = host(n, "sph_harm_y", "give n_max=, the largest degree")
        n_max = int(degrees.max(initial=0))
    return _sph_harm_y(n, m, theta, phi, size_of(n_max, "sph_harm_y"))
