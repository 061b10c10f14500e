"""The mock machine: packets, rings, doorbells, checked accesses, races, faults."""

import random
from collections.abc import Callable

import pytest

from fgrad.errors import BadAccessError, DeviceError, OrderingError
from fgrad.hw.libc import raw_block, words
from fgrad.hw.mock.address import AddressMap, Range
from fgrad.hw.mock.faults import Faults
from fgrad.hw.mock.machine import Context, Machine
from fgrad.hw.mock.packet import Opcode, listing, packet, parse_header
from fgrad.hw.mock.processor import Processor


class Bench:
    """A machine with two processors, memory, and packets written into it."""

    def __init__(self, seed: int = 0, ring_words: int = 64) -> None:
        self.machine = Machine(seed)
        self.a, self.b = [self.machine.add_processor(name, ring_words) for name in ("a", "b")]
        self.data = raw_block(4096)
        self.machine.map.add(Range(self.data, 4096, "data"))
        self.code = raw_block(1 << 16)
        self.machine.map.add(Range(self.code, 1 << 16, "code"))
        self.used = 0

    def submit(self, processor: Processor, *packets: list[int], ring: bool = True) -> int:
        flat = [word for p in packets for word in p]
        address = self.code + 8 * self.used
        for i, word in enumerate(flat):
            words(address)[i] = word - (1 << 64) if word >> 63 else word
        self.used += len(flat)
        tick = processor.submit(address, len(flat))
        if ring:
            self.machine.ring(processor)
        return tick

    def write(self, at: int, value: int) -> list[int]:
        return packet(Opcode.WRITE64, self.data + at, value)

    def copy(self, to: int, of: int, nbytes: int = 8) -> list[int]:
        return packet(Opcode.COPY, self.data + to, self.data + of, nbytes)

    def wait_for(self, processor: Processor, tick: int) -> list[int]:
        return packet(Opcode.WAIT, processor.completion, tick)

    def run(self) -> None:
        while self.machine.step():
            pass
        for processor in (self.a, self.b):
            if processor.error is not None:
                raise processor.error

    def word(self, at: int) -> int:
        return int(words(self.data + at)[0])


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_runs_before_the_doorbell_nor_before_somebody_steps(bench: Bench) -> None:
    bench.submit(bench.a, bench.write(0, 5), ring=False)
    bench.run()
    assert bench.word(0) == 0
    bench.machine.ring(bench.a)
    assert bench.word(0) == 0 and bench.a.completed() == 0
    bench.run()
    assert bench.word(0) == 5 and bench.a.completed() == 1


def test_packets_do_what_they_say(bench: Bench) -> None:
    ran: list[tuple[int, ...]] = []

    def code(context: Context, arguments: list[int]) -> None:
        ran.append(tuple(arguments))

    number = bench.machine.add_code("note", code)
    bench.submit(
        bench.a,
        bench.write(0, -1 & (1 << 64) - 1),
        packet(Opcode.WRITE32, bench.data + 8, 0x1_0000_0007),
        bench.copy(16, 4, 8),
        packet(Opcode.NOP, 1, 2, 3),
        packet(Opcode.BARRIER),
        packet(Opcode.EXEC, number, 11, 12),
        packet(Opcode.STAMP, bench.data + 24),
        packet(Opcode.STAMP, bench.data + 32),
        packet(Opcode.SIGNAL, bench.data + 40, 9),
    )
    bench.run()
    assert bench.word(0) == -1 and bench.word(8) == 7
    assert bench.word(16) == 7 << 32 | 0xFFFF_FFFF
    assert ran == [(11, 12)]
    assert 0 < bench.word(24) < bench.word(32)
    assert bench.word(40) == 9


@pytest.mark.parametrize("seed", range(10))
def test_a_wait_is_for_at_least_its_value(seed: int) -> None:
    bench = Bench(seed)
    bench.submit(bench.b, bench.wait_for(bench.a, 2), bench.copy(8, 0))
    for i in range(3):
        bench.submit(bench.a, bench.write(0, i) if i < 2 else packet(Opcode.BARRIER))
    bench.run()
    assert bench.word(8) == 1


def test_a_wait_for_what_is_long_past_is_over_at_once(bench: Bench) -> None:
    for i in range(3):
        bench.submit(bench.a, bench.write(16 * i, 5 + i))
    bench.run()
    bench.submit(bench.b, bench.wait_for(bench.a, 1), bench.copy(8, 0))
    bench.run()
    assert bench.word(8) == 5


