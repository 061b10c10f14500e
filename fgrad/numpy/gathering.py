"""Picking and placing elements by index arrays: take, choose, put, and the indices of diagonals and
triangles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, OutOfBoundsError, ShapeError, note_user_line
from fgrad.numpy.at import AtIndex
from fgrad.numpy.common import (
    as_array,
    axis_of,
    broadcast,
    from_host,
    host,
    is_traced,
    lift,
    no_out,
    public,
    shape_of,
    size_of,
)
from fgrad.numpy.extremes import maximum
from fgrad.numpy.indexing import getitem, read_fill, resolved
from fgrad.numpy.searching import nonzero
from fgrad.numpy.shapes import reshape
from fgrad.run.eager import holders, moved
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted, unwrapped
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode

__all__ = [
    "choose", "compress", "diag_indices", "diag_indices_from", "extract", "fill_diagonal",
    "ix_", "mask_indices", "place", "put", "put_along_axis", "ravel_multi_index", "take",
    "take_along_axis", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
    "unravel_index",
]  # fmt: skip


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The elements at `indices` along `axis` (None: of the array laid out flat).

    mode   "fill", "wrap" as in x.at[..].get; "clip": to 0 .. n - 1, negative ones to 0; None: concrete
           indices out of bounds raise IndexError

    >>> take(array([10, 20, 30]), array([0, -1, 0]))
    Array([10, 30, 10], dtype=int64)
    >>> take(array([[1, 2], [3, 4]]), 0, axis=1)
    Array([1, 3], dtype=int64)
    """
    no_out(out, "take")
    if held := holders([a]):
        options = {"fill_value": fill_value, "indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices}
        kept: Array = moved(take, held, (a, indices, axis, None, mode), options)
        return kept
    x = as_array(a)
    if mode == "raise":
        mode = None
    if axis is None:
        x = _flat(x)
        axis = 0
    i = axis_of(axis, x.ndim, "take")
    indices = unwrapped(indices)
    idx = indices if isinstance(indices, Array) else np.asarray(indices)
    if idx.size == 0 and not isinstance(idx, Array):
        idx = idx.astype(np.int64)
    if mode == "clip":  # as in NumPy, where negative positions do not count from the end
        idx = maximum(idx, 0) if isinstance(idx, Array) else np.maximum(idx, 0)
    return AtIndex(x, (*(slice(None),) * i, idx)).get(mode=mode, fill_value=fill_value)


@public()
def _flat(a: ArrayLike) -> Array:
    t = lift(a)
    return Tracer(build.reshape(t.node, (t.size,)), t.weak)


def _batched(x: UOp, idx: UOp, axis: int, name: str) -> tuple[UOp, UOp]:
    """x and idx with `axis` last and all others broadcast."""
    if x.ndim != idx.ndim:
        raise note_user_line(
            ShapeError(f"{name}: the array has shape {x.shape}, the indices {idx.shape}; they need equally many axes")
        )
    rest = [k for k in range(x.ndim) if k != axis]
    x, idx = (build.permute(v, (*rest, axis)) for v in (x, idx))
    lead = build.broadcast_shapes(x.shape[:-1], idx.shape[:-1])
    return build.broadcast_to(x, (*lead, x.shape[-1])), build.broadcast_to(idx, (*lead, idx.shape[-1]))


def _checked_along(indices: Any, n: int, name: str) -> bool:
    """Whether the indices are known to be in bounds; IndexError if they are known not to be."""
    if is_traced(indices):
        return False
    data = indices.concrete() if isinstance(indices, Array) else np.asarray(indices)
    if data.size and (data.min() < -n or data.max() >= n):
        bad = data.min() if data.min() < -n else data.max()
        raise note_user_line(OutOfBoundsError(f"{name}: index {bad} is out of bounds for an axis of {n} elements"))
    return True


@public(static=("axis", "mode", "safe"))
def _take_along(
    arr: ArrayLike,
    indices: ArrayLike,
    fill_value: ArrayLike | None,
    axis: int,
    mode: str | None,
    safe: bool,
) -> Array:
    t = lift(arr)
    x, idx = _batched(t.node, lift(indices).node, axis, "take_along_axis")
    mode = "promise_in_bounds" if safe else "fill" if mode is None and fill_value is not None else mode
    i, inside = resolved(idx, x.shape[-1], mode, False)
    y = build.gather(x, i, x.ndim - 1) if x.shape[-1] else build.const(0, x.dtype, i.shape)
    if inside is not None:
        fill = (
            build.const(read_fill(x.dtype), x.dtype)
            if fill_value is None
            else cast_node(fill_value, x.dtype)
        )
        y = build.where(inside, y, build.broadcast_to(fill, y.shape))
    order = list(range(y.ndim - 1))
    order.insert(axis, y.ndim - 1)
    return Tracer(build.permute(y, order), t.weak)


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool = True,
) -> Array:
    """The elements at indices along `axis`, for which argsort and argmax give positions.

    out[.., i, ..] = arr[.., indices[.., i, ..], ..].

    mode   "fill", "clip", "wrap"; None: concrete indices out of bounds raise IndexError

    >>> x = array([[3, 1, 2], [9, 7, 8]])
    >>> take_along_axis(x, argsort(x), axis=1)
    Array([[1, 2, 3],
           [7, 8, 9]], dtype=int64)
    """
    x, idx = as_array(arr), as_array(indices)
    if axis is None:
        x, axis = _flat(x), 0
    i = axis_of(axis, x.ndim, "take_along_axis")
    if idx.dtype.kind not in "iu":
        raise note_user_line(ArgumentError(f"take_along_axis indices must be of integer type, got {idx.dtype}"))
    safe = mode is None and fill_value is None and _checked_along(idx, x.shape[i], "take_along_axis")
    return _take_along(x, idx, fill_value, i, mode, safe)


