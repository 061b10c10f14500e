"""The NPY device: NumPy arrays stand in for device buffers, at the addresses of their elements."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from fgrad.backends.storing import StoringDevice
from fgrad.errors import ArgumentError, DeviceError
from fgrad.hw.device import register_device
from fgrad.hw.libc import memmove


class NpyDevice(StoringDevice):
    """See the module. It holds no array alive: an address is good as long as its array lives."""

    def __init__(self, index: int) -> None:
        super().__init__(f"npy:{index}" if index else "npy", "use the NumPy array itself")
        self._arrays: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def address(self, array: np.ndarray[Any, Any]) -> int:
        """Where the elements of a row-major array are, for copies to and from other devices.

        Raises ArgumentError for other layouts.
        """
        if not array.flags.c_contiguous:
            raise ArgumentError(
                f"the array of shape {array.shape} and strides {array.strides} is not row-major; "
                "use numpy.ascontiguousarray(x)"
            )
        at = int(array.__array_interface__["data"][0])
        self._arrays[at] = array
        return at

    def fetch(self, address: int, host: int, nbytes: int) -> None:
        """Copy from an array to host memory."""
        self._check(address, nbytes, is_written=False)
        memmove(host, address, nbytes)

    def deliver(self, address: int, host: int, nbytes: int) -> None:
        """Copy from host memory into an array. Raises DeviceError if it is read-only."""
        self._check(address, nbytes, is_written=True)
        memmove(address, host, nbytes)

    def _check(self, address: int, nbytes: int, is_written: bool) -> None:
        for base, array in tuple(self._arrays.items()):
            if base <= address and address + nbytes <= base + array.nbytes:
                if is_written and not array.flags.writeable:
                    raise DeviceError(f"{self.name}: the array of shape {array.shape} is read-only")
                return
        raise DeviceError(f"{self.name} knows no array with the {nbytes} bytes at {address:#x}; give it to `address`")


register_device("npy", NpyDevice)
