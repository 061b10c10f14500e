"""AddressMap: which addresses the processors may touch."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from dataclasses import dataclass

from fgrad.errors import BadAccessError


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Mapped bytes; the address is the host's own. `owner` is for messages."""

    base: int
    nbytes: int
    owner: str
    writable: bool = True


class AddressMap:
    """Ranges that do not overlap. Thread-safe, as memory is freed on any thread."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._ranges: dict[int, Range] = {}
        # re-entrant: a garbage collection inside may free memory
        self._lock = threading.RLock()

    def add(self, found: Range) -> None:
        """Map a range. Raises ValueError if some of it is mapped already."""
        with self._lock:
            for other in (self._below(found.base), self._below(found.base + found.nbytes - 1)):
                if other is not None and other.base + other.nbytes > found.base:
                    raise ValueError(f"{found} overlaps {other}")
            insort(self._bases, found.base)
            self._ranges[found.base] = found

    def remove(self, base: int) -> None:
        """Unmap the range that begins at `base`."""
        with self._lock:
            self._bases.remove(base)
            del self._ranges[base]

    def check(self, address: int, nbytes: int, *, is_write: bool, what: str) -> None:
        """Raise BadAccessError, a page fault, unless all these bytes are in one range.

        what  makes the access, for the message
        """
        if not nbytes:
            return
        with self._lock:
            found = self._below(address)
        verb = "writes" if is_write else "reads"
        if found is None or found.base + found.nbytes <= address:
            raise BadAccessError(f"page fault: {what} {verb} {nbytes} bytes at {address:#x}, where nothing is mapped")
        if address + nbytes > found.base + found.nbytes:
            over = address + nbytes - found.base - found.nbytes
            raise BadAccessError(
                f"page fault: {what} {verb} {nbytes} bytes at {address:#x}, {over} more than there are of {found.owner}"
            )
        if is_write and not found.writable:
            raise BadAccessError(f"page fault: {what} writes to {found.owner} at {address:#x}, which is read-only")

    def __len__(self) -> int:
        return len(self._bases)

    def _below(self, address: int) -> Range | None:
        i = bisect_right(self._bases, address) - 1
        return self._ranges[self._bases[i]] if i >= 0 else None
