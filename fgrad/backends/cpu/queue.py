"""The ordered queue of a CPU device: one dispatcher thread runs programs one after another.

A ticket is the place of a submission in the order, counting from 1; tickets are the values of the
device's timeline. Submitting costs about a microsecond and never waits unless the ring is full.
"""

import atexit
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fgrad.backends.cpu.forks import after_fork, fork_safe_lock
from fgrad.backends.cpu.native import Native, native
from fgrad.backends.cpu.ring_ir import CELL_BYTES, LOG_BYTES, LOG_ENTRIES, Cell, Ring
from fgrad.backends.cpu.workers import NativeThread, spin_rounds, wait_for_word
from fgrad.errors import DeviceError, ForkedDeviceError
from fgrad.hw.libc import PAGE, ffi, raw_block, words

_SLICE_NS = 50_000_000  # a native wait is left this often, to let Python look for signals
_STOP_SECONDS = 2.0
_CANCEL_SECONDS = 0.5
_KEPT_FAILURES = 1024
_COMPLETED = Ring.COMPLETED // 8
_TAIL = Ring.TAIL // 8


@dataclass(frozen=True, slots=True)
class Failure:
    """How a program ended that did not end well: an `abi.Error` or a program's own code."""

    ticket: int
    error: int
    where: int


