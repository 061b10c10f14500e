"""fgrad.numpy.fft: discrete Fourier transforms, computed by NumPy on the host; frequencies and shifts.

Real float32 and complex64 stay in single precision; integers become the default float, small floats float32.
`n` and `s` cut off or fill up with zeros. `norm` says which direction is divided by the length: "backward" (the
inverse, default), "forward", or "ortho" (both, by its root).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy import fourier
from fgrad.numpy.blocks import conj
from fgrad.numpy.common import DTypeLike, axes_of, axis_of, from_host, lift, need, placed, public, size_of
from fgrad.numpy.repeating import roll
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
Sizes = Sequence[int] | None


# ---- what the transforms share
def _operand(a: ArrayLike, name: str, real: bool = False) -> UOp:
    """A float or complex node; complex unless `real`."""
    (x,), dtype, _ = promoted(a, least=dt.default_float())
    need(not (real and dtype.is_complex), name, f"takes real numbers, got {dtype}; use {name.replace('r', '', 1)}")
    if not x.ndim:
        raise note_user_line(ShapeError(f"{name} takes arrays of one axis or more, got a scalar"))
    wide = dt.accumulator(dtype)
    return build.cast(x, wide if real else dt.complex_of(wide))


def _norm(norm: str | None, name: str) -> str:
    norm = norm or "backward"
    if norm not in fourier.OTHER:
        raise note_user_line(ArgumentError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}"))
    return norm


def _length(n: int | None, default: int, name: str) -> int:
    size = default if n is None else size_of(n, name)
    if size < 1:
        raise note_user_line(ShapeError(f"{name}: transforms need at least 1 element, got {size}"))
    return size


def _along(s: Sizes, axes: Sequence[int] | None, x: UOp, name: str) -> tuple[list[int | None], fourier.Axes]:
    """Sizes (None: as they are) and negative axes of a transform of several."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    where = tuple([axis_of(i, x.ndim, name) - x.ndim for i in axes])
    sizes: list[int | None] = [None] * len(where) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(where):
        raise note_user_line(ShapeError(f"{name}: s={s!r} and axes={axes!r} need the same length"))
    return sizes, where


def _complex(name: str, a: ArrayLike, s: Sizes, axes: Any, norm: str | None, is_inverse: bool) -> Array:
    x = _operand(a, name)
    sizes, where = _along(s, axes, x, name)
    for n, axis in zip(sizes, where, strict=True):
        x = fourier.resized(x, axis, _length(n, x.shape[axis], name))
    if len(set(where)) == len(where):
        return Tracer(fourier.transform(x, is_inverse, where, _norm(norm, name)))
    for axis in where:  # an axis that is named twice is transformed twice
        x = fourier.transform(x, is_inverse, (axis,), _norm(norm, name))
    return Tracer(x)


def _to_half(name: str, a: ArrayLike, s: Sizes, axes: Any, norm: str | None) -> Array:
    x = _operand(a, name, real=True)
    sizes, where = _along(s, axes, x, name)
    for n, axis in zip(sizes, where, strict=True):
        x = fourier.resized(x, axis, _length(n, x.shape[axis], name))
    if not where:
        return Tracer(x)
    y = fourier.half(x, where[-1], _norm(norm, name))
    return Tracer(fourier.transform(y, False, where[:-1], _norm(norm, name)))


