"""The pool: every task exactly once, several callers, nesting, sleeping, forks, its end."""

import os
import random
import signal
import threading
import time

import pytest

from fgrad.backends.cpu import workers
from fgrad.backends.cpu.abi import Runtime
from fgrad.backends.cpu.native import load_native, native, provide
from fgrad.backends.cpu.pool_ir import MAX_PLACED, Pool
from fgrad.backends.cpu.workers import WorkerPool
from fgrad.config import config
from fgrad.hw.libc import raw_block, words


def run_loops(runtime, tasks, calls, seed=0):
    """Run loops of random lengths; return how many did not run each task exactly once."""
    r, wrong, address = random.Random(seed), 0, raw_block(8 * 300)
    counts, pfor = words(address), runtime.functions["pfor"]
    for _ in range(calls):
        n = r.choice((0, 1, 2, 3, 7, 8, 64, 300))
        for i in range(300):
            counts[i] = 0
        pfor(runtime.table, tasks.addresses["count"], address, n)
        wrong += [counts[i] for i in range(300)] != [1] * n + [0] * (300 - n)
        if r.random() < 0.02:
            time.sleep(r.random() * 2e-4)
    return wrong


def test_each_task_runs_once(runtime, pool, tasks):
    assert pool.count == 2
    assert run_loops(runtime, tasks, 300) == 0


def test_several_callers_share_the_workers(runtime, pool, tasks):
    wrong = []
    threads = [
        threading.Thread(target=lambda s=s: wrong.append(run_loops(runtime, tasks, 100, s)))
        for s in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0, 0, 0]


def test_more_callers_than_job_slots_run_serially(runtime, pool, tasks):
    for j in range(8):  # as if eight callers were inside
        words(pool.address + Pool.JOBS + 128 * j)[10] = 1
    assert run_loops(runtime, tasks, 20) == 0
    for j in range(8):
        words(pool.address + Pool.JOBS + 128 * j)[10] = 0


def test_loops_inside_loops(runtime, pool, tasks):
    inner, table = raw_block(4096), raw_block(4096)
    values = (runtime.addresses["pfor"], runtime.table, tasks.addresses["count"], inner)
    for i, word in enumerate(values):
        words(table)[i] = word
    for _ in range(200):
        runtime.functions["pfor"](runtime.table, tasks.addresses["nested"], table, 9)
    assert [words(inner)[i] for i in range(6)] == [1800] * 5 + [0]


def test_worker_numbers_stay_below_the_number_of_threads(runtime, pool, tasks):
    table = raw_block(4096)
    seen = set()
    for _ in range(50):
        runtime.functions["pfor"](runtime.table, tasks.addresses["who"], table, 32)
        seen |= {words(table)[i] for i in range(32)}
    assert seen <= {0, 1, 2}
    assert len(seen) > 1, "nobody helped in fifty loops"


