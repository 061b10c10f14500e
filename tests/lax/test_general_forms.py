"""Gather, scatter, windows and products in their most general forms, and what they refuse."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import grad, jit, jvp, lax, vmap
from fgrad.errors import ArgumentError, DimensionNumbersError, DtypeError, ShapeError

SHAPE = (10, 9, 8, 7, 6)
GATHER: dict[str, Any] = {
    "offset_dims": (4, 5, 6, 7, 8), "collapsed_slice_dims": (), "start_index_map": (0, 1, 2, 3, 4),
    "operand_batching_dims": (), "start_indices_batching_dims": (),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "indices", "sizes", "words"),
    [
        ({"offset_dims": (4, 5, 6, 8, 7)}, (5,), SHAPE, "offset_dims .*sorted"),
        ({"offset_dims": (4, 5, 6, 7, 7)}, (5,), SHAPE, "offset_dims .*not repeat"),
        ({"offset_dims": (4, 5, 6, 7, 9)}, (5,), SHAPE, "Offset dimension 4 .*out of bounds"),
        ({"start_index_map": (0, 1, 2, 3)}, (5,), SHAPE, "4 elements in start_index_map .* is 5"),
        ({"start_index_map": (0, 1, 2, 3, 7)}, (5,), SHAPE, "Invalid start_index_map"),
        ({"start_index_map": (0, 1, 2, 3, 3)}, (5,), SHAPE, "start_index_map .*not repeat"),
        ({"collapsed_slice_dims": (2, 1)}, (5,), SHAPE, "collapsed_slice_dims .*sorted"),
        ({"collapsed_slice_dims": (1, 5)}, (5,), SHAPE, r"Invalid collapsed_slice_dims .*\[0, 5\)"),
        ({"collapsed_slice_dims": (4,)}, (5,), SHAPE, "All components of the offset index"),
        ({}, (5,), (10, 9, 8, 100, 6), "Slice size at index 3 .*out of range"),
        ({}, (5,), (10, 9, 8, 7), "one slice size for every input dimension"),
        ({"offset_dims": (4, 5, 6, 7), "collapsed_slice_dims": (1,)}, (5,), SHAPE, "bound is 9 for index 1"),
        (
            {"offset_dims": (4, 5, 6), "collapsed_slice_dims": (0,), "start_index_map": (0, 1, 2, 4),
             "operand_batching_dims": (3,), "start_indices_batching_dims": (0, 1)},
            (4,), (1, 9, 8, 1, 6), "equal numbers of operand_batching_dims",
        ),
        (
            {"offset_dims": (4, 5, 6), "collapsed_slice_dims": (0,), "start_index_map": (0, 1, 2, 4),
             "operand_batching_dims": (3,), "start_indices_batching_dims": (0,)},
            (4,), (1, 9, 8, 1, 6), "to have the same shape; got .7,. and .5,.",
        ),
        (
            {"collapsed_slice_dims": (1,), "operand_batching_dims": (1,), "start_indices_batching_dims": (0,)},
            (5,), SHAPE, "must be disjoint",
        ),
    ],
)  # fmt: skip
def test_dimension_numbers_of_gather_are_checked(change, indices, sizes, words):
    numbers = lax.GatherDimensionNumbers(**{**GATHER, **change})
    with pytest.raises(DimensionNumbersError, match=words) as error:
        lax.gather(np.ones(SHAPE, np.int32), np.zeros((5, 4, 3, 2, *indices), np.int32), numbers, sizes)
    assert isinstance(error.value, TypeError) and isinstance(error.value, ShapeError)


@pytest.mark.parametrize(
    ("numbers", "updates", "words"),
    [
        (((1,), (0,), (0,)), (2, 49), "Bounds of the window dimensions"),
        (((1,), (0,), (0,)), (3, 48), "Bounds of the scatter dimensions"),
        (((1,), (0,), (0,)), (2, 48, 1), "must be of rank 2; got 3"),
        (((2,), (0,), (0,)), (2, 48), "Invalid update_window_dims"),
        (((1,), (), (0,)), (2, 48), "window of size 1; doesn't match operand of rank 2"),
        (((1,), (2,), (0,)), (2, 48), "Invalid inserted_window_dims"),
        (((1,), (0,), (0, 1)), (2, 48), "2 elements in scatter_dims_to_operand_dims"),
        (((1,), (0,), (5,)), (2, 48), "Invalid scatter_dims_to_operand_dims"),
    ],
)
def test_dimension_numbers_of_scatter_are_checked(numbers, updates, words):
    with pytest.raises(DimensionNumbersError, match=words):
        lax.scatter(np.ones((64, 48)), np.zeros((2, 1), int), np.ones(updates), lax.ScatterDimensionNumbers(*numbers))


# ---- windows
def pythagoras(x, y):
    return fnp.sqrt(x * x + y * y)


def test_windows_are_combined_by_any_associative_function(rng):
    x = np.abs(rng.standard_normal((4, 5)))
    how: dict[str, Any] = {
        "window_dimensions": (2, 3), "window_strides": (1, 2), "padding": ((1, 0), (0, 1)), "window_dilation": (2, 1)
    }  # fmt: skip
    f = lambda x: lax.reduce_window(x, 0.0, pythagoras, **how)  # noqa: E731
    squares = lambda x: fnp.sqrt(lax.reduce_window(x * x, 0.0, lax.add, **how))  # noqa: E731
    np.testing.assert_allclose(f(x), squares(x))
    np.testing.assert_allclose(jit(f)(x), squares(x))
    np.testing.assert_allclose(vmap(f)(np.stack([x, 2 * x]))[1], 2 * squares(x))
    for g, w in zip(jvp(f, (x,), (x * x,)), jvp(squares, (x,), (x * x,)), strict=True):
        np.testing.assert_allclose(g, w)
    np.testing.assert_allclose(grad(lambda x: f(x).sum())(x), grad(lambda x: squares(x).sum())(x), rtol=1e-6)


def test_windows_of_several_arrays():
    """The largest element of each window, and where it stands."""

    def better(a, b):
        take = b[0] > a[0]
        return fnp.where(take, b[0], a[0]), fnp.where(take, b[1], a[1])

    x = np.array([3.0, 1.0, 2.0, 5.0, 4.0], np.float32)
    values, places = lax.reduce_window((x, np.arange(5)), (-np.inf, -1), better, (3,), (1,), "VALID")
    np.testing.assert_array_equal(values, [3, 5, 5])
    np.testing.assert_array_equal(places, [0, 3, 3])
    with pytest.raises(ArgumentError, match="an initial value for each"):
        lax.reduce_window((x, x), 0.0, better, (3,))


def test_padding_of_windows_is_python_integers():
    pads = lax.padtype_to_pads(np.array([8, 8]), np.array([3, 3]), np.array([2, 2]), "SAME")
    assert all(type(n) is int for pair in pads for n in pair)


# ---- products
def pieces(sizes):
    ends = np.cumsum(sizes)
    return [slice(e - s, e) for s, e in zip(sizes, ends, strict=True)]


def test_groups_along_an_axis_of_the_result(rng):
    x, w = rng.standard_normal((2, 6, 4)), rng.standard_normal((3, 2, 4, 5))
    numbers = lax.RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (1,))), (1,), (0,))
    sizes = np.array([[1, 2, 3], [4, 0, 1]])
    got = lax.ragged_dot_general(x, w, sizes, numbers)
    want = np.zeros((2, 6, 5))
    for b in range(2):
        for g, rows in enumerate(pieces(sizes[b])):
            want[b, rows] = x[b, rows] @ w[g, b]
    np.testing.assert_allclose(got, want)
    np.testing.assert_allclose(
        lax.ragged_dot_general(x, w, sizes[0], numbers)[1],
        np.concatenate([x[1, rows] @ w[g, 1] for g, rows in enumerate(pieces(sizes[0]))]),
    )
    dw = grad(lambda w: lax.ragged_dot_general(x, w, sizes, numbers).sum())(w)
    np.testing.assert_allclose(dw[2, 1], np.tile(x[1, 4:5].sum(0)[:, None], 5))


def test_groups_along_a_summed_and_a_batch_axis(rng):
    x, w = rng.standard_normal((2, 3, 7)), rng.standard_normal((2, 7, 5))
    numbers = lax.RaggedDotDimensionNumbers((((2,), (1,)), ((0,), (0,))), (2,), ())
    sizes = np.array([[3, 1, 2], [7, 0, 0]])
    got = lax.ragged_dot_general(x, w, sizes, numbers)
    want = np.stack([[x[b][:, k] @ w[b][k] for b in range(2) for k in [pieces(sizes[b])[g]]] for g in range(3)])
    np.testing.assert_allclose(got, want)
    numbers = numbers._replace(lhs_ragged_dimensions=(0,))
    got = lax.ragged_dot_general(x, w, np.array([1, 0]), numbers)
    np.testing.assert_allclose(got, np.stack([x[0] @ w[0], np.zeros((3, 5))]))


@pytest.mark.parametrize(
    ("numbers", "sizes", "words"),
    [
        (((((1,), (1,)), ((), ())), (0, 1), (0,)), (3,), "exactly one lhs ragged dimension"),
        (((((1,), (1,)), ((), ())), (2,), (0,)), (3,), "less than the number of axes"),
        (((((1,), (1,)), ((), ())), (0,), (0,)), (2, 3), r"expected group_sizes to have shape \(3,\), got \(2, 3\)"),
        (((((1,), (1,)), ((), ())), (0,), (0,)), (2,), "expected rhs group dimension size to be 2, got 3"),
        (((((1,), (1,)), ((), ())), (0,), (1,)), (3,), "distinct from contracting and batch"),
        (((((1,), (1,)), ((), ())), (1,), (0,)), (3,), "zero group dimensions"),
        (((((1,), (1,)), ((), ())), (0,), ()), (3,), "exactly one rhs group dimension"),
        (((((1,), (0,)), ((), ())), (0,), (1,)), (5,), "same sizes"),
    ],
)
def test_dimension_numbers_of_ragged_products_are_checked(numbers, sizes, words):
    with pytest.raises(DimensionNumbersError, match=words):
        lax.ragged_dot_general(np.ones((11, 5)), np.ones((3, 5, 7)), np.ones(sizes, int), numbers)


def test_two_kinds_of_small_floats_meet_in_the_dtype_of_the_result():
    x, y = (fnp.asarray([1.0, 2.0, 3.0]).astype(d) for d in ("float8_e4m3fn", "float8_e5m2"))
    assert float(lax.dot(x, y, preferred_element_type="float32")) == 14
    with pytest.raises(DtypeError, match="no common dtype"):
        lax.dot(x, y)


@pytest.mark.parametrize("numbers", [None, ("NWC", "OWI", "CNW")])
def test_convolution_with_a_kernel_for_each_place(numbers, rng):
    x, w = rng.standard_normal((2, 3, 9)), rng.standard_normal((4, 3, 2))
    order = ((0, 1, 2), (0, 1, 2)) if numbers is None else ((0, 2, 1), (0, 2, 1))
    how: dict[str, Any] = {"window_strides": (2,), "padding": "SAME", "rhs_dilation": (2,)}
    how["dimension_numbers"] = numbers
    x = x.transpose(order[0])
    want = lax.conv_general_dilated(x, w.transpose(order[1]), **how)
    places = 5
    everywhere = np.broadcast_to(w.reshape(4, 6, 1), (4, 6, places)).transpose(order[1])
    np.testing.assert_allclose(lax.conv_general_dilated_local(x, everywhere, filter_shape=(2,), **how), want)
    with pytest.raises(ShapeError, match="kernels of 6 elements"):
        lax.conv_general_dilated_local(x, everywhere * 0 + 1, filter_shape=(2,), **{**how, "window_strides": (1,)})


def test_axes_of_a_broadcast_may_change_their_order():
    x = np.arange(3.0).reshape(3, 1)
    got = lax.broadcast_in_dim(x, (2, 3, 4), (1, 0))
    np.testing.assert_array_equal(got, np.broadcast_to(x.T[..., None], (2, 3, 4)))
    for shape, dims, words in [((2, 2), (0,), "length equal"), ((3, 1), (0, 2), "subset"), ((3, 1), (0, 0), "duplic")]:
        with pytest.raises(DimensionNumbersError, match=words):
            lax.broadcast_in_dim(x, shape, dims)


# ---- random bits
def test_a_generator_continues_where_it_stopped():
    state = np.array([1, 2, 0xFFFFFFFE, 0], np.uint32)
    after, bits = lax.rng_bit_generator(state, (4, 2))
    np.testing.assert_array_equal(after, [1, 2, 2, 1])
    halves = [lax.rng_bit_generator(state, (4,))]
    halves.append(lax.rng_bit_generator(halves[0][0], (4,)))
    np.testing.assert_array_equal(np.concatenate([h[1] for h in halves]), bits.ravel())
    wide = np.array([1 | 2 << 32, 0xFFFFFFFE], np.uint64)
    after, words = lax.rng_bit_generator(wide, (4,), "uint64")
    np.testing.assert_array_equal(after, [wide[0], wide[1] + 4])
    np.testing.assert_array_equal(np.asarray(words), np.asarray(bits).ravel().view(np.uint64))
    small = jit(lambda s: lax.rng_bit_generator(s, (3,), "uint8"))(state)[1]
    np.testing.assert_array_equal(small, bits.ravel()[:3] & 255)
    kept, none = lax.rng_bit_generator(state, (0,))
    np.testing.assert_array_equal(kept, state)
    assert none.shape == (0,)
    assert vmap(lambda s: lax.rng_bit_generator(s, (5,)))(np.stack([state, state + 1]))[1].shape == (2, 5)


def test_generators_refuse_other_states_and_dtypes():
    state = np.zeros(4, np.uint32)
    with pytest.raises(ArgumentError, match=r"uint32\[4\] or uint64\[2\], got uint32\[3\]"):
        lax.rng_bit_generator(state[:3], (2,))
    with pytest.raises(DtypeError, match="float32"):
        lax.rng_bit_generator(state, (2,), "float32")
    with pytest.raises(NotImplementedError, match="RNG_PHILOX"):
        lax.rng_bit_generator(state, (2,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)


def test_positions_and_bit_counts_come_in_integers():
    with pytest.raises(DtypeError, match="index_dtype must be an integer type, but got float32"):
        lax.argmax(np.ones((2, 2)), 0, np.float32)
    with pytest.raises(DtypeError, match="population_count does not accept dtype bool"):
        lax.population_count(True)
    assert int(reduce(lax.add, lax.population_count(np.array([3, 4])))) == 3


@pytest.mark.parametrize(
    "write",
    [
        lambda x: lax.dynamic_update_slice(x, x[:1] * 1j, (0,)),
        lambda x: lax.dynamic_update_index_in_dim(x, 1j, 0, 0),
        lambda x: lax.scatter(x, np.array([[0]]), x[:1] * 1j, lax.ScatterDimensionNumbers((), (0,), (0,))),
        lambda x: lax.pad(x, 1j, [(1, 0, 0)]),
        lambda x: lax.reduce(x, 1j, lax.add, (0,)),
        lambda x: lax.reduce_window(x, 1j, pythagoras, (2,)),
        lambda x: lax.clamp(0.0, x, 1j),
    ],
)
def test_imaginary_parts_are_not_dropped(write):
    for run in (write, jit(write)):
        with pytest.raises(DtypeError, match="complex values cannot be written into an array of float32"):
            run(fnp.ones(3))
