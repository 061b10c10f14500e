"""The machines that fgrad ships, by name.

A machine's module, and lowering with it, is imported when it is first opened.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from fgrad.hw.device import register_device

MACHINES = {
    "cpu": ("fgrad.backends.cpu.device", "CpuDevice"),
    "disk": ("fgrad.backends.disk.device", "DiskDevice"),
    "npy": ("fgrad.backends.npy.device", "NpyDevice"),
    "null": ("fgrad.backends.null.device", "NullDevice"),
    "python": ("fgrad.backends.python.device", "PythonDevice"),
    "reference": ("fgrad.backends.reference_device", "ReferenceDevice"),
    "sim": ("fgrad.backends.sim.device", "SimDevice"),
}


def _maker(module: str, name: str) -> Callable[[int], Any]:
    def make(index: int) -> Any:
        return getattr(import_module(module), name)(index)

    return make


for _kind, (_module, _name) in MACHINES.items():
    register_device(_kind, _maker(_module, _name))
