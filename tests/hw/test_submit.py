"""Launches on pretended queues: real words in real memory, run in an order that the test draws."""

import random
import threading
from collections.abc import Iterator

import pytest

from fgrad.errors import DeviceError, OutOfMemoryError
from fgrad.hw.command import (
    Block,
    Command,
    Copy,
    Exec,
    Poll,
    Role,
    Signal,
    Span,
    Sym,
    Wait,
    Write,
)
from fgrad.hw.flight import Flight, InFlight
from fgrad.hw.libc import memmove, raw_block, words
from fgrad.hw.link import encode_words
from fgrad.hw.plan import Call, Lane, plan
from fgrad.hw.pool import Pool
from fgrad.hw.submit import Launch, Record
from fgrad.hw.timeline import HostTimeline

LANES = [Lane("a"), Lane("b"), Lane("b", "copy")]
COPY, WAIT, WRITE, STAIN = range(4)


class Port:
    """A queue of at most `size` records that runs when the test says so."""

    def __init__(self, lane: Lane, number: int, size: int) -> None:
        self.timeline = HostTimeline(str(lane))
        self.in_flight = InFlight(self.timeline)
        self.pool = Pool(lane.device)
        self.address = number + 1
        self.size = size
        self.queue: list[tuple[int, int]] = []
        self.waited_for_room = 0

    def encode(self, command: Command) -> Record | None:
        def address(span: Span) -> int | Sym:
            return span.address

        match command:
            case Signal():
                return None
            case Copy():
                what = [address(command.target), address(command.source), command.target.length]
                entry = COPY
            case Wait():
                what, entry = [Sym(Role.QUEUE, command.lane), command.tick], WAIT
            case Write():
                what, entry = [address(command.target), command.value], WRITE
            case Exec():
                what, entry = [Sym(Role.ARENA), *command.arguments], STAIN
            case _:
                raise DeviceError("no such command here")
        memory = ((Sym(Role.ARENA), 64),) if entry == STAIN else ()
        encoded = encode_words([0, *what], type(command).__name__)
        return Record(entry, encoded, encoded.name, self.error, 8, memory)

    def error(self, flight: Flight) -> Exception | None:
        return None

    def has_room(self, count: int) -> bool:
        return len(self.queue) + count <= self.size

    def make_room(self, count: int) -> None:
        self.waited_for_room += 1
        while not self.has_room(count):
            assert any(port.step() for port in self.all)

    all: list["Port"] = []

    def step(self) -> bool:
        """Run the next record, unless it waits or there is none."""
        if not self.queue:
            return False
        entry, table = self.queue[0]
        t = words(table)
        if entry == WAIT and self.all[t[0] - 1].timeline.completed() < t[1]:
            return False
        if entry == COPY:
            memmove(t[0], t[1], t[2])
        elif entry == WRITE:
            words(t[0])[0] = t[1]
        elif entry == STAIN:
            words(t[0])[0] += 1
            words(t[1])[0] = t[0]
        self.queue.pop(0)
        self.timeline.complete(self.timeline.completed() + 1)
        return True


class Machines:
    def __init__(self, size: int = 1000) -> None:
        self.lock = threading.Lock()
        self.ports = [Port(lane, i, size) for i, lane in enumerate(LANES)]
        for port in self.ports:
            port.all = self.ports
        self.pushes = 0

    def port(self, lane: Lane) -> Port:
        return self.ports[LANES.index(lane)]

    def push(self, records: int, count: int) -> int:
        rows = words(records)
        self.pushes += 1
        for i in range(count):
            port = self.ports[rows[3 * i] - 1]
            port.queue.append((rows[3 * i + 1], rows[3 * i + 2]))
            port.timeline.issue()
        return count

    def run(self, r: random.Random) -> None:
        """Run everything, the queues in an order drawn at random."""
        while any(port.queue for port in self.ports):
            ready = list(self.ports)
            r.shuffle(ready)
            assert any(port.step() for port in ready), "deadlock"

    def retire(self) -> None:
        for port in self.ports:
            port.in_flight.retire()


def random_program(r: random.Random, blocks: list[Block]) -> list[Command]:
    commands: list[Command] = []
    for _ in range(r.randrange(3, 30)):
        y, x = r.sample(blocks, 2)
        n = r.randrange(1, 24)
        spans = y.span(r.randrange(32 - n + 1), n), x.span(r.randrange(32 - n + 1), n)
        if r.random() < 0.3:
            value = r.choice((r.getrandbits(60), Sym(Role.SCALAR, 0), Sym(Role.SCALAR, 1, 5)))
            commands.append(Write(y.span(8 * r.randrange(4), 8), value))
        else:
            commands.append(Copy(*spans))
    return commands


def expected(commands: list[Command], memory: dict, scalars: list[int]) -> None:
    """What the commands do one after the other; memory maps a block's base to its bytes."""
    for command in commands:
        target = command.target
        where = slice(target.offset, target.offset + target.length)
        if isinstance(command, Copy):
            source = command.source
            data = memory[source.block.base][source.offset : source.offset + source.length]
        else:
            value = command.value
            if isinstance(value, Sym):
                value = scalars[value.index] + value.plus
            data = value.to_bytes(8, "little")
        memory[target.block.base][where] = data


def bytes_of(address: int) -> Iterator[int]:
    for i in range(4):
        yield from (words(address)[i] & (1 << 64) - 1).to_bytes(8, "little")


