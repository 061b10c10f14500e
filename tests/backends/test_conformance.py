"""What every device owes, in one file: commands, time, memory, copies, programs.

Tests are named by the behaviours in docs/hcq2.rst. A new device is entered in `RUNNING` (and in
`QUEUED`, if commands can be planned for it) and is done when this file passes.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrad.backends.cpu.code import load_code
from fgrad.backends.cpu.commands import Loaded as CpuLoaded
from fgrad.backends.cpu.device import CpuDevice
from fgrad.backends.sim.port import Loaded
from fgrad.errors import (
    ArgumentError,
    CallbackFailedError,
    DeviceError,
    DeviceMissingError,
    OutOfMemoryError,
)
from fgrad.hw.command import Barrier, Block, Command, Copy, Exec, Host, Poll, Role, Struct, Sym, Timestamp, Write
from fgrad.hw.device import get_device, kinds, open_devices, reset
from fgrad.hw.libc import words
from fgrad.hw.mock.machine import Context
from fgrad.hw.plan import Call, Lane, plan
from fgrad.hw.pool import Pool, class_bytes
from fgrad.hw.submit import Launch
from fgrad.hw.timeline import Fence
from fgrad.hw.transfer import copy
from fgrad.trace.reference import run_program
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Host as HostCall
from fgrad.uop.program import Program, close, gets
from tests.laws.programs import EVERY, Case, close_to, programs

RUNNING = ["cpu", "cpu:1", "python", "reference", "sim", "sim:1"]  # compute
QUEUED = ["cpu", "cpu:1", "sim", "sim:1"]  # take commands
MEMORY = [*RUNNING, "null"]


@pytest.fixture
def device(request: Any) -> Any:
    found = get_device(request.param)
    yield found
    found.sync()


def on(names: Sequence[str]) -> Any:
    return pytest.mark.parametrize("device", names, indirect=True)


class Bench:
    """Memory of a device, and commands over it."""

    def __init__(self, device: Any, nbytes: int = 256) -> None:
        self.device = device
        self.nbytes = nbytes
        self.address = device.pool.take(nbytes)
        self.block = Block(device.name, self.address, nbytes)
        device.sync()
        for i in range(nbytes // 8):
            words(self.address)[i] = 0

    def launch(self, *commands: Command, queue: str = "compute", **options: Any) -> Launch:
        lane = Lane(self.device.name, queue)
        return Launch(plan(tuple([Call(lane, c) for c in commands])), self.device.machines, "bench", **options)

    def write(self, at: int, value: int | Sym, bits: int = 64) -> Write:
        return Write(self.block.span(at, bits // 8), value, bits)

    def word(self, at: int) -> int:
        return int(words(self.address + at)[0])


@pytest.fixture
def bench(device: Any) -> Any:
    found = Bench(device)
    yield found
    device.sync()
    device.pool.give(found.address, found.nbytes)


def queued(test: Callable[..., None]) -> Callable[..., None]:
    marked: Callable[..., None] = on(QUEUED)(test)
    return marked


# ---- A. commands
@queued
def test_a1_nothing_happens_before_a_submission(bench: Bench) -> None:
    launch = bench.launch(bench.write(0, 5))
    bench.device.sync()
    assert bench.word(0) == 0
    launch()[0].wait()
    assert bench.word(0) == 5


@queued
def test_a2_a_queue_waits_until_at_least_the_value_is_there(bench: Bench) -> None:
    other = get_device({"cpu": "cpu:2", "sim": "sim:2"}[bench.device.name.partition(":")[0]])
    there = Bench(other)
    mine, its = Lane(bench.device.name), Lane(other.name)
    gate = Poll(there.block.span(64, 8), 1)
    calls = (
        Call(its, gate),
        Call(its, there.write(0, 7)),
        Call(mine, Copy(bench.block.span(0, 8), there.block.span(0, 8))),
    )
    fences = Launch(plan(calls), bench.device.machines)()
    assert not any(fence.done() for fence in fences)
    words(there.address + 64)[0] = 1
    for fence in fences:
        fence.wait()
    assert bench.word(0) == 7
    other.sync()
    other.pool.give(there.address, there.nbytes)


@queued
def test_a2_a_wait_for_a_value_that_was_passed_long_ago_is_over(bench: Bench) -> None:
    other = get_device({"cpu": "cpu:2", "sim": "sim:2"}[bench.device.name.partition(":")[0]])
    there = Bench(other)
    mine, its = Lane(bench.device.name), Lane(other.name)
    calls = (
        Call(mine, Poll(bench.block.span(64, 8), 1)),
        Call(its, there.write(0, 7)),
        Call(mine, Copy(bench.block.span(0, 8), there.block.span(0, 8))),
        *[Call(its, there.write(8 + 8 * i, 1)) for i in range(5)],
    )
    fences = dict(zip((found := plan(calls)).lanes, Launch(found, bench.device.machines)(), strict=True))
    newest = Fence(other.timeline, fences[its].tick - 1)  # its last command waits for the copy
    newest.wait()
    words(bench.address + 64)[0] = 1
    fences[mine].wait()
    assert bench.word(0) == 7
    other.sync()
    other.pool.give(there.address, there.nbytes)


@queued
def test_a3_a_fence_is_reached_when_the_writes_before_it_are_visible(bench: Bench) -> None:
    launch = bench.launch(*[bench.write(8 * i, Sym(Role.SCALAR, 0)) for i in range(16)])
    for value in range(20):
        launch(scalars=[value])[0].wait()
        assert [bench.word(8 * i) for i in range(16)] == [value] * 16


@queued
def test_a4_time_stamps_grow_and_fit_the_host_s_time(bench: Bench) -> None:
    stamps = [Timestamp(bench.block.span(8 * i, 8)) for i in (0, 1)]
    start = time.monotonic_ns()
    bench.launch(stamps[0], bench.write(64, 1), stamps[1])()[0].wait()
    took = time.monotonic_ns() - start
    assert 0 < bench.word(8) - bench.word(0) <= max(took, 10_000)


@queued
def test_a5_what_the_host_wrote_is_seen_after_a_barrier(bench: Bench) -> None:
    launch = bench.launch(Barrier(), Copy(bench.block.span(8, 8), bench.block.span(0, 8)))
    for value in range(5):
        words(bench.address)[0] = value
        launch()[0].wait()
        assert bench.word(8) == value


@on(["sim", "sim:1", "cpu"])
def test_a6_programs_get_their_arguments(bench: Bench) -> None:
    device = bench.device
    seen: list[list[int]] = []
    if device.name.startswith("sim"):
        device.port.programs["note"] = Loaded(
            device.machine.add_code("note", lambda context, arguments: seen.append(list(arguments)))
        )
        bench.launch(Exec("note", (bench.block.span(8, 8), 3, Sym(Role.SCALAR, 0))))(scalars=[9])[0].wait()
        assert seen == [[bench.address + 8, 3, 9]]
    with pytest.raises(DeviceError, match="there is no program 'nobody' on"):
        bench.launch(Exec("nobody"))


@queued
@pytest.mark.parametrize("nbytes", [0, 1, 7, 8, 4095, 4096, 4097, (4 << 20) + 13])
def test_a7_copies_of_any_size_are_exact(device: Any, nbytes: int) -> None:
    r = random.Random(nbytes)
    source, target = device.pool.take(nbytes + 16), device.pool.take(nbytes + 16)
    data = np.frombuffer(r.randbytes(nbytes), np.uint8)
    device.sync()
    npy, back = get_device("npy"), np.zeros(nbytes, np.uint8)
    copy(device, source + 3, npy, npy.address(data), nbytes) if nbytes else None
    blocks = [Block(device.name, at, nbytes + 16) for at in (target, source)]
    command = Copy(blocks[0].span(5, nbytes), blocks[1].span(3, nbytes))
    Launch(plan((Call(Lane(device.name), command),)), device.machines)()
    device.sync()
    if nbytes:
        copy(npy, npy.address(back), device, target + 5, nbytes)
    assert back.tobytes() == data.tobytes()
    for address in (source, target):
        device.pool.give(address, nbytes + 16)


@queued
def test_a8_stores_are_as_wide_as_they_say_and_polls_look_under_their_mask(bench: Bench) -> None:
    words(bench.address)[0] = -1
    bench.launch(bench.write(0, 7, 32), bench.write(8, (1 << 64) - 2))()[0].wait()
    assert bench.word(0) == -(1 << 32) + 7 and bench.word(8) == -2
    fence = bench.launch(Poll(bench.block.span(16, 8), 0x20, 0xF0), bench.write(24, 1))()[0]
    words(bench.address + 16)[0] = 0x11
    time.sleep(0.01)
    assert not fence.done()
    words(bench.address + 16)[0] = 0x2F
    fence.wait()
    assert bench.word(24) == 1


@queued
def test_a9_submissions_keep_their_order_and_may_be_repeated(bench: Bench) -> None:
    first, second = bench.launch(bench.write(0, 1)), bench.launch(bench.write(0, 2))
    for _ in range(20):
        first()
        second()
    bench.device.sync()
    assert bench.word(0) == 2


@queued
def test_a9_submitting_does_not_wait(bench: Bench) -> None:
    gate = Poll(bench.block.span(0, 8), 1)
    start = time.monotonic()
    fences = [bench.launch(gate)()[0] for _ in range(10)]
    assert time.monotonic() - start < 5 and not fences[0].done()
    words(bench.address)[0] = 1
    fences[-1].wait()


@queued
def test_a11_only_words_whose_number_changed_are_written(bench: Bench) -> None:
    launch = bench.launch(*[bench.write(8 * i, Sym(Role.SCALAR, i)) for i in range(4)])
    launch(scalars=[1, 2, 3, 4])
    bench.device.sync()
    launch.segments()[0].free[0].instance.rewritten = 0
    launch(scalars=[1, 5, 3, 6])
    bench.device.sync()
    assert launch.segments()[0].free[0].instance.rewritten == 2
    assert [bench.word(8 * i) for i in range(4)] == [1, 5, 3, 6]


@on(["sim", "sim:1"])
def test_a12_a_device_may_have_several_queues(bench: Bench) -> None:
    name = bench.device.name
    calls = []
    for i in range(8):
        at = 16 * i
        calls.append(Call(Lane(name), bench.write(at, i)))
        queue = bench.device.copy_queues[i % 2]
        calls.append(Call(Lane(name, queue), Copy(bench.block.span(at + 8, 8), bench.block.span(at, 8))))
    launch = Launch(plan(tuple(calls)), bench.device.machines)
    assert {lane.queue for lane in launch.plan.lanes} == {"compute", "copy", "copy1"}
    launch()
    bench.device.sync()
    assert [bench.word(16 * i + 8) for i in range(8)] == list(range(8))


@queued
def test_a13_what_a_queue_has_not_is_refused(bench: Bench) -> None:
    with pytest.raises(DeviceError, match="have no queue .*/video"):
        bench.launch(bench.write(0, 1), queue="video")


@queued
def test_g16_the_host_takes_its_turn_between_commands(bench: Bench) -> None:
    def double() -> None:
        words(bench.address)[0] *= 2

    span = bench.block.span(0, 8)
    launch = bench.launch(
        bench.write(0, 21), Host("double", (span,), (span,)), Copy(bench.block.span(8, 8), span),
        functions={"double": double},
    )  # fmt: skip
    launch()
    bench.device.sync()
    assert bench.word(8) == 42


@queued
def test_g15_structures_are_arguments_by_their_address(bench: Bench) -> None:
    device, name = bench.device, bench.device.name
    inner = Struct(((2, 7), (8, Sym(Role.SCALAR, 0))))
    outer = Struct(((4, 5), inner, (8, inner), (8, bench.block.span(64, 8))))
    if name.startswith("sim"):

        def sums(context: Context, arguments: Sequence[int]) -> None:
            at = arguments[0]
            context.read(at, 48)
            pointed = words(at + 24)[0]
            context.read(pointed, 16)
            target = words(at + 32)[0]
            context.write(target, 8)
            words(target)[0] = words(at + 16)[0] + words(pointed + 8)[0]

        device.port.programs["sums"] = Loaded(device.machine.add_code("sums", sums))
    else:
        code = load_code(SUMS, level=2)
        device.port.programs["sums"] = CpuLoaded(code.addresses["sums"], keep=code)
    launch = bench.launch(Exec("sums", (outer,), (), (bench.block.span(64, 8),)))
    for value in (11, 12):
        launch(scalars=[value])
        device.sync()
        assert bench.word(64) == 2 * value


@queued
def test_f3_queues_of_a_gated_launch_begin_when_all_is_submitted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, machines = bench.device, bench.device.machines
    other = get_device({"cpu": "cpu:2", "sim": "sim:2"}[device.name.partition(":")[0]])
    there = Bench(other, 64)
    value = Sym(Role.SCALAR, 0)
    calls = (
        Call(Lane(device.name), bench.write(0, value)),
        Call(Lane(other.name), there.write(0, value)),
        Call(Lane(other.name), Copy(there.block.span(8, 8), bench.block.span(0, 8))),
    )
    launch, push = Launch(plan(calls), machines, gated=True), machines.push
    seen: list[tuple[int, int]] = []

    def slow_push(records: int, count: int) -> int:
        taken = push(records, count)
        time.sleep(0.01)
        for _ in range(50 if device.name.startswith("sim") else 0):
            device.machine.step()
        seen.append((bench.word(0), there.word(0)))
        return int(taken)

    monkeypatch.setattr(machines, "push", slow_push)
    for i in range(1, 4):
        launch(scalars=[i])
        device.sync()
        other.sync()
        assert (bench.word(0), there.word(0), there.word(8)) == (i, i, i)
    assert seen == [(0, 0), (1, 1), (2, 2)], "nothing began before the gate was opened"
    other.pool.give(there.address, 64)


SUMS = """
define void @sums(ptr %t) nounwind {
  %sp = getelementptr ptr, ptr %t, i64 5
  %s = load ptr, ptr %sp
  %ap = getelementptr i8, ptr %s, i64 16
  %a = load i64, ptr %ap
  %pp = getelementptr i8, ptr %s, i64 24
  %p = load ptr, ptr %pp
  %bp = getelementptr i8, ptr %p, i64 8
  %b = load i64, ptr %bp
  %yp = getelementptr i8, ptr %s, i64 32
  %y = load ptr, ptr %yp
  %c = add i64 %a, %b
  store i64 %c, ptr %y
  ret void
}
"""


@queued
@pytest.mark.parametrize("seed", range(6))
def test_g4_random_programs_over_two_devices_equal_their_model(device: Any, seed: int) -> None:
    r = random.Random(seed)
    other = get_device({"cpu": "cpu:2", "sim": "sim:2"}[device.name.partition(":")[0]])
    benches = [Bench(device, 64), Bench(device, 64), Bench(other, 64)]
    model = {bench.address: bytearray(64) for bench in benches}
    calls = []
    for _ in range(40):
        y, x = r.sample(benches, 2)
        lane = Lane(r.choice((device, other)).name)
        if r.random() < 0.4:
            at, value = 8 * r.randrange(8), r.getrandbits(60)
            calls.append(Call(lane, y.write(at, value)))
            model[y.address][at : at + 8] = value.to_bytes(8, "little")
        else:
            n = r.randrange(1, 30)
            to, of = r.randrange(64 - n), r.randrange(64 - n)
            calls.append(Call(lane, Copy(y.block.span(to, n), x.block.span(of, n))))
            model[y.address][to : to + n] = model[x.address][of : of + n]
    Launch(plan(tuple(calls)), device.machines)()
    device.sync()
    other.sync()
    for bench in benches:
        got = b"".join(bench.word(8 * i).to_bytes(8, "little", signed=True) for i in range(8))
        assert got == bytes(model[bench.address])
        bench.device.pool.give(bench.address, 64)


# ---- B. time
@queued
def test_b3_ticks_grow_and_a_fence_is_done_once_and_for_ever(bench: Bench) -> None:
    timeline = bench.device.timeline
    launch = bench.launch(bench.write(0, 1))
    ticks = [launch()[0].tick for _ in range(5)]
    assert ticks == sorted(set(ticks))
    fence = Fence(timeline, ticks[-1])
    fence.wait()
    assert fence.done() and timeline.completed() >= ticks[-1] and timeline.issued() >= timeline.completed()
    assert Fence(timeline, 0).done() and fence.error() is None


@queued
def test_b5_a_tick_that_was_never_given_out_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="never gave out tick"):
        Fence(bench.device.timeline, bench.device.timeline.issued() + 1).wait()


@on(MEMORY)
def test_b7_waiting_for_nothing_returns(device: Any) -> None:
    for _ in range(3):
        device.sync()
    reset(device.name)
    device.sync()


# ---- C. memory
@on(MEMORY)
def test_c1_blocks_are_aligned_and_do_not_overlap(device: Any) -> None:
    sizes = [1, 63, 64, 65, 1000, 4096, 70_000, 1 << 20] * 3
    blocks = [(device.pool.take(n), n) for n in sizes]
    for address, n in blocks:
        assert address % 64 == 0 and class_bytes(n) >= n
    blocks.sort()
    for (a, n), (after, _) in zip(blocks, blocks[1:], strict=False):
        assert a + n <= after
    for address, n in blocks:
        device.pool.give(address, n)


@on(MEMORY)
def test_c8_bytes_in_use_return_to_what_they_were(device: Any) -> None:
    device.sync()
    before = device.pool.statistics()
    blocks = [device.pool.take(100_000) for _ in range(4)]
    during = device.pool.statistics()
    assert during.in_use >= before.in_use + 400_000 and during.peak >= during.mapped >= during.in_use
    for address in blocks:
        device.pool.give(address, 100_000)
    device.sync()
    assert device.pool.statistics().in_use == before.in_use


@on(MEMORY)
def test_c7_a_device_without_memory_says_how_much_it_wanted(device: Any) -> None:
    with pytest.raises(OutOfMemoryError, match=f"{device.name}: the system has no [0-9]+ bytes; [0-9]+ are in use"):
        device.pool.take(1 << 60)
    address = device.pool.take(64)
    device.pool.give(address, 64)


@on(MEMORY)
def test_c8_each_device_has_a_pool_of_its_own(device: Any) -> None:
    assert device.pool.name == device.name
    assert all(other.pool is not device.pool for other in open_devices() if other is not device)


@on(MEMORY)
def test_c7_trimming_leaves_what_is_in_use(device: Any) -> None:
    kept, gone = device.pool.take(1 << 20), device.pool.take(1 << 20)
    words(kept)[0] = 11
    device.pool.give(gone, 1 << 20)
    device.sync()
    device.pool.trim()
    assert words(kept)[0] == 11
    device.pool.give(kept, 1 << 20)


@queued
def test_c9_memory_freed_behind_queued_work_is_not_touched_before(bench: Bench) -> None:
    device = bench.device
    source = device.pool.take(1 << 20)
    words(source)[0] = 33
    block = Block(device.name, source, 1 << 20)
    gate = Poll(bench.block.span(8, 8), 1)
    fence = bench.launch(gate, Copy(bench.block.span(0, 8), block.span(0, 8)))()[0]
    device.pool.give(source, 1 << 20)
    again = device.pool.take(1 << 20)  # its next user comes behind, if it is the same memory
    target = Block(device.name, again, 1 << 20)
    last = bench.launch(Write(target.span(0, 8), 44))()[0]
    words(bench.address + 8)[0] = 1
    fence.wait()
    last.wait()
    assert bench.word(0) == 33 and words(again)[0] == 44
    device.pool.give(again, 1 << 20)


def test_c8_a_new_pool_holds_nothing() -> None:
    assert Pool("x").statistics().mapped == 0


# ---- D. copies
@pytest.mark.parametrize("source", [*RUNNING, "npy"])
@pytest.mark.parametrize("target", [*RUNNING, "npy"])
def test_d6_copies_between_any_two_devices_are_exact(target: str, source: str) -> None:
    r = random.Random(f"{target} {source}")
    devices = get_device(target), get_device(source)
    for nbytes in (0, 1, 4097, (1 << 20) + 7):
        data = np.frombuffer(r.randbytes(nbytes + 1), np.uint8)
        host, npy = np.zeros(nbytes + 1, np.uint8), get_device("npy")
        of = npy.address(data) if source == "npy" else devices[1].pool.take(nbytes + 1)
        to = npy.address(host) if target == "npy" else devices[0].pool.take(nbytes + 1)
        if source != "npy":
            copy(devices[1], of, npy, npy.address(data), nbytes + 1)
        copy(devices[0], to, devices[1], of, nbytes).wait()
        if target != "npy":
            copy(npy, npy.address(host), devices[0], to, nbytes)
        assert host[:nbytes].tobytes() == data[:nbytes].tobytes()
        for name, device, address in ((target, devices[0], to), (source, devices[1], of)):
            if name != "npy":
                device.sync()
                device.pool.give(address, nbytes + 1)


# ---- E. programs
def run(device: Any, program: Program, arrays: Sequence[Any], **options: Any) -> list[np.ndarray[Any, Any]]:
    """Compile and run in memory of the device; copies go by the commands of copying."""
    inline, donated = options.get("inline", frozenset()), options.get("donated", frozenset())
    executable = device.compile(program, inline, donated, "test")
    npy = get_device("npy")
    ins = [np.array(np.asarray(x, p.dtype.np), order="C") for x, p in zip(arrays, program.params, strict=True)]
    held, table = [], []

    def take(nbytes: int) -> int:
        held.append((device.pool.take(nbytes), nbytes))
        return held[-1][0]

    for i, x in enumerate(ins):
        if i in inline:
            table.append(int.from_bytes(x.tobytes(), "little"))
            continue
        table.append(take(x.nbytes))
        if x.nbytes:
            flat = x.reshape(-1).view(np.uint8)
            copy(device, table[-1], npy, npy.address(flat), x.nbytes)
    sizes = [o.size * o.dtype.itemsize for o in program.outs]
    for j, nbytes in enumerate(sizes):
        table.append(table[executable.aliases[j]] if j in executable.aliases else take(nbytes))
    executable.call(table)
    device.sync()
    outs = []
    for o, address, nbytes in zip(program.outs, table[len(ins) :], sizes, strict=True):
        flat = np.zeros(nbytes, np.uint8)
        if nbytes:
            copy(npy, npy.address(flat), device, address, nbytes)
        outs.append(flat.view(o.dtype.np).reshape(o.shape))
    for address, nbytes in held:
        device.pool.give(address, nbytes)
    return outs


def program_of(f: Callable[..., Any], *avals: Any) -> Program:
    params = [open_param(d, s) for d, s in avals]
    return close(params, list(f(*params)))


@pytest.mark.parametrize("name", RUNNING)
@settings(max_examples=12)
@given(programs(max_nodes=12, dtypes=EVERY), st.booleans())
def test_i2_random_programs_have_the_reference_s_values(name: str, case: Case, donates: bool) -> None:
    program, arrays = case
    donated = frozenset(range(len(program.params))) if donates else frozenset()
    got = run(get_device(name), program, arrays, donated=donated)
    want = run_program(program, [np.asarray(x, p.dtype.np) for x, p in zip(arrays, program.params, strict=True)])
    for g, w in zip(got, want, strict=True):
        close_to(g, w)


@on(RUNNING)
def test_e3_scalars_may_stand_in_the_table(device: Any) -> None:
    scale = (dt.float32, ())
    program = program_of(lambda x, s: [b.mul(x, b.expand(s, [(0, 4)]))], (dt.float32, (4,)), scale)
    got = run(device, program, [np.arange(4), np.float32(2.5)], inline=frozenset({1}))
    np.testing.assert_array_equal(got[0], np.arange(4) * np.float32(2.5))


@on(RUNNING)
def test_e4_arrays_without_elements_are_arrays(device: Any) -> None:
    program = program_of(lambda x: [b.add(x, x)], (dt.float32, (0, 3)))
    assert run(device, program, [np.zeros((0, 3))])[0].shape == (0, 3)


@on(RUNNING)
def test_e4_results_are_those_of_the_call_whatever_comes_behind(device: Any) -> None:
    program = program_of(lambda x: [b.add(b.mul(x, x), x)], (dt.float32, (50,)))
    for k in range(10):
        got = run(device, program, [np.full(50, k)])
        assert (got[0] == k * k + k).all()


def calling(function: Callable[..., Any]) -> Program:
    aval = Aval(dt.float32, (3,))
    host = HostCall(function, (aval,), name="function")
    x = open_param(dt.float32, (3,))
    return close([x], [b.add(gets(uop(Op.HOST, (x,), host))[0], x)])


@on(RUNNING)
def test_g16_python_is_called_in_its_place(device: Any) -> None:
    got = run(device, calling(lambda x: [np.asarray(x) * 10]), [np.arange(3)])
    np.testing.assert_array_equal(got[0], np.arange(3) * 11)


@on([name for name in RUNNING if name != "reference"])
def test_g16_what_a_callback_raises_is_raised_once_and_the_device_stays_well(device: Any) -> None:
    def raises(x: Any) -> Any:
        raise KeyError("no such key")

    with pytest.raises(CallbackFailedError, match="raised KeyError") as caught:
        run(device, calling(raises), [np.arange(3)])
    assert isinstance(caught.value.__cause__, KeyError)
    device.sync()
    np.testing.assert_array_equal(run(device, calling(lambda x: [x]), [np.ones(3)])[0], np.full(3, 2.0))


@on(MEMORY)
def test_e6_a_wrong_number_of_words_is_refused(device: Any) -> None:
    program = program_of(lambda x: [b.add(x, x)], (dt.float32, (4,)))
    executable = device.compile(program, frozenset(), frozenset(), "sum")
    with pytest.raises(DeviceError, match="sum takes .*, got 1"):
        executable.call([0])


@on([name for name in MEMORY if name != "reference"])
def test_e1_stages_are_text_and_unknown_ones_are_refused(device: Any) -> None:
    program = program_of(lambda x: [b.mul(x, x)], (dt.float32, (4,)))
    executable = device.compile(program, frozenset(), frozenset(), "square")
    for stage in ("kernels", "llvm", "commands"):
        assert executable.text(stage).strip()
    with pytest.raises((NotImplementedError, ValueError), match="choose kernels, llvm"):
        executable.text("nonsense")


@on(["null"])
def test_i1_the_null_device_counts_and_refuses_to_be_read(device: Any) -> None:
    program = program_of(lambda x: [b.mul(x, x)], (dt.float32, (4,)))
    before = device.counts.programs, device.now_ns
    device.compile(program, frozenset(), frozenset(), "square").call([0, 0])
    assert device.counts.programs == before[0] + 1 and device.now_ns > before[1]
    with pytest.raises(DeviceError, match="nothing to read back"):
        device.check_readable()


# ---- the registry
def test_i15_devices_are_opened_once_by_any_spelling() -> None:
    assert get_device("CPU") is get_device("cpu") is get_device("cpu:0")
    assert isinstance(get_device("cpu:1"), CpuDevice)
    assert get_device("cpu:1") is not get_device("cpu")
    assert {"cpu", "disk", "npy", "null", "python", "reference", "sim"} <= set(kinds())
    wrong = [("gpu", "known kinds: .*cpu"), ("cpu:x", "write the index as a number"), ("cpu:99", "cpu:63")]
    for name, message in wrong:
        with pytest.raises(DeviceMissingError, match=message):
            get_device(name)


@pytest.mark.parametrize("name", ["disk", "npy"])
def test_i4_devices_that_only_store_say_so(name: str) -> None:
    device = get_device(name)
    with pytest.raises(DeviceError, match=f"arrays are not made on {name}"):
        device.pool.free_list(8)
    with pytest.raises(DeviceError, match="runs no programs"):
        device.compile(calling(lambda x: [x]), frozenset(), frozenset(), "f")
    device.sync()
    device.check_readable()
    with pytest.raises(ArgumentError, match="not row-major"):
        get_device("npy").address(np.zeros((3, 3)).T[::2])
