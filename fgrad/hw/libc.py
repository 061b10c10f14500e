"""The C library as far as the native layer needs it, and memory that no Python object owns.

The compiled part of cffi is used alone: it reads C types itself, in microseconds. `cffi.FFI` would
load a C parser written in Python (45 ms), only to look up symbols that ctypes has found already.
"""

import ctypes
import mmap
import os
import sys
from typing import Any

from _cffi_backend import FFI

from fgrad.errors import DeviceMissingError

if sys.platform == "win32":
    raise DeviceMissingError(
        "fgrad maps its memory and makes its threads by mmap and pthread_create; it needs a POSIX "
        "system, such as the Windows Subsystem for Linux"
    )

ffi = FFI()
PAGE = mmap.PAGESIZE
IS_LINUX = sys.platform == "linux"
READ, WRITE, EXECUTE = 1, 2, 4  # PROT_* are the same numbers on every POSIX system
_PROCESS = ctypes.CDLL(None)


def address_of(name: str) -> int:
    """Return the address of a function of the C library, 0 if there is none of that name."""
    try:
        return ctypes.cast(getattr(_PROCESS, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def as_function(address: int, signature: str) -> Any:
    """Return `address` as a callable of C type `signature`, such as ``void(*)(int64_t)``.

    A call releases the GIL. A function that takes one integer costs about 0.15 us.
    """
    return ffi.cast(signature, address)


def _function(name: str, signature: str) -> Any:
    address = address_of(name)
    if not address:
        raise DeviceMissingError(f"the C library of this system has no function {name!r}")
    return as_function(address, signature)


_mmap = _function("mmap", "intptr_t(*)(intptr_t, size_t, int, int, int, int64_t)")
munmap = _function("munmap", "int(*)(intptr_t, size_t)")
mprotect = _function("mprotect", "int(*)(intptr_t, size_t, int)")
madvise = _function("madvise", "int(*)(intptr_t, size_t, int)")
memset = _function("memset", "intptr_t(*)(intptr_t, int, size_t)")
memmove = _function("memmove", "intptr_t(*)(intptr_t, intptr_t, size_t)")


def map_pages(size_bytes: int, protection: int, *, fd: int = -1, reserve: bool = False) -> int:
    """Map fresh pages and return their address.

    Without `fd` the pages are private and zero: a forked child never sees what its parent writes
    later. With `fd` they are shared views of that file. `reserve` takes address space only.

    Raises MemoryError, or PermissionError where the system forbids the protection.
    """
    flags = mmap.MAP_SHARED if fd >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if reserve and IS_LINUX:
        flags |= 0x4000  # MAP_NORESERVE, which the mmap module names from Python 3.13 on
    address = int(_mmap(0, size_bytes, protection, flags, fd, 0))
    if address == -1:
        text = os.strerror(ffi.errno)
        if protection & EXECUTE:
            raise PermissionError(f"executable pages were refused: {text}")
        raise MemoryError(f"mmap of {size_bytes} bytes failed: {text}")
    return address


def raw_block(size_bytes: int) -> int:
    """Return the address of zeroed memory for native threads, which is never given back.

    No Python object owns it, so the end of the interpreter cannot free it under a thread that runs.
    """
    return map_pages(-(-size_bytes // PAGE) * PAGE, READ | WRITE)


def words(address: int) -> Any:
    """Return memory at `address` as an array of int64, without bounds."""
    return ffi.cast("int64_t*", address)
