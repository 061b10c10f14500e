"""A short run of the fuzzer of the ordering contract, and that it would notice.

The long one: python -m tests.order.fuzz 100000 --jobs 2
"""

from __future__ import annotations

import random

import pytest

from fgrad.config import config
from fgrad.uop.region import Region
from tests.order import fuzz, graphs, programs
from tests.order.graphs import Graph, Node


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("name", ["graphs", "programs"])
def test_random_programs_do_what_numpy_does(name: str, device: str) -> None:
    kind = fuzz.family(name)
    first = 1000 * (name == "programs") + 500 * (device == "CPU")
    group = [(kind.draw(random.Random(s)), s) for s in range(first, first + 12)]
    with config.override(device=device, opt="0"):
        assert kind.check_together(group) == []


def test_the_modes_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["16", "--seed", "64", "--mode", "cpu-2-unplanned", "--jobs", "1"]) == 0
    assert "16 programs, 0 differ from NumPy" in capsys.readouterr().out


def test_seeds_are_worked_through_on_the_same_borders() -> None:
    whole = list(fuzz.chunks(0, 3 * fuzz.CHUNK, None))
    parts = [*fuzz.chunks(0, 100, None), *fuzz.chunks(100, 3 * fuzz.CHUNK - 100, None)]
    assert [c[0] for c in whole] == list(fuzz.MODES)[:3]
    assert parts[0][0] == parts[1][0] and parts[2:] == whole[1:]


def test_equal_writes_are_one_write() -> None:
    write = (Node("CONST", (), (1, "int32", (4,))), Node("STORE", (0, 1), "SET"))
    again = (Node("CONST", (), (1, "int32", (4,))), Node("STORE", (0, 3), "SET"))
    graph = Graph((Node("buffer", (), ("int32", (4,))), *write, *again, Node("AFTER", (0, 2, 4))), (5,))
    assert graphs.check(graph, 0) == []


def unordered() -> Graph:
    """Two overlapping writes in no order, among other things."""
    nodes = (
        Node("buffer", (), ("int32", (4,))),
        Node("SHRINK", (0,), ((0, 3, 1),)),
        Node("CONST", (), (1, "int32", (3,))),
        Node("STORE", (1, 2), "SET"),
        Node("CONST", (), (2, "int32", (4,))),
        Node("ADD", (4, 4)),
        Node("STORE", (0, 5), "ADD"),
        Node("AFTER", (0, 3, 6)),
        Node("LOAD", (7,), ""),
        Node("ADD", (8, 8)),
    )
    return Graph(nodes, (7, 9))


def test_a_missing_error_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    assert graphs.check(unordered(), 0) == []
    monkeypatch.setattr(Region, "overlaps", lambda self, other: False)
    assert "instead of an error" in graphs.check(unordered(), 0)[0]
    ((small, _),) = fuzz.shrunk(graphs, [(unordered(), 0)])
    assert len(small.nodes) < len(unordered().nodes) and graphs.check(small, 0)


def test_a_wrong_value_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    group = [(programs.draw(random.Random(s)), s) for s in (3, 4, 5)]
    assert programs.check_together(group) == []
    monkeypatch.setattr(programs.FgradWorld, "changed", lambda self, x, how, index, value: x)
    statement = programs.Statement("at", 0, (("at", 1),), (), ("number", 9), more="set")
    wrong = programs.Program((("int32", ()),), (("int32", (3,)),), (statement, statement), "local")
    found = list(fuzz.differing(programs, [*group, (wrong, 0)]))
    assert [(wrong, 0)] in [part for part, _ in found] and all(seen for _, seen in found)
    ((small, _),) = fuzz.shrunk(programs, [(wrong, 0)])
    assert small.block == (statement,) and small.way == "eager"
