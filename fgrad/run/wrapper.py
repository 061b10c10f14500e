"""The generated short path of a jitted function.

For every signature that was seen, code is generated that checks the arguments by identity, takes output buffers from free
lists, fills a table and makes the native call. The jitted function is a real function whose `__code__` is replaced, so its
own parameter names, keywords and defaults cost nothing. Whatever the generated code does not know (tracers, NumPy arrays, other
trees, an empty free list, a busy device) falls through to the general path.
"""
from __future__ import annotations

import inspect
import struct
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any


from fgrad.run.array import DeviceArray
from fgrad.run.dispatch import Entry
from fgrad.trace import tree
from fgrad.trace.stage import open_stages
from fgrad.uop import dtype as dt

MAX_SIGNATURES = 4
_FORMATS = {dt.float32: "f4x", dt.float64: "d", dt.int64: "q", dt.bool_: "?7x"}
_CLASSES = {dt.float32: float, dt.float64: float, dt.int64: int, dt.bool_: bool}


class _NoShortPath(Exception):
    """This signature stays on the general path."""


def _parameters(fun: Callable[..., Any]) -> tuple[str, str, list[str], dict[str, Any]] | None:
    """-> (parameter list, call arguments, names, default values), or None for signatures with `*` or `**`."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return None
    declared, passed, names, defaults = [], [], [], {}
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
            defaults[f"_default_{p.name}"] = p.default
            text += f"=_default_{p.name}"
        declared.append(text)
        passed.append(f"{p.name}={p.name}" if star else p.name)
        names.append(p.name)
    if slash:
        declared.append("/")
    return ", ".join(declared), ", ".join(passed), names, defaults


class Wrapper:
    """The function users call, and the signatures it knows by heart."""

    def __init__(self, fun: Callable[..., Any], general: Callable[..., Any], name: str) -> None:
        self.parameters = _parameters(fun)
        self.general = general
        self.branches: list[str] = []
        self.known: set[int] = set()
        self.lock = threading.Lock()
        self.names: dict[str, Any] = {
            "_general": general, "_Array": DeviceArray, "_open": open_stages,
            "_errors": (AttributeError, KeyError, IndexError, TypeError, struct.error),
        }  # fmt: skip
        self.file = f"<fgrad jit {name}>"
        self.serial = 0
        self.function: Any = self._build()

    def _build(self) -> Any:
        if self.parameters is None:
            source = "def jitted(*args, **kwargs):\n    return _general(*args, **kwargs)\n"
        else:
            declared, passed, _, defaults = self.parameters
            self.names.update(defaults)
            lines = [f"def jitted({declared}):"]
            if self.branches:
                lines += ["    if not _open:", "        try:"]
                lines += [f"            {line}" for branch in self.branches for line in branch.splitlines()]
                lines += ["        except _errors:", "            pass"]
            lines.append(f"    return _general({passed})")
            source = "\n".join(lines) + "\n"
        scope = self.names
        exec(compile(source, self.file, "exec"), scope)
        return scope["jitted"]

    def reset(self) -> None:
        """Forget all signatures."""
        with self.lock:
            self.branches.clear()
            self.known.clear()
            self._replace()

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
            self.known.add(id(entry))
            if entry.donated or entry.statics or entry.has_refs or not entry.executable.short:
                return
            try:
                branch = self._branch(entry, in_tree)
            except _NoShortPath:
                return
            self.branches.append(branch)
            self._replace()

    def _name(self, prefix: str, value: Any) -> str:
        self.serial += 1
        name = f"_{prefix}{self.serial}"
        self.names[name] = value
        return name

    def _branch(self, entry: Entry, in_tree: tree.TreeDef) -> str:
        """The `if` that runs `entry` when the arguments fit."""
        assert self.parameters is not None
        names = self.parameters[2]
        executable = entry.executable
        checks: list[str] = []
        leaf_names: list[str] = []
        dummy = tree.unflatten(in_tree, list(range(in_tree.num_leaves)))
        args, kwargs = dummy
        bound = dict(zip(names, args, strict=False)) | kwargs
        if set(bound) != set(names):
            raise _NoShortPath
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
                        raise _NoShortPath
                    visit(y, f"{path}[{k!r}]")
            else:
                raise _NoShortPath

        for name in names:
            visit(bound[name], name)
        words, pack_format, range_checks = [], "<", []
        for i, aval in enumerate(entry.avals):
            local = f"_x{i}"
            leaf_names.append(local)
            if i in executable.inline_params:
                cls = _CLASSES.get(aval.dtype)
                if cls is None or not (aval.weak or aval.dtype is dt.bool_):
                    raise _NoShortPath
                checks.append(f"({local} := {found[i]}).__class__ is {cls.__name__}")
                if cls is int:
                    range_checks.append(f"-0x8000000000000000 <= {local} <= 0x7fffffffffffffff")
                pack_format += _FORMATS[aval.dtype]
                words.append(local)
            else:
                sig = self._name("sig", sig_of_leaf(entry, i))
                checks.append(f"({local} := {found[i]}).sig is {sig}")
                pack_format += "q"
                words.append(f"{local}.addr")
        for array in entry.captured:
            words.append(f"{self._name('captured', array)}.addr")
            pack_format += "q"
        outs = []
        body = []
        for j, sig in enumerate(entry.out_sigs):
            s = self._name("out", sig)
            take = self._name("take", sig.free.pop)
            body.append(f"_y{j} = _Array({s}, {take}())")
            outs.append(f"_y{j}")
            words.append(f"_y{j}.addr")
            pack_format += "q"
        tables = self._name("tables", executable.tables)
        pack = self._name("pack", struct.Struct(pack_format).pack_into)
        run = self._name("run", executable)
        body.append(f"_t = {tables}.pop()")
        body.append(f"{pack}({', '.join(['_t[0]', '0', *words])})")
        body.append(f"{run}.native(_t[1])")
        body.append(f"{tables}.append(_t)")
        result = self._result(entry.out_tree, outs)
        body.append(f"return {result}")
        idle = executable.idle_test(self._name)
        condition = " and ".join([*checks, *range_checks, *([idle] if idle else [])]) or "True"
        return f"if {condition}:\n" + "\n".join(f"    {line}" for line in body)

    def _result(self, spec: tree.TreeDef, outs: list[str]) -> str:
        dummy = tree.unflatten(spec, list(range(spec.num_leaves)))

        def show(x: Any) -> str:
            if isinstance(x, int):
                return outs[x]
            if x is None:
                return "None"
            if type(x) is tuple:
                return f"({', '.join(map(show, x))}{',' if len(x) == 1 else ''})"
            if type(x) is list:
                return f"[{', '.join(map(show, x))}]"
            if type(x) is dict and all(type(k) in (str, int) for k in x):
                return "{" + ", ".join(f"{k!r}: {show(v)}" for k, v in x.items()) + "}"
            raise _NoShortPath

        try:
            return show(dummy)
        except _NoShortPath:
            build = self._name("unflatten", spec.unflatten)
            return f"{build}(({', '.join(outs)},))"


def sig_of_leaf(entry: Entry, i: int) -> Any:
    """The Sig that leaf `i` had when `entry` was made."""
    return entry.leaf_sigs[i]


