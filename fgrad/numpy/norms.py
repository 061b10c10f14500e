"""Norms of vectors and matrices, condition numbers, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import Axis, axes_of, axis_of, is_nan, lift, public, restore_axes
from fgrad.numpy.elementwise import magnitude
from fgrad.numpy.operands import Matrices, matrices
from fgrad.numpy.solves import inv
from fgrad.numpy.spectra import eigvalsh, svdvals
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]


def safe_root(x: UOp) -> UOp:
    """The square root, with derivative 0 at 0."""
    zero = build.eq(x, 0)
    return build.where(zero, x, build.sqrt(build.where(zero, build.const_like(1, x), x)))


def _squares(x: UOp) -> UOp:
    if x.dtype.is_complex:
        re, im = build.real(x), build.imag(x)
        return build.add(build.mul(re, re), build.mul(im, im))
    return build.mul(x, x)


def vector_norm_node(x: UOp, order: Any, axes: Sequence[int], keepdims: bool) -> UOp:
    """The p-norm of floats over `axes`."""
    wide = build.cast(x, dt.accumulator(x.dtype))
    if order in (None, 2):
        y = safe_root(build.reduce_(_squares(wide), axes))
    elif order in (math.inf, -math.inf):
        y = build.reduce_(magnitude(wide), axes, Op.MAX if order > 0 else Op.MIN)
    elif order == 0:
        y = build.reduce_(build.cast(build.ne(wide, 0), dt.real_of(wide.dtype)), axes)
    elif order == 1:
        y = build.reduce_(magnitude(wide), axes)
    else:
        size = magnitude(wide)
        zero = build.eq(size, 0)
        p = build.const_like(order, size)
        if order > 0:  # 0**p has the derivative 0, not 0 * inf
            power = uop(Op.POW, (build.where(zero, build.const_like(1, size), size), p))
            total = build.reduce_(build.where(zero, build.zeros_like(size), power), axes)
        else:
            total = build.reduce_(uop(Op.POW, (size, p)), axes)
        none = build.eq(total, 0)
        root = uop(
            Op.POW,
            (
                build.where(none, build.const_like(1, total), total),
                build.const_like(1 / order, total),
            ),
        )
        y = build.where(none, build.const_like(0 if order > 0 else math.inf, total), root)
    y = build.cast(y, dt.real_of(x.dtype))
    return restore_axes(y, axes, x.ndim) if keepdims else y


def matrix_norm_node(x: UOp, order: Any, axes: tuple[int, int], keepdims: bool, name: str) -> UOp:
    """A norm of the matrices over two axes (rows, columns)."""
    rows, columns = axes
    if order in (None, "fro", "f"):
        return vector_norm_node(x, 2, sorted(axes), keepdims)
    if order in ("nuc", 2, -2):
        rest = [i for i in range(x.ndim) if i not in axes]
        wide = build.permute(build.cast(x, dt.accumulator(x.dtype)), (*rest, rows, columns))
        op = Op.ADD if order == "nuc" else Op.MAX if order == 2 else Op.MIN
        y = build.cast(build.reduce_(svdvals(wide), (x.ndim - 2,), op), dt.real_of(x.dtype))
        return restore_axes(y, sorted(axes), x.ndim) if keepdims else y
    if order not in (1, -1, math.inf, -math.inf):
        raise note_user_line(
            ValueError(f"{name}: ord={order!r} is no norm of matrices; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
        )
    wide = magnitude(build.cast(x, dt.accumulator(x.dtype)))
    first, second = (rows, columns) if order in (1, -1) else (columns, rows)
    sums = build.reduce_(wide, (first,))
    y = build.reduce_(sums, (second - (second > first),), Op.MAX if order > 0 else Op.MIN)
    y = build.cast(y, dt.real_of(x.dtype))
    return restore_axes(y, sorted(axes), x.ndim) if keepdims else y


@public(static=("ord", "axis", "keepdims"))
def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """The norm of vectors (an axis) or matrices (two axes); of all elements laid out flat by default.

    ord   vectors: p, 0 (how many are nonzero), inf, -inf; matrices: "fro", "nuc", 1, -1, 2, -2, inf, -inf. The
          derivative at 0 is 0

    >>> norm(array([3.0, 4.0]))
    Array(5., dtype=float32)
    >>> norm(array([[3.0, -4.0], [1.0, 1.0]]), ord=1, axis=1)
    Array([7., 2.], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    if axis is None:
        axes = tuple(range(node.ndim))
        if ord is None:
            return Tracer(vector_norm_node(node, 2, axes, keepdims), weak)
        if node.ndim not in (1, 2):
            raise note_user_line(
                ShapeError(f"norm: ord={ord!r} of shape {node.shape} needs axis= (one, or two for matrices)")
            )
    elif isinstance(axis, tuple | list):
        axes = tuple([axis_of(i, node.ndim, "norm") for i in axis])
    else:
        axes = (axis_of(axis, node.ndim, "norm"),)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise note_user_line(ValueError(f"norm: ord={ord!r} is for matrices; vectors take a number"))
        return Tracer(vector_norm_node(node, ord, axes, keepdims), weak)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise note_user_line(ShapeError(f"norm: axis={axis!r} must name one axis, or two different ones"))
    return Tracer(matrix_norm_node(node, ord, (axes[0], axes[1]), keepdims, "norm"), weak)


@public(static=("axis", "keepdims", "ord"))
def vector_norm(x: ArrayLike, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The p-norm over some axes (all by default).

    ord   p; 0: how many are nonzero; inf and -inf: the largest and smallest size

    >>> vector_norm(array([3.0, 4.0]))
    Array(5., dtype=float32)
    >>> vector_norm(array([3.0, -4.0]), ord=inf)
    Array(4., dtype=float32)
    """
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(vector_norm_node(node, ord, axes_of(axis, node.ndim, "vector_norm"), keepdims), weak)


@public(static=("keepdims", "ord"))
def matrix_norm(x: ArrayLike, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices over the last two axes.

    ord   "fro", "nuc", 1, -1, 2, -2, inf, -inf

    >>> matrix_norm(array([[3.0, 0.0], [0.0, 4.0]]))
    Array(5., dtype=float32)
    >>> matrix_norm(array([[1.0, 2.0], [3.0, 4.0]]), ord=inf)
    Array(7., dtype=float32)
    """
    (node,), _, weak = promoted(x, least=dt.default_float())
    if node.ndim < 2:
        raise note_user_line(ShapeError(f"matrix_norm takes matrices, got shape {node.shape}"))
    return Tracer(matrix_norm_node(node, ord, (node.ndim - 2, node.ndim - 1), keepdims, "matrix_norm"), weak)


@public(static=("p",))
def cond(x: ArrayLike, p: Any = None) -> Array:
    """[.., n, m] -> [..]: the condition number in a norm, by singular values for p=None, 2 and -2.

    p   as `ord` of norm; others than None, 2 and -2 take square matrices. inf for singular ones

    >>> cond(array([[1.0, 0.0], [0.0, 4.0]]))
    Array(4., dtype=float32)
    """
    given = matrices("cond", x, square=(p not in (None, 2, -2),))
    (a,) = given.nodes
    if p in (None, 2, -2):
        s = svdvals(a)
        if not s.shape[-1]:
            raise note_user_line(ShapeError(f"cond is not defined for empty matrices, got shape {a.shape}"))
        most, least = (build.reduce_(s, (s.ndim - 1,), op) for op in (Op.MAX, Op.MIN))
        ratio = build.div(least, most) if p == -2 else build.div(most, least)
    else:
        axes = (a.ndim - 2, a.ndim - 1)
        ratio = build.mul(*[matrix_norm_node(m, p, axes, False, "cond") for m in (a, inv(a))])
    nan_in = build.reduce_(build.cast(is_nan(a), dt.int64), (a.ndim - 2, a.ndim - 1), Op.MAX)
    singular = build.and_(is_nan(ratio), build.eq(nan_in, 0))
    return given.result(build.where(singular, build.const_like(math.inf, ratio), ratio))


def default_rtol(a: UOp) -> UOp:
    """eps times the longer side, for every matrix of a batch."""
    real = dt.real_of(a.dtype)
    return build.const(float(dt.finfo(real).eps) * max(a.shape[-2:]), real, a.shape[:-2])


def rtol_of(rtol: ArrayLike | None, given: Matrices) -> UOp:
    """A relative tolerance for every matrix of a batch, as given or by default."""
    (a,) = given.nodes
    if rtol is None:
        return default_rtol(a)
    return build.broadcast_to(cast_node(rtol, dt.real_of(a.dtype)), a.shape[:-2])


@public(static=("hermitian",))
def matrix_rank(
    A: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """[.., n, m] -> int64[..]: how many singular values are above a tolerance.

    tol    absolute; rtol  relative to the largest singular value, by default eps * max(n, m)

    >>> matrix_rank(array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int64)
    """
    if tol is not None and rtol is not None:
        raise note_user_line(ValueError("matrix_rank: only one of tol or rtol may be specified."))
    x = lift(A)
    if x.ndim < 2:
        found = build.cast(build.ne(x.node, 0), dt.int64)
        return Tracer(build.reduce_(found, tuple(range(x.ndim)), Op.MAX) if x.size else build.const(0, dt.int64))
    given = matrices("matrix_rank", A, square=(hermitian,))
    (a,) = given.nodes
    s = magnitude(eigvalsh(a)) if hermitian else svdvals(a)
    k = s.shape[-1]
    if not k:
        return Tracer(build.const(0, dt.int64, s.shape[:-1]))
    if tol is not None:
        limit = build.broadcast_to(cast_node(tol, s.dtype), s.shape[:-1])
    else:
        limit = build.mul(build.reduce_(s, (s.ndim - 1,), Op.MAX), rtol_of(rtol, given))
    above = build.lt(build.expand(limit, [(limit.ndim, k)]), s)
    return Tracer(build.reduce_(build.cast(above, dt.int64), (s.ndim - 1,)))
