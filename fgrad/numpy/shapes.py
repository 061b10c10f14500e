"""Moving, joining, splitting and repeating: what changes shapes and leaves the elements alone."""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import (
    DTypeLike, axes_of, axis_of, host, is_traced, lift, no_out, public, reshaped_to, shape_of, size_of,
)  # fmt: skip
from fgrad.numpy.creation import array
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, is_scalar, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "column_stack", "concat", "concatenate", "delete", "dsplit", "dstack",
    "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack", "insert", "matrix_transpose", "moveaxis", "ndim",
    "permute_dims", "ravel", "repeat", "reshape", "resize", "roll", "rollaxis", "rot90", "shape", "size", "split",
    "squeeze", "stack", "swapaxes", "tile", "transpose", "trim_zeros", "unstack", "vsplit", "vstack",
]  # fmt: skip


# ---- reading shapes
def shape(a: ArrayLike) -> tuple[int, ...]:
    """Sizes of the axes."""
    return a.shape if isinstance(a, Array) else tuple(np.shape(a))


def ndim(a: ArrayLike) -> int:
    """Number of axes."""
    return len(shape(a))


def size(a: ArrayLike, axis: Any = None) -> int:
    """Number of elements, in all or along some axes."""
    own = shape(a)
    return math.prod(own[i] for i in axes_of(axis, len(own), "size"))


# ---- one array
@public(static=("shape", "order"))
def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: None = None) -> Array:
    """The elements of `a` in order, under another shape; one size may be -1.

    order   "C": the last axis varies fastest; "F": the first one does
    """
    t = lift(a)
    sizes = reshaped_to(shape, t.shape, "reshape")
    if order == "F":
        back = build.permute(t.node, range(t.ndim)[::-1])
        return Tracer(build.permute(build.reshape(back, sizes[::-1]), range(len(sizes))[::-1]), t.weak)
    if order not in ("C", "A"):
        raise ValueError(f'reshape: order must be "C" or "F", got {order!r}')
    return Tracer(build.reshape(t.node, sizes), t.weak)


@public(static=("order",))
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements on one axis."""
    return reshape(a, -1, order) if lift(a).size else reshape(a, 0, order)


@public(static=("axes",))
def transpose(a: ArrayLike, axes: Any = None) -> Array:
    """The axes in another order (by default reversed)."""
    t = lift(a)
    if axes is None:
        return Tracer(build.permute(t.node, range(t.ndim)[::-1]), t.weak)
    order = tuple([axis_of(i, t.ndim, "transpose") for i in (axes if isinstance(axes, list | tuple) else (axes,))])
    if sorted(order) != list(range(t.ndim)):
        raise note_user_line(ShapeError(f"transpose: axes {axes} are no permutation of the {t.ndim} axes of {t.shape}"))
    return Tracer(build.permute(t.node, order), t.weak)


permute_dims = transpose


@public()
def matrix_transpose(x: ArrayLike) -> Array:
    """[.., n, m] -> [.., m, n]."""
    t = lift(x)
    if t.ndim < 2:
        raise note_user_line(ShapeError(f"matrix_transpose takes matrices, got shape {t.shape}"))
    return Tracer(build.permute(t.node, (*range(t.ndim - 2), t.ndim - 1, t.ndim - 2)), t.weak)


@public(static=("source", "destination"))
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Some axes at other places, the others in their order."""
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


@public(static=("axis", "start"))
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """The axis moved before position `start`; prefer moveaxis."""
    t = lift(a)
    of = axis_of(axis, t.ndim, "rollaxis")
    to = start + t.ndim if start < 0 else start
    return moveaxis(a, of, to - (of < to))


@public(static=("axis1", "axis2"))
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""
    t = lift(a)
    i, j = axis_of(axis1, t.ndim, "swapaxes"), axis_of(axis2, t.ndim, "swapaxes")
    order = list(range(t.ndim))
    order[i], order[j] = j, i
    return Tracer(build.permute(t.node, order), t.weak)


