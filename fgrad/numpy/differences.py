"""Differences, slopes and integrals along an axis; convolution of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import DTypeLike, axis_of, broadcast, lift, public
from fgrad.numpy.contraction import product_dtypes
from fgrad.numpy.joining import joined
from fgrad.numpy.products import _conjugate
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "trapezoid"]


# ---- convolution
def _slide(x: UOp, v: UOp, mode: str, name: str) -> UOp:
    """sum_k x[i + k] v[k] for the positions that `mode` keeps; len(v) <= len(x)."""
    m = v.shape[0]
    if mode == "full":
        low, high = m - 1, m - 1
    elif mode == "same":
        low, high = m // 2, (m - 1) // 2
    elif mode == "valid":
        low = high = 0
    else:
        raise ValueError(f'{name}: mode must be "full", "same" or "valid", got {mode!r}')
    wide = build.window(build.pad(x, [(low, high, 0)]), 0, m)
    return build.reduce_(build.mul(wide, build.expand(v, [(0, wide.shape[0])])), (1,))


def _vectors(name: str, a: ArrayLike, v: ArrayLike, preferred: DTypeLike) -> tuple[UOp, UOp, dt.DType, bool]:
    (x, y), dtype, weak = promoted(a, v)
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        raise note_user_line(ShapeError(f"{name} takes two vectors with elements, got shapes {x.shape} and {y.shape}"))
    wide, kind = product_dtypes(dtype, preferred)
    return build.cast(x, wide), build.cast(y, wide), kind, weak


@public(static=("mode", "precision", "preferred_element_type"))
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """out[i] = sum_k a[i - k] v[k] of two vectors.

    mode   "full": wherever they overlap; "same": as long as the longer one; "valid": where they
           overlap entirely

    -> [n + m - 1] for "full". Raises ShapeError for anything but vectors, or an empty one.

    >>> convolve(array([1, 2, 3]), array([0, 1]))
    Array([0, 1, 2, 3], dtype=int64)
    >>> convolve(array([1, 2, 3]), array([0, 1]), "same")
    Array([0, 1, 2], dtype=int64)
    """
    x, y, kind, weak = _vectors("convolve", a, v, preferred_element_type)
    if y.size > x.size:
        x, y = y, x
    return Tracer(build.cast(_slide(x, build.flip(y, (0,)), mode, "convolve"), kind), weak)


@public(static=("mode", "precision", "preferred_element_type"))
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """out[i] = sum_k a[i + k] conj(v[k]) of two vectors; modes as in `convolve`.

    Raises ShapeError for anything but vectors, or an empty one.

    >>> correlate(array([1, 2, 3]), array([0, 1]))
    Array([2, 3], dtype=int64)
    """
    x, y, kind, weak = _vectors("correlate", a, v, preferred_element_type)
    y = _conjugate(y)
    if y.size > x.size:  # slide the shorter one the other way
        out = build.flip(_slide(y, x, mode, "correlate"), (0,))
    else:
        out = _slide(x, y, mode, "correlate")
    return Tracer(build.cast(out, kind), weak)


# ---- differences and integrals
def _difference(x: UOp, axis: int) -> UOp:
    n = x.shape[axis]
    high, low = build.slice_axis(x, axis, 1, max(n, 1)), build.slice_axis(x, axis, 0, max(n - 1, 0))
    return build.xor(high, low) if x.dtype is dt.bool_ else build.sub(high, low)


@public(static=("n", "axis"))
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The n-th difference of neighbours along `axis`; of bools: whether they differ.

    The axis becomes shorter by n, unless `prepend` and `append` (arrays, or numbers) are put at its ends first.

    >>> diff(array([1, 2, 4, 7]))
    Array([1, 2, 3], dtype=int64)
    >>> diff(array([1, 2, 4, 7]), 2)
    Array([1, 1], dtype=int64)
    """
    if n < 0:
        raise note_user_line(ValueError(f"diff: n must not be negative, got {n}"))
    given = [v for v in (prepend, a, append) if v is not None]
    nodes, _, weak = promoted(*given)
    x = nodes[0 if prepend is None else 1]
    if not x.ndim:
        raise note_user_line(ShapeError("diff needs at least one axis, got a 0-d array"))
    i = axis_of(axis, x.ndim, "diff")
    if n == 0:
        return Tracer(x, weak)
    if len(nodes) > 1:
        ones = (*x.shape[:i], 1, *x.shape[i + 1 :])
        nodes = [build.broadcast_to(v, ones) if v.ndim == 0 else v for v in nodes]
        x = joined(nodes, i, "diff")
    for _ in range(n):
        x = _difference(x, i)
    return Tracer(x, weak)


@public()
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """The differences of neighbours of the array laid out flat, with something before and after.

    -> a vector of size - 1 elements and those of `to_begin` and `to_end`.

    >>> ediff1d(array([1, 2, 4]), to_end=array([99]))
    Array([ 1,  2, 99], dtype=int64)
    """
    t = lift(ary)
    flat = build.reshape(t.node, (t.size,))
    parts = [_difference(flat, 0)]
    if to_begin is not None:
        parts.insert(0, cast_node(to_begin, flat.dtype))
    if to_end is not None:
        parts.append(cast_node(to_end, flat.dtype))
    return Tracer(build.concatenate([build.reshape(p, (p.size,)) for p in parts], 0), t.weak)


