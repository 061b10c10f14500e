"""Plans: right under every interleaving of the lanes, with the fewest waits."""

import random

import pytest

from fgrad.hw.command import Block, Copy, Exec, Host, Role, Signal, Sym, Timestamp, Wait, accesses
from fgrad.hw.plan import BATCH_LIMIT, Batch, Call, HostCall, Lane, Plan, plan, stamped

DEVICES = ["cpu", "cpu:1", "cpu:2"]
LANES = [Lane(device, queue) for device in DEVICES for queue in ("compute", "copy")]


def mix(seed: int, values: list[int]) -> int:
    """What a pretended program computes."""
    for value in values:
        seed = seed * 1_000_003 + value & (1 << 61) - 1
    return seed


class Memory:
    """Bytes by their address; a command replaces each byte it writes."""

    def __init__(self) -> None:
        self.bytes: dict = {}

    def read(self, span):
        base = span.block.base
        return [self.bytes.get((base, i), i) for i in range(span.offset, span.offset + span.length)]

    def run(self, number: int, command) -> None:
        reads, writes = accesses(command)
        value = mix(number, [v for span in reads for v in self.read(span)])
        if isinstance(command, Copy):
            values = self.read(command.source)
        for span in writes:
            for i in range(span.length):
                new = values[i] if isinstance(command, Copy) else mix(value, [i])
                self.bytes[span.block.base, span.offset + i] = new


def random_calls(r: random.Random) -> tuple[Call, ...]:
    blocks = [Block(r.choice(DEVICES), 4096 * (i + 1), 32) for i in range(5)]

    def span():
        a, b = sorted(r.sample(range(33), 2))
        return r.choice(blocks).span(a, b - a)

    calls = []
    for i in range(r.randrange(2, 25)):
        kind = r.random()
        reads = tuple(span() for _ in range(r.randrange(3)))
        writes = tuple(span() for _ in range(r.randrange(1, 3)))
        if kind < 0.1:
            command = Host(f"h{i}", reads, writes)
        elif kind < 0.3:
            a, b = r.sample(blocks, 2)
            n = r.randrange(1, 16)
            command = Copy(a.span(r.randrange(16), n), b.span(r.randrange(16), n))
        else:
            command = Exec(f"p{i}", (), reads, writes)
        calls.append(Call(r.choice(LANES), command))
    return tuple(calls)


def simulate(found: Plan, calls: tuple[Call, ...], r: random.Random) -> Memory:
    """Run a plan on lanes that get on at random, while the host submits."""
    memory = Memory()
    numbers = {id(call.command): i for i, call in enumerate(calls)}
    queues: list[list] = [[] for _ in found.lanes]
    signals = [0] * len(found.lanes)
    steps = list(found.steps)

    def ready(wait) -> bool:
        return signals[wait.lane] >= wait.tick.plus

    while steps or any(queues):
        choices = [i for i, queue in enumerate(queues) if queue]
        choices = [i for i in choices if not isinstance(queues[i][0], Wait) or ready(queues[i][0])]
        can_submit = bool(steps) and (isinstance(steps[0], Batch) or all(map(ready, steps[0].waits)))
        assert choices or can_submit, f"deadlock:\n{found}"
        if can_submit and (not choices or r.random() < 0.3):
            step = steps.pop(0)
            if isinstance(step, HostCall):
                memory.run(numbers[id(step.command)], step.command)
            else:
                queues[step.lane] += step.commands
            continue
        lane = r.choice(choices)
        command = queues[lane].pop(0)
        if isinstance(command, Signal):
            assert command.lane == lane and command.tick.plus == signals[lane] + 1
            signals[lane] += 1
        elif not isinstance(command, Wait):
            memory.run(numbers[id(command)], command)
    assert tuple(signals) == found.signals
    return memory


@pytest.mark.parametrize("seed", range(150))
def test_every_interleaving_gives_what_one_after_the_other_gives(seed: int) -> None:
    r = random.Random(seed)
    calls = random_calls(r)
    expected = Memory()
    for number, call in enumerate(calls):
        expected.run(number, call.command)
    for limit in (64, 2):
        found = plan(calls, limit)
        for _ in range(5):
            assert simulate(found, calls, r).bytes == expected.bytes, str(found)


@pytest.mark.parametrize("seed", range(40))
def test_no_wait_can_be_left_out(seed: int) -> None:
    """Each wait is needed: without it some dependency is not implied by the rest."""
    r = random.Random(1000 + seed)
    calls = random_calls(r)
    found = plan(calls)
    for step_index, step in enumerate(found.steps):
        if not isinstance(step, Batch):
            continue
        for i, command in enumerate(step.commands):
            if isinstance(command, Wait) and command.tick.plus:
                rest = step.commands[:i] + step.commands[i + 1 :]
                steps = list(found.steps)
                steps[step_index] = Batch(step.lane, rest)
                without = Plan(found.lanes, tuple(steps), found.signals)
                assert reached(without) != reached(found)


