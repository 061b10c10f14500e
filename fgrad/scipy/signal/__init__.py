"""Signals under SciPy's names: convolutions, and spectra of segments."""

from fgrad.scipy.signal.convolutions import convolve as convolve
from fgrad.scipy.signal.convolutions import convolve2d as convolve2d
from fgrad.scipy.signal.convolutions import correlate as correlate
from fgrad.scipy.signal.convolutions import correlate2d as correlate2d
from fgrad.scipy.signal.convolutions import fftconvolve as fftconvolve
from fgrad.scipy.signal.spectra import csd as csd
from fgrad.scipy.signal.spectra import istft as istft
from fgrad.scipy.signal.spectra import stft as stft
from fgrad.scipy.signal.spectra import welch as welch
from fgrad.scipy.signal.trends import detrend as detrend
from fgrad.trace.frames import trim_public

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip

trim_public(globals(), __all__)
