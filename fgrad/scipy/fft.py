"""Cosine transforms under SciPy's names; Fourier transforms are in fgrad.numpy.fft."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fgrad import numpy as functions
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy import fft as fourier
from fgrad.numpy.common import axis_of, lift, public, size_of
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, mul, neg
from fgrad.uop.node import UOp

__all__ = ["dct", "dctn", "idct", "idctn"]

_NORMS = (None, "backward", "ortho", "forward")


def _last(x: UOp, start: int, stop: int, step: int = 1) -> UOp:
    return build.slice_axis(x, x.ndim - 1, start, stop, step)


def _turns(n: int, real: dt.DType, sign: float) -> UOp:
    """exp(sign * i pi k / (2 n)) for k < n."""
    angle = build.cast(mul(build.iota(n, dt.float64), sign * math.pi / (2 * n)), real)
    return build.complex_(build.cos(angle), build.sin(angle))


def _second(x: UOp) -> UOp:
    """y_k = 2 sum_n x_n cos(pi k (2 n + 1) / (2 N)) over the last axis: one Fourier transform of x with its even
    elements first, and its odd ones backward (Makhoul 1980).
    """
    n, last = x.shape[-1], x.ndim - 1
    order = build.concatenate([_last(x, 0, n, 2), build.flip(_last(x, 1, n, 2), (last,))], last)
    found = lift(fourier.fft(Tracer(order))).node
    turned = mul(found, build.broadcast_to(_turns(n, x.dtype, -1.0), found.shape))
    return mul(build.real(turned), 2)


def _third(y: UOp) -> UOp:
    """x_n = y_0 + 2 sum_k y_k cos(pi k (2 n + 1) / (2 N)), which is 2 N times the inverse of `_second`."""
    n, last = y.shape[-1], y.ndim - 1
    behind = build.pad(build.flip(_last(y, 1, n), (last,)), [*[(0, 0, 0)] * last, (1, 0, 0)])
    turned = mul(build.complex_(y, neg(behind)), build.broadcast_to(_turns(n, y.dtype, 1.0), y.shape))
    order = mul(build.real(lift(fourier.ifft(Tracer(turned))).node), float(n))
    half = (n + 1) // 2
    even = build.pad(_last(order, 0, half), [*[(0, 0, 0)] * last, (0, n - 2 * half + 1, 1)])
    odd = build.pad(build.flip(_last(order, half, n), (last,)), [*[(0, 0, 0)] * last, (min(1, n - half), n % 2, 1)])
    return add(_last(even, 0, n), _last(odd, 0, n)) if n > 1 else even


def _transform(x: UOp, kind: int, axis: int, norm: str | None, inverse: bool) -> UOp:
    """One axis of a real array."""
    n = x.shape[axis]
    order = [i for i in range(x.ndim) if i != axis]
    moved = build.permute(x, [*order, axis])
    first = build.eq(build.iota_along(moved.shape, moved.ndim - 1), 0)

    def scaled(v: UOp, zero: float, rest: float) -> UOp:
        return mul(v, build.where(first, build.const_like(zero, v), build.const_like(rest, v)))

    is_second = (kind == 2) != inverse
    if norm == "ortho":
        if is_second:
            out = scaled(_second(moved), math.sqrt(1 / (4 * n)), math.sqrt(1 / (2 * n)))
        else:
            out = _third(scaled(moved, math.sqrt(1 / n), math.sqrt(1 / (2 * n))))
    else:
        out = _second(moved) if is_second else _third(moved)
        if (norm == "forward") != inverse:
            out = mul(out, 1 / (2 * n))
    return build.permute(out, [*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)])


def _sized(x: UOp, axis: int, n: int | None, name: str) -> UOp:
    """Cut, or filled up with zeros, to n elements along the axis."""
    if n is None:
        n = x.shape[axis]
    if n < 1:
        raise note_user_line(ShapeError(f"{name}: transforms need at least 1 element, got {n}"))
    x = build.slice_axis(x, axis, 0, min(n, x.shape[axis]))
    return build.pad(x, [(0, n - x.shape[axis] if i == axis else 0, 0) for i in range(x.ndim)])


@public(static=("kind", "sizes", "norm", "inverse", "name"))
def _over_axes(
    x: ArrayLike, kind: int, sizes: tuple[tuple[int, int | None], ...], norm: str | None, inverse: bool, name: str
) -> Array:
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    for axis, n in sizes:
        node = _sized(node, axis, n, name)

    def run(v: UOp) -> UOp:
        v = build.cast(v, dt.accumulator(v.dtype))
        for axis, _ in sizes:
            v = _transform(v, kind, axis, norm, inverse)
        return build.cast(v, dt.real_of(dtype))

    out = build.complex_(run(build.real(node)), run(build.imag(node))) if dtype.is_complex else run(node)
    return Tracer(out, weak)


def _checked(name: str, kind: Any, norm: Any) -> None:
    if kind not in (2, 3):
        raise NotImplementedError(f"{name}: type={kind!r} is not there; use 2 or 3, or fgrad.numpy.fft")
    if norm not in _NORMS:
        raise note_user_line(
            ArgumentError(f"{name}: norm must be None, 'backward', 'ortho' or 'forward', got {norm!r}")
        )


def _one(name: str, x: ArrayLike, kind: int, n: int | None, axis: int, norm: str | None, inverse: bool) -> Array:
    _checked(name, kind, norm)
    at = axis_of(axis, functions.ndim(x), name)
    return _over_axes(x, kind, ((at, None if n is None else size_of(n, name)),), norm, inverse, name)


def _many(name: str, x: ArrayLike, kind: int, s: Any, axes: Any, norm: str | None, inverse: bool) -> Array:
    _checked(name, kind, norm)
    rank = functions.ndim(x)
    if s is not None and len(s) > rank:
        raise note_user_line(ShapeError(f"{name}: s must have at most x.ndim ({rank}) elements, got {len(s)}"))
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    places = [axis_of(a, rank, name) for a in axes]
    if s is not None and len(s) != len(places):
        raise note_user_line(ShapeError(f"{name}: {len(s)} sizes for {len(places)} axes"))
    sizes = [None] * len(places) if s is None else [size_of(n, name) for n in s]
    return _over_axes(x, kind, tuple(zip(places, sizes, strict=True)), norm, inverse, name)


def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete cosine transform: y[k] = 2 sum_i x[i] cos(pi k (2 i + 1) / (2 n)).

    type   2, or 3: y[k] = x[0] + 2 sum_i x[i] cos(pi i (2 k + 1) / (2 n)), which is 2 n times the inverse of type 2
    n      cuts x, or fills it up with zeros
    norm   None or "backward": as above; "forward": divided by 2 n; "ortho": orthonormal

    >>> dct(fnp.array([1.0, 1.0]))
    Array([4., 0.], dtype=float32)
    """
    return _one("dct", x, type, n, axis, norm, False)


def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `dct`, with the same arguments.

    >>> idct(fnp.array([4.0, 0.0]))
    Array([1., 1.], dtype=float32)
    """
    return _one("idct", x, type, n, axis, norm, True)


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`dct` over several axes: all, or the last len(s), or `axes`; `s` are their sizes.

    >>> dctn(fnp.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _many("dctn", x, type, s, axes, norm, False)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`, with the same arguments.

    >>> idctn(dctn(fnp.ones((2, 2))))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _many("idctn", x, type, s, axes, norm, True)

trim_public(globals(), __all__)
