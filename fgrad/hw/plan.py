"""A program of device calls, put on lanes with the fewest waits.

A lane is one in-order queue of one device. Calls are given in an order that is right when they are
run one after another; the plan lets lanes run at the same time and waits only where bytes demand
it: never for what the lane's own order gives, nor for what an earlier wait implies, and a signal is
sent only where somebody waits for it.

Calls of Host are made by the host between submissions. All other calls of one lane between two of
them are one batch, which is submitted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from fgrad.hw.command import (
    Block,
    Command,
    Copy,
    Exec,
    Host,
    Role,
    Signal,
    Sym,
    Timestamp,
    Wait,
    accesses,
    show,
)
from fgrad.hw.hazards import Hazards


@dataclass(frozen=True, slots=True)
class Lane:
    """One queue of a device."""

    device: str
    queue: str = "compute"

    def __str__(self) -> str:
        return f"{self.device}/{self.queue}"


@dataclass(frozen=True, slots=True)
class Call:
    """A command and the lane it is for."""

    lane: Lane
    command: Command


@dataclass(frozen=True, slots=True)
class Batch:
    """Commands that are submitted to a lane at once.

    round  batches of one round wait for each other's signals and are submitted together
    """

    lane: int
    commands: tuple[Command, ...]
    round: int = 0


@dataclass(frozen=True, slots=True)
class HostCall:
    """A Python function, called once the signals of `waits` (lane, tick) are there."""

    command: Host
    waits: tuple[Wait, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to submit, in this order.

    lanes    the lanes, by number
    steps    batches and calls of the host
    signals  how often each lane's signal is set in one run: by how much its tick grows
    """

    lanes: tuple[Lane, ...]
    steps: tuple[Batch | HostCall, ...]
    signals: tuple[int, ...]

    def waits(self) -> int:
        """How many waits there are."""
        return sum(
            len(step.waits)
            if isinstance(step, HostCall)
            else sum(isinstance(command, Wait) for command in step.commands)
            for step in self.steps
        )

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            if isinstance(step, HostCall):
                lines.append(f"host: {', '.join(show(wait) for wait in step.waits)}")
                lines.append(f"    {show(step.command)}")
            else:
                lines.append(f"{self.lanes[step.lane]}:")
                lines += [f"    {show(command)}" for command in step.commands]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Stamped:
    """A plan that notes when each EXEC and COPY began and ended: `rows` says which, with its lane.

    The times are 16 bytes for each row, in that order, of `nbytes` of memory.
    """

    plan: Plan
    rows: tuple[tuple[Lane, Exec | Copy], ...]
    nbytes: int


