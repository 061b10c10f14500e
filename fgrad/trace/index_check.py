"""Computed indices looked at while a program runs, under FGRAD_CHECK=oob.

The index passes through a Python function that raises where it is out of bounds. It is a pure
callback, so it goes through every transformation, and whatever is read or written at that index
waits for it. Indices whose mode says what happens out of bounds (fill, drop, clip, wrap) are meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.config import config
from fgrad.errors import OutOfBoundsError, user_frame
from fgrad.trace.stage import stages
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Host


def within(idx: UOp, low: int, high: int, size: int) -> UOp:
    """The integer node `idx`, which is checked to be low <= idx < high where the setting asks for it.

    size   of the axis, for the message
    """
    if "oob" not in config.check or idx.size == 0:
        return idx
    outer = stages()[0].what if stages() else ""
    look = _Look(low, high, size, outer, user_frame())
    host = Host(look, (Aval(idx.dtype, idx.shape),), "index check", vectorized=True)
    return uop(Op.GET, (uop(Op.HOST, (idx,), host),), 0)


@dataclass(frozen=True, slots=True)
class _Look:
    """The callback: equal ones are equal, so that programs stay equal."""

    low: int
    high: int
    size: int
    function: str
    line: str

    def __call__(self, idx: Any) -> Sequence[Any]:
        wrong = (idx < self.low) | (idx >= self.high)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            where = f", the first of {np.count_nonzero(wrong)} at position {first}" if idx.ndim else ""
            window = f" (a window may start at {self.low} to {self.high - 1})" if self.low == 0 else ""
            name = f"{self.function}: " if self.function else ""
            error = OutOfBoundsError(
                f"{name}index {int(idx[first])} is out of bounds for an axis of {self.size} elements{window}{where}; "
                "mode='clip', 'fill' or 'drop' says what should happen then\n"
                f"  at {self.line}"
            )
            error.by_program = True
            raise error
        return [idx]
