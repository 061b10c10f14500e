"""The generated short path of a jitted function.

For every signature that was seen, code is generated that checks the arguments by identity, takes output buffers
from free lists, fills a table and makes the native call. The jitted function is a real function whose `__code__` is
replaced, so its own parameter names, keywords and defaults cost nothing. Whatever the generated code does not know
(tracers, NumPy arrays, other trees, an empty free list, a busy device) falls through to the general path.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fgrad.run.array import DeviceArray
from fgrad.run.dispatch import Entry
from fgrad.run.shortcut import FALL_THROUGH, NoShortPath, leaf_test, short_call
from fgrad.trace import tree
from fgrad.trace.frames import trim
from fgrad.trace.stage import open_stages

MAX_SIGNATURES = 4
_GENERAL = """    try:
        return _general({})
    except Exception as error:
        _trim(error)
        raise
"""


class _Unset:
    """What stands for an argument that the caller leaves to its default."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<default>"


_UNSET = _Unset()


def _parameters(fun: Callable[..., Any]) -> tuple[str, str, list[str], list[str]] | None:
    """-> (parameter list, call arguments, names, names with a default), or None for signatures with `*` or `**`."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return None
    declared, passed, names, optional = [], [], [], []
    star = slash = False
    for p in signature.parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.name.startswith("_"):
            return None
        if p.kind is p.POSITIONAL_ONLY:
            slash = True
        elif slash:
            declared.append("/")
            slash = False
        if p.kind is p.KEYWORD_ONLY and not star:
            declared.append("*")
            star = True
        text = p.name
        if p.default is not p.empty:
            optional.append(p.name)  # a default that is not given stays a Python value of the function
            text += "=_unset"
        declared.append(text)
        passed.append(f"{p.name}={p.name}" if star else p.name)
        names.append(p.name)
    if slash:
        declared.append("/")
    return ", ".join(declared), ", ".join(passed), names, optional


class Wrapper:
    """The function users call, and the signatures it knows by heart."""

    def __init__(self, fun: Callable[..., Any], general: Callable[..., Any], name: str) -> None:
        self.parameters = _parameters(fun)
        self.general = general
        names = self.parameters[2] if self.parameters else []

        def given(*args: Any, **kwargs: Any) -> Any:
            """The general path with only the arguments that the caller gave."""
            kwargs = {k: x for k, x in kwargs.items() if x is not _UNSET}
            first = next((i for i, x in enumerate(args) if x is _UNSET), None)
            if first is not None:
                pairs = zip(names[first:], args[first:], strict=False)
                return general(*args[:first], **{k: x for k, x in pairs if x is not _UNSET}, **kwargs)
            return general(*args, **kwargs)

        self.branches: list[str] = []
        self.known: set[int] = set()
        self.lock = threading.Lock()
        self.names: dict[str, Any] = {
            "_general": given if self.parameters and self.parameters[3] else general, "_Array": DeviceArray,
            "_open": open_stages, "_errors": FALL_THROUGH, "_unset": _UNSET, "_trim": trim,
        }  # fmt: skip
        self.file = f"<fgrad jit {name}>"
        self.serial = 0
        self.present: list[str] = []  # names that the present code uses beside the first ones
        self.old: list[str] = []
        # where settings change to and fro, code is worth its making from the second call on
        self.met: set[int] | None = None
        self.function: Any = self._build()

    def _build(self) -> Any:
        if self.parameters is None:
            source = f"def jitted(*args, **kwargs):\n{_GENERAL.format('*args, **kwargs')}"
        else:
            declared, passed, _, _ = self.parameters
            lines = [f"def jitted({declared}):"]
            if self.branches:
                lines += ["    if not _open:", "        try:"]
                lines += [f"            {line}" for branch in self.branches for line in branch.splitlines()]
                lines += ["        except _errors:", "            pass"]
            source = "\n".join(lines) + "\n" + _GENERAL.format(passed)
        scope = self.names
        exec(compile(source, self.file, "exec"), scope)
        return scope["jitted"]

    def reset(self) -> None:
        """Forget all signatures."""
        with self.lock:
            self.known.clear()
            self.met = set()
            if self.branches:
                self.branches.clear()
                self._replace()
                for name in self.old:  # of the code before: another thread may still run what goes now
                    del self.names[name]
                self.old, self.present = self.present, []

    def _replace(self) -> None:
        fresh: FunctionType = self._build()
        self.function.__code__ = fresh.__code__

    def learn(self, entry: Entry, in_tree: tree.TreeDef, leaves: list[Any]) -> None:
        """Generate the short path of a signature that the general path has just met."""
        if id(entry) in self.known or len(self.branches) >= MAX_SIGNATURES or self.parameters is None:
            return
        with self.lock:
            if id(entry) in self.known:
                return
            if self.met is not None and id(entry) not in self.met:
                self.met.add(id(entry))
                return
            self.known.add(id(entry))
            if entry.statics or entry.has_refs or not entry.is_simple:
                return
            try:
                branch = self._branch(entry, in_tree)
            except NoShortPath:
                return
            self.branches.append(branch)
            self._replace()

    def _name(self, prefix: str, value: Any) -> str:
        self.serial += 1
        name = f"_{prefix}{self.serial}"
        self.names[name] = value
        self.present.append(name)
        return name

    def _branch(self, entry: Entry, in_tree: tree.TreeDef) -> str:
        """The `if` that runs `entry` when the arguments fit."""
        assert self.parameters is not None
        names = self.parameters[2]
        checks: list[str] = []
        leaf_names: list[str] = []
        dummy = tree.unflatten(in_tree, list(range(in_tree.num_leaves)))
        args, kwargs = dummy
        bound = dict(zip(names, args, strict=False)) | kwargs
        if not set(bound) <= set(names):
            raise NoShortPath
        found: dict[int, str] = {}

        def visit(x: Any, path: str) -> None:
            if isinstance(x, int):
                found[x] = path
            elif x is None:
                checks.append(f"{path} is None")
            elif type(x) in (tuple, list):
                checks.append(f"{path}.__class__ is {type(x).__name__} and len({path}) == {len(x)}")
                for i, y in enumerate(x):
                    visit(y, f"{path}[{i}]")
            elif type(x) is dict:
                checks.append(f"{path}.__class__ is dict and len({path}) == {len(x)}")
                for k, y in x.items():
                    if type(k) not in (str, int):
                        raise NoShortPath
                    visit(y, f"{path}[{k!r}]")
            else:
                raise NoShortPath

        for name in names:
            if name in bound:
                visit(bound[name], name)
            elif name in self.parameters[3]:
                checks.append(f"{name} is _unset")
            else:
                raise NoShortPath
        for i, path in enumerate(found[i] for i in range(len(entry.avals))):
            test, local = leaf_test(entry, i, self._name)
            checks.append(test.replace("LEAF", path))
            leaf_names.append(local)
        if entry.donated:  # an array that is donated must not come in a second time
            arrays = [w for i, w in enumerate(leaf_names) if i not in entry.executable.inline_params]
            checks.append(f"len({{{', '.join(arrays)}}}) == {len(arrays)}")
        condition = " and ".join(checks) or "True"
        body = short_call(entry, leaf_names, self._name)
        return f"if {condition}:\n" + "\n".join(f"    {line}" for line in body)
