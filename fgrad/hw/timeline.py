"""Timelines and fences: where the work of a device has got to, and waiting for it.

A timeline is a 64-bit count of a device's work: `issue` gives the next position (a tick) to a
submission, `completed` is the newest tick whose work, and all before it, is finished. Both only
grow. A Fence is a tick on a timeline.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Protocol

from fgrad.errors import DeviceHangError

SLICE_MS = 50.0  # a wait comes back to Python this often, so that Ctrl-C is seen
STALL_MS = 30_000.0


class Timeline(Protocol):
    """What a device shows of its work."""

    name: str

    def issued(self) -> int:
        """The newest tick that was given out."""

    def completed(self) -> int:
        """The newest finished tick."""

    def nap(self, tick: int, limit_ms: float) -> None:
        """Return when `tick` is completed, or after `limit_ms`, or earlier."""

    def progress(self) -> object:
        """Something that changes as long as the device gets on with its work."""

    def stall_ms(self) -> float:
        """Milliseconds without progress after which the device counts as hung; may be infinite."""

    def error(self, tick: int) -> Exception | None:
        """How the finished work of `tick` failed; None if it ended well."""

    def mark_seen(self, tick: int) -> None:
        """The error of `tick` is raised now: `sync` of the device need not raise it again."""

    def give_up(self, tick: int) -> str:
        """End work up to `tick`, which hangs, as far as the device can; returns what it knows."""


def wait(timeline: Timeline, tick: int, stall_ms: float | None = None) -> None:
    """Block the host until `timeline` has completed `tick`.

    stall_ms  milliseconds without progress after which the device counts as hung; None: as many as
              the timeline says

    Raises DeviceHangError, which names the tick waited for and the one reached, and ValueError for
    a tick that was never given out. Ctrl-C leaves the wait; the work goes on.
    """
    reached = timeline.completed()
    if reached >= tick:
        return
    if tick > timeline.issued():
        raise ValueError(f"{timeline.name} never gave out tick {tick}; the newest is {timeline.issued()}")
    stall_ms = timeline.stall_ms() if stall_ms is None else stall_ms
    seen: object = None
    deadline = 0.0
    while reached < tick:
        now, progress = time.monotonic(), timeline.progress()
        if progress != seen or not deadline:
            seen, deadline = progress, now + stall_ms / 1000
        elif now >= deadline:
            _hang(timeline, tick, reached, stall_ms)
        timeline.nap(tick, min(SLICE_MS, max(0.1, (deadline - now) * 1000)))
        reached = timeline.completed()  # read once a round: what is decided on is what is reported


def _hang(timeline: Timeline, tick: int, reached: int, stall_ms: float) -> None:
    cause = timeline.give_up(tick)
    raise DeviceHangError(
        f"{timeline.name} made no progress for {stall_ms / 1000:g} s: waited for tick {tick}, "
        f"reached {reached}{'; ' + cause if cause else ''}"
    )


@dataclass(frozen=True, slots=True)
class Fence:
    """A piece of work by its place: `tick` on `timeline`. Tick 0 was always done."""

    timeline: Timeline
    tick: int

    def done(self) -> bool:
        """Whether the work is finished, well or not."""
        return self.timeline.completed() >= self.tick

    def wait(self, stall_ms: float | None = None) -> None:
        """Block until the work is finished; see `wait`. Raises what the work failed with."""
        wait(self.timeline, self.tick, stall_ms)
        error = self.error()
        if error is not None:
            self.timeline.mark_seen(self.tick)
            raise error

    def error(self) -> Exception | None:
        """How the work failed; None if it ended well or is not finished."""
        return self.timeline.error(self.tick) if self.done() else None

    def __repr__(self) -> str:
        return f"Fence({self.timeline.name}, {self.tick}, {'done' if self.done() else 'running'})"


class HostTimeline:
    """A timeline kept in Python, for devices that are. All methods are thread-safe."""

    def __init__(self, name: str, start: int = 0) -> None:
        self.name = name
        self._changed = threading.Condition()
        self._issued = self._completed = start
        self._errors: dict[int, Exception] = {}

    def issue(self) -> int:
        """Give out the next tick."""
        with self._changed:
            self._issued += 1
            return self._issued

    def complete(self, tick: int, error: Exception | None = None) -> None:
        """Finish the work of `tick`, and with it all before."""
        with self._changed:
            if not self._completed < tick <= self._issued:
                raise ValueError(
                    f"tick {tick} of {self.name} is not between the completed "
                    f"{self._completed} and the issued {self._issued}"
                )
            if error is not None:
                self._errors[tick] = error
            self._completed = tick
            self._changed.notify_all()

    def issued(self) -> int:
        return self._issued

    def completed(self) -> int:
        return self._completed

    def nap(self, tick: int, limit_ms: float) -> None:
        with self._changed:
            if self._completed < tick:
                self._changed.wait(limit_ms / 1000)

    def progress(self) -> object:
        return self._completed

    def stall_ms(self) -> float:
        return STALL_MS

    def error(self, tick: int) -> Exception | None:
        return self._errors.get(tick)

    def mark_seen(self, tick: int) -> None:
        pass  # no `sync` raises errors of this timeline

    def give_up(self, tick: int) -> str:
        return ""
