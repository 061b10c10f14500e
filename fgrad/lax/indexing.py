"""gather and scatter in their most general form.

Both are one access of the flattened operand: every element of the windows gets its linear
position, -1 where its window is
to be left out. Prefer `fgrad.numpy` indexing and `x.at[..]`, which say the same more simply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from fgrad import numpy as functions
from fgrad.errors import DtypeError, note_user_line
from fgrad.lax.dimension_numbers import check_gather, check_scatter
from fgrad.lax.shapes import full, full_like
from fgrad.numpy.common import public
from fgrad.trace.arraylike import Array
from fgrad.trace.index_check import within
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, cast_real, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode

Axes = Sequence[int]


class GatherDimensionNumbers(NamedTuple):
    """Which axes are which.

    offset_dims                   axes of the result that run inside a window
    collapsed_slice_dims          axes of the operand along which a window has size 1, not in the
                                  result
    start_index_map               the axis of the operand that each component of a start index is
                                  for
    operand_batching_dims         axes of the operand that go together with ..
    start_indices_batching_dims   .. these axes of the start indices

    >>> rows = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(fnp.arange(6).reshape(3, 2), fnp.array([[2], [0]]), rows, (1, 2))
    Array([[4, 5],
           [0, 1]], dtype=int64)
    """

    offset_dims: Axes
    collapsed_slice_dims: Axes
    start_index_map: Axes
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes are which, for scatter.

    update_window_dims              axes of the updates that run inside a window
    inserted_window_dims            axes of the operand along which a window has size 1, not in the updates
    scatter_dims_to_operand_dims    the axis of the operand that each component of an index is for
    operand_batching_dims           axes of the operand that go together with ..
    scatter_indices_batching_dims   .. these axes of the indices

    >>> numbers = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_add(fnp.zeros(3), fnp.array([[2], [2]]), fnp.array([1.0, 5.0]), numbers)
    Array([0., 0., 6.], dtype=float32)
    """

    update_window_dims: Axes
    inserted_window_dims: Axes
    scatter_dims_to_operand_dims: Axes
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()


class GatherScatterMode(Enum):
    """What happens to windows that do not lie inside: moved inside, left out, or promised not to occur.

    >>> GatherScatterMode.from_any("clip").name, GatherScatterMode.from_any(None).name
    ('CLIP', 'FILL_OR_DROP')
    """

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2
    ONE_HOT = 3

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """The mode that a string, None (FILL_OR_DROP) or a mode names."""
        if isinstance(mode, GatherScatterMode):
            return mode
        names = {None: "FILL_OR_DROP", "fill": "FILL_OR_DROP", "drop": "FILL_OR_DROP"}
        name = names.get(mode, str(mode).upper())
        if name not in GatherScatterMode.__members__:
            raise note_user_line(ValueError(f"mode is clip, fill, drop or promise_in_bounds, got {mode!r}"))
        return GatherScatterMode[name]


class _Windows(NamedTuple):
    """position: linear position in the operand of every window element, int64 [batch..,
    window..]; inside: bool, or None.
    """

    position: UOp
    inside: UOp | None


def _windows(
    shape: tuple[int, ...],
    indices: UOp,
    sizes: Sequence[int],
    hidden: Sequence[int],
    index_map: Axes,
    batching: tuple[Axes, Axes],
    mode: GatherScatterMode,
    checked: bool = False,
) -> _Windows:
    """Positions of windows of `sizes` at `indices` [batch.., components]; axes in `hidden` are
    not in the window shape.

    checked   report windows outside, where FGRAD_CHECK=oob asks for it
    """
    batch = indices.shape[:-1]
    window = [i for i in range(len(shape)) if i not in hidden]
    full = (*batch, *[sizes[i] for i in window])
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    position = build.const(0, dt.int64, full)
    inside: UOp | None = None
    for component, axis in enumerate(index_map):
        raw = build.slice_axis(indices, indices.ndim - 1, component, component + 1)
        start = build.cast(build.reshape(raw, batch), dt.int64)
        last = shape[axis] - sizes[axis]
        if checked:
            start = within(start, 0, last + 1, shape[axis])
        if mode is GatherScatterMode.CLIP:
            start = build.minimum(build.maximum(start, 0), last)
        elif mode is not GatherScatterMode.PROMISE_IN_BOUNDS:
            good = build.and_(build.le(0, start), build.le(start, last))
            inside = good if inside is None else build.and_(inside, good)
        spread = build.expand(
            build.mul(start, strides[axis]),
            [(len(batch) + i, full[len(batch) + i]) for i in range(len(window))],
        )
        position = build.add(position, spread)
    for operand_axis, index_axis in zip(*batching, strict=True):
        position = build.add(position, build.mul(build.iota_along(full, index_axis), strides[operand_axis]))
    for i, axis in enumerate(window):
        position = build.add(position, build.mul(build.iota_along(full, len(batch) + i), strides[axis]))
    if inside is not None:
        inside = build.expand(inside, [(len(batch) + i, full[len(batch) + i]) for i in range(len(window))])
    return _Windows(position, inside)


