"""Searching and selecting: positions in order, of what is not zero, and choices by condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import (
    as_array,
    broadcast,
    common,
    from_host,
    host,
    lift,
    public,
    truth,
)
from fgrad.numpy.creation import array, listed
from fgrad.numpy.dtypes import astype
from fgrad.numpy.extremes import has_nan, less_complex
from fgrad.numpy.running import prefix
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted, unwrapped
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op

__all__ = [
    "argwhere", "bincount", "digitize", "flatnonzero", "nonzero", "piecewise", "searchsorted",
    "select", "where",
]  # fmt: skip


# ---- searching
def _before(x: UOp, y: UOp) -> UOp:
    """x < y in sorting order, where NaN is the last."""
    if x.dtype.is_complex:
        return less_complex(x, y)
    if not x.dtype.is_float:
        return build.lt(x, y)
    return build.or_(build.lt(x, y), build.and_(has_nan(y), build.not_(has_nan(x))))


def count_before(a: UOp, v: UOp, right: bool) -> UOp:
    """int64 shaped as v: how many elements of the sorted vector lie before (`right`: not after)
    every element.
    """
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
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Where the elements of v belong in the sorted vector `a`, as int64.

    side     before equal ones ("left") or after ("right")
    sorter   positions that sort `a`

    >>> searchsorted(array([1, 2, 2, 3]), array([2, 5]), side="right")
    Array([3, 4], dtype=int64)
    """
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: side must be "left" or "right", got {side!r}')
    (x, y), _, _ = promoted(listed(a), listed(v))
    if x.ndim != 1:
        raise note_user_line(ShapeError(f"searchsorted: a must be a vector, got shape {x.shape}"))
    if sorter is not None:
        x = build.gather(x, cast_node(sorter, dt.int64))
    return Tracer(count_before(x, y, side == "right"))


@public(static=("right", "method"))
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The bin that every element falls in, as int64.

    Bins ascend or descend; `right` includes their right edge.

    >>> digitize(array([0.2, 1.0, 6.4]), array([0.0, 1.0, 2.5]))
    Array([1, 2, 3], dtype=int64)
    """
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
@public(moves=True)
def _choose_where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    (a, b), _, weak = common("where", x, y)
    c, a, b = broadcast("where", truth(lift(condition).node), a, b)
    return Tracer(build.where(c, a, b), weak)


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
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
    """For every element the choice of the first condition that holds, or `default`.

    Conditions and choices broadcast.

    >>> x = array([1, 5, 9])
    >>> select([x < 3, x < 7], [x, 10 * x], default=-1)
    Array([ 1, 50, -1], dtype=int64)
    """
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
    """For every element the function (or number) of the last condition that holds.

    One more function than conditions is for elements where none holds.

    >>> piecewise(array([-1.0, 0.5, 3.0]), [array([True, False, False])], [lambda v: -v, 10.0])
    Array([ 1., 10., 10.], dtype=float32)
    """
    t = x if isinstance(x, Array) else lift_any(x)
    conditions = [condlist] if not isinstance(condlist, list | tuple) else list(condlist)
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"piecewise: {len(conditions)} conditions need as many functions (or one more), got {len(functions)}"
        )
    default = functions.pop() if len(functions) > len(conditions) else 0
    values = [
        astype(f(t, *args, **kw), t.dtype) if callable(f) else array(f, dtype=t.dtype)
        for f in [*functions[::-1], default]
    ]  # fmt: skip
    return select(conditions[::-1], values[:-1], values[-1])


def lift_any(x: ArrayLike) -> Array:
    """An array of anything array-like."""
    return as_array(x)


# ---- positions of what is not zero
def positions_of(mask: UOp, size: int, fill: UOp) -> UOp:
    """int64[size]: where the vector holds, in order; `fill` (scalar or [size]) where there is
    nothing more.
    """
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
        other = cast_node(0 if fill is None else fill, dt.int64)
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
        if not data.ndim:
            raise note_user_line(ShapeError("nonzero takes arrays with axes; use atleast_1d for a scalar"))
        return tuple([from_host(i) for i in np.nonzero(data)])
    out: tuple[Array, ...] = _nonzero(a, fill_value, size)
    return out


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """int64 positions of the nonzero elements of the array laid out flat.

    size   their number, needed inside a stage: more are cut, missing ones are `fill_value`

    >>> flatnonzero(array([[0, 3], [1, 0]]))
    Array([1, 2], dtype=int64)
    """
    if size is None:
        return from_host(np.flatnonzero(host(a, "flatnonzero", "give size=")))
    return _flatnonzero(a, fill_value, size)


@public(static=("size",))
def _flatnonzero(a: ArrayLike, fill_value: Any, size: int) -> Array:
    x = lift(a).node
    out: Array = _nonzero(Tracer(build.reshape(x, (x.size,))), fill_value, size)[0]
    return out


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """int64[n, ndim]: the positions of the nonzero elements as rows.

    size   the number of rows, needed inside a stage: more are cut, missing ones are `fill_value`

    >>> argwhere(array([[0, 3], [1, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int64)
    """
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
    idx = build.maximum(cast_node(x, dt.int64), 0)
    if weights is None:
        value = build.const(1, dt.int64, idx.shape)
    else:
        value = build.broadcast_to(promoted(weights, least=dt.default_float())[0][0], idx.shape)
    return Tracer(build.update(build.const(0, value.dtype, (length,)), value, mode=Mode.ADD, idx=idx))


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """[n] of integers >= 0 -> how often every number occurs (or the sum of its weights).

    length   the size of the result, needed inside a stage; larger numbers are dropped

    Raises ArgumentError for anything but a vector of integers, ValueError for a negative one.

    >>> bincount(array([0, 1, 1, 3]))
    Array([1, 2, 0, 1], dtype=int64)
    >>> bincount(array([0, 1, 1]), weights=array([0.5, 1.0, 2.0]))
    Array([0.5, 3. ], dtype=float32)
    """
    x = unwrapped(x)
    t = x if isinstance(x, Array) else np.asarray(x)
    if t.ndim != 1 or np.dtype(t.dtype).kind not in "iub":
        raise note_user_line(ArgumentError(f"bincount takes a vector of integers, got {t.dtype} of shape {t.shape}"))
    if length is None:
        data = host(x, "bincount", "give length=, the number of bins")
        if data.size and data.min() < 0:
            raise note_user_line(ValueError("bincount: the numbers must not be negative"))
        length = max(int(data.max()) + 1 if data.size else 0, minlength)
    return _bincount(x, weights, length)
