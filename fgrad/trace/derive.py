"""The Programs behind jvp, linearize, vjp and grad, in the form the public transforms want them:

memoised and simplified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fgrad.errors import ConcretizationError
from fgrad.trace.apply import Way
from fgrad.trace.interpret import memo
from fgrad.trace.jvp import jvp_of
from fgrad.trace.ref import carried, uncarried
from fgrad.trace.stage import Stage, concrete_value, opened
from fgrad.trace.vjp import linearize, transpose_linear, vjp
from fgrad.trace.widen import programs_of
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, paused_gc, substitute
from fgrad.uop.op import CALLS, Op
from fgrad.uop.program import Program, close
from fgrad.uop.rewrite import step
from fgrad.uop.simplify import simplify_program

T = TypeVar("T")


def _floating(program: Program, keep: int) -> list[int]:
    return [i for i, o in enumerate(program.outs[:keep]) if o.dtype.is_inexact]


def with_values(derive: Callable[..., T], program: Program, nodes: Sequence[UOp], *rest: Any) -> T:
    """derive(program, *rest); where a derivative rule asks for a value, again with `nodes` as what the parameters are.

    A derivative that was found for certain values is not remembered.
    """
    try:
        return derive(program, *rest)
    except ConcretizationError:
        if concrete_value(nodes) is None:
            raise
    params = [open_param(p.dtype, p.shape, "an argument") for p in program.params]
    stage = Stage("the derivative of a function", concrete=True)
    stage.params = params
    stage.concrete = dict(zip(params, nodes, strict=True))
    with opened(stage):
        return derive(Program(tuple(params), tuple(program.inline(params)), program.effects), *rest)


@memo
def jvp_program(program: Program, wrt: tuple[int, ...], keep: int) -> Program:
    """(*params, *tangents of `wrt`) -> (*outs, *tangents of the floating ones among the first `keep` outs)."""

    def derive(program: Program) -> Program:
        both = jvp_of(program, tuple([i in wrt for i in range(len(program.params))]))
        n = len(program.outs)
        outs = [*both.outs[:n], *[both.outs[n + i] for i in _floating(program, keep)]]
        return simplify_program(Program(both.params, tuple(outs), both.effects))

    return step("trace/jvp", derive, program)


@memo
def gradient_program(program: Program, wrt: tuple[int, ...], ways: tuple[Way, ...] = ()) -> Program:
    """params -> (*outs, *gradients of the first out, a scalar, with respect to `wrt`).

    ways   Refs that go through the backward pass as well: their final versions are those after it
    """

    def derive(program: Program) -> Program:
        n = len(program.outs)
        reverse = [w.out for w in ways]
        back = vjp(program, (*wrt, *[w.slot for w in ways]), tuple([i == 0 or i in reverse for i in range(n)]))
        one = build.const_like(1, program.outs[0])
        with paused_gc():
            begin = {o: open_param(program.outs[o].dtype, program.outs[o].shape) for o in sorted(reverse)}
            outs = back.inline([*program.params, one, *begin.values()])
            contents = {w: program.params[w.ref_slot] if w.ref_out is None else outs[w.ref_out] for w in ways}
            outs = substitute(outs, {begin[w.out]: carried(c) for w, c in contents.items()})
            effects = dict(back.effects)
            for w, end in zip(ways, outs[n + len(wrt) :], strict=True):
                if w.ref_out is not None:
                    outs[w.ref_out] = build.const(0, outs[w.ref_out].dtype)  # nobody sees what it was in between
                outs[w.out] = uncarried(end, Aval(contents[w].dtype, contents[w].shape))
                del effects[w.slot]
                effects[w.ref_slot] = w.out
            return simplify_program(close(program.params, outs[: n + len(wrt)], tuple(effects.items())))

    return step("trace/vjp", derive, program)


@memo
def linearize_program(
    program: Program, wrt: tuple[int, ...], keep: int, ways: tuple[Way, ...] = ()
) -> tuple[Program, Program]:
    """-> (forward: params -> (*outs, *residuals), linear: (*residuals, *tangents of `wrt`) -> tangents of floating
    outs).

    Tangents are given for the floating ones among the first `keep` outs. With `ways`, for what Refs are in the backward
    pass too, last.
    """
    moving = (*wrt, *[w.slot for w in ways])
    reverse = [w.slot for w in ways]

    def run_forward(program: Program) -> Program:
        forward = linearize(program, moving)[0]
        effects = tuple([(slot, out) for slot, out in forward.effects if slot not in reverse])
        return Program(forward.params, forward.outs, effects)

    def derive(program: Program) -> Program:
        linear = linearize(program, moving)[1]
        outs = [*_floating(program, keep), *[w.out for w in ways]]
        return simplify_program(Program(linear.params, tuple([linear.outs[i] for i in outs])))

    return step("trace/linearize", run_forward, program), step("trace/linear", derive, program)


@memo
def holds_rules(program: Program) -> bool:
    """Whether functions with a backward rule of their own are called in the program."""
    return any(
        (u.op is Op.CALL and u.arg.kind == "custom_vjp") or any(holds_rules(p) for p in programs_of(u))
        for u in program.nodes
        if u.op in CALLS
    )


@memo
def transpose_from(program: Program, constants: int) -> Program:
    """`program` is linear in its parameters from number `constants` on -> (*constants, *cts of outs) -> their
    cotangents.
    """
    wrt = tuple(range(constants, len(program.params)))
    return step("trace/transpose", lambda p: transpose_linear(p, wrt), program)
