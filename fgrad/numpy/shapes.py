"""Moving, joining, splitting and repeating: what changes shapes and leaves the elements alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import (
    alias,
    axes_of,
    axis_of,
    lift,
    public,
    reshaped_to,
    shape_of,
)
from fgrad.numpy.creation import array
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, unwrapped
from fgrad.uop import build

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis",
    "ndim", "permute_dims", "ravel", "reshape", "rollaxis", "rot90", "shape", "size", "squeeze",
    "swapaxes", "transpose",
]  # fmt: skip


# ---- reading shapes
def shape(a: ArrayLike) -> tuple[int, ...]:
    """Sizes of the axes.

    >>> shape([[1, 2, 3]])
    (1, 3)
    """
    a = unwrapped(a)
    return a.shape if isinstance(a, Array) else tuple(np.shape(a))


def ndim(a: ArrayLike) -> int:
    """Number of axes.

    >>> ndim(ones((2, 3)))
    2
    """
    return len(shape(a))


def size(a: ArrayLike, axis: Any = None) -> int:
    """Number of elements, in all or along some axes.

    >>> size(ones((2, 3))), size(ones((2, 3)), axis=1)
    (6, 3)
    """
    own = shape(a)
    return math.prod(own[i] for i in axes_of(axis, len(own), "size"))


# ---- one array
@public(static=("shape", "order"), moves=True)
def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: None = None) -> Array:
    """The elements of `a` in order, under another shape; one size may be -1.

    order   "C": the last axis varies fastest; "F": the first one does

    Raises ShapeError where the number of elements differs.

    >>> reshape(arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int64)
    """
    t = lift(a)
    sizes = reshaped_to(shape, t.shape, "reshape")
    if order == "F":
        back = build.permute(t.node, range(t.ndim)[::-1])
        return Tracer(build.permute(build.reshape(back, sizes[::-1]), range(len(sizes))[::-1]), t.weak)
    if order not in ("C", "A"):
        raise ValueError(f'reshape: order must be "C" or "F", got {order!r}')
    return Tracer(build.reshape(t.node, sizes), t.weak)


@public(static=("order",), moves=True)
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements on one axis.

    order   "C": the last axis varies fastest; "F": the first one does

    >>> ravel(array([[1, 2], [3, 4]]), order="F")
    Array([1, 3, 2, 4], dtype=int64)
    """
    return reshape(a, -1, order) if lift(a).size else reshape(a, 0, order)


