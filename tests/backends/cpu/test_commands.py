"""Commands and launches on real queues of several CPU devices."""

import random
import threading
import time

import numpy as np
import pytest

from fgrad.backends.cpu.code import Code, load_code
from fgrad.backends.cpu.commands import Loaded
from fgrad.backends.cpu.device import CpuDevice
from fgrad.backends.cpu.port import machines
from fgrad.errors import CallbackFailedError, CancelledError, DeviceError
from fgrad.hw.command import (
    Barrier,
    Block,
    Copy,
    Exec,
    Host,
    Poll,
    Role,
    Sym,
    Timestamp,
    Wait,
    Write,
)
from fgrad.hw.device import get_device
from fgrad.hw.libc import ffi, raw_block, words
from fgrad.hw.plan import Call, Lane, plan
from fgrad.hw.submit import Launch
from fgrad.hw.transfer import copy

LANES = [Lane("cpu"), Lane("cpu:1"), Lane("cpu:2")]
PROGRAMS = """
; for each of the n words of y: y = 3 y + x + 1
define void @mix(ptr %t) nounwind {
  %yp = getelementptr ptr, ptr %t, i64 5
  %y = load ptr, ptr %yp
  %xp = getelementptr ptr, ptr %t, i64 6
  %x = load ptr, ptr %xp
  %np = getelementptr i64, ptr %t, i64 7
  %n = load i64, ptr %np
  br label %l
l:
  %i = phi i64 [0, %0], [%j, %l]
  %yi = getelementptr i64, ptr %y, i64 %i
  %xi = getelementptr i64, ptr %x, i64 %i
  %a = load i64, ptr %yi
  %b = load i64, ptr %xi
  %c = mul i64 %a, 3
  %d = add i64 %c, %b
  %e = add i64 %d, 1
  store i64 %e, ptr %yi
  %j = add i64 %i, 1
  %m = icmp ult i64 %j, %n
  br i1 %m, label %l, label %end
end:
  ret void
}
; keep a number in the arena, and give it out at the next call
define void @remember(ptr %t) nounwind {
  %ap = getelementptr ptr, ptr %t, i64 3
  %arena = load ptr, ptr %ap
  %yp = getelementptr ptr, ptr %t, i64 5
  %y = load ptr, ptr %yp
  %v = load i64, ptr %y
  store i64 %v, ptr %arena
  ret void
}
"""


@pytest.fixture(scope="module")
def code() -> Code:
    return load_code(PROGRAMS, level=2)


@pytest.fixture
def devices(tasks: Code, code: Code) -> list[CpuDevice]:
    """Three devices that know the test's programs."""
    found = [get_device(lane.device) for lane in LANES]
    for device in found:
        for of in (tasks, code):
            for name in of.addresses:
                device.port.programs[name] = Loaded(of.addresses[name], arena_bytes=64, keep=of)
    return found


def mix(y: Block, x: Block, start: int = 0, count: int | None = None) -> Exec:
    """The command of y = 3 y + x + 1 on some words of blocks of one size."""
    n = y.nbytes // 8 - start if count is None else count
    a, b = y.span(8 * start, 8 * n), x.span(8 * start, 8 * n)
    return Exec("mix", (a, b, n), (a, b), (a,))


def test_each_command_does_its_work(devices: list[CpuDevice]) -> None:
    block = Block("cpu", raw_block(4096), 4096)
    commands = [
        Timestamp(block.span(2048, 8)),
        Write(block.span(0, 8), Sym(Role.SCALAR, 0)),
        Write(block.span(8, 4), 7, 32),
        Barrier(),
        Copy(block.span(1024, 101), block.span(0, 101)),
        Poll(block.span(1024, 8), 0x21, 0xFF),
        Timestamp(block.span(2056, 8)),
    ]
    launch = Launch(plan(tuple(Call(LANES[0], c) for c in commands)), machines)
    before = time.monotonic_ns()
    launch(scalars=[0x4321])[0].wait()
    after = time.monotonic_ns()
    table = words(block.base)
    assert (table[0], table[1], table[128], table[129]) == (0x4321, 7, 0x4321, 7)
    assert before <= table[256] <= table[257] <= after