@public(static=("axis",))
def squeeze(a: ArrayLike, axis: Any = None) -> Array:
    """Without axes of size 1 (all of them, or those named)."""
    t = lift(a)
    gone = [i for i, n in enumerate(t.shape) if n == 1] if axis is None else axes_of(axis, t.ndim, "squeeze")
    for i in gone:
        if t.shape[i] != 1:
            raise note_user_line(ShapeError(f"squeeze: axis {i} of shape {t.shape} has {t.shape[i]} elements, not 1"))
    return Tracer(build.reshape(t.node, tuple([n for i, n in enumerate(t.shape) if i not in gone])), t.weak)


@public(static=("axis",))
def expand_dims(a: ArrayLike, axis: Any) -> Array:
    """With new axes of size 1 at these places of the result."""
    t = lift(a)
    given = axis if isinstance(axis, list | tuple) else (axis,)
    new = axes_of(given, t.ndim + len(given), "expand_dims")
    sizes = iter(t.shape)
    full = tuple([1 if i in new else next(sizes) for i in range(t.ndim + len(new))])
    return Tracer(build.reshape(t.node, full), t.weak)


@public(static=("axis",))
def flip(m: ArrayLike, axis: Any = None) -> Array:
    """The elements along the axes (all by default) in reverse order."""
    t = lift(m)
    return Tracer(build.flip(t.node, axes_of(axis, t.ndim, "flip")), t.weak)


@public()
def fliplr(m: ArrayLike) -> Array:
    """Columns in reverse order."""
    return flip(m, 1)


@public()
def flipud(m: ArrayLike) -> Array:
    """Rows in reverse order."""
    return flip(m, 0)


@public(static=("k", "axes"))
def rot90(m: ArrayLike, k: int = 1, axes: Any = (0, 1)) -> Array:
    """Turned by k quarter turns in the plane of two axes, from the first towards the second."""
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
            (0, 1): (1,), (0, 2): (1, 1), (1, 2): (1, *sizes), (0, 3): (1, 1, 1), (1, 3): (1, *sizes, 1),
            (2, 3): (*sizes, 1),
        }[t.ndim, least]  # fmt: skip
    return Tracer(build.reshape(t.node, sizes), t.weak)


def _atleast_all(arys: Sequence[Any], least: int) -> Any:
    out = [_atleast(x, least) for x in arys]
    return out[0] if len(out) == 1 else out


@public()
def atleast_1d(*arys: ArrayLike) -> Any:
    """Each array with at least one axis."""
    return _atleast_all(arys, 1)


@public()
def atleast_2d(*arys: ArrayLike) -> Any:
    """Each array with at least two axes (new ones in front)."""
    return _atleast_all(arys, 2)


@public()
def atleast_3d(*arys: ArrayLike) -> Any:
    """Each array with at least three axes."""
    return _atleast_all(arys, 3)


