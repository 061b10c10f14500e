"""Devices that are stuck: given up and used again; waits that could never end are refused."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad import numpy as fnp
from fgrad.errors import CallbackFailedError, DeviceError, DeviceLostError
from fgrad.hw.device import get_device, reset
from fgrad.hw.transfer import copy


def calling(function: Callable[[Any], Any], device: str) -> Any:
    """A function of a float32[4] on `device` whose program is queued and calls Python once."""

    @fg.jit
    def f(x: Any) -> Any:
        x = lax.while_loop(lambda c: fnp.sum(c) < 1000.0, lambda c: c + 100.0, x)  # of unknown length: queued
        return fg.pure_callback(function, fg.ShapeDtypeStruct((4,), fnp.float32), x) + 1.0

    return f, fg.device_put(np.zeros(4, np.float32), device)


@pytest.fixture
def door() -> Iterator[threading.Event]:
    door = threading.Event()
    yield door
    door.set()


def test_a_program_stuck_in_python_is_given_up_and_writes_nothing_later(door: threading.Event) -> None:
    entered = threading.Event()

    def stuck(x: Any) -> Any:
        entered.set()
        door.wait(30)
        return x

    f, x = calling(stuck, "cpu:20")
    device = get_device("cpu:20")
    y = f(x)
    assert entered.wait(30)
    tick = device.timeline.issued()
    behind = fg.jit(lambda y: y * 2.0)(y)
    reset("cpu:20")
    error = device.timeline.error(tick)
    assert isinstance(error, DeviceLostError) and "was given up when cpu:20 was reset" in str(error)
    del y, behind
    z = fg.jit(lambda x: x + 5.0)(x)
    assert np.asarray(z).tolist() == [5.0] * 4
    others = [fg.jit(lambda x, i=i: x + i)(x) for i in range(64)]  # in the memory of what was given up
    door.set()
    time.sleep(0.05)
    assert [np.asarray(o)[0] for o in others] == list(range(64))
    f2, _ = calling(lambda x: x, "cpu:20")
    assert np.asarray(f2(x)).tolist() == [301.0] * 4, "a new thread runs queued programs"


def test_a_second_reset_and_one_of_a_device_at_rest_change_nothing() -> None:
    x = fg.device_put(np.arange(4.0), "cpu:20")
    for name in ("cpu:20", "cpu:20", "python", "null"):
        reset(name)
    assert np.asarray(x + x).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_reset_swallows_no_earlier_failure() -> None:
    def raises(x: Any) -> Any:
        raise ValueError("before")

    f, x = calling(raises, "cpu:20")
    f(x)
    device = get_device("cpu:20")
    while device.timeline.completed() < device.timeline.issued():
        time.sleep(0.001)
    reset("cpu:20")
    with pytest.raises(CallbackFailedError, match="before"):
        device.sync()
    device.sync()


def test_a_callback_that_waits_for_a_device_that_waits_for_its_own_is_refused() -> None:
    here, there = get_device("cpu:21"), get_device("cpu:22")
    big = np.zeros(1 << 19, np.float32)  # copied by commands, as it is large
    a, b = fg.device_put(big, "cpu:21"), fg.device_put(big, "cpu:22")
    seen: list[str] = []
    queued = threading.Event()

    def waits(x: Any) -> Any:
        queued.wait(30)
        try:
            there.sync()
        except DeviceError as error:
            seen.append(str(error))
            raise
        return x

    f, x = calling(waits, "cpu:21")
    f(x)
    copy(there, b.addr, here, a.addr, big.nbytes)  # waits for what cpu:21 has queued
    queued.set()
    with pytest.raises(CallbackFailedError, match="neither would ever go on"):
        here.sync()
    assert "a callback on cpu:21 waits for cpu:22, which waits for cpu:21" in seen[0]
    there.sync()


def test_two_callbacks_that_wait_for_each_other_are_refused() -> None:
    devices = [get_device("cpu:23"), get_device("cpu:24")]
    both = threading.Barrier(2, timeout=30)

    def waits_for(other: Any) -> Any:
        def call(x: Any) -> Any:
            both.wait()
            other.sync()
            return x

        return call

    running = [calling(waits_for(devices[1 - i]), d.name) for i, d in enumerate(devices)]
    for f, x in running:
        f(x)
    failures = []
    for device in devices:
        try:
            device.sync()
        except CallbackFailedError as error:
            failures.append(str(error))
    assert failures and "neither would ever go on" in failures[0]


def test_a_callback_may_wait_for_a_device_that_does_not_need_its_own() -> None:
    other = get_device("cpu:26")
    big = fg.device_put(np.ones(1 << 20, np.float32), "cpu:26")
    work = fg.jit(lambda b: lax.fori_loop(0, 20, lambda i, c: fnp.sin(c), b))

    def waits(x: Any) -> Any:
        y = work(big)
        other.sync()
        return x + np.asarray(y)[0]

    f, x = calling(waits, "cpu:25")
    got, one = np.asarray(f(x)), np.float32(1.0)
    for _ in range(20):
        one = np.sin(one)
    np.testing.assert_allclose(got, 301.0 + one, rtol=1e-5)
