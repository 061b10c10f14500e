"""The mock machine: processors over one address map, stepped in an order that a seed draws."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from fgrad.errors import DeviceError
from fgrad.hw.libc import ffi
from fgrad.hw.mock.address import AddressMap
from fgrad.hw.mock.faults import Faults
from fgrad.hw.mock.processor import Processor
from fgrad.hw.mock.races import HOST, Races, join

EXEC_NS, PACKET_NS = 1000, 100  # what packets take on the machine's clock

Code = Callable[["Context", Sequence[int]], None]


class Context:
    """What a program that runs on a processor may do to memory."""

    def __init__(self, machine: Machine, processor: Processor, name: str) -> None:
        self.machine = machine
        self.processor = processor
        self.name = name

    def read(self, address: int, nbytes: int) -> None:
        """The program reads these bytes. Raises BadAccessError, or OrderingError for a race."""
        self.machine.touch(self.processor.name, address, nbytes, False, self.name)

    def write(self, address: int, nbytes: int) -> None:
        """The program writes these bytes."""
        self.machine.touch(self.processor.name, address, nbytes, True, self.name)


class Machine:
    """See the module. Nothing happens between calls: whoever waits steps the machine.

    lock           held in each step, but not while a program runs
    seed           draws which processor takes the next step
    faults         what goes wrong
    packets        carried out so far; with `waits` and `rings` what `faults` counts by
    by_completion  the processor whose completion word is at an address
    """

    def __init__(self, seed: int = 0) -> None:
        self.lock = threading.RLock()
        self.map = AddressMap()
        self.races = Races()
        self.processors: list[Processor] = []
        self.by_completion: dict[int, Processor] = {}
        self.codes: dict[int, tuple[str, Code]] = {}
        self.now_ns = 0
        self.progress = 0
        self._next_code = 1
        self._late: list[tuple[int, Processor, int]] = []  # step when it is heard, doorbell value
        self._steps = 0
        self._word = ffi.new("uint64_t[1]")
        self.restart(seed)

    def restart(self, seed: int = 0, faults: Faults | None = None) -> None:
        """Draw the order of steps anew, and count anew for faults. What is queued stays."""
        self.random = random.Random(seed)
        self.faults = faults or Faults()
        self.packets = self.waits = self.rings = 0

    def add_processor(self, name: str, ring_words: int = 256) -> Processor:
        """One more queue."""
        processor = Processor(self, name, ring_words)
        self.processors.append(processor)
        self.by_completion[processor.completion] = processor
        return processor

    def add_code(self, name: str, code: Code) -> int:
        """Make a program known; returns its number for EXEC."""
        number, self._next_code = self._next_code, self._next_code + 1
        self.codes[number] = name, code
        return number

    def remove_code(self, number: int) -> None:
        """Nobody will run the program again."""
        self.codes.pop(number, None)

    def ring(self, processor: Processor) -> None:
        """Ring the doorbell: the processor may read what was put into its ring so far."""
        number, self.rings = self.rings, self.rings + 1
        if number in self.faults.dropped_doorbells:
            return
        late = self.faults.late_doorbells.get(number)
        if late is None:
            processor.doorbell = processor.written
        else:
            self._late.append((self._steps + late, processor, processor.written))

    def step(self) -> bool:
        """Let one processor, drawn among those that can, carry out one packet; False if none can."""
        with self.lock:
            self._steps += 1
            self._hear()
            ready = [p for p in self.processors if not p.is_busy and p.has_work()]
            self.random.shuffle(ready)
            for processor in ready:
                if processor.step():
                    self.progress += 1
                    self.now_ns += PACKET_NS
                    self.races.prune([p.name for p in self.processors if p.has_work() or p.written > p.read])
                    return True
            return bool(self._late)

    def _hear(self) -> None:
        for entry in tuple(self._late):
            when, processor, doorbell = entry
            if when <= self._steps:
                self._late.remove(entry)
                processor.doorbell = max(processor.doorbell, doorbell)

    def touch(self, party: str, address: int, nbytes: int, is_write: bool, what: str) -> None:
        """Check an access of a processor against the map and against the others' accesses."""
        with self.lock:
            self.map.check(address, nbytes, is_write=is_write, what=f"{what} on {party}")
            self.races.access(party, address, nbytes, is_write, what)

    def run_code(self, processor: Processor, number: int, arguments: Sequence[int], place: str) -> None:
        """EXEC: run a program."""
        found = self.codes.get(number)
        if found is None:
            raise DeviceError(f"{place}: EXEC of the program {number}, which there is not")
        name, code = found
        self.lock.release()  # a program may call Python, which may wait for another thread
        try:
            code(Context(self, processor, name), arguments)
        finally:
            self.lock.acquire()
        self.now_ns += EXEC_NS

    def seen(self, processor: Processor, tick: int) -> None:
        """The host has seen that `tick` is completed, and with it all that was known then."""
        join(self.races.clocks[HOST], processor.clock_of(tick))

    def ffi_word(self, value: int) -> int:
        """The address of a word with that value, good until the next call."""
        self._word[0] = value
        return int(ffi.cast("intptr_t", self._word))
