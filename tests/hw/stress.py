"""Faults and stress, each as a function of how often: short in the tests, long by hand.

    python -m tests.hw.stress            all, long
    python -m tests.hw.stress 7 21 -n 5  two of them, five times as often as in the tests

Their numbers are those of the table in docs/hcq2.rst.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.config import config
from fgrad.errors import CallbackFailedError, CancelledError, CompileError, DeviceError, OutOfMemoryError
from fgrad.hw.command import Block, Copy, Role, Sym, Write
from fgrad.hw.device import get_device
from fgrad.hw.libc import words
from fgrad.hw.plan import Call, Lane, plan
from fgrad.hw.pool import SLAB_BYTES, Pool
from fgrad.hw.submit import Launch
from fgrad.hw.transfer import copy
from tests.backends.sim import test_sim_device as sim_tests

ROOT = Path(__file__).parents[2]
fnp, lax = fg.numpy, fg.lax
RUN = "cpu sim".split()
STRESS: dict[int, Callable[[int], None]] = {}


def stress(number: int) -> Callable[[Callable[[int], None]], Callable[[int], None]]:
    """Enter a test: called with how many times as much as usual it is to do."""

    def enter(test: Callable[[int], None]) -> Callable[[int], None]:
        STRESS[number] = test
        return test

    return enter


def put(x: Any, device: str) -> Any:
    return fg.device_put(np.asarray(x), device)


def child(source: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run Python source in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "child.py"
        path.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(source))
        command = [sys.executable, str(path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@stress(1)
def an_endless_program_is_cancelled_and_the_device_usable_again(n: int) -> None:
    for _ in range(n):
        x = put(np.zeros(4, np.float32), "cpu")
        fg.jit(lambda x: lax.while_loop(lambda c: fnp.sum(c) < 1.0, lambda c: c * 2.0, x))(x)
        time.sleep(0.05)
        device = get_device("cpu")
        device.cancel()
        start = time.monotonic()
        try:
            device.sync()
            raise AssertionError("nothing was cancelled")
        except CancelledError:
            assert time.monotonic() - start < 1.0
        assert np.asarray(x + 1.0).tolist() == [1.0] * 4


@stress(4)
def timelines_pass_2_to_the_31_and_32(n: int) -> None:
    device = get_device("sim:9")
    for start in (2**31 - 3, 2**32 - 3):
        for queue in ("compute", "copy"):
            processor = device.ports[queue].processor
            device.sync()
            processor.issued = start
            words(processor.completion)[0] = start
            blocks = [Block("sim:9", device.pool.take(64), 64) for _ in range(2)]
            command = Copy(blocks[0].span(0, 8), blocks[1].span(0, 8))
            launch = Launch(plan((Call(Lane("sim:9", queue), command),)), device.machines)
            for i in range(10):
                words(blocks[1].base)[0] = i
                for fence in launch():
                    fence.wait()
                device.sync()
                assert words(blocks[0].base)[0] == i
            assert processor.completed() > start + 9


@stress(5)
def many_small_submissions_from_four_threads_keep_their_order(n: int) -> None:
    for name in ("cpu:9", "sim:9"):
        each = 1000 * n if name == "cpu:9" else 60 * n
        device = get_device(name)
        log = device.pool.take(64)
        for i in range(8):
            words(log)[i] = 0
        launches = []
        for t in range(4):
            target = Block(name, log, 64).span(8 * t, 8)
            launches.append(Launch(plan((Call(Lane(name), Write(target, Sym(Role.SCALAR, 0))),)), device.machines))
        failures: list[BaseException] = []

        def work(launch: Launch, t: int, each: int = each, failures: list[BaseException] = failures) -> None:
            try:
                for i in range(1, each + 1):
                    fence = launch(scalars=[i])[0]
                    if i % 50 == 0:
                        fence.wait()
            except BaseException as error:  # the test's own thread raises it
                failures.append(error)

        threads = [threading.Thread(target=work, args=(launch, t)) for t, launch in enumerate(launches)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # threads take turns wherever they can
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(300)
        finally:
            sys.setswitchinterval(interval)
        device.sync()
        assert not failures, failures
        assert [words(log)[t] for t in range(4)] == [each] * 4


@stress(6)
def programs_of_every_length_go_through_a_bounded_ring(n: int) -> None:
    r = random.Random(6)
    for name in ("cpu:9", "sim:9"):
        device = get_device(name)
        block = Block(name, device.pool.take(64), 64)
        launches = {}
        for i in range(25 * n):
            count = r.randrange(1, 64)
            if count not in launches:
                writes = [Write(block.span(8 * (k % 8), 8), Sym(Role.SCALAR, 0, k)) for k in range(count)]
                calls = tuple([Call(Lane(name), write) for write in writes])
                launches[count] = Launch(plan(calls, batch_limit=64), device.machines)
            launches[count](scalars=[i])
            if i % 8 == 0:
                device.sync()
                for k in range(max(0, count - 8), count):
                    assert words(block.base)[k % 8] == i + k
        device.sync()
        try:
            device.port.has_room(100_000)
            raise AssertionError("too many were not refused")
        except DeviceError as error:
            assert "more than the" in str(error)


@contextmanager
def failing(pool: Pool, k: int) -> Iterator[list[int]]:
    """The k-th allocation from now on finds no memory; gives a list of how many there were."""
    count = [0]
    take, refill = pool.take, pool.refill

    def counted(real: Callable[[int], int]) -> Callable[[int], int]:
        def allocate(nbytes: int) -> int:
            count[0] += 1
            if count[0] - 1 == k:
                raise OutOfMemoryError("no memory, for a test")
            return real(nbytes)

        return allocate

    # arrays take from free lists, and ask only where those are empty
    pool.take, pool.refill = counted(take), counted(refill)  # type: ignore[method-assign]
    try:
        yield count
    finally:
        del pool.take, pool.refill


@contextmanager
def without_free_blocks(pool: Pool) -> Iterator[None]:
    """So that every allocation asks the system."""
    stash = [(blocks, list(blocks)) for blocks in pool._lists.values()]
    for blocks, _ in stash:
        blocks.clear()
    try:
        yield
    finally:
        for blocks, kept in stash:
            list.extend(blocks, kept)


@stress(7)
def an_allocation_that_fails_leaves_nothing_behind(n: int) -> None:
    for name in RUN:
        device = get_device(name)
        f = fg.jit(lambda x: fnp.cumsum(fnp.sort(fnp.sin(x) @ x.T)) * 2)
        x = put(np.arange(1024.0, dtype=np.float32).reshape(32, 32), name)  # an arena that would be missed
        want = np.asarray(f(x)).copy()
        executable = next(iter(f.dispatcher.entries.values())).executable
        failed = 0
        for k in range(20 * n):
            getattr(executable, "tables", []).clear()
            device.sync()
            before = device.pool.statistics().in_use
            with without_free_blocks(device.pool), failing(device.pool, k) as count:
                try:
                    f(x)
                except OutOfMemoryError:
                    failed += 1
            getattr(executable, "tables", []).clear()
            device.sync()
            assert device.pool.statistics().in_use - before <= 4096, (name, k)  # a copy of the words may be kept
            np.testing.assert_array_equal(np.asarray(f(x)), want)
            if count[0] <= k:
                break
        assert failed >= 3, (name, failed)


@stress(8)
def a_storm_of_allocations_stays_bounded(n: int) -> None:
    pool, r = Pool("storm"), random.Random(8)
    held: list[tuple[int, int]] = []
    for _ in range(3000 * n):
        if held and r.random() < 0.5:
            pool.give(*held.pop(r.randrange(len(held))))
        else:
            size = r.choice((1, 64, 100, 5000, 1 << 16, 1 << 20))
            address = pool.take(size)
            assert address % 64 == 0
            for other, nbytes in held[-50:]:
                assert other + nbytes <= address or address + size <= other
            held.append((address, size))
            if len(held) > 40:
                pool.give(*held.pop(0))
    for address, size in held:
        pool.give(address, size)
    now = pool.statistics()
    assert now.in_use == 0 and now.cached == now.mapped <= 41 * (6 << 20)
    large = sum([size * len(blocks) for size, blocks in pool._lists.items() if 4 * size > SLAB_BYTES])
    pool.trim()
    assert large > 1 << 20 or not config.pool
    assert pool.statistics().mapped == now.mapped - large, "only slabs are kept"


@stress(9)
def what_is_freed_in_flight_is_not_reused_before_its_work_is_done(n: int) -> None:
    r = random.Random(9)
    for name in RUN:
        f = fg.jit(lambda x, k: lax.fori_loop(0, 3, lambda i, c: c + k, x))
        for _ in range(5 * n):
            size = r.choice((8, 1000, 50_000)) if name == "cpu" else 8
            results = []
            for k in range(20):
                y = f(put(np.full(size, k, np.float32), name), 1.0)  # its argument dies at once
                if r.random() < 0.7:
                    results.append((k, y))
            for k, y in results:
                assert (np.asarray(y) == k + 3).all()


@stress(10)
def views_of_the_host_outlive_their_arrays(n: int) -> None:
    for _ in range(10 * n):
        x = put(np.arange(1000.0), "cpu") + 1.0
        view = np.asarray(x)
        del x
        others = [put(np.zeros(1000), "cpu") + 5.0 for _ in range(10)]
        assert view[7] == 8.0 and len(others) == 10
        y = put(np.arange(1000.0), "cpu") + 0.0
        seen = np.asarray(y)
        fg.jit(lambda y: y * 0.0, donate_argnums=0)(y)
        assert seen[7] == 7.0, "a view keeps a donated buffer as it is"


@stress(11)
def a_device_lost_at_any_packet_fails_alone_and_is_reset(n: int) -> None:
    devices = [get_device(name) for name in sim_tests.NAMES]
    for k in range(12 * n):
        sim_tests.test_a_device_lost_at_packet_k_fails_its_fences_and_no_other_device(k % 12, devices)


@stress(12)
def a_callback_that_raises_at_step_k_stops_its_program_with_its_traceback(n: int) -> None:
    for name in (*RUN, "python"):
        for k in range(min(4 * n, 12)):
            steps: list[int] = []

            def call(i: Any, k: int = k, steps: list[int] = steps) -> Any:
                steps.append(int(i))
                if int(i) == k:
                    raise KeyError(f"step {k}")
                return np.float32(i)

            def body(c: Any, i: Any, call: Any = call) -> Any:
                return c + fg.pure_callback(call, fg.ShapeDtypeStruct((), np.float32), i), None

            f = fg.jit(lambda c, body=body: lax.scan(body, c, fnp.arange(12))[0])
            device = get_device(name)
            try:
                np.asarray(f(put(np.float32(0), name)))
                raise AssertionError("the callback's exception was lost")
            except CallbackFailedError as error:
                assert isinstance(error.__cause__, KeyError) and error.__cause__.__traceback__ is not None
            assert steps == list(range(k + 1))
            device.sync()
            assert float(put(np.float32(1), name) + 1) == 2.0


@stress(13)
def a_callback_may_run_programs_but_not_wait_for_its_own(n: int) -> None:
    for name in (*RUN, "python"):
        inner = fg.jit(lambda x: x * 2.0)

        def call(x: Any, inner: Any = inner, name: str = name) -> Any:
            return np.asarray(inner(put(x, "cpu" if name != "cpu" else "python")))

        f = fg.jit(lambda x, call=call: fg.pure_callback(call, fg.ShapeDtypeStruct((3,), np.float32), x) + 1.0)
        assert np.asarray(f(put(np.ones(3, np.float32), name))).tolist() == [3.0] * 3
    device = get_device("cpu")

    def waits(x: Any) -> Any:
        device.sync()
        return x

    def g(x: Any) -> Any:
        x = lax.while_loop(lambda c: fnp.sum(c) < 10.0, lambda c: c + 1.0, x)
        return fg.pure_callback(waits, fg.ShapeDtypeStruct((3,), np.float32), x)

    try:
        np.asarray(fg.jit(g)(put(np.ones(3, np.float32), "cpu")))
        raise AssertionError("a wait for itself was not refused")
    except CallbackFailedError as error:
        assert "queued behind the program that called it" in str(error)


_INTERRUPTED = """
    import os, random, signal, threading, time
    import numpy as np
    import fgrad as fg
    from fgrad import numpy as fnp, lax
    r = random.Random(int(sys.argv[1]))
    x = fnp.ones(1000)
    slow = fg.jit(lambda x: lax.fori_loop(0, 2000, lambda i, c: fnp.sin(c), x))
    want = np.asarray(slow(x)).copy()
    one = fg.ShapeDtypeStruct((), np.float32)
    python = fg.jit(lambda x: lax.scan(lambda c, v: (c + fg.pure_callback(lambda v: v, one, v), c), x[0], x)[0])
    caught = 0
    for i in range(int(sys.argv[2])):
        delay = r.random() * 0.03
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            until = time.monotonic() + 5
            while time.monotonic() < until:
                fresh = fg.jit(lambda x, i=i: fnp.cos(x) + i)  # compiles
                fresh(x)
                slow(x).block_until_ready()
                assert float(python(x[:100])) == 101.0
        except KeyboardInterrupt:
            caught += 1
        timer.join()
        np.testing.assert_array_equal(np.asarray(slow(x)), want)
    print("caught", caught)
