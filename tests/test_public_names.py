"""The public names are a promise: they exist, say what they do, and stand in the reference."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import fgrad

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
ROOMS = {"uop", "trace", "lower", "hw", "backends", "run"}


def public_modules(package: ModuleType) -> Iterator[str]:
    """The dotted names of `package` and of all public modules below it."""
    yield package.__name__
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        last = info.name.rpartition(".")[2]
        if last.startswith("_") or (package is fgrad and last in ROOMS):
            continue
        if info.ispkg:
            yield from public_modules(importlib.import_module(info.name))
        else:
            yield info.name


MODULES = list(public_modules(fgrad))


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
        if (callable(value) or inspect.ismodule(value)) and not inspect.getdoc(value)
    ]
    assert module.__doc__ and silent == []


@pytest.mark.parametrize("name", MODULES)
def test_each_public_module_has_a_page_in_the_reference(name: str) -> None:
    pages = [path.read_text(encoding="utf-8") for path in sorted(REFERENCE.rglob("*.rst"))]
    directive = re.compile(rf"^\.\. automodule:: {re.escape(name)}$", re.MULTILINE)
    assert any(directive.search(page) for page in pages), (
        f"docs/reference needs a page with '.. automodule:: {name}'"
    )
