"""Running sums and products along an axis."""

from __future__ import annotations

from fgrad.errors import note_user_line
from fgrad.numpy.common import (
    DTypeLike,
    axis_of,
    lift,
    no_out,
    public,
)
from fgrad.numpy.extremes import has_nan
from fgrad.numpy.reductions import total_dtype
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum"]


# ---- running totals
def prefix(x: UOp, axis: int, op: Op, reverse: bool = False) -> UOp:
    """PREFIX: the running `op` along `axis`."""
    return uop(Op.PREFIX, (x,), (op, axis, reverse)) if x.shape[axis] else x


def _running(name: str, a: ArrayLike, axis: int | None, dtype: DTypeLike, op: Op, skip_nan: bool = False) -> Array:
    t = lift(a)
    kind = total_dtype(t.node.dtype) if dtype is None else to_dtype(dtype)
    x = t.node
    if skip_nan and x.dtype.is_inexact:
        x = build.where(has_nan(x), build.const_like(0 if op is Op.ADD else 1, x), x)
    x = build.cast(x, kind)
    if axis is None:
        x, i = build.reshape(x, (x.size,)), 0
    else:
        i = axis_of(axis, x.ndim, name)
    return Tracer(prefix(x, i, op), t.weak and dtype is None)


@public(static=("axis", "dtype"))
def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The running sum along `axis` (None: of the array laid out flat).

    The shape stays (None: one axis). Integers and bools give int64 or uint64, unless `dtype` says otherwise.

    >>> cumsum(array([[1, 2], [3, 4]]), axis=1)
    Array([[1, 3],
           [3, 7]], dtype=int64)
    """
    no_out(out, "cumsum")
    return _running("cumsum", a, axis, dtype, Op.ADD)


@public(static=("axis", "dtype"))
def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """The running product along `axis` (None: of the array laid out flat).

    Shapes and dtypes as in `cumsum`; the derivative does not divide by the elements, so zeros may be among them.

    >>> cumprod(array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int64)
    """
    no_out(out, "cumprod")
    return _running("cumprod", a, axis, dtype, Op.MUL)


@public(static=("axis", "dtype"))
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """`cumsum` that takes NaN for 0.

    Shapes and dtypes as in `cumsum`.

    >>> nancumsum(array([1.0, nan, 2.0]))
    Array([1., 1., 3.], dtype=float32)
    """
    no_out(out, "nancumsum")
    return _running("nancumsum", a, axis, dtype, Op.ADD, skip_nan=True)


@public(static=("axis", "dtype"))
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """`cumprod` that takes NaN for 1.

    Shapes and dtypes as in `cumprod`.

    >>> nancumprod(array([2.0, nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    no_out(out, "nancumprod")
    return _running("nancumprod", a, axis, dtype, Op.MUL, skip_nan=True)


def _cumulative(name: str, x: ArrayLike, axis: int | None, dtype: DTypeLike, op: Op, include_initial: bool) -> Array:
    t = lift(x)
    if axis is None:
        if t.ndim != 1:
            raise note_user_line(ValueError(f"{name}: axis is needed for an array of {t.ndim} axes"))
        axis = 0
    out = lift(_running(name, x, axis, dtype, op))
    if not include_initial:
        return out
    i = axis_of(axis, out.ndim, name)
    first = build.const(0 if op is Op.ADD else 1, out.node.dtype, (*out.shape[:i], 1, *out.shape[i + 1 :]))
    return Tracer(build.concatenate([first, out.node], i), out.weak)


@public(static=("axis", "dtype", "include_initial"))
def cumulative_sum(
    x: ArrayLike, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """The running sum along `axis`; with a 0 in front on request.

    axis              may be None for an array of one axis; of several, raises
    include_initial   the result is one longer

    >>> cumulative_sum(array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int64)
    """
    return _cumulative("cumulative_sum", x, axis, dtype, Op.ADD, include_initial)


@public(static=("axis", "dtype", "include_initial"))
def cumulative_prod(
    x: ArrayLike, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """The running product along `axis`; with a 1 in front on request.

    axis              may be None for an array of one axis; of several, raises
    include_initial   the result is one longer

    >>> cumulative_prod(array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int64)
    """
    return _cumulative("cumulative_prod", x, axis, dtype, Op.MUL, include_initial)
