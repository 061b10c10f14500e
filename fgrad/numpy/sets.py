"""Sets: different elements, membership, unions and intersections."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

import numpy as np

from fgrad.numpy.common import (
    axis_of,
    from_host,
    host,
    is_traced,
    lift,
    public,
)
from fgrad.numpy.creation import listed
from fgrad.numpy.extremes import has_nan
from fgrad.numpy.running import prefix
from fgrad.numpy.searching import count_before, positions_of
from fgrad.numpy.sorting import sorted_with
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op

__all__ = [
    "in1d", "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


# ---- sets
class UniqueAll(NamedTuple):
    """values, first positions, position of each element among the values, counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """values, counts."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """values, position of each element among the values."""

    values: Array
    inverse_indices: Array


@public(static=("size", "equal_nan"))
def _unique_sized(ar: ArrayLike, fill_value: Any, size: int, equal_nan: bool) -> tuple[Array, Array, Array, Array]:
    t = lift(ar)
    flat = build.reshape(t.node, (t.size,))
    n = t.size
    key, order_ = sorted_with(flat, (build.iota(n),), 0)
    if not n:
        empty = build.const(0, dt.int64, (size,))
        none = build.const(0, flat.dtype, (size,))
        return Tracer(none), Tracer(empty), Tracer(build.const(0, dt.int64, t.shape)), Tracer(empty)
    before, after = build.slice_axis(key, 0, 0, n - 1), build.slice_axis(key, 0, 1, n)
    same = build.eq(before, after)
    if equal_nan and key.dtype.is_inexact:
        same = build.or_(same, build.and_(has_nan(before), has_nan(after)))
    first = build.concatenate([build.const(True, dt.bool_, (1,)), build.not_(same)], 0)
    place = positions_of(first, size, build.const(n, dt.int64))
    there = build.lt(place, n)
    fill = build.slice_axis(key, 0, 0, 1) if fill_value is None else cast_node(fill_value, key.dtype)
    values = build.where(there, build.gather(key, place), build.broadcast_to(fill, (size,)))
    indices = build.where(
        there,
        build.gather(order_, place),
        build.broadcast_to(build.slice_axis(order_, 0, 0, 1), (size,)),
    )
    group = build.minimum(build.sub(prefix(build.cast(first, dt.int64), 0, Op.ADD), 1), max(size - 1, 0))
    inverse = build.update(build.const(0, dt.int64, (n,)), group, mode=Mode.SET, idx=order_)
    following = build.concatenate(
        [build.slice_axis(place, 0, min(1, size), size), build.const(n, dt.int64, (min(1, size),))],
        0,
    )
    counts = build.where(there, build.sub(following, place), build.zeros_like(place))
    return Tracer(values), Tracer(indices), Tracer(build.reshape(inverse, t.shape)), Tracer(counts)


def _cut(x: Any, size: int, fill: Any, axis: int) -> Any:
    """Host rows cut or filled up to `size`."""
    n = x.shape[axis]
    if n >= size:
        return np.take(x, range(size), axis)
    first = np.take(x, [0], axis) if n else np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
    more = np.full_like(first, fill) if fill is not None else first
    return np.concatenate([x, np.repeat(more, size - n, axis)], axis)


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The different elements in ascending order; on request with first positions, inverse and counts.

    return_index, return_inverse, return_counts   -> (values, *what is asked for), the latter as int64
    axis         slices along it count as elements; None: all elements
    equal_nan    NaNs count as one
    size         the number of elements in the result, needed inside a stage
    fill_value   what follows when there are fewer (the smallest element by default)

    Without `size` the values must be concrete: raises ConcretizationError inside a stage.

    >>> unique(array([3, 1, 3, 2]), return_counts=True)
    (Array([1, 2, 3], dtype=int64), Array([1, 1, 2], dtype=int64))
    >>> jit(lambda x: unique(x, size=4))(array([3, 1, 3, 2]))
    Array([1, 2, 3, 1], dtype=int64)
    """
    wanted = (True, return_index, return_inverse, return_counts)
    if size is not None and axis is None:
        out: Any = _unique_sized(ar, fill_value, size, equal_nan)
    else:
        data = host(ar, "unique", "give size= (and axis=None)", True)
        found = np.unique(data, True, True, True, axis, equal_nan=equal_nan)
        parts = [np.asarray(found[0]), found[1], np.asarray(found[2]), found[3]]
        if size is not None:
            i = axis_of(axis, data.ndim, "unique")
            parts[0], parts[1], parts[3] = (
                _cut(parts[0], size, fill_value, i),
                _cut(parts[1], size, None, 0),
                _cut(parts[3], size, 0, 0),
            )
        parts[2] = parts[2].reshape(data.shape if axis is None else (-1,))
        out = [from_host(p) for p in parts]
    chosen = tuple([x for x, w in zip(out, wanted, strict=True) if w])
    return chosen[0] if len(chosen) == 1 else chosen


