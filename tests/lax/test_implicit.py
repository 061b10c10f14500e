"""Linear systems and roots: derivatives of every order in both modes, with what solved them left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import grad, hessian, jacfwd, jacrev, jit, jvp, lax, tree, vmap
from fgrad.errors import ArgumentError, DtypeError, ShapeError


@pytest.fixture
def system(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((3, 3)) + 4 * np.eye(3), rng.standard_normal(3)


def agree(got: Any, want: Any) -> None:
    for g, w in zip(tree.leaves(got), tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-10)


# ---- linear systems
def without_derivative(matvec: Any, b: Any) -> Any:
    a = vmap(matvec, out_axes=1)(fnp.eye(3, dtype=b.dtype))
    return lax.stop_gradient(fnp.linalg.solve(a, b))


def solved(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda v: a @ v, b, without_derivative, without_derivative)


ORDERS = {
    "value": lambda f: f,
    "jit": jit,
    "forward": lambda f: jacfwd(f, (0, 1)),
    "reverse": lambda f: jacrev(f, (0, 1)),
    "forward twice": lambda f: jacfwd(jacfwd(f)),
    "forward over reverse": lambda f: jacfwd(jacrev(f, 1)),
    "reverse over forward": lambda f: jacrev(jacfwd(f, 1)),
    "reverse twice": lambda f: jacrev(jacrev(f)),
}


@pytest.mark.parametrize("order", ORDERS)
def test_linear_systems_in_every_mode(order, system):
    agree(ORDERS[order](solved)(*system), ORDERS[order](fnp.linalg.solve)(*system))


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 1), (0, None)])
@pytest.mark.parametrize("order", ["value", "reverse", "forward"])
def test_linear_systems_of_a_batch(order, in_axes, system):
    a, b = system
    a = a if in_axes[0] is None else np.stack([a, a + 1])
    b = b if in_axes[1] is None else np.stack([b, b - 1], in_axes[1])
    f = ORDERS[order]
    agree(vmap(f(solved), in_axes)(a, b), vmap(f(fnp.linalg.solve), in_axes)(a, b))


def test_what_else_a_solver_returns_is_given_and_not_differentiated(system):
    def f(a, b):
        def solve(matvec, b):
            return without_derivative(matvec, b), {"steps": fnp.sum(b)}

        return lax.custom_linear_solve(lambda v: a @ v, b, solve, solve, has_aux=True)

    a, b = system
    x, aux = f(a, b)
    agree((x, aux["steps"]), (np.linalg.solve(a, b), b.sum()))
    dx, daux = jacrev(f, 1)(a, b)
    agree(dx, np.linalg.inv(a))
    assert not np.any(daux["steps"])
    agree(jacfwd(f, 1)(a, b)[0], np.linalg.inv(a))


def test_only_the_transpose_needs_the_transposed_solver(system):
    def f(b):
        return lax.custom_linear_solve(lambda v: 2.0 * v, b, lambda matvec, b: b / 2)

    agree(jacfwd(f)(system[1]), np.eye(3) / 2)
    with pytest.raises(NotImplementedError, match="transpose_solve"):
        jacrev(f)(system[1])


def identity(matvec: Any, b: Any) -> Any:
    return b


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((lambda x: [x], 1.0, identity, identity), ArgumentError, r"matvec\(\) output pytree"),
        ((lambda x: x, 1.0, lambda f, x: [x], identity), ArgumentError, r"^solve\(\) output pytree"),
        ((lambda x: x, 1.0, identity, lambda f, x: [x]), ArgumentError, r"transpose_solve\(\) output pytree"),
        ((lambda x: x, 1.0, lambda f, x: fnp.ones(2), identity), ShapeError, r"^solve\(\) output shapes"),
        ((lambda x: x * fnp.ones(2), 1.0, identity), ShapeError, r"matvec\(\) output shapes"),
        ((lambda x: x * np.float64(1), np.float32(1), identity), DtypeError, r"matvec\(\).*float64"),
    ],
)
def test_functions_that_do_not_fit_the_vector_are_named(args, error, words):
    with pytest.raises(error, match=words):
        lax.custom_linear_solve(*args)


# ---- roots
def newton(f: Any, guess: Any) -> Any:
    """Steps that hide where they went."""

    def step(x: Any, _: Any) -> Any:
        return x - fnp.linalg.solve(jacfwd(f)(x), f(x)), None

    return lax.stop_gradient(lax.scan(step, guess, length=30)[0])


def dense(g: Any, y: Any) -> Any:
    return fnp.linalg.solve(jacfwd(g)(y), y)


def cube_root_of_both(a: Any) -> Any:
    """x with x[0]**3 = a[0] and x[1]**3 = a[1] + x[0]."""
    return lax.custom_root(lambda x: x**3 - a - fnp.stack([0 * x[0], x[0]]), fnp.ones(2, a.dtype), newton, dense)


def in_closed_form(a: Any) -> Any:
    first = a[0] ** (1 / 3)
    return fnp.stack([first, (a[1] + first) ** (1 / 3)])


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: f, jit, jacfwd, jacrev, hessian, lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(jacfwd(f))),
        lambda f: jacrev(jacfwd(f)), lambda f: lambda a: vmap(jacfwd(jacrev(f)))(fnp.stack([a, a + 1])),
    ],
)  # fmt: skip
def test_vector_roots_to_every_order(transformed):
    a = np.array([2.0, 3.0])
    agree(transformed(cube_root_of_both)(a), transformed(in_closed_form)(a))


def test_roots_do_not_move_with_the_guess_and_give_what_else_was_found():
    def f(a, guess):
        def solve(f, guess):
            return newton(f, guess), guess.sum()

        return lax.custom_root(lambda x: x**2 - a["a"], guess, solve, dense, has_aux=True)

    a, guess = {"a": np.array([4.0])}, np.array([1.0])
    x, aux = f(a, guess)
    agree((x, aux), (np.array([2.0]), 1.0))
    (dx, daux) = jacrev(f, (0, 1))(a, guess)
    agree(dx[0]["a"], [[0.25]])
    assert not np.any(dx[1]) and not np.any(daux[0]["a"]) and not np.any(daux[1])
    x, dx = jvp(lambda a: f(a, guess)[0], (a,), ({"a": np.array([1.0])},))
    agree(dx, [0.25])


def test_root_functions_that_do_not_fit_are_named():
    with pytest.raises(ArgumentError, match=r"solve\(\) output pytree"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: [x], lambda g, y: y)
    with pytest.raises(ArgumentError, match=r"tangent_solve\(\) output pytree"):
        grad(lambda a: lax.custom_root(lambda x: x - a, 1.0, lambda f, x: x, lambda g, y: [y]))(1.0)
