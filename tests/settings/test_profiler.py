"""Timelines: what stands in the file that a trace writes."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import profiler
from fgrad.config import config


def events_of(path: Path) -> list[dict[str, Any]]:
    return [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]


def test_programs_and_annotations_share_a_clock(tmp_path: Path) -> None:
    def twice(x: Any) -> Any:
        return x * 2.0

    f = fgrad.jit(twice)
    x = fnp.ones(3)
    f(x)
    profiler.start_trace(tmp_path / "new")
    with profiler.annotate("outer"):
        for _ in range(3):
            f(x)
        time.sleep(0.002)
    path = profiler.stop_trace()
    assert path.parent == tmp_path / "new"
    events = events_of(path)
    runs = [e for e in events if e["cat"] == "program" and e["name"] == "twice"]
    (outer,) = [e for e in events if e["cat"] == "annotation"]
    assert len(runs) == 3 and outer["dur"] >= 2000
    for run in runs:
        assert outer["ts"] <= run["ts"] and run["ts"] + run["dur"] <= outer["ts"] + outer["dur"]


def test_kernels_stand_in_it_for_functions_that_are_shown(tmp_path: Path, capfd: Any) -> None:
    def product(x: Any) -> Any:
        return fnp.tanh(x @ x)

    with config.override(show="kernels:product"):
        f = fgrad.jit(product)
        x = fnp.ones((64, 64))
        f(x)
        profiler.start_trace(tmp_path)
        f(x)
        events = events_of(profiler.stop_trace())
    kernels = [e for e in events if e["cat"] == "kernel"]
    (program,) = [e for e in events if e["cat"] == "program" and e["name"] == "product"]
    assert kernels and all(k["args"]["runs"] >= 1 for k in kernels)
    for k in kernels:
        assert program["ts"] <= k["ts"] and k["ts"] + k["dur"] <= program["ts"] + program["dur"]


def test_a_decorated_function_may_call_itself(tmp_path: Path) -> None:
    @profiler.annotate("down")
    def down(n: int) -> int:
        return down(n - 1) if n else 0

    with profiler.trace(tmp_path):
        down(3)
        assert profiler.annotate_function(abs)(-1) == 1
    events = events_of(next(tmp_path.iterdir()))
    assert [e["name"] for e in events if e["cat"] == "annotation"] == ["down"] * 4 + ["abs"]


def test_a_trace_of_a_block_that_raises_is_written(tmp_path: Path) -> None:
    with pytest.raises(KeyError), profiler.trace(tmp_path):
        raise KeyError
    assert len(list(tmp_path.iterdir())) == 1
    assert fgrad.jit(lambda x: x + 1)(1.0) == 2.0


def test_traces_do_not_nest(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="start_trace first"):
        profiler.stop_trace()
    with profiler.trace(tmp_path):
        with pytest.raises(RuntimeError, match="stop_trace first"):
            profiler.start_trace(tmp_path)
