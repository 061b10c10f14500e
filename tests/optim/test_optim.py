"""Optimizers against their formulas, written out in NumPy; schedules; dtypes of parameters and
state.
"""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import errors, optim

START, GOAL = np.array([1.0, -2.0, 3.0], np.float32), np.array([0.5, 0.5, -1.0], np.float32)


def run(opt: optim.GradientTransformation, steps: int = 6) -> np.ndarray:
    params = {"w": fnp.asarray(START)}
    state = opt.init(params)
    for _ in range(steps):
        grads = {"w": 2 * (params["w"] - GOAL)}
        updates, state = opt.update(grads, state, params)
        params = optim.apply_updates(params, updates)
    return np.asarray(params["w"])


def written_out(step, steps: int = 6) -> np.ndarray:
    """`step(t, gradient, parameter, memory) -> update`, with `memory` a dictionary of arrays."""
    w, memory = START.astype(float), {}
    for t in range(1, steps + 1):
        w = w + step(t, 2 * (w - GOAL), w, memory)
    return w


def mean(memory, name, value, rate):
    memory[name] = rate * memory.get(name, 0) + (1 - rate) * value
    return memory[name]


def adam(t, g, w, m):
    first = mean(m, "mu", g, 0.9) / (1 - 0.9**t)
    second = mean(m, "nu", g * g, 0.999) / (1 - 0.999**t)
    return first / (np.sqrt(second) + 1e-8)


def momentum(t, g, w, m, nesterov=False):
    m["v"] = 0.9 * m.get("v", 0) + g
    return g + 0.9 * m["v"] if nesterov else m["v"]


def adagrad(t, g, w, m):
    m["s"] = m.get("s", 0.1) + g * g
    return g / np.sqrt(m["s"] + 1e-7)


def centered(t, g, w, m):
    mu, nu = mean(m, "mu", g, 0.9), mean(m, "nu", g * g, 0.9)
    return g / np.sqrt(nu - mu * mu + 1e-8)


def lion(t, g, w, m):
    sign = np.sign(0.9 * m.get("mu", 0) + 0.1 * g)
    mean(m, "mu", g, 0.99)
    return sign + 1e-3 * w


CASES = {
    "sgd": (optim.sgd(0.1), lambda t, g, w, m: g),
    "momentum": (optim.momentum(0.1), momentum),
    "nesterov": (optim.sgd(0.1, 0.9, True), lambda *a: momentum(*a, nesterov=True)),
    "adam": (optim.adam(0.1), adam),
    "adamw": (optim.adamw(0.1, weight_decay=0.05), lambda t, g, w, m: adam(t, g, w, m) + 0.05 * w),
    "rmsprop": (optim.rmsprop(0.1), lambda t, g, w, m: g / np.sqrt(mean(m, "nu", g * g, 0.9) + 1e-8)),
    "centered": (optim.rmsprop(0.1, centered=True), centered),
    "adagrad": (optim.adagrad(0.1), adagrad),
    "lion": (optim.lion(0.1), lion),
    "clip": (
        optim.chain(optim.clip(0.5), optim.scale_by_learning_rate(0.1)),
        lambda t, g, w, m: np.clip(g, -0.5, 0.5),
    ),
    "global norm": (
        optim.chain(optim.clip_by_global_norm(1.0), optim.scale(-0.1)),
        lambda t, g, w, m: g * min(1, 1 / np.linalg.norm(g)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_optimizer_takes_the_steps_of_its_formula(name: str) -> None:
    opt, step = CASES[name]
    want = written_out(lambda *a: -0.1 * step(*a))
    np.testing.assert_allclose(run(opt), want, rtol=2e-5, atol=2e-6)


def test_updates_run_inside_jit_and_scan() -> None:
    opt = optim.adam(optim.warmup_cosine_decay_schedule(0.0, 0.5, 2, 50))

    def step(carry, _):
        params, state = carry
        loss, grads = fgrad.value_and_grad(lambda p: ((p["w"] - GOAL) ** 2).sum())(params)
        updates, state = opt.update(grads, state, params)
        return (optim.apply_updates(params, updates), state), loss

    params = {"w": fnp.asarray(START)}
    (params, state), losses = fgrad.lax.scan(step, (params, opt.init(params)), None, length=50)
    assert float(losses[-1]) < 0.05 * float(losses[0])
    assert int(state[0].count) == 50 and state[0].count.dtype == np.int32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_parameters_and_moments_keep_their_dtype(dtype: str) -> None:
    opt = optim.adamw(optim.linear_schedule(0.1, 0.0, 10))
    params = {"w": fnp.ones(3, dtype)}
    state = opt.init(params)
    updates, state = opt.update({"w": fnp.ones(3, dtype)}, state, params)
    params = optim.apply_updates(params, updates)
    kinds = {str(a.dtype) for a in (updates["w"], params["w"], state[0].mu["w"], state[0].nu["w"])}
    assert kinds == {dtype}


SCHEDULES = {
    "linear": (optim.linear_schedule(1.0, 0.0, 4, 1), [1, 1, 0.75, 0.5, 0.25, 0, 0]),
    "cosine": (
        optim.cosine_decay_schedule(1.0, 4, 0.1),
        [0.1 + 0.9 * (1 + np.cos(np.pi * min(i, 4) / 4)) / 2 for i in range(7)],
    ),
    "exponential": (
        optim.exponential_decay(1.0, 2, 0.5, staircase=True),
        [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125],
    ),
    "piecewise": (
        optim.piecewise_constant_schedule(1.0, {2: 0.5, 4: 0.1}),
        [1, 1, 1, 0.5, 0.5, 0.05, 0.05],
    ),
    "joined": (
        optim.join_schedules([optim.constant_schedule(1.0), lambda n: n * 1.0], [3]),
        [1, 1, 1, 0, 1, 2, 3],
    ),
    "warmup": (
        optim.warmup_cosine_decay_schedule(0.0, 1.0, 2, 4, 0.0),
        [0, 0.5, 1, 0.5, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    schedule, want = SCHEDULES[name]
    np.testing.assert_allclose([float(schedule(i)) for i in range(7)], want, atol=1e-6)


def test_masks_choose_what_is_transformed() -> None:
    opt = optim.masked(optim.scale(2.0), {"a": True, "b": False})
    updates = {"a": fnp.ones(2), "b": fnp.ones(2)}
    out, _ = opt.update(updates, opt.init(updates))
    assert np.asarray(out["a"]).tolist() == [2, 2] and np.asarray(out["b"]).tolist() == [1, 1]


def test_the_global_norm_has_slope_zero_at_zero() -> None:
    tree = {"a": fnp.full(2, 3.0), "b": fnp.full((1,), 4.0)}
    assert float(optim.global_norm(tree)) == pytest.approx(34**0.5)
    slope = fgrad.grad(lambda x: optim.global_norm([x]))(fnp.zeros(3))
    assert np.asarray(slope).tolist() == [0, 0, 0]


def test_mistakes_are_named() -> None:
    with pytest.raises(errors.ArgumentError, match="needs the parameters"):
        optim.add_decayed_weights(0.1).update({"w": fnp.ones(2)}, ())
    with pytest.raises(errors.ArgumentError, match="must be positive"):
        optim.clip(-1.0)
    with pytest.raises(errors.ArgumentError, match="must be finite"):
        optim.sgd(float("nan"))
