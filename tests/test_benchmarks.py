"""The benchmark runner: fair turns, right ratios, a table that the documentation can show."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.compare")


def test_contestants_take_turns_after_their_warm_up(
    compare: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = importlib.import_module("benchmarks.measure")
    monkeypatch.setattr(measure, "warm_up", lambda run, wait: 1)
    calls: list[str] = []
    runs = {name: (lambda name=name: calls.append(name), lambda _: None) for name in "abc"}
    times = compare.interleave(runs, seconds=0.0)
    assert "".join(calls) == "abcbcacababcbca"
    assert all(0 < t.min_s <= t.median_s for t in times.values())


def test_short_runs_are_repeated_inside_a_sample(compare: ModuleType) -> None:
    measure = importlib.import_module("benchmarks.measure")
    assert measure.warm_up(lambda: None, lambda _: None, seconds=0.01) > 100


def test_the_ratio_is_to_the_best_peer(compare: ModuleType) -> None:
    times = {
        "fgrad": compare.Times(1.0, 0.9),
        "jax": compare.Times(4.0, 1.0),
        "torch": compare.Times(2.0, 1.8),
    }
    row = compare.Row("matmul", 1.1, "fgrad", times, speed="100 GFLOP/s (57%)")
    assert (row.best_peer, row.ratio("median_s"), row.ratio("min_s")) == ("torch", 0.5, 0.9)
    assert compare.cells(row) == [
        "matmul", "1 s", "2 s torch", "0.50", "0.90", "1.1", "100 GFLOP/s (57%)"
    ]  # fmt: skip


def test_without_peers_there_is_no_ratio(compare: ModuleType) -> None:
    row = compare.Row("import", 0.35, "fgrad", {"fgrad": compare.Times(0.2, 0.2)})
    assert compare.cells(row) == ["import", "200 ms", "-", "-", "-", "0.35", ""]


def test_the_table_is_written_for_the_documentation(
    compare: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compare, "TABLE", tmp_path / "table.inc")
    compare.write([compare.Row("import", 0.35, "fgrad", {"fgrad": compare.Times(0.2, 0.2)})])
    lines = (tmp_path / "table.inc").read_text().splitlines()
    assert lines[0] == ".. list-table::"
    assert lines.index("   * - import") == 3 + len(compare.HEADER)
    assert lines[-1] == "     -"


def test_names_of_works_are_distinct(compare: ModuleType) -> None:
    startup = importlib.import_module("benchmarks.startup")
    names = [work.name for family in compare.FAMILIES for work in family.WORK]
    names += [case.name for case in startup.CASES]
    assert len(set(names)) == len(names)


def test_a_dynamic_length_is_timed_beside_the_program_of_that_length(
    compare: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    dynamic = importlib.import_module("benchmarks.dynamic_sizes")
    monkeypatch.setattr(importlib.import_module("benchmarks.measure"), "warm_up", lambda run, wait: 1)
    for name, function, arguments in dynamic.WORK:
        (cell,) = dynamic.row(function, arguments, [2], seconds=0.0)
        assert re.fullmatch(r"\d+ \(\d+\)", cell), name