def _order(batch_axes: int, offset: Axes, ndim: int) -> list[int]:
    """For every axis of the public shape, where it stands in [batch.., window..]."""
    batch, window = iter(range(batch_axes)), iter(range(batch_axes, ndim))
    return [next(window) if i in offset else next(batch) for i in range(ndim)]


def _fill_value(dtype: DType) -> Any:
    if dtype.is_inexact:
        return np.nan
    return False if dtype is dt.bool_ else dt.int_range(dtype)[0 if dtype.is_signed else 1]


def _check_indices(indices: UOp, name: str) -> None:
    if not indices.dtype.is_int:
        raise note_user_line(DtypeError(f"{name} needs integer indices, got {indices.dtype}"))


@public(
    static=(
        "dimension_numbers", "slice_sizes", "unique_indices", "indices_are_sorted", "mode", "fill_value",
        "out_sharding",
    )
)  # fmt: skip
def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Axes,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
    out_sharding: None = None,
) -> Array:
    """Windows of `slice_sizes` at computed places of `operand`.

    operand of any dtype, start_indices [batch.., components] -> [batch.., offset..], as `dimension_numbers` orders it.

    start_indices    integers: one start for each window, a component for each axis of start_index_map
    slice_sizes      the size of a window along each axis of the operand
    mode             "fill" (the default): windows outside become `fill_value` (NaN, or the extreme integer); "clip":
                     they are moved inside; "promise_in_bounds": there are none
    unique_indices   this and indices_are_sorted are promises that nothing here needs

    Raises DimensionNumbersError where dimension numbers and shapes do not fit.

    >>> numbers = GatherDimensionNumbers((), (0,), (0,))
    >>> gather(fnp.array([5, 6, 7]), fnp.array([[2], [0]]), numbers, (1,))
    Array([7, 5], dtype=int64)
    """
    t, indices = lift(operand), lift(start_indices).node
    d = GatherDimensionNumbers(*dimension_numbers)
    x = t.node
    how = GatherScatterMode.from_any(mode)
    _check_indices(indices, "gather")
    sizes = [int(n) for n in slice_sizes]
    check_gather(d, x.shape, indices.shape, sizes)
    hidden = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    where = _windows(
        x.shape,
        indices,
        sizes,
        hidden,
        d.start_index_map,
        (d.operand_batching_dims, d.start_indices_batching_dims),
        how,
        mode is None or how is GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    flat = build.reshape(x, (x.size,))
    out = build.gather(flat, where.position)
    if where.inside is not None:
        fill = _fill_value(x.dtype) if fill_value is None else fill_value
        out = build.where(where.inside, out, build.const(fill, x.dtype))
    return Tracer(build.permute(out, _order(indices.ndim - 1, d.offset_dims, out.ndim)), t.weak)


def _scatter(
    name: str,
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dims: Any,
    mode: Any,
    how: Mode,
) -> Array:
    t, indices = lift(operand), lift(scatter_indices).node
    d = ScatterDimensionNumbers(*dims)
    x = t.node
    value = cast_real(updates, x.dtype)
    _check_indices(indices, name)
    check_scatter(d, x.shape, indices.shape, value.shape)
    hidden = (*d.inserted_window_dims, *d.operand_batching_dims)
    window = [i for i in range(x.ndim) if i not in hidden]
    order = _order(indices.ndim - 1, d.update_window_dims, value.ndim)
    back = [order.index(i) for i in range(value.ndim)]
    value = build.permute(value, back)
    sizes = [1] * x.ndim
    for i, axis in enumerate(window):
        sizes[axis] = value.shape[indices.ndim - 1 + i]
    limits = GatherScatterMode.from_any(mode)
    where = _windows(
        x.shape, indices, sizes, hidden, d.scatter_dims_to_operand_dims,
        (d.operand_batching_dims, d.scatter_indices_batching_dims), limits,
        mode is None or limits is GatherScatterMode.PROMISE_IN_BOUNDS,
    )  # fmt: skip
    position = (
        where.position if where.inside is None else build.where(where.inside, where.position, build.const(-1, dt.int64))
    )
    n = position.size
    flat = build.update(
        build.reshape(x, (x.size,)),
        build.reshape(value, (n,)),
        mode=how,
        idx=build.reshape(position, (n,)),
    )
    return Tracer(build.reshape(flat, x.shape), t.weak)


_STATIC = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")


@public(static=_STATIC)
def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with windows at computed places replaced by `updates`; of several at one place the last stays.

    operand [*s], scatter_indices [batch.., components], updates [batch.., window..] -> [*s]; the operand's dtype.

    mode   "drop" (the default): windows that do not lie inside are left out; "clip": they are moved inside

    Raises DimensionNumbersError where dimension numbers and shapes do not fit.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter(fnp.zeros(3), fnp.array([[2], [0]]), fnp.array([5.0, 6.0]), numbers)
    Array([6., 0., 5.], dtype=float32)
    """
    return _scatter("scatter", operand, scatter_indices, updates, dimension_numbers, mode, Mode.SET)


@public(static=_STATIC)
def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with `updates` added at computed places; all at one place count.

    Arguments as in `scatter`.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_add(fnp.zeros(3), fnp.array([[2], [2]]), fnp.array([5.0, 6.0]), numbers)
    Array([ 0.,  0., 11.], dtype=float32)
    """
    return _scatter("scatter_add", operand, scatter_indices, updates, dimension_numbers, mode, Mode.ADD)


@public(static=_STATIC)
def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with `updates` subtracted at computed places; all at one place count.

    Arguments as in `scatter`.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_sub(fnp.zeros(3), fnp.array([[2], [0]]), fnp.array([5.0, 6.0]), numbers)
    Array([-6.,  0., -5.], dtype=float32)
    """
    less = Tracer(build.neg(lift(updates).node), lift(updates).weak)
    return _scatter("scatter_sub", operand, scatter_indices, less, dimension_numbers, mode, Mode.ADD)


@public(static=_STATIC)
def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` multiplied by `updates` at computed places; all at one place count.

    Arguments as in `scatter`; the derivative does not divide by the elements.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_mul(fnp.ones(3), fnp.array([[2], [2]]), fnp.array([5.0, 6.0]), numbers)
    Array([ 1.,  1., 30.], dtype=float32)
    """
    return _scatter("scatter_mul", operand, scatter_indices, updates, dimension_numbers, mode, Mode.MUL)


@public(static=_STATIC)
def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The smaller of `operand` and `updates` at computed places.

    Arguments as in `scatter`; those that share the minimum share the derivative.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_min(fnp.ones(3), fnp.array([[2], [0]]), fnp.array([5.0, -6.0]), numbers)
    Array([-6.,  1.,  1.], dtype=float32)
    """
    return _scatter("scatter_min", operand, scatter_indices, updates, dimension_numbers, mode, Mode.MIN)


@public(static=_STATIC)
def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """The larger of `operand` and `updates` at computed places.

    Arguments as in `scatter`; those that share the maximum share the derivative.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_max(fnp.ones(3), fnp.array([[2], [0]]), fnp.array([5.0, -6.0]), numbers)
    Array([1., 1., 5.], dtype=float32)
    """
    return _scatter("scatter_max", operand, scatter_indices, updates, dimension_numbers, mode, Mode.MAX)


@public(static=("axes",))
def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Axes) -> Array:
    """The elements at index arrays along `axes`, one array for each; these axes go first in the result.

    src [.., n, ..], idxs integers [*b] -> [*b, other axes of src..]; indices as in `gather` with its default mode.

    >>> index_take(fnp.array([[1, 2], [3, 4]]), (fnp.array([1, 0, 1]),), (1,))
    Array([[2, 4],
           [1, 3],
           [2, 4]], dtype=int64)
    """
    t = lift(src)
    nodes = [cast_node(i, dt.int64) for i in idxs]
    nodes = [build.where(build.lt(i, 0), build.add(i, t.shape[a]), i) for i, a in zip(nodes, axes, strict=True)]
    indices = build.concatenate([build.reshape(i, (*i.shape, 1)) for i in nodes], nodes[0].ndim)
    rest = [i for i in range(t.ndim) if i not in axes]
    sizes = [1 if i in axes else n for i, n in enumerate(t.shape)]
    lead = indices.ndim - 1
    dims = GatherDimensionNumbers(tuple(range(lead, lead + len(rest))), tuple(axes), tuple(axes))
    return gather(src, Tracer(indices), dims, tuple(sizes))


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Axes = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with `func` applied, once, to every element in windows of `update_shape` at computed places.

    func           works element by element
    update_shape   the shape of the updates that `scatter` would have here

    Other arguments as in `scatter`.

    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_apply(fnp.arange(3), fnp.array([[2]]), fnp.negative, numbers, update_shape=(1,))
    Array([ 0,  1, -2], dtype=int64)
    """
    nothing, there = full_like(operand, False, "bool"), full(update_shape, True, "bool")
    hit = scatter(nothing, scatter_indices, there, dimension_numbers, mode=mode)
    out: Array = functions.where(hit, func(operand), operand)
    return out


__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "gather", "index_take",
    "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub",
]  # fmt: skip
