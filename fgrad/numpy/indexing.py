"""x[idx] and x.at[idx]: reading and replacing parts of arrays, as NumPy's basic, advanced and mask
indexing.

Negative indices count from the end, also when computed. Concrete indices out of bounds raise
IndexError; computed ones give
`fill_value` (NaN; the smallest integer; the largest unsigned one; False) when read, and drop the
update when written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import DtypeError, ShapeError, note_user_line
from fgrad.numpy.common import lift, public
from fgrad.numpy.subscripts import Entry, Gap, Int, New, Positions, Slice, parse, slice_entry
from fgrad.trace.arraylike import Array
from fgrad.trace.index_check import within
from fgrad.trace.stage import stages
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, Kind
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode

__all__ = []


MODES = (None, "fill", "drop", "clip", "wrap", "promise_in_bounds")


def read_fill(dtype: DType) -> Any:
    """What a read out of bounds gives."""
    if dtype.is_inexact:
        return math.nan
    if dtype is dt.bool_:
        return False
    return dt.int_range(dtype)[dtype.kind is Kind.UINT]


def resolved(idx: UOp, n: int, mode: str | None, known: bool) -> tuple[UOp, UOp | None]:
    """-> (int64 positions from the front, where they are in bounds; None: everywhere)."""
    if idx.dtype is dt.uint64:
        idx = build.minimum(idx, (1 << 63) - 1)
    i = build.cast(idx, dt.int64)
    if known:
        return i, None
    if mode is None or mode == "promise_in_bounds":
        i = within(i, -n, n, n)
    if mode == "wrap":
        return (build.mod(i, n) if n else build.const_like(-1, i)), None
    i = build.where(build.lt(i, 0), build.add(i, n), i)
    if mode == "clip":
        return build.maximum(build.minimum(i, n - 1), 0), None
    if mode == "promise_in_bounds":
        return i, None
    return i, build.and_(build.le(build.const_like(0, i), i), build.lt(i, n))


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """The conjunction of two masks, None being true."""
    if a is None or b is None:
        return b if a is None else a
    shape = build.broadcast_shapes(a.shape, b.shape)
    return build.and_(build.broadcast_to(a, shape), build.broadcast_to(b, shape))


class Plan:
    """Where the entries of an index lead, for an x of one shape.

    box, starts   the part that slices and ints cut out (no ints when there are Positions)
    valid         whether computed ints are in bounds (None: they are)
    back          its axes to reverse
    idx           positions in the merged indexed axes (None: no Positions); `inside` where they are
                  in bounds
    perm, batch   the order that puts the indexed axes together behind `batch` others
    shape         of the result
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        entries: Sequence[Entry],
        operands: Sequence[ArrayLike],
        mode: str | None,
    ):
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, MODES[1:]))} or None, got {mode!r}")
        nodes = iter([lift(o).node for o in operands])
        advanced = any(isinstance(e, Positions) for e in entries)
        self.old = tuple(self._with_bool_axes(shape, entries))
        self.box: list[tuple[int | None, int, int]] = []
        self.starts: list[UOp] = []
        self.valid: UOp | None = None
        self.back: list[int] = []
        picks: list[tuple[int, int, UOp, UOp | None]] = []  # (place in entries, axis, positions, inside)
        axis = 0
        for place, e in enumerate(entries):
            n = self.old[axis] if axis < len(self.old) else 0
            if isinstance(e, New | Gap):
                continue
            if isinstance(e, Slice):
                if e.backwards:
                    self.back.append(axis)
                if e.start is None:
                    self.starts.append(build.cast(next(nodes), dt.int64))
                self.box.append((e.start, e.size, e.step))
            elif isinstance(e, Int):
                at = build.const(e.at, dt.int64) if e.at is not None else next(nodes)
                i, inside = resolved(at, n, mode, e.known)
                if advanced:
                    self.box.append((0, n, 1))
                    picks.append((place, axis, i, inside))
                elif e.at is not None:
                    self.box.append((e.at, 1, 1))
                elif not n:  # there is nothing to read: a box of size 1 would not fit
                    self.box.append((0, 0, 1))
                    self.valid = build.const(False, dt.bool_)
                else:
                    self.starts.append(i)
                    self.box.append((None, 1, 1))
                    self.valid = both(self.valid, inside)
            else:
                self.box.append((0, n, 1))
                i, inside = resolved(next(nodes), n, mode, e.known)
                picks.append((place, axis, i, inside))
            axis += 1
        self.part = tuple([b[1] for b in self.box])
        self.idx: UOp | None = None
        self.inside: UOp | None = None
        self._arrange(entries, picks)

    @staticmethod
    def _with_bool_axes(shape: tuple[int, ...], entries: Sequence[Entry]) -> list[int]:
        """`shape` with an axis of size 1 for every scalar bool."""
        sizes = iter(shape)
        return [
            1 if isinstance(e, Positions) and e.of_scalar_bool else next(sizes)
            for e in entries if not isinstance(e, New | Gap)
        ]  # fmt: skip

    def _arrange(self, entries: Sequence[Entry], picks: list[tuple[int, int, UOp, UOp | None]]) -> None:
        rank = len(self.part)
        axes = [axis for _, axis, _, _ in picks]
        places = [place for place, _, _, _ in picks]
        together = bool(places) and places[-1] - places[0] == len(places) - 1
        rest = [i for i in range(rank) if i not in axes]
        self.batch = axes[0] if together else 0
        self.perm = (*rest[: self.batch], *axes, *rest[self.batch :])
        self.merged: tuple[int, ...] = ()
        span: tuple[int, ...] = ()
        if picks:
            try:
                span = build.broadcast_shapes(*[i.shape for _, _, i, _ in picks])
            except ShapeError:
                raise note_user_line(
                    ShapeError(
                        f"index arrays of shapes {', '.join(str(p[2].shape) for p in picks)} do not broadcast together"
                    )
                ) from None
            sizes = [self.part[a] for a in axes]
            linear: UOp | None = None
            for n, (_, _, i, inside) in zip(sizes, picks, strict=True):
                wide = build.broadcast_to(i, span)
                linear = wide if linear is None else build.add(build.mul(linear, n), wide)
                self.inside = both(self.inside, inside)
            assert linear is not None
            if self.inside is not None:
                self.inside = build.broadcast_to(self.inside, span)
                linear = build.where(self.inside, linear, -1)
            self.idx = linear
            before, after = rest[: self.batch], rest[self.batch :]
            self.merged = (
                *[self.part[a] for a in before],
                math.prod(sizes),
                *[self.part[a] for a in after],
            )
        self.span = span
        self.picked = (
            *[self.part[a] for a in rest[: self.batch]],
            *span,
            *[self.part[a] for a in rest[self.batch :]],
        )
        out: list[int] = list(span) if picks and not together else []
        axis = 0
        for place, e in enumerate(entries):
            if isinstance(e, New | Gap):
                out.extend([1] if isinstance(e, New) else [])
                continue
            if isinstance(e, Slice):
                out.append(self.part[axis])
            elif together and place == places[0]:
                out.extend(span)
            axis += 1
        self.shape = tuple(out)

    def over_batch(self, x: UOp) -> UOp:
        """A span-shaped node repeated over the batch axes."""
        return build.expand(x, list(enumerate(self.picked[: self.batch])))

    def mask(self, inside: UOp) -> UOp:
        """`inside` at the shape of what is picked."""
        wide = self.over_batch(inside)
        after = len(self.picked) - wide.ndim
        return build.expand(wide, [(wide.ndim + k, self.picked[wide.ndim + k]) for k in range(after)])


