"""A plan, encoded and linked for its devices: running it fills holes and makes one native call.

A launch is made once for a plan. Each run takes a copy of the words that no device reads, fills in
inputs, outputs, scalars and ticks, notes what is in flight, submits everything up to the next call
of the host by one call, and returns a Fence for each lane. It never waits, unless a queue is full
or the host has a function to call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from fgrad.errors import CallbackFailedError, DeviceError
from fgrad.hw.command import Block, Command, Poll, Role, Signal, Sym, Wait
from fgrad.hw.flight import Flight, InFlight
from fgrad.hw.libc import words
from fgrad.hw.link import Encoded, Instance, Linked, encode_words, join, link
from fgrad.hw.plan import Batch, HostCall, Lane, Plan
from fgrad.hw.pool import Lease, Pool
from fgrad.hw.timeline import Fence, Timeline


@dataclass(frozen=True, slots=True)
class Record:
    """A command as a device takes it.

    entry   address of the code that carries it out
    words   what it reads; CONTROL is the address of the words themselves
    start   the code is given the address of this byte of the words
    name    for messages
    memory  holes of the words (ARENA, SCRATCH) that take memory of so many bytes
    error   what it failed with, asked when it is finished
    """

    entry: int
    words: Encoded
    name: str
    error: Callable[[Flight], Exception | None]
    start: int = 0
    memory: tuple[tuple[Sym, int], ...] = ()


class Port(Protocol):
    """One queue of a device. Ticks of its timeline count what was pushed."""

    @property
    def timeline(self) -> Timeline:
        """Where its work has got to."""

    @property
    def in_flight(self) -> InFlight:
        """What was pushed and may be running."""

    @property
    def pool(self) -> Pool:
        """Memory of its device."""

    @property
    def address(self) -> int:
        """By which records and waits name the queue."""

    def encode(self, command: Command) -> Record | None:
        """The command for this queue; None where the order of the queue does it.

        A Wait names the other queue's address by QUEUE and its lane. Raises DeviceError for what
        the queue cannot do.
        """

    def has_room(self, count: int) -> bool:
        """Whether `count` more can be pushed; asked under the lock."""

    def make_room(self, count: int) -> None:
        """Wait until they can; called without the lock."""


class Machines(Protocol):
    """Devices whose queues see each other's timelines."""

    lock: AbstractContextManager[object]  # held while ticks are given out

    def port(self, lane: Lane) -> Port:
        """The queue of a lane. Raises DeviceError if there is none."""

    def push(self, records: int, count: int) -> int:
        """Submit `count` records (queue, entry, words) at an address; returns how many it took."""


@dataclass(slots=True)
class _Copy:
    """One copy of a segment's words; `lease` holds all its memory."""

    instance: Instance
    lease: Lease
    gate: int = 0  # address of its gate; 0: it has none
    running: int = 0


class _Segment:
    """The batches of one round, which are submitted by one call."""

    def __init__(self, number: int, round_number: int, launch: Launch) -> None:
        self.number = number
        self.round = round_number
        self.pool = launch.ports[0].pool
        self.records: list[tuple[int, Record]] = []  # lane and record, in the order of pushing
        self.counts = [0] * len(launch.ports)  # records of each lane
        self.waits: dict[int, Wait] = {}  # which of the records wait
        self.free: list[_Copy] = []
        self.linked: Linked | None = None

    def add(self, batch: Batch, launch: Launch) -> None:
        port = launch.ports[batch.lane]
        if launch.gated and not self.counts[batch.lane]:
            self._add_gate(batch.lane, launch)
        for command in batch.commands:
            if isinstance(command, Signal):  # the tick of the record before it
                assert isinstance(command.tick, Sym)
                where = (self.number, self.counts[batch.lane])
                launch.signals[batch.lane, command.tick.plus] = where
                continue
            record = port.encode(command)
            if record is not None:
                if isinstance(command, Wait):
                    self.waits[len(self.records)] = command
                self.counts[batch.lane] += 1
                self.records.append((batch.lane, record))

    def _add_gate(self, lane: int, launch: Launch) -> None:
        block = Block(launch.plan.lanes[lane].device, Sym(Role.GATE), 8)
        record = launch.ports[lane].encode(Poll(block.span(), 1))
        assert record is not None, "POLL is a command of its own"
        self.counts[lane] += 1
        self.records.append((lane, record))

    def link(self, launch: Launch) -> None:
        """Make one block: the records, then the words of each."""
        count = len(self.records)
        rows: list[int | Sym] = []
        for i, (lane, record) in enumerate(self.records):
            rows += [Sym(Role.QUEUE, lane), record.entry, Sym(Role.CONTROL, 0, i)]
        parts = [self._words(i, launch) for i in range(count)]
        _, starts = join([encode_words([0] * len(rows)), *parts], launch.name)
        for i in range(count):
            rows[3 * i + 2] = Sym(Role.CONTROL, 0, starts[i + 1] + self.records[i][1].start)
        whole, _ = join([encode_words(rows), *parts], launch.name)
        self.linked = link(whole, launch.queues)

    def _words(self, number: int, launch: Launch) -> Encoded:
        """The words of one record: its memory apart from others', its ticks as this segment's."""
        encoded = self.records[number][1].words
        patches = []
        for patch in encoded.patches:
            sym = patch.sym
            if sym.role is Role.TICK:
                sym = launch.tick(sym)
            elif sym.role in (Role.ARENA, Role.SCRATCH):
                sym = replace(sym, index=number)
            patches.append(replace(patch, sym=sym))
        return replace(encoded, patches=tuple(patches))

    def copy(self) -> _Copy:
        """A copy of the words that no device reads."""
        try:
            return self.free.pop()
        except IndexError:
            assert self.linked is not None, "link() was called"
            lease = Lease(self.pool)
            known: dict[Sym, int] = {}
            for number, (_, record) in enumerate(self.records):
                for sym, nbytes in record.memory:
                    known[replace(sym, index=number)] = lease.take(nbytes)
            gate = lease.take(8) if any(p.sym.role is Role.GATE for p in self.linked.own) else 0
            address = lease.take(len(self.linked.data))
            return _Copy(self.linked.instance(address, {**known, Sym(Role.GATE): gate}), lease, gate)