def _no_inplace(inplace: bool, name: str) -> None:
    if inplace:
        raise NotImplementedError(f"{name}: arrays are immutable; use inplace=False, which returns the new array")


@public(static=("axis", "mode"))
def _put_along(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int, mode: str | None) -> Array:
    t = lift(arr)
    x, idx = _batched(t.node, lift(indices).node, axis, "put_along_axis")
    rest = [k for k in range(t.ndim) if k != axis]
    v = cast_node(values, x.dtype)
    v = build.reshape(v, (1,) * (t.ndim - v.ndim) + v.shape)
    v = build.broadcast_to(build.permute(v, (*rest, axis)), idx.shape)
    i, inside = resolved(idx, x.shape[-1], mode, False)
    y = build.update(x, v, mode=Mode.SET, idx=i, gate=inside, batch=x.ndim - 1) if i.size else x
    order = list(range(y.ndim - 1))
    order.insert(axis, y.ndim - 1)
    return Tracer(build.permute(y, order), t.weak)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = False,
    *,
    mode: str | None = None,
) -> Array:
    """A new array with one element for each index replaced along an axis: the inverse of take_along_axis.

    arr[.., indices[.., i, ..], ..] becomes values[.., i, ..].

    >>> put_along_axis(array([[1, 9], [8, 2]]), array([[1], [0]]), 0, axis=1)
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    _no_inplace(inplace, "put_along_axis")
    x, idx = as_array(arr), as_array(indices)
    if axis is None:
        return reshape(_put_along(_flat(x), idx, values, 0, mode), x.shape)
    i = axis_of(axis, x.ndim, "put_along_axis")
    if mode is None:
        _checked_along(idx, x.shape[i], "put_along_axis")
    return _put_along(x, idx, values, i, mode)


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = False) -> Array:
    """A new array with the elements at flat positions `ind` replaced by `v` (repeated as needed).

    mode: "clip", "wrap", or None, which raises IndexError for concrete positions out of bounds.

    >>> put(array([1, 2, 3, 4]), array([0, -1]), array([10, 20]))
    Array([10,  2,  3, 20], dtype=int64)
    """
    _no_inplace(inplace, "put")
    x = as_array(a)
    ind = unwrapped(ind)
    idx = np.asarray(ind).ravel() if not isinstance(ind, Array) else _flat(ind)
    value = as_array(v)
    if value.ndim == 0 or value.size == idx.size:
        fitting: Any = value if value.ndim == 0 else _flat(value)
    else:
        fitting = _repeat_to(value, idx.size)
    return reshape(AtIndex(_flat(x), idx).set(fitting, mode=mode), x.shape)


@public(static=("n",))
def _repeat_to(a: ArrayLike, n: int) -> Array:
    t = lift(a)
    if not t.size:
        raise note_user_line(ArgumentError("there are no values to write"))
    times = -(-n // t.size)
    wide = build.reshape(build.expand(build.reshape(t.node, (t.size,)), [(0, times)]), (times * t.size,))
    return Tracer(build.slice_axis(wide, 0, 0, n), t.weak)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = False) -> Array:
    """A new array with the masked elements replaced by the values in order (repeated as needed).

    mask: bools, shaped as arr. In place is not possible: inplace=True raises.

    >>> place(array([1, 2, 3, 4]), array([True, False, True, True]), array([10, 20]))
    Array([10,  2, 20, 10], dtype=int64)
    """
    _no_inplace(inplace, "place")
    x = as_array(arr)
    where = np.flatnonzero(host(mask, "place", "use where, or x.at[mask].set(scalar)"))
    return put(x, where, vals) if where.size else x


@public(static=("mode",))
def _choose(a: ArrayLike, choices: Any, mode: str) -> Array:
    nodes, _, weak = promoted(*choices)
    idx = lift(a).node
    idx, *nodes = broadcast("choose", build.cast(idx, dt.int64), *nodes)
    n = len(nodes)
    idx = build.mod(idx, n) if mode == "wrap" else build.maximum(build.minimum(idx, n - 1), 0)
    out = nodes[-1]
    for k in range(n - 2, -1, -1):
        out = build.where(build.eq(idx, k), nodes[k], out)
    return Tracer(out, weak)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For every element the choice that `a` numbers.

    mode   "raise" (concrete numbers only), "wrap" or "clip" for numbers that are none of a choice

    a: integers; `a` and the choices broadcast.

    >>> choose(array([0, 1, 1]), [array([1, 2, 3]), array([10, 20, 30])])
    Array([ 1, 20, 30], dtype=int64)
    """
    no_out(out, "choose")
    if isinstance(choices, Array | np.ndarray):
        x = as_array(choices)
        choices = [getitem(x, i) for i in range(x.shape[0])]
    if mode == "raise":
        data = host(a, "choose", 'use mode="clip" or "wrap"')
        if data.size and (data.min() < 0 or data.max() >= len(choices)):
            raise note_user_line(
                OutOfBoundsError(
                    f"choose: {len(choices)} choices, but the numbers go from {data.min()} to {data.max()}"
                )
            )
    return _choose(a, list(choices), mode)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices along `axis` where the vector `condition` holds.

    `size` fixes their number, for use inside a stage.

    >>> compress(array([False, True, True]), array([[1, 2], [3, 4], [5, 6]]), axis=0)
    Array([[3, 4],
           [5, 6]], dtype=int64)
    """
    no_out(out, "compress")
    x = as_array(a)
    if axis is None:
        x, axis = _flat(x), 0
    i = axis_of(axis, x.ndim, "compress")
    if size is None:
        held = np.flatnonzero(host(condition, "compress", "give size=, the number of slices wanted"))
        return take(x, held.astype(np.int64), i)
    n = x.shape[i]
    (at,) = nonzero(_cut_mask(condition, n), size=size, fill_value=n)
    return take(x, at, i, mode="fill", fill_value=fill_value)


@public(static=("n",))
def _cut_mask(condition: ArrayLike, n: int) -> Array:
    x = lift(condition).node
    return Tracer(build.slice_axis(x, 0, 0, min(n, x.shape[0])))


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements where the condition holds, laid out flat.

    Inside a stage `size` fixes their number; what is missing is `fill_value`.

    >>> extract(array([True, False, True]), array([1, 2, 3]))
    Array([1, 3], dtype=int64)
    """
    return compress(_flat(as_array(condition)), _flat(as_array(arr)), size=size, fill_value=fill_value)


