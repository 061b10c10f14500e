"""The CPU as a device: programs lowered to LLVM IR, compiled in process, called through cffi.

A program runs in the caller's thread when nothing is queued before it, else behind what is queued:
buffers are handed on in order, without fences. Long programs are queued, so that the caller goes
on; what they fail with is raised by the next `sync`.

`cpu:1`, `cpu:2` and so on are further queues with memory of their own over one pool of workers.
"""

from __future__ import annotations

import os
import time
import weakref

from fgrad.backends.cpu import workers
from fgrad.backends.cpu.code import host_machine
from fgrad.backends.cpu.executable import CpuExecutable, Entry
from fgrad.backends.cpu.forks import after_fork
from fgrad.backends.cpu.host_calls import is_inside
from fgrad.backends.cpu.kept import lower_or_find
from fgrad.backends.cpu.port import CpuPort, QueueTimeline, machines, submission
from fgrad.backends.cpu.profile import Stamps
from fgrad.backends.cpu.queue import Queue
from fgrad.config import config
from fgrad.errors import (
    DeviceError,
    DeviceHangError,
    DeviceLostError,
    DeviceMissingError,
    ForkedDeviceError,
)
from fgrad.hw.device import register_device
from fgrad.hw.flight import Flight
from fgrad.hw.pool import Pool, host_pool
from fgrad.hw.profile import Profile, Range
from fgrad.hw.timeline import Fence, wait
from fgrad.lower.limits import Limits
from fgrad.uop.program import Program

MAX_DEVICES = 64
QUEUE_SIZE = 256
_DRAIN_SECONDS = 2.0
_RESET_SECONDS = 2.0


