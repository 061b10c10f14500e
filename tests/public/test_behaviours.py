"""Behaviours of the runtime as users meet them. Tests are named by the behaviours in docs/hcq2.rst."""

import gc
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.backends.cpu.device import QUEUE_SIZE
from fgrad.backends.sim import port as sim_port
from fgrad.config import config
from fgrad.errors import CompileError, DeviceLostError, OutOfMemoryError
from fgrad.hw import submit
from fgrad.hw.command import Block, Copy, Exec, Poll
from fgrad.hw.device import get_device, reset
from fgrad.hw.libc import words
from fgrad.hw.mock.packet import MAX_COPY, Opcode, parse_header
from fgrad.hw.plan import Call, Lane, plan
from fgrad.hw.submit import Launch
from fgrad.hw.transfer import copy
from fgrad.uop.node import table_size

RUNNING = ["cpu", "sim"]


def executable_of(f: Any) -> Any:
    return next(iter(f.dispatcher.entries.values())).executable


def put(x: Any, name: str) -> Any:
    return fg.device_put(np.asarray(x), name)


# ---- A. commands
def test_a7_copies_longer_than_a_packet_are_cut() -> None:
    device = get_device("sim")
    nbytes = 2 * MAX_COPY + 13
    blocks = [Block("sim", device.pool.take(nbytes), nbytes) for _ in range(2)]
    record = device.port.encode(Copy(blocks[0].span(), blocks[1].span()))
    assert record is not None
    lengths, at = [], 0
    while at < len(record.words.data):
        packet = np.frombuffer(record.words.data[at:], np.uint64)
        opcode, count = parse_header(int(packet[0]), "")
        assert opcode is Opcode.COPY
        lengths.append(int(packet[3]))
        at += 8 * (1 + count)
    assert lengths == [MAX_COPY, MAX_COPY, 13]
    for block in blocks:
        device.pool.give(block.base, nbytes)


def test_a10_later_submissions_send_only_a_reference() -> None:
    device = get_device("sim:7")
    block = Block("sim:7", device.pool.take(64), 64)
    calls = [Call(Lane("sim:7"), Copy(block.span(8 * i, 8), block.span(32, 8))) for i in range(3)]
    launch = Launch(plan(tuple(calls)), device.machines)
    sent = []
    for _ in range(3):
        before = device.port.processor.written
        launch()
        sent.append(device.port.processor.written - before)
        device.sync()
    padding = 8  # where the ring ends
    assert all(n <= sim_port.SUBMISSION_WORDS * 3 + padding for n in sent)
    assert len(launch.segments()[0].free) == 1, "the packets stay where they are"


# ---- C. memory
def test_c3_windows_have_the_array_s_type_and_are_its_memory() -> None:
    for dtype in ("float32", "bfloat16", "complex64", "int8"):
        x = fnp.arange(6).astype(dtype).reshape(2, 3)
        a, b = np.asarray(x), np.asarray(x)
        assert a.dtype == x.dtype and a.shape == (2, 3) and not a.flags.writeable
        assert a.ctypes.data == b.ctypes.data == x.addr
        part = a[1:]
        assert part.ctypes.data == x.addr + a.strides[0]


def test_c5_memory_of_others_is_neither_counted_nor_used_again() -> None:
    data = np.zeros((1 << 16) + 16, np.float32)
    start = -data.ctypes.data % 64 // 4
    mine = data[start : start + (1 << 16)]
    pool = get_device("cpu").pool
    gc.collect()
    before = pool.statistics().in_use
    x = fg.numpy.from_dlpack(mine)
    if x.addr == mine.ctypes.data:
        assert pool.statistics().in_use == before
    y = (x + 1.0).block_until_ready()
    del x
    others = [fnp.ones(1 << 16) for _ in range(3)]
    get_device("cpu").sync()
    assert not mine.any() and float(y[0]) == 1.0 and len(others) == 3


def test_c7_a_failed_allocation_empties_the_cache_and_is_tried_once_more() -> None:
    device = get_device("cpu:39")
    kept = put(np.ones(1 << 20, np.float32), "cpu:39")
    free = put(np.ones(1 << 20, np.float32), "cpu:39")
    del free
    assert device.pool.statistics().cached >= 1 << 22 or not config.pool
    with pytest.raises(OutOfMemoryError, match=r"cpu:39: the system has no \d+ bytes; \d+ are in use, \d+ were kept"):
        device.pool.take(1 << 60)
    assert device.pool.statistics().cached < 1 << 22 and float(kept[5]) == 1.0


