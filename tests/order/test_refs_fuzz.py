"""Random programs over Refs do what NumPy's statements do, under every transformation."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.order.model import INDICES, KINDS, SOURCES, Statement, check

STATEMENTS = st.builds(
    Statement,
    st.sampled_from(KINDS),
    st.integers(0, 1),
    st.integers(0, len(INDICES) - 1),
    st.sampled_from(SOURCES),
    st.integers(-2, 2),
)


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.lists(STATEMENTS, min_size=1, max_size=6), st.integers(0, 3))
def test_programs_of_refs_do_what_numpy_does(program: list[Any], seed: int) -> None:
    check(program, seed)


def test_every_kind_of_write_by_itself() -> None:
    for k, kind in enumerate(KINDS):
        check([Statement(kind, k % 2, k % len(INDICES), SOURCES[k % len(SOURCES)], 1)], k)


def test_every_index_by_itself() -> None:
    for k in range(len(INDICES)):
        check([Statement("set", 0, k, "other", 2), Statement("update", 0, k, "own", 1)], k)
