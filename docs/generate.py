"""What the documentation shows of the code itself: settings, the reference, the stages of the tour.

`conf.py` calls `write` before Sphinx reads the pages; the tests call the parts.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import importlib
import inspect
import io
import logging
import os
import pkgutil
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "fgrad"
sys.path.insert(0, str(HERE.parent))
# A page must not depend on what an earlier run left on disk, or on the machine's settings.
os.environ.setdefault("FGRAD_CACHE_DIR", "")

import numpy as np  # noqa: E402

import fgrad  # noqa: E402
import fgrad.numpy as fnp  # noqa: E402
from fgrad.config import VARIABLES, config  # noqa: E402
from fgrad.lower import pipeline  # noqa: E402
from fgrad.uop import rewrite  # noqa: E402

ROOMS = ("uop", "trace", "lower", "hw", "backends", "run")


# ---- settings
def read_settings() -> set[str]:
    """The settings that some line of the package asks for."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.name != "config.py":
            found |= set(re.findall(r"\bconfig\.(\w+)", path.read_text(encoding="utf-8")))
    return found


def settings_table() -> str:
    """The table of `fgrad.config`, as reStructuredText; settings that nothing reads are marked."""
    in_force = read_settings()
    rows = [".. list-table::", "   :header-rows: 1", "   :widths: 24 12 12 52", ""]
    cells = [("variable", "type", "default", "meaning")]
    for variable in VARIABLES:
        default = variable.default if isinstance(variable.default, str) else "see right"
        meaning = variable.doc
        if variable.name not in in_force:
            meaning = f"(Without effect yet.) {meaning}"
        name = f"``{variable.environment_name}``"
        cells.append((name, variable.kind, f"``{default}``" if default else "none", meaning))
    for row in cells:
        rows += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
    return "\n".join(rows) + "\n"


WORDS = (
    ("check", "spec", "verifies programs after each pass"),
    ("check", "order", "checks that no memory is overwritten before its last reader"),
    ("check", "nan", "raises at a result that is not a number, and names the operation and your line"),
    ("check", "oob", "raises at a computed index out of bounds, in compiled code too"),
    ("check", "leaks", "raises when a tracer is kept although its function has ended"),
    ("check", "keys", "raises when a random key is used a second time"),
    ("show", "recompiles", "logs why a function is compiled again"),
    ("show", "kernels", "prints a table of each program's kernels and their times, after 1, 10, 100, .. calls"),
    ("show", "commands", "prints the commands of each program"),
    ("show", "simplify", "prints programs after this pass (and so for the other passes)"),
)


def has_effect(setting: str, word: str) -> bool:
    """Try it: does a mistake raise, does a compilation print, is a program verified?"""
    seen = io.StringIO()
    handler = logging.StreamHandler(seen)
    logging.getLogger("fgrad").addHandler(handler)
    number = float(len(word)) + len(setting) / 8  # so that no program is an old one
    probe = fgrad.jit(lambda x: fnp.log(x) * number)
    pick = fgrad.jit(lambda x, i: x[i] * number)
    kept: list[Any] = []
    verified: list[Any] = []
    verify, check_block = rewrite.verify, pipeline.check_block
    rewrite.verify = lambda *args: verified.append("spec")  # type: ignore[assignment]
    pipeline.check_block = lambda *args: verified.append("order")
    try:
        with config.override(**{setting: word}), contextlib.redirect_stderr(seen):
            fgrad.block_until_ready([probe(-1.0), probe(-fnp.ones(3)), pick(fnp.ones(3), 5)])
            fgrad.jit(lambda x: kept.append(x) or x * number)(1.0)
            fgrad.jit(lambda k: fgrad.random.normal(k) + fgrad.random.uniform(k) * number)(fgrad.random.key(0))
    except fgrad.errors.FgradError:
        return True
    finally:
        rewrite.verify, pipeline.check_block = verify, check_block
        logging.getLogger("fgrad").removeHandler(handler)
    return bool(seen.getvalue()) or word in verified


def words_table() -> str:
    """What the words of `check` and `show` do, and which of them change nothing."""
    rows = [".. list-table::", "   :widths: 30 70", ""]
    for setting, word, doc in WORDS:
        note = "" if has_effect(setting, word) else "(Without effect yet.) "
        rows += [f"   * - ``FGRAD_{setting.upper()}={word}``", f"     - {note}{doc}"]
    return "\n".join(rows) + "\n"


