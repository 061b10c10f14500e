"""Functions of matrices: exponential, square root, polar form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy import matrix_functions, solves, spectra
from fgrad.numpy.blocks import across, adjoint, diagonal, like, mm
from fgrad.numpy.common import public
from fgrad.numpy.operands import matrices, same_batch
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build

__all__ = ["expm", "expm_frechet", "funm", "polar", "sqrtm"]


@public(static=("upper_triangular", "max_squarings"))
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices [.., n, n].

    max_squarings   how often a matrix is halved before; NaN for larger ones. Differentiable.

    Source: N. J. Higham, SIAM J. Matrix Anal. Appl. 26 (2005).

    >>> expm(fnp.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    given = matrices("expm", A, square=(True,))
    return given.result(matrix_functions.expm(given.nodes[0]))


@public(static=("method", "compute_expm"))
def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """(expm(A), its derivative towards E), or the derivative alone.

    Both are [.., n, n].

    Source: C. Van Loan, IEEE Trans. Automat. Control 23 (1978).

    >>> expm_frechet(fnp.zeros((2, 2)), fnp.eye(2), compute_expm=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    given = matrices("expm_frechet", A, E, square=(True, True))
    a, e = same_batch("expm_frechet", *given.nodes)
    if a.shape != e.shape:
        raise note_user_line(ShapeError(f"expm_frechet takes matrices of one shape, got {a.shape} and {e.shape}"))
    slope = given.result(matrix_functions.frechet(a, e))
    return (given.result(matrix_functions.expm(a)), slope) if compute_expm else slope


@public()
def sqrtm(A: ArrayLike) -> Array:
    """The principal square root of square matrices, complex. Needs SciPy.

    >>> sqrtm(fnp.array([[4.0, 0.0], [0.0, 9.0]])).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    given = matrices("sqrtm", A, square=(True,))
    return given.result(matrix_functions.sqrtm(given.nodes[0]))


@public(static=("func", "disp"))
def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Array:
    """func of square matrices that have independent eigenvectors, by their eigenvalues; complex.

    func   of complex arrays, element by element

    >>> funm(fnp.array([[4.0, 0.0], [0.0, 9.0]]), fnp.sqrt).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    given = matrices("funm", A, square=(True,))
    w, v = spectra.eig(given.nodes[0])
    values = cast_node(func(Tracer(w)), v.dtype)
    scaled = build.mul(v, across(values, v.shape[-2]))
    return given.result(adjoint(solves.solve(adjoint(v), adjoint(scaled))))


@public(static=("side", "method", "eps", "max_iterations"))
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "svd",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """(U, P) with a = U @ P ("right") or P @ U ("left"); U has orthonormal columns or rows, P is Hermitian.

    >>> a = fnp.array([[0.0, -2.0], [2.0, 0.0]])
    >>> u, p = polar(a)
    >>> fnp.allclose(u @ p, a, atol=1e-5)
    Array(True, dtype=bool)
    """
    if side not in ("right", "left"):
        raise note_user_line(ArgumentError(f"polar: side must be 'right' or 'left', got {side!r}"))
    given = matrices("polar", a)
    u, s, vh = spectra.svd(given.nodes[0])
    p = like(diagonal(s), u)
    inner = mm(mm(adjoint(vh), p), vh) if side == "right" else mm(mm(u, p), adjoint(u))
    return given.result(mm(u, vh)), given.result(inner)
