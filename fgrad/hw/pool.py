"""Pool: host memory in size classes, reused warm and never returned eagerly.

A first touch of new memory costs about a millisecond per MiB, so a freed block goes on the free list of its size class and
the next array of that class takes it. Blocks are raw anonymous mappings that no Python object owns: native threads may touch
them until the process ends. `list.pop` and `list.append` are atomic, so the lists need no lock.
"""
from __future__ import annotations

import ctypes
import sys
import threading

from fgrad.config import config
from fgrad.errors import OutOfMemoryError

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
]  # fmt: skip
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_PROT_READ_WRITE = 3
_MAP_PRIVATE_ANONYMOUS = 0x1002 if sys.platform == "darwin" else 0x22
ALIGNMENT = 64  # bytes; a full vector, so that non-temporal stores are legal
SLAB_BYTES = 1 << 18  # blocks below a quarter of this are cut from slabs of this size


def map_memory(nbytes: int) -> int:
    """Address of `nbytes` of fresh zeroed memory; raises OutOfMemoryError."""
    address = _libc.mmap(None, nbytes, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OutOfMemoryError(f"the system refused {nbytes} bytes of memory")
    return int(address)


def class_bytes(nbytes: int) -> int:
    """The size class of a request: a multiple of 64, four classes in each octave."""
    if nbytes <= 256:
        return max(64, (nbytes + 63) & -64)
    step = 1 << (nbytes - 1).bit_length() - 3
    return (nbytes + step - 1) & -step


class Pool:
    """Free lists by size class, and what is in use."""

    def __init__(self) -> None:
        self._lists: dict[int, list[int]] = {}
        self._lock = threading.Lock()
        self.mapped_bytes = 0

    def free_list(self, nbytes: int) -> list[int]:
        """The list of free addresses that serves arrays of `nbytes` (shared by the whole class)."""
        return self._lists.setdefault(class_bytes(nbytes), [])

    def refill(self, nbytes: int) -> int:
        """A block for `nbytes` when its free list is empty. Trims all lists and tries once more before giving up."""
        size = class_bytes(nbytes)
        free = self.free_list(nbytes)
        with self._lock:
            if size * 4 > SLAB_BYTES:
                return self._map(size)
            slab = self._map(SLAB_BYTES)
            free.extend(range(slab + size, slab + SLAB_BYTES - size + 1, size))
            return slab

    def _map(self, size: int) -> int:
        try:
            address = map_memory(size)
        except OutOfMemoryError:
            self._trim()
            try:
                address = map_memory(size)
            except OutOfMemoryError:
                raise OutOfMemoryError(
                    f"no memory for {size} bytes; {self.mapped_bytes - self.free_bytes()} in use, "
                    f"{self.free_bytes()} free in pieces that do not fit"
                ) from None
        self.mapped_bytes += size
        return address

    def take(self, nbytes: int) -> int:
        """Address of a block of at least `nbytes`, 64-byte aligned; contents undefined."""
        try:
            return self.free_list(nbytes).pop()
        except IndexError:
            return self.refill(nbytes)

    def give(self, address: int, nbytes: int) -> None:
        """Hand a block taken for `nbytes` back."""
        if config.poison:
            ctypes.memset(address, 0xA5, nbytes)
        self.free_list(nbytes).append(address)

    def free_bytes(self) -> int:
        """Bytes on the free lists."""
        return sum(size * len(blocks) for size, blocks in self._lists.items())

    def _trim(self) -> None:
        for size, blocks in self._lists.items():
            while size * 4 > SLAB_BYTES and blocks:
                _libc.munmap(blocks.pop(), size)
                self.mapped_bytes -= size

    def trim(self) -> None:
        """Return all free large blocks to the system."""
        with self._lock:
            self._trim()


host_pool = Pool()