def _inherited(record: Record, other: InFlight, until: int, flight: Flight) -> Exception | None:
    """What a wait failed with, or else what it waited for did and nobody was told of."""
    other.retire()
    return record.error(flight) or other.unseen(until)


class Launch:
    """A plan that can be run.

    functions  those that its calls of the host name; called without arguments
    inherits   lanes whose failures, of work that was queued before a run, are failures of that run as well: it
               takes over what they made
    gated      no queue begins before all of a submission is submitted, where it is for several
    """

    def __init__(
        self,
        plan: Plan,
        machines: Machines,
        name: str = "launch",
        functions: Mapping[str, Callable[[], object]] | None = None,
        inherits: frozenset[int] = frozenset(),
        gated: bool = False,
    ) -> None:
        self.plan = plan
        self.gated = gated and len(plan.lanes) > 1
        self.inherits = inherits
        self.name = name
        self.machines = machines
        self.functions = dict(functions or {})
        self.ports = [machines.port(lane) for lane in plan.lanes]
        self.queues = {Sym(Role.QUEUE, i): port.address for i, port in enumerate(self.ports)}
        self.signals: dict[tuple[int, int], tuple[int, int]] = {}  # -> segment, records before
        self.steps: list[_Segment | HostCall] = []
        for step in plan.steps:
            if isinstance(step, HostCall):
                if step.command.name not in self.functions:
                    raise DeviceError(f"{name} calls {step.command.name!r}, which was not given")
                self.steps.append(step)
                continue
            last = self.steps[-1] if self.steps else None
            if not isinstance(last, _Segment) or last.round != step.round:
                last = _Segment(len(self.steps), step.round, self)
                self.steps.append(last)
            last.add(step, self)
        for segment in self.segments():
            segment.link(self)

    def segments(self) -> list[_Segment]:
        """What is submitted by one native call each, in order."""
        return [step for step in self.steps if isinstance(step, _Segment)]

    def tick(self, sym: Sym) -> Sym:
        """The tick of a wait, counted from where its lane was before the segment that signals it.

        The index names segment and lane, see `_base`.
        """
        segment, plus = self.signals.get((sym.index, sym.plus), (self._first(), 0))
        return Sym(Role.TICK, segment * len(self.ports) + sym.index, plus)

    def _first(self) -> int:
        return next(i for i, step in enumerate(self.steps) if isinstance(step, _Segment))

    def __call__(
        self,
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
        scalars: Sequence[int] = (),
    ) -> tuple[Fence, ...]:
        """Run: addresses of inputs and outputs, bits of scalars, by their indices.

        Returns a Fence for each lane, in the order of `plan.lanes`. Raises OutOfMemoryError before
        anything is submitted, and CallbackFailedError if a function of the host raised: what comes
        after it is not submitted.
        """
        numbers = {Sym(Role.INPUT, i): x for i, x in enumerate(inputs)}
        numbers |= {Sym(Role.OUTPUT, i): x for i, x in enumerate(outputs)}
        numbers |= {Sym(Role.SCALAR, i): x for i, x in enumerate(scalars)}
        # all memory before the first submission: a run that finds none has done nothing
        copies = {s.number: s.copy() for s in self.steps if isinstance(s, _Segment)}
        for step in self.steps:
            if isinstance(step, HostCall):
                self._call_host(step, numbers)
            else:
                self._submit(step, copies[step.number], numbers)
        newest: dict[int, int] = {}
        for step in self.steps:
            if isinstance(step, _Segment):
                for lane, count in enumerate(step.counts):
                    if count:
                        newest[lane] = numbers[self._base(step.number, lane)] + count
        return tuple([Fence(p.timeline, newest.get(i, 0)) for i, p in enumerate(self.ports)])

    def _base(self, segment: int, lane: int) -> Sym:
        return Sym(Role.TICK, segment * len(self.ports) + lane)

    def _submit(self, segment: _Segment, copy: _Copy, numbers: dict[Sym, int]) -> None:
        while True:
            with self.machines.lock:
                for port in self.ports:
                    port.in_flight.retire()
                full = [
                    (port, count)
                    for port, count in zip(self.ports, segment.counts, strict=True)
                    if count and not port.has_room(count)
                ]
                if not full:
                    self._push(segment, copy, numbers)
                    return
            for port, count in full:
                port.make_room(count)

    def _push(self, segment: _Segment, copy: _Copy, numbers: dict[Sym, int]) -> None:
        """Submit; the lock is held, so the ticks that the records will get are known."""
        newest = [port.timeline.issued() for port in self.ports]
        for lane, tick in enumerate(newest):
            numbers[self._base(segment.number, lane)] = tick
        instance = copy.instance
        instance.fill([self._number(sym, numbers) for sym in instance.linked.syms])
        if not segment.records:
            segment.free.append(copy)
            return

        def finish() -> None:
            copy.running -= 1
            if not copy.running:
                segment.free.append(copy)

        flights: list[tuple[Port, Flight]] = []
        copy.running = len(segment.records)
        if copy.gate:
            words(copy.gate)[0] = 0
        try:
            for number, (lane, record) in enumerate(segment.records):
                newest[lane] += 1
                name = f"{self.name}: {record.name}"
                flight = Flight(newest[lane], name, record.error, finish)
                wait = segment.waits.get(number)
                if wait is not None:
                    other, until = self.ports[wait.lane], self._until(wait, numbers)
                    flight.waits = ((other.timeline, until),)
                    if wait.lane in self.inherits:
                        flight.error = partial(_inherited, record, other.in_flight, until)
                self.ports[lane].in_flight.begin(flight)
                flights.append((self.ports[lane], flight))
            taken = self.machines.push(instance.address, len(flights))
            assert taken == len(flights), "there was room"
        except BaseException:  # an interrupt before or after the push: what was pushed stays noted
            for port, flight in flights:
                if flight.tick > port.timeline.issued():
                    port.in_flight.cancel(flight)
                    copy.running -= 1
            raise
        finally:
            if copy.gate:
                words(copy.gate)[0] = 1

    def _until(self, wait: Wait, numbers: Mapping[Sym, int]) -> int:
        """The tick that a command waits for, as it was written into its words."""
        if isinstance(wait.tick, int):
            return wait.tick
        sym = self.tick(wait.tick)
        return self._number(Sym(Role.TICK, sym.index), numbers) + sym.plus

    def _number(self, sym: Sym, numbers: Mapping[Sym, int]) -> int:
        number = numbers.get(sym)
        if number is None:
            raise DeviceError(f"{self.name} needs a number for {sym}, which was not given")
        return number

    def _call_host(self, call: HostCall, numbers: Mapping[Sym, int]) -> None:
        for wait in call.waits:
            Fence(self.ports[wait.lane].timeline, self._reached(wait, numbers)).wait()
        try:
            self.functions[call.command.name]()
        except Exception as error:
            raise CallbackFailedError(
                f"the Python function {call.command.name} called by {self.name} raised {error!r}"
            ) from error

    def _reached(self, wait: Wait, numbers: Mapping[Sym, int]) -> int:
        """The tick that a call of the host waits for."""
        assert isinstance(wait.tick, Sym)
        if (wait.lane, wait.tick.plus) not in self.signals:
            return self.ports[wait.lane].timeline.issued()
        sym = self.tick(wait.tick)
        return numbers[Sym(Role.TICK, sym.index)] + sym.plus
