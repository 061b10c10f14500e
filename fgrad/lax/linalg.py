"""fgrad.lax.linalg: factorizations under their low-level names. [.., m, n], k = min(m, n); see fgrad.numpy.linalg."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy import decompositions, factors, matrix_functions, solves
from fgrad.numpy.blocks import columns, conj, diagonal, mm, on_host, positions, swap, upper
from fgrad.numpy.common import lift, public
from fgrad.numpy.elementwise import magnitude
from fgrad.numpy.operands import matrices, same_batch
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__ = [
    "cholesky", "cholesky_update", "eig", "eigh", "hessenberg", "householder_product", "lu",
    "lu_pivots_to_permutation", "ormqr", "qr", "schur", "svd", "symmetric_product", "triangular_solve",
    "tridiagonal_solve",
]  # fmt: skip


@public(static=("symmetrize_input",))
def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangle L with L @ L^H = x; NaN where x is not positive definite.

    x [.., n, n] -> [.., n, n], of its floating or complex dtype (float32 for integers).

    symmetrize_input   takes (x + x^H) / 2 first; False reads the lower triangle only

    Raises ShapeError unless `x` is square in its last two axes.

    >>> fgrad.lax.linalg.cholesky(fnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return decompositions.cholesky(x, symmetrize_input=symmetrize_input)


@public(static=("compute_left_eigenvectors", "compute_right_eigenvectors", "enable_eigvec_derivs", "implementation"))
def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = True,
    implementation: Any = None,
) -> Any:
    """[w, left vectors, right vectors] of square matrices, as asked for; complex.

    enable_eigvec_derivs, implementation   without effect: vectors always have derivatives, the host computes

    x [.., n, n] -> w [.., n], vectors [.., n, n] (in columns, each of length 1), complex64 or complex128. Raises
    ShapeError for matrices that are not square.

    >>> w, right = fgrad.lax.linalg.eig(fnp.array([[2.0, 1.0], [0.0, 3.0]]), compute_left_eigenvectors=False)
    >>> fnp.sort(w.real), right.shape
    (Array([2., 3.], dtype=float32), (2, 2))
    """
    w, v = decompositions.eig(x)
    out = [w]
    if compute_left_eigenvectors:  # rows of the inverse, of length 1
        left = conj(swap(solves.inv(lift(v).node)))
        square = build.add(build.mul(build.real(left), build.real(left)), build.mul(build.imag(left), build.imag(left)))
        size = build.sqrt(build.reduce_(square, (left.ndim - 2,)))
        scale = build.expand(size, [(left.ndim - 2, left.shape[-2])])
        out.append(Tracer(build.div(left, build.cast(scale, left.dtype))))
    return [*out, v] if compute_right_eigenvectors else out


@public(static=("lower", "symmetrize_input", "sort_eigenvalues"))
def eigh(
    x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True
) -> tuple[Array, Array]:
    """(v, w): eigenvectors, then eigenvalues (always ascending), of Hermitian matrices.

    x [.., n, n] -> v [.., n, n] (in columns), w [.., n], real.

    lower               which triangle is read
    symmetrize_input    takes (x + x^H) / 2 first
    sort_eigenvalues    without effect

    Raises ShapeError for matrices that are not square.

    >>> v, w = fgrad.lax.linalg.eigh(fnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> fnp.round(w, 4)
    Array([1., 3.], dtype=float32)
    """
    w, v = decompositions.eigh(x, UPLO="L" if lower else "U", symmetrize_input=symmetrize_input)
    return v, w


@public(static=("full_matrices",))
def qr(x: ArrayLike, *, full_matrices: bool = True) -> tuple[Array, Array]:
    """Q [.., m, m], R [.., m, n]; with full_matrices=False Q [.., m, k], R [.., k, n].

    x [.., m, n], k = min(m, n); Q has orthonormal columns, R is an upper triangle. Raises ShapeError for less than two
    axes.

    >>> q, r = fgrad.lax.linalg.qr(fnp.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> bool(fnp.allclose(q @ r, fnp.array([[3.0, 1.0], [4.0, 2.0]]), atol=1e-5))
    True
    """
    q, r = decompositions.qr(x, "complete" if full_matrices else "reduced")
    return q, r


@public(static=("full_matrices", "compute_uv"))
def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V^H), or S alone.

    x [.., m, n] -> U [.., m, m], S [.., k], V^H [.., n, n] with k = min(m, n); with full_matrices=False U [.., m, k]
    and V^H [.., k, n]. S is real, descending. Raises ShapeError for less than two axes.

    >>> fgrad.lax.linalg.svd(fnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    out = decompositions.svd(x, full_matrices, compute_uv)
    return tuple(out) if compute_uv else out


@public()
def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """-> (both triangles in one [.., m, n], pivots int32 [.., k], permutation int32 [.., m]): x[perm] = L @ U.

    L has ones on its diagonal. Raises ShapeError for less than two axes.

    >>> packed, pivots, order = fgrad.lax.linalg.lu(fnp.array([[1.0, 2.0], [4.0, 6.0]]))
    >>> packed
    Array([[4.  , 6.  ],
           [0.25, 0.5 ]], dtype=float32)
    >>> pivots, order
    (Array([1, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    given = matrices("lu", x)
    packed, pivots, order = factors.lu(given.nodes[0])
    return given.result(packed), Tracer(pivots), Tracer(order)


def _permutation(size: int, pivots: Any) -> list[Any]:
    flat = pivots.reshape(-1, pivots.shape[-1])
    orders = [factors.permuted(p, size) for p in flat]
    return [np.array(orders, np.int32).reshape(*pivots.shape[:-1], size)]


@public(static=("permutation_size",))
def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """int [.., k] -> int32 [.., n]: exchanges of rows i and pivots[i], one after the other, as one permutation.

    permutation_size   n, at least k

    Raises ShapeError for more pivots than that.

    >>> fgrad.lax.linalg.lu_pivots_to_permutation(fnp.array([2, 2]), 3)
    Array([2, 0, 1], dtype=int32)
    """
    node = lift(pivots).node
    if node.shape[-1] > permutation_size:
        raise note_user_line(ShapeError(f"{node.shape[-1]} pivots do not fit a permutation of {permutation_size}"))
    shape = (*node.shape[:-1], permutation_size)
    return Tracer(on_host(_permutation, (node,), [(dt.int32, shape)], (permutation_size,))[0])


@public(static=("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"))
def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """x with op(a) @ x = b (left_side), or x @ op(a) = b, where `a` is a triangle. `b` may be a vector.

    a [.., n, n]; b [.., n, k] with left_side, [.., k, n] without; the result has the shape of b.

    lower           which triangle of `a` is read
    transpose_a     op(a) is a^T
    conjugate_a     op(a) is conjugated
    unit_diagonal   the diagonal counts as ones, and is not read

    Raises ShapeError where the sizes do not fit.

    >>> a = fnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> fgrad.lax.linalg.triangular_solve(a, fnp.array([2.0, 9.0]), left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    vector = lift(b).ndim == lift(a).ndim - 1
    rhs = lift(b)
    if vector:
        at = rhs.ndim if left_side else rhs.ndim - 1
        rhs = Tracer(build.expand(rhs.node, [(at, 1)]), rhs.weak)
    given = matrices("triangular_solve", a, rhs, square=(True, False))
    x, y = same_batch("triangular_solve", *given.nodes)
    if y.shape[-2 if left_side else -1] != x.shape[-1]:
        raise note_user_line(
            ShapeError(f"triangular_solve: shapes {x.shape} and {y.shape} do not fit (left_side={left_side})")
        )
    if conjugate_a:
        x = conj(x)
    if transpose_a:
        x, lower = swap(x), not lower
    if left_side:
        z = solves.triangular_solve(x, y, lower, unit_diagonal)
    else:
        z = solves.right_triangular(y, x, lower, unit_diagonal)
    return given.result(build.reshape(z, lift(b).shape) if vector and z.ndim == y.ndim == rhs.ndim else z)


@public(static=("perturb_singular",))
def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """x with t @ x = b, where t has the diagonals dl (from 1 on), d and du (up to n - 1), all [.., n]; b [.., n, k].

    Rows are exchanged where that is more accurate; a singular matrix gives inf or NaN.

    perturb_singular   pivots below eps times the largest element of the upper triangle count as that, with their sign,
                       so that the result is finite

    Raises ShapeError where the shapes do not fit.

    >>> ones = fnp.ones(3)
    >>> x = fgrad.lax.linalg.tridiagonal_solve(-ones, 2 * ones, -ones, fnp.array([[1.0], [0.0], [1.0]]))
    >>> fnp.round(x, 4).T
    Array([[1., 1., 1.]], dtype=float32)
    """
    (low, mid, high, rhs), dtype, weak = promoted(dl, d, du, b, least=dt.default_float())
    n = mid.shape[-1]
    if not low.shape == mid.shape == high.shape == rhs.shape[:-1]:
        raise note_user_line(
            ShapeError(
                f"tridiagonal_solve takes three [.., n] and one [.., n, k], got {low.shape}, {mid.shape}, "
                f"{high.shape}, {rhs.shape}"
            )
        )
    t = diagonal(mid)
    if n > 1:
        below, above = [(0, 0, 0)] * (t.ndim - 2), [(0, 0, 0)] * (t.ndim - 2)
        lower = build.pad(diagonal(columns(low, 1, n)), [*below, (1, 0, 0), (0, 1, 0)])
        upper = build.pad(diagonal(columns(high, 0, n - 1)), [*above, (0, 1, 0), (1, 0, 0)])
        t = build.add(t, build.add(lower, upper))
    return Tracer(_perturbed(t, rhs) if perturb_singular and n else solves.solve(t, rhs), weak)


def _perturbed(t: UOp, rhs: UOp) -> UOp:
    packed, _, order = factors.lu(t)
    right = upper(packed)
    top = build.reduce_(magnitude(right), (t.ndim - 2, t.ndim - 1), Op.MAX)
    n = t.shape[-1]
    least = build.mul(build.expand(top, [(top.ndim, n), (top.ndim + 1, n)]), float(dt.finfo(top.dtype).eps))
    i, j = positions(right)
    real = build.real(right) if right.dtype.is_complex else right
    tiny = build.and_(build.eq(i, j), build.lt(magnitude(right), least))
    sign = build.where(build.lt(real, 0), build.neg(least), least)
    right = build.where(tiny, build.cast(sign, right.dtype), right)
    z = solves.triangular_solve(packed, factors.take_rows(rhs, order), True, True)
    return solves.triangular_solve(right, z, False)


@public()
def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """[.., m, n], [.., k] -> the first n columns of the product of reflections 1 - tau v v^H (see qr, mode "raw").

    Raises ArgumentError where the shapes do not fit.

    >>> h, tau = fnp.linalg.qr(fnp.array([[3.0, 1.0], [4.0, 2.0]]), mode="raw")
    >>> fnp.round(fgrad.lax.linalg.householder_product(h.T, tau), 4)
    Array([[-0.6, -0.8],
           [-0.8,  0.6]], dtype=float32)
    """
    if lift(a).ndim < 2 or lift(taus).ndim != lift(a).ndim - 1 or lift(taus).shape[-1] > lift(a).shape[-1]:
        raise note_user_line(
            ArgumentError(
                f"householder_product takes [.., m, n] and [.., k <= n], got {lift(a).shape}, {lift(taus).shape}"
            )
        )
    (x, tau), _, weak = promoted(a, taus, least=dt.default_float())
    return Tracer(factors.householder(x, tau), weak)


@public(static=("compute_schur_vectors", "sort_eig_vals", "select_callable"))
def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Any = None,
) -> Any:
    """(T, Q) with x = Q @ T @ Q^H, T upper triangular (of real matrices with blocks of two); or T alone.

    sort_eig_vals, select_callable   are not there

    No derivative; needs SciPy.

    x [.., n, n]. Raises ShapeError for matrices that are not square.

    >>> t, q = fgrad.lax.linalg.schur(fnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> bool(fnp.allclose(q @ t @ q.T, fnp.array([[2.0, 1.0], [1.0, 2.0]]), atol=1e-5))
    True
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: sorted eigenvalues are not there; use scipy.linalg.schur on the host")
    given = matrices("schur", x, square=(True,))
    t, q = matrix_functions.schur(given.nodes[0], "complex" if given.nodes[0].dtype.is_complex else "real")
    return (given.result(t), given.result(q)) if compute_schur_vectors else given.result(t)


@public()
def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """[.., n, n] -> (the Hessenberg form, and below its subdiagonal the reflections; their factors [.., n - 1]).

    No derivative; needs SciPy. See fgrad.scipy.linalg.hessenberg for the matrices.

    >>> packed, taus = fgrad.lax.linalg.hessenberg(fnp.eye(3))
    >>> packed.shape, taus.shape
    ((3, 3), (2,))
    """
    given = matrices("hessenberg", a, square=(True,))
    packed, taus = matrix_functions.packed_hessenberg(given.nodes[0])
    return given.result(packed), given.result(taus)


@public(static=("left", "transpose"))
def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """Q @ c (left) or c @ Q, with the square Q that reflections make: a [.., m, n], taus [.., k], k <= min(m, n).

    transpose   Q^H in place of Q

    Raises ShapeError where the shapes do not fit.

    >>> x = fnp.array([[3.0, 1.0], [4.0, 2.0]])
    >>> h, tau = fnp.linalg.qr(x, mode="raw")
    >>> bool(fnp.allclose(fgrad.lax.linalg.ormqr(h.T, tau, fnp.linalg.qr(x)[1]), x, atol=1e-5))
    True
    """
    given = matrices("ormqr", a, c)
    x, y = given.nodes
    tau = cast_node(taus, x.dtype)
    m, n = x.shape[-2:]
    if n < m:
        x = build.pad(x, [*[(0, 0, 0)] * (x.ndim - 1), (0, m - n, 0)])
    q = factors.householder(columns(x, 0, m), tau)
    q = conj(swap(q)) if transpose else q
    if y.shape[-2 if left else -1] != m:
        raise note_user_line(ShapeError(f"ormqr: c of shape {y.shape} does not fit Q [{m}, {m}] (left={left})"))
    return given.result(mm(*same_batch("ormqr", *((q, y) if left else (y, q)))))


@public()
def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangle R' with R'^H R' = R^H R + w w^H, for the upper triangle R [n, n] and w [n].

    Raises ShapeError where the sizes do not fit.

    >>> fgrad.lax.linalg.cholesky_update(fnp.array([[3.0]]), fnp.array([4.0]))
    Array([[5.]], dtype=float32)
    """
    given = matrices("cholesky_update", r_matrix, lift(w_vector)[None, :], square=(True, False))
    r, w = given.nodes
    if w.shape[-1] != r.shape[-1]:
        raise note_user_line(ShapeError(f"cholesky_update: R {r.shape} and w of {w.shape[-1]} elements do not fit"))
    _, found = factors.qr(build.concatenate([upper(r), conj(w)], 0))
    n = r.shape[-1]
    i, j = positions(found)
    real = build.real(found) if found.dtype.is_complex else found
    corner = build.reduce_(build.where(build.eq(i, j), real, build.zeros_like(real)), (1,))
    sign = build.where(build.lt(corner, 0), build.const_like(-1, corner), build.const_like(1, corner))
    return given.result(build.mul(found, build.cast(build.expand(sign, [(1, n)]), found.dtype)))


@public(static=("symmetrize_output",))
def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: ArrayLike = 1.0,
    beta: ArrayLike = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """alpha a @ a^T + beta c: [.., n, k], [.., n, n] -> [.., n, n].

    symmetrize_output   accepted for compatibility: both triangles are always there

    Raises ShapeError where the sizes do not fit.

    >>> fgrad.lax.linalg.symmetric_product(fnp.array([[1.0], [2.0]]), fnp.eye(2), beta=10.0)
    Array([[11.,  2.],
           [ 2., 14.]], dtype=float32)
    """
    given = matrices("symmetric_product", a_matrix, c_matrix)
    x, y = same_batch("symmetric_product", *given.nodes)
    if y.shape[-2:] != (x.shape[-2],) * 2:
        raise note_user_line(ShapeError(f"symmetric_product takes [.., n, k] and [.., n, n], got {x.shape}, {y.shape}"))
    product, scale = mm(x, swap(x)), [cast_node(v, x.dtype) for v in (alpha, beta)]
    return given.result(build.add(build.mul(product, scale[0]), build.mul(y, scale[1])))
