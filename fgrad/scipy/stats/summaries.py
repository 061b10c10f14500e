"""Statistics of samples: the most frequent value, ranks, the standard error of the mean."""

from __future__ import annotations

from typing import Any, NamedTuple

from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, DtypeError, note_user_line
from fgrad.lax.reductions import cummax
from fgrad.numpy.common import axis_of, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, lift


class ModeResult(NamedTuple):
    """The most frequent values, and how often each is there."""

    mode: Any
    count: Any


def _policy(nan_policy: str, name: str, *known: str) -> None:
    if nan_policy not in known:
        raise note_user_line(ArgumentError(f"{name}: nan_policy must be one of {', '.join(known)}, got {nan_policy!r}"))


def _same(x: Any, y: Any) -> Any:
    """Equality for which NaN equals NaN."""
    return (x == y) | ((x != x) & (y != y))


def _run_starts(ordered: Any) -> Any:
    """int[n, *s] -> int32[n, *s]: for sorted values, where the run of equal values around each begins."""
    n = ordered.shape[0]
    index = fnp.reshape(fnp.arange(n, dtype="int32"), (n, *[1] * (ordered.ndim - 1)))
    new = fnp.concatenate([fnp.ones_like(ordered[:1], dtype=bool), ~_same(ordered[1:], ordered[:-1])])
    return cummax(fnp.where(new, index, fnp.zeros_like(index)), axis=0)


@public(static=("axis", "nan_policy", "keepdims"))
def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent value along `axis` (of everything for None), the smallest of equally frequent ones.

    -> (mode, count), without the axis, or with it at size 1 for `keepdims`. NaNs count as one value; there is no mode
    of nothing: it is NaN, with count 0.

    >>> mode(fnp.array([[1, 2], [3, 2], [1, 5]]))
    ModeResult(mode=Array([1, 2], dtype=int64), count=Array([2, 2], dtype=int32))
    """
    _policy(nan_policy, "mode", "propagate")
    x = fnp.asarray(lift(a))
    if x.dtype.kind == "c":
        raise note_user_line(DtypeError("mode: complex numbers have no order"))
    rank = x.ndim
    x = fnp.ravel(x) if axis is None else fnp.moveaxis(x, axis_of(axis, x.ndim, "mode"), 0)
    if x.size == 0:
        values = fnp.full(x.shape[1:], fnp.nan)
        counts = fnp.zeros(x.shape[1:])
    else:
        ordered = fnp.sort(x, axis=0)
        index = fnp.reshape(fnp.arange(x.shape[0], dtype="int32"), (-1, *[1] * (x.ndim - 1)))
        length = index - _run_starts(ordered) + 1
        last = fnp.argmax(length, axis=0, keepdims=True)  # the end of the first of the longest runs
        values = fnp.take_along_axis(ordered, last, axis=0)[0]
        counts = fnp.max(length, axis=0)
    if keepdims and axis is None:
        values, counts = [fnp.reshape(v, (1,) * rank) for v in (values, counts)]
    elif keepdims and axis is not None:
        values, counts = [fnp.expand_dims(v, axis) for v in (values, counts)]
    return ModeResult(values, counts)


@public(static=("method", "axis", "nan_policy"))
def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Ranks from 1 on along `axis` (of the flattened array for None).

    method   what equal values get: their `average`, `min` or `max` rank, `dense` (no gaps), or `ordinal` (as they come)

    A NaN makes all ranks along its axis NaN.

    >>> rankdata(fnp.array([10, 30, 20, 20]))
    Array([1. , 4. , 2.5, 2.5], dtype=float32, weak_type=True)
    >>> rankdata(fnp.array([10, 30, 20, 20]), method="min")
    Array([1, 4, 2, 2], dtype=int32)
    """
    _policy(nan_policy, "rankdata", "propagate")
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise note_user_line(ArgumentError(f"rankdata: method must be average, min, max, dense or ordinal: {method!r}"))
    x = fnp.asarray(lift(a))
    if axis is None:
        return rankdata(fnp.ravel(x), method, axis=0, nan_policy=nan_policy)
    place = axis_of(axis, x.ndim, "rankdata")
    x = fnp.moveaxis(x, place, 0)
    n = x.shape[0]
    if x.size == 0:
        return fnp.moveaxis(fnp.zeros(x.shape), 0, place)
    order = fnp.argsort(x, axis=0)
    back = fnp.argsort(order, axis=0)  # the place of each element in sorted order
    if method == "ordinal":
        rank: Any = back + 1
    else:
        ordered = fnp.take_along_axis(x, order, axis=0)
        starts = _run_starts(ordered)
        ends = n - 1 - fnp.flip(_run_starts(fnp.flip(ordered, axis=0)), axis=0)
        index = fnp.reshape(fnp.arange(n, dtype="int32"), (n, *[1] * (x.ndim - 1)))
        by_place = {
            "average": (starts + ends) * 0.5 + 1,
            "min": starts + 1,
            "max": ends + 1,
            "dense": fnp.cumsum((starts == index).astype("int32"), axis=0),
        }[method]
        rank = fnp.take_along_axis(by_place, back, axis=0)
    if x.dtype.kind not in "iub":
        rank = fnp.where(fnp.any(fnp.isnan(x), axis=0, keepdims=True), fnp.nan, rank)
    return fnp.moveaxis(rank, 0, place)


@public(static=("axis", "ddof", "nan_policy", "keepdims"))
def sem(
    a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Array:
    """The standard error of the mean: std(ddof) / sqrt(n).

    nan_policy   `propagate`: a NaN makes the result NaN; `omit`: NaNs are left out

    >>> sem(fnp.array([1.0, 2.0, 3.0, 6.0]))
    Array(1.0801234, dtype=float32)
    """
    _policy(nan_policy, "sem", "propagate", "omit")
    x = fnp.multiply(lift(a), 1.0)
    if nan_policy == "propagate":
        count: Any = x.size if axis is None else x.shape[axis_of(axis, x.ndim, "sem")]
        return fnp.std(x, axis=axis, ddof=ddof, keepdims=keepdims) / fnp.sqrt(float(count)).astype(x.dtype)
    count = fnp.sum(~fnp.isnan(x), axis=axis, keepdims=keepdims)
    return fnp.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims) / fnp.sqrt(count.astype(x.dtype))


__all__ = ["ModeResult", "mode", "rankdata", "sem"]
