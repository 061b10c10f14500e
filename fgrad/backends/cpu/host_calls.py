"""Python functions called from inside a running program.

Generated code calls ``i64 host(i64 handle, i64 index, ptr args)``: `handle` names a call in flight,
`index` the function, `args` points to the addresses of inputs, then outputs. The callback wraps
them as NumPy arrays, calls the user's function and copies its results. It never lets an exception
through: it keeps it for whoever waits, says so in the control block, and returns 1, on which the
program leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from fgrad.backends.cpu.abi import Ctl, Error, Runtime
from fgrad.backends.cpu.native import native
from fgrad.hw.libc import ffi, words
from fgrad.hw.window import window
from fgrad.uop.aval import Aval
from fgrad.uop.program import Host

HostCall = tuple[Host, tuple[Aval, ...]]

# Plain dicts without a lock: each operation on them is atomic, and `close_handle` may run in the
# garbage collector, where a lock might be held by the very thread that it interrupted.
_numbers = count(1)
_calls: dict[int, tuple[Sequence[HostCall], int]] = {}
_exceptions: dict[int, BaseException] = {}
_installed: list[Any] = []
_inside: set[int] = set()  # identities of the threads that are in a Python function


def open_handle(calls: Sequence[HostCall], control: int) -> int:
    """Return a number by which a table names its host calls; 0 when it has none.

    control  address of the table's control block
    """
    if not calls:
        return 0
    if not _installed:  # a second one, made by another thread, does no harm
        callback = ffi.callback("int64_t(int64_t, int64_t, intptr_t)", _call, error=1, onerror=_note_interrupt)
        _installed.append(callback)
        words(native().table)[Runtime.HOST] = int(ffi.cast("intptr_t", callback))
    handle = next(_numbers)
    _calls[handle] = calls, control
    return handle


def close_handle(handle: int, tables: Sequence[dict[int, Any]] = (_calls, _exceptions)) -> None:
    """Forget a handle that no program uses any more.

    tables  bound here, since globals are gone when the interpreter takes modules apart
    """
    for table in tables:
        table.pop(handle, None)


def _call(handle: int, index: int, args: int) -> int:
    calls, control = _calls[handle]
    block = ffi.cast("int32_t*", control)
    thread = threading.get_ident()
    is_outer = thread not in _inside  # a function may run another program in this thread
    _inside.add(thread)
    try:
        run_host_call(calls[index], words(args), lambda: bool(block[Ctl.CANCEL // 4]))
    except BaseException as e:  # it must not cross native code; whoever waits raises it
        _note(handle, control, e)
        return 1
    finally:
        if is_outer:
            _inside.discard(thread)
    return int(block[Ctl.CANCEL // 4] != 0)


def _note(handle: int, control: int, error: BaseException) -> None:
    """Keep what stopped a program, and say so in its control block."""
    _exceptions[handle] = error
    ffi.cast("int32_t*", control)[Ctl.ERROR // 4] = int(Error.CALLBACK)


def _note_interrupt(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Ctrl-C may come anywhere in `_call`, also where it catches nothing; then the program leaves as well."""
    frame = trace.tb_frame
    while frame.f_code is not _call.__code__:  # raised by what watches the function: a debugger, a profile
        frame = frame.f_back
    handle = frame.f_locals["handle"]
    _note(handle, _calls[handle][1], error)


def is_inside(thread: int) -> bool:
    """Whether that thread is in a Python function: a program that was cancelled then writes nothing
    more, however long the function takes.
    """
    return thread in _inside


def _never() -> bool:
    return False


def run_host_call(
    call: HostCall, addresses: Any, is_cancelled: Callable[[], bool] = _never
) -> None:
    """Call the function on copies of the arrays at `addresses` and write its results there.

    addresses     of inputs, then outputs. The first of both of an ordered call is its token, which
                  the function does not see
    is_cancelled  asked before the call and after it; then nothing is called or written
    """
    if is_cancelled():
        return
    spec, in_avals = call
    n = len(in_avals)
    inputs = [np.array(window(int(addresses[i]), a.dtype, a.shape)) for i, a in enumerate(in_avals)]
    token = inputs[: int(spec.ordered)]
    results = spec.callback(*inputs[len(token) :])
    if is_cancelled():
        return
    if not isinstance(results, list | tuple):
        results = (results,)
    declared = len(spec.out_avals) - len(token)
    if len(results) != declared:
        raise ValueError(
            f"the callback {spec.name!r} declared {declared} results and returned {len(results)}"
        )
    for i, (value, aval) in enumerate(zip([*token, *results], spec.out_avals, strict=True)):
        array = np.asarray(value)
        if array.shape != aval.shape:
            raise ValueError(
                f"result {i - len(token)} of the callback {spec.name!r} has shape {array.shape}, "
                f"declared was {aval}"
            )
        target = window(int(addresses[n + i]), aval.dtype, aval.shape, writable=True)
        try:
            target[...] = array.astype(aval.dtype.np)
        except (TypeError, ValueError):
            raise ValueError(
                f"result {i - len(token)} of the callback {spec.name!r} has dtype {array.dtype}, declared was {aval}"
            ) from None


def take_exception(handle: int) -> BaseException | None:
    """Return the exception that stopped a program, handed over once."""
    return _exceptions.pop(handle, None)
