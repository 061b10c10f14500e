"""simplify: one pass that replaces nodes by simpler ones of the same value.

One equation a row (`simplify_views.py`, `simplify_values.py`, `simplify_updates.py`). Linear in the
number of nodes, and also inside the Programs of SCAN, WHILE, COND and CALL, whose simplified form
is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fgrad.uop import build as b
from fgrad.uop import simplify_updates, simplify_values, simplify_views
from fgrad.uop.cache import remember
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.pattern import Make, Rewriter, Rows, value
from fgrad.uop.program import Call, Cond, Program, Scan, While, gets

rows = Rows(simplify_views.rows, simplify_values.rows, simplify_updates.rows)


def simplify(outs: Sequence[UOp]) -> list[UOp]:
    """Nodes of the same values as `outs`, of the same dtypes and shapes, with less to do.

    Sums may be regrouped; apart from that nothing changes a NaN, an infinity or a signed zero.
    """
    return Rewriter(rows.of).walk(outs)


@remember(4096)
def simplify_program(program: Program) -> Program:
    """`program` with simplified outs; parameters and effects stay as they are."""
    outs = tuple(simplify(program.outs))
    return program if outs == program.outs else replace(program, outs=outs)


@rows(Op.SCAN)
def _(u: UOp, make: Make) -> UOp | None:
    scan: Scan = u.arg
    body = simplify_program(scan.body)
    first_x = scan.consts + scan.carry
    if scan.length == 0:  # no steps == the initial carry
        ys = [b.zeros_like(y) for y in gets(u)[scan.carry :]]
        return uop(Op.TUPLE, (*u.src[scan.consts : first_x], *ys))
    if scan.length == 1:  # one step == the body
        xs = [make(Op.RESHAPE, (x,), x.shape[1:]) for x in u.src[first_x:]]
        outs = _inlined(body, (*u.src[:first_x], *xs), make).src
        ys = [make(Op.RESHAPE, (y,), (1, *y.shape)) for y in outs[scan.carry :]]
        return uop(Op.TUPLE, (*outs[: scan.carry], *ys))
    return None if body is scan.body else uop(u.op, u.src, replace(scan, body=body))


@rows(Op.WHILE)
def _(u: UOp, make: Make) -> UOp | None:
    loop: While = u.arg
    cond, body = simplify_program(loop.cond), simplify_program(loop.body)
    if cond is loop.cond and body is loop.body:
        return None
    return uop(u.op, u.src, replace(loop, cond=cond, body=body))


@rows(Op.COND)
def _(u: UOp, make: Make) -> UOp | None:
    cond: Cond = u.arg
    branches = tuple([simplify_program(p) for p in cond.branches])
    chosen = value(u.src[0])
    if chosen is not None:  # a constant index == that branch
        branch = branches[min(max(int(chosen), 0), len(branches) - 1)]
        return _inlined(branch, u.src[1:], make)
    if all(p is q for p, q in zip(branches, cond.branches, strict=True)):
        return None
    return uop(u.op, u.src, replace(cond, branches=branches))


def _inlined(program: Program, args: Sequence[UOp], make: Make) -> UOp:
    """A TUPLE of the program's outputs on normal `args`."""
    done = dict(zip(program.params, args, strict=True))
    for u in program.nodes:
        if u not in done:
            done[u] = make(u.op, tuple([done[s] for s in u.src]), u.arg)
    return uop(Op.TUPLE, tuple([done[o] for o in program.outs]))


@rows(Op.CALL)
def _(u: UOp, make: Make) -> UOp | None:
    """The body of a user's kernel stays as it was written."""
    call: Call = u.arg
    if call.kind == "kernel":
        return None
    body = simplify_program(call.body)
    return None if body is call.body else uop(u.op, u.src, replace(call, body=body))
