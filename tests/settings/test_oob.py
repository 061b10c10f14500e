"""FGRAD_CHECK=oob: computed indices out of bounds, found while programs run."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config
from fgrad.errors import OutOfBoundsError


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    with config.override(check="oob"):
        yield


def pick(x: Any, i: Any) -> Any:
    return x[i]


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "read": pick,
    "slice-and-index": lambda x, i: x[:, None][1:, 0][i],
    "take": lambda x, i: fnp.take(x, i),
    "take-along-axis": lambda x, i: fnp.take_along_axis(x, fnp.reshape(i, (1,)), 0),
    "promised": lambda x, i: x.at[i].get(mode="promise_in_bounds"),
    "set": lambda x, i: x.at[i].set(0.0),
    "add": lambda x, i: x.at[fnp.stack([i, i])].add(1.0),
    "gradient": lambda x, i: fgrad.grad(lambda x: pick(x * x, i))(x),
    "vmap": lambda x, i: fgrad.vmap(pick, (None, 0))(x, fnp.stack([i * 0, i])),
    "scan": lambda x, i: lax.scan(lambda c, t: (c + x[t + i - 1], None), 0.0, fnp.arange(2))[0],
    "branch": lambda x, i: lax.cond(i > 0, pick, lambda x, i: x[0], x, i),
    "checkpoint": lambda x, i: fgrad.grad(fgrad.checkpoint(lambda x: fnp.sin(pick(x, i))))(x),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("device", ["cpu", "python", "reference"])
def test_an_index_out_of_bounds_raises(name: str, device: str) -> None:
    with config.override(device=device):
        x = fnp.arange(4.0)
        f = fgrad.jit(WRONG[name])
        assert np.isfinite(f(x, fnp.array(1))).all()
        with pytest.raises(OutOfBoundsError, match=r"out of bounds for an axis of [34] elements"):
            fgrad.block_until_ready(f(x, fnp.array(4)))


def test_the_message_names_function_index_limit_position_and_line() -> None:
    f = fgrad.jit(pick)
    with pytest.raises(
        IndexError,
        match=r"(?s)jit\(pick\): index -7 is out of bounds for an axis of 4 .* first of 2 at position \(1, 0\)"
        r".*test_oob.py:23, in pick",
    ):
        fgrad.block_until_ready(f(fnp.arange(4.0), fnp.array([[0, 3], [-7, 9]])))


MEANT: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda x, i: x.at[i].get(mode="clip"),
    "fill": lambda x, i: x.at[i].get(mode="fill", fill_value=0.0),
    "fill-value": lambda x, i: x.at[i].get(fill_value=0.0),
    "wrap": lambda x, i: fnp.take(x, i, mode="wrap"),
    "drop": lambda x, i: x.at[i].set(1.0, mode="drop"),
    "negative": lambda x, i: x[i - 8],
    "branch-not-taken": lambda x, i: lax.cond(i < 0, pick, lambda x, i: x[0], x, i),
    "clamped": lambda x, i: lax.dynamic_slice(x, (i,), (2,)),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_is_asked_for_is_no_error(name: str) -> None:
    out = fgrad.jit(MEANT[name])(fnp.arange(4.0), fnp.array(5))
    assert np.isfinite(out).all()


def test_windows_of_gather_and_scatter() -> None:
    x = fnp.arange(5.0)
    dims = lax.GatherDimensionNumbers((1,), (), (0,))
    f = fgrad.jit(lambda x, i: lax.gather(x, i[:, None], dims, (2,)))
    np.testing.assert_array_equal(f(x, fnp.array([0, 3])), [[0, 1], [3, 4]])
    with pytest.raises(OutOfBoundsError, match=r"index 4 .*may start at 0 to 3"):
        fgrad.block_until_ready(f(x, fnp.array([0, 4])))


def test_nothing_is_checked_once_the_setting_is_off() -> None:
    f = fgrad.jit(pick)
    x, far = fnp.arange(4.0), fnp.array(9)
    with pytest.raises(OutOfBoundsError):
        fgrad.block_until_ready(f(x, far))
    with config.override(check=""):
        assert np.isnan(f(x, far))
        assert f.lower(x, far).as_text().count("HOST") == 0