class CpuDevice:
    """One ordered queue over the process's worker pool.

    machines  the devices to which data is copied by commands, without waiting
    profile   what it did and when, while it is profiled
    """

    machines = machines
    wants_whole_arguments = False

    def __init__(self, index: int) -> None:
        if index >= MAX_DEVICES:
            raise DeviceMissingError(f"there is no device cpu:{index}; the last one is cpu:{MAX_DEVICES - 1}")
        self.name = f"cpu:{index}" if index else "cpu"
        self.runtime = workers.start()
        self.queue = Queue(QUEUE_SIZE)
        self.timeline = QueueTimeline(self.name, self.queue)
        self.in_flight = self.timeline.in_flight
        self.pool = Pool(self.name) if index else host_pool
        self.pool.clock = self.timeline
        self.port = CpuPort(self.timeline, self.pool)
        self.limits = machine_limits()
        self.profile: Profile | None = None
        self._executables: weakref.WeakSet[CpuExecutable] = weakref.WeakSet()
        self._lost: Exception | None = None
        self._abandoned: list[Flight] = []  # their programs still hold the memory of their tables
        self._left_at = 0  # the newest tick whose wait Ctrl-C has left
        _devices.append(self)
        after_fork(self._forked)

    # ---- programs
    def compile(self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str) -> CpuExecutable:
        """Lower and compile; see `Device`."""
        lowered = lower_or_find(program, self.limits, inline, donated, name)
        return CpuExecutable(self, lowered, inline, name, len(program.params), len(program.outs))

    def note(self, executable: CpuExecutable) -> None:
        """Learn of a program, so that profiling sees its calls."""
        self._executables.add(executable)
        if self.profile is not None:
            executable.hide_tables(True)

    def enqueue(self, executable: CpuExecutable, entry: Entry) -> Fence:
        """Queue a filled table behind everything submitted.

        Raises DeviceLostError if the device hung before and could not be freed.
        """
        self._refuse_if_lost()
        flight = executable.flight(entry)
        commands = [(executable.address, entry[1])]
        program = 0  # its place among the commands
        if self.profile is not None:
            stamps, program = Stamps(self.name, self.pool), 1
            commands = [stamps.commands[0], *commands, stamps.commands[1]]
            flight = _stamped(flight, self.profile, stamps)
        while not self._try_submit(flight, commands, program):
            self.queue.make_room(len(commands))
        if config.sync:
            self.sync()
        return Fence(self.timeline, flight.tick)

    def _try_submit(self, flight: Flight, commands: list[tuple[int, int]], program: int) -> bool:
        """Submit unless the queue is full. Nobody waits under the lock: a callback may need it."""
        queue = self.queue
        with submission:
            self.in_flight.retire()
            if not queue.has_room(len(commands)):
                return False
            first = queue.issued() + 1
            flight.tick = first + len(commands) - 1
            self.in_flight.begin(flight)  # first, as an interrupt may come right after the call
            try:
                for entry, table in commands:
                    queue.submit(entry, table)
            except BaseException:
                flight.tick = queue.issued()
                if flight.tick < first + program:
                    self.in_flight.cancel(flight)
                raise
        return True

    # ---- waiting
    def check_readable(self) -> None:
        """Raise where results cannot be read back: never, here."""

    def sync(self) -> None:
        """Wait until everything submitted is done.

        Raises what went wrong since the last time, once. A program that makes no progress for 30 s
        and a thousand times its estimated length is cancelled: DeviceHangError; if it does not even
        react to that, the device is lost. The first Ctrl-C leaves the wait and the work goes on;
        a second one in a wait for the same work cancels it.
        """
        if not self.in_flight:
            return
        self._refuse_if_lost()
        with submission:
            self.in_flight.retire()
            last = self.in_flight.last
        if last:
            self._wait(last)
        self.pool.settle()
        with submission:
            self.in_flight.retire()
            self.in_flight.raise_unseen()

    def _wait(self, tick: int) -> None:
        try:
            wait(self.timeline, tick)
        except KeyboardInterrupt:
            if self._left_at > self.queue.completed():
                self.queue.cancel(tick)
            self._left_at = tick
            raise
        except DeviceHangError as error:
            if self.queue.completed() < tick:
                self._lost = error
            raise

    def cancel(self) -> None:
        """Ask everything submitted to end; the next `sync` raises CancelledError if it does."""
        self.queue.cancel()

    def reset(self) -> None:
        """Give up everything unfinished and be usable again; see `fgrad.hw.device.reset`.

        A program that is inside a Python function is left behind there: when the function returns,
        the program ends and writes nothing. Any other must have ended by now, or end in two
        seconds: its memory cannot be given to others while it runs. Raises DeviceLostError.
        """
        well = 0 if self._lost else self.queue.completed()  # what failed before is still to be told
        self.queue.cancel()
        until = time.monotonic() + _RESET_SECONDS
        while not self.queue.is_idle():
            with submission:
                left = self.queue.abandon(is_inside)
                if left:
                    self._abandoned += self.in_flight.abandon(self._given_up)
            if not left and time.monotonic() > until:
                raise DeviceLostError(
                    f"{self.name} cannot be reset: native code of {', '.join(self.in_flight.names())} "
                    "still runs, and looks at nothing; wait for it, or use another device (cpu:1)"
                ) from self._lost
            if not left:
                time.sleep(0.001)
        with submission:
            self.in_flight.retire()
            self.in_flight.mark_seen_after(well)
        self._lost = None

    def _given_up(self, names: str) -> Exception:
        cause = f": {self._lost}" if self._lost else ""
        return DeviceLostError(f"{names} was given up when {self.name} was reset{cause}")

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise DeviceLostError(
                f"{self.name} is lost, as a program hung and ignored its cancellation: {self._lost}"
            ) from self._lost

    # ---- profiling
    def start_profile(self) -> None:
        """Take time stamps around every program from now on. Costs about 10 us a call."""
        self.profile = Profile(self.name, self.pool)
        for executable in tuple(self._executables):
            executable.hide_tables(True)

    def stop_profile(self) -> Profile | None:
        """Wait for the device and return what it did since `start_profile`; None if it was not profiled."""
        profile, self.profile = self.profile, None
        for executable in tuple(self._executables):
            executable.hide_tables(False)
        self.sync()
        if profile is not None:
            profile.finish()
        return profile

    # ---- forking
    def _forked(self, is_child: bool) -> None:
        """The child's memory is its own, its queue is new, and what ran in the parent stays there.

        The queue's own hook has run: it knows what is lost. The lock is held.
        """
        if is_child:
            self.in_flight.forget(
                self.queue.is_lost,
                lambda names: ForkedDeviceError(
                    f"{names} ran on {self.name} when the process forked; the results exist in the "
                    "parent process only. Wait for them (block_until_ready) before forking"
                ),
            )


def _stamped(flight: Flight, profile: Profile, stamps: Stamps) -> Flight:
    """A flight up to the stamp of its end, one tick after the program's own."""

    def error(whole: Flight) -> Exception | None:
        flight.tick = whole.tick - 1
        return flight.error(flight)

    def finish() -> None:
        profile.ranges.append(Range(profile.device, flight.name, *stamps.read(), queue="compute"))
        profile.note_level()
        flight.finish()

    return Flight(0, flight.name, error, finish, flight.work_ms)


_devices: list[CpuDevice] = []


def _drain() -> None:
    """Before a fork: let what is queued finish, so that the child has the results as well."""
    for device in tuple(_devices):
        queue = device.queue
        if queue.is_idle() or queue.is_own_thread():
            continue
        try:
            queue.wait(queue.issued(), _DRAIN_SECONDS)
        except DeviceError:
            continue  # work of before an earlier fork: nobody can wait for it


def machine_limits() -> Limits:
    """What lowering must know of this machine."""
    machine = host_machine()
    features = frozenset(machine.feature_names)
    vector = 64 if "avx512f" in features else 32 if "avx2" in features else 16
    return Limits(vector_bytes=vector, features=features, workers=workers.lanes())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_drain)
register_device("cpu", CpuDevice)
