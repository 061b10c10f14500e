"""Linear systems, inverses, least squares and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy import determinants, solves
from fgrad.numpy.blocks import adjoint, inverse_or_zero, like, mm
from fgrad.numpy.common import axis_of, host, lift, public
from fgrad.numpy.norms import default_rtol, rtol_of
from fgrad.numpy.operands import Matrices, matrices, same_batch
from fgrad.numpy.spectra import svd
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__ = ["det", "inv", "lstsq", "pinv", "slogdet", "solve", "tensorinv", "tensorsolve"]


class SlogdetResult(NamedTuple):
    """sign [..] and the logarithm of the size of a determinant [..]."""

    sign: Array
    logabsdet: Array


def system(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Matrices, UOp, UOp, bool]:
    """-> (operands, matrix, right-hand side [.., n, k], whether it was a vector), of equal leading axes."""
    nodes, dtype, weak = promoted(a, b, least=dt.default_float())
    x, y = [build.cast(n, dt.accumulator(n.dtype)) for n in nodes]
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise note_user_line(ShapeError(f"{name} takes square matrices, got shape {x.shape}"))
    is_vector = y.ndim == 1
    if not y.ndim or y.shape[-1 if is_vector else -2] != x.shape[-1]:
        raise note_user_line(
            ShapeError(
                f"{name}: the right-hand side needs {x.shape[-1]} rows for matrices of shape {x.shape}, got shape "
                f"{y.shape}" + ("; a batch of vectors is b[..., None]" if y.ndim > 1 else "")
            )
        )
    if is_vector:
        y = build.expand(y, [(1, 1)])
    x, y = same_batch(name, x, y)
    return Matrices([x, y], dtype, weak), x, y, is_vector


def without_column(x: UOp) -> UOp:
    """[.., n, 1] -> [.., n]"""
    return build.reshape(x, x.shape[:-1])


@public()
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """x with a @ x = b: [.., n, n], [n] or [.., n, k] -> as b. NaN where `a` is singular.

    Raises ShapeError where the sizes do not fit.

    >>> solve(array([[2.0, 0.0], [0.0, 4.0]]), array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    given, x, y, is_vector = system("solve", a, b)
    z = solves.solve(x, y)
    return given.result(without_column(z) if is_vector else z)


@public()
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices: [.., n, n] -> [.., n, n]. NaN where `a` is singular.

    Raises ShapeError for matrices that are not square.

    >>> inv(array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    given = matrices("inv", a, square=(True,))
    return given.result(solves.inv(given.nodes[0]))


@public(static=("hermitian",))
def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None
) -> Array:
    """The Moore-Penrose inverses: [.., m, n] -> [.., n, m].

    rtol   singular values up to rtol times the largest count as 0; eps * max(m, n) by default. rcond is its old name

    >>> pinv(array([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]])).round(4)
    Array([[0.5 , 0.  , 0.  ],
           [0.  , 0.25, 0.  ]], dtype=float32)
    """
    given = matrices("pinv", a, square=(hermitian,))
    (x,) = given.nodes
    return given.result(solves.pinv(x, rtol_of(rtol if rcond is None else rcond, given), hermitian))


@public()
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices: [.., n, n] -> [..]. Differentiable at singular matrices too.

    Integers become the default float.

    >>> det(array([[2.0, 1.0], [1.0, 3.0]])).round(4)
    Array(5., dtype=float32)
    """
    given = matrices("det", a, square=(True,))
    return given.result(determinants.det(given.nodes[0]))


@public(static=("method",))
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign (a phase for complex matrices) and the logarithm of the size of determinants: [.., n, n] -> two [..].

    (0, -inf) for a singular matrix.

    >>> sign, logarithm = slogdet(array([[0.0, 2.0], [3.0, 0.0]]))
    >>> float(sign), round(float(logarithm), 4)
    (-1.0, Array(1.7918, dtype=float32, weak_type=True))
    """
    given = matrices("slogdet", a, square=(True,))
    sign, log = determinants.slogdet(given.nodes[0])
    return SlogdetResult(given.result(sign), given.result(log))


def lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None, *, numpy_resid: bool = False) -> Any:
    """The x of smallest norm that minimises |b - a @ x|: [m, n], [m] or [m, k] -> (x, residuals, rank, s).

    rcond       singular values up to rcond times the largest count as 0; eps * max(m, n) by default
    residuals   [k] ([1] for a vector): the squares of the norms of b - a @ x, whatever the rank. With numpy_resid as
                NumPy's: [0] where the rank is below n, or m <= n; not in a stage, where the rank is not known

    >>> x, residuals, rank, s = lstsq(array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), array([3.0, 4.0, 1.0]))
    >>> x.round(4), int(rank)
    (Array([3., 2.], dtype=float32), 2)
    """
    x, residuals, rank, s = _lstsq(a, b, rcond)
    if numpy_resid:
        m, n = np.shape(a)
        known = host(rank, "lstsq", "use numpy_resid=False")
        residuals = residuals[:0] if known < n or m <= n else residuals
    return x, residuals, rank, s


