"""vjp: reverse mode over whole Programs, and the linear parts that it is made of."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.trace.interpret import memo
from fgrad.trace.jvp import jvp_of, push
from fgrad.trace.maybe import instantiate, pick, present
from fgrad.trace.residuals import linear_reads, to_keep
from fgrad.trace.split import split
from fgrad.trace.tidy import tidy_program
from fgrad.trace.transpose import pull
from fgrad.uop.build import zeros_like
from fgrad.uop.node import UOp, open_param, paused_gc, substitute, toposort
from fgrad.uop.op import CALLS
from fgrad.uop.program import Program, close

__all__ = ["jvp_of", "linearize", "transpose_linear", "vjp"]


def _tangents(
    program: Program, wrt: Sequence[int]
) -> tuple[list[UOp], list[UOp], list[UOp | None], set[UOp]]:
    """-> (tangent params of `wrt`, primal outs, tangent outs, linear nodes), after the split."""
    is_open = any(p.born >= 0 for p in program.params)  # tidying would close it
    if not is_open and any(u.op in CALLS for u in program.nodes):
        program = tidy_program(
            program
        )  # less to differentiate; operands of loops in their smallest form
    ps = [program.params[k] for k in wrt]
    dps = [open_param(p.dtype, p.shape, "tangent") for p in ps]
    moving = {p: d for p, d in zip(ps, dps, strict=True) if p.dtype.is_inexact}
    outs, douts = push(program.outs, moving)
    n = len(outs)
    both, lin = split([*outs, *present(douts)], list(moving.values()))
    found = iter(both[n:])
    return dps, both[:n], [None if t is None else next(found) for t in douts], lin


@memo
def vjp(program: Program, wrt: tuple[int, ...], ct_present: tuple[bool, ...]) -> Program:
    """(*params, *cts of the outs that have one) -> (*outs, *grads of params `wrt`), simplified.

    Cotangents and gradients have the dtypes of their primals. Effects stay what they were, and
    happen once.
    """
    with paused_gc():
        dps, outs, douts, lin = _tangents(program, wrt)
        cts = [open_param(o.dtype, o.shape, "ct") for o in pick(program.outs, ct_present)]
        it = iter(cts)
        given = [next(it) if m else None for m in ct_present]
        pairs = [
            (t, c) for t, c in zip(douts, given, strict=True) if t is not None and c is not None
        ]
        grads = pull([t for t, _ in pairs], [c for _, c in pairs], dps, lin)
        results = [instantiate(g, d) for g, d in zip(grads, dps, strict=True)]
        return tidy_program(close((*program.params, *cts), [*outs, *results], program.effects))


@memo
def linearize(program: Program, wrt: tuple[int, ...]) -> tuple[Program, Program]:
    """-> (params -> (*outs, *residuals), (*residuals, *tangents of `wrt`) -> tangents of all outs).

    The number of residuals is what the first program returns more than `program` does. Outs that do
    not move (integers) have tangents of zeros in their own dtype.
    """
    with paused_gc():
        dps, outs, douts, lin = _tangents(program, wrt)
        live = present(douts)
        order = toposort(live)
        keep = to_keep(linear_reads(order, lin, live), order, lin, set())
        primal = tidy_program(close(program.params, [*outs, *keep], program.effects))
        fresh = [open_param(r.dtype, r.shape, "residual") for r in keep]
        kept = iter(substitute(live, dict(zip(keep, fresh, strict=True))))
        tangents = [
            zeros_like(o) if t is None else next(kept)
            for t, o in zip(douts, program.outs, strict=True)
        ]
        return primal, tidy_program(close((*fresh, *dps), tangents))


@memo
def transpose_linear(program: Program, wrt: tuple[int, ...]) -> Program:
    """Transpose what is linear in the params `wrt`: (*other params, *cts) -> cts of those.

    Raises NotImplementedError naming the op when it is not linear.
    """
    with paused_gc():
        ps = [program.params[k] for k in wrt]
        outs, lin = split(program.outs, ps)
        cts = [open_param(o.dtype, o.shape, "ct") for o in outs]
        pairs = [(o, c) for o, c in zip(outs, cts, strict=True) if o in lin]
        got = pull([o for o, _ in pairs], [c for _, c in pairs], ps, lin)
        others = [p for k, p in enumerate(program.params) if k not in wrt]
        return tidy_program(
            close((*others, *cts), [instantiate(g, p) for g, p in zip(got, ps, strict=True)])
        )