def get_node(x: UOp, plan: Plan, fill: UOp | None) -> UOp:
    """The part of x that the plan reads."""
    old = build.reshape(x, plan.old)
    empty_pick = plan.valid is not None and plan.valid.shape == () and 0 in plan.part and 0 not in plan.shape
    filler = build.const(read_fill(x.dtype), x.dtype) if fill is None else build.cast(fill, x.dtype)
    if empty_pick:
        return build.broadcast_to(filler, plan.shape)
    y = build.flip(build.shrink(old, plan.box, plan.starts), plan.back)
    if plan.idx is not None:
        y = build.reshape(build.permute(y, plan.perm), plan.merged)
        if 0 in y.shape:
            y = build.const(0, x.dtype, plan.picked)
        else:
            y = build.gather(y, plan.over_batch(plan.idx), plan.batch)
        if plan.inside is not None:
            y = build.where(plan.mask(plan.inside), y, filler)
    if plan.valid is not None:
        y = build.where(build.broadcast_to(plan.valid, y.shape), y, filler)
    return build.reshape(y, plan.shape)


def fitted(value: UOp, shape: tuple[int, ...]) -> UOp:
    """`value` broadcast to the part it is written to; leading axes of size 1 may be too many."""
    v = value
    while v.ndim > len(shape) and v.shape[0] == 1:
        v = build.reshape(v, v.shape[1:])
    try:
        return build.broadcast_to(v, shape)
    except ShapeError:
        raise note_user_line(
            ShapeError(
                f"a value of shape {value.shape} does not broadcast to the indexed part, which has shape {shape}"
            )
        ) from None


