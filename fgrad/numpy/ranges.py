"""Ranges and grids: arange, linspace and their kin, meshgrid, indices, windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.errors import note_user_line
from fgrad.numpy.common import (
    DTypeLike,
    axis_of,
    broadcast,
    from_host,
    is_traced,
    lift,
    need,
    placed,
    public,
    shape_of,
    size_of,
)
from fgrad.numpy.creation import array
from fgrad.trace.arraylike import COUNT, Array
from fgrad.trace.stage import stages
from fgrad.trace.tracer import (
    ArrayLike,
    Tracer,
    cast_node,
    is_scalar,
    promoted,
    scalar_node,
)
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import uop
from fgrad.uop.op import Op

__all__ = [
    "arange", "bartlett", "blackman", "fromfunction", "geomspace", "hamming", "hanning",
    "indices", "kaiser", "linspace", "logspace", "meshgrid",
]  # fmt: skip


# ---- ranges
def _number(x: Any, name: str) -> Any:
    """A Python or NumPy number; concrete 0-d arrays are looked at."""
    if is_scalar(x):
        return x
    if is_traced(x):
        return x.concrete(COUNT)[()]
    return np.asarray(x)[()]


@placed
def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike = None,
    *,
    device: Any = None,
) -> Array:
    """The numbers start, start + step, .. below stop.

    Sizes must be known: start, stop and step are concrete numbers.

    >>> arange(3)
    Array([0, 1, 2], dtype=int64)
    """
    first: Any
    last: Any
    by: Any
    first, last, by = (None if x is None else _number(x, "arange") for x in (start, stop, step))
    if last is None:
        first, last = 0, first
    by = 1 if by is None else by
    if any(isinstance(x, complex | np.complexfloating) for x in (first, last, by)):
        raise note_user_line(ValueError("arange: complex numbers have no order; use start + step * arange(n)"))
    if by == 0:
        raise note_user_line(ValueError("arange: step must not be zero"))
    if dtype is None:
        kind = dt.promote(*[(n.dtype, w) for n, w in map(scalar_node, (first, last, by))])[0]
    else:
        kind = to_dtype(dtype)
    data = np.arange(first, last, by)
    if not stages():
        return from_host(data.astype(kind.np))
    n = len(data)
    if not kind.is_int or not all(isinstance(x, int | np.integer) for x in (first, last, by)):
        ramp = build.add(build.mul(build.cast(build.iota(n), dt.float64), by), first)
        return Tracer(build.cast(ramp, kind))
    index = build.iota(n, kind)
    scaled = index if by == 1 else build.mul(index, int(by))
    return Tracer(scaled if first == 0 else build.add(scaled, int(first)))


@placed
@public(static=("num", "endpoint", "retstep", "dtype", "axis"))
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` numbers evenly spaced from start to stop, on a new `axis`.

    stop is included, unless endpoint is False.
    Integer dtypes round down. With `retstep` also the spacing.

    >>> linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    >>> linspace(0, 1, 2, endpoint=False, retstep=True)
    (Array([0. , 0.5], dtype=float32), Array(0.5, dtype=float32))
    """
    n = size_of(num, "linspace")
    least = promoted(start, stop, least=dt.default_float())[1]
    kind = least if dtype is None else to_dtype(dtype)
    inner = _working_dtype(least, kind)
    a, b = broadcast("linspace", cast_node(start, inner), cast_node(stop, inner))
    steps = n - 1 if endpoint else n
    span = build.sub(b, a)
    step = build.div(span, steps) if steps > 0 else build.const_like(math.nan, a)
    out = a
    index = build.iota(n)
    place = axis_of(axis, a.ndim + 1, "linspace")
    ramp = build.cast(index, dt.real_of(inner))
    wide_shape = (*a.shape[:place], n, *a.shape[place:])
    wide_ramp = build.cast(build.expand(ramp, [(i, m) for i, m in enumerate(wide_shape) if i != place]), inner)
    low = build.expand(a, [(place, n)])
    if steps > 0:
        out = build.add(low, build.mul(wide_ramp, build.expand(step, [(place, n)])))
    else:
        out = low
    if endpoint and n > 1:
        last = build.expand(build.eq(index, n - 1), [(i, m) for i, m in enumerate(wide_shape) if i != place])
        out = build.where(last, build.expand(b, [(place, n)]), out)
    if kind.is_int:
        out = build.floor(out)
    done = Tracer(build.cast(out, kind))
    return (done, Tracer(step)) if retstep else done


def _working_dtype(least: DType, kind: DType) -> DType:
    """The dtype that spaced numbers of dtype `kind` are computed in, whose ends have dtype `least`."""
    if kind.is_inexact and kind.itemsize >= least.itemsize:
        return kind
    return dt.float64 if kind.is_int and not least.is_complex else least


