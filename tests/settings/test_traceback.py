"""FGRAD_TRACEBACK: whose frames the traceback of an error shows."""

import importlib
import inspect
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config
from fgrad.errors import ShapeError
from fgrad.trace.frames import trimmed


def add_rows(x: Any) -> Any:
    return x + fnp.ones(4)


CALLS: dict[str, Callable[[], Any]] = {
    "operator": lambda: add_rows(fnp.ones(3)),
    "function": lambda: fnp.matmul(fnp.ones(3), fnp.ones(4)),
    "jit": lambda: fgrad.jit(add_rows)(fnp.ones(3)),
    "any-arguments": lambda: fgrad.jit(lambda *xs: add_rows(*xs))(fnp.ones(3)),
    "grad": lambda: fgrad.grad(lambda x: add_rows(x).sum())(fnp.ones(3)),
    "vjp": lambda: fgrad.vjp(add_rows, fnp.ones(3)),
    "cotangent": lambda: fgrad.vjp(lambda x: x * 2.0, fnp.ones(3))[1](fnp.ones(2)),
    "jvp": lambda: fgrad.jvp(add_rows, (fnp.ones(3),), (fnp.ones(3),)),
    "jacobian": lambda: fgrad.jacrev(add_rows)(fnp.ones(3)),
    "vmap": lambda: fgrad.vmap(add_rows)(fnp.ones((2, 3))),
    "scan": lambda: lax.scan(lambda c, _: (add_rows(c), None), fnp.ones(3), None, length=2),
    "cond": lambda: lax.cond(True, add_rows, lambda x: x, fnp.ones(3)),
    "nested": lambda: fgrad.jit(fgrad.grad(lambda x: fgrad.vmap(add_rows)(x).sum()))(fnp.ones((2, 3))),
}


def frames_of(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("name", CALLS)
def test_only_the_users_frames_are_left(name: str) -> None:
    with pytest.raises(ShapeError) as caught:
        CALLS[name]()
    assert set(frames_of(caught.value)) == {__file__}


@pytest.mark.parametrize("name", CALLS)
def test_full_keeps_all(name: str) -> None:
    with config.override(traceback="full"), pytest.raises(ShapeError) as caught:
        CALLS[name]()
    assert any("fgrad/" in file.replace("\\", "/") for file in frames_of(caught.value))


def test_the_note_with_the_users_line_stays() -> None:
    with pytest.raises(ShapeError) as caught:
        fgrad.jit(add_rows)(fnp.ones(3))
    assert any("test_traceback.py:20, in add_rows" in note for note in caught.value.__notes__)


def test_the_chain_of_causes_stays() -> None:
    def f(x: Any) -> Any:
        try:
            return add_rows(x)
        except ShapeError as error:
            raise RuntimeError("mine") from error

    with pytest.raises(RuntimeError, match="mine") as caught:
        fgrad.jit(f)(fnp.ones(3))
    assert isinstance(caught.value.__cause__, ShapeError)
    assert set(frames_of(caught.value)) | set(frames_of(caught.value.__cause__)) == {__file__}


def test_an_error_of_the_users_own_is_trimmed_too() -> None:
    def f(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        fgrad.jit(f)(1.0)
    assert set(frames_of(caught.value)) == {__file__}


MODULES = [
    "fgrad", "fgrad.numpy", "fgrad.numpy.linalg", "fgrad.numpy.fft", "fgrad.lax", "fgrad.lax.linalg", "fgrad.nn",
    "fgrad.nn.initializers", "fgrad.random", "fgrad.optim", "fgrad.tree", "fgrad.tree_util", "fgrad.image", "fgrad.ops",
    "fgrad.debug", "fgrad.storage", "fgrad.interop", "fgrad.dlpack", "fgrad.ref", "fgrad.scipy.special",
    "fgrad.scipy.linalg", "fgrad.scipy.stats", "fgrad.scipy.signal", "fgrad.scipy.optimize",
    "fgrad.scipy.sparse.linalg", "fgrad.scipy.fft", "fgrad.scipy.ndimage", "fgrad.ad_checkpoint",
    "fgrad.custom_batching",
]  # fmt: skip


class Nonsense:
    """What no function takes."""


@pytest.mark.parametrize("name", MODULES)
def test_no_public_function_shows_frames_of_fgrad(name: str) -> None:
    module = importlib.import_module(name)
    for f in [getattr(module, public) for public in module.__all__ if public != "clear_caches"]:
        if not inspect.isfunction(f):
            continue
        needed = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty and p.kind <= 1]
        try:
            f(*[Nonsense()] * len(needed))
        except AttributeError:
            pass  # of the object, asked for what it has not: it looks like a bug of ours
        except Exception as error:
            assert set(frames_of(error)) == {__file__}, f.__name__


def test_what_looks_like_a_bug_of_ours_keeps_its_frames() -> None:
    code = compile("def broken():\n    raise AssertionError('a rule of our own')\n", "<fgrad test>", "exec")
    scope: dict[str, Any] = {"__name__": "fgrad.trace.broken"}
    exec(code, scope)
    with pytest.raises(AssertionError) as caught:
        trimmed(scope["broken"])()
    assert "<fgrad test>" in frames_of(caught.value)