def test_a_poll_waits_for_what_the_host_writes(devices: list[CpuDevice]) -> None:
    block = Block("cpu", raw_block(4096), 4096)
    launch = Launch(plan((Call(LANES[0], Poll(block.span(0, 8), 5, 7)),)), machines)
    (fence,) = launch()
    time.sleep(0.02)
    words(block.base)[0] = 3
    time.sleep(0.02)
    assert not fence.done()
    words(block.base)[0] = 13
    fence.wait(stall_ms=5000)
    (fence,) = launch()
    fence.wait(stall_ms=5000)
    words(block.base)[0] = 0
    (fence,) = launch()
    devices[0].cancel()
    with pytest.raises(CancelledError, match="launch: poll was cancelled"):
        fence.wait(stall_ms=5000)
    devices[0].sync()


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_on_three_queues_give_what_one_after_the_other_gives(
    devices: list[CpuDevice], seed: int
) -> None:
    """The same launch is run several times without waiting: runs follow each other in order."""
    r, count = random.Random(seed), 512
    blocks = [Block(r.choice(LANES).device, raw_block(8 * count), 8 * count) for _ in range(4)]
    calls, model = [], []
    for _ in range(r.randrange(5, 80)):
        y, x = r.sample(range(4), 2)
        a, b = sorted(r.sample(range(count + 1), 2))
        lane = r.choice(LANES)
        if r.random() < 0.3:
            spans = [blocks[i].span(8 * a, 8 * (b - a)) for i in (y, x)]
            calls.append(Call(lane, Copy(*spans)))
            model.append(("copy", y, x, a, b))
        else:
            calls.append(Call(lane, mix(blocks[y], blocks[x], a, b - a)))
            model.append(("mix", y, x, a, b))
    launch = Launch(plan(tuple(calls), 20), machines)
    arrays = [np.arange(count, dtype=np.uint64) * (i + 1) for i in range(4)]
    for block, array in zip(blocks, arrays, strict=True):
        ffi.memmove(ffi.cast("char*", block.base), array.tobytes(), array.nbytes)
    for _ in range(5):
        fences = launch()
        for kind, y, x, a, b in model:
            part = arrays[x][a:b] if kind == "copy" else arrays[y][a:b] * 3 + arrays[x][a:b] + 1
            arrays[y][a:b] = part
    for fence in fences:
        fence.wait(stall_ms=10_000)
    for block, array in zip(blocks, arrays, strict=True):
        memory = ffi.buffer(ffi.cast("char*", block.base), block.nbytes)
        np.testing.assert_array_equal(np.frombuffer(memory, np.uint64), array)
    for device in devices:
        device.sync()
        assert not device.in_flight


def test_only_changed_words_of_a_launch_are_written(devices: list[CpuDevice]) -> None:
    a = Block("cpu", Sym(Role.INPUT, 0), 64)
    b = Block("cpu", Sym(Role.INPUT, 1), 64)
    launch = Launch(plan((Call(LANES[0], mix(a, b)),)), machines)
    x, y, z = (raw_block(64) for _ in range(3))
    counts = []
    for inputs in ([x, y], [x, y], [x, z], [z, y]):
        launch(inputs=inputs)[0].wait()
        devices[0].sync()  # hands the words back
        (segment,) = launch.steps
        (copy_of_words,) = segment.free
        counts.append(copy_of_words.instance.rewritten)
    assert counts == [2, 2, 3, 5]
    assert words(x)[0] == (0 * 3 + 0 + 1) * 9 + 3 + 1


def test_runs_in_flight_have_words_and_arenas_of_their_own(devices: list[CpuDevice]) -> None:
    target = Block("cpu", Sym(Role.INPUT, 0), 8)
    commands = (
        Call(LANES[0], Exec("remember", (target.span(),), (target.span(),))),
        Call(LANES[0], mix(target, target)),
    )
    launch = Launch(plan(commands), machines)
    gate = Block("cpu", raw_block(64), 64)
    hold = Launch(plan((Call(LANES[0], Poll(gate.span(0, 8), 1)),)), machines)
    hold()
    blocks = [raw_block(64) for _ in range(10)]
    fences = [launch(inputs=[block])[0] for block in blocks]
    assert not any(fence.done() for fence in fences)
    words(gate.base)[0] = 1
    for fence in fences:
        fence.wait(stall_ms=5000)
    assert [words(block)[0] for block in blocks] == [1] * 10
    devices[0].sync()


def test_the_host_is_called_between_submissions(devices: list[CpuDevice]) -> None:
    a = Block("cpu", raw_block(64), 64)
    b = Block("cpu:1", raw_block(64), 64)
    seen = []

    def look() -> None:
        seen.append(words(a.base)[0])
        words(b.base)[0] = 10

    calls = (
        Call(LANES[0], mix(a, a)),
        Call(LANES[0], Host("look", (a.span(),), (b.span(),))),
        Call(LANES[1], mix(b, a)),
    )
    launch = Launch(plan(calls), machines, functions={"look": look})
    for fence in launch():
        fence.wait()
    assert seen == [1] and words(b.base)[0] == 32
    with pytest.raises(DeviceError, match="calls 'look', which was not given"):
        Launch(plan(calls), machines)


def test_a_host_function_that_raises_stops_the_launch(devices: list[CpuDevice]) -> None:
    a = Block("cpu", raw_block(64), 64)

    def bad() -> None:
        raise KeyError("lost")

    calls = (Call(LANES[0], Host("bad", (a.span(),))), Call(LANES[0], mix(a, a)))
    launch = Launch(plan(calls), machines, "step", functions={"bad": bad})
    with pytest.raises(CallbackFailedError, match=r"bad called by step raised KeyError\('lost'\)"):
        launch()
    devices[0].sync()
    assert words(a.base)[0] == 0


