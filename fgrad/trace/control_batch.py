"""batch rows of SCAN, WHILE and COND.

Which carries are batched is a least fixed point, as in `control_jvp.py`.
"""

from __future__ import annotations

from fgrad.trace.host import is_token
from fgrad.trace.interpret import batching
from fgrad.trace.special_derivatives import from_front, to_front
from fgrad.trace.strong import tail
from fgrad.trace.widen import Batching, batch_program, lead
from fgrad.uop import dtype as dt
from fgrad.uop.build import cast, const_like, le, maximum, reduce_, where
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, Program, Scan, While, close, gets

Batched = tuple[list[UOp], list[bool]]


def swap(x: UOp) -> UOp:
    """Exchange the batch axis and the time axis."""
    return to_front(x, 1) if x.ndim > 1 else x


@batching(Op.SCAN)
def _(u: UOp, src: list[UOp], flags: list[bool], at: Batching) -> Batched:
    """Time stays the first axis inside; the batch axis comes second."""
    s: Scan = u.arg
    nc, ns = s.consts, s.carry
    fc, fi, fx = flags[:nc], flags[nc : nc + ns], flags[nc + ns :]
    carries = list(fi)
    ny = len(s.body.outs) - ns
    while True:
        body, out = batch_program(s.body, at, (*fc, *carries, *fx), (*carries, *[False] * ny))
        if list(out[:ns]) == carries:
            break
        carries = list(out[:ns])
    init = [
        lead(a, at.size) if w and not m else a
        for a, m, w in zip(src[nc : nc + ns], fi, carries, strict=True)
    ]
    xs = [swap(a) if m else a for a, m in zip(src[nc + ns :], fx, strict=True)]
    got = gets(uop(Op.SCAN, (*src[:nc], *init, *xs), Scan(body, s.length, nc, ns, s.xs, s.reverse)))
    ys = [from_front(y, 1) if m else y for y, m in zip(got[ns:], out[ns:], strict=True)]
    return [*got[:ns], *ys], list(out)


@batching(Op.COND)
def _(u: UOp, src: list[UOp], flags: list[bool], at: Batching) -> Batched:
    """A choice for each member runs all branches and selects; a common one stays a choice.

    Where all branches run, all their effects happen: the token that comes out waits for each.
    """
    branches = u.arg.branches
    f = tuple(flags[1:])
    sides = [batch_program(b, at, f) for b in branches]
    if not flags[0]:
        union = tuple([any(m) for m in zip(*[out for _, out in sides], strict=True)])
        programs = tuple([batch_program(b, at, f, union)[0] for b in branches])
        return gets(uop(Op.COND, tuple(src), Cond(programs))), list(union)
    index = cast(src[0], dt.int64)
    each = [not any(map(is_token, outs)) for outs in zip(*[b.outs for b in branches], strict=True)]
    chosen: list[UOp] = []
    for k, (program, out) in enumerate(sides):
        values = [
            lead(v, at.size) if m and not f else v
            for v, f, m in zip(program.inline(src[1:]), out, each, strict=True)
        ]
        if k == 0:
            chosen = values
            continue
        later = le(const_like(k, index), index)  # also beyond the last: the index is clipped
        chosen = [
            where(tail(later, v), v, c) if m else maximum(v, c)
            for v, c, m in zip(values, chosen, each, strict=True)
        ]
    return chosen, each


@batching(Op.WHILE)
def _(u: UOp, src: list[UOp], flags: list[bool], at: Batching) -> Batched:
    """With a condition for each member: run while any runs.

    Members that are done keep their carry; effects happen as often as the longest of them runs.
    """
    w: While = u.arg
    nc = w.consts
    fc, carries = flags[:nc], list(flags[nc:])
    selected = [not is_token(o) for o in w.body.outs]
    while True:
        cond, (each,) = batch_program(w.cond, at, (*fc, *carries))
        if each:
            carries = [a or b for a, b in zip(carries, selected, strict=True)]
            cond, _ = batch_program(w.cond, at, (*fc, *carries))
        body, out = batch_program(w.body, at, (*fc, *carries), tuple(carries))
        if list(out) == carries:
            break
        carries = list(out)
    init = [
        lead(a, at.size) if x and not m else a
        for a, m, x in zip(src[nc:], flags[nc:], carries, strict=True)
    ]
    if each:
        running = cond.outs[0]
        kept = [
            where(tail(running, new), new, old) if m else new
            for new, old, m in zip(body.outs, body.params[nc:], carries, strict=True)
        ]
        body = close(body.params, kept)
        cond = Program(cond.params, (reduce_(running, (0,), Op.OR),))
    return gets(uop(Op.WHILE, (*src[:nc], *init), While(cond, body, nc))), carries