@public(static=("axes",), moves=True)
def transpose(a: ArrayLike, axes: Any = None) -> Array:
    """The axes in another order (by default reversed).

    Raises ShapeError unless `axes` are a permutation.

    >>> permute_dims(ones((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    t = lift(a)
    if axes is None:
        return Tracer(build.permute(t.node, range(t.ndim)[::-1]), t.weak)
    order = tuple([axis_of(i, t.ndim, "transpose") for i in (axes if isinstance(axes, list | tuple) else (axes,))])
    if sorted(order) != list(range(t.ndim)):
        raise note_user_line(ShapeError(f"transpose: axes {axes} are no permutation of the {t.ndim} axes of {t.shape}"))
    return Tracer(build.permute(t.node, order), t.weak)


permute_dims = alias(transpose, "permute_dims")


@public()
def matrix_transpose(x: ArrayLike) -> Array:
    """[.., n, m] -> [.., m, n].

    Raises ShapeError for fewer than two axes.

    >>> matrix_transpose(array([[1, 2, 3]]))
    Array([[1],
           [2],
           [3]], dtype=int64)
    """
    t = lift(x)
    if t.ndim < 2:
        raise note_user_line(ShapeError(f"matrix_transpose takes matrices, got shape {t.shape}"))
    return Tracer(build.permute(t.node, (*range(t.ndim - 2), t.ndim - 1, t.ndim - 2)), t.weak)


@public(static=("source", "destination"), moves=True)
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Some axes at other places, the others in their order.

    >>> moveaxis(ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    t = lift(a)
    given = [x if isinstance(x, list | tuple) else (x,) for x in (source, destination)]
    of, to = ([axis_of(i, t.ndim, "moveaxis") for i in axes] for axes in given)
    if len(of) != len(to) or len(set(of)) != len(of) or len(set(to)) != len(to):
        raise note_user_line(
            ShapeError(f"moveaxis: source {source} and destination {destination} must name equally many different axes")
        )
    order = [i for i in range(t.ndim) if i not in of]
    for place, axis in sorted(zip(to, of, strict=True)):
        order.insert(place, axis)
    return Tracer(build.permute(t.node, order), t.weak)


@public(static=("axis", "start"), moves=True)
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """The axis moved before position `start`; prefer moveaxis.

    >>> rollaxis(ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    t = lift(a)
    of = axis_of(axis, t.ndim, "rollaxis")
    to = start + t.ndim if start < 0 else start
    return moveaxis(a, of, to - (of < to))


@public(static=("axis1", "axis2"), moves=True)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    >>> swapaxes(ones((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    t = lift(a)
    i, j = axis_of(axis1, t.ndim, "swapaxes"), axis_of(axis2, t.ndim, "swapaxes")
    order = list(range(t.ndim))
    order[i], order[j] = j, i
    return Tracer(build.permute(t.node, order), t.weak)


@public(static=("axis",), moves=True)
def squeeze(a: ArrayLike, axis: Any = None) -> Array:
    """Without axes of size 1 (all of them, or those named).

    Raises ShapeError for an axis of another size.

    >>> squeeze(ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    t = lift(a)
    gone = [i for i, n in enumerate(t.shape) if n == 1] if axis is None else axes_of(axis, t.ndim, "squeeze")
    for i in gone:
        if t.shape[i] != 1:
            raise note_user_line(ShapeError(f"squeeze: axis {i} of shape {t.shape} has {t.shape[i]} elements, not 1"))
    return Tracer(build.reshape(t.node, tuple([n for i, n in enumerate(t.shape) if i not in gone])), t.weak)


@public(static=("axis",), moves=True)
def expand_dims(a: ArrayLike, axis: Any) -> Array:
    """With new axes of size 1 at these places of the result.

    >>> expand_dims(ones((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    t = lift(a)
    given = axis if isinstance(axis, list | tuple) else (axis,)
    new = axes_of(given, t.ndim + len(given), "expand_dims")
    sizes = iter(t.shape)
    full = tuple([1 if i in new else next(sizes) for i in range(t.ndim + len(new))])
    return Tracer(build.reshape(t.node, full), t.weak)


@public(static=("axis",), moves=True)
def flip(m: ArrayLike, axis: Any = None) -> Array:
    """The elements along the axes (all by default) in reverse order.

    >>> flip(array([[1, 2], [3, 4]]))
    Array([[4, 3],
           [2, 1]], dtype=int64)
    >>> flip(array([[1, 2], [3, 4]]), axis=0)
    Array([[3, 4],
           [1, 2]], dtype=int64)
    """
    t = lift(m)
    return Tracer(build.flip(t.node, axes_of(axis, t.ndim, "flip")), t.weak)


@public(moves=True)
def fliplr(m: ArrayLike) -> Array:
    """Columns in reverse order.

    >>> fliplr(array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int64)
    """
    return flip(m, 1)


@public(moves=True)
def flipud(m: ArrayLike) -> Array:
    """Rows in reverse order.

    >>> flipud(array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int64)
    """
    return flip(m, 0)


@public(static=("k", "axes"))
def rot90(m: ArrayLike, k: int = 1, axes: Any = (0, 1)) -> Array:
    """Turned by k quarter turns in the plane of two axes, from the first towards the second.

    >>> rot90(array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int64)
    """
    t = lift(m)
    i, j = (axis_of(a, t.ndim, "rot90") for a in axes)
    if i == j:
        raise note_user_line(ShapeError(f"rot90: axes {axes} name one axis twice"))
    turns = k % 4
    if turns == 2:
        return Tracer(build.flip(t.node, (i, j)), t.weak)
    order = list(range(t.ndim))
    order[i], order[j] = j, i
    if turns == 1:
        return Tracer(build.permute(build.flip(t.node, (j,)), order), t.weak)
    return Tracer(build.flip(build.permute(t.node, order), (j,)) if turns else t.node, t.weak)


def _atleast(x: Any, least: int) -> Array:
    t = lift(x) if not isinstance(x, list | tuple) else lift(array(x))
    sizes = t.shape
    if t.ndim < least:
        sizes = {
            (0, 1): (1,), (0, 2): (1, 1), (1, 2): (1, *sizes), (0, 3): (1, 1, 1),
            (1, 3): (1, *sizes, 1), (2, 3): (*sizes, 1),
        }[t.ndim, least]  # fmt: skip
    return Tracer(build.reshape(t.node, sizes), t.weak)


@public(static=("least",))
def _atleast_each(arys: Any, least: int) -> Any:
    return tuple([_atleast(x, least) for x in arys])


def _atleast_all(arys: Sequence[Any], least: int) -> Any:
    out = _atleast_each(list(arys), least)
    return out[0] if len(out) == 1 else out


def atleast_1d(*arys: ArrayLike) -> Any:
    """Each array with at least one axis.

    One array, or a list of them if several are given.

    >>> atleast_1d(3.0)
    Array([3.], dtype=float32, weak_type=True)
    """
    return _atleast_all(arys, 1)


def atleast_2d(*arys: ArrayLike) -> Any:
    """Each array with at least two axes (new ones in front).

    One array, or a list of them if several are given.

    >>> atleast_2d(array([1, 2]))
    Array([[1, 2]], dtype=int64)
    """
    return _atleast_all(arys, 2)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Each array with at least three axes.

    A vector becomes [1, n, 1], a matrix [n, m, 1].

    >>> atleast_3d(ones((2, 3))).shape
    (2, 3, 1)
    """
    return _atleast_all(arys, 3)


# ---- broadcasting
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that these shapes broadcast to.

    Raises ShapeError if there is none.

    >>> broadcast_shapes((2, 1), (3,), ())
    (2, 3)
    """
    if not shapes:
        return ()
    return build.broadcast_shapes(*[shape_of(s, "broadcast_shapes") for s in shapes])


@public(static=("shape",), moves=True)
def broadcast_to(array: ArrayLike, shape: Any) -> Array:
    """The array repeated along new axes and axes of size 1, to `shape`.

    Raises ShapeError where it does not fit.

    >>> broadcast_to(array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int64)
    """
    t = lift(array)
    sizes = shape_of(shape, "broadcast_to")
    try:
        return Tracer(build.broadcast_to(t.node, sizes), t.weak)
    except ShapeError as e:
        raise note_user_line(ShapeError(f"broadcast_to: {e}")) from None


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """All arrays at their common shape.

    Raises ShapeError if they have none.

    >>> [x.shape for x in broadcast_arrays(ones((2, 1)), ones(3))]
    [(2, 3), (2, 3)]
    """
    return _broadcast_arrays(list(args))


@public()
def _broadcast_arrays(arrays: Any) -> list[Array]:
    tracers = [lift(x) for x in arrays]
    if not tracers:
        return []
    full = broadcast_shapes(*[t.shape for t in tracers])
    return [Tracer(build.broadcast_to(t.node, full), t.weak) for t in tracers]
