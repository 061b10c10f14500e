"""What vjp and linearize return are pytrees; float0 arrays go everywhere that arrays go."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import custom_vjp, grad, jacfwd, jit, jvp, lax, linear_transpose, linearize, tree, vjp, vmap
from fgrad.dtypes import float0
from fgrad.errors import ArgumentError, DtypeError, ShapeError

NOTHING = np.zeros((), float0)


def f(x, y):
    return fnp.sin(x) * y["w"], y["w"] ** 2


X, Y = np.float32(0.5), {"w": np.float32(3.0)}
WANT = (3 * np.cos(X) * 2, 2 * np.sin(X) + 1 * 6)


def test_a_vjp_function_leaves_a_jitted_function_and_enters_another():
    out, back = jit(lambda x, y: vjp(f, x, y))(X, Y)
    np.testing.assert_allclose(out, f(X, Y), rtol=1e-6)
    apply = jit(lambda back, ct: back(ct))
    for call in (back, lambda ct: apply(back, ct)):
        dx, dy = call((np.float32(2), np.float32(1)))
        np.testing.assert_allclose((dx, dy["w"]), WANT, rtol=1e-6)
    apply(jit(lambda x, y: vjp(f, x, y))(X + 1, Y)[1], (np.float32(2), np.float32(1)))
    assert apply.cache_size() == 1  # only the residuals differ


def test_a_linearized_function_is_a_residual_and_a_carry():
    out, linear = jit(lambda x: linearize(fnp.sin, x))(X)
    np.testing.assert_allclose(linear(2.0), 2 * np.cos(X), rtol=1e-6)
    doubled = tree.map(lambda r: r * 2, linear)  # its leaves are the residuals
    assert type(doubled) is type(linear)

    @custom_vjp
    def g(x):
        return fnp.sin(x)

    g.defvjp(lambda x: vjp(fnp.sin, x), lambda back, ct: back(ct))
    np.testing.assert_allclose(grad(g)(X), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(vmap(grad(g))(fnp.arange(3.0)), np.cos(np.arange(3.0)), rtol=1e-6)


def test_arguments_among_the_residuals_can_be_taken_out_and_put_back():
    x, w = np.ones((3, 4), np.float32), np.arange(16.0, dtype=np.float32).reshape(4, 4)
    _, back = vjp(lambda x, w: (2 * x) @ w, x, w)
    np.testing.assert_array_equal(back.args_res[1], w)
    back.args_res[1] = None
    with pytest.raises(ArgumentError, match=r"args_res\[1\].*put it back"):
        back(x)
    back.args_res[1] = np.ones(3, np.float32)
    with pytest.raises(ShapeError, match=r"\(4, 4\)"):
        back(x)
    back.args_res[1] = w
    np.testing.assert_allclose(back(x)[0], 2 * x @ w.T)


def test_float0_arrays_pass_through_jit_vmap_and_loops():
    g = grad(lambda n, x: n * x, argnums=(0, 1), allow_int=True)
    for transformed in (g, jit(g)):
        dn, dx = transformed(3, 2.0)
        assert dn.dtype == float0 and dn.shape == () and float(dx) == 3
    dn, dx = jit(vmap(g))(fnp.arange(4), fnp.ones(4))
    assert dn.dtype == float0 and dn.shape == (4,) and dx.shape == (4,)
    _, back = vjp(lambda a, b: (a + b, a), 2, 1)
    (da, db) = jit(back)((NOTHING, NOTHING))
    assert da.dtype == db.dtype == float0
    seen = vmap(lambda t, x: (t, x * len(t.shape)))(np.zeros((2, 5), float0), fnp.ones(2))
    assert seen[0].shape == (2, 5) and seen[0].dtype == float0
    np.testing.assert_array_equal(seen[1], [1, 1])
    out = lax.cond(True, lambda t, x: (x, t), lambda t, x: (-x, t), NOTHING, 1.0)
    assert out[1].dtype == float0 and float(out[0]) == 1


def test_float0_takes_part_in_no_arithmetic():
    for call in (lambda: NOTHING + fnp.zeros(()), lambda: lax.add(NOTHING, fnp.zeros(()))):
        with pytest.raises(DtypeError, match="float0s do not support any operations by design"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linear_transpose(lambda x: 2.0 * x, 1), "only supports float and complex"),
        (lambda: linear_transpose(lambda x: [x, x], 1.0)(1.0), "cotangent tree does not match"),
        (lambda: linear_transpose(lambda x: fnp.stack([x, x]), 1.0)(1.0), "cotangent type does not match"),
        (lambda: linear_transpose(lambda x: x, 1.0)(1j), "cotangent type does not match"),
        (lambda: jvp(lambda x: x, (1.0,), (1j,)), "complex64"),
        (lambda: vjp(lambda x: x, 1.0)[1](1j), "complex64"),
        (lambda: vjp(f, X, Y)[1](1.0, 1.0), "f was called with 2 arguments"),
        (lambda: jacfwd(fnp.sin)(1 + 2j), "jacfwd requires real-valued inputs"),
    ],
)
def test_what_would_be_lost_is_refused(call, words):
    with pytest.raises(TypeError, match=words):
        call()
