"""Spectra of windowed segments: short-time Fourier transform and its inverse, power and cross spectra.

Source of the definitions: P. D. Welch, IEEE Trans. Audio Electroacoust. 15 (1967); the inverse: D. Griffin, J. Lim,
IEEE Trans. ASSP 32 (1984).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import axis_of, is_traced
from fgrad.run.jit import jit
from fgrad.scipy.signal.trends import detrend as remove_trend
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike

_COSINES = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08), "boxcar": (1.0,)}


def _window(window: Any, nperseg: int | None, n: int, name: str) -> Any:
    """The window as a NumPy or traced vector; names give periodic ones."""
    if not isinstance(window, str | tuple):
        values = window if is_traced(window) else np.asarray(window)
        if values.ndim != 1:
            raise note_user_line(ShapeError(f"{name}: a window is a vector, got shape {values.shape}"))
        if nperseg is not None and nperseg != values.shape[0]:
            raise note_user_line(ShapeError(f"{name}: nperseg is {nperseg}, the window has {values.shape[0]} elements"))
        if values.shape[0] > n:
            raise note_user_line(ShapeError(f"{name}: the window has {values.shape[0]} elements, the signal {n}"))
        return values
    size = min(256 if nperseg is None else nperseg, n)
    if size < 1:
        raise note_user_line(ArgumentError(f"{name}: nperseg must be positive, got {nperseg}"))
    turn = 2 * np.pi * np.arange(size) / size
    if window in _COSINES:
        return sum((-1) ** k * c * np.cos(k * turn) for k, c in enumerate(_COSINES[window])) + np.zeros(size)
    if window in ("triang", "triangle"):
        whole = size + 1  # periodic: the first elements of a symmetric window one longer
        return 1 - np.abs(2 * np.arange(size) - (whole - 1)) / (whole + whole % 2)
    if window == "bartlett":
        return 1 - np.abs(2 * np.arange(size) / size - 1)
    raise NotImplementedError(f"{name}: no window {window!r}; give its values, e.g. of scipy.signal.get_window")


class _Segments(NamedTuple):
    """How a signal is cut: the window, the step between segments, the length of the transforms."""

    window: Any
    step: int
    nfft: int

    @property
    def size(self) -> int:
        return int(self.window.shape[0])


def _segments(window: Any, nperseg: Any, noverlap: Any, nfft: Any, n: int, name: str) -> _Segments:
    values = _window(window, nperseg, n, name)
    size = values.shape[0]
    overlap = size // 2 if noverlap is None else int(noverlap)
    length = size if nfft is None else int(nfft)
    if not 0 <= overlap < size:
        raise note_user_line(ArgumentError(f"{name}: noverlap must be in 0 .. {size - 1}, got {overlap}"))
    if length < size:
        raise note_user_line(ArgumentError(f"{name}: nfft must be at least nperseg ({size}), got {length}"))
    return _Segments(values, size - overlap, length)


def _extended(x: Any, n: int, boundary: str | None, name: str) -> Any:
    """The signal with n more elements on both sides."""
    if boundary is None or not n:
        return x
    if boundary == "zeros":
        return fnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(n, n)])
    first, last = x[..., :1], x[..., -1:]
    if boundary == "constant":
        rest = x.shape[:-1]
        return fnp.concatenate([fnp.broadcast_to(first, (*rest, n)), x, fnp.broadcast_to(last, (*rest, n))], axis=-1)
    if boundary not in ("even", "odd"):
        raise note_user_line(ArgumentError(f"{name}: boundary is even, odd, constant, zeros or None, got {boundary!r}"))
    left, right = fnp.flip(x[..., 1 : n + 1], -1), fnp.flip(x[..., -n - 1 : -1], -1)
    if boundary == "odd":
        left, right = 2 * first - left, 2 * last - right
    return fnp.concatenate([left, x, right], axis=-1)


def _transformed(x: Any, cut: _Segments, trend: Any, onesided: bool) -> Any:
    """[*s, n] -> [*s, segments, frequencies]."""
    count = (x.shape[-1] - cut.size) // cut.step + 1
    index = np.arange(count)[:, None] * cut.step + np.arange(cut.size)
    parts = x[..., index]
    if trend:
        parts = trend(parts) if callable(trend) else remove_trend(parts, type=trend)
    parts = parts * fnp.asarray(cut.window).astype(fnp.real(x).dtype)
    return (fnp.fft.rfft if onesided else fnp.fft.fft)(parts, n=cut.nfft, axis=-1)


def _frequencies(nfft: int, fs: float, onesided: bool, kind: Any) -> Any:
    found = (np.fft.rfftfreq if onesided else np.fft.fftfreq)(nfft, 1 / fs)
    return fnp.asarray(found.astype(kind))


def _scale(cut: _Segments, fs: float, scaling: str, name: str) -> Any:
    if scaling not in ("density", "spectrum", "psd"):
        raise note_user_line(ArgumentError(f"{name}: scaling must be density or spectrum, got {scaling!r}"))
    library = np if isinstance(cut.window, np.ndarray) else fnp
    if scaling == "spectrum":
        return 1.0 / library.sum(cut.window) ** 2
    return 1.0 / (fs * library.sum(cut.window * cut.window))


def _signal(x: Any) -> Any:
    return fnp.multiply(fnp.asarray(x), 1.0)


def stft(
    x: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform along `axis` -> (frequencies, times, spectra).

    fs         samples a unit of time
    window     a name (hann, hamming, blackman, bartlett, triang, boxcar) or the values, then of nperseg elements
    nperseg    elements of a segment; noverlap: how many are in the next one too (half)
    nfft       length of the transforms, at least nperseg
    detrend    `constant`, `linear`, a function, or False
    boundary   how the signal goes on at both ends by half a segment: even, odd, constant, zeros, or None
    padded     zeros are added behind, so that segments reach the end

    The spectra have frequencies at `axis` and times as a new last axis; one-sided for real signals unless
    return_onesided is False.

    Raises ShapeError or ArgumentError where the sizes do not fit.

    >>> t = fnp.arange(64) / 64
    >>> f, times, z = stft(fnp.sin(2 * fnp.pi * 8 * t), fs=64, nperseg=16)
    >>> z.shape, f[fnp.argmax(fnp.abs(z[:, 4]))]
    ((9, 9), Array(8., dtype=float32))
    """
    signal = _signal(x)
    place = axis_of(axis, signal.ndim, "stft")
    cut = _segments(window, nperseg, noverlap, nfft, signal.shape[place], "stft")
    onesided = return_onesided and signal.dtype.kind != "c"

    def compute(values: Any) -> Any:
        values = _extended(fnp.moveaxis(values, place, -1), cut.size // 2, boundary, "stft")
        if padded:
            more = (-(values.shape[-1] - cut.size) % cut.step) % cut.size
            values = fnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, more)])
        spectra = _transformed(values, cut, detrend, onesided)
        spectra = spectra * fnp.sqrt(fnp.asarray(_scale(cut, fs, "spectrum", "stft"), dtype=fnp.real(values).dtype))
        return fnp.moveaxis(fnp.swapaxes(spectra, -1, -2), -2, place)

    spectra = jit(compute)(signal)
    kind = fnp.real(signal).dtype
    start = 0.0 if boundary is not None else cut.size / 2
    times = (start + cut.step * np.arange(spectra.shape[-1])) / fs
    return _frequencies(cut.nfft, fs, onesided, kind), fnp.asarray(times.astype(kind)), spectra


