"""Time stamps around the programs of a CPU device, while it is profiled."""

from __future__ import annotations

from fgrad.backends.cpu.abi import CTL_BYTES
from fgrad.backends.cpu.commands import encode_command
from fgrad.hw.command import Block, Role, Sym, Timestamp
from fgrad.hw.libc import words
from fgrad.hw.link import link
from fgrad.hw.pool import Lease, Pool

_WORDS_BYTES = 16  # start and end


class Stamps:
    """Two TIMESTAMP commands for the queue, and the words that they write.

    commands  (entry, table) of the start's and of the end's
    """

    __slots__ = ("commands", "_address", "_lease")

    def __init__(self, device: str, pool: Pool) -> None:
        self._lease = Lease(pool)
        self._address = self._lease.take(_WORDS_BYTES)
        self.commands: list[tuple[int, int]] = []
        target = Block(device, Sym(Role.INPUT), _WORDS_BYTES)
        for offset in (0, 8):
            found = encode_command(Timestamp(target.span(offset, 8)), {})
            assert found is not None, "TIMESTAMP is a command of its own"
            entry, encoded = found
            linked = link(encoded)
            instance = linked.instance(self._lease.take(len(linked.data)))
            instance.fill([self._address])
            self.commands.append((entry, instance.address + CTL_BYTES))

    def read(self) -> tuple[int, int]:
        """Start and end, once both commands are finished."""
        stamps = words(self._address)
        return int(stamps[0]), int(stamps[1])