@pytest.mark.parametrize("limit", [64, 3])
@pytest.mark.parametrize("seed", range(30))
def test_runs_that_overlap_give_what_one_after_the_other_gives(seed: int, limit: int) -> None:
    """1 to 4 runs of one launch are in flight at once; inputs, outputs and scalars change."""
    r, machines = random.Random(seed), Machines(size=40)
    syms = [Sym(Role.INPUT, 0), Sym(Role.INPUT, 1), Sym(Role.OUTPUT, 0)]
    blocks = [Block(r.choice("ab"), sym, 32) for sym in syms]
    commands = random_program(r, blocks)
    calls = tuple(Call(r.choice(LANES), command) for command in commands)
    launch = Launch(plan(calls, limit), machines)
    pieces = [raw_block(64) for _ in range(6)]
    model = {piece: bytearray(32) for piece in pieces}
    for _ in range(6):
        for _ in range(r.randrange(1, 5)):
            places = r.sample(pieces, 3)
            scalars = [r.getrandbits(60), r.getrandbits(60)]
            launch(places[:2], places[2:], scalars)
            memory = {sym: model[place] for sym, place in zip(syms, places, strict=True)}
            expected(commands, memory, scalars)
        machines.run(r)
        machines.retire()
    for piece in pieces:
        assert bytes(bytes_of(piece)) == bytes(model[piece])
    assert not any(port.in_flight for port in machines.ports)


def test_everything_between_calls_of_the_host_is_one_push() -> None:
    machines = Machines()
    blocks = [Block("a", raw_block(64), 32), Block("b", raw_block(64), 32)]
    copies = [Copy(blocks[i % 2].span(), blocks[1 - i % 2].span()) for i in range(9)]
    calls = [Call(LANES[i % 3], command) for i, command in enumerate(copies)]
    launch = Launch(plan(tuple(calls)), machines)
    launch()
    assert machines.pushes == 1
    machines.run(random.Random(0))


def test_each_run_in_flight_has_an_arena_of_its_own_and_they_are_used_again() -> None:
    machines = Machines()
    out = Block("a", Sym(Role.OUTPUT, 0), 8)
    command = Exec("stain", (Sym(Role.OUTPUT, 0),), (), (out.span(),))
    launch = Launch(plan((Call(LANES[0], command),)), machines)
    cells = [raw_block(64) for _ in range(8)]
    for _ in range(3):
        for cell in cells:
            launch(outputs=[cell])
        machines.run(random.Random(0))
        machines.retire()
    arenas = {words(cell)[0] for cell in cells}
    assert len(arenas) == 8
    assert machines.ports[0].pool.statistics().in_use == 8 * (64 + 128)
    del launch
    assert machines.ports[0].pool.statistics().in_use == 0


def test_a_run_that_finds_no_memory_submits_nothing_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machines = Machines()
    pool = machines.ports[0].pool
    out = Block("a", Sym(Role.OUTPUT, 0), 8)
    command = Exec("stain", (Sym(Role.OUTPUT, 0),), (), (out.span(),))
    launch = Launch(plan((Call(LANES[0], command),) * 3, 1), machines)
    take, cell = pool.take, raw_block(64)
    for k in range(6):  # words and arena of each of three rounds
        asked = []

        def refusing(nbytes: int, k: int = k, asked: list[int] = asked) -> int:
            asked.append(nbytes)
            if len(asked) > k:
                raise OutOfMemoryError("no more")
            return take(nbytes)

        monkeypatch.setattr(pool, "take", refusing)
        with pytest.raises(OutOfMemoryError):
            launch(outputs=[cell])
        monkeypatch.undo()
        assert machines.pushes == 0 and pool.statistics().in_use == 0
        assert not machines.ports[0].in_flight
    launch(outputs=[cell])
    machines.run(random.Random(0))
    assert machines.pushes == 3 and words(cell)[0] > 0


def test_fences_are_done_when_their_lane_is() -> None:
    machines = Machines()
    blocks = [Block("a", raw_block(64), 32), Block("b", raw_block(64), 32)]
    calls = (Call(LANES[0], Copy(blocks[0].span(), blocks[1].span())),)
    launch = Launch(plan(calls), machines)
    fences = launch()
    assert [fence.done() for fence in fences] == [False, False]
    machines.run(random.Random(0))
    assert [fence.done() for fence in fences] == [True, True]


def test_a_full_queue_is_waited_for_without_the_lock() -> None:
    machines = Machines(size=3)
    block = Block("a", raw_block(64), 32)
    launch = Launch(plan((Call(LANES[0], Write(block.span(0, 8), 1)),)), machines)
    for _ in range(10):
        launch()
    assert machines.ports[0].waited_for_room == 7
    machines.run(random.Random(0))


def test_an_interrupt_in_a_push_forgets_only_what_was_not_pushed() -> None:
    machines = Machines()
    block = Block("a", raw_block(64), 32)
    commands = [Write(block.span(8 * i, 8), i) for i in range(3)]
    launch = Launch(plan(tuple(Call(LANES[0], command) for command in commands)), machines)
    whole = machines.push

    def interrupted(records: int, count: int) -> int:
        whole(records, pushed)
        raise KeyboardInterrupt

    for pushed in (0, 2, 3):
        machines.push = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            launch()
        assert len(machines.ports[0].in_flight.names()) == pushed
        assert not machines.lock.locked()
        machines.push = whole  # type: ignore[method-assign]
        launch()
        machines.run(random.Random(0))
        machines.retire()
        assert not machines.ports[0].in_flight
    assert words(block.base)[2] == 2


def test_a_command_that_no_queue_knows_is_refused_when_the_launch_is_made() -> None:
    block = Block("a", raw_block(64), 32)
    with pytest.raises(DeviceError, match="no such command"):
        Launch(plan((Call(LANES[0], Poll(block.span(0, 8), 1)),)), Machines())
