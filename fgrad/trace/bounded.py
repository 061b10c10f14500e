"""bounded: one program for all sizes up to a bound.

Every array of the bounded program has the shape it has at the upper bounds. Inside the lengths of a call it holds what
the program of that call's sizes holds; beyond them anything. So elementwise rows need nothing, and what combines
elements of an axis first fills the part beyond with what does not count: zeros for a sum, NaN at the end of a sort, an
index that is out of bounds for a gather. The lengths are scalars, see `alike`.

Sums run over the longer axis: they are those of the other program up to the order in which they are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.trace import bounded_calls  # noqa: F401  rows of this table
from fgrad.trace.alike import Alike, Dim, Scalars, Sizes, Unlike, Walk, bounding, check_alike, params_of, roots_of
from fgrad.trace.interpret import node_of
from fgrad.trace.layout import (
    as_node,
    cut,
    groups,
    is_below,
    masked,
    packed,
    plus,
    position_of,
    rows_of,
    shift,
    take,
    times,
    unpacked,
)
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    add,
    and_,
    cast,
    eq,
    expand,
    flip,
    gather,
    idiv,
    iota,
    lt,
    maximum,
    minimum,
    mod,
    mul,
    pad,
    reshape,
    sub,
    where,
)
from fgrad.uop.dtype import DType
from fgrad.uop.meaning import identity
from fgrad.uop.node import UOp, paused_gc, slot_param, uop
from fgrad.uop.op import ELEMENTWISE, Mode, Op
from fgrad.uop.program import Program, Update


@dataclass(frozen=True, slots=True)
class Bounded:
    """A program for many sizes, and what it is called with at one.

    program   its params are those of the programs it is made of, then the scalars; a param with a length that differs
              is [m]: the elements without gaps, with space for as many as the upper bounds allow; so are its outs
    dtypes    of the scalars; `words` are their bits at the sizes of the call
    loose     the params with a length that differs
    """

    program: Program
    dtypes: tuple[DType, ...]
    words: tuple[int, ...]
    loose: frozenset[int]


def bound(top: Program, near: Program, now: Program) -> Bounded:
    """One program from those at the upper bounds, at other sizes, and at the sizes of a call; see `alike`.

    Raises Unlike where they differ in more than numbers.
    """
    programs = (top, near, now)
    count = len(top.params)
    if not len(near.params) == len(now.params) == count or not len(near.outs) == len(now.outs) == len(top.outs):
        raise Unlike(Alike(top.outs[0], near.outs[0], now.outs[0]), "it has other parameters or results")
    with paused_gc():
        scalars = Scalars(lambda k, dtype: slot_param(count + k, dtype, ()))
        walk = Walk(scalars, {}, is_outermost=True)
        params, loose = [], []
        for i, p in enumerate(params_of(programs)):
            check_alike(p)
            dims = walk.dims(p)
            params.append(p.top)
            if any(isinstance(n, UOp) for n in dims):
                params[i] = slot_param(i, p.top.dtype, (p.top.size,))
                loose.append(i)
                walk.values[p] = unpacked(params[i], p.top.shape, dims)
        roots = roots_of(programs)
        lengths = [walk.dims(r) for r in roots]
        outs = [packed(x, n) for x, n in zip(walk.outs(roots), lengths, strict=True)]
        rows = [
            scalars.size(*[rows_of(u.shape, r.top.shape, n) for u in r])
            for r, n in zip(roots, lengths, strict=True)
        ]
        spans = tuple([(j, n.arg[0]) for j, n in enumerate(rows) if isinstance(n, UOp)])
        values = scalars.values()
        params += [slot_param(count + k, dtype, ()) for k, (dtype, _) in enumerate(values)]
        words = tuple([int.from_bytes(b, "little") for _, b in values])
        program = Program(tuple(params), tuple(outs), spans=spans)
        return Bounded(program, tuple([d for d, _ in values]), words, frozenset(loose))


# ---- leaves
@bounding(Op.CONST)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    top, near, now = a.args
    return at.scalars.number(top[0], (top[1], near[1], now[1]))


bounding(Op.PARAM)(lambda a, src, at: a.same() and a.top)
bounding(Op.IOTA)(lambda a, src, at: a.top)
bounding.refuse(Op.BUFFER, Op.VARIABLE, because="no jitted program has one")


# ---- movement
@bounding(Op.RESHAPE)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    """Between axes of which only the first may be short, nothing moves; others are laid out anew."""
    old, new = at.dims(a.source(0)), at.dims(a)
    x = src[0]
    before, after = x.shape, a.top.shape
    for p, q in groups(_sizes(a.source(0)), _sizes(a)):
        m, n = [old[i] for i in p], [new[i] for i in q]
        if _is_plain([d for d in m if d != 1], [d for d in n if d != 1]):
            continue
        lead, rest = _count(after[: q.start]), _count(before[p.stop :])
        shape = tuple([after[i] for i in q])
        place = reshape(position_of(shape, n, [before[i] for i in p], m), (_count(shape),))
        x = take(reshape(x, (lead, _count([before[i] for i in p]), rest)), 1, place)
    return reshape(x, after)


def _is_plain(old: list[Dim], new: list[Dim]) -> bool:
    """Whether all elements keep their place."""
    return old == new or all(isinstance(d, int) for d in (*old[1:], *new[1:]))


def _count(shape: Sequence[int]) -> int:
    n = 1
    for m in shape:
        n *= m
    return n


def _sizes(a: Alike) -> list[Sizes]:
    return list(zip(a.top.shape, a.near.shape, a.now.shape, strict=True))


@bounding(Op.PERMUTE, Op.BITCAST)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    return uop(a.op, tuple(src), a.same())


@bounding(Op.EXPAND)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    a.same(lambda arg: [axis for axis, _ in arg])
    return a.top.like(*src)


@bounding(Op.PAD)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    """Zeros begin where the elements end."""
    x, dims = src[0], at.dims(a.source(0))
    between = a.same(lambda arg: [mid for _, _, mid in arg])
    lows = [at.scalars.size(*n) for n in zip(*[[lo for lo, _, _ in arg] for arg in a.args], strict=True)]
    x = masked(x, dims, range(x.ndim), 0)
    for axis, (lo, size, mid) in enumerate(zip(lows, a.top.shape, between, strict=True)):
        x = pad(x, [(0, 0, mid if i == axis else 0) for i in range(x.ndim)])
        x = shift(x, axis, lo, size)
    return x


@bounding(Op.SHRINK)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    x, dims = src[0], at.dims(a.source(0))
    given = iter(src[1:])
    for axis, box in enumerate(_boxes(a, at)):
        start, size, step = box.start, a.top.shape[axis], box.step
        if start is None:
            start = box.clamped(next(given), dims[axis])
        if isinstance(start, UOp) or not isinstance(step, int):
            if isinstance(step, int):
                x = cut(x, axis, as_node(start), size, step)
            else:
                x = take(x, axis, add(mul(iota(size), step), start))
        else:
            x = _sliced(x, axis, start, size, step)
    return x


def _sliced(x: UOp, axis: int, start: int, size: int, step: int) -> UOp:
    box = tuple([(start, size, step) if i == axis else (0, n, 1) for i, n in enumerate(x.shape)])
    return x if box[axis] == (0, x.shape[axis], 1) else uop(Op.SHRINK, (x,), box)


@dataclass(frozen=True, slots=True)
class _Box:
    """(start, size, step) along one axis; a start of None is computed."""

    start: Dim | None
    size: Dim
    step: Dim

    @property
    def extent(self) -> Dim:
        """Positions from the first element to the last."""
        whole = plus(times(plus(self.size, 1, -1), self.step), 1)
        return whole if isinstance(self.size, int) and self.size else times(whole, _is_some(self.size))

    def clamped(self, start: UOp, n: Dim) -> UOp:
        """A computed start moved so that the box lies inside `n` elements."""
        return maximum(minimum(cast(start, dt.int64), as_node(plus(n, self.extent, -1))), 0)


def _is_some(n: Dim) -> Dim:
    """1 where there are elements, else 0."""
    return int(n > 0) if isinstance(n, int) else cast(lt(0, n), dt.int64)


def _boxes(a: Alike, at: Walk) -> list[_Box]:
    """What a box says for each axis."""
    out = []
    for rows in zip(*[arg.box if a.op is Op.UPDATE else arg for arg in a.args], strict=True):
        starts = [start for start, _, _ in rows]
        if any((s is None) != (starts[0] is None) for s in starts):
            raise Unlike(a, f"{a.op.name} begins at a computed place at some sizes only")
        size = at.scalars.size
        start = None if starts[0] is None else size(*starts)
        steps = [step for _, n, step in rows if n > 1] or [1]  # of one element there is none
        step = steps[0] if all(k == steps[0] for k in steps) else size(*[k for _, _, k in rows])
        out.append(_Box(start, size(*[n for _, n, _ in rows]), step))
    return out


@bounding(Op.FLIP)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    """The last element of the short axis comes first."""
    x = flip(src[0], a.same())
    for axis, n in enumerate(at.dims(a)):
        if axis in a.top.arg and isinstance(n, UOp):
            size = x.shape[axis]
            x = cut(x, axis, sub(size, n), size)
    return x


@bounding(Op.WINDOW, Op.SKEW)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    axis, *_ = a.same(lambda arg: (arg[0], arg[1], arg[4], arg[5]))
    x = src[0]
    if a.op is Op.SKEW:  # it adds up what is read from one place
        x = masked(x, at.dims(a.source(0)), (axis, a.top.arg[1]), 0)
    return a.top.like(x)


# ---- elementwise
@bounding(*ELEMENTWISE)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    return uop(a.op, tuple(src), a.same())


# ---- across elements
@bounding(Op.REDUCE)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    op, axes = a.same()
    return a.top.like(cleared(at, a.source(0), axes, identity(op, a.top.dtype)))


def cleared(at: Walk, a: Alike, axes: tuple[int, ...], fill: Any) -> UOp:
    """`a` with `fill` beyond the lengths of `axes`.

    What is repeated is filled before it is, and of a product the factors are: so a contraction stays one.
    """
    dims = at.dims(a)
    axes = tuple([i for i in axes if isinstance(dims[i], UOp)])
    x: UOp = at.values[a]
    if not axes:
        return x
    key = (a, axes, fill)
    found = at.cleared.get(key)
    if found is None:
        found = at.cleared[key] = _cleared(at, a, x, axes, fill)
    return found


def _cleared(at: Walk, a: Alike, x: UOp, axes: tuple[int, ...], fill: Any) -> UOp:
    if a.op is Op.MUL and fill == 0:
        return uop(Op.MUL, tuple([cleared(at, s, axes, fill) for s in a.sources]))
    if a.op is Op.CAST and fill == 0:
        return a.top.like(cleared(at, a.source(0), axes, fill))
    if a.op is Op.PERMUTE:
        return a.top.like(cleared(at, a.source(0), tuple([a.top.arg[i] for i in axes]), fill))
    if a.op is Op.EXPAND:
        new = [axis for axis, _ in a.top.arg]
        below = tuple([i - sum(n < i for n in new) for i in axes if i not in new])
        x = a.top.like(cleared(at, a.source(0), below, fill))
        axes = tuple([i for i in axes if i in new])
    return masked(x, at.dims(a), axes, fill)


@bounding(Op.PREFIX)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    """What comes after the end counts only for what runs backwards."""
    op, axis, reverse = a.same()
    return a.top.like(masked(src[0], at.dims(a), (axis,), identity(op, a.top.dtype)) if reverse else src[0])


@bounding(Op.SORT)
def _(a: Alike, src: list[UOp], at: Walk) -> list[UOp]:
    """Keys beyond the end stay there: they come last, and equal ones keep their order."""
    key = a.source(0)
    dtype = key.top.dtype
    last: Any = np.nan if dtype.is_inexact else True if dtype is dt.bool_ else dt.int_range(dtype)[1]
    x = masked(src[0], at.dims(key), (a.same(),), last)
    node = uop(Op.SORT, (x, *src[1:]), a.top.arg)
    return [uop(Op.GET, (node,), i) for i in range(len(src))]


def _index(idx: UOp, n: Dim) -> UOp:
    """Indices, those that are out of the bounds of a short axis moved out of those of its space."""
    if isinstance(n, int):
        return idx
    if idx.dtype is dt.uint64:
        return where(lt(idx, cast(n, dt.uint64)), idx, dt.int_range(dt.uint64)[1])
    idx = cast(idx, dt.int64)
    return where(is_below(idx, n), idx, -1)


@bounding(Op.GATHER)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    batch = a.same()
    return gather(src[0], _index(src[1], at.dims(a.source(0))[batch]), batch)


@bounding(Op.UPDATE)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    arg: Update = a.top.arg
    a.same(lambda x: (x.mode, x.box is None, x.indexed, x.gated, x.batch))
    if arg.box is None:
        old, value, idx, *gate = src
        written = a.source(2)
        idx = _index(idx, at.dims(a)[arg.batch])
        if any(isinstance(n, UOp) for n in at.dims(written)):
            nowhere = dt.int_range(dt.uint64)[1] if idx.dtype is dt.uint64 else -1
            idx = idx if idx.dtype is dt.uint64 else cast(idx, dt.int64)
            idx = masked(idx, at.dims(written), range(idx.ndim), nowhere)
        return uop(Op.UPDATE, (old, value, idx, *gate), arg)
    return _updated(a, src, at)


def _updated(a: Alike, src: list[UOp], at: Walk) -> UOp:
    """A box that is of one size, or all of an axis, is written; any other is laid over what was there."""
    arg: Update = a.top.arg
    old, value = src[:2]
    gate = src[-1] if arg.gated else None
    given = iter(src[2:])
    boxes, dims = _boxes(a, at), at.dims(a)
    starts: list[Dim] = []
    for box, n in zip(boxes, dims, strict=True):
        starts.append(box.clamped(next(given), n) if box.start is None else box.start)
    whole = [s == 0 and box.size == n and box.step == 1 for s, box, n in zip(starts, boxes, dims, strict=True)]
    plain = [isinstance(box.size, int) and isinstance(box.step, int) for box in boxes]
    if all(w or p for w, p in zip(whole, plain, strict=True)):
        new: list[Any] = [
            (0, n, 1) if w else (s if isinstance(s, int) else None, box.size, box.step)
            for w, s, n, box in zip(whole, starts, old.shape, boxes, strict=True)
        ]
        computed = [s for s in starts if isinstance(s, UOp)]
        more = () if gate is None else (gate,)
        return uop(Op.UPDATE, (old, value, *computed, *more), Update(arg.mode, tuple(new), False, arg.gated))
    here = gate
    for axis, (box, start) in enumerate(zip(boxes, starts, strict=True)):
        if whole[axis]:
            continue
        n = old.shape[axis]
        at_box = sub(iota(n), start)
        written = is_below(at_box, box.extent)
        if box.step == 1:
            value = shift(value, axis, start, n)
            here = None if here is None else shift(here, axis, start, n)
        else:
            met = eq(mod(at_box, as_node(box.step)), 0)
            place = where(and_(written, met), idiv(at_box, as_node(box.step)), -1)
            written = is_below(place, box.size)
            value = take(value, axis, place)
            here = None if here is None else take(here, axis, place)
        mask = expand(written, [(i, m) for i, m in enumerate(value.shape) if i != axis])
        here = mask if here is None else and_(here, mask)
    assert here is not None, "some axis is written in part"
    return where(here, _COMBINE[arg.mode](old, value), old)


_COMBINE: dict[Mode, Any] = {
    Mode.SET: lambda old, value: value,
    Mode.ADD: add,
    Mode.MUL: mul,
    Mode.MIN: minimum,
    Mode.MAX: maximum,
}


# ---- calls: bounded_calls.py
@bounding(Op.TUPLE)
def _(a: Alike, src: list[UOp], at: Walk) -> list[UOp]:
    return src


@bounding(Op.GET)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    raise AssertionError("the walk reads members itself")


# ---- across devices, and memory
bounding.refuse(Op.COPY, Op.COLLECTIVE, because="copies between devices are made outside programs")
bounding.refuse(Op.LOAD, Op.STORE, because="reads and writes become versions before; see functionalise")


@bounding(Op.AFTER)
def _(a: Alike, src: list[UOp], at: Walk) -> UOp:
    return uop(Op.AFTER, tuple([node_of(s) for s in src]))


__all__ = ["Bounded", "bound"]
