"""Rules that users write may hold loops and other stages, wherever the custom function is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import checkpoint, custom_jvp, custom_vjp, grad, jacfwd, jit, lax, vjp, vmap
from fgrad.errors import ConcretizationError

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


def test_a_backward_rule_has_no_values() -> None:
    @custom_vjp
    def f(x: Any) -> Any:
        return 2 * x

    f.defvjp(lambda x: (2 * x, x), lambda kept, ct: (ct if kept > 0 else -ct,))
    with pytest.raises(ConcretizationError, match="inside the backward rule of .*f"):
        grad(f)(1.5)


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
