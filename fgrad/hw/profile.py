"""What a profiled device did and when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """One run of a program or another command; or all runs of a kernel inside one, of the first
    start to the last end.

    start_ns, end_ns  on the clock of `time.monotonic_ns`
    is_queued         it ran on the device's own thread, not on its caller's
    kernel_runs       how often a kernel ran; 0: it is a program or a command
    """

    device: str
    name: str
    start_ns: int
    end_ns: int
    is_queued: bool
    kernel_runs: int = 0
