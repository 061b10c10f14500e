"""Every differentiable function: derivatives of order 1 and 2 in both modes, and under vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.test_util import check_grads
from tests.derivatives.functions import ENTRIES

NAMES = [name for name, _, _ in ENTRIES]


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_derivatives_are_those_of_differences(entry: Any) -> None:
    _, f, args = entry
    check_grads(f, args, order=2, atol=2e-4, rtol=2e-4, eps=1e-5)


def gradient_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """The value of `f` and the gradients of the sum of sines of its results."""

    def value_and_gradient(*args: Any) -> Any:
        out, pull = fgrad.vjp(f, *args)
        return out, pull(fgrad.tree.map(fgrad.numpy.cos, out))

    return value_and_gradient


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_vmap_of_value_and_gradient_is_a_stack(entry: Any) -> None:
    _, f, args = entry
    g = fgrad.jit(gradient_of(f))
    rows = [args, tuple(np.ascontiguousarray(np.flip(x)) if x.ndim else x for x in args)]
    mapped = fgrad.jit(fgrad.vmap(gradient_of(f)))(*[np.stack(xs) for xs in zip(*rows, strict=True)])
    single = [fgrad.tree.leaves(g(*row)) for row in rows]
    for got, *want in zip(fgrad.tree.leaves(mapped), *single, strict=True):
        np.testing.assert_allclose(got, np.stack(want), rtol=1e-9, atol=1e-9)
