"""Which bytes of a buffer a view shows: the geometry behind the ordering contract.

A view is movement over storage: RESHAPE, PERMUTE, SHRINK, FLIP, EXPAND, BITCAST. Two regions of one
buffer are compared axis by axis while the views keep the buffer's axes apart, and element by
element once a RESHAPE has mixed them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.uop.node import UOp
from fgrad.uop.op import Op
from fgrad.uop.pattern import only_ones

VIEWS = (Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.EXPAND, Op.BITCAST)
_MOST_ELEMENTS = 1 << 24  # larger mixed views count as their bounding interval: 128 MB of indices


class Region:
    """The elements of a buffer of `shape` that a chain of view ops shows (at most: see `is_exact`).

    lo, hi     bounding interval of flat element positions, hi exclusive
    axes       one `range` for each axis of the buffer, or None once they are mixed
    is_exact   False where a computed start or a computed index may choose less
    is_empty   it has no elements, wherever a computed start lies
    """

    __slots__ = ("shape", "moves", "lo", "hi", "axes", "is_exact", "is_empty", "_is_anywhere", "_flat")

    def __init__(self, shape: tuple[int, ...], moves: Sequence[UOp]) -> None:
        self.shape = shape
        self.moves = tuple(moves)
        self.is_exact = True
        self.is_empty = any(0 in s for s in (shape, *[m.shape for m in moves]))
        self._is_anywhere = False
        self._flat: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self.axes = self._walk()
        if self.is_empty:
            self.lo = self.hi = 0
        elif self.axes is not None:
            ends = [_ends(r) for r in self.axes]
            self.lo = _flat_position(shape, [first for first, _ in ends])
            self.hi = _flat_position(shape, [last for _, last in ends]) + 1
        elif math.prod(shape) <= _MOST_ELEMENTS and not self._is_anywhere:
            flat = self.flat()
            self.lo, self.hi = (int(flat[0]), int(flat[-1]) + 1) if flat.size else (0, 0)
        else:
            self.lo, self.hi = 0, math.prod(shape)
            self.is_exact = False

    @property
    def is_whole(self) -> bool:
        """Does it surely hold every element of the buffer?"""
        if not self.is_exact:
            return False
        if self.is_empty:
            return 0 in self.shape
        if self.axes is None:
            return self.flat().size == math.prod(self.shape)
        return all(len(r) == n for r, n in zip(self.axes, self.shape, strict=True))

    def overlaps(self, other: Region) -> bool:
        """May the two share an element? Exact when both regions are."""
        if self.hi <= other.lo or other.hi <= self.lo:
            return False
        if self.axes is not None and other.axes is not None:
            return all(_meet(a, c) for a, c in zip(self.axes, other.axes, strict=True))
        if math.prod(self.shape) > _MOST_ELEMENTS or self._is_anywhere or other._is_anywhere:
            return True
        return bool(np.intersect1d(self.flat(), other.flat(), assume_unique=True).size)

    def flat(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The flat positions of its elements, ascending, each once."""
        if self._flat is None:
            index: Any = np.arange(0 if self.is_empty else math.prod(self.shape))
            if self.axes is not None and not self.is_empty:
                index = index.reshape(self.shape)[np.ix_(*self.axes)]
            elif not self.is_empty and not self._is_anywhere:
                index = index.reshape(self.shape)
                for m in self.moves:
                    index = _moved(m, index)
            self._flat = np.unique(index)
        return self._flat

    def _walk(self) -> tuple[range, ...] | None:
        """Follow the moves while every axis of the view belongs to one axis of the buffer."""
        axes = [range(n) for n in self.shape]
        at: list[int | None] = list(range(len(axes)))  # view axis -> buffer axis (None: repeats, or is computed)
        for m in self.moves:
            match m.op:
                case Op.BITCAST:
                    continue
                case Op.PERMUTE:
                    at = [at[i] for i in m.arg]
                case Op.EXPAND:
                    for axis, _ in m.arg:
                        at.insert(axis, None)
                case Op.FLIP:
                    for i in m.arg:
                        if (a := at[i]) is not None:
                            axes[a] = axes[a][::-1]
                case Op.SHRINK:
                    self._shrink(m, axes, at)
                case Op.RESHAPE if only_ones(m.shape, m.src[0].shape):
                    kept = iter([a for a, n in zip(at, m.src[0].shape, strict=True) if n != 1])
                    at = [next(kept) if n != 1 else None for n in m.shape]
                case Op.GATHER:
                    self.is_exact = False
                    axis = m.arg
                    at = [*at[:axis], *[None] * (m.src[1].ndim - axis), *at[axis + 1 :]]
                case _:
                    self._is_anywhere = any(len(n.src) > 1 for n in self.moves)
                    self.is_exact = not self._is_anywhere
                    return None
        return tuple(axes)

    def _shrink(self, m: UOp, axes: list[range], at: list[int | None]) -> None:
        for i, (start, size, step) in enumerate(m.arg):
            a = at[i]
            if start is None:  # any place along this axis, and later moves choose among what is there
                self.is_exact = False
                at[i] = None
            elif a is not None:
                axes[a] = axes[a][start : start + max(size - 1, 0) * step + 1 : step][:size]


def _flat_position(shape: tuple[int, ...], index: Sequence[int]) -> int:
    out = 0
    for n, i in zip(shape, index, strict=True):
        out = out * n + i
    return out


def _ends(r: range) -> tuple[int, int]:
    """Smallest and largest of a range that is not empty, in constant time."""
    return (r[0], r[-1]) if r.step > 0 else (r[-1], r[0])


def _meet(a: range, c: range) -> bool:
    """Do two arithmetic progressions share a number?"""
    if not a or not c:
        return False
    (a_lo, a_hi), (c_lo, c_hi) = _ends(a), _ends(c)
    lo, hi = max(a_lo, c_lo), min(a_hi, c_hi)
    if lo > hi:
        return False
    s, t = abs(a.step), abs(c.step)
    if (a_lo - c_lo) % math.gcd(s, t):
        return False
    if s == 1 or t == 1:  # every s-th number of one, all of the other
        first, step = (a_lo, s) if t == 1 else (c_lo, t)
        return lo + (first - lo) % step <= hi
    small, large = (a, c) if len(a) <= len(c) else (c, a)
    return any(i in large for i in small)


def _moved(m: UOp, index: Any) -> Any:
    match m.op:
        case Op.RESHAPE:
            return index.reshape(m.arg)
        case Op.PERMUTE:
            return index.transpose(m.arg)
        case Op.FLIP:
            return np.flip(index, m.arg)
        case Op.SHRINK:
            return index[tuple([
                slice(at, at + (size - 1) * step + 1 if size else at, step)
                for at, size, step in m.arg
            ])]  # fmt: skip
        case Op.EXPAND:  # repeats nothing new
            return np.broadcast_to(np.expand_dims(index, tuple([a for a, _ in m.arg])), m.shape)
        case Op.BITCAST:
            return index
    raise AssertionError(f"{m.op.name} is no view")
