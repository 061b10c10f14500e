"""Imports point one way: the rooms, from left to right, and who may import whom."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("uop", "trace", "lower", "hw", "backends", "run")  # a room knows those to its left
FREE = ("errors", "config", "_version")  # known to all, and knowing only each other
PUBLIC = len(ROOMS)  # the level of every other module: it may import anything

# What a function may import when it is first called: heavy or optional packages, and of fgrad what would
# load the planner and the linker with every `import fgrad`.
LATE = {"logging", "llvmlite", "scipy", "torch", "jax", "safetensors", "mpi4py", "fgrad.hw.transfer"}

SOURCES = sorted((ROOT / "fgrad").rglob("*.py"))


class Import(NamedTuple):
    """One imported module, by its full dotted name."""

    module: str
    line: int
    is_late: bool


def level(part: str) -> int:
    """The place of ``fgrad.<part>`` in the order of rooms; free modules stand before the first."""
    if part in FREE:
        return -1
    return ROOMS.index(part) if part in ROOMS else PUBLIC


def imports(source: str, package: str) -> Iterator[Import]:
    """Every import in `source`, a module of `package` (dotted), wherever it stands."""

    def visit(node: ast.AST, is_late: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, is_late)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            for alias in node.names:  # `from fgrad import errors` is about fgrad.errors
                module = f"fgrad.{alias.name}" if base == "fgrad" else base
                yield Import(module, node.lineno, is_late)
        elif isinstance(node, ast.Call) and (module := called_import(node)):
            yield Import(module, node.lineno, is_late)
        inside = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    return visit(ast.parse(source), False)


def called_import(node: ast.Call) -> str:
    """The name in ``import_module("name")`` or ``__import__("name")``, else ""."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            return module
    return ""


def faults(source: str, package: str, home: int) -> list[str]:
    """What breaks the rules in `source`, a module of `package` that stands on level `home`."""
    found = []
    for module, line, is_late in imports(source, package):
        top, _, rest = module.partition(".")
        if top != "fgrad":
            if is_late and top not in LATE:
                found.append(f"{line}: {module} is imported inside a function")
        elif is_late and module not in LATE:
            found.append(f"{line}: {module} is imported inside a function")
        elif home < PUBLIC and level(rest.partition(".")[0]) > home:
            found.append(f"{line}: {module} stands to the right of this file's room")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_its_own_room_and_rooms_to_the_left(path: Path) -> None:
    place = path.relative_to(ROOT / "fgrad").with_suffix("").parts
    package = ".".join(path.parent.relative_to(ROOT).parts)
    assert faults(path.read_text(encoding="utf-8"), package, level(place[0])) == []


def test_a_test_of_a_room_imports_no_room_to_the_right() -> None:
    too_high = [
        f"{path}:{line}: {module}"
        for room in ROOMS
        for path in sorted((ROOT / "tests" / room).rglob("*.py"))
        for module, line, _ in imports(path.read_text(encoding="utf-8"), f"tests.{room}")
        if module.startswith("fgrad.") and level(module.split(".")[1]) > level(room)
    ]
    assert too_high == []


def test_the_package_file_of_a_room_is_a_docstring_only() -> None:
    for path in SOURCES:
        room = path.relative_to(ROOT / "fgrad").parts[0]
        if path.name == "__init__.py" and room in ROOMS:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            assert ast.get_docstring(tree) and len(tree.body) == 1, f"{path} holds code"


def test_every_folder_is_a_package() -> None:
    for folder in {path.parent for path in SOURCES}:  # others would be missing when installed
        assert (folder / "__init__.py").exists(), f"{folder} has no __init__.py"


def test_every_module_says_what_it_is() -> None:
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{path} has no docstring"


@pytest.mark.parametrize(
    "source",
    [
        "import fgrad",
        "from fgrad import run",
        "import fgrad.numpy as fnp",
        "from fgrad.run.jit import jit",
        "from ..run import jit",
        "from .. import lower",
        "def f():\n    from fgrad.trace import tracer",
        "def f():\n    import subprocess",
        "def f():\n    import_module('fgrad.run.jit')",
        "class A:\n    def f(self):\n        import numpy",
        "import importlib\nimportlib.import_module('fgrad.run')",
    ],
)
def test_the_rules_catch(source: str) -> None:
    assert faults(source, "fgrad.trace", level("trace"))


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np",
        "from fgrad import errors",
        "from fgrad.config import config",
        "from fgrad.uop.node import UOp",
        "from ..uop import node",
        "from . import tracer",
        "from .tracer import Tracer",
        "def f():\n    from scipy import special",
        "def f():\n    import llvmlite.binding as llvm",
    ],
)
def test_the_rules_allow(source: str) -> None:
    assert faults(source, "fgrad.trace", level("trace")) == []