# ---- indices
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays whose combination picks the product of the vectors: x[ix_([0, 2], [1, 3])].

    >>> array([[1, 2, 3], [4, 5, 6]])[ix_([1], [0, 2])]
    Array([[4, 6]], dtype=int64)
    """
    out: list[Array] = []
    for k, v in enumerate(args):
        x = v if isinstance(v, Array) else from_host(np.asarray(v, np.int64 if np.size(v) == 0 else None))
        if x.ndim != 1:
            raise note_user_line(ShapeError(f"ix_ takes vectors, got shape {x.shape}"))
        if x.dtype == np.bool_:
            (x,) = nonzero(x)
        shape = (1,) * k + (x.size,) + (1,) * (len(args) - k - 1)
        out.append(reshape(x, shape))
    return tuple(out)


@public(static=("shape",))
def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Positions in the array laid out flat -> positions along every axis; clipped to the array.

    -> int64 arrays shaped as `indices`, one for each axis; negative positions count from the end.

    >>> unravel_index(array([4, 5]), (2, 3))
    (Array([1, 1], dtype=int64), Array([1, 2], dtype=int64))
    """
    sizes = shape_of(shape, "unravel_index")
    total = math.prod(sizes)
    flat = cast_node(indices, dt.int64)
    flat = build.where(build.lt(flat, 0), build.add(flat, total), flat)
    flat = build.maximum(build.minimum(flat, total - 1), 0)
    out: list[Array] = []
    stride = total
    for n in sizes:
        stride = stride // n if n else 1
        out.append(Tracer(build.mod(build.idiv(flat, max(stride, 1)), max(n, 1))))
    return tuple(out)


