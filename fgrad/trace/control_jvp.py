"""jvp rows of SCAN, WHILE and COND: one call carries primals and tangents.

Which carries move is a least fixed point: a carry moves if its initial value does, or if one step
makes it move.
"""

from __future__ import annotations

from fgrad.trace.interpret import instantiated, jvp, jvp_program
from fgrad.trace.maybe import Maybe, deal, instantiate, present
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, Scan, While, close, gets

Moved = tuple[list[UOp], list[Maybe]]


def _flags(d: list[Maybe]) -> list[bool]:
    return [t is not None for t in d]


def _starts(d: list[Maybe], init: tuple[UOp, ...], moves: list[bool]) -> list[UOp]:
    return [instantiate(t, a) for t, a, m in zip(d, init, moves, strict=True) if m]


@jvp(Op.SCAN)
def _(u: UOp, d: list[Maybe]) -> Moved:
    s: Scan = u.arg
    nc, ns = s.consts, s.carry
    (c, i, x), (dc, di, dx) = _sections(u.src, nc, ns), _sections(tuple(d), nc, ns)
    moves = _flags(list(di))
    while True:
        pattern = (*_flags(list(dc)), *moves, *_flags(list(dx)))
        body, moving = jvp_program(s.body, pattern)
        new = [a or b for a, b in zip(moves, moving[:ns], strict=True)]
        if new == moves:
            break
        moves = new
    n, ny = len(s.body.params), len(s.body.outs) - ns
    pc, pi, px = _sections(body.params[:n], nc, ns)
    dps = deal(body.params[n:], pattern)
    dpc, dpi, dpx = dps[:nc], dps[nc : nc + ns], dps[nc + ns :]
    outs, douts = body.outs[: ns + ny], deal(body.outs[ns + ny :], moving)
    both = close(
        (*pc, *present(dpc), *pi, *present(dpi), *px, *present(dpx)),
        [*outs[:ns], *instantiated(douts[:ns], outs[:ns], moves), *outs[ns:], *present(douts[ns:])],
    )
    k = sum(moves)
    sources = (*c, *present(dc), *i, *_starts(list(di), i, moves), *x, *present(dx))
    arg = Scan(both, s.length, nc + len(present(dc)), ns + k, len(x) + len(present(dx)), s.reverse)
    got = gets(uop(Op.SCAN, sources, arg))
    primals = [*got[:ns], *got[ns + k : ns + k + ny]]
    return primals, [*deal(got[ns : ns + k], moves), *deal(got[ns + k + ny :], moving[ns:])]


def _sections(
    xs: tuple[UOp, ...] | tuple[Maybe, ...], nc: int, ns: int
) -> tuple[tuple, tuple, tuple]:  # type: ignore[type-arg]
    return xs[:nc], xs[nc : nc + ns], xs[nc + ns :]


@jvp(Op.WHILE)
def _(u: UOp, d: list[Maybe]) -> Moved:
    w: While = u.arg
    nc = w.consts
    dc, di, init = d[:nc], d[nc:], u.src[nc:]
    moves = _flags(di)
    while True:
        body, moving = jvp_program(w.body, (*_flags(dc), *moves))
        new = [a or b for a, b in zip(moves, moving, strict=True)]
        if new == moves:
            break
        moves = new
    n, ns, k = len(w.body.params), len(init), len(present(dc))
    dps = body.params[n:]
    ps = (*body.params[:nc], *dps[:k], *body.params[nc:n], *dps[k:])
    outs, douts = body.outs[:ns], deal(body.outs[ns:], moving)
    both = close(ps, [*outs, *instantiated(douts, outs, moves)])
    sources = (*u.src[:nc], *present(dc), *init, *_starts(di, init, moves))
    got = gets(uop(Op.WHILE, sources, While(close(ps, w.cond.outs), both, nc + k)))
    return got[:ns], deal(got[ns:], moves)


@jvp(Op.COND)
def _(u: UOp, d: list[Maybe]) -> Moved:
    """An output moves if it moves in some branch."""
    pattern = tuple(_flags(d[1:]))
    branches = [jvp_program(b, pattern) for b in u.arg.branches]
    moves = [any(m) for m in zip(*[moving for _, moving in branches], strict=True)]
    n = len(moves)
    programs = []
    for body, moving in branches:
        douts = deal(body.outs[n:], moving)
        programs.append(
            close(body.params, [*body.outs[:n], *instantiated(douts, body.outs[:n], moves)])
        )
    got = gets(uop(Op.COND, (*u.src, *present(d[1:])), Cond(tuple(programs))))
    return got[:n], deal(got[n:], moves)