def unique_all(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The different elements with first positions, inverse and counts; NaNs all differ.

    `size` and `fill_value` as in `unique`.

    >>> unique_all(array([3, 1, 3])).indices
    Array([1, 0], dtype=int64)
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The different elements and how often each occurs.

    `size` and `fill_value` as in `unique`; NaNs all differ.

    >>> unique_counts(array([3, 1, 3])).counts
    Array([1, 2], dtype=int64)
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The different elements, and for each element of x its position among them.

    `size` and `fill_value` as in `unique`; NaNs all differ.

    >>> unique_inverse(array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int64)
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The different elements.

    `size` and `fill_value` as in `unique`; NaNs all differ.

    >>> unique_values(array([3, 1, 3]))
    Array([1, 3], dtype=int64)
    """
    out: Array = unique(x, equal_nan=False, size=size, fill_value=fill_value)
    return out


@public(static=("invert",))
def _isin(element: ArrayLike, test_elements: ArrayLike, invert: bool) -> Array:
    (x, tests), _, _ = promoted(listed(element), listed(test_elements))
    flat = build.reshape(tests, (tests.size,))
    if not tests.size:
        return Tracer(build.const(invert, dt.bool_, x.shape))
    ordered = sorted_with(flat, (), 0)[0]
    at = build.minimum(count_before(ordered, x, False), tests.size - 1)
    found = build.eq(build.gather(ordered, at), x)
    return Tracer(build.not_(found) if invert else found)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether every element of the first array occurs in the second.

    -> bool, shaped as `element`; with `invert` whether it does not occur. NaN occurs nowhere.

    assume_unique, method   are accepted for NumPy's sake

    >>> isin(array([1, 2, 3]), array([3, 1, 5]))
    Array([ True, False,  True], dtype=bool)
    """
    return _isin(element, test_elements, invert)


def in1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, invert: bool = False, *, method: str = "auto"
) -> Array:
    """`isin` of the first array's elements in row-major order, as one vector.

    [*s], [*t] -> bool[prod(s)]; with `invert` whether each does not occur in the second array

    >>> in1d(array([[1, 2], [3, 4]]), array([3, 1]))
    Array([ True, False,  True, False], dtype=bool)
    """
    return _isin(ar1, ar2, invert).reshape(-1)


