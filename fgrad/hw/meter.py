"""Meter: where the time of a program goes, kernel by kernel, as FGRAD_SHOW=kernels prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel at its place in a program: its name, the sizes of its loops, estimates for one run, and the line of
    the user's source that it computes ("" where that is not known).
    """

    name: str
    sizes: tuple[int, ...]
    flops: int
    bytes: int
    line: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was measured of a part in one call: first start and last end (ns, `time.monotonic_ns`), the sum of its
    runs, and how many there were.
    """

    start_ns: int
    end_ns: int
    total_ns: int
    runs: int


class Meter:
    """The readings of a program since its last table. A table is due after 1, 10, 100, .. calls."""

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name = name
        self.parts = tuple(parts)
        self.calls = 0
        self._due = 1
        self._start_again()

    def _start_again(self) -> None:
        self._since = self.calls
        self._program_ns = 0
        self._total_ns = [0] * len(self.parts)
        self._runs = [0] * len(self.parts)

    def add(self, program_ns: int, readings: Sequence[Reading]) -> str:
        """Note one call that took `program_ns`; returns the table where one is due, else ""."""
        self.calls += 1
        self._program_ns += program_ns
        for i, reading in enumerate(readings):
            self._total_ns[i] += reading.total_ns
            self._runs[i] += reading.runs
        if self.calls < self._due:
            return ""
        text = self.table()
        self._due *= 10
        self._start_again()
        return text

    def table(self) -> str:
        """The averages of the calls since the last table, longest first."""
        calls = self.calls - self._since
        which = f"call {self.calls}" if calls == 1 else f"calls {self._since + 1} to {self.calls}"
        program_us = self._program_ns / 1e3 / max(calls, 1)
        head = ("kernel", "shape", "runs", "us/run", "GFLOP/s", "GB/s", "share", "line")
        rows: list[tuple[str, ...]] = [head]
        for i in sorted(range(len(self.parts)), key=lambda i: -self._total_ns[i]):
            part, ns, runs = self.parts[i], self._total_ns[i], self._runs[i]
            per_ns = runs / ns if ns else 0.0
            rows.append((
                part.name, "x".join(map(str, part.sizes)) or "1", f"{runs / max(calls, 1):g}",
                f"{ns / 1e3 / runs:.2f}" if runs else "-", f"{part.flops * per_ns:.2f}", f"{part.bytes * per_ns:.2f}",
                f"{100 * ns / self._program_ns:.1f}%" if self._program_ns else "-", part.line,
            ))  # fmt: skip
        widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
        lines = []
        for row in rows:
            cells = [
                c.ljust(w) if k in (0, 1, len(head) - 1) else c.rjust(w)
                for k, (c, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([f"== hw/kernels of {self.name}: {which}, {program_us:.2f} us each", *lines])
