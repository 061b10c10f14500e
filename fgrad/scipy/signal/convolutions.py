"""Convolution and correlation along all axes, directly or by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.convolution import conv_general_dilated
from fgrad.numpy.common import axes_of, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift

_SPATIAL = "DHWXYZUV"


def _cut(n: int, k: int, mode: str, late: bool = False) -> tuple[int, int]:
    """-> (first, count) of the places of the full convolution of n by k elements that `mode` keeps.

    late   of the two middles for an even k, the later one
    """
    if mode == "full":
        return 0, n + k - 1
    if mode == "same":
        return (k // 2 if late else (k - 1) // 2), n
    return min(n, k) - 1, abs(n - k) + 1


def _check(name: str, x: Any, y: Any, mode: str, axes: Sequence[int]) -> None:
    if mode not in ("full", "same", "valid"):
        raise note_user_line(ArgumentError(f"{name}: mode must be full, same or valid, got {mode!r}"))
    if x.ndim != y.ndim:
        raise note_user_line(ShapeError(f"{name}: both arrays need the same number of axes, got {x.shape}, {y.shape}"))
    if x.size == 0 or y.size == 0:
        raise note_user_line(ShapeError(f"{name}: the arrays must not be empty, got shapes {x.shape} and {y.shape}"))
    larger = [x.shape[a] >= y.shape[a] for a in axes], [x.shape[a] <= y.shape[a] for a in axes]
    if mode == "valid" and not (all(larger[0]) or all(larger[1])):
        raise note_user_line(
            ShapeError(f"{name}: for mode valid one array must be as large along every axis, got {x.shape}, {y.shape}")
        )


def _direct(name: str, a: ArrayLike, b: ArrayLike, mode: str, late: bool = False) -> Array:
    x, y = fnp.asarray(lift(a)), fnp.asarray(lift(b))
    _check(name, x, y, mode, range(x.ndim))
    kind = fnp.result_type(x, y)
    x, y = x.astype(kind), y.astype(kind)
    if not x.ndim:
        return x * y
    pads = []
    for n, k in zip(x.shape, y.shape, strict=True):
        first, count = _cut(n, k, mode, late)
        low = k - 1 - first
        pads.append((low, count + k - 1 - n - low))
    spatial = _SPATIAL[: x.ndim]
    if x.ndim > len(_SPATIAL):
        raise NotImplementedError(f"{name} of more than {len(_SPATIAL)} axes; use fftconvolve")
    numbers = (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")
    out = conv_general_dilated(x[None, None], fnp.flip(y)[None, None], (1,) * x.ndim, pads, dimension_numbers=numbers)
    return out[0, 0]


def _mirrored(y: ArrayLike) -> Any:
    return fnp.flip(fnp.conj(lift(y)))


@public(static=("mode", "axes"))
def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Any = None) -> Array:
    """The convolution by Fourier transforms, along `axes` (all by default); the other axes broadcast.

    mode   `full`; `same`: the middle, of the shape of in1; `valid`: without what touches an edge

    Raises ShapeError where numbers of axes differ or an array is empty.

    >>> fnp.round(fftconvolve(fnp.array([1.0, 2.0, 3.0]), fnp.array([1.0, 10.0])), 3)
    Array([ 1., 12., 23., 30.], dtype=float32)
    """
    x, y = fnp.multiply(lift(in1), 1.0), fnp.multiply(lift(in2), 1.0)
    if not x.ndim and not y.ndim:
        return x * y
    along = axes_of(axes, x.ndim, "fftconvolve")
    _check("fftconvolve", x, y, mode, along)
    rest = [i for i in range(x.ndim) if i not in along]
    if any(x.shape[i] != y.shape[i] and 1 not in (x.shape[i], y.shape[i]) for i in rest):
        raise note_user_line(ShapeError(f"fftconvolve: {x.shape} and {y.shape} do not broadcast outside {along}"))
    sizes = [x.shape[a] + y.shape[a] - 1 for a in along]
    if "c" in (x.dtype.kind, y.dtype.kind):
        out = fnp.fft.ifftn(fnp.fft.fftn(x, sizes, along) * fnp.fft.fftn(y, sizes, along), sizes, along)
    else:
        out = fnp.fft.irfftn(fnp.fft.rfftn(x, sizes, along) * fnp.fft.rfftn(y, sizes, along), sizes, along)
    window = [slice(None)] * x.ndim
    for a in along:
        first, count = _cut(x.shape[a], y.shape[a], mode)
        window[a] = slice(first, first + count)
    return out[tuple(window)].astype(fnp.result_type(x, y))


def _by(method: str, name: str) -> bool:
    if method not in ("auto", "direct", "fft"):
        raise note_user_line(ArgumentError(f"{name}: method must be auto, direct or fft, got {method!r}"))
    return method == "fft"


@public(static=("mode", "method", "precision"))
def convolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The convolution of two arrays with equally many axes.

    mode        `full`; `same`: the middle, of the shape of in1; `valid`: without what touches an edge
    method      `direct` (also for auto), or `fft`: the same up to rounding, quicker for two large arrays
    precision   without effect

    Raises ShapeError when the numbers of axes differ or an array is empty.

    >>> import fgrad.numpy as fnp
    >>> convolve(fnp.array([1, 2, 3]), fnp.array([1, 10]))
    Array([ 1, 12, 23, 30], dtype=int64)
    """
    if _by(method, "convolve"):
        return fftconvolve(in1, in2, mode)
    return _direct("convolve", in1, in2, mode)


