"""A CPU's queue as launches and waits see it, and the group of all CPU devices."""

from __future__ import annotations

from typing import Any, Protocol

from fgrad.backends.cpu.abi import CTL_BYTES
from fgrad.backends.cpu.commands import Loaded, command_entries, encode_command
from fgrad.backends.cpu.failures import explain
from fgrad.backends.cpu.forks import fork_safe_lock
from fgrad.backends.cpu.native import native
from fgrad.backends.cpu.queue import Queue
from fgrad.errors import DeviceError
from fgrad.hw.command import Command, Exec, Role, Sym
from fgrad.hw.deadlock import WaitGraph
from fgrad.hw.device import get_device
from fgrad.hw.flight import Flight, InFlight
from fgrad.hw.libc import as_function
from fgrad.hw.link import bake
from fgrad.hw.plan import Lane
from fgrad.hw.pool import Pool
from fgrad.hw.submit import Port, Record
from fgrad.hw.timeline import STALL_MS

PATIENCE = 1000.0  # times its estimated length is what a program may take without progress
_GIVE_UP_SECONDS = 0.5

# Held while ticks are given out, so that a submission to several queues knows them beforehand. It
# is made before the locks of any queue, so those may be taken while it is held: see `forks`.
submission = fork_safe_lock()


class QueueTimeline:
    """The tickets of a queue as a timeline, and as the clock of the memory that it uses."""

    def __init__(self, name: str, queue: Queue) -> None:
        self.name = name
        self.queue = queue
        self.in_flight = InFlight(self)
        self.issued = queue.issued
        self.completed = queue.completed
        queue.before_wait = lambda tick: _graph.begin(_thread_owner(), self, tick)
        queue.after_wait = lambda: _graph.end(_thread_owner())
        _timelines.append(self)

    def progress(self) -> object:
        """What all queues have done: this one may wait for another."""
        return tuple([timeline.queue.progress() for timeline in tuple(_timelines)])

    def stall_ms(self) -> float:
        work_ms = sum([timeline.in_flight.work_ms() for timeline in tuple(_timelines)])
        return STALL_MS + PATIENCE * work_ms

    def nap(self, tick: int, limit_ms: float) -> None:
        self.queue.wait(tick, limit_ms / 1000)

    def error(self, tick: int) -> Exception | None:
        with submission:
            self.in_flight.retire()
            return self.in_flight.error(tick)

    def mark_seen(self, tick: int) -> None:
        with submission:
            self.in_flight.mark_seen(tick)

    def give_up(self, tick: int) -> str:
        """Cancel what hangs; tell what it was."""
        names = ", ".join(self.in_flight.names()) or "unknown work"
        self.queue.cancel(tick)
        if not self.queue.wait(tick, _GIVE_UP_SECONDS):
            return f"{names} does not react to being cancelled"
        with submission:
            self.in_flight.retire()
            self.in_flight.mark_seen_up_to(tick)
        return f"cancelled: {names}"

    def reaches(self, tick: int) -> bool:
        """Wait for `tick`; False on the thread of any queue, as this one may wait for that."""
        if self.queue.completed() >= tick:
            return True
        if any(timeline.queue.is_own_thread() for timeline in tuple(_timelines)):
            return False
        return self.queue.wait(tick)


_timelines: list[QueueTimeline] = []
_graph = WaitGraph(lambda timeline, tick: timeline.in_flight.waits(tick))


def _thread_owner() -> QueueTimeline | None:
    """Whose thread this is: one is, while a Python function is called by a program of that queue."""
    for timeline in tuple(_timelines):
        if timeline.queue.is_own_thread():
            return timeline
    return None


class CpuPort:
    """One queue of a CPU device.

    programs  what EXEC can name
    """

    def __init__(self, timeline: QueueTimeline, pool: Pool) -> None:
        self.timeline = timeline
        self.queue = timeline.queue
        self.in_flight = timeline.in_flight
        self.pool = pool
        self.address = self.queue.address
        self.programs: dict[str, Loaded] = {}
        self.has_room = self.queue.has_room
        self.make_room = self.queue.make_room

    def encode(self, command: Command) -> Record | None:
        found = encode_command(command, self.programs)
        if found is None:
            return None
        entry, words = found
        memory: tuple[tuple[Sym, int], ...] = ()
        if isinstance(command, Exec):
            loaded = self.programs[command.program]
            words = bake(words, {Sym(Role.HANDLE): 0})  # a program that calls Python has an owner
            memory = (
                (Sym(Role.ARENA), loaded.arena_bytes),
                (Sym(Role.SCRATCH), loaded.scratch_bytes),
            )
        return Record(entry, words, words.name, self._error, CTL_BYTES, memory)

    def _error(self, flight: Flight) -> Exception | None:
        found = self.queue.failure(flight.tick)
        if found is None:
            return None
        return explain(flight.name, found.error, found.where, lambda: None)


class _CpuDevice(Protocol):
    port: CpuPort


class CpuMachines:
    """All CPU devices: their queues see each other's tickets."""

    lock = submission

    def __init__(self) -> None:
        self._submit_all: Any = None

    def port(self, lane: Lane) -> Port:
        kind = lane.device.partition(":")[0]
        if kind != "cpu" or lane.queue != "compute":
            raise DeviceError(f"CPU devices have no queue {lane}; each has one, 'compute'")
        device: _CpuDevice = get_device(lane.device)
        device.port.queue.start()
        return device.port

    def push(self, records: int, count: int) -> int:
        if self._submit_all is None:
            address = command_entries()["submit_all"]
            signature = "int64_t(*)(intptr_t, intptr_t, intptr_t, int64_t)"
            self._submit_all = as_function(address, signature)
        runtime = native()
        taken: int = self._submit_all(runtime.table, runtime.addresses["submit"], records, count)
        return taken


machines = CpuMachines()
