"""Blocks without jit, without tracing, and with a look for leaks."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import grad, jit, lax, vmap
from fgrad.errors import LeakedTracerError


def test_functions_run_as_python_where_jit_is_disabled():
    runs = []

    @jit
    def f(x):
        runs.append(1)
        return x * 2 if x > 0 else -x

    with fgrad.disable_jit():
        assert [float(f(3.0)), float(f(-1.0)), float(f(3.0))] == [6, 1, 6]
    assert len(runs) == 3
    g = jit(lambda x: runs.append(1) or x + 1)
    before = len(runs)
    for _ in range(4):  # compiled, with its short way
        assert float(g(1.0)) == 2
    assert len(runs) == before + 1
    with fgrad.disable_jit():
        assert float(g(1.0)) == 2 and len(runs) == before + 2
        with fgrad.disable_jit(False):
            g(1.0)
    g(1.0)
    assert len(runs) == before + 2


def loops(x):
    seen = []

    def step(c, v):
        seen.append(float(c))  # needs values: only Python's loop has them
        return c + v, c * v

    carry, ys = lax.scan(step, 0.0, x, reverse=True)
    total = lax.fori_loop(0, 3, lambda i, c: c + i if c < 2 else c, 0)
    halved = lax.while_loop(lambda v: v > 1, lambda v: v / 2 if v > 2 else v - 1, carry)
    chosen = lax.cond(total > 2, lambda v: v, lambda v: -v, halved)
    return carry, ys, total, halved, lax.switch(5, [fnp.sin, lambda v: v + len(seen)], chosen)


def test_loops_and_branches_are_pythons_where_jit_is_disabled():
    x = np.array([1.0, 2.0, 3.0], np.float32)
    with fgrad.disable_jit():
        carry, ys, total, halved, last = loops(x)
        slope = grad(lambda v: lax.fori_loop(0, 2, lambda i, c: c * v, 1.0))(3.0)  # traced by grad: as always
        np.testing.assert_array_equal(vmap(lambda v: lax.cond(v > 1, lambda v: v, lambda v: -v, v))(x), [-1, 2, 3])
        np.testing.assert_array_equal(lax.while_loop(lambda v: v < 9, lambda v: v + 1, 0, max_steps=4), 4)
        with pytest.raises(ValueError, match="length 0"):
            lax.scan(lambda c, v: (c, v), 0.0, x[:0])
    assert (float(carry), float(total), float(halved), float(slope)) == (6, 3, 0.5, 6)
    np.testing.assert_array_equal(ys, [5, 6, 0])
    assert float(last) == 3.5


def test_a_function_that_would_be_traced_is_refused():
    f = jit(lambda x: x + 1)
    f(1.0)
    with fgrad.no_tracing():
        assert float(f(2.0)) == 3
        with pytest.raises(RuntimeError, match="traced inside no_tracing"):
            f(fnp.ones(2))
        with pytest.raises(RuntimeError, match="traced inside no_tracing"):
            grad(f)(1.0)
    assert float(grad(f)(1.0)) == 1


def test_leaks_are_looked_for_in_a_block():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x

    with fgrad.checking_leaks():
        with pytest.raises(LeakedTracerError):
            jit(f)(1.0)
        lax.scan(lambda c, x: (c, None), 1.0, length=1)
    jit(f)(2.0)
