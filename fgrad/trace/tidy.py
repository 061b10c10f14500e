"""tidy.

Calls lose what nobody reads, carries that never change, and operands that are constant or given
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fgrad.trace.hoist import hoist
from fgrad.trace.interpret import memo, node_of
from fgrad.uop.build import const, expand, is_const, scalar_of
from fgrad.uop.node import UOp, open_param, substitute, toposort, uop
from fgrad.uop.op import CALLS, Op
from fgrad.uop.program import Call, Cond, Program, Scan, While, close, gets
from fgrad.uop.simplify import simplify

Members = dict[int, UOp]


@memo
def tidy_program(program: Program) -> Program:
    """The program simplified, its calls tidied, accumulators of products moved out of loops."""
    outs = simplify(program.outs)
    if not any(u.op in CALLS for u in toposort(outs)):
        return replace(program, outs=tuple(outs))
    outs = tidy(outs)
    if any(u.op in CALLS for u in toposort(outs)):
        outs = hoist(simplify(outs))
    return replace(program, outs=tuple(simplify(outs)))


def tidy(outs: Sequence[UOp]) -> list[UOp]:
    """`outs` with all calls tidied, also those inside calls."""
    order = toposort(outs)
    if not any(u.op in CALLS for u in order):
        return list(outs)
    read: dict[UOp, set[int]] = {}
    for u in order:
        for s in u.src:
            if u.op is Op.GET:
                read.setdefault(s, set()).add(u.arg)
            elif isinstance(s.dtype, tuple):
                read.setdefault(s, set()).update(range(len(s.shape)))
    for o in outs:
        if isinstance(o.dtype, tuple):
            read.setdefault(o, set()).update(range(len(o.shape)))
    value: dict[UOp, UOp] = {}
    members: dict[UOp, Members] = {}
    for u in order:
        if u.op is Op.GET and u.src[0] in members:
            value[u] = members[u.src[0]][u.arg]
            continue
        src = tuple(
            [node_of(list(members[s].values())) if s in members else value[s] for s in u.src]
        )
        wanted = read.get(u, set())
        if u.op is Op.SCAN:
            members[u] = _scan(u.arg, src, wanted)
        elif u.op is Op.WHILE:
            members[u] = _while(u.arg, src, wanted)
        elif u.op is Op.COND:
            members[u] = _cond(u.arg, src, wanted)
        elif u.op is Op.CALL and u.arg.kind == "checkpoint":
            members[u] = _checkpoint(u.arg, src, wanted)
        else:
            value[u] = u if src == u.src else uop(u.op, src, u.arg)
    return [node_of(list(members[o].values())) if o in members else value[o] for o in outs]


Pairs = list[tuple[UOp, UOp]]  # a param of the inner program, and the operand it stands for


def _operands(
    pairs: Iterable[tuple[UOp, UOp]], stacked: bool = False
) -> tuple[Pairs, dict[UOp, UOp]]:
    """-> (pairs without constants and repetitions, what the params left out stand for).

    An operand that only repeats a smaller one is repeated inside, so that its gradient is summed
    there too.
    stacked   operands have a leading time axis that the params lack
    """
    first: dict[UOp, UOp] = {}
    left: Pairs = []
    stands: dict[UOp, UOp] = {}
    for p, a in pairs:
        if is_const(a):
            stands[p] = const(scalar_of(a), a.dtype, p.shape)
            continue
        axes: tuple[tuple[int, int], ...] = ()
        if a.op is Op.EXPAND and not (stacked and a.arg[0][0] == 0):
            axes = tuple([(axis - stacked, n) for axis, n in a.arg])
            a = a.src[0]
        if a not in first:
            first[a] = open_param(a.dtype, a.shape[stacked:]) if axes else p
            left.append((first[a], a))
        if axes or first[a] is not p:
            stands[p] = expand(first[a], axes)
    return left, stands


def _scan(s: Scan, src: tuple[UOp, ...], wanted: set[int]) -> Members:
    nc, ns = s.consts, s.carry
    body = tidy_program(s.body)
    pc, pi, px = body.params[:nc], body.params[nc : nc + ns], body.params[nc + ns :]
    c, i, x = src[:nc], src[nc : nc + ns], src[nc + ns :]
    unchanged = [o is p for o, p in zip(body.outs, pi, strict=False)]
    same_in_all = [a.op is Op.EXPAND and a.arg[0][0] == 0 and not is_const(a) for a in x]
    consts, stands = _operands([
        *zip(pc, c, strict=True),
        *[(p, a) for p, a, m in zip(pi, i, unchanged, strict=True) if m],
        *[(p, _step_of(a)) for p, a, m in zip(px, x, same_in_all, strict=True) if m],
    ])  # fmt: skip
    xs, more_stands = _operands(
        [(p, a) for p, a, m in zip(px, x, same_in_all, strict=True) if not m], stacked=True
    )
    stands |= more_stands
    outs = substitute(body.outs, stands) if stands else list(body.outs)

    need = {k for k in wanted if k >= ns or not unchanged[k]}
    while True:  # carries that some needed value reads, until no more are
        live = set(toposort([outs[k] for k in sorted(need)]))
        more = need | {k for k in range(ns) if pi[k] in live and not unchanged[k]}
        if more == need:
            break
        need = more
    carried = [k for k in range(ns) if k in need]
    first: dict[UOp, int] = {}
    for k in range(ns, len(outs)):
        if k in need:
            first.setdefault(outs[k], k)
    ys = list(first.values())
    consts = [(p, a) for p, a in consts if p in live]
    xs = [(p, a) for p, a in xs if p in live]
    result: Members = {k: i[k] for k in range(ns) if unchanged[k]}
    if need:
        params = [*[p for p, _ in consts], *[pi[k] for k in carried], *[p for p, _ in xs]]
        small = close(params, [outs[k] for k in (*carried, *ys)])
        if small.outs != body.outs:
            small = tidy_program(small)
        sources = (*[a for _, a in consts], *[i[k] for k in carried], *[a for _, a in xs])
        arg = Scan(small, s.length, len(consts), len(carried), len(xs), s.reverse)
        got = gets(uop(Op.SCAN, sources, arg))
        result |= dict(zip((*carried, *ys), got, strict=True))
        result |= {k: result[first[outs[k]]] for k in need if k >= ns}
    return {k: result[k] for k in sorted(result)}


def _step_of(a: UOp) -> UOp:
    """What an EXPAND along time repeats."""
    return expand(a.src[0], [(axis - 1, n) for axis, n in a.arg[1:]])


def _while(w: While, src: tuple[UOp, ...], wanted: set[int]) -> Members:
    nc = w.consts
    cond, body = tidy_program(w.cond), tidy_program(w.body)
    ps, init = body.params, src[nc:]
    pi = ps[nc:]
    unchanged = [o is p for o, p in zip(body.outs, pi, strict=True)]
    consts, stands = _operands([
        *zip(ps[:nc], src[:nc], strict=True),
        *[(p, a) for p, a, m in zip(pi, init, unchanged, strict=True) if m],
    ])  # fmt: skip
    test, *outs = substitute([*cond.outs, *body.outs], stands)
    need = {k for k in wanted if not unchanged[k]}
    while True:
        live = set(toposort([test, *[outs[k] for k in sorted(need)]]))
        more = need | {k for k in range(len(pi)) if pi[k] in live and not unchanged[k]}
        if more == need:
            break
        need = more
    carried = sorted(need)
    consts = [(p, a) for p, a in consts if p in live]
    result: Members = {k: init[k] for k in range(len(init)) if unchanged[k]}
    if carried:
        params = [*[p for p, _ in consts], *[pi[k] for k in carried]]
        arg = While(close(params, [test]), close(params, [outs[k] for k in carried]), len(consts))
        got = gets(uop(Op.WHILE, (*[a for _, a in consts], *[init[k] for k in carried]), arg))
        result |= dict(zip(carried, got, strict=True))
    return {k: result[k] for k in sorted(result)}


def _cond(c: Cond, src: tuple[UOp, ...], wanted: set[int]) -> Members:
    branches = [tidy_program(b) for b in c.branches]
    if is_const(src[0]):
        k = min(max(int(scalar_of(src[0])), 0), len(branches) - 1)
        return dict(enumerate(branches[k].inline(src[1:])))
    pairs, stands = _operands(zip(branches[0].params, src[1:], strict=True))
    operand = dict(pairs)
    sides = [substitute(b.outs, stands) for b in branches]
    result: Members = {}
    for k in sorted(wanted):  # what every branch hands through
        o = sides[0][k]
        if o in operand and all(side[k] is o for side in sides):
            result[k] = operand[o]
    left = [k for k in sorted(wanted) if k not in result]
    if left:
        live = set(toposort([side[k] for side in sides for k in left]))
        pairs = [(p, a) for p, a in pairs if p in live]
        programs = [
            tidy_program(close([p for p, _ in pairs], [side[k] for k in left])) for side in sides
        ]
        got = gets(uop(Op.COND, (src[0], *[a for _, a in pairs]), Cond(tuple(programs))))
        result |= dict(zip(left, got, strict=True))
    return {k: result[k] for k in sorted(result)}


def _checkpoint(c: Call, src: tuple[UOp, ...], wanted: set[int]) -> Members:
    body = tidy_program(c.body)
    left = sorted(wanted)
    if not left:
        return {}
    pairs, stands = _operands(zip(body.params, src, strict=True))
    outs = substitute([body.outs[k] for k in left], stands)
    live = set(toposort(outs))
    pairs = [(p, a) for p, a in pairs if p in live]
    small = close([p for p, _ in pairs], outs)
    got = gets(uop(Op.CALL, tuple([a for _, a in pairs]), replace(c, body=small)))
    return dict(zip(left, got, strict=True))
