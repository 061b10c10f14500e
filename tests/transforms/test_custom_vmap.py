"""Functions that say themselves how they are mapped."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import grad, jit, jvp, lax, vmap
from fgrad.custom_batching import custom_vmap, sequential_vmap
from fgrad.errors import ArgumentError, MissingRuleError, ShapeError, VmapAxisError

XS = np.arange(3.0, dtype=np.float32)


def with_rule(rule, of=fnp.sin):
    f = custom_vmap(lambda x: of(x))
    f.def_vmap(rule)
    return f


@pytest.fixture
def told():
    """sin of one, cos of many: so that one sees which was used. With what the rule was told."""
    calls = []

    def rule(size, in_batched, xs):
        calls.append((size, in_batched))
        return fnp.cos(xs), in_batched[0]

    return with_rule(rule), calls


def test_the_rule_replaces_batching(told):
    f, calls = told
    np.testing.assert_allclose(f(XS), np.sin(XS), rtol=1e-6)
    for mapped in (vmap(f), jit(vmap(f)), vmap(jit(f))):
        np.testing.assert_allclose(mapped(XS), np.cos(XS), rtol=1e-6)
    assert all(c == (3, [True]) for c in calls)
    np.testing.assert_allclose(vmap(vmap(f))(XS[:, None] + XS), np.cos(XS[:, None] + XS), rtol=1e-6)
    xs = fnp.ones((4, 3))
    np.testing.assert_allclose(vmap(lambda x: lax.map(f, x))(xs), np.cos(xs), rtol=1e-6)


def test_forward_derivatives_follow_the_rule(told):
    f, _ = told
    ts = 2 * XS + 1
    for mapped in (vmap(lambda x, t: jvp(f, (x,), (t,))), lambda x, t: jvp(vmap(f), (x,), (t,))):
        y, dy = mapped(XS, ts)
        np.testing.assert_allclose(y, np.cos(XS), rtol=1e-6)
        np.testing.assert_allclose(dy, -np.sin(XS) * ts, rtol=1e-6)
    y, dy = vmap(lambda x: jvp(f, (x,), (1.0,)))(XS)  # only the primal is mapped
    np.testing.assert_allclose(dy, -np.sin(XS), rtol=1e-6)
    y, dy = vmap(lambda t: jvp(f, (2.0,), (t,)))(ts)  # only the tangent is mapped
    np.testing.assert_allclose(dy, -np.sin(2.0) * ts, rtol=1e-6)


def test_reverse_derivatives_of_one_are_those_of_the_function(told):
    f, _ = told
    np.testing.assert_allclose(grad(f)(0.5), np.cos(0.5), rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x: vmap(f)(x).sum())(XS), -np.sin(XS), rtol=1e-6)


def test_pytrees_and_outputs_that_are_not_batched():
    @custom_vmap
    def f(p, n):
        return {"y": p["a"] * n, "n": n + 1}

    @f.def_vmap
    def rule(size, in_batched, p, n):
        assert in_batched == [{"a": True}, False]
        return {"y": p["a"] * n, "n": n + 1}, {"y": True, "n": False}

    out = vmap(f, in_axes=(0, None), out_axes={"y": 0, "n": None})({"a": XS}, 2.0)
    np.testing.assert_array_equal(out["y"], 2 * XS)
    assert float(out["n"]) == 3
    with pytest.raises(VmapAxisError, match="out_axes is None"):
        vmap(f, in_axes=(0, None), out_axes=None)({"a": XS}, 2.0)


def test_arrays_closed_over_belong_to_all_members():
    z = fnp.asarray(5.0)

    def outer(w):
        f = custom_vmap(lambda x: w * x + z)
        f.def_vmap(lambda size, in_batched, xs: (w * xs - z, in_batched[0]))
        return vmap(f)(XS).sum()

    np.testing.assert_allclose(jit(outer)(2.0), 2 * XS.sum() - 15)
    np.testing.assert_allclose(grad(outer)(2.0), XS.sum())
    with pytest.raises(NotImplementedError, match="closes over a value that is mapped"):
        vmap(lambda w: with_rule(lambda size, b, x: (x, b[0]), lambda x: w * x)(1.0))(XS)


def test_one_after_the_other():
    f = sequential_vmap(lambda x, y: (x + y["b"], y["a"]))
    got = vmap(f, in_axes=(0, {"a": None, "b": 0}))(XS, {"a": 1.0, "b": 4 + XS})
    np.testing.assert_array_equal(got[0], 4 + 2 * XS)
    np.testing.assert_array_equal(got[1], np.ones(3))
    np.testing.assert_array_equal(grad(lambda x: vmap(f)(x, {"a": x, "b": x})[0].sum())(XS), 2 * np.ones(3))


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        (lambda n, b, x: ([x], b), ShapeError, "structure of output returned by custom vmap rule"),
        (lambda n, b, x: (x[:1], b[0]), ShapeError, r"float32\[3\].*float32\[1\]"),
        (lambda n, b, x: x, TypeError, "pair"),
    ],
)
def test_mistakes_of_rules_are_named(rule, error, words):
    with pytest.raises(error, match=words):
        vmap(with_rule(rule))(XS)


def test_a_rule_must_be_given_and_arguments_be_positional():
    with pytest.raises(MissingRuleError, match="def_vmap"):
        custom_vmap(fnp.sin)(1.0)

    f = custom_vmap(lambda x, y, *, z=None: x * y)
    f.def_vmap(lambda n, b, x, y: (x * y, True))
    with pytest.raises(ArgumentError, match="missing a required argument: 'y'"):
        f(0.5)
    with pytest.raises(ArgumentError, match="could not be resolved to positions: z"):
        f(0.5, 1.0, z=2)
    np.testing.assert_array_equal(vmap(f)(x=XS, y=XS), XS * XS)
