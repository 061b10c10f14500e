"""All machines that fgrad ships, imported so that they register themselves by name."""
from __future__ import annotations

from typing import NoReturn

from fgrad.backends import reference_device as reference_device
from fgrad.backends.null import device as null_device
from fgrad.backends.python import device as python_device
from fgrad.errors import DeviceMissingError
from fgrad.hw.device import register_device

try:
    from fgrad.backends.cpu import device as cpu_device
except DeviceMissingError as e:  # no POSIX system: the interpreting devices still work
    _reason = str(e)

    def _missing(index: int) -> NoReturn:
        raise DeviceMissingError(_reason)

    register_device("cpu", _missing)

__all__ = ["cpu_device", "null_device", "python_device", "reference_device"]
