"""Norms, products and factorizations of matrices, with derivatives; frequencies."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import ShapeError
from fgrad.test_util import check_grads


@pytest.mark.parametrize("kind", ["float32", "complex64", "int64"])
def test_norms(kind: str, cube: Any, same: Callable[..., None]) -> None:
    x = (cube * 3).astype(kind)
    if kind == "complex64":
        x = x + 1j * x[::-1]
    same(fnp.linalg.norm(x), np.linalg.norm(x))
    for p in (None, 2, 1, 0, 3, np.inf, -np.inf, 0.5):
        same(fnp.linalg.norm(x, p, 0), np.linalg.norm(x, p, 0))
        same(fnp.linalg.vector_norm(x, axis=(0, 1), ord=p or 2, keepdims=True),
             np.linalg.vector_norm(x, axis=(0, 1), ord=p or 2, keepdims=True))  # fmt: skip
    for p in (None, "fro", 1, -1, np.inf, -np.inf):
        same(fnp.linalg.norm(x, p, (0, 1)), np.linalg.norm(x, p, (0, 1)))
        same(fnp.linalg.norm(x, p, (2, 0), keepdims=True), np.linalg.norm(x, p, (2, 0), keepdims=True))
    same(fnp.linalg.matrix_norm(x), np.linalg.matrix_norm(x))


def test_products_of_matrices(rng: np.random.Generator, cube: Any, same: Callable[..., None]) -> None:
    x = rng.normal(size=(2, 3, 3))
    for n in range(6):
        same(fnp.linalg.matrix_power(x, n), np.linalg.matrix_power(x, n))
    chain = [rng.normal(size=s) for s in ((2, 5), (5, 3), (3, 7), (7,))]
    same(fnp.linalg.multi_dot(chain), np.linalg.multi_dot(chain))
    same(fnp.linalg.trace(cube, offset=1), np.linalg.trace(cube, offset=1))
    same(fnp.linalg.diagonal(cube), np.linalg.diagonal(cube))
    same(fnp.linalg.outer(x[0, 0], x[0, 1]), np.linalg.outer(x[0, 0], x[0, 1]))
    same(fnp.linalg.cross(x[0], x[1]), np.linalg.cross(x[0], x[1]))


def test_powers_of_what_is_not_square_are_refused() -> None:
    with pytest.raises(ShapeError, match="square"):
        fnp.linalg.matrix_power(fnp.ones((2, 3)), 2)


# ---- factorizations and systems
KINDS = ["float32", "complex128"]


def matrices(rng: np.random.Generator, kind: str, *shape: int) -> Any:
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if kind.startswith("complex") else x).astype(kind)


def positive(x: Any) -> Any:
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1], dtype=x.dtype)


def near(got: Any, wanted: Any) -> None:
    """Values, shapes and dtypes, with room for what LAPACK loses."""
    for g, w in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]:
        g, w = np.asarray(g), np.asarray(w)
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        rough = 1e-8 if w.dtype.itemsize // (1 + (w.dtype.kind == "c")) == 8 else 2e-3
        np.testing.assert_allclose(g, w, rtol=rough, atol=rough)


@pytest.mark.parametrize("kind", KINDS)
def test_systems_are_those_of_numpy(kind: str, rng: np.random.Generator) -> None:
    a = matrices(rng, kind, 2, 3, 3)
    for name in ("inv", "det", "slogdet", "pinv", "cond"):
        near(getattr(fnp.linalg, name)(a), getattr(np.linalg, name)(a))
    near(fnp.linalg.solve(a, a[0]), np.linalg.solve(a, a[0]))
    near(fnp.linalg.solve(a, a[0, 0]), np.linalg.solve(a, a[0, 0]))
    near(fnp.linalg.matrix_power(a, -2), np.linalg.matrix_power(a, -2))
    x, residuals, rank, s = np.linalg.lstsq(a[0, :, :2], a[1])
    near(fnp.linalg.lstsq(a[0, :, :2], a[1]), (x, residuals, np.int64(rank), s))


@pytest.mark.parametrize("kind", KINDS)
def test_factors_are_those_of_numpy(kind: str, rng: np.random.Generator) -> None:
    a = matrices(rng, kind, 2, 3, 3)
    h = positive(a)
    near(fnp.linalg.cholesky(h), np.linalg.cholesky(h))
    near(fnp.linalg.cholesky(h, upper=True), np.linalg.cholesky(h, upper=True))
    near(fnp.linalg.eigvalsh(h), np.linalg.eigvalsh(h))
    for x in (a, a[:, :2], a[:, :, :2]):
        for mode in ("reduced", "complete"):
            near(fnp.linalg.qr(x, mode), tuple(np.linalg.qr(x, mode)))
        for full in (True, False):
            near(fnp.linalg.svd(x, full), tuple(np.linalg.svd(x, full)))
    w, v = map(np.asarray, fnp.linalg.eigh(h))
    near(v * w[:, None], h @ v)
    w, v = map(np.asarray, fnp.linalg.eig(a))
    near(v * w[:, None], a.astype(v.dtype) @ v)
    u, s, vh = map(np.asarray, fnp.linalg.svd(h - 2 * np.eye(3, dtype=kind), hermitian=True))
    near((u * s[:, None]) @ vh, h - 2 * np.eye(3, dtype=kind))


def test_the_norms_of_singular_values(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4, 2))
    for p in ("nuc", 2, -2):
        near(fnp.linalg.norm(x, p, (2, 0), keepdims=True), np.linalg.norm(x, p, (2, 0), keepdims=True))
    assert int(fnp.linalg.matrix_rank(x[0, :, :1] @ x[0, :1])) == 1
    with pytest.raises(ValueError, match="only one of tol or rtol"):
        fnp.linalg.matrix_rank(x, tol=0.1, rtol=0.1)


def test_a_triangle_is_read_on_request(rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 3))
    for part in ("L", "U"):
        near(fnp.linalg.eigvalsh(a, part), np.linalg.eigvalsh(a, part))
    near(fnp.linalg.eigvalsh(a), np.linalg.eigvalsh((a + a.T) / 2))


def test_small_floats_keep_their_dtype() -> None:
    assert fnp.linalg.inv(fnp.eye(2, dtype=fnp.bfloat16)).dtype == fnp.bfloat16


def test_what_cannot_be_factored_is_nan_in_its_own_place() -> None:
    a = np.stack([np.eye(2), np.zeros((2, 2)), -np.eye(2)])
    assert np.isnan(np.asarray(fnp.linalg.inv(a))).all((1, 2)).tolist() == [False, True, False]
    assert np.isnan(np.asarray(fnp.linalg.cholesky(a))).all((1, 2)).tolist() == [False, True, True]
    assert fnp.linalg.cond(a).tolist() == [1.0, np.inf, 1.0]


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="inv takes square matrices, got shape"):
        fnp.linalg.inv(fnp.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"needs 2 rows .* b\[..., None\]"):
        fnp.linalg.solve(fnp.ones((3, 2, 2)), fnp.ones((3, 3)))
    with pytest.raises(ShapeError, match="over the last two axes"):
        fnp.linalg.svd(fnp.ones(3))


# ---- derivatives
def spd(x: Any) -> Any:
    return x @ fnp.conj(fnp.swapaxes(x, -1, -2)) + 3 * np.eye(x.shape[-2])


def projectors(x: Any) -> Any:
    """What the singular vectors of one value determine, phase apart."""
    u, s, vh = fnp.linalg.svd(x, full_matrices=False)
    return u[:, :1] @ vh[:1], s


def projector(x: Any) -> Any:
    w, v = fnp.linalg.eigh(spd(x))
    return v[:, :1] @ fnp.conj(v[:, :1].T), w


SMOOTH: list[tuple[str, Callable[[Any], Any], tuple[int, int]]] = [
    ("cholesky", lambda x: fnp.linalg.cholesky(spd(x)), (2, 2)),
    ("qr", fnp.linalg.qr, (3, 2)),
    ("qr, wide", fnp.linalg.qr, (2, 3)),
    ("inv", fnp.linalg.inv, (2, 2)),
    ("pinv", fnp.linalg.pinv, (3, 2)),
    ("det", fnp.linalg.det, (3, 3)),
    ("slogdet", lambda x: fnp.linalg.slogdet(x)[1], (2, 2)),
    ("solve", lambda x: fnp.linalg.solve(x, x[0]), (2, 2)),
    ("eigh", projector, (3, 3)),
    ("svd", projectors, (3, 2)),
    ("svd, wide", projectors, (2, 3)),
    ("eig", fnp.linalg.eig, (2, 2)),
    ("nuclear norm", lambda x: fnp.linalg.norm(x, "nuc"), (2, 3)),
]


@pytest.mark.parametrize("f,shape", [s[1:] for s in SMOOTH], ids=[s[0] for s in SMOOTH])
@pytest.mark.parametrize("kind,order", [("float64", 2), ("complex128", 1)])
def test_derivatives(f: Any, shape: tuple[int, int], kind: str, order: int) -> None:
    x = matrices(np.random.default_rng(3), kind, *shape)
    check_grads(f, (x,), order, atol=1e-4, rtol=1e-4)


def test_vmap_is_one_call_for_all(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 3, 3))

    def slope(a: Any) -> Any:
        return fgrad.grad(lambda b: fnp.linalg.eigh(spd(b))[0][0] + fnp.linalg.solve(b, b[0])[1])(a)

    near(fgrad.jit(fgrad.vmap(slope))(x), np.stack([np.asarray(slope(a)) for a in x]))


def test_derivatives_are_finite_where_values_coincide() -> None:
    one = np.eye(3)
    near(fgrad.grad(fnp.linalg.det)(np.diag([2.0, 3.0, 0.0])), np.diag([0.0, 0.0, 6.0]))
    twice = fgrad.hessian(fnp.linalg.det)(np.zeros((2, 2))).reshape(4, 4)
    near(twice, np.array([[0.0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]]))
    for f in (fnp.linalg.eigh, lambda x: fnp.linalg.svd(x)):
        slope = fgrad.grad(lambda x, f=f: sum(fnp.sum(y) for y in f(x)))(one)
        assert np.isfinite(np.asarray(slope)).all()
    # the orthogonal factor of the polar form is determined, although the singular vectors are not
    move = np.arange(9.0).reshape(3, 3)
    _, turn = fgrad.jvp(lambda x: (lambda u, s, vh: u @ vh)(*fnp.linalg.svd(x)), (2 * one,), (move,))
    near(turn, (move - move.T) / 4)


def test_what_is_not_determined_has_no_derivative() -> None:
    with pytest.raises(NotImplementedError, match="use mode='reduced'"):
        fgrad.grad(lambda x: fnp.linalg.qr(x, "complete")[0][0, 0])(np.eye(3)[:, :2])
    with pytest.raises(NotImplementedError, match="use full_matrices=False"):
        fgrad.grad(lambda x: fnp.linalg.svd(x)[0][0, 0])(np.eye(3)[:, :2])
