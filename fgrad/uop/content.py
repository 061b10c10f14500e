"""Programs as bytes that are the same in every process, for keys of what is kept on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import Any

from fgrad.uop.dtype import DType
from fgrad.uop.program import Call, Cond, Host, Program, Scan, Update, While

_PLAIN = (int, str, bytes, bool, float, type(None))


def content(program: Program) -> bytes | None:
    """A digest of what the program computes: equal programs have equal ones, today and in another process.

    Of Python functions that it calls only their declarations are in it: `functions` gives them in an order that
    depends on the digest alone. The derivative rules of its calls are left out. None where the program holds what
    has no name outside this process: memory.
    """
    try:
        return _digest(program, _Walk())
    except _NamelessError:
        return None


def functions(program: Program) -> tuple[Host, ...]:
    """The Python functions that the program calls, each once. Programs with one digest have them at the same places."""
    walk = _Walk()
    _digest(program, walk)
    return tuple(walk.hosts)


class _NamelessError(Exception):
    """Something means nothing in another process."""


@dataclass(slots=True)
class _Walk:
    """digests  of inner programs so far, by id; those of one body are asked for again and again
    hosts       functions met so far -> their numbers, by which equal and different ones are told apart
    """

    digests: dict[int, bytes] = field(default_factory=dict)
    hosts: dict[Host, int] = field(default_factory=dict)


def _digest(program: Program, walk: _Walk) -> bytes:
    found = walk.digests.get(id(program))
    if found is not None:
        return found
    number = {p: i for i, p in enumerate(program.params)}
    words = [f"{p.dtype}{p.shape}" for p in program.params]
    for u in program.nodes:
        if u not in number:
            number[u] = len(number)
            words.append(f"{int(u.op)} {[number[s] for s in u.src]} {_text(u.arg, walk)}")
    words.append(f"{[number[o] for o in program.outs]} {program.effects} {program.spans}")
    digest = blake2b("\n".join(words).encode(), digest_size=20).digest()
    walk.digests[id(program)] = digest
    return digest


def _text(arg: Any, walk: _Walk) -> str:
    kind = type(arg)
    if kind in _PLAIN:
        return repr(arg)
    if kind is tuple:
        return f"({','.join([_text(x, walk) for x in arg])})"
    if kind is DType:
        return str(arg)
    if isinstance(arg, IntEnum):
        return f"{kind.__name__}{int(arg)}"
    match arg:
        case Update():
            fields = (arg.mode, arg.box, arg.indexed, arg.gated, arg.batch)
            return f"update{_text(fields, walk)}"
        case Scan():
            rest = (arg.length, arg.consts, arg.carry, arg.xs, arg.reverse)
            return f"scan{_digest(arg.body, walk)!r}{rest}"
        case While():
            return f"while{_digest(arg.cond, walk)!r}{_digest(arg.body, walk)!r}{arg.consts}"
        case Cond():
            return f"cond{[_digest(p, walk) for p in arg.branches]}"
        case Host():
            number = walk.hosts.setdefault(arg, len(walk.hosts))
            options = (number, arg.name, arg.ordered, arg.pure, arg.vectorized, arg.extra)
            return f"host{_text(options, walk)}{[str(a) for a in arg.out_avals]}"
        case Call():
            return f"call{_digest(arg.body, walk)!r}{arg.kind!r}"
    raise _NamelessError
