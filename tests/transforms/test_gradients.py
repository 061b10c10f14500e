"""grad, vjp, jvp, linearize, jacobians: values, structure and errors as a user meets them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import grad, hessian, jacfwd, jacrev, jit, jvp, linear_transpose, linearize, value_and_grad, vjp, vmap
from fgrad.errors import ArgumentError, DtypeError, NonScalarGradError


def quadratic(w, x):
    return fnp.sum((w["a"] * x + w["b"]) ** 2)


def test_grad_has_the_structure_of_its_argument():
    w = {"a": fnp.ones(3), "b": fnp.zeros(())}
    x = fnp.arange(3.0)
    value, g = value_and_grad(quadratic)(w, x)
    assert float(value) == 5.0
    np.testing.assert_allclose(np.asarray(g["a"]), [0, 2, 8])
    assert float(g["b"]) == 6.0
    ga, gx = grad(quadratic, argnums=(0, 1))(w, x)
    assert set(ga) == {"a", "b"}
    np.testing.assert_allclose(np.asarray(gx), [0, 2, 4])


def test_grad_with_aux_and_python_control_flow_on_values():
    def f(x):
        if x > 2:  # a value is there: grad is not jitted
            return x**3, {"branch": 1}
        return x**2, {"branch": 0}

    g, aux = grad(f, has_aux=True)(3.0)
    assert float(g) == 27.0 and int(aux["branch"]) == 1
    g, aux = grad(f, has_aux=True)(1.0)
    assert float(g) == 2.0 and int(aux["branch"]) == 0


def test_nesting_in_any_order_gives_higher_derivatives():
    f = lambda x: fnp.sin(x) * x  # noqa: E731
    x = 0.7
    want = 2 * np.cos(x) - x * np.sin(x)
    for second in (grad(grad(f)), jit(grad(jit(grad(f)))), lambda v: jvp(grad(f), (v,), (1.0,))[1], jacfwd(jacrev(f))):
        np.testing.assert_allclose(float(second(x)), want, rtol=1e-5)
    third = grad(grad(grad(f)))(x)
    np.testing.assert_allclose(float(third), -3 * np.sin(x) - x * np.cos(x), rtol=1e-5)


def test_no_perturbation_confusion():
    assert float(grad(lambda x: x * grad(lambda y: x + y)(1.0))(2.0)) == 1.0
    assert float(grad(lambda x: grad(lambda y: x * y)(3.0))(2.0)) == 1.0


def test_vjp_and_jvp_are_adjoint():
    a = fnp.asarray(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))

    def f(x, y):
        return fnp.tanh(a @ x) * fnp.sum(y), y * x[0]

    x, y = fnp.arange(3.0), fnp.arange(2.0) + 1
    dx, dy = fnp.ones(3), fnp.asarray(np.array([0.5, -1.0], np.float32))
    out, tangent = jvp(f, (x, y), (dx, dy))
    out2, back = vjp(f, x, y)
    ct = tuple(fnp.asarray(np.random.default_rng(1).normal(size=o.shape).astype(np.float32)) for o in out)
    cx, cy = back(ct)
    left = sum(float(fnp.vdot(c, t)) for c, t in zip(ct, tangent, strict=True))
    right = float(fnp.vdot(cx, dx) + fnp.vdot(cy, dy))
    np.testing.assert_allclose(left, right, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(out[0]), np.asarray(out2[0]))
    _, linear = linearize(f, x, y)
    for t, u in zip(linear(dx, dy), tangent, strict=True):
        np.testing.assert_allclose(np.asarray(t), np.asarray(u), rtol=1e-6)


def test_jacobians_and_hessian_have_output_then_input_axes():
    f = lambda x: fnp.stack([x[0] * x[1], x[1] ** 2, fnp.sin(x[2]), x.sum()])  # noqa: E731
    x = fnp.asarray(np.array([1.0, 2.0, 3.0], np.float32))
    want = np.array([[2, 1, 0], [0, 4, 0], [0, 0, np.cos(3)], [1, 1, 1]], np.float32)
    np.testing.assert_allclose(np.asarray(jacfwd(f)(x)), want, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(jacrev(f)(x)), want, rtol=1e-6)
    h = hessian(lambda p: p["u"] @ p["u"] * p["s"])({"u": fnp.ones(2), "s": fnp.asarray(3.0)})
    np.testing.assert_allclose(np.asarray(h["u"]["u"]), 6 * np.eye(2))
    np.testing.assert_allclose(np.asarray(h["u"]["s"]), [2, 2])


def test_linear_transpose_of_a_matrix_product():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    (x,) = linear_transpose(lambda v: fnp.asarray(a) @ v, fgrad.ShapeDtypeStruct((3,), "float32"))(fnp.ones(2))
    np.testing.assert_array_equal(np.asarray(x), a.sum(0))


def test_vmap_of_grad_is_the_gradient_of_each_example():
    loss = lambda w, x: fnp.sum(fnp.tanh(w * x))  # noqa: E731
    w = fnp.asarray(np.array([0.5, -1.0, 2.0], np.float32))
    xs = fnp.asarray(np.random.default_rng(2).normal(size=(5, 3)).astype(np.float32))
    each = np.stack([np.asarray(grad(loss)(w, x)) for x in xs])
    np.testing.assert_allclose(np.asarray(vmap(grad(loss), in_axes=(None, 0))(w, xs)), each, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(jit(vmap(grad(loss), (None, 0)))(w, xs)), each, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: grad(lambda x: x * 2)(fnp.ones(3)), NonScalarGradError, r"scalar-output.*\(3,\)"),
        (lambda: grad(lambda x: (x, x))(1.0), NonScalarGradError, "a tuple of 2"),
        (lambda: grad(lambda x: x * x)(3), DtypeError, "int64"),
        (lambda: grad(lambda x: x > 1)(3.0), NonScalarGradError, "real-valued outputs"),
        (lambda: grad(lambda x: x, argnums=2)(3.0), ArgumentError, "argnums=2"),
        (lambda: grad(lambda x: x)("text"), TypeError, "'text'"),
        (lambda: jvp(lambda x: x, (1.0,), (1.0, 2.0)), TypeError, "1 primals and 2 tangents"),
        (lambda: jvp(lambda x: x, (fnp.ones(2),), (fnp.ones(3),)), ValueError, r"\(3,\)"),
        (lambda: vjp(lambda x: x, 1.0)[1]((1.0, 2.0)), TypeError, "structure"),
        (lambda: grad(lambda x: x, has_aux=True)(1.0), TypeError, "pair"),
    ],
)
def test_mistakes_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_closures_over_outer_tracers_and_arrays():
    w = fnp.asarray(2.0)

    def outer(a):
        def inner(b):
            return w * a * b * b

        return grad(inner)(3.0)

    assert float(outer(5.0)) == 60.0
    assert float(grad(outer)(5.0)) == 12.0
    assert float(jit(outer)(5.0)) == 60.0
    np.testing.assert_array_equal(np.asarray(vmap(outer)(fnp.arange(3.0))), [0, 12, 24])


def test_what_is_kept_for_one_row_is_not_read_for_another():
    """The gradient's kernel needs cos(r[::-1]) in two passes, in one of them reversed once more."""

    def f(x, y):
        r = x + 0.25 * x * y
        v = r[::-1] * 0 + x.sum() * 0.125 + 1
        u = r + v[::-1]
        return fnp.sin(u).sum() + fnp.sin(r[::-1]).sum() + fnp.sin(x).sum() + fnp.sin(y).sum()

    rng = np.random.default_rng(309)
    x, y, dx, dy = (rng.standard_normal((3, 3)) for _ in range(4))
    gx, gy = jit(grad(f, argnums=(0, 1)))(x, y)
    _, forward = jit(lambda x, y: jvp(f, (x, y), (fnp.asarray(dx), fnp.asarray(dy))))(x, y)
    np.testing.assert_allclose((np.asarray(gx) * dx).sum() + (np.asarray(gy) * dy).sum(), float(forward), rtol=1e-12)


@pytest.mark.parametrize(
    "lossy",
    [
        fnp.unique,
        fnp.trim_zeros,
        lambda x: fnp.union1d(x, x),
        lambda x: fnp.abs(fnp.roots(x)),
    ],
    ids=["unique", "trim_zeros", "union1d", "roots"],
)
def test_derivatives_are_not_lost_in_functions_that_work_on_the_host(lossy):
    with pytest.raises(TypeError, match="derivatives cannot pass"):
        grad(lambda x: fnp.sum(lossy(x)))(fnp.asarray(np.array([1.0, 2.0, 3.0], np.float32)))