class Queue:
    """One dispatcher over a bounded ring. All methods may be called from any thread.

    A queue lives as long as the process. Its thread starts with the first submission. In a forked
    child it starts anew, at the same address: work submitted before the fork belongs to the parent,
    and waiting for it raises ForkedDeviceError; what was completed before counts as completed.
    """

    idle_words = (_COMPLETED, _TAIL)  # of `words`; equal means idle, for tests in generated code

    def __init__(self, size: int = 64, *, runtime: Native | None = None) -> None:
        """Make a queue with room for `size` (a power of two) programs that have not begun."""
        if not 2 <= size <= LOG_ENTRIES or size & size - 1:
            raise ValueError(
                f"the size of a queue must be a power of two from 2 to {LOG_ENTRIES}, got {size}"
            )
        self._size = size
        self._runtime = runtime or native()
        functions = self._runtime.functions
        self._submit, self._await = functions["submit"], functions["await"]
        self._table = self._runtime.table
        self._lock = fork_safe_lock()
        self._failures: dict[int, Failure] = {}
        self._failures_read = 0
        self._lost: list[tuple[int, int]] = []  # tickets of before a fork: first < ticket <= last
        self._is_stopped = False
        self._left: list[NativeThread] = []  # dispatchers that were abandoned and may still run
        # called before this thread waits for a ticket of this queue; raises if it never would end
        self.before_wait: Callable[[int], None] = lambda ticket: None
        self.after_wait: Callable[[], None] = lambda: None
        self._thread: NativeThread
        self.address = raw_block(Ring.CELLS + CELL_BYTES * size)
        self._words = words(self.address)
        self._make_ring(0)
        after_fork(self._forked)
        _queues.append(self)

    def submit(self, entry_address: int, table_address: int) -> int:
        """Queue ``entry(table)`` behind all earlier submissions and return its ticket.

        The table, its control block and all it points to must stay until the ticket is completed;
        the dispatcher clears the control block's cancel, error and where before the program runs.
        Waits only while the ring is full. Raises DeviceError after `stop`.
        """
        self.start()
        while True:
            ticket: int = self._submit(self._table, self.address, entry_address, table_address)
            if ticket >= 0:
                return ticket
            self._nap(self.completed() + 1, _SLICE_NS)

    def start(self) -> None:
        """Start the dispatcher unless it runs. Raises DeviceError after `stop`."""
        if not self._ident[0]:
            self._start()

    def has_room(self, count: int) -> bool:
        """Whether `count` programs can be submitted without waiting, if nobody else submits."""
        if count > self._size:
            raise DeviceError(f"{count} programs at once are more than the queue's {self._size}")
        return self.issued() + count - self.completed() <= self._size

    def make_room(self, count: int) -> None:
        """Wait until `count` more programs can be submitted, if nobody else submits."""
        while not self.has_room(count):
            self._nap(self.issued() + count - self._size, _SLICE_NS)

    def _nap(self, ticket: int, limit_ns: int) -> int:
        """Wait once for a ticket, as `await` does. Raises DeviceError where that would never end."""
        self._refuse_own_thread()
        self.before_wait(ticket)
        try:
            reached: int = self._await(self._table, self.address, ticket, limit_ns)
        finally:
            self.after_wait()
        return reached

    def is_own_thread(self) -> bool:
        """Whether this is the dispatcher, which a callback runs on."""
        return bool(words(self._thread.ident)[0] == threading.get_ident())

    @property
    def words(self) -> Any:
        """The ring as an array of int64, the same for the life of the process and its children."""
        return self._words

    def completed(self) -> int:
        """Return the newest finished ticket; all smaller ones are finished too."""
        value: int = self._words[_COMPLETED]
        return value

    def issued(self) -> int:
        """Return the newest ticket that was given out."""
        value: int = self._words[_TAIL]
        return value

    def is_idle(self) -> bool:
        """Return whether everything submitted has finished."""
        idle: bool = self._words[_COMPLETED] == self._words[_TAIL]
        return idle

    def wait(self, ticket: int, timeout_s: float | None = None) -> bool:
        """Wait until `ticket` is completed; False if that took longer than `timeout_s`.

        Ctrl-C leaves the wait at once with KeyboardInterrupt; the work goes on. How the program
        ended is told by `failure`. Raises ForkedDeviceError for work of the parent process, and
        DeviceError when called by a callback of this queue for work that is not finished.
        """
        if ticket > self.completed():
            self._wait(ticket, None if timeout_s is None else time.monotonic() + timeout_s)
        if self.is_lost(ticket):
            raise ForkedDeviceError(
                f"work {ticket} was submitted before the fork and belongs to the parent process"
            )
        return self.completed() >= ticket

    def is_lost(self, ticket: int) -> bool:
        """Whether a fork happened before `ticket` was finished: it belongs to the parent."""
        return any(first < ticket <= last for first, last in self._lost)

    def _wait(self, ticket: int, until: float | None) -> None:
        if ticket > self.issued():
            raise ValueError(f"ticket {ticket} was never given out; the newest is {self.issued()}")
        limit = _SLICE_NS
        while self._nap(ticket, limit) < ticket:
            if until is not None:
                left = until - time.monotonic()
                if left <= 0:
                    return
                limit = min(_SLICE_NS, max(1000, int(left * 1e9)))

    def cancel(self, ticket: int | None = None) -> None:
        """Ask all unfinished work up to `ticket` (default: all there is) to end.

        Work that has not begun never runs; the program that runs ends at its next poll. Either way
        the tickets are completed in order, with `Error.CANCELLED` as their failure.
        """
        last = self.issued() if ticket is None else min(ticket, self.issued())
        self._runtime.functions["cancel"](self.address, last)

    def progress(self) -> tuple[int, int]:
        """Return (newest finished ticket, progress word of the program that runs, or 0).

        As long as this changes, the device does not hang, however long a wait takes.
        """
        running = int(self._runtime.functions["progress"](self.address))
        return self.completed(), running

    def failure(self, ticket: int) -> Failure | None:
        """Return how `ticket`, which is completed, failed; None if it ended well.

        Failures are kept for the newest thousand that failed, if looked for before 256 others
        failed.
        """
        with self._lock:
            count = self._words[Ring.FAILURES // 8]
            for i in range(max(self._failures_read, count - LOG_ENTRIES), count):
                at = (Ring.LOG + i % LOG_ENTRIES * LOG_BYTES) // 8
                found = Failure(*(int(self._words[at + k]) for k in range(3)))
                self._failures[found.ticket] = found
            self._failures_read = count
            while len(self._failures) > _KEPT_FAILURES:
                del self._failures[next(iter(self._failures))]
            return self._failures.get(ticket)

    def abandon(self, may_leave: Callable[[int], bool]) -> bool:
        """Leave behind the dispatcher and the program that it runs; later work gets a new one.

        may_leave  asked with the dispatcher's thread identity

        All tickets given out count as completed. Returns False, having changed nothing, if no
        program runs or it may not be left. Nobody must submit meanwhile.
        """
        with self._lock:
            if not may_leave(words(self._thread.ident)[0]):
                return False
            if not self._runtime.functions["abandon"](self.address):
                return False
            self._left.append(self._thread)
            self._make_ring(self.issued(), Ring.EPOCH, Ring.WAITERS, Ring.FAILURES)
            self._ident = words(self._thread.ident)
        return True  # who waits looks again within a slice

    def stop(self, timeout_s: float = _STOP_SECONDS) -> bool:
        """Take no more work, finish what there is, and end the dispatcher.

        What is not finished after `timeout_s` is cancelled. Returns False if a program ignores even
        that; then its thread goes on, and the process can end nevertheless.
        """
        return not _stop([self], timeout_s)

    def _quit(self) -> bool:
        """Take no more work, and have the dispatcher end when it has done what there is; False if it never began."""
        with self._lock:
            self._is_stopped = True
            self._ident = words(raw_block(PAGE))  # submit sees no thread
        if not self._thread.is_started:
            return False
        self._words[Ring.QUIT // 8] = 1
        self._runtime.functions["poke"](self._table, self.address + Ring.SEQ)
        return True

    def _ends_by(self, until: float) -> bool:
        """Whether the dispatcher ends by that time; then it is joined."""
        if not wait_for_word(self.address + Ring.EXITED, 1, max(0.0, until - time.monotonic())):
            return False
        self._thread.join()
        self._thread = self._new_thread()
        return True

    def _make_ring(self, position: int, *kept: Ring) -> None:
        """Set up an empty ring whose next ticket is ``position + 1``, with no thread at it.

        kept  words that stay; the log of failures stays with their number
        """
        ring, size_bytes = self._words, Ring.CELLS + CELL_BYTES * self._size
        old = {field: ring[field // 8] for field in kept}
        if Ring.FAILURES in kept:
            log = bytes(ffi.buffer(ring + Ring.LOG // 8, Ring.CELLS - Ring.LOG))
        else:
            log = bytes(Ring.CELLS - Ring.LOG)
        ffi.memmove(ring, bytes(Ring.LOG) + log + bytes(size_bytes - Ring.CELLS), size_bytes)
        for field, value in old.items():
            ring[field // 8] = value
        ring[Ring.TAIL // 8] = ring[Ring.COMPLETED // 8] = ring[Ring.FIRST // 8] = position
        ring[Ring.SPIN // 8] = spin_rounds(self._runtime)
        ring[Ring.MASK // 8] = self._size - 1
        for p in range(position, position + self._size):
            cell = Ring.CELLS + CELL_BYTES * (p % self._size) + Cell.SEQUENCE
            ring[cell // 8] = p
        self._thread = self._new_thread()
        self._ident = words(self._thread.ident)

    def _new_thread(self) -> NativeThread:
        return NativeThread(self._runtime, "dispatcher", self._table, self.address)

    def _start(self) -> None:
        with self._lock:
            if self._is_stopped:
                raise DeviceError("the queue was stopped and takes no more work")
            if not self._thread.is_started:
                self._thread.start()

    def _refuse_own_thread(self) -> None:
        """Raise DeviceError on the dispatcher, which would wait for itself."""
        if self.is_own_thread():
            raise DeviceError(
                "a callback waits for work queued behind the program that called it; "
                "return the value from the callback and use it after the program"
            )

    def _forked(self, is_child: bool) -> None:
        if not is_child or not self._thread.is_started:
            return
        completed, issued = self.completed(), self.issued()
        if completed < issued:
            self._lost.append((completed, issued))
        self._failures_read = 0
        self._make_ring(issued)


_queues: list[Queue] = []


def _stop(queues: Sequence[Queue], timeout_s: float = _STOP_SECONDS) -> list[Queue]:
    """Stop queues, all within one time, however many there are; returns those that even ignore being cancelled."""
    left = [queue for queue in queues if queue._quit()]
    for patience in (timeout_s, _CANCEL_SECONDS):
        until = time.monotonic() + patience
        left = [queue for queue in left if not queue._ends_by(until)]
        for queue in left:
            queue.cancel()
    return left


atexit.register(_stop, _queues)
