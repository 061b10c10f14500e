"""Factorizations of matrices, and eigenvalues and singular values. Results that are several arrays are named tuples."""

from __future__ import annotations

from typing import Any, NamedTuple

from fgrad.errors import ArgumentError, note_user_line
from fgrad.numpy import factors, spectra
from fgrad.numpy.blocks import adjoint, hermitian, keep, lower, positions, upper
from fgrad.numpy.common import public
from fgrad.numpy.operands import matrices
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike
from fgrad.uop import build
from fgrad.uop.node import UOp

__all__ = ["cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


class EigResult(NamedTuple):
    """Eigenvalues [.., n], eigenvectors [.., n, n] as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues [.., n] ascending, eigenvectors [.., n, n] as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Q with orthonormal columns, R upper triangular."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """U, the singular values S descending, and V^H."""

    U: Array
    S: Array
    Vh: Array


def symmetric(a: UOp, uplo: str | None, symmetrize: bool | None) -> UOp:
    """The Hermitian matrix that `a` stands for: the mean of both halves, or what one triangle says."""
    if symmetrize or symmetrize is None and uplo is None:
        return hermitian(a)
    i, j = positions(a)
    half = lower(a) if uplo in (None, "L") else upper(a)
    on = keep(half, build.eq(i, j))
    if a.dtype.is_complex:
        re = build.real(on)
        on = build.complex_(re, build.zeros_like(re))
    off = keep(half, build.ne(i, j))
    return build.add(on, build.add(off, adjoint(off)))


def _uplo(name: str, uplo: str | None) -> str | None:
    if uplo not in (None, "L", "U"):
        raise note_user_line(ArgumentError(f"{name}: UPLO must be 'L' or 'U', got {uplo!r}"))
    return uplo


@public(static=("upper", "symmetrize_input"))
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """[.., n, n] -> [.., n, n]: the lower triangle L with L @ L^H = a, or the upper one with L^H @ L = a.

    symmetrize_input   factor the mean of a and its adjoint (so the derivative is symmetric); False reads one triangle

    A matrix that is not positive definite gives NaN.

    >>> cholesky(array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    given = matrices("cholesky", a, square=(True,))
    node = symmetric(given.nodes[0], "U" if upper else "L", symmetrize_input)
    got = factors.cholesky(node)
    return given.result(adjoint(got) if upper else got)


@public(static=("mode",))
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """[.., m, n] -> Q [.., m, k], R [.., k, n] with k = min(m, n).

    mode   "reduced"; "complete": Q is [.., m, m], R [.., m, n]; "r": R alone; "raw": (h, tau) of LAPACK, transposed

    The derivative needs independent columns; that of "complete" a matrix which is not tall.

    >>> q, r = qr(array([[3.0, 1.0], [4.0, 2.0]]))
    >>> (q @ r).round(4)
    Array([[3., 1.],
           [4., 2.]], dtype=float32)
    """
    given = matrices("qr", a)
    if mode == "raw":
        h, tau = factors.geqrf(given.nodes[0])
        return given.result(build.permute(h, (*range(h.ndim - 2), h.ndim - 1, h.ndim - 2))), given.result(tau)
    if mode not in ("reduced", "complete", "r"):
        raise note_user_line(ArgumentError(f"qr: mode must be 'reduced', 'complete', 'r' or 'raw', got {mode!r}"))
    q, r = factors.qr(given.nodes[0], mode == "complete")
    return given.result(r) if mode == "r" else QRResult(given.result(q), given.result(r))


@public(static=("UPLO", "symmetrize_input"))
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool | None = None) -> EighResult:
    """Eigenvalues (real, ascending) and eigenvectors of Hermitian matrices [.., n, n].

    UPLO               the triangle to read, "L" or "U"; None reads the mean of both
    symmetrize_input   read the mean also where UPLO is given

    Vectors of equal eigenvalues have no derivative towards each other (0 here); what does not depend on their choice
    has its right derivative.

    >>> w, v = eigh(array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w.round(4)
    Array([1., 3.], dtype=float32)
    """
    given = matrices("eigh", a, square=(True,))
    w, v = spectra.eigh(symmetric(given.nodes[0], _uplo("eigh", UPLO), symmetrize_input))
    return EighResult(given.result(w), given.result(v))


@public(static=("UPLO", "symmetrize_input"))
def eigvalsh(a: ArrayLike, UPLO: str | None = None, *, symmetrize_input: bool | None = None) -> Array:
    """Eigenvalues (real, ascending) of Hermitian matrices: [.., n, n] -> [.., n].

    UPLO   the triangle to read, "L" or "U"; None reads the mean of both

    >>> eigvalsh(array([[2.0, 1.0], [1.0, 2.0]])).round(4)
    Array([1., 3.], dtype=float32)
    """
    given = matrices("eigvalsh", a, square=(True,))
    return given.result(spectra.eigvalsh(symmetric(given.nodes[0], _uplo("eigvalsh", UPLO), symmetrize_input)))


@public()
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices [.., n, n], always complex.

    -> (w [.., n], v [.., n, n]) with a @ v = v * w: vectors are columns of length 1. Differentiable where
    eigenvalues differ.

    >>> w, v = eig(array([[0.0, 1.0], [-1.0, 0.0]]))
    >>> w.dtype, v.shape
    (dtype('complex64'), (2, 2))
    """
    given = matrices("eig", a, square=(True,))
    w, v = spectra.eig(given.nodes[0])
    return EigResult(given.result(w), given.result(v))


@public()
def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of square matrices, always complex: [.., n, n] -> [.., n].

    Integers become the default float.

    >>> eigvals(array([[2.0, 0.0], [0.0, 3.0]]))
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    given = matrices("eigvals", a, square=(True,))
    return given.result(spectra.eigvals(given.nodes[0]))


def _hermitian_svd(a: UOp) -> tuple[UOp, UOp, UOp]:
    """By eigenvalues, largest size first; their signs go to v."""
    w, v = spectra.eigh(a)
    n = w.shape[-1]
    size = build.abs_(w)
    order = factors.descending(size)
    s = factors.take_elements(size, order)
    sign = sign_of(factors.take_elements(w, order))
    u = factors.take_columns(v, order)
    turned = build.mul(u, build.cast(build.expand(sign, [(sign.ndim - 1, n)]), u.dtype))
    return u, s, adjoint(turned)


def sign_of(x: UOp) -> UOp:
    """1 or -1; 1 for 0."""
    return build.where(build.lt(x, 0), build.const_like(-1, x), build.const_like(1, x))


@public(static=("full_matrices", "compute_uv", "hermitian", "subset_by_index"))
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """[.., m, n] -> U, S [.., k], V^H with a = (U * S) @ V^H and k = min(m, n).

    full_matrices     U is [.., m, m] and V^H [.., n, n], else [.., m, k] and [.., k, n]
    compute_uv        False returns S alone
    hermitian         a is Hermitian: faster
    subset_by_index   (start, stop): these singular values only; needs full_matrices=False

    Vectors of equal singular values have no derivative towards each other (0 here).

    >>> u, s, vh = svd(array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]), full_matrices=False)
    >>> s
    Array([4., 3.], dtype=float32)
    """
    given = matrices("svd", a, square=(hermitian,))
    (x,) = given.nodes
    if not compute_uv:
        if hermitian:
            w = build.abs_(spectra.eigvalsh(x))
            s = factors.take_elements(w, factors.descending(w))
        else:
            s = spectra.svdvals(x)
        start, stop = subset_by_index or (0, s.shape[-1])
        return given.result(build.slice_axis(s, s.ndim - 1, start, stop))
    if subset_by_index is not None and full_matrices and min(x.shape[-2:]) != max(x.shape[-2:]):
        raise note_user_line(ArgumentError("svd: subset_by_index needs full_matrices=False"))
    u, s, vh = _hermitian_svd(x) if hermitian else spectra.svd(x, full_matrices and x.shape[-1] != x.shape[-2])
    if subset_by_index is not None:
        start, stop = subset_by_index
        u = build.slice_axis(u, u.ndim - 1, start, stop)
        s = build.slice_axis(s, s.ndim - 1, start, stop)
        vh = build.slice_axis(vh, vh.ndim - 2, start, stop)
    return SVDResult(given.result(u), given.result(s), given.result(vh))


@public()
def svdvals(x: ArrayLike) -> Array:
    """Singular values, descending: [.., m, n] -> [.., min(m, n)].

    >>> svdvals(array([[3.0, 0.0], [0.0, 4.0]]))
    Array([4., 3.], dtype=float32)
    """
    given = matrices("svdvals", x)
    return given.result(spectra.svdvals(given.nodes[0]))