@public(static=("dims", "mode", "order"))
def _ravel_multi(multi_index: Any, dims: Any, mode: str, order: str) -> Array:
    sizes = shape_of(dims, "ravel_multi_index")
    parts = broadcast("ravel_multi_index", *[cast_node(i, dt.int64) for i in multi_index])
    if len(parts) != len(sizes):
        raise note_user_line(ArgumentError(f"ravel_multi_index: {len(parts)} index arrays for {len(sizes)} axes"))
    pairs = list(zip(parts, sizes, strict=True))
    out: UOp | None = None
    for i, n in pairs if order == "C" else pairs[::-1]:
        i = build.mod(i, n) if mode == "wrap" else build.maximum(build.minimum(i, n - 1), 0)
        out = i if out is None else build.add(build.mul(out, n), i)
    return Tracer(build.const(0, dt.int64) if out is None else out)


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Any,
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Positions along every axis -> positions in the array laid out flat.

    mode   "raise" (concrete positions only), "clip" or "wrap" for what is out of bounds

    >>> ravel_multi_index((array([0, 1]), array([2, 1])), (2, 3))
    Array([2, 4], dtype=int64)
    """
    if mode == "raise":
        for i, n in zip(multi_index, shape_of(dims, "ravel_multi_index"), strict=True):
            data = host(i, "ravel_multi_index", 'use mode="clip" or "wrap"')
            if data.size and (data.min() < 0 or data.max() >= n):
                raise note_user_line(
                    OutOfBoundsError(f"ravel_multi_index: positions {data} are out of bounds for {n} elements")
                )
    return _ravel_multi(list(multi_index), dims, mode, order)


def _hosted_indices(found: tuple[Any, ...]) -> tuple[Array, ...]:
    return tuple([from_host(i) for i in found])


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array with `ndim` axes of n elements.

    -> `ndim` int64 vectors [n].

    >>> diag_indices(3)
    (Array([0, 1, 2], dtype=int64), Array([0, 1, 2], dtype=int64))
    """
    return _hosted_indices(np.diag_indices(size_of(n, "diag_indices"), ndim))


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The positions of the main diagonal of an array.

    Raises ShapeError unless all axes (at least two) have one size.

    >>> diag_indices_from(ones((2, 2)))
    (Array([0, 1], dtype=int64), Array([0, 1], dtype=int64))
    """
    x = as_array(arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise note_user_line(ShapeError(f"diag_indices_from takes arrays with equal axes, got shape {x.shape}"))
    return diag_indices(x.shape[0], x.ndim)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions of the lower triangle of an n x m matrix.

    -> two int64 vectors: rows and columns; k=0 has the main diagonal, k < 0 less.

    >>> tril_indices(2)
    (Array([0, 1, 1], dtype=int64), Array([0, 0, 1], dtype=int64))
    """
    rows, columns = _hosted_indices(np.tril_indices(n, k, m))
    return rows, columns


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The positions of the upper triangle of an n x m matrix.

    -> two int64 vectors: rows and columns; k=0 has the main diagonal, k > 0 less.

    >>> triu_indices(2, 1)
    (Array([0], dtype=int64), Array([1], dtype=int64))
    """
    rows, columns = _hosted_indices(np.triu_indices(n, k, m))
    return rows, columns


def _matrix_shape(arr: ArrayLike, name: str) -> tuple[int, int]:
    x = as_array(arr)
    if x.ndim != 2:
        raise note_user_line(ShapeError(f"{name} takes a matrix, got shape {x.shape}"))
    return x.shape[0], x.shape[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The positions of the lower triangle of a matrix.

    Raises ShapeError unless it has two axes.

    >>> tril_indices_from(ones((2, 3)))
    (Array([0, 1, 1], dtype=int64), Array([0, 0, 1], dtype=int64))
    """
    n, m = _matrix_shape(arr, "tril_indices_from")
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The positions of the upper triangle of a matrix.

    Raises ShapeError unless it has two axes.

    >>> triu_indices_from(ones((2, 2)))
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    n, m = _matrix_shape(arr, "triu_indices_from")
    return triu_indices(n, k, m)


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None) -> tuple[Array, ...]:
    """The positions where mask_func(ones, k) of an n x n matrix is not zero.

    >>> mask_indices(3, triu, 1)
    (Array([0, 0, 1], dtype=int64), Array([1, 2, 2], dtype=int64))
    """
    return nonzero(mask_func(from_host(np.ones((n, n), np.int64)), k), size=size)


