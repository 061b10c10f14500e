"""fgrad.ops, fgrad.image, fgrad.checkpoint_policies and ufuncs."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import ad_checkpoint, checkpoint_policies, errors, image, ops


def test_segments_are_reduced_and_ids_out_of_range_are_dropped() -> None:
    data, ids = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 2, 0, -1])
    assert ops.segment_sum(data, ids, 3).tolist() == [4, 0, 2]
    assert ops.segment_prod(data, ids, 3).tolist() == [3, 1, 2]
    assert ops.segment_max(data, ids, 3).tolist() == [3, -np.inf, 2]
    assert ops.segment_min(data, ids, 3).tolist() == [1, np.inf, 2]
    assert ops.segment_sum(data, ids).shape == (3,)
    slope = fgrad.jit(fgrad.grad(lambda d: fnp.sum(ops.segment_sum(d, ids, 3) ** 2)))(fnp.asarray(data))
    assert slope.tolist() == [8, 4, 8, 0]
    with pytest.raises(errors.ConcretizationError, match="num_segments"):
        fgrad.jit(lambda i: ops.segment_sum(data, i))(ids)
    with pytest.raises(errors.ShapeError, match="segment_ids"):
        ops.segment_sum(data, ids[:2], 3)


def test_resizing_interpolates_and_averages() -> None:
    x = fnp.array([0.0, 1.0])
    assert image.resize(x, (4,), "linear").tolist() == [0, 0.25, 0.75, 1]
    assert image.resize(x, (4,), "nearest").tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(image.resize(fnp.arange(8.0), (2,), "linear"), [1.7, 5.3], atol=0.2)
    flat = fnp.full((5, 7), 3.0)
    for method in ("cubic", "lanczos3", "lanczos5", "bilinear"):
        np.testing.assert_allclose(image.resize(flat, (9, 3), method), np.full((9, 3), 3.0), rtol=1e-5)
    with pytest.raises(errors.ArgumentError, match="no resize method"):
        image.resize(x, (4,), "magic")


def test_translation_moves_the_image_and_has_a_gradient() -> None:
    row = fnp.arange(6.0)

    def moved(shift):
        return image.scale_and_translate(row, (6,), (0,), fnp.ones(1), fnp.reshape(shift, (1,)), "linear", False)

    np.testing.assert_allclose(moved(fnp.array(1.0))[1:], np.arange(5.0), atol=1e-6)
    slope = fgrad.jacfwd(moved)(fnp.array(0.5))
    np.testing.assert_allclose(slope[2:5], -np.ones(3), atol=1e-5)


def test_policies_decide_what_is_kept() -> None:
    kept = []

    def counted(value):
        kept.append(checkpoint_policies.dots_saveable(value))
        return kept[-1]

    def f(w, x):
        return fnp.sum(fnp.sin(fnp.matmul(w, fnp.sin(x))))

    w, x = fnp.ones((3, 3)), fnp.reshape(fnp.arange(9.0), (3, 3))
    got = fgrad.jit(fgrad.grad(fgrad.checkpoint(f, policy=counted)))(w, x)
    np.testing.assert_allclose(got, fgrad.grad(f)(w, x), rtol=1e-6)
    assert sum(kept) == 1

    def batched(a, b):
        return fnp.sum(fnp.sin(fnp.matmul(a, b)))

    refused = []

    def policy(value):
        answer = checkpoint_policies.dots_with_no_batch_dims_saveable(value)
        refused.append(checkpoint_policies.dots_saveable(value) and not answer)
        return answer

    fgrad.grad(fgrad.checkpoint(batched, policy=policy))(fnp.ones((2, 3, 3)), fnp.ones((2, 3, 3)))
    assert any(refused)


@pytest.mark.parametrize(
    ("shapes", "is_kept"),
    [(((3, 2), (2,)), True), (((3,), (3, 2)), True), (((5, 3, 2), (5, 2)), True), (((3, 2), (3, 2)), False)],
)
def test_products_with_a_vector_are_kept_and_sums_of_elementwise_products_are_not(shapes, is_kept) -> None:
    subscripts = {(2, 1): "ij,j->i", (1, 2): "i,ij->j", (3, 2): "bij,bj->bi", (2, 2): "ij,ij->i"}
    pattern = subscripts[tuple([len(s) for s in shapes])]
    f = fgrad.checkpoint(lambda w, x: fnp.tanh(fnp.einsum(pattern, w, x)), policy=checkpoint_policies.dots_saveable)
    kept = ad_checkpoint.saved_residuals(f, *[fnp.ones(s) for s in shapes])
    assert any("policy" in source for _, source in kept) is is_kept


def test_elementwise_functions_are_ufuncs() -> None:
    x = np.arange(6).reshape(2, 3)
    assert isinstance(fnp.add, fnp.ufunc) and fnp.add.nin == 2 and fnp.multiply.identity == 1
    for name in ("add", "subtract", "multiply", "maximum"):
        ours, theirs = getattr(fnp, name), getattr(np, name)
        assert np.array_equal(ours.reduce(x, axis=1), theirs.reduce(x, axis=1))
        assert np.array_equal(ours.accumulate(x, axis=1), theirs.accumulate(x, axis=1))
        assert np.array_equal(ours.outer(x[0], x[1]), theirs.outer(x[0], x[1]))
        assert np.array_equal(ours.reduceat(x[1], [0, 2, 1]), theirs.reduceat(x[1], [0, 2, 1]))
    assert fnp.add.at(fnp.zeros(3), np.array([1, 1]), 2.0).tolist() == [0, 4, 0]


def test_frompyfunc_broadcasts_and_reduces() -> None:
    f = fnp.frompyfunc(lambda a, b: 2 * a + b, 2, 1, identity=0)
    assert f(np.array([1, 2]), 3).tolist() == [5, 7]
    assert int(f.reduce(np.array([1, 1, 1]))) == 7
    assert f.at(fnp.array([1, 1]), np.array([0, 0]), np.array([1, 1])).tolist() == [7, 1]
    with pytest.raises(AttributeError):
        f.nin = 3
    with pytest.raises(errors.ShapeError, match="no elements"):
        fnp.frompyfunc(lambda a, b: a + b, 2, 1).reduce(np.zeros(0))


def test_a_deleted_array_says_so() -> None:
    x = fnp.arange(3.0)
    assert [s.data is x for s in x.addressable_shards] == [True]
    x.delete()
    assert x.is_deleted() and repr(x) == "Array(deleted)"
    with pytest.raises(errors.DonatedError, match="has been deleted"):
        x + 1


def test_objects_that_stand_for_arrays_are_operands() -> None:
    class Three:
        def __fgrad_array__(self):
            return fnp.array(3.0)

    assert (Three() * fnp.arange(3.0)).tolist() == [0, 3, 6]
    assert fnp.shape(Three()) == () and fnp.flatnonzero(Three()).tolist() == [0]


def test_frexp_has_a_derivative_and_take_clips_negative_positions() -> None:
    assert float(fgrad.grad(lambda x: fnp.frexp(x)[0])(5.0)) == 0.125
    assert fnp.take(fnp.arange(3), np.array([-1, 5]), mode="clip").tolist() == [0, 2]
