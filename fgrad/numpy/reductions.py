"""Sums, products, extremes, moments, running totals; with `where=`, `initial=`, and their NaN-
skipping kin.

Sums and products of bools and narrow integers are taken in 64 bits, those of small floats in
float32. `axis` may be None
(all axes), an int or a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fgrad.errors import note_user_line
from fgrad.numpy.common import (
    Axis,
    DTypeLike,
    alias,
    axes_of,
    axis_of,
    highest,
    lift,
    lowest,
    need,
    no_out,
    public,
    reduced,
    restore_axes,
    truth,
)
from fgrad.numpy.extremes import has_nan
from fgrad.numpy.matrices import diagonal_node
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, Kind, to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "min",
    "nanargmax", "nanargmin", "nanmax", "nanmin", "nanprod", "nansum", "prod", "ptp", "sum",
    "trace",
]  # fmt: skip


def masked(x: UOp, where: ArrayLike | None, fill: Any, name: str) -> UOp:
    """x where the mask holds, `fill` elsewhere."""
    if where is None:
        return x
    mask = truth(lift(where).node)
    shape = build.broadcast_shapes(x.shape, mask.shape)
    if shape != x.shape:
        raise note_user_line(ValueError(f"{name}: where= of shape {mask.shape} does not broadcast to {x.shape}"))
    return build.where(build.broadcast_to(mask, shape), x, build.const_like(fill, x))


def _start(name: str, initial: ArrayLike, dtype: DType) -> UOp:
    """The node of `initial=`, a scalar, with that dtype."""
    node = cast_node(initial, dtype)
    if node.shape:
        raise note_user_line(ValueError(f"{name}: initial value must be a scalar. Got array of shape {node.shape}"))
    return node


def total_dtype(dtype: DType, promote_integers: bool = True) -> DType:
    """The dtype that sums and products of `dtype` have."""
    if not promote_integers or dtype.is_inexact:
        return dtype
    return dt.uint64 if dtype.kind is Kind.UINT else dt.int64


def _total(
    name: str,
    a: ArrayLike,
    axis: Axis,
    op: Op,
    dtype: DTypeLike,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
    promote_integers: bool = True,
) -> Array:
    t = lift(a)
    kind = total_dtype(t.node.dtype, promote_integers) if dtype is None else to_dtype(dtype)
    x = build.cast(t.node, kind)
    axes = axes_of(axis, x.ndim, name)
    out = reduced(masked(x, where, 0 if op is Op.ADD else 1, name), axes, op, keepdims)
    if initial is not None:
        first = build.broadcast_to(_start(name, initial, kind), out.shape)
        out = uop(op, (out, first))
    return Tracer(out, t.weak and dtype is None)


@public(static=("axis", "dtype", "keepdims", "promote_integers"))
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over some axes, 0 (or `initial`) over none.

    axis       an axis, several, or None: all. They disappear; with `keepdims` they stay with size 1
    dtype      of the result. By default integers and bools give int64 or uint64, half types keep theirs and are
               added in float32
    initial    is added
    where      a mask that broadcasts to `a`: other elements do not count, nor have they a derivative

    >>> sum(array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int64)
    """
    no_out(out, "sum")
    return _total("sum", a, axis, Op.ADD, dtype, keepdims, initial, where, promote_integers)


