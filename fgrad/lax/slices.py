"""Parts of arrays: fixed slices, and slices and updates whose start is computed.

A computed start is moved so that the part lies inside the array; a negative one counts from the
end.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from fgrad.errors import ArgumentError, DtypeError, OutOfBoundsError, ShapeError, note_user_line
from fgrad.numpy.common import axis_of, public, shape_of
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_real, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp

Shape = Sequence[int]
builtin_slice = slice


# ---- fixed
@public(static=("start_indices", "limit_indices", "strides"), moves=True)
def slice(operand: ArrayLike, start_indices: Shape, limit_indices: Shape, strides: Shape | None = None) -> Array:
    """The elements start, start + stride, .. below limit, along every axis.

    operand [n, ..] -> [ceil((limit - start) / stride), ..]; the dtype stays.

    Raises ShapeError unless 0 <= start <= limit <= size and stride >= 1.

    >>> slice(fnp.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int64)
    """
    t = lift(operand)
    steps = (1,) * t.ndim if strides is None else tuple(strides)
    if not len(start_indices) == len(limit_indices) == len(steps) == t.ndim:
        raise note_user_line(
            ShapeError(f"slice of shape {t.shape} needs one start, limit and stride for each of {t.ndim} axes")
        )
    box = []
    for n, lo, hi, step in zip(t.shape, start_indices, limit_indices, steps, strict=True):
        if not 0 <= lo <= hi <= n or step < 1:
            raise note_user_line(
                ShapeError(f"slice {lo}:{hi}:{step} does not lie in an axis of {n} elements (0 <= start <= limit <= n)")
            )
        size = -(-(hi - lo) // step)
        box.append((int(lo) if size else 0, int(size), int(step)))
    return Tracer(build.shrink(t.node, box), t.weak)


@public(static=("start_index", "limit_index", "stride", "axis"), moves=True)
def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """The elements start, start + stride, .. below limit, along one axis.

    None and negative numbers mean what they do in operand[start:limit:stride]. The indices are Python integers;
    `dynamic_slice_in_dim` takes computed ones.

    >>> slice_in_dim(fnp.arange(5), -2, None)
    Array([3, 4], dtype=int64)
    """
    t = lift(operand)
    at = axis_of(axis, t.ndim, "slice_in_dim")
    if stride < 1:
        raise note_user_line(ArgumentError(f"slice_in_dim needs a stride of at least 1, got {stride}"))
    lo, hi, _ = builtin_slice(start_index, limit_index).indices(t.shape[at])
    return Tracer(build.slice_axis(t.node, at, lo, max(lo, hi), stride), t.weak)


@public(static=("index", "axis", "keepdims"), moves=True)
def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One slice along `axis`, at an index that is a Python integer.

    keepdims   the axis stays, with size 1

    Raises OutOfBoundsError for an index outside.

    >>> index_in_dim(fnp.array([[1, 2], [3, 4]]), -1, keepdims=False)
    Array([3, 4], dtype=int64)
    """
    t = lift(operand)
    at = axis_of(axis, t.ndim, "index_in_dim")
    n, i = t.shape[at], operator.index(index)
    if not -n <= i < n:
        raise note_user_line(OutOfBoundsError(f"index {i} out of bounds for axis {at} with size {n}"))
    part = build.slice_axis(t.node, at, i % n, i % n + 1)
    return Tracer(part if keepdims else _without(part, at), t.weak)


def _without(x: UOp, axis: int) -> UOp:
    return build.reshape(x, x.shape[:axis] + x.shape[axis + 1 :])


# ---- computed
def starts_of(indices: Any, shape: tuple[int, ...], name: str, wrap: bool = True) -> list[UOp]:
    """One int64 scalar for each axis; negative ones count from the end (`wrap`)."""
    if isinstance(indices, list | tuple):
        nodes = [lift(i).node for i in indices]
    else:
        vector = lift(indices).node
        if vector.ndim != 1:
            raise note_user_line(ShapeError(f"{name} needs a vector of start indices, got shape {vector.shape}"))
        nodes = [build.reshape(build.slice_axis(vector, 0, i, i + 1), ()) for i in range(vector.shape[0])]
    if len(nodes) != len(shape):
        raise note_user_line(ShapeError(f"{name} needs one start index for each axis of {shape}, got {len(nodes)}"))
    return [_start(i, n, name, wrap) for i, n in zip(nodes, shape, strict=True)]


def _start(i: UOp, n: int, name: str, wrap: bool) -> UOp:
    if not i.dtype.is_int:
        raise note_user_line(DtypeError(f"{name} needs integer start indices, got {i.dtype}"))
    if i.shape != ():
        raise note_user_line(ShapeError(f"{name} needs scalar start indices, got shape {i.shape}"))
    if i.dtype is dt.uint64:
        i = build.minimum(i, (1 << 63) - 1)
    signed = build.cast(i, dt.int64)
    if not wrap or not i.dtype.is_signed:
        return signed
    return build.where(build.lt(signed, 0), build.add(signed, n), signed)


def part_node(x: UOp, starts: Sequence[UOp], sizes: Sequence[int]) -> UOp:
    """The part of `x` with computed starts; axes taken whole need none."""
    box: list[tuple[int | None, int, int]] = []
    used = []
    for start, size, n in zip(starts, sizes, x.shape, strict=True):
        if size == n or size == 0:
            box.append((0, size, 1))
        else:
            box.append((None, size, 1))
            used.append(start)
    return build.shrink(x, box, used)


