"""What a profiled device did and when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """One run of a program or another command.

    start_ns, end_ns  on the clock of `time.monotonic_ns`
    is_queued         it ran on the device's own thread, not on its caller's
    """

    device: str
    name: str
    start_ns: int
    end_ns: int
    is_queued: bool