# ---- broadcasting
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that these shapes broadcast to."""
    if not shapes:
        return ()
    return build.broadcast_shapes(*[shape_of(s, "broadcast_shapes") for s in shapes])


@public(static=("shape",))
def broadcast_to(array: ArrayLike, shape: Any) -> Array:
    """The array repeated along new axes and axes of size 1, to `shape`."""
    t = lift(array)
    sizes = shape_of(shape, "broadcast_to")
    try:
        return Tracer(build.broadcast_to(t.node, sizes), t.weak)
    except ShapeError as e:
        raise note_user_line(ShapeError(f"broadcast_to: {e}")) from None


@public()
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """All arrays at their common shape."""
    tracers = [lift(x) for x in args]
    if not tracers:
        return []
    full = broadcast_shapes(*[t.shape for t in tracers])
    return [Tracer(build.broadcast_to(t.node, full), t.weak) for t in tracers]


# ---- joining
def _parts(arrays: Any, name: str, dtype: DTypeLike = None) -> tuple[list[UOp], bool]:
    """Nodes of one dtype. A single array counts as the sequence of its rows."""
    if isinstance(arrays, Array | np.ndarray):
        t = lift(arrays)
        if t.ndim == 0:
            raise note_user_line(ArgumentError(f"{name} takes a sequence of arrays, got one of shape ()"))
        rows = [build.reshape(build.slice_axis(t.node, 0, i, i + 1), t.shape[1:]) for i in range(t.shape[0])]
        nodes, weak = rows, t.weak
    else:
        items = [array(x) if isinstance(x, list | tuple) else x for x in arrays]
        if not items:
            raise note_user_line(ValueError(f"{name}: needs at least one array"))
        nodes, _, weak = promoted(*items)
    if dtype is not None:
        return [build.cast(n, to_dtype(dtype)) for n in nodes], False
    return nodes, weak


def joined(nodes: Sequence[UOp], axis: int, name: str) -> UOp:
    """Concatenate, with the shapes checked."""
    first = nodes[0].shape
    if not first:
        raise note_user_line(ShapeError(f"{name}: 0-d arrays cannot be concatenated; use stack, or atleast_1d first"))
    i = axis_of(axis, len(first), name)
    for n in nodes:
        if n.ndim != len(first) or any(p != q for j, (p, q) in enumerate(zip(n.shape, first, strict=True)) if j != i):
            raise note_user_line(
                ShapeError(
                    f"{name}: shapes {', '.join(str(m.shape) for m in nodes)} differ on another axis than {i}; "
                    "they must agree everywhere else"
                )
            )
    return build.concatenate(nodes, i)


@public(static=("axis", "dtype"))
def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """The arrays one after the other along `axis` (None: laid out flat first).

    >>> concatenate([array([1, 2]), array([3])])
    Array([1, 2, 3], dtype=int64)
    """
    nodes, weak = _parts(arrays, "concatenate", dtype)
    if axis is None:
        nodes, axis = [build.reshape(n, (n.size,)) for n in nodes], 0
    return Tracer(joined(nodes, axis, "concatenate"), weak)


def concat(arrays: Any, axis: int | None = 0) -> Array:
    """`concatenate` under the array API's name."""
    return concatenate(arrays, axis)


def _stacked(nodes: Sequence[UOp], axis: int, name: str) -> UOp:
    first = nodes[0].shape
    if any(n.shape != first for n in nodes):
        raise note_user_line(ShapeError(f"{name}: all arrays need one shape, got {', '.join(str(n.shape) for n in nodes)}"))
    i = axis_of(axis, len(first) + 1, name)
    return build.concatenate([build.reshape(n, (*first[:i], 1, *first[i:])) for n in nodes], i)


@public(static=("axis", "dtype"))
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """The arrays side by side along a new axis."""
    no_out(out, "stack")
    nodes, weak = _parts(arrays, "stack", dtype)
    return Tracer(_stacked(nodes, axis, "stack"), weak)


def _atleast_parts(tup: Any, least: int, name: str, dtype: DTypeLike) -> tuple[list[UOp], bool]:
    nodes, weak = _parts(tup, name, dtype)
    return [lift(_atleast(Tracer(n), least)).node for n in nodes], weak


@public(static=("dtype",))
def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Rows below each other."""
    nodes, weak = _atleast_parts(tup, 2, "vstack", dtype)
    return Tracer(joined(nodes, 0, "vstack"), weak)


@public(static=("dtype",))
def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Columns beside each other; vectors one after the other."""
    nodes, weak = _atleast_parts(tup, 1, "hstack", dtype)
    return Tracer(joined(nodes, 0 if nodes[0].ndim == 1 else 1, "hstack"), weak)


@public(static=("dtype",))
def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Side by side along the third axis."""
    nodes, weak = _atleast_parts(tup, 3, "dstack", dtype)
    return Tracer(joined(nodes, 2, "dstack"), weak)


@public()
def column_stack(tup: Any) -> Array:
    """Vectors as the columns of a matrix; matrices beside each other."""
    nodes, weak = _parts(tup, "column_stack")
    columns = [build.reshape(n, (n.size, 1)) if n.ndim < 2 else n for n in nodes]
    return Tracer(joined(columns, 1, "column_stack"), weak)


@public()
def block(arrays: Any) -> Array:
    """One array of nested lists of blocks: the innermost lists join along the last axis."""

    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) and x else int(isinstance(x, list))

    def leaves(x: Any) -> list[Any]:
        return [y for z in x for y in leaves(z)] if isinstance(x, list) else [x]

    levels = depth(arrays)
    nodes, _, weak = promoted(*leaves(arrays))
    rank = max([levels, *[n.ndim for n in nodes]])
    flat = iter([build.reshape(n, (1,) * (rank - n.ndim) + n.shape) for n in nodes])

    def join(x: Any, level: int) -> UOp:
        if not isinstance(x, list):
            return next(flat)
        return joined([join(y, level - 1) for y in x], rank - level, "block")

    return Tracer(join(arrays, levels), weak)


@public(static=("axis",))
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after `arr` along `axis` (None: both laid out flat)."""
    return concatenate([arr, values], axis)