def set_node(x: UOp, plan: Plan, value: UOp, mode: Mode) -> UOp:
    """x with the part of the plan combined with `value`."""
    v = fitted(value, plan.shape)
    if not v.size or not x.size:
        return x
    old = build.reshape(x, plan.old)
    whole = all(b == (0, n, 1) for b, n in zip(plan.box, plan.old, strict=True)) and not plan.back
    v = build.reshape(v, plan.picked if plan.idx is not None else plan.part)
    if plan.idx is not None:
        part = old if whole else build.flip(build.shrink(old, plan.box, plan.starts), plan.back)
        merged = build.reshape(build.permute(part, plan.perm), plan.merged)
        new = build.update(merged, v, mode=mode, idx=plan.over_batch(plan.idx), batch=plan.batch)
        back = build.reshape(new, tuple([plan.part[i] for i in plan.perm]))
        v = build.permute(back, tuple(np.argsort(plan.perm).tolist()))
        if whole:
            return build.reshape(v, x.shape)
        mode = Mode.SET
    v = build.flip(v, plan.back)
    gate = None if plan.valid is None else build.broadcast_to(plan.valid, v.shape)
    return build.reshape(build.update(old, v, mode=mode, box=plan.box, starts=plan.starts, gate=gate), x.shape)


# Operands are positional and static values keywords: such calls take the short way through `public`.
OPERANDS = 3  # as many as there are parameters for; more travel as a list


def _given(a: ArrayLike | None, b: ArrayLike | None, c: ArrayLike | None, more: Any) -> list[ArrayLike]:
    return [v for v in (a, b, c, *(more or ())) if v is not None]


@public(static=("entries", "mode"))
def _get(
    x: ArrayLike, a: ArrayLike | None = None, b: ArrayLike | None = None, c: ArrayLike | None = None,
    more: Any = None, fill_value: ArrayLike | None = None, *, entries: Any, mode: str | None = None,
) -> Array:  # fmt: skip
    t = lift(x)
    fill = None if fill_value is None else lift(fill_value).node
    plan = Plan(t.shape, entries, _given(a, b, c, more), mode if fill is None else mode or "fill")
    return Tracer(get_node(t.node, plan, fill), t.weak)


def read(x: Array, entries: tuple[Entry, ...], operands: list[Any], mode: str | None, fill_value: Any) -> Array:
    """The part of x that parsed entries name."""
    if fill_value is None and len(operands) <= OPERANDS:
        return _get(x, *operands, entries=entries, mode=mode)
    return _get(x, more=operands, fill_value=fill_value, entries=entries, mode=mode)


