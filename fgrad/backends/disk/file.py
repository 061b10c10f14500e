"""File: the bytes of an open file at addresses, read and written by position.

The system's page cache keeps what was read, as it does for a mapping. But a mapping of a file that
somebody shortens kills the process that touches it (SIGBUS); a read by position says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.errors import DeviceError
from fgrad.hw.libc import ffi

MAX_CALL = 1 << 30  # bytes of one system call; Linux moves at most 2 GiB - 4 KiB


class File:
    """An open file.

    base   address of its first byte, in its device's addresses
    users  how often it is open; the last `close` closes it

    Raises OSError where the system does.
    """

    def __init__(self, path: str, writable: bool, nbytes: int | None, base: int) -> None:
        flags = os.O_RDWR | (os.O_CREAT if nbytes is not None else 0) if writable else os.O_RDONLY
        self.path = path
        self.writable = writable
        self.base = base
        self.users = 1
        self.fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
        if nbytes is not None and os.fstat(self.fd).st_size < nbytes:
            os.truncate(self.fd, nbytes)
        self.nbytes = os.fstat(self.fd).st_size

    def read(self, offset: int, host: int, nbytes: int) -> None:
        """Copy bytes to host memory at address `host`. Raises DeviceError if the file is shorter."""
        self.check(offset, nbytes)
        memory = memoryview(ffi.buffer(ffi.cast("char*", host), nbytes)) if nbytes else memoryview(b"")
        done = 0
        while done < nbytes:
            with self._named():
                count = os.preadv(self.fd, [memory[done : done + MAX_CALL]], offset + done)
            if not count:
                raise DeviceError(
                    f"{self.path}: bytes {offset} to {offset + nbytes} cannot be read: the file was cut "
                    f"to {os.fstat(self.fd).st_size} bytes after it was opened"
                )
            done += count

    def write(self, offset: int, host: int, nbytes: int) -> None:
        """Copy bytes from host memory at address `host` into the file. Raises OSError where the disk is full."""
        self.check(offset, nbytes)
        if not self.writable:
            raise DeviceError(f"{self.path} was opened for reading; open it with mode 'r+'")
        memory = memoryview(ffi.buffer(ffi.cast("char*", host), nbytes)) if nbytes else memoryview(b"")
        done = 0
        while done < nbytes:
            with self._named():
                done += os.pwrite(self.fd, memory[done : done + MAX_CALL], offset + done)

    def flush(self) -> None:
        """Wait until the system has written everything to the disk. Raises OSError if it cannot."""
        with self._named():
            os.fsync(self.fd)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What the system refuses (a full disk, a broken one) names the file."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error

    def check(self, offset: int, nbytes: int) -> None:
        """Raise DeviceError unless the file is open and has these bytes."""
        if self.fd < 0:
            raise DeviceError(f"{self.path} was closed; open it again")
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise DeviceError(
                f"{self.path}: bytes {offset} to {offset + nbytes} are not inside its {self.nbytes} bytes"
            )

    def close(self) -> None:
        """One user less; the last one closes the file."""
        self.users -= 1
        if not self.users and self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
