"""Pooling: the maximum or mean of sliding windows over spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad import numpy as functions
from fgrad.errors import ShapeError, note_user_line
from fgrad.lax.windows import pads_of, reduce_window
from fgrad.numpy.common import lowest
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift


def _window(
    x: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None, padding: Any
) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """Spatial window, strides and padding as ones for all axes of [batch.., spatial.., feature]."""
    shape = lift(x).shape
    lead = len(shape) - len(window_shape) - 1
    if lead < 0:
        raise note_user_line(
            ShapeError(f"pooling over {len(window_shape)} axes needs [.., spatial.., feature], got {shape}")
        )
    steps = (1,) * len(window_shape) if strides is None else tuple(strides)
    window = (*(1,) * lead, *window_shape, 1)
    steps = (*(1,) * lead, *steps, 1)
    if not isinstance(padding, str):
        padding = [*[(0, 0)] * lead, *[tuple(p) for p in padding], (0, 0)]
    return window, steps, tuple(pads_of(padding, shape, window, steps))


def max_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
) -> Array:
    """The maximum of every window: [.., spatial.., feature] -> the same axes, smaller. Ties share the gradient.

    strides   1 by default

    >>> nn.max_pool(fnp.array([1.0, 3.0, 2.0, 5.0]).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
    Array([3., 5.], dtype=float32)
    """
    window, steps, pads = _window(inputs, window_shape, strides, padding)
    low = lowest(lift(inputs).node.dtype)
    return reduce_window(inputs, low, functions.maximum, window, steps, pads)


def min_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
) -> Array:
    """The minimum of every window; see `max_pool`.

    >>> nn.min_pool(fnp.array([1.0, 3.0, 2.0, 5.0]).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
    Array([1., 2.], dtype=float32)
    """
    return functions.negative(max_pool(functions.negative(inputs), window_shape, strides, padding))


def avg_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """The mean of every window; see `max_pool`.

    count_include_pad   whether padding counts as zeros, or not at all

    >>> nn.avg_pool(fnp.arange(4.0).reshape(1, 4, 1), (2,), strides=(2,)).ravel()
    Array([0.5, 2.5], dtype=float32)
    """
    window, steps, pads = _window(inputs, window_shape, strides, padding)
    total = reduce_window(inputs, 0, functions.add, window, steps, pads)
    if count_include_pad:
        n = 1
        for k in window:
            n *= k
        return functions.divide(total, n)
    ones = functions.add(functions.multiply(inputs, 0), 1)
    return functions.divide(total, reduce_window(ones, 0, functions.add, window, steps, pads))


__all__ = ["avg_pool", "max_pool", "min_pool"]
