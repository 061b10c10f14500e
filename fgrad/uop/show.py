"""Programs as text: `listing` to be read, `source` to be run again.

::

    program(%0: float32[3,4], %1: float32[4])
      %2 = EXPAND %1 ((0, 3),)                 float32[3,4]
      %3 = ADD %0 %2                           float32[3,4]
      return %3

Numbers follow the order of the nodes, not of their creation, so equal programs print equally.
Importing this file makes `str(program)` the listing and `repr(program)` the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

import fgrad.uop.infer  # noqa: F401  fills the table without which no node can be made
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, const_value, slot_param, toposort, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Cond, Host, Program, Scan, Update, While

_INDENT = "  "
_COLUMN = 44  # where the avals start


# ---- to be read
def listing(program: Program) -> str:
    """One line for each node: name, op, sources, arg, dtype[shape]; inner programs are indented."""
    names = _named(program)
    head = ", ".join([f"{names[p]}: {aval_text(p)}" for p in program.params])
    lines = [f"program({head})"]
    params = set(program.params)
    for u in program.nodes:
        if u not in params:
            lines += _entry(u, names)
    tail = "".join([f" [{names[program.params[s]]} := {names[program.outs[o]]}]"
                    for s, o in program.effects])  # fmt: skip
    lines.append(f"{_INDENT}return {', '.join([names[o] for o in program.outs])}{tail}")
    return "\n".join(lines)


def listing_around(outs: Sequence[UOp], node: UOp, lines: int = 10) -> str:
    """The listing's lines around `node`, which is marked by an arrow; at most `lines` before it."""
    nodes = toposort(outs)
    names = {u: f"%{i}" for i, u in enumerate(nodes)}
    at = nodes.index(node)
    out = []
    for u in nodes[max(0, at - lines) : at + 4]:
        first = _entry(u, names)[0]
        out.append(("->" if u is node else "  ") + first[2:])
    return "\n".join(out)


def aval_text(u: UOp) -> str:
    """`float32[3,4]`, or `(float32[3], int64[])` for a tuple-valued node."""
    if isinstance(u.dtype, tuple):
        each = zip(u.dtype, u.shape, strict=True)
        return f"({', '.join([str(Aval(d, s)) for d, s in each])})"
    return str(Aval(u.dtype, u.shape))


def _named(program: Program) -> dict[UOp, str]:
    names = {p: f"%{i}" for i, p in enumerate(program.params)}
    for u in program.nodes:
        if u not in names:
            names[u] = f"%{len(names)}"
    return names


def _entry(u: UOp, names: dict[UOp, str]) -> list[str]:
    words = [u.op.name, *[names[s] for s in u.src]]
    summary, inner = _arg(u)
    if summary:
        words.append(summary)
    text = f"{_INDENT}{names[u]} = {' '.join(words)}"
    lines = [f"{text:<{_COLUMN}} {aval_text(u)}"]
    for title, program in inner:
        body = listing(program).replace("program(", f"{title}(", 1).splitlines()
        lines += [_INDENT * 2 + line for line in body]
    return lines


def _arg(u: UOp) -> tuple[str, list[tuple[str, Program]]]:
    """-> (what follows the sources, the inner programs with a title each)."""
    arg = u.arg
    if arg is None:
        return "", []
    if u.op is Op.CONST:
        return _number(u), []
    if u.op is Op.PARAM:
        slot = arg[0]
        return (f"{slot[2]}#{slot[1]}" if isinstance(slot, tuple) else f"slot {slot}"), []
    if u.op is Op.BUFFER:
        return ("external" if arg.external else ""), []
    if u.op is Op.IOTA:
        return str(arg[1]), []
    if u.op is Op.VARIABLE:
        return f"{arg[0]} in {arg[1]}..{arg[2]}", []
    match arg:
        case Scan():
            sizes = f"length={arg.length} consts={arg.consts} carry={arg.carry} xs={arg.xs}"
            return sizes + (" reverse" if arg.reverse else ""), [("body", arg.body)]
        case While():
            return f"consts={arg.consts}", [("cond", arg.cond), ("body", arg.body)]
        case Cond():
            return "", [(f"branch {i}", p) for i, p in enumerate(arg.branches)]
        case Call():
            return f"{arg.kind} {arg.name}".strip(), [("body", arg.body)]
        case Host():
            name = arg.name or getattr(arg.callback, "__qualname__", "callback")
            return name + (" ordered" if arg.ordered else ""), []
        case Update():
            box = "" if arg.box is None else f" {_plain(arg.box)}"
            flags = " indexed" * arg.indexed + " gated" * arg.gated
            return arg.mode.name + box + flags + (f" batch={arg.batch}" if arg.batch else ""), []
    return _plain(arg), []


def _number(u: UOp) -> str:
    value = const_value(u)
    return str(value) if u.dtype is not dt.bool_ else str(bool(value))


def _plain(arg: Any) -> str:
    if isinstance(arg, Enum):
        return arg.name
    if isinstance(arg, tuple):
        return f"({', '.join([_plain(a) for a in arg])}{',' if len(arg) == 1 else ''})"
    return str(arg)


