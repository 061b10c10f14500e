"""Making arrays: from host data, from shapes, from ranges.

Outside a stage these fill memory on the host, without compiling anything; inside, they are constants and ranges.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, note_user_line
from fgrad.numpy.common import (
    DTypeLike, axis_of, broadcast, filled, from_host, is_traced, lift, need, public, shape_of, size_of,
)  # fmt: skip
from fgrad.numpy.dtypes import _astype

from fgrad.trace.arraylike import Array
from fgrad.trace.stage import stages
from fgrad.trace.tracer import ArrayLike, Tracer, is_arraylike, is_scalar, promoted, scalar_fits, scalar_node
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "arange", "array", "asarray", "bartlett", "blackman", "copy", "diag", "diagflat", "diagonal", "empty",
    "empty_like", "eye", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "full",
    "full_like", "geomspace", "hamming", "hanning", "identity", "indices", "kaiser", "linspace", "load", "logspace",
    "meshgrid", "ones", "ones_like", "save", "savez", "tri", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


# ---- from data
def _leaves(x: Any) -> list[Any]:
    if not isinstance(x, list | tuple):
        return [x]
    return [leaf for y in x for leaf in _leaves(y)]


def _nested(x: Any, dtype: DType) -> UOp:
    """The node of nested sequences of scalars and arrays."""
    if not isinstance(x, list | tuple):
        node = lift(x).node
        return build.cast(node, dtype)
    parts = [_nested(y, dtype) for y in x]
    if any(p.shape != parts[0].shape for p in parts):
        raise note_user_line(
            ArgumentError(f"array: the parts have different shapes {[p.shape for p in parts]}; pad them to one shape")
        )
    return build.concatenate([build.reshape(p, (1, *p.shape)) for p in parts], 0)


@public(static=("dtype",))
def _stacked(parts: Any, dtype: DType) -> Array:
    return Tracer(_nested(parts, dtype))


@public()
def copy(a: ArrayLike, order: None = None) -> Array:
    """A copy, in memory of its own."""
    t = lift(a)
    return Tracer(t.node, t.weak)


def array(
    object: Any, dtype: DTypeLike = None, copy: bool | None = True, order: str | None = None, ndmin: int = 0,
    *, device: Any = None,
) -> Array:  # fmt: skip
    """An array of numbers, (nested) lists of numbers or arrays, NumPy arrays, or anything with `__array__`.

    Lists of Python numbers become int64, float32 or complex64; data that has a dtype keeps it. Host data is copied now.

    >>> array([[1, 2.5], [3, 4]])
    Array([[1. , 2.5],
           [3. , 4. ]], dtype=float32)
    """
    out = _array(object, None if dtype is None else to_dtype(dtype), bool(copy))
    if out.ndim < ndmin:
        shape = (1,) * (ndmin - out.ndim) + out.shape
        out = _reshaped(out, shape)
    return out


def listed(x: Any) -> Tracer:
    """`lift`, for arguments that may also be (nested) lists."""
    return lift(array(x) if isinstance(x, list | tuple) else x)


@public(static=("shape",))
def _reshaped(x: ArrayLike, shape: tuple[int, ...]) -> Array:
    t = lift(x)
    return Tracer(build.reshape(t.node, shape), t.weak)


def _array(x: Any, dtype: DType | None, copied: bool) -> Array:
    if hasattr(x, "__fgrad_array__") or hasattr(x, "__jax_array__"):
        x = lift(x) if stages() else (x.__fgrad_array__() if hasattr(x, "__fgrad_array__") else x.__jax_array__())
    if isinstance(x, Array):
        if dtype is not None and x.aval.dtype is not dtype:
            return _astype(x, dtype)
        if dtype is not None and x.aval.weak:
            return _astype(x, dtype) if is_traced(x) else from_host(x.concrete(), dtype)
        return x if not copied or is_traced(x) else from_host(x.concrete(), weak=x.aval.weak)
    if is_scalar(x):
        if dtype is not None and not isinstance(x, np.generic):
            scalar_fits(x, dtype)
            data = np.asarray(x).astype(dtype.np) if not isinstance(x, complex) or dtype.is_complex else None
            if data is None:
                raise TypeError(f"array: the complex number {x} has no value of dtype {dtype}")
            return Tracer(build.const(data[()], dtype)) if stages() else from_host(data, dtype)
        node, weak = scalar_node(x)
        node = build.cast(node, dtype or node.dtype)
        if stages():
            return Tracer(node, weak and dtype is None)
        return from_host(np.asarray(x).astype(node.dtype.np), node.dtype, weak and dtype is None)
    if isinstance(x, list | tuple | range):
        return _from_sequence(list(x) if isinstance(x, range) else x, dtype)
    if is_arraylike(x) or hasattr(x, "__buffer__") or isinstance(x, memoryview):
        data = np.asarray(x)
        return from_host(_converted(data, dtype), dtype)
    if hasattr(x, "__dlpack__"):
        return _array(np.from_dlpack(x), dtype, True)
    raise TypeError(f"array: {x!r} of type {type(x).__name__} is no array data; use numbers, lists of them, or arrays")


def _converted(data: Any, dtype: DType | None) -> Any:
    """Host data in the dtype it will have; float to integer follows CAST."""
    if data.dtype == object or data.dtype.kind in "USOMmV" and data.dtype.isbuiltin == 1:
        raise note_user_line(DtypeError(f"array: arrays of dtype {data.dtype} are not supported"))
    if dtype is not None and data.dtype != dtype.np:
        if data.dtype.kind == "c" and not dtype.is_complex:
            data = data.real
        with np.errstate(invalid="ignore", over="ignore"):
            return data.astype(dtype.np)
    return data


def _from_sequence(x: Any, dtype: DType | None) -> Array:
    leaves = _leaves(x)
    if any(not is_scalar(v) or isinstance(v, np.generic) for v in leaves):
        for v in leaves:
            if not is_arraylike(v):
                raise TypeError(f"array: {v!r} of type {type(v).__name__} is no number and no array")
        if dtype is None:
            kinds = [(t.aval.dtype, t.aval.weak) for t in (v if isinstance(v, Array) else lift(v) for v in leaves)]
            dtype = dt.promote(*kinds)[0]
        if any(isinstance(v, Array) for v in leaves):
            return _stacked(x, dtype)
        return from_host(_converted(np.asarray(x), dtype), dtype)
    try:
        data = np.asarray(x)
    except ValueError as e:
        raise note_user_line(ArgumentError(f"array: the nested lists have no common shape ({e})")) from None
    if dtype is None:
        if any(isinstance(v, complex) for v in leaves):
            dtype = dt.default_complex()
        elif any(isinstance(v, float) for v in leaves) or not leaves:
            dtype = dt.default_float()
        else:
            dtype = dt.bool_ if data.dtype == np.bool_ else dt.int64 if data.dtype.kind == "i" else to_dtype(data.dtype)
    elif dtype.is_int and data.size and data.dtype.kind in "iu":
        scalar_fits(int(data.min()), dtype)
        scalar_fits(int(data.max()), dtype)
    elif dtype.is_int and data.dtype == object:
        raise OverflowError(f"array: integers in {x!r} do not fit in 64 bits")
    return from_host(_converted(data, dtype), dtype)


def asarray(
    a: Any, dtype: DTypeLike = None, order: str | None = None, *, copy: bool | None = None, device: Any = None
) -> Array:
    """`array`, but an array that has the dtype already is returned as it is."""
    if copy is False and not (isinstance(a, Array) and (dtype is None or a.aval.dtype is to_dtype(dtype))):
        raise ValueError("asarray: copy=False, but this data has to be copied to the device")
    return array(a, dtype, copy=bool(copy), order=order)


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of an object that speaks DLPack (PyTorch, NumPy ..)."""
    return array(x if isinstance(x, Array) else np.from_dlpack(x), copy=copy is not False)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """A 1-d array of the bytes of a buffer."""
    return from_host(np.frombuffer(buffer, to_dtype(dtype).np, count, offset))


