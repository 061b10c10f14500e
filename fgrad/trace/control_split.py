"""split rows of SCAN, COND, WHILE: a primal call that also returns residuals, a linear one.

Residuals (`residuals.py`): cheap values are computed again, loop-invariant ones are neither stacked
nor, when expensive, computed in every step; they are computed once outside.
"""

from __future__ import annotations

from typing import NamedTuple

from fgrad.trace.interpret import marked, memo, split, split_rules
from fgrad.trace.maybe import merge, pick
from fgrad.trace.residuals import CHEAP, is_constant, linear_reads, to_keep
from fgrad.uop.build import zeros_like
from fgrad.uop.node import UOp, open_param, substitute, toposort, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, Program, Scan, While, close, gets

Split = tuple[list[UOp], list[bool]]


class SplitScan(NamedTuple):
    """The two bodies of a SCAN, and how their operands are found."""

    outs: tuple[bool, ...]  # which outputs are linear
    primal: (
        Program | None
    )  # (*consts, *carry, *xs), the non-linear ones -> (*carry, *ys, *residuals); None: nothing
    # (*used consts, *hoisted, *linear consts, *carry, *used xs, *residuals, *linear xs) -> ..
    linear: Program
    hoisted: Program  # non-linear consts -> values computed once
    used_consts: tuple[int, ...]  # positions among the non-linear consts
    used_xs: tuple[int, ...]
    residuals: int


@split_rules(Op.SCAN)
def _(u: UOp, flags: list[bool]) -> Split:
    s: Scan = u.arg
    nc, ns = s.consts, s.carry
    parts = split_scan(s, tuple(flags))
    carries = parts.outs[:ns]
    c, i, x = u.src[:nc], u.src[nc : nc + ns], u.src[nc + ns :]
    fc, fx = flags[:nc], flags[nc + ns :]
    if parts.primal is None:
        return gets(
            uop(Op.SCAN, u.src, Scan(parts.linear, s.length, nc, ns, s.xs, s.reverse))
        ), list(parts.outs)
    c0, i0, x0 = pick(c, fc, False), pick(i, carries, False), pick(x, fx, False)
    arg = Scan(parts.primal, s.length, len(c0), len(i0), len(x0), s.reverse)
    got = gets(uop(Op.SCAN, (*c0, *i0, *x0), arg)) if parts.primal.outs else []
    primals, kept = got[: len(got) - parts.residuals], got[len(got) - parts.residuals :]
    consts = [*[c0[k] for k in parts.used_consts], *parts.hoisted.inline(c0), *pick(c, fc)]
    init = pick(i, carries)
    xs = [*[x0[k] for k in parts.used_xs], *kept, *pick(x, fx)]
    arg = Scan(parts.linear, s.length, len(consts), len(init), len(xs), s.reverse)
    linear = gets(uop(Op.SCAN, (*consts, *init, *xs), arg))
    return merge(parts.outs, linear, primals), list(parts.outs)


@memo
def split_scan(s: Scan, flags: tuple[bool, ...]) -> SplitScan:
    """How a SCAN whose flagged operands are linear comes apart.

    Which carries are linear is a least fixed point.
    """
    nc, ns, ps = s.consts, s.carry, s.body.params
    fc, carries, fx = flags[:nc], list(flags[nc : nc + ns]), flags[nc + ns :]
    while True:
        outs, lin = split(s.body.outs, pick(ps, (*fc, *carries, *fx)))
        new = [m or o in lin for m, o in zip(carries, outs[:ns], strict=True)]
        if new == carries:
            break
        carries = new
    linear_outs = (*carries, *[o in lin for o in outs[ns:]])
    pc, pi, px = ps[:nc], ps[nc : nc + ns], ps[nc + ns :]
    if all(linear_outs):
        return SplitScan(linear_outs, None, close(ps, outs), Program((), ()), (), (), 0)
    c0, i0, x0 = pick(pc, fc, False), pick(pi, carries, False), pick(px, fx, False)
    roots = pick(outs, linear_outs)
    order = toposort(outs)
    invariant = set(c0)
    for u in order:
        if u.src and u not in lin and all(q in invariant or is_constant(q) for q in u.src):
            invariant.add(u)
    reads = linear_reads(order, lin, roots)
    keep = to_keep(reads, order, lin, {*invariant, *x0})
    hoisted = _expensive(reads, set(keep), invariant)
    primal = close((*c0, *i0, *x0), [*pick(outs, linear_outs, False), *keep])
    fresh = [open_param(r.dtype, r.shape, "residual") for r in (*hoisted, *keep)]
    roots = substitute(roots, dict(zip((*hoisted, *keep), fresh, strict=True)))
    used = set(toposort(roots))
    used_consts = tuple([k for k, p in enumerate(c0) if p in used])
    used_xs = tuple([k for k, p in enumerate(x0) if p in used])
    nh = len(hoisted)
    params = (
        *[c0[k] for k in used_consts], *fresh[:nh], *pick(pc, fc), *pick(pi, carries),
        *[x0[k] for k in used_xs], *fresh[nh:], *pick(px, fx),
    )  # fmt: skip
    linear = close(params, roots)
    return SplitScan(
        linear_outs, primal, linear, close(c0, hoisted), used_consts, used_xs, len(keep)
    )


