"""Python functions called from inside a running program.

Generated code calls `i64 host(i64 handle, i64 index, ptr args)`: `handle` names the program's list of host calls, `args` points to
the addresses of inputs, then outputs. The callback wraps them as NumPy arrays, calls the user's function and copies its results.
It never lets an exception through: it keeps it for the caller and returns non-zero, on which the program leaves.
"""
from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.backends.cpu.abi import Runtime
from fgrad.backends.cpu.native import native
from fgrad.hw.libc import ffi, words
from fgrad.hw.window import window
from fgrad.uop.aval import Aval
from fgrad.uop.program import Host

HostCall = tuple[Host, tuple[Aval, ...]]

_lock = threading.Lock()
_programs: dict[int, tuple[HostCall, ...]] = {}
_exceptions: dict[int, BaseException] = {}
_installed: list[Any] = []


def host_handle(calls: Sequence[HostCall]) -> int:
    """A number by which a program's table names its host calls; 0 when it has none."""
    if not calls:
        return 0
    with _lock:
        if not _installed:
            callback = ffi.callback("int64_t(int64_t, int64_t, intptr_t)", _call)
            _installed.append(callback)
            words(native().table)[Runtime.HOST] = int(ffi.cast("intptr_t", callback))
        handle = len(_programs) + 1
        _programs[handle] = tuple(calls)
    return handle


def _call(handle: int, index: int, args: int) -> int:
    try:
        run_host_call(_programs[handle][index], words(args))
    except BaseException as e:  # it must not cross native code; the waiting caller raises it
        _exceptions[handle] = e
        return 1
    return 0


def run_host_call(call: HostCall, addresses: Any) -> None:
    """Call the function on arrays at `addresses` (inputs, then outputs) and write its results there."""
    spec, in_avals = call
    n = len(in_avals)
    inputs = [np.array(window(int(addresses[i]), a.dtype, a.shape)) for i, a in enumerate(in_avals)]
    results = spec.callback(*inputs)
    if not isinstance(results, list | tuple):
        results = (results,)
    if len(results) != len(spec.out_avals):
        raise ValueError(f"the callback {spec.name!r} declared {len(spec.out_avals)} results and returned {len(results)}")
    for i, (value, aval) in enumerate(zip(results, spec.out_avals, strict=True)):
        array = np.asarray(value)
        if array.shape != aval.shape:
            raise ValueError(f"result {i} of the callback {spec.name!r} has shape {array.shape}, declared was {aval}")
        window(int(addresses[n + i]), aval.dtype, aval.shape, writable=True)[...] = array.astype(aval.dtype.np)


def take_exception(handle: int) -> BaseException | None:
    """The exception that stopped a program, handed over once."""
    return _exceptions.pop(handle, None)
