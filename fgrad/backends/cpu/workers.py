"""The worker pool: native threads that share the parallel loops of every program of the process.

Workers are bare pthreads running one native loop: they have no Python state, the interpreter does
not know them, and all signals are blocked in them, so that Ctrl-C reaches a Python thread. A forked
child builds a pool of its own before `fork` returns; the parent's is untouched.
"""

import atexit
import os
import time
import warnings

from fgrad.backends.cpu.abi import Os, Runtime
from fgrad.backends.cpu.forks import after_fork, fork_safe_lock
from fgrad.backends.cpu.native import Native, native
from fgrad.backends.cpu.pool_ir import MAX_PLACED, MAX_WORKERS, POOL_BYTES, Pool
from fgrad.config import config
from fgrad.errors import DeviceError
from fgrad.hw.libc import PAGE, address_of, as_function, raw_block, words

SPIN_US = 30.0  # how long an idle thread looks for work before it sleeps; a wake costs as much
_STOP_SECONDS = 2.0
_END_SECONDS = 0.25  # at the end of the process; the queues have waited before
_join = as_function(address_of("pthread_join"), "int(*)(intptr_t, intptr_t)")


class NativeThread:
    """A pthread that runs ``entry(arg)`` once started; `arguments` are the words arg points to.

    ident  address of a word that holds 0, and once started what threading.get_ident() returns there
    """

    def __init__(self, runtime: Native, entry: str, *arguments: int) -> None:
        block = raw_block(PAGE)
        self.ident = block
        self._words = words(block)
        for i, word in enumerate(arguments):
            self._words[1 + i] = word
        self._spawn = runtime.functions["spawn"]
        self._start = runtime.table, block, runtime.addresses[entry], block + 8

    @property
    def is_started(self) -> bool:
        """Whether the thread was created; set in the very call that creates it."""
        return bool(self._words[0])

    def start(self) -> None:
        """Create the thread. Raises DeviceError if the system has none left."""
        error = self._spawn(*self._start)
        if error:
            self._words[0] = 0
            raise DeviceError(f"the system gives no further thread: {os.strerror(error)}")

    def join(self) -> None:
        """Wait until the thread, which was started, has left its loop; to be called once."""
        _join(self._words[0], 0)


class WorkerPool:
    """Workers of one runtime table.

    count  number of workers; loops run on count + 1 threads, the caller being one
    place  keep workers off the caller's processor; from 80 us of work on this decides
    """

    def __init__(self, runtime: Native, count: int, *, place: bool = True) -> None:
        self._runtime = runtime
        self.address = raw_block(POOL_BYTES)
        self._words = words(self.address)
        self._words[Pool.SPIN // 8] = spin_rounds(runtime)
        self._words[Pool.LAST_CPU // 8] = -1
        self._threads: list[NativeThread] = []
        self._start(min(count, MAX_WORKERS))
        if place:
            self._set_masks()
        self._words[Pool.WORKERS // 8] = self.count
        words(runtime.table)[Runtime.POOL] = self.address

    @property
    def count(self) -> int:
        """The number of workers that run."""
        return len(self._threads)

    def _start(self, count: int) -> None:
        table = self._runtime.table
        try:
            for i in range(count):
                thread = NativeThread(self._runtime, "worker", table, self.address, i + 1)
                thread.start()
                self._threads.append(thread)
        except DeviceError as error:
            warnings.warn(f"{self.count} of {count} workers: {error}", RuntimeWarning, stacklevel=4)
        until = time.monotonic() + _STOP_SECONDS
        while not all(self._words[Pool.THREADS // 8 + i] for i in range(self.count)):
            if time.monotonic() > until:
                raise DeviceError("the worker threads do not start")
            time.sleep(0)

    def _set_masks(self) -> None:
        """For each processor a caller may sit on, give each worker one of the others."""
        cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        has_getcpu = words(words(self._runtime.table)[Runtime.OS])[Os.GETCPU] != 0
        if not has_getcpu or len(cpus) < 2 or cpus[-1] >= MAX_PLACED or self.count > MAX_PLACED:
            return
        for cpu in range(cpus[-1] + 1):
            others = [other for other in cpus if other != cpu]
            row = Pool.MASKS // 8 + MAX_PLACED * cpu
            for worker in range(self.count):
                mask = 1 << others[worker % len(others)]
                self._words[row + worker] = mask - (1 << 64) if mask >> 63 else mask
        self._words[Pool.PLACED_CPUS // 8] = cpus[-1] + 1

    def stop(self, timeout_s: float = _STOP_SECONDS) -> bool:
        """End the workers; False if one is still inside a task after `timeout_s`, and goes on.

        Loops that run meanwhile are finished by their callers.
        """
        self._words[Pool.WORKERS // 8] = 0
        self._words[Pool.QUIT // 8] = 1
        self._runtime.functions["poke"](self._runtime.table, self.address)
        if not wait_for_word(self.address + Pool.EXITED, self.count, timeout_s):
            return False
        while self._threads:
            self._threads.pop().join()
        return True


def wait_for_word(address: int, value: int, timeout_s: float) -> bool:
    """Wait until the 64-bit word at `address` is at least `value`, looking now and then."""
    until, pause = time.monotonic() + timeout_s, 1e-5
    while words(address)[0] < value:
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 1e-3)
    return True


_rounds: int | None = None


def spin_rounds(runtime: Native) -> int:
    """Return how many pauses take `SPIN_US`; a pause is 14 ns here, 50 ns elsewhere."""
    global _rounds
    if _rounds is None:
        spin, clock = runtime.functions["spin"], runtime.functions["clock"]
        best = float("inf")
        for _ in range(3):
            start = clock(runtime.table)
            spin(500)
            best = min(best, (clock(runtime.table) - start) / 500)
        _rounds = max(1, int(SPIN_US * 1000 / max(best, 0.1)))
    return _rounds


def usable_cores() -> int:
    """Return how many processors this process may use, by affinity and by a container's quota."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):  # no such system, or another format
        return cores
    return cores if quota == "max" else max(1, min(cores, -(-int(quota) // int(period))))


# ---- the pool of the process

_lock = fork_safe_lock()
_pool: WorkerPool | None = None


def start() -> int:
    """Start the workers unless they run; return the address for ``t[Slot.RUNTIME]``.

    Their number is ``config.threads - 1`` at the first call, one per usable core being the default.
    """
    global _pool
    runtime = native()
    if _pool is None:
        with _lock:
            if _pool is None:
                _pool = WorkerPool(runtime, (config.threads or usable_cores()) - 1)
    return runtime.table


def lanes() -> int:
    """Return how many worker numbers a loop may see: tasks get 0 <= worker < lanes()."""
    start()
    assert _pool is not None, "start() made it"
    return _pool.count + 1


def stop(timeout_s: float = _STOP_SECONDS) -> None:
    """End the workers. Programs still work, serially, until `start` is called again."""
    global _pool
    with _lock:
        pool, _pool = _pool, None
    if pool is not None:
        pool.stop(timeout_s)


def _forked(is_child: bool) -> None:
    """The child has no workers: give it as many of its own, so that scratch still suffices."""
    global _pool
    if is_child and _pool is not None:
        _pool = WorkerPool(native(), _pool.count)


after_fork(_forked)
atexit.register(stop, _END_SECONDS)
