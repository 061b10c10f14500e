"""layout: arrays of computed lengths inside arrays of the largest length.

An array whose axes have the lengths `dims` lies in one of a larger shape, at the beginning of every axis; what is
beyond may be anything. These functions move such arrays: each reads only what is inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fgrad.trace.update import inverse
from fgrad.uop.build import (
    add,
    and_,
    const,
    expand,
    gather,
    idiv,
    iota,
    iota_along,
    le,
    lt,
    mod,
    mul,
    pad,
    permute,
    reshape,
    shrink,
    sub,
    where,
)
from fgrad.uop.dtype import int64
from fgrad.uop.node import UOp

Dim = int | UOp
Sizes = tuple[int, int, int]  # a length in three programs


def times(a: Dim, b: Dim) -> Dim:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 1 or b == 1:
        return b if a == 1 else a
    return mul(a, b) if isinstance(a, UOp) else mul(b, a)


def plus(a: Dim, b: Dim, sign: int = 1) -> Dim:
    """a + sign * b."""
    if isinstance(b, int):
        return a + sign * b if isinstance(a, int) else a if b == 0 else add(a, sign * b)
    return add(b if sign == 1 else sub(0, b), a)


def as_node(n: Dim) -> UOp:
    """An int64 scalar."""
    return const(n, int64) if isinstance(n, int) else n


def inside(shape: tuple[int, ...], axis: int, n: UOp) -> UOp:
    """bool[*shape]: the position along `axis` is below `n`."""
    return expand(lt(iota(shape[axis]), n), [(i, m) for i, m in enumerate(shape) if i != axis])


def all_inside(shape: tuple[int, ...], dims: Sequence[Dim]) -> UOp | None:
    """bool[*shape]: the position is below `dims` along all axes; None: everywhere."""
    out = None
    for axis, n in enumerate(dims):
        if isinstance(n, UOp):
            mask = inside(shape, axis, n)
            out = mask if out is None else and_(out, mask)
    return out


def masked(x: UOp, dims: Sequence[Dim], axes: Sequence[int], fill: Any) -> UOp:
    """`x` with `fill` beyond the lengths of `axes`."""
    for axis in axes:
        n = dims[axis]
        if isinstance(n, UOp):
            x = where(inside(x.shape, axis, n), x, fill)
    return x


def take(x: UOp, axis: int, idx: UOp) -> UOp:
    """x[.., idx, ..] along `axis`; 0 where an index is out of bounds. idx: i64[m]."""
    order = [axis, *[i for i in range(x.ndim) if i != axis]]
    return permute(gather(permute(x, order), idx), inverse(tuple(order)))


def cut(x: UOp, axis: int, start: UOp, size: int, step: int = 1) -> UOp:
    """x[.., start : start + size * step : step, ..] with 0 <= start <= n; 0 beyond the end."""
    x = pad(x, [(0, size * step if i == axis else 0, 0) for i in range(x.ndim)])
    box = [(None, size, step) if i == axis else (0, n, 1) for i, n in enumerate(x.shape)]
    return shrink(x, box, (start,))


def shift(x: UOp, axis: int, by: Dim, size: int) -> UOp:
    """y[.., k, ..] = x[.., k - by, ..] for k below `size`, 0 where there is none; 0 <= by <= size."""
    if isinstance(by, int) and by + x.shape[axis] <= size:
        return pad(x, [(by, size - by - n, 0) if i == axis else (0, 0, 0) for i, n in enumerate(x.shape)])
    x = pad(x, [(size, 0, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
    return cut(x, axis, as_node(plus(size, by, -1)), size)


def within(x: UOp, axis: int, n: UOp) -> UOp:
    """x below `n` along `axis`, 0 beyond. Nothing beyond is read; `lower.views` knows that the rest keeps its place."""
    place = iota(x.shape[axis])
    return take(x, axis, where(lt(place, n), place, -1))


def position(shape: tuple[int, ...], dims: Sequence[Dim]) -> UOp:
    """i64[*shape]: the row-major position of each index in an array of the lengths `dims`."""
    out: UOp = const(0, int64, shape)
    stride: Dim = 1
    for axis in reversed(range(len(shape))):
        out = add(out, mul(iota_along(shape, axis), stride))
        stride = times(stride, dims[axis])
    return out


def addresses(at: UOp, shape: Sequence[int], dims: Sequence[Dim]) -> UOp:
    """Where the elements at row-major positions `at` of an array of lengths `dims` lie in one of `shape`."""
    out: UOp = const(0, int64, at.shape)
    rest = at
    for axis in reversed(range(len(shape))):
        index = rest
        if axis:
            index, rest = mod(rest, dims[axis]), idiv(rest, dims[axis])
        out = add(out, mul(index, math.prod(shape[axis + 1 :])))
    return out


def position_of(shape: tuple[int, ...], dims: Sequence[Dim], old: Sequence[int], old_dims: Sequence[Dim]) -> UOp:
    """i64[*shape]: where the element at each index of an array of lengths `dims` lies in the space `old` when the
    array has the lengths `old_dims`.
    """
    return addresses(position(shape, dims), old, old_dims)


def _rows(shape: tuple[int, ...], dims: Sequence[Dim]) -> tuple[int, int, int]:
    """-> (first axis of more than one element, axes up to the last short one, elements below them)."""
    first = next((i for i, n in enumerate(dims) if n != 1), 0)
    last = max([i for i, n in enumerate(dims) if isinstance(n, UOp)], default=first)
    return first, last + 1, math.prod(shape[last + 1 :])


def is_packed(dims: Sequence[Dim]) -> bool:
    """Whether no axis but the first (of more than one element) can be shorter than its space."""
    return all(isinstance(n, int) for n in [n for n in dims if n != 1][1:])


def unpacked(flat: UOp, shape: tuple[int, ...], dims: Sequence[Dim]) -> UOp:
    """An array of lengths `dims` without gaps, [m], laid out in `shape`. Reads nothing beyond its elements."""
    first, stop, rest = _rows(shape, dims)
    lead, lengths = shape[first:stop], dims[first:stop]
    rows = reshape(flat, (math.prod(lead), rest))
    if is_packed(dims):
        (n,) = lengths
        return reshape(within(rows, 0, as_node(n)), shape)
    here = all_inside(lead, lengths)
    assert here is not None, "some axis is short"
    return reshape(gather(rows, where(here, position(lead, lengths), -1)), shape)


def packed(x: UOp, dims: Sequence[Dim]) -> UOp:
    """The elements inside `dims` of `x` without gaps, [rows, elements of a row], see `rows_of`; or `x` itself."""
    if not any(isinstance(n, UOp) for n in dims):
        return x
    first, stop, rest = _rows(x.shape, dims)
    lead, lengths = x.shape[first:stop], dims[first:stop]
    x = reshape(x, (math.prod(lead), rest))
    return x if is_packed(dims) else gather(x, addresses(iota(x.shape[0]), lead, lengths))


def rows_of(shape: tuple[int, ...], like: tuple[int, ...], dims: Sequence[Dim]) -> int:
    """How many rows of `packed` hold the elements of an array of `shape`, which lies in the space `like`."""
    return math.prod(shape[: _rows(like, dims)[1]])


def groups(a: Sequence[Sizes], b: Sequence[Sizes]) -> list[tuple[range, range]]:
    """Shapes of one size, each length in three programs, cut into the smallest parts of equal products."""
    out: list[tuple[range, range]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        first, second = i, j
        m, n = (1, 1, 1), (1, 1, 1)
        while first == i and second == j or m != n:
            if i < len(a) and (m[0] <= n[0] or j == len(b)):
                m, i = _product(m, a[i]), i + 1
            elif j < len(b):
                n, j = _product(n, b[j]), j + 1
            else:  # they are equal only when all is taken together
                break
        out.append((range(first, i), range(second, j)))
    return out


def _product(a: Sizes, b: Sizes) -> Sizes:
    return (a[0] * b[0], a[1] * b[1], a[2] * b[2])


def is_below(k: UOp, n: Dim) -> UOp:
    """0 <= k < n."""
    return and_(le(0, k), lt(k, n))
