"""The queue: order, waiting, a full ring, cancel, failures, Ctrl-C, forks, its end."""

import random
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from fgrad.backends.cpu import queue as queue_module
from fgrad.backends.cpu.abi import Error
from fgrad.backends.cpu.queue import Failure, Queue
from fgrad.backends.cpu.ring_ir import Ring
from fgrad.errors import DeviceError
from fgrad.hw.libc import ffi, raw_block, words


@pytest.fixture
def queue(runtime):
    queue = Queue(16, runtime=runtime)
    yield queue
    assert queue.stop()


def start(queue, entry, table):
    """Submit a program and wait until it makes progress."""
    words(table[0])[2] = 0
    ticket = queue.submit(entry, ffi.cast("intptr_t", table))
    while not words(table[0])[2]:
        time.sleep(0.0005)
    return ticket


def test_programs_run_in_the_order_of_their_tickets(queue, runtime, tasks, make_table):
    log = raw_block(1 << 20)
    tables = [make_table(runtime, log, 0) for _ in range(64)]
    submitted = []

    def work(which):
        for i in range(400):
            address, table = tables[which * 16 + i % 16]
            if i >= 16:
                queue.wait(submitted_by[which][i - 16])
            table[5] = which * 1000 + i
            submitted_by[which].append(queue.submit(tasks.addresses["log"], address))
            submitted.append((submitted_by[which][-1], which * 1000 + i))

    submitted_by = [[] for _ in range(4)]
    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert queue.wait(1600) and queue.is_idle()
    assert sorted(ticket for ticket, _ in submitted) == list(range(1, 1601))
    assert words(log)[0] == 1600
    assert [words(log)[1 + k] for k in range(1600)] == [value for _, value in sorted(submitted)]


def test_completed_and_issued_are_the_timeline(queue, runtime, tasks, make_table):
    assert (queue.completed(), queue.issued(), queue.is_idle()) == (0, 0, True)
    address, table = make_table(runtime)
    first = start(queue, tasks.addresses["forever"], table)
    cell = raw_block(4096)
    second = queue.submit(tasks.addresses["add_one"], make_table(runtime, cell)[0])
    assert (first, second, queue.completed(), queue.issued()) == (1, 2, 0, 2)
    assert not queue.is_idle()
    assert not queue.wait(first, timeout_s=0.02) and not queue.wait(second, timeout_s=0)
    queue.cancel(first)
    assert queue.wait(second)
    assert words(cell)[0] == 1 and queue.is_idle()
    with pytest.raises(ValueError, match="ticket 3 was never given out"):
        queue.wait(3)


def test_a_full_ring_makes_submit_wait(queue, runtime, tasks, make_table):
    cell = raw_block(4096)
    address, _ = make_table(runtime, cell)
    for _ in range(2000):
        last = queue.submit(tasks.addresses["add_one"], address)
    assert queue.wait(last)
    assert words(cell)[0] == 2000


