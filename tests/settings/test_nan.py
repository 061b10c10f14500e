"""FGRAD_CHECK=nan: who made the NaN, and in which line."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config
from fgrad.errors import NanError


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    with config.override(check="nan"):
        yield


def log_of_difference(x: Any) -> Any:
    y = x - 2.0
    return fnp.log(y) * 3.0  # the line that is named


def test_a_jitted_function_names_itself_the_operation_and_the_line() -> None:
    with pytest.raises(NanError, match=r"(?s)log_of_difference.*LOG of float32\[3\].*test_nan.py:25, in log_of"):
        fgrad.jit(log_of_difference)(fnp.ones(3))


def test_an_eager_function_is_named() -> None:
    with pytest.raises(FloatingPointError, match=r"log: the result"):
        fnp.log(-fnp.ones(3))


def test_a_gradient_names_the_line_of_the_function_that_it_is_of() -> None:
    def ratio(x: Any) -> Any:
        return fnp.sum(x / (x * 0.0))

    with pytest.raises(NanError, match=r"(?s)DIV.*test_nan.py"):
        fgrad.jit(fgrad.grad(ratio))(fnp.zeros(2))


def test_a_nan_that_a_where_leaves_out_is_not_reported() -> None:
    f = fgrad.jit(lambda x: fnp.where(x > 2.0, fnp.log(x - 2.0), 0.0))
    np.testing.assert_array_equal(f(fnp.ones(3)), np.zeros(3))


def test_the_origin_is_the_nan_that_reaches_the_result() -> None:
    def f(x: Any) -> Any:
        hidden = fnp.where(x > 2.0, fnp.log(x - 2.0), 0.0)  # NaN inside, none outside
        return hidden + fnp.sqrt(-x)

    with pytest.raises(NanError, match="SQRT"):
        fgrad.jit(f)(fnp.ones(3))


def test_arguments_that_are_nan_are_the_callers_own() -> None:
    f = fgrad.jit(lambda x: x * 2.0)
    assert np.isnan(f(fnp.array([np.nan, 1.0]))).tolist() == [True, False]
    assert np.isnan(f(float("nan")))


@pytest.mark.parametrize("kind", ["scan", "while", "cond"])
def test_inside_a_loop_or_a_branch(kind: str) -> None:
    def step(x: Any) -> Any:
        return fnp.sqrt(x - 1.0)

    def f(x: Any) -> Any:
        if kind == "scan":
            return lax.scan(lambda c, _: (step(c), None), x, None, length=4)[0]
        if kind == "while":
            return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, step(c[1])), (0, x))[1]
        return lax.cond(x > 0.0, step, lambda x: x, x)

    with pytest.raises(NanError, match=r"(?s)SQRT of float32\[\].*in test_inside.*step"):
        fgrad.jit(f)(fnp.float32(0.5))


def test_a_program_with_effects_is_not_run_again() -> None:
    calls = []

    def f(x: Any) -> Any:
        fgrad.debug.callback(lambda v: calls.append(float(v)), x)
        return fnp.log(x)

    with pytest.raises(NanError, match="not run again"):
        fgrad.jit(f)(-1.0)
    assert calls == [-1.0]


def test_donated_arguments_are_kept_for_the_search() -> None:
    f = fgrad.jit(lambda x: fnp.log(x - 5.0), donate_argnums=0)
    with pytest.raises(NanError, match=r"LOG of float32\[1000\]"):
        f(fnp.ones(1000))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "float64"])
def test_every_floating_dtype(dtype: str) -> None:
    x = fnp.zeros(2, dtype)
    with pytest.raises(NanError, match=re.escape(dtype)):
        fgrad.jit(lambda x: x / x)(x)


def test_nothing_is_checked_once_the_setting_is_off() -> None:
    f = fgrad.jit(fnp.log)
    with pytest.raises(NanError):
        f(-1.0)
    with config.override(check=""):
        assert np.isnan(f(-1.0)) and np.isnan(fnp.log(-1.0))
    with pytest.raises(NanError):
        f(-1.0)


def test_jax_spells_it_debug_nans() -> None:
    with config.override(check=""):
        config.update("jax_debug_nans", True)
        assert "nan" in config.check
