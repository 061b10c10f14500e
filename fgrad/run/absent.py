"""Names that code written for other systems asks for and that mean nothing here: what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

INSTEAD = {
    "live_arrays": "fgrad.debug.memory() reports what is held",
    "make_mesh": "fgrad runs in one process, each program on one device; use vmap for many examples",
    "pmap": "fgrad runs in one process, each program on one device; use vmap, also for the collectives",
    "set_mesh": "fgrad runs in one process, each program on one device; arrays have no sharding",
    "shard_map": "fgrad runs in one process, each program on one device; use vmap, also for the collectives",
    "transfer_guard": "arrays are moved by device_put and device_get, and by what reads their elements, only",
    "transfer_guard_device_to_host": "reading elements, device_get and callbacks are what moves them to the host",
    "transfer_guard_host_to_device": "device_put, and NumPy arguments of functions, are what moves them to the device",
}


def absent(name: str) -> Callable[..., Any] | None:
    """A function that raises NotImplementedError saying what to use instead of `fgrad.<name>`; None for other names."""
    if name not in INSTEAD:
        return None

    def refused(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"there is no fgrad.{name}: {INSTEAD[name]}")

    refused.__name__ = name
    return refused
