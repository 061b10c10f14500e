"""The CPU's commands: the entry and the words that its queue runs for each.

WAIT waits for a ticket of another queue, which is completed also when its program failed or was
cancelled: so nobody waits for ever. SIGNAL and BARRIER need nothing: the completion of the command
before is the signal, and all threads see one memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fgrad.backends.cpu.abi import CTL_BYTES, Slot
from fgrad.backends.cpu.code import Code, load_code
from fgrad.backends.cpu.command_ir import command_ir
from fgrad.backends.cpu.irtext import HAS_FUTEX
from fgrad.backends.cpu.native import native
from fgrad.errors import DeviceError
from fgrad.hw.command import (
    Barrier,
    Command,
    Copy,
    Exec,
    Operand,
    Poll,
    Role,
    Signal,
    Span,
    Struct,
    Sym,
    Timestamp,
    Wait,
    Write,
    show,
)
from fgrad.hw.link import Encoded, encode_words

FIRST_ARGUMENT = CTL_BYTES + 8 * Slot.ARGUMENTS  # byte of a table's words


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program that EXEC can name: `keep` holds what its entry needs."""

    entry: int
    arena_bytes: int = 0
    scratch_bytes: int = 0
    keep: object = None


def encode_table(name: str, arguments: tuple[int | Sym | Struct, ...], own: bool = False) -> Encoded:
    """The words of an entry: its control block (where CONTROL is), then its table.

    own  whether it has an arena, scratch memory and a handle for calls of Python
    """
    table: list[int | Sym] = [0] * Slot.ARGUMENTS
    table[Slot.CTL] = Sym(Role.CONTROL)
    table[Slot.RUNTIME] = native().table
    if own:
        table[Slot.SCRATCH] = Sym(Role.SCRATCH)
        table[Slot.ARENA] = Sym(Role.ARENA)
        table[Slot.HOST] = Sym(Role.HANDLE)
    return encode_words([*[0] * (CTL_BYTES // 8), *table, *arguments], name)


def encode_command(command: Command, programs: Mapping[str, Loaded]) -> tuple[int, Encoded] | None:
    """-> (address of the entry, its words), or None where nothing has to be done.

    Raises DeviceError for a program that is not known and for what a queue cannot do.
    """
    entries = command_entries()
    operands: list[Operand]
    match command:
        case Signal() | Barrier():
            return None
        case Exec():
            loaded = programs.get(command.program)
            if loaded is None:
                raise DeviceError(f"there is no program {command.program!r} on this device")
            arguments = tuple([_word(x) for x in command.arguments])
            return loaded.entry, encode_table(command.program, arguments, own=True)
        case Copy():
            name, operands = "copy", [command.target, command.source, command.target.length]
        case Wait():
            waiting = native().addresses["await"]
            name, operands = "wait", [Sym(Role.QUEUE, command.lane), command.tick, waiting]
        case Timestamp():
            name, operands = "timestamp", [command.target]
        case Write():
            name, operands = f"write{command.bits}", [command.target, command.value]
        case Poll():
            name, operands = "poll", [command.source, command.expected, command.mask]
        case _:
            raise DeviceError(f"a queue of the CPU cannot do {show(command)}")
    return entries[f"{name}_command"], encode_table(name, tuple([_word(x) for x in operands]))


def _word(operand: Operand) -> int | Sym | Struct:
    return operand.address if isinstance(operand, Span) else operand


_code: list[Code] = []


def command_entries() -> Mapping[str, int]:
    """Addresses of the entries of commands and of `submit_all`, by name."""
    if not _code:
        _code.append(load_code(command_ir(HAS_FUTEX), level=2))
    return _code[0].addresses
