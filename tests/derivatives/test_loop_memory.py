"""What gradients of loops keep: residuals of a scan, checkpoints, bounded while loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.errors import ArgumentError

STEPS, BATCH, WIDTH = 64, 4, 16
STACK = STEPS * BATCH * WIDTH * 4  # bytes of one value of every step


def loss(checkpoint: Any) -> Any:
    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = fnp.tanh(h @ w + x)
            return fnp.sin(h * x) + h, None

        h, _ = lax.scan(step, h, xs, checkpoint=checkpoint)
        return (h * h).sum()

    return f


@pytest.fixture
def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
    w = 0.2 * rng.standard_normal((WIDTH, WIDTH))
    xs = rng.standard_normal((STEPS, BATCH, WIDTH))
    return tuple(a.astype(np.float32) for a in (w, np.zeros((BATCH, WIDTH)), xs))


def temporaries(f: Any, arguments: tuple[Any, ...]) -> int:
    bytes_: int = fgrad.jit(fgrad.grad(f)).lower(*arguments).memory_analysis()["temporary_bytes"]
    return bytes_


@pytest.mark.parametrize("checkpoint", [True, 5, "sqrt", STEPS, 1])
def test_checkpoints_do_not_change_the_gradient(checkpoint: Any, arguments: tuple[Any, ...]) -> None:
    want = fgrad.grad(loss(None), argnums=(0, 1, 2))(*arguments)
    got = fgrad.jit(fgrad.grad(loss(checkpoint), argnums=(0, 1, 2)))(*arguments)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_scan_keeps_three_values_a_step_a_checkpointed_one_two(arguments: tuple[Any, ...]) -> None:
    """The carry and the tanh for the derivative, and what its transpose makes for the weights' sum."""
    assert temporaries(loss(None), arguments) < 3.3 * STACK
    assert temporaries(loss(True), arguments) < 2.3 * STACK


def test_segments_keep_the_square_root(arguments: tuple[Any, ...]) -> None:
    # about eight carries, and three values a step of eight steps
    assert temporaries(loss("sqrt"), arguments) < STACK


def test_a_checkpoint_that_is_none_of_the_choices_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentError, match="sqrt"):
        loss("all")(*arguments)


# ---- while
def newton(max_steps: int | None) -> Any:
    """The square root of a, by as many steps as it takes."""

    def f(a: Any) -> Any:
        def unfinished(x: Any) -> Any:
            return abs(x * x - a) > 1e-12 * a

        return lax.while_loop(unfinished, lambda x: 0.5 * (x + a / x), a, max_steps=max_steps)

    return f


@pytest.mark.parametrize("a", [2.0, 9.0, 1e-3])
def test_a_bounded_while_loop_has_all_derivatives(a: float) -> None:
    x = np.float64(a)
    f = newton(30)
    np.testing.assert_allclose(f(x), newton(None)(x), rtol=1e-14)
    np.testing.assert_allclose(fgrad.grad(f)(x), 0.5 / np.sqrt(a), rtol=1e-6)
    np.testing.assert_allclose(fgrad.jacfwd(newton(None))(x), 0.5 / np.sqrt(a), rtol=1e-6)
    np.testing.assert_allclose(fgrad.grad(fgrad.grad(f))(x), -0.25 * a**-1.5, rtol=1e-4)


def test_members_of_a_batch_stop_each_in_its_own_step() -> None:
    a = np.array([2.0, 1e-3, 1e6])
    got = fgrad.jit(fgrad.vmap(fgrad.grad(newton(40))))(a)
    np.testing.assert_allclose(got, 0.5 / np.sqrt(a), rtol=1e-6)


def test_steps_after_the_last_do_nothing() -> None:
    """A step beyond the end would be NaN, also in the derivative."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: v > 0.5, lambda v: fnp.sqrt(v - 0.5), x, max_steps=20)

    x = np.float64(1.3)
    value, steps = 1.3, 0
    while value > 0.5:
        value, steps = np.sqrt(value - 0.5), steps + 1
    np.testing.assert_allclose(f(x), value)
    eps = 1e-7
    np.testing.assert_allclose(fgrad.grad(f)(x), (f(x + eps) - f(x - eps)) / (2 * eps), rtol=1e-4)


def test_without_a_bound_reverse_mode_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match=r"(?s)reverse.*while.*max_steps.*forward mode"):
        fgrad.grad(newton(None))(2.0)


def test_a_masked_update_in_a_batched_loop_happens_in_place() -> None:
    """One element a step: the time does not grow with the size of the carry."""

    def f(i: Any, xs: Any) -> Any:
        def step(c: Any) -> Any:
            return c[0] + 1, c[1].at[c[0]].set(1.0)

        return lax.while_loop(lambda c: c[0] < xs.shape[0], step, (i, xs))[1]

    batched = fgrad.jit(fgrad.vmap(f))
    arguments = (np.array([0, 5]), np.zeros((2, 50), np.float32))
    text = batched.lower(*arguments).as_text("program")
    assert not [line for line in text.splitlines() if "WHERE" in line and "[2,50]" in line]
    got = np.asarray(batched(*arguments))
    assert got[0].min() == 1 and got[1, :5].max() == 0 and got[1, 5:].min() == 1
