"""Diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import note_user_line
from fgrad.numpy.common import (
    DTypeLike,
    axis_of,
    from_host,
    lift,
    placed,
    public,
    size_of,
)
from fgrad.trace.arraylike import Array
from fgrad.trace.stage import stages
from fgrad.trace.tracer import (
    ArrayLike,
    Tracer,
)
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp

__all__ = ["diag", "diagflat", "diagonal", "eye", "identity", "tri", "tril", "triu"]


def _host_or(data: Callable[[], Any], node: Callable[[], UOp]) -> Array:
    """A host array outside stages, a node inside."""
    return Tracer(node()) if stages() else from_host(data())


@placed
def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Ones on the k-th diagonal of an N x M matrix of zeros.

    M is N by default; k > 0 lies above the main diagonal. The default float, unless `dtype` says otherwise.

    >>> eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    rows = size_of(N, "eye")
    columns = rows if M is None else size_of(M, "eye")
    kind = to_dtype(float if dtype is None else dtype)
    shift = operator.index(k)
    return _host_or(
        lambda: np.eye(rows, columns, shift).astype(kind.np),
        lambda: build.cast(_band((rows, columns), build.eq, shift), kind),
    )


def identity(n: int, dtype: DTypeLike = None) -> Array:
    """The n x n identity matrix.

    The default float, unless `dtype` says otherwise.

    >>> identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def _band(shape: tuple[int, ...], compare: Callable[[UOp, UOp], UOp], k: int | UOp) -> UOp:
    """compare(column, row + k) over the last two axes of `shape`."""
    row, column = (build.iota_along(shape[-2:], i) for i in (0, 1))
    return build.broadcast_to(compare(column, build.add(row, k)), shape)


def tri(N: int, M: int | None = None, k: ArrayLike = 0, dtype: DTypeLike = None) -> Array:
    """Ones at and below the k-th diagonal; `k` may be traced.

    N x M, M is N by default. The default float, unless `dtype` says otherwise.

    >>> tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    rows = size_of(N, "tri")
    columns = rows if M is None else size_of(M, "tri")
    kind = to_dtype(float if dtype is None else dtype)
    if isinstance(k, Tracer):
        return Tracer(build.cast(_band((rows, columns), build.le, build.cast(k.node, dt.int64)), kind))
    k = operator.index(k)  # type: ignore[arg-type]
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
    """f[.., n, m] -> f[.., n, m]: zeros above the k-th diagonal.

    k > 0 keeps diagonals above the main one.

    >>> tril(array([[1, 2], [3, 4]]))
    Array([[1, 0],
           [3, 4]], dtype=int64)
    """
    return _triangle("tril", m, True, k)


@public(static=("k",))
def triu(m: ArrayLike, k: int = 0) -> Array:
    """f[.., n, m] -> f[.., n, m]: zeros below the k-th diagonal.

    k < 0 keeps diagonals below the main one.

    >>> triu(array([[1, 2], [3, 4]]))
    Array([[1, 2],
           [0, 4]], dtype=int64)
    """
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
    """[.. n .. m ..] -> [.., d]: the offset-th diagonal over two axes, on a new last axis.

    Raises ShapeError for fewer than two axes.

    >>> diagonal(array([[1, 2, 3], [4, 5, 6]]), 1)
    Array([2, 6], dtype=int64)
    """
    t = lift(a)
    first, second = (axis_of(i, t.ndim, "diagonal") for i in (axis1, axis2))
    if first == second:
        raise note_user_line(ValueError(f"diagonal: axis1 and axis2 are both axis {first}"))
    return Tracer(diagonal_node(t.node, operator.index(offset), first, second), t.weak)


@public(static=("k",))
def diag(v: ArrayLike, k: int = 0) -> Array:
    """[n] -> [n+|k|, n+|k|] with v on the k-th diagonal; [n, m] -> [d], the k-th diagonal.

    >>> diag(array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int64)
    >>> diag(array([[1, 2], [3, 4]]), 1)
    Array([2], dtype=int64)
    """
    t = lift(v)
    if t.ndim == 2:
        return Tracer(diagonal_node(t.node, operator.index(k), 0, 1), t.weak)
    if t.ndim != 1:
        raise note_user_line(ValueError(f"diag takes vectors and matrices, got shape {t.shape}; use diagonal"))
    shift, n = operator.index(k), t.shape[0]
    on = build.eq(build.iota_along((n, n), 1), build.iota_along((n, n), 0))
    square = build.where(on, build.broadcast_to(t.node, (n, n)), build.const(0, t.node.dtype, (n, n)))
    return Tracer(
        build.pad(square, [(max(-shift, 0), max(shift, 0), 0), (max(shift, 0), max(-shift, 0), 0)]),
        t.weak,
    )


@public(static=("k",))
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """`diag` of v laid out flat.

    >>> diagflat(array([1, 2]), 1)
    Array([[0, 1, 0],
           [0, 0, 2],
           [0, 0, 0]], dtype=int64)
    """
    t = lift(v)
    return diag(Tracer(build.reshape(t.node, (t.size,)), t.weak), k)
