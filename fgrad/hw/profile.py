"""What a profiled device did and when, and how much memory it held."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from fgrad.hw.command import Copy
from fgrad.hw.libc import words
from fgrad.hw.meter import Part, Reading
from fgrad.hw.plan import Stamped
from fgrad.hw.pool import Lease, Pool


class Kind(Enum):
    """What a Range is about."""

    PROGRAM = "program"
    KERNEL = "kernel"  # all runs inside one program, of the first start to the last end
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Range:
    """One run of a program, of a kernel inside one, or of a copy.

    start_ns, end_ns  on the clock of `time.monotonic_ns`
    queue             of the device; "" is the thread of its caller
    runs              how often a kernel ran
    line              of the user's source that a kernel computes; "" where it is not known
    nbytes            copied
    """

    device: str
    name: str
    start_ns: int
    end_ns: int
    queue: str = ""
    kind: Kind = Kind.PROGRAM
    runs: int = 1
    line: str = ""
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """Bytes of a device's memory in use, and kept for reuse, at a time."""

    device: str
    time_ns: int
    in_use: int
    cached: int


class Profile:
    """The ranges and levels of a device so far."""

    def __init__(self, device: str, pool: Pool) -> None:
        self.device = device
        self.ranges: list[Range] = []
        self.levels: list[Level] = []
        self._pool = pool
        self._waiting: list[_Run] = []
        self.note_level()

    def note_level(self) -> None:
        """Note how much memory there is in use now."""
        now = self._pool.statistics()
        self.levels.append(Level(self.device, time.monotonic_ns(), now.in_use, now.cached))

    def note(
        self, name: str, start: int, end: int, parts: Sequence[Part] = (), readings: Sequence[Reading] = ()
    ) -> None:
        """Note a program that was run in the caller's thread, and its kernels."""
        self.ranges.append(Range(self.device, name, start, end))
        for part, reading in zip(parts, readings, strict=True):
            if reading.runs:
                times = (reading.start_ns, reading.end_ns)
                self.ranges.append(Range(self.device, part.name, *times, "", Kind.KERNEL, reading.runs, part.line))
        self.note_level()

    def note_copy(self, name: str, start: int, end: int, nbytes: int) -> None:
        """Note a copy that was made in the caller's thread."""
        self.ranges.append(Range(self.device, name, start, end, "", Kind.COPY, nbytes=nbytes))
        self.note_level()

    def expect(
        self,
        stamped: Stamped,
        offset_ns: int = 0,
        program: str = "",
        names: Mapping[str, tuple[str, str]] | None = None,
    ) -> int:
        """The address of memory for the stamps of one run; they are read when the device is done.

        offset_ns  what to add to the device's clock
        program    the name of the whole; "" is none
        names      name and line to tell of what EXEC runs, by its name there
        """
        lease = Lease(self._pool)
        address = lease.take(stamped.nbytes)
        for i in range(stamped.nbytes // 8):
            words(address)[i] = 0
        self._waiting.append(_Run(lease, address, stamped, offset_ns, program, names or {}))
        self.note_level()
        return address

    def finish(self) -> None:
        """Read the stamps of all runs, which are finished; those of commands that never ran are left out."""
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            found = run.ranges()
            if found and run.program:
                whole = (min(r.start_ns for r in found), max(r.end_ns for r in found))
                self.ranges.append(Range(self.device, run.program, *whole, "programs"))
            self.ranges += found
        self.note_level()


@dataclass(frozen=True, slots=True)
class _Run:
    """A run whose stamps are read when it is finished; see `Profile.expect`."""

    lease: Lease
    address: int
    stamped: Stamped
    offset_ns: int
    program: str
    names: Mapping[str, tuple[str, str]]

    def ranges(self) -> list[Range]:
        stamps, found = words(self.address), []
        for i, (lane, command) in enumerate(self.stamped.rows):
            start, end = int(stamps[2 * i]), int(stamps[2 * i + 1])
            if not start or not end:
                continue
            name, line, kind, nbytes = "copy", "", Kind.COPY, 0
            if isinstance(command, Copy):
                nbytes = command.target.length
            else:
                name, line = self.names.get(command.program, (command.program, ""))
                kind = Kind.KERNEL
            times = (start + self.offset_ns, end + self.offset_ns)
            found.append(Range(lane.device, name, *times, lane.queue, kind, line=line, nbytes=nbytes))
        return found
