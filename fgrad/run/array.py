"""DeviceArray: a concrete array; and the way host data comes in.

An array owns its buffer: when it dies, the buffer goes back on the free list of its size class. `sig` is interned and
exists only on concrete arrays, so one identity test in a generated wrapper checks class, aval, device and liveness.
"""

from __future__ import annotations

import time
from ctypes import memmove
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.errors import DonatedError
from fgrad.hw.device import get_device
from fgrad.hw.pool import ALIGNMENT
from fgrad.hw.window import window
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim
from fgrad.trace.stage import buffer_node, hooks
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp


class Sig:
    """aval and device of a concrete array, interned. `free` is the free list of its buffers, `put` returns one.

    `exported` is the Sig of the same arrays once NumPy or another library holds a view of them: such a buffer must not
    be reused when the array is donated. `key` is the same for both.
    """

    __slots__ = ("aval", "device", "nbytes", "free", "put", "key", "is_exported", "exported")

    def __init__(self, aval: Aval, device: Any, plain: Sig | None = None) -> None:
        self.aval = aval
        self.device = device
        self.key = plain or self
        self.is_exported = plain is not None
        self.exported = self if plain is not None else Sig(aval, device, self)
        self.nbytes = aval.nbytes
        self.free: list[int] = device.pool.free_list(self.nbytes)
        self.put = self.free.append

    def take(self) -> int:
        """The address of a free buffer."""
        try:
            return self.free.pop()
        except IndexError:
            address: int = self.device.pool.refill(self.nbytes)
            return address

    def __repr__(self) -> str:
        return f"{self.aval}@{self.device.name}"


_sigs: dict[tuple[Aval, str], Sig] = {}


def sig_of(aval: Aval, device: Any = None) -> Sig:
    """The Sig of that aval on that device (the default one for None)."""
    device = device or get_device()
    key = (aval, device.name)
    sig = _sigs.get(key)
    if sig is None:
        sig = _sigs.setdefault(key, Sig(aval, device))
    return sig


DELETED = "delete()"  # what took the memory of a deleted array


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of an array that lies on one device: here always all of it."""

    device: Any
    index: tuple[slice, ...]
    data: Any
    replica_id: int = 0


class Gone:
    """The sig of an array that was donated: it fails every guard.

    put   returns the buffer when the array dies; nobody does where the call took it over
    """

    __slots__ = ("by", "put")

    def __init__(self, by: str, put: Any = None) -> None:
        self.by = by
        self.put = put or (lambda address: None)

    def __getattr__(self, name: str) -> Any:
        if self.by == DELETED:
            raise DonatedError("Array has been deleted; call delete() after its last use")
        raise DonatedError(
            f"this array was donated to {self.by} and its memory has been reused; keep a copy, or do not donate it"
        )


class DeviceArray(Array):
    """A concrete array on a device, row-major and contiguous."""

    __slots__ = ("sig", "addr", "__weakref__")
    sig: Any

    def __init__(self, sig: Any, addr: int) -> None:
        self.sig = sig
        self.addr = addr

    def __del__(self) -> None:
        self.sig.put(self.addr)

    @property
    def aval(self) -> Aval:
        aval: Aval = self.sig.aval
        return aval

    @property
    def device(self) -> Any:
        """The device that holds the elements."""
        return self.sig.device

    def devices(self) -> set[Any]:
        """The devices that hold the elements: one."""
        return {self.device}

    def as_node(self) -> UOp:
        aval = self.sig.aval
        return buffer_node(self, aval.dtype, aval.shape)

    def concrete(self, way_out: str = "") -> Any:
        """A read-only NumPy view of the elements, once they are there."""
        sig = self.sig
        try:
            sig.device.sync()
            sig.device.check_readable()
        except Exception as error:
            trim(error)
            raise
        return window(self.addr, sig.aval.dtype, sig.aval.shape, owner=self)

    def block_until_ready(self) -> DeviceArray:
        """Wait for the elements; returns the array itself."""
        try:
            self.sig.device.sync()
        except Exception as error:
            trim(error)
            raise
        return self

    def copy_to_host_async(self) -> None:
        """Does nothing: the elements are where the host reads them. For code that hides the time of a copy."""

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element, once the elements are there; valid while the array lives."""
        self.block_until_ready()
        return self.addr

    def check_alive(self) -> None:
        """Raise DonatedError when the array was donated."""
        if self.is_deleted():
            self.sig.device  # noqa: B018  a Gone raises, naming who took the array

    def is_deleted(self) -> bool:
        """Whether the array was donated."""
        return type(self.sig) is Gone

    def delete(self) -> None:
        """Give the memory back now; using the array afterwards raises DonatedError."""
        if not self.is_deleted():
            put, address = self.sig.put, self.addr
            donate(self, DELETED)
            put(address)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array by device; there is one."""
        return [Shard(self.device, (slice(None),) * self.ndim, self)]

    def tobytes(self, order: str | None = "C") -> bytes:
        """The bytes of the elements, row-major ("C") or column-major ("F")."""
        return bytes(self.concrete().tobytes(order))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        view = self.concrete()
        self.sig = self.sig.exported
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"a {view.dtype} array cannot become {np.dtype(dtype)} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __repr__(self) -> str:
        if self.is_deleted():
            return "Array(deleted)" if self.sig.by == DELETED else f"Array(donated to {self.sig.by})"
        text = np.array2string(self.concrete(), separator=", ", prefix="Array(")
        weak = ", weak_type=True" if self.sig.aval.weak else ""
        return f"Array({text}, dtype={self.sig.aval.dtype}{weak})"

    def __str__(self) -> str:
        return str(self.concrete())

    def __buffer__(self, flags: int) -> memoryview:
        """A read-only view of the elements (Python calls it since 3.12)."""
        return memoryview(self.__array__())

    def __reduce__(self) -> Any:
        return _rebuild, (np.array(self.concrete()), self.sig.aval.weak)

    def __copy__(self) -> DeviceArray:
        return from_host(self.concrete(), weak=self.sig.aval.weak)

    def __deepcopy__(self, memo: Any) -> DeviceArray:
        return self.__copy__()


DeviceArray.__name__ = "Array"  # as Python's own messages call it


def _rebuild(data: Any, weak: bool) -> DeviceArray:
    return from_host(data, weak=weak)


def donate(array: DeviceArray, by: str) -> None:
    """Mark `array` as given away: using it raises DonatedError, and its buffer is somebody else's."""
    array.sig = Gone(by)
    array.addr = None  # type: ignore[assignment]  # generated code that captured the array must fail to pack it


