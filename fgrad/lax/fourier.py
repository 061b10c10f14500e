"""fft under its low-level name; see fgrad.numpy.fft."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from fgrad.errors import ArgumentError, note_user_line
from fgrad.numpy import fft as transforms
from fgrad.numpy.common import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike

__all__ = ["FftType", "fft"]


class FftType(IntEnum):
    """Which transform: forward, inverse, of real numbers to half a spectrum, and back.

    >>> fft(fnp.array([1.0, 0.0, 0.0, 0.0]), FftType.RFFT, (4,))
    Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


@public(static=("fft_type", "fft_lengths"))
def fft(x: ArrayLike, fft_type: FftType | str | int, fft_lengths: Sequence[int]) -> Array:
    """The transform along the last len(fft_lengths) axes, whose lengths (of the real side) are given.

    fft_type   an FftType, or its name such as "rfft"

    >>> lax.fft(fnp.array([1.0, 2.0, 3.0]), "rfft", (3,)).round(3)
    Array([ 6. +0.j   , -1.5+0.866j], dtype=complex64)
    """
    try:
        kind = FftType[fft_type.upper()] if isinstance(fft_type, str) else FftType(int(fft_type))
    except (KeyError, ValueError):
        names = ", ".join(t.name for t in FftType)
        raise note_user_line(ArgumentError(f"fft: fft_type must be one of {names}, got {fft_type!r}")) from None
    run: Any = {
        FftType.FFT: transforms.fftn,
        FftType.IFFT: transforms.ifftn,
        FftType.RFFT: transforms.rfftn,
        FftType.IRFFT: transforms.irfftn,
    }[kind]
    sizes = tuple(fft_lengths)
    out: Array = run(x, s=sizes, axes=tuple(range(-len(sizes), 0)))
    return out
