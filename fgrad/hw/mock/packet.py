"""The packets of the mock's rings: words of eight bytes, a header first.

    header   bits 0-7 the `Opcode`, bits 8-31 the words that follow it; all others must be 0

    NOP       any words, skipped
    EXEC      code, arguments..     runs the program with that number
    COPY      target, source, bytes   at most `MAX_COPY` of them
    WAIT      address, value        until the word there is at least value
    SIGNAL    address, value        once all packets before are finished
    STAMP     address               the clock, nanoseconds
    BARRIER                         later packets see what others have written
    WRITE32   address, value
    WRITE64   address, value
    POLL      address, expected, mask
    INDIRECT  address, words        runs packets that stand elsewhere
    COMPLETE  tick                  the processor's own completion word; its submission is finished
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from fgrad.errors import DeviceError
from fgrad.hw.command import Struct, Sym

WORD = 8
MAX_COPY = 1 << 20
Word = int | Sym | Struct


class Opcode(IntEnum):
    """What a packet does."""

    NOP = 0x10
    EXEC = 0x21
    COPY = 0x22
    WAIT = 0x31
    SIGNAL = 0x32
    STAMP = 0x33
    BARRIER = 0x34
    WRITE32 = 0x41
    WRITE64 = 0x42
    POLL = 0x43
    INDIRECT = 0x51
    COMPLETE = 0x52


# the words after the header: as many, or at least as many
EXACT = {
    Opcode.COPY: 3, Opcode.WAIT: 2, Opcode.SIGNAL: 2, Opcode.STAMP: 1, Opcode.BARRIER: 0, Opcode.WRITE32: 2,
    Opcode.WRITE64: 2, Opcode.POLL: 3, Opcode.INDIRECT: 2, Opcode.COMPLETE: 1,
}  # fmt: skip
AT_LEAST = {Opcode.NOP: 0, Opcode.EXEC: 1}


def packet(opcode: Opcode, *body: Word) -> list[Word]:
    """The words of a packet."""
    wanted = EXACT.get(opcode)
    assert len(body) == wanted if wanted is not None else len(body) >= AT_LEAST[opcode], opcode
    return [opcode | len(body) << 8, *body]


def parse_header(header: int, where: str) -> tuple[Opcode, int]:
    """-> (opcode, how many words follow). Raises DeviceError for a packet that is none."""
    try:
        opcode = Opcode(header & 0xFF)
    except ValueError:
        raise DeviceError(f"{where}: there is no packet with the header {header:#x}") from None
    count = header >> 8
    if count >> 24:
        raise DeviceError(f"{where}: reserved bits are set in the header {header:#x} of {opcode.name}")
    wanted = EXACT.get(opcode)
    if count != wanted if wanted is not None else count < AT_LEAST[opcode]:
        raise DeviceError(f"{where}: {opcode.name} has {count} words after its header, not {wanted or 'enough'}")
    return opcode, count


def listing(words: Sequence[int]) -> str:
    """The packets, one line each. Raises DeviceError where they are broken."""
    lines, at = [], 0
    while at < len(words):
        opcode, count = parse_header(words[at], f"word {at}")
        body = " ".join(hex(word) for word in words[at + 1 : at + 1 + count])
        lines.append(f"{at:4d}  {opcode.name:8} {body}".rstrip())
        at += 1 + count
    return "\n".join(lines)