"""


@stress(14)
def ctrl_c_is_heard_at_any_time_and_the_next_call_is_right(n: int) -> None:
    times = str(10 * n)
    done = child(_INTERRUPTED, "14", times, timeout=600)
    assert done.returncode == 0 and f"caught {times}" in done.stdout, done.stderr[-2000:]


_FORKED = """
    import os
    import numpy as np
    import fgrad as fg
    from fgrad import numpy as fnp, lax
    f = fg.jit(lambda x: lax.fori_loop(0, 300, lambda i, c: fnp.sin(c) + 1, x))
    x = fnp.ones(20000)
    want = np.asarray(f(x)).copy()
    for _ in range(int(sys.argv[1])):
        busy = f(x)
        pid = os.fork()
        if not pid:
            np.testing.assert_array_equal(np.asarray(f(x)), want)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        np.testing.assert_array_equal(np.asarray(busy), want)
"""


@stress(15)
def a_fork_while_workers_are_busy_leaves_both_sides_right(n: int) -> None:
    done = child(_FORKED, str(4 * n), timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


_SPAWNED = """
import multiprocessing
import numpy as np
import fgrad as fg
from fgrad import numpy as fnp

def total(k):
    return float(fnp.sum(fg.device_put(np.arange(k, dtype=np.float32), "cpu")))