def test_a_poll_sees_what_the_host_stores_later(bench: Bench) -> None:
    bench.submit(bench.a, packet(Opcode.POLL, bench.data, 0x10, 0xF0), bench.write(8, 1))
    words(bench.data)[0] = 0x2F
    bench.run()
    assert bench.word(8) == 0
    assert "to be 0x10; it is 0x20" in bench.a.blocked
    words(bench.data)[0] = 0x1F
    bench.run()
    assert bench.word(8) == 1


@pytest.mark.parametrize("ring_words", [16, 32, 64])
def test_rings_wrap(ring_words: int) -> None:
    bench = Bench(ring_words=ring_words)
    r = random.Random(ring_words)
    value = 0
    for _ in range(200):
        for _ in range(r.randrange(1, 3)):
            value += 1
            bench.submit(bench.a, packet(Opcode.BARRIER), bench.write(0, value))
            bench.used = 0 if bench.used > 1000 else bench.used
        bench.run()
        assert bench.word(0) == value and bench.a.completed() == value
    assert bench.a.written > 10 * ring_words


def test_a_full_ring_refuses(bench: Bench) -> None:
    with pytest.raises(DeviceError, match="the ring of a is full: [23] words do not fit"):
        for _ in range(100):
            bench.submit(bench.a, bench.write(0, 1), ring=False)


def order_of(seed: int) -> list[int]:
    bench = Bench(seed)
    seen: list[int] = []
    number = bench.machine.add_code("note", lambda context, arguments: seen.extend(arguments))
    for i in range(8):
        bench.submit((bench.a, bench.b)[i % 2], packet(Opcode.EXEC, number, i))
    bench.run()
    return seen


def test_the_seed_draws_the_order_and_nothing_else_does() -> None:
    orders = [tuple(order_of(seed)) for seed in range(20)]
    assert [tuple(order_of(seed)) for seed in range(20)] == orders
    assert len(set(orders)) > 5
    for order in orders:
        assert [i for i in order if i % 2] == [1, 3, 5, 7]


@pytest.mark.parametrize("seed", range(8))
def test_a_race_is_found_in_whatever_order_it_happens(seed: int) -> None:
    bench = Bench(seed)
    bench.submit(bench.a, bench.write(0, 1))
    bench.submit(bench.b, bench.copy(64, 4, 8))  # four bytes of it
    with pytest.raises(OrderingError, match="a race: (WRITE64|COPY) on (a|b) .* and no wait is between them"):
        bench.run()


@pytest.mark.parametrize("seed", range(8))
def test_what_is_ordered_is_no_race(seed: int) -> None:
    bench = Bench(seed)
    bench.submit(bench.a, bench.write(0, 1))
    bench.submit(bench.b, bench.wait_for(bench.a, 1), bench.copy(8, 0), bench.write(0, 2))
    bench.submit(bench.a, bench.wait_for(bench.b, 1), bench.copy(16, 0))
    bench.submit(bench.a, bench.copy(128, 512), bench.copy(136, 512))
    bench.submit(bench.b, bench.copy(256, 512))  # two that read are none either
    bench.run()
    assert (bench.word(8), bench.word(16)) == (1, 2)


@pytest.mark.parametrize("has_seen", [True, False])
def test_the_host_orders_what_it_has_seen_before_what_it_submits(bench: Bench, has_seen: bool) -> None:
    bench.submit(bench.a, bench.write(0, 1))
    bench.run()
    if has_seen:
        bench.machine.seen(bench.a, bench.a.completed())
    bench.submit(bench.b, bench.write(0, 2))
    if has_seen:
        bench.run()
    else:
        with pytest.raises(OrderingError):
            bench.run()


def test_many_accesses_are_not_kept_for_ever(bench: Bench) -> None:
    for i in range(2000):
        bench.submit(bench.a, bench.write(i % 500 * 8, i))
        bench.used = 0
        bench.run()
        bench.machine.seen(bench.a, bench.a.completed())
    assert len(bench.machine.races._accesses) < 600


def run_one(bench: Bench, *packets: list[int]) -> Exception:
    bench.submit(bench.a, *packets)
    with pytest.raises(DeviceError) as caught:
        bench.run()
    return caught.value