def _median_bias(n: int) -> float:
    """The ratio of the median of the mean of spectra to the mean, for n segments."""
    twice = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    return float(1 + np.sum(1 / (twice + 1) - 1 / twice))


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross spectrum of two signals along `axis`, by Welch's method -> (frequencies, spectrum).

    y         None: x again; the shorter signal is filled with zeros
    scaling   `density`: power per frequency; `spectrum`: power
    average   how segments are combined: `mean` or `median` (with its bias taken out)

    The other arguments are those of stft.

    >>> t = fnp.arange(128) / 64
    >>> f, p = csd(fnp.sin(2 * fnp.pi * 8 * t), fnp.cos(2 * fnp.pi * 8 * t), fs=64, nperseg=32)
    >>> f[fnp.argmax(fnp.abs(p))]
    Array(8., dtype=float32)
    """
    if average not in ("mean", "median"):
        raise note_user_line(ArgumentError(f"csd: average must be mean or median, got {average!r}"))
    first = _signal(x)
    second = first if y is None else _signal(y)
    places = [axis_of(axis, v.ndim, "csd") for v in (first, second)]
    longest = max(first.shape[places[0]], second.shape[places[1]])
    cut = _segments(window, nperseg, noverlap, nfft, longest, "csd")
    onesided = return_onesided and "c" not in (first.dtype.kind, second.dtype.kind)

    def compute(*signals: Any) -> Any:
        rows = [fnp.moveaxis(v, p, -1) for v, p in zip(signals, places, strict=False)]
        rows = [fnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, longest - v.shape[-1])]) for v in rows]
        found = [_transformed(v, cut, detrend, onesided) for v in rows]
        power = fnp.conj(found[0]) * found[-1]
        power = power * fnp.asarray(_scale(cut, fs, scaling, "csd"), dtype=fnp.real(power).dtype)
        if onesided:
            twice = np.full(cut.nfft // 2 + 1, 2.0)
            twice[0] = 1
            if cut.nfft % 2 == 0:
                twice[-1] = 1
            power = power * fnp.asarray(twice).astype(fnp.real(power).dtype)
        if average == "mean":
            combined = fnp.mean(power, axis=-2)
        else:
            bias = _median_bias(power.shape[-2])
            combined = fnp.median(fnp.real(power), axis=-2) / bias
            combined = combined + 1j * fnp.median(fnp.imag(power), axis=-2) / bias
        return fnp.moveaxis(combined, -1, places[0])

    spectrum = jit(compute)(first) if y is None else jit(compute)(first, second)
    return _frequencies(cut.nfft, fs, onesided, fnp.real(first).dtype), spectrum


def welch(
    x: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectrum of a signal, by Welch's method -> (frequencies, spectrum). Arguments as for csd.

    >>> f, p = welch(fnp.sin(2 * fnp.pi * 8 * fnp.arange(128) / 64), fs=64, nperseg=32)
    >>> f.shape, p.shape, f[fnp.argmax(p)]
    ((17,), (17,), Array(8., dtype=float32))
    """
    frequencies, spectrum = csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )
    return frequencies, fnp.real(spectrum)


