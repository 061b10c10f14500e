"""take, put, choose and index arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import jit


def test_take(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("take", cube, np.array([0, -1, 2]))
    as_numpy("take", cube, [[1, 0]], 1)
    as_numpy("take", cube, 5, axis=0, mode="clip")
    as_numpy("take", cube, [5, -7], axis=1, mode="wrap")
    with pytest.raises(IndexError, match="out of bounds"):
        fnp.take(cube, 99)


def test_take_and_put_along_an_axis(as_numpy: Callable[..., None], same: Callable[..., None], cube: Any) -> None:
    order = np.argsort(cube, 1)
    as_numpy("take_along_axis", cube, order, 1)
    as_numpy("take_along_axis", cube, order[:, :2], 1)
    as_numpy("take_along_axis", cube, np.array([3, 1]), None)
    wanted = cube.copy()
    np.put_along_axis(wanted, order[:, :1], 99.0, 1)
    same(fnp.put_along_axis(cube, order[:, :1], 99.0, 1), wanted)
    outside = jit(lambda x, i: fnp.take_along_axis(x, i, 0))(np.ones(2, np.float32), np.array([0, 5]))
    same(outside, np.float32([1, np.nan]))
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        fnp.take_along_axis(cube, order + 6, 1)


def test_elements_are_put_and_placed(same: Callable[..., None], cube: Any) -> None:
    wanted = cube.copy()
    np.put(wanted, [0, 5, -1], [7.0, 8.0])
    same(fnp.put(cube, [0, 5, -1], np.array([7.0, 8.0])), wanted)
    wanted = cube.copy()
    np.place(wanted, cube > 0, [7.0, 8.0])
    same(fnp.place(cube, cube > 0, np.array([7.0, 8.0])), wanted)
    with pytest.raises(NotImplementedError, match="inplace=False"):
        fnp.put(cube, 0, 1, inplace=True)


@pytest.mark.parametrize("shape, wrap", [((3, 4), False), ((4, 3), False), ((7, 3), True), ((3, 3, 3), False)])
def test_diagonals_are_filled(shape: Any, wrap: bool, same: Callable[..., None]) -> None:
    wanted = np.zeros(shape)
    np.fill_diagonal(wanted, [1.0, 2.0], wrap)
    same(fnp.fill_diagonal(np.zeros(shape), np.array([1.0, 2.0]), wrap), wanted)


def test_choices(as_numpy: Callable[..., None], same: Callable[..., None], cube: Any, ints: Any) -> None:
    as_numpy("choose", np.array([0, 1, 2, 1]), [ints[0, :, 0], ints[1, :, 0], ints[2, :, 0]])
    as_numpy("choose", np.array([0, 4, -1]), [np.arange(3), -np.arange(3)], mode="wrap")
    as_numpy("compress", [True, False, True], cube, 0)
    as_numpy("extract", ints > 1, ints)
    as_numpy("select", [ints > 2, ints < 0], [ints, -ints], 9)
    as_numpy("where", ints > 0, cube, 2.0)
    wanted = np.piecewise(cube, [cube < 0, cube > 1], [lambda v: -v, 2.0, 0.5])
    same(fnp.piecewise(cube, [cube < 0, cube > 1], [lambda v: -v, 2.0, 0.5]), wanted)
    sized = jit(lambda c, x: fnp.compress(c, x, size=3))(np.array([True, False, True]), np.arange(3.0))
    same(sized, np.array([0.0, 2.0, 0.0]))
    with pytest.raises(IndexError, match="2 choices"):
        fnp.choose(np.array([2]), [1, 2])


def test_index_arrays(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("ix_", [0, 2], [1, 3])
    as_numpy("ix_", np.array([True, False]), [1])
    as_numpy("unravel_index", np.array([5, 22]), (3, 4, 2))
    as_numpy("ravel_multi_index", (np.array([1, 2]), np.array([3, 0])), (3, 4))
    for mode in ("clip", "wrap"):
        as_numpy("ravel_multi_index", (np.array([1, 5]), np.array([3, -1])), (3, 4), mode=mode, order="F")
    as_numpy("tril_indices", 3, 1, 4)
    as_numpy("triu_indices_from", cube[..., 0], -1)
    as_numpy("diag_indices", 3, 3)
    as_numpy("mask_indices", 3, np.triu)
    with pytest.raises(IndexError, match="out of bounds"):
        fnp.ravel_multi_index((5,), (3,))