@pytest.mark.parametrize("name", ["cpu:44", "sim:8"])
def test_c9_short_programs_come_behind_what_is_queued(name: str) -> None:
    """By every way in: generated code, the general path, functions called without jit, donated memory."""
    device = get_device(name)
    x = put(np.zeros(8, np.float32), name)
    long = fg.jit(lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + 1.0, c[1] + 1), (x, 0))[0])
    short, given = fg.jit(lambda x, k: x * 2.0 + k), fg.jit(lambda x: x + 10.0, donate_argnums=0)
    for _ in range(2):  # the second time the generated code is there
        device.sync()
        block = Block(name, device.pool.take(64), 64)
        words(block.base)[0] = 0
        Launch(plan((Call(Lane(name), Poll(block.span(0, 8), 1)),)), device.machines)()
        y = long(x)
        got = [short(y, 1.0), short(y, np.float32(2)), y + y, given(long(x)), fnp.concatenate([y, y])[4:12]]
        words(block.base)[0] = 1
        assert [float(g[7]) for g in got] == [7.0, 8.0, 6.0, 13.0, 3.0]
        device.pool.give(block.base, 64)


def test_c10_copies_are_made_unless_a_view_is_asked_for() -> None:
    x = fnp.arange(5.0)
    view, own = np.asarray(x), np.array(x)
    own[:] = 9
    assert view.tolist() == [0, 1, 2, 3, 4] and x.__array__(copy=True).ctypes.data != x.addr
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__(np.float64, copy=False)


def test_c11_arrays_are_pickled_with_their_elements_out_of_band() -> None:
    tree = {"w": fnp.arange(1000.0).reshape(10, 100), "b": fnp.ones(3, "bfloat16"), "k": put(2.0, "cpu:1")}
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(tree, protocol=5, buffer_callback=buffers.append)
    assert len(text) < 2000 and sum(b.raw().nbytes for b in buffers) >= 4000
    back = pickle.loads(text, buffers=buffers)
    for name, x in tree.items():
        assert back[name].dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(back[name]), np.asarray(x))


def test_c15_what_is_alive_can_be_counted() -> None:
    gc.collect()
    nodes, in_use = table_size(), get_device("cpu").pool.statistics().in_use
    x = fnp.ones((100, 100))
    program = fg.make_program(lambda x: fnp.sin(x) * 3.25 + fnp.cos(x))(x)
    assert table_size() > nodes and get_device("cpu").pool.statistics().in_use - in_use >= 40_000
    del x, program
    gc.collect()
    assert table_size() <= nodes + 20 and get_device("cpu").pool.statistics().in_use <= in_use + 4096


@pytest.mark.parametrize("name", RUNNING)
def test_c16_intermediates_are_there_again_at_the_next_call(name: str) -> None:
    f = fg.jit(lambda x: fnp.cumsum(fnp.sort(x * 2.0)[::-1]))
    x = put(np.arange(32, dtype=np.float32), name)
    want = np.asarray(f(x)).copy()
    for _ in range(3):
        getattr(executable_of(f), "tables", []).clear()  # and with them their memory
        get_device(name).pool.trim()
        np.testing.assert_array_equal(np.asarray(f(x)), want)


# ---- D. copies
def test_d4_short_copies_between_idle_devices_need_no_command() -> None:
    a, b = get_device("cpu:40"), get_device("cpu:41")
    x, y = put(np.arange(100.0), "cpu:40"), put(np.zeros(100), "cpu:41")
    before = (a.timeline.issued(), b.timeline.issued())
    assert copy(b, y.addr, a, x.addr, x.nbytes).done()
    assert (a.timeline.issued(), b.timeline.issued()) == before
    np.testing.assert_array_equal(np.asarray(y), np.arange(100.0))


# ---- E. programs
def test_e2_words_of_a_call_are_its_own_until_it_is_done() -> None:
    """Calls in flight at the same time, each with other arguments."""
    device = get_device("cpu:42")
    f = fg.jit(lambda x, k: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + k, c[1] + 1), (x, 0))[0])
    x = put(np.zeros(4, np.float32), "cpu:42")
    np.asarray(f(x, 0.0))
    block = Block("cpu:42", device.pool.take(64), 64)
    words(block.base)[0] = 0
    Launch(plan((Call(Lane("cpu:42"), Poll(block.span(0, 8), 1)),)), device.machines)()
    results = [f(x, float(k)) for k in range(40)]
    words(block.base)[0] = 1
    assert [float(y[0]) for y in results] == [3.0 * k for k in range(40)]