@public(static=("axis", "dtype", "keepdims", "promote_integers"))
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product over some axes, 1 (or `initial`) over none.

    Arguments and dtypes as in `sum`; the derivative does not divide by the elements, so zeros may be among them.

    >>> prod(array([[1, 2], [3, 4]]), axis=1)
    Array([ 2, 12], dtype=int64)
    >>> grad(prod)(array([0.0, 2.0, 3.0]))
    Array([6., 0., 0.], dtype=float32)
    """
    no_out(out, "prod")
    return _total("prod", a, axis, Op.MUL, dtype, keepdims, initial, where, promote_integers)


def _need_elements(name: str, x: UOp, axes: tuple[int, ...]) -> None:
    if math.prod(x.shape[i] for i in axes) == 0 and x.shape and math.prod([*x.shape, 1]) == 0 and axes:
        raise note_user_line(
            ValueError(f"{name} over axes {axes} of shape {x.shape}: no elements to choose from; give initial=")
        )


def _extreme_complex(x: UOp, axes: tuple[int, ...], op: Op) -> UOp:
    """By real part, then by imaginary part; NaN wins."""
    re, im = build.real(x), build.imag(x)
    worst = lowest(re.dtype) if op is Op.MAX else highest(re.dtype)
    best = build.reduce_(re, axes, op)
    tie = build.eq(re, build.spread(best, re, axes))
    second = build.reduce_(build.where(tie, im, build.const_like(worst, im)), axes, op)
    bad = build.reduce_(has_nan(x), axes, Op.OR)
    nan = build.const_like(math.nan, best)
    return build.complex_(build.where(bad, nan, best), build.where(bad, nan, second))


def extreme_node(x: UOp, axes: tuple[int, ...], op: Op) -> UOp:
    """MAX or MIN over `axes` of any dtype."""
    return _extreme_complex(x, axes, op) if x.dtype.is_complex else build.reduce_(x, axes, op)


def _extreme(
    name: str,
    a: ArrayLike,
    axis: Axis,
    op: Op,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    t = lift(a)
    x = t.node
    axes = axes_of(axis, x.ndim, name)
    if initial is None:
        _need_elements(name, x, axes)
        if where is not None and not x.dtype.is_inexact:
            raise note_user_line(ValueError(f"{name}: with where=, give initial= (an integer for no elements)"))
    worst = 0 if x.dtype.is_complex else lowest(x.dtype) if op is Op.MAX else highest(x.dtype)
    if x.dtype.is_complex:
        need(where is None, name, "complex numbers with where= are not supported; use real and imag")
    y = extreme_node(masked(x, where, worst, name), axes, op)
    y = restore_axes(y, axes, x.ndim) if keepdims else y
    if initial is not None:
        need(not x.dtype.is_complex, name, "complex numbers with initial= are not supported")
        y = uop(op, (y, build.broadcast_to(_start(name, initial, x.dtype), y.shape)))
    return Tracer(y, t.weak)


@public(static=("axis", "keepdims"))
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element, NaN if there is one.

    The dtype stays. `axis` and `keepdims` as in `sum`; elements that share the maximum share the derivative evenly.

    initial   the least that the result may be
    where     a mask of what counts; give `initial` where nothing may

    Raises ValueError over no elements.

    >>> max(array([[1, 5], [7, 2]]), axis=1)
    Array([5, 7], dtype=int64)
    >>> grad(max)(array([1.0, 3.0, 3.0]))
    Array([0. , 0.5, 0.5], dtype=float32)
    """
    no_out(out, "max")
    return _extreme("max", a, axis, Op.MAX, keepdims, initial, where)


@public(static=("axis", "keepdims"))
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element, NaN if there is one.

    The dtype stays. Arguments as in `max`; elements that share the minimum share the derivative evenly.

    Raises ValueError over no elements.

    >>> min(array([[1, 5], [7, 2]]), axis=1, keepdims=True)
    Array([[1],
           [2]], dtype=int64)
    """
    no_out(out, "min")
    return _extreme("min", a, axis, Op.MIN, keepdims, initial, where)


amax = alias(max, "amax")
amin = alias(min, "amin")


@public(static=("axis", "keepdims"))
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The largest minus the smallest element.

    The dtype stays; `axis` and `keepdims` as in `sum`.

    >>> ptp(array([[1, 5], [7, 2]]), axis=0)
    Array([6, 3], dtype=int64)
    """
    no_out(out, "ptp")
    high, low = (lift(_extreme("ptp", a, axis, op, keepdims, None, None)) for op in (Op.MAX, Op.MIN))
    return Tracer(build.sub(high.node, low.node), high.weak)


