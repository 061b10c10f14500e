"""What is no function is refused where it is given, not where it would be called."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.custom_batching import custom_vmap, sequential_vmap
from fgrad.errors import ArgumentError

X = fnp.ones(3)
WRAPPERS: list[Any] = [
    fg.checkpoint, fg.custom_gradient, fg.custom_jvp, fg.custom_vjp, fg.grad, fg.hessian, fg.jacfwd, fg.jacrev, fg.jit,
    fg.make_program, fg.named_call, fg.value_and_grad, fg.vmap, custom_vmap, sequential_vmap,
]  # fmt: skip


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda f: f.__name__)
def test_a_transformation(wrapper: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match=r"needs a function, got 3 of type int; pass the function itself, and the"):
        wrapper(3)


@pytest.mark.parametrize("name", ["closure_convert", "eval_shape", "linearize", "vjp"])
def test_a_transformation_with_its_arguments(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name} needs a function, got 3 of type int; .*, then its arguments"):
        getattr(fg, name)(3, X)


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("while_loop needs cond_fun", lambda: lax.while_loop(3, abs, X)),
        ("while_loop needs body_fun", lambda: lax.while_loop(abs, 3, X)),
        ("fori_loop needs body_fun", lambda: lax.fori_loop(0, 2, 3, X)),
        ("map needs f", lambda: lax.map(3, X)),
        ("custom_root needs solve", lambda: lax.custom_root(abs, X, 3, abs)),
    ],
)
def test_a_loop_or_solver(text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError, match=f"{text} as a function, got 3 of type int"):
        call()