def _both_hosted(name: str, x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    instead = "give size=, the number of elements wanted"
    return host(x, name, instead, True), host(y, name, instead, True)


def _is_sized(size: int | None, *arrays: ArrayLike) -> TypeGuard[int]:
    """Whether the values are not known yet, but the size of the result is."""
    return size is not None and any(is_traced(a) for a in arrays)


def _sized(values: Any, size: int | None, fill_value: Any) -> Array:
    return from_host(values if size is None else _cut(values, size, fill_value, 0))


def _flat_pair(x: ArrayLike, y: ArrayLike) -> list[UOp]:
    (a, b), _, _ = promoted(listed(x), listed(y))
    return [build.reshape(v, (v.size,)) for v in (a, b)]


def _kept(x: UOp, keep: UOp, size: int, fill: ArrayLike | None) -> UOp:
    """[n], bool[n] -> [size]: the different kept elements, ascending; `fill` (None: the smallest) after them.

    Equal elements are kept or dropped together.
    """
    n = x.shape[0]
    if not n:
        return build.broadcast_to(cast_node(0 if fill is None else fill, x.dtype), (size,))
    ordered, kept = sorted_with(x, (keep,), 0)
    before, after = build.slice_axis(ordered, 0, 0, n - 1), build.slice_axis(ordered, 0, 1, n)
    new = build.concatenate([build.const(True, dt.bool_, (1,)), build.ne(before, after)], 0)
    return _picked(ordered, build.and_(new, kept), size, fill)


def _picked(x: UOp, mask: UOp, size: int, fill: ArrayLike | None) -> UOp:
    """The elements of the vector where the mask holds, in order; `fill` (None: the first of them) after them."""
    n = x.shape[0]
    place = positions_of(mask, size, build.const(n, dt.int64))
    found = build.gather(x, place)
    rest = build.slice_axis(found, 0, 0, min(1, size)) if fill is None else cast_node(fill, x.dtype)
    return build.where(build.lt(place, n), found, build.broadcast_to(rest, (size,)))


def _in(x: UOp, y: UOp) -> UOp:
    return lift(_isin(Tracer(x), Tracer(y), False)).node


@public(static=("size",))
def _intersection(x: ArrayLike, y: ArrayLike, fill_value: Any, size: int) -> tuple[Array, Array, Array]:
    a, b = _flat_pair(x, y)
    shared = _in(a, b)
    values = _kept(a, shared, size, fill_value)
    found = _kept(a, shared, size, None)  # positions repeat the first ones where values are filled

    def first(v: UOp) -> UOp:
        if not v.size:
            return build.const(0, dt.int64, (size,))
        ordered, order = sorted_with(v, (build.iota(v.size),), 0)
        return build.gather(order, build.minimum(count_before(ordered, found, False), v.size - 1))

    return Tracer(values), Tracer(first(a)), Tracer(first(b))


@public(static=("size", "assume_unique"))
def _difference(x: ArrayLike, y: ArrayLike, fill_value: ArrayLike, size: int, assume_unique: bool) -> Array:
    missing = build.not_(_in(*_flat_pair(x, y)))
    own = listed(x)
    flat = build.reshape(own.node, (own.size,))
    pick = _picked if assume_unique else _kept  # NumPy then leaves the order as it is
    return Tracer(pick(flat, missing, size, fill_value))


@public(static=("size",))
def _symmetric_difference(x: ArrayLike, y: ArrayLike, fill_value: Any, size: int) -> Array:
    a, b = _flat_pair(x, y)
    single = build.concatenate([build.not_(_in(a, b)), build.not_(_in(b, a))], 0)
    return Tracer(_kept(build.concatenate([a, b], 0), single, size, fill_value))


@public()
def _joined_flat(x: ArrayLike, y: ArrayLike) -> Array:
    return Tracer(build.concatenate(_flat_pair(x, y), 0))


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The elements that occur in either array, ascending.

    -> [size]; without `size` the values must be concrete. `fill_value` as in `unique`.

    >>> union1d(array([3, 1]), array([1, 2]))
    Array([1, 2, 3], dtype=int64)
    """
    out: Array = unique(_joined_flat(ar1, ar2), size=size, fill_value=fill_value)
    return out


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements that occur in both arrays, ascending; on request with positions in each.

    -> [size]; without `size` the values must be concrete.

    return_indices   -> (values, first positions in ar1, first positions in ar2)

    >>> intersect1d(array([3, 1, 2]), array([2, 3]))
    Array([2, 3], dtype=int64)
    """
    if _is_sized(size, ar1, ar2):
        sized = _intersection(ar1, ar2, fill_value, size)
        return sized if return_indices else sized[0]
    common_elements: Any = np.intersect1d
    pair = _both_hosted("intersect1d", ar1, ar2)
    found = common_elements(*pair, assume_unique, return_indices)
    if return_indices:
        return (_sized(found[0], size, fill_value), *[_sized(i, size, None) for i in found[1:]])
    return _sized(found, size, fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The elements of the first array that the second has not, ascending.

    -> [size]; without `size` the values must be concrete. `fill_value` is 0 by default.

    >>> setdiff1d(array([3, 1, 2]), array([2]))
    Array([1, 3], dtype=int64)
    """
    fill_value = 0 if fill_value is None else fill_value
    if _is_sized(size, ar1, ar2):
        return _difference(ar1, ar2, fill_value, size, assume_unique)
    return _sized(np.setdiff1d(*_both_hosted("setdiff1d", ar1, ar2), assume_unique), size, fill_value)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """The elements that occur in exactly one of the arrays, ascending.

    -> [size]; without `size` the values must be concrete.

    >>> setxor1d(array([3, 1]), array([1, 2]))
    Array([2, 3], dtype=int64)
    """
    if _is_sized(size, ar1, ar2):
        return _symmetric_difference(ar1, ar2, fill_value, size)
    return _sized(np.setxor1d(*_both_hosted("setxor1d", ar1, ar2), assume_unique), size, fill_value)