@public(static=("axis", "keepdims"))
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements are nonzero; true over none.

    -> bool. `axis`, `keepdims` and `where` as in `sum`; NaN counts as true.

    >>> all(array([[1, 0], [2, 3]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out(out, "all")
    x = masked(truth(lift(a).node), where, True, "all")
    return Tracer(reduced(x, axes_of(axis, x.ndim, "all"), Op.AND, keepdims))


@public(static=("axis", "keepdims"))
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether an element is nonzero; false over none.

    -> bool. `axis`, `keepdims` and `where` as in `sum`; NaN counts as true.

    >>> any(array([[0, 0], [2, 0]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out(out, "any")
    x = masked(truth(lift(a).node), where, False, "any")
    return Tracer(reduced(x, axes_of(axis, x.ndim, "any"), Op.OR, keepdims))


@public(static=("axis", "keepdims"))
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of nonzero elements, as int64.

    `axis` and `keepdims` as in `sum`.

    >>> count_nonzero(array([[1, 0], [2, 3]]), axis=1)
    Array([1, 2], dtype=int64)
    """
    x = build.cast(truth(lift(a).node), dt.int64)
    return Tracer(reduced(x, axes_of(axis, x.ndim, "count_nonzero"), Op.ADD, keepdims))


# ---- positions
def first_where(match: UOp, axis: int) -> UOp:
    """int64: the first position along `axis` where `match` holds; the axis' size if nowhere."""
    n = match.shape[axis]
    here = build.iota_along(match.shape, axis)
    return build.reduce_(build.where(match, here, build.const_like(n, here)), (axis,), Op.MIN)


def _arg_extreme(name: str, a: ArrayLike, axis: int | None, op: Op, keepdims: bool, skip_nan: bool = False) -> Array:
    t = lift(a)
    x = t.node
    rank = x.ndim
    if axis is None:
        x, i = build.reshape(x, (x.size,)), 0
    else:
        i = axis_of(axis, rank, name)
    if not x.shape[i]:
        raise note_user_line(ValueError(f"{name} of shape {t.shape}: no elements to choose from"))
    none = None
    if skip_nan and x.dtype.is_inexact:
        bad = has_nan(x)
        none = build.reduce_(bad, (i,), Op.AND)
        need(not x.dtype.is_complex, name, "complex numbers have no order")
        x = build.where(bad, build.const_like(lowest(x.dtype) if op is Op.MAX else highest(x.dtype), x), x)
    best = build.expand(extreme_node(x, (i,), op), [(i, x.shape[i])])
    match = build.eq(x, best)
    if x.dtype.is_inexact:
        if skip_nan:
            match = build.and_(match, build.not_(bad))
        else:  # best is NaN, and equals nothing, exactly if there is one
            match = build.or_(match, has_nan(x))
    out = first_where(match, i)
    if none is not None:
        out = build.where(none, build.const_like(-1, out), out)
    if keepdims:
        out = build.reshape(out, (1,) * rank) if axis is None else restore_axes(out, (i,), rank)
    return Tracer(out)


@public(static=("axis", "keepdims"))
def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array:
    """The first position of the largest element, or of the first NaN, as int64.

    axis   one axis, or None: the position in the array laid out flat

    Raises ValueError over no elements.

    >>> argmax(array([[1, 5], [7, 2]]), axis=1)
    Array([1, 0], dtype=int64)
    """
    no_out(out, "argmax")
    return _arg_extreme("argmax", a, axis, Op.MAX, keepdims)


@public(static=("axis", "keepdims"))
def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array:
    """The first position of the smallest element, or of the first NaN, as int64.

    axis   one axis, or None: the position in the array laid out flat

    Raises ValueError over no elements.

    >>> argmin(array([[1, 5], [7, 2]]))
    Array(0, dtype=int64)
    """
    no_out(out, "argmin")
    return _arg_extreme("argmin", a, axis, Op.MIN, keepdims)


@public(static=("axis", "keepdims"))
def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array:
    """`argmax` that skips NaN; -1 where there is nothing else.

    `axis` and `keepdims` as in `argmax`.

    >>> nanargmax(array([[1.0, nan], [nan, nan]]), axis=1)
    Array([ 0, -1], dtype=int64)
    """
    no_out(out, "nanargmax")
    return _arg_extreme("nanargmax", a, axis, Op.MAX, keepdims, skip_nan=True)


@public(static=("axis", "keepdims"))
def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array:
    """`argmin` that skips NaN; -1 where there is nothing else.

    `axis` and `keepdims` as in `argmin`.

    >>> nanargmin(array([nan, 2.0, 1.0]))
    Array(2, dtype=int64)
    """
    no_out(out, "nanargmin")
    return _arg_extreme("nanargmin", a, axis, Op.MIN, keepdims, skip_nan=True)


# ---- skipping NaN
def _without_nan(a: ArrayLike, fill: Callable[[DType], Any]) -> tuple[Tracer, UOp]:
    """-> (the array with NaN replaced, where it was NaN)."""
    t = lift(a)
    bad = has_nan(t.node)
    if not t.node.dtype.is_inexact:
        return t, bad
    return Tracer(build.where(bad, build.const_like(fill(t.node.dtype), t.node), t.node), t.weak), bad


@public(static=("axis", "dtype", "keepdims"))
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`sum` that takes NaN for 0.

    Arguments and dtypes as in `sum`; the derivative at a NaN is 0.

    >>> nansum(array([1.0, nan, 2.0]))
    Array(3., dtype=float32)
    """
    no_out(out, "nansum")
    return _total("nansum", _without_nan(a, lambda d: 0)[0], axis, Op.ADD, dtype, keepdims, initial, where)


@public(static=("axis", "dtype", "keepdims"))
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`prod` that takes NaN for 1.

    Arguments and dtypes as in `sum`; the derivative at a NaN is 0.

    >>> nanprod(array([2.0, nan, 3.0]))
    Array(6., dtype=float32)
    """
    no_out(out, "nanprod")
    return _total("nanprod", _without_nan(a, lambda d: 1)[0], axis, Op.MUL, dtype, keepdims, initial, where)


def _nan_extreme(
    name: str,
    a: ArrayLike,
    axis: Axis,
    op: Op,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    t, bad = _without_nan(a, lowest if op is Op.MAX else highest)
    out = lift(_extreme(name, t, axis, op, keepdims, initial, where))
    if not t.node.dtype.is_inexact or initial is not None:
        return out
    axes = axes_of(axis, t.ndim, name)
    none = reduced(masked(bad, where, True, name), axes, Op.AND, keepdims)
    return Tracer(build.where(none, build.const_like(math.nan, out.node), out.node), out.weak)


@public(static=("axis", "keepdims"))
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`max` that skips NaN; NaN where there is nothing else.

    Arguments as in `max`; the derivative at a NaN is 0.

    >>> nanmax(array([[1.0, nan], [nan, 3.0]]), axis=1)
    Array([1., 3.], dtype=float32)
    """
    no_out(out, "nanmax")
    return _nan_extreme("nanmax", a, axis, Op.MAX, keepdims, initial, where)


@public(static=("axis", "keepdims"))
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`min` that skips NaN; NaN where there is nothing else.

    Arguments as in `min`; the derivative at a NaN is 0.

    >>> nanmin(array([[1.0, nan], [nan, 3.0]]), axis=1)
    Array([1., 3.], dtype=float32)
    """
    no_out(out, "nanmin")
    return _nan_extreme("nanmin", a, axis, Op.MIN, keepdims, initial, where)


@public(static=("offset", "axis1", "axis2", "dtype"))
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike = None,
    out: None = None,
) -> Array:
    """The sum of a diagonal over two axes.

    a [.., n, .., m, ..] -> the other axes; dtypes as in `sum`.

    offset         the diagonal: above the main one, negative ones below it
    axis1, axis2   the axes of the matrices

    >>> trace(array([[1, 2], [3, 4]]))
    Array(5, dtype=int64)
    """
    no_out(out, "trace")
    t = lift(a)
    if t.ndim < 2:
        raise note_user_line(ValueError(f"trace takes matrices, got shape {t.shape}"))
    first, second = (axis_of(i, t.ndim, "trace") for i in (axis1, axis2))
    held = Tracer(diagonal_node(t.node, offset, first, second), t.weak)
    return _total("trace", held, -1, Op.ADD, dtype, False, None, None)
