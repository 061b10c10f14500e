"""Order and sets: sorting, searching, selecting, unique elements, counting.

NaN sorts last; sorts are stable. Functions whose result has a size that depends on values take `size=` (with `fill_value=`
for what is missing) and then work inside a stage; without it they need concrete arrays.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import (
    axis_of, broadcast, common, from_host, host, is_traced, lift, public, truth,
)  # fmt: skip
from fgrad.numpy.creation import listed
from fgrad.numpy.elementwise import has_nan, less_complex
from fgrad.numpy.reductions import prefix
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Mode, Op

__all__ = [
    "argpartition", "argsort", "argwhere", "bincount", "digitize", "flatnonzero", "in1d", "intersect1d", "isin",
    "lexsort", "nonzero", "partition", "piecewise", "searchsorted", "select", "setdiff1d", "setxor1d", "sort",
    "sort_complex", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip


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
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
    descending: bool = False,
) -> Array:  # fmt: skip
    """The elements along `axis` (None: laid out flat) in ascending order, NaN last."""
    t = lift(a)
    x, i = _along(t.node, axis, "sort")
    out = sorted_with(x, (), i)[0]
    return Tracer(build.flip(out, (i,)) if descending else out, t.weak)


@public(static=("axis", "kind", "order", "stable", "descending"))
def argsort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
    descending: bool = False,
) -> Array:  # fmt: skip
    """int64: the positions that sort the elements along `axis`; equal elements keep their order."""
    x, i = _along(lift(a).node, axis, "argsort")
    here = build.iota_along(x.shape, i)
    if not descending:
        return Tracer(sorted_with(x, (here,), i)[1])
    order_ = sorted_with(build.flip(x, (i,)), (build.flip(here, (i,)),), i)[1]
    return Tracer(build.flip(order_, (i,)))


@public(static=("kth", "axis"))
def partition(a: ArrayLike, kth: Any, axis: int | None = -1) -> Array:
    """An order in which the k-th element is where sorting puts it, smaller ones before; here: sorted."""
    return sort(a, axis)


@public(static=("kth", "axis"))
def argpartition(a: ArrayLike, kth: Any, axis: int | None = -1) -> Array:
    """int64: the positions that partition; here: those that sort."""
    return argsort(a, axis)


@public()
def sort_complex(a: ArrayLike) -> Array:
    """Sorted by real, then by imaginary part, as complex numbers."""
    x = lift(sort(a)).node
    if not x.dtype.is_complex:
        to = dt.complex_of(x.dtype)
        part = build.cast(x, dt.real_of(to))
        x = build.complex_(part, build.zeros_like(part))
    return Tracer(x)


@public(static=("axis",))
def lexsort(keys: Any, axis: int = -1) -> Array:
    """int64: the positions that sort by the last key, ties by the one before, and so on."""
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


# ---- searching
def _before(x: UOp, y: UOp) -> UOp:
    """x < y in sorting order, where NaN is the last."""
    if x.dtype.is_complex:
        return less_complex(x, y)
    if not x.dtype.is_float:
        return build.lt(x, y)
    return build.or_(build.lt(x, y), build.and_(has_nan(y), build.not_(has_nan(x))))


def count_before(a: UOp, v: UOp, right: bool) -> UOp:
    """int64 shaped as v: how many elements of the sorted vector lie before (`right`: not after) every element."""
    n = a.shape[0]
    flat = build.reshape(v, (v.size,))
    if n <= 16:
        grid = (flat.size, n)
        x, y = build.broadcast_to(a, grid), build.expand(flat, [(1, n)])
        goes = build.not_(_before(y, x)) if right else _before(x, y)
        count = build.reduce_(build.cast(goes, dt.int64), (1,))
        return build.reshape(count, v.shape)
    low = build.const(0, dt.int64, flat.shape)
    step = 1 << (n.bit_length() - 1)
    while step:  # the answer's bits from the highest down
        probe = build.add(low, step)
        x = build.gather(a, build.sub(probe, 1))
        goes = build.not_(_before(flat, x)) if right else _before(x, flat)
        fits = build.le(probe, n)
        low = build.where(build.and_(goes, fits), probe, low)
        step >>= 1
    return build.reshape(low, v.shape)


@public(static=("side", "method"))
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan"
) -> Array:
    """int64: where the elements of v belong in the sorted vector `a`, before equal ones ("left") or after ("right")."""
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: side must be "left" or "right", got {side!r}')
    (x, y), _, _ = promoted(listed(a), listed(v))
    if x.ndim != 1:
        raise note_user_line(ShapeError(f"searchsorted: a must be a vector, got shape {x.shape}"))
    if sorter is not None:
        x = build.gather(x, build.cast(lift(sorter).node, dt.int64))
    return Tracer(count_before(x, y, side == "right"))


@public(static=("right", "method"))
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """int64: the bin that every element falls in; bins ascend or descend, `right` includes their right edge."""
    (v, edges), _, _ = promoted(x, listed(bins))
    if edges.ndim != 1:
        raise note_user_line(ShapeError(f"digitize: bins must be a vector, got shape {edges.shape}"))
    n = edges.size
    if not n:
        return Tracer(build.const(0, dt.int64, v.shape))
    up = count_before(edges, v, not right)
    down = build.sub(build.const_like(n, up), count_before(build.flip(edges, (0,)), v, not right))
    first, last = (build.reshape(build.slice_axis(edges, 0, k, k + 1), ()) for k in (0, n - 1))
    return Tracer(build.where(build.broadcast_to(_before(last, first), v.shape), down, up))


# ---- where
@public()
def _choose_where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    (a, b), _, weak = common("where", x, y)
    c, a, b = broadcast("where", truth(lift(condition).node), a, b)
    return Tracer(build.where(c, a, b), weak)


def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, *, size: int | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """x where the condition holds, y elsewhere; with the condition alone: `nonzero`.

    >>> where(array([True, False]), 1., 2.)
    Array([1., 2.], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("where: give both x and y, or neither")
    if size is not None or fill_value is not None:
        raise ValueError("where: size= and fill_value= belong to the form with the condition alone")
    return _choose_where(condition, x, y)


@public()
def select(condlist: Any, choicelist: Any, default: ArrayLike = 0) -> Array:
    """For every element the choice of the first condition that holds, or `default`."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: {len(condlist)} conditions, but {len(choicelist)} choices")
    if not len(condlist):
        raise ValueError("select: needs at least one condition")
    nodes, _, weak = promoted(*choicelist, default)
    conditions = [truth(lift(c).node) for c in condlist]
    shaped = broadcast("select", *conditions, *nodes)
    conditions, choices = shaped[: len(conditions)], shaped[len(conditions) :]
    out = choices[-1]
    for c, v in reversed(list(zip(conditions, choices[:-1], strict=True))):
        out = build.where(c, v, out)
    return Tracer(out, weak)


def piecewise(x: ArrayLike, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """For every element the function (or number) of the last condition that holds; one more is for none of them."""
    t = x if isinstance(x, Array) else lift_any(x)
    conditions = [condlist] if not isinstance(condlist, list | tuple) else list(condlist)
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"piecewise: {len(conditions)} conditions need as many functions (or one more), got {len(functions)}")
    default = functions.pop() if len(functions) > len(conditions) else 0
    values = [f(t, *args, **kw) if callable(f) else f for f in [*functions[::-1], default]]
    return select(conditions[::-1], values[:-1], values[-1]).astype(t.dtype)  # type: ignore[attr-defined]


def lift_any(x: ArrayLike) -> Array:
    """An array of anything array-like."""
    return x if isinstance(x, Array) else from_host(np.asarray(x))


# ---- positions of what is not zero
def positions_of(mask: UOp, size: int, fill: UOp) -> UOp:
    """int64[size]: where the vector holds, in order; `fill` (scalar or [size]) where there is nothing more."""
    n = mask.shape[0]
    out = build.broadcast_to(fill, (size,))
    if not n or not size:
        return out
    rank = build.sub(prefix(build.cast(mask, dt.int64), 0, Op.ADD), 1)
    place = build.where(mask, rank, build.const_like(size, rank))  # out of bounds: not written
    return build.update(out, build.iota(n), mode=Mode.SET, idx=place)


@public(static=("size",))
def _nonzero(a: ArrayLike, fill_value: Any, size: int) -> Any:
    x = truth(lift(a).node)
    if not x.ndim:
        raise note_user_line(ShapeError("nonzero takes arrays with axes; use atleast_1d for a scalar"))
    flat = positions_of(build.reshape(x, (x.size,)), size, build.const(-1, dt.int64))
    missing = build.lt(flat, 0)
    fills = fill_value if isinstance(fill_value, tuple | list) else (fill_value,) * x.ndim
    out: list[Array] = []
    stride = x.size
    for n, fill in zip(x.shape, fills, strict=True):
        stride = stride // n if n else 1
        i = build.mod(build.idiv(flat, max(stride, 1)), max(n, 1))
        other = build.cast(lift(0 if fill is None else fill).node, dt.int64)
        out.append(Tracer(build.where(missing, build.broadcast_to(other, i.shape), i)))
    return tuple(out)


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """int64 positions of the nonzero elements, one vector for each axis.

    size   the length of the result: cut, or filled with `fill_value` (0). Needed inside a stage

    >>> nonzero(array([0, 3, 0, 4]))
    (Array([1, 3], dtype=int64),)
    """
    if size is None:
        data = host(a, "nonzero", "give size=, the number of positions wanted")
        return tuple([from_host(i) for i in np.nonzero(np.atleast_1d(data) if data.ndim == 0 else data)])
    out: tuple[Array, ...] = _nonzero(a, fill_value, size)
    return out


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """int64 positions of the nonzero elements of the array laid out flat."""
    if size is None:
        return from_host(np.flatnonzero(host(a, "flatnonzero", "give size=")))
    return _flatnonzero(a, fill_value, size)


@public(static=("size",))
def _flatnonzero(a: ArrayLike, fill_value: Any, size: int) -> Array:
    x = lift(a).node
    out: Array = _nonzero(Tracer(build.reshape(x, (x.size,))), fill_value, size)[0]
    return out


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """int64[n, ndim]: the positions of the nonzero elements as rows."""
    if size is None:
        return from_host(np.argwhere(host(a, "argwhere", "give size=")))
    return _argwhere(a, fill_value, size)


@public(static=("size",))
def _argwhere(a: ArrayLike, fill_value: Any, size: int) -> Array:
    columns = [lift(c).node for c in _nonzero(a, fill_value, size)]
    return Tracer(build.concatenate([build.reshape(c, (size, 1)) for c in columns], 1))


# ---- counting
@public(static=("length",))
def _bincount(x: ArrayLike, weights: ArrayLike | None, length: int) -> Array:
    idx = build.maximum(build.cast(lift(x).node, dt.int64), 0)
    if weights is None:
        value = build.const(1, dt.int64, idx.shape)
    else:
        value = build.broadcast_to(promoted(weights, least=dt.default_float())[0][0], idx.shape)
    return Tracer(build.update(build.const(0, value.dtype, (length,)), value, mode=Mode.ADD, idx=idx))


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """[n] of integers >= 0 -> how often every number occurs (or the sum of its weights).

    length   the size of the result, needed inside a stage; larger numbers are dropped
    """
    t = x if isinstance(x, Array) else np.asarray(x)
    if t.ndim != 1 or np.dtype(t.dtype).kind not in "iub":
        raise note_user_line(ArgumentError(f"bincount takes a vector of integers, got {t.dtype} of shape {t.shape}"))
    if length is None:
        data = host(x, "bincount", "give length=, the number of bins")
        if data.size and data.min() < 0:
            raise note_user_line(ValueError("bincount: the numbers must not be negative"))
        length = max(int(data.max(initial=-1)) + 1, minlength)
    return _bincount(x, weights, length)


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
    fill = build.slice_axis(key, 0, 0, 1) if fill_value is None else build.cast(lift(fill_value).node, key.dtype)
    values = build.where(there, build.gather(key, place), build.broadcast_to(fill, (size,)))
    indices = build.where(there, build.gather(order_, place), build.broadcast_to(build.slice_axis(order_, 0, 0, 1), (size,)))
    group = build.minimum(build.sub(prefix(build.cast(first, dt.int64), 0, Op.ADD), 1), max(size - 1, 0))
    inverse = build.update(build.const(0, dt.int64, (n,)), group, mode=Mode.SET, idx=order_)
    following = build.concatenate([build.slice_axis(place, 0, min(1, size), size), build.const(n, dt.int64, (min(1, size),))], 0)
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
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, size: int | None = None, fill_value: Any = None,
    sorted: bool = True,
) -> Any:  # fmt: skip
    """The different elements in ascending order; on request with first positions, inverse, and counts.

    size         the number of elements in the result, needed inside a stage
    fill_value   what follows when there are fewer (the smallest element by default)
    """
    wanted = (True, return_index, return_inverse, return_counts)
    if size is not None and axis is None:
        out: Any = _unique_sized(ar, fill_value, size, equal_nan)
    else:
        data = host(ar, "unique", "give size= (and axis=None)")
        found = np.unique(data, True, True, True, axis, equal_nan=equal_nan)
        parts = [np.asarray(found[0]), found[1], np.asarray(found[2]), found[3]]
        if size is not None:
            i = axis_of(axis, data.ndim, "unique")
            parts[0], parts[1], parts[3] = (_cut(parts[0], size, fill_value, i), _cut(parts[1], size, None, 0),
                                            _cut(parts[3], size, 0, 0))  # fmt: skip
        parts[2] = parts[2].reshape(data.shape if axis is None else (-1,))
        out = [from_host(p) for p in parts]
    chosen = tuple([x for x, w in zip(out, wanted, strict=True) if w])
    return chosen[0] if len(chosen) == 1 else chosen


def unique_all(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The different elements with first positions, inverse and counts; NaN differ from each other."""
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The different elements and how often each occurs."""
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The different elements, and for each element of x its position among them."""
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The different elements."""
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
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    method: str = "auto",
) -> Array:  # fmt: skip
    """Whether every element of the first array occurs in the second."""
    return _isin(element, test_elements, invert)


in1d = isin


def _hosted(name: str, *arrays: ArrayLike) -> list[Any]:
    return [host(a, name, "give size=, the number of elements wanted") for a in arrays]


def _is_sized(size: int | None, *arrays: ArrayLike) -> bool:
    return size is not None and any(is_traced(a) for a in arrays)


def _sized(values: Any, size: int | None, fill_value: Any) -> Array:
    return from_host(values if size is None else _cut(values, size, fill_value, 0))


def _refuse_traced(name: str, size: int | None, *arrays: ArrayLike) -> None:
    if _is_sized(size, *arrays):
        raise NotImplementedError(
            f"{name} of traced arrays is not supported; use isin(..) as a mask, with unique(.., size=..) or nonzero(.., size=..)"
        )


def _flat_pair(x: ArrayLike, y: ArrayLike) -> list[UOp]:
    (a, b), _, _ = promoted(x, y)
    return [build.reshape(v, (v.size,)) for v in (a, b)]


@public()
def _joined_flat(x: ArrayLike, y: ArrayLike) -> Array:
    return Tracer(build.concatenate(_flat_pair(x, y), 0))


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The elements that occur in either array, ascending."""
    out: Array = unique(_joined_flat(ar1, ar2), size=size, fill_value=fill_value)
    return out


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
    size: int | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """The elements that occur in both arrays, ascending; on request with their positions in each."""
    _refuse_traced("intersect1d", size, ar1, ar2)
    found = np.intersect1d(*_hosted("intersect1d", ar1, ar2), assume_unique, return_indices)
    if return_indices:
        return (_sized(found[0], size, fill_value), *[_sized(i, size, None) for i in found[1:]])
    return _sized(found, size, fill_value)


def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The elements of the first array that the second has not, ascending."""
    _refuse_traced("setdiff1d", size, ar1, ar2)
    return _sized(np.setdiff1d(*_hosted("setdiff1d", ar1, ar2), assume_unique), size, fill_value)


def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The elements that occur in exactly one of the arrays, ascending."""
    _refuse_traced("setxor1d", size, ar1, ar2)
    return _sized(np.setxor1d(*_hosted("setxor1d", ar1, ar2), assume_unique), size, fill_value)
