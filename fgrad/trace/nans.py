"""Where a NaN begins: a program evaluated op by op, and the way back from a NaN to its origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.trace.reference import evaluate, run_program
from fgrad.uop.lines import lines
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import CALLS, Op
from fgrad.uop.program import Program


def has_nan(x: Any) -> bool:
    """Whether an array has a NaN; integers and bools have none, a tuple where one of its members has."""
    if isinstance(x, tuple | list):
        return any(has_nan(y) for y in x)
    array = np.asarray(x)
    if array.dtype.kind in "biuSUOM" or array.dtype.names:
        return False
    wide = array if array.dtype.kind in "fc" else array.astype(np.float32)  # small floats are "V"
    return bool(np.isnan(wide).any())


def is_repeatable(program: Program) -> bool:
    """Whether the program may be run twice: it calls no Python function that has effects."""
    for u in program.nodes:
        if u.op is Op.HOST and not u.arg.pure:
            return False
        if not all(is_repeatable(p) for p in _inner(u)):
            return False
    return True


def origin(program: Program, args: Sequence[Any]) -> UOp | None:
    """The node whose operands are numbers and whose result is a NaN that reaches an output.

    None when the evaluation in NumPy gives no NaN.
    """
    nodes = program.nodes
    values: dict[UOp, Any] = dict(zip(program.params, args, strict=True))
    with np.errstate(all="ignore"):
        for u in nodes:
            if u not in values:
                values[u] = evaluate([u], {s: values[s] for s in u.src})[0]
    start = next((o for o in program.outs if has_nan(values[o])), None)
    return None if start is None else _back(start, values)


def _back(u: UOp, values: dict[UOp, Any]) -> UOp:
    """From a node with a NaN to the one that it comes from."""
    while True:
        bad = next((s for s in _carriers(u, values) if has_nan(values[s])), None)
        if bad is not None:
            u = bad
            continue
        if u.op is Op.GET and u.src[0].op in CALLS:
            u = u.src[0]
        return (_inside(u, [values[s] for s in u.src]) or u) if u.op in CALLS else u


def _carriers(u: UOp, values: dict[UOp, Any]) -> Sequence[UOp]:
    """The operands by which a NaN of `u` can have come in."""
    if u.op is Op.AFTER:
        return u.src[:1]
    if u.op is Op.WHERE:
        chosen, x, y = (values[s] for s in u.src)
        sides = ((u.src[1], np.where(chosen, x, 0)), (u.src[2], np.where(chosen, 0, y)))
        return [s for s, picked in sides if has_nan(picked)]
    if u.op is Op.GET:
        call = u.src[0]
        if has_nan(values[call][u.arg]) and call.op in CALLS:
            return [s for s in call.src if has_nan(values[s])]
    return u.src


def _inside(u: UOp, args: list[Any]) -> UOp | None:
    """The origin inside the program of a call; None where it has none."""
    if u.op is Op.CALL:
        return origin(u.arg.body, args)
    if u.op is Op.COND:
        last = len(u.arg.branches) - 1
        return origin(u.arg.branches[min(max(int(args[0]), 0), last)], args[1:])
    if u.op is Op.SCAN:
        s = u.arg
        n = s.consts + s.carry
        consts, carry, xs = args[: s.consts], args[s.consts : n], args[n:]
        for t in range(s.length)[:: -1 if s.reverse else 1]:
            given = [*consts, *carry, *[x[t] for x in xs]]
            outs = run_program(s.body, given)
            if has_nan(outs):
                return origin(s.body, given)
            carry = outs[: s.carry]
    if u.op is Op.WHILE:
        consts, carry = args[: u.arg.consts], args[u.arg.consts :]
        while run_program(u.arg.cond, [*consts, *carry])[0]:
            outs = run_program(u.arg.body, [*consts, *carry])
            if has_nan(outs):
                return origin(u.arg.body, [*consts, *carry])
            carry = outs
    return None


def line_near(u: UOp) -> tuple[str, bool]:
    """-> (the user's line of `u`, True), or (that of the nearest node below, False), or ("", False)."""
    own = lines.of(u)
    if own:
        return own, True
    for s in reversed(toposort([u])):
        if lines.of(s):
            return lines.of(s), False
    return "", False


def _inner(u: UOp) -> tuple[Program, ...]:
    if u.op is Op.WHILE:
        return (u.arg.cond, u.arg.body)
    if u.op is Op.COND:
        branches: tuple[Program, ...] = u.arg.branches
        return branches
    return (u.arg.body,) if u.op in (Op.SCAN, Op.CALL) else ()
