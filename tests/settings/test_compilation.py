"""Settings of compiling and running: spec, order, planner, opt, sync."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config
from fgrad.errors import CallbackFailedError, SpecError
from fgrad.hw.device import get_device
from fgrad.lower import pipeline
from fgrad.lower.block import Context, build_block
from fgrad.lower.hazards import check_block
from fgrad.lower.limits import Limits
from fgrad.lower.steps import Home
from fgrad.lower.storage import place
from fgrad.run.compile import compiled
from fgrad.trace import derive
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import open_param, slot_param
from fgrad.uop.program import Program


def chain(x: Any) -> Any:
    """Several intermediates that cannot be one kernel."""
    y = fnp.cumsum(x, axis=0)
    z = fnp.cumsum(y[::-1], axis=1)
    return fnp.sort(z * 2.0, axis=0) + fnp.cumsum(z, axis=0)


def loops(x: Any) -> Any:
    def step(c: Any, t: Any) -> Any:
        return fnp.cumsum(c, axis=0) * 0.1 + t, fnp.sum(c)

    carry, ys = lax.scan(step, x, fnp.arange(3.0))
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, fnp.sort(c[1]) * 0.5), (0, carry))[1] + ys[0]


# ---- spec
def test_spec_names_the_pass_that_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program) -> Program:
        return replace(program, outs=(build.add(program.outs[0], open_param(dt.float32, ())), *program.outs[1:]))

    monkeypatch.setattr(derive, "simplify_program", broken)
    with config.override(check="spec"), pytest.raises(SpecError, match=r"after the pass trace/vjp: .*open PARAM"):
        fgrad.grad(lambda x: x * x * 1.25)(3.0)


def test_spec_holds_after_every_pass_of_every_transform() -> None:
    def f(x: Any) -> Any:
        y, ys = lax.scan(lambda c, t: (fnp.cumsum(c) * 0.1 + t, fnp.sum(c)), x, fnp.arange(3.0))
        return fnp.sum(fnp.sort(y)) + fnp.sum(ys**2)

    with config.override(check="spec,order"):
        x = fnp.linspace(0.1, 0.9, 9)
        assert fgrad.jit(fgrad.hessian(f))(x).shape == (9, 9)
        assert fgrad.jit(fgrad.vmap(fgrad.grad(f)))(fnp.stack([x, x])).shape == (2, 9)
        assert fgrad.vjp(f, x)[1](1.0)[0].shape == (9,)
        z = fgrad.jit(lambda z: fnp.abs(z * 1j) ** 2)(fnp.ones(3, "complex64"))
        np.testing.assert_allclose(z, 1.0, rtol=1e-6)


# ---- order
def block_of(f: Callable[..., Any], *args: Any) -> Any:
    program = fgrad.make_program(f)(*args)
    block = build_block(program, Context(Limits(), {}))
    place(block, frozenset(), exact=False)
    return block


def test_order_accepts_what_is_placed_well_and_sees_temporaries_that_overlap() -> None:
    block = block_of(chain, fnp.ones((5, 4)))
    check_block(block, "chain")
    temporaries = [m for m in block.offset if block.memories[m].home is Home.TEMP]
    assert len(temporaries) > 1
    for m in temporaries:
        block.offset[m] = 0
    with pytest.raises(SpecError, match=r"chain: .*(reads memory|overlap)"):
        check_block(block, "chain")


def test_order_looks_at_every_lowered_program(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(pipeline, "check_block", lambda block, name: seen.append(name))
    with config.override(check="order"):
        fgrad.jit(chain)(fnp.ones((2, 3)))
    assert "chain" in seen


# ---- planner
@pytest.mark.parametrize("f", [chain, loops], ids=["chain", "loops"])
def test_without_the_planner_every_intermediate_has_its_own_memory(f: Callable[[Any], Any]) -> None:
    x = fnp.array(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    planned = fgrad.jit(f)
    with config.override(planner=True):
        expected = np.asarray(planned(x))
        small = planned.lower(x).memory_analysis()["temporary_bytes"]
    with config.override(planner=False):
        np.testing.assert_array_equal(planned(x), expected)
        assert planned.lower(x).memory_analysis()["temporary_bytes"] > small
        block = block_of(f, x)
        spans = sorted((o, o + block.memories[m].bytes) for m, o in block.offset.items())
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
        assert all(new == old for new, old in block.root.items())


# ---- opt
@pytest.mark.parametrize(("opt", "level"), [("0", 0), ("2", 2)])
def test_opt_is_the_level_of_the_code(opt: str, level: int) -> None:
    x = slot_param(0, dt.float32, (7 + level,))
    program = Program((x,), (build.mul(build.sin(x), 1.5 + level),))
    with config.override(opt=opt, device="cpu"):
        assert compiled(program, "cpu").code.level == level


# ---- sync
def long_check(x: Any) -> Any:
    def body(c: Any) -> Any:
        i, y = c
        fgrad.debug.check(i < 5, "five")
        return i + 1, fnp.sin(y)

    return lax.while_loop(lambda c: c[0] < 10, body, (0, x))[1]


def test_with_sync_the_call_itself_raises() -> None:
    f = fgrad.jit(long_check)
    x = fnp.ones(3)
    with config.override(sync=True, device="cpu"), pytest.raises(CallbackFailedError, match="long_check"):
        f(x)
    with config.override(device="cpu", sync=False):
        y = f(x)  # a loop without bounds is queued
        with pytest.raises(CallbackFailedError, match="long_check"):
            y.block_until_ready()
    get_device("cpu").sync()