def test_no_wake_is_lost_when_both_sides_sleep_at_once(runtime, tasks, make_table):
    queue, cell = Queue(runtime=runtime), raw_block(4096)
    words(queue.address)[Ring.SPIN // 8] = 1
    address, _ = make_table(runtime, cell)
    for _ in range(3000):
        assert queue.wait(queue.submit(tasks.addresses["add_one"], address), timeout_s=5)
    assert words(cell)[0] == 3000
    assert queue.stop()


def test_cancel_ends_the_program_that_runs_and_drops_those_behind(
    queue, runtime, tasks, make_table
):
    cell = raw_block(4096)
    _, endless = make_table(runtime)
    running = start(queue, tasks.addresses["forever"], endless)
    queued = [
        queue.submit(tasks.addresses["add_one"], make_table(runtime, cell)[0]) for _ in range(5)
    ]
    queue.cancel(queued[2])
    assert queue.wait(queued[-1], timeout_s=5)
    assert words(cell)[0] == 2
    cancelled = [running, *queued[:3]]
    assert [queue.failure(t) for t in cancelled] == [
        Failure(t, Error.CANCELLED, 0) for t in cancelled
    ]
    assert queue.failure(queued[3]) is None
    later = queue.submit(tasks.addresses["add_one"], make_table(runtime, cell)[0])
    assert queue.wait(later) and words(cell)[0] == 3 and queue.failure(later) is None


def test_a_cancel_never_hits_the_program_after(queue, runtime, tasks, make_table):
    _, endless = make_table(runtime)
    cell = raw_block(4096)
    address, _ = make_table(runtime, cell)
    for i in range(300):
        first = queue.submit(tasks.addresses["forever"], ffi.cast("intptr_t", endless))
        second = queue.submit(tasks.addresses["add_one"], address)
        queue.cancel(first)
        assert queue.wait(second, timeout_s=5)
        assert words(cell)[0] == i + 1


def test_cancelling_what_is_finished_does_nothing(queue, runtime, tasks, make_table):
    cell = raw_block(4096)
    address, _ = make_table(runtime, cell)
    queue.cancel()
    ticket = queue.submit(tasks.addresses["add_one"], address)
    assert queue.wait(ticket)
    queue.cancel()
    assert queue.failure(ticket) is None and words(cell)[0] == 1


def test_a_program_that_fails_tells_why(queue, runtime, tasks, make_table):
    address, table = make_table(runtime, 4711)
    cell = raw_block(4096)
    good, _ = make_table(runtime, cell)
    for _ in range(3):
        bad = queue.submit(tasks.addresses["fail"], address)
        after = queue.submit(tasks.addresses["add_one"], good)
        assert queue.wait(after)
        assert queue.failure(bad) == Failure(bad, 17, 4711)
        assert queue.failure(after) is None
    for _ in range(200):
        last = queue.submit(tasks.addresses["fail"], address)
        queue.wait(last)
    assert queue.failure(last) == Failure(last, 17, 4711)


def test_a_callback_that_waits_for_its_own_queue_is_refused(queue, runtime, tasks, make_table):
    caught = []

    @ffi.callback("void(void*)")
    def callback(table):
        for action in (
            lambda: queue.wait(queue.issued()),
            lambda: [queue.submit(tasks.addresses["add_one"], good) for _ in range(17)],
        ):
            try:
                action()
            except DeviceError as error:
                caught.append(str(error))
        queue.wait(0)  # finished: no reason to refuse

    cell = raw_block(4096)
    good, _ = make_table(runtime, cell)
    address, _ = make_table(runtime, int(ffi.cast("intptr_t", callback)))
    ticket = queue.submit(tasks.addresses["call_back"], address)
    assert queue.wait(ticket, timeout_s=5)
    assert len(caught) == 2 and all("callback waits" in text for text in caught)


def test_a_stopped_queue_has_finished_its_work_and_takes_no_more(runtime, tasks, make_table):
    queue, cell = Queue(32, runtime=runtime), raw_block(4096)
    address, _ = make_table(runtime, cell)
    for _ in range(30):
        queue.submit(tasks.addresses["add_one"], address)
    assert queue.stop()
    assert words(cell)[0] == 30
    with pytest.raises(DeviceError, match="was stopped"):
        queue.submit(tasks.addresses["add_one"], address)
    assert queue.stop(), "a second time is harmless"


def test_stop_cancels_what_does_not_end(runtime, tasks, make_table):
    queue = Queue(runtime=runtime)
    _, endless = make_table(runtime)
    start(queue, tasks.addresses["forever"], endless)
    assert queue.stop(timeout_s=0.05)


class Busy:
    """A queue whose program ends when it is cancelled, or not even then."""

    def __init__(self, clock, is_deaf):
        self.clock, self.is_deaf, self.is_cancelled = clock, is_deaf, False

    def _quit(self):
        return True

    def _ends_by(self, until):
        has_ended = self.is_cancelled and not self.is_deaf
        if not has_ended:
            self.clock[0] = max(self.clock[0], until)
        return has_ended

    def cancel(self):
        self.is_cancelled = True


def test_many_busy_queues_stop_in_the_time_of_one(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(queue_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    queues = [Busy(clock, is_deaf=i == 2) for i in range(5)]
    assert queue_module._stop(queues, 2.0) == [queues[2]]
    assert clock[0] == 100.0 + 2.0 + 0.5 and all(queue.is_cancelled for queue in queues)


def test_progress_tells_a_slow_program_from_one_that_hangs(queue, runtime, tasks, make_table):
    assert queue.progress() == (0, 0)
    _, endless = make_table(runtime)
    start(queue, tasks.addresses["forever"], endless)
    first = second = queue.progress()
    deadline = time.monotonic() + 30
    while second == first and time.monotonic() < deadline:  # the queue's thread may be without a core
        time.sleep(0.001)
        second = queue.progress()
    assert first[0] == second[0] == 0 and 0 < first[1] < second[1]
    queue.cancel()
    assert queue.wait(1)
    hangs = make_table(runtime)[1]
    start(queue, tasks.addresses["forever"], hangs)
    queue.cancel()
    assert queue.wait(2) and queue.progress() == (2, 0)


def test_the_size_must_be_a_power_of_two():
    for size in (0, 1, 3, 48):
        with pytest.raises(ValueError, match="power of two"):
            Queue(size)


CHILD = """
    import os, random, signal, threading, time
    from fgrad.backends.cpu import workers
    from fgrad.backends.cpu.code import load_code
    from fgrad.hw.libc import raw_block, words
    from fgrad.backends.cpu.queue import Queue
    from fgrad.errors import ForkedDeviceError
    def table(*arguments):
        address = raw_block(4096)
        words(address)[0], words(address)[1] = address + 2048, workers.start()
        for i, word in enumerate(arguments):
            words(address)[4 + i] = word
        return address
    code, queue, cell = load_code(TASKS, level=2), Queue(), raw_block(4096)
    tasks = code.addresses
"""


@pytest.fixture
def in_queue_child(in_child, tasks_text):
    def run(source):
        return in_child(CHILD.replace("TASKS", repr(tasks_text)) + source)

    return run


def test_ctrl_c_leaves_a_wait_at_once_and_the_work_goes_on(in_queue_child):
    done = in_queue_child("""
    endless = table()
    for i in range(10):
        ticket = queue.submit(tasks["forever"], endless)
        delay = 0.02 + random.random() * 0.01
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            queue.wait(ticket)
            sys.exit(3)
        except KeyboardInterrupt:
            pass
        timer.join()
        assert not queue.is_idle()
        queue.cancel()
        assert queue.wait(ticket, timeout_s=5)
    good = table(cell)
    assert queue.wait(queue.submit(tasks["add_one"], good)) and words(cell)[0] == 1
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_continues_the_timeline_without_the_parents_work(in_queue_child):
    done = in_queue_child("""
    endless, good, ring = table(), table(cell), queue.words
    assert queue.wait(queue.submit(tasks["add_one"], good))
    running = queue.submit(tasks["forever"], endless)
    behind = queue.submit(tasks["add_one"], good)
    pid = os.fork()
    if not pid:
        assert queue.wait(1) and queue.is_idle() and queue.words is ring
        for ticket in (running, behind):
            try:
                queue.wait(ticket)
                os._exit(3)
            except ForkedDeviceError as error:
                assert f"work {ticket} was submitted before the fork" in str(error)
        for i in range(200):
            ticket = queue.submit(tasks["add_one"], good)
        assert ticket == behind + 200 and queue.wait(ticket, timeout_s=5)
        assert words(cell)[0] == 201
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    queue.cancel(running)
    assert queue.wait(behind, timeout_s=5)
    assert words(cell)[0] == 2
    """)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("entry, seconds", [("forever", 3.5), ("deaf", 4.5)])
def test_the_process_ends_with_an_endless_program_running(in_queue_child, entry, seconds):
    begin = time.monotonic()
    done = in_queue_child(f"""
    queue.submit(tasks["{entry}"], table())
    time.sleep(0.01)
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - begin < seconds + 20, "start of a process on a busy machine included"


def test_the_process_ends_with_idle_threads_and_short_work_in_flight(in_queue_child):
    done = in_queue_child("""
    good = table(cell)
    for _ in range(500):
        queue.submit(tasks["add_one"], good)
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_random_interrupts_never_lose_a_program(in_queue_child):
    done = in_queue_child("""
    good, tickets, interrupts = table(cell), 0, 0
    signal.signal(signal.SIGALRM, lambda *a: (_ for _ in ()).throw(InterruptedError()))
    for i in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.random() * 2e-4 + 1e-6)
            while True:
                queue.wait(queue.submit(tasks["add_one"], good))
        except InterruptedError:
            interrupts += 1
    assert interrupts == 300
    assert queue.wait(queue.issued(), timeout_s=5)
    assert words(cell)[0] == queue.issued() == queue.completed()
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_random_cancels_keep_the_order(queue, runtime, tasks, make_table):
    r, cell = random.Random(1), raw_block(4096)
    good, _ = make_table(runtime, cell)
    endless = [make_table(runtime) for _ in range(4)]
    ran = 0
    for _ in range(200):
        address, _ = r.choice(endless)
        stuck = queue.submit(tasks.addresses["forever"], address)
        behind = [queue.submit(tasks.addresses["add_one"], good) for _ in range(r.randrange(6))]
        upto = r.choice([stuck, *behind])
        if r.random() < 0.5:
            time.sleep(r.random() * 1e-4)
        queue.cancel(upto)
        assert queue.wait(queue.issued(), timeout_s=5)
        ran += sum(ticket > upto for ticket in behind)
        assert queue.failure(stuck) == Failure(stuck, Error.CANCELLED, 0)
    assert words(cell)[0] == ran


def test_the_dispatcher_blocks_signals(queue, runtime, tasks, make_table):
    _, endless = make_table(runtime)
    start(queue, tasks.addresses["forever"], endless)
    got = []
    old = signal.signal(signal.SIGUSR1, lambda *a: got.append(threading.get_ident()))
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert got == [threading.get_ident()]
    queue.cancel()
