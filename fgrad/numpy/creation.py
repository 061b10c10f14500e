"""Making arrays: from host data, from shapes, from ranges.

Outside a stage these fill memory on the host, without compiling anything; inside, they are
constants and ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, ShapeError, describe, note_user_line
from fgrad.numpy.common import (
    DTypeLike,
    filled,
    from_host,
    is_traced,
    lift,
    placed,
    public,
    shape_of,
)
from fgrad.numpy.dtypes import _astype
from fgrad.run.array import refuse_masked
from fgrad.run.dlpack import from_dlpack, view_of
from fgrad.trace.arraylike import Array
from fgrad.trace.stage import stages
from fgrad.trace.tracer import (
    ArrayLike,
    Tracer,
    is_arraylike,
    is_scalar,
    scalar_fits,
    scalar_node,
)
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp

__all__ = [
    "array", "asarray", "copy", "empty", "empty_like", "from_dlpack", "frombuffer", "fromfile",
    "fromiter", "fromstring", "full", "full_like", "load", "ones", "ones_like", "save", "savez",
    "zeros", "zeros_like",
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
    """A copy, in memory of its own.

    The dtype and shape stay; `order` may only be None, since memory has no order of its own here.

    >>> copy(array([1, 2]))
    Array([1, 2], dtype=int64)
    """
    t = lift(a)
    return Tracer(t.node, t.weak)


@placed
def array(
    object: Any,
    dtype: DTypeLike = None,
    copy: bool | None = True,
    order: str | None = None,
    ndmin: int = 0,
    *,
    device: Any = None,
) -> Array:
    """An array of numbers, lists of numbers or arrays, NumPy arrays, or anything with `__array__`.

    dtype   lists of Python numbers become int64, float32 or complex64 by default; data that has a dtype keeps it
    copy    False: raises ValueError where a copy would be needed; host data is copied now
    ndmin   new leading axes of size 1 up to this number of axes

    Raises OverflowError for a Python integer that does not fit, ValueError for lists of different lengths.

    >>> array([[1, 2.5], [3, 4]])
    Array([[1. , 2.5],
           [3. , 4. ]], dtype=float32)
    """
    try:
        out = _array(object, None if dtype is None else to_dtype(dtype), bool(copy))
    except ArgumentError:
        if dtype is None and hasattr(object, "of_words"):  # an array already, of keys
            keys: Array = object
            return keys
        raise
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
            if stages():
                return Tracer(build.const(data.reshape(1)[0], dtype))
            return from_host(data, dtype)
        node, weak = scalar_node(x)
        node = build.cast(node, dtype or node.dtype)
        if stages():
            return Tracer(node, weak and dtype is None)
        return from_host(np.asarray(x).astype(node.dtype.np), node.dtype, weak and dtype is None)
    if isinstance(x, list | tuple | range):
        return _from_sequence(list(x) if isinstance(x, range) else x, dtype)
    if is_arraylike(x) or _is_buffer(x):
        refuse_masked(x)
        return from_host(_converted(np.asarray(x), dtype), dtype)
    if hasattr(x, "__dlpack__"):
        return _array(view_of(x)[0], dtype, True)
    raise ArgumentError(f"array: {describe(x)} is no array data; use numbers, lists of them, or arrays")


def _is_buffer(x: Any) -> bool:
    """Whether `x` lends its memory: a memoryview, bytearray, array.array and the like."""
    if isinstance(x, str | bytes):
        return False
    try:
        memoryview(x).release()
    except TypeError:
        return False
    return True


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


def _ragged(x: Any) -> str:
    """Where nested lists first differ in shape."""
    shapes: list[Any] = []
    for part in x:
        try:
            shapes.append(np.shape(part))
        except ValueError:
            return _ragged(part)
    other = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
    return f"element 0 has shape {shapes[0]}, element {other} {shapes[other]}"


def _from_sequence(x: Any, dtype: DType | None) -> Array:
    leaves = _leaves(x)
    if any(not is_scalar(v) or isinstance(v, np.generic) for v in leaves):
        for v in leaves:
            if not is_arraylike(v):
                raise ArgumentError(f"array: {describe(v)} is no number and no array")
        if dtype is None:
            kinds = [(t.aval.dtype, t.aval.weak) for t in (v if isinstance(v, Array) else lift(v) for v in leaves)]
            dtype = dt.promote(*kinds)[0]
        if any(isinstance(v, Array) for v in leaves):
            return _stacked(x, dtype)
        return from_host(_converted(np.asarray(x), dtype), dtype)
    try:
        data = np.asarray(x)
    except ValueError:
        raise note_user_line(ShapeError(f"array: the nested lists have no common shape: {_ragged(x)}")) from None
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


@placed
def asarray(
    a: Any,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
) -> Array:
    """`array`, but an array that has the dtype already is returned as it is.

    Arguments as in `array`.

    copy   True: always a copy; False: raises ValueError where one would be needed; None: where one is needed

    >>> asarray(np.float64(2.5))
    Array(2.5, dtype=float64)
    """
    if copy is False and not (isinstance(a, Array) and (dtype is None or a.aval.dtype is to_dtype(dtype))):
        raise ValueError("asarray: copy=False, but this data has to be copied to the device")
    return array(a, dtype, copy=bool(copy), order=order)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """A 1-d array of the bytes of a buffer.

    dtype    of the elements, and of the result
    count    how many; -1: all there are
    offset   bytes to skip

    The bytes are copied now. Raises ValueError where they do not fit.

    >>> frombuffer(b"abc", dtype="uint8", offset=1)
    Array([98, 99], dtype=uint8)
    """
    return from_host(np.frombuffer(buffer, to_dtype(dtype).np, count, offset))


def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """A 1-d array of the contents of a file (see numpy.fromfile).

    A binary file, or a text file whose numbers are separated by `sep`. Raises OSError where there is none.

    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = file.write(b"abc"), file.flush()
    >>> fromfile(file.name, dtype="uint8")
    Array([97, 98, 99], dtype=uint8)
    >>> file.close()
    """
    return from_host(np.fromfile(file, to_dtype(dtype).np, count, sep, offset))


def fromiter(iter: Any, dtype: DTypeLike, count: int = -1) -> Array:
    """A 1-d array of the numbers of an iterator.

    count   how many to take; -1: all. Raises ValueError where there are fewer.

    >>> fromiter((i * i for i in range(4)), "int64")
    Array([0, 1, 4, 9], dtype=int64)
    """
    return from_host(np.fromiter(iter, to_dtype(dtype).np, count))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """A 1-d array of the numbers in a text.

    sep     what stands between the numbers
    count   how many to take; -1: all

    >>> fromstring("1 2 3", sep=" ", dtype="float32")
    Array([1., 2., 3.], dtype=float32)
    """
    return from_host(np.fromstring(string, to_dtype(dtype).np, count, sep=sep))


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read a file written by `save` (an array) or `savez` (a mapping of NumPy arrays).

    Further arguments are those of numpy.load. Raises OSError where there is no such file.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, array([1, 2])); _ = file.seek(0)
    >>> load(file)
    Array([1, 2], dtype=int64)
    """
    out = np.load(file, *args, **kwargs)
    return from_host(out) if isinstance(out, np.ndarray) else out


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write an array to a .npy file.

    file   a name, to which .npy is added, or an open binary file

    The array must be concrete.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, array([1, 2]))
    >>> len(file.getvalue())
    144
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to a .npz file.

    Arrays are named by their keywords, others arr_0, arr_1, ...; they must be concrete.

    >>> import io
    >>> file = io.BytesIO()
    >>> savez(file, array([1, 2]), w=array(3.0)); _ = file.seek(0)
    >>> sorted(load(file))
    ['arr_0', 'w']
    """
    np.savez(
        file,
        *map(np.asarray, args),
        allow_pickle=allow_pickle,
        **{k: np.asarray(v) for k, v in kwds.items()},
    )


# ---- from shapes
@placed
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


@placed
def zeros(shape: Any, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros of that shape, in float32 unless told otherwise.

    shape   an integer or several
    dtype   float32 by default (float64 with `enable_x64`)

    Raises ValueError for a negative size.

    >>> zeros((2, 2), "int8")
    Array([[0, 0],
           [0, 0]], dtype=int8)
    """
    return filled(shape_of(shape, "zeros"), 0, to_dtype(float if dtype is None else dtype))


