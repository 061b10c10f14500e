"""Device: what `run` needs of a machine, and the registry of machines by name."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fgrad.config import config
from fgrad.errors import DeviceMissingError
from fgrad.hw.pool import Pool
from fgrad.uop.program import Program


class Executable(Protocol):
    """A compiled program. `call(words)` runs it: words are the table entries from the first parameter on
    (addresses, or the bits of inline scalars), then the addresses of the outputs."""

    inline: bool  # runs in the caller's thread when its device is idle

    def call(self, words: list[int]) -> None:
        """Run, or queue, the program. Buffers must stay alive until the device is idle again."""

    def text(self, stage: str) -> str:
        """The program at `stage`: kernels, llvm, asm or commands."""


class Device(Protocol):
    """One machine: memory, a compiler, a timeline."""

    name: str
    pool: Pool

    def compile(self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str) -> Executable:
        """Lower and compile. `inline` are the parameters whose word holds their bits; `donated` may be overwritten."""

    def sync(self) -> None:
        """Wait until everything submitted is done; raises what went wrong."""


_makers: dict[str, Callable[[int], Any]] = {}
_open: dict[str, Any] = {}


def register_device(kind: str, make: Callable[[int], Any]) -> None:
    """Enter a kind of device: `make(index)` opens one."""
    _makers[kind] = make


def get_device(name: str | None = None) -> Any:
    """The device called `name` (`cpu`, `cpu:1`, `python`, `null`), opened at first use; the default one for None."""
    name = (name or config.device).lower()
    device = _open.get(name)
    if device is None:
        kind, _, index = name.partition(":")
        if kind not in _makers:
            raise DeviceMissingError(f"there is no device {name!r}; known kinds: {', '.join(sorted(_makers))}")
        device = _open[name] = _makers[kind](int(index or 0))
    return device


def kinds() -> list[str]:
    """The kinds of device that are registered."""
    return sorted(_makers)