# ---- the reference
def public_modules() -> list[str]:
    """Dotted names of the public modules: those beside the rooms, and those they list."""
    top = [
        f"fgrad.{info.name}"
        for info in pkgutil.iter_modules(fgrad.__path__)
        if not info.name.startswith("_") and info.name not in ROOMS
    ]
    return ["fgrad", *(name for module in top for name in _with_listed(module))]


def _with_listed(name: str) -> Iterator[str]:
    yield name
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", ()):
        value = getattr(module, public, None)
        if inspect.ismodule(value) and value.__name__ == f"{name}.{public}":
            yield from _with_listed(value.__name__)


def reference(name: str) -> str:
    """The entries of all public names of a module, in groups by the file that defines them."""
    module = importlib.import_module(name)
    groups: dict[str, list[str]] = {}
    parts: list[str] = []
    seen: dict[int, str] = {}
    modules = set(public_modules())
    for public in module.__all__:
        value = getattr(module, public)
        if f"{name}.{public}" in modules:
            parts.append(public)
        else:
            groups.setdefault(_home(module, value), []).append(public)
    lines = [f".. py:module:: {name}", ""]
    lines += prose(inspect.getdoc(module) or "", name in PLAIN)
    if parts:
        lines += [".. rubric:: Modules", ""]
        for part in parts:
            doc = inspect.getdoc(importlib.import_module(f"{name}.{part}")) or ""
            page = f"/{page_folder(f'{name}.{part}')}/{page_of(f'{name}.{part}')}"
            lines += [f"* :doc:`{name}.{part} <{page}>`: {escape(doc.split(chr(10))[0])}"]
        lines.append("")
    if len(groups) > 1:
        lines += [".. list-table::", "   :widths: 30 70", ""]
        for home, names in groups.items():
            links = ", ".join(f":py:obj:`{n} <{name}.{n}>`" for n in sorted(names, key=str.lower))
            lines += [f"   * - {escape(_title(home, name))}", f"     - {links}"]
        lines.append("")
    for home, names in groups.items():
        if len(groups) > 1:
            title = escape(_title(home, name))
            lines += [title, "-" * len(title), ""]
        for public in names:
            value = getattr(module, public)
            lines += _entry(name, public, value, seen.get(id(value), ""))
            if callable(value):
                seen.setdefault(id(value), public)
    return "\n".join(lines) + "\n"


PLAIN = ("fgrad.errors",)  # its docstrings are written as reStructuredText


def page_of(name: str) -> str:
    """The file name, without its ending, of a module's page in the reference."""
    return name if name == "fgrad" else name.removeprefix("fgrad.")


def page_folder(name: str) -> str:
    """Where the page of a module stands: one that nobody has written yet is generated."""
    return "reference" if (HERE / "reference" / f"{page_of(name)}.rst").exists() else "_generated"


def plain_page(name: str) -> str:
    """A page with a title and nothing but the entries."""
    return f"{name}\n{'=' * len(name)}\n\n.. include:: reference-{page_of(name)}.inc\n"


def all_names() -> str:
    """The page of all public names in alphabetical order, each with its modules."""
    places: dict[str, list[str]] = {}
    modules = public_modules()
    for module in modules:
        for name in importlib.import_module(module).__all__:
            if f"{module}.{name}" not in modules:
                places.setdefault(name, []).append(module)
    lines = ["All names", "=========", "", ".. list-table::", "   :widths: 35 65", ""]
    for name in sorted(places, key=lambda n: (n.lower(), n)):
        links = ", ".join([f":py:obj:`{m} <{m}.{name}>`" for m in places[name]])
        lines += [f"   * - ``{name}``", f"     - {links}"]
    return "\n".join(lines) + "\n"


def _home(module: ModuleType, value: Any) -> str:
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) and home.startswith("fgrad.") else module.__name__


def _title(home: str, name: str) -> str:
    if home == name:
        return "Constants and dtypes" if name == "fgrad.numpy" else "Values"
    doc = inspect.getdoc(sys.modules[home]) or home
    first = doc.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".:")
    return first[0].upper() + first[1:]


