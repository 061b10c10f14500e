"""Reductions over segments: elements with equal ids are combined."""

from __future__ import annotations

from typing import Any

from fgrad import numpy as fnp
from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import highest, host, lowest, public
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import ArrayLike, lift
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType


def _count(segment_ids: ArrayLike, num_segments: int | None, name: str) -> int:
    if num_segments is not None:
        if int(num_segments) < 0:
            raise note_user_line(ShapeError(f"{name}: num_segments must not be negative, got {num_segments}"))
        return int(num_segments)
    ids = host(segment_ids, name, "give num_segments=, the number of segments")
    return int(ids.max(initial=-1)) + 1


@public(static=("how", "count", "name", "mode"))
def _reduce(data: ArrayLike, segment_ids: ArrayLike, how: str, count: int, name: str, mode: str | None) -> Array:
    x, ids = lift(data), lift(segment_ids)
    if x.shape[:1] != ids.shape[:1] or ids.ndim != 1:
        raise note_user_line(
            ShapeError(f"{name}: segment_ids must be a vector as long as data, got {ids.shape} for data {x.shape}")
        )
    out = fnp.full((count, *x.shape[1:]), _start(x.node.dtype, how), dtype=x.dtype)
    # ids below 0 name no segment: they are dropped, and do not count from the end
    kept = fnp.where(fnp.less(ids, 0), count, ids)
    return getattr(out.at[kept], how)(x, mode=mode or "drop")


def _start(dtype: DType, how: str) -> Any:
    if how in ("add", "multiply"):
        return int(how == "multiply")
    if dtype is dt.bool_:
        return how == "min"
    return lowest(dtype) if how == "max" else highest(dtype)


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """The sum of each segment: data [n, *s], segment_ids int[n] -> [num_segments, *s]; 0 for an empty segment.

    num_segments   the number of segments; by default the largest id + 1, which must then be concrete. Ids outside
                   0 .. num_segments - 1 are dropped
    mode           what happens to ids out of bounds: `drop` (default), `clip` or `wrap`
    indices_are_sorted, unique_indices, bucket_size   without effect on the result

    >>> import fgrad.numpy as fnp
    >>> segment_sum(fnp.array([1, 2, 3]), fnp.array([0, 0, 2]), 3)
    Array([3, 0, 3], dtype=int64)
    """
    return _reduce(data, segment_ids, "add", _count(segment_ids, num_segments, "segment_sum"), "segment_sum", mode)


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """The product of each segment; 1 for a segment without elements. Arguments as for segment_sum.

    >>> segment_prod(fnp.array([2, 3, 4]), fnp.array([0, 0, 2]), 3)
    Array([6, 1, 4], dtype=int64)
    """
    count = _count(segment_ids, num_segments, "segment_prod")
    return _reduce(data, segment_ids, "multiply", count, "segment_prod", mode)


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """The maximum of each segment; the smallest value of the dtype (-inf) for a segment without elements.

    Arguments as for segment_sum.

    >>> segment_max(fnp.array([1.0, 2.0, 3.0]), fnp.array([0, 0, 2]), 3)
    Array([  2., -inf,   3.], dtype=float32)
    """
    return _reduce(data, segment_ids, "max", _count(segment_ids, num_segments, "segment_max"), "segment_max", mode)


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """The minimum of each segment; the largest value of the dtype (inf) for a segment without elements.

    Arguments as for segment_sum.

    >>> segment_min(fnp.array([1.0, 2.0, 3.0]), fnp.array([0, 0, 2]), 3)
    Array([ 1., inf,  3.], dtype=float32)
    """
    return _reduce(data, segment_ids, "min", _count(segment_ids, num_segments, "segment_min"), "segment_min", mode)


__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

trim_public(globals(), __all__)