# ---- splitting
def _cuts(n: int, parts: Any, name: str, even: bool) -> list[int]:
    """Where the parts begin, and n at the end."""
    if not isinstance(parts, list | tuple | np.ndarray | Array):
        k = size_of(parts, name)
        if k == 0:
            raise note_user_line(ValueError(f"{name}: the number of parts must be positive"))
        if even and n % k:
            raise note_user_line(
                ShapeError(f"{name}: {n} elements do not split into {k} equal parts; use array_split or give the places")
            )
        small, larger = builtin_divmod(n, k)
        return [i * small + min(i, larger) for i in range(k + 1)]
    places = [operator.index(p) for p in host(parts, name, "give the places as Python integers").tolist()]
    places = [min(max(p + n if p < 0 else p, 0), n) for p in places]
    return [0, *places, n]


def builtin_divmod(n: int, k: int) -> tuple[int, int]:
    """Quotient and remainder of Python ints."""
    return n // k, n % k


def _split(ary: ArrayLike, parts: Any, axis: int, name: str, even: bool) -> list[Array]:
    t = lift(ary)
    i = axis_of(axis, t.ndim, name)
    cuts = _cuts(t.shape[i], parts, name, even)
    pairs = zip(cuts[:-1], cuts[1:], strict=True)
    return [Tracer(build.slice_axis(t.node, i, a, max(a, b)), t.weak) for a, b in pairs]


@public(static=("indices_or_sections", "axis"))
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Equal parts along `axis` (an int), or parts that begin at the given places."""
    return _split(ary, indices_or_sections, axis, "split", True)


@public(static=("indices_or_sections", "axis"))
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`split` into nearly equal parts: the first ones are larger by one."""
    return _split(ary, indices_or_sections, axis, "array_split", False)


@public(static=("indices_or_sections",))
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis (the first one of vectors)."""
    return _split(ary, indices_or_sections, 0 if lift(ary).ndim == 1 else 1, "hsplit", True)


@public(static=("indices_or_sections",))
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis."""
    return _split(ary, indices_or_sections, 0, "vsplit", True)


@public(static=("indices_or_sections",))
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis."""
    return _split(ary, indices_or_sections, 2, "dsplit", True)


@public(static=("axis",))
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices along `axis`, one array each."""
    t = lift(x)
    i = axis_of(axis, t.ndim, "unstack")
    gone = (*t.shape[:i], *t.shape[i + 1 :])
    return tuple([Tracer(build.reshape(build.slice_axis(t.node, i, k, k + 1), gone), t.weak) for k in range(t.shape[i])])


# ---- repeating
@public(static=("reps",))
def tile(A: ArrayLike, reps: Any) -> Array:
    """The array repeated as a whole along each axis."""
    t = lift(A)
    counts = shape_of(reps, "tile")
    rank = max(t.ndim, len(counts))
    own = (1,) * (rank - t.ndim) + t.shape
    times = (1,) * (rank - len(counts)) + counts
    wide = build.expand(build.reshape(t.node, own), [(2 * i, k) for i, k in enumerate(times)])
    return Tracer(build.reshape(wide, tuple([k * n for k, n in zip(times, own, strict=True)])), t.weak)


