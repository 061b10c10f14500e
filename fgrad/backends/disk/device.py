"""The DISK device: files stand at addresses of their own, and are copied to other devices by pieces."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right

from fgrad.backends.disk.file import File
from fgrad.backends.storing import StoringDevice
from fgrad.errors import DeviceError
from fgrad.hw.device import register_device
from fgrad.hw.libc import PAGE

FIRST_ADDRESS = 1 << 56  # no memory of a process is there


class DiskDevice(StoringDevice):
    """See the module. Files are closed by their users; addresses are never used twice."""

    def __init__(self, index: int) -> None:
        super().__init__(f"disk:{index}" if index else "disk", "fgrad.storage.create_array makes files of arrays")
        self._lock = threading.Lock()
        self._next = FIRST_ADDRESS
        self._files: dict[tuple[int, int, bool], File] = {}  # by file, not by name
        self._bases: list[int] = []
        self._by_base: dict[int, File] = {}

    def open(self, path: str, *, writable: bool = False, nbytes: int | None = None) -> File:
        """The file, opened once for all its users.

        nbytes   make it, and make it so long if it is shorter

        Opening a file again that is longer now than it was raises DeviceError: its addresses are
        taken. Raises OSError where the system does.
        """
        with self._lock:
            if os.path.exists(path):
                status = os.stat(path)
                found = self._files.get((status.st_dev, status.st_ino, writable))
                if found is not None and found.fd >= 0:
                    if max(status.st_size, nbytes or 0) > found.nbytes:
                        raise DeviceError(f"{path} is open with {found.nbytes} bytes, and longer now; close it first")
                    found.users += 1
                    return found
            file = File(path, writable, nbytes, self._next)
            status = os.fstat(file.fd)
            self._next += -(-max(file.nbytes, 1) // PAGE) * PAGE + PAGE
            self._files[status.st_dev, status.st_ino, writable] = file
            self._bases.append(file.base)
            self._by_base[file.base] = file
            return file

    def fetch(self, address: int, host: int, nbytes: int) -> None:
        """Copy from an address of this device to host memory."""
        file = self._file(address)
        file.read(address - file.base, host, nbytes)

    def deliver(self, address: int, host: int, nbytes: int) -> None:
        """Copy from host memory to an address of this device."""
        file = self._file(address)
        file.write(address - file.base, host, nbytes)

    def close(self, file: File) -> None:
        """One user of the file less."""
        with self._lock:
            file.close()
            if file.fd < 0 and self._by_base.pop(file.base, None) is not None:
                self._bases.remove(file.base)
                self._files = {key: f for key, f in self._files.items() if f is not file}

    def _file(self, address: int) -> File:
        i = bisect_right(self._bases, address) - 1
        if i < 0:
            raise DeviceError(f"{self.name} has no open file at address {address:#x}")
        return self._by_base[self._bases[i]]


register_device("disk", DiskDevice)