BROKEN: list[tuple[Callable[[Bench], list[int]], str]] = [
    (lambda b: [0x77], "there is no packet with the header 0x77"),
    (lambda b: [1 << 40 | Opcode.BARRIER], "reserved bits are set"),
    (lambda b: [Opcode.COPY | 2 << 8, 0, 0], "COPY has 2 words after its header, not 3"),
    (lambda b: [Opcode.EXEC | 24 << 8, 0], "ends outside its 5 words"),
    (lambda b: packet(Opcode.EXEC, 99), "EXEC of the program 99, which there is not"),
    (lambda b: packet(Opcode.INDIRECT, b.code, 1), "an INDIRECT packet inside another"),
    (lambda b: b.write(4092, 1), "page fault: WRITE64 on a writes 8 bytes at .*, 4 more than there are of data"),
    (lambda b: packet(Opcode.COPY, b.data, 64, 8), "page fault: COPY on a reads 8 bytes at 0x40, where nothing"),
    (lambda b: packet(Opcode.WAIT, 64, 8), "page fault: a: WAIT reads 8 bytes at 0x40"),
]


@pytest.mark.parametrize("make, message", BROKEN, ids=range(len(BROKEN)))
def test_broken_packets_and_stale_addresses_stop_their_processor_at_once(
    bench: Bench, make: Callable[[Bench], list[int]], message: str
) -> None:
    bench.submit(bench.b, bench.write(8, 3))
    with pytest.raises(DeviceError, match=message):
        raise run_one(bench, make(bench), bench.write(0, 1))
    assert bench.word(0) == 0 and bench.a.completed() == 0
    assert bench.word(8) == 3 and bench.b.completed() == 1, "the other one goes on"
    bench.a.reset()
    assert bench.a.completed() == 1
    bench.submit(bench.a, bench.write(0, 4))
    bench.run()
    assert bench.word(0) == 4


def test_ranges_do_not_overlap_and_may_be_read_only() -> None:
    found = AddressMap()
    found.add(Range(100, 50, "x", writable=False))
    for base, size in [(100, 1), (149, 5), (90, 11), (90, 100)]:
        with pytest.raises(ValueError, match="overlaps"):
            found.add(Range(base, size, "y"))
    found.add(Range(150, 10, "z"))
    found.check(149, 1, is_write=False, what="w")
    for address, count in [(149, 2), (99, 1), (160, 1), (155, 6)]:
        with pytest.raises(BadAccessError):
            found.check(address, count, is_write=False, what="w")
    with pytest.raises(BadAccessError, match="w writes to x at 0x64, which is read-only"):
        found.check(100, 1, is_write=True, what="w")
    found.check(10**9, 0, is_write=True, what="nothing")
    found.remove(100)
    with pytest.raises(BadAccessError, match="where nothing is mapped"):
        found.check(100, 1, is_write=False, what="w")
    assert len(found) == 1


def test_faults_happen_where_they_are_asked_for() -> None:
    bench = Bench()
    bench.machine.restart(0, Faults(dropped_doorbells=frozenset({0})))
    bench.submit(bench.a, bench.write(0, 1))
    bench.run()
    assert bench.a.completed() == 0, "nobody has heard the doorbell"
    bench.submit(bench.a, bench.write(8, 1))
    bench.run()
    assert bench.a.completed() == 2, "the next one tells of both"

    bench = Bench()
    bench.machine.restart(0, Faults(late_doorbells={0: 20}))
    bench.submit(bench.a, bench.write(0, 1))
    bench.submit(bench.b, *[bench.copy(64, 128)] * 5)
    order = []
    while bench.machine.step():
        order.append((bench.a.completed(), bench.b.completed()))
    assert (0, 1) in order and order[-1] == (1, 1)

    bench = Bench()
    bench.machine.restart(0, Faults(stuck_waits=frozenset({1})))
    bench.submit(bench.a, bench.wait_for(bench.b, 0), bench.wait_for(bench.b, 0), bench.write(0, 1))
    bench.run()
    assert bench.word(0) == 0 and bench.a.blocked == "b to reach 0; it is at 0"

    for k in range(4):
        bench = Bench()
        bench.machine.restart(0, Faults(fault_at=k))
        bench.submit(bench.a, bench.write(0, 1), bench.write(8, 1))
        with pytest.raises(DeviceError, match="(INDIRECT|WRITE64|COMPLETE) faulted"):
            bench.run()
        assert bench.word(0) + bench.word(8) == max(0, min(2, k - 1))


def test_listings_are_packets_line_by_line() -> None:
    text = listing([*packet(Opcode.WAIT, 0x40, 3), *packet(Opcode.BARRIER), *packet(Opcode.EXEC, 1, 2)])
    assert text == "   0  WAIT     0x40 0x3\n   3  BARRIER\n   4  EXEC     0x1 0x2"
    with pytest.raises(DeviceError, match="word 0: there is no packet"):
        listing([0])
    assert parse_header(Opcode.NOP | 5 << 8, "here") == (Opcode.NOP, 5)