@public(static=("entries", "mode", "how"))
def _set(
    x: ArrayLike, values: ArrayLike, a: ArrayLike | None = None, b: ArrayLike | None = None,
    c: ArrayLike | None = None, more: Any = None, *, entries: Any, mode: str | None, how: Mode,
) -> Array:  # fmt: skip
    t = lift(x)
    value = value_node(values, t.node.dtype)
    plan = Plan(t.shape, entries, _given(a, b, c, more), mode)
    return Tracer(set_node(t.node, plan, value, how), t.weak)


def write(
    x: Array, values: ArrayLike, entries: tuple[Entry, ...], operands: list[Any], mode: str | None, how: Mode
) -> Array:
    """x with the part that parsed entries name combined with `values`."""
    if len(operands) <= OPERANDS:
        return _set(x, values, *operands, entries=entries, mode=mode, how=how)
    return _set(x, values, more=operands, entries=entries, mode=mode, how=how)


def value_node(values: ArrayLike, dtype: DType) -> UOp:
    """The values to be written, in the array's dtype."""
    node = lift(values).node
    if node.dtype.is_complex and not dtype.is_complex:
        raise note_user_line(DtypeError(f"complex values cannot be written into an array of {dtype}; take .real first"))
    return build.cast(node, dtype)


# The two commonest readings, with plain static values: x[i] and x[a:b:c].
@public()
def _row(x: ArrayLike, i: ArrayLike) -> Array:
    """x[i] for i in bounds and not negative."""
    t = lift(x)
    entries: tuple[Entry, ...] = (Int(None, True), *[Slice(0, n, 1, False) for n in t.shape[1:]])
    return Tracer(get_node(t.node, Plan(t.shape, entries, [i], None), None), t.weak)


@public(static=("size", "step", "backwards"))
def _rows(x: ArrayLike, start: ArrayLike, *, size: int, step: int, backwards: bool) -> Array:
    """`size` rows of x from `start` on, every `step`-th one."""
    t = lift(x)
    entries: tuple[Entry, ...] = (Slice(None, size, step, backwards), *[Slice(0, n, 1, False) for n in t.shape[1:]])
    return Tracer(get_node(t.node, Plan(t.shape, entries, [start], None), None), t.weak)


@public(static=("how",))
def _set_row(x: ArrayLike, values: ArrayLike, i: ArrayLike, *, how: int) -> Array:
    t = lift(x)
    entries: tuple[Entry, ...] = (Int(None, True), *[Slice(0, n, 1, False) for n in t.shape[1:]])
    value = value_node(values, t.node.dtype)
    return Tracer(set_node(t.node, Plan(t.shape, entries, [i], None), value, Mode(how)), t.weak)


def write_at(x: Array, values: ArrayLike, idx: Any, mode: str | None, how: Mode) -> Array:
    """x with x[idx] combined with `values`."""
    if idx.__class__ is int and mode is None and not stages():
        shape = x.shape
        if shape and -shape[0] <= idx < shape[0]:
            return _set_row(x, values, idx if idx >= 0 else idx + shape[0], how=int(how))
    entries, operands = parse(idx, x.shape, checked=mode is None)
    return write(x, values, entries, operands, mode, how)


def getitem(x: Array, idx: Any) -> Array:
    """x[idx]."""
    if not stages():
        kind = idx.__class__
        shape = x.shape
        if kind is int and shape and -shape[0] <= idx < shape[0]:
            return _row(x, idx if idx >= 0 else idx + shape[0])
        if kind is slice and shape:
            start: list[Any] = []
            rows = slice_entry(idx, shape[0], start)
            if start:
                return _rows(x, start[0], size=rows.size, step=rows.step, backwards=rows.backwards)
    entries, operands = parse(idx, x.shape)
    return read(x, entries, operands, None, None)
