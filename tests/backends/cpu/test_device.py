"""The CPU device: queued programs, their failures, interrupts, forks, profiling, memory."""

import gc
import os
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad.backends.cpu.device import QUEUE_SIZE, CpuDevice
from fgrad.backends.cpu.executable import CpuExecutable
from fgrad.backends.cpu.kept import summarise
from fgrad.config import config
from fgrad.errors import (
    CallbackFailedError,
    CancelledError,
    DeviceError,
    DeviceHangError,
    DeviceLostError,
    DeviceMissingError,
    OutOfMemoryError,
)
from fgrad.hw.device import get_device
from fgrad.hw.libc import raw_block, words
from fgrad.hw.transfer import copy
from fgrad.lower.pipeline import Lowered
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.program import Host

HEAD = """
define void @entry(ptr %t) nounwind {
  %ctl = load ptr, ptr %t
  %xp = getelementptr ptr, ptr %t, i64 5
  %x = load ptr, ptr %xp
  %yp = getelementptr ptr, ptr %t, i64 6
  %y = load ptr, ptr %yp
  %v = load volatile i64, ptr %x
"""
# y = x + 1
PLUS_ONE = HEAD + "  %w = add i64 %v, 1\n  store i64 %w, ptr %y\n  ret void\n}\n"
# the same once the word after x is not 0, or the call is cancelled
GATED = (
    HEAD
    + """
  %gate = getelementptr i64, ptr %x, i64 1
  %progress = getelementptr i64, ptr %ctl, i64 2
  br label %look
look:
  %k = phi i64 [0, %0], [%k.next, %look]
  %k.next = add i64 %k, 1
  PROGRESS
  %open = load volatile i64, ptr %gate
  %cancel = load volatile i32, ptr %ctl
  %cancelled = CANCELLED
  %shut = icmp eq i64 %open, 0
  %on = xor i1 %cancelled, true
  %go = and i1 %shut, %on
  br i1 %go, label %look, label %end
end:
  %w = add i64 %v, 1
  store i64 %w, ptr %y
  ret void
}
"""
)
SILENT = GATED.replace("PROGRESS", "").replace("CANCELLED", "icmp ne i32 %cancel, 0")
MOVING = GATED.replace("PROGRESS", "store volatile i64 %k, ptr %progress").replace(
    "CANCELLED", "icmp ne i32 %cancel, 0"
)
DEAF = GATED.replace("PROGRESS", "").replace("CANCELLED", "icmp eq i32 0, 1")
FAIL = (
    HEAD
    + """
  %error = getelementptr i8, ptr %ctl, i64 4
  %where = getelementptr i8, ptr %ctl, i64 8
  store i32 17, ptr %error
  store i64 %v, ptr %where
  ret void
}
"""
)
# one call of Python: arguments are x, results y
CALL = (
    HEAD
    + """
  %rtp = getelementptr ptr, ptr %t, i64 1
  %rt = load ptr, ptr %rtp
  %hostp = getelementptr ptr, ptr %rt, i64 3
  %host = load ptr, ptr %hostp
  %handlep = getelementptr i64, ptr %t, i64 4
  %handle = load i64, ptr %handlep
  %failed = call i64 %host(i64 %handle, i64 0, ptr %xp)
  ret void
}
"""
)
QUEUED, INLINE = 1e7, 1e3  # estimated nanoseconds
WORD = Aval(dt.int64, ())


def make(
    device: CpuDevice,
    ir: str,
    name: str,
    work: float = QUEUED,
    callback: Callable[..., Any] | None = None,
) -> CpuExecutable:
    """A program of one input and one output, written by hand."""
    hosts = () if callback is None else (Host(callback, (WORD,), "callback"),)
    lowered = Lowered(
        kernels=(), ir=ir, arena_bytes=64, scratch_bytes=0, workers_wanted=False, work=work,
        flops=0, bytes=0, hosts=hosts, aliases={}, unbounded=False, micro=(), block=None,
        host_avals=((WORD,),) * len(hosts),
    )  # fmt: skip
    return CpuExecutable(device, summarise(lowered, lambda: lowered), frozenset(), name, 1, 1)


