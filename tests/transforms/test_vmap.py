"""vmap: axes, structures, nesting, errors."""

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import grad, jit, lax, vmap
from fgrad.errors import ArgumentError, VmapAxisError


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out_axis", [0, 1, -1])
def test_any_axis_goes_in_and_comes_out_anywhere(x, in_axis, out_axis):
    f = lambda a: fnp.cumsum(a, axis=0) * 2  # noqa: E731
    got = vmap(f, in_axes=in_axis, out_axes=out_axis)(x)
    each = [np.cumsum(a, axis=0) * 2 for a in np.moveaxis(x, in_axis, 0)]
    np.testing.assert_allclose(np.asarray(got), np.stack(each, axis=out_axis), rtol=1e-6)


def test_trees_prefixes_and_unmapped_arguments(x):
    def f(t, s):
        return {"y": t["a"] @ t["b"] * s}

    t = {"a": x, "b": np.ones((2, 5), np.float32)}
    got = vmap(f, in_axes=({"a": 0, "b": None}, None))(t, 3.0)
    np.testing.assert_allclose(np.asarray(got["y"]), x @ t["b"] * 3, rtol=1e-6)


def test_vmap_of_vmap_of_grad_of_jit(x):
    f = jit(lambda a, b: fnp.sum(fnp.sin(a) * b))
    got = vmap(vmap(grad(f), in_axes=(0, None)), in_axes=(0, None))(x, np.ones(2, np.float32))
    np.testing.assert_allclose(np.asarray(got), np.cos(x), rtol=1e-5)


def test_an_output_that_does_not_depend_on_the_batch_is_repeated_or_passed(x):
    a, b = vmap(lambda v: (v.sum(), fnp.ones(2)), out_axes=(0, None))(x)
    assert a.shape == (4,) and b.shape == (2,)
    assert vmap(lambda v: fnp.ones(2))(x).shape == (4, 2)


def test_python_values_pass_through_unmapped_arguments(x):
    got = vmap(lambda v, mode: v if mode == "plain" else -v, in_axes=(0, None))(x, "negated")
    np.testing.assert_array_equal(np.asarray(got), -x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: vmap(lambda a, b: a)(x, x[:3]), "inconsistent sizes"),
        (lambda x: vmap(lambda a: a, in_axes=3)(x), "axis 3.*at least 4"),
        (lambda x: vmap(lambda a: a, in_axes=(0, 0))(x), r"len\(in_axes\)=2, len\(args\)=1"),
        (lambda x: vmap(lambda a: a, in_axes=None)(x), "at least one non-None"),
        (lambda x: vmap(lambda a: a, out_axes=None)(x), "out_axes is None"),
        (lambda x: vmap(lambda a: a)(1.0), "only 0"),
    ],
)
def test_mistakes_are_named(x, call, words):
    with pytest.raises(VmapAxisError, match=words):
        call(x)


# ---- members along two named axes, counted row by row
def over_both(f):
    return vmap(vmap(f, axis_name="j"), axis_name="i")


def test_values_are_sent_and_exchanged_over_two_axes():
    y = np.arange(2 * 3 * 6 * 2.0).reshape(2, 3, 6, 2)
    members = y.reshape(6, 6, 2)
    got = over_both(lambda v: lax.all_to_all(v, ("i", "j"), 0, 0))(y)
    np.testing.assert_array_equal(np.asarray(got).reshape(6, 6, 2), members.transpose(1, 0, 2))
    got = over_both(lambda v: lax.all_to_all(v, ("i", "j"), 0, 1, tiled=True))(y)
    np.testing.assert_array_equal(np.asarray(got).reshape(6, 1, 12), members.transpose(1, 0, 2).reshape(6, 1, 12))
    got = over_both(lambda v: lax.psum_scatter(v, ("i", "j")))(y)
    np.testing.assert_array_equal(np.asarray(got).reshape(6, 2), members.sum(0))
    pairs = [(0, 5), (5, 1), (2, 2), (3, 0)]
    want = np.zeros((6, 6, 2))
    for source, target in pairs:
        want[target] = members[source]
    got = over_both(lambda v: lax.ppermute(v, ("i", "j"), pairs))(y)
    np.testing.assert_array_equal(np.asarray(got).reshape(6, 6, 2), want)


def test_sizes_that_disagree_are_listed_by_argument():
    def f(a, b, *, c=None):
        return a

    words = r"most axes \(2 of them\) had size 2, e.g. axis 1 of argument b\[0\] of type float32\[10,2\];"
    with pytest.raises(VmapAxisError, match=words + r"\n  \* one axis had size 10: axis 0 of argument a"):
        vmap(f, (0, 1))(fnp.ones((10, 4)), [fnp.ones((10, 2))] * 2)
    with pytest.raises(VmapAxisError, match=r"one axis had size 2: axis 0 of kwargs\['c'\]"):
        vmap(f, (0, None))(fnp.ones(1), 1.0, c=fnp.ones(2))
    with pytest.raises(VmapAxisError, match="the argument axis_size"):
        vmap(f, (0, None), axis_size=2)(fnp.ones(1), 1.0)
    with pytest.raises(VmapAxisError, match=r"\(axis_name=i\) but out_axes is None"):
        vmap(f, (0, None), None, axis_name="i")(fnp.ones(1), 1.0)
    with pytest.raises(ValueError, match="vmap out_axes specification must be a tree prefix"):
        vmap(f, (0, None), (0, 0))(fnp.ones(1), 1.0)
    with pytest.raises(ArgumentError, match=r"in_axes must be an int, None, or a tuple.*got \{'a': 0\}"):
        vmap(f, {"a": 0})
