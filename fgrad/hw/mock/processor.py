"""A command processor: reads packets from its ring and carries them out, one a step."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from fgrad.errors import CancelledError, DeviceError, FgradError
from fgrad.hw.libc import memmove, raw_block, words
from fgrad.hw.mock.address import Range
from fgrad.hw.mock.packet import MAX_COPY, WORD, Opcode, Word, packet, parse_header
from fgrad.hw.mock.races import Clock, join

if TYPE_CHECKING:
    from fgrad.hw.mock.machine import Machine

M64 = (1 << 64) - 1


class Processor:
    """One in-order queue.

    completion  address of the word that holds the newest finished tick
    error       what it stopped at; it does nothing until `reset`
    failures    tick -> what a program reported, which the processor survived
    is_busy     it is inside a packet: a program that calls Python may step the machine again
    """

    def __init__(self, machine: Machine, name: str, ring_words: int = 256) -> None:
        if ring_words & ring_words - 1:
            raise ValueError(f"a ring has a power of two of words, not {ring_words}")
        self.machine = machine
        self.name = name
        self.size = ring_words
        block = raw_block(WORD * (ring_words + 8))
        self.completion = block
        self.ring = block + 64
        machine.map.add(Range(block, WORD * (ring_words + 8), f"the ring of {name}"))
        self.issued = 0
        self.written = 0  # words put into the ring so far, by the host
        self.doorbell = 0  # words the processor may read
        self.read = 0
        self.error: Exception | None = None
        self.failures: dict[int, Exception] = {}
        self.is_busy = False
        self.thread = 0  # that steps it
        self.blocked = ""  # what it waits for, for messages
        self.waits_for: Processor | None = None
        self._indirect: tuple[int, int] | None = None  # address, words left
        self._clocks: deque[tuple[int, Clock]] = deque()  # ring position -> what the submitter knew
        self._done: dict[int, Clock] = {}  # tick -> what was known when it finished
        self._wait_number: int | None = None
        self._doubtful: list[Exception] = []  # of the submission that runs

    # ---- the host's side
    def completed(self) -> int:
        """The newest finished tick, as the completion word says."""
        return int(words(self.completion)[0])

    def room(self) -> int:
        """Words that can be put into the ring."""
        return self.size - (self.written - self.read)

    def put(self, packets: list[Word]) -> None:
        """Put one packet into the ring, behind a NOP where it would cross the ring's end."""
        left = self.size - self.written % self.size
        if len(packets) > left:
            self._store([Opcode.NOP | left - 1 << 8, *[0] * (left - 1)])
        self._store(packets)

    def _store(self, packets: list[Word]) -> None:
        if len(packets) > self.room():
            raise DeviceError(f"the ring of {self.name} is full: {len(packets)} words do not fit {self.room()}")
        ring = words(self.ring)
        for word in packets:
            assert isinstance(word, int), "holes are filled before packets are put into a ring"
            ring[self.written % self.size] = word - (1 << 64) if word >> 63 else word
            self.written += 1

    def submit(self, address: int, count: int) -> int:
        """Put a reference to `count` words of packets at `address` into the ring; returns its tick."""
        self.issued += 1
        self._clocks.append((self.written, dict(self.machine.races.clocks["host"])))
        self.put(packet(Opcode.INDIRECT, address, count))
        self.put(packet(Opcode.COMPLETE, self.issued))
        return self.issued

    def clock_of(self, tick: int) -> Clock:
        """What was known when `tick` finished; the completion word tells it to whoever reads it."""
        done = dict(self._done)
        found = [t for t in done if t <= tick]
        if found:
            return done[max(found)]
        return done[min(done)] if done else {}  # so old that it is forgotten

    def reset(self) -> None:
        """Drop everything that is queued; it counts as completed."""
        self.read = self.doorbell = self.written
        self._indirect = self._wait_number = None
        self._clocks.clear()
        self.error, self.blocked, self.waits_for, self.is_busy = None, "", None, False
        self._doubtful = []
        self._done[self.issued] = dict(self.machine.races.clock(self.name))
        words(self.completion)[0] = self.issued

    # ---- the processor's side
    def has_work(self) -> bool:
        """Whether there are packets that it may read."""
        return self.error is None and (self._indirect is not None or self.read < self.doorbell)

    def step(self) -> bool:
        """Carry out the next packet; False if it waits. A fault stops the processor."""
        self.is_busy, self.thread = True, threading.get_ident()
        try:
            return self._step()
        except FgradError as error:
            self.error = error
            self.blocked = ""
            return True
        finally:
            self.is_busy = False

    def _step(self) -> bool:
        machine = self.machine
        while self._clocks and self._clocks[0][0] <= self.read:
            join(machine.races.clock(self.name), self._clocks.popleft()[1])
        place, fetched = self._place()
        header = self._word(fetched)
        opcode, count = parse_header(header, place)
        if machine.faults.fault_at == machine.packets:
            machine.packets += 1
            raise DeviceError(f"{place}: {opcode.name} faulted")
        body = [self._word(fetched + 1 + i) for i in range(count)]
        machine.races.tick(self.name)
        try:
            if not self._carry_out(opcode, body, place):
                return False
        except FgradError:
            raise
        except BaseException as error:  # Ctrl-C, of who steps the machine: half done, it must not be done again
            self.report(CancelledError(f"{place}: {opcode.name} was interrupted by {type(error).__name__}"))
            if opcode is not Opcode.INDIRECT:
                self._advance(1 + count)
            raise
        machine.packets += 1
        self.blocked, self.waits_for, self._wait_number = "", None, None
        if opcode is not Opcode.INDIRECT:
            self._advance(1 + count)
        return True

    def _place(self) -> tuple[str, int]:
        """-> (for messages, the position of the next packet)."""
        if self._indirect is None:
            return f"{self.name}: word {self.read % self.size} of the ring", self.read
        address, _ = self._indirect
        return f"{self.name}: packet at {address:#x}", 0

    def _word(self, at: int) -> int:
        if self._indirect is None:
            return int(words(self.ring)[at % self.size]) & M64
        address, left = self._indirect
        if at >= left:
            raise DeviceError(f"{self.name}: the packet at {address:#x} ends outside its {left} words")
        self.machine.map.check(address + WORD * at, WORD, is_write=False, what=f"{self.name} fetching packets")
        return int(words(address + WORD * at)[0]) & M64

    def _advance(self, count: int) -> None:
        if self._indirect is None:
            self.read += count
            return
        address, left = self._indirect
        self._indirect = (address + WORD * count, left - count) if left > count else None

    def _carry_out(self, opcode: Opcode, body: list[int], place: str) -> bool:
        machine, what = self.machine, f"{opcode.name}"
        match opcode:
            case Opcode.NOP | Opcode.BARRIER:
                pass
            case Opcode.INDIRECT:
                if self._indirect is not None:
                    raise DeviceError(f"{place}: an INDIRECT packet inside another")
                self._advance(3)
                if body[1]:
                    self._indirect = (body[0], body[1])
            case Opcode.EXEC:
                machine.run_code(self, body[0], body[1:], place)
            case Opcode.COPY:
                target, source, nbytes = body
                if nbytes > MAX_COPY:
                    raise DeviceError(f"{place}: COPY of {nbytes} bytes; one packet copies at most {MAX_COPY}")
                machine.touch(self.name, source, nbytes, False, what)
                machine.touch(self.name, target, nbytes, True, what)
                memmove(target, source, nbytes)
            case Opcode.WAIT:
                return self._wait(body[0], body[1])
            case Opcode.SIGNAL | Opcode.WRITE64 | Opcode.STAMP:
                machine.touch(self.name, body[0], 8, True, what)
                value = machine.now_ns if opcode is Opcode.STAMP else body[1]
                words(body[0])[0] = value - (1 << 64) if value >> 63 else value
            case Opcode.WRITE32:
                machine.touch(self.name, body[0], 4, True, what)
                memmove(body[0], machine.ffi_word(body[1]), 4)
            case Opcode.POLL:
                machine.map.check(body[0], 8, is_write=False, what=f"{self.name}: POLL")
                seen = int(words(body[0])[0]) & body[2]
                self.blocked = f"the word at {body[0]:#x} under {body[2]:#x} to be {body[1]:#x}; it is {seen:#x}"
                return seen == body[1]
            case Opcode.COMPLETE:
                self._complete(body[0])
        return True

    def _wait(self, address: int, value: int) -> bool:
        machine = self.machine
        machine.map.check(address, 8, is_write=False, what=f"{self.name}: WAIT")
        if self._wait_number is None:
            self._wait_number, machine.waits = machine.waits, machine.waits + 1
        seen = int(words(address)[0])
        other = machine.by_completion.get(address)
        self.waits_for = other
        where = f"{other.name} to reach {value}" if other else f"the word at {address:#x} to be at least {value}"
        self.blocked = f"{where}; it is at {seen}"
        if seen < value or self._wait_number in machine.faults.stuck_waits:
            return False
        if other is not None:
            # what was waited for, not what has happened to be done by now: so no race is missed
            join(machine.races.clock(self.name), other.clock_of(value))
        return True

    def _complete(self, tick: int) -> None:
        if self._doubtful:
            self.failures[tick] = self._doubtful[0]
            self._doubtful = []
        clock = dict(self.machine.races.clock(self.name))
        self._done[tick] = clock
        for old in [t for t in self._done if t < tick - 64]:
            del self._done[old]
        words(self.completion)[0] = tick

    def report(self, error: Exception) -> None:
        """A program of the submission that runs has failed; the processor goes on."""
        self._doubtful.append(error)
