"""Programs mean on the CPU device what the reference says, whatever the level of code, the number of
threads or the state of memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fgrad.numpy as fnp
from fgrad.config import config
from fgrad.run.compile import run_program
from fgrad.trace import reference
from fgrad.trace.widen import programs_of
from fgrad.uop.op import Op
from fgrad.uop.program import Program
from tests.laws.programs import COMMON, EVERY, WIDE, Case, close_to, programs


def names_a_sign_of_nan(program: Program) -> bool:
    """COPYSIGN reads the sign of a NaN, which no law fixes."""
    return any(
        u.op is Op.COPYSIGN or any(names_a_sign_of_nan(p) for p in programs_of(u))
        for u in program.nodes
    )


def laid_out(x: np.ndarray, how: int) -> np.ndarray:
    """The same values, in other places of memory."""
    if x.ndim == 0:
        return x
    if how == 1:
        spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., ::2]
        spread[...] = x
        return spread
    if how == 2:
        return np.array(x.T, order="C").T
    return np.array(x[::-1])[::-1] if how == 3 else x


def on_device(program: Program, arrays: list[np.ndarray], how: int = 0) -> list[np.ndarray]:
    with config.override(enable_x64=True):
        given = [fnp.asarray(laid_out(x, how)) for x in arrays]
        return [np.asarray(x) for x in run_program(program, given)]


def check(case: Case, how: int, slack: float) -> None:
    program, arrays = case
    assume(not names_a_sign_of_nan(program))
    want = reference.run_program(program, arrays)
    for g, w in zip(on_device(program, arrays, how), want, strict=True):
        close_to(g, w, slack)


@given(programs(max_nodes=14, dtypes=EVERY, shapes=WIDE), st.integers(0, 3))
def test_the_device_gives_what_the_reference_gives(case: Case, how: int) -> None:
    check(case, how, 3.0)


@given(programs(max_nodes=10, dtypes=EVERY, control=True), st.integers(0, 3))
def test_the_device_gives_what_the_reference_gives_in_loops_and_branches(case: Case, how: int) -> None:
    check(case, how, 20.0)


def bits(x: np.ndarray) -> bytes:
    """The bytes of x, with one NaN for all."""
    if x.dtype.kind in "biu":
        return x.tobytes()
    return b"".join(np.where(np.isnan(y), np.nan, y).astype(y.dtype).tobytes() for y in (x.real, x.imag))


@settings(max_examples=10)
@given(programs(max_nodes=10, dtypes=COMMON, shapes=WIDE))
def test_both_levels_of_code_give_the_same_bits(case: Case) -> None:
    program, arrays = case
    assume(not names_a_sign_of_nan(program))
    results = []
    for level in ("0", "2"):
        with config.override(opt=level):
            results.append([bits(x) for x in on_device(program, arrays)])
    assert results[0] == results[1]


LARGE = """
import hashlib, sys
import numpy as np
import fgrad, fgrad.numpy as fnp
from fgrad import grad, jit, lax, vmap

rng = np.random.default_rng(0)
digest = hashlib.sha256()

def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)

def show(f, *args):
    for _ in range(2):  # the second time in memory that was in use
        for x in fgrad.tree.leaves(jit(f)(*args)):
            digest.update(np.asarray(x).tobytes())

x, w = f32(700, 640), f32(640, 300)
show(lambda x: (fnp.sum(x), fnp.sum(x, 0), fnp.sum(x, 1), fnp.max(x), fnp.mean(fnp.exp(x))), x)
show(lambda x: fnp.exp(x - fnp.max(x, 1, keepdims=True)) / fnp.sum(fnp.exp(x), 1, keepdims=True), x)
show(lambda x, w: fnp.maximum(x @ w, 0), x, w)
show(grad(lambda w, x: fnp.sum(fnp.tanh(x @ w) ** 2)), w, x)
show(lambda x: (x.T + 1, fnp.sort(x, 0), fnp.cumsum(x, 0), fnp.cumsum(x, 1)), x)
show(lambda x, i: (x[i], fnp.zeros_like(x).at[i].add(x)), x, rng.integers(0, 700, 700))
show(lambda x: lax.scan(lambda c, r: (c * 0.5 + r, fnp.sum(c)), fnp.zeros(640, "float32"), x), x)
show(vmap(lambda a, b: a @ b), f32(20, 60, 70), f32(20, 70, 50))
show(lambda x: fnp.sum(x.astype("float64")), x)
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def usual() -> str:
    return in_child(FGRAD_THREADS="2")


def in_child(**settings: str) -> str:
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **settings}
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("threads", ["1", "4"])
def test_the_number_of_threads_changes_no_bit(usual: str, threads: str) -> None:
    assert in_child(FGRAD_THREADS=threads) == usual


@pytest.mark.parametrize("setting", ["FGRAD_POOL=0", "FGRAD_POISON=1", "FGRAD_PLANNER=0", "FGRAD_OPT=2"])
def test_the_state_of_memory_changes_no_bit(usual: str, setting: str) -> None:
    name, value = setting.split("=")
    assert in_child(**{name: value}) == usual
