"""FGRAD_SHOW: passes, kernels, commands and recompilations, and of which function."""

import logging
import re
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config


def shown(capfd: pytest.CaptureFixture[str], what: str, f: Any, *args: Any) -> str:
    with config.override(show=what):
        capfd.readouterr()
        fgrad.block_until_ready(f(*args))
        return capfd.readouterr().err


def make_loss() -> Any:
    def loss(x: Any) -> Any:
        return fnp.sum(fnp.sin(x) * 3.0 * 1.0)

    return loss


X = np.arange(4, dtype=np.float32)
PASSES = {
    "simplify": lambda f: fgrad.jit(f),
    "tidy": lambda f: fgrad.jit(f),
    "lower": lambda f: fgrad.jit(f),
    "vjp": lambda f: fgrad.grad(f),
    "jvp": lambda f: lambda x: fgrad.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: fgrad.vjp(f, x)[1](1.0),
    "linear": lambda f: lambda x: fgrad.vjp(f, x)[1](1.0),
    "transpose": lambda f: lambda x: fgrad.vjp(f, x)[1](1.0),
    "vmap": lambda f: lambda x: fgrad.vmap(f)(fnp.stack([x, x])),
    "commands": lambda f: fgrad.jit(f),
    "source": lambda f: fgrad.jit(f),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_printed_for_the_functions_that_are_asked_for(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    x = fnp.array(X)
    assert re.search(rf"== \w+/(real|kernel|{name}) of loss", shown(capfd, name, PASSES[name](make_loss()), x))
    assert "of loss" in shown(capfd, f"{name}:loss", PASSES[name](make_loss()), x)
    assert "==" not in shown(capfd, f"{name}:other", PASSES[name](make_loss()), x)
    assert "==" not in shown(capfd, "", PASSES[name](make_loss()), x)


def test_kernels_are_a_table_after_1_10_and_100_calls(capfd: pytest.CaptureFixture[str]) -> None:
    def layers(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (fnp.tanh(c @ w), None), x, None, length=5)[0]

    f = fgrad.jit(layers)
    x, w = fnp.ones((32, 48)), fnp.ones((48, 48)) * 0.01
    plain = np.asarray(f(x, w))
    first = shown(capfd, "kernels:layers", f, x, w)
    assert re.search(r"== hw/kernels of layers: call 1, [\d.]+ us each", first)
    assert re.search(r"kernel +shape +runs +us/run +GFLOP/s +GB/s +share", first)
    row = re.search(r"k\d+_\w+ +(\S+) +5 +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)%", first)
    assert row and float(row[2]) > 0 and "48" in row[1]
    with config.override(show="kernels:layers"):
        for _ in range(9):
            np.testing.assert_array_equal(f(x, w), plain)
    later = capfd.readouterr().err
    assert later.count("==") == 1 and "calls 2 to 10" in later
    assert shown(capfd, "", f, x, w) == ""


def test_why_a_function_is_compiled_again(caplog: pytest.LogCaptureFixture) -> None:
    f = fgrad.jit(make_loss())
    with config.override(show="recompiles"), caplog.at_level(logging.WARNING, "fgrad"):
        f(fnp.ones(3))
        f(fnp.ones(4))
    assert "loss is compiled for the 2. time: argument 0: float32[4]" in caplog.text
    with config.override(enable_x64=True, show="recompiles"), caplog.at_level(logging.WARNING, "fgrad"):
        f(fnp.ones(4, "float32"))
    assert "under other settings" in caplog.text
