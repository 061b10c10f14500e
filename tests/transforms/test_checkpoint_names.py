"""Values with names, and what the policies of checkpoint keep of them."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import checkpoint, grad, jit, jvp, lax, make_program, vmap
from fgrad import checkpoint_policies as policies
from fgrad.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals

X = np.arange(3, dtype=np.float32) * 0.25


def f(x):
    a = checkpoint_name(fnp.exp(x), "a")
    b = checkpoint_name({"b": fnp.tanh(a)}, "b")["b"]
    return fnp.sin(b).sum()


def plain(x):
    return fnp.sin(fnp.tanh(fnp.exp(x))).sum()


POLICIES = {
    "none": (None, 0),
    "a": (policies.save_only_these_names("a"), 1),
    "b": (policies.save_only_these_names("b", "c"), 1),
    "both": (policies.save_only_these_names("a", "b"), 2),
    "named": (policies.save_any_names_but_these("a"), 1),
    "either": (policies.save_from_both_policies(POLICY_A := policies.save_only_these_names("a"), POLICY_A), 1),
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_keep_values_by_their_names(name):
    policy, kept = POLICIES[name]
    g = checkpoint(f, policy=policy)
    assert len(saved_residuals(g, X)) == kept + 1  # and the argument
    np.testing.assert_allclose(grad(g)(X), grad(plain)(X), rtol=1e-6)
    np.testing.assert_allclose(jit(vmap(grad(g)))(np.stack([X, X + 1]))[1], grad(plain)(X + 1), rtol=1e-6)
    np.testing.assert_allclose(jvp(grad(g), (X,), (X,))[1], jvp(grad(plain), (X,), (X,))[1], rtol=1e-5)
    looped = lambda x: lax.scan(lambda c, _: (c + g(c + x), None), 0.0, length=2)[0]  # noqa: E731
    unlooped = lambda x: plain(0.0 + x) + plain(plain(0.0 + x) + x)  # noqa: E731
    np.testing.assert_allclose(grad(looped)(X), grad(unlooped)(X), rtol=1e-5)


def test_everything_but_a_name_is_kept():
    g = checkpoint(f, policy=policies.save_anything_except_these_names("a"))
    assert len(saved_residuals(g, X)) > 3
    np.testing.assert_allclose(grad(g)(X), grad(plain)(X), rtol=1e-6)


def test_names_change_nothing_else():
    np.testing.assert_array_equal(f(X), plain(X))
    np.testing.assert_allclose(grad(f)(X), grad(plain)(X), rtol=1e-6)
    assert "CALL" not in str(make_program(plain)(X))
    assert "named a" in str(make_program(f)(X))
    assert checkpoint_name(3, "three") == 3


def test_residuals_are_listed_with_their_origin(capsys):
    w = fnp.ones(3)
    assert {s for _, s in saved_residuals(lambda p, y: fnp.sum(p["w"] * y), {"w": X}, X)} == {
        "the argument p['w']", "the argument y",
    }  # fmt: skip
    assert {s for _, s in saved_residuals(lambda x: fnp.sum(w * fnp.tanh(x)), X)} == {
        "an array that the function closes over", "a result of TANH",
    }  # fmt: skip
    print_saved_residuals(f, X)
    assert "float32[3] from the value named 'b'\n" in capsys.readouterr().out


def test_there_is_no_other_memory_to_offload_to():
    with pytest.raises(NotImplementedError, match="save_only_these_names"):
        policies.save_and_offload_only_these_names(names_which_can_be_saved=["a"])
