"""DLPack, both ways: capsules of concrete arrays, and arrays of other libraries' capsules.

NumPy makes and reads the capsules. Dtypes it does not know (bfloat16, float8) go through as integers of their width;
the type is then rewritten in the capsule, whose layout is that of dlpack.h, version 1.0.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, describe, note_user_line
from fgrad.run.array import DeviceArray, from_host, lent, writable_view
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType

CPU = (1, 0)  # kDLCPU, number 0

# DLDataTypeCode of the dtypes that NumPy has not: 4 since 0.4, the float8 kinds since 1.1
CODES = {
    dt.bfloat16: 4, dt.float8_e3m4: 7, dt.float8_e4m3: 8, dt.float8_e4m3b11fnuz: 9, dt.float8_e4m3fn: 10,
    dt.float8_e4m3fnuz: 11, dt.float8_e5m2: 12, dt.float8_e5m2fnuz: 13,
}  # fmt: skip
UINT = 1
TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}  # bytes from the start of the struct to code, bits, lanes

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _type_bytes(capsule: Any) -> Any:
    """The bytes (code, bits) of a capsule's element type, writable."""
    name = _name(capsule)
    return (ctypes.c_uint8 * 2).from_address(_pointer(capsule, name) + TYPE_AT[name])


def export(
    x: DeviceArray, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None, copy: bool | None
) -> Any:
    """A capsule of the elements of x on the host.

    They are shared read-only with readers of version 1.0; older ones cannot be told that, and get a copy unless they
    say copy=False. A shared buffer is not reused while anybody holds it, even if x is donated.
    """
    if dl_device is not None and tuple(dl_device) != CPU:
        raise BufferError(f"elements are in host memory (device {CPU}), not on DLPack device {tuple(dl_device)}")
    versioned = max_version is not None and tuple(max_version) >= (1, 0)
    if copy or copy is None and not versioned:
        data = np.array(x.concrete())
    else:
        data = np.asarray(x) if versioned else _without_flag(x)
    own = x.aval.dtype
    if own not in CODES:
        return data.__dlpack__(max_version=max_version)
    capsule = data.view(f"u{own.itemsize}").__dlpack__(max_version=max_version)
    _type_bytes(capsule)[:] = [CODES[own], own.bits]
    return capsule


def _without_flag(x: DeviceArray) -> Any:
    """The elements under a view that NumPy takes for writable."""
    x.__array__()  # marks the buffer as held by others
    return writable_view(x)


class _Given:
    """An object with one capsule, which is handed over."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


def _capsule(x: Any, copy: bool | None) -> Any:
    if not hasattr(x, "__dlpack_device__"):
        raise note_user_line(
            ArgumentError(f"from_dlpack takes an array that exports itself (__dlpack__), got {describe(x)}")
        )
    kind = int(x.__dlpack_device__()[0])
    if kind != CPU[0]:
        raise note_user_line(BufferError(f"{type(x).__name__} is not in host memory (DLPack device type {kind})"))
    try:
        return x.__dlpack__(max_version=(1, 0), copy=copy)
    except TypeError:  # a producer older than version 1.0
        return x.__dlpack__()


def view_of(x: Any, copy: bool | None = None) -> tuple[Any, DType]:
    """-> (NumPy view of what `x` exports, dtype); raises DtypeError for elements fgrad does not have."""
    capsule = _capsule(x, copy)
    name = _name(capsule)
    if name not in TYPE_AT:
        raise note_user_line(BufferError(f"{type(x).__name__} gave a capsule named {name!r}, which was used already"))
    code, bits = _type_bytes(capsule)
    own = next((d for d, c in CODES.items() if (c, d.bits) == (code, bits)), None)
    if own is not None:
        _type_bytes(capsule)[0] = UINT
    try:
        view = np.from_dlpack(_Given(capsule))
    except (BufferError, RuntimeError) as e:
        raise note_user_line(
            DtypeError(f"elements of DLPack type (code {code}, {bits} bits) have no dtype: {e}")
        ) from e
    return (view, dt.to_dtype(view.dtype)) if own is None else (view.view(own.np), own)


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> DeviceArray:
    """An array of an object that speaks DLPack (NumPy, PyTorch, JAX ..).

    copy   None shares the memory where it is row-major and aligned to 64 bytes, else copies; True always copies;
           False raises BufferError where it cannot share. Shared memory must not be written while the array lives

    >>> from_dlpack(np.arange(3.0))
    Array([0., 1., 2.], dtype=float64)
    """
    if isinstance(x, DeviceArray) and not copy and device in (None, x.device):
        return x
    view, dtype = view_of(x)
    shared = None if copy else lent(view, dtype, device)
    if shared is None and copy is False:
        raise note_user_line(
            BufferError(f"elements of shape {view.shape} cannot be shared: they must be row-major and 64-byte aligned")
        )
    return from_host(view, dtype, device=device) if shared is None else shared


__all__ = ["export", "from_dlpack", "view_of"]