@public()
def _lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None) -> Any:
    nodes, dtype, weak = promoted(a, b, least=dt.default_float())
    x, y = [build.cast(n, dt.accumulator(n.dtype)) for n in nodes]
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise note_user_line(
            ShapeError(f"lstsq takes a matrix [m, n] and [m] or [m, k], got shapes {x.shape} and {y.shape}")
        )
    given = Matrices([x, y], dtype, weak)
    is_vector = y.ndim == 1
    if is_vector:
        y = build.expand(y, [(1, 1)])
    u, s, vh = svd(x)
    limit = default_rtol(x) if rcond is None else cast_node(rcond, s.dtype)
    k = s.shape[0]
    top = build.reduce_(s, (0,), Op.MAX) if k else build.const(0, s.dtype)
    above = build.lt(build.expand(build.mul(top, limit), [(0, k)]), s)
    rank = build.reduce_(build.cast(above, dt.int64), (0,))
    safe = inverse_or_zero(build.where(above, s, build.zeros_like(s)))
    uy = mm(adjoint(u), y)
    z = mm(adjoint(vh), build.mul(uy, like(build.expand(safe, [(1, uy.shape[1])]), uy)))
    left = build.sub(y, mm(x, z))
    square = build.mul(build.real(left), build.real(left)) if left.dtype.is_complex else build.mul(left, left)
    if left.dtype.is_complex:
        square = build.add(square, build.mul(build.imag(left), build.imag(left)))
    residuals = build.reduce_(square, (0,))
    return (
        given.result(without_column(z) if is_vector else z),
        given.result(residuals),
        Tracer(rank),
        given.result(s),
    )


@public(static=("axes",))
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """x with tensordot(a, x, x.ndim) = b.

    axes   axes of `a` to move to its end first

    >>> tensorsolve(2 * fnp.eye(4).reshape(2, 2, 4), fnp.ones((2, 2)))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    x, y = lift(a).node, lift(b)
    if axes is not None:
        last = [axis_of(i, x.ndim, "tensorsolve") for i in axes]
        x = build.permute(x, [i for i in range(x.ndim) if i not in last] + last)
    shape = x.shape[y.ndim :]
    if math.prod(shape) != y.size or x.shape[: y.ndim] != y.shape:
        raise note_user_line(
            ShapeError(
                f"tensorsolve: a of shape {x.shape} needs b of its first axes and as many unknowns, got {y.shape}"
            )
        )
    flat = solve(Tracer(build.reshape(x, (y.size, y.size))), Tracer(build.reshape(y.node, (y.size,)), y.weak))
    return Tracer(build.reshape(lift(flat).node, shape))


@public(static=("ind",))
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse for tensordot(a, x, ind): the first `ind` axes of `a` are its rows.

    >>> tensorinv(fnp.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    t = lift(a)
    if ind <= 0:
        raise note_user_line(ArgumentError(f"tensorinv: ind must be positive, got {ind}"))
    rows, columns = t.shape[:ind], t.shape[ind:]
    n = math.prod(rows)
    if n != math.prod(columns):
        raise note_user_line(
            ShapeError(f"tensorinv: the first {ind} axes of {t.shape} have not as many elements as the rest")
        )
    flat = lift(inv(Tracer(build.reshape(t.node, (n, n)), t.weak)))
    return Tracer(build.reshape(flat.node, (*columns, *rows)), flat.weak)
