"""FGRAD_CHECK=leaks: tracers that are kept when their stage has closed."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config
from fgrad.errors import LeakedTracerError


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    """Every stage looks for cycles: what earlier tests left behind is kept out of that."""
    gc.freeze()
    with config.override(check="leaks"):
        yield
    gc.unfreeze()


def test_a_kept_tracer_is_reported_with_its_line_and_who_keeps_it() -> None:
    kept = []

    def f(x: Any) -> Any:
        y = x * 2.0
        kept.append(y)
        return y + 1.0

    with pytest.raises(LeakedTracerError, match=r"jit\(f\) has ended.*kept by a list; it was made at .*test_leaks"):
        fgrad.jit(f)(fnp.ones(2))


def test_a_kept_argument_is_reported_by_its_name() -> None:
    class Model:
        pass

    model = Model()

    def f(weights: Any) -> Any:
        model.seen = weights  # type: ignore[attr-defined]
        return fnp.sum(weights)

    with pytest.raises(LeakedTracerError, match=r"grad\(f\) has ended.*kept by a Model.*args\[0\] of grad"):
        fgrad.grad(f)(fnp.ones(2))


def test_outer_tracers_inside_inner_functions_are_no_leaks() -> None:
    def f(x: Any) -> Any:
        y = fgrad.grad(lambda z: fnp.sum(z * x))(x) + fgrad.vmap(lambda a: a * 2.0)(x)
        return lax.scan(lambda c, v: (c + v, c * x), x, fnp.ones((3, 2)))[0] + y

    assert np.isfinite(fgrad.jit(f)(fnp.ones(2))).all()
    _, back = fgrad.vjp(lambda x: x * fnp.sin(x), fnp.ones(3))
    assert back(fnp.ones(3))[0].shape == (3,)
    assert fgrad.hessian(lambda z: fnp.sum(z**3))(fnp.ones(2)).shape == (2, 2)


def test_custom_rules_and_refs_are_no_leaks() -> None:
    @fgrad.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * x * 2.0,))
    assert fgrad.jit(fgrad.grad(square))(3.0) == 6.0
    counter = fgrad.new_ref(fnp.zeros(()))

    @fgrad.jit
    def count() -> Any:
        counter[...] = counter[...] + 1.0
        return counter[...]

    assert count() == 1.0


def test_nothing_is_looked_for_once_the_setting_is_off() -> None:
    kept = []
    with config.override(check=""):
        fgrad.jit(lambda x: kept.append(x) or x)(1.0)
    assert len(kept) == 1
