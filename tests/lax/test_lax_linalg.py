"""Factorizations under their low-level names."""

import numpy as np
import pytest
import scipy.linalg

from fgrad import grad, vmap
from fgrad import numpy as fnp
from fgrad.errors import ConcretizationError, ShapeError
from fgrad.lax import linalg

RNG = np.random.default_rng(6)
REAL = RNG.normal(size=(3, 5, 5))
COMPLEX = REAL + 1j * RNG.normal(size=(3, 5, 5))


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))


@pytest.mark.parametrize("a", [REAL, COMPLEX], ids=["real", "complex"])
def test_schur_and_hessenberg_forms(a: np.ndarray) -> None:
    t, q = vmap(linalg.schur)(a)
    np.testing.assert_allclose(q @ t @ adjoint(q), a, atol=1e-12)
    np.testing.assert_allclose(linalg.schur(a, compute_schur_vectors=False), t)
    packed, taus = linalg.hessenberg(a)
    h = np.triu(packed, -1)
    np.testing.assert_allclose(h[0], scipy.linalg.hessenberg(a[0]), atol=1e-12)
    below = np.tril(np.asarray(packed)[..., 1:, :-1], -1)
    q1 = linalg.householder_product(below, taus)
    q = np.stack([scipy.linalg.block_diag(1, x) for x in np.asarray(q1)])
    np.testing.assert_allclose(q @ h @ adjoint(q), a, atol=1e-12)
    with pytest.raises(NotImplementedError, match="sorted eigenvalues"):
        linalg.schur(a, sort_eig_vals=True)


@pytest.mark.parametrize("a", [REAL[0], COMPLEX[0], REAL[0][:, :3]], ids=["real", "complex", "tall"])
def test_products_with_reflections(a: np.ndarray) -> None:
    (packed, taus), _ = scipy.linalg.qr(a, mode="raw")
    q = scipy.linalg.qr(a)[0]
    c = RNG.normal(size=(5, 2))
    np.testing.assert_allclose(linalg.ormqr(packed, taus, c), q @ c, atol=1e-12)
    np.testing.assert_allclose(linalg.ormqr(packed, taus, c, transpose=True), adjoint(q) @ c, atol=1e-12)
    np.testing.assert_allclose(linalg.ormqr(packed, taus, c.T, left=False), c.T @ q, atol=1e-12)
    with pytest.raises(ShapeError, match="does not fit Q"):
        linalg.ormqr(packed, taus, c.T)


@pytest.mark.parametrize("a", [REAL[0], COMPLEX[0]], ids=["real", "complex"])
def test_updates_and_products(a: np.ndarray) -> None:
    r = np.triu(a) * np.sign(np.diag(a).real)[:, None]
    w = a[:, 1]
    new = np.asarray(linalg.cholesky_update(r, w))
    np.testing.assert_allclose(adjoint(new) @ new, adjoint(r) @ r + np.outer(w, w.conj()), atol=1e-12)
    assert (np.diag(new).real > 0).all() and not np.tril(new, -1).any()
    got = linalg.symmetric_product(a[:, :2], a, alpha=2.0, beta=-1.0)
    np.testing.assert_allclose(got, 2 * a[:, :2] @ a[:, :2].T - a, atol=1e-12)


def test_singular_tridiagonal_systems_may_be_perturbed() -> None:
    low, mid, high = (np.array(x, np.float32) for x in ([0, 1, -6, 1], [1, -1, 2, 1], [2, 1, -1, 0]))
    b = np.array([[1], [2], [-1], [-2]], np.float32)
    for perturb in (False, True):
        x = linalg.tridiagonal_solve(low, mid, high, b, perturb_singular=perturb)
        np.testing.assert_allclose(x, [[5], [-2], [-5], [3]], rtol=1e-5)
    flat = np.ones(2)
    x = np.asarray(linalg.tridiagonal_solve(flat * [0, 1], flat, flat * [1, 0], np.ones((2, 1)), perturb_singular=True))
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x.sum(), 1, atol=1e-3)


def test_residuals_of_least_squares_as_numpy_shapes_them() -> None:
    tall, b = REAL[0][:, :3], REAL[1][:, :2]
    for a in (tall, tall * [1, 1, 0], REAL[0]):
        for rhs in (b, b[:, 0]):
            got, want = fnp.linalg.lstsq(a, rhs, numpy_resid=True), np.linalg.lstsq(a, rhs)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g, w, atol=1e-12)
    with pytest.raises(ConcretizationError, match="use numpy_resid=False"):
        vmap(lambda a: fnp.linalg.lstsq(a, b, numpy_resid=True))(tall[None])
    slope = grad(lambda a: fnp.linalg.lstsq(a, b)[1].sum())(tall)
    assert np.isfinite(np.asarray(slope)).all()
