"""Convolutions and spectra against SciPy."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.scipy import signal

theirs = pytest.importorskip("scipy.signal")


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("x_shape", "y_shape"), [((5,), (2,)), ((2,), (5,)), ((4, 5), (2, 3)), ((3, 3, 2), (2, 2, 2))])
def test_convolution_and_correlation(mode: str, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = [rng.normal(size=s) + 1j * rng.normal(size=s) for s in (x_shape, y_shape)]
    for name in ("convolve", "correlate"):
        for method in ("direct", "fft"):
            got = getattr(signal, name)(x, y, mode, method)
            np.testing.assert_allclose(got, getattr(theirs, name)(x, y, mode, method), atol=1e-12)
    if len(x_shape) == 2:
        np.testing.assert_allclose(signal.convolve2d(x, y, mode), theirs.convolve2d(x, y, mode), atol=1e-12)
        np.testing.assert_allclose(signal.correlate2d(x, y, mode), theirs.correlate2d(x, y, mode), atol=1e-12)


def test_integers_are_convolved_exactly_and_gradients_exist() -> None:
    assert signal.convolve(np.array([1, 2, 3]), np.array([1, 10])).tolist() == [1, 12, 23, 30]
    slope = fgrad.grad(lambda y: fnp.sum(signal.convolve(fnp.array([1.0, 2.0]), y) * fnp.arange(3.0)))(fnp.zeros(2))
    assert slope.tolist() == [2.0, 5.0]


@pytest.mark.parametrize("window", ["boxcar", "triang", "blackman", "hamming", "hann", "bartlett"])
def test_spectra(window: str) -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 2, 50))
    cut = {"window": window, "nperseg": 16, "noverlap": 6, "nfft": 20, "fs": 3.0}
    for boundary in (None, "even", "odd", "zeros", "constant"):
        for got, wanted in zip(
            signal.stft(x, **cut, boundary=boundary, detrend="linear"),
            theirs.stft(x, **cut, boundary=boundary, detrend="linear"),
            strict=True,
        ):
            np.testing.assert_allclose(got, wanted, atol=1e-12)
    for average in ("mean", "median"):
        for scaling in ("density", "spectrum"):
            options = {**cut, "average": average, "scaling": scaling}
            np.testing.assert_allclose(signal.welch(x, **options)[1], theirs.welch(x, **options)[1], atol=1e-12)
            np.testing.assert_allclose(signal.csd(x, y, **options)[1], theirs.csd(x, y, **options)[1], atol=1e-12)


def test_istft_undoes_stft_and_gives_a_time_for_each_element() -> None:
    x = np.random.default_rng(2).normal(size=(3, 64))
    spectra = signal.stft(x, nperseg=16)[2]
    times, back = signal.istft(spectra, nperseg=16)
    assert times.shape == (64,)
    np.testing.assert_allclose(back, x, atol=1e-12)


def test_detrend() -> None:
    x = np.random.default_rng(3).normal(size=(2, 20))
    for kind in ("constant", "linear"):
        np.testing.assert_allclose(signal.detrend(x, type=kind), theirs.detrend(x, type=kind), atol=1e-12)
    np.testing.assert_allclose(signal.detrend(x, bp=[5, 12]), theirs.detrend(x, bp=[5, 12]), atol=1e-12)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(errors.ShapeError, match="same number of axes"):
        signal.convolve(np.ones(3), np.ones((3, 3)))
    with pytest.raises(errors.ArgumentError, match="full, same or valid"):
        signal.convolve(np.ones(3), np.ones(3), "middle")
    with pytest.raises(errors.ArgumentError, match="noverlap"):
        signal.stft(np.ones(30), nperseg=8, noverlap=8)
