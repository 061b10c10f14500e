"""The table of behaviours in docs/hcq2.rst: each has tests that exist, or a reason why it is not there."""

import re
from pathlib import Path

import pytest

from tests.hw.stress import STRESS

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "hcq2.rst").read_text(encoding="utf-8")
COUNTS = {"A": 13, "B": 8, "C": 16, "D": 10, "E": 7, "F": 10, "G": 26, "H": 7, "I": 17, "J": 8, "K": 11}


def keys_of(text: str) -> list[str]:
    """The behaviours that the rows of a table begin with; `I5-I7` are three."""
    found = []
    for first in re.findall(r"^   \* - ([A-K]\d.*)$", text, re.MULTILINE):
        for word in first.split(", "):
            low, _, high = word.partition("-")
            numbers = range(int(low[1:]), int(high[1:] if high else low[1:]) + 1)
            found += [f"{low[0]}{n}" for n in numbers]
    return found


def test_every_behaviour_is_tested_or_has_a_reason() -> None:
    tested, _, missing = PAGE.partition("Not there, and why:")
    keys = keys_of(tested) + keys_of(missing)
    assert sorted(keys) == sorted(f"{letter}{n}" for letter, count in COUNTS.items() for n in range(1, count + 1))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"``([\w/]+\.py)(?:::\w+)?``", PAGE))))
def test_the_files_and_tests_it_names_exist(path: str) -> None:
    places = [root / path for root in (TESTS.parent, TESTS, TESTS.parent / "fgrad")]
    found = [place for place in places if place.exists()] or list(TESTS.rglob(path))
    assert found, f"there is no {path}"
    text = found[0].read_text(encoding="utf-8")
    for name in re.findall(rf"``{re.escape(path)}::(\w+)``", PAGE):
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{path} has no {name}"


def test_the_numbers_of_stress_exist() -> None:
    numbers = {int(n) for row in re.findall(r"stress (\d[\d, ]*)", PAGE) for n in re.findall(r"\d+", row)}
    assert numbers <= set(STRESS) and len(numbers) > 10


@pytest.mark.parametrize("path", ["backends/test_conformance.py", "public/test_behaviours.py"])
def test_tests_named_by_a_behaviour_are_about_one_that_there_is(path: str) -> None:
    names = re.findall(r"^def test_([a-k])(\d+)_", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE)
    assert names and all(1 <= int(n) <= COUNTS[letter.upper()] for letter, n in names)
