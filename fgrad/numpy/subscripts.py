"""What the user wrote between the brackets, as a static plan and the arrays it needs.

`parse` looks at everything that is concrete: ints are checked (IndexError), masks become positions,
slices become boxes.
What remains is a hashable tuple of entries, one for each item, and the list of the operands that
they take in order:

    New()                 a new axis
    Gap()                 an ellipsis for no axis
    Slice(start, size, step, backwards)   start None: the next operand, in bounds
    Int(at, known)        one position; `at` None: the next operand; `known`: in bounds and not
    negative
    Positions(known)      an integer array: the next operand

Outside a stage, starts and ints are operands, so that a loop over positions does not compile again.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from fgrad.errors import ArgumentError, OutOfBoundsError, describe, note_user_line
from fgrad.numpy.common import is_traced, lift
from fgrad.trace.arraylike import Array
from fgrad.trace.stage import stages
from fgrad.trace.tracer import is_arraylike

__all__ = ["Gap", "Int", "New", "Positions", "Slice", "parse"]


class New(NamedTuple):
    """A new axis of size 1."""

    kind: str = "new"


class Gap(NamedTuple):
    """An ellipsis that stands for no axis: it still parts the index arrays around it."""

    kind: str = "gap"


class Slice(NamedTuple):
    """A strided part of one axis, reversed if `backwards`."""

    start: int | None
    size: int
    step: int
    backwards: bool


class Int(NamedTuple):
    """One position of one axis."""

    at: int | None
    known: bool


class Positions(NamedTuple):
    """An array of positions on one axis; of an axis of size 1 made for it if `of_scalar_bool`."""

    known: bool
    of_scalar_bool: bool = False


Entry = New | Gap | Slice | Int | Positions


MASK = (
    "The size of what a boolean mask picks depends on its values: use fgrad.numpy.where(mask, x, other), "
    "x.at[mask].set(value), a reduction with where=mask, or nonzero(mask, size=n)"
)


def _mask_positions(mask: Any, x_shape: tuple[int, ...], axis: int) -> list[Any]:
    """The positions where a mask holds, an array for each of its axes."""
    if isinstance(mask, Array):
        data = mask.concrete(MASK)
    else:
        data = np.asarray(mask)
    covered = x_shape[axis : axis + data.ndim]
    # as in NumPy an axis of the mask may also be empty: it selects nothing
    if data.ndim != len(covered) or any(m not in (n, 0) for m, n in zip(data.shape, covered, strict=True)):
        raise note_user_line(
            OutOfBoundsError(
                f"a boolean index of shape {data.shape} does not fit an array of shape {x_shape}: the axes that it "
                f"stands for, from axis {axis} on, have shape {covered}"
            )
        )
    return list(np.nonzero(data))


def _is_bool(x: Any) -> bool:
    if isinstance(x, bool | np.bool_):
        return True
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype == np.bool_


def _as_array(x: Any) -> Any:
    """Sequences of indices as arrays; everything else as it is."""
    if not isinstance(x, list | tuple):
        return x
    if any(is_traced(y) for y in x):
        raise note_user_line(
            ArgumentError("a list with traced values is no index; make an array of it with fgrad.numpy.array")
        )
    data = np.asarray([y.concrete() if isinstance(y, Array) else y for y in x])
    return data.astype(np.int64) if data.size == 0 else data


def out_of_bounds(i: Any, axis: int, n: int) -> OutOfBoundsError:
    """The error for an index that is known to lie outside."""
    return note_user_line(
        OutOfBoundsError(
            f"index {i} out of bounds for axis {axis} with size {n}; "
            "x.at[..].get(mode='clip' or 'fill') chooses "
            "what happens there"
        )
    )


def _int_entry(i: int, n: int, axis: int, checked: bool, operands: list[Any]) -> Int:
    inside = -n <= i < n
    if checked and not inside:
        raise out_of_bounds(i, axis, n)
    if not inside:
        operands.append(i)
        return Int(None, False)
    at = i + n if i < 0 else i
    if stages():
        return Int(at, True)
    operands.append(at)
    return Int(None, True)


def _bound(x: Any) -> int | None:
    if x is None or isinstance(x, int):
        return x
    if is_traced(x):
        return int(x.concrete("The bounds of a slice must be known: use fgrad.lax.dynamic_slice for a computed start"))
    try:
        return operator.index(x)
    except TypeError:
        raise note_user_line(
            ArgumentError(f"the bounds of a slice must be integers or None, got {describe(x)}")
        ) from None


def slice_entry(s: slice, n: int, operands: list[Any]) -> Slice:
    """The part that a slice cuts out of n elements; outside stages its start becomes an operand."""
    start, stop, step = slice(_bound(s.start), _bound(s.stop), _bound(s.step)).indices(n)
    size = len(range(start, stop, step))
    if step < 0:
        start, step, backwards = start + (size - 1) * step, -step, True
    else:
        backwards = False
    if size <= 1:
        step, backwards = 1, False
    if size == 0:
        start = 0
    if stages() or size == 0 or (start, size, step) == (0, n, 1):
        return Slice(start, size, step, backwards)
    operands.append(start)
    return Slice(None, size, step, backwards)


def _array_entry(x: Any, n: int, axis: int, checked: bool, operands: list[Any]) -> Entry:
    if isinstance(x, Array):
        if is_traced(x):
            if not x.aval.dtype.is_int:
                raise note_user_line(IndexError(f"arrays used as indices must be integers or bools, got {x.aval}"))
            operands.append(x)
            return Int(None, False) if x.ndim == 0 else Positions(False)
        data = x.concrete()
    else:
        data = np.asarray(x)
        if not is_arraylike(data) or data.dtype == object:
            raise note_user_line(
                IndexError(f"{describe(x)} is no index; use integers, slices, None, ..., arrays of integers or bools")
            )
    if data.dtype.kind not in "iu":
        way_out = "; use // or int() to get an integer" if data.dtype.kind == "f" and data.ndim == 0 else ""
        raise note_user_line(
            IndexError(
                f"{describe(x)} is no index; use integers, slices, None, ..., or arrays of integers or bools{way_out}"
            )
        )
    if data.ndim == 0:
        return _int_entry(int(data), n, axis, checked, operands)
    low, high = (int(data.min()), int(data.max())) if data.size else (0, -1)
    inside = low >= -n and high < n
    if checked and not inside:
        raise out_of_bounds(low if low < -n else high, axis, n)
    if inside and low < 0:
        wide = data.astype(np.int64)
        operands.append(np.where(wide < 0, wide + n, wide))
    else:
        operands.append(x if isinstance(x, Array) else data)
    return Positions(inside)


def parse(idx: Any, shape: tuple[int, ...], checked: bool = True) -> tuple[tuple[Entry, ...], list[Any]]:
    """-> (entries, operands) of `x[idx]` for an x of that shape.

    checked   raise IndexError for what is known to be out of bounds (no `mode=` was given)
    """
    items = list(idx) if isinstance(idx, tuple) else [idx]
    items = [_as_array(i) for i in items]
    items = [lift(i) if hasattr(i, "__fgrad_array__") else i for i in items]
    taken = 0
    for i in items:
        if i is None or i is Ellipsis:
            continue
        taken += (np.ndim(i) if not isinstance(i, Array) else i.ndim) if _is_bool(i) else 1
    if sum(i is Ellipsis for i in items) > 1:
        raise note_user_line(IndexError("an index can have only one ellipsis ('...')"))
    if taken > len(shape):
        raise note_user_line(
            OutOfBoundsError(
                f"Too many indices: array is {len(shape)}-dimensional, but {taken} were indexed; its shape is {shape}"
            )
        )
    fill = [slice(None)] * (len(shape) - taken)
    where = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    items[where : where + 1] = fill or items[where : where + 1]
    entries: list[Entry] = []
    operands: list[Any] = []
    axis = 0
    for i in items:
        if i is None or i is Ellipsis:
            entries.append(New() if i is None else Gap())
            continue
        if _is_bool(i):
            if (i.ndim if isinstance(i, Array) else np.ndim(i)) == 0:
                held = bool(i)
                entries.append(Positions(True, True))
                operands.append(np.zeros(int(held), np.int64))
                continue
            for p in _mask_positions(i, shape, axis):
                entries.append(Positions(True))
                operands.append(p)
                axis += 1
            continue
        n = shape[axis]
        if isinstance(i, slice):
            entries.append(slice_entry(i, n, operands))
        elif isinstance(i, int | np.integer):
            entries.append(_int_entry(int(i), n, axis, checked, operands))
        else:
            entries.append(_array_entry(i, n, axis, checked, operands))
        axis += 1
    return tuple(entries), operands
