"""Device: what `run` needs of a machine, and the registry of machines by name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from fgrad.config import config
from fgrad.errors import DeviceMissingError
from fgrad.hw.pool import Pool
from fgrad.uop.program import Program


class Executable(Protocol):
    """A compiled program.

    inline_params  parameters whose word holds their bits; the others are addresses
    aliases        output -> donated parameter in whose memory it is left
    short          generated code may call `native` in the caller's thread while `idle_test` holds; without these
                   two it is False
    flops, bytes, kernel_count, arena_bytes
                   operations, bytes that are read and written, kernels, and bytes of intermediates of one call, for
                   `cost_analysis` and `memory_analysis`
    """

    inline_params: frozenset[int]
    aliases: dict[int, int]
    short: bool
    flops: int
    bytes: int
    kernel_count: int
    arena_bytes: int

    def call(self, argument_words: list[int]) -> None:
        """Run, or queue, the program.

        argument_words  those of the parameters (addresses, or the bits of inline scalars), then the
                        addresses of the outputs

        The buffers may be freed into the device's pool at once: their next user is behind the call.
        """

    def text(self, stage: str) -> str:
        """The program at `stage`: kernels, llvm, asm or commands."""


class Device(Protocol):
    """One machine: memory, a compiler, a timeline.

    wants_whole_arguments  whether the memory of a parameter must be as large as its shape says, also where a program
                           reads less of it
    """

    name: str
    pool: Pool
    wants_whole_arguments: bool

    def compile(self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str) -> Executable:
        """Lower and compile.

        inline   parameters whose word will hold their bits
        donated  parameters whose memory may be overwritten
        """

    def sync(self) -> None:
        """Wait until everything submitted is done; raises what went wrong since the last time."""

    def check_readable(self) -> None:
        """Raise DeviceError where results cannot be read back."""


_makers: dict[str, Callable[[int], Any]] = {}
_open: dict[str, Any] = {}
_lock = threading.Lock()  # two threads must not open one device twice


def register_device(kind: str, make: Callable[[int], Any]) -> None:
    """Enter a kind of device: `make(index)` opens one or raises DeviceMissingError."""
    _makers[kind] = make


def get_device(name: str | None = None) -> Any:
    """The device called `name` (`cpu`, `cpu:1`, `python`), opened at first use.

    None stands for the default device. Raises DeviceMissingError.
    """
    name = (name or config.device).lower()
    device = _open.get(name)
    return _open_device(name) if device is None else device


def _open_device(name: str) -> Any:
    kind, _, index = name.partition(":")
    if kind not in _makers:
        known = ", ".join(sorted(_makers))
        raise DeviceMissingError(f"there is no device {name!r}; known kinds: {known}")
    if index and not index.isdecimal():
        raise DeviceMissingError(f"there is no device {name!r}; write the index as a number, {kind}:1")
    number = int(index or 0)
    proper = f"{kind}:{number}" if number else kind
    with _lock:
        if proper not in _open:
            _open[proper] = _makers[kind](number)
        device = _open[name] = _open[proper]
    return device


def open_devices() -> tuple[Any, ...]:
    """The devices opened so far."""
    return tuple({id(device): device for device in _open.values()}.values())


def reset(name: str | None = None) -> None:
    """Make a device that was lost, or is stuck, usable again; None stands for the default device.

    What is unfinished on it is given up, and its fences fail. Devices that finish their work before
    a call returns stay as they are. Raises DeviceLostError where the device cannot be freed.
    """
    device = get_device(name)
    reset_device = getattr(device, "reset", None)
    if reset_device is not None:
        reset_device()


def kinds() -> list[str]:
    """The kinds of device that are registered."""
    return sorted(_makers)