# ---- to be run
def source(program: Program) -> str:
    """Python that rebuilds `program`: see `rebuild`.

    Raises NotImplementedError for what no text can hold: BUFFERs (make them parameters), open
    PARAMs (close the program), host callbacks and the rules of custom derivatives.
    """
    lines: list[str] = []
    done: dict[Program, str] = {}
    last = _write_program(program, lines, done)
    return "\n".join([*lines, f"program = {last}"]) + "\n"


def rebuild(text: str) -> Program:
    """The program that `source` wrote: its nodes are the very same objects while those live.

    The text is run as Python, without builtins: rebuild only what you trust.
    """
    space: dict[str, Any] = {d.name: d for d in (*dt.ALL, dt.void)}
    space |= {"Op": Op, "Mode": Mode, "Program": Program, "Scan": Scan, "While": While}
    space |= {"Cond": Cond, "Call": Call, "Update": Update, "node": uop, "param": slot_param}
    space |= {"const": _const_of, "__builtins__": {}}
    exec(compile(text, "<program>", "exec"), space)  # noqa: S102  documented above
    program: Program = space["program"]
    return program


def _const_of(dtype: DType, data: str) -> UOp:
    return uop(Op.CONST, (), (dtype, bytes.fromhex(data)))


def _write_program(program: Program, lines: list[str], done: dict[Program, str]) -> str:
    """Append the lines that make `program`; -> its name."""
    if program in done:
        return done[program]
    body: list[str] = []
    names: dict[UOp, str] = {}
    inner: dict[Program, str] = done
    for u in program.nodes:
        for callee in _programs_in(u.arg):
            _write_program(callee, lines, inner)
    for i, u in enumerate(program.nodes):
        names[u] = f"v{i}"
        body.append(f"{names[u]} = {_written(u, names, inner)}  # {aval_text(u)}")
    for p in program.params:
        if p not in names:
            names[p] = f"p{p.arg[0]}"
            body.append(f"{names[p]} = {_written(p, names, inner)}  # {aval_text(p)}")
    params = _tuple([names[p] for p in program.params])
    outs = _tuple([names[o] for o in program.outs])
    name = f"program{len(done)}"
    done[program] = name
    spans = f", {program.spans!r}" if program.spans else ""
    lines += [*body, f"{name} = Program({params}, {outs}, {program.effects!r}{spans})"]
    return name


def _programs_in(arg: Any) -> list[Program]:
    match arg:
        case Scan() | Call():
            return [arg.body]
        case While():
            return [arg.cond, arg.body]
        case Cond():
            return list(arg.branches)
    return []


def _written(u: UOp, names: dict[UOp, str], programs: dict[Program, str]) -> str:
    if u.op is Op.CONST:
        return f"const({u.arg[0]}, {u.arg[1].hex()!r})"
    if u.op is Op.PARAM:
        if isinstance(u.arg[0], tuple):
            raise NotImplementedError(f"{u} is an open PARAM; close the program, then write it")
        return f"param({u.arg[0]}, {u.dtype}, {u.shape!r})"
    if u.op is Op.BUFFER:
        raise NotImplementedError(
            f"{u} is memory, which no text can hold; make it a parameter of the program first"
        )
    src = _tuple([names[s] for s in u.src])
    if u.arg is None:
        return f"node(Op.{u.op.name}, {src})"
    return f"node(Op.{u.op.name}, {src}, {_expression(u.arg, programs)})"


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _expression(arg: Any, programs: dict[Program, str]) -> str:
    """A Python expression of an arg, over the names that `rebuild` offers."""

    def fields(*values: Any) -> str:
        return f"{type(arg).__name__}({', '.join([_expression(v, programs) for v in values])})"

    match arg:
        case Enum():
            return f"{type(arg).__name__}.{arg.name}"
        case DType():
            return arg.name
        case Program():
            return programs[arg]
        case tuple():
            return _tuple([_expression(a, programs) for a in arg])
        case Update():
            return fields(arg.mode, arg.box, arg.indexed, arg.gated, arg.batch)
        case Scan():
            return fields(arg.body, arg.length, arg.consts, arg.carry, arg.xs, arg.reverse)
        case While():
            return fields(arg.cond, arg.body, arg.consts)
        case Cond():
            return fields(arg.branches)
        case Call() if arg.rule is None:
            return fields(arg.body, arg.kind, arg.name)
        case None | bool() | int() | str() | bytes():
            return repr(arg)
        case np.integer():
            return repr(int(arg))
    raise NotImplementedError(f"{type(arg).__name__} {arg!r} cannot be written as Python")


def _repr(program: Program) -> str:
    """The source, or the listing of what has none."""
    try:
        return source(program)
    except NotImplementedError:
        return listing(program)


Program.__str__ = listing  # type: ignore[method-assign,assignment]
Program.__repr__ = _repr  # type: ignore[method-assign,assignment]
