"""The SIM device. `sim`, `sim:1` and so on are devices of one machine, each with a queue for programs and two for
copies.
"""

from __future__ import annotations

import time

from fgrad.backends.sim.executable import SimExecutable
from fgrad.backends.sim.port import SimPort, machines
from fgrad.errors import DeviceLostError
from fgrad.hw.device import register_device
from fgrad.hw.flight import InFlight
from fgrad.hw.libc import memset
from fgrad.hw.mock.address import Range
from fgrad.hw.mock.machine import Machine
from fgrad.hw.pool import Pool
from fgrad.hw.profile import Profile
from fgrad.hw.timeline import wait
from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import lower
from fgrad.uop.program import Program

RING_WORDS = 1024
POISON = 0xFF


class SimPool(Pool):
    """Memory that the machine's address map knows block by block; freed memory faults when touched."""

    def __init__(self, name: str, machine: Machine) -> None:
        super().__init__(name, reuses=False)
        self._machine = machine

    def _map(self, size: int, *, counted: int | None = None, guard: bool = False) -> int:
        address = super()._map(size, counted=counted, guard=guard)
        if self._machine.faults.poison:
            memset(address, POISON, size)
        self._machine.map.add(Range(address, size, f"a block of {self.name}"))
        return address

    def unmap(self, address: int, size: int, *, guard: bool = False) -> None:
        """Return a block to the system."""
        self._machine.map.remove(address)
        self._machine.races.forget(address, size)
        super().unmap(address, size, guard=guard)


class SimDevice:
    """See the module.

    machines     the machine and its queues
    machine      to step it, to set its seed and its faults (`machine.restart`)
    copy_queues  take turns
    profile      what it did and when, while it is profiled
    """

    machines = machines
    wants_whole_arguments = True
    copy_queues = ("copy", "copy1")

    def __init__(self, index: int) -> None:
        self.name = f"sim:{index}" if index else "sim"
        self.machine = machines.machine
        self.pool = SimPool(self.name, self.machine)
        self.limits = Limits()
        self.ports = {queue: self._port(queue) for queue in ("compute", *self.copy_queues)}
        self.port = self.ports["compute"]
        self.timeline = self.port.timeline
        self.pool.clock = self.timeline
        self.profile: Profile | None = None

    def _port(self, queue: str) -> SimPort:
        processor = self.machine.add_processor(f"{self.name}/{queue}", RING_WORDS)
        return SimPort(processor, self.pool, copies_only=queue in self.copy_queues)

    @property
    def in_flight(self) -> InFlight:
        """What was submitted to the compute queue."""
        return self.port.in_flight

    def compile(self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str) -> SimExecutable:
        """Lower, plan and encode; see `Device`."""
        lowered = lower(program, self.limits, inline=inline, donated=donated, name=name)
        return SimExecutable(self, program, lowered, inline, name)

    def check_readable(self) -> None:
        """Raise where results cannot be read back: never, here."""

    def sync(self) -> None:
        """Step the machine until everything submitted here is done; raises what went wrong since the last time."""
        for port in self.ports.values():
            port.timeline.refuse()
            if port.in_flight:
                wait(port.timeline, port.timeline.issued())
        for port in self.ports.values():
            with machines.lock:
                port.in_flight.retire()
                port.in_flight.raise_unseen()
        self.pool.settle()

    # ---- profiling
    def start_profile(self) -> None:
        """Take time stamps around every kernel and copy from now on."""
        self.profile = Profile(self.name, self.pool)

    def stop_profile(self) -> Profile | None:
        """Wait for the device and return what it did since `start_profile`; None if it was not profiled."""
        profile, self.profile = self.profile, None
        self.sync()
        if profile is not None:
            profile.finish()
        return profile

    def clock_offset(self) -> int:
        """What added to the machine's clock now gives `time.monotonic_ns`: it stands still while nobody steps it."""
        return time.monotonic_ns() - self.machine.now_ns

    def reset(self) -> None:
        """Drop what is queued, and be usable again; see `fgrad.hw.device.reset`.

        Raises DeviceLostError while a program runs, on whatever thread: its memory is in use.
        """
        with machines.lock:
            if any(port.processor.is_busy for port in self.ports.values()):
                raise DeviceLostError(f"{self.name} cannot be reset: it is inside a program; wait for that")
            for port in self.ports.values():
                processor = port.processor
                error = processor.error

                def given_up(names: str, cause: Exception | None = error) -> Exception:
                    why = f": {cause}" if cause else ""
                    return DeviceLostError(f"{names} was given up when {self.name} was reset{why}")

                port.in_flight.retire()
                dropped = port.in_flight.abandon(given_up)
                processor.reset()
                for flight in dropped:  # nothing runs any more: what they held is free
                    flight.finish()


register_device("sim", SimDevice)
