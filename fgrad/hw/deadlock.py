"""Waits that could never end, refused before they begin.

A Python function that a program calls runs on its device's own thread: while it waits for another
device, its own device stands still. If what it waits for needs that device, nobody ever moves. A
WaitGraph knows which devices' threads wait, and finds such circles through what is in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fgrad.errors import DeviceError


class WaitGraph:
    """Who waits for whom.

    waits  (timeline, tick) -> the (timeline, tick) pairs without which it is not reached
    """

    def __init__(self, waits: Callable[[Any, int], Iterable[tuple[Any, int]]]) -> None:
        self._waits = waits
        self._threads: dict[int, tuple[Any, int]] = {}  # by identity of the device that stands still

    def begin(self, owner: Any, timeline: Any, tick: int) -> None:
        """The thread of device `owner` is about to wait; None is a thread of no device.

        Raises DeviceError if the wait would never end.
        """
        if owner is None:
            return
        self._threads[id(owner)] = (timeline, tick)  # first, so that of two threads one sees both
        try:
            self._refuse_circle(owner, timeline, tick)
        except DeviceError:
            self.end(owner)
            raise

    def end(self, owner: Any) -> None:
        """The wait is over."""
        if owner is not None:
            self._threads.pop(id(owner), None)

    def _refuse_circle(self, owner: Any, timeline: Any, tick: int) -> None:
        found: dict[int, int] = {}  # how far each timeline was followed
        open_waits = [(timeline, tick)]
        while open_waits:
            other, until = open_waits.pop()
            if other.completed() >= until or found.get(id(other), 0) >= until:
                continue
            found[id(other)] = until
            if other is owner:
                raise DeviceError(
                    f"a callback on {owner.name} waits for {timeline.name}, which waits for "
                    f"{owner.name}: neither would ever go on; return the value from the callback "
                    "and use it after the program"
                )
            open_waits += self._waits(other, until)
            standing = self._threads.get(id(other))
            if standing is not None:
                open_waits.append(standing)