@pytest.fixture
def device() -> CpuDevice:
    """A device that the tests of other files do not use."""
    found: CpuDevice = get_device("cpu:5")
    found.sync()
    return found


@pytest.fixture
def cells() -> list[int]:
    """Addresses of three pieces of zeroed memory: input and gate, output, another output."""
    return [raw_block(64) for _ in range(3)]


def word(address: int) -> int:
    return int(words(address)[0])


def open_gate(cells: list[int]) -> None:
    words(cells[0])[1] = 1


def test_a_short_program_runs_at_once_and_a_long_one_is_queued(device: CpuDevice, cells: list[int]) -> None:
    x, y, z = cells
    make(device, PLUS_ONE, "short", INLINE).call([x, y])
    assert word(y) == 1 and not device.in_flight
    long = make(device, SILENT, "long")
    long.call([x, y])
    words(x)[0] = 41  # before the gate opens: the program has not looked at it, or has
    assert device.in_flight and not device.queue.is_idle()
    make(device, PLUS_ONE, "behind", INLINE).call([y, z])
    open_gate(cells)
    device.sync()
    assert word(z) == word(y) + 1 and not device.in_flight
    with pytest.raises(DeviceError, match="long takes 2 words .* got 1"):
        long.call([x])


def test_queued_calls_of_a_program_work_in_the_same_memory(device: CpuDevice, cells: list[int]) -> None:
    """They run one after the other; calls that Python may be inside of have memory of their own."""
    x, y, z = cells
    make(device, SILENT, "gate").call([x, z])
    many, calling = make(device, PLUS_ONE, "many"), make(device, CALL, "calling", callback=lambda x: [x + 1])
    for program in (many, calling):
        for _ in range(20):
            program.call([x, y])
    open_gate(cells)
    device.sync()
    assert [len({table.room.arena for _, _, table in program.tables}) for program in (many, calling)] == [1, 20]


