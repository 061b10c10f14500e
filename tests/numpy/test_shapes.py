"""Moving, joining, splitting, repeating: as NumPy, with errors that say what does not fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import jit
from fgrad.errors import ArgumentError, ConcretizationError, ShapeError


def test_shapes_are_changed(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("reshape", cube, (4, -1))
    as_numpy("reshape", cube, (2, 12), order="F")
    as_numpy("reshape", cube[:0], (0, 8))
    as_numpy("ravel", cube, order="F")
    as_numpy("broadcast_to", cube[:1], (5, 4, 2))
    as_numpy("broadcast_arrays", cube, cube[0], 1.0)
    as_numpy("atleast_3d", cube[0])
    as_numpy("atleast_2d", 1.0, cube[0, 0])
    assert fnp.broadcast_shapes((3, 1), 4) == (3, 4)
    assert (fnp.shape(cube), fnp.ndim(cube), fnp.size(cube, 1)) == ((3, 4, 2), 3, 4)


def test_arrays_are_joined(as_numpy: Callable[..., None], cube: Any, ints: Any) -> None:
    as_numpy("concatenate", [cube, cube[:, :1]], 1)
    as_numpy("concatenate", [cube, ints], None)
    as_numpy("concatenate", [cube[:0], cube])
    as_numpy("stack", [cube, ints], -1)
    for name in ("vstack", "hstack", "dstack"):
        as_numpy(name, [cube, cube])
        as_numpy(name, [cube[0, 0], ints[0, 0]])
    as_numpy("column_stack", [cube[:, 0, 0], cube[:, 0]])
    as_numpy("append", cube, ints, 0)
    as_numpy("block", [[np.eye(2), np.zeros((2, 3))], [np.ones((3, 2)), np.eye(3)]])


def test_arrays_are_split(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("split", cube, 2, 1)
    as_numpy("split", cube, [1, 3], 1)
    as_numpy("split", cube, np.array([1, 3]), 1)
    as_numpy("array_split", cube, 3, 1)
    as_numpy("array_split", cube, [2, 2, 9], 0)
    as_numpy("hsplit", cube, 2)
    as_numpy("vsplit", cube, 3)
    as_numpy("dsplit", cube, 2)
    as_numpy("unstack", cube, axis=1)


def test_places_of_a_split_are_concrete_integers(same: Callable[..., None]) -> None:
    x = np.arange(6.0)
    same(fnp.split(x, fnp.array([2, -1])), np.split(x, [2, -1]))
    same(fnp.array_split(x, np.int32(4)), np.array_split(x, 4))
    same(jit(lambda v: fnp.split(v, np.array([1, 4])))(x), np.split(x, [1, 4]))
    with pytest.raises(ConcretizationError, match="In split, give the places as Python integers"):
        jit(lambda i: fnp.split(fnp.zeros(6), [2, i]))(3)
    with pytest.raises(ArgumentError, match="must be integers, got 2.5"):
        fnp.split(x, 2.5)
    with pytest.raises(ValueError, match="must be positive, got 0"):
        fnp.split(x, 0)


def test_elements_are_repeated(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("tile", cube, (2, 1, 3))
    as_numpy("tile", cube, (2, 1, 1, 2))
    as_numpy("tile", cube, 0)
    as_numpy("repeat", cube, 2)
    as_numpy("repeat", cube, 3, 1)
    as_numpy("repeat", cube, [1, 0, 2], 0)
    as_numpy("resize", cube, (5, 7))
    as_numpy("resize", cube, (2, 2))


def test_repeat_by_traced_counts_needs_the_size_of_the_result(same: Callable[..., None]) -> None:
    x, counts = np.arange(3.0), np.array([2, 0, 3])
    f = jit(lambda v, n: fnp.repeat(v, n, total_repeat_length=7))
    same(f(x, counts), np.float32([0, 0, 2, 2, 2, 2, 2]))
    with pytest.raises(TypeError, match="total_repeat_length"):
        jit(fnp.repeat)(x, counts)


@pytest.mark.parametrize("shift, axis", [(3, None), ((1, -2), (0, 1)), (-1, 2), (7, (0, 1)), (0, 0)])
def test_roll_by_known_and_by_computed_shifts(shift: Any, axis: Any, cube: Any, same: Callable[..., None]) -> None:
    wanted = np.roll(cube, shift, axis)
    same(fnp.roll(cube, shift, axis), wanted)
    same(fnp.roll(cube, fnp.array(shift), axis), wanted)


def test_elements_are_inserted_and_deleted(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("delete", cube, 1, 1)
    as_numpy("delete", cube, [0, -1], 1)
    as_numpy("delete", cube, slice(0, 2), 0)
    as_numpy("delete", cube, np.arange(24) % 2 == 0)
    as_numpy("insert", cube, 1, 7, 1)
    as_numpy("insert", cube, [1, 3], cube[:, :2], 1)
    as_numpy("insert", cube, 2, cube[:, 0], 1)
    as_numpy("insert", cube[:, 0, 0], [0, 0, 3], [1, 2, 3])
    as_numpy("trim_zeros", np.array([0, 0, 1, 0, 2, 0]))


def test_shape_errors_name_the_function_and_the_way_out() -> None:
    x = fnp.ones((2, 3))
    with pytest.raises(ShapeError, match=r"reshape: cannot reshape \(2, 3\) \(6 elements\) into \(4, 2\)"):
        x.reshape(4, 2)
    with pytest.raises(ShapeError, match="only one size can be -1"):
        x.reshape(-1, -1)
    with pytest.raises(ShapeError, match="add missing axes"):
        x + fnp.ones(2)
    with pytest.raises(ShapeError, match="concatenate: shapes .* differ on another axis"):
        fnp.concatenate([x, fnp.ones((2, 2))])
    with pytest.raises(ShapeError, match="0-d arrays cannot be concatenated; use stack"):
        fnp.concatenate([1.0, 2.0])
    with pytest.raises(ShapeError, match="stack: all arrays need one shape"):
        fnp.stack([x, x[0]])
    with pytest.raises(ShapeError, match="use array_split"):
        fnp.split(x, 2, 1)
    with pytest.raises(ShapeError, match="axis 2 is out of bounds for an array with 2 axes; use -2 to 1"):
        fnp.flip(x, 2)
    with pytest.raises(ShapeError, match="no permutation"):
        fnp.transpose(x, (0, 0))
    with pytest.raises(ShapeError, match="squeeze: axis 1"):
        fnp.squeeze(x, 1)
