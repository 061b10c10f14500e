"""Rules that users write may hold loops and other stages, wherever the custom function is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import (
    checkpoint,
    custom_jvp,
    custom_vjp,
    grad,
    jacfwd,
    jit,
    jvp,
    lax,
    linear_transpose,
    linearize,
    vjp,
    vmap,
)
from fgrad.custom_derivatives import SymbolicZero
from fgrad.errors import ArgumentError, ConcretizationError, MissingRuleError, ShapeError

STEPS = 3


def layer(w: Any, y: Any) -> Any:
    return fnp.tanh(y @ w)


def plain(w: Any, y: Any) -> Any:
    """layer(w, layer(w, .. y))."""
    for _ in range(STEPS):
        y = layer(w, y)
    return y


def by_scan(w: Any, y: Any) -> tuple[Any, Any]:
    """-> (the result, what every layer received)."""
    return lax.scan(lambda y, _: (layer(w, y), y), y, length=STEPS)


def backward_by_scan(kept: Any, ct: Any) -> Any:
    w, ys = kept

    def step(carry: Any, y: Any) -> Any:
        ct, total = carry
        dw, dy = vjp(layer, w, y)[1](ct)
        return (dy, total + dw), None

    (dy, dw), _ = lax.scan(step, (ct, fnp.zeros_like(w)), ys, reverse=True)
    return dw, dy


def backward_by_while(kept: Any, ct: Any) -> Any:
    w, ys = kept

    def step(carry: Any) -> Any:
        i, ct, total = carry
        dw, dy = vjp(layer, w, ys[i])[1](ct)
        return i - 1, dy, total + dw

    _, dy, dw = lax.while_loop(lambda c: c[0] >= 0, step, (STEPS - 1, ct, fnp.zeros_like(w)))
    return dw, dy


def backward_by_cond(kept: Any, ct: Any) -> Any:
    return lax.cond(
        fnp.sum(kept[1]) < 1e6,
        lambda: backward_by_scan(kept, ct),
        lambda: tuple(0 * x for x in backward_by_scan(kept, ct)),
    )


def by_vjp(backward: Callable[..., Any]) -> Any:
    @custom_vjp
    def f(w: Any, y: Any) -> Any:
        return plain(w, y)

    def forward(w: Any, y: Any) -> Any:
        out, ys = by_scan(w, y)
        return out, (w, ys)

    f.defvjp(forward, backward)
    return f


@custom_jvp
def by_jvp(w: Any, y: Any) -> Any:
    return plain(w, y)


@by_jvp.defjvp
def by_jvp_rule(primals: Any, tangents: Any) -> Any:
    (w, y), (dw, dy) = primals, tangents

    def step(carry: Any, _: Any) -> Any:
        y, dy = carry
        out = layer(w, y)
        return (out, (1 - out**2) * (dy @ w + y @ dw)), None

    return lax.scan(step, (y, dy), length=STEPS)[0]


FUNCTIONS = {
    "vjp, scan": by_vjp(backward_by_scan),
    "vjp, while": by_vjp(backward_by_while),
    "vjp, cond": by_vjp(backward_by_cond),
    "jvp, scan": by_jvp,
}


@pytest.fixture
def operands(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((4, 4)), rng.standard_normal((2, 4))


def agree(transformed: Callable[[Any], Callable[..., Any]], f: Any, operands: Any) -> None:
    for got, want in zip(transformed(f)(*operands), transformed(plain)(*operands), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def gradient(f: Any) -> Any:
    return grad(lambda w, y: fnp.sum(f(w, y) ** 2), (0, 1))


def gradient_inside_a_loop(f: Any) -> Any:
    def repeated(w: Any, y: Any) -> Any:
        return fnp.sum(lax.scan(lambda y, _: (f(w, y), None), y, length=2)[0] ** 2)

    return grad(repeated, (0, 1))


def gradient_of_each(f: Any) -> Any:
    return vmap(grad(lambda w, y: fnp.sum(f(w, y) ** 2), (0, 1)), in_axes=(None, 0))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("transformed", [gradient, gradient_inside_a_loop, gradient_of_each])
def test_rules_with_loops(transformed: Any, compiled: bool, name: str, operands: Any) -> None:
    agree((lambda f: jit(transformed(f))) if compiled else transformed, FUNCTIONS[name], operands)


def test_jvp_rules_with_loops_in_forward_mode(operands: Any) -> None:
    agree(lambda f: jacfwd(f, (0, 1)), by_jvp, operands)


def test_second_derivatives_of_rules_with_loops(operands: Any) -> None:
    for f in (FUNCTIONS["vjp, scan"], by_jvp):
        agree(lambda f: grad(lambda w, y: fnp.sum(gradient(f)(w, y)[0] ** 2), (0, 1)), f, operands)


def test_a_backward_rule_that_runs_later_has_no_values() -> None:
    @custom_vjp
    def f(x: Any) -> Any:
        return 2 * x

    f.defvjp(lambda x: (2 * x, x), lambda kept, ct: (ct if kept > 0 else -ct,))
    assert float(grad(f)(1.5)) == 1  # but here the whole backward pass is derived at once
    with pytest.raises(ConcretizationError, match="inside the backward rule of .*f"):
        vjp(f, 1.5)[1](1.0)


@pytest.mark.parametrize("kind", ["custom_vjp", "custom_jvp"])
@pytest.mark.parametrize("where", ["plain", "scan", "cond", "checkpoint"])
def test_a_rule_may_close_over_an_array_wherever_it_is_asked(kind, where):
    w = fnp.asarray(np.array([2.0, 3.0], np.float32))
    if kind == "custom_vjp":
        f = custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * w,))
    else:
        f = custom_jvp(lambda x: x * 2)
        f.defjvp(lambda p, t: (f(p[0]), t[0] * w))
    g = {
        "plain": f,
        "scan": lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
        "cond": lambda x: lax.cond(x[0] > 0, f, lambda v: v, x),
        "checkpoint": checkpoint(f),
    }[where]
    want = np.asarray(w) ** (2 if where == "scan" else 1)
    x = fnp.ones(2)
    slope = grad(lambda x: fnp.sum(g(x)))
    np.testing.assert_array_equal(np.asarray(slope(x)), want)
    np.testing.assert_array_equal(np.asarray(jit(slope)(x)), want)
    np.testing.assert_array_equal(np.asarray(vmap(slope)(fnp.ones((3, 2)))), np.stack([want] * 3))


# ---- what rules are given and may give
def test_a_jvp_rule_may_ask_for_zeros_by_name() -> None:
    seen = []

    @custom_jvp
    def f(x, n, y):
        return x * n + y, n

    @partial(f.defjvp, symbolic_zeros=True)
    def rule(primals, tangents):
        dx, dn, dy = tangents
        seen.append([type(t) is SymbolicZero for t in tangents])
        assert dy.shape == () and dy.ndim == 0 and dy.dtype == np.float32
        return f(*primals), (dx * primals[1], dn)

    def first(x: Any) -> Any:
        return f(x, 3, 2.0)[0]

    for g in (first, jit(first), lambda x: vmap(first)(x[None])[0]):
        np.testing.assert_allclose(grad(g)(fnp.asarray(5.0)), 3)
    assert all(s == [False, True, True] for s in seen)


def test_a_vjp_rule_may_ask_which_arguments_move() -> None:
    seen = []

    @custom_vjp
    def f(x, y):
        return x * y, y

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        return f(x.value, y.value), (x.value, y.value)

    def backward(kept, cts):
        ct, unused = cts
        seen.append(type(unused) is SymbolicZero)
        return ct * kept[1], unused

    f.defvjp(forward, backward, symbolic_zeros=True)
    np.testing.assert_allclose(grad(lambda x: f(x, 3.0)[0])(2.0), 3)
    np.testing.assert_allclose(grad(lambda x: vmap(f)(x, x)[0].sum())(fnp.ones(2)), [1, 1])
    assert seen == [(True, False), True, (True, True), True]


def test_arguments_that_are_not_differentiated_by_name() -> None:
    @partial(custom_vjp, nondiff_argnums=(0,), nondiff_argnames=("g",))
    def apply(f: Any, x: Any, g: Any) -> Any:
        return f(x) + g(x)

    apply.defvjp(lambda f, x, g: (apply(f, x, g), x), lambda f, g, x, ct: (ct * 10 * x,))
    np.testing.assert_allclose(grad(lambda x: apply(fnp.sin, x, g=fnp.cos))(2.0), 20)
    with pytest.raises(ArgumentError, match="nondiff_argnames has 'h'"):
        custom_vjp(lambda x: x, nondiff_argnames="h")


def test_none_stands_for_the_cotangents_of_a_subtree() -> None:
    @custom_vjp
    def f(x: Any) -> Any:
        return x[0]

    f.defvjp(lambda x: (f(x), None), lambda _, ct: ((ct, (None, None)),))
    dx = grad(f)((1.0, (2.0, None)))
    assert float(dx[0]) == 1 and float(dx[1][0]) == 0
    f.defvjp(lambda x: (f(x), None), lambda _, ct: ((ct, None),))
    assert float(grad(f)((1.0, (2.0, 3.0)))[1][1]) == 0
    f.defvjp(lambda x: (f(x), None), lambda _, ct: ((ct, ct),))
    with pytest.raises(TypeError, match="with the structure of the arguments"):
        grad(f)((1.0, (2.0, 3.0)))


def test_integer_outputs_and_arguments_beside_floats() -> None:
    @custom_vjp
    def f(n: Any, x: Any) -> Any:
        return n + 1, n * x

    f.defvjp(lambda n, x: (f(n, x), n), lambda n, cts: (None, cts[1] * n * 10))
    np.testing.assert_allclose(grad(lambda x: f(3, x)[1])(2.0), 30)
    np.testing.assert_allclose(vmap(grad(lambda x, n: f(n, x)[1]))(fnp.ones(2), fnp.arange(2)), [0, 10])


def test_cotangents_of_another_shape_are_named_by_their_argument() -> None:
    @custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x

    f.defvjp(lambda x, y: (x, None), lambda _, ct: (fnp.zeros(3), fnp.zeros(3)))
    with pytest.raises(ShapeError, match=r"output\[1\] the bwd rule produced an output of type float32\[3\]"):
        grad(lambda x, y: f(x, y * y).sum(), 1)(fnp.ones(3), fnp.ones(4))


def test_forward_mode_of_a_vjp_rule_is_refused_when_it_is_compiled() -> None:
    f = by_vjp(backward_by_scan)
    w, y = fnp.ones((4, 4)), fnp.ones((2, 4))
    for call in (lambda: jvp(f, (w, y), (w, y)), lambda: jit(lambda: jvp(f, (w, y), (w, y))[1])()):
        with pytest.raises(TypeError, match="can't apply forward-mode autodiff"):
            call()
    _, linear = linearize(f, w, y)
    (dw, dy) = linear_transpose(linear, w, y)(fnp.ones((2, 4)))  # but its transpose is known
    assert dw.shape == (4, 4) and dy.shape == (2, 4)


def test_a_rule_that_is_missing_is_named() -> None:
    with pytest.raises(MissingRuleError, match="No JVP defined for custom_jvp function sin using defjvp"):
        custom_jvp(fnp.sin)(1.0)
    with pytest.raises(MissingRuleError, match="defvjp"):
        grad(custom_vjp(fnp.sin))(1.0)


# ---- rules that choose by value
def by_sign() -> Any:
    """2 x, with a derivative of 2 or -2 by the sign of x."""

    @custom_jvp
    def f(x: Any) -> Any:
        return 2 * x

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return f(x), 2 * dx if x > 0 else -2 * dx

    return f


def test_a_jvp_rule_may_branch_on_what_an_unjitted_transformation_knows() -> None:
    f = by_sign()
    for x, want in ((3.0, 2.0), (-3.0, -2.0), (3.0, 2.0)):
        assert float(grad(f)(x)) == want
        assert float(jvp(f, (x,), (1.0,))[1]) == want
        assert float(linearize(f, x)[1](1.0)) == want
        assert float(vjp(f, x)[1](1.0)[0]) == want
        assert float(grad(lambda v: f(v * v - 4) * v)(x)) == 2 * 5 + 2 * 2 * x * x
        assert float(grad(lambda v: grad(f)(v) * v)(x)) == want
    for call in (lambda: jit(grad(f))(3.0), lambda: vmap(grad(f))(fnp.ones(2))):
        with pytest.raises(ConcretizationError, match="inside the jvp rule of f"):
            call()


def test_a_vjp_rule_may_branch_on_what_an_unjitted_transformation_knows() -> None:
    @custom_vjp
    def f(x: Any) -> Any:
        return 2 * x

    f.defvjp(lambda x: (2 * x, x if x > 0 else -x), lambda x, ct: (ct * x if x > 1 else ct,))
    assert [float(grad(f)(x)) for x in (3.0, -3.0, 0.5)] == [3, 3, 1]
    with pytest.raises(ConcretizationError, match="inside the forward rule of f"):
        jit(grad(f))(3.0)
