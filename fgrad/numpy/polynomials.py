"""Polynomials as vectors of coefficients (highest power first), and interpolation on a line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.blocks import adjoint, mm
from fgrad.numpy.common import axis_of, from_host, host, lift, need, public, size_of
from fgrad.numpy.creation import listed
from fgrad.numpy.differences import convolve
from fgrad.numpy.elementwise import magnitude
from fgrad.numpy.repeating import trim_zeros
from fgrad.numpy.running import prefix
from fgrad.numpy.searching import count_before
from fgrad.numpy.solves import inv
from fgrad.numpy.spectra import eigvals
from fgrad.numpy.systems import lstsq
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "interp", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul",
    "polysub", "polyval", "roots", "unwrap",
]  # fmt: skip


def _coefficients(name: str, p: Any) -> Tracer:
    t = listed(p)
    if t.ndim > 1:
        raise note_user_line(ShapeError(f"{name}: coefficients are a vector, got shape {t.shape}"))
    return Tracer(build.reshape(t.node, (t.size,)), t.weak)


@public(static=("unroll",))
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """p[0] * x**(n-1) + .. + p[n-1], by Horner's rule.

    >>> polyval(array([1., 0., 2.]), 3.)
    Array(11., dtype=float32)
    """
    (c, v), _, weak = promoted(_coefficients("polyval", p), listed(x))
    out = build.zeros_like(v)
    for k in range(c.size):
        term = build.broadcast_to(build.reshape(build.slice_axis(c, 0, k, k + 1), ()), v.shape)
        out = term if k == 0 else build.add(build.mul(out, v), term)
    return Tracer(out, weak)


def _aligned(name: str, a1: Any, a2: Any) -> tuple[UOp, UOp, bool]:
    (x, y), _, weak = promoted(_coefficients(name, a1), _coefficients(name, a2))
    n = max(x.size, y.size)
    return build.pad(x, [(n - x.size, 0, 0)]), build.pad(y, [(n - y.size, 0, 0)]), weak


@public()
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    Coefficients stand highest power first; the shorter one is padded in front.

    >>> polyadd(array([1, 2]), array([1, 0, 0]))
    Array([1, 1, 2], dtype=int64)
    """
    x, y, weak = _aligned("polyadd", a1, a2)
    return Tracer(build.add(x, y), weak)


@public()
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    Coefficients stand highest power first; the shorter one is padded in front.

    >>> polysub(array([1, 2]), array([1, 0, 0]))
    Array([-1,  1,  2], dtype=int64)
    """
    x, y, weak = _aligned("polysub", a1, a2)
    return Tracer(build.sub(x, y), weak)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    trim_leading_zeros   drops them from the factors first, which must then be concrete

    Highest power first.

    >>> polymul(array([1, 2]), array([1, 3]))
    Array([1, 5, 6], dtype=int64)
    """
    if trim_leading_zeros:
        a1, a2 = trim_zeros(a1, "f"), trim_zeros(a2, "f")
    return _polymul(a1, a2)


@public()
def _polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    return convolve(_coefficients("polymul", a1), _coefficients("polymul", a2), "full")


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """(quotient, remainder) of two polynomials; v[0] must not be zero.

    trim_leading_zeros   drops them from the remainder, as NumPy does; then `u` and `v` must be concrete

    >>> polydiv(array([1.0, 3.0, 2.0]), array([1.0, 1.0]))
    (Array([1., 2.], dtype=float32), Array([0.], dtype=float32))
    """
    quotient, rest = _polydiv(u, v)
    if trim_leading_zeros and rest.size:
        kept = trim_zeros(rest, "f")
        rest = kept if kept.size else rest[-1:]
    return quotient, rest


