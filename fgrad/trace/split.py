"""split: makes every call purely primal or purely linear, between jvp and transposition.

A row is asked only about nodes that have a linear source. It receives the node and which sources
are linear, and returns (members, which of them are linear) with the node taken apart, or None: the
node is linear as a whole.
"""

from __future__ import annotations

from fgrad.trace import call, collective, control_split  # noqa: F401  rows of this table
from fgrad.trace.interpret import marked, split, split_rules
from fgrad.trace.maybe import merge, pick
from fgrad.trace.update import take_along
from fgrad.uop.build import iota_along
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import CALLS, Op
from fgrad.uop.program import gets

__all__ = ["marked", "split", "split_rules"]

_WHOLE = tuple(op for op in Op if op not in (*CALLS, Op.SORT, Op.TUPLE, Op.COPY, Op.COLLECTIVE))
split_rules(*_WHOLE)(lambda u, flags: None)


@split_rules(Op.SORT)
def _(u: UOp, flags: list[bool]) -> tuple[list[UOp], list[bool]] | None:
    """Linear payloads are permuted as the primal key is sorted."""
    if flags[0]:
        return None
    axis = u.arg
    plain = pick(u.src, flags, False)
    *sorted_, order = gets(uop(Op.SORT, (*plain, iota_along(u.src[0].shape, axis)), axis))
    return merge(flags, [take_along(x, order, axis) for x in pick(u.src, flags)], sorted_), flags


split_rules(Op.TUPLE)(lambda u, flags: (list(u.src), flags))
