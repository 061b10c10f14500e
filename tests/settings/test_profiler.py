"""Timelines: what stands in the file that a trace writes."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax, profiler
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


def test_copies_and_memory_stand_in_it(tmp_path: Path) -> None:
    f = fgrad.jit(lambda x: x * 2.0)
    f(fnp.ones(1 << 19))
    fgrad.device_put(np.ones(3), "cpu:1")
    profiler.start_trace(tmp_path)
    x = fgrad.device_put(np.ones(1 << 19, np.float32), "cpu")  # too long for a copy by the host
    y = fgrad.device_put(x, "cpu:1")
    small = fgrad.device_put(fgrad.device_put(np.ones(10, np.float32), "cpu"), "cpu:1")
    fgrad.block_until_ready((y, small))
    path = profiler.stop_trace()
    copies = [e for e in events_of(path) if e["cat"] == "copy"]
    sizes = sorted((e["name"], e["args"]["bytes"]) for e in copies)
    assert sizes == [("copy", 40), ("copy", 1 << 21), ("copy from the host", 40), ("copy from the host", 1 << 21)]
    levels = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "C"]
    assert max(e["args"]["in use"] for e in levels) >= 1 << 21
    assert {e["name"] for e in levels} == {"memory (bytes)"}


def test_the_sim_device_tells_its_kernels_and_copies_by_queue(tmp_path: Path) -> None:
    def turned(x: Any) -> Any:
        return fnp.concatenate([x, x]), fnp.tanh(x @ x), x

    f = fgrad.jit(turned)
    x = fgrad.device_put(np.ones((4, 4), np.float32), "sim:6")
    want = [np.asarray(y).copy() for y in f(x)]
    profiler.start_trace(tmp_path)
    with profiler.annotate("around"):
        for _ in range(2):
            for got, y in zip(f(x), want, strict=True):
                np.testing.assert_array_equal(np.asarray(got), y)
    text = json.loads(profiler.stop_trace().read_text())["traceEvents"]
    (device,) = [e["pid"] for e in text if e["name"] == "process_name" and e["args"]["name"] == "sim:6"]
    queues = {e["tid"]: e["args"]["name"] for e in text if e["name"] == "thread_name" and e["pid"] == device}
    events = [e for e in text if e["ph"] == "X" and e["pid"] == device]
    kernels = [e for e in events if e["cat"] == "kernel"]
    assert {queues[e["tid"]] for e in kernels} == {"compute"} and len(kernels) >= 4
    assert {queues[e["tid"]] for e in events if e["cat"] == "copy"} <= {"copy", "copy1"}
    programs = [e for e in events if e["cat"] == "program"]
    assert [e["name"] for e in programs] == ["turned"] * 2 and programs[0]["ts"] < programs[1]["ts"]
    (around,) = [e for e in text if e["name"] == "around"]  # on the host's clock
    assert all(around["ts"] <= e["ts"] <= around["ts"] + around["dur"] for e in programs)
    for e in kernels:
        assert any(p["ts"] <= e["ts"] and e["ts"] + e["dur"] <= p["ts"] + p["dur"] + 1e-3 for p in programs)


def test_kernels_of_the_sim_device_have_lines(tmp_path: Path) -> None:
    def layers(x: Any) -> Any:
        y = fnp.tanh(x @ x)
        return fnp.cumsum(y, axis=0)

    first = layers.__code__.co_firstlineno
    with config.override(show="kernels:layers"):
        x = fgrad.device_put(np.ones((4, 4), np.float32), "sim:6")
        profiler.start_trace(tmp_path)
        fgrad.block_until_ready(fgrad.jit(layers)(x))
        names = [e["name"] for e in events_of(profiler.stop_trace()) if e["cat"] == "kernel"]
    lines = {int(name.rpartition(":")[2]) for name in names if "test_profiler.py:" in name}
    assert lines == {first + 1, first + 2}


def test_kernels_are_named_by_the_line_that_they_compute(tmp_path: Path, capfd: Any) -> None:
    def layers(x: Any) -> Any:
        y = fnp.tanh(x @ x)
        y = fnp.sort(y, axis=1)
        return fnp.cumsum(y, axis=0)

    first = layers.__code__.co_firstlineno
    with config.override(show="kernels:layers"):
        x = fnp.ones((8, 8))
        profiler.start_trace(tmp_path)
        fgrad.jit(layers)(x)
        names = [e["name"] for e in events_of(profiler.stop_trace()) if e["cat"] == "kernel"]
    lines = {int(name.rpartition(":")[2]) for name in names if "test_profiler.py:" in name}
    assert lines == {first + 1, first + 2, first + 3}
    table = capfd.readouterr().err
    assert all(f"test_profiler.py:{line}, in " in table for line in lines)


def test_updates_and_what_finds_their_places_have_lines(capfd: Any) -> None:
    def updates(x: Any, i: Any) -> Any:
        y = x.at[i].add(2.0)
        y = y.at[2:4].set(1.0)
        y = y.at[i, i].multiply(3.0)
        return lax.dynamic_update_slice(y, x[:2, :2] * 2.0, (i[0], i[1]))

    first = updates.__code__.co_firstlineno
    with config.override(show="kernels:updates"):
        fgrad.jit(updates)(fnp.ones((8, 8)), fnp.array([1, 2]))
    rows = [row for row in capfd.readouterr().err.splitlines() if row.startswith("k") and "kernel" not in row]
    named = {row.split()[0]: int(row.rpartition("test_profiler.py:")[2].partition(",")[0]) for row in rows}
    assert len(named) == len(rows) and set(named.values()) == {first + k for k in (1, 2, 3, 4)}
    assert {at - first for name, at in named.items() if "update" in name} == {1, 2, 3, 4}


def test_a_page_shows_a_trace_without_network(tmp_path: Path) -> None:
    profiler.start_trace(tmp_path)
    with profiler.annotate("</script><b>"):
        fgrad.jit(lambda x: x + 1)(fnp.ones(3))
    path = profiler.stop_trace()
    page = profiler.save_html(path)
    text = page.read_text()
    assert page == path.with_name(path.name.removesuffix(".trace.json") + ".html")
    assert "http" not in text and "src=" not in text and "<b>" not in text.partition("<canvas")[2]
    data = text.partition('<script id="events" type="application/json">')[2].partition("</script>")[0]
    assert json.loads(data) == json.loads(path.read_text())["traceEvents"]
    other = profiler.save_html(path, tmp_path / "other.html")
    assert other.read_text() == text
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    with pytest.raises(ValueError, match="is no trace"):
        profiler.save_html(wrong)
