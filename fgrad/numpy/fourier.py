"""Discrete Fourier transforms as nodes, computed by NumPy on the host; all are linear and know their transposes.

Cotangents pair without conjugation, so the transpose of a transform of complex numbers is itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.numpy.blocks import conj, on_host
from fgrad.trace.maybe import Maybe
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp

__all__: list[str] = []

# NumPy's names say which direction is divided by the length
OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
Axes = tuple[int, ...]  # negative, so that they hold under vmap


# ---- complex to complex
def _transform(is_inverse: bool, axes: Axes, norm: Any, x: Any) -> list[Any]:
    return [(np.fft.ifftn if is_inverse else np.fft.fftn)(x, axes=axes, norm=norm)]


def _transform_jvp(
    is_inverse: bool, axes: Axes, norm: str, args: list[UOp], outs: list[UOp], tangents: list[Maybe]
) -> list[Maybe]:
    dx = tangents[0]
    return [None if dx is None else transform(dx, is_inverse, axes, norm)]


def _transform_transpose(
    is_inverse: bool, axes: Axes, norm: str, args: list[Maybe], linear: Sequence[bool], cts: list[Maybe]
) -> list[Maybe]:
    ct = cts[0]
    return [None if ct is None else transform(ct, is_inverse, axes, norm)]


def transform(x: UOp, is_inverse: bool, axes: Axes, norm: str) -> UOp:
    """Complex [.. n ..] -> the same shape, along `axes`."""
    if not axes or not math.prod(x.shape):
        return x
    statics = (is_inverse, axes, norm)
    return on_host(_transform, (x,), [(x.dtype, x.shape)], statics, _transform_jvp, _transform_transpose)[0]


# ---- real to the first half of the spectrum
def _half(axis: int, norm: Any, n: int, x: Any) -> list[Any]:
    return [np.fft.rfft(x, axis=axis, norm=norm)]


def _half_jvp(axis: int, norm: str, n: int, args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    dx = tangents[0]
    return [None if dx is None else half(dx, axis, norm)]


def _half_transpose(
    axis: int, norm: str, n: int, args: list[Maybe], linear: Sequence[bool], cts: list[Maybe]
) -> list[Maybe]:
    """The real part of a whole transform of the half, filled up with zeros."""
    ct = cts[0]
    if ct is None:
        return [None]
    return [build.real(transform(resized(ct, axis, n), False, (axis,), norm))]


def half(x: UOp, axis: int, norm: str) -> UOp:
    """Real [.. n ..] -> complex [.. n // 2 + 1 ..] along `axis`."""
    n = x.shape[axis]
    aval = (dt.complex_of(x.dtype), with_size(x.shape, axis, n // 2 + 1))
    if not math.prod(aval[1]):
        return build.const(0, *aval)
    return on_host(_half, (x,), [aval], (axis, norm, n), _half_jvp, _half_transpose)[0]


# ---- and back
def _whole(axis: int, norm: Any, n: int, x: Any) -> list[Any]:
    return [np.fft.irfft(x, n, axis=axis, norm=norm)]


def _whole_jvp(axis: int, norm: str, n: int, args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    dx = tangents[0]
    return [None if dx is None else whole(dx, axis, norm, n)]


def _whole_transpose(
    axis: int, norm: str, n: int, args: list[Maybe], linear: Sequence[bool], cts: list[Maybe]
) -> list[Maybe]:
    """Every number of the half stands for two of the spectrum, the first and the middle one for themselves."""
    ct = cts[0]
    if ct is None:
        return [None]
    y = conj(half(ct, axis, OTHER[norm]))
    place = build.iota_along(y.shape, y.ndim + axis)
    alone = build.eq(place, 0) if n % 2 else build.or_(build.eq(place, 0), build.eq(place, n // 2))
    return [build.where(alone, y, build.mul(y, 2))]


def whole(x: UOp, axis: int, norm: str, n: int) -> UOp:
    """Complex [.. n // 2 + 1 ..] -> real [.. n ..] along `axis`."""
    aval = (dt.real_of(x.dtype), with_size(x.shape, axis, n))
    if not math.prod(aval[1]):
        return build.const(0, *aval)
    return on_host(_whole, (x,), [aval], (axis, norm, n), _whole_jvp, _whole_transpose)[0]


# ---- sizes
def with_size(shape: Sequence[int], axis: int, n: int) -> tuple[int, ...]:
    """`shape` with `n` elements along a negative axis."""
    sizes = list(shape)
    sizes[axis] = n
    return tuple(sizes)


def resized(x: UOp, axis: int, n: int) -> UOp:
    """Cut off, or filled up with zeros, to `n` elements along a negative axis."""
    have = x.shape[axis]
    if n < have:
        return build.slice_axis(x, x.ndim + axis, 0, n)
    return build.pad(x, [(0, n - have if i == x.ndim + axis else 0, 0) for i in range(x.ndim)])