@pytest.mark.parametrize("seed", range(40))
def test_foreign_memory_is_touched_after_what_its_device_did_before(seed: int) -> None:
    """Once a lane, unless a later signal of the device was waited for: then it is implied."""
    calls = random_calls(random.Random(2000 + seed))
    found = plan(calls)
    told: dict = {}  # (lane, tick) -> the lanes whose earlier work is known to be finished
    for call_number in range(3):  # signals may stand in later batches: three rounds settle them
        known = [{i} for i in range(len(found.lanes))]
        host: set = set()
        for step in found.steps:
            if isinstance(step, HostCall):
                for wait in step.waits:
                    host |= told.get((wait.lane, wait.tick.plus), set()) | {wait.lane}
                for lane in known:
                    lane |= host
                continue
            mine = known[step.lane]
            for command in step.commands:
                if isinstance(command, Wait):
                    mine |= told.get((command.lane, command.tick.plus), set()) | {command.lane}
                elif isinstance(command, Signal):
                    told[step.lane, command.tick.plus] = set(mine)
                elif call_number == 2:
                    for span in (s for spans in accesses(command) for s in spans):
                        assert found.lanes.index(Lane(span.block.device)) in mine, str(found)


def reached(found: Plan) -> list[frozenset]:
    """What is finished before each command begins, and at the end of each lane."""
    finished: list[set] = [set() for _ in found.lanes]
    host: set = set()
    told: dict = {(lane, 0): set() for lane in range(len(found.lanes))}
    out = []
    steps = iter(found.steps)
    queues: list[list] = [[] for _ in found.lanes]
    done = False
    while not done:
        moved = False
        for lane, queue in enumerate(queues):
            while queue and not (isinstance(queue[0], Wait) and (queue[0].lane, queue[0].tick.plus) not in told):
                command = queue.pop(0)
                moved = True
                if isinstance(command, Wait):
                    finished[lane] |= told[command.lane, command.tick.plus]
                elif isinstance(command, Signal):
                    told[lane, command.tick.plus] = set(finished[lane])
                else:
                    out.append((id(command), frozenset(finished[lane])))
                    finished[lane].add(id(command))
        if moved:
            continue
        step = next(steps, None)
        if step is None:
            done = True
        elif isinstance(step, Batch):
            finished[step.lane] |= host
            queues[step.lane] += step.commands
        else:
            for wait in step.waits:
                host |= told[wait.lane, wait.tick.plus]
            out.append((id(step.command), frozenset(host)))
            host.add(id(step.command))
    return sorted(out, key=lambda pair: pair[0]) + [frozenset(f) for f in finished]


def test_one_lane_needs_no_waits_and_no_signals() -> None:
    a = Block("cpu", 4096, 64)
    calls = tuple(Call(LANES[0], Exec(f"p{i}", (), (a.span(),), (a.span(),))) for i in range(5))
    found = plan(calls)
    assert found.signals == (0,) and found.waits() == 0
    assert len(found.steps) == 1 and len(found.steps[0].commands) == 5
    assert plan(tuple(calls)) is found


def test_a_wait_that_another_implies_is_not_made() -> None:
    a, b = Block("cpu", 4096, 64), Block("cpu:1", 8192, 64)
    one, two = Lane("cpu"), Lane("cpu:1")
    found = plan(
        (
            Call(one, Exec("make", (), (), (a.span(),))),
            Call(two, Copy(b.span(), a.span())),
            Call(two, Exec("use", (), (b.span(), a.span()), (b.span(),))),
            Call(one, Exec("again", (), (), (a.span(0, 8),))),
        )
    )
    # the copy for make; again for use, which implies the copy
    assert found.waits() == 2
    assert found.signals == (1, 1)


def test_a_device_waits_at_the_end_for_what_others_do_to_its_memory() -> None:
    a, b = Block("cpu", 4096, 64), Block("cpu:1", 8192, 64)
    found = plan((Call(Lane("cpu:1"), Copy(b.span(), a.span())),))
    assert found.lanes == (Lane("cpu:1"), Lane("cpu"))
    assert str(found).splitlines() == [
        "cpu:1/compute:",
        "    WAIT lane=1 tick=tick1",
        "    COPY target=cpu:1:0x2000[0:64] source=cpu:0x1000[0:64]",
        "    SIGNAL lane=0 tick=tick0+1",
        "cpu/compute:",
        "    WAIT lane=0 tick=tick0+1",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_stamped_plan_is_the_plan_with_the_times_around_all_work(seed: int) -> None:
    calls = random_calls(random.Random(seed))
    found = stamped(calls, Sym(Role.INPUT, 9))
    bare = []
    for step in found.plan.steps:
        if isinstance(step, HostCall):
            bare.append(step)
            continue
        commands = step.commands
        for i, command in enumerate(commands):
            if isinstance(command, Exec | Copy):
                number = next(k for k, row in enumerate(found.rows) if row[1] is command)
                before, after = commands[i - 1], commands[i + 1]
                assert isinstance(before, Timestamp) and isinstance(after, Timestamp)
                assert (before.target.address, after.target.address) == (
                    Sym(Role.INPUT, 9, 16 * number),
                    Sym(Role.INPUT, 9, 16 * number + 8),
                )
        rest = tuple(command for command in commands if not isinstance(command, Timestamp))
        bare.append(Batch(step.lane, rest, step.round))
    assert tuple(bare) == plan(calls, BATCH_LIMIT // 3).steps
    work = [call.command for call in calls if isinstance(call.command, Exec | Copy)]
    assert found.nbytes == max(16, 16 * len(work)) and len(found.rows) == len(work)
