"""What devices that keep bytes and run nothing have in common."""

from __future__ import annotations

from typing import Any, NoReturn

from fgrad.errors import DeviceError
from fgrad.uop.program import Program


class NoPool:
    """The memory of a device that gives none out."""

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self._instead = instead

    def free_list(self, nbytes: int) -> NoReturn:
        """Raise DeviceError: arrays are not made here."""
        raise DeviceError(f"arrays are not made on {self.name}; {self._instead}")


class StoringDevice:
    """A device without a processor: work on it is done when a call returns.

    instead  what a user does who wants an array there
    """

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.pool: Any = NoPool(name, instead)

    def compile(self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str) -> NoReturn:
        """Raise DeviceError: nothing runs here."""
        raise DeviceError(f"{self.name} runs no programs, so not {name}; move the arrays with device_put(x, 'cpu')")

    def check_readable(self) -> None:
        """Raise where results cannot be read back: never, here."""

    def sync(self) -> None:
        """Everything is done when a call returns."""
