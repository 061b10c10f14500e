"""What jvp, vjp and batch promise, on random programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrad.trace.batch import batch
from fgrad.trace.vjp import jvp_of, vjp
from fgrad.uop import dtype as dt
from fgrad.uop.program import Program
from tests.laws.programs import EVERY, Case, close_to, programs
from tests.trace.calculus import (
    differences,
    direction,
    floats,
    forward_over_reverse,
    inner,
    reverse_over_reverse,
    run,
    tangents,
)

SMOOTH = programs(max_nodes=12, dtypes=(dt.float64,), differentiable=True)


def near(got: list[Any], want: list[Any], rtol: float) -> None:
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        scale = np.max(np.abs(y), initial=1.0)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale)


@settings(max_examples=60)
@given(SMOOTH)
def test_tangents_are_differences(case: Case) -> None:
    program, arrays = case
    v = direction(program, np.random.default_rng(0))
    near(run(tangents(program), *arrays, *v), differences(program, arrays, v), 1e-5)


@settings(max_examples=100)
@given(SMOOTH)
def test_the_transpose_is_the_adjoint(case: Case) -> None:
    program, arrays = case
    rng = np.random.default_rng(1)
    v = direction(program, rng)
    cts = [rng.standard_normal(o.shape) for o in program.outs if o.dtype.is_inexact]
    present = tuple(o.dtype.is_inexact for o in program.outs)
    pulled = run(vjp(program, floats(program), present), *arrays, *cts)
    a = inner(cts, run(tangents(program), *arrays, *v))
    c = inner(pulled[len(program.outs) :], v)
    np.testing.assert_allclose(a, c, rtol=1e-8, atol=1e-8 * max(1.0, abs(a)))


@settings(max_examples=50)
@given(SMOOTH)
def test_both_second_orders_agree(case: Case) -> None:
    program, arrays = case
    v = direction(program, np.random.default_rng(2))
    forward = run(forward_over_reverse(program), *arrays, *v)
    near(run(reverse_over_reverse(program), *arrays, *v), forward, 1e-8)


def batched_like_single(program: Program, arrays: list[Any], flags: list[bool]) -> None:
    size = 3
    rows = [[_other(x, i) for x in arrays] for i in range(size)]
    many, out = batch(program, flags, size)
    args = [
        np.stack([r[k] for r in rows]) if f else x
        for k, (x, f) in enumerate(zip(arrays, flags, strict=True))
    ]
    got = run(many, *args)
    want = [
        run(
            program, *[r[k] if f else x for k, (x, f) in enumerate(zip(arrays, flags, strict=True))]
        )
        for r in rows
    ]
    for k, (g, f) in enumerate(zip(got, out, strict=True)):
        w = np.stack([r[k] for r in want])
        close_to(g if f else np.broadcast_to(g, w.shape), w)


def _other(x: Any, i: int) -> Any:
    """Another array of the same kind of values."""
    return np.roll(x, i) if x.size > 1 else x


@settings(max_examples=120)
@given(programs(max_nodes=12, dtypes=EVERY), st.integers(0, 7))
def test_vmap_is_a_stack(case: Case, mask: int) -> None:
    program, arrays = case
    batched_like_single(program, arrays, [bool(mask >> k & 1) for k in range(len(arrays))])


@settings(max_examples=40)
@given(SMOOTH, st.integers(1, 7))
def test_vmap_of_a_gradient_is_a_stack(case: Case, mask: int) -> None:
    program, arrays = case
    present = tuple(o.dtype.is_inexact for o in program.outs)
    pulled = vjp(program, floats(program), present)
    rng = np.random.default_rng(3)
    cts = [rng.standard_normal(o.shape) for o in program.outs if o.dtype.is_inexact]
    flags = [bool(mask >> k % 3 & 1) for k in range(len(arrays) + len(cts))]
    batched_like_single(pulled, [*arrays, *cts], flags)


@settings(max_examples=100)
@given(programs(max_nodes=12, dtypes=(dt.float64, dt.int64, dt.complex128), special=False))
def test_the_transpose_is_the_adjoint_also_at_kinks(case: Case) -> None:
    """Whatever side of a kink the tangent takes, the cotangent takes it too."""
    program, arrays = case
    rng = np.random.default_rng(4)
    v = direction(program, rng)
    there = [o.dtype.is_inexact for o in program.outs]
    moved = run(tangents(program), *arrays, *v)
    finite = [bool(np.all(np.isfinite(t))) for t in moved]
    cts = [
        rng.standard_normal(t.shape).astype(t.dtype) * f for t, f in zip(moved, finite, strict=True)
    ]
    pulled = run(vjp(program, floats(program), tuple(there)), *arrays, *cts)[len(program.outs) :]
    if not all(finite) or not all(np.all(np.isfinite(g)) for g in pulled):
        return  # a pole: forward says so, or 0 * inf does
    a, c = inner(cts, moved), inner(pulled, v)
    np.testing.assert_allclose(a, c, rtol=1e-7, atol=1e-7 * max(1.0, abs(a)))


@settings(max_examples=80)
@given(programs(max_nodes=12, dtypes=EVERY))
def test_derivatives_have_the_dtypes_of_their_primals(case: Case) -> None:
    program, arrays = case
    moved = jvp_of(program, [p.dtype.is_inexact for p in program.params])
    n = len(program.outs)
    assert [o.dtype for o in moved.outs[n:]] == [o.dtype for o in program.outs]
    present = tuple(o.dtype.is_inexact for o in program.outs)
    wrt = tuple(range(len(program.params)))
    pulled = vjp(program, wrt, present)
    assert [o.dtype for o in pulled.outs[n:]] == [p.dtype for p in program.params]
    cts = [np.ones(o.shape, o.dtype.np) for o, m in zip(program.outs, present, strict=True) if m]
    for got, want in zip(run(pulled, *arrays, *cts), run(program, *arrays), strict=False):
        close_to(got, want)