def test_a_failure_of_a_queued_program_is_raised_once_with_its_name(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    words(x)[0] = 7
    bad, good = make(device, FAIL, "bad_step"), make(device, PLUS_ONE, "good_step")
    bad.call([x, y])
    good.call([x, y])
    with pytest.raises(DeviceError, match="bad_step failed with code 17 at 7"):
        device.sync()
    device.sync()
    assert word(y) == 8
    bad.call([x, y])
    make(device, FAIL, "worse_step").call([x, y])
    with pytest.raises(DeviceError, match="bad_step") as caught:
        device.sync()
    assert "worse_step failed with code 17" in caught.value.__notes__[0]
    device.sync()


def test_a_failure_does_not_disturb_later_calls(device: CpuDevice, cells: list[int]) -> None:
    """Calls between the failure and the next sync are made; none is lost."""
    x, y, z = cells
    make(device, FAIL, "bad").call([x, y])
    good = make(device, PLUS_ONE, "good")
    for _ in range(300):  # more than the queue has room for
        good.call([x, z])
        words(z)[1] = 1
    with pytest.raises(DeviceError, match="bad failed"):
        device.sync()
    assert word(z) == 1 and len(good.tables) <= 257


def test_no_failure_is_lost_when_all_that_is_queued_fails(device: CpuDevice, cells: list[int]) -> None:
    x, y, z = cells
    make(device, SILENT, "gate").call([x, z])
    bad = make(device, FAIL, "bad")
    for _ in range(QUEUE_SIZE - 1):
        bad.call([y, z])
    open_gate(cells)
    with pytest.raises(DeviceError, match="bad failed") as caught:
        device.sync()
    shown = len(caught.value.__notes__) - 1
    assert caught.value.__notes__[-1] == f"and {QUEUE_SIZE - 2 - shown} more"


def test_a_fence_raises_what_its_program_failed_with_and_sync_does_not_again(
    device: CpuDevice, cells: list[int]
) -> None:
    x, y, _ = cells
    bad = make(device, FAIL, "bad")
    entry = bad._table()
    entry[2].instance.fill_words(104, [x, y])
    fence = device.enqueue(bad, entry)
    with pytest.raises(DeviceError, match="bad failed"):
        fence.wait()
    device.sync()
    assert isinstance(fence.error(), DeviceError)


def test_an_inline_failure_is_raised_by_the_call_and_leaves_the_table_clean(
    device: CpuDevice, cells: list[int]
) -> None:
    x, y, _ = cells
    bad = make(device, FAIL, "bad", INLINE)
    for _ in range(2):
        with pytest.raises(DeviceError, match="bad failed with code 17"):
            bad.call([x, y])
    assert len(bad.tables) == 1 and bad.tables[0][2].control[1] == 0


@pytest.mark.parametrize("work", [INLINE, QUEUED], ids=["inline", "queued"])
def test_a_callback_that_raises_stops_its_program_and_no_other(
    device: CpuDevice, cells: list[int], work: float
) -> None:
    x, y, _ = cells
    answers: list[Any] = []

    def callback(v: np.ndarray) -> Any:
        answers.append(int(v))
        if v == 3:
            raise ZeroDivisionError("three")
        return v * 2

    program = make(device, CALL, "model", work, callback)
    for value in (1, 2):
        words(x)[0] = value
        program.call([x, y])
        device.sync()
        assert word(y) == 2 * value
    words(x)[0] = 3
    with pytest.raises(CallbackFailedError, match="callback inside model raised Zero") as caught:
        program.call([x, y])
        device.sync()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert any(f.name == "callback" for f in _frames(caught.value.__cause__))
    device.sync()
    words(x)[0] = 4
    program.call([x, y])
    device.sync()
    assert word(y) == 8 and answers == [1, 2, 3, 4]


def _frames(error: BaseException) -> list[Any]:
    return list(traceback.extract_tb(error.__traceback__))


def test_a_callback_that_waits_for_its_own_device_is_refused(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells

    def callback(v: np.ndarray) -> Any:
        make(device, PLUS_ONE, "inner").call([x, y])
        device.sync()
        return v

    make(device, CALL, "outer", QUEUED, callback).call([x, y])
    with pytest.raises(CallbackFailedError, match="return the value from the callback"):
        device.sync()
    device.sync()


def test_a_callback_that_finds_no_memory_does_not_wait_for_anybody(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    other = get_device("cpu:7")
    block = other.pool.take(1 << 20)

    def callback(v: np.ndarray) -> Any:
        other.pool.give(block, 1 << 20)
        copy(other, raw_block(1 << 21), device, x, 64)  # waits for the program that calls this
        device.pool.take(1 << 60)
        return v

    make(device, CALL, "outer", QUEUED, callback).call([x, y])
    with pytest.raises(CallbackFailedError, match="OutOfMemoryError"):
        device.sync()
    other.sync()


def test_a_callback_may_queue_work_while_the_queue_is_full(device: CpuDevice, cells: list[int]) -> None:
    x, y, z = cells
    inner = make(device, PLUS_ONE, "inner")
    go = threading.Event()

    def callback(v: np.ndarray) -> Any:
        assert go.wait(10)
        time.sleep(0.05)
        with pytest.raises(DeviceError, match="return the value"):
            for _ in range(400):
                inner.call([x, z])
        return v + 5

    make(device, CALL, "outer", QUEUED, callback).call([x, y])
    for i in range(400):
        if i == 200:
            go.set()
        inner.call([x, z])
    device.sync()
    assert word(y) == 5


def test_a_wrong_result_of_a_callback_is_explained(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    program = make(device, CALL, "model", QUEUED, lambda v: np.zeros(3))
    program.call([x, y])
    with pytest.raises(CallbackFailedError, match="has shape \\(3,\\), declared was"):
        device.sync()


def test_silent_work_is_cancelled_after_its_deadline(
    device: CpuDevice, cells: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fgrad.backends.cpu.port.STALL_MS", 200.0)
    monkeypatch.setattr("fgrad.backends.cpu.port.PATIENCE", 1.0)
    x, y, z = cells
    make(device, SILENT, "endless").call([x, y])
    tick = device.queue.issued()
    start = time.monotonic()
    with pytest.raises(DeviceHangError, match=f"tick {tick}, reached {tick - 1}; .*endless"):
        device.sync()
    assert 0.2 < time.monotonic() - start < 10
    device.sync()
    make(device, PLUS_ONE, "next").call([x, z])
    device.sync()
    assert word(z) == 1


def test_work_that_moves_is_not_cancelled(device: CpuDevice, cells: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgrad.backends.cpu.port.STALL_MS", 100.0)
    monkeypatch.setattr("fgrad.backends.cpu.port.PATIENCE", 1.0)
    x, y, _ = cells
    make(device, MOVING, "slow").call([x, y])
    timer = threading.Timer(0.6, open_gate, (cells,))
    timer.start()
    device.sync()
    timer.join()
    assert word(y) == 1


def test_a_queue_that_waits_for_another_is_as_patient_as_that_one(
    device: CpuDevice, cells: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fgrad.backends.cpu.port.STALL_MS", 50.0)
    monkeypatch.setattr("fgrad.backends.cpu.port.PATIENCE", 100.0)
    other = get_device("cpu:7")
    x, y, _ = cells
    make(device, SILENT, "long").call([x, y])  # 50 ms + 100 * 10 ms
    target = raw_block(1 << 21)
    copy(other, target, device, raw_block(1 << 21), (1 << 20) + 8)
    timer = threading.Timer(0.5, open_gate, (cells,))
    timer.start()
    other.sync()
    timer.join()
    assert word(y) == 1


def test_work_that_ignores_everything_loses_its_device_and_no_other(
    cells: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fgrad.backends.cpu.port.STALL_MS", 100.0)
    monkeypatch.setattr("fgrad.backends.cpu.port.PATIENCE", 1.0)
    x, y, z = cells
    lost, other = get_device("cpu:6"), get_device("cpu:7")
    program = make(lost, DEAF, "deaf")
    program.call([x, y])
    with pytest.raises(DeviceHangError, match="deaf does not react"):
        lost.sync()
    for use in (lost.sync, lambda: program.call([x, y])):
        with pytest.raises(DeviceLostError, match="cpu:6 is lost"):
            use()
    make(other, PLUS_ONE, "fine").call([x, z])
    other.sync()
    assert word(z) == 1
    monkeypatch.setattr("fgrad.backends.cpu.device._RESET_SECONDS", 0.05)
    with pytest.raises(DeviceLostError, match="cpu:6 cannot be reset: native code of deaf still runs"):
        lost.reset()
    open_gate(cells)
    monkeypatch.undo()
    lost.reset()
    make(lost, PLUS_ONE, "again").call([x, z])
    lost.sync()
    assert word(z) == 1


def test_cancelled_work_is_reported_and_its_table_is_good_again(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    program = make(device, SILENT, "endless")
    program.call([x, y])
    program.call([x, y])
    device.cancel()
    with pytest.raises(CancelledError, match="endless was cancelled") as caught:
        device.sync()
    assert len(caught.value.__notes__) == 1
    open_gate(cells)
    program.queued = False  # runs inline now, on the same tables
    for _ in range(2):
        words(y)[0] = 0
        program.call([x, y])
        assert word(y) == 1


def test_the_second_interrupt_of_a_wait_cancels_the_work(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    program = make(device, SILENT, "endless")
    program.call([x, y])
    for round_number in range(2):
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            device.sync()
        assert time.monotonic() - start < 10
        timer.join()
        if round_number == 0:
            assert device.in_flight and not device.queue.is_idle(), "the work goes on"
    with pytest.raises(CancelledError, match="endless was cancelled"):
        device.sync()


def test_an_interrupt_storm_never_breaks_the_device(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    program = make(device, PLUS_ONE, "f")
    done = caught = 0
    armed = False

    def interrupt(*_: object) -> None:
        """Raises where the device is at work, once each time, and never in the runner of the tests."""
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    def storm() -> None:
        for _ in range(60):
            time.sleep(0.004)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupt)
    thread = threading.Thread(target=storm)
    thread.start()
    while thread.is_alive():
        try:
            armed = True
            program.call([x, y])
            if done % 5 == 0:
                device.sync()
            done += 1
            armed = False
        except KeyboardInterrupt:
            caught += 1
        except CancelledError:
            armed = False
    thread.join()
    signal.signal(signal.SIGINT, before)
    words(y)[0] = 0
    for _ in range(3):
        try:
            device.sync()
        except CancelledError:
            continue
    program.call([x, y])
    device.sync()
    assert done > 10 and caught > 10 and word(y) == 1 and not device.in_flight
    assert not device.queue.failure(device.queue.issued())


def test_threads_submit_and_wait_at_once(device: CpuDevice) -> None:
    program = make(device, PLUS_ONE, "f")
    wrong: list[int] = []

    def work() -> None:
        x, y = raw_block(64), raw_block(64)
        for i in range(400):
            words(x)[0] = i
            program.call([x, y])
            device.sync()
            if word(y) != i + 1:
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not device.in_flight


def test_memory_of_a_program_returns_with_it(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    gc.collect()
    before = device.pool.statistics().in_use
    program = make(device, PLUS_ONE, "temporary")
    for _ in range(20):
        program.call([x, y])
    del program
    gc.collect()
    device.sync()
    gc.collect()
    assert device.pool.statistics().in_use == before


def test_each_device_has_memory_of_its_own_and_a_last_one() -> None:
    assert get_device("cpu").pool is not get_device("cpu:1").pool
    assert get_device("cpu:0") is get_device("cpu") is get_device("CPU")
    with pytest.raises(DeviceMissingError, match="there is no device cpu:64; the last one is"):
        get_device("cpu:64")
    with pytest.raises(DeviceMissingError, match="write the index as a number"):
        get_device("cpu:x")


@pytest.mark.parametrize("k", range(3))
def test_a_call_that_finds_no_memory_leaves_nothing_behind(
    device: CpuDevice, cells: list[int], k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The k-th of the three blocks of a table is refused: no leak, and the next call is right."""
    x, y, _ = cells
    program = make(device, PLUS_ONE, "f", INLINE)
    gc.collect()
    before, take, asked = device.pool.statistics().in_use, device.pool.take, []

    def refusing(nbytes: int) -> int:
        asked.append(nbytes)
        if len(asked) > k:
            raise OutOfMemoryError("no more")
        return take(nbytes)

    monkeypatch.setattr(device.pool, "take", refusing)
    with pytest.raises(OutOfMemoryError):
        program.call([x, y])
    monkeypatch.undo()
    gc.collect()
    assert len(asked) == k + 1 and device.pool.statistics().in_use == before
    program.call([x, y])
    device.sync()
    assert word(y) == 1


@pytest.mark.parametrize("work", [INLINE, QUEUED], ids=["inline", "queued"])
def test_a_profiled_device_tells_what_ran_and_when(device: CpuDevice, cells: list[int], work: float) -> None:
    x, y, _ = cells
    program = make(device, PLUS_ONE, "f", work)
    program.call([x, y])
    device.sync()
    assert device.stop_profile() is None
    device.start_profile()
    assert program.tables == [], "generated code finds none and goes the general way"
    start = time.monotonic_ns()
    late = make(device, PLUS_ONE, "g", work)
    for _ in range(3):
        program.call([x, y])
        late.call([x, y])
    profile = device.stop_profile()
    assert profile is not None
    ranges = profile.ranges
    assert [r.name for r in ranges] == ["f", "g"] * 3
    assert all(r.queue == ("compute" if work == QUEUED else "") and r.device == "cpu:5" for r in ranges)
    levels = profile.levels
    assert len(levels) >= 6 and all(level.in_use >= 0 and level.cached >= 0 for level in levels)
    times = [start, *[t for r in ranges for t in (r.start_ns, r.end_ns)], time.monotonic_ns()]
    assert times == sorted(times)
    assert program.tables and late.tables


def test_a_failing_program_keeps_its_name_when_profiled(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    device.start_profile()
    make(device, FAIL, "bad").call([x, y])
    with pytest.raises(DeviceError, match="bad failed with code 17"):
        device.stop_profile()
    device.sync()


def test_sync_mode_raises_in_the_call(device: CpuDevice, cells: list[int]) -> None:
    x, y, _ = cells
    with config.override(sync=True), pytest.raises(DeviceError, match="bad failed"):
        make(device, FAIL, "bad").call([x, y])


def test_the_commands_of_a_program_are_listed(device: CpuDevice, capsys: pytest.CaptureFixture[str]) -> None:
    with config.override(show="commands:f"):
        make(device, PLUS_ONE, "g")
        program = make(device, PLUS_ONE, "f")
    shown = capsys.readouterr().err
    assert shown == "== hw/commands of f\n  0  EXEC f arguments=(in0, out0)\n"
    assert program.text("commands") == "  0  EXEC f arguments=(in0, out0)"
    with pytest.raises(ValueError, match="there is no stage 'x'"):
        program.text("x")


CHILD = """
import os, time
import numpy as np
import sys
sys.path.insert(0, sys.argv[1] + "/tests/backends/cpu")
from test_device import *
device = get_device("cpu")
x, y = raw_block(64), raw_block(64)
program = make(device, SILENT if {kind!r} == "endless" else PLUS_ONE, "work")
program.call([x, y])
child = os.fork()
if not child:
    try:
        device.sync()
        print("child", word(y), flush=True)
    except Exception as error:
        print("child", type(error).__name__, error, flush=True)
    device.sync()
    make(device, PLUS_ONE, "new").call([x, y])
    device.sync()
    print("child again", word(y), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
words(x)[1] = 1
device.sync()
print("parent", word(y), flush=True)
"""


def test_a_fork_lets_queued_work_finish_for_the_child(in_child: Any) -> None:
    done: subprocess.CompletedProcess[str] = in_child(CHILD.format(kind="short"))
    assert done.stdout.splitlines() == ["child 1", "child again 1", "parent 1"], done.stderr


def test_work_that_does_not_finish_stays_with_the_parent(in_child: Any) -> None:
    done: subprocess.CompletedProcess[str] = in_child(CHILD.format(kind="endless"))
    lines = done.stdout.splitlines()
    assert lines[0].startswith("child ForkedDeviceError work ran on cpu when"), done.stderr
    assert lines[1:] == ["child again 1", "parent 1"], done.stderr


@pytest.mark.parametrize("setting", ["FGRAD_POOL=0", "FGRAD_POISON=1"])
def test_queued_work_is_right_with_memory_returned_or_poisoned(
    in_child: Any, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, value = setting.split("=")
    monkeypatch.setenv(name, value)
    done: subprocess.CompletedProcess[str] = in_child(
        """
        sys.path.insert(0, sys.argv[1] + "/tests/backends/cpu")
        from test_device import *
        device = get_device("cpu")
        pool = device.pool
        program = make(device, PLUS_ONE, "f")
        x = pool.take(1 << 17)
        words(x)[0] = 1
        for _ in range(500):  # each result is the next input; inputs are freed at once
            y = pool.take(1 << 17)
            program.call([x, y])
            pool.give(x, 1 << 17)
            x = y
        device.sync()
        print(word(x))
        """
    )
    assert done.stdout == "501\n", done.stderr


def test_a_process_ends_cleanly_with_work_in_flight(in_child: Any) -> None:
    start = time.monotonic()
    done: subprocess.CompletedProcess[str] = in_child(
        """
        sys.path.insert(0, sys.argv[1] + "/tests/backends/cpu")
        from test_device import *
        device = get_device("cpu")
        program = make(device, SILENT, "endless")
        program.call([raw_block(64), raw_block(64)])
        print("end")
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)
    assert time.monotonic() - start < 30, "start of a process on a busy machine included"
