"""Making arrays: dtypes of literals, copies, ranges and grids."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import devices, jit
from fgrad.errors import ShapeError


@pytest.mark.parametrize(
    "data, dtype",
    [([1, 2], np.int64), ([1, 2.5], np.float32), ([1j], np.complex64), ([True], np.bool_), ([], np.float32),
     (3, np.int64), (np.float64(3), np.float64), (np.arange(3, dtype=np.int8), np.int8), ([[1], [2]], np.int64),
     ([np.float64(1), 2], np.float64), (range(3), np.int64), (2**63, np.uint64)],
)  # fmt: skip
def test_literals_have_default_dtypes_and_data_keeps_its_own(data: Any, dtype: Any) -> None:
    assert fnp.array(data).dtype == dtype


def test_lists_may_hold_arrays(same: Callable[..., None]) -> None:
    a = fnp.arange(3.0)
    same(fnp.array([a, 2 * a]), np.float32([[0, 1, 2], [0, 2, 4]]))
    same(jit(lambda v: fnp.array([[v[0], 7], [v[1], 8]]))(a), np.float32([[0, 7], [1, 8]]))


def test_host_data_is_copied_now(same: Callable[..., None]) -> None:
    data = np.arange(3.0)
    a, b = fnp.array(data), fnp.asarray(data)
    data[:] = 9
    same([a, b], [np.arange(3.0)] * 2)
    assert fnp.asarray(a) is a and fnp.array(a) is not a


def test_bad_data_says_what_is_wrong() -> None:
    with pytest.raises(ShapeError, match="no common shape"):
        fnp.array([[1], [2, 3]])
    with pytest.raises(OverflowError, match="300 does not fit in uint8"):
        fnp.array([1, 300], np.uint8)
    with pytest.raises(TypeError, match="is no number and no array"):
        fnp.array(["a"])
    with pytest.raises(ValueError, match="copy=False"):
        fnp.asarray(np.ones(2), copy=False)


@pytest.mark.parametrize(
    "args",
    [(5,), (2, 10, 3), (0.0, 1.0, 0.1), (10, 0, -3), (3, 3), (0, 5, 2.5), (np.int8(4),), (2.5,)],
)
def test_arange_is_the_same_inside_and_outside_a_stage(args: Any, same: Callable[..., None]) -> None:
    wanted = np.arange(*args)
    same(fnp.arange(*args), wanted)
    same(jit(lambda: fnp.arange(*args))(), wanted)


def test_shapes_and_fills(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("full", (2, 3), 7)
    as_numpy("full", (2, 2), [1.0, 2.0])
    as_numpy("zeros_like", cube)
    as_numpy("full_like", cube, 3, shape=(2,))
    as_numpy("eye", 3, 4, 1)
    as_numpy("identity", 3)
    as_numpy("tri", 3, 4, -1)
    assert fnp.zeros(3).dtype == np.float32 and fnp.ones((), bool).dtype == np.bool_
    assert fnp.empty((0, 2)).shape == (0, 2)
    with pytest.raises(ValueError, match="must not be negative"):
        fnp.zeros((2, -1))
    with pytest.raises(OverflowError):
        fnp.full(2, 300, np.int8)


@pytest.mark.parametrize("num, endpoint", [(7, True), (7, False), (1, True), (0, True)])
def test_linspace(num: int, endpoint: bool, as_numpy: Callable[..., None]) -> None:
    as_numpy("linspace", 0, 1, num, endpoint)
    as_numpy("linspace", np.array([0.0, 1]), np.array([2.0, 3]), num, endpoint, axis=1)


def test_linspace_is_placed_on_a_device(same: Callable[..., None]) -> None:
    (device,) = devices()[:1]
    out = fnp.linspace(0, 1, 3, device=device)
    same(out, [0.0, 0.5, 1.0])
    assert out.device == device


def test_complex_numbers_make_no_range() -> None:
    for args in ((0j, 3), (3j,), (0, 3, 1 + 1j)):
        with pytest.raises(ValueError, match="complex numbers have no order"):
            fnp.arange(*args)


def test_the_diagonal_of_tri_may_be_traced(same: Callable[..., None]) -> None:
    for k in (-1, 0, 2):
        same(jit(lambda k: fnp.tri(3, 4, k))(k), np.tri(3, 4, k))


def test_ranges_on_other_scales(as_numpy: Callable[..., None]) -> None:
    as_numpy("linspace", 0, 10, 5, dtype=int)
    as_numpy("logspace", 0, 2, 5)
    as_numpy("geomspace", 1, 1000, 4)
    as_numpy("geomspace", -8, -1, 4)


def test_grids(as_numpy: Callable[..., None], same: Callable[..., None]) -> None:
    x, y = np.arange(3.0), np.arange(4)
    for indexing in ("xy", "ij"):
        for sparse in (False, True):
            as_numpy("meshgrid", x, y, indexing=indexing, sparse=sparse)
    as_numpy("indices", (2, 3))
    same(fnp.fromfunction(lambda i, j: i * j, (2, 3)), np.fromfunction(lambda i, j: i * j, (2, 3)))
    same(fnp.mgrid[0:2, 0:1:5j], np.mgrid[0:2, 0:1:5j])
    same(fnp.ogrid[0:2, 0:3], np.ogrid[0:2, 0:3])
    same(fnp.r_[0:3, 7, x], np.r_[0:3, 7, x])
    same(fnp.c_[x, x], np.c_[x, x])


def test_diagonals_and_triangles(as_numpy: Callable[..., None], cube: Any, ints: Any) -> None:
    for k in (-2, -1, 0, 1, 3):
        as_numpy("diag", cube[..., 0], k)
        as_numpy("diag", cube[0, :, 0], k)
        as_numpy("tril", cube[..., 0], k)
        as_numpy("triu", ints, k)
        as_numpy("diagonal", cube, k, 0, 1)
        as_numpy("diagonal", cube, k, 2, 1)
    as_numpy("diagflat", cube[:2, 0], 1)


def test_windows(as_numpy: Callable[..., None]) -> None:
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        as_numpy(name, 6)
    as_numpy("kaiser", 6, 14.0)


def test_files_and_buffers(same: Callable[..., None], tmp_path: Any) -> None:
    x = fnp.arange(3.0)
    fnp.save(tmp_path / "x.npy", x)
    same(fnp.load(tmp_path / "x.npy"), x)
    same(fnp.frombuffer(np.arange(3.0).tobytes(), np.float64), np.arange(3.0))
    same(fnp.fromiter((i for i in range(3)), int), np.arange(3))
    fnp.savez(tmp_path / "two.npz", x, second=x[:2])
    both = fnp.load(tmp_path / "two.npz")
    same([both["arr_0"], both["second"]], [x, x[:2]])
    (tmp_path / "text").write_text("1 2.5 -3")
    same(fnp.fromfile(tmp_path / "text", sep=" "), np.float32([1, 2.5, -3]))
    same(fnp.fromstring("1, 2.5", sep=","), np.float32([1, 2.5]))


def test_arrays_are_printed_with_numpys_options() -> None:
    x = fnp.array([1 / 3, 1e-9])
    assert fnp.array_str(x, precision=2, suppress_small=True) == "[0.33 0.  ]"
    assert fnp.array_repr(x, precision=1) == "Array([3.3e-01, 1.0e-09], dtype=float32)"
    before = fnp.get_printoptions()
    with fnp.printoptions(precision=1, suppress=True):
        assert str(x) == "[0.3 0. ]"
        fnp.set_printoptions(precision=2)
        assert fnp.get_printoptions()["precision"] == 2
    assert fnp.get_printoptions() == before


def test_frompyfunc_makes_a_ufunc(same: Callable[..., None]) -> None:
    f = fnp.frompyfunc(lambda a, b: a * 2 + b, 2, 1, identity=0)
    same(f(np.arange(3.0), 1.0), np.float32([1, 3, 5]))
    same(f.reduce(np.arange(3.0)), np.float64(4))
