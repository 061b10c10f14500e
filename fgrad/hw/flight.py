"""What a device has in flight: submissions that may be running, and failures nobody has seen yet.

A submission is noted before it is made, so that an interrupt in between cannot free what the device
reads. Whoever looks next hands back what is finished. A failure is raised once: by the fence of its
work, or by the next `sync` of its device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fgrad.hw.timeline import Timeline

_KEPT_ERRORS = 1024
_NOTES = 8  # other failures that are named beside the first


@dataclass(slots=True, eq=False)
class Flight:
    """A submission.

    tick    its place on the device's timeline
    name    of the program
    error   asked when it is finished: what it failed with
    finish  called once when it is finished: hands back what the device read
    work_ms estimated length; infinite if nothing is known
    waits   (timeline, tick) of other devices without which it does not end
    """

    tick: int
    name: str
    error: Callable[[Flight], Exception | None]
    finish: Callable[[], None]
    work_ms: float = 0.0
    waits: tuple[tuple[Timeline, int], ...] = ()


class InFlight:
    """The flights of one device in order. Calls that change it are made under the device's lock."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._flights: deque[Flight] = deque()
        self._errors: dict[int, Exception] = {}
        self._unseen: list[int] = []  # ticks of failures that nobody was told of

    def __bool__(self) -> bool:
        """Whether there is anything to wait for, to hand back or to tell."""
        return bool(self._flights or self._unseen)

    @property
    def last(self) -> int:
        """The newest tick in flight; 0 if there is none."""
        return self._flights[-1].tick if self._flights else 0

    def names(self) -> list[str]:
        """The programs in flight, oldest first."""
        return [flight.name for flight in self._flights]

    def waits(self, tick: int) -> list[tuple[Timeline, int]]:
        """What must be reached elsewhere before `tick` can be, as far as commands say it."""
        done = self._timeline.completed()
        flights = tuple(self._flights)
        return [wait for flight in flights if done < flight.tick <= tick for wait in flight.waits]

    def work_ms(self) -> float:
        """The estimated length of everything in flight; infinite if nothing is known of one."""
        return sum([flight.work_ms for flight in tuple(self._flights)])

    def begin(self, flight: Flight) -> None:
        """Note a flight; to be called just before it is submitted."""
        self._flights.append(flight)

    def cancel(self, flight: Flight) -> None:
        """Forget a flight that was never submitted."""
        self._flights.remove(flight)

    def retire(self) -> None:
        """Hand back what is finished, and keep what failed."""
        completed = self._timeline.completed()
        while self._flights and self._flights[0].tick <= completed:
            flight = self._flights.popleft()
            error = flight.error(flight)
            flight.finish()
            if error is not None:
                self._errors[flight.tick] = error
                self._unseen.append(flight.tick)
                while len(self._errors) > _KEPT_ERRORS:
                    del self._errors[next(iter(self._errors))]

    def error(self, tick: int) -> Exception | None:
        """How the work of `tick`, which was retired, failed."""
        return self._errors.get(tick)

    def unseen(self, until: int) -> Exception | None:
        """The first failure up to the tick `until` that nobody was told of; it still is to be told."""
        found = [tick for tick in self._unseen if tick <= until and tick in self._errors]
        return self._errors[found[0]] if found else None

    def mark_seen(self, tick: int) -> None:
        """The failure of `tick` was raised."""
        if tick in self._unseen:
            self._unseen.remove(tick)

    def mark_seen_up_to(self, tick: int) -> None:
        """The failures up to `tick` were told of in another way."""
        self._unseen = [unseen for unseen in self._unseen if unseen > tick]

    def mark_seen_after(self, tick: int) -> None:
        """The failures after `tick` were told of in another way."""
        self._unseen = [unseen for unseen in self._unseen if unseen <= tick]

    def raise_unseen(self) -> None:
        """Raise the first failure that nobody has seen; the others are named in a note on it."""
        ticks, self._unseen = self._unseen, []
        errors = [self._errors[tick] for tick in ticks if tick in self._errors]
        if not errors:
            return
        for other in errors[1 : 1 + _NOTES]:
            errors[0].add_note(f"also: {type(other).__name__}: {other}")
        if len(errors) > 1 + _NOTES:
            errors[0].add_note(f"and {len(errors) - 1 - _NOTES} more")
        raise errors[0]

    def abandon(self, make_error: Callable[[str], Exception]) -> list[Flight]:
        """Drop all flights, failed, and return them: they are not finished, so what they hold must
        stay theirs.

        make_error  gives, for their names, what their fences raise
        """
        flights = list(self._flights)
        self._flights.clear()
        error = make_error(", ".join(dict.fromkeys(flight.name for flight in flights)))
        self._errors.update({flight.tick: error for flight in flights})
        return flights

    def forget(self, is_lost: Callable[[int], bool], make_error: Callable[[str], Exception]) -> None:
        """Drop all flights, as a forked child must: nobody will finish them there.

        is_lost     whether the work of a tick had not been finished
        make_error  gives, for the names of what was not finished, what the next `sync` raises
        """
        lost = [flight for flight in self._flights if is_lost(flight.tick)]
        self._flights.clear()
        self._unseen.clear()  # they are the parent's to tell
        if lost:
            names = ", ".join(dict.fromkeys(flight.name for flight in lost))
            self._errors[lost[-1].tick] = make_error(names)
            self._unseen.append(lost[-1].tick)
