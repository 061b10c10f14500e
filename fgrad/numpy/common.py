"""What the array functions share: axes, shapes, dtypes and the errors about them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import update_wrapper, wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from fgrad.errors import (
    ArgumentError,
    AxisError,
    ConcretizationError,
    DtypeError,
    ShapeError,
    describe,
    note_user_line,
)
from fgrad.run.array import DeviceArray, empty, from_host, writable_view
from fgrad.run.eager import public, refuse_options
from fgrad.run.placement import device_put
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim
from fgrad.trace.stage import stages
from fgrad.trace.tracer import ArrayLike, Tracer, is_scalar, lift, promoted, scalar_fits, unwrapped
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

Axis = int | Sequence[int] | None
DTypeLike = Any
F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Axis", "DTypeLike"]


def axis_of(axis: Any, ndim: int, name: str) -> int:
    """`axis` counted from the front; raises ShapeError naming the function when there is no such
    axis.
    """
    try:
        i = operator.index(axis)
    except TypeError:
        raise note_user_line(ArgumentError(f"{name}: axis must be an integer, got {axis!r}")) from None
    if not -ndim <= i < ndim:
        span = f"use {-ndim} to {ndim - 1}" if ndim else "a 0-d array has no axes"
        raise note_user_line(AxisError(f"{name}: axis {i} is out of bounds for an array with {ndim} axes; {span}"))
    return i % ndim


def axes_of(axis: Any, ndim: int, name: str) -> tuple[int, ...]:
    """All axes for None, else the given ones, ascending; raises ShapeError for a repeated one."""
    if axis is None:
        return tuple(range(ndim))
    axes = [axis_of(a, ndim, name) for a in (axis if isinstance(axis, list | tuple) else (axis,))]
    if len(set(axes)) != len(axes):
        raise note_user_line(ShapeError(f"{name}: repeated axis in {axis}: every axis can be named once"))
    return tuple(sorted(axes))


def size_of(n: Any, name: str) -> int:
    """One size as a Python int; raises for negative and non-integer ones."""
    try:
        size = operator.index(n)
    except ConcretizationError:
        raise
    except TypeError:
        raise note_user_line(ArgumentError(f"{name}: a size must be an integer, got {describe(n)}")) from None
    if size < 0:
        raise note_user_line(ShapeError(f"{name}: a size must not be negative, got {size}"))
    return size


def shape_of(shape: Any, name: str) -> tuple[int, ...]:
    """A shape given as an int, a sequence or an array of ints."""
    if isinstance(shape, list | tuple):
        return tuple([size_of(n, name) for n in shape])
    if isinstance(shape, np.ndarray):
        return tuple([size_of(n, name) for n in shape.ravel().tolist()])
    return (size_of(shape, name),)


def reshaped_to(shape: Any, old: tuple[int, ...], name: str) -> tuple[int, ...]:
    """`shape` with its -1 worked out for an array shaped `old`."""
    given = shape if isinstance(shape, list | tuple) else [shape]
    sizes = [-1 if isinstance(n, int | np.integer) and n == -1 else size_of(n, name) for n in given]
    total = math.prod(old)
    if sizes.count(-1) > 1:
        raise note_user_line(ShapeError(f"{name}: only one size can be -1, got {tuple(sizes)}"))
    if -1 in sizes:
        known = math.prod([n for n in sizes if n != -1])
        if known == 0 or total % known:
            raise note_user_line(ShapeError(f"{name}: cannot reshape {old} ({total} elements) into {tuple(sizes)}"))
        sizes[sizes.index(-1)] = total // known
    if math.prod(sizes) != total or any(n < 0 for n in sizes):
        raise note_user_line(
            ShapeError(
                f"{name}: cannot reshape {old} ({total} elements) into {tuple(sizes)} "
                f"({math.prod(sizes)} elements); "
                "give -1 for a size that should be worked out"
            )
        )
    return tuple(sizes)


def no_out(out: Any, name: str) -> None:
    """Refuse `out=`: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(
            f"{name}: arrays are immutable, so out= cannot be written; bind the result to the name"
        )


def common(name: str, *xs: ArrayLike, least: DType | None = None) -> tuple[list[UOp], DType, bool]:
    """-> (nodes of one dtype and shape, dtype, weak); errors name the function."""
    try:
        nodes, dtype, weak = promoted(*xs, least=least)
    except DtypeError as e:
        raise note_user_line(DtypeError(f"{name}: {e}")) from None
    shape = nodes[0].shape
    for n in nodes:
        if n.shape != shape:
            return broadcast(name, *nodes), dtype, weak
    return nodes, dtype, weak


def broadcast(name: str, *nodes: UOp) -> list[UOp]:
    """Nodes at their common shape; the error names the function and the way out."""
    shapes = [n.shape for n in nodes]
    try:
        shape = build.broadcast_shapes(*shapes)
    except ShapeError:
        raise note_user_line(
            ShapeError(
                f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast together; "
                "add missing axes with x[:, None] or reshape"
            )
        ) from None
    return [build.broadcast_to(n, shape) for n in nodes]


def need(condition: bool, name: str, message: str) -> None:
    """Raise DtypeError('name: message') unless `condition`."""
    if not condition:
        raise note_user_line(DtypeError(f"{name}: {message}"))


