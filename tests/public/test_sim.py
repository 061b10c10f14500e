"""Jitted functions on the SIM device give what they give on the CPU, in whatever order its queues run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad import numpy as fnp
from fgrad.errors import CallbackFailedError, DeviceLostError
from fgrad.hw.device import get_device, reset
from fgrad.hw.mock.faults import Faults


def layers(x: Any, w: Any) -> Any:
    return fnp.sum(fnp.tanh(x @ w) @ w.T)


def scanned(x: Any, w: Any) -> Any:
    return lax.scan(lambda c, row: (fnp.sin(c) + row, c.sum()), x[0], x)


def branches(x: Any, w: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: fnp.cumsum(v, axis=0), lambda v: v * 2, x @ w)


def looped(x: Any, w: Any) -> Any:
    return lax.while_loop(lambda c: fnp.sum(c[0]) < 50.0, lambda c: (c[0] + 1.0, c[1] @ w), (fnp.abs(x), x))


def moved(x: Any, w: Any) -> Any:
    return x.T.copy(), fnp.concatenate([x, x]), x.at[1:3].set(w[1:3]), fnp.sort(x, axis=0)


def batched(x: Any, w: Any) -> Any:
    return fg.vmap(lambda r: fnp.outer(r, r) @ w)(x)


def called(x: Any, w: Any) -> Any:
    shape = fg.ShapeDtypeStruct(x.shape, np.float32)
    return fg.pure_callback(lambda v: np.asarray(v) * 2, shape, x + 1.0) @ w


FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    layers, fg.grad(layers, argnums=1), fg.value_and_grad(layers), scanned, branches, looped, moved, batched, called,
]  # fmt: skip
NAMES = ["layers", "grad", "value_and_grad", "scanned", "branches", "looped", "moved", "batched", "called"]


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
def test_results_are_those_of_the_cpu(function: Callable[..., Any], rng: np.random.Generator) -> None:
    x, w = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2)]
    want = fg.tree_util.tree_leaves(fg.jit(function)(x, w))
    f = fg.jit(function)
    for seed in range(5):
        get_device("sim").machine.restart(seed)
        got = fg.tree_util.tree_leaves(f(fg.device_put(x, "sim"), fg.device_put(w, "sim")))
        for g, v in zip(got, want, strict=True):
            assert g.device.name == "sim"
            np.testing.assert_allclose(np.asarray(g), np.asarray(v), rtol=1e-4, atol=1e-5)


def test_donated_arrays_and_steps_that_follow_each_other() -> None:
    step = fg.jit(lambda p, g: p - 0.1 * g, donate_argnums=0)
    p, g = fg.device_put(np.ones(8, np.float32), "sim"), fg.device_put(np.ones(8, np.float32), "sim")
    old = p
    for _ in range(10):
        p = step(p, g)
    assert old.is_deleted()
    np.testing.assert_allclose(np.asarray(p), np.zeros(8), atol=1e-6)


def test_arrays_move_between_devices() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for name in ("sim:1", "cpu", "sim:2", "cpu:1", "sim"):
        x = fg.device_put(x, name) + 1.0
        assert x.device.name == name
    np.testing.assert_array_equal(np.asarray(x), np.arange(6.0).reshape(2, 3) + 5)


def test_exceptions_of_callbacks_in_loops_are_raised_by_the_next_wait() -> None:
    def raises(i: Any) -> Any:
        raise ValueError("stop")

    def f(x: Any) -> Any:
        shape = fg.ShapeDtypeStruct((), np.float32)
        return lax.fori_loop(0, 3, lambda i, c: c + fg.pure_callback(raises, shape, i), x)

    y = fg.jit(f)(fg.device_put(np.float32(1), "sim"))
    with pytest.raises(CallbackFailedError, match="ValueError\\('stop'\\)") as caught:
        np.asarray(y)
    assert isinstance(caught.value.__cause__, ValueError)
    assert float(fg.device_put(np.float32(1), "sim") + 1) == 2


def test_a_fault_loses_the_device_until_it_is_reset() -> None:
    x = fg.device_put(np.ones(4, np.float32), "sim:3")
    f = fg.jit(lambda x: x * 3.0)
    assert np.asarray(f(x)).tolist() == [3.0] * 4
    get_device("sim:3").machine.restart(0, Faults(fault_at=1))
    y = f(x)
    with pytest.raises(DeviceLostError, match="sim:3/compute is lost, at .* EXEC faulted"):
        np.asarray(y)
    for use in (lambda: f(x), lambda: np.asarray(x)):
        with pytest.raises(DeviceLostError):
            use()
    assert float(fg.device_put(np.float32(2), "sim") * 2) == 4.0, "other devices go on"
    get_device("sim").machine.restart()
    reset("sim:3")
    assert np.asarray(f(x)).tolist() == [3.0] * 4