def test_e4_a_callback_may_queue_work_while_its_own_queue_is_full() -> None:
    """Who waits for room in a queue holds nothing that the program there may need."""
    device, other = get_device("cpu:45"), "cpu:46"
    inner = fg.jit(lambda x: lax.while_loop(lambda c: c[1] < 2, lambda c: (c[0] + 1.0, c[1] + 1), (x, 0))[0])
    np.asarray(inner(put(np.zeros(3, np.float32), other)))
    is_full = threading.Event()

    def call(x: Any) -> Any:
        is_full.wait(60)
        return np.asarray(inner(put(x, other)))

    shape = fg.ShapeDtypeStruct((3,), np.float32)
    calling = fg.jit(lambda x: fg.pure_callback(call, shape, inner(x)))
    x = put(np.zeros(3, np.float32), "cpu:45")
    done: list[Any] = []

    def fill() -> None:
        y = calling(x)
        rest = [inner(x) for _ in range(QUEUE_SIZE + 20)]
        done.extend([y, rest[-1]])

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    while device.timeline.issued() - device.timeline.completed() < QUEUE_SIZE - 1 and thread.is_alive():
        time.sleep(0.001)
    time.sleep(0.02)
    is_full.set()
    thread.join(60)
    assert [np.asarray(y).tolist() for y in done] == [[4.0] * 3, [2.0] * 3]


# ---- F, G. programs as plans
@pytest.mark.parametrize("name", RUNNING)
def test_f1_a_program_is_planned_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = fg.jit(lambda x: fnp.cumsum(fnp.sort(x)) * 2.0)
    x = put(np.arange(8, dtype=np.float32), name)
    want = np.asarray(f(x)).copy()

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("made again")

    monkeypatch.setattr(submit, "link", refuse)
    monkeypatch.setattr(submit._Segment, "link", refuse)
    monkeypatch.setattr(type(get_device(name)), "compile", refuse)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(x)), want)
    assert len(getattr(executable_of(f), "tables", [None])) == 1, "and its words are used again"


@pytest.mark.parametrize("name", RUNNING)
def test_f2_new_inputs_are_never_linked_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = fg.jit(lambda x, s: fnp.cumsum(x) * s)
    xs = [put(np.full(8, i, np.float32), name) for i in range(5)]
    np.asarray(f(xs[0], 1.0))

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("linked again")

    monkeypatch.setattr(submit, "link", refuse)
    for module in ("fgrad.backends.cpu.executable", "fgrad.hw.link"):
        monkeypatch.setattr(sys.modules[module], "link", refuse)
    for i, x in enumerate(xs):
        np.testing.assert_array_equal(np.asarray(f(x, float(i))), np.cumsum(np.full(8, i)) * i)


def test_f2_a_program_of_200_kernels_is_one_native_call() -> None:
    def f(x: Any) -> Any:
        for _ in range(200):
            x = fnp.cumsum(x[::-1]) * 0.5
        return x

    g = fg.jit(f)
    x = fnp.ones(8)
    want = np.asarray(g(x)).copy()
    executable = executable_of(g)
    assert executable.kernel_count >= 200
    calls: list[int] = []
    native = executable.native

    def counted(table: int) -> None:
        calls.append(table)
        native(table)

    executable.native = counted
    np.testing.assert_array_equal(np.asarray(g(x)), want)
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["cpu:43", "sim:8"])
def test_f9_a_program_that_nobody_holds_ends_before_its_code_goes(name: str) -> None:
    device = get_device(name)
    x = put(np.arange(64, dtype=np.float32), name)
    f = fg.jit(lambda x: lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] + 1.0, c[1] + 1), (x, 0))[0])
    np.asarray(f(x))
    block = Block(name, device.pool.take(64), 64)
    device.sync()
    words(block.base)[0] = 0
    Launch(plan((Call(Lane(name), Poll(block.span(0, 8), 1)),)), device.machines)()
    y = f(x)
    gone = weakref.ref(executable_of(f))
    del f
    fg.clear_caches()
    gc.collect()
    words(block.base)[0] = 1
    np.testing.assert_array_equal(np.asarray(y), np.arange(64) + 5.0)
    device.sync()
    until = time.monotonic() + 60
    while gone() is not None and time.monotonic() < until:  # it may be compiled better just now
        gc.collect()
        time.sleep(0.01)
    assert gone() is None, "afterwards it goes"