@pytest.mark.parametrize("has_futex", [True, False])
def test_no_wake_is_lost_when_everybody_sleeps_at_once(tasks, call_many, has_futex):
    runtime = load_native(has_futex)
    pool = WorkerPool(runtime, 1)
    words(pool.address)[Pool.SPIN // 8] = 1
    times = 10_000 if has_futex else 500
    call_many(
        runtime.addresses["pfor"], runtime.table, tasks.addresses["nothing"], 0, 4, times
    )  # fmt: skip
    assert pool.stop()


def test_hot_loops_all_complete(runtime, pool, tasks, call_many):
    cell = raw_block(4096)
    call_many(runtime.addresses["pfor"], runtime.table, tasks.addresses["count"], cell, 4, 50_000)
    assert [words(cell)[i] for i in range(5)] == [50_000] * 4 + [0]


def test_a_pool_without_workers_is_serial(tasks):
    runtime = load_native()
    assert run_loops(runtime, tasks, 10) == 0
    pool = WorkerPool(runtime, 0)
    assert run_loops(runtime, tasks, 10) == 0
    assert pool.stop()


def test_a_stopped_pool_finishes_loops_serially_and_a_new_one_takes_over(runtime, tasks):
    first = WorkerPool(runtime, 2)
    assert first.stop()
    assert run_loops(runtime, tasks, 10) == 0
    second = WorkerPool(runtime, 1)
    assert words(runtime.table)[Runtime.POOL] == second.address != first.address
    assert run_loops(runtime, tasks, 50) == 0
    assert second.stop()


def test_loops_survive_the_stop_of_their_pool(tasks, call_many):
    runtime = load_native()
    for _ in range(20):
        pool, cell = WorkerPool(runtime, 2), raw_block(4096)
        caller = threading.Thread(
            target=call_many,
            args=(
                runtime.addresses["pfor"], runtime.table, tasks.addresses["count"], cell, 8, 3000,
            ),
        )  # fmt: skip
        caller.start()
        assert pool.stop()
        caller.join()
        assert [words(cell)[i] for i in range(8)] == [3000] * 8


def test_a_worker_in_a_long_task_makes_stop_give_up(runtime, make_table, tasks):
    pool = WorkerPool(runtime, 1)
    address, table = make_table(runtime)
    caller = threading.Thread(
        target=runtime.functions["pfor"],
        args=(runtime.table, tasks.addresses["forever"], address, 2),
    )
    caller.start()
    while not words(table[0])[2]:
        time.sleep(0.001)
    time.sleep(0.02)
    stopped = pool.stop(timeout_s=0.05)
    words(table[0])[0] = 1  # cancel
    caller.join()
    assert pool.stop() or stopped


def test_the_pool_of_the_process_has_one_lane_per_thread():
    table = workers.start()
    assert table == native().table == workers.start()
    assert workers.lanes() == (config.threads or workers.usable_cores())


def test_the_number_of_threads_is_a_setting(in_child):
    for threads in (1, 3):
        done = in_child(f"""
            import os
            os.environ["FGRAD_THREADS"] = "{threads}"
            from fgrad.backends.cpu import workers
            others = len(os.listdir("/proc/self/task"))  # NumPy's
            assert workers.lanes() == {threads}
            assert len(os.listdir("/proc/self/task")) - others == {threads} - 1
            """)
        assert (done.returncode, done.stderr) == (0, "")


def test_workers_block_all_signals(in_child):
    done = in_child("""
        import os
        from fgrad.backends.cpu import workers
        others = os.listdir("/proc/self/task")
        workers.start()
        for task in os.listdir("/proc/self/task"):
            if task not in others:
                with open(f"/proc/self/task/{task}/status") as file:
                    blocked = [line for line in file if line.startswith("SigBlk")]
                assert int(blocked[0].split()[1], 16) >> 1 & 1, "SIGINT"
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_starting_a_thread_leaves_the_callers_signals_as_they_were(runtime):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    pool = WorkerPool(runtime, 2)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert pool.stop()


def test_masks_send_workers_away_from_the_caller():
    runtime = load_native()
    pool = WorkerPool(runtime, 2)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1 and cpus[-1] < MAX_PLACED:
        assert words(pool.address)[Pool.PLACED_CPUS // 8] == cpus[-1] + 1
        for cpu in cpus:
            for worker in range(2):
                mask = words(pool.address + Pool.MASKS)[MAX_PLACED * cpu + worker]
                assert mask and not mask >> cpu & 1
    assert pool.stop()
    unplaced = WorkerPool(runtime, 1, place=False)
    assert words(unplaced.address)[Pool.PLACED_CPUS // 8] == 0
    assert unplaced.stop()


def test_forked_children_have_workers_of_their_own(in_child, tasks_text):
    done = in_child(f"""
        import os
        from fgrad.backends.cpu import workers
        from fgrad.backends.cpu.code import load_code
        from fgrad.hw.libc import raw_block, words
        from fgrad.backends.cpu.native import native
        os.environ["FGRAD_THREADS"] = "3"
        tasks, table = load_code({tasks_text!r}, level=2), workers.start()
        lanes, cell = workers.lanes(), raw_block(4096)
        def loops(times):
            before = words(cell)[0]
            for _ in range(times):
                native().functions["pfor"](table, tasks.addresses["count"], cell, 8)
            return [words(cell)[i] for i in range(9)] == [before + times] * 8 + [0]
        assert loops(100)
        for i in range(10):
            pid = os.fork()
            if not pid:
                good = loops(100) and workers.lanes() == lanes
                good = good and len(os.listdir("/proc/self/task")) == lanes
                if i % 2:
                    os._exit(not good)
                sys.exit(not good)
            assert os.waitpid(pid, 0)[1] == 0
            assert loops(20)
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_containers_quota_lowers_the_number_of_cores(monkeypatch, tmp_path):
    import builtins
    import io

    real = builtins.open
    for text, expected in (("max 100000", 8), ("150000 100000", 2), ("50000 100000", 1), ("?", 8)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
        monkeypatch.setattr(
            builtins,
            "open",
            lambda path, *a, t=text: io.StringIO(t) if "cgroup" in str(path) else real(path, *a),
        )
        assert workers.usable_cores() == expected


def test_memory_loops_and_clock(runtime):
    r = random.Random(0)
    source, target = raw_block(8192), raw_block(8192)
    from fgrad.hw.libc import ffi

    for _ in range(200):
        size, a, b = r.choice((0, 1, 7, 63, 64, 65, 1000, 3000)), r.randrange(99), r.randrange(99)
        data = r.randbytes(size)
        ffi.memmove(ffi.cast("char*", source + a), data, size)
        pattern = r.getrandbits(63)
        runtime.functions["fill"](target, pattern, 4001)
        runtime.functions["copy"](target + b, source + a, size)
        expected = bytearray((pattern.to_bytes(8, "little") * 501)[:4001])
        expected[b : b + size] = data
        assert bytes(ffi.buffer(ffi.cast("char*", target), 4001)) == bytes(expected)
    before, start = time.monotonic_ns(), runtime.functions["clock"](runtime.table)
    assert abs(start - before) < 50_000_000
    assert runtime.functions["clock"](runtime.table) >= start


def test_free_words_of_the_runtime_table_can_be_set():
    slot = Runtime.FREE + 400
    provide(slot, 1234)
    assert words(native().table)[slot] == 1234
    for wrong in (Runtime.PFOR, 512):
        with pytest.raises(ValueError, match="slot must be from 8 to 511"):
            provide(wrong, 1)