@public(static=("num", "endpoint", "dtype", "axis"))
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """base ** linspace(start, stop, num).

    The ends are powers: base**start and base**stop.

    >>> logspace(0, 3, 4)
    Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    least = promoted(start, stop, base, least=dt.default_float())[1]
    inner = least if dtype is None else _working_dtype(least, to_dtype(dtype))
    exponent = lift(linspace(start, stop, num, endpoint, dtype=inner, axis=axis)).node
    b = build.broadcast_to(cast_node(base, exponent.dtype), exponent.shape)
    out = uop(Op.POW, (b, exponent))
    return Tracer(out if dtype is None else build.cast(out, to_dtype(dtype)))


@public(static=("num", "endpoint", "dtype", "axis"))
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """`num` numbers evenly spaced on a logarithmic scale.

    start and stop are nonzero and of one sign.

    Both ends are exact; stop is included, unless endpoint is False. Raises ValueError for a negative `num`.

    >>> geomspace(1.0, 1000.0, 4)
    Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    least = promoted(start, stop, least=dt.default_float())[1]
    need(not least.is_complex, "geomspace", "it takes real numbers")
    inner = least if dtype is None else _working_dtype(least, to_dtype(dtype))
    a, b = broadcast("geomspace", cast_node(start, inner), cast_node(stop, inner))
    sign = build.where(build.lt(a, 0), build.const_like(-1, a), build.const_like(1, a))
    logs = [Tracer(uop(Op.LOG10, (build.abs_(v),))) for v in (a, b)]
    n, place = size_of(num, "geomspace"), axis_of(axis, a.ndim + 1, "geomspace")
    power_of_ten = lift(logspace(logs[0], logs[1], n, endpoint, axis=axis)).node
    out = build.mul(power_of_ten, build.expand(sign, [(place, n)]))
    index = build.expand(build.iota(n), [(i, m) for i, m in enumerate(out.shape) if i != place])
    if n:
        out = build.where(build.eq(index, 0), build.expand(a, [(place, n)]), out)
    if endpoint and n > 1:
        out = build.where(build.eq(index, n - 1), build.expand(b, [(place, n)]), out)
    return Tracer(out if dtype is None else build.cast(out, to_dtype(dtype)))


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Coordinate matrices of coordinate vectors.

    "xy" puts the second one first, "ij" keeps the order.

    >>> meshgrid(array([1, 2]), array([3, 4]), indexing="ij")[0]
    Array([[1, 1],
           [2, 2]], dtype=int64)
    """
    return _meshgrid(list(xi), sparse, indexing)


@public(static=("sparse", "indexing"))
def _meshgrid(xi: Any, sparse: bool, indexing: str) -> list[Array]:
    if indexing not in ("xy", "ij"):
        raise ValueError(f'meshgrid: indexing must be "xy" or "ij", got {indexing!r}')
    vectors = [lift(x) for x in xi]
    if any(v.ndim > 1 for v in vectors):
        raise note_user_line(ValueError(f"meshgrid takes vectors, got shapes {[v.shape for v in vectors]}"))
    nodes = [build.reshape(v.node, (v.size,)) for v in vectors]
    places = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        places[0], places[1] = 1, 0
    shape = [1] * len(nodes)
    for v, place in zip(nodes, places, strict=True):
        shape[place] = v.size
    out: list[Array] = []
    for t, v, place in zip(vectors, nodes, places, strict=True):
        own = build.reshape(v, tuple([v.size if i == place else 1 for i in range(len(nodes))]))
        out.append(Tracer(own if sparse else build.broadcast_to(own, tuple(shape)), t.weak))
    return out


def indices(dimensions: Sequence[int], dtype: DTypeLike = None, sparse: bool = False) -> Any:
    """The position of every element along every axis: int64 [len(dims), *dims].

    `sparse` gives a tuple of thin arrays.

    >>> rows, columns = indices((2, 2))
    >>> 10 * rows + columns
    Array([[ 0,  1],
           [10, 11]], dtype=int64)
    """
    shape = shape_of(dimensions, "indices")
    kind = to_dtype(int if dtype is None else dtype)
    if not stages():
        if sparse:
            return tuple([from_host(x) for x in np.indices(shape, kind.np, sparse=True)])
        return from_host(np.indices(shape, kind.np))
    if sparse:
        thin = [tuple([n if i == axis else 1 for i, n in enumerate(shape)]) for axis in range(len(shape))]
        return tuple([Tracer(build.reshape(build.iota(n, kind), s)) for n, s in zip(shape, thin, strict=True)])
    grids = [build.reshape(build.iota_along(shape, i, kind), (1, *shape)) for i in range(len(shape))]
    return Tracer(build.concatenate(grids, 0) if grids else build.const(0, kind, (0,)))


def fromfunction(function: Callable[..., Any], shape: Sequence[int], *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """function(i, j, ..) of the index arrays of `shape`.

    The index arrays are of `dtype`; further keywords go to the function.

    >>> fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
    Array([[ 0,  1,  2],
           [10, 11, 12]], dtype=int64)
    """
    grid = indices(shape, dtype)
    return function(*[grid[i] for i in range(len(grid))], **kwargs)


# ---- windows
def _window(M: int, name: str, make: Callable[[Any], Any]) -> Array:
    return array(make(size_of(max(M, 0), name)), dt.default_float())


def bartlett(M: int) -> Array:
    """The triangular window of M points.

    -> [M] of the default float; empty for M < 1.

    >>> bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window(M, "bartlett", np.bartlett)


def blackman(M: int) -> Array:
    """The Blackman window of M points.

    -> [M] of the default float; empty for M < 1.

    >>> blackman(3).shape
    (3,)
    """
    return _window(M, "blackman", np.blackman)


def hamming(M: int) -> Array:
    """The Hamming window of M points.

    -> [M] of the default float; empty for M < 1.

    >>> hamming(3)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _window(M, "hamming", np.hamming)


def hanning(M: int) -> Array:
    """The Hann window of M points.

    -> [M] of the default float; empty for M < 1.

    >>> hanning(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window(M, "hanning", np.hanning)


def kaiser(M: int, beta: float) -> Array:
    """The Kaiser window of M points.

    -> [M] of the default float; the larger `beta`, the narrower.

    >>> kaiser(3, 8.0)
    Array([0.00233883, 1.        , 0.00233883], dtype=float32)
    """
    return _window(M, "kaiser", lambda n: np.kaiser(n, beta))