if __name__ == "__main__":
    assert total(4) == 6.0
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        assert pool.map(total, [3, 5, 7]) == [3.0, 10.0, 21.0]
    print("done")
"""


@stress(16)
def spawned_processes_open_devices_of_their_own(n: int) -> None:
    """The processes find the function in the script they are started from, wherever the tests were started from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spawned.py"
        path.write_text(_SPAWNED.replace("PROCESSES", str(min(2 * n, 4))))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


_KILLED = """
    import numpy as np
    import fgrad as fg
    from fgrad import numpy as fnp
    print("started", flush=True)
    for i in range(100000):
        np.asarray(fg.jit(lambda x, i=i: fnp.sin(x) * i)(fnp.ones(10 + i)))
"""


@stress(17)
def a_killed_process_leaves_nothing_that_hurts_the_next(n: int) -> None:
    r = random.Random(17)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FGRAD_CACHE_DIR": f"{folder}/cache", "PYTHONPATH": str(ROOT)}
        path = Path(folder) / "killed.py"
        path.write_text("import sys\n" + textwrap.dedent(_KILLED))
        semaphores = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        for _ in range(n):
            process = subprocess.Popen([sys.executable, str(path)], env=environment, stdout=subprocess.PIPE)
            assert process.stdout is not None and process.stdout.readline() == b"started\n"
            time.sleep(r.random() * 0.5)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        check = "import fgrad.numpy as fnp; assert float(fnp.sin(fnp.ones(3)).sum()) > 2.5"
        done = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        if semaphores:
            ours = [name for name in set(os.listdir("/dev/shm")) - semaphores if "fgrad" in name]
            assert ours == []


