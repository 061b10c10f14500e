"""The SIM device: random programs over four devices equal their sequential model, whatever the seed;
races, faults and lost devices are found and named."""

import random
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrad.backends.sim.device import SimDevice
from fgrad.backends.sim.port import Loaded
from fgrad.errors import (
    BadAccessError,
    CallbackFailedError,
    CancelledError,
    DeviceError,
    DeviceHangError,
    DeviceLostError,
    OrderingError,
)
from fgrad.hw.command import Block, Command, Copy, Exec, Poll, Role, Sym, Timestamp, Wait, Write
from fgrad.hw.device import get_device, reset
from fgrad.hw.libc import ffi, words
from fgrad.hw.mock.faults import Faults
from fgrad.hw.mock.machine import Context
from fgrad.hw.plan import Batch, Call, Lane, Plan, plan
from fgrad.hw.submit import Launch
from fgrad.hw.transfer import copy
from fgrad.trace.reference import run_program
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import open_param
from fgrad.uop.program import Program, close
from tests.laws.programs import EVERY, Case, close_to, programs

NAMES = ["sim", "sim:1", "sim:2", "sim:3"]
SIZE = 64  # bytes of a block


@pytest.fixture
def devices() -> Iterator[list[SimDevice]]:
    """Four devices at rest, before and after."""
    found = [get_device(name) for name in NAMES]
    yield found
    for device in found:
        device.machine.restart()
        device.reset()
        for port in device.ports.values():
            port.timeline.stall = 30_000.0


