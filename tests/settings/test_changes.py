"""What a change of a setting does to code that was generated before."""

from typing import Any

import numpy as np

import fgrad
import fgrad.numpy as fnp
from fgrad.config import config


def test_a_jitted_function_sees_a_change_although_its_code_asks_for_no_setting() -> None:
    f = fgrad.jit(lambda x: x * 2.0 + 0.1)
    for _ in range(3):
        assert f(1.0).dtype == np.float32
    with config.override(enable_x64=True):
        for _ in range(3):
            assert f(1.0).dtype == np.float64
    for _ in range(3):
        assert f(1.0).dtype == np.float32


def test_an_eager_function_sees_a_change() -> None:
    assert [fnp.sqrt(2.0).dtype.name for _ in range(3)] == ["float32"] * 3
    with config.override(enable_x64=True):
        assert [fnp.sqrt(2.0).dtype.name for _ in range(3)] == ["float64"] * 3
    assert fnp.sqrt(2.0).dtype == np.float32


def test_going_back_and_forth_traces_once_for_each_setting() -> None:
    traced = []

    @fgrad.jit
    def f(x: Any) -> Any:
        traced.append(config.enable_x64)
        return x + 1

    x = fnp.ones(3)
    for _ in range(4):
        f(x)
        with config.override(enable_x64=True):
            f(x)
    assert traced == [False, True]


def test_names_of_code_that_is_gone_are_not_kept() -> None:
    f = fgrad.jit(lambda x: x + 1)
    x = fnp.ones(3)
    sizes = []
    for _ in range(6):
        f(x)
        f(x)
        sizes.append(len(f.__globals__))
        with config.override(sync=True):
            f(x)
            f(x)
    assert sizes[-1] == sizes[2]


def test_the_same_settings_have_the_same_state() -> None:
    before = config.state
    with config.override(sync=not config.sync):
        assert config.state != before
    assert config.state == before
    seen = []
    config.on_change.append(lambda: seen.append(config.check))
    try:
        with config.override(check="nan"):
            pass
        with config.override(check=config.check):
            pass
    finally:
        config.on_change.pop()
    assert len(seen) == 2 and seen[0] == {"nan"}
