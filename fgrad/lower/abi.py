"""What a lowered program and its runtime agree on, by number: the entry's table and the runtime's
table.

void entry(ptr t), t in words of eight bytes: the words of `Table`, then parameters (pointers;
for inlined scalars the bits themselves), then outputs (pointers). A non-zero word at `CANCEL` of
the control block asks the program to leave.
"""

from __future__ import annotations

from enum import IntEnum


class Table(IntEnum):
    """Words of an entry's table."""

    CTL = 0
    RUNTIME = 1
    SCRATCH = 2
    ARENA = 3
    HOST = 4  # handle passed to host calls
    ARGUMENTS = 5  # first parameter


class Runtime(IntEnum):
    """Words of the runtime's table."""

    PFOR = 2  # void(ptr runtime, ptr fn, ptr frame, i64 n): fn(ptr frame, i64 task, i64 worker) for each task
    HOST = 3  # i64(i64 handle, i64 index, ptr arguments); not 0: leave
    CLOCK = 6  # i64(ptr runtime): nanoseconds


CTL_CANCEL = 0  # byte offsets in the control block
CTL_PROGRESS = 16
