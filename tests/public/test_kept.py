"""Lowered programs on disk: a second process neither lowers nor compiles what the first one did."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.backends.cpu import kept
from fgrad.backends.cpu.device import machine_limits
from fgrad.config import config
from fgrad.lower.pipeline import lower
from fgrad.run.program import make_program
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.content import content, functions
from fgrad.uop.node import open_param
from fgrad.uop.op import Op
from fgrad.uop.program import close
from tests.laws.programs import EVERY, Case, programs

PROGRAM = """
import sys
import numpy as np
import fgrad as fg
from fgrad import numpy as fnp, lax
from fgrad.backends.cpu import code, kept

if "again" in sys.argv:
    def refuse(*args, **options):
        raise AssertionError("lowered or compiled although it was kept")

    kept.lower = code.compile_ir = refuse
w = fg.device_put(np.linspace(-1, 1, 40 * 50, dtype=np.float32).reshape(40, 50))
x = fg.device_put(np.linspace(0, 1, 60 * 40, dtype=np.float32).reshape(60, 40))

def f(x, w, t):
    y = fnp.tanh(x @ w) * t
    c, ys = lax.scan(lambda c, r: (c * 0.5 + r, fnp.sum(c)), y[0], y)
    c = lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 2, c[1] + 1), (c, 0))[0]
    return c, fnp.sort(ys), lax.cond(t > 1, fnp.sin, fnp.cos, c)

