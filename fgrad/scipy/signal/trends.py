"""Removing means and straight lines from signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, note_user_line
from fgrad.numpy.common import axis_of, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift


@public(static=("axis", "type", "bp", "overwrite_data"))
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] = 0,
    overwrite_data: None = None,
) -> Array:
    """The signal without its mean (`constant`) or without its least-squares line (`linear`) along `axis`.

    bp   positions at which a new line begins, for `linear`

    Raises ArgumentError for another `type`.

    >>> detrend(fnp.array([1.0, 2.0, 6.0]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data:
        raise NotImplementedError("detrend with overwrite_data; arrays are immutable")
    if type not in ("linear", "constant", "l", "c"):
        raise note_user_line(ArgumentError(f"detrend: type must be linear or constant, got {type!r}"))
    x = fnp.multiply(lift(data), 1.0)
    place = axis_of(axis, x.ndim, "detrend")
    if type in ("constant", "c"):
        return x - fnp.mean(x, axis=place, keepdims=True)
    n = x.shape[place]
    breaks = sorted({0, n, *np.atleast_1d(bp).tolist()})
    if breaks[0] < 0 or breaks[-1] > n:
        raise note_user_line(ArgumentError(f"detrend: break points {bp} must lie within 0 .. {n}"))
    x = fnp.moveaxis(x, place, -1)
    real = fnp.real(x).dtype
    parts: list[Any] = []
    for low, high in zip(breaks[:-1], breaks[1:], strict=True):
        t = np.arange(high - low) - (high - low - 1) / 2  # centred: slope and mean are independent
        square = float(np.sum(t * t)) or 1.0  # one point has no slope
        steps = fnp.array(t, dtype=real)
        part = x[..., low:high]
        slope = fnp.sum(part * steps, axis=-1, keepdims=True) / square
        parts.append(part - fnp.mean(part, axis=-1, keepdims=True) - slope * steps)
    return fnp.moveaxis(fnp.concatenate(parts, axis=-1), -1, place)


__all__ = ["detrend"]
