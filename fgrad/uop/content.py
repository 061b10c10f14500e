"""Programs as bytes that are the same in every process, for keys of what is kept on disk."""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from typing import Any

from fgrad.uop.dtype import DType
from fgrad.uop.program import Call, Cond, Program, Scan, Update, While

_PLAIN = (int, str, bytes, bool, float, type(None))


def content(program: Program) -> bytes | None:
    """A digest of what the program computes: equal programs have equal ones, today and in another process.

    The derivative rules of its calls are left out. None where the program holds what has no name outside this
    process: Python functions that it calls, memory.
    """
    try:
        return _digest(program, {})
    except _NamelessError:
        return None


class _NamelessError(Exception):
    """Something means nothing in another process."""


def _digest(program: Program, known: dict[int, bytes]) -> bytes:
    """`known`: the digests of inner programs so far, by id; those of one body are asked for again and again."""
    found = known.get(id(program))
    if found is not None:
        return found
    number = {p: i for i, p in enumerate(program.params)}
    words = [f"{p.dtype}{p.shape}" for p in program.params]
    for u in program.nodes:
        if u not in number:
            number[u] = len(number)
            words.append(f"{int(u.op)} {[number[s] for s in u.src]} {_text(u.arg, known)}")
    words.append(f"{[number[o] for o in program.outs]} {program.effects} {program.spans}")
    digest = blake2b("\n".join(words).encode(), digest_size=20).digest()
    known[id(program)] = digest
    return digest


def _text(arg: Any, known: dict[int, bytes]) -> str:
    kind = type(arg)
    if kind in _PLAIN:
        return repr(arg)
    if kind is tuple:
        return f"({','.join([_text(x, known) for x in arg])})"
    if kind is DType:
        return str(arg)
    if isinstance(arg, IntEnum):
        return f"{kind.__name__}{int(arg)}"
    match arg:
        case Update():
            fields = (arg.mode, arg.box, arg.indexed, arg.gated, arg.batch)
            return f"update{_text(fields, known)}"
        case Scan():
            rest = (arg.length, arg.consts, arg.carry, arg.xs, arg.reverse)
            return f"scan{_digest(arg.body, known)!r}{rest}"
        case While():
            return f"while{_digest(arg.cond, known)!r}{_digest(arg.body, known)!r}{arg.consts}"
        case Cond():
            return f"cond{[_digest(p, known) for p in arg.branches]}"
        case Call():
            return f"call{_digest(arg.body, known)!r}{arg.kind!r}"
    raise _NamelessError
