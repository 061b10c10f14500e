"""Order and sets: sorting, searching, selecting, unique elements, counting.

NaN sorts last; sorts are stable. Functions whose result has a size that depends on values take
`size=` (with `fill_value=`
for what is missing) and then work inside a stage; without it they need concrete arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import note_user_line
from fgrad.numpy.common import (
    axis_of,
    broadcast,
    lift,
    public,
)
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]


# ---- sorting
def sorted_with(key: UOp, payloads: Sequence[UOp], axis: int) -> list[UOp]:
    """key and payloads in the stable ascending order of the keys."""
    if key.dtype.is_complex:  # by the imaginary part first, then, stably, by the real part
        im, re, *rest = sorted_with(build.imag(key), [build.real(key), *payloads], axis)
        re, im, *rest = sorted_with(re, [im, *rest], axis)
        return [build.complex_(re, im), *rest]
    if key.dtype is dt.bool_:
        order = sorted_with(build.cast(key, dt.uint8), payloads, axis)
        return [build.cast(order[0], dt.bool_), *order[1:]]
    node = uop(Op.SORT, (key, *payloads), axis)
    return [uop(Op.GET, (node,), i) for i in range(1 + len(payloads))]


def _along(x: UOp, axis: Any, name: str) -> tuple[UOp, int]:
    if axis is None:
        return build.reshape(x, (x.size,)), 0
    return x, axis_of(axis, x.ndim, name)


@public(static=("axis", "kind", "order", "stable", "descending"))
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements along `axis` (None: laid out flat) in ascending order, NaN last.

    Equal elements keep their order; `kind` and `order` are accepted for NumPy's sake.

    >>> sort(array([3.0, nan, 1.0]))
    Array([ 1.,  3., nan], dtype=float32)
    >>> sort(array([[3, 1], [2, 4]]), axis=0, descending=True)
    Array([[3, 4],
           [2, 1]], dtype=int64)
    """
    t = lift(a)
    x, i = _along(t.node, axis, "sort")
    out = sorted_with(x, (), i)[0]
    return Tracer(build.flip(out, (i,)) if descending else out, t.weak)


@public(static=("axis", "kind", "order", "stable", "descending"))
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """int64: the positions that sort the elements along `axis`; equal elements keep their order.

    NaN stand last. `descending` turns the order around, ties still in theirs.

    >>> argsort(array([3, 1, 2]))
    Array([1, 2, 0], dtype=int64)
    >>> argsort(array([3, 1, 2]), descending=True)
    Array([0, 2, 1], dtype=int64)
    """
    x, i = _along(lift(a).node, axis, "argsort")
    here = build.iota_along(x.shape, i)
    if not descending:
        return Tracer(sorted_with(x, (here,), i)[1])
    from_end = sorted_with(build.flip(x, (i,)), (here,), i)[1]
    last = build.const(x.shape[i] - 1, dt.int64, x.shape)
    return Tracer(build.sub(last, build.flip(from_end, (i,))))


@public(static=("kth", "axis"))
def partition(a: ArrayLike, kth: Any, axis: int | None = -1) -> Array:
    """An order in which the k-th element is where sorting puts it, and smaller ones stand before.

    Here that is the sorted order.

    >>> partition(array([3, 1, 2]), 1)
    Array([1, 2, 3], dtype=int64)
    """
    return sort(a, axis)


@public(static=("kth", "axis"))
def argpartition(a: ArrayLike, kth: Any, axis: int | None = -1) -> Array:
    """int64: the positions that partition; here: those that sort.

    >>> argpartition(array([3, 1, 2]), 1)
    Array([1, 2, 0], dtype=int64)
    """
    return argsort(a, axis)


@public()
def sort_complex(a: ArrayLike) -> Array:
    """Sorted by real, then by imaginary part, as complex numbers.

    -> complex, along the last axis.

    >>> sort_complex(array([2 + 1j, 1 - 1j, 1 - 2j]))
    Array([1.-2.j, 1.-1.j, 2.+1.j], dtype=complex64)
    """
    x = lift(sort(a)).node
    if not x.dtype.is_complex:
        to = dt.complex_of(x.dtype)
        part = build.cast(x, dt.real_of(to))
        x = build.complex_(part, build.zeros_like(part))
    return Tracer(x)


@public(static=("axis",))
def lexsort(keys: Any, axis: int = -1) -> Array:
    """int64: the positions that sort by the last key, ties by the one before, and so on.

    >>> lexsort((array([2, 1, 3]), array([1, 1, 0])))
    Array([2, 1, 0], dtype=int64)
    """
    if isinstance(keys, Array | np.ndarray):
        t = lift(keys)
        nodes = [build.reshape(build.slice_axis(t.node, 0, k, k + 1), t.shape[1:]) for k in range(t.shape[0])]
    else:
        nodes = [lift(k).node for k in keys]
    if not nodes:
        raise note_user_line(ValueError("lexsort: needs at least one key"))
    nodes = broadcast("lexsort", *nodes)
    if not nodes[0].ndim:
        return Tracer(build.const(0, dt.int64))
    i = axis_of(axis, nodes[0].ndim, "lexsort")
    order_ = build.iota_along(nodes[0].shape, i)
    while nodes:
        _, *rest = sorted_with(nodes[0], [*nodes[1:], order_], i)
        nodes, order_ = rest[:-1], rest[-1]
    return Tracer(order_)
