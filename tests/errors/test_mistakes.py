"""Each mistake of a user is answered as its text says: in their words, with their line, without frames of fgrad."""

from pathlib import Path

import pytest

import fgrad
from tests.errors.mistakes import MISTAKES, expected, name_of, report


@pytest.mark.parametrize("path", MISTAKES, ids=name_of)
def test_the_user_reads(path: Path) -> None:
    text = expected(path).read_text(encoding="utf-8")
    assert report(path) == text, "if this is better: python -m tests.errors.write"
    assert str(Path(fgrad.__file__).parent) not in text, "a frame of fgrad's own"


def test_each_text_belongs_to_a_program() -> None:
    texts = {text.with_suffix(".py") for text in Path(__file__).parent.glob("*/*.txt")}
    assert texts == set(MISTAKES)
    assert len(MISTAKES) >= 200