@public(static=("wrap",))
def _fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool) -> Array:
    t = lift(a)
    x = t.node
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) != 1):
        raise note_user_line(
            ShapeError(f"fill_diagonal takes matrices, or arrays with equal axes, got shape {x.shape}")
        )
    if x.ndim == 2:
        step, end = x.shape[1] + 1, x.size if wrap else min(x.size, x.shape[1] * x.shape[1])
    else:
        step, end = 1 + sum(math.prod(x.shape[k + 1 :]) for k in range(x.ndim - 1)), x.size
    count = len(range(0, end, step))
    v = cast_node(val, x.dtype)
    if v.ndim:
        v = lift(_repeat_to(Tracer(v), count)).node
    flat = build.reshape(x, (x.size,))
    if not count:
        return Tracer(x, t.weak)
    new = build.update(flat, build.broadcast_to(v, (count,)), mode=Mode.SET, box=((0, count, step),))
    return Tracer(build.reshape(new, x.shape), t.weak)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = False) -> Array:
    """A new array with the main diagonal replaced by `val` (a number, or values in order).

    wrap: of a tall matrix the diagonal starts again below. In place is not possible: inplace=True raises.

    >>> fill_diagonal(zeros((2, 2), int), array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    _no_inplace(inplace, "fill_diagonal")
    return _fill_diagonal(a, val, wrap)
