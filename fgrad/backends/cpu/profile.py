"""Time stamps around the programs of a CPU device, while it is profiled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fgrad.backends.cpu.abi import CTL_BYTES
from fgrad.backends.cpu.commands import encode_command
from fgrad.hw.command import Block, Role, Sym, Timestamp
from fgrad.hw.libc import words
from fgrad.hw.link import link
from fgrad.hw.meter import Part, Reading
from fgrad.hw.pool import Lease, Pool
from fgrad.hw.profile import Range

_WORDS_BYTES = 16  # start and end


class Stamps:
    """Two TIMESTAMP commands for the queue, and the words that they write.

    commands  (entry, table) of the start's and of the end's
    """

    __slots__ = ("commands", "_address", "_lease")

    def __init__(self, device: str, pool: Pool) -> None:
        self._lease = Lease(pool)
        self._address = self._lease.take(_WORDS_BYTES)
        self.commands: list[tuple[int, int]] = []
        target = Block(device, Sym(Role.INPUT), _WORDS_BYTES)
        for offset in (0, 8):
            found = encode_command(Timestamp(target.span(offset, 8)), {})
            assert found is not None, "TIMESTAMP is a command of its own"
            entry, encoded = found
            linked = link(encoded)
            instance = linked.instance(self._lease.take(len(linked.data)))
            instance.fill([self._address])
            self.commands.append((entry, instance.address + CTL_BYTES))

    def read(self) -> tuple[int, int]:
        """Start and end, once both commands are finished."""
        stamps = words(self._address)
        return int(stamps[0]), int(stamps[1])


class Profile:
    """The ranges of a device so far."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.ranges: list[Range] = []

    def run(self, name: str, native: Any, table: int) -> None:
        """Run a program in the caller's thread."""
        start = time.monotonic_ns()
        native(table)
        self.ranges.append(Range(self.device, name, start, time.monotonic_ns(), False))

    def note(
        self, name: str, start: int, end: int, parts: Sequence[Part], readings: Sequence[Reading]
    ) -> None:
        """Note a program that was run in the caller's thread, and its kernels."""
        self.ranges.append(Range(self.device, name, start, end, False))
        for part, reading in zip(parts, readings, strict=True):
            if reading.runs:
                self.ranges.append(
                    Range(self.device, part.name, reading.start_ns, reading.end_ns, False, reading.runs)
                )

    def add(self, name: str, stamps: Stamps) -> None:
        """Note a queued program that is finished."""
        self.ranges.append(Range(self.device, name, *stamps.read(), True))
