"""The NULL device counts what would run, and touches nothing."""

from __future__ import annotations

import numpy as np
import pytest

from fgrad.backends.null.device import KERNEL_NS, NullDevice
from fgrad.errors import DeviceError
from fgrad.hw.device import get_device
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import open_param
from fgrad.uop.program import Program, close


def exponential() -> Program:
    x = open_param(dt.float32, (8,))
    return close([x], [b.exp(x)])


def test_calls_are_counted_and_time_is_fixed() -> None:
    device = NullDevice(1)
    assert device.name == "null:1"
    executable = device.compile(exponential(), frozenset(), frozenset(), "f")
    for _ in range(3):
        executable.call([0, 0])  # no address is followed
    counts = device.counts
    assert (counts.compiled, counts.programs, counts.kernels) == (1, 3, 3)
    assert counts.bytes == 3 * executable.bytes > 0
    assert device.now_ns == 3 * KERNEL_NS
    device.sync()


def test_outputs_are_left_as_they_are() -> None:
    device = NullDevice(0)
    executable = device.compile(exponential(), frozenset(), frozenset(), "f")
    x, y = np.ones(8, np.float32), np.full(8, 5, np.float32)
    executable.call([x.ctypes.data, y.ctypes.data])
    np.testing.assert_array_equal(y, 5)


def test_reading_back_is_refused_unless_allowed() -> None:
    device = NullDevice(0)
    with pytest.raises(
        DeviceError, match="null computes nothing, so there is nothing to read back"
    ):
        device.check_readable()
    device.allow_reading = True
    device.check_readable()


def test_the_wrong_number_of_words_is_refused() -> None:
    executable = NullDevice(0).compile(exponential(), frozenset(), frozenset(), "f")
    with pytest.raises(DeviceError, match="f takes 1 parameters and 1 outputs, got 1 words"):
        executable.call([0])


def test_the_device_is_found_by_name_and_shows_its_stages() -> None:
    executable = get_device("null").compile(exponential(), frozenset(), frozenset(), "f")
    assert executable.text("commands").startswith("EXEC k0")
    assert "exp(b0[" in executable.text("kernels")
    assert "@entry" in executable.text("llvm")
    with pytest.raises(NotImplementedError, match="no stage 'asm'"):
        executable.text("asm")
