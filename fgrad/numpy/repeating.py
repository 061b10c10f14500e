"""Repeating, shifting, removing and inserting elements along an axis."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import (
    axis_of,
    host,
    is_traced,
    lift,
    public,
    shape_of,
    size_of,
)
from fgrad.numpy.creation import array
from fgrad.numpy.shapes import shape
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, is_scalar, unwrapped
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["delete", "insert", "repeat", "resize", "roll", "tile", "trim_zeros"]


# ---- repeating
@public(static=("reps",), moves=True)
def tile(A: ArrayLike, reps: Any) -> Array:
    """The array repeated as a whole along each axis.

    reps   a number, or one for each axis; missing ones in front

    >>> tile(array([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int64)
    """
    t = lift(A)
    counts = shape_of(reps, "tile")
    rank = max(t.ndim, len(counts))
    own = (1,) * (rank - t.ndim) + t.shape
    times = (1,) * (rank - len(counts)) + counts
    wide = build.expand(build.reshape(t.node, own), [(2 * i, k) for i, k in enumerate(times)])
    return Tracer(build.reshape(wide, tuple([k * n for k, n in zip(times, own, strict=True)])), t.weak)


def repeat(a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Array:
    """Every element several times in a row.

    repeats               an int, or a number for each position along `axis` (None: of the array
                          laid out flat)
    total_repeat_length   the size of the result, needed when `repeats` is traced; what is missing
                          repeats the last element

    >>> repeat(array([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int64)
    >>> repeat(array([1, 2, 3]), [2, 0, 1])
    Array([1, 1, 3], dtype=int64)
    """
    if not is_traced(repeats) and (is_scalar(repeats) or np.size(repeats) == 1):
        once = _repeat_all(a, operator.index(np.asarray(repeats).reshape(())[()]), axis)
        return once if total_repeat_length is None else _fit(once, total_repeat_length, axis)
    counts = repeats if is_traced(repeats) else array(repeats)
    if total_repeat_length is None:
        known = host(counts, "repeat", "give total_repeat_length, the size of the result")
        total_repeat_length = int(known.sum())
    return _repeat_each(a, counts, total_repeat_length, axis)


@public(static=("repeats", "axis"), moves=True)
def _repeat_all(a: ArrayLike, repeats: int, axis: int | None) -> Array:
    t = lift(a)
    node, i = _along(t.node, axis, "repeat")
    k = size_of(repeats, "repeat")
    wide = build.expand(node, [(i + 1, k)])
    return Tracer(build.reshape(wide, (*node.shape[:i], node.shape[i] * k, *node.shape[i + 1 :])), t.weak)


@public(static=("length", "axis"), moves=True)
def _fit(a: ArrayLike, length: int, axis: int | None) -> Array:
    """Cut to `length`, or filled up with the last element."""
    t = lift(a)
    i = 0 if axis is None else axis_of(axis, t.ndim, "repeat")
    n = t.shape[i]
    if length <= n:
        return Tracer(build.slice_axis(t.node, i, 0, length), t.weak)
    last = build.slice_axis(t.node, i, n - 1, n)
    more = build.broadcast_to(last, (*t.shape[:i], length - n, *t.shape[i + 1 :]))
    return Tracer(build.concatenate([t.node, more], i), t.weak)


def _along(node: UOp, axis: int | None, name: str) -> tuple[UOp, int]:
    """-> (node, axis from the front); laid out flat for None."""
    if axis is None:
        return build.reshape(node, (node.size,)), 0
    return node, axis_of(axis, node.ndim, name)


def take_axis(x: UOp, idx: UOp, axis: int) -> UOp:
    """x[.., idx, ..] by a vector of indices in bounds."""
    lead = x.shape[:axis]
    return build.gather(x, build.expand(idx, list(enumerate(lead))), axis)


@public(static=("length", "axis"), moves=True)
def _repeat_each(a: ArrayLike, repeats: ArrayLike, length: int, axis: int | None) -> Array:
    t = lift(a)
    node, i = _along(t.node, axis, "repeat")
    n = node.shape[i]
    counts = cast_node(repeats, dt.int64)
    if counts.shape != (n,):
        raise note_user_line(ShapeError(f"repeat: {n} elements along the axis, but repeats has shape {counts.shape}"))
    if not n or not length:
        return Tracer(build.const(0, node.dtype, (*node.shape[:i], 0, *node.shape[i + 1 :])), t.weak)
    ends = prefix_sum(counts)
    # element j of the result comes from the first position whose block ends beyond j
    grid = (length, n)
    before = build.le(build.broadcast_to(ends, grid), build.iota_along(grid, 0))
    idx = build.minimum(build.reduce_(build.cast(before, dt.int64), (1,)), n - 1)
    return Tracer(take_axis(node, idx, i), t.weak)


def prefix_sum(x: UOp) -> UOp:
    """The running sum of a vector."""
    return uop_prefix(x, 0)


def uop_prefix(x: UOp, axis: int) -> UOp:
    """PREFIX(ADD) along `axis`."""
    return uop(Op.PREFIX, (x,), (Op.ADD, axis, False))


@public(static=("new_shape",))
def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements in order, repeated or cut to fill a new shape.

    >>> resize(array([1, 2, 3]), (2, 4))
    Array([[1, 2, 3, 1],
           [2, 3, 1, 2]], dtype=int64)
    """
    t = lift(a)
    sizes = shape_of(new_shape, "resize")
    total = math.prod(sizes)
    flat = build.reshape(t.node, (t.size,))
    if not t.size:
        return Tracer(build.const(0, flat.dtype, sizes), t.weak)
    times = -(-total // t.size)
    wide = build.reshape(build.expand(flat, [(0, times)]), (times * t.size,))
    return Tracer(build.reshape(build.slice_axis(wide, 0, 0, total), sizes), t.weak)


# ---- shifting
def roll(a: ArrayLike, shift: Any, axis: Any = None) -> Array:
    """The elements moved along the axes by `shift` places.

    What falls off comes in at the other end.
    A traced or array `shift` is allowed: the same compiled code serves all its values.

    >>> roll(array([1, 2, 3]), 1)
    Array([3, 1, 2], dtype=int64)
    """
    pairs = shift if isinstance(shift, list | tuple) else None
    if isinstance(shift, int | np.integer) or (
        pairs is not None and all(isinstance(s, int | np.integer) for s in pairs)
    ):
        return _roll(a, shift if pairs is None else tuple(pairs), axis)
    return _roll_by(a, shift if pairs is None else list(pairs), axis)


def _roll_axes(t: Tracer, shifts: Sequence[Any], axis: Any) -> list[tuple[Any, int]]:
    axes = [axis_of(i, t.ndim, "roll") for i in (axis if isinstance(axis, list | tuple) else (axis,))]
    count = max(len(shifts), len(axes))
    if len(shifts) not in (1, count) or len(axes) not in (1, count):
        raise note_user_line(ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes"))
    return [(shifts[i % len(shifts)], axes[i % len(axes)]) for i in range(count)]


@public(static=("shift", "axis"), moves=True)
def _roll(a: ArrayLike, shift: Any, axis: Any) -> Array:
    t = lift(a)
    if axis is None:
        flat = Tracer(build.reshape(t.node, (t.size,)), t.weak)
        return Tracer(build.reshape(lift(_roll(flat, shift, 0)).node, t.shape), t.weak)
    x = t.node
    shifts = [operator.index(s) for s in (shift if isinstance(shift, list | tuple) else (shift,))]
    for s, i in _roll_axes(t, shifts, axis):
        n = x.shape[i]
        if n and s % n:
            cut = n - s % n
            x = build.concatenate([build.slice_axis(x, i, cut, n), build.slice_axis(x, i, 0, cut)], i)
    return Tracer(x, t.weak)


@public(static=("axis",), moves=True)
def _roll_by(a: ArrayLike, shift: Any, axis: Any) -> Array:
    t = lift(a)
    if axis is None:
        flat = Tracer(build.reshape(t.node, (t.size,)), t.weak)
        return Tracer(build.reshape(lift(_roll_by(flat, shift, 0)).node, t.shape), t.weak)
    given = [lift(s).node for s in shift] if isinstance(shift, list | tuple) else [lift(shift).node]
    flat_shifts = build.concatenate([build.reshape(build.cast(s, dt.int64), (s.size,)) for s in given], 0)
    shifts = [build.reshape(build.slice_axis(flat_shifts, 0, i, i + 1), ()) for i in range(flat_shifts.size)]
    x = t.node
    for s, i in _roll_axes(t, shifts, axis):
        n = x.shape[i]
        if n:
            start = build.mod(build.neg(build.cast(s, dt.int64)), n)
            twice = build.concatenate([x, x], i)
            box = [(None, n, 1) if j == i else (0, m, 1) for j, m in enumerate(x.shape)]
            x = build.shrink(twice, box, [start])
    return Tracer(x, t.weak)


# ---- by position
def runs_of(positions: Sequence[int]) -> list[tuple[int, int, bool]]:
    """Positions as (start, length, backwards) runs of neighbours."""
    out: list[tuple[int, int, bool]] = []
    i = 0
    while i < len(positions):
        j = i + 1
        step = positions[j] - positions[i] if j < len(positions) else 1
        if step in (1, -1):
            while j + 1 < len(positions) and positions[j + 1] - positions[j] == step:
                j += 1
            j = min(j + 1, len(positions))
            out.append((positions[i], j - i, step == -1))
        else:
            out.append((positions[i], 1, False))
        i = j
    return out


def take_static(x: UOp, positions: Sequence[int], axis: int) -> UOp:
    """x at known positions along `axis`: slices side by side when they are few, else one gather."""
    runs = runs_of(positions)
    if not runs:
        return build.slice_axis(x, axis, 0, 0)
    if len(runs) > 64:
        return take_axis(x, lift(np.asarray(positions, np.int64)).node, axis)
    parts = []
    for start, length, backwards in runs:
        low = start - length + 1 if backwards else start
        part = build.slice_axis(x, axis, low, low + length)
        parts.append(build.flip(part, (axis,)) if backwards else part)
    return build.concatenate(parts, axis)


def _positions(obj: Any, n: int, name: str) -> list[int]:
    """The positions that an int, a slice, a mask or a list of ints means on an axis of n."""
    if isinstance(obj, slice):
        return list(range(n)[obj])
    data = host(obj, name, "positions decide the shape of the result, so they must be concrete")
    if data.dtype == np.bool_:
        return [int(i) for i in np.nonzero(data)[0]]
    out = [int(i) for i in np.atleast_1d(data).ravel()]
    for i in out:
        if not -n <= i < n + (name == "insert"):
            raise note_user_line(IndexError(f"{name}: position {i} is out of bounds for an axis of {n} elements"))
    return [i + n if i < 0 else i for i in out]


def delete(arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """Without the elements at some positions (int, slice, mask, list of ints) along `axis`.

    axis=None takes the array laid out flat. Positions must be concrete; out of bounds raises IndexError.

    >>> delete(array([1, 2, 3, 4]), [0, -1])
    Array([2, 3], dtype=int64)
    >>> delete(array([[1, 2], [3, 4]]), 0, axis=1)
    Array([[2],
           [4]], dtype=int64)
    """
    total = shape(arr)
    n = math.prod(total) if axis is None else total[axis_of(axis, len(total), "delete")]
    gone = set(_positions(obj, n, "delete"))
    return _at_positions(arr, tuple([i for i in range(n) if i not in gone]), axis)


@public(static=("positions", "axis"))
def _at_positions(a: ArrayLike, positions: tuple[int, ...], axis: int | None) -> Array:
    t = lift(a)
    node, i = _along(t.node, axis, "delete")
    return Tracer(take_static(node, positions, i), t.weak)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """With `values` put in before some positions (of the original) along `axis`.

    axis=None takes the array laid out flat. Positions must be concrete; the values take the dtype of `arr`.

    >>> insert(array([1, 2, 3]), 1, 9)
    Array([1, 9, 2, 3], dtype=int64)
    >>> insert(array([1, 2, 3]), [0, 3], array([8, 9]))
    Array([8, 1, 2, 3, 9], dtype=int64)
    """
    total = shape(arr)
    n = math.prod(total) if axis is None else total[axis_of(axis, len(total), "insert")]
    obj = unwrapped(obj)
    single = not isinstance(obj, slice) and np.ndim(obj) == 0
    values = array(values) if isinstance(values, list | tuple) else values
    return _insert(arr, values, tuple(_positions(obj, n, "insert")), single, axis)


@public(static=("positions", "single", "axis"))
def _insert(arr: ArrayLike, values: ArrayLike, positions: tuple[int, ...], single: bool, axis: int | None) -> Array:
    t = lift(arr)
    node, i = _along(t.node, axis, "insert")
    v = cast_node(values, node.dtype)
    n = node.shape[i]
    if single:  # as NumPy: the values broadcast without the axis, or bring their own
        if v.ndim == node.ndim and axis is not None or axis is None:
            v = build.reshape(v, (1,) * (node.ndim - v.ndim) + v.shape) if v.ndim < node.ndim else v
        else:
            v = build.reshape(v, (1,) * (node.ndim - 1 - v.ndim) + v.shape)
            v = build.reshape(v, (*v.shape[:i], 1, *v.shape[i:]))
        count = v.shape[i]
        positions = positions * count
    count = len(positions)
    v = build.broadcast_to(v, (*node.shape[:i], count, *node.shape[i + 1 :]))
    both = build.concatenate([node, v], i)
    order: list[int] = []
    before = sorted(range(count), key=lambda k: positions[k])
    for p in range(n + 1):
        order += [n + k for k in before if positions[k] == p]
        order += [p] if p < n else []
    return Tracer(take_static(both, order, i), t.weak)


def trim_zeros(filt: ArrayLike, trim: str = "fb") -> Array:
    """Without leading ("f") and trailing ("b") zeros; the values must be concrete.

    >>> trim_zeros(array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int64)
    """
    data = host(filt, "trim_zeros", "slice where you know the zeros are", True)
    held = np.flatnonzero(data)
    first = held[0] if held.size and "f" in trim.lower() else 0 if held.size else len(data)
    last = held[-1] + 1 if held.size and "b" in trim.lower() else len(data)
    return array(data[first:last])