def signature_of(value: Any) -> str:
    """The parameters and defaults of a function, without annotations."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    shown = []
    for p in signature.parameters.values():
        default = p.default
        if default is not p.empty and " at 0x" in repr(default):
            default = _Named(getattr(default, "__name__", type(default).__name__))
        elif default is os.environ:  # what it holds is nobody's business
            default = _Named("os.environ")
        shown.append(p.replace(annotation=p.empty, default=default))
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def _entry(module: str, public: str, value: Any, twin: str) -> list[str]:
    full = f"{module}.{public}"
    foreign = not (getattr(value, "__module__", None) or "").startswith("fgrad")
    public_twin = inspect.isclass(value) and module != "fgrad" and not foreign and _name_in_fgrad(value)
    if twin or public_twin:
        other = f"fgrad.{public_twin}" if public_twin else f"{module}.{twin}"
        kind = "class" if inspect.isclass(value) else "function"
        body = [f"Another name of :py:obj:`{other.removeprefix(module + '.')} <{other}>`.", ""]
        head = full if kind == "class" else full + signature_of(value)
    elif isinstance(value, types.GenericAlias):
        kind, head = "data", full
        body = [f"The type ``{value!r}``.", ""]
    elif foreign and (inspect.isclass(value) or inspect.isroutine(value)):
        kind, head = "data", full
        body = [f"``{value.__module__}.{value.__qualname__}``.", ""]
    elif inspect.isclass(value):
        is_error = issubclass(value, Exception)
        is_enum = issubclass(value, enum.Enum)
        kind, head = ("exception", full) if is_error else ("class", full)
        head += "" if is_error or is_enum else signature_of(value)
        body = prose(inspect.getdoc(value) or "", module in PLAIN)
        if is_enum:
            body += ["One of " + ", ".join([f"``{member.name}``" for member in value]) + ".", ""]
        if not is_error:
            body += _members(value, module in PLAIN)
    elif callable(value):
        kind, head = "function", full + signature_of(value)
        body = prose(inspect.getdoc(value) or "", module in PLAIN)
    else:
        kind, head = "data", full
        text = repr(value)
        short = len(text) < 60 and " at 0x" not in text
        body = [f"``{text}``" if short else f"A ``{type(value).__name__}``.", ""]
    return [f".. py:{kind}:: {head}", "", *[f"   {line}".rstrip() for line in body], ""]


def _name_in_fgrad(value: Any) -> str:
    """The name by which fgrad itself lists a value, or ""."""
    return next((name for name in fgrad.__all__ if getattr(fgrad, name) is value), "")


def _members(cls: type, plain: bool) -> list[str]:
    lines: list[str] = []
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("fgrad"):
            found.update(vars(base))
    for name, value in found.items():
        if name.startswith("_"):
            continue
        doc = inspect.getdoc(value) or ""
        if isinstance(value, property):
            head = f".. py:property:: {name}"
        elif inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            function = getattr(value, "__func__", value)
            head = f".. py:method:: {name}{_without_self(signature_of(function))}"
        else:
            continue
        body = prose(doc, plain)
        lines += [head, "", *[f"   {line}".rstrip() for line in body], ""]
    return lines


def _without_self(signature: str) -> str:
    return re.sub(r"^\((self|cls)(, /)?(, )?", "(", signature)


# ---- the rooms
def rooms() -> str:
    """Every file of every room, with the first sentence of its docstring."""
    lines: list[str] = []
    for room in ROOMS:
        folder = PACKAGE / room
        lines += [room, "-" * len(room), "", *prose(_docstring(folder / "__init__.py"))]
        for inner in sorted({p.parent for p in folder.rglob("*.py")}):
            files = [p for p in sorted(inner.glob("*.py")) if p.name != "__init__.py"]
            if inner != folder:
                doc = _docstring(inner / "__init__.py").split("\n\n")[0].replace("\n", " ")
                lines += [f"``{inner.relative_to(PACKAGE)}/``: {escape(doc)}", ""]
            lines += [".. list-table::", "   :widths: 28 72", ""] if files else []
            for path in files:
                sentence = _sentence(_docstring(path))
                lines += [f"   * - ``{path.relative_to(PACKAGE)}``", f"     - {escape(sentence)}"]
            lines.append("")
    return "\n".join(lines) + "\n"


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _sentence(doc: str) -> str:
    """The first sentence of the first paragraph, or all of it where it is one."""
    first = " ".join(doc.split("\n\n")[0].split())
    found = re.match(r"(.*?[.:])(?= [A-Z`]|$)", first)
    text = found[1] if found else first
    return text.rstrip(":") + ("" if text.endswith(".") else ".")


# ---- docstrings
def escape(text: str) -> str:
    """Text whose only markup is code in backticks, as reStructuredText."""
    out = ""
    for piece in re.split(r"(``.+?``|`[^`]+`)", text):
        if len(piece) > 2 and piece.startswith("`") and piece.endswith("`"):
            code = piece.strip("`")
            marked = f"``{code}``" if code == code.strip() and code else code
            # a backslash and a blank: markup may touch only some characters, and no letter
            touching = marked != code and out and not re.search(r"[\s'\"([{<\-/:]$", out)
            out += ("\\ " if touching else "") + marked
        else:
            touching = out.endswith("``") and re.match(r"[^\s'\")\]}>\-/\\:.,;!?]", piece)
            out += ("\\ " if touching else "") + re.sub(r"([\\*|`_])", r"\\\1", piece)
    return out


def prose(doc: str, plain: bool = False) -> list[str]:
    """A docstring in our manner: sentences, aligned lists of names with their meaning, examples."""
    if plain:
        return [*doc.split("\n"), ""]
    lines: list[str] = []
    quoting = False  # the paragraph before ended in two colons
    for paragraph in _paragraphs(doc):
        rows = paragraph.split("\n")
        if rows[0].startswith(">>>"):
            lines += [".. code-block:: pycon", "", *[f"   {row}" for row in rows], ""]
        elif quoting and rows[0].startswith(" "):
            lines += [*rows, ""]
            continue
        elif (items := _aligned(rows)) is not None:
            for term, meaning in items:
                lines += [f"``{term}``", f"   {escape(meaning)}"]
            lines.append("")
        elif any(row.startswith(" ") or re.search(r"\S {2,}\S", row) for row in rows):
            lines += [".. code-block:: none", "", *[f"   {row}" for row in rows], ""]
        else:
            lines += [*[escape(row) for row in rows], ""]
        quoting = paragraph.endswith("::")
    return lines


def _paragraphs(doc: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", doc.strip("\n")):
        text, mark, example = paragraph.partition("\n>>>")
        yield text.rstrip()
        if mark:
            yield f">>>{example}".rstrip()


def _aligned(rows: list[str]) -> list[tuple[str, str]] | None:
    """-> (name, meaning) pairs of a list whose meanings start in one column, else None."""
    items: list[tuple[str, str]] = []
    for row in rows:
        found = re.match(r"(\S.*?) {2,}(\S.*)$", row)
        if found:
            items.append((found[1], found[2]))
        elif items and row.startswith("  "):
            items[-1] = (items[-1][0], f"{items[-1][1]} {row.strip()}")
        else:
            return None
    return items


# ---- the tour
def tour() -> dict[str, str]:
    """The function of the tour at each stage, by the name of the file that the page includes."""

    def f(x: Any, w: Any) -> Any:
        return fnp.sum(fnp.tanh(x @ w))

    def clumsy(x: Any) -> Any:
        return x[::-1][::-1] * 1.0 + 2.0 * np.float32(3.0)

    x, w = fnp.ones((64, 32)), fnp.ones((32, 16))
    gradient = fgrad.grad(f, argnums=1)
    gradient.__name__ = "f"
    lowered = fgrad.jit(gradient).lower(x, w)
    return {
        "tour-program": str(fgrad.make_program(f)(x, w)),
        "tour-clumsy": str(fgrad.make_program(clumsy)(fnp.ones(3))),
        "tour-simplified": str(fgrad.make_program(clumsy, simplify=True)(fnp.ones(3))),
        "tour-gradient": str(fgrad.make_program(gradient, simplify=True)(x, w)),
        "tour-kernels": lowered.as_text("kernels"),
        "tour-llvm": _excerpt(lowered.as_text("llvm")),
        "tour-commands": lowered.as_text("commands"),
    }


def _excerpt(module: str, limit: int = 28) -> str:
    """The first lines of a kernel: of one that is no contraction's epilogue, where there is one."""
    functions = [f"define {t}".partition("\n}")[0] + "\n}" for t in module.split("\ndefine ")[1:]]
    kernels = [t for t in functions if re.match(r"define [^@]*@k\d+_row", t)] or functions
    lines = kernels[0].rstrip().split("\n")
    cut = [f"  ; and {len(lines) - limit} more lines"] if len(lines) > limit else []
    return "\n".join([row[:118] for row in lines[:limit]] + cut)


def write(folder: Path) -> None:
    """Write every generated part that the pages include; unchanged files keep their date."""
    folder.mkdir(exist_ok=True)
    parts = {
        "settings.inc": settings_table(),
        "words.inc": words_table(),
        "rooms.inc": rooms(),
        "names.rst": all_names(),
    }
    parts |= {f"reference-{page_of(name)}.inc": reference(name) for name in public_modules()}
    missing = [name for name in public_modules() if page_folder(name) == "_generated"]
    parts |= {f"{page_of(name)}.rst": plain_page(name) for name in missing}
    parts |= {f"{name}.txt": text + "\n" for name, text in tour().items()}
    for path in folder.glob("*.rst"):
        if path.name not in parts:
            path.unlink()  # by now a page has been written
    for name, text in parts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
