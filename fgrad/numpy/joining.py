"""Putting arrays together and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import (
    DTypeLike,
    axis_of,
    host,
    lift,
    no_out,
    public,
)
from fgrad.numpy.creation import array
from fgrad.numpy.shapes import _atleast
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit",
    "dstack", "hsplit", "hstack", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip


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
                    f"{name}: shapes {', '.join(str(m.shape) for m in nodes)} differ on another "
                    f"axis than {i}; "
                    "they must agree everywhere else"
                )
            )
    return build.concatenate(nodes, i)


@public(static=("axis", "dtype"), moves=True)
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
    """`concatenate` under the array API's name.

    Raises ShapeError where other axes differ, and for 0-d arrays (use stack).

    >>> concat([array([1, 2]), array([3.0])])
    Array([1., 2., 3.], dtype=float32)
    """
    return concatenate(arrays, axis)


def _stacked(nodes: Sequence[UOp], axis: int, name: str) -> UOp:
    first = nodes[0].shape
    if any(n.shape != first for n in nodes):
        raise note_user_line(
            ShapeError(f"{name}: all arrays need one shape, got {', '.join(str(n.shape) for n in nodes)}")
        )
    i = axis_of(axis, len(first) + 1, name)
    return build.concatenate([build.reshape(n, (*first[:i], 1, *first[i:])) for n in nodes], i)


@public(static=("axis", "dtype"), moves=True)
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """The arrays side by side along a new axis.

    They need one shape, else ShapeError; dtypes are promoted.

    >>> stack([array([1, 2]), array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    no_out(out, "stack")
    nodes, weak = _parts(arrays, "stack", dtype)
    return Tracer(_stacked(nodes, axis, "stack"), weak)


def _atleast_parts(tup: Any, least: int, name: str, dtype: DTypeLike) -> tuple[list[UOp], bool]:
    nodes, weak = _parts(tup, name, dtype)
    return [lift(_atleast(Tracer(n), least)).node for n in nodes], weak


@public(static=("dtype",), moves=True)
def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Rows below each other.

    Vectors are rows; other axes must agree, else ShapeError.

    >>> vstack([array([1, 2]), array([[3, 4]])])
    Array([[1, 2],
           [3, 4]], dtype=int64)
    """
    nodes, weak = _atleast_parts(tup, 2, "vstack", dtype)
    return Tracer(joined(nodes, 0, "vstack"), weak)


@public(static=("dtype",), moves=True)
def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Columns beside each other; vectors one after the other.

    >>> hstack([array([1, 2]), array([3])])
    Array([1, 2, 3], dtype=int64)
    """
    nodes, weak = _atleast_parts(tup, 1, "hstack", dtype)
    return Tracer(joined(nodes, 0 if nodes[0].ndim == 1 else 1, "hstack"), weak)


@public(static=("dtype",))
def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Side by side along the third axis.

    Arrays of fewer axes are [1, n, 1] or [n, m, 1] first.

    >>> dstack([array([1, 2]), array([3, 4])]).shape
    (1, 2, 2)
    """
    nodes, weak = _atleast_parts(tup, 3, "dstack", dtype)
    return Tracer(joined(nodes, 2, "dstack"), weak)


@public()
def column_stack(tup: Any) -> Array:
    """Vectors as the columns of a matrix; matrices beside each other.

    >>> column_stack([array([1, 2]), array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    nodes, weak = _parts(tup, "column_stack")
    columns = [build.reshape(n, (n.size, 1)) if n.ndim < 2 else n for n in nodes]
    return Tracer(joined(columns, 1, "column_stack"), weak)


@public()
def block(arrays: Any) -> Array:
    """One array of nested lists of blocks: the innermost lists join along the last axis.

    Blocks of fewer axes get new ones in front; dtypes are promoted.

    >>> block([[ones((1, 2)), zeros((1, 1))], [array([7.0, 8.0, 9.0])]])
    Array([[1., 1., 0.],
           [7., 8., 9.]], dtype=float32)
    """

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


@public(static=("axis",), moves=True)
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after `arr` along `axis` (None: both laid out flat).

    Dtypes are promoted; with an axis the other sizes must agree, else ShapeError.

    >>> append(array([1, 2]), array([3]))
    Array([1, 2, 3], dtype=int64)
    """
    return concatenate([arr, values], axis)


# ---- splitting
def _places(parts: Any, name: str) -> int | tuple[int, ...]:
    """The number of parts, or where the parts begin, as Python integers."""
    given = host(parts, name, "give the places as Python integers")
    if given.ndim > 1:
        raise note_user_line(ShapeError(f"{name}: the places are a vector, got shape {given.shape}"))
    whole = given.astype(np.int64)
    if given.size and (whole != given).any():
        raise note_user_line(ArgumentError(f"{name}: a number of parts and places must be integers, got {parts!r}"))
    return tuple(whole.tolist()) if given.ndim else int(whole)


def _cuts(n: int, parts: int | tuple[int, ...], name: str, even: bool) -> list[int]:
    """Where the parts begin, and n at the end."""
    if isinstance(parts, int):
        if parts <= 0:
            raise note_user_line(ValueError(f"{name}: the number of parts must be positive, got {parts}"))
        if even and n % parts:
            raise note_user_line(
                ShapeError(
                    f"{name}: {n} elements do not split into {parts} equal parts; use array_split or give the places"
                )
            )
        small, larger = builtin_divmod(n, parts)
        return [i * small + min(i, larger) for i in range(parts + 1)]
    places = [min(max(p + n if p < 0 else p, 0), n) for p in parts]
    return [0, *places, n]


def builtin_divmod(n: int, k: int) -> tuple[int, int]:
    """Quotient and remainder of Python ints."""
    return n // k, n % k


@public(static=("parts", "axis", "name", "even"), moves=True)
def _split(ary: ArrayLike, parts: int | tuple[int, ...], axis: int, name: str, even: bool) -> list[Array]:
    t = lift(ary)
    i = axis_of(axis, t.ndim, name)
    cuts = _cuts(t.shape[i], parts, name, even)
    pairs = zip(cuts[:-1], cuts[1:], strict=True)
    return [Tracer(build.slice_axis(t.node, i, a, max(a, b)), t.weak) for a, b in pairs]


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Equal parts along `axis` (an int), or parts that begin at the given places (concrete integers).

    Raises ShapeError where the axis has no equal parts (use array_split).

    >>> [part.tolist() for part in split(arange(4), 2)]
    [[0, 1], [2, 3]]
    >>> [part.tolist() for part in split(arange(4), [1, 3])]
    [[0], [1, 2], [3]]
    """
    return _split(ary, _places(indices_or_sections, "split"), axis, "split", True)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`split` into nearly equal parts: the first ones are larger by one.

    indices_or_sections   a number of parts, or the places where parts begin

    >>> [part.tolist() for part in array_split(arange(5), 3)]
    [[0, 1], [2, 3], [4]]
    """
    return _split(ary, _places(indices_or_sections, "array_split"), axis, "array_split", False)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis (the first one of vectors).

    >>> [part.tolist() for part in hsplit(array([[1, 2, 3]]), [1])]
    [[[1]], [[2, 3]]]
    """
    return _split(ary, _places(indices_or_sections, "hsplit"), 0 if np.ndim(ary) == 1 else 1, "hsplit", True)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis.

    >>> [part.tolist() for part in vsplit(array([[1, 2], [3, 4]]), 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _split(ary, _places(indices_or_sections, "vsplit"), 0, "vsplit", True)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis.

    >>> [part.shape for part in dsplit(ones((2, 3, 4)), 2)]
    [(2, 3, 2), (2, 3, 2)]
    """
    return _split(ary, _places(indices_or_sections, "dsplit"), 2, "dsplit", True)


@public(static=("axis",))
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices along `axis`, one array each.

    >>> unstack(array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int64), Array([3, 4], dtype=int64))
    """
    t = lift(x)
    i = axis_of(axis, t.ndim, "unstack")
    gone = (*t.shape[:i], *t.shape[i + 1 :])
    return tuple(
        [Tracer(build.reshape(build.slice_axis(t.node, i, k, k + 1), gone), t.weak) for k in range(t.shape[i])]
    )