@public(static=("mode", "method", "precision"))
def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The correlation of two arrays: the convolution with in2 reversed and conjugated. Arguments as for convolve.

    >>> correlate(fnp.array([1, 2, 3]), fnp.array([1, 10]))
    Array([10, 21, 32,  3], dtype=int64)
    """
    if _by(method, "correlate"):
        return fftconvolve(in1, _mirrored(in2), mode)
    return _direct("correlate", in1, _mirrored(in2), mode)


def _plane(name: str, a: ArrayLike, b: ArrayLike, boundary: str, fillvalue: Any) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{name} with a boundary other than zeros; pad in1 with fgrad.numpy.pad first")
    if lift(a).ndim != 2 or lift(b).ndim != 2:
        raise note_user_line(ShapeError(f"{name} takes matrices, got shapes {lift(a).shape} and {lift(b).shape}"))


@public(static=("mode", "boundary", "fillvalue", "precision"))
def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The convolution of two matrices; zeros lie beyond the edges. `mode` as for convolve.

    Raises ShapeError for anything but two matrices.

    >>> convolve2d(fnp.array([[1, 2], [3, 4]]), fnp.array([[1, 10]]))
    Array([[ 1, 12, 20],
           [ 3, 34, 40]], dtype=int64)
    """
    _plane("convolve2d", in1, in2, boundary, fillvalue)
    return _direct("convolve2d", in1, in2, mode)


@public(static=("mode", "boundary", "fillvalue", "precision"))
def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The correlation of two matrices; zeros lie beyond the edges. `mode` as for convolve.

    As in SciPy, `same` keeps the later middle for even sizes, and with `valid` and a larger in2 it is in1 that is
    conjugated.

    Raises ShapeError for anything but two matrices.

    >>> correlate2d(fnp.array([[1, 2], [3, 4]]), fnp.array([[1, 10]]), mode="same")
    Array([[21,  2],
           [43,  4]], dtype=int64)
    """
    _plane("correlate2d", in1, in2, boundary, fillvalue)
    out = _direct("correlate2d", in1, _mirrored(in2), mode, late=True)
    swapped = mode == "valid" and lift(in2).size > lift(in1).size
    return fnp.conj(out) if swapped else out


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]
