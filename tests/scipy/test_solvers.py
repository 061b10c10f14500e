"""Iterative linear solvers and minimisation."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.scipy.optimize import minimize
from fgrad.scipy.sparse.linalg import bicgstab, cg, gmres


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_the_solvers_agree_with_elimination(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 6)).astype(dtype)
    if dtype == "complex128":
        a = a + 1j * rng.normal(size=(6, 6))
    a = a + 4 * np.eye(6, dtype=dtype)
    b = rng.normal(size=6).astype(dtype)
    definite = a @ a.conj().T
    tol = 1e-3 if dtype == "float32" else 1e-6
    np.testing.assert_allclose(cg(definite, b, tol=1e-7)[0], np.linalg.solve(definite, b), atol=tol)
    np.testing.assert_allclose(gmres(a, b, tol=1e-7)[0], np.linalg.solve(a, b), atol=tol)
    np.testing.assert_allclose(bicgstab(a, b, tol=1e-7, maxiter=200)[0], np.linalg.solve(a, b), atol=tol)


def test_operators_may_be_functions_of_trees_and_solutions_have_gradients() -> None:
    def product(x):
        return {"a": x["a"] + 0.5 * x["b"], "b": 0.5 * x["a"] + x["b"]}

    for solver in (cg, gmres, bicgstab):
        x, _ = solver(product, {"a": 1.0, "b": -4.0})
        np.testing.assert_allclose([x["a"], x["b"]], [4.0, -6.0], rtol=1e-4)
    matrix = np.array([[3.0, 1.0], [0.5, 2.0]])
    slope = fgrad.jit(fgrad.grad(lambda b: fnp.sum(gmres(matrix, b)[0])))(fnp.array([1.0, 2.0], dtype="float64"))
    np.testing.assert_allclose(slope, np.linalg.solve(matrix.T, np.ones(2)), rtol=1e-6)


def test_solvers_refuse_what_does_not_fit() -> None:
    with pytest.raises(errors.ShapeError, match="square"):
        cg(np.ones((3, 2)), np.ones(2))
    with pytest.raises(errors.ShapeError, match="x0"):
        cg(np.eye(2), np.ones(2), np.ones(3))


@pytest.mark.parametrize("method", ["BFGS", "l-bfgs"])
def test_minimisers_find_the_minimum_of_known_functions(method: str) -> None:
    def rosenbrock(x):
        return fnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def himmelblau(x):
        return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2

    found = minimize(rosenbrock, np.zeros(4), method=method)
    assert bool(found.success) and int(found.status) == 0
    np.testing.assert_allclose(found.x, np.ones(4), atol=1e-5)
    np.testing.assert_allclose(minimize(himmelblau, np.ones(2), method=method).x, [3, 2], atol=1e-5)
    many = fgrad.vmap(lambda c: minimize(lambda x: fnp.sum((x - c) ** 2), fnp.zeros(2), method=method).x)
    np.testing.assert_allclose(many(fnp.array([1.0, 5.0])), [[1, 1], [5, 5]], atol=1e-4)


def test_minimising_over_complex_vectors_and_with_arguments() -> None:
    goal = np.array([1.0 + 2j, -3j])
    found = minimize(lambda z, g: fnp.sum(fnp.abs(z - g) ** 2), np.zeros(2, complex), (goal,), method="l-bfgs")
    np.testing.assert_allclose(found.x, goal, atol=1e-5)


def test_minimize_names_what_it_does_not_know() -> None:
    with pytest.raises(errors.ArgumentError, match="must be a tuple"):
        minimize(fnp.sum, np.ones(2), 4.0, method="BFGS")
    with pytest.raises(errors.ArgumentError, match="BFGS or l-bfgs"):
        minimize(fnp.sum, np.ones(2), method="Powell")
    with pytest.raises(errors.ArgumentError, match="options"):
        minimize(fnp.sum, np.ones(2), method="BFGS", options={"steps": 3})