@pytest.mark.parametrize("name", RUNNING)
def test_g18_the_number_of_kernels_is_no_part_of_the_call(name: str) -> None:
    def chain(n: int) -> Any:
        def f(x: Any) -> Any:
            for _ in range(n):
                x = fnp.cumsum(x)
            return x

        return f

    x = put(np.ones(4, np.float32), name)
    counts = []
    for n in (1, 12):
        f = fg.jit(chain(n))
        np.asarray(f(x))
        executable = executable_of(f)
        counts.append((executable.kernel_count, len(executable.inline_params)))
        with pytest.raises(fg.errors.DeviceError, match="got 5"):
            executable.call([0] * 5)
    assert counts[0][0] < counts[1][0] and counts[0][1] == counts[1][1]


@pytest.mark.parametrize("name", RUNNING)
def test_g20_equal_programs_are_compiled_once(name: str) -> None:
    x = put(np.ones(4, np.float32), name)

    def make() -> Any:
        def f(x: Any) -> Any:
            return fnp.sin(x) * 2.5

        return f

    f, g = fg.jit(make()), fg.jit(make())
    np.asarray(f(x) + g(x))
    assert executable_of(f) is executable_of(g)


def test_g25_estimates_are_those_of_all_kernels() -> None:
    f = fg.jit(lambda a, b: fnp.tanh(a @ b))
    cost = f.lower(fnp.ones((64, 32)), fnp.ones((32, 16))).cost_analysis()
    assert cost["flops"] >= 2 * 64 * 32 * 16 and cost["bytes accessed"] >= 4 * (64 * 32 + 32 * 16 + 64 * 16)


# ---- I. devices
def test_i16_devices_are_opened_when_they_are_first_used() -> None:
    code = "import fgrad; from fgrad.hw.device import open_devices; print(len(open_devices()))"
    code += "; fgrad.numpy.ones(3) + 1; print(len(open_devices()))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("0\n1\n", "")


# ---- J. faults
def test_j1_a_lost_device_raises_the_first_error_until_it_is_reset() -> None:
    device = get_device("sim:9")
    x = put(np.ones(4, np.float32), "sim:9")
    with fault(device, "first fault"):
        seen = []
        for _ in range(3):
            with pytest.raises(DeviceLostError) as caught:
                device.sync()
            seen.append(str(caught.value.__cause__))
        assert len(set(seen)) == 1 and "page fault" in seen[0]
    assert np.asarray(x * 2.0).tolist() == [2.0] * 4


@contextmanager
def fault(device: Any, name: str) -> Iterator[None]:
    """A kernel of that name has touched what is not there; the device is reset afterwards."""
    code = device.machine.add_code(name, lambda context, arguments: context.write(arguments[0], 8))
    device.port.programs[name] = sim_port.Loaded(code)
    Launch(plan((Call(Lane(device.name), Exec(name, (0xDEAD0000,))),)), device.machines, "launch")()
    yield
    device.port.programs.pop(name)
    reset(device.name)


def test_j2_a_page_fault_is_told_at_once_with_kernel_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits looks at the processor in each turn: there is no deadline to be reached first."""
    device = get_device("sim:9")
    device.sync()

    def sleep(seconds: float) -> None:
        raise AssertionError("somebody slept although the fault was there")

    monkeypatch.setattr(sim_port.time, "sleep", sleep)
    with fault(device, "scatter_rows"):
        with pytest.raises(DeviceLostError) as caught:
            device.sync()
        assert re.search(r"page fault: scatter_rows on sim:9/compute writes 8 bytes at 0xdead0000", str(caught.value))


def test_j8_a_call_that_cannot_be_compiled_changes_nothing_and_fails_again(monkeypatch: pytest.MonkeyPatch) -> None:
    f = fg.jit(lambda x, y: fnp.cumsum(x) + y * 1.125, donate_argnums=0)
    x, y = fnp.ones(4), fnp.ones(4)
    device = get_device("cpu")

    def refuse(*args: Any, **options: Any) -> Any:
        raise CompileError("no compiler today")

    monkeypatch.setattr(type(device), "compile", refuse)
    for _ in range(2):
        with pytest.raises(CompileError, match="no compiler today"):
            f(x, y)
        assert not x.is_deleted() and np.asarray(x).tolist() == [1.0] * 4
    monkeypatch.undo()
    np.testing.assert_allclose(np.asarray(f(x, y)), np.arange(1, 5) + 1.125)
    assert x.is_deleted()


# ---- K. counters
def test_k10_programs_and_flops_are_counted() -> None:
    device = get_device("null")
    x = put(np.ones((8, 8), np.float32), "null")
    f = fg.jit(lambda x: fnp.tanh(x @ x))
    before = device.counts.programs, device.counts.flops
    f(x)
    f(x)
    assert device.counts.programs == before[0] + 2 and device.counts.flops - before[1] >= 2 * 2 * 8**3