@public()
def _polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    (x, y), dtype, weak = promoted(_coefficients("polydiv", u), _coefficients("polydiv", v), least=dt.default_float())
    n, m = x.size, y.size
    if n < m:
        return Tracer(build.const(0, dtype, (1,))), Tracer(x, weak)
    lead = build.reshape(build.slice_axis(y, 0, 0, 1), ())
    quotient = []
    for k in range(n - m + 1):
        c = build.div(build.reshape(build.slice_axis(x, 0, k, k + 1), ()), lead)
        quotient.append(build.reshape(c, (1,)))
        step = build.mul(build.broadcast_to(c, (m,)), y)
        x = build.sub(x, build.pad(step, [(k, n - m - k, 0)]))
    rest = build.slice_axis(x, 0, n - m + 1, n) if m > 1 else build.slice_axis(x, 0, n - 1, n)
    return Tracer(build.concatenate(quotient, 0), weak), Tracer(rest, weak)


@public(static=("m",))
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The coefficients of the m-th derivative.

    Highest power first. Raises ValueError for negative m.

    >>> polyder(array([1.0, 2.0, 3.0]))
    Array([2., 2.], dtype=float32)
    """
    if m < 0:
        raise note_user_line(ValueError(f"polyder: m must not be negative, got {m}"))
    t = _coefficients("polyder", p)
    x = t.node
    for _ in range(m):
        n = x.size
        power = build.cast(
            build.sub(build.const(n - 1, dt.int64, (max(n - 1, 0),)), build.iota(max(n - 1, 0))),
            x.dtype,
        )
        x = build.mul(build.slice_axis(x, 0, 0, max(n - 1, 0)), power)
    return Tracer(x, t.weak)


@public(static=("m",))
def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> Array:
    """The coefficients of the m-th integral; k are the constants of integration (0).

    Highest power first; one constant, or one for each integration, the first one first.

    >>> polyint(array([3.0, 2.0]), k=5)
    Array([1.5, 2. , 5. ], dtype=float32)
    """
    if m < 0:
        raise note_user_line(ValueError(f"polyint: m must not be negative, got {m}"))
    (x,), dtype, weak = promoted(_coefficients("polyint", p), least=dt.default_float())
    given = _coefficients("polyint", 0 if k is None else k).node
    constants = build.broadcast_to(given if given.size != 1 else build.reshape(given, ()), (m,))
    for step in range(m):
        n = x.size
        power = build.cast(build.sub(build.const(n, dt.int64, (n,)), build.iota(n)), dtype)
        last = build.cast(build.slice_axis(constants, 0, step, step + 1), dtype)
        x = build.concatenate([build.div(x, power), last], 0)
    return Tracer(x, weak)


@public()
def poly(seq_of_zeros: ArrayLike) -> Array:
    """The coefficients of the polynomial with these zeros.

    The leading coefficient is 1. Matrices raise NotImplementedError: give their eigenvalues.

    >>> poly(array([1.0, 2.0]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    (z,), dtype, weak = promoted(listed(seq_of_zeros), least=dt.default_float())
    if z.ndim != 1:
        raise NotImplementedError("poly of a matrix needs its eigenvalues; give the zeros as a vector")
    out = build.const(1, dtype, (1,))
    for k in range(z.size):
        zero = build.broadcast_to(build.slice_axis(z, 0, k, k + 1), out.shape)
        out = build.sub(build.pad(out, [(0, 1, 0)]), build.pad(build.mul(out, zero), [(1, 0, 0)]))
    return Tracer(out, weak)


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The complex zeros of a polynomial.

    strip_zeros   leading zeros of `p` make fewer roots, so `p` must be concrete. With False there are always
                  len(p) - 1 of them, also inside a stage, with NaN for those that leading zeros take away

    >>> roots(array([1.0, -3.0, 2.0]))
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    if not strip_zeros:
        return _all_roots(p)
    data = host(p, "roots", "its number of leading zeros depends on values; use strip_zeros=False", carries=True)
    kind = dt.to_dtype(data.dtype)
    out = np.roots(data)
    return from_host(out.astype(dt.complex_of(kind if kind.is_inexact else dt.default_float()).np))


@public()
def _all_roots(p: ArrayLike) -> Array:
    """Eigenvalues of the companion matrix of what is left without leading and trailing zeros, at the upper left."""
    (c,), dtype, _ = promoted(_coefficients("roots", p), least=dt.default_float())
    n = c.size - 1
    if n < 1:
        return Tracer(build.const(0, dt.complex_of(dtype), (0,)))
    wide = dt.complex128 if c.dtype.is_complex else dt.float64
    c = build.cast(c, wide)
    i = build.iota(n + 1)
    held = build.ne(c, build.zeros_like(c))
    first = build.reduce_(build.where(held, i, build.const_like(n + 1, i)), (0,), Op.MIN)
    last = build.reduce_(build.where(held, i, build.const_like(-1, i)), (0,), Op.MAX)
    moved = build.gather(c, build.add(i, first))  # 0 behind the end
    lead = build.broadcast_to(build.slice_axis(moved, 0, 0, 1), (n,))
    lead = build.where(build.eq(lead, build.zeros_like(lead)), build.const_like(1, lead), lead)
    row = build.neg(build.div(build.slice_axis(moved, 0, 1, n + 1), lead))
    down, across = build.iota_along((n, n), 0), build.iota_along((n, n), 1)
    inside = build.and_(build.eq(down, build.add(across, 1)), build.lt(down, build.sub(last, first)))
    matrix = build.update(build.cast(inside, wide), build.reshape(row, (1, n)), box=[(0, 1, 1), (0, n, 1)])
    w = eigvals(matrix)
    zero = build.eq(w, build.zeros_like(w))
    gone = build.and_(zero, build.le(prefix(build.cast(zero, dt.int64), 0, Op.ADD), first))
    w = build.where(gone, build.const_like(complex(math.nan, math.nan), w), w)
    return Tracer(build.cast(w, dt.complex_of(dtype)))


@public(static=("deg", "full", "cov"))
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: ArrayLike | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: Any = False,
) -> Any:
    """The polynomial of degree `deg` through points that has the least squared errors: [n], [n] or [n, k] ->
    [deg + 1] or [deg + 1, k].

    rcond   singular values below rcond times the largest do not count; n * eps of the dtype by default
    full    -> (coefficients, residuals, rank, singular values, rcond). The residuals have their full shape
            whatever the rank
    w       weights of the (not squared) errors
    cov     -> (coefficients, their covariance), scaled by chi2 / (n - deg - 1); "unscaled": not scaled

    Computed in double precision.

    >>> polyfit(array([0.0, 1.0, 2.0]), array([1.0, 3.0, 5.0]), 1)
    Array([2., 1.], dtype=float32)
    """
    order = size_of(deg, "polyfit") + 1
    given = [listed(x), listed(y)] + ([] if w is None else [listed(w)])
    nodes, dtype, _ = promoted(*given, least=dt.default_float())
    n = nodes[0].size
    if nodes[0].ndim != 1 or nodes[1].ndim not in (1, 2) or not n or any(v.shape[:1] != (n,) for v in nodes[1:]):
        raise note_user_line(
            ShapeError(
                f"polyfit takes points [n], values [n] or [n, k], and weights [n], got {[v.shape for v in nodes]}"
            )
        )
    wide = dt.complex128 if dtype.is_complex else dt.float64
    at, values, *weights = [build.cast(v, wide) for v in nodes]
    powers = [build.const_like(1, at)]
    for _ in range(order - 1):
        powers.append(build.mul(powers[-1], at))
    left = build.concatenate([build.reshape(v, (n, 1)) for v in reversed(powers)], 1)
    for v in weights:
        left = build.mul(left, build.expand(v, [(1, order)]))
        values = build.mul(values, build.broadcast_to(build.reshape(v, (n,) + (1,) * (values.ndim - 1)), values.shape))
    size = magnitude(left)
    scale = build.sqrt(build.reduce_(build.mul(size, size), (0,)))  # of the columns, to be well conditioned
    scale = build.where(build.eq(scale, 0), build.const_like(1, scale), scale)
    left = build.div(left, build.cast(build.expand(scale, [(0, n)]), wide))
    limit = build.const(n * float(np.finfo(dt.real_of(dtype).np).eps), dt.float64)
    limit = limit if rcond is None else cast_node(rcond, dt.float64)
    found, residuals, rank, s = [lift(v).node for v in lstsq(Tracer(left), Tracer(values), Tracer(limit))]
    columns = build.cast(scale, wide)
    found = build.div(found, columns if found.ndim == 1 else build.expand(columns, [(1, found.shape[1])]))
    result = Tracer(build.cast(found, dtype))
    real = dt.real_of(dtype)
    if full:
        return (result, *[Tracer(build.cast(v, real)) for v in (residuals,)], Tracer(rank),
                Tracer(build.cast(s, real)), Tracer(build.cast(limit, real)))  # fmt: skip
    if not cov:
        return result
    base = inv(mm(adjoint(left), left))
    outer = build.mul(build.expand(columns, [(1, order)]), build.expand(columns, [(0, order)]))
    base = build.div(base, outer)
    if cov != "unscaled":
        if n <= order:
            raise note_user_line(
                ValueError(f"polyfit: {n} points are too few to scale the covariance of {order} coefficients")
            )
        factor = build.cast(build.div(residuals, n - order), wide)
        if values.ndim == 1:
            base = build.mul(base, build.broadcast_to(build.reshape(factor, ()), base.shape))
        else:
            k = values.shape[1]
            base = build.mul(build.expand(base, [(2, k)]), build.expand(factor, [(0, order), (1, order)]))
    elif values.ndim == 2:
        base = build.reshape(base, (order, order, 1))
    return result, Tracer(build.cast(base, dtype))


# ---- on a line
@public(static=("left", "right"))
def _interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    period: ArrayLike | None,
    left: Any,
    right: Any,
    ends: Any,
) -> Array:
    (at, points, values), dtype, weak = promoted(listed(x), listed(xp), listed(fp), least=dt.default_float())
    need(not points.dtype.is_complex or values.dtype.is_complex, "interp", "the points must be real")
    if points.ndim != 1 or values.shape != points.shape or not points.size:
        raise note_user_line(
            ShapeError(f"interp: xp and fp are vectors of one size, got shapes {points.shape} and {values.shape}")
        )
    real = dt.real_of(dtype)
    at, points = ((build.real(v) if v.dtype.is_complex else v) for v in (at, points))
    n = points.size
    if period is not None:
        span = cast_node(period, real)
        span = build.abs_(span)
        at, points = (build.mod(v, build.broadcast_to(span, v.shape)) for v in (at, points))
        points, order = _sorted_pair(points)
        values = build.gather(values, order)

        def edge(v: UOp, k: int) -> UOp:
            return build.slice_axis(v, 0, k, k + 1)

        points = build.concatenate(
            [
                build.sub(edge(points, n - 1), build.reshape(span, (1,))),
                points,
                # fmt: skip
                build.add(edge(points, 0), build.reshape(span, (1,))),
            ],
            0,
        )
        values = build.concatenate([edge(values, n - 1), values, edge(values, 0)], 0)
        n += 2
    i = build.maximum(build.minimum(count_before(points, at, True), n - 1), 1 if n > 1 else 0)
    before = build.maximum(build.sub(i, 1), 0)
    x0, x1, f0, f1 = (build.gather(v, k) for v in (points, values) for k in (before, i))
    width = build.sub(x1, x0)
    flat = build.eq(width, 0)
    part = build.div(build.sub(at, x0), build.where(flat, build.const_like(1, width), width))
    part = build.where(flat, build.zeros_like(part), part)
    out = build.add(f0, build.mul(build.sub(f1, f0), build.cast(part, f0.dtype)))
    first, last = (
        build.broadcast_to(build.reshape(build.slice_axis(points, 0, k, k + 1), ()), at.shape) for k in (0, n - 1)
    )
    if period is None:
        low, high = (
            build.broadcast_to(build.reshape(build.slice_axis(values, 0, k, k + 1), ()), at.shape) for k in (0, n - 1)
        )
        extrapolate = [e == "extrapolate" for e in (left, right)]
        low, high = (
            build.broadcast_to(cast_node(e, dtype), at.shape) if e is not None else v
            for e, v in zip(ends, (low, high), strict=True)
        )
        out = out if extrapolate[0] else build.where(build.lt(at, first), low, out)
        out = out if extrapolate[1] else build.where(build.lt(last, at), high, out)
    return Tracer(out, weak)


