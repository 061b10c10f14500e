"""fgrad.numpy.linalg: norms and products of matrices.

Factorizations and what needs them (det, inv, solve, svd ..) are not there yet and raise
NotImplementedError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import Axis, DTypeLike, axes_of, axis_of, lift, public, restore_axes
from fgrad.numpy.elementwise import magnitude
from fgrad.numpy.matrices import diagonal as _diagonal
from fgrad.numpy.matrices import eye
from fgrad.numpy.products import cross as _cross
from fgrad.numpy.products import matmul, tensordot, vecdot
from fgrad.numpy.products import outer as _outer
from fgrad.numpy.reductions import trace as _trace
from fgrad.numpy.shapes import matrix_transpose
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

_MISSING = (
    "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
    "matrix_rank", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensorinv", "tensorsolve",
)  # fmt: skip
__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose",
    "multi_dot", "norm", "outer",
    "tensordot", "trace", "vecdot", "vector_norm", *_MISSING,
]  # fmt: skip


# ---- norms
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
        raise NotImplementedError(
            f"{name}: ord={order!r} needs singular values, which are not there yet; use "
            "ord='fro', 1 or inf, or numpy on concrete "
            "arrays"
        )
    if order not in (1, -1, math.inf, -math.inf):
        raise note_user_line(ValueError(f"{name}: ord={order!r} is no norm of matrices; use 'fro', 1, -1, inf or -inf"))
    wide = magnitude(build.cast(x, dt.accumulator(x.dtype)))
    first, second = (rows, columns) if order in (1, -1) else (columns, rows)
    sums = build.reduce_(wide, (first,))
    y = build.reduce_(sums, (second - (second > first),), Op.MAX if order > 0 else Op.MIN)
    y = build.cast(y, dt.real_of(x.dtype))
    return restore_axes(y, sorted(axes), x.ndim) if keepdims else y


@public(static=("ord", "axis", "keepdims"))
def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """The norm of vectors (an axis) or matrices (two axes); of all elements laid out flat by
    default.

    ord   vectors: p, 0 (how many are nonzero), inf, -inf; matrices: "fro", 1, -1, inf, -inf. The
          derivative at 0 is 0
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
    """The p-norm over some axes (all by default)."""
    (node,), _, weak = promoted(x, least=dt.default_float())
    return Tracer(vector_norm_node(node, ord, axes_of(axis, node.ndim, "vector_norm"), keepdims), weak)


@public(static=("keepdims", "ord"))
def matrix_norm(x: ArrayLike, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices over the last two axes."""
    (node,), _, weak = promoted(x, least=dt.default_float())
    if node.ndim < 2:
        raise note_user_line(ShapeError(f"matrix_norm takes matrices, got shape {node.shape}"))
    return Tracer(matrix_norm_node(node, ord, (node.ndim - 2, node.ndim - 1), keepdims, "matrix_norm"), weak)


# ---- products
@public(static=("n",))
def matrix_power(a: ArrayLike, n: int) -> Array:
    """[.., m, m] -> [.., m, m]: the n-th power (n >= 0) of square matrices, by squaring."""
    t = lift(a)
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise note_user_line(ShapeError(f"matrix_power takes square matrices, got shape {t.shape}"))
    if n < 0:
        raise NotImplementedError(
            "matrix_power: negative powers need inv, which is not there yet; use numpy on concrete arrays"
        )
    if n == 0:
        one = build.cast(lift(eye(t.shape[-1])).node, t.node.dtype)
        return Tracer(build.broadcast_to(one, t.shape), t.weak)
    out: Array | None = None
    base: Array = t
    while True:
        if n & 1:
            out = base if out is None else matmul(out, base)
        n >>= 1
        if not n:
            assert out is not None
            return out
        base = matmul(base, base)


@public(static=("precision",))
def multi_dot(arrays: Any, *, precision: Any = None) -> Array:
    """The product of several matrices (vectors at the ends), in the order that is cheapest."""
    xs: list[Array] = [lift(a) for a in arrays]
    if len(xs) < 2:
        raise note_user_line(ArgumentError("multi_dot needs at least two arrays"))
    for k, x in enumerate(xs):
        if x.ndim != 2 and not (x.ndim == 1 and k in (0, len(xs) - 1)):
            raise note_user_line(
                ShapeError(f"multi_dot takes matrices (vectors at the ends), array {k} has shape {x.shape}")
            )
    sizes = {0: xs[0].shape[0] if xs[0].ndim == 2 else 1}
    for k, x in enumerate(xs):
        sizes[k + 1] = x.shape[-1] if x.ndim == 2 or k == 0 else 1
    left: list[tuple[Array, tuple[int, int]]] = [(x, (k, k + 1)) for k, x in enumerate(xs)]
    while len(left) > 1:  # neighbours only: the pair that saves most

        def cost(i: int) -> tuple[int, int]:
            (_, (a, b)), (_, (_, c)) = left[i], left[i + 1]
            return sizes[a] * sizes[c] - sizes[a] * sizes[b] - sizes[b] * sizes[c], i

        i = min(range(len(left) - 1), key=cost)
        (x, (a, _)), (y, (_, c)) = left[i], left[i + 1]
        left[i : i + 2] = [(matmul(x, y), (a, c))]
    return left[0][0]


@public(static=("offset",))
def diagonal(x: ArrayLike, *, offset: int = 0) -> Array:
    """[.., n, m] -> [.., d]: a diagonal of the matrices over the last two axes."""
    return _diagonal(x, offset, -2, -1)


@public(static=("offset", "dtype"))
def trace(x: ArrayLike, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """[.., n, m] -> [..]: the sum of a diagonal of the matrices over the last two axes."""
    return _trace(x, offset, -2, -1, dtype)


@public()
def outer(x1: ArrayLike, x2: ArrayLike) -> Array:
    """[n], [m] -> [n, m]: all products of two vectors."""
    a, b = lift(x1), lift(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise note_user_line(ShapeError(f"linalg.outer takes vectors, got shapes {a.shape} and {b.shape}"))
    return _outer(x1, x2)


@public(static=("axis",))
def cross(x1: ArrayLike, x2: ArrayLike, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 elements along `axis`."""
    for x in (lift(x1), lift(x2)):
        if x.shape[axis_of(axis, x.ndim, "linalg.cross")] != 3:
            raise note_user_line(
                ShapeError(f"linalg.cross takes vectors of 3 elements along axis {axis}, got shape {x.shape}")
            )
    return _cross(x1, x2, axis=axis)


def _missing(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"fgrad.numpy.linalg.{name} is not there yet; use numpy.linalg.{name} on concrete "
            "arrays, or through "
            "fgrad.pure_callback inside traced functions"
        )

    refuse.__name__ = name
    refuse.__doc__ = f"Not there yet: use numpy.linalg.{name}, or fgrad.pure_callback to call it."
    return refuse


for _name in _MISSING:
    globals()[_name] = _missing(_name)
