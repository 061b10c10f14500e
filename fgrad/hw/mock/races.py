"""Races: two processors touch the same bytes, one of them writing, and no wait puts them in order.

Each processor counts its packets, and knows of the others' counts what its waits told it: a vector
clock. An access is ordered after another if the processor knows the other's count. The host is one
more party: it knows what it has seen completed, and tells it to whom it submits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from fgrad.errors import OrderingError

Clock = dict[str, int]
HOST = "host"


def join(clock: Clock, other: Clock) -> None:
    """Know what the other knows."""
    for party, count in other.items():
        if clock.get(party, 0) < count:
            clock[party] = count


@dataclass(slots=True)
class _Access:
    low: int
    high: int
    party: str
    count: int
    is_write: bool
    what: str


class Races:
    """Accesses that may still be concurrent with later ones."""

    def __init__(self) -> None:
        self.clocks: dict[str, Clock] = {HOST: {}}
        self._accesses: list[_Access] = []
        self._prune_at = 256
        self._forgotten: deque[tuple[int, int]] = deque()

    def clock(self, party: str) -> Clock:
        """What a party knows, to be changed by `join`."""
        return self.clocks.setdefault(party, {party: 0})

    def tick(self, party: str) -> None:
        """The party begins its next packet."""
        clock = self.clock(party)
        clock[party] = clock.get(party, 0) + 1

    def access(self, party: str, address: int, nbytes: int, is_write: bool, what: str) -> None:
        """Note an access. Raises OrderingError for a race with an earlier one."""
        if not nbytes:
            return
        while self._forgotten:
            low, end = self._forgotten.popleft()
            self._accesses = [a for a in self._accesses if a.high <= low or end <= a.low]
        clock = self.clock(party)
        high = address + nbytes
        kept = []
        for other in self._accesses:
            if other.low < high and address < other.high:
                known = clock.get(other.party, 0) >= other.count
                if not known and (is_write or other.is_write):
                    raise OrderingError(
                        f"a race: {what} on {party} {'writes' if is_write else 'reads'} bytes at "
                        f"{max(address, other.low):#x} that {other.what} on {other.party} "
                        f"{'writes' if other.is_write else 'reads'}, and no wait is between them"
                    )
                # a write covers what came before it
                if known and is_write and address <= other.low and other.high <= high:
                    continue
            kept.append(other)
        kept.append(_Access(address, high, party, clock.get(party, 0), is_write, what))
        self._accesses = kept

    def forget(self, low: int, nbytes: int) -> None:
        """These bytes are other memory from now on. It may be said from within a garbage collection."""
        self._forgotten.append((low, low + nbytes))

    def prune(self, busy: list[str]) -> None:
        """Drop accesses that the host and every busy processor know: whoever comes later knows them too."""
        if len(self._accesses) < self._prune_at:
            return
        clocks = [self.clock(party) for party in (HOST, *busy)]
        self._accesses = [a for a in self._accesses if any(c.get(a.party, 0) < a.count for c in clocks)]
        self._prune_at = max(256, 2 * len(self._accesses))