def stamped(calls: Sequence[Call], memory: Sym) -> Stamped:
    """The plan of the calls with time stamps.

    memory  stands for the address of the times, see `Stamped`; it is the first lane's device's
    """
    found = plan(tuple(calls), BATCH_LIMIT // 3)
    count = sum(isinstance(call.command, Exec | Copy) for call in calls)
    block = Block(found.lanes[0].device if found.lanes else "host", memory, max(16 * count, 16))
    rows: list[tuple[Lane, Exec | Copy]] = []
    steps: list[Batch | HostCall] = []
    for step in found.steps:
        if isinstance(step, HostCall):
            steps.append(step)
            continue
        commands: list[Command] = []
        for command in step.commands:
            if not isinstance(command, Exec | Copy):
                commands.append(command)
                continue
            at = 16 * len(rows)
            rows.append((found.lanes[step.lane], command))
            # what it waits for stands before it: the time is that of the work
            commands += [Timestamp(block.span(at, 8)), command, Timestamp(block.span(at + 8, 8))]
        steps.append(replace(step, commands=tuple(commands)))
    return Stamped(replace(found, steps=tuple(steps)), tuple(rows), block.nbytes)


_HOST = -1  # the lane of the host itself
BATCH_LIMIT = 64  # commands; where one is full, all are submitted: queues are bounded


@lru_cache(maxsize=256)
def plan(calls: tuple[Call, ...], batch_limit: int = BATCH_LIMIT) -> Plan:
    """The plan of these calls; equal calls give the same object.

    A batch holds at most `batch_limit` commands, and the waits and the signal of the last one.
    Then all that is open is submitted: so batches of one round wait for each other, or for earlier
    ones. A device's own lane is its "compute" queue, where the rest of its work is. Any other lane waits
    for what was queued there before this run (its tick plus 0) before it touches the device's
    memory, and the own lane ends with waiting for what others do to that memory, so that whoever is
    queued behind may use it.
    """
    return _Planner(calls, batch_limit).plan()


class _Planner:
    """Clocks say what is known where: `known[lane]` is how many calls of each lane are finished
    when the next call of `lane` begins."""

    def __init__(self, calls: tuple[Call, ...], batch_limit: int) -> None:
        self.calls = list(calls)
        self.batch_limit = batch_limit
        self.lanes: list[Lane] = []
        self.lane_of: list[int] = []  # of each call
        self.place: list[int] = []  # of each call in its lane, from 1
        self.count: dict[int, int] = {_HOST: 0}
        self.known: dict[int, dict[int, int]] = {_HOST: {}}
        self.after: list[dict[int, int]] = []  # what is known once this call is finished
        self.waits: list[list[int]] = []  # the calls that this call waits for
        self.befores: list[list[int]] = []  # lanes whose earlier work this call waits for
        self.finals: list[tuple[int, list[int]]] = []  # lane, calls its end waits for

    def plan(self) -> Plan:
        hazards = Hazards()
        for number, call in enumerate(self.calls):
            lane = _HOST if isinstance(call.command, Host) else self._lane(call.lane)
            reads, writes = accesses(call.command)
            devices = {span.block.device: None for span in (*reads, *writes)}
            self._append(lane, hazards.access(number, reads, writes), list(devices))
        for device, blocks in self._blocks().items():
            rest = hazards.last(block.span() for block in blocks)
            if rest:
                home = self._lane(Lane(device))
                needed = self._reduce(home, {i for i in rest if self.lane_of[i] != _HOST})
                if needed:
                    self.finals.append((home, needed))
        return self._write()

    def _lane(self, lane: Lane) -> int:
        if lane not in self.lanes:
            self.lanes.append(lane)
            self.count[len(self.lanes) - 1] = 0
            # it is first submitted after the calls of the host so far
            self.known[len(self.lanes) - 1] = {**self.known[_HOST], _HOST: self.count[_HOST]}
        return self.lanes.index(lane)

    def _blocks(self) -> dict[str, list[Block]]:
        """The blocks of each device, each once."""
        found: dict[str, dict[int | Sym, Block]] = {}
        for call in self.calls:
            for spans in accesses(call.command):
                for span in spans:
                    known = found.setdefault(span.block.device, {})
                    known.setdefault(span.block.base, span.block)
        return {device: list(blocks.values()) for device, blocks in found.items()}

    def _append(self, lane: int, dependencies: set[int], devices: list[str]) -> None:
        """Place the next call on `lane`; `devices` own the memory that it touches."""
        self.waits.append(self._reduce(lane, dependencies))
        homes = [self._lane(Lane(device)) for device in devices]
        # whoever knows a call of a lane knows all that was queued there before
        self.befores.append([h for h in homes if h != lane and h not in self.known[lane]])
        for home in self.befores[-1]:
            self._learn(lane, {home: 0})
        self.count[lane] += 1
        self.lane_of.append(lane)
        self.place.append(self.count[lane])
        self.after.append({**self.known[lane], lane: self.count[lane]})
        if lane == _HOST:  # what is submitted after a call of the host knows what the host knew
            for other in self.known:
                self._learn(other, self.after[-1])

    def _reduce(self, lane: int, dependencies: set[int]) -> list[int]:
        """The fewest of these calls to wait for on `lane`; afterwards it knows them all.

        The newest come first: an older one is often implied by what a newer one had to wait for.
        """
        needed = []
        for call in sorted(dependencies, reverse=True):
            other = self.lane_of[call]
            if other != lane and self.known[lane].get(other, 0) < self.place[call]:
                needed.append(call)
                self._learn(lane, self.after[call])
        return needed

    def _learn(self, lane: int, facts: dict[int, int]) -> None:
        known = self.known[lane]
        for other, count in facts.items():
            known[other] = max(known.get(other, 0), count)

    def _write(self) -> Plan:
        waited = {call for calls in [*self.waits, *(c for _, c in self.finals)] for call in calls}
        ticks: dict[int, int] = {}
        signals = [0] * len(self.lanes)
        steps: list[Batch | HostCall] = []
        open_batches: dict[int, list[Command]] = {}

        def wait(call: int) -> Wait:
            lane = self.lane_of[call]
            return Wait(lane, Sym(Role.TICK, lane, ticks[call]))

        def flush() -> None:
            number = len(steps)
            steps.extend(Batch(lane, tuple(batch), number) for lane, batch in open_batches.items())
            open_batches.clear()

        for number, call in enumerate(self.calls):
            lane = self.lane_of[number]
            waits = [Wait(home, Sym(Role.TICK, home)) for home in self.befores[number]]
            waits += [wait(other) for other in self.waits[number] if self.lane_of[other] != _HOST]
            if isinstance(call.command, Host):
                flush()
                steps.append(HostCall(call.command, tuple(waits)))
                continue
            batch = open_batches.setdefault(lane, [])
            batch += [*waits, call.command]
            if number in waited:
                signals[lane] += 1
                ticks[number] = signals[lane]
                batch.append(Signal(lane, Sym(Role.TICK, lane, signals[lane])))
            if len(batch) >= self.batch_limit:
                flush()
        for lane, calls in self.finals:
            open_batches.setdefault(lane, []).extend(wait(call) for call in calls)
        flush()
        return Plan(tuple(self.lanes), tuple(steps), tuple(signals))
