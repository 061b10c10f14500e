"""The keys that arrays hold, under FGRAD_CHECK=keys: which were used, by identity, as long as the array lives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any
from weakref import ref

import numpy as np

from fgrad.config import config
from fgrad.errors import KeyReuseError, note_user_line, user_frame
from fgrad.run.array import DeviceArray
from fgrad.trace.keys import Cells, Run, flow, fresh, may_be_keys, numbers_of, parts
from fgrad.uop.program import Program

_held: dict[int, tuple[ref[DeviceArray], Cells]] = {}  # by the id of the array
_runs = count(1)

TRACED_ANEW = Run(0)
"""What was traced for one run alone, or for several that compute the same: its uses are told apart by themselves."""


def _hold(array: DeviceArray, cells: Cells) -> None:
    number = id(array)
    for cell in cells.flat:
        cell.is_held = True
    _held[number] = ref(array, lambda _: _held.pop(number, None)), cells


def cells_of(array: DeviceArray) -> Cells:
    """The cells of an array of keys."""
    found = _held.get(id(array))
    if found is not None and found[0]() is array:
        return found[1]
    cells = fresh(array.shape)
    _hold(array, cells)
    return cells


def concerns_keys(program: Program) -> bool:
    """Whether runs of `program` are to be looked at."""
    return "keys" in config.check and bool(parts(program))


def a_call(is_library: bool) -> Run:
    """A call of a compiled function; `is_library`: of one of fgrad's own."""
    return Run(next(_runs), user_frame(), is_library)


def use_keys(program: Program, given: Sequence[Any], run: Run) -> list[Cells | None]:
    """Note what a run of `program` uses; `given` are arrays and numbers -> the cells of its results.

    Raises KeyReuseError.
    """
    known = parts(program)
    args = [
        cells_of(x) if isinstance(x, DeviceArray) and may_be_keys(p) and p in known else None
        for p, x in zip(program.params, given, strict=False)
    ]
    numbers = {program.params[i]: np.asarray(given[i], program.params[i].dtype.np) for i in numbers_of(program)}
    try:
        return flow(program, args, run, numbers)
    except KeyReuseError as error:
        raise note_user_line(error) from None


def hand_on(cells: Sequence[Cells | None], outs: Sequence[DeviceArray]) -> None:
    """Let the results of a run hold the keys that they have from its arguments, or that it used."""
    for c, out in zip(cells, outs, strict=False):
        if c is not None and any(cell.is_held or cell.uses for cell in c.flat):
            _hold(out, c)


__all__ = ["TRACED_ANEW", "a_call", "cells_of", "concerns_keys", "hand_on", "use_keys"]