@stress(18)
def copies_of_any_size_between_any_two_devices_are_exact(n: int) -> None:
    r = random.Random(18)
    names = ["cpu", "cpu:1", "sim", "sim:1", "python", "reference"]
    for _ in range(30 * n):
        a, b = r.choice(names), r.choice(names)
        size = r.choice((0, 1, 4095, 4096, 4097, (1 << 20) + 7))
        source = r.randbytes(size)
        x = put(np.frombuffer(source, np.uint8), a)
        y = put(np.zeros(size, np.uint8), b)
        fence = copy(get_device(b), y.addr, get_device(a), x.addr, size)
        del x  # what is copied may be freed at once
        rewritten = put(np.full(size, 255, np.uint8), a)
        fence.wait()
        assert np.asarray(y).tobytes() == source and rewritten.shape == (size,)


@stress(19)
def a_file_that_is_cut_while_it_is_read_is_an_error(n: int) -> None:
    disk, cpu, r = get_device("disk"), get_device("cpu"), random.Random(19)
    piece = put(np.ones(1 << 16, np.uint8), "cpu")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.raw"
        for _ in range(n):
            path.write_bytes(bytes(8 << 20))
            file = disk.open(str(path))
            cutter = threading.Timer(r.random() * 0.005, os.truncate, (path, 4096))
            cutter.start()
            failures = []
            for last in (False, True):
                for at in range(0, 8 << 20, 1 << 16):
                    try:
                        copy(cpu, piece.addr, disk, file.base + at, 1 << 16)
                        assert not np.asarray(piece).any()
                    except DeviceError as error:
                        failures.append(str(error))
                cutter.join()
                assert not last or "the file was cut to 4096 bytes" in failures[-1]
            disk.close(file)


