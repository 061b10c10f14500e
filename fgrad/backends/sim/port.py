"""A queue of the SIM device: commands become packets, and a submission a reference in a ring."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fgrad.errors import DeviceError, DeviceLostError
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
    Sym,
    Timestamp,
    Wait,
    Write,
    show,
)
from fgrad.hw.device import get_device
from fgrad.hw.flight import Flight, InFlight
from fgrad.hw.libc import words
from fgrad.hw.link import encode_words
from fgrad.hw.mock.machine import Machine
from fgrad.hw.mock.packet import MAX_COPY, Opcode, Word, packet
from fgrad.hw.mock.processor import Processor
from fgrad.hw.plan import Lane
from fgrad.hw.pool import Pool
from fgrad.hw.submit import Port, Record
from fgrad.hw.timeline import STALL_MS, wait

SUBMISSION_WORDS = 5  # INDIRECT and COMPLETE
_PADDING = 4  # words that the end of the ring may cost, twice
_IDLE_SECONDS = 0.0005


class SimTimeline:
    """The completion word of a processor as a timeline, and as the clock of memory.

    Nobody but who waits steps the machine.
    """

    def __init__(self, processor: Processor) -> None:
        self.name = processor.name
        self.processor = processor
        self.machine = processor.machine
        self.in_flight = InFlight(self)
        self.stall = STALL_MS
        self._seen = 0

    def issued(self) -> int:
        return self.processor.issued

    def completed(self) -> int:
        now = self.processor.completed()
        if now > self._seen:  # no lock: it may be asked from within a garbage collection
            self._seen = now
            self.machine.seen(self.processor, now)
        return now

    def nap(self, tick: int, limit_ms: float) -> None:
        """Step the machine. Raises DeviceLostError where the tick cannot be reached any more."""
        until = time.monotonic() + limit_ms / 1000
        while self.completed() < tick:
            self.refuse()
            if not self.machine.step():
                self._refuse_for_others()
                time.sleep(_IDLE_SECONDS)  # only the host, or another thread, can change something
            if time.monotonic() > until:
                return

    def refuse(self) -> None:
        """Raise if the processor has stopped, or is inside the program that waits for it."""
        processor = self.processor
        if processor.error is not None:
            raise DeviceLostError(
                f"{self.name} is lost, at {processor.completed()} of {processor.issued}: {processor.error}"
            ) from processor.error
        if processor.is_busy and processor.thread == threading.get_ident():
            raise DeviceError(
                f"a callback waits for work of {self.name} queued behind the program that called it; "
                "return the value from the callback and use it after the program"
            )

    def _refuse_for_others(self) -> None:
        seen: set[str] = set()
        other = self.processor.waits_for
        while other is not None and other.name not in seen:
            seen.add(other.name)
            if other.error is not None:
                raise DeviceLostError(f"{self.name} waits for {other.name}, which is lost: {other.error}")
            if other.is_busy and other.thread == threading.get_ident():
                raise DeviceError(
                    f"a callback on {other.name} waits for {self.name}, which waits for {other.name}: "
                    "neither would ever go on; return the value from the callback and use it after the program"
                )
            other = other.waits_for

    def progress(self) -> object:
        if any(p.is_busy for p in self.machine.processors):
            return object()  # another thread runs a program; nobody knows for how long it will
        return self.machine.progress

    def stall_ms(self) -> float:
        return self.stall

    def error(self, tick: int) -> Exception | None:
        with self.machine.lock:
            self.in_flight.retire()
            return self.in_flight.error(tick)

    def mark_seen(self, tick: int) -> None:
        with self.machine.lock:
            self.in_flight.mark_seen(tick)

    def give_up(self, tick: int) -> str:
        """The processor is lost; tell what each one waits for."""
        lines = [
            f"{p.name} waits for {p.blocked}" if p.blocked
            else f"{p.name} was rung up to word {p.doorbell} of {p.written}"
            for p in self.machine.processors
            if p.blocked or p.doorbell < p.written
        ]  # fmt: skip
        cause = "; ".join(lines) or "nothing is left to do"
        with self.machine.lock:
            self.processor.error = DeviceError(f"it hung: {cause}")
        return cause

    def reaches(self, tick: int) -> bool:
        """Wait for `tick`; False where that could be a program's own."""
        if self.completed() >= tick:
            return True
        if any(p.is_busy for p in self.machine.processors):
            return False
        wait(self, tick)
        return True


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program that EXEC can name. Whoever may still run it holds `keep`."""

    code: int
    keep: object = None


class SimPort:
    """One queue.

    programs  what EXEC can name
    """

    def __init__(self, processor: Processor, pool: Pool, copies_only: bool) -> None:
        self.processor = processor
        self.timeline = SimTimeline(processor)
        self.in_flight = self.timeline.in_flight
        self.pool = pool
        self.address = processor.completion
        self.copies_only = copies_only
        self.programs: dict[str, Loaded] = {}

    def encode(self, command: Command) -> Record | None:
        keep: object = None
        match command:
            case Signal():
                return None  # the completion of what comes before it
            case Exec():
                loaded = self.programs.get(command.program)
                if loaded is None:
                    raise DeviceError(f"there is no program {command.program!r} on {self.timeline.name}")
                keep = loaded.keep
                body = packet(Opcode.EXEC, loaded.code, *map(_word, command.arguments))
            case Copy():
                body = [word for piece in _pieces(command) for word in packet(Opcode.COPY, *piece)]
            case Wait():
                body = packet(Opcode.WAIT, Sym(Role.QUEUE, command.lane), command.tick)
            case Timestamp():
                body = packet(Opcode.STAMP, _word(command.target))
            case Barrier():
                body = packet(Opcode.BARRIER)
            case Write():
                opcode = Opcode.WRITE64 if command.bits == 64 else Opcode.WRITE32
                body = packet(opcode, _word(command.target), command.value)
            case Poll():
                body = packet(Opcode.POLL, _word(command.source), command.expected, command.mask)
            case _:
                raise DeviceError(f"a queue of the SIM device cannot do {show(command)}")
        if self.copies_only and isinstance(command, Exec | Barrier):
            raise DeviceError(f"{self.timeline.name} copies, and cannot do {show(command)}; use the compute queue")
        name = command.program if isinstance(command, Exec) else type(command).__name__.lower()
        return Record(len(body), encode_words(body, name), name, partial(self._error, keep))

    def _error(self, keep: object, flight: Flight) -> Exception | None:
        return self.processor.failures.pop(flight.tick, None)

    def has_room(self, count: int) -> bool:
        needed = SUBMISSION_WORDS * count + 2 * _PADDING
        if needed > self.processor.size:
            raise DeviceError(
                f"{count} commands at once are more than the ring of {self.timeline.name} holds "
                f"({self.processor.size} words)"
            )
        return self.processor.room() >= needed

    def make_room(self, count: int) -> None:
        while not self.has_room(count):
            wait(self.timeline, self.timeline.completed() + 1)


def _pieces(command: Copy) -> list[tuple[Word, Word, int]]:
    """Target, source and bytes of packets that each copy as much as one can."""
    found: list[tuple[Word, Word, int]] = []
    for at in range(0, command.target.length, MAX_COPY):
        nbytes = min(MAX_COPY, command.target.length - at)
        (to, of) = [s.block.span(s.offset + at, nbytes).address for s in (command.target, command.source)]
        found.append((to, of, nbytes))
    return found


def _word(operand: Operand) -> Word:
    return operand.address if isinstance(operand, Span) else operand


class _SimDevice(Protocol):
    ports: dict[str, SimPort]


class SimMachines:
    """All SIM devices: their processors share one machine."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.lock: AbstractContextManager[object] = self.machine.lock

    def port(self, lane: Lane) -> Port:
        kind = lane.device.partition(":")[0]
        device: _SimDevice | None = get_device(lane.device) if kind == "sim" else None
        port = device.ports.get(lane.queue) if device else None
        if port is None:
            raise DeviceError(f"SIM devices have no queue {lane}; each has 'compute', 'copy' and 'copy1'")
        return port

    def push(self, records: int, count: int) -> int:
        """Submit; a record is (completion word of the queue, words of packets, their address)."""
        rows, rung = words(records), {}
        for i in range(count):
            processor = self.machine.by_completion[int(rows[3 * i])]
            processor.submit(int(rows[3 * i + 2]), int(rows[3 * i + 1]))
            rung[processor.name] = processor
        for processor in rung.values():
            self.machine.ring(processor)
        return count


machines = SimMachines()
