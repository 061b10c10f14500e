"""What the documentation says is tried: its code runs, its commands work, its paths exist."""

import doctest
import pkgutil
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fgrad.__main__ import main
from fgrad.config import VARIABLES
from fgrad.hw import device

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *[p for p in sorted((ROOT / "docs").rglob("*.rst")) if "_build" not in p.parts],
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A piece of code on a page: `kind` is python, pycon or console."""

    kind: str
    line: int
    text: str


def blocks(path: Path) -> Iterator[Block]:
    """The code blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        pattern = re.compile(r"^```(python|pycon|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    else:
        pattern = re.compile(r"^\.\. code-block:: (python|pycon|console)\n\n((?:   .*\n|\n)+)", re.MULTILINE)
    for found in pattern.finditer(text):
        line = text.count("\n", 0, found.start()) + 2
        yield Block(found[1], line, textwrap.dedent(found[2]))


@pytest.fixture
def registered() -> Iterator[None]:
    """A device that a page registers ends with the page."""
    before = set(device.kinds())
    yield
    for kind in set(device.kinds()) - before:
        del device._makers[kind]
        for name in [name for name in device._open if name.partition(":")[0] == kind]:
            del device._open[name]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(path: Path, registered: None) -> None:
    scope: dict[str, object] = {"__name__": "page"}
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    for block in blocks(path):
        where = f"{path.name}:{block.line}"
        if block.kind == "pycon":
            examples = doctest.DocTestParser().get_doctest(block.text, {}, where, str(path), 0)
            examples.globs = scope
            runner.run(examples, out=report.append, clear_globs=False)
        elif block.kind == "python":
            exec(compile(block.text, where, "exec"), scope)
    if report:
        pytest.fail("".join(report), pytrace=False)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_commands_of_a_page_work(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for block in blocks(path):
        if block.kind == "console":
            for row in block.text.splitlines():
                if row.startswith("$ python -m fgrad "):
                    assert main(shlex.split(row)[4:]) == 0, row
    capsys.readouterr()


def test_every_variable_that_a_page_names_exists() -> None:
    known = {variable.environment_name for variable in VARIABLES}
    for path in PAGES:
        named = set(re.findall(r"\bFGRAD_[A-Z0-9_]*[A-Z0-9]", path.read_text(encoding="utf-8")))
        assert named <= known, path


def test_every_file_that_a_page_names_exists() -> None:
    """A path in double backticks that ends in .py or / is one of the repository or the package."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"``?([\w./-]+(?:\.py|/))``?", text):
            if "/" in name:
                places = [ROOT / name, ROOT / "fgrad" / name]
                assert any(place.exists() for place in places), f"{path}: {name}"


def test_every_name_of_fgrad_that_a_page_names_exists() -> None:
    import_names = re.compile(r"``?(fgrad(?:\.\w+)+)(?:\(\.*\))?``?")
    for path in PAGES:
        for name in import_names.findall(path.read_text(encoding="utf-8")):
            assert resolves(name), f"{path}: {name}"


def resolves(name: str) -> bool:
    """Does ``fgrad.a.b`` lead to something, by imports and attributes?"""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
