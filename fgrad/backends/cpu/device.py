"""The CPU as a device: programs lowered to LLVM IR, compiled in process, called through cffi.

A program runs in the caller's thread when nothing is queued before it, else behind what is queued: buffers are handed on in
order, without fences.
"""

from __future__ import annotations

import threading
from typing import Any

from fgrad.backends.cpu import workers
from fgrad.backends.cpu.abi import CTL_BYTES, Ctl, Slot
from fgrad.backends.cpu.code import Code, host_machine, load_code, upgrade
from fgrad.backends.cpu.host_calls import host_handle
from fgrad.backends.cpu.micro import provide_micro
from fgrad.backends.cpu.queue import Queue
from fgrad.config import config
from fgrad.errors import CallbackFailedError, CancelledError, DeviceError, OutOfBoundsError
from fgrad.hw.device import register_device
from fgrad.hw.libc import as_function, ffi, words
from fgrad.hw.pool import host_pool
from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import Lowered, lower
from fgrad.uop.program import Program
from fgrad.uop.simplify import simplify_program

QUEUED_WORK_NS = 1_000_000.0  # programs longer than this are queued, so that the caller goes on
UPGRADE_LEVEL = 2


class Table:
    """The words of one call in flight: its control block, scratch and arena are its own."""

    __slots__ = ("buffer", "address", "ctl", "blocks")

    def __init__(self, executable: CpuExecutable) -> None:
        lowered = executable.lowered
        count = Slot.ARGUMENTS + executable.arguments
        nbytes = CTL_BYTES + 8 * count
        scratch_bytes = (
            lowered.scratch_bytes * workers.lanes()
            if lowered.workers_wanted
            else lowered.scratch_bytes
        )
        self.blocks = [(host_pool.take(n), n) for n in (nbytes, scratch_bytes, lowered.arena_bytes)]
        base, scratch, arena = [address for address, _ in self.blocks]
        ffi.memmove(ffi.cast("char*", base), bytes(nbytes), nbytes)
        self.ctl = base
        self.address = base + CTL_BYTES
        table = words(self.address)
        table[Slot.CTL] = base
        table[Slot.RUNTIME] = executable.device.runtime
        table[Slot.SCRATCH] = scratch
        table[Slot.ARENA] = arena
        table[Slot.HOST] = executable.host
        self.buffer = ffi.buffer(
            ffi.cast("char*", self.address + 8 * Slot.ARGUMENTS), 8 * (count - Slot.ARGUMENTS)
        )

    def __del__(self) -> None:
        for address, nbytes in self.blocks:
            host_pool.give(address, nbytes)


class CpuExecutable:
    """A compiled program. `native(table address)` is the one native call."""

    def __init__(
        self, device: CpuDevice, lowered: Lowered, inline: frozenset[int], name: str, arguments: int
    ) -> None:
        self.device = device
        self.lowered = lowered
        self.name = name
        self.inline_params = inline
        self.arguments = arguments
        self.aliases = lowered.aliases
        self.flops, self.bytes = lowered.flops, lowered.bytes
        self.kernel_count = len(lowered.kernels)
        self.arena_bytes = lowered.arena_bytes
        self.host = host_handle(list(zip(lowered.hosts, lowered.host_avals, strict=True)))
        self.queued = lowered.unbounded or lowered.work > QUEUED_WORK_NS
        self.short = not self.queued and not lowered.hosts
        provide_micro(lowered.micro, device.limits)
        level = {"0": 0, "2": 2}.get(str(config.opt), 0)
        self.code: Code = load_code(lowered.ir, ["entry"], level)
        self.address = self.code.addresses["entry"]
        self.native: Any = as_function(self.address, "void(*)(intptr_t)")
        self.tables: list[tuple[Any, int, Table]] = []
        if self.code.level < UPGRADE_LEVEL and str(config.opt) == "auto":
            upgrade(self.code, self._swap)

    def _swap(self, addresses: dict[str, int]) -> None:
        """Take the better code from the next call on; the old code lives as long as this executable."""
        self.address = addresses["entry"]
        self.native = as_function(self.address, "void(*)(intptr_t)")

    def table(self) -> tuple[Any, int, Table]:
        """A free table, or a new one."""
        try:
            return self.tables.pop()
        except IndexError:
            table = Table(self)
            return table.buffer, table.address, table

    def idle_test(self, name: Any) -> str:
        """The condition, in generated code, under which the program may run inline."""
        ring = name("ring", self.device.queue.words)
        completed, tail = self.device.idle_words
        return f"{ring}[{completed}] == {ring}[{tail}]"

    def call(self, argument_words: list[int]) -> None:
        entry = self.table()
        buffer, address, table = entry
        target = words(address + 8 * Slot.ARGUMENTS)
        for i, word in enumerate(argument_words):
            target[i] = word if word < 1 << 63 else word - (1 << 64)
        if self.queued or not self.device.queue.is_idle():
            self.device.enqueue(self, entry)
            return
        self.native(address)
        if self.lowered.hosts or self.lowered.unbounded:
            self.device.check(self, table)
        self.tables.append(entry)

    def text(self, stage: str) -> str:
        """The program at `stage`."""
        if stage == "kernels":
            return self.lowered.as_text()
        if stage == "llvm":
            return self.lowered.ir
        if stage == "commands":
            return "\n".join(f"EXEC {k.name}" for k in self.lowered.kernels)
        from fgrad.backends.cpu.llvm import assembly

        return assembly(self.lowered.ir, UPGRADE_LEVEL)


