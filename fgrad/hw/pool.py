"""Pool: a device's memory in size classes, reused warm and never returned eagerly.

A first touch of new memory costs about a millisecond per MiB, so a freed block goes on the free
list of its size class and the next array of that class takes it. Blocks are raw anonymous mappings
that no Python object owns: native threads may touch them until the process ends. `list.pop` and
`list.append` are atomic, so the lists need no lock.

A block may be freed while queued work still uses it: its next user on the same device is queued
behind that work. Therefore every device has a pool of its own, and whatever else is done with free
memory (returning it to the system, filling it with a pattern) waits for the device's `Clock`.

Two settings find faults, and are read when a size class is first used:

FGRAD_POOL=0    a freed block is unmapped once no queued work can use it, and never reused; blocks
                lie just before a page without access, so that running past one faults
FGRAD_POISON=1  fresh and freed memory is filled with the byte 0xA5
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fgrad.config import config
from fgrad.errors import OutOfMemoryError
from fgrad.hw.libc import PAGE, READ, WRITE, map_pages, memset, mprotect, munmap

ALIGNMENT = 64  # bytes; a full vector, so that non-temporal stores are legal
SLAB_BYTES = 1 << 18  # blocks of up to a quarter of this are cut from slabs of this size
POISON = 0xA5


class Clock(Protocol):
    """How far the device is that uses the memory."""

    def issued(self) -> int:
        """The newest position handed to work."""

    def completed(self) -> int:
        """The newest position whose work, and all before it, is finished."""

    def reaches(self, tick: int) -> bool:
        """Wait for `tick`; False where that cannot be waited for, as on the device's own thread."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Bytes of a pool.

    in_use    held by arrays, tables and intermediates (rounded up to their size classes)
    cached    free, kept for reuse
    mapped    taken from the system: in use and cached
    peak      the most that was ever mapped
    """

    in_use: int
    cached: int
    mapped: int
    peak: int


def class_bytes(nbytes: int) -> int:
    """The size class of a request: a multiple of 64, four classes in each octave."""
    if nbytes <= 256:
        return max(64, (nbytes + 63) & -64)
    step = 1 << (nbytes - 1).bit_length() - 3
    return (nbytes + step - 1) & -step


class _CheckedList(list[int]):
    """A free list that first lets the device finish with a block, then poisons or unmaps it."""

    def __init__(self, pool: Pool, size: int) -> None:
        super().__init__()
        self._pool = weakref.ref(pool)
        self._size = size
        self._waiting: deque[tuple[int, int]] = deque()
        self.reuses = config.pool and pool.reuses
        self._poisons = config.poison

    def append(self, address: int, *, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        pool = self._pool()
        if pool is None or is_ending():  # then globals are gone, and soon the memory
            return
        self._waiting.append((pool.clock.issued() if pool.clock else 0, address))
        self.settle(pool)

    def pop(self, index: int = -1, /) -> int:  # type: ignore[override]
        pool = self._pool()
        if pool is not None:
            self.settle(pool)
        return super().pop()

    def waiting(self) -> int:
        """How many freed blocks queued work may still use."""
        return len(self._waiting)

    def settle(self, pool: Pool) -> None:
        """Deal with the blocks that no queued work uses any more."""
        completed = pool.clock.completed() if pool.clock else 0
        while True:
            try:
                tick, address = self._waiting.popleft()
            except IndexError:
                return
            if tick > completed:
                self._waiting.appendleft((tick, address))
                return
            if not self.reuses:
                pool.unmap(address, self._size, guard=True)
                continue
            if self._poisons:
                memset(address, POISON, self._size)
            super().append(address)


class Pool:
    """Free lists by size class, and what is in use.

    name    of the device
    clock   how far its work is; None: work is finished when the call that started it returns
    reuses  False: as with FGRAD_POOL=0
    """

    def __init__(self, name: str, clock: Clock | None = None, *, reuses: bool = True) -> None:
        self.name = name
        self.reuses = reuses
        self.clock = clock
        self._lists: dict[int, list[int]] = {}
        self._lock = threading.Lock()
        self._mapped = 0
        self._peak = 0
        _pools.add(self)

    def free_list(self, nbytes: int) -> list[int]:
        """The list of free addresses that serves arrays of `nbytes` (shared by the whole class)."""
        size = class_bytes(nbytes)
        found = self._lists.get(size)
        if found is None:
            checked = not (config.pool and self.reuses) or config.poison
            found = self._lists.setdefault(size, _CheckedList(self, size) if checked else [])
        return found

    def refill(self, nbytes: int) -> int:
        """A block for `nbytes` when its free list is empty.

        If the system refuses, all pools give their free blocks back, and it is asked once more.
        Raises OutOfMemoryError.
        """
        size = class_bytes(nbytes)
        free = self.free_list(nbytes)
        checked = isinstance(free, _CheckedList)
        if isinstance(free, _CheckedList) and not free.reuses:
            return self._fresh(size, self._map(size, guard=True), checked)
        if size * 4 > SLAB_BYTES:
            return self._fresh(size, self._map(size), checked)
        usable = SLAB_BYTES // size * size  # the rest of a slab belongs to nobody
        slab = self._map(SLAB_BYTES, counted=usable)
        blocks = range(slab, slab + usable, size)
        for block in blocks:
            self._fresh(size, block, checked)
        # a checked list would have the rest wait for the device, which has never seen it
        list.extend(free, blocks[1:])
        return slab

    def _fresh(self, size: int, address: int, checked: bool) -> int:
        if checked and config.poison:
            memset(address, POISON, size)
        return address

    def take(self, nbytes: int) -> int:
        """Address of a block of at least `nbytes`, 64-byte aligned; contents undefined."""
        try:
            return self.free_list(nbytes).pop()
        except IndexError:
            return self.refill(nbytes)

    def give(self, address: int, nbytes: int) -> None:
        """Hand a block taken for `nbytes` back; work that was queued before may still use it."""
        self.free_list(nbytes).append(address)

    def _map(self, size: int, *, counted: int | None = None, guard: bool = False) -> int:
        pages = -(-size // PAGE) * PAGE
        whole = pages + PAGE * guard
        address = _map_or_trim(whole)
        if address is None:
            now = self.statistics()
            raise OutOfMemoryError(
                f"{self.name}: the system has no {size} bytes; {now.in_use} are in use, "
                f"{now.cached} were kept for reuse and did not help"
            ) from None  # that a list of free blocks was empty is no news
        if guard:
            mprotect(address + pages, PAGE, 0)
        with self._lock:
            self._mapped += size if counted is None else counted
            self._peak = max(self._peak, self._mapped)
        return address + pages - size

    def unmap(self, address: int, size: int, *, guard: bool = False) -> None:
        """Return a block that was mapped by itself to the system."""
        base = address // PAGE * PAGE
        munmap(base, address + size - base + PAGE * guard)
        with self._lock:
            self._mapped -= size

    def trim(self) -> None:
        """Return the free large blocks to the system, once no queued work uses them any more."""
        taken: list[tuple[int, int]] = []
        for size, blocks in tuple(self._lists.items()):
            while size * 4 > SLAB_BYTES and config.pool and self.reuses:
                try:
                    taken.append((blocks.pop(), size))
                except IndexError:
                    break
        clock = self.clock
        if taken and clock is not None and not clock.reaches(clock.issued()):
            for address, size in taken:
                self._lists[size].append(address)
            return
        for address, size in taken:
            self.unmap(address, size)

    def settle(self) -> None:
        """Poison or return the freed blocks that queued work is done with, if the settings ask."""
        for blocks in tuple(self._lists.values()):
            if isinstance(blocks, _CheckedList):
                blocks.settle(self)

    def statistics(self) -> Statistics:
        """Bytes in use, cached and mapped now, and the peak."""
        self.settle()
        lists = tuple(self._lists.items())
        cached = sum([size * len(blocks) for size, blocks in lists])
        cached += sum([s * b.waiting() for s, b in lists if isinstance(b, _CheckedList)])
        return Statistics(self._mapped - cached, cached, self._mapped, self._peak)


class Lease:
    """Blocks of a pool that go back into it when this object goes."""

    __slots__ = ("_pool", "_returns")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # the bound methods, since globals are gone when the interpreter takes modules apart
        self._returns: list[tuple[Callable[[int], None], int]] = []

    def take(self, nbytes: int) -> int:
        """Address of a block of at least `nbytes`; see `Pool.take`."""
        address = self._pool.take(nbytes)
        self._returns.append((self._pool.free_list(nbytes).append, address))
        return address

    def __del__(self) -> None:
        for give, address in self._returns:
            give(address)


def _map_or_none(nbytes: int) -> int | None:
    try:
        return map_pages(nbytes, READ | WRITE)
    except (MemoryError, OverflowError):  # the latter: more than a size_t holds
        return None


def _map_or_trim(nbytes: int) -> int | None:
    """Fresh pages; where there are none, all pools give their free blocks back, and the system is asked once more."""
    address = _map_or_none(nbytes)
    if address is None:
        for pool in tuple(_pools):
            pool.trim()
        address = _map_or_none(nbytes)
    return address


def need_room(nbytes: int, purpose: str) -> None:
    """Raise OutOfMemoryError unless the system has so many bytes now.

    For what cannot say that there is no memory: LLVM ends the process, and a thread that begins without any leaves
    its maker waiting for ever.

    >>> need_room(1 << 20, "compiling")
    """
    address = _map_or_trim(nbytes)
    if address is None:
        raise OutOfMemoryError(f"{purpose}: the system has no {nbytes} bytes")
    munmap(address, nbytes)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _forked() -> None:
    """Another thread of the parent may have held a lock at the moment of the fork."""
    for pool in tuple(_pools):
        pool._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def pools() -> dict[str, Statistics]:
    """The statistics of every pool, by the name of its device."""
    return {pool.name: pool.statistics() for pool in sorted(_pools, key=lambda pool: pool.name)}


host_pool = Pool("cpu")