def fitting(x: Any, other: Any) -> Any:
    """The Python int `x` as an operand beside `other`: checked for overflow, beyond int64 a NumPy
    scalar.
    """
    dtype = (
        other.aval.dtype
        if isinstance(other, Array)
        # fmt: skip
        else (dt.to_dtype(other.dtype) if isinstance(other, np.ndarray | np.generic) else None)
    )
    if dtype is not None and dtype.is_int:
        scalar_fits(x, dtype)
    return x if -(1 << 63) <= x < 1 << 63 else np.uint64(x)


def binary(body: F) -> F:
    """`public` for functions of two operands: a Python int that does not fit the other's dtype
    raises OverflowError.

    (Outside a stage a Python number is an argument of the compiled function, whose value it cannot
    look at.)
    """
    inner = public()(body)

    @wraps(body)
    def wrapper(x1: ArrayLike, x2: ArrayLike, **options: Any) -> Any:
        try:
            if options:
                refuse_options(body.__name__, (), options)
                raise ArgumentError(f"{body.__name__}: got an unexpected keyword argument {next(iter(options))!r}")
            if type(x2) is int:
                x2 = fitting(x2, x1)
            elif type(x1) is int:
                x1 = fitting(x1, x2)
            return inner(x1, x2)
        except Exception as error:
            trim(error)
            raise

    wrapper.dispatcher = inner.dispatcher  # type: ignore[attr-defined]
    return cast(F, wrapper)


def alias(function: F, name: str) -> F:
    """The same function under another name that it tells as its own; both share what is compiled."""
    inner: Any = function
    twin = FunctionType(inner.__code__, inner.__globals__, name, inner.__defaults__, inner.__closure__)
    twin.__kwdefaults__ = inner.__kwdefaults__
    update_wrapper(twin, inner)
    twin.__name__ = twin.__qualname__ = name
    return cast(F, twin)


def placed(make: F) -> F:
    """Give a function that makes arrays its `device=`: the result is moved there."""

    @wraps(make)
    def wrapper(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        try:
            out = make(*args, **kwargs)
            return out if device is None else device_put(out, device)
        except Exception as error:
            trim(error)
            raise

    return cast(F, wrapper)


def is_traced(x: Any) -> bool:
    """Whether `x` is a tracer."""
    return isinstance(x, Tracer)


def as_array(x: ArrayLike) -> Array:
    """The array of anything array-like, made on the host if need be."""
    x = unwrapped(x)
    return x if isinstance(x, Array) else from_host(np.asarray(x))


def host(x: Any, name: str, instead: str, carries: bool = False) -> Any:
    """The NumPy array of a concrete array-like.

    carries   whether the result holds values of `x`: then a derivative would be lost without a word

    Raises ConcretizationError for a tracer without a value, or whose derivative would be lost, telling what to use
    `instead`.
    """
    x = unwrapped(x)
    if isinstance(x, Array):
        value = x.concrete(f"In {name}, {instead}")
        if carries and isinstance(x, Tracer) and x.node.dtype.is_inexact and x.node.born >= 1:
            raise note_user_line(
                ConcretizationError(
                    f"{name} works on values outside of the program, so derivatives cannot pass through it: {instead}, "
                    "or call it outside of the function that is transformed"
                )
            )
        return value
    if isinstance(x, list | tuple):
        return np.asarray([host(y, name, instead, carries) for y in x])
    return np.asarray(x)


def filled(shape: tuple[int, ...], value: Any, dtype: DType, weak: bool = False) -> Array:
    """An array full of one value: a constant inside a stage, memory filled on the host outside."""
    if stages():
        return Tracer(build.const(value, dtype, shape), weak)
    out = empty(dtype, shape, weak)
    out.device.sync()
    writable_view(out)[...] = np.asarray(value).astype(dtype.np)
    return out


def lowest(dtype: DType) -> Any:
    """The value below all others (MAX starts from it)."""
    if dtype.is_float:
        low = np.float64(-np.inf).astype(dtype.np)
        return low if np.isinf(low) else dt.finfo(dtype).min
    return dt.int_range(dtype)[0]


def highest(dtype: DType) -> Any:
    """The value above all others (MIN starts from it)."""
    if dtype.is_float:
        high = np.float64(np.inf).astype(dtype.np)
        return high if np.isinf(high) else dt.finfo(dtype).max
    return dt.int_range(dtype)[1]


def truth(x: UOp) -> UOp:
    """x != 0, as bool."""
    return build.cast(x, dt.bool_)


def is_nan(x: UOp) -> UOp:
    """Where floats are NaN."""
    return build.not_(build.eq(x, x))


def widened(x: UOp) -> UOp:
    """Small floats as float32, everything else as it is."""
    return build.cast(x, dt.accumulator(x.dtype))


def restore_axes(x: UOp, axes: Sequence[int], ndim: int) -> UOp:
    """Put reduced `axes` of an `ndim`-d array back with size 1."""
    sizes = iter(x.shape)
    return build.reshape(x, tuple([1 if i in axes else next(sizes) for i in range(ndim)]))


def reduced(x: UOp, axes: Sequence[int], op: Op, keepdims: bool) -> UOp:
    """REDUCE, with the axes kept at size 1 on request."""
    y = build.reduce_(x, axes, op)
    return restore_axes(y, axes, x.ndim) if keepdims else y


__all__ += [
    "DeviceArray", "Tracer", "alias", "as_array", "axes_of", "axis_of", "binary", "broadcast", "common", "filled",
    "from_host", "highest", "host", "is_nan", "is_scalar", "is_traced", "lift", "lowest", "need",
    "no_out", "placed", "public", "reduced", "reshaped_to", "restore_axes", "shape_of", "size_of",
    "truth", "widened",
]  # fmt: skip
