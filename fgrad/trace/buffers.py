"""Arrays that a program's calls hold inside: made operands, so that the outermost program can take them as parameters.

Staging captures arrays outside of loops and branches. A derivative rule of the user's that closes over an array is
asked later, inside a body that is closed already: then the array's BUFFER stands in the body's program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fgrad.uop.cache import remember
from fgrad.uop.node import UOp, open_param, substitute, toposort, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, Cond, Program, Scan, While, close

_CALLS = (Op.CALL, Op.SCAN, Op.WHILE, Op.COND)


def inside(u: UOp) -> tuple[Program, ...]:
    """The programs that a call runs."""
    arg = u.arg
    if isinstance(arg, Cond):
        return arg.branches
    if isinstance(arg, While):
        return arg.cond, arg.body
    return (arg.body,)


def hoist_buffers(outs: Sequence[UOp]) -> list[UOp]:
    """`outs` with calls that take every array they need as an operand."""
    changed: dict[UOp, UOp] = {}
    for u in toposort(outs):
        src = tuple([changed.get(s, s) for s in u.src])
        v = u if src == u.src else uop(u.op, src, u.arg)
        if u.op in _CALLS and any(holds_buffers(p) for p in inside(u)):
            v = _hoisted(v)
        if v is not u:
            changed[u] = v
    return [changed.get(o, o) for o in outs]


@remember(4096)
def holds_buffers(program: Program) -> bool:
    """Whether arrays stand in the program, or inside one of its calls."""
    return any(u.op is Op.BUFFER or (u.op in _CALLS and any(map(holds_buffers, inside(u)))) for u in program.nodes)


def _hoisted(u: UOp) -> UOp:
    programs = [Program(p.params, tuple(hoist_buffers(p.outs)), p.effects) for p in inside(u)]
    found: dict[UOp, None] = {}
    for p in programs:
        found.update({b: None for b in toposort(p.outs) if b.op is Op.BUFFER})
    buffers = list(found)
    wider = []
    for p in programs:
        extra = [open_param(b.dtype, b.shape, "captured") for b in buffers]
        own = [open_param(q.dtype, q.shape) for q in p.params]
        outs = substitute(p.outs, dict(zip((*buffers, *p.params), (*extra, *own), strict=True)))
        wider.append(close([*extra, *own], outs, p.effects))
    arg = u.arg
    if isinstance(arg, Cond):
        return uop(u.op, (u.src[0], *buffers, *u.src[1:]), Cond(tuple(wider)))
    if isinstance(arg, While):
        return uop(u.op, (*buffers, *u.src), While(wider[0], wider[1], arg.consts + len(buffers)))
    if isinstance(arg, Scan):
        return uop(u.op, (*buffers, *u.src), replace(arg, body=wider[0], consts=arg.consts + len(buffers)))
    assert isinstance(arg, Call)
    return uop(u.op, (*buffers, *u.src), replace(arg, body=wider[0]))
