"""NumPy's view of host memory at an address."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.uop.dtype import DType

_CARRIER = {1: "|u1", 2: "<u2"}  # what stands in for dtypes NumPy does not know by itself


def typestr(dtype: DType) -> str:
    """The array-interface name of a dtype, or of an integer of its width."""
    known: bool = dtype.np.isbuiltin == 1
    return str(dtype.np.str) if known else _CARRIER[dtype.itemsize]


class Window:
    """Holds an array interface; `owner` stays alive as long as a NumPy array made of it."""

    __slots__ = ("owner", "__array_interface__")

    def __init__(
        self,
        address: int,
        text: str,
        shape: tuple[int, ...],
        writable: bool,
        owner: object = None,
    ) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, not writable), "shape": shape, "typestr": text, "version": 3,
        }  # fmt: skip


def window(address: int, dtype: DType, shape: tuple[int, ...], writable: bool = False, owner: object = None) -> Any:
    """The row-major array of that dtype and shape at `address`; read-only unless `writable`."""
    if 0 in shape:
        return np.zeros(shape, dtype.np)
    array = np.asarray(Window(address, typestr(dtype), shape, writable, owner))
    return array if array.dtype == dtype.np else array.view(dtype.np)
