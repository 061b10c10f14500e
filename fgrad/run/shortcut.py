"""Generated statements that run one compiled signature: fill a table, make the native call, wrap the results.

Shared by the code of jitted functions (`wrapper.py`), of eager calls (`eager.py`), and of the general path
(`dispatch.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fgrad.run.array import DeviceArray, Gone
from fgrad.trace import tree
from fgrad.uop import dtype as dt

if TYPE_CHECKING:
    from fgrad.run.dispatch import Entry

_FORMATS = {dt.float32: "f4x", dt.float64: "d", dt.int64: "q", dt.bool_: "?7x"}
_CLASSES = {dt.float32: float, dt.float64: float, dt.int64: int, dt.bool_: bool}


FALL_THROUGH = (AttributeError, KeyError, IndexError, TypeError, struct.error)
"""What the checks of generated code may raise on arguments they do not know."""


class NoShortPath(Exception):
    """This signature stays on the general path."""


Namer = Callable[[str, Any], str]


def leaf_test(entry: Entry, i: int, name: Namer) -> tuple[str, str]:
    """-> (a condition over LEAF that binds and checks leaf `i`, the expression of its table word)."""
    aval = entry.avals[i]
    local = f"_x{i}"
    if i not in entry.executable.inline_params:
        return f"({local} := LEAF).sig is {name('sig', entry.leaf_sigs[i])}", f"{local}.addr"
    cls = _CLASSES.get(aval.dtype)
    if cls is None or not (aval.weak or aval.dtype is dt.bool_):
        raise NoShortPath
    test = f"({local} := LEAF).__class__ is {cls.__name__}"
    if cls is int:
        test += f" and -0x8000000000000000 <= {local} <= 0x7fffffffffffffff"
    return test, local


def short_call(entry: Entry, words: list[str], name: Namer) -> list[str]:
    """The statements that run `entry` and return its result, given the expressions of its leaves' words."""
    executable = entry.executable
    words = list(words)
    pack_format = "<"
    for i, dtype in enumerate(entry.word_dtypes):
        pack_format += _FORMATS[dtype] if i in executable.inline_params else "q"
    for array in entry.captured:
        words.append(f"{name('captured', array)}.addr")
        pack_format += "q"
    words += map(str, entry.sizes)
    pack_format += "Q" * len(entry.sizes)
    outs, lines, aliased = [], [], []
    aliases = executable.aliases
    for j, sig in enumerate(entry.out_sigs):
        # outputs are owned before anything can fail; an empty free list is an IndexError, for the general path
        if j in aliases:
            aliased.append(f"_y{j} = _Array({name('out', sig)}, {words[aliases[j]]})")
        else:
            lines.append(f"_y{j} = _Array({name('out', sig)}, {name('take', sig.free.pop)}())")
        outs.append(f"_y{j}")
        words.append(words[aliases[j]] if j in aliases else f"_y{j}.addr")
        pack_format += "q"
    idle = executable.idle_test(name)
    if idle:
        # after the outputs were taken: what is free on an idle device is read by nobody, whatever other threads do
        lines.append(f"if not ({idle}): raise KeyError")
    tables, run = name("tables", executable.tables), name("run", executable)
    pack = name("pack", struct.Struct(pack_format).pack_into)
    lines.append(f"_t = {tables}.pop()")
    if words:
        lines.append(f"{pack}(_t[0], 0, {', '.join(words)})")
    lines += aliased
    puts = []
    for i in sorted(entry.donated):
        given = entry.leaf_sigs[i]
        if given is not None and i not in aliases.values():
            lines.append(f"_d{i} = {words[i]}")
            puts.append(f"{name('put', given.put)}(_d{i})")
        lines.append(f"_x{i}.sig = {name('gone', Gone(executable.name))}")
        lines.append(f"_x{i}.addr = None")
    lines.append(f"{run}.native(_t[1])")
    lines.append(f"{tables}.append(_t)")
    lines += puts
    lines.append(f"return {result_text(entry.out_tree, outs, name)}")
    return lines


def result_text(spec: tree.TreeDef, outs: list[str], name: Namer) -> str:
    """The expression that builds the result's tree."""

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
        raise NoShortPath

    try:
        return show(tree.unflatten(spec, list(range(spec.num_leaves))))
    except NoShortPath:
        return f"{name('unflatten', spec.unflatten)}(({''.join(o + ', ' for o in outs)}))"


def leaves_function(entry: Entry) -> Callable[[Sequence[Any]], Any] | None:
    """A function of the concrete leaves that runs `entry`; None where it has no short path.

    The function raises one of FALL_THROUGH, before anything happened, when it cannot take the call.
    """
    scope: dict[str, Any] = {"_Array": DeviceArray}

    def name(prefix: str, value: Any) -> str:
        key = f"_{prefix}{len(scope)}"
        scope[key] = value
        return key

    if entry.has_refs or not entry.is_simple:
        return None
    inline = entry.executable.inline_params
    n = len(entry.avals)
    if any(i in inline and entry.word_dtypes[i] not in _FORMATS for i in range(n)):
        return None
    lines = [f"{''.join(f'_x{i}, ' for i in range(n))} = _leaves"] if n else []
    words = [f"_x{i}" if i in inline else f"_x{i}.addr" for i in range(n)]
    tests = []
    for i in entry.donated:  # the rare cases are the general path's: views held elsewhere, one array twice
        tests.append(f"_x{i}.sig is {name('sig', entry.leaf_sigs[i])}")
    if entry.donated:
        arrays = [w for i, w in enumerate(words) if i not in inline]
        tests.append(f"len({{{', '.join(arrays)}}}) == {len(arrays)}")
    if tests:
        lines.append(f"if not ({' and '.join(tests)}): raise KeyError")
    lines += short_call(entry, words, name)
    text = "def run(_leaves):\n" + "\n".join(f"    {line}" for line in lines)
    exec(compile(text, "<fgrad leaves>", "exec"), scope)
    made: Callable[[Sequence[Any]], Any] = scope["run"]
    return made