def empty(dtype: DType, shape: tuple[int, ...], weak: bool = False, device: Any = None) -> DeviceArray:
    """An array with undefined contents."""
    sig = sig_of(Aval(dtype, shape, weak), device)
    return DeviceArray(sig, sig.take())


def writable_view(array: DeviceArray) -> Any:
    """A NumPy view through which the elements of a fresh array are filled."""
    aval = array.sig.aval
    return window(array.addr, aval.dtype, aval.shape, writable=True, owner=array)


def refuse_masked(data: Any) -> None:
    """Raise ValueError for NumPy's masked arrays."""
    if type(data) is not np.ndarray and any(c.__name__ == "MaskedArray" for c in type(data).__mro__):
        raise ValueError(
            "numpy masked arrays are not supported: the mask would be lost; use x.filled(value), or pass the data and "
            "the mask"
        )


def from_host(data: Any, dtype: DType | None = None, weak: bool = False, device: Any = None) -> DeviceArray:
    """A copy of a NumPy array, taken now: any strides, byte order and alignment."""
    refuse_masked(data)
    data = np.asarray(data)
    dtype = dtype or dt.to_dtype(data.dtype)
    out = empty(dtype, data.shape, weak, device)
    if data.size:
        # the fresh buffer may still be read by queued work that the pool handed on in order
        out.sig.device.sync()
        profile = getattr(out.sig.device, "profile", None)
        start = time.monotonic_ns() if profile is not None else 0
        if data.flags.c_contiguous and data.dtype.isbuiltin == 1 and data.dtype == dtype.np:
            memmove(out.addr, data.__array_interface__["data"][0], data.nbytes)
        else:
            np.copyto(writable_view(out), data, casting="unsafe")
        if profile is not None:
            profile.note_copy("copy from the host", start, time.monotonic_ns(), out.sig.nbytes)
    return out


class Lent(Sig):
    """The Sig of arrays whose elements are another library's memory. Nobody reuses it; its owner is held while the
    array lives, and then until work that may still read it has ended.
    """

    __slots__ = ("owners", "left")

    def __init__(self, plain: Sig) -> None:
        super().__init__(plain.aval, plain.device, plain.key)
        self.owners: dict[int, list[Any]] = {}
        self.left: list[Any] = []
        self.put = self.give_back

    def hold(self, address: int, owner: Any) -> None:
        """Keep `owner` for one more array at `address`; let go of those whose arrays have died before."""
        if self.left:
            gone, self.left = self.left, []
            self.device.sync()
            gone.clear()
        self.owners.setdefault(address, []).append(owner)

    def give_back(self, address: int) -> None:
        """An array has died; queued work may still read its elements. (It may be a garbage collection: no waiting.)"""
        held = self.owners[address]
        self.left.append(held.pop())
        if not held:
            del self.owners[address]


_lent: dict[Sig, Lent] = {}


def lent(data: Any, dtype: DType, device: Any = None) -> DeviceArray | None:
    """An array that shares the memory of a NumPy view; None where it cannot: other layouts, and alignments below
    that of our own buffers. Nobody may write to it while the array lives.
    """
    if not data.size or not data.flags.c_contiguous or data.ctypes.data % ALIGNMENT:
        return None
    plain = sig_of(Aval(dtype, data.shape), device)
    sig = _lent.get(plain) or _lent.setdefault(plain, Lent(plain))
    sig.hold(data.ctypes.data, data)
    return DeviceArray(sig, data.ctypes.data)


hooks.from_host = from_host
