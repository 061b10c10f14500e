"""Sorting, searching, what is not zero, counting, sets."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgrad.numpy as fnp
from fgrad import jit, lax
from fgrad.errors import ConcretizationError


def test_sorting(as_numpy: Callable[..., None], same: Callable[..., None], holes: Any, ints: Any) -> None:
    for x in (holes, ints, ints > 0, ints.astype(np.uint8), holes.astype(np.float16)):
        for axis in (0, -1, None):
            as_numpy("sort", x, axis)
            same(fnp.argsort(x, axis), np.argsort(x, axis, stable=True))
    same(fnp.sort(ints, 0, descending=True), np.sort(ints, 0)[::-1])
    same(fnp.argsort(np.array([1, 2, 1, 2]), descending=True), [1, 3, 0, 2])
    z = ints[0] + 1j * ints[1]
    as_numpy("sort", z)
    as_numpy("sort_complex", ints[0, 0].astype(np.float32))
    as_numpy("lexsort", (ints[0, :, 0], ints[1, :, 0]))
    same(fnp.sort(fnp.partition(ints, 2, 1), 1), np.sort(ints, 1))
    assert fnp.sort(np.zeros((0, 2))).shape == (0, 2)


_SORTED = ["bool_", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", _SORTED)
@pytest.mark.parametrize("shape", [(9, 16), (3, 64), (3, 65), (300,), (9000,), (2, 70001)], ids=str)
def test_rows_of_any_length_sort_stably(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """Short rows, rows of narrow and of wide digits, and rows that several tasks sort together."""
    few = rng.integers(-3, 9, shape)
    odd = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf])
    with np.errstate(all="ignore"):
        wide = (rng.normal(size=shape) * 2.0 ** rng.integers(-20, 60, shape)).astype(name)
        if "float" in name:
            few = np.where(few < 3, odd[rng.integers(0, 6, shape)], few)
        for x in (few.astype(name), wide, np.full(shape, 3).astype(name)):
            order = np.argsort(x, -1, kind="stable")
            assert np.take_along_axis(x, order, -1).tobytes() == np.asarray(fnp.sort(x)).tobytes()
            np.testing.assert_array_equal(fnp.argsort(x), order)
            keys, payload = lax.sort((x, few))
            assert np.take_along_axis(x, order, -1).tobytes() == np.asarray(keys).tobytes()
            np.testing.assert_array_equal(payload, np.take_along_axis(few, order, -1))


def test_every_8_bit_pattern_has_its_place() -> None:
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"):
        x = np.arange(256, dtype=np.uint8)[::-1].copy().view(getattr(fnp, name))
        order = np.argsort(x.astype(np.float32), kind="stable")
        np.testing.assert_array_equal(fnp.argsort(x), order)
        assert x[order].tobytes() == np.asarray(fnp.sort(x)).tobytes()


def test_positions_along_another_axis_are_no_positions(same: Callable[..., None], rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (5, 7, 80))
    for axis in range(3):
        for of in range(3):
            payload = np.broadcast_to(np.arange(x.shape[of]).reshape([-1 if i == of else 1 for i in range(3)]), x.shape)
            order = np.argsort(x, axis, kind="stable")
            made = jit(lambda x, of=of, axis=axis: lax.sort((x, lax.broadcasted_iota(fnp.int64, x.shape, of)), axis)[1])
            same(made(x), np.take_along_axis(payload, order, axis))


@given(
    st.lists(st.integers(-9, 9), max_size=40).map(sorted),
    st.lists(st.integers(-12, 12), min_size=4, max_size=4),
    st.sampled_from(["left", "right"]),
)
def test_searchsorted_is_numpys(a: list[int], v: list[int], side: Any) -> None:
    wanted = np.searchsorted(np.array(a, float), np.array(v, float), side)
    padded = np.array([*a, *[np.inf] * (48 - len(a))])  # one size: few compilations
    got = fnp.searchsorted(padded, np.array(v, float), side=side)
    np.testing.assert_array_equal(got, wanted)


def test_searching_with_nan_and_few_elements(as_numpy: Callable[..., None]) -> None:
    nan_last = np.array([1.0, 2.0, np.nan, np.nan])
    many = np.concatenate([np.arange(30.0), [np.nan] * 3])
    for a in (nan_last, many):
        for side in ("left", "right"):
            as_numpy("searchsorted", a, np.array([np.nan, 0, 5.0, 29.0]), side)
    as_numpy("searchsorted", [1, 3, 5], 4)
    as_numpy("searchsorted", np.array([3, 1, 2]), 2, sorter=np.array([1, 2, 0]))
    for right in (True, False):
        as_numpy("digitize", np.array([-2.0, -1, 0.5, 7]), np.array([-1.0, 0, 1]), right)
        as_numpy("digitize", np.array([0, 1, 2, 3, 1]), np.array([3, 1, 0]), right)


def test_positions_of_what_is_not_zero(as_numpy: Callable[..., None], same: Callable[..., None], ints: Any) -> None:
    for name in ("nonzero", "flatnonzero", "argwhere"):
        as_numpy(name, ints)
    as_numpy("where", ints > 0)
    found = np.nonzero(ints)
    n = len(found[0])
    same(jit(lambda x: fnp.nonzero(x, size=3))(ints), [i[:3] for i in found])
    same(fnp.nonzero(ints, size=30, fill_value=-1), [np.append(i, [-1] * (30 - n)) for i in found])
    same(fnp.argwhere(ints, size=2), np.argwhere(ints)[:2])
    same(fnp.flatnonzero(np.zeros(3), size=2, fill_value=9), [9, 9])
    with pytest.raises(ConcretizationError, match="In nonzero, give size="):
        jit(fnp.nonzero)(ints)
    with pytest.raises(ValueError, match="atleast_1d"):
        fnp.nonzero(3)


def test_counting(as_numpy: Callable[..., None], same: Callable[..., None]) -> None:
    x = np.array([0, 1, 1, 3, 2, 1, 7])
    as_numpy("bincount", x)
    as_numpy("bincount", x, np.arange(7.0), minlength=12)
    same(jit(lambda v: fnp.bincount(v, length=3))(x), [1, 3, 1])
    with pytest.raises(ValueError, match="must not be negative"):
        fnp.bincount(np.array([-1]))
    with pytest.raises(TypeError, match="vector of integers"):
        fnp.bincount(np.array([0.5]))


def test_unique_elements(as_numpy: Callable[..., None], same: Callable[..., None], ints: Any) -> None:
    as_numpy("unique", ints)
    as_numpy("unique", ints, True, True, True)
    as_numpy("unique", ints[0] > 0, axis=0)
    as_numpy("unique", np.array([1.0, np.nan, np.nan]))
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        wanted = getattr(np, name)(ints)
        same(getattr(fnp, name)(ints), tuple(wanted) if isinstance(wanted, tuple) else np.sort(wanted))


def test_unique_elements_of_a_known_number(same: Callable[..., None], ints: Any) -> None:
    values, first, inverse, counts = np.unique(ints, True, True, True)
    n = len(values)
    got = jit(lambda x: fnp.unique(x, True, True, True, size=12))(ints)
    same([g[:n] for g in (got[0], got[1], got[3])], [values, first, counts])
    same(got[2], inverse)
    same(got[0][n:], np.full(12 - n, values[0]))
    same(fnp.unique(np.array([3, 1, 3]), size=4, fill_value=-1), [1, 3, -1, -1])
    with pytest.raises(ConcretizationError, match="In unique, give size="):
        jit(fnp.unique)(ints)


def test_sets(as_numpy: Callable[..., None], same: Callable[..., None], ints: Any) -> None:
    other = ints + 3
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        as_numpy(name, ints, other)
    as_numpy("intersect1d", np.array([1, 2, 3]), np.array([3, 1]), return_indices=True)
    as_numpy("isin", ints, [1, 2, -3])
    as_numpy("isin", ints, np.array([1, 2]), invert=True)
    as_numpy("isin", ints, np.array([], np.int64))
    same(jit(lambda x, y: fnp.union1d(x, y, size=4))(np.array([1, 2]), np.array([2, 5])), [1, 2, 5, 1])


@pytest.mark.parametrize("name", ["intersect1d", "setdiff1d", "setxor1d"])
def test_sets_of_traced_arrays_have_a_known_size(name: str, same: Callable[..., None], ints: Any) -> None:
    for x, y in ((ints, ints + 3), (ints[0], ints[0][:0]), (np.array([2.5, 1.0, 2.5]), np.array([1.0, 7.0]))):
        wanted = getattr(np, name)(x, y)
        for size in (len(wanted) + 3, max(len(wanted) - 1, 0)):
            found = jit(lambda x, y, size=size: getattr(fnp, name)(x, y, size=size, fill_value=-9))(x, y)
            same(found, np.concatenate([wanted, np.full(3, -9, wanted.dtype)])[:size])
            same(getattr(fnp, name)(x, y, size=size, fill_value=-9), found)


def test_a_traced_difference_keeps_the_dtype_of_the_first_array(same: Callable[..., None]) -> None:
    x, y = np.array([2, 1, 2], np.float16), np.array([1.0], np.float32)
    found = jit(lambda x, y: fnp.setdiff1d(x, y, size=2))(x, y)
    assert found.dtype == np.setdiff1d(x, y).dtype == np.float16
    same(found, [2.0, 0.0])


def test_positions_of_a_traced_intersection(same: Callable[..., None]) -> None:
    x, y = np.array([7, 3, 1, 3]), np.array([3, 9, 7])
    found = jit(lambda x, y: fnp.intersect1d(x, y, return_indices=True, size=3))(x, y)
    same(found, ([3, 7, 3], [1, 0, 1], [0, 2, 0]))
    same(jit(lambda x: fnp.setdiff1d(x, [3], size=3, assume_unique=True))(x[:3]), [7, 1, 0])


def test_the_numpy_functions_warn_no_more_than_numpy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fnp.log(fnp.array([-1.0, 0.0])) / 0