@public(static=("slice_sizes", "allow_negative_indices"), moves=True)
def dynamic_slice(
    operand: ArrayLike, start_indices: Any, slice_sizes: Shape, allow_negative_indices: bool = True
) -> Array:
    """The part of `slice_sizes` that starts at computed indices, moved inside the array where it would leave it.

    start_indices            one integer scalar for each axis, or a vector of them
    slice_sizes              the shape of the result
    allow_negative_indices   negative ones count from the end, in this and the functions below

    The derivative is that of what was read. Raises ShapeError for sizes larger than the array's.

    >>> dynamic_slice(fnp.arange(5), (3,), (3,))
    Array([2, 3, 4], dtype=int64)
    """
    t = lift(operand)
    sizes = shape_of(slice_sizes, "dynamic_slice")
    if len(sizes) != t.ndim or any(k > n for k, n in zip(sizes, t.shape, strict=True)):
        raise note_user_line(ShapeError(f"dynamic_slice cannot take a part of shape {sizes} out of {t.shape}"))
    starts = starts_of(start_indices, t.shape, "dynamic_slice", allow_negative_indices)
    return Tracer(part_node(t.node, starts, sizes), t.weak)


@public(static=("slice_size", "axis", "allow_negative_indices"), moves=True)
def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one axis.

    start_index   an integer scalar; the other axes are taken whole

    >>> dynamic_slice_in_dim(fnp.array([[1, 2, 3], [4, 5, 6]]), 1, 2, axis=1)
    Array([[2, 3],
           [5, 6]], dtype=int64)
    """
    t = lift(operand)
    at = axis_of(axis, t.ndim, "dynamic_slice_in_dim")
    sizes = list(t.shape)
    sizes[at] = operator.index(slice_size)
    if not 0 <= sizes[at] <= t.shape[at]:
        raise note_user_line(
            ShapeError(f"dynamic_slice_in_dim cannot take {slice_size} of {t.shape[at]} elements along axis {at}")
        )
    starts: list[Any] = [0] * t.ndim
    starts[at] = start_index
    return Tracer(
        part_node(
            t.node,
            starts_of(starts, t.shape, "dynamic_slice_in_dim", allow_negative_indices),
            sizes,
        ),
        t.weak,
    )


@public(static=("axis", "keepdims", "allow_negative_indices"), moves=True)
def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    allow_negative_indices: bool = True,
) -> Array:
    """The slice at a computed index along one axis.

    index      an integer scalar; one outside is moved inside
    keepdims   the axis stays, with size 1

    >>> dynamic_index_in_dim(fnp.array([[1, 2], [3, 4]]), 1, keepdims=False)
    Array([3, 4], dtype=int64)
    """
    part = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices)
    node = lift(part).node
    at = axis_of(axis, node.ndim, "dynamic_index_in_dim")
    return Tracer(node if keepdims else _without(node, at), lift(part).weak)


@public(static=("allow_negative_indices",), moves=True)
def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Any, allow_negative_indices: bool = True
) -> Array:
    """`operand` with a part replaced by `update`, at computed indices moved so that it lies inside.

    operand [*s], update [*t] with t <= s -> [*s]; `update` is converted to the dtype of `operand`.

    start_indices   one integer scalar for each axis, or a vector of them

    Raises ShapeError for an update larger than the operand.

    >>> dynamic_update_slice(fnp.arange(5), fnp.array([8, 9]), (2,))
    Array([0, 1, 8, 9, 4], dtype=int64)
    """
    t = lift(operand)
    value = cast_real(update, t.node.dtype)
    if value.ndim != t.ndim or any(k > n for k, n in zip(value.shape, t.shape, strict=True)):
        raise note_user_line(
            ShapeError(f"dynamic_update_slice cannot write a part of shape {value.shape} into {t.shape}")
        )
    starts = starts_of(start_indices, t.shape, "dynamic_update_slice", allow_negative_indices)
    box: list[tuple[int | None, int, int]] = []
    used = []
    for start, k, n in zip(starts, value.shape, t.shape, strict=True):
        if k in (n, 0):
            box.append((0, k, 1))
        else:
            box.append((None, k, 1))
            used.append(start)
    return Tracer(build.update(t.node, value, box=box, starts=used), t.weak)


@public(static=("axis", "allow_negative_indices"), moves=True)
def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_update_slice` along one axis.

    start_index   an integer scalar; the update starts at 0 along the other axes

    >>> dynamic_update_slice_in_dim(fnp.arange(4), fnp.array([8, 9]), 9, axis=0)
    Array([0, 1, 8, 9], dtype=int64)
    """
    t = lift(operand)
    starts: list[Any] = [0] * t.ndim
    starts[axis_of(axis, t.ndim, "dynamic_update_slice_in_dim")] = start_index
    return dynamic_update_slice(operand, update, starts, allow_negative_indices)


@public(static=("axis", "allow_negative_indices"), moves=True)
def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    allow_negative_indices: bool = True,
) -> Array:
    """One slice along `axis` replaced; `update` may lack that axis.

    index   an integer scalar; one outside is moved inside

    >>> dynamic_update_index_in_dim(fnp.array([[1, 2], [3, 4]]), fnp.array([8, 9]), 0, axis=1)
    Array([[8, 2],
           [9, 4]], dtype=int64)
    """
    t, value = lift(operand), lift(update)
    at = axis_of(axis, t.ndim, "dynamic_update_index_in_dim")
    node = value.node
    if node.ndim != t.ndim:
        node = build.reshape(node, (*node.shape[:at], 1, *node.shape[at:]))
    return dynamic_update_slice_in_dim(operand, Tracer(node, value.weak), index, at, allow_negative_indices)


__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "index_in_dim", "slice", "slice_in_dim",
]  # fmt: skip
