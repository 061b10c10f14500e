"""The pool: reuse, returning, accounting, and freeing under queued work."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from fgrad.config import config
from fgrad.errors import OutOfMemoryError
from fgrad.hw import pool as pool_module
from fgrad.hw.libc import ffi
from fgrad.hw.pool import POISON, Pool, class_bytes, need_room


class HandClock:
    """A device that gets on when the test says so."""

    def __init__(self) -> None:
        self.newest = 0
        self.finished = 0
        self.is_own_thread = False

    def issued(self) -> int:
        return self.newest

    def completed(self) -> int:
        return self.finished

    def reaches(self, tick: int) -> bool:
        if not self.is_own_thread:
            self.finished = max(self.finished, tick)
        return self.finished >= tick


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Pools that reuse and do not poison, whatever the mode of the test run; a test may ask for another."""
    with config.override(pool=True, poison=False):
        yield


def contents(address: int, nbytes: int) -> bytes:
    return bytes(ffi.buffer(ffi.cast("char*", address), nbytes))


def test_a_freed_block_is_taken_again_by_its_size_class() -> None:
    pool = Pool("test")
    for nbytes in (0, 1, 64, 100, 4096, 70_000, 1 << 20):
        address = pool.take(nbytes)
        assert address % 64 == 0
        pool.give(address, nbytes)
        assert pool.take(max(1, class_bytes(nbytes))) == address


def test_blocks_in_use_never_overlap(rng) -> None:
    pool, held = Pool("test"), {}
    for _ in range(3000):
        if held and rng.random() < 0.5:
            address = list(held)[rng.integers(len(held))]
            pool.give(address, held.pop(address))
        else:
            nbytes = int(2 ** rng.uniform(0, 20))
            address = pool.take(nbytes)
            assert address not in held
            held[address] = nbytes
    spans = sorted((a, a + class_bytes(n)) for a, n in held.items())
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
    assert pool.statistics().in_use == sum(class_bytes(n) for n in held.values())


def test_statistics_return_to_their_start_and_remember_the_peak() -> None:
    pool = Pool("test")
    blocks = [pool.take(1 << 20) for _ in range(4)]
    full = pool.statistics()
    assert full.in_use == full.mapped == full.peak == 4 << 20 and full.cached == 0
    for block in blocks:
        pool.give(block, 1 << 20)
    free = pool.statistics()
    assert (free.in_use, free.cached, free.peak) == (0, 4 << 20, 4 << 20)
    pool.trim()
    assert pool.statistics().mapped == 0 and pool.statistics().peak == 4 << 20


def test_trimming_waits_for_queued_work_and_does_nothing_where_it_cannot() -> None:
    clock = HandClock()
    pool = Pool("test", clock)
    block = pool.take(1 << 20)
    clock.newest = 7
    pool.give(block, 1 << 20)
    clock.is_own_thread = True
    pool.trim()
    assert pool.statistics().mapped == 1 << 20
    clock.is_own_thread = False
    pool.trim()
    assert pool.statistics().mapped == 0 and clock.finished == 7


def test_poison_waits_until_queued_work_is_done() -> None:
    clock = HandClock()
    with config.override(poison=True):
        pool = Pool("test", clock)
        address = pool.take(256)
    assert contents(address, 256) == bytes([POISON]) * 256
    ffi.memmove(ffi.cast("char*", address), b"x" * 256, 256)
    clock.newest = 1
    pool.give(address, 256)
    assert contents(address, 256) == b"x" * 256
    other = pool.take(256)
    assert other != address, "queued work may still use the freed block"
    clock.finished = 1
    pool.give(other, 256)
    assert contents(address, 256) == bytes([POISON]) * 256
    assert pool.statistics().in_use == 0


def test_without_reuse_memory_goes_back_once_no_work_uses_it() -> None:
    clock = HandClock()
    with config.override(pool=False):
        pool = Pool("test", clock)
        address = pool.take(100)
        clock.newest = 1
        pool.give(address, 100)
        assert pool.statistics().cached == 128
        clock.finished = 1
        assert pool.statistics().mapped == 0
        assert pool.take(100) > 0


@pytest.mark.parametrize("what", ["past the end", "after it was freed"])
def test_without_reuse_a_wrong_access_ends_the_process(what: str) -> None:
    source = f"""
import ctypes
from fgrad.hw.pool import Pool
pool = Pool("test")
address = pool.take(64)
ctypes.memset(address, 0, 64)
print("good", flush=True)
if {what!r} == "after it was freed":
    pool.give(address, 64)
    ctypes.memset(address, 0, 64)
else:
    ctypes.memset(address, 0, 65)
print("bad")
"""
    command = [sys.executable, "-c", source]
    child = subprocess.run(command, capture_output=True, text=True, env={"FGRAD_POOL": "0"})
    assert child.stdout == "good\n" and child.returncode < 0


def test_a_refused_request_names_the_device_and_the_bytes_and_leaves_the_pool_right() -> None:
    pool = Pool("test")
    pool.give(pool.take(1 << 20), 1 << 20)
    for nbytes in (1 << 60, 1 << 70):
        with pytest.raises(OutOfMemoryError, match=f"test: the system has no {nbytes} bytes"):
            pool.take(nbytes)
    assert pool.statistics().mapped == 0, "free blocks were returned before giving up"
    assert pool.take(1 << 20)


def test_a_refusal_is_no_failure_where_free_blocks_give_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has room for two megabytes, which a free block of another pool holds."""
    pool, other = Pool("test"), Pool("other")
    other.give(other.take(1 << 20), 1 << 20)
    asked: list[int] = []
    real = pool_module._map_or_none

    def refusing(nbytes: int) -> int | None:
        asked.append(nbytes)
        return None if other.statistics().mapped else real(nbytes)

    monkeypatch.setattr(pool_module, "_map_or_none", refusing)
    address = pool.take(1 << 20)
    assert len(asked) == 2 and pool.statistics().in_use == 1 << 20 and other.statistics().mapped == 0
    pool.give(address, 1 << 20)


def test_room_that_is_not_there_is_missed_before_it_is_needed() -> None:
    before = pool_module.pools()
    need_room(1 << 20, "a test")
    with pytest.raises(OutOfMemoryError, match=f"a test: the system has no {1 << 60} bytes"):
        need_room(1 << 60, "a test")
    assert {name: now.in_use for name, now in pool_module.pools().items()} == {n: b.in_use for n, b in before.items()}


def test_threads_share_a_pool_without_losing_blocks() -> None:
    pool = Pool("test")

    def work() -> None:
        for _ in range(3000):
            a, b = pool.take(512), pool.take(200_000)
            pool.give(a, 512)
            pool.give(b, 200_000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.statistics().in_use == 0
