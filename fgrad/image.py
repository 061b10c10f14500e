"""Images in other sizes: resizing, and any scale and translation along axes."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import axis_of, public, shape_of
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift
from fgrad.uop import dtype as dt


class ResizeMethod(enum.Enum):
    """How values between the elements are found.

    >>> ResizeMethod.from_string("bicubic").name
    'CUBIC'
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of that name, such as `linear`, `bilinear` or `trilinear`; raises ArgumentError."""
        if s not in _NAMES:
            raise note_user_line(ArgumentError(f"{s!r} is no resize method; use one of {', '.join(_NAMES)}"))
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
    "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
}


# ---- kernels: weights by distance, counted in (possibly stretched) elements
def _triangle(x: Any) -> Any:
    return fnp.maximum(0, 1 - x)


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        near = x > 1e-3  # closer than that the product of sines is 1 to the last bit of float32
        safe = fnp.where(near, x, 1.0)
        y = radius * fnp.sin(math.pi * safe) * fnp.sin(math.pi * safe / radius) / (math.pi**2 * safe**2)
        return fnp.where(x > radius, 0.0, fnp.where(near, y, 1.0))

    return kernel


def _cubic(a: float) -> Callable[[Any], Any]:
    """Keys' cubic kernel: R. Keys, IEEE Trans. ASSP 29 (1981), equation 4."""

    def kernel(x: Any) -> Any:
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return fnp.where(x >= 2, 0.0, fnp.where(x >= 1, outer, inner))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}
_MARGIN = 2  # elements beyond the edge that the cubic kernel reaches


def _weights(n_in: int, n_out: int, scale: Any, move: Any, method: ResizeMethod, antialias: bool) -> Any:
    """float32[n_in, n_out]: how much of each element goes to each result."""
    inverse = 1 / scale
    clamped = method is ResizeMethod.CUBIC_PYTORCH and not antialias
    stretch = fnp.maximum(inverse, 1) if antialias else 1.0
    kernel = _cubic(-0.5) if method is ResizeMethod.CUBIC_PYTORCH and antialias else _KERNELS[method]
    at = (fnp.arange(n_out, dtype="float32") + 0.5) * inverse - move * inverse - 0.5
    margin = _MARGIN if clamped else 0
    taps = fnp.arange(-margin, n_in + margin, dtype="float32")
    weights = kernel(fnp.abs(at[None, :] - taps[:, None]) / stretch)
    if clamped:  # what lies beyond an edge is the edge
        head = fnp.sum(weights[: margin + 1], axis=0, keepdims=True)
        tail = fnp.sum(weights[n_in + margin - 1 :], axis=0, keepdims=True)
        if n_in == 1:
            return fnp.sum(weights, axis=0, keepdims=True)
        return fnp.concatenate([head, weights[margin + 1 : n_in + margin - 1], tail], axis=0)
    total = fnp.sum(weights, axis=0, keepdims=True)
    enough = fnp.abs(total) > 1000 * 2.0**-23
    weights = fnp.where(enough, weights / fnp.where(enough, total, 1.0), 0.0)
    return fnp.where((at >= -0.5) & (at <= n_in - 0.5), weights, 0.0)


def _contracted(x: Any, weights: Sequence[tuple[int, Any]]) -> Any:
    for axis, w in weights:
        x = fnp.moveaxis(fnp.tensordot(x, w.astype(_real(x)), axes=((axis,), (0,))), -1, axis)
    return x


def _real(x: Any) -> Any:
    return dt.real_of(lift(x).node.dtype).np


def _inexact(x: Any) -> Any:
    """Half types as float32, integers as the default float."""
    kind = lift(x).node.dtype
    wide = dt.accumulator(kind) if kind.is_inexact else dt.default_float()
    return x.astype(wide.np)


def _method(method: Any) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


@public(static=("shape", "spatial_dims", "method", "antialias", "precision"))
def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """The image of that `shape` whose element at y shows position (y - translation) / scale, along some axes.

    spatial_dims         the axes that are scaled; the others keep their size
    scale, translation   [len(spatial_dims)], differentiable
    method               linear, cubic, lanczos3 or lanczos5 (not nearest)
    antialias            widen the kernel where the image shrinks
    precision            without effect

    Elements outside the image count as absent; where there is none at all the result is 0.

    Raises ShapeError where the number of axes and of scales differ, ArgumentError for an unknown method.

    >>> import fgrad.image
    >>> x = fnp.array([0.0, 1.0, 2.0, 3.0])
    >>> image.scale_and_translate(x, (4,), (0,), fnp.array([1.0]), fnp.array([1.0]), "linear")
    Array([0., 0., 1., 2.], dtype=float32)
    """
    x = fnp.asarray(lift(image))
    sizes = shape_of(shape, "scale_and_translate")
    axes = [axis_of(a, x.ndim, "scale_and_translate") for a in spatial_dims]
    if len(sizes) != x.ndim or any(sizes[i] != n for i, n in enumerate(x.shape) if i not in axes):
        raise note_user_line(
            ShapeError(f"scale_and_translate: shape {sizes} must equal {x.shape} but for the axes {tuple(axes)}")
        )
    if len(set(axes)) != len(axes):
        raise note_user_line(ShapeError(f"scale_and_translate: spatial_dims {tuple(spatial_dims)} repeat an axis"))
    how = _method(method)
    if how is ResizeMethod.NEAREST:
        raise note_user_line(ArgumentError("scale_and_translate: the method nearest has no weights; use resize"))
    scales, moves = fnp.asarray(lift(scale)), fnp.asarray(lift(translation))
    if scales.shape != (len(axes),) or moves.shape != (len(axes),):
        raise note_user_line(
            ShapeError(
                f"scale_and_translate: scale and translation must be [{len(axes)}], got {scales.shape}, {moves.shape}"
            )
        )
    weights = [(a, _weights(x.shape[a], sizes[a], scales[i], moves[i], how, antialias)) for i, a in enumerate(axes)]
    return _contracted(_inexact(x), weights).astype(x.dtype if x.dtype.kind not in "biu" else _inexact(x).dtype)


@public(static=("shape", "method", "antialias", "precision"))
def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """The image at another size along every axis where `shape` differs.

    method      nearest, linear (bilinear, trilinear), cubic (bicubic, tricubic), lanczos3, lanczos5
    antialias   widen the kernel where the image shrinks; without effect on nearest
    precision   without effect

    Integers give the default float, but for nearest, which keeps every dtype. Raises ShapeError when the number of axes
    differs.

    >>> import fgrad.numpy as fnp
    >>> resize(fnp.array([0.0, 1.0]), (4,), "linear")
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    x = fnp.asarray(lift(image))
    sizes = shape_of(shape, "resize")
    if len(sizes) != x.ndim:
        raise note_user_line(ShapeError(f"resize: shape {sizes} must have {x.ndim} axes, as the image {x.shape}"))
    how = _method(method)
    axes = [i for i in range(x.ndim) if sizes[i] != x.shape[i]]
    if how is ResizeMethod.NEAREST:
        for axis in axes:
            n, m = x.shape[axis], sizes[axis]
            x = fnp.take(x, fnp.array([int((2 * i + 1) * n // (2 * m)) for i in range(m)], dtype="int64"), axis=axis)
        return x
    wide = _inexact(x)
    kind = x.dtype if x.dtype.kind not in "biu" else wide.dtype
    weights = [
        (a, _weights(x.shape[a], sizes[a], sizes[a] / x.shape[a] if sizes[a] else 1.0, 0.0, how, antialias))
        for a in axes
    ]
    return _contracted(wide, weights).astype(kind)


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
