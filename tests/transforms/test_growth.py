"""What must not grow: time per node with program size, memory with the number of calls, caches with dead functions."""

import gc
import time
import weakref

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import debug, grad, jit, vmap
from fgrad.uop.node import table_size


def chain(n):
    def f(x):
        for i in range(n):
            x = fnp.sin(x) * 0.9 if i % 2 else x * 1.01 + 0.1
        return fnp.sum(x)

    return f


def seconds(f):
    begin = time.process_time()
    f()
    return time.process_time() - begin


def test_tracing_and_transforming_are_linear_in_program_size():
    """Ten times the operations take at most about ten times the time; nothing recurses."""
    x = fnp.ones(4)
    small = min(seconds(lambda: fgrad.make_program(grad(chain(400)))(x)) for _ in range(3))
    large = seconds(lambda: fgrad.make_program(grad(chain(4000)))(x))
    assert large < 40 * small + 0.2  # linear is 10; quadratic would be 100


def test_a_deep_program_compiles_and_differentiates():
    x = fnp.ones(4)
    value = float(jit(chain(3000))(x))
    want = np.ones(4, np.float32)
    for i in range(3000):
        want = np.sin(want) * np.float32(0.9) if i % 2 else want * np.float32(1.01) + np.float32(0.1)
    np.testing.assert_allclose(value, want.sum(), rtol=1e-4)
    assert np.isfinite(np.asarray(jit(grad(chain(2000)))(x))).all()


@pytest.mark.parametrize("kind", ["jit", "eager", "tree", "grad"])
def test_memory_is_flat_over_many_calls(kind):
    x = fnp.ones(100)
    step = jit(lambda t: {"w": t["w"] - 0.1 * t["g"], "g": t["g"]})
    f = jit(lambda v: v * 2 + 1)
    slope = grad(lambda v: fnp.sum(v * v))
    call = {
        "jit": lambda: f(x),
        "eager": lambda: x + x,
        "tree": lambda: step({"w": x, "g": x}),
        "grad": lambda: slope(x),
    }[kind]
    for _ in range(50):
        call()
    gc.collect()
    before, nodes = debug.memory()["mapped"], table_size()
    for _ in range(300 if kind == "grad" else 5000):
        call()
    gc.collect()
    assert debug.memory()["mapped"] <= before + (1 << 18)
    assert table_size() <= nodes + 100


def test_dead_functions_and_arrays_are_not_kept_alive():
    class Owner:
        pass

    def use():
        owner = Owner()
        owner.array = fnp.ones((50, 50))
        result = vmap(jit(lambda v: fnp.sum(v * owner.array)))(fnp.ones((2, 50, 50)))
        assert float(result[0]) == 2500.0
        return weakref.ref(owner)

    alive = use()
    fgrad.clear_caches()
    gc.collect()
    assert alive() is None


def test_clear_caches_forgets_and_everything_works_again():
    f = jit(lambda x: x + 1)
    assert float(f(1.0)) == 2.0
    fgrad.clear_caches()
    assert f.cache_size() == 0
    assert float(f(1.0)) == 2.0