def _expensive(reads: list[UOp], keep: set[UOp], invariant: set[UOp]) -> list[UOp]:
    """The invariant values that `reads` need and that are worth computing once, outside."""
    found: dict[UOp, None] = {}
    seen: set[UOp] = set()
    stack = list(reversed(reads))
    while stack:
        q = stack.pop()
        if q in seen or q in keep:
            continue
        seen.add(q)
        if q in invariant and q.src and q.op not in CHEAP:
            found[q] = None
        else:
            stack.extend(reversed(q.src))
    return list(found)


class SplitCond(NamedTuple):
    """The branches of a COND, taken apart."""

    outs: tuple[bool, ...]
    primal: tuple[
        Program, ...
    ]  # non-linear operands -> (*non-linear outs, *residuals); empty: nothing non-linear
    linear: tuple[
        Program, ...
    ]  # (*non-linear operands, *residuals, *linear operands) -> linear outs
    residuals: int


@split_rules(Op.COND)
def _(u: UOp, flags: list[bool]) -> Split:
    if flags[0]:
        raise NotImplementedError(
            "the branch of a COND is chosen by a linear value, which has no transpose"
        )
    operands, f = u.src[1:], flags[1:]
    parts = split_cond(u.arg, tuple(f))
    plain, moving = pick(operands, f, False), pick(operands, f)
    if not parts.primal:
        return gets(uop(Op.COND, u.src, Cond(parts.linear))), list(parts.outs)
    got = gets(uop(Op.COND, (u.src[0], *plain), Cond(parts.primal))) if parts.primal[0].outs else []
    n = len(got) - parts.residuals
    linear = gets(uop(Op.COND, (u.src[0], *plain, *got[n:], *moving), Cond(parts.linear)))
    return merge(parts.outs, linear, got[:n]), list(parts.outs)


@memo
def split_cond(cond: Cond, flags: tuple[bool, ...]) -> SplitCond:
    """How a COND comes apart. Branches share residual slots of equal dtype and shape.

    The untaken leave zeros.
    """
    sides = [split(b.outs, pick(b.params, flags)) for b in cond.branches]
    linear_outs = tuple(
        [any(outs[j] in lin for outs, lin in sides) for j in range(len(sides[0][0]))]
    )
    if all(linear_outs):
        programs = [
            close(b.params, outs) for b, (outs, _) in zip(cond.branches, sides, strict=True)
        ]
        return SplitCond(linear_outs, (), tuple(programs), 0)
    slots: list[UOp] = []
    places: list[dict[int, UOp]] = []  # of each branch: slot -> the value kept there
    for b, (outs, lin) in zip(cond.branches, sides, strict=True):
        roots, order = pick(outs, linear_outs), toposort(outs)
        keep = to_keep(
            linear_reads(order, lin, roots), order, lin, set(pick(b.params, flags, False))
        )
        taken: dict[int, UOp] = {}
        for r in keep:
            fits = (
                k
                for k, q in enumerate(slots)
                if k not in taken and q.dtype is r.dtype and q.shape == r.shape
            )
            k = next(fits, len(slots))
            if k == len(slots):
                slots.append(open_param(r.dtype, r.shape, "residual"))
            taken[k] = r
        places.append(taken)
    primal, linear = [], []
    for b, (outs, _), taken in zip(cond.branches, sides, places, strict=True):
        plain, moving = pick(b.params, flags, False), pick(b.params, flags)
        residuals = [taken[k] if k in taken else zeros_like(q) for k, q in enumerate(slots)]
        primal.append(close(plain, [*pick(outs, linear_outs, False), *residuals]))
        roots = substitute(pick(outs, linear_outs), {r: slots[k] for k, r in taken.items()})
        linear.append(close((*plain, *slots, *moving), roots))
    return SplitCond(linear_outs, tuple(primal), tuple(linear), len(slots))


@split_rules(Op.WHILE)
def _(u: UOp, flags: list[bool]) -> Split:
    """The primal loop by itself.

    The linear results stay with the loop that computes both, which cannot be transposed.
    """
    w: While = u.arg
    nc, ns = w.consts, len(w.body.outs)
    carries = split_while(w, tuple(flags))
    if any(flags[:nc]) or any(carries):
        used = set(toposort([*w.cond.outs, *pick(w.body.outs, carries, False)]))
        consts = [k for k in range(nc) if w.body.params[k] in used]
        kept = [nc + k for k in range(ns) if not carries[k]]
        ps = [w.body.params[k] for k in (*consts, *kept)]
        arg = While(
            close(ps, w.cond.outs), close(ps, pick(w.body.outs, carries, False)), len(consts)
        )
        primals = (
            gets(uop(Op.WHILE, tuple([u.src[k] for k in (*consts, *kept)]), arg)) if kept else []
        )
        return merge(carries, pick(gets(u), carries), primals), list(carries)
    return gets(u), [False] * ns


@memo
def split_while(w: While, flags: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which carries are linear: a least fixed point."""
    carries = list(flags[w.consts :])
    while True:
        lin = marked(w.body.outs, pick(w.body.params, (*flags[: w.consts], *carries)))
        new = [m or o in lin for m, o in zip(carries, w.body.outs, strict=True)]
        if new == carries:
            return tuple(carries)
        carries = new