@public(static=("axis",))
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral along `axis` by the trapezoid rule, over points `x` or at distance `dx`.

    The axis is gone from the result; integers become the default float.

    >>> trapezoid(array([1.0, 2.0, 3.0]))
    Array(4., dtype=float32)
    >>> trapezoid(array([1.0, 2.0, 3.0]), x=array([0.0, 2.0, 3.0]))
    Array(5.5, dtype=float32)
    """
    given = [y, dx if x is None else x]
    (f, h), _, weak = promoted(*given, least=dt.default_float())
    i = axis_of(axis, f.ndim, "trapezoid")
    n = f.shape[i]
    if x is not None:
        if h.ndim == 1:
            h = build.reshape(_difference(h, 0), tuple([max(n - 1, 0) if k == i else 1 for k in range(f.ndim)]))
        else:
            h = _difference(h, axis_of(axis, h.ndim, "trapezoid"))
    high, low = build.slice_axis(f, i, 1, max(n, 1)), build.slice_axis(f, i, 0, max(n - 1, 0))
    area = build.mul(*broadcast("trapezoid", build.mul(build.add(high, low), 0.5), h))
    return Tracer(build.reduce_(area, (axis_of(axis, area.ndim, "trapezoid"),)), weak)


def _slope(f: UOp, h: UOp, i: int, edge_order: int) -> UOp:
    """Second-order differences along axis i at points with distances h (a vector of n-1, or a
    scalar).
    """
    n = f.shape[i]

    def at(start: int, stop: int) -> UOp:
        return build.slice_axis(f, i, start, stop)

    def step(start: int, stop: int) -> UOp:
        part = h if not h.ndim else build.slice_axis(h, 0, start, stop)
        shape = tuple([part.size if k == i and h.ndim else 1 for k in range(f.ndim)])
        return build.broadcast_to(build.reshape(part, shape), at(start, stop).shape)

    parts = []
    first, last = (
        build.div(build.sub(at(1, 2), at(0, 1)), step(0, 1)),
        build.div(build.sub(at(n - 1, n), at(n - 2, n - 1)), step(n - 2, n - 1)),
    )
    if n > 2:
        p, q = step(0, n - 2), step(1, n - 1)
        if not h.ndim:
            middle = build.div(build.sub(at(2, n), at(0, n - 2)), build.mul(p, 2))
        else:
            total = build.add(p, q)
            middle = build.add(
                build.mul(build.div(build.sub(at(2, n), at(1, n - 1)), q), build.div(p, total)),
                build.mul(build.div(build.sub(at(1, n - 1), at(0, n - 2)), p), build.div(q, total)),
            )
        if edge_order == 2:  # extrapolate the slope linearly from the first two intervals
            for k in (0, 1):
                a, b = (step(0, 1), step(1, 2)) if k == 0 else (step(n - 2, n - 1), step(n - 3, n - 2))
                near, far = (at(1, 2), at(0, 1)), (at(2, 3), at(1, 2))
                if k:
                    near, far = (
                        (at(n - 1, n), at(n - 2, n - 1)),
                        (at(n - 2, n - 1), at(n - 3, n - 2)),
                    )
                s, t = build.div(build.sub(*near), a), build.div(build.sub(*far), b)
                edge = build.add(s, build.mul(build.div(build.sub(s, t), build.add(a, b)), a))
                first, last = (edge, last) if k == 0 else (first, edge)
        parts = [first, middle, last]
    else:
        parts = [first, last]
    return build.concatenate(parts, i)


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Any = None, edge_order: int = 1) -> Any:
    """The slope along every axis (a list), or along the axes named; central differences inside.

    varargs      the distance of the points, or their coordinates, one for all axes or one for each
    edge_order   order of the differences at the ends, 1 or 2

    Results have the shape of f; an axis needs edge_order + 1 elements.

    >>> gradient(array([1.0, 2.0, 4.0, 7.0]))
    Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    >>> gradient(array([1.0, 2.0, 4.0]), array([0.0, 2.0, 3.0]))
    Array([0.5, 1.5, 2. ], dtype=float32)
    """
    return _gradient(f, list(varargs), axis, edge_order)


@public(static=("axis", "edge_order"))
def _gradient(f: ArrayLike, varargs: Any, axis: Any, edge_order: int) -> Any:
    (x,), dtype, weak = promoted(f, least=dt.default_float())
    if axis is None:
        axes: Sequence[int] = range(x.ndim)
    else:
        axes = [axis_of(i, x.ndim, "gradient") for i in (axis if isinstance(axis, list | tuple) else (axis,))]
    steps: list[Any] = list(varargs) or [1.0]
    if len(steps) not in (1, len(axes)):
        raise note_user_line(ArgumentError(f"gradient: {len(steps)} spacings for {len(axes)} axes"))
    steps = steps * (len(axes) // len(steps))
    out = []
    for i, h in zip(axes, steps, strict=True):
        if x.shape[i] < edge_order + 1:
            raise note_user_line(
                ShapeError(f"gradient: axis {i} of shape {x.shape} needs at least {edge_order + 1} elements")
            )
        given = cast_node(h, dtype)
        node = _difference(given, 0) if given.ndim else given
        out.append(Tracer(_slope(x, node, i, edge_order), weak))
    return out[0] if len(out) == 1 else out