def _from_half(name: str, a: ArrayLike, s: Sizes, axes: Any, norm: str | None) -> Array:
    x = _operand(a, name)
    sizes, where = _along(s, axes, x, name)
    if not where:
        return Tracer(build.real(x))
    last = where[-1]
    size = _length(sizes[-1], 2 * (x.shape[last] - 1), name)
    for n, axis in zip(sizes[:-1], where[:-1], strict=True):
        x = fourier.resized(x, axis, _length(n, x.shape[axis], name))
    x = fourier.transform(fourier.resized(x, last, size // 2 + 1), True, where[:-1], _norm(norm, name))
    return Tracer(fourier.whole(x, last, _norm(norm, name), size))


def _one(n: int | None) -> Sizes:
    return None if n is None else (n,)


# ---- one axis
@public(static=("n", "axis", "norm"))
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform along one axis: y_k = sum_j a_j exp(-2 pi i j k / n).

    a [.., m, ..] -> complex [.., n, ..]: float32 gives complex64, float64 complex128.

    n      cuts `a` or fills it with zeros to this length; m by default
    norm   "backward" (the default): nothing here, 1/n in the inverse; "ortho": 1/sqrt(n) in both; "forward": the
           other way round

    Raises ShapeError for an axis that is not there, ValueError for n < 1 or another norm.

    >>> fft(array([1.0, 0.0, 0.0, 0.0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _complex("fft", a, _one(n), (axis,), norm, False)


@public(static=("n", "axis", "norm"))
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of fft.

    a [.., m, ..] -> complex [.., n, ..]; `n` and `norm` as in `fft`.

    >>> ifft(fft(array([1.0, 2.0])))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    return _complex("ifft", a, _one(n), (axis,), norm, True)


@public(static=("n", "axis", "norm"))
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first n // 2 + 1 numbers of fft, which determine it when `a` is real.

    a real [.., m, ..] -> complex [.., n // 2 + 1, ..]; `n` and `norm` as in `fft`. Raises for complex `a`.

    >>> rfft(array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _to_half("rfft", a, _one(n), (axis,), norm)


@public(static=("n", "axis", "norm"))
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of rfft: n real numbers, 2 (m - 1) for m elements by default.

    a [.., m, ..] -> real [.., n, ..]. Give `n` when it was odd; `norm` as in `fft`.

    >>> irfft(rfft(array([1.0, 2.0, 3.0])), n=3)
    Array([1., 2., 3.], dtype=float32)
    """
    return _from_half("irfft", a, _one(n), (axis,), norm)


@public(static=("n", "axis", "norm"))
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform of n numbers with a_j = conj(a_-j), given by their first half: real.

    a [.., m, ..] -> real [.., n, ..], n = 2 (m - 1) by default; `norm` as in `fft`.

    >>> hfft(array([1.0, 2.0, 3.0]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    x = Tracer(conj(_operand(a, "hfft")))
    return _from_half("hfft", x, _one(n), (axis,), fourier.OTHER[_norm(norm, "hfft")])


@public(static=("n", "axis", "norm"))
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of hfft: the first half of numbers with a_j = conj(a_-j).

    a real [.., m, ..] -> complex [.., n // 2 + 1, ..]; `n` and `norm` as in `fft`.

    >>> ihfft(array([1.0, 2.0, 3.0, 2.0])).shape
    (3,)
    """
    y = _to_half("ihfft", a, _one(n), (axis,), fourier.OTHER[_norm(norm, "ihfft")])
    return Tracer(conj(lift(y).node))


# ---- several axes
@public(static=("s", "axes", "norm"))
def fftn(a: ArrayLike, s: Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The transform along several axes: all, or the last len(s), by default.

    s      the lengths along `axes`, to which `a` is cut or filled with zeros
    axes   default: all, or with `s` the last len(s) ones
    norm   as in `fft`, for the product of the lengths

    >>> fftn(ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _complex("fftn", a, s, axes, norm, False)


@public(static=("s", "axes", "norm"))
def ifftn(a: ArrayLike, s: Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The inverse of fftn.

    Arguments as in `fftn`.

    >>> ifftn(fftn(array([[1.0, 2.0], [3.0, 4.0]])))
    Array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]], dtype=complex64)
    """
    return _complex("ifftn", a, s, axes, norm, True)


@public(static=("s", "axes", "norm"))
def rfftn(a: ArrayLike, s: Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The half of fftn along the last of `axes` that determines it when `a` is real.

    a real -> complex; the last of `axes` has n // 2 + 1 elements, the others n. Arguments as in `fftn`.

    >>> rfftn(ones((2, 3))).shape
    (2, 2)
    """
    return _to_half("rfftn", a, s, axes, norm)


@public(static=("s", "axes", "norm"))
def irfftn(a: ArrayLike, s: Sizes = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The inverse of rfftn.

    a -> real; arguments as in `fftn`. The last of `axes` has 2 (m - 1) elements unless `s` says otherwise.

    >>> irfftn(rfftn(array([[1.0, 2.0], [3.0, 4.0]])))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    return _from_half("irfftn", a, s, axes, norm)


@public(static=("s", "axes", "norm"))
def fft2(a: ArrayLike, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """fftn along the last two axes.

    Arguments as in `fftn`.

    >>> fft2(ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _complex("fft2", a, s, axes, norm, False)


@public(static=("s", "axes", "norm"))
def ifft2(a: ArrayLike, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of fft2.

    Arguments as in `fftn`.

    >>> ifft2(fft2(ones((2, 2)))).dtype
    dtype('complex64')
    """
    return _complex("ifft2", a, s, axes, norm, True)


@public(static=("s", "axes", "norm"))
def rfft2(a: ArrayLike, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """rfftn along the last two axes.

    Arguments as in `rfftn`.

    >>> rfft2(ones((4, 4))).shape
    (4, 3)
    """
    return _to_half("rfft2", a, s, axes, norm)


@public(static=("s", "axes", "norm"))
def irfft2(a: ArrayLike, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of rfft2.

    Arguments as in `irfftn`.

    >>> irfft2(rfft2(ones((4, 4)))).shape
    (4, 4)
    """
    return _from_half("irfft2", a, s, axes, norm)


# ---- frequencies and shifts
@placed
def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the results of fft: 0, 1, .., -2, -1 over n * d.

    -> float [n]; `d` is the distance of the samples.

    >>> fftfreq(4, d=0.5)
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    count = size_of(n, "fftfreq")
    return from_host(_freq(list(range((count + 1) // 2)) + list(range(-(count // 2), 0)), count, d, dtype))


@placed
def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the results of rfft: 0, 1, .., n // 2 over n * d.

    -> float [n // 2 + 1]; `d` is the distance of the samples.

    >>> rfftfreq(4, d=0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    count = size_of(n, "rfftfreq")
    return from_host(_freq(list(range(count // 2 + 1)), count, d, dtype))


def _freq(numbers: list[int], n: int, d: float, dtype: DTypeLike) -> Any:
    kind = to_dtype(float if dtype is None else dtype)
    return np.asarray(numbers, np.float64).astype(kind.np) / kind.np.type(n * d)


@public(static=("axes",))
def fftshift(x: ArrayLike, axes: Any = None) -> Array:
    """The zero frequency moved to the middle.

    axes   an axis or several; all by default

    >>> fftshift(fftfreq(4))
    Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    t = lift(x)
    along = axes_of(axes, t.ndim, "fftshift")
    return roll(x, [t.shape[i] // 2 for i in along], along)


@public(static=("axes",))
def ifftshift(x: ArrayLike, axes: Any = None) -> Array:
    """The inverse of fftshift.

    axes   an axis or several; all by default

    >>> ifftshift(fftshift(array([0, 1, 2])))
    Array([0, 1, 2], dtype=int64)
    """
    t = lift(x)
    along = axes_of(axes, t.ndim, "ifftshift")
    return roll(x, [-(t.shape[i] // 2) for i in along], along)
