"""fgrad.numpy.fft: frequencies and shifts. The transforms are not there yet and raise
NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.numpy.common import DTypeLike, axes_of, from_host, lift, placed, public, size_of
from fgrad.numpy.repeating import roll
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike
from fgrad.uop.dtype import to_dtype

_MISSING = (
    "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2",
    "rfftn",
)  # fmt: skip
__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq", *_MISSING]


@placed
def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the results of fft: 0, 1, .., -2, -1 over n * d."""
    count = size_of(n, "fftfreq")
    return from_host(_freq(list(range((count + 1) // 2)) + list(range(-(count // 2), 0)), count, d, dtype))


@placed
def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the results of rfft: 0, 1, .., n // 2 over n * d."""
    count = size_of(n, "rfftfreq")
    return from_host(_freq(list(range(count // 2 + 1)), count, d, dtype))


def _freq(numbers: list[int], n: int, d: float, dtype: DTypeLike) -> Any:
    kind = to_dtype(float if dtype is None else dtype)
    return np.asarray(numbers, np.float64).astype(kind.np) / kind.np.type(n * d)


@public(static=("axes",))
def fftshift(x: ArrayLike, axes: Any = None) -> Array:
    """The zero frequency moved to the middle."""
    t = lift(x)
    along = axes_of(axes, t.ndim, "fftshift")
    return roll(x, [t.shape[i] // 2 for i in along], along)


@public(static=("axes",))
def ifftshift(x: ArrayLike, axes: Any = None) -> Array:
    """The inverse of fftshift."""
    t = lift(x)
    along = axes_of(axes, t.ndim, "ifftshift")
    return roll(x, [-(t.shape[i] // 2) for i in along], along)


def _missing(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"fgrad.numpy.fft.{name} is not there yet; use numpy.fft.{name} on concrete arrays, "
            "or through "
            "fgrad.pure_callback inside traced functions"
        )

    refuse.__name__ = name
    refuse.__doc__ = f"Not there yet: use numpy.fft.{name} on concrete arrays, or through fgrad.pure_callback."
    return refuse


for _name in _MISSING:
    globals()[_name] = _missing(_name)