@stress(20)
def a_call_writes_only_the_words_that_changed(n: int) -> None:
    r = random.Random(20)
    for name in ("cpu:9", "sim:9"):
        device = get_device(name)
        data = [Block(name, device.pool.take(64), 64) for _ in range(3)]
        pairs = [[Block(name, Sym(role, i), 64).span() for role in (Role.OUTPUT, Role.INPUT)] for i in range(4)]
        calls = [Call(Lane(name), Copy(target, source)) for target, source in pairs]
        outs = [device.pool.take(64) for _ in range(4)]
        launch = Launch(plan(tuple(calls)), device.machines)
        last: list[int] | None = None
        for _ in range(100 * n):
            ins = [r.choice(data).base for _ in range(4)]
            for i, block in enumerate(data):
                words(block.base)[0] = r.randrange(1000) + i
            launch(ins, outs)
            device.sync()
            assert [words(o)[0] for o in outs] == [words(i)[0] for i in ins]
            segment = launch.segments()[0]
            held = segment.copy()
            changed = 8 if last is None else sum(a != b for a, b in zip(ins, last, strict=True))
            assert held.instance.rewritten - getattr(launch, "counted", 0) == changed
            launch.counted = held.instance.rewritten  # type: ignore[attr-defined]
            segment.free.append(held)
            last = ins


@stress(21)
def random_programs_on_four_devices_equal_their_model_in_any_order(n: int) -> None:
    devices = [get_device(name) for name in sim_tests.NAMES]
    for seed in range(10 * n):
        sim_tests.test_random_programs_over_four_devices_equal_the_sequential_model(1000 + seed, devices)


@stress(23)
def broken_code_is_an_exception_and_the_process_lives(n: int) -> None:
    source = """
        from fgrad.backends.cpu.llvm import compile_ir
        from fgrad.errors import CompileError
        bad = ["", "define", "define void @f() { ret i32 0 }", "define void @f() { call void @g() ret void }",
               "define void @f(i64 %x) { %y = add i32 %x, 1 ret void }"]
        for text in bad[1:]:
            try:
                compile_ir(text, 0)
            except CompileError as error:
                continue
            raise SystemExit(f"{text!r} compiled")
        import fgrad.numpy as fnp
        assert float(fnp.ones(3).sum()) == 3.0
    """
    done = child(source)
    assert done.returncode == 0 and issubclass(CompileError, Exception), done.stderr[-2000:]


