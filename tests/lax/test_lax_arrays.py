"""Array functions of lax: values against NumPy and direct formulas, and their errors."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import errors, lax


def same(got: object, want: object, tolerance: float = 1e-5) -> None:
    a, b = np.asarray(got), np.asarray(want)
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# ---- elementwise
def test_integer_division_rounds_towards_zero_and_by_zero_gives_zero() -> None:
    x, y = np.array([7, -7, 7, -7, 5]), np.array([2, 2, -2, -2, 0])
    assert np.asarray(lax.div(x, y)).tolist() == [3, -3, -3, 3, 0]
    assert np.asarray(lax.rem(x, y))[:4].tolist() == [1, -1, 1, -1]


def test_shifts_fill_with_the_sign_or_with_zeros() -> None:
    x = np.array([-8, 8], np.int32)
    assert np.asarray(lax.shift_right_arithmetic(x, 1)).tolist() == [-4, 4]
    assert np.asarray(lax.shift_right_logical(x, 1)).tolist() == [0x7FFFFFFC, 4]
    assert np.asarray(lax.shift_left(x, 33)).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_bits_are_counted_in_every_width(dtype: str) -> None:
    x = np.array([0, 1, 3, 100], dtype)
    width = x.dtype.itemsize * 8
    assert np.asarray(lax.population_count(x)).tolist() == [0, 1, 2, 3]
    assert np.asarray(lax.clz(x)).tolist() == [width, width - 1, width - 2, width - 7]


def test_halves_round_away_from_zero_or_to_even() -> None:
    x = np.array([0.5, 1.5, -0.5, -2.5, 2.4999998, 0.49999997], np.float32)
    assert np.asarray(lax.round(x)).tolist() == [1, 2, -1, -3, 2, 0]
    even = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    assert np.asarray(even).tolist() == [0, 2, 0, -2, 2, 0]


def test_nextafter_takes_the_smallest_step() -> None:
    x = np.array([0.0, -0.0, 1, -1, np.inf, np.nan, 1], np.float32)
    y = np.array([1, -1, 1, 0, 0, 0, np.nan], np.float32)
    np.testing.assert_array_equal(np.asarray(lax.nextafter(x, y)), np.nextafter(x, y))


@pytest.mark.parametrize("n", [0, 1, 5, -2])
def test_integer_powers_and_their_slopes(n: int) -> None:
    x = np.array([1.5, -2.0], np.float32)
    same(lax.integer_pow(x, n), x ** float(n))
    slope = fgrad.vmap(fgrad.grad(lambda v: lax.integer_pow(v, n)))(x)
    same(slope, n * x ** float(n - 1))


def test_choices_take_a_scalar_or_a_full_selector() -> None:
    x = np.arange(4)
    assert np.asarray(lax.select(True, x, -x)).tolist() == [0, 1, 2, 3]
    picked = lax.select_n(np.array([0, 1, 2, 9]), x, x * 10, x * 100)
    assert np.asarray(picked).tolist() == [0, 10, 200, 300]
    with pytest.raises(errors.ShapeError, match="selector"):
        lax.select(np.ones((2, 1), bool), np.zeros((2, 2)), np.zeros((2, 2)))


def test_clamp_has_slope_one_inside_and_at_its_bounds() -> None:
    slope = fgrad.vmap(fgrad.grad(lambda v: lax.clamp(0.0, v, 1.0)))
    assert np.asarray(slope(np.array([-1, 0, 0.5, 1, 2], np.float32))).tolist() == [0, 1, 1, 1, 0]


# ---- shapes and parts
def test_pad_fills_between_and_cuts() -> None:
    got = lax.pad(np.array([1, 2, 3]), 9, ((1, -1, 1),))
    assert np.asarray(got).tolist() == [9, 1, 9, 2, 9]


def test_bitcasts_split_and_join_elements() -> None:
    x = np.array([1.0, -2.5], np.float32)
    parts = lax.bitcast_convert_type(x, "uint8")
    np.testing.assert_array_equal(np.asarray(parts), x.view(np.uint8).reshape(2, 4))
    np.testing.assert_array_equal(np.asarray(lax.bitcast_convert_type(parts, "float32")), x)


def test_broadcast_in_dim_places_axes() -> None:
    x = np.arange(3)
    got = lax.broadcast_in_dim(x.reshape(1, 3), (2, 4, 3), (0, 2))
    np.testing.assert_array_equal(np.asarray(got), np.broadcast_to(x, (2, 4, 3)))
    with pytest.raises(errors.ShapeError, match="must either be 1"):
        lax.broadcast_in_dim(x, (4,), (0,))


def test_dynamic_slices_stay_inside_and_count_negative_starts_from_the_end() -> None:
    x = np.arange(5)
    for start, want in ((0, [0, 1]), (9, [3, 4]), (-1, [3, 4]), (-4, [1, 2])):
        assert np.asarray(lax.dynamic_slice(x, (start,), (2,))).tolist() == want
    got = lax.dynamic_update_slice(x, np.array([7, 8]), (np.int32(9),))
    assert np.asarray(got).tolist() == [0, 1, 2, 7, 8]
    with pytest.raises(errors.ShapeError, match="cannot take a part"):
        lax.dynamic_slice(x, (0,), (6,))


def test_the_derivative_of_a_dynamic_slice_goes_where_it_was_read() -> None:
    slope = fgrad.grad(lambda x, i: lax.dynamic_slice(x, (i,), (2,)).sum())
    assert np.asarray(slope(np.ones(4, np.float32), 9)).tolist() == [0, 0, 1, 1]


# ---- contraction and convolution
def test_dot_general_puts_batch_then_free_axes() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(5, 2, 6, 4))
    got = lax.dot_general(x, y, (((2, 3), (3, 0)), ((0,), (1,))))
    same(got, np.einsum("bikl,lbjk->bij", x, y), 1e-12)
    with pytest.raises(errors.ShapeError, match="must have the same sizes"):
        lax.dot_general(x, y, (((2,), (0,)), ((), ())))


def test_small_integers_are_summed_in_the_preferred_dtype() -> None:
    x = np.full((1, 300), 100, np.int8)
    got = lax.dot_general(x, x.T, (((1,), (0,)), ((), ())), preferred_element_type="int32")
    assert np.asarray(got).tolist() == [[3_000_000]] and got.dtype == np.int32


def convolved(x, w, strides, pads, grown, spaced, groups):
    """A convolution by its definition."""
    n, c, *_ = x.shape
    o, i, kh, kw = w.shape
    wide = np.zeros((n, c, *[(s - 1) * d + 1 for s, d in zip(x.shape[2:], grown, strict=True)]))
    wide[:, :, :: grown[0], :: grown[1]] = x
    x = np.pad(wide, ((0, 0), (0, 0), *pads))
    spans = [(k - 1) * d + 1 for k, d in zip((kh, kw), spaced, strict=True)]
    oh, ow = [(s - k) // t + 1 for s, k, t in zip(x.shape[2:], spans, strides, strict=True)]
    out = np.zeros((n, o, oh, ow))
    for a in range(oh):
        for b in range(ow):
            top, left = a * strides[0], b * strides[1]
            part = x[:, :, top : top + spans[0] : spaced[0], left : left + spans[1] : spaced[1]]
            part = part.reshape(n, groups, c // groups, kh, kw)
            kernel = w.reshape(groups, o // groups, i, kh, kw)
            out[:, :, a, b] = np.einsum("ngihw,goihw->ngo", part, kernel).reshape(n, o)
    return out


@pytest.mark.parametrize(
    ("strides", "pads", "grown", "spaced", "groups"),
    [
        ((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
        ((2, 3), ((1, 2), (0, 3)), (1, 1), (1, 1), 1),
        ((1, 2), ((2, 1), (1, 1)), (2, 1), (1, 2), 2),
        ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 4),
    ],
)
def test_a_convolution_is_what_its_definition_says(strides, pads, grown, spaced, groups) -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(2, 4, 7, 6)), rng.normal(size=(8, 4 // groups, 3, 2))

    def ours(x, w):
        return lax.conv_general_dilated(x, w, strides, pads, grown, spaced, feature_group_count=groups)

    want = convolved(x, w, strides, pads, grown, spaced, groups)
    same(ours(x, w), want, 1e-10)
    ct = rng.normal(size=want.shape)
    _, back = fgrad.vjp(ours, x, w)
    dx, dw = back(ct)
    v, u = rng.normal(size=x.shape), rng.normal(size=w.shape)  # linear in each argument
    same(np.sum(np.asarray(dx) * v), np.sum(ct * convolved(v, w, strides, pads, grown, spaced, groups)), 1e-9)
    same(np.sum(np.asarray(dw) * u), np.sum(ct * convolved(x, u, strides, pads, grown, spaced, groups)), 1e-9)


def test_negative_padding_cuts_the_input() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(1, 2, 9, 8)), rng.normal(size=(3, 2, 3, 2))
    got = lax.conv_general_dilated(x, w, (2, 3), ((-1, 2), (0, -1)))
    want = convolved(x[:, :, 1:, :-1], w, (2, 3), ((0, 2), (0, 0)), (1, 1), (1, 1), 1)
    same(got, want, 1e-10)


def test_layouts_only_move_axes() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(4, 3, 3, 3))
    plain = lax.conv_general_dilated(x, w, (1, 1), "SAME")
    moved = lax.conv_general_dilated(
        x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), (1, 1), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    same(np.asarray(moved).transpose(0, 3, 1, 2), plain, 1e-10)
    with pytest.raises(errors.ShapeError, match="input has 3 features"):
        lax.conv_general_dilated(x, w[:, :2], (1, 1), "SAME")


def test_the_transposed_convolution_is_the_gradient_of_a_convolution() -> None:
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(1, 8, 8, 2)), rng.normal(size=(3, 3, 2, 5))
    numbers = ("NHWC", "HWIO", "NHWC")
    y, back = fgrad.vjp(lambda x: lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=numbers), x)
    ct = rng.normal(size=y.shape)
    got = lax.conv_transpose(ct, w, (2, 2), "SAME", transpose_kernel=True)
    same(got, back(ct)[0], 1e-10)


# ---- reductions, windows, order
def test_windows_are_reduced_by_the_function_that_is_recognised() -> None:
    x = np.arange(6.0, dtype=np.float32)
    assert np.asarray(lax.reduce_window(x, 0.0, lax.add, (2,), (2,))).tolist() == [1, 5, 9]
    assert np.asarray(lax.reduce_window(x, -np.inf, lambda a, b: fnp.maximum(b, a), (3,), (1,), "SAME")).tolist() == [
        1, 2, 3, 4, 5, 5,
    ]  # fmt: skip
    assert np.asarray(lax.reduce_window(x, 2.0, lax.mul, (2,), (4,))).tolist() == [0, 40]
    with pytest.raises(errors.ShapeError, match="needs 1 window_dimensions"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2))


def test_the_gradient_of_a_window_maximum_goes_to_the_maxima() -> None:
    x = np.array([1, 3, 2, 3, 0], np.float32)
    slope = fgrad.grad(lambda v: lax.reduce_window(v, -np.inf, lax.max, (2,)).sum())(x)
    assert np.asarray(slope).tolist() == [0, 2, 0, 2, 0]


def test_any_associative_function_reduces_several_arrays_together() -> None:
    x, i = np.array([[3.0, 1, 2], [5, 9, 9]], np.float32), np.arange(6).reshape(2, 3)

    def larger(a, b):
        first = lax.ge(a[0], b[0])
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    top, at = lax.reduce((x, i), (-np.inf, -1), larger, (1,))
    assert np.asarray(top).tolist() == [3, 9] and np.asarray(at).tolist() == [0, 4]


def test_running_logsumexp_goes_both_ways() -> None:
    x = np.array([0.0, 1000, -1000, 999], np.float32)
    want = np.logaddexp.accumulate(x.astype(np.float64))
    same(lax.cumlogsumexp(x), want)
    same(lax.cumlogsumexp(x, reverse=True), np.logaddexp.accumulate(x[::-1].astype(float))[::-1])


def test_positions_of_extremes_are_the_first_and_see_nan() -> None:
    x = np.array([[1.0, 3, 3], [2, np.nan, 5]], np.float32)
    assert np.asarray(lax.argmax(x, 1)).tolist() == [1, 1]
    assert np.asarray(lax.argmin(x, 1, "int32")).tolist() == [0, 1]


def test_sorting_by_several_keys_is_stable() -> None:
    first, second, load = np.array([1, 0, 1, 0]), np.array([5, 6, 4, 6]), np.arange(4)
    a, b, c = lax.sort((first, second, load), num_keys=2)
    assert [np.asarray(v).tolist() for v in (a, b, c)] == [[0, 0, 1, 1], [6, 6, 4, 5], [1, 3, 2, 0]]


def test_top_k_takes_ties_in_order_and_carries_gradients() -> None:
    x = np.array([1.0, 4, 4, 2], np.float32)
    values, places = lax.top_k(x, 3)
    assert np.asarray(values).tolist() == [4, 4, 2] and np.asarray(places).tolist() == [1, 2, 3]
    slope = fgrad.grad(lambda v: (lax.top_k(v, 2)[0] * np.array([1.0, 10], np.float32)).sum())(x)
    assert np.asarray(slope).tolist() == [0, 1, 10, 0]


# ---- gather and scatter
POINTS = lax.GatherDimensionNumbers((), (0, 1), (0, 1))


@pytest.mark.parametrize(("mode", "outside"), [("clip", [11, 0]), ("fill", [np.nan, np.nan])])
def test_windows_outside_are_moved_or_filled(mode: str, outside: list[float]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    at = np.array([[0, 1], [2, 3], [9, 3], [-1, 0]])
    got = np.asarray(lax.gather(x, at, POINTS, (1, 1), mode=mode))
    np.testing.assert_array_equal(got, [1, 11, *outside])


def test_scatter_is_the_transpose_of_gather() -> None:
    rng = np.random.default_rng(5)
    x, at = rng.normal(size=(4, 5)), np.array([[0, 1], [2, 2], [0, 1], [9, 0]])
    gathering = lax.GatherDimensionNumbers((1, 2), (), (0, 1))
    scattering = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    ct = rng.normal(size=(4, 2, 2))
    y, back = fgrad.vjp(lambda x: lax.gather(x, at, gathering, (2, 2), fill_value=0.0), x)
    assert y.shape == ct.shape
    same(back(ct)[0], lax.scatter_add(np.zeros((4, 5)), at, ct, scattering), 1e-12)


def test_updates_outside_are_dropped_and_the_last_one_stays() -> None:
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    at = np.array([[1], [1], [7]])
    got = lax.scatter(np.zeros(3), at, np.array([5.0, 6, 7]), dims)
    assert np.asarray(got).tolist() == [0, 6, 0]


# ---- the rest
def test_the_upper_half_of_products() -> None:
    a, b = np.array([2**62, -5, -(2**63), 7]), np.array([12, 2**40, 2**62, -9])
    want = [int(p) * int(q) >> 64 for p, q in zip(a, b, strict=True)]
    assert np.asarray(lax.mulhi(a, b)).tolist() == want
    assert int(lax.mulhi(np.int32(-(2**31)), np.int32(2**30))) == -(2**61) >> 32


def test_groups_of_rows_meet_their_own_matrix() -> None:
    rng = np.random.default_rng(6)
    x, w = rng.normal(size=(6, 3)), rng.normal(size=(2, 3, 4))
    got = np.asarray(lax.ragged_dot(x, w, np.array([2, 3])))
    same(got, np.concatenate([x[:2] @ w[0], x[2:5] @ w[1], np.zeros((1, 4))]), 1e-12)


def test_shapes_are_told_without_computing() -> None:
    numbers = ("NHWC", "HWIO", "NHWC")
    assert lax.conv_general_shape_tuple((2, 9, 9, 3), (3, 3, 3, 5), (2, 2), "SAME", numbers) == (2, 5, 5, 5)
    assert lax.reduce_window_shape_tuple((9,), (3,), (2,), "VALID") == (4,)


def test_stack_unstack_and_barriers() -> None:
    x = np.eye(2)
    assert lax.stack([x, x], 1).shape == (2, 2, 2)
    assert [np.asarray(r).tolist() for r in lax.unstack(x)] == x.tolist()
    a, b = lax.optimization_barrier((x, 3.0))
    assert np.array_equal(a, x) and float(b) == 3


def test_a_function_is_applied_once_at_each_place() -> None:
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    at = np.array([[1], [1], [9]])
    got = lax.scatter_apply(np.arange(4.0), at, lambda v: v * 10, dims, update_shape=(3,))
    assert np.asarray(got).tolist() == [0, 10, 2, 3]
