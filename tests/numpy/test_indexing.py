"""x[idx] as NumPy's, checked and computed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad.numpy as fnp
from fgrad import jit
from fgrad.errors import ConcretizationError, OutOfBoundsError
from fgrad.numpy import indexing


def on_axis(n: int) -> st.SearchStrategy[Any]:
    """What may stand in a bracket for an axis of n elements."""
    bound = st.none() | st.integers(-n - 1, n + 1)
    step = st.sampled_from([None, 1, 2, -1, -2, 3])
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(slice, bound, bound, step),
        st.just(slice(None)),
        st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
    ]
    if n:
        position = st.integers(-n, n - 1)
        shapes = st.sampled_from([(2,), (1,), (3, 2), (2, 1)])
        kinds.append(position)
        kinds.append(
            shapes.flatmap(
                lambda s: st.lists(position, min_size=s[0] * (s[1:] or (1,))[0], max_size=s[0] * (s[1:] or (1,))[0])
                .map(lambda v: np.array(v).reshape(s))
            )
        )  # fmt: skip
    return st.one_of(kinds)


@st.composite
def indexed(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape and an index for it; the index arrays may not broadcast."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    items = [draw(on_axis(n)) for n in shape[: draw(st.integers(0, len(shape)))]]
    for extra in (None, Ellipsis, True):
        if draw(st.integers(0, 4)) == 0:
            items.insert(draw(st.integers(0, len(items))), extra)
    return shape, tuple(items)


@given(indexed())
@settings(max_examples=60)
def test_reading_and_writing_agree_with_numpy(case: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, idx = case
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    a = fnp.array(x)
    try:
        wanted = x[idx]
    except IndexError:
        with pytest.raises((IndexError, ValueError)):
            a[idx]
        return
    np.testing.assert_array_equal(a[idx], wanted)
    value = np.arange(wanted.size, dtype=np.float32).reshape(wanted.shape) + 100
    written = x.copy()
    written[idx] = value
    np.testing.assert_array_equal(a.at[idx].set(value), written)


@given(indexed())
@settings(max_examples=15)
def test_computed_indices_agree_with_numpy(case: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, idx = case
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    try:
        wanted = x[idx]
    except IndexError:
        return

    def is_computed(i: Any) -> bool:
        return (isinstance(i, int) and not isinstance(i, bool)) or (isinstance(i, np.ndarray) and i.dtype != np.bool_)

    @jit
    def read_and_add(v: Any, computed: Any) -> Any:
        rest = iter(computed)
        index = tuple([next(rest) if is_computed(i) else i for i in idx])
        return v[index], v.at[index].add(1)

    got, added = read_and_add(x, [i for i in idx if is_computed(i)])
    np.testing.assert_array_equal(got, wanted)
    expected = x.copy()
    np.add.at(expected, idx, 1)
    np.testing.assert_array_equal(added, expected)


def test_an_ellipsis_for_no_axis_parts_index_arrays(same: Callable[..., None]) -> None:
    x = np.arange(6).reshape(2, 3, 1)
    for idx in (
        (slice(None), [0, 2], ..., [0, 0]),
        (slice(None), [0, 2], [0, 0], ...),
        (..., slice(None), 2, [0, 0]),
    ):
        same(fnp.array(x)[idx], x[idx])
    with pytest.raises(ValueError, match="do not broadcast together"):
        fnp.array(x)[[0, 1], [0, 1, 2]]


def test_a_concrete_index_out_of_bounds_raises() -> None:
    x = fnp.ones((3, 4))
    for idx, message in [
        (7, "index 7 out of bounds for axis 0 with size 3"),
        ((0, -5), "index -5 out of bounds for axis 1 with size 4"),
        (np.array([0, 3]), "index 3 out of bounds"),
        (fnp.array([0, -4]), "index -4 out of bounds"),
        ((0, 0, 0), "Too many indices: array is 2-dimensional, but 3 were indexed"),
        (np.ones(4, bool), "boolean index of shape"),
        ((..., ...), "only one ellipsis"),
    ]:
        with pytest.raises(IndexError, match=message):
            x[idx]
        with pytest.raises(IndexError, match=message):
            x.at[idx].set(0)
    with pytest.raises(IndexError, match="1.0 of type float is no index"):
        x[1.0]
    with pytest.raises(OutOfBoundsError):
        jit(lambda v: v[3])(x)


@pytest.mark.parametrize(
    "dtype, nothing",
    [(np.float32, np.nan), (np.int32, -(2**31)), (np.uint8, 255), (bool, False), (np.complex64, np.nan)],
)
def test_a_computed_read_out_of_bounds_gives_no_neighbour(dtype: Any, nothing: Any, same: Callable[..., None]) -> None:
    x = np.ones(3, dtype)
    read = jit(lambda v, i: v[i])
    wanted = np.array([1, nothing, 1, nothing]).astype(dtype)
    same(read(x, np.array([0, 3, -1, -4])), wanted)
    same(read(x, 5), wanted[1])


def test_a_computed_write_out_of_bounds_is_dropped(same: Callable[..., None]) -> None:
    x = np.zeros(3, np.float32)
    write = jit(lambda v, i: v.at[i].set(7.0))
    same(write(x, np.array([0, 3, -4])), np.float32([7, 0, 0]))
    same(write(x, 3), x)
    same(write(x, -1), np.float32([0, 0, 7]))


def test_modes_choose_what_happens_out_of_bounds(same: Callable[..., None]) -> None:
    x = fnp.array([10.0, 20, 30])
    i = np.array([0, 5, -7])
    same(x.at[i].get(mode="clip"), np.float32([10, 30, 10]))
    same(x.at[i].get(mode="wrap"), np.float32([10, 30, 30]))
    same(x.at[i].get(mode="fill"), np.float32([10, np.nan, np.nan]))
    same(x.at[i].get(fill_value=-1), np.float32([10, -1, -1]))
    same(x.at[7].get(mode="clip"), np.float32(30))
    same(x.at[i].set(0, mode="drop"), np.float32([0, 20, 30]))
    same(x.at[i].set(0, mode="clip"), np.float32([0, 20, 0]))
    same(x.at[i].add(1, mode="wrap"), np.float32([11, 20, 32]))
    with pytest.raises(ValueError, match="mode must be one of"):
        x.at[i].get(mode="nearest")


def test_updates_combine(same: Callable[..., None]) -> None:
    x = np.float32([1, 2, 3])
    a, i = fnp.array(x), np.array([0, 0, 2])
    same(a.at[i].add(np.float32([1, 10, 5])), np.float32([12, 2, 8]))
    same(a.at[i].subtract(1), np.float32([-1, 2, 2]))
    same(a.at[i].multiply(2), np.float32([4, 2, 6]))
    same(a.at[i].divide(2), np.float32([0.25, 2, 1.5]))
    same(a.at[1:].power(2), np.float32([1, 4, 9]))
    same(a.at[i].min(0.5), np.float32([0.5, 2, 0.5]))
    same(a.at[1].max(5), np.float32([1, 5, 3]))
    same(a.at[1:].apply(fnp.sqrt), np.float32([1, np.sqrt(2), np.sqrt(3)]))
    same(a.at[...].set(0), np.zeros(3, np.float32))
    assert fnp.array([1, 2]).at[0].divide(2).dtype == np.float32
    assert fnp.array([1, 2]).at[0].set(2.5).tolist() == [2, 2]


@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max"])
def test_masks_update_inside_a_jitted_function(how: str, cube: Any, same: Callable[..., None]) -> None:
    mask = cube[:, :, 0] > 0
    ufunc = {"set": lambda x, v: v, "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[how]
    for value in (np.float32(2), np.float32([3, 4])):
        wanted = np.where(mask[:, :, None], ufunc(cube, value), cube)
        update = jit(lambda x, m, v: getattr(x.at[m], how)(v))
        same(update(cube, mask, value), wanted)
        same(getattr(fnp.array(cube).at[mask], how)(value), wanted)


def test_masks_select_outside_and_explain_inside(cube: Any, same: Callable[..., None]) -> None:
    same(fnp.array(cube)[cube > 0], cube[cube > 0])
    same(fnp.array(cube)[:, fnp.array(cube[0, :, 0] > 0)], cube[:, cube[0, :, 0] > 0])
    each = cube.copy()
    each[cube > 0] = np.arange((cube > 0).sum())
    same(fnp.array(cube).at[cube > 0].set(np.arange((cube > 0).sum())), each)
    with pytest.raises(ConcretizationError, match=r"x\.at\[mask\]\.set\(value\), .* nonzero\(mask, size=n\)"):
        jit(lambda x: x[x > 0])(cube)


def test_values_that_do_not_fit_are_refused() -> None:
    x = fnp.ones((2, 3))
    with pytest.raises(ValueError, match=r"shape \(2,\) does not broadcast to the indexed part.*\(3,\)"):
        x.at[0].set(np.ones(2))
    with pytest.raises(TypeError, match="complex values cannot be written"):
        x.at[0].set(1j)
    with pytest.raises(OverflowError, match="300 does not fit in int8"):
        fnp.ones(2, np.int8).at[0].set(300)


def test_slices_need_concrete_bounds() -> None:
    with pytest.raises(ConcretizationError, match="dynamic_slice"):
        jit(lambda x, i: x[i : i + 2])(np.ones(4), 1)


def test_a_loop_over_positions_compiles_once() -> None:
    x = fnp.arange(50.0)
    row, rows = indexing._row.dispatcher, indexing._rows.dispatcher  # type: ignore[attr-defined]
    before = x[0], x[0:2], row.compilations, rows.compilations
    assert float(sum([x[i] for i in range(50)], before[0])) == 1225
    assert [float(x[i : i + 2][1]) for i in range(0, 48, 7)] == [1, 8, 15, 22, 29, 36, 43]
    assert x[-3:].tolist() == [47, 48, 49] and x[5:2:-1].tolist() == [5, 4, 3]
    assert row.compilations <= before[2] + 1 and rows.compilations <= before[3] + 2