def mix(context: Context, arguments: Sequence[int]) -> None:
    """Each word of y becomes 3 y + x + 1."""
    y, x, nbytes = arguments
    context.read(x, nbytes)
    context.read(y, nbytes)
    context.write(y, nbytes)
    for i in range(nbytes // 8):
        words(y)[i] = (words(y)[i] * 3 + words(x)[i] + 1) % 1_000_003


class Memory:
    """Blocks of devices, filled at random, and what they should hold."""

    def __init__(self, devices: list[SimDevice], r: random.Random, each: int = 2) -> None:
        self.devices = devices
        self.blocks: list[Block] = []
        self.model: dict[int, bytearray] = {}
        for device in devices:
            for _ in range(each):
                address = device.pool.take(SIZE)
                values = np.array([r.randrange(1000) for _ in range(SIZE // 8)])
                ffi.memmove(ffi.cast("char*", address), values.tobytes(), SIZE)
                self.blocks.append(Block(device.name, address, SIZE))
                self.model[address] = bytearray(values.tobytes())

    def got(self) -> dict[int, bytes]:
        return {b: bytes(ffi.buffer(ffi.cast("char*", b), SIZE)) for b in self.model}

    def run_model(self, calls: Sequence[Call]) -> None:
        for call in calls:
            match call.command:
                case Copy(target, source):
                    data = self.model[source.block.base][source.offset : source.offset + source.length]
                    self.model[target.block.base][target.offset : target.offset + target.length] = data
                case Write(target, value):
                    self.model[target.block.base][target.offset : target.offset + 8] = value.to_bytes(8, "little")
                case Exec(_, (y, x, nbytes)):
                    a = np.frombuffer(self.model[y.block.base], np.int64)[y.offset // 8 :][: nbytes // 8]
                    b = np.frombuffer(self.model[x.block.base], np.int64)[x.offset // 8 :][: nbytes // 8]
                    a[:] = (a * 3 + b + 1) % 1_000_003

    def free(self) -> None:
        for block in self.blocks:
            next(d for d in self.devices if d.name == block.device).pool.give(block.base, SIZE)

    def random_calls(self, r: random.Random, count: int) -> tuple[Call, ...]:
        calls = []
        for _ in range(count):
            y, x = r.sample(self.blocks, 2)
            n = 8 * r.randrange(1, 5)
            to, of = [8 * r.randrange((SIZE - n) // 8 + 1) for _ in range(2)]
            command: Command
            queue = "compute"
            kind = r.randrange(4)
            if kind == 0:
                command = Write(y.span(to, 8), r.randrange(1000))
            elif kind == 1:
                a, b = y.span(to, n), x.span(of, n)
                command = Exec("mix", (a, b, n), (a, b), (a,))
            else:
                command = Copy(y.span(to, n), x.span(of, n))
                queue = r.choice(("compute", "copy", "copy1"))
            calls.append(Call(Lane(r.choice(NAMES), queue), command))
        return tuple(calls)


def load_mix(devices: list[SimDevice]) -> None:
    code = devices[0].machine.add_code("mix", mix)
    for device in devices:
        device.port.programs["mix"] = Loaded(code)


def sync_all(devices: list[SimDevice]) -> None:
    for device in devices:
        device.sync()


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_over_four_devices_equal_the_sequential_model(seed: int, devices: list[SimDevice]) -> None:
    r = random.Random(seed)
    devices[0].machine.restart(seed)
    load_mix(devices)
    memory = Memory(devices, r)
    for _ in range(3):
        calls = memory.random_calls(r, r.randrange(2, 40))
        limit, gated = r.choice((4, 16, 64)), r.random() < 0.5
        launch = Launch(plan(calls, batch_limit=limit), devices[0].machines, gated=gated)
        for _ in range(r.randrange(1, 4)):  # several in flight at once
            launch()
            memory.run_model(calls)
    sync_all(devices)
    assert memory.got() == memory.model
    memory.free()


def without_wait(found: Plan, r: random.Random) -> Plan | None:
    """The same plan with one wait for another call's signal left out."""
    places = [
        (i, j)
        for i, step in enumerate(found.steps)
        if isinstance(step, Batch)
        for j, command in enumerate(step.commands)
        if isinstance(command, Wait) and command.tick.plus
        and not all(isinstance(later, Wait) for later in step.commands[j:])  # one at the end is for who comes next
    ]
    if not places:
        return None
    i, j = r.choice(places)
    step = found.steps[i]
    assert isinstance(step, Batch)
    shorter = Batch(step.lane, step.commands[:j] + step.commands[j + 1 :], step.round)
    return Plan(found.lanes, (*found.steps[:i], shorter, *found.steps[i + 1 :]), found.signals)


def test_a_plan_with_a_wait_less_is_a_race(devices: list[SimDevice]) -> None:
    found = tried = 0
    for seed in range(30):
        r = random.Random(seed)
        devices[0].machine.restart(seed)
        load_mix(devices)
        memory = Memory(devices, r)
        broken = without_wait(plan(memory.random_calls(r, 20)), r)
        if broken is not None:
            tried += 1
            Launch(broken, devices[0].machines)()
            try:
                sync_all(devices)
            except DeviceLostError as error:
                assert isinstance(error.__cause__, OrderingError) or "a race" in str(error)
                found += 1
        for device in devices:
            device.reset()
        memory.free()
    assert found == tried > 15


def compiled(program: Program, **options: Any) -> tuple[SimDevice, Any]:
    device = get_device("sim")
    inline, donated = options.get("inline", frozenset()), options.get("donated", frozenset())
    return device, device.compile(program, inline, donated, "test")


def run(program: Program, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Run on the device, in memory of its own that must be neither missed nor exceeded."""
    device, executable = compiled(program)
    ins = [np.asarray(x, p.dtype.np) for x, p in zip(arrays, program.params, strict=True)]
    sizes = [max(x.nbytes, 1) for x in ins] + [max(o.size * o.dtype.itemsize, 1) for o in program.outs]
    addresses = [device.pool.take(n) for n in sizes]
    for x, address in zip(ins, addresses, strict=False):
        ffi.memmove(ffi.cast("char*", address), x.tobytes(), x.nbytes)
    executable.call(addresses)
    device.sync()
    outs = []
    for o, address in zip(program.outs, addresses[len(ins) :], strict=True):
        data = bytes(ffi.buffer(ffi.cast("char*", address), o.size * o.dtype.itemsize))
        outs.append(np.frombuffer(data, o.dtype.np).reshape(o.shape))
    for n, address in zip(sizes, addresses, strict=True):
        device.pool.give(address, n)
    device.pool.settle()
    return outs


@settings(max_examples=40)
@given(programs(max_nodes=14, dtypes=EVERY), st.integers(0, 1000))
def test_random_traced_programs_have_the_reference_s_values(case: Case, seed: int) -> None:
    program, arrays = case
    get_device("sim").machine.restart(seed)
    got = run(program, arrays)
    want = run_program(program, [np.asarray(x, p.dtype.np) for x, p in zip(arrays, program.params, strict=True)])
    for g, w in zip(got, want, strict=True):
        close_to(g, w)


def test_all_memory_goes_back(devices: list[SimDevice]) -> None:
    device = devices[1]
    before = device.pool.statistics().in_use
    address = device.pool.take(1000)
    assert device.pool.statistics().in_use > before
    device.pool.give(address, 1000)
    assert device.pool.statistics().in_use == before
    with pytest.raises(BadAccessError, match="where nothing is mapped"):
        device.machine.map.check(address, 8, is_write=False, what="late")


def test_memory_freed_in_flight_lives_until_its_work_is_done(devices: list[SimDevice]) -> None:
    a, b = devices[0], devices[1]
    big = 1 << 21  # copied by commands
    x, y = a.pool.take(big), b.pool.take(big)
    words(x)[0] = 77
    copy(b, y, a, x, big)
    a.pool.give(x, big)
    assert len([r for r in a.machine.map._bases if r == x]) == 1, "still mapped"
    sync_all(devices)
    assert words(y)[0] == 77
    a.pool.settle()
    assert x not in a.machine.map._bases
    b.pool.give(y, big)


def one_write(device: SimDevice, value: int | Sym = 1, extra: Sequence[Command] = ()) -> tuple[Launch, int]:
    address = device.pool.take(64)
    words(address)[0] = words(address)[1] = 0
    block = Block(device.name, address, 64)
    calls = [Call(Lane(device.name), c) for c in (*extra, Write(block.span(0, 8), value))]
    return Launch(plan(tuple(calls)), device.machines, "one write"), address


@pytest.mark.parametrize("k", range(12))
def test_a_device_lost_at_packet_k_fails_its_fences_and_no_other_device(k: int, devices: list[SimDevice]) -> None:
    device, other = devices[0], devices[1]
    launch, address = one_write(device)
    device.machine.restart(k, Faults(fault_at=k))
    fences = [launch()[0] for _ in range(4)]
    finished = 0
    for fence in fences:
        try:
            fence.wait()
            finished += 1
        except DeviceLostError as error:
            assert re.search(r"sim/compute is lost, at \d+ of \d+: .* faulted", str(error))
    assert finished in (k // 3, (k - 1) // 3), "the end of the ring may cost a packet"
    for _ in range(2):
        with pytest.raises(DeviceLostError):
            device.sync()
    device.machine.restart()
    fine, where = one_write(other, 5)
    fine()[0].wait()
    assert words(where)[0] == 5
    reset("sim")
    for i, fence in enumerate(fences):
        error = fence.error()
        assert fence.done() and (error is None) == (i < finished)
        assert error is None or "was given up when sim was reset" in str(error)
    again, where = one_write(device, 6)
    again()[0].wait()
    device.sync()
    assert words(where)[0] == 6


def test_who_waits_for_a_lost_device_is_told(devices: list[SimDevice]) -> None:
    a, b = devices[0], devices[1]
    big = 1 << 21
    x, y = a.pool.take(big), b.pool.take(big)
    launch, _ = one_write(a)
    a.machine.restart(0, Faults(fault_at=0))
    launch()
    copy(b, y, a, x, big)
    with pytest.raises(DeviceLostError):
        a.sync()
    with pytest.raises(DeviceLostError, match="sim:1/compute waits for sim/compute, which is lost"):
        b.sync()
    reset("sim")
    b.sync()


def test_a_hang_names_what_was_waited_for_and_what_was_seen(devices: list[SimDevice]) -> None:
    device = devices[0]
    device.timeline.stall = 30.0
    address = device.pool.take(64)
    words(address)[0] = 3
    launch, _ = one_write(device, 1, [Poll(Block("sim", address, 64).span(0, 8), 4)])
    fence = launch()[0]
    with pytest.raises(DeviceHangError, match=f"the word at {address:#x} under 0xf+ to be 0x4; it is 0x3"):
        fence.wait()
    with pytest.raises(DeviceLostError, match="it hung"):
        device.sync()
    reset("sim")
    device.sync()


def test_dropped_late_and_stuck(devices: list[SimDevice]) -> None:
    device = devices[0]
    device.timeline.stall = 30.0
    launch, address = one_write(device)
    device.machine.restart(0, Faults(dropped_doorbells=frozenset({0})))
    with pytest.raises(DeviceHangError, match=r"sim/compute was rung up to word \d+ of \d+"):
        launch()[0].wait()
    reset("sim")
    device.machine.restart(0, Faults(late_doorbells={0: 50}))
    words(address)[0] = 0
    launch()[0].wait()
    assert words(address)[0] == 1
    device.machine.restart(0, Faults(stuck_waits=frozenset({0})))
    big = 1 << 21
    x, y = devices[1].pool.take(big), device.pool.take(big)
    copy(device, y, devices[1], x, big)
    with pytest.raises(DeviceHangError, match=r"waits for sim(:1)?/\w+ to reach \d+; it is at \d+"):
        device.sync()


def test_a_poll_lets_the_host_release_a_queue(devices: list[SimDevice]) -> None:
    device = devices[0]
    flag = device.pool.take(64)
    words(flag)[0] = 0
    block = Block("sim", flag, 64)
    launch, address = one_write(device, 9, [Poll(block.span(0, 8), 1, 1), Timestamp(block.span(8, 8))])
    fence = launch()[0]
    for _ in range(20):
        device.machine.step()
    assert not fence.done() and words(address)[0] == 0
    words(flag)[0] = 3
    fence.wait()
    assert words(address)[0] == 9 and 0 < words(flag)[1] <= device.machine.now_ns


def test_queues_say_what_they_cannot_do(devices: list[SimDevice]) -> None:
    device = devices[0]
    with pytest.raises(DeviceError, match="there is no program 'nobody' on sim/compute"):
        device.port.encode(Exec("nobody"))
    device.port.programs["mix"] = device.ports["copy"].programs["mix"] = Loaded(1)
    with pytest.raises(DeviceError, match="sim/copy copies, and cannot do EXEC mix; use the compute queue"):
        device.ports["copy"].encode(Exec("mix"))
    with pytest.raises(DeviceError, match="SIM devices have no queue sim/video"):
        device.machines.port(Lane("sim", "video"))
    with pytest.raises(DeviceError, match="more than the ring of sim/compute holds"):
        device.port.has_room(1000)


def test_a_full_ring_makes_the_submitter_wait(devices: list[SimDevice]) -> None:
    device = devices[0]
    launch, address = one_write(device, Sym(Role.SCALAR, 0))
    for i in range(1000):
        launch(scalars=[i])
    device.sync()
    assert words(address)[0] == 999


def test_only_words_that_change_are_written_anew(devices: list[SimDevice]) -> None:
    device = devices[0]
    launch, address = one_write(device, Sym(Role.SCALAR, 0))
    launch(scalars=[1])[0].wait()
    device.sync()
    copy_of = launch.segments()[0].copy()  # nothing runs: the only copy there is
    instance = copy_of.instance
    before = instance.rewritten
    r = random.Random(1)
    changes, old = 0, 1
    for _ in range(200):
        value = r.randrange(3)
        instance.fill([value])
        changes += value != old
        old = value
    assert instance.rewritten - before == changes
    assert address


def test_failed_callbacks_fail_the_next_wait_and_leave_the_device_well(devices: list[SimDevice]) -> None:
    device = devices[0]

    def raises(context: Context, arguments: Sequence[int]) -> None:
        context.processor.report(CallbackFailedError("it raised"))

    device.port.programs["raises"] = Loaded(device.machine.add_code("raises", raises))
    launch, address = one_write(device, 4, [Exec("raises")])
    fence = launch()[0]
    with pytest.raises(CallbackFailedError, match="it raised"):
        device.sync()
    assert fence.done() and words(address)[0] == 4
    device.sync()


def test_what_ctrl_c_interrupts_is_not_done_twice_and_fails(devices: list[SimDevice]) -> None:
    device = devices[0]
    runs: list[int] = []

    def interrupted(context: Context, arguments: Sequence[int]) -> None:
        runs.append(1)
        raise KeyboardInterrupt

    device.port.programs["slow"] = Loaded(device.machine.add_code("slow", interrupted))
    launch, address = one_write(device, 4, [Exec("slow")])
    launch()
    with pytest.raises(KeyboardInterrupt):
        device.sync()
    with pytest.raises(CancelledError, match="EXEC was interrupted by KeyboardInterrupt"):
        device.sync()
    assert runs == [1] and words(address)[0] == 4
    device.sync()
    again, where = one_write(device, 6)
    again()[0].wait()
    assert words(where)[0] == 6


def test_a_program_that_waits_for_its_own_queue_is_refused(devices: list[SimDevice]) -> None:
    device = devices[0]
    seen: list[str] = []

    def waits(context: Context, arguments: Sequence[int]) -> None:
        with pytest.raises(DeviceError) as caught:
            device.sync()
        seen.append(str(caught.value))

    device.port.programs["waits"] = Loaded(device.machine.add_code("waits", waits))
    launch, _ = one_write(device, 4, [Exec("waits")])
    launch()[0].wait()
    assert "a callback waits for work of sim/compute queued behind the program that called it" in seen[0]


def test_a_program_may_wait_for_a_thread_that_uses_other_devices(devices: list[SimDevice]) -> None:
    device, other = devices[0], devices[1]
    launch, address = one_write(other, 7)

    def delegates(context: Context, arguments: Sequence[int]) -> None:
        thread = threading.Thread(target=lambda: launch()[0].wait())
        thread.start()
        thread.join(30)
        with pytest.raises(DeviceLostError, match="sim cannot be reset: it is inside a program"):
            device.reset()

    device.port.programs["delegates"] = Loaded(device.machine.add_code("delegates", delegates))
    mine, _ = one_write(device, 4, [Exec("delegates")])
    mine()[0].wait()
    assert words(address)[0] == 7


def test_stages_are_readable() -> None:
    device, executable = compiled(_square())
    assert "EXEC 0:" in executable.text("commands") and "EXEC" in executable.text("packets")
    assert executable.text("kernels") and "define" in executable.text("llvm")
    with pytest.raises(NotImplementedError, match="choose kernels, llvm, commands or packets"):
        executable.text("asm")
    with pytest.raises(DeviceError, match="takes 1 parameters and 1 outputs, got 1 words"):
        executable.call([1])
    assert device.name == "sim"


def _square() -> Program:
    x = open_param(dt.float32, (4,))
    return close([x], [b.mul(x, x)])
