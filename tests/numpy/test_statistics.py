"""Quantiles, averages, covariances, histograms."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import jit
from fgrad.numpy.statistics import METHODS


@pytest.fixture(autouse=True)
def _numpy_may_warn() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("method", METHODS)
def test_quantiles(method: str, as_numpy: Callable[..., None], cube: Any, holes: Any) -> None:
    for q in (0.3, [0.0, 0.25, 1.0]):
        as_numpy("quantile", cube, q, 1, method=method)
        as_numpy("nanquantile", holes, q, 1, method=method)
    as_numpy("quantile", cube, 0.5, method=method, keepdims=True)


def test_percentiles_and_medians(as_numpy: Callable[..., None], cube: Any, holes: Any, ints: Any) -> None:
    as_numpy("quantile", holes, 0.5, 0)
    as_numpy("percentile", ints, [10, 90], axis=(0, 2))
    as_numpy("nanpercentile", holes, 30, 1)
    as_numpy("median", cube)
    as_numpy("median", ints, 0, keepdims=True)
    as_numpy("nanmedian", holes, 1)
    assert fnp.quantile(np.array([1.0, 2.0, np.inf]), 0.5) == 2  # not NaN, as inf - inf would give
    assert np.isnan(fnp.median(np.zeros(0)))
    with pytest.raises(ValueError, match="method must be one of"):
        fnp.quantile(cube, 0.5, method="guess")


def test_quantiles_of_many_small_floats_are_at_their_own_place(same: Callable[..., None]) -> None:
    """Positions are counted in a wider dtype: bfloat16 has no 999, float16 no 4999."""
    x = np.random.default_rng(0).permutation(np.linspace(-3, 3, 5000)).astype(np.float32)
    for dtype in (fnp.bfloat16, np.float16):
        small = x.astype(dtype)
        for q in (0.5, 0.90625):
            got = fnp.quantile(small, q, method="lower")
            same(got, np.quantile(small.astype(np.float32), q, method="lower"))
    same(fnp.percentile(np.arange(5.0) / 3, [10, 90]), np.percentile(np.arange(5.0) / 3, [10, 90]))


def test_levels_that_are_python_numbers_are_as_exact_as_the_elements(same: Callable[..., None]) -> None:
    x = np.array([-1.5, 2.4, 1.04, 0.51, 1.69])
    for q in (0.3, [0.3, 0.9]):
        same(fnp.quantile(x, q), np.quantile(x, q))
        same(jit(lambda v, q=q: fnp.nanquantile(v, q))(x), np.quantile(x, q))
    assert fnp.quantile(x.astype(np.float32), [0.3]).dtype == np.float32


def test_averages(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("average", cube, 1)
    as_numpy("average", cube, 1, np.array([1.0, 2, 3, 4]))
    as_numpy("average", cube, None, np.abs(cube))
    as_numpy("average", cube, 1, np.abs(cube), returned=True)
    as_numpy("average", cube, 1, [1.0, 2, 3, 4], keepdims=True)
    for axes in ((0, 1), (1, 0), (-1, 0), (2, 0, 1)):
        weights = np.arange(1.0, 1 + np.prod([cube.shape[i] for i in axes])).reshape([cube.shape[i] for i in axes])
        as_numpy("average", cube, axes, weights, returned=True)
    with pytest.raises(ValueError, match="weights of shape"):
        fnp.average(cube, 1, np.ones((2, 2)))


def test_covariances(as_numpy: Callable[..., None], cube: Any) -> None:
    x = cube[..., 0]
    as_numpy("cov", x)
    as_numpy("cov", x, rowvar=False)
    as_numpy("cov", x[0], x[1], bias=True)
    as_numpy("cov", x, ddof=0, fweights=np.array([1, 2, 1, 3]))
    as_numpy("cov", x, fweights=np.array([1, 2, 1, 3]), aweights=np.array([1.0, 2, 1, 3]))
    as_numpy("cov", x + 1j * cube[..., 1])
    as_numpy("corrcoef", x)
    as_numpy("corrcoef", x + 1j * cube[..., 1])


def test_histograms(as_numpy: Callable[..., None], same: Callable[..., None], cube: Any, ints: Any) -> None:
    for x in (cube, ints):
        as_numpy("histogram", x)
        as_numpy("histogram", x, 5, (-1.0, 1.0))
        as_numpy("histogram", x, [-1.0, 0.0, 0.5, 3.0])
        as_numpy("histogram", x, 4, density=True)
    as_numpy("histogram", cube, 3, weights=np.abs(cube))
    as_numpy("histogram", cube, "auto")
    as_numpy("histogram_bin_edges", cube, 3)
    as_numpy("histogram2d", cube[0].ravel(), cube[1].ravel(), [3, 4], density=True)
    same(fnp.histogramdd(cube.reshape(-1, 2), 3)[0], np.histogramdd(cube.reshape(-1, 2), 3)[0])