out = fg.jit(f)(x, w, 2.5)
given = fg.device_put(np.ones(5, np.float32)) + 1
address = given.addr
donated = fg.jit(lambda x: x * 3 + 1, donate_argnums=0)(given)
print([np.asarray(y).tobytes().hex()[:400] for y in (*out, donated)], donated.addr == address)
"""


def run(folder: Path, *arguments: str, source: str = PROGRAM, **settings: str) -> str:
    environment = {
        **os.environ, "FGRAD_CACHE_DIR": str(folder), "FGRAD_CHECK": "", "PYTHONPATH": str(Path(__file__).parents[2]),
        **settings,
    }  # fmt: skip
    command = [sys.executable, "-W", "error", "-c", source, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_second_process_neither_lowers_nor_compiles(tmp_path: Path) -> None:
    first = run(tmp_path / "cache", FGRAD_OPT="0", FGRAD_PLANNER="1")
    assert first.endswith("True\n"), "a donated array is written in place"
    assert run(tmp_path / "cache", "again", FGRAD_OPT="0", FGRAD_PLANNER="1") == first
    elsewhere = run(tmp_path / "cache", FGRAD_PLANNER="0", FGRAD_OPT="2")  # nothing of it is there
    assert elsewhere.replace("False", "True") == first, "without a planner, nothing is written in place"


def test_other_settings_and_options_are_other_programs(tmp_path: Path) -> None:
    program = make_program(lambda x: fnp.cumsum(x) * 2)(fnp.ones(5))
    limits = machine_limits()
    with config.override(check="", cache_dir=str(tmp_path / "cache"), planner=True):
        keys = {
            kept._key(program, limits, inline, donated, name)
            for inline in (frozenset(), frozenset({0}))
            for donated in (frozenset(), frozenset({0}))
            for name in ("f", "g")
        }
        keys.add(kept._key(program, replace(limits, workers=limits.workers + 1), frozenset(), frozenset(), "f"))
        with config.override(planner=False):
            keys.add(kept._key(program, limits, frozenset(), frozenset(), "f"))
    assert len(keys) == 10 and None not in keys
    with config.override(check="spec"):
        assert kept._key(program, limits, frozenset(), frozenset(), "f") is None
    with config.override(check="", show="lower"):
        assert kept._key(program, limits, frozenset(), frozenset(), "f") is None


def test_what_is_kept_comes_back_from_memory_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make_program(lambda x: fnp.cumsum(x) * 7.25)(fnp.ones(5))
    none: frozenset[int] = frozenset()
    with config.override(check="", cache_dir=str(tmp_path / "cache")):
        first = kept.lower_or_find(program, machine_limits(), none, none, "f")

        def refuse(*args: Any, **options: Any) -> Any:
            raise AssertionError("lowered again")

        monkeypatch.setattr(kept, "lower", refuse)
        again = kept.lower_or_find(program, machine_limits(), none, none, "f")
    assert replace(again, lower=first.lower) == first and "define void @entry" in first.ir


@settings(max_examples=25)
@given(programs(max_nodes=10, dtypes=EVERY, control=True))
def test_a_summary_says_on_disk_what_it_says_in_memory(case: Case) -> None:
    lowered = lower(case[0], machine_limits(), donated=frozenset({0}) if case[0].params else frozenset())
    summary = kept.summarise(lowered, lambda: lowered)
    given = functions(case[0])
    assert kept._decode(kept._encode(summary, given), summary.lower, given) == summary
    assert summary.ir == lowered.ir


@settings(max_examples=25)
@given(programs(max_nodes=10, dtypes=EVERY, control=True), programs(max_nodes=4, dtypes=EVERY))
def test_content_is_equal_where_programs_are(case: Case, other: Case) -> None:
    assert content(case[0]) is not None
    assert (content(other[0]) == content(case[0])) == (other[0] == case[0])


def test_content_sees_every_part_of_a_program() -> None:
    def of(f: Any, *avals: Any) -> bytes | None:
        params = [open_param(d, s) for d, s in avals]
        return content(close(params, f(*params)))

    vector, other = (dt.float32, (4,)), (dt.float32, (4,))
    found = {
        of(lambda x, y: [b.add(x, y)], vector, other),
        of(lambda x, y: [b.mul(x, y)], vector, other),
        of(lambda x, y: [b.add(x, x)], vector, other),
        of(lambda x, y: [b.add(x, y), x], vector, other),
        of(lambda x, y: [b.add(x, b.const(1.0, dt.float32, (4,)))], vector, other),
        of(lambda x, y: [b.add(x, b.const(2.0, dt.float32, (4,)))], vector, other),
        of(lambda x, y: [b.add(x, y)], (dt.float32, (5,)), (dt.float32, (5,))),
        of(lambda x, y: [b.add(x, y)], (dt.float64, (4,)), (dt.float64, (4,))),
        of(lambda x, y: [b.reduce_(x, [0], Op.MAX)], vector, other),
        of(lambda x, y: [b.reduce_(x, [0], Op.ADD)], vector, other),
        *[content(make_program(lambda x, n=n: lax.fori_loop(0, 3, lambda i, c: c * n, x))(1.0)) for n in (2, 3)],
    }
    assert len(found) == 12 and None not in found


def calling(one: Callable[..., Any], two: Callable[..., Any]) -> Any:
    """Two functions, at one place each, called in a loop, in a branch and at the end; one of them in order."""
    shape = fgrad.ShapeDtypeStruct((), np.float32)

    def f(x: Any) -> Any:
        x = lax.fori_loop(0, 3, lambda i, c: fgrad.pure_callback(two, shape, c) + fgrad.pure_callback(one, shape, c), x)
        x = lax.cond(x > 0, lambda: fgrad.pure_callback(one, shape, x), lambda: -x)
        return x, fgrad.pure_callback(two, shape, x * 2), fgrad.pure_callback(two, shape, x * 3)

    return f


def test_functions_that_a_program_calls_take_their_own_places_in_it() -> None:
    def plus(x: Any) -> Any:
        return x + 1

    def times(x: Any) -> Any:
        return x * 3

    programs = [make_program(calling(*pair))(1.0) for pair in ((plus, times), (times, plus), (plus, plus))]
    digests = [content(p) for p in programs]
    assert None not in digests and digests[2] != digests[0]
    names = [[host.name for host in functions(p)] for p in programs]
    assert sorted(names[0]) == ["plus", "times"] and names[1] == names[0][::-1] and names[2] == ["plus"]

    def twice(one: Callable[..., Any], two: Callable[..., Any]) -> bytes | None:
        shape = fgrad.ShapeDtypeStruct((), np.float32)
        f = make_program(lambda x: fgrad.pure_callback(one, shape, x) + fgrad.pure_callback(two, shape, x * 2))
        return content(f(1.0))

    same, other = (lambda x: x), (lambda x: x)  # of one name
    assert twice(same, same) != twice(same, other) == twice(other, same)


CALLING = """
import sys
import numpy as np
import fgrad as fg
from fgrad import lax, numpy as fnp
from fgrad.backends.cpu import code, kept

if "again" in sys.argv:
    def refuse(*args, **options):
        raise AssertionError("lowered or compiled although it was kept")

    kept.lower = code.compile_ir = refuse
one, two, seen = fg.ShapeDtypeStruct((), np.float32), fg.ShapeDtypeStruct((3,), np.complex64), []

def make(k):
    def function(x):
        return np.asarray(x * k)

    return function

def f(x, first=make(float(sys.argv[1])), second=make(float(sys.argv[2]))):
    x = lax.fori_loop(0, 3, lambda i, c: fg.pure_callback(second, one, c) + fg.pure_callback(first, one, c), x)
    fg.debug.callback(lambda x: seen.append(float(x)), x, ordered=True)
    return x, fg.pure_callback(first, two, fnp.ones(3, fnp.complex64) * x)

print(*[np.asarray(y).tolist() for y in fg.jit(f)(1.0)], seen)
"""


def test_a_second_process_calls_its_own_functions_in_a_kept_program(tmp_path: Path) -> None:
    for k, (first, second) in enumerate([(2, 5), (2, 5), (3, 7)]):
        x = float((first + second) ** 3)
        out = run(tmp_path / "cache", str(first), str(second), *["again"] * (k > 0), source=CALLING, FGRAD_OPT="0")
        assert out == f"{x} {[complex(x * first)] * 3} [{x}]\n"
