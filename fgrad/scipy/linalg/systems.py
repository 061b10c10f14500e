"""Factorizations and linear systems under SciPy's names and conventions; overwrite_* and check_finite do nothing."""

from __future__ import annotations

from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.linalg import lu as packed_lu
from fgrad.lax.linalg import lu_pivots_to_permutation, triangular_solve
from fgrad.numpy import decompositions, factors, matrix_functions, solves, spectra, systems
from fgrad.numpy.blocks import adjoint, diagonal, mm, swap
from fgrad.numpy.blocks import lower as lower_part
from fgrad.numpy.blocks import upper as upper_part
from fgrad.numpy.common import lift, public
from fgrad.numpy.operands import matrices, same_batch
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigh_tridiagonal", "hessenberg", "inv", "lu", "lu_factor",
    "lu_solve", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester", "solve_triangular", "svd",
]  # fmt: skip


# ---- cholesky
@public(static=("lower", "overwrite_a", "check_finite"))
def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The upper triangle U with U^H @ U = a, or the lower one with L @ L^H = a; zeros elsewhere.

    A matrix that is not positive definite gives NaN.

    >>> cholesky(fnp.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return decompositions.cholesky(a, upper=not lower)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """(triangle, lower) for cho_solve.

    The other triangle holds what was there. overwrite_a and check_finite are accepted for SciPy's sake.

    >>> c, lower = cho_factor(fnp.array([[4.0, 0.0], [0.0, 9.0]]))
    >>> cho_solve((c, lower), fnp.array([8.0, 9.0]))
    Array([2., 1.], dtype=float32)
    """
    return cholesky(a, lower), lower


@public(static=("lower",))
def _cho_solve(c: ArrayLike, b: ArrayLike, lower: bool) -> Array:
    given, x, y, is_vector = systems.system("cho_solve", c, b)
    first = x if lower else adjoint(x)
    z = solves.triangular_solve(adjoint(first), solves.triangular_solve(first, y, True), False)
    return given.result(systems.without_column(z) if is_vector else z)


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """x with a @ x = b, from cho_factor(a).

    b: [n] or [n, k].

    >>> cho_solve((2 * fnp.eye(2), True), fnp.array([4.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    c, lower = c_and_lower
    return _cho_solve(c, b, bool(lower))


# ---- lu
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """(both triangles in one matrix, pivots int32) for lu_solve.

    Row i was exchanged with row piv[i].

    >>> lu_factor(fnp.array([[0.0, 1.0], [2.0, 3.0]]))
    (Array([[2., 3.],
           [0., 1.]], dtype=float32), Array([1, 1], dtype=int32))
    """
    packed, pivots, _ = packed_lu(a)
    return packed, pivots


@public(static=("trans",))
def _lu_solve(lu: ArrayLike, piv: ArrayLike, b: ArrayLike, trans: int) -> Array:
    given, x, y, is_vector = systems.system("lu_solve", lu, b)
    n = x.shape[-1]
    order = build.broadcast_to(lift(lu_pivots_to_permutation(lift(piv), n)).node, x.shape[:-1])
    if trans == 0:
        z = solves.triangular_solve(x, factors.take_rows(y, order), True, True)
        z = solves.triangular_solve(x, z, False)
    else:
        t = swap(x) if trans == 1 else adjoint(x)
        z = solves.triangular_solve(t, solves.triangular_solve(t, y, True), False, True)
        back = factors.descending(build.neg(build.cast(order, dt.int64)))
        z = factors.take_rows(z, back)
    return given.result(systems.without_column(z) if is_vector else z)


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x with a @ x = b (trans 0), a.T @ x = b (1) or a^H @ x = b (2), from lu_factor(a).

    b: [n] or [n, k].

    >>> lu_solve(lu_factor(fnp.array([[0.0, 1.0], [2.0, 3.0]])), fnp.array([1.0, 5.0]))
    Array([1., 1.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise note_user_line(ArgumentError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}"))
    return _lu_solve(*lu_and_piv, b, trans)


@public(static=("permute_l", "overwrite_a", "check_finite"))
def lu(a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """(P, L, U) with a = P @ L @ U, or (P @ L, U).

    [.., m, n] -> P [.., m, m], L [.., m, k], U [.., k, n] with k = min(m, n).

    >>> p, l, u = lu(fnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> u
    Array([[2., 3.],
           [0., 1.]], dtype=float32)
    """
    given = matrices("lu", a)
    packed, _, order = factors.lu(given.nodes[0])
    left, right = factors.lu_parts(packed)
    back = factors.descending(build.neg(build.cast(order, dt.int64)))
    if permute_l:
        return given.result(factors.take_rows(left, back)), given.result(right)
    m = packed.shape[-2]
    shape = (*packed.shape[:-2], m, m)
    column = build.expand(build.cast(order, dt.int64), [(len(shape) - 2, m)])
    p = build.cast(build.eq(build.iota_along(shape, len(shape) - 2), column), packed.dtype)
    return given.result(p), given.result(left), given.result(right)


# ---- other factorizations
@public(static=("overwrite_a", "lwork", "mode", "pivoting", "check_finite"))
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """(Q, R); mode "full", "economic", or "r": (R,).

    pivoting gives (Q, R, positions) too, with the columns in the order of `positions`.

    >>> q, r = qr(fnp.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> (q @ r).round(4)
    Array([[3., 1.],
           [4., 2.]], dtype=float32)
    """
    if pivoting:
        raise NotImplementedError(
            "qr(pivoting=True) is not there; use svd to find ranks, or scipy.linalg.qr on the host"
        )
    if mode not in ("full", "economic", "r"):
        raise note_user_line(ArgumentError(f"qr: mode must be 'full', 'economic' or 'r', got {mode!r}"))
    if mode == "r":
        full = decompositions.qr(a, "complete")
        return (full.R,)
    q, r = decompositions.qr(a, "complete" if mode == "full" else "reduced")
    return q, r


@public(static=("full_matrices", "compute_uv", "overwrite_a", "check_finite", "lapack_driver"))
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, s, V^H), or s alone.

    full_matrices as in numpy.linalg.svd; the other flags are accepted for SciPy's sake.

    >>> svd(fnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    out = decompositions.svd(a, full_matrices, compute_uv)
    return tuple(out) if compute_uv else out


@public(static=("lower", "eigvals_only", "overwrite_a", "overwrite_b", "turbo", "eigvals", "type", "check_finite"))
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """(w, v) of Hermitian matrices, or w alone; with `b` (positive definite) of a v = w b v.

    w ascends; vectors are columns.

    >>> eigh(fnp.array([[2.0, 0.0], [0.0, 1.0]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    if eigvals is not None or type != 1:
        raise NotImplementedError(
            "eigh: eigvals= and type= other than 1 are not there; slice the result, or use inv(b)"
        )
    uplo = "L" if lower else "U"
    given = matrices("eigh", a, *([] if b is None else [b]), square=(True,) * (1 if b is None else 2))
    x = decompositions.symmetric(given.nodes[0], uplo, None)
    if b is None:
        w, v = spectra.eigh(x) if not eigvals_only else (spectra.eigvalsh(x), None)
    else:
        c = factors.cholesky(decompositions.symmetric(given.nodes[1], uplo, None))
        inner = solves.triangular_solve(c, x, True)
        w, v = spectra.eigh(decompositions.symmetric(solves.right_triangular(inner, adjoint(c), False), None, True))
        v = solves.triangular_solve(adjoint(c), v, False)
    return given.result(w) if eigvals_only or v is None else (given.result(w), given.result(v))


@public(static=("eigvals_only", "select", "select_range", "tol"))
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    tol: float | None = None,
) -> Any:
    """Eigenvalues (and vectors) of the Hermitian matrix with the diagonal d [n] and the subdiagonal e [n - 1].

    select   "a" for all, "i" for those of the places select_range = (first, last)

    -> w [k], ascending, or (w [k], v [n, k]). `e` may be complex. Raises ShapeError where the sizes do not fit.

    >>> fnp.round(eigh_tridiagonal(fnp.array([2.0, 2.0]), fnp.array([1.0]), eigvals_only=True), 4)
    Array([1., 3.], dtype=float32)
    """
    if select not in ("a", "i"):
        raise NotImplementedError(f"eigh_tridiagonal: select={select!r} is not there; use 'a' or 'i'")
    (mid, low), dtype, weak = promoted(d, e, least=dt.default_float())
    if low.ndim != 1 or mid.shape != (low.shape[0] + 1,):
        raise note_user_line(ShapeError(f"eigh_tridiagonal takes [n] and [n - 1], got {mid.shape} and {low.shape}"))
    below = build.pad(diagonal(low), [(1, 0, 0), (0, 1, 0)])
    x = build.add(diagonal(mid), build.add(below, adjoint(below)))
    w, v = spectra.eigh(decompositions.symmetric(x, "L", None))
    if select == "i" and select_range is not None:
        first, last = select_range
        w, v = build.slice_axis(w, 0, first, last + 1), build.slice_axis(v, 1, first, last + 1)
    return Tracer(w, weak) if eigvals_only else (Tracer(w, weak), Tracer(v, weak))


@public(static=("mode", "pivoting", "conjugate", "overwrite_a", "overwrite_c"))
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, Array]:
    """(Q @ c for mode "left", c @ Q for "right", R) of a = Q @ R [.., m, n], with Q [.., m, k], k = min(m, n).

    c           a matrix or a vector
    conjugate   multiplies by the conjugate of Q

    Raises ShapeError where the sizes do not fit.

    >>> a = fnp.array([[3.0, 1.0], [4.0, 2.0]])
    >>> q, r = qr_multiply(a, fnp.eye(2))
    >>> fnp.allclose(q @ r, a, atol=1e-5)
    Array(True, dtype=bool)
    """
    if pivoting:
        raise NotImplementedError("qr_multiply(pivoting=True) is not there; use svd to find ranks")
    if mode not in ("left", "right"):
        raise note_user_line(ArgumentError(f"qr_multiply: mode must be 'left' or 'right', got {mode!r}"))
    given = matrices("qr_multiply", a)
    q, r = factors.qr(given.nodes[0])
    rhs = lift(c)
    wide = promoted(Tracer(q), rhs)[1]
    left, right = build.cast(q, wide), build.cast(rhs.node, wide)
    if conjugate:
        left = adjoint(swap(left))
    is_vector = rhs.ndim == 1
    if is_vector:
        right = build.expand(right, [(1 if mode == "left" else 0, 1)])
    first, second = (left, right) if mode == "left" else (right, left)
    if first.shape[-1] != second.shape[-2]:
        raise note_user_line(
            ShapeError(f"qr_multiply: c of shape {rhs.shape} does not fit Q of shape {q.shape} (mode={mode!r})")
        )
    out = mm(*same_batch("qr_multiply", first, second))
    out = build.reshape(out, (*out.shape[:-2], out.shape[-2] * out.shape[-1])) if is_vector else out
    return Tracer(build.cast(out, promoted(Tracer(out), a)[1])), given.result(r)


@public(static=("check_finite",))
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form (T, Z) of a real one. No derivative; needs SciPy.

    T, Z [.., n, n] -> T, Z complex, with the same Z @ T @ Z^H and T upper triangular. Raises ShapeError where the sizes
    do not fit.

    >>> a = fnp.array([[0.0, -1.0], [1.0, 0.0]])
    >>> t, z = rsf2csf(*schur(a))
    >>> fnp.allclose(z @ t @ z.conj().T, a, atol=1e-5)
    Array(True, dtype=bool)
    """
    given = matrices("rsf2csf", T, Z, square=(True, True))
    t, z = matrix_functions.complex_form(*same_batch("rsf2csf", *given.nodes))
    return given.result(t), given.result(z)


@public(static=("output",))
def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """(T, Z) with a = Z @ T @ Z^H. No derivative; needs SciPy.

    output   "real" (blocks of 2 for pairs of eigenvalues) or "complex"

    >>> t, z = schur(fnp.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> t
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise note_user_line(ArgumentError(f"schur: output must be 'real' or 'complex', got {output!r}"))
    given = matrices("schur", a, square=(True,))
    t, z = matrix_functions.schur(given.nodes[0], output)
    return given.result(t), given.result(z)


@public(static=("calc_q", "overwrite_a", "check_finite"))
def hessenberg(a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """H, or (H, Q) with a = Q @ H @ Q^H. No derivative; needs SciPy.

    >>> hessenberg(fnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    given = matrices("hessenberg", a, square=(True,))
    h, q = matrix_functions.hessenberg(given.nodes[0])
    return (given.result(h), given.result(q)) if calc_q else given.result(h)


# ---- systems
@public(static=("overwrite_a", "check_finite"))
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Determinants: [.., n, n] -> [..].

    The flags are accepted for SciPy's sake.

    >>> det(fnp.array([[2.0, 0.0], [0.0, 3.0]]))
    Array(6., dtype=float32)
    """
    return systems.det(a)


@public(static=("overwrite_a", "check_finite"))
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverses: [.., n, n] -> [.., n, n].

    NaN for singular matrices.

    >>> inv(fnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return systems.inv(a)


@public(static=("lower", "overwrite_a", "overwrite_b", "debug", "check_finite", "assume_a"))
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """x with a @ x = b; assume_a "pos" reads one triangle and factors by cholesky; "sym", "her" read one, too.

    >>> solve(fnp.array([[2.0, 0.0], [0.0, 4.0]]), fnp.array([2.0, 2.0]), assume_a="pos")
    Array([1. , 0.5], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos", "general", "symmetric", "hermitian", "positive definite"):
        raise note_user_line(ArgumentError(f"solve: assume_a must be 'gen', 'sym', 'her' or 'pos', got {assume_a!r}"))
    if assume_a in ("gen", "general"):
        return systems.solve(a, b)
    given, x, y, is_vector = systems.system("solve", a, b)
    if assume_a in ("sym", "symmetric") and x.dtype.is_complex:
        half = lower_part(x) if lower else upper_part(x)
        off = lower_part(x, -1) if lower else upper_part(x, 1)
        z = solves.solve(build.add(half, swap(off)), y)
    else:
        full = decompositions.symmetric(x, "L" if lower else "U", None)
        z = _positive(full, y) if assume_a.startswith("pos") else solves.solve(full, y)
    return given.result(systems.without_column(z) if is_vector else z)


def _positive(a: UOp, b: UOp) -> UOp:
    c = factors.cholesky(a)
    return solves.triangular_solve(adjoint(c), solves.triangular_solve(c, b, True), False)


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


@public(static=("trans", "lower", "unit_diagonal", "overwrite_b", "debug", "check_finite"))
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """x with op(a) @ x = b, where `a` is a triangle and op nothing (0, "N"), .T (1, "T") or ^H (2, "C").

    lower: the triangle of `a` that is read; unit_diagonal takes its diagonal for ones. b: [n] or [n, k].

    >>> solve_triangular(fnp.array([[2.0, 0.0], [1.0, 4.0]]), fnp.array([2.0, 9.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    if trans not in _TRANS:
        raise note_user_line(ArgumentError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}"))
    given, x, y, is_vector = systems.system("solve_triangular", a, b)
    z = triangular_solve(
        Tracer(x), Tracer(y), left_side=True, lower=lower, transpose_a=_TRANS[trans] > 0,
        conjugate_a=_TRANS[trans] == 2, unit_diagonal=unit_diagonal,
    )  # fmt: skip
    node = lift(z).node
    return given.result(systems.without_column(node) if is_vector else node)


@public(static=("method", "tol"))
def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """X with A @ X + X @ B = C: [.., m, m], [.., n, n], [.., m, n]. Needs SciPy.

    method   accepted for compatibility: it is always solved by the Schur form
    tol      NaN where an eigenvalue of A and one of B add up to no more than this

    >>> solve_sylvester(fnp.eye(2), fnp.eye(2), 4 * fnp.ones((2, 2)))
    Array([[2., 2.],
           [2., 2.]], dtype=float32)
    """
    given = matrices("solve_sylvester", A, B, C, square=(True, True, False))
    a, b, c = same_batch("solve_sylvester", *given.nodes)
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise note_user_line(ShapeError(f"solve_sylvester: shapes {a.shape}, {b.shape} and {c.shape} do not fit"))
    return given.result(matrix_functions.sylvester(a, b, c, tol))
