"""The Programs behind jvp, linearize, vjp and grad, in the form the public transforms want them:

memoised and simplified.
"""

from __future__ import annotations

from fgrad.trace.interpret import memo
from fgrad.trace.jvp import jvp_of
from fgrad.trace.vjp import linearize, transpose_linear, vjp
from fgrad.uop import build
from fgrad.uop.node import paused_gc
from fgrad.uop.program import Program, close
from fgrad.uop.rewrite import step
from fgrad.uop.simplify import simplify_program


def _floating(program: Program, keep: int) -> list[int]:
    return [i for i, o in enumerate(program.outs[:keep]) if o.dtype.is_inexact]


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
def gradient_program(program: Program, wrt: tuple[int, ...]) -> Program:
    """params -> (*outs, *gradients of the first out, a scalar, with respect to `wrt`)."""

    def derive(program: Program) -> Program:
        n = len(program.outs)
        back = vjp(program, wrt, (True, *(False,) * (n - 1)))
        one = build.const_like(1, program.outs[0])
        with paused_gc():
            outs = back.inline([*program.params, one])
            return simplify_program(close(program.params, outs, back.effects))

    return step("trace/vjp", derive, program)


@memo
def linearize_program(program: Program, wrt: tuple[int, ...], keep: int) -> tuple[Program, Program]:
    """-> (forward: params -> (*outs, *residuals), linear: (*residuals, *tangents of `wrt`) -> tangents of floating
    outs).

    Tangents are given for the floating ones among the first `keep` outs.
    """
    forward = step("trace/linearize", lambda p: linearize(p, wrt)[0], program)

    def derive(program: Program) -> Program:
        linear = linearize(program, wrt)[1]
        return simplify_program(Program(linear.params, tuple([linear.outs[i] for i in _floating(program, keep)])))

    return forward, step("trace/linear", derive, program)


@memo
def transpose_from(program: Program, constants: int) -> Program:
    """`program` is linear in its parameters from number `constants` on -> (*constants, *cts of outs) -> their
    cotangents.
    """
    wrt = tuple(range(constants, len(program.params)))
    return step("trace/transpose", lambda p: transpose_linear(p, wrt), program)