@placed
def ones(shape: Any, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Ones of that shape, in float32 unless told otherwise.

    `shape` and `dtype` as in `zeros`.

    >>> ones(3)
    Array([1., 1., 1.], dtype=float32)
    """
    return filled(shape_of(shape, "ones"), 1, to_dtype(float if dtype is None else dtype))


@placed
def empty(shape: Any, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Zeros: contents are never undefined.

    `shape` and `dtype` as in `zeros`.

    >>> empty(2)
    Array([0., 0.], dtype=float32)
    """
    return filled(shape_of(shape, "empty"), 0, to_dtype(float if dtype is None else dtype))


def _model(a: Any) -> Any:
    """Something with dtype and shape: the array, or what it makes."""
    if isinstance(a, Array):
        return a.aval
    if hasattr(a, "shape") and hasattr(a, "dtype"):
        return Tracer(build.const(0, to_dtype(a.dtype), tuple(a.shape))).aval
    return array(a).aval


@placed
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    """`full` with the shape and dtype of `a`, unless told otherwise.

    >>> full_like(array([1.0, 2.0]), 7)
    Array([7., 7.], dtype=float32)
    """
    like = _model(a)
    sizes = like.shape if shape is None else shape_of(shape, "full_like")
    kind = like.dtype if dtype is None else to_dtype(dtype)
    if is_scalar(fill_value):
        scalar_fits(fill_value, kind)
        if isinstance(fill_value, complex) and not kind.is_complex:
            raise TypeError(f"full_like: the complex number {fill_value} has no value of dtype {kind}")
        return filled(sizes, fill_value, kind, like.weak and dtype is None)
    return _full(array(fill_value, copy=False), sizes, kind)


@placed
def zeros_like(a: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Zeros with the shape and dtype of `a`, unless told otherwise.

    >>> zeros_like(array([1, 2]))
    Array([0, 0], dtype=int64)
    """
    return full_like(a, 0, dtype, shape)


@placed
def ones_like(a: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Ones with the shape and dtype of `a`, unless told otherwise.

    >>> ones_like(array([1, 2]), shape=(3,))
    Array([1, 1, 1], dtype=int64)
    """
    return full_like(a, 1, dtype, shape)


@placed
def empty_like(prototype: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Zeros with the shape and dtype of `prototype`, unless told otherwise.

    >>> empty_like(array([1.0, 2.0]))
    Array([0., 0.], dtype=float32)
    """
    return full_like(prototype, 0, dtype, shape)