def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Every element several times in a row.

    repeats               an int, or a number for each position along `axis` (None: of the array laid out flat)
    total_repeat_length   the size of the result, needed when `repeats` is traced; what is missing repeats the last element
    """
    if not is_traced(repeats) and (is_scalar(repeats) or np.size(repeats) == 1):
        once = _repeat_all(a, operator.index(np.asarray(repeats).reshape(())[()]), axis)
        return once if total_repeat_length is None else _fit(once, total_repeat_length, axis)
    counts = repeats if is_traced(repeats) else array(repeats)
    if total_repeat_length is None:
        known = host(counts, "repeat", "give total_repeat_length, the size of the result")
        total_repeat_length = int(known.sum())
    return _repeat_each(a, counts, total_repeat_length, axis)


@public(static=("repeats", "axis"))
def _repeat_all(a: ArrayLike, repeats: int, axis: int | None) -> Array:
    t = lift(a)
    node, i = _along(t.node, axis, "repeat")
    k = size_of(repeats, "repeat")
    wide = build.expand(node, [(i + 1, k)])
    return Tracer(build.reshape(wide, (*node.shape[:i], node.shape[i] * k, *node.shape[i + 1 :])), t.weak)


@public(static=("length", "axis"))
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


@public(static=("length", "axis"))
def _repeat_each(a: ArrayLike, repeats: ArrayLike, length: int, axis: int | None) -> Array:
    t = lift(a)
    node, i = _along(t.node, axis, "repeat")
    n = node.shape[i]
    counts = build.cast(lift(repeats).node, dt.int64)
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
    """The elements in order, repeated or cut to fill a new shape."""
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
    """The elements moved along the axes by `shift` places; what falls off comes in at the other end.

    A traced or array `shift` is allowed: the same compiled code serves all its values.
    """
    pairs = shift if isinstance(shift, list | tuple) else None
    if isinstance(shift, int | np.integer) or (pairs is not None and all(isinstance(s, int | np.integer) for s in pairs)):
        return _roll(a, shift if pairs is None else tuple(pairs), axis)
    return _roll_by(a, shift if pairs is None else list(pairs), axis)


def _roll_axes(t: Tracer, shifts: Sequence[Any], axis: Any) -> list[tuple[Any, int]]:
    axes = [axis_of(i, t.ndim, "roll") for i in (axis if isinstance(axis, list | tuple) else (axis,))]
    count = max(len(shifts), len(axes))
    if len(shifts) not in (1, count) or len(axes) not in (1, count):
        raise note_user_line(ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes"))
    return [(shifts[i % len(shifts)], axes[i % len(axes)]) for i in range(count)]


@public(static=("shift", "axis"))
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


@public(static=("axis",))
def _roll_by(a: ArrayLike, shift: Any, axis: Any) -> Array:
    t = lift(a)
    if axis is None:
        flat = Tracer(build.reshape(t.node, (t.size,)), t.weak)
        return Tracer(build.reshape(lift(_roll_by(flat, shift, 0)).node, t.shape), t.weak)
    given = [lift(s).node for s in shift] if isinstance(shift, list | tuple) else [lift(shift).node]
    shifts = [build.reshape(build.slice_axis(build.reshape(s, (s.size,)), 0, i, i + 1), ()) for s in given
              for i in range(s.size)]  # fmt: skip
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
    """Without the elements at some positions (int, slice, mask, list of ints) along `axis`."""
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
    """With `values` put in before some positions (of the original) along `axis`."""
    total = shape(arr)
    n = math.prod(total) if axis is None else total[axis_of(axis, len(total), "insert")]
    single = not isinstance(obj, slice) and np.ndim(obj) == 0
    values = array(values) if isinstance(values, list | tuple) else values
    return _insert(arr, values, tuple(_positions(obj, n, "insert")), single, axis)


@public(static=("positions", "single", "axis"))
def _insert(arr: ArrayLike, values: ArrayLike, positions: tuple[int, ...], single: bool, axis: int | None) -> Array:
    t = lift(arr)
    node, i = _along(t.node, axis, "insert")
    v = build.cast(lift(values).node, node.dtype)
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
    """Without leading ("f") and trailing ("b") zeros; the values must be concrete."""
    data = host(filt, "trim_zeros", "the number of zeros decides the shape")
    return array(np.trim_zeros(data, trim))
