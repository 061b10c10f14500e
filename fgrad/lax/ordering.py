"""Sorting and the largest elements. Sorting is ascending and stable; NaN comes last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import axis_of, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import gets


def sort_nodes(keys: Sequence[UOp], payloads: Sequence[UOp], axis: int) -> list[UOp]:
    """Keys and payloads in the order of the first key, ties in that of the next, and so on."""
    everything = [*keys, *payloads]
    for i in range(len(keys) - 1, -1, -1):
        current = everything[i]
        if current.dtype.is_complex:  # by the imaginary part, then stably by the real one
            for part in (build.imag, build.real):
                everything = gets(uop(Op.SORT, (part(everything[i]), *everything), axis))[1:]
        else:
            rest = [*everything[:i], *everything[i + 1 :]]
            done = gets(uop(Op.SORT, (current, *rest), axis))
            everything = [*done[1 : i + 1], done[0], *done[i + 1 :]]
    return everything


def largest(x: UOp, k: int, axis: int) -> tuple[UOp, UOp]:
    """-> (the `k` largest along `axis`, largest first, NaN before all; their positions, ties in order)."""
    ascending = gets(uop(Op.SORT, (build.flip(x, [axis]), build.iota_along(x.shape, axis)), axis))
    values, from_end = [build.slice_axis(build.flip(v, [axis]), axis, 0, k) for v in ascending]
    return values, build.sub(build.const(x.shape[axis] - 1, dt.int64, values.shape), from_end)


@public(static=("dimension", "is_stable", "num_keys"))
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Elements in ascending order along `dimension`.

    operand   an array, or a sequence of arrays of one shape: all are put into the order of the
              first `num_keys`

    >>> lax.sort((fnp.array([3, 1, 2]), fnp.array([30, 10, 20])))
    (Array([1, 2, 3], dtype=int64), Array([10, 20, 30], dtype=int64))
    """
    is_many = isinstance(operand, list | tuple)
    arrays = [lift(x) for x in (operand if is_many else [operand])]
    if not arrays or len({x.shape for x in arrays}) != 1:
        raise note_user_line(ShapeError(f"sort needs arrays of one shape, got {[x.shape for x in arrays]}"))
    if not 1 <= num_keys <= len(arrays):
        raise note_user_line(ArgumentError(f"sort of {len(arrays)} arrays got num_keys={num_keys}"))
    axis = axis_of(dimension, arrays[0].ndim, "sort")
    nodes = [x.node for x in arrays]
    done = sort_nodes(nodes[:num_keys], nodes[num_keys:], axis)
    out = tuple([Tracer(y, x.weak) for y, x in zip(done, arrays, strict=True)])
    return out if is_many else out[0]


def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> Any:
    """-> (keys in ascending order along `dimension`, values in the same order).

    >>> lax.sort_key_val(fnp.array([3, 1, 2]), fnp.array([30, 10, 20]))
    (Array([1, 2, 3], dtype=int64), Array([10, 20, 30], dtype=int64))
    """
    return sort((keys, values), dimension, is_stable, 1)


@public(static=("k", "axis"))
def top_k(operand: ArrayLike, k: int, axis: int = -1) -> tuple[Array, Array]:
    """The `k` largest elements along `axis`, largest first, and their positions.

    -> (values, int64 positions), each with k elements along the axis. Ties come in order, NaN counts as largest.

    >>> lax.top_k(fnp.array([3, 9, 5]), 2)
    (Array([9, 5], dtype=int64), Array([1, 2], dtype=int64))
    """
    t = lift(operand)
    need(not t.node.dtype.is_complex, "top_k", "complex numbers have no order; use abs(x)")
    at = axis_of(axis, t.ndim, "top_k")
    if not 0 <= k <= t.shape[at]:
        raise note_user_line(ShapeError(f"top_k cannot take {k} of {t.shape[at]} elements"))
    values, places = largest(t.node, k, at)
    return Tracer(values, t.weak), Tracer(places)


def approx_max_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, **_: Any) -> tuple[Array, Array]:
    """The `k` largest and their positions; exact here.

    -> (values, int64 positions), each with k elements along the axis; options for a recall are accepted.

    >>> lax.approx_max_k(fnp.array([3.0, 9.0, 5.0]), 2)
    (Array([9., 5.], dtype=float32), Array([1, 2], dtype=int64))
    """
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, **_: Any) -> tuple[Array, Array]:
    """The `k` smallest and their positions; exact here.

    -> (values, int64 positions), each with k elements along the axis; options for a recall are accepted.

    >>> lax.approx_min_k(fnp.array([3.0, 9.0, 5.0]), 2)
    (Array([3., 5.], dtype=float32), Array([0, 2], dtype=int64))
    """
    return _bottom_k(operand, k, reduction_dimension)


@public(static=("k", "axis"))
def _bottom_k(operand: ArrayLike, k: int, axis: int) -> tuple[Array, Array]:
    t = lift(operand)
    at = axis_of(axis, t.ndim, "approx_min_k")
    values, places = gets(uop(Op.SORT, (t.node, build.iota_along(t.shape, at)), at))
    return (
        Tracer(build.slice_axis(values, at, 0, k), t.weak),
        Tracer(build.slice_axis(places, at, 0, k)),
    )


__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]