def istft(
    Zxx: ArrayLike,  # noqa: N803  SciPy's name
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The signal whose short-time Fourier transform is nearest to `Zxx` -> (times, signal).

    boundary   whether half a segment was added at both ends, and is to be taken away

    The other arguments are those of stft that made it.

    >>> x = fnp.sin(fnp.arange(64.0))
    >>> _, back = istft(stft(x, nperseg=16)[2], nperseg=16)
    >>> fnp.allclose(back, x, atol=1e-5)
    Array(True, dtype=bool)
    """
    spectra = fnp.asarray(Zxx)
    if spectra.ndim < 2:
        raise note_user_line(ShapeError(f"istft: Zxx needs axes of frequencies and times, got shape {spectra.shape}"))
    at, by = axis_of(time_axis, spectra.ndim, "istft"), axis_of(freq_axis, spectra.ndim, "istft")
    if at == by:
        raise note_user_line(ArgumentError("istft: time_axis and freq_axis are the same axis"))
    default = 2 * (spectra.shape[by] - 1) if input_onesided else spectra.shape[by]
    size = default if nperseg is None else int(nperseg)
    if nfft is None:
        length = size if input_onesided and size == default + 1 else default
    else:
        length = int(nfft)
    cut = _segments(window, size, noverlap, max(length, size), max(size, 1), "istft")
    if length < size:
        raise note_user_line(ArgumentError(f"istft: nfft must be at least nperseg ({size}), got {length}"))

    def compute(values: Any) -> Any:
        values = fnp.moveaxis(values, (at, by), (-2, -1))
        inverse = fnp.fft.irfft if input_onesided else fnp.fft.ifft
        parts = inverse(values, n=length, axis=-1)[..., :size]
        w = fnp.asarray(cut.window).astype(fnp.real(parts).dtype)
        parts = parts * w * fnp.sum(w)
        count = parts.shape[-2]
        index = np.arange(count)[:, None] * cut.step + np.arange(size)
        total = size + (count - 1) * cut.step
        signal = fnp.zeros((*parts.shape[:-2], total), dtype=parts.dtype).at[..., index].add(parts)
        weight = fnp.zeros(total, dtype=w.dtype).at[index].add(fnp.broadcast_to(w * w, index.shape))
        if boundary and size > 1:
            signal, weight = signal[..., size // 2 : -(size // 2)], weight[size // 2 : -(size // 2)]
        signal = signal / fnp.where(weight > 1e-10, weight, 1)
        place = at - (by < at)
        return fnp.moveaxis(signal, -1, place)

    signal = jit(compute)(spectra)
    times = np.arange(signal.shape[at - (by < at)]) / fs
    return fnp.asarray(times.astype(fnp.real(signal).dtype)), signal


__all__ = ["csd", "istft", "stft", "welch"]
