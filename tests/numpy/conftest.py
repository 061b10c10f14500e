"""What the tests of fgrad.numpy share: comparison with NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp

EXACT = (np.bool_, np.integer)


def tolerance(dtype: np.dtype[Any]) -> float:
    """How far apart two computations of the same number may be."""
    if dtype in (np.float64, np.complex128):
        return 1e-10
    return 2e-5 if dtype in (np.float32, np.complex64) else 4e-3


def check(got: Any, wanted: Any, what: Any = "") -> None:
    """Shapes, kinds and values agree; in sequences element by element."""
    if isinstance(wanted, tuple | list):
        assert len(got) == len(wanted), what
        for g, w in zip(got, wanted, strict=True):
            check(g, w, what)
        return
    g, w = np.asarray(got), np.asarray(wanted)
    assert g.shape == w.shape, (what, g.shape, w.shape)
    assert g.dtype.kind == w.dtype.kind or g.dtype.kind == "V", (what, g.dtype, w.dtype)
    rough = max(tolerance(g.dtype), tolerance(w.dtype)) if g.dtype.kind in "fcV" else 0
    as_complex = [x.astype(np.complex128) for x in (g, w)]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(*as_complex, rtol=rough, atol=rough, err_msg=str(what))


@pytest.fixture
def same() -> Callable[..., None]:
    """same(got, wanted): values, shapes and kinds of dtype agree."""
    return check


@pytest.fixture
def as_numpy() -> Callable[..., None]:
    """as_numpy("name", *args, **options): fgrad.numpy's function does what NumPy's does."""

    def run(name: str, *args: Any, **options: Any) -> None:
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(*args, **options)
        check(getattr(fnp, name)(*args, **options), wanted, (name, options))

    return run


@pytest.fixture
def cube(rng: np.random.Generator) -> Any:
    """float32[3, 4, 2]."""
    return rng.normal(size=(3, 4, 2)).astype(np.float32)


@pytest.fixture
def ints(rng: np.random.Generator) -> Any:
    """int64[3, 4, 2] between -5 and 4."""
    return rng.integers(-5, 5, (3, 4, 2))


@pytest.fixture
def holes(cube: Any) -> Any:
    """`cube` with a NaN, and a row of nothing else."""
    out = cube.copy()
    out[0, 1, 0] = np.nan
    out[2, :, 1] = np.nan
    return out
