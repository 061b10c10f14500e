"""Timelines and fences: waiting, hanging, errors, interrupts."""

import threading
import time

import pytest

from fgrad.errors import DeviceError, DeviceHangError
from fgrad.hw.timeline import Fence, HostTimeline, wait


def later(seconds: float, act) -> threading.Thread:
    thread = threading.Timer(seconds, act)
    thread.start()
    return thread


def test_tick_0_and_completed_ticks_are_done_without_waiting() -> None:
    timeline = HostTimeline("test")
    Fence(timeline, 0).wait(stall_ms=1)
    timeline.complete(timeline.issue())
    assert Fence(timeline, 1).done()
    Fence(timeline, 1).wait(stall_ms=1)


@pytest.mark.parametrize("start", [2**31 - 3, 2**32 - 3, 2**63 - 3])
def test_ticks_pass_every_width(start: int) -> None:
    timeline = HostTimeline("test", start)
    for _ in range(10):
        fence = Fence(timeline, timeline.issue())
        assert not fence.done()
        timeline.complete(fence.tick)
        fence.wait(stall_ms=1)
    assert timeline.completed() == start + 10


def test_a_larger_tick_releases_a_wait() -> None:
    timeline = HostTimeline("test")
    fence = Fence(timeline, timeline.issue())
    newest = timeline.issue()
    thread = later(0.05, lambda: timeline.complete(newest))
    fence.wait(stall_ms=5000)
    thread.join()


def test_a_hang_names_both_ticks_in_time() -> None:
    timeline = HostTimeline("cpu:7", 40)
    fence = Fence(timeline, timeline.issue())
    start = time.monotonic()
    with pytest.raises(DeviceHangError, match=r"cpu:7 .* 0.1 s: waited for tick 41, reached 40"):
        fence.wait(stall_ms=100)
    assert 0.09 < time.monotonic() - start < 5


def test_slow_work_that_gets_on_is_no_hang() -> None:
    timeline = HostTimeline("test")
    ticks = [timeline.issue() for _ in range(8)]

    def work() -> None:
        for tick in ticks:
            time.sleep(0.05)
            timeline.complete(tick)

    thread = threading.Thread(target=work)
    thread.start()
    Fence(timeline, ticks[-1]).wait(stall_ms=250)  # 400 ms of work
    thread.join()


def test_a_failure_is_raised_by_its_fence_and_no_other() -> None:
    timeline = HostTimeline("test")
    bad, good = Fence(timeline, timeline.issue()), Fence(timeline, timeline.issue())
    assert bad.error() is None
    timeline.complete(1, DeviceError("program f failed"))
    timeline.complete(2)
    assert good.error() is None
    good.wait()
    with pytest.raises(DeviceError, match="program f failed"):
        bad.wait()


def test_waiting_for_a_tick_that_was_never_given_out_is_refused() -> None:
    timeline = HostTimeline("test")
    with pytest.raises(ValueError, match="never gave out tick 1; the newest is 0"):
        wait(timeline, 1)
    with pytest.raises(ValueError, match="tick 1 of test is not between"):
        timeline.complete(1)


def test_a_wait_sleeps_in_slices() -> None:
    timeline = HostTimeline("test")
    limits = []

    class Watched(HostTimeline):
        def nap(self, tick: int, limit_ms: float) -> None:
            limits.append(limit_ms)
            super().nap(tick, limit_ms)
            if len(limits) == 3:
                self.complete(tick)

    timeline = Watched("test")
    Fence(timeline, timeline.issue()).wait()
    assert len(limits) == 3 and max(limits) <= 50
