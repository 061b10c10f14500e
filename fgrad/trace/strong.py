"""Strong zeros: what was masked contributes zero to a gradient, never 0 * inf.

A cotangent travels with a mask, "may be other than zero here", or None (anywhere). Its value is
exactly 0 where the mask is false. Masks are born where values are selected, cut out, gathered or
overwritten; they follow the cotangent through views and sums; and where a factor can be infinite or
NaN though the program's inputs are finite, the product is taken only where the mask is true. So it
is with any other factor, as inputs may be NaN, if the mask is at hand (`is_near`). Masks depend on
primal values alone, so derivatives of gradients stay right.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.trace.maybe import Maybe
from fgrad.trace.rules import Rules
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    and_,
    broadcast_to,
    const,
    is_const,
    not_,
    or_,
    pad,
    reduce_,
    reshape,
    update,
)
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op

Cotangent = tuple[UOp, Maybe]  # value, mask


def either(a: Maybe, b: Maybe) -> Maybe:
    """a or b; the two sides of one choice are together everywhere."""
    if a is None or b is None:
        return None
    if a is b:
        return a
    if _opposite(a, b):
        return None
    if a.op is Op.AND and b.op is Op.AND and a.src[0] is b.src[0] and _opposite(a.src[1], b.src[1]):
        return a.src[0]
    return or_(a, b)


def _opposite(a: UOp, b: UOp) -> bool:
    return (a.op is Op.NOT and a.src[0] is b) or (b.op is Op.NOT and b.src[0] is a)


def both(a: Maybe, b: Maybe) -> Maybe:
    return b if a is None else a if b is None or a is b else and_(a, b)


def tail(gate: UOp, like: UOp) -> UOp:
    """A mask of the leading axes, spread over all axes of `like`."""
    return broadcast_to(reshape(gate, gate.shape + (1,) * (like.ndim - gate.ndim)), like.shape)


def everywhere(u: UOp) -> UOp:
    return const(True, dt.bool_, u.shape)


def mask_of_source(transpose: Rules, u: UOp, j: int, m: Maybe, linear: Sequence[bool]) -> Maybe:
    """The mask of the cotangent that `u` hands to its source `j`, when its own has mask `m`.

    transpose   the table of cotangent rows: views move masks as they move values
    """
    op = u.op
    if op in (
        Op.NEG,
        Op.ADD,
        Op.CAST,
        Op.MUL,
        Op.DIV,
        Op.REAL,
        Op.IMAG,
        Op.COMPLEX,
        Op.AFTER,
        Op.COPY,
    ):
        return m
    if op is Op.WHERE:
        return both(m, u.src[0] if j == 1 else not_(u.src[0]))
    if op is Op.EXPAND:
        return None if m is None else _any(m, tuple([a for a, _ in u.arg]))
    if op is Op.SHRINK:
        moved: Maybe = transpose[op](u, everywhere(u) if m is None else m, linear)[0]
        return moved
    if op in (Op.RESHAPE, Op.PERMUTE, Op.PAD, Op.FLIP, Op.WINDOW, Op.SKEW, Op.REDUCE):
        moved = None if m is None else transpose[op](u, m, linear)[0]
        return moved
    if op is Op.GATHER:
        nothing = const(False, dt.bool_, u.src[0].shape)
        return update(nothing, everywhere(u) if m is None else m, idx=u.src[1], batch=u.arg)
    if op is Op.UPDATE:
        return _of_update(transpose, u, j, m)
    return None


def _of_update(transpose: Rules, u: UOp, j: int, m: Maybe) -> Maybe:
    """What was overwritten gets nothing.

    A gated value gets something only where the gate is open.
    """
    arg = u.arg
    if j == 0 and arg.mode is Mode.SET:
        old: Maybe = transpose[Op.UPDATE](u, everywhere(u) if m is None else m, (True, False))[0]
        return old
    if j == 0:
        return m
    if arg.mode in (Mode.SET, Mode.ADD) and (m is not None or arg.gated or arg.indexed):
        value: Maybe = transpose[Op.UPDATE](u, everywhere(u) if m is None else m, (False, True))[1]
        return value
    return None


def _any(m: UOp, axes: tuple[int, ...]) -> Maybe:
    """Where some element over `axes` may be other than zero: everywhere, if a part was cut out."""
    if m.op is Op.PAD and is_const(m.src[0]) and m.src[0].size:
        widths = [w for i, w in enumerate(m.arg) if i not in axes]
        left = tuple([n for i, n in enumerate(m.src[0].shape) if i not in axes])
        return pad(const(True, dt.bool_, left), widths) if any(map(any, widths)) else None
    return reduce_(m, axes, Op.OR)


_NEAR = (Op.AND, Op.OR, Op.NOT, Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP,
         Op.UPDATE)  # fmt: skip
_LOOK = 32


def is_near(m: UOp) -> bool:
    """A mask that costs little: no reduction of masks, as after a contraction, is below it."""
    stack, budget = [m], _LOOK
    while stack:
        q = stack.pop()
        budget -= 1
        if budget == 0 or (q.op is Op.REDUCE and q.arg[0] is Op.OR):
            return False
        if q.op is Op.UPDATE and q.arg.box is None:
            return False
        if q.op in _NEAR:
            stack.extend([s for s in q.src if s.dtype is dt.bool_])
    return True
