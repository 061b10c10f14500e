"""The public names are a promise: they exist, say what they do, and stand in the reference."""

import builtins
import doctest
import importlib
import importlib.util
import inspect
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fgrad

DOCS = Path(__file__).parent.parent / "docs"


def load_generate() -> ModuleType:
    """The module that writes the generated pages; it is not part of the package."""
    spec = importlib.util.spec_from_file_location("fgrad_docs_generate", DOCS / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


generate = load_generate()
MODULES = generate.public_modules()


def test_each_page_of_the_reference_is_that_of_a_public_module() -> None:
    """A module without a page of its own gets a plain one, when the documentation is built."""
    pages = {path.stem for path in (DOCS / "reference").glob("*.rst")} - {"index"}
    assert pages <= {generate.page_of(name) for name in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_each_public_name_exists_and_is_listed_once(name: str) -> None:
    module = importlib.import_module(name)
    assert isinstance(getattr(module, "__all__", None), list | tuple), f"{name} has no __all__"
    missing = [public for public in module.__all__ if not hasattr(module, public)]
    assert missing == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_each_public_function_and_class_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    members = {public: getattr(module, public) for public in module.__all__}
    silent = [
        public
        for public, value in members.items()
        if (callable(value) or inspect.ismodule(value)) and not own_docstring(value)
    ]
    assert module.__doc__ and silent == []


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run_and_print_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # examples leave their files there
    module = importlib.import_module(name)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    for public, value in documented(module):
        doc = inspect.getdoc(value) or ""
        example = doctest.DocTestParser().get_doctest(doc, {}, f"{name}.{public}", None, 0)
        example.globs = names_for(value.__module__, module)
        runner.run(example, out=report.append, clear_globs=False)
    if report:
        pytest.fail("".join(report), pytrace=False)


@pytest.mark.parametrize("name", MODULES)
def test_each_public_function_and_class_has_an_example(name: str) -> None:
    module = importlib.import_module(name)
    without = [public for public, value in documented(module) if ">>> " not in (inspect.getdoc(value) or "")]
    assert without == []


def documented(module: ModuleType) -> list[tuple[str, Any]]:
    """The public functions and classes of a module that were written here: not modules, constants or NumPy's own."""
    members = [(public, getattr(module, public)) for public in module.__all__]
    return [
        (public, value)
        for public, value in members
        if callable(value) and (getattr(value, "__module__", None) or "").startswith("fgrad")
    ]


def names_for(home: str, module: ModuleType) -> dict[str, object]:
    """What an example may use: the usual imports, and the public names of where it was written."""
    scope: dict[str, object] = {"np": np, "fnp": fgrad.numpy, "fgrad": fgrad}
    scope |= {name: getattr(fgrad, name) for name in fgrad.__all__ if name != "numpy"}
    parts = home.split(".")
    for i in range(2, len(parts) + 1):  # fgrad.tree_util; fgrad.numpy, then fgrad.numpy.linalg
        place = sys.modules.get(".".join(parts[:i]))
        scope |= {name: getattr(place, name) for name in getattr(place, "__all__", ())}
    if home.split(".")[1] not in generate.ROOMS:
        return scope
    return scope | {name: getattr(module, name) for name in module.__all__ if name not in vars(builtins)}


def own_docstring(value: object) -> str:
    """What a value itself says: not what it inherits, nor the signature that a dataclass gets."""
    doc = inspect.getdoc(value) or ""
    if inspect.isclass(value) and value.__module__.startswith("fgrad"):
        return "" if value.__doc__ is None or doc.startswith(f"{value.__name__}(") else doc
    return doc


@pytest.mark.parametrize("name", MODULES)
def test_each_public_name_stands_on_the_page_of_its_module(name: str) -> None:
    stem = generate.page_of(name)
    written = DOCS / "reference" / f"{stem}.rst"
    page = written.read_text(encoding="utf-8") if written.exists() else generate.plain_page(name)
    assert re.search(rf"^\.\. include:: (\.\./_generated/)?reference-{stem}\.inc$", page, re.MULTILINE)
    entries = generate.reference(name)
    described = set(re.findall(rf"^\.\. py:\w+:: {re.escape(name)}\.(\w+)", entries, re.MULTILINE))
    linked = set(re.findall(rf"^\* :doc:`{re.escape(name)}\.(\w+) <", entries, re.MULTILINE))
    missing = set(importlib.import_module(name).__all__) - described - linked
    assert missing == set()


def test_a_page_of_the_reference_holds_nothing_of_the_machine_that_made_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_SECRET", "told-to-nobody")
    for name in MODULES:
        text = generate.reference(name)
        assert " at 0x" not in text and "told-to-nobody" not in text, name


def test_the_table_of_settings_marks_what_nothing_reads() -> None:
    table = generate.settings_table()
    in_force = generate.read_settings()
    for variable in generate.VARIABLES:
        row = table.partition(f"``{variable.environment_name}``")[2].partition("   * -")[0]
        assert ("(Without effect yet.)" in row) is (variable.name not in in_force)


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("Takes *args and `x_`.", ["Takes \\*args and ``x_``.", ""]),
        ("n  how many\nm  two lines,\n   joined", ["``n``", "   how many", "``m``", "   two lines, joined", ""]),
        ("Of `a`s and ``b``, `c`.", ["Of ``a``\\ s and ``b``, ``c``.", ""]),
        (">>> f(1)\n2", [".. code-block:: pycon", "", "   >>> f(1)", "   2", ""]),
        ("Says:\n>>> f(1)", ["Says:", "", ".. code-block:: pycon", "", "   >>> f(1)", ""]),
        ("a b\n  c d", [".. code-block:: none", "", "   a b", "     c d", ""]),
    ],
)  # fmt: skip
def test_docstrings_become_markup(doc: str, expected: list[str]) -> None:
    assert generate.prose(doc) == expected