class CpuDevice:
    """One ordered queue over the process's worker pool."""

    def __init__(self, index: int) -> None:
        self.name = f"cpu:{index}" if index else "cpu"
        self.pool = host_pool
        self.runtime = workers.start()
        self.queue = Queue()
        self.limits = machine_limits()
        self.in_flight: list[tuple[int, CpuExecutable, Any]] = []
        self.lock = threading.Lock()
        self.idle_words = self.queue.idle_words

    def compile(
        self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str
    ) -> CpuExecutable:
        lowered = lower(simplify_program(program), self.limits, inline=inline, donated=donated, name=name)
        return CpuExecutable(self, lowered, inline, name, len(program.params) + len(program.outs))

    def enqueue(self, executable: CpuExecutable, entry: Any) -> None:
        """Queue a filled table behind everything submitted."""
        with self.lock:
            self._collect()
            ticket = self.queue.submit(executable.address, entry[1])
            self.in_flight.append((ticket, executable, entry))

    def _collect(self) -> None:
        """Hand the tables of finished programs back; raises the first failure that nobody has seen."""
        completed = self.queue.completed()
        error: Exception | None = None
        while self.in_flight and self.in_flight[0][0] <= completed:
            ticket, executable, entry = self.in_flight.pop(0)
            failure = self.queue.failure(ticket)
            if failure is not None and error is None:
                error = failed(executable, failure.error, failure.where)
            executable.tables.append(entry)
        if error is not None:
            raise error

    def sync(self) -> None:
        """Wait until everything submitted is done; raises what went wrong."""
        if not self.in_flight:
            return
        with self.lock:
            if self.in_flight:
                last = self.in_flight[-1][0]
            else:
                return
        self.queue.wait(last)
        with self.lock:
            self._collect()

    def check(self, executable: CpuExecutable, table: Table) -> None:
        """Raise what an inline program reported in its control block."""
        control = ffi.cast("int32_t*", table.ctl)
        error = control[Ctl.ERROR // 4]
        if error:
            control[Ctl.ERROR // 4] = 0
            raise failed(executable, error, words(table.ctl)[Ctl.WHERE // 8])


def failed(executable: CpuExecutable, error: int, where: int) -> Exception:
    """The exception for an error code of a program."""
    from fgrad.backends.cpu.abi import Error
    from fgrad.backends.cpu.host_calls import take_exception

    if error == Error.CANCELLED:
        return CancelledError(f"{executable.name} was cancelled before it finished")
    if error == Error.CALLBACK:
        cause = take_exception(executable.host)
        problem = CallbackFailedError(
            f"a Python callback inside {executable.name} raised {cause!r}"
        )
        problem.__cause__ = cause
        return problem
    if error == Error.OUT_OF_BOUNDS:
        return OutOfBoundsError(f"{executable.name} read or wrote out of bounds ({where})")
    return DeviceError(f"{executable.name} failed with code {error} at {where}")


def machine_limits() -> Limits:
    """What lowering must know of this machine."""
    machine = host_machine()
    features = frozenset(machine.feature_names)
    vector = 64 if "avx512f" in features else 32 if "avx2" in features else 16
    return Limits(vector_bytes=vector, features=features, workers=workers.lanes())


register_device("cpu", CpuDevice)