@stress(24)
def nothing_grows(n: int) -> None:
    x = put(np.ones(256, np.float32), "cpu")
    f = fg.jit(lambda x, s: fnp.cumsum(fnp.sin(x) * s))

    def turn(times: int) -> None:
        for i in range(times):
            y = f(x, float(i))
            y = y + x
            if i % 50 == 0:
                np.asarray(y)
        get_device("cpu").sync()

    def state() -> tuple[int, int, int, int]:
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        mapped = get_device("cpu").pool.statistics().mapped
        return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), mapped

    if not os.path.isdir("/proc/self/task"):
        return
    turn(3000)
    time.sleep(0.2)  # for the compiler behind
    gc.collect()
    before = state()
    gc.disable()
    try:
        turn(10_000 * n)
        after = state()
    finally:
        gc.enable()
    assert after[0] - before[0] < 8 << 20, "resident memory grows"
    assert after[1] <= before[1] and after[2] <= before[2] and after[3] == before[3]


_EXITS = {
    "busy": """
        import fgrad as fg
        from fgrad import numpy as fnp, lax
        fg.jit(lambda x: lax.while_loop(lambda c: fnp.sum(c) < 1.0, lambda c: c * 2.0, x))(fnp.zeros(4))
    """,
    "lost": """
        import fgrad as fg, numpy as np
        from fgrad.hw.device import get_device
        from fgrad.hw.mock.faults import Faults
        device = get_device("sim")
        x = fg.device_put(np.ones(4), "sim")
        device.machine.restart(0, Faults(fault_at=0))
        y = x + x
        try:
            device.sync()
        except fg.errors.DeviceError:
            pass
    """,
    "callback": """
        import threading
        import fgrad as fg, numpy as np
        from fgrad import numpy as fnp, lax
        def call(x):
            entered.set()
            threading.Event().wait()
        entered = threading.Event()
        def f(x):
            x = lax.while_loop(lambda c: fnp.sum(c) < 9.0, lambda c: c + 1.0, x)
            return fg.pure_callback(call, fg.ShapeDtypeStruct((3,), np.float32), x)
        fg.jit(f)(fnp.ones(3, fnp.float32))
        entered.wait()
    """,
}


@stress(25)
def a_process_ends_whatever_is_in_flight(n: int) -> None:
    def run(kind: str) -> tuple[str, subprocess.CompletedProcess[str], float]:
        timed = textwrap.dedent(_EXITS[kind]) + "\nimport time\nprint(time.time(), flush=True)\n"
        done = child(timed)
        return kind, done, time.time() - float(done.stdout.split()[-1]) if done.stdout else float("inf")

    with ThreadPoolExecutor(3) as together:
        for kind, done, took in together.map(run, [*_EXITS] * n):
            assert done.returncode == 0 and not done.stderr, (kind, done.stderr[-2000:])
            assert took < 20.0, f"{kind}: the end took {took:.1f} s, as if somebody waited for a deadline"


def chosen(words: Sequence[str]) -> tuple[list[int], int]:
    """-> (numbers, how many times as much as in the tests) of a command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.hw.stress", description="Faults and stress, long.")
    parser.add_argument("numbers", nargs="*", type=int, metavar="number", help="which (default: all)")
    parser.add_argument("-n", type=int, default=20, help="how many times as much as in the tests")
    options = parser.parse_args(words)
    unknown = [number for number in options.numbers if number not in STRESS]
    if unknown:
        parser.error(f"there is no number {unknown[0]}; there are {', '.join(map(str, sorted(STRESS)))}")
    return options.numbers or sorted(STRESS), options.n


def main(words: Sequence[str]) -> int:
    """Run what the command line names; returns 1 if any of it fails."""
    numbers, times = chosen(words)
    failed = []
    warnings.simplefilter("error")
    for number in numbers:
        start = time.monotonic()
        try:
            STRESS[number](times)
        except Exception:  # the others are to run as well
            traceback.print_exc()
            failed.append(number)
        name = STRESS[number].__name__.replace("_", " ")
        state = "FAILED: " if number in failed else ""
        print(f"{number:3d}  {state}{name}: {time.monotonic() - start:.1f} s", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
