"""device_put between devices: exact, queued where both have queues of one kind, and no failure is lost on the way."""

import time
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config
from fgrad.errors import CallbackFailedError, DeviceError, DonatedError
from fgrad.hw.command import Block, Poll
from fgrad.hw.device import get_device
from fgrad.hw.libc import words
from fgrad.hw.plan import Call, Lane, plan
from fgrad.hw.submit import Launch

NAMES = ["cpu", "cpu:31", "python", "reference", "sim", "sim:1"]


class Gate:
    """Holds the queue of a device until it is opened."""

    def __init__(self, name: str) -> None:
        device = get_device(name)
        block = Block(name, device.pool.take(64), 64)
        self.address = block.base
        device.sync()
        words(self.address)[0] = 0
        Launch(plan((Call(Lane(name), Poll(block.span(0, 8), 1)),)), device.machines)()

    def open(self) -> None:
        words(self.address)[0] = 1


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (300, 7)])
def test_arrays_are_the_same_on_every_device(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    for dtype in ("float32", "bfloat16", "int8", "complex64", "bool"):
        want = (rng.standard_normal(shape) * 3).astype(fnp.asarray(0, dtype).dtype)
        for source, target in permutations(NAMES, 2):
            got = fg.device_put(fg.device_put(want, source), target)
            assert got.device.name == target and got.dtype == want.dtype and got.shape == shape
            assert np.asarray(got).tobytes() == want.tobytes()
    assert fg.device_put(fg.device_put(2.0, "cpu:31"), "cpu").weak_type


@pytest.mark.parametrize(("source", "target"), [("cpu:32", "cpu:33"), ("sim:4", "sim:5")])
def test_a_move_is_queued_behind_what_makes_the_array(source: str, target: str) -> None:
    x = fg.device_put(np.arange(50, dtype=np.float32), source)
    np.asarray(x * 2.0 + 1.0)
    gate = Gate(source)
    y = x * 2.0 + 1.0
    moved = fg.device_put(y, target)
    del y  # its memory may be used again behind the copy
    others = [fg.device_put(np.zeros(50, np.float32), "cpu") for _ in range(3)]
    assert get_device(target).timeline.completed() < get_device(target).timeline.issued()
    gate.open()
    np.testing.assert_array_equal(np.asarray(moved), np.arange(50) * 2 + 1)
    assert len(others) == 3


@pytest.mark.parametrize("kind", ["cpu", "sim"])
def test_a_chain_of_moves_is_in_order(kind: str) -> None:
    x = fg.device_put(np.zeros(1 << 19, np.float32), f"{kind}:31")  # too long for a copy by the host
    for i in range(12 if kind == "cpu" else 3):
        x = fg.device_put(x + 1.0 if kind == "cpu" else x, f"{kind}:{32 + i % 3}")
    assert (np.asarray(x) == (12 if kind == "cpu" else 0)).all()


def test_copies_to_a_device_take_turns_on_its_copy_queues() -> None:
    device = get_device("sim:35")
    x = fg.device_put(np.arange(6.0), "sim:34")
    gate = Gate("sim:34")  # a device at rest would be read by the host
    before = [device.ports[queue].processor.issued for queue in device.copy_queues]
    copies = [fg.device_put(x, "sim:35") for _ in range(4)]
    after = [device.ports[queue].processor.issued for queue in device.copy_queues]
    gate.open()
    assert all((np.asarray(y) == np.arange(6.0)).all() for y in copies)
    counts = [b - a for a, b in zip(before, after, strict=True)]
    assert counts[0] == counts[1] > 0


def fails(x: Any) -> Any:
    """Queued, as nobody knows how long it will take; then it calls Python."""

    def bad(x: Any) -> Any:
        raise KeyError("no such key")

    x = lax.while_loop(lambda c: fnp.sum(c) < 1000.0, lambda c: c + 1.0, x)
    return fg.pure_callback(bad, fg.ShapeDtypeStruct((3,), np.float32), x)


def test_who_reads_a_copy_is_told_what_failed_before_it() -> None:
    x = fg.device_put(np.ones(3, np.float32), "cpu:34")
    gate = Gate("cpu:34")
    moved = fg.device_put(fg.jit(fails)(x), "cpu:35")
    gate.open()
    with pytest.raises(CallbackFailedError, match="no such key"):
        np.asarray(moved)
    with pytest.raises(CallbackFailedError, match="no such key"):
        get_device("cpu:34").sync()
    for name in ("cpu:34", "cpu:35"):
        assert float(fg.device_put(np.float32(1), name) + 1) == 2


def test_a_move_from_a_device_at_rest_raises_what_failed_there() -> None:
    y = fg.jit(fails)(fg.device_put(np.ones(3, np.float32), "cpu:34"))
    timeline = get_device("cpu:34").timeline
    while timeline.completed() < timeline.issued():
        time.sleep(0.001)
    with pytest.raises(CallbackFailedError, match="no such key"):
        np.asarray(fg.device_put(y, "cpu:35"))
    get_device("cpu:34").sync()


def test_what_failed_on_the_target_is_no_failure_of_the_source() -> None:
    x, y = fg.device_put(np.float32(1), "cpu:36"), fg.device_put(np.ones(3, np.float32), "cpu:37")
    gate = Gate("cpu:37")
    fg.jit(fails)(y)
    moved = fg.device_put(x, "cpu:37")
    gate.open()
    get_device("cpu:36").sync()
    with pytest.raises(CallbackFailedError, match="no such key"):
        get_device("cpu:37").sync()
    assert float(moved) == 1


def test_with_sync_a_move_is_done_when_the_call_returns() -> None:
    x = fg.device_put(np.zeros(1 << 19, np.float32), "cpu:31")
    with config.override(sync=True):
        fg.device_put(x, "cpu:32")
        timeline = get_device("cpu:32").timeline
        assert timeline.completed() == timeline.issued()


def test_what_cannot_be_moved_is_refused() -> None:
    with pytest.raises(DeviceError, match="nothing to read back"):
        fg.device_put(fg.device_put(np.ones(3), "null"), "cpu")
    x = fg.device_put(np.ones(3), "cpu:31")
    x.delete()
    with pytest.raises(DonatedError):
        fg.device_put(x, "cpu")


def executable_work(f: Any) -> float:
    """Estimated nanoseconds of a call."""
    return float(next(iter(f.dispatcher.entries.values())).executable.lowered.work)


def test_many_calls_in_flight_take_little_memory() -> None:
    """They work one after the other, and so in the same memory."""
    f = fg.jit(lambda x: fnp.sum(fnp.sort(fnp.sort(x, axis=0), axis=1) @ x, axis=0))
    x = fg.device_put(np.ones((300, 300), np.float32), "cpu:38")
    want = np.asarray(f(x)).copy()
    device, gate = get_device("cpu:38"), Gate("cpu:38")
    before = device.pool.statistics().in_use
    results = [f(x) for _ in range(20)]
    in_use = device.pool.statistics().in_use - before
    gate.open()
    assert all((np.asarray(y) == want).all() for y in results)
    assert executable_work(f) > 1e6, "long enough to be queued"
    assert in_use < 3 << 20, "the program works in about 1 MB"