def test_what_a_queue_cannot_do_is_refused(devices: list[CpuDevice]) -> None:
    with pytest.raises(DeviceError, match="there is no program 'bump' on this device"):
        Launch(plan((Call(LANES[0], Exec("bump")),)), machines)
    with pytest.raises(DeviceError, match="no queue cpu/copy; each has one, 'compute'"):
        Launch(plan((Call(Lane("cpu", "copy"), Barrier()),)), machines)
    launch = Launch(plan((Call(LANES[0], Wait(0, Sym(Role.TICK, 0))),)), machines)
    launch()[0].wait(stall_ms=5000)
    missing = Launch(
        plan((Call(LANES[0], Write(Block("cpu", 64, 64).span(0, 8), Sym(Role.SCALAR, 3))),)),
        machines,
    )
    with pytest.raises(DeviceError, match="launch needs a number for scalar3"):
        missing()


def test_a_failing_program_of_a_launch_is_named_and_others_go_on(
    devices: list[CpuDevice],
) -> None:
    a = Block("cpu:1", raw_block(64), 64)
    calls = (Call(LANES[1], Exec("fail", (), (), (a.span(),))), Call(LANES[1], mix(a, a)))
    launch = Launch(plan(calls), machines, "step")
    (fence,) = launch()
    fence.wait()
    assert words(a.base)[0] == 1
    devices[0].sync()
    with pytest.raises(DeviceError, match="step: fail failed with code 17"):
        devices[1].sync()
    devices[1].sync()


@pytest.mark.parametrize("nbytes", [0, 1, 63, 4095, 4096, 4097, (1 << 20) + 7, 3 << 20])
def test_copies_between_devices_are_exact(
    devices: list[CpuDevice], rng: np.random.Generator, nbytes: int
) -> None:
    data = rng.integers(0, 256, max(nbytes, 1), np.uint8)
    source, target = raw_block(nbytes + 64), raw_block(nbytes + 64)
    ffi.memmove(ffi.cast("char*", source + 3), data.tobytes(), len(data))
    fence = copy(devices[1], target + 5, devices[2], source + 3, nbytes)
    fence.wait(stall_ms=10_000)
    memory = ffi.buffer(ffi.cast("char*", target + 5), nbytes)
    np.testing.assert_array_equal(np.frombuffer(bytes(memory), np.uint8), data[:nbytes])
    assert words(target)[0] & 0xFF == 0
    for device in devices:
        device.sync()


def test_a_copy_waits_for_the_source_and_the_source_for_the_copy(
    devices: list[CpuDevice],
) -> None:
    """Nobody waits on the host: the caller may reuse both blocks at once, in queue order."""
    source = Block("cpu:1", raw_block(4096), 4096)
    target = Block("cpu:2", raw_block(4096), 4096)
    gate, other = (Block("cpu", raw_block(64), 64) for _ in range(2))
    hold = [
        Launch(plan((Call(lane, Poll(block.span(0, 8), 1)),)), machines)
        for lane, block in ((LANES[1], gate), (LANES[2], other))
    ]
    change = Launch(plan((Call(LANES[1], mix(source, source)),)), machines)
    for launch in hold:  # both queues are held while everything is submitted
        words(gate.base)[0] = words(other.base)[0] = 0
        launch()
    change()
    fence = copy(devices[2], target.base, devices[1], source.base, 4096)
    change()
    assert not fence.done()
    words(gate.base)[0] = 1
    time.sleep(0.05)
    assert words(source.base)[0] == 1, "the second change waits for the copy"
    words(other.base)[0] = 1
    fence.wait(stall_ms=5000)
    for device in devices:
        device.sync()
    assert words(target.base)[0] == 1 and words(source.base)[0] == 5


def test_many_threads_launch_at_once(devices: list[CpuDevice]) -> None:
    """Cross-queue launches from several threads: no deadlock, every run counted."""
    blocks = [
        (Block("cpu", raw_block(64), 64), Block("cpu:1", raw_block(64), 64)) for _ in range(4)
    ]
    failures: list[BaseException] = []

    def work(pair: tuple[Block, Block]) -> None:
        a, b = pair
        calls = (
            Call(LANES[0], mix(a, a, 0, 1)),
            Call(LANES[1], Copy(b.span(), a.span())),
            Call(LANES[1], mix(b, b, 0, 1)),
            Call(LANES[0], Copy(a.span(), b.span())),
        )
        launch = Launch(plan(calls), machines)
        try:
            for _ in range(150):
                fences = launch()
            for fence in fences:
                fence.wait(stall_ms=20_000)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(pair,)) for pair in blocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for device in devices:
        device.sync()
    expected = 0
    for _ in range(150):
        expected = (expected * 4 + 1) * 4 + 1 & (1 << 64) - 1
    signed = expected - (1 << 64) if expected >> 63 else expected
    assert [words(a.base)[0] for a, _ in blocks] == [signed] * 4
