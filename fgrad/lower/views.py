"""Views: how an index into the result of a movement op, GATHER or AFTER becomes an index into its
source.

`step` gives the source, its index, and the conditions under which the element comes from there
(else it is 0).
"""

from __future__ import annotations

from fgrad.lower.index import ZERO, Cond, Expr, Index, Ranges, add, constant, scale
from fgrad.uop.build import is_const, scalar_of
from fgrad.uop.dtype import int64
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

VIEWS = frozenset(
    (
        Op.RESHAPE,
        Op.PERMUTE,
        Op.EXPAND,
        Op.PAD,
        Op.SHRINK,
        Op.FLIP,
        Op.WINDOW,
        Op.SKEW,
        Op.GATHER,
        Op.AFTER,
    )
)
_WIDE = 1 << 63


def step(ranges: Ranges, u: UOp, index: Index) -> tuple[UOp, Index, list[Cond]]:
    """-> (source, index into it, conditions). `u.op` must be in VIEWS."""
    x = u.src[0]
    op = u.op
    if op is Op.RESHAPE:
        return x, _reshape(ranges, index, u.shape, x.shape), []
    if op is Op.PERMUTE:
        out: list[Expr] = [ZERO] * x.ndim
        for i, axis in zip(index, u.arg, strict=True):
            out[axis] = i
        return x, tuple(out), []
    if op is Op.EXPAND:
        inserted = {axis for axis, _ in u.arg}
        return x, tuple([i for k, i in enumerate(index) if k not in inserted]), []
    if op is Op.FLIP:
        return x, tuple([add(constant(n - 1), i, -1) if k in u.arg else i
                         for k, (i, n) in enumerate(zip(index, x.shape, strict=True))]), []  # fmt: skip
    if op is Op.SHRINK:
        return x, _shrink(ranges, u, index), []
    if op is Op.PAD:
        return _pad(ranges, u, index)
    if op in (Op.WINDOW, Op.SKEW):
        return _slide(ranges, u, index)
    if op is Op.GATHER:
        return _gather(ranges, u, index)
    assert op is Op.AFTER, op
    return x, index, []


def _reshape(ranges: Ranges, index: Index, new: tuple[int, ...], old: tuple[int, ...]) -> Index:
    """Axes are cut into groups of equal product, and rearranged inside a group only."""
    a = [(i, n) for i, n in zip(index, new, strict=True) if n != 1]
    b = [n for n in old if n != 1]
    out: list[Expr] = []
    i = j = 0
    while i < len(a) and j < len(b):
        pi, pj = a[i][1], b[j]
        i1, j1 = i + 1, j + 1
        while pi != pj:
            if pi < pj:
                pi *= a[i1][1]
                i1 += 1
            else:
                pj *= b[j1]
                j1 += 1
        if i1 - i == 1 and j1 - j == 1:
            out.append(a[i][0])
        else:
            sizes = [n for _, n in a[i:i1]]
            out += ranges.delinear(ranges.recombine(ranges.linear([e for e, _ in a[i:i1]], sizes)), b[j:j1])
        i, j = i1, j1
    it = iter(out)
    return tuple([next(it) if n != 1 else ZERO for n in old])


def _shrink(ranges: Ranges, u: UOp, index: Index) -> Index:
    x = u.src[0]
    starts = iter(u.src[1:])
    out = []
    for i, n, (start, size, by) in zip(index, x.shape, u.arg, strict=True):
        moved = scale(i, by)
        if start is None:
            last = n - ((size - 1) * by + 1 if size else 0)
            moved = add(moved, ranges.value(next(starts), (), 0, last))
        else:
            moved = (moved[0] + start, moved[1])
        out.append(moved)
    return tuple(out)


def _pad(ranges: Ranges, u: UOp, index: Index) -> tuple[UOp, Index, list[Cond]]:
    x = u.src[0]
    out: list[Expr] = []
    conds: list[Cond] = []
    for i, n, (lo, _, between) in zip(index, x.shape, u.arg, strict=True):
        e = (i[0] - lo, i[1])
        if between:
            conds.append((ranges.mod(e, between + 1), 0, 1))
            e = ranges.div(e, between + 1)
        conds.append((e, 0, n))
        out.append(e)
    return x, tuple(out), list(ranges.conditions(conds))


def _slide(ranges: Ranges, u: UOp, index: Index) -> tuple[UOp, Index, list[Cond]]:
    axis, kaxis, n, o, stride, dilation = u.arg
    out = list(index)
    if u.op is Op.WINDOW:
        out[axis] = add(scale(index[axis], stride), index[kaxis], dilation)
        return u.src[0], tuple(out), []
    e = add(index[axis], index[kaxis], -dilation)
    conds: list[Cond] = []
    if stride > 1:
        conds.append((ranges.mod(e, stride), 0, 1))
        e = ranges.div(e, stride)
    conds.append((e, 0, o))
    out[axis] = e
    return u.src[0], tuple(out), list(ranges.conditions(conds))


def _gather(ranges: Ranges, u: UOp, index: Index) -> tuple[UOp, Index, list[Cond]]:
    x, idx = u.src
    at = index[: idx.ndim]
    n = x.shape[u.arg]
    length = cut_at(idx)
    if length is not None and n == idx.shape[0]:
        e = add(at[0], ranges.value(length, (), 0, n), -1)
        return x, index, list(ranges.conditions([(e, -n, 0)]))
    raw = ranges.value(idx, at, -_WIDE, _WIDE - 1, clamped=False)
    inside = ranges.value(idx, at, 0, max(n - 1, 0))
    return x, (*index[: u.arg], inside, *index[idx.ndim :]), [(raw, 0, n)]


def cut_at(idx: UOp) -> UOp | None:
    """The n of indices that are ``where(position < n, position, -1)``: nothing moves, what is beyond is not read."""
    if idx.op is not Op.WHERE or idx.ndim != 1:
        return None
    mask, place, other = idx.src
    if mask.op is not Op.LT or place.op is not Op.IOTA or mask.src[0] is not place or mask.src[1].op is not Op.EXPAND:
        return None
    n = mask.src[1].src[0]
    outside = is_const(other) and scalar_of(other) == -1
    return n if outside and n.shape == () and n.dtype is int64 and place.dtype is int64 else None