def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """A 1-d array of the contents of a file (see numpy.fromfile)."""
    return from_host(np.fromfile(file, to_dtype(dtype).np, count, sep, offset))


def fromiter(iter: Any, dtype: DTypeLike, count: int = -1) -> Array:
    """A 1-d array of the numbers of an iterator."""
    return from_host(np.fromiter(iter, to_dtype(dtype).np, count))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """A 1-d array of the numbers in a text."""
    return from_host(np.fromstring(string, to_dtype(dtype).np, count, sep=sep))


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read a file written by `save` (an array) or `savez` (a mapping of NumPy arrays)."""
    out = np.load(file, *args, **kwargs)
    return from_host(out) if isinstance(out, np.ndarray) else out


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write an array to a .npy file."""
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to a .npz file."""
    np.savez(file, *map(np.asarray, args), allow_pickle=allow_pickle, **{k: np.asarray(v) for k, v in kwds.items()})


# ---- from shapes
def full(shape: Any, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of that shape, every element `fill_value` (which may be an array that broadcasts).

    >>> full((2, 2), 7)
    Array([[7, 7],
           [7, 7]], dtype=int64, weak_type=True)
    """
    sizes = shape_of(shape, "full")
    if is_scalar(fill_value):
        node, weak = scalar_node(fill_value)
        if dtype is not None:
            target = to_dtype(dtype)
            scalar_fits(fill_value, target)
            return filled(sizes, fill_value, target)
        return filled(sizes, fill_value, node.dtype, weak)
    return _full(array(fill_value, copy=False), sizes, None if dtype is None else to_dtype(dtype))


