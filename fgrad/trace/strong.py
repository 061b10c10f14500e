"""Strong zeros: what was masked contributes zero to a gradient, never 0 * inf.

A cotangent travels with a mask, "may be other than zero here", or None (anywhere). Its value is
exactly 0 where the mask is false. Masks are born where values are selected, cut out, gathered or
overwritten; they follow the cotangent through views and sums; and where a factor can be infinite or
NaN though the program's inputs are finite, the product is taken only where the mask is true. Masks
depend on primal values alone, so derivatives of gradients stay right.
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
    reduce_,
    reshape,
    scalar_of,
    update,
)
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Program

Cotangent = tuple[UOp, Maybe]  # value, mask

# infinite or NaN for some finite operand
SINGULAR = frozenset((
    Op.DIV, Op.SQRT, Op.RSQRT, Op.CBRT, Op.EXP, Op.EXP2, Op.EXPM1, Op.LOG, Op.LOG2, Op.LOG10,
    Op.LOG1P, Op.TAN, Op.ASIN, Op.ACOS, Op.SINH, Op.COSH, Op.ACOSH, Op.ATANH, Op.ERF_INV, Op.LGAMMA,
    Op.DIGAMMA, Op.MOD, Op.POW,
))  # fmt: skip
_PASSES = frozenset((
    Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.WINDOW, Op.SKEW, Op.CAST,
    Op.NEG, Op.ABS, Op.ADD, Op.MUL, Op.REAL, Op.IMAG, Op.COMPLEX, Op.REDUCE, Op.PREFIX, Op.GATHER,
    Op.AFTER, Op.COPY, Op.MAX, Op.MIN,
))  # fmt: skip
_LOOK = 48  # nodes looked at before a factor counts as singular


def either(a: Maybe, b: Maybe) -> Maybe:
    return None if a is None or b is None else a if a is b else or_(a, b)


def both(a: Maybe, b: Maybe) -> Maybe:
    return b if a is None else a if b is None or a is b else and_(a, b)


class Singular:
    """Asks of a node whether it can be infinite or NaN for finite inputs.

    `params` are known to be.
    """

    def __init__(self, params: Sequence[UOp] = ()) -> None:
        self.known: dict[UOp, bool] = dict.fromkeys(params, True)

    def __call__(self, r: UOp) -> bool:
        found = self.known.get(r)
        if found is None:
            found = self.known[r] = self._search(r)
        return found

    def _search(self, r: UOp) -> bool:
        seen: set[UOp] = set()
        stack = [r]
        while stack:
            q = stack.pop()
            if q in seen or self.known.get(q) is False:
                continue
            if self.known.get(q) or len(seen) > _LOOK:
                return True
            seen.add(q)
            if q.op is Op.DIV and is_const(q.src[1]) and scalar_of(q.src[1]) != 0:
                stack.append(q.src[0])
            elif q.op in SINGULAR:
                return True
            elif q.op in _PASSES:
                stack.extend([s for s in q.src if s.dtype is q.dtype or q.op is not Op.GATHER])
            elif q.op is Op.GET and self._loop(q):
                return True
        return False

    def _loop(self, q: UOp) -> bool:
        """A result of a call: look into its program; what it was given is taken as finite."""
        arg = q.src[0].arg
        bodies: tuple[Program, ...] = ()
        if q.src[0].op in (Op.SCAN, Op.WHILE, Op.CALL):
            bodies = (arg.body,)
        elif q.src[0].op is Op.COND:
            bodies = arg.branches
        inner = Singular()
        return any(inner(b.outs[q.arg]) for b in bodies)


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
        return None if m is None else reduce_(m, [a for a, _ in u.arg], Op.OR)
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
