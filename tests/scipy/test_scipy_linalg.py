"""fgrad.scipy.linalg and fgrad.lax.linalg against SciPy, with derivatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import fgrad.numpy as fnp
from fgrad.errors import ShapeError
from fgrad.lax import linalg as low
from fgrad.scipy import linalg
from fgrad.test_util import check_grads

KINDS = ["float64", "complex128"]


def matrix(rng: np.random.Generator, kind: str, *shape: int) -> Any:
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if kind == "complex128" else 0)


def positive(a: Any) -> Any:
    return a @ a.conj().T + np.eye(len(a))


def near(got: Any, wanted: Any) -> None:
    for g, w in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]:
        assert np.shape(g) == np.shape(w)
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_solvers(kind: str, rng: np.random.Generator) -> None:
    a, b = matrix(rng, kind, 4, 4), rng.normal(size=(4, 2))
    h = positive(a)
    near(linalg.cho_solve(linalg.cho_factor(h), b), np.linalg.solve(h, b))
    near(linalg.cho_solve(linalg.cho_factor(h, True), b[:, 0]), np.linalg.solve(h, b[:, 0]))
    for trans in (0, 1, 2):
        near(linalg.lu_solve(linalg.lu_factor(a), b, trans), scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans))
        wanted = scipy.linalg.solve_triangular(a, b, trans, lower=True, unit_diagonal=True)
        near(linalg.solve_triangular(a, b, trans, True, True), wanted)
    for assume in ("gen", "her", "pos"):
        near(linalg.solve(h, b, assume_a=assume), np.linalg.solve(h, b))
    near(linalg.solve_sylvester(a, h, a), scipy.linalg.solve_sylvester(a, h, a))


def test_large_triangles_are_solved_by_substitution(rng: np.random.Generator) -> None:
    a = rng.normal(size=(40, 40)) + 20 * np.eye(40)
    near(linalg.solve_triangular(a, a[0]), scipy.linalg.solve_triangular(a, a[0]))
    near(linalg.lu(a), scipy.linalg.lu(a))


@pytest.mark.parametrize("kind", KINDS)
def test_factors(kind: str, rng: np.random.Generator) -> None:
    a = matrix(rng, kind, 4, 4)
    h = positive(a)
    for x in (a, a[:3], a[:, :3]):
        near(linalg.lu(x), scipy.linalg.lu(x))
        near(linalg.polar(x, "left"), scipy.linalg.polar(x, "left"))
    near(linalg.qr(a[:, :2], mode="economic"), scipy.linalg.qr(a[:, :2], mode="economic"))
    w, v = map(np.asarray, linalg.eigh(h, h + np.eye(4)))
    near(w, scipy.linalg.eigh(h, h + np.eye(4), eigvals_only=True))
    near(h @ v, (h + np.eye(4)) @ v * w)
    t, z = map(np.asarray, linalg.schur(a, "complex"))
    near(z @ t @ z.conj().T, a)
    form, q = map(np.asarray, linalg.hessenberg(a, calc_q=True))
    near(q @ form @ q.conj().T, a)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_matrices(kind: str, rng: np.random.Generator) -> None:
    a = matrix(rng, kind, 3, 3)
    near(linalg.expm(a), scipy.linalg.expm(a))
    near(linalg.expm(20 * a) / scipy.linalg.expm(20 * a), np.ones((3, 3)))
    near(linalg.sqrtm(positive(a)), scipy.linalg.sqrtm(positive(a)))
    near(linalg.funm(a, fnp.exp), scipy.linalg.expm(a))


@pytest.mark.parametrize("size", [3, 4, 7])
@pytest.mark.parametrize("name", ["toeplitz", "hankel", "circulant", "companion", "fiedler", "fiedler_companion"])
def test_matrices_of_a_vector(name: str, size: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=size)
    near(getattr(linalg, name)(x), getattr(scipy.linalg, name)(x))


@pytest.mark.parametrize("name", ["dft", "hadamard", "hilbert", "invhilbert", "pascal", "invpascal", "helmert"])
def test_matrices_of_a_size(name: str) -> None:
    np.testing.assert_allclose(getattr(linalg, name)(4), getattr(scipy.linalg, name)(4), rtol=1e-6, atol=1e-6)


def test_block_diagonals_and_convolutions(rng: np.random.Generator) -> None:
    a, x = rng.normal(size=(2, 3)), rng.normal(size=4)
    near(linalg.block_diag(a, x, 3.0), scipy.linalg.block_diag(a, x, 3.0))
    for mode in ("full", "same", "valid"):
        near(linalg.convolution_matrix(x, 3, mode), scipy.linalg.convolution_matrix(x, 3, mode))


def test_low_level_names(rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 3, 3))
    packed, pivots, order = low.lu(a)
    l, u = np.tril(packed, -1) + np.eye(3), np.triu(packed)  # noqa: E741
    near(l @ u, np.take_along_axis(a, np.asarray(order)[..., None], 1))
    assert np.array_equal(low.lu_pivots_to_permutation(pivots, 3), order)
    near(low.triangular_solve(a, a, lower=True), a @ np.linalg.inv(np.tril(a)))
    h, tau = np.linalg.qr(a[0], mode="raw")
    near(low.householder_product(h.T, tau), np.linalg.qr(a[0])[0])
    d, e = rng.normal(size=3), rng.normal(size=2)
    t = np.diag(d) + np.diag(e, 1) + np.diag(2 * e, -1)
    near(low.tridiagonal_solve(np.r_[0, 2 * e], d, np.r_[e, 0], a[0]), np.linalg.solve(t, a[0]))


SMOOTH: list[tuple[str, Callable[[Any], Any]]] = [
    ("lu", lambda x: linalg.lu(x)[1:]),
    ("lu, tall", lambda x: linalg.lu(x[:, :2])[1:]),
    ("lu, wide", lambda x: linalg.lu(x[:2])[1:]),
    ("triangular", lambda x: linalg.solve_triangular(x, x[0], "T", True)),
    ("expm", linalg.expm),
    ("sylvester", lambda x: linalg.solve_sylvester(x, 2 * x, x)),
    ("polar", linalg.polar),
    ("householder", lambda x: low.householder_product(x, x[0])),
]


@pytest.mark.parametrize("f", [s[1] for s in SMOOTH], ids=[s[0] for s in SMOOTH])
def test_derivatives_of_two_orders(f: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(5).normal(size=(3, 3)) + 2 * np.eye(3)
    check_grads(f, (x,), 2, atol=1e-4, rtol=1e-4)


def test_products_with_the_orthogonal_factor() -> None:
    rng = np.random.default_rng(8)
    for shape in ((5, 3), (3, 5)):
        a = rng.normal(size=shape)
        k = min(shape)
        for mode, c in (("left", (k, 2)), ("left", (k,)), ("right", (2, shape[0])), ("right", (shape[0],))):
            c = rng.normal(size=c)
            got, r = linalg.qr_multiply(a, c, mode)
            q, want_r = np.linalg.qr(a)
            np.testing.assert_allclose(got, q @ c if mode == "left" else c @ q, atol=1e-12)
            np.testing.assert_allclose(r, want_r, atol=1e-12)
    z = rng.normal(size=(4, 3)) + 1j * rng.normal(size=(4, 3))
    c = rng.normal(size=(2, 4))
    np.testing.assert_allclose(linalg.qr_multiply(z, c, conjugate=True)[0], c @ np.linalg.qr(z)[0].conj(), atol=1e-12)
    with pytest.raises(NotImplementedError, match="use svd"):
        linalg.qr_multiply(z, c, pivoting=True)
    with pytest.raises(ShapeError, match="does not fit Q"):
        linalg.qr_multiply(z, c.T)


def test_the_complex_schur_form_of_the_real_one() -> None:
    a = np.random.default_rng(2).normal(size=(2, 4, 4))
    t, z = linalg.rsf2csf(*linalg.schur(a))
    np.testing.assert_allclose(z @ t @ np.conj(np.swapaxes(z, -1, -2)), a, atol=1e-12)
    np.testing.assert_allclose(np.tril(t, -1), 0, atol=1e-12)


def test_sylvesters_equation_without_a_solution_gives_nan() -> None:
    a = np.diag([1.0, 2.0])
    assert np.isnan(np.asarray(linalg.solve_sylvester(a, -a, np.ones((2, 2))))).all()
    near = linalg.solve_sylvester(a, -a + 1e-6 * np.eye(2), np.ones((2, 2)))
    assert np.isfinite(np.asarray(near)).all()
    assert np.isnan(np.asarray(linalg.solve_sylvester(a, -a + 1e-6 * np.eye(2), np.ones((2, 2)), tol=1e-5))).all()


def test_leslie_matrices_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="length of f along the last axis must be at least 2, got 1"):
        linalg.leslie(np.ones(1), np.ones(0))
    with pytest.raises(ValueError, match="Incorrect lengths for f and s"):
        linalg.leslie(np.ones(3), np.ones(1))
