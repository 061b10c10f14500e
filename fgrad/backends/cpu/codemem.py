"""Memory for machine code: `Arena.load` copies an image in, `Arena.free` takes it out again.

Pages are never writable and executable at once. They are private, written while read-write, then
turned read-execute; freed pages lose all access, so that a stale call faults instead of running
other code. Where the system refuses that turn (as under PR_SET_MDWE), memory is mapped twice, once
to write and once to execute; such memory is shared with forked children, so a fork ends all reuse
of it.
"""

import mmap
import os
import platform
import struct
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import Any

from fgrad.backends.cpu.elf import Image
from fgrad.backends.cpu.forks import after_fork, fork_safe_lock
from fgrad.hw.libc import (
    EXECUTE,
    IS_LINUX,
    PAGE,
    READ,
    WRITE,
    address_of,
    as_function,
    ffi,
    madvise,
    map_pages,
    mprotect,
    words,
)

_NO_ACCESS = 0
_RESERVE_BYTES = 64 << 20  # address space only; one reservation holds some 16 000 programs
_TWIN_BYTES = 16 << 20  # of a reservation mapped twice
_DISCARD: int = mmap.MADV_DONTNEED if IS_LINUX else getattr(mmap, "MADV_FREE", 5)


class Arena:
    """Page runs out of large reservations, first fit, coalesced when freed. Thread safe.

    An arena lives as long as the process, and so does its address space.
    """

    def __init__(self, reserve_bytes: int = _RESERVE_BYTES) -> None:
        self._reserve_bytes = reserve_bytes
        self._lock = fork_safe_lock()
        self._free_runs: list[tuple[int, int]] = []  # (address, bytes), by address, none adjacent
        self._used: dict[int, int] = {}  # address -> bytes
        self._twins: list[tuple[int, int, int]] = []  # (address, bytes, distance to writable view)
        self._is_twin = False  # new memory is mapped twice
        self._may_reuse_twins = True
        self._dead: deque[int] = deque()
        self._flush = _instruction_flush()
        after_fork(self._forked)

    def load(self, image: Image) -> int:
        """Copy `image` into executable memory; return the address of its first byte.

        Raises MemoryError without address space, PermissionError where the system allows no
        executable memory in any way.
        """
        while self._dead:
            self._release(self._dead.popleft())
        if not self._is_twin:
            try:
                return self._load_private(image)
            except PermissionError:
                with self._lock:
                    self._is_twin, self._free_runs = True, []
        return self._load_twin(image)

    def free(self, address: int) -> None:
        """Give back what `load` returned. Nobody may be inside the code, or call it later.

        Takes no lock, so finalisers may call it; the pages are taken out at the next `load`.
        """
        if address not in self._used:
            raise KeyError(f"no code is loaded at {address:#x}")
        self._dead.append(address)

    def live_count(self) -> int:
        """Return the number of images loaded and not freed."""
        return len(self._used) - len(self._dead)

    def _load_private(self, image: Image) -> int:
        at, size = self._take(image)
        if mprotect(at, size, READ | WRITE):
            self._release(at)
            raise MemoryError(f"no memory for {size} bytes of code")
        self._write(image, at, at)
        if mprotect(at, size, READ | EXECUTE):
            self._release(at)
            raise PermissionError("writable pages cannot become executable here")
        return at

    def _load_twin(self, image: Image) -> int:
        at, _ = self._take(image)
        self._write(image, at, at + self._distance(at))
        return at

    def _write(self, image: Image, at: int, writable: int) -> None:
        ffi.memmove(ffi.cast("char*", writable), image.blob, len(image.blob))
        for fixup in image.fixups:
            words(writable + fixup)[0] += at
        if self._flush is not None:
            self._flush(writable, writable + len(image.blob))

    def _distance(self, at: int) -> int:
        """Return the distance from executable code to its writable view, 0 if it has none."""
        return next((d for start, size, d in self._twins if start <= at < start + size), 0)

    def _take(self, image: Image) -> tuple[int, int]:
        size = -(-len(image.blob) // PAGE) * PAGE
        with self._lock:
            fits = (i for i, (_, room) in enumerate(self._free_runs) if room >= size)
            first = next(fits, None)
            at, room = self._reserve(size) if first is None else self._free_runs.pop(first)
            if room > size:
                insort(self._free_runs, (at + size, room - size))
            self._used[at] = size
            return at, size

    def _reserve(self, size: int) -> tuple[int, int]:
        if self._is_twin:
            room = max(_TWIN_BYTES, size)
            at, writable = _map_twice(room)
            self._twins.append((at, room, writable - at))
            return at, room
        room = max(self._reserve_bytes, size)
        return map_pages(room, _NO_ACCESS, reserve=True), room

    def _release(self, at: int) -> None:
        with self._lock:
            size = self._used.pop(at)
            if self._distance(at):
                if not self._may_reuse_twins:
                    return
            else:
                madvise(at, size, _DISCARD)
                mprotect(at, size, _NO_ACCESS)
                if self._is_twin:
                    return
            runs = self._free_runs
            i = bisect_left(runs, (at, 0))
            if i < len(runs) and at + size == runs[i][0]:
                size += runs.pop(i)[1]
            if i and sum(runs[i - 1]) == at:
                at, before = runs.pop(i - 1)
                size += before
            insort(runs, (at, size))

    def _forked(self, is_child: bool) -> None:
        """Parent and child see each other's writes to twins: use no byte of them anew."""
        if self._is_twin:
            self._free_runs, self._may_reuse_twins = [], False


def _map_twice(size: int) -> tuple[int, int]:
    """Map one memory file twice; return (executable, writable) addresses."""
    if not hasattr(os, "memfd_create"):
        raise PermissionError(
            "this system refuses executable pages; use the interpreting device: FGRAD_DEVICE=PYTHON"
        )
    fd = os.memfd_create("fgrad-code", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        return map_pages(size, READ | EXECUTE, fd=fd), map_pages(size, READ | WRITE, fd=fd)
    finally:
        os.close(fd)


# void flush(start, end) for AArch64, whose instruction cache does not see stores. Line sizes come
# from CTR_EL0; clean data by address to unification, invalidate instructions, with the barriers
# between (Arm Architecture Reference Manual, "Ordering and completion of cache maintenance
# instructions").
FLUSH_AARCH64 = (
    0xD53B0022,  # mrs x2, ctr_el0
    0xD3504C43,  # ubfx x3, x2, #16, #4
    0xD2800084,  # mov x4, #4
    0x9AC32083,  # lsl x3, x4, x3
    0x92400C45,  # and x5, x2, #15
    0x9AC52085,  # lsl x5, x4, x5
    0xD1000466,  # sub x6, x3, #1
    0x8A260006,  # bic x6, x0, x6
    0xD50B7B26,  # 1: dc cvau, x6
    0x8B0300C6,  # add x6, x6, x3
    0xEB0100DF,  # cmp x6, x1
    0x54FFFFA3,  # b.lo 1b
    0xD5033B9F,  # dsb ish
    0xD10004A6,  # sub x6, x5, #1
    0x8A260006,  # bic x6, x0, x6
    0xD50B7526,  # 2: ic ivau, x6
    0x8B0500C6,  # add x6, x6, x5
    0xEB0100DF,  # cmp x6, x1
    0x54FFFFA3,  # b.lo 2b
    0xD5033B9F,  # dsb ish
    0xD5033FDF,  # isb
    0xD65F03C0,  # ret
)


def _instruction_flush() -> Callable[[int, int], Any] | None:
    """Return flush(start, end) for this machine, None where stores reach code by themselves."""
    if platform.machine().lower() not in ("aarch64", "arm64"):
        return None
    clear = address_of("sys_icache_invalidate")  # macOS
    if clear:
        invalidate = as_function(clear, "void(*)(intptr_t, size_t)")
        return lambda start, end: invalidate(start, end - start)
    code = struct.pack("<22I", *FLUSH_AARCH64)
    at = map_pages(PAGE, READ | WRITE)
    ffi.memmove(ffi.cast("char*", at), code, len(code))
    # these first words need no flush: the kernel syncs a page when it first becomes executable
    if mprotect(at, PAGE, READ | EXECUTE):
        raise PermissionError("this system refuses executable pages")
    flush: Callable[[int, int], Any] = as_function(at, "void(*)(intptr_t, intptr_t)")
    return flush
