"""A compiled program of the CPU: one EXEC command whose words are the table of its entry."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from fgrad.backends.cpu import workers
from fgrad.backends.cpu.abi import CTL_BYTES, Ctl
from fgrad.backends.cpu.code import Code, load_code, upgrade
from fgrad.backends.cpu.commands import FIRST_ARGUMENT, encode_table
from fgrad.backends.cpu.failures import as_raised, explain
from fgrad.backends.cpu.host_calls import close_handle, open_handle, take_exception
from fgrad.backends.cpu.kept import Summary
from fgrad.backends.cpu.llvm import assembly
from fgrad.backends.cpu.micro import provide_micro
from fgrad.config import config
from fgrad.errors import DeviceError
from fgrad.hw.command import Exec, Role, Sym, listing
from fgrad.hw.flight import Flight
from fgrad.hw.libc import as_function, ffi, words
from fgrad.hw.link import Linked, link
from fgrad.hw.meter import Meter, Part, Reading
from fgrad.hw.pool import Lease, Pool
from fgrad.lower.driver import MARK_WORDS
from fgrad.lower.kernel import Kernel, Loop
from fgrad.uop.rewrite import is_shown

if TYPE_CHECKING:
    from fgrad.backends.cpu.device import CpuDevice

QUEUED_WORK_NS = 1_000_000.0  # programs longer than this are queued, so that the caller goes on
UPGRADE_LEVEL = 2


class Room:
    """The memory that a program works in, and that nobody looks at after it: scratch and arena."""

    __slots__ = ("scratch", "arena", "_lease")

    def __init__(self, lowered: Summary, pool: Pool) -> None:
        self._lease = Lease(pool)
        self.scratch = self._lease.take(lowered.scratch_bytes * (workers.lanes() if lowered.workers_wanted else 1))
        self.arena = self._lease.take(lowered.arena_bytes)


class Table:
    """The words of one call in flight, with a control block of its own, and the room that it works in."""

    __slots__ = ("buffer", "address", "control", "handle", "instance", "room", "_lease", "_close")

    def __init__(self, executable: CpuExecutable) -> None:
        self._close: Any = None
        linked = executable.linked
        self.room = executable.room()
        self._lease = lease = Lease(executable.device.pool)
        base = lease.take(len(linked.data))
        self.handle = open_handle(executable.host_calls, base)
        if self.handle:
            self._close = close_handle
        own = {
            Sym(Role.SCRATCH): self.room.scratch,
            Sym(Role.ARENA): self.room.arena,
            Sym(Role.HANDLE): self.handle,
        }
        self.instance = linked.instance(base, own)
        self.address = base + CTL_BYTES
        self.control = ffi.cast("int32_t*", base)
        arguments = ffi.cast("char*", base + FIRST_ARGUMENT)
        self.buffer = ffi.buffer(arguments, len(linked.data) - FIRST_ARGUMENT)

    def take_error(self, name: str) -> Exception | None:
        """What the program reported in the control block, which is clean afterwards."""
        control = self.control
        error, where = control[Ctl.ERROR // 4], words(self.address - CTL_BYTES)[Ctl.WHERE // 8]
        control[Ctl.CANCEL // 4] = control[Ctl.ERROR // 4] = 0
        if not error:
            return None
        return explain(name, error, where, lambda: take_exception(self.handle))

    def __del__(self) -> None:
        if self._close is not None:
            self._close(self.handle)


Entry = tuple[Any, int, Table]


class CpuExecutable:
    """A compiled program. `native(table address)` is the one native call.

    tables  (argument words, address, table) of calls that are not running; generated code pops one,
            and makes a call the general way where it finds none
    """

    def __init__(
        self,
        device: CpuDevice,
        lowered: Summary,
        inline: frozenset[int],
        name: str,
        params: int,
        outs: int,
    ) -> None:
        self.device = device
        self.lowered = lowered
        self.name = name
        self.inline_params = inline
        self.arguments = params + outs
        self.aliases = lowered.aliases
        self.flops, self.bytes = lowered.flops, lowered.bytes
        self.kernel_count = len(lowered.names)
        self.arena_bytes = lowered.arena_bytes
        self.host_calls = list(zip(lowered.hosts, lowered.host_avals, strict=True))
        self.queued = lowered.unbounded or lowered.work > QUEUED_WORK_NS
        # how long the program may take without counting as hung: nobody knows of a callback
        self.work_ms = float("inf") if lowered.hosts else lowered.work / 1e6
        self.can_report = bool(lowered.hosts)
        self.meter = Meter(name, [_part(k) for k in lowered.sites]) if lowered.sites else None
        # one after the other on the device's own thread; a callback may be left behind in its program's room
        self._shares_room = self.queued and not self.can_report and self.meter is None
        self._room: Room | None = None
        self.short = not self.queued and not self.can_report and self.meter is None
        arguments = (
            *[Sym(Role.INPUT, i) for i in range(params)],
            *[Sym(Role.OUTPUT, i) for i in range(outs)],
        )
        self.command = Exec(name, arguments)
        self.linked: Linked = link(encode_table(name, arguments, own=True))
        ir = lowered.ir
        if is_shown("backends/source", name):
            print(f"== backends/source of {name}\n{ir}", file=sys.stderr)
        provide_micro(lowered.micro, device.limits)
        # what is measured is the code that stays
        level = {"0": 0, "2": 2}.get(config.opt, UPGRADE_LEVEL if self.meter else 0)
        self.code: Code = load_code(ir, ["entry"], level)
        self.address = self.code.addresses["entry"]
        self.native: Any = as_function(self.address, "void(*)(intptr_t)")
        self.tables: list[Entry] = []
        self._hidden: list[Entry] = []  # takes their place while the device is profiled
        self._home = self.tables
        device.note(self)
        if is_shown("hw/commands", name):
            print(f"== hw/commands of {name}\n{self.text('commands')}", file=sys.stderr)
        if self.code.level < UPGRADE_LEVEL and config.opt == "auto":
            upgrade(self.code, self._swap)

    def _swap(self, addresses: dict[str, int]) -> None:
        """Take better code from the next call on; the old code lives as long as this executable."""
        self.address = addresses["entry"]
        self.native = as_function(self.address, "void(*)(intptr_t)")

    def room(self) -> Room:
        """Where one more call may work: calls that can never run at the same time share one."""
        if not self._shares_room:
            return Room(self.lowered, self.device.pool)
        if self._room is None:
            self._room = Room(self.lowered, self.device.pool)
        return self._room

    def _table(self) -> Entry:
        """A free table, or a new one."""
        try:
            return self._home.pop()
        except IndexError:
            table = Table(self)
            return table.buffer, table.address, table

    def idle_test(self, name: Any) -> str:
        """The condition, in generated code, under which the program may run inline."""
        ring = name("ring", self.device.queue.words)
        completed, tail = self.device.queue.idle_words
        return f"{ring}[{completed}] == {ring}[{tail}]"

    def call(self, argument_words: list[int]) -> None:
        """Run the program, or queue it if it is long or others are queued; see `Executable`."""
        if len(argument_words) != self.arguments:
            raise DeviceError(
                f"{self.name} takes {self.arguments} words for its parameters and outputs, got {len(argument_words)}"
            )
        device = self.device
        entry = self._table()
        table = entry[2]
        table.instance.fill_words(FIRST_ARGUMENT, argument_words)
        if self.meter is not None:
            self._measure(self.meter, entry)
            return
        if self.queued or not device.queue.is_idle():
            device.enqueue(self, entry)
            return
        profile = device.profile
        if profile is None:
            self.native(entry[1])
        else:
            start = time.monotonic_ns()
            self.native(entry[1])
            profile.note(self.name, start, time.monotonic_ns())
        error = table.take_error(self.name) if table.control[Ctl.ERROR // 4] else None
        self._home.append(entry)
        if error is not None:
            raise as_raised(error)

    def _measure(self, meter: Meter, entry: Entry) -> None:
        """Run in the caller's thread, behind all that is queued, and note how long each kernel took."""
        device, table = self.device, entry[2]
        device.sync()
        count = MARK_WORDS * len(meter.parts)
        marks = words(table.room.arena + self.lowered.marks)
        for i in range(count):
            marks[i] = 0
        start = time.monotonic_ns()
        self.native(entry[1])
        end = time.monotonic_ns()
        rows = [[int(marks[i + k]) for k in range(MARK_WORDS)] for i in range(0, count, MARK_WORDS)]
        readings = [Reading(*row) for row in rows]
        if device.profile is not None:
            device.profile.note(self.name, start, end, meter.parts, readings)
        error = table.take_error(self.name) if table.control[Ctl.ERROR // 4] else None
        self._home.append(entry)
        if error is not None:
            raise as_raised(error)
        text = meter.add(end - start, readings)
        if text:
            print(text, file=sys.stderr)

    def flight(self, entry: Entry) -> Flight:
        """The flight of a filled table."""
        table = entry[2]

        def error(flight: Flight) -> Exception | None:
            if self.device.queue.failure(flight.tick) is None:
                return None
            return table.take_error(self.name)

        return Flight(0, self.name, error, lambda: self._home.append(entry), self.work_ms)

    def hide_tables(self, are_hidden: bool) -> None:
        """Let generated code find no tables, so that every call comes here and is seen."""
        self._home = self._hidden if are_hidden else self.tables
        other = self.tables if are_hidden else self._hidden
        while other:
            self._home.append(other.pop())

    def text(self, stage: str) -> str:
        """The program at `stage`: kernels, llvm, asm or commands."""
        match stage:
            case "kernels":
                return self.lowered.lower().as_text()
            case "llvm":
                return self.lowered.ir
            case "asm":
                return assembly(self.lowered.ir, UPGRADE_LEVEL)
            case "commands":
                kernels = [f"       {name}" for name in self.lowered.names]
                return "\n".join([listing([self.command]), *kernels])
        raise ValueError(f"there is no stage {stage!r} on the CPU; choose kernels, llvm, asm or commands")


def _part(kernel: Kernel) -> Part:
    """What the table of kernels says of one."""
    sizes = {s.range: s.size for s in kernel.walk() if isinstance(s, Loop)}
    return Part(kernel.name, tuple(sizes.values()), kernel.flops, kernel.bytes, kernel.line)
