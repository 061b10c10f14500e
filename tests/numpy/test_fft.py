"""Fourier transforms: values and dtypes of NumPy's, transposes, second arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import ArgumentError, DtypeError, ShapeError

ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL = ("rfft", "ihfft")


@pytest.fixture
def wave(rng: np.random.Generator) -> Callable[..., Any]:
    """wave("rfft", 3, 4): an operand for that function."""

    def make(name: str, *shape: int) -> Any:
        x = rng.normal(size=shape)
        return x if name in REAL else x + 1j * rng.normal(size=shape)

    return make


def test_single_precision_stays_and_integers_become_floats(wave: Any) -> None:
    assert fnp.fft.fft(wave("rfft", 4).astype(np.float32)).dtype == np.complex64
    assert fnp.fft.irfft(wave("fft", 4).astype(np.complex64)).dtype == np.float32
    assert fnp.fft.rfft(np.arange(4)).dtype == np.complex64
    assert fnp.fft.rfft(fnp.ones(4, fnp.float16)).dtype == np.complex64


@pytest.mark.parametrize("name", ONE_AXIS)
def test_transposes_are_adjoint(name: str, wave: Any, rng: np.random.Generator) -> None:
    """<ct, J v> == <J^T ct, v>, paired without conjugation."""
    x, v = wave(name, 5), wave(name, 5)

    def f(x: Any) -> Any:
        return getattr(fnp.fft, name)(x, 6, norm="forward")

    y, dy = fgrad.jvp(f, (x,), (v,))
    ct = rng.normal(size=y.shape) + (1j * rng.normal(size=y.shape) if y.dtype.kind == "c" else 0)
    (back,) = fgrad.vjp(f, x)[1](fnp.asarray(ct))
    np.testing.assert_allclose(np.sum(ct * np.asarray(dy)).real, np.sum(np.asarray(back) * v).real, rtol=1e-10)


def test_vmap_and_jit(wave: Any, same: Any) -> None:
    x = wave("rfft", 4, 3)
    turned = fgrad.jit(fgrad.vmap(lambda r: fnp.fft.irfft(fnp.fft.rfft(r)), in_axes=1))(x)
    same(turned, x.T)


def test_empty_batches(same: Any) -> None:
    same(fnp.fft.rfft(np.zeros((0, 4))), np.fft.rfft(np.zeros((0, 4))))


def test_what_is_refused() -> None:
    with pytest.raises(DtypeError, match="rfft: takes real numbers, got complex64; use fft"):
        fnp.fft.rfft(fnp.ones(3, fnp.complex64))
    with pytest.raises(ArgumentError, match="norm must be 'backward', 'ortho' or 'forward', got 'l2'"):
        fnp.fft.fft(fnp.ones(3), norm="l2")
    with pytest.raises(ShapeError, match="at least 1 element, got 0"):
        fnp.fft.fft(fnp.ones(3), 0)
