"""Arrays in another shape, order or dtype; new arrays of constants and counters."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, ShapeError, note_user_line
from fgrad.lax.dimension_numbers import need
from fgrad.numpy.common import axes_of, axis_of, filled, public, shape_of
from fgrad.run.eager import freeze
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, cast_real, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp

Shape = Sequence[int]


# ---- constants and counters
def full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    """An array of `shape` filled with a scalar.

    The dtype is that of the scalar, unless `dtype` says otherwise.

    >>> lax.full((3,), 7)
    Array([7, 7, 7], dtype=int64, weak_type=True)
    """
    size = shape_of(shape, "full")
    if isinstance(fill_value, bool | int | float | complex | np.generic):
        t = lift(fill_value)
        kind = t.node.dtype if dtype is None else to_dtype(dtype)
        return filled(size, fill_value, kind, t.weak and dtype is None)
    return _full(fill_value, size, None if dtype is None else to_dtype(dtype))


@public(static=("shape", "dtype"))
def _full(value: ArrayLike, shape: tuple[int, ...], dtype: Any) -> Array:
    t = lift(value)
    node = t.node if dtype is None else cast_node(value, dtype)
    return Tracer(build.broadcast_to(node, shape), t.weak and dtype is None)


def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    """An array filled with a scalar, of the shape and dtype of `x` unless they are given.

    >>> lax.full_like(fnp.array([1.5, 2.5]), 7)
    Array([7., 7.], dtype=float32)
    """
    t = lift(x)
    size = t.shape if shape is None else shape_of(shape, "full_like")
    return full(size, fill_value, t.node.dtype if dtype is None else dtype)


@public(static=("dtype", "size"))
def iota(dtype: Any, size: int) -> Array:
    """0, 1, .. size-1.

    >>> iota("int32", 3)
    Array([0, 1, 2], dtype=int32)
    """
    return Tracer(_counter(to_dtype(dtype), operator.index(size)))


def _counter(dtype: dt.DType, n: int) -> UOp:
    if dtype.is_complex or dtype is dt.bool_:
        return build.cast(build.iota(n), dtype)
    return build.iota(n, dtype)


@public(static=("dtype", "shape", "dimension"))
def broadcasted_iota(dtype: Any, shape: Shape, dimension: int) -> Array:
    """An array whose elements are their position along `dimension`.

    >>> lax.broadcasted_iota("int32", (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    size = shape_of(shape, "broadcasted_iota")
    at = axis_of(dimension, len(size), "broadcasted_iota")
    counter = _counter(to_dtype(dtype), size[at])
    return Tracer(build.expand(counter, [(i, n) for i, n in enumerate(size) if i != at]))


# ---- dtypes
@public(static=("new_dtype",))
def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The elements as another dtype; float to int truncates, complex to real drops the imaginary part.

    Floats out of an integer's range give its nearest number, NaN gives 0.

    >>> lax.convert_element_type(fnp.array([1.7, -2.5]), "int32")
    Array([ 1, -2], dtype=int32)
    """
    return Tracer(cast_node(operand, to_dtype(new_dtype)))


@public(static=("new_dtype",))
def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The bits of the elements as another dtype.

    A smaller dtype adds a last axis with the parts (low bits first); a larger one takes it away.

    >>> lax.bitcast_convert_type(fnp.array(1.0), "uint32") == 0x3F800000
    Array(True, dtype=bool)
    """
    x, target = lift(operand).node, to_dtype(new_dtype)
    if dt.bool_ in (x.dtype, target) or x.dtype.is_complex or target.is_complex:
        raise note_user_line(DtypeError(f"bitcast_convert_type from {x.dtype} to {target}: these have no plain bits"))
    old, new = x.dtype.itemsize, target.itemsize
    if old == new:
        return Tracer(build.bitcast(x, target))
    words = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}
    if new < old:
        whole = build.bitcast(x, words[old])
        parts = build.expand(whole, [(x.ndim, old // new)])
        shift = build.mul(build.iota_along(parts.shape, x.ndim, words[old]), new * 8)
        return Tracer(build.bitcast(build.cast(build.shr(parts, shift), words[new]), target))
    n = new // old
    if x.shape[-1:] != (n,):
        raise note_user_line(
            ShapeError(f"bitcast_convert_type from {x.dtype} to {target} needs a last axis of {n}, got {x.shape}")
        )
    wide = build.cast(build.bitcast(x, words[old]), words[new])
    shift = build.mul(build.iota_along(x.shape, x.ndim - 1, words[new]), old * 8)
    from_parts = build.reduce_(build.shl(wide, shift), [x.ndim - 1])  # no bit is set twice
    return Tracer(build.bitcast(from_parts, target))


# ---- broadcasting
@public(static=("sizes",), moves=True)
def broadcast(operand: ArrayLike, sizes: Shape) -> Array:
    """New leading axes of these sizes, along which the array is repeated.

    >>> lax.broadcast(fnp.array([1, 2]), (2,))
    Array([[1, 2],
           [1, 2]], dtype=int64)
    """
    t = lift(operand)
    return Tracer(build.expand(t.node, list(enumerate(shape_of(sizes, "broadcast")))), t.weak)


@public(static=("shape", "broadcast_dimensions"), moves=True)
def broadcast_in_dim(operand: ArrayLike, shape: Shape, broadcast_dimensions: Shape) -> Array:
    """`operand` in a larger shape: its axis i becomes axis broadcast_dimensions[i], repeated where its size is 1.

    Axes may change their order. Raises ShapeError where sizes do not fit.

    >>> broadcast_in_dim(fnp.array([1, 2]), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int64)
    """
    t = lift(operand)
    x, size = t.node, shape_of(shape, "broadcast_in_dim")
    at = [operator.index(i) for i in broadcast_dimensions]
    what = f"broadcast_in_dim of {x.shape} to {size} along {tuple(at)}"
    need(len(at) == x.ndim, f"{what}: broadcast_dimensions must have length equal to operand ndim")
    need(
        len(size) >= x.ndim, f"{what}: target broadcast shape must have equal or higher rank to the operand shape"
    )
    need(
        all(0 <= i < len(size) for i in at),
        f"{what}: broadcast_in_dim broadcast_dimensions must be a subset of output dimensions",
    )
    need(len(set(at)) == len(at), f"{what}: broadcast_in_dim broadcast_dimensions must not contain duplicates")
    x = build.permute(x, sorted(range(x.ndim), key=at.__getitem__))
    at.sort()
    need(
        all(n in (1, size[i]) for n, i in zip(x.shape, at, strict=True)),
        f"{what}: operand dimension sizes must either be 1, or be equal to their corresponding dimensions in the "
        "target broadcast shape",
    )
    kept = [(i, n) for n, i in zip(x.shape, at, strict=True) if n == size[i]]
    inner = build.reshape(x, tuple([n for _, n in kept]))
    places = {i for i, _ in kept}
    return Tracer(build.expand(inner, [(i, n) for i, n in enumerate(size) if i not in places]), t.weak)


def broadcast_shapes(*shapes: Shape) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    Raises ShapeError if there is none.

    >>> lax.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return build.broadcast_shapes(*[shape_of(s, "broadcast_shapes") for s in shapes]) if shapes else ()


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """`x` with leading axes of size 1 up to `rank` axes.

    An array with more axes stays as it is.

    >>> lax.broadcast_to_rank(fnp.ones(3), 2).shape
    (1, 3)
    """
    t = lift(x)
    return expand_dims(x, tuple(range(rank - t.ndim)))


# ---- movement
@public(static=("new_sizes", "dimensions"), moves=True)
def reshape(operand: ArrayLike, new_sizes: Shape, dimensions: Shape | None = None) -> Array:
    """The same elements in another shape (after a transposition to `dimensions`, if given).

    Raises ShapeError where the number of elements differs.

    >>> lax.reshape(fnp.arange(6), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int64)
    """
    t = lift(operand)
    x = t.node if dimensions is None else build.permute(t.node, _permutation(dimensions, t.ndim, "reshape"))
    sizes = [operator.index(n) for n in new_sizes]
    if sizes.count(-1) == 1:
        known = math.prod([n for n in sizes if n != -1])
        sizes[sizes.index(-1)] = x.size // known if known else 0
    if math.prod(sizes) != x.size or any(n < 0 for n in sizes):
        raise note_user_line(
            ShapeError(f"reshape cannot turn {x.shape} ({x.size} elements) into {tuple(sizes)} ({math.prod(sizes)})")
        )
    return Tracer(build.reshape(x, tuple(sizes)), t.weak)


def _permutation(axes: Shape, ndim: int, name: str) -> tuple[int, ...]:
    order = tuple([operator.index(a) for a in axes])
    if sorted(order) != list(range(ndim)):
        raise note_user_line(ShapeError(f"{name}: {order} is no permutation of the {ndim} axes"))
    return order


@public(static=("permutation",), moves=True)
def transpose(operand: ArrayLike, permutation: Shape) -> Array:
    """Axes in another order: axis i of the result is axis permutation[i].

    >>> lax.transpose(fnp.ones((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    t = lift(operand)
    return Tracer(build.permute(t.node, _permutation(permutation, t.ndim, "transpose")), t.weak)


@public(static=("dimensions",), moves=True)
def rev(operand: ArrayLike, dimensions: Shape) -> Array:
    """The elements in reverse order along `dimensions`.

    >>> lax.rev(fnp.array([[1, 2], [3, 4]]), (1,))
    Array([[2, 1],
           [4, 3]], dtype=int64)
    """
    t = lift(operand)
    axes = [axis_of(a, t.ndim, "rev") for a in dimensions]
    return Tracer(build.flip(t.node, axes), t.weak)


@public(static=("dimensions",), moves=True)
def squeeze(array: ArrayLike, dimensions: Shape) -> Array:
    """Without these axes, which have size 1.

    >>> lax.squeeze(fnp.ones((1, 3, 1)), (0,)).shape
    (3, 1)
    """
    t = lift(array)
    axes = axes_of(tuple(dimensions), t.ndim, "squeeze")
    if any(t.shape[a] != 1 for a in axes):
        raise note_user_line(ShapeError(f"squeeze removes axes of size 1; axes {axes} of {t.shape} are larger"))
    return Tracer(build.reshape(t.node, tuple([n for i, n in enumerate(t.shape) if i not in axes])), t.weak)


@public(static=("dimensions",), moves=True)
def expand_dims(array: ArrayLike, dimensions: Shape) -> Array:
    """New axes of size 1 at these positions of the result.

    >>> lax.expand_dims(fnp.ones((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    t = lift(array)
    given = (dimensions,) if isinstance(dimensions, int) else tuple(dimensions)
    ndim = t.ndim + len(given)
    axes = axes_of(given, ndim, "expand_dims") if given else ()
    sizes = iter(t.shape)
    return Tracer(build.reshape(t.node, tuple([1 if i in axes else next(sizes) for i in range(ndim)])), t.weak)


@public(static=("start_dimension", "stop_dimension"), moves=True)
def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Axes start_dimension .. stop_dimension-1 as one.

    >>> lax.collapse(fnp.ones((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    t = lift(operand)
    lo, hi, _ = slice(start_dimension, stop_dimension).indices(t.ndim)
    hi = max(hi, lo)
    merged = math.prod(t.shape[lo:hi])
    return Tracer(build.reshape(t.node, (*t.shape[:lo], merged, *t.shape[hi:])), t.weak)


@public(static=("padding_config",))
def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Any) -> Array:
    """Elements added around and between those of `operand`.

    padding_config   one (low, high, interior) for each axis; negative low and high remove elements

    >>> lax.pad(fnp.array([1, 2, 3]), 0, [(1, 0, 1)])
    Array([0, 1, 0, 2, 0, 3], dtype=int64)
    """
    t = lift(operand)
    x = t.node
    rows = [tuple([operator.index(n) for n in row]) for row in freeze(padding_config)]
    if len(rows) != x.ndim or any(len(r) != 3 or r[2] < 0 for r in rows):
        raise note_user_line(
            ShapeError(f"pad of {x.shape} needs one (low, high, interior >= 0) for each axis, got {rows}")
        )
    value = cast_real(padding_value, x.dtype)
    if value.shape != ():
        raise note_user_line(ShapeError(f"pad needs a scalar padding_value, got shape {value.shape}"))
    return Tracer(padded(x, rows, value), t.weak)


def padded(x: UOp, rows: Sequence[tuple[int, ...]], value: UOp) -> UOp:
    """PAD with any value and with negative widths, which cut after interior padding."""
    grown = [(max(lo, 0), max(hi, 0), mid) for lo, hi, mid in rows]
    out = build.pad(x, grown)
    if not (build.is_const(value) and build.scalar_of(value) == 0 and not np.signbit(build.scalar_of(value).real)):
        inside = build.pad(build.const(True, dt.bool_, x.shape), grown)
        out = build.where(inside, out, build.broadcast_to(value, out.shape))
    box = []
    for (lo, hi, _), n in zip(rows, out.shape, strict=True):
        start, stop = max(-lo, 0), n - max(-hi, 0)
        box.append((start if stop > start else 0, max(stop - start, 0), 1))
    return build.shrink(out, box)


@public(static=("dimension",), moves=True)
def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Arrays side by side along `dimension`.

    Raises ShapeError where other axes differ.

    >>> lax.concatenate([fnp.array([1, 2]), fnp.array([3])], 0)
    Array([1, 2, 3], dtype=int64)
    """
    if not len(operands):
        raise note_user_line(ArgumentError("concatenate needs at least one array"))
    nodes, _, weak = promoted(*operands)
    at = axis_of(dimension, nodes[0].ndim, "concatenate")
    rest = [n.shape[:at] + n.shape[at + 1 :] for n in nodes]
    if any(n.ndim != nodes[0].ndim for n in nodes) or any(r != rest[0] for r in rest):
        raise note_user_line(
            ShapeError(
                f"concatenate along axis {at} needs arrays alike on the other axes, got "
                f"{', '.join(str(n.shape) for n in nodes)}"
            )
        )
    return Tracer(build.concatenate(nodes, at), weak)


@public(static=("sizes", "axis"), moves=True)
def split(operand: ArrayLike, sizes: Shape, axis: int = 0) -> list[Array]:
    """Consecutive parts of these sizes along `axis`.

    The sizes add up to the axis, else ShapeError.

    >>> [part.tolist() for part in lax.split(fnp.arange(4), (1, 3))]
    [[0], [1, 2, 3]]
    """
    t = lift(operand)
    at = axis_of(axis, t.ndim, "split")
    sizes = [int(n) for n in sizes]
    if sum(sizes) != t.shape[at]:
        raise note_user_line(ShapeError(f"split sizes {tuple(sizes)} do not add up to {t.shape[at]}"))
    out: list[Array] = []
    start = 0
    for n in sizes:
        out.append(Tracer(build.slice_axis(t.node, at, start, start + n), t.weak))
        start += n
    return out


@public(static=("reps",), moves=True)
def tile(operand: ArrayLike, reps: Shape) -> Array:
    """The array repeated reps[i] times along axis i.

    >>> lax.tile(fnp.array([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=int64)
    """
    t = lift(operand)
    if len(reps) != t.ndim:
        raise note_user_line(ShapeError(f"tile needs one count for each of {t.ndim} axes, got {tuple(reps)}"))
    spread = build.expand(t.node, [(2 * i, int(r)) for i, r in enumerate(reps)])
    return Tracer(build.reshape(spread, tuple([n * r for n, r in zip(t.shape, reps, strict=True)])), t.weak)


@public(static=("axis",))
def _stacked(operands: list[ArrayLike], axis: int) -> Array:
    nodes, _, weak = promoted(*operands)
    at = axis_of(axis, nodes[0].ndim + 1, "stack")
    if any(n.shape != nodes[0].shape for n in nodes):
        raise note_user_line(
            ShapeError(f"stack needs arrays of one shape, got {', '.join(str(n.shape) for n in nodes)}")
        )
    shape = (*nodes[0].shape[:at], 1, *nodes[0].shape[at:])
    return Tracer(build.concatenate([build.reshape(n, shape) for n in nodes], at), weak)


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Arrays of one shape side by side on a new axis.

    >>> lax.stack([fnp.array([1, 2]), fnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int64)
    """
    if not len(operands):
        raise note_user_line(ArgumentError("stack needs at least one array"))
    return _stacked(list(operands), axis)


@public(static=("axis",))
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices along `axis`, one array for each.

    >>> lax.unstack(fnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int64), Array([3, 4], dtype=int64))
    """
    t = lift(x)
    at = axis_of(axis, t.ndim, "unstack")
    rest = t.shape[:at] + t.shape[at + 1 :]
    parts = [build.slice_axis(t.node, at, i, i + 1) for i in range(t.shape[at])]
    return tuple([Tracer(build.reshape(p, rest), t.weak) for p in parts])


@public()
def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """`arr` repeated to the shape of `like_arr`.

    Raises ShapeError where it does not fit.

    >>> lax.broadcast_like(fnp.array(7), fnp.zeros(3))
    Array([7, 7, 7], dtype=int64, weak_type=True)
    """
    t = lift(arr)
    return Tracer(build.broadcast_to(t.node, lift(like_arr).shape), t.weak)


def empty(shape: Any, dtype: Any) -> Array:
    """An array of that shape and dtype; its elements are 0.

    >>> lax.empty((2,), "float32")
    Array([0., 0.], dtype=float32)
    """
    return full(shape, 0, to_dtype(dtype))


def dtype(x: ArrayLike) -> Any:
    """The NumPy dtype that `x` has as an array; a dtype, or the class of one, is it itself.

    >>> lax.dtype(fnp.ones(2)), lax.dtype(1)
    (dtype('float32'), dtype('int64'))
    """
    if isinstance(x, type | np.dtype):
        return to_dtype(x).np
    return lift(x).dtype


__all__ = [
    "bitcast_convert_type", "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes",
    "broadcast_to_rank", "broadcasted_iota", "collapse", "concatenate", "convert_element_type", "dtype",
    "empty", "expand_dims", "full", "full_like", "iota", "pad", "reshape", "rev", "split", "squeeze", "stack",
    "tile", "transpose", "unstack",
]  # fmt: skip