def _sorted_pair(points: UOp) -> tuple[UOp, UOp]:
    from_sort = uop(Op.SORT, (points, build.iota(points.size)), 0)
    return uop(Op.GET, (from_sort,), 0), uop(Op.GET, (from_sort,), 1)


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: Any = None,
    right: Any = None,
    period: ArrayLike | None = None,
) -> Array:
    """The piecewise linear function through the points (xp ascending, fp), at x.

    left, right   what it is beyond the ends: fp's end by default, a number, or "extrapolate"
    period        the function repeats with that period (xp then need not ascend)

    x has any shape, xp and fp are vectors of one size; results are floats. Differentiable in x, xp and fp.

    >>> interp(array([0.5, 9.0]), array([0.0, 1.0, 2.0]), array([0.0, 10.0, 30.0]))
    Array([ 5., 30.], dtype=float32)
    """
    words = [e if isinstance(e, str) else None for e in (left, right)]
    if any(w not in (None, "extrapolate") for w in words):
        raise note_user_line(
            ArgumentError(f'interp: left and right are numbers or "extrapolate", got {left!r} and {right!r}')
        )
    ends = [None if isinstance(e, str) else e for e in (left, right)]
    return _interp(x, xp, fp, period, words[0], words[1], ends)


@public(static=("axis",))
def unwrap(
    p: ArrayLike,
    discont: ArrayLike | None = None,
    axis: int = -1,
    period: ArrayLike = 6.283185307179586,
) -> Array:
    """Angles with multiples of the period added so that jumps stay below half of it.

    discont   jumps below it stay as they are (half the period by default)

    >>> unwrap(array([0.0, 3.0, -3.0]))
    Array([0.       , 3.       , 3.2831855], dtype=float32)
    """
    (x, span), dtype, weak = promoted(p, period)
    need(not dtype.is_complex, "unwrap", "it takes real numbers")
    i = axis_of(axis, x.ndim, "unwrap")
    n = x.shape[i]
    if n < 2:
        return Tracer(x, weak)
    high, low = build.slice_axis(x, i, 1, n), build.slice_axis(x, i, 0, n - 1)
    jump = build.sub(high, low)
    whole = build.broadcast_to(span, jump.shape)
    if dtype.is_float:
        half = build.div(whole, 2)
        below = build.neg(half)
    else:
        half = build.idiv(whole, 2)
        below = build.neg(half)
    wrapped = build.add(build.mod(build.sub(jump, below), whole), below)
    at_half = build.and_(build.eq(wrapped, below), build.lt(build.zeros_like(jump), jump))
    wrapped = build.where(at_half, half, wrapped)
    correction = build.sub(wrapped, jump)
    limit = half if discont is None else build.broadcast_to(cast_node(discont, dtype), jump.shape)
    small = build.lt(build.abs_(jump), limit)
    correction = build.where(small, build.zeros_like(correction), correction)
    moved = build.add(high, prefix(correction, i, Op.ADD))
    return Tracer(build.concatenate([build.slice_axis(x, i, 0, 1), moved], i), weak)


trim_public(globals(), __all__)