@public(static=("shape", "dtype"))
def _full(value: ArrayLike, shape: tuple[int, ...], dtype: DType | None) -> Array:
    t = lift(value)
    node = t.node if dtype is None else build.cast(t.node, dtype)
    return Tracer(build.broadcast_to(node, shape), t.weak and dtype is None)


def zeros(shape: Any, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros of that shape, in float32 unless told otherwise."""
    return filled(shape_of(shape, "zeros"), 0, to_dtype(float if dtype is None else dtype))


def ones(shape: Any, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Ones of that shape, in float32 unless told otherwise."""
    return filled(shape_of(shape, "ones"), 1, to_dtype(float if dtype is None else dtype))


def empty(shape: Any, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros: contents are never undefined."""
    return filled(shape_of(shape, "empty"), 0, to_dtype(float if dtype is None else dtype))


def _model(a: Any) -> Any:
    """Something with dtype and shape: the array, or what it makes."""
    if isinstance(a, Array):
        return a.aval
    if hasattr(a, "shape") and hasattr(a, "dtype"):
        return Tracer(build.const(0, to_dtype(a.dtype), tuple(a.shape))).aval
    return array(a).aval


def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None
) -> Array:
    """`full` with the shape and dtype of `a`, unless told otherwise."""
    like = _model(a)
    sizes = like.shape if shape is None else shape_of(shape, "full_like")
    kind = like.dtype if dtype is None else to_dtype(dtype)
    if is_scalar(fill_value):
        scalar_fits(fill_value, kind)
        if isinstance(fill_value, complex) and not kind.is_complex:
            raise TypeError(f"full_like: the complex number {fill_value} has no value of dtype {kind}")
        return filled(sizes, fill_value, kind, like.weak and dtype is None)
    return _full(array(fill_value, copy=False), sizes, kind)


def zeros_like(a: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Zeros with the shape and dtype of `a`, unless told otherwise."""
    return full_like(a, 0, dtype, shape)


def ones_like(a: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Ones with the shape and dtype of `a`, unless told otherwise."""
    return full_like(a, 1, dtype, shape)


def empty_like(prototype: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Zeros with the shape and dtype of `prototype`, unless told otherwise."""
    return full_like(prototype, 0, dtype, shape)


def _host_or(data: Callable[[], Any], node: Callable[[], UOp]) -> Array:
    """A host array outside stages, a node inside."""
    return Tracer(node()) if stages() else from_host(data())


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Ones on the k-th diagonal of an N x M matrix of zeros."""
    rows = size_of(N, "eye")
    columns = rows if M is None else size_of(M, "eye")
    kind = to_dtype(float if dtype is None else dtype)
    shift = operator.index(k)
    return _host_or(
        lambda: np.eye(rows, columns, shift).astype(kind.np),
        lambda: build.cast(_band((rows, columns), build.eq, shift), kind),
    )


def identity(n: int, dtype: DTypeLike = None) -> Array:
    """The n x n identity matrix."""
    return eye(n, dtype=dtype)


def _band(shape: tuple[int, ...], compare: Callable[[UOp, UOp], UOp], k: int) -> UOp:
    """compare(column, row + k) over the last two axes of `shape`."""
    row, column = (build.iota_along(shape[-2:], i) for i in (0, 1))
    return build.broadcast_to(compare(column, build.add(row, k)), shape)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """Ones at and below the k-th diagonal."""
    rows = size_of(N, "tri")
    columns = rows if M is None else size_of(M, "tri")
    kind = to_dtype(float if dtype is None else dtype)
    return _host_or(
        lambda: np.tri(rows, columns, k).astype(kind.np),
        lambda: build.cast(_band((rows, columns), build.le, k), kind),
    )


def _triangle(name: str, m: ArrayLike, below: bool, k: int) -> Array:
    t = lift(m)
    if t.ndim < 2:
        raise note_user_line(ValueError(f"{name} takes matrices, got shape {t.shape}; add an axis with x[None, :]"))
    keep = _band(t.shape, build.le, k if below else k - 1)
    keep = keep if below else build.not_(keep)
    return Tracer(build.where(keep, t.node, build.zeros_like(t.node)), t.weak)


@public(static=("k",))
def tril(m: ArrayLike, k: int = 0) -> Array:
    """f[.., n, m] -> f[.., n, m]: zeros above the k-th diagonal."""
    return _triangle("tril", m, True, k)


@public(static=("k",))
def triu(m: ArrayLike, k: int = 0) -> Array:
    """f[.., n, m] -> f[.., n, m]: zeros below the k-th diagonal."""
    return _triangle("triu", m, False, k)


def diagonal_node(x: UOp, offset: int, axis1: int, axis2: int) -> UOp:
    """[.. n .. m ..] -> [.., d]: a strided view of the matrices laid out flat."""
    rest = [i for i in range(x.ndim) if i not in (axis1, axis2)]
    x = build.permute(x, (*rest, axis1, axis2))
    n, m = x.shape[-2:]
    size = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
    lead = x.shape[:-2]
    if not size:
        return build.const(0, x.dtype, (*lead, 0))
    start = offset if offset >= 0 else -offset * m
    flat = build.reshape(x, (*lead, n * m))
    return build.slice_axis(flat, len(lead), start, start + (size - 1) * (m + 1) + 1, m + 1)


@public(static=("offset", "axis1", "axis2"))
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """[.. n .. m ..] -> [.., d]: the offset-th diagonal over two axes, on a new last axis."""
    t = lift(a)
    first, second = (axis_of(i, t.ndim, "diagonal") for i in (axis1, axis2))
    if first == second:
        raise note_user_line(ValueError(f"diagonal: axis1 and axis2 are both axis {first}"))
    return Tracer(diagonal_node(t.node, operator.index(offset), first, second), t.weak)


@public(static=("k",))
def diag(v: ArrayLike, k: int = 0) -> Array:
    """[n] -> [n+|k|, n+|k|] with v on the k-th diagonal; [n, m] -> [d], the k-th diagonal."""
    t = lift(v)
    if t.ndim == 2:
        return Tracer(diagonal_node(t.node, operator.index(k), 0, 1), t.weak)
    if t.ndim != 1:
        raise note_user_line(ValueError(f"diag takes vectors and matrices, got shape {t.shape}; use diagonal"))
    shift, n = operator.index(k), t.shape[0]
    on = build.eq(build.iota_along((n, n), 1), build.iota_along((n, n), 0))
    square = build.where(on, build.broadcast_to(t.node, (n, n)), build.const(0, t.node.dtype, (n, n)))
    return Tracer(build.pad(square, [(max(-shift, 0), max(shift, 0), 0), (max(shift, 0), max(-shift, 0), 0)]), t.weak)


@public(static=("k",))
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """`diag` of v laid out flat."""
    t = lift(v)
    return diag(Tracer(build.reshape(t.node, (t.size,)), t.weak), k)


# ---- ranges
def _number(x: Any, name: str) -> Any:
    """A Python or NumPy number; concrete 0-d arrays are looked at."""
    if is_scalar(x):
        return x
    if is_traced(x):
        return x.concrete()[()]
    return np.asarray(x)[()]


def arange(
    start: ArrayLike, stop: ArrayLike | None = None, step: ArrayLike | None = None, dtype: DTypeLike = None,
    *, device: Any = None,
) -> Array:  # fmt: skip
    """start, start + step, .. below stop. Sizes must be known: start, stop and step are concrete numbers.

    >>> arange(3)
    Array([0, 1, 2], dtype=int64)
    """
    first, last, by = (None if x is None else _number(x, "arange") for x in (start, stop, step))
    if last is None:
        first, last = 0, first
    by = 1 if by is None else by
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
        wide = dt.float64 if not kind.is_complex else dt.complex128
        ramp = build.add(build.mul(build.cast(build.iota(n), wide), by), first)
        return Tracer(build.cast(ramp, kind))
    index = build.iota(n, kind)
    scaled = index if by == 1 else build.mul(index, int(by))
    return Tracer(scaled if first == 0 else build.add(scaled, int(first)))


@public(static=("num", "endpoint", "retstep", "dtype", "axis"))
def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike = None, axis: int = 0, *, device: None = None,
) -> Any:  # fmt: skip
    """`num` numbers evenly spaced from start to stop (included, unless endpoint is False), on a new `axis`.

    Integer dtypes round down. With `retstep` also the spacing.
    """
    n = size_of(num, "linspace")
    (a, b), least, _ = promoted(start, stop, least=dt.default_float())
    kind = least if dtype is None else to_dtype(dtype)
    inner = kind if kind.is_inexact and kind.itemsize >= least.itemsize else dt.float64 if kind.is_int else least
    a, b = broadcast("linspace", build.cast(a, inner), build.cast(b, inner))
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


@public(static=("num", "endpoint", "dtype", "axis"))
def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
    dtype: DTypeLike = None, axis: int = 0,
) -> Array:  # fmt: skip
    """base ** linspace(start, stop, num)."""
    exponent = lift(linspace(start, stop, num, endpoint, axis=axis)).node
    b = build.broadcast_to(build.cast(lift(base).node, exponent.dtype), exponent.shape)
    out = uop(Op.POW, (b, exponent))
    return Tracer(out if dtype is None else build.cast(out, to_dtype(dtype)))


@public(static=("num", "endpoint", "dtype", "axis"))
def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike = None, axis: int = 0
) -> Array:
    """`num` numbers evenly spaced on a logarithmic scale; start and stop are nonzero and of one sign."""
    (a, b), kind, _ = promoted(start, stop, least=dt.default_float())
    need(not kind.is_complex, "geomspace", "it takes real numbers")
    a, b = broadcast("geomspace", a, b)
    sign = build.where(build.lt(a, 0), build.const_like(-1, a), build.const_like(1, a))
    logs = [Tracer(uop(Op.LOG10, (build.abs_(v),))) for v in (a, b)]
    n, place = size_of(num, "geomspace"), axis_of(axis, a.ndim + 1, "geomspace")
    power_of_ten = lift(logspace(*logs, n, endpoint, axis=axis)).node
    out = build.mul(power_of_ten, build.expand(sign, [(place, n)]))
    index = build.expand(build.iota(n), [(i, m) for i, m in enumerate(out.shape) if i != place])
    if n:
        out = build.where(build.eq(index, 0), build.expand(a, [(place, n)]), out)
    if endpoint and n > 1:
        out = build.where(build.eq(index, n - 1), build.expand(b, [(place, n)]), out)
    return Tracer(out if dtype is None else build.cast(out, to_dtype(dtype)))


@public(static=("copy", "sparse", "indexing"))
def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Coordinate matrices of coordinate vectors; "xy" puts the second one first, "ij" keeps the order."""
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
    """int[len(dims), *dims]: the position of every element along every axis; `sparse` gives a tuple of thin arrays."""
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
    """function(i, j, ..) of the index arrays of `shape`."""
    grid = indices(shape, dtype)
    return function(*[grid[i] for i in range(len(grid))], **kwargs)


# ---- windows
def _window(M: int, name: str, make: Callable[[Any], Any]) -> Array:
    return array(make(size_of(M, name)), dt.default_float())


def bartlett(M: int) -> Array:
    """The triangular window of M points."""
    return _window(M, "bartlett", np.bartlett)


def blackman(M: int) -> Array:
    """The Blackman window of M points."""
    return _window(M, "blackman", np.blackman)


def hamming(M: int) -> Array:
    """The Hamming window of M points."""
    return _window(M, "hamming", np.hamming)


def hanning(M: int) -> Array:
    """The Hann window of M points."""
    return _window(M, "hanning", np.hanning)


def kaiser(M: int, beta: float) -> Array:
    """The Kaiser window of M points."""
    return _window(M, "kaiser", lambda n: np.kaiser(n, beta))
