"""Sums of products stay recognisable as contractions: AD reduces each product before it adds them.

A product is a MUL of two expanded factors (below views); once reduced it is a contraction. Added to
another product first, in the index space of both, it no longer is. So the tangent of a sum, and
every cotangent on its way through a view, is taken apart into its products. Not a simplification:
sum(a + b) and sum(a) + sum(b) differ where one is infinite.
"""

from __future__ import annotations

from fgrad.uop.node import UOp
from fgrad.uop.op import Op

_VIEWS = (Op.PERMUTE, Op.RESHAPE, Op.NEG)
_BELOW = (
    Op.PERMUTE, Op.RESHAPE, Op.WINDOW, Op.SKEW, Op.PAD, Op.SHRINK, Op.FLIP, Op.NEG, Op.CAST,
)  # fmt: skip
_LOOK = 64  # nodes looked at; sums of more products than that stay as they are


def is_expanded(x: UOp) -> bool:
    """An EXPAND, below any views."""
    while x.op in _BELOW:
        x = x.src[0]
    return x.op is Op.EXPAND


def is_outer(u: UOp) -> bool:
    """A MUL of two expanded factors: a contraction once it is reduced."""
    return u.op is Op.MUL and is_expanded(u.src[0]) and is_expanded(u.src[1])


def holds_product(x: UOp) -> bool:
    """A product, or a sum (of negations, of views) of which one is a product."""
    stack, budget = [x], _LOOK
    while stack and budget:
        q = stack.pop()
        budget -= 1
        if q.op is Op.ADD:
            stack.extend(q.src)
        elif q.op in _VIEWS:
            stack.append(q.src[0])
        elif is_outer(q):
            return True
    return False


def addends(x: UOp) -> list[UOp]:
    """`x` as terms whose sum it is, taken apart, also below views, while a product is inside."""
    out: list[UOp] = []
    stack = [x]
    while stack:
        q = stack.pop()
        if len(stack) + len(out) < _LOOK:
            if q.op is Op.ADD and holds_product(q):
                stack.extend(reversed(q.src))
                continue
            if q.op in _VIEWS and q.src[0].op is Op.ADD and holds_product(q.src[0]):
                stack.extend([q.like(s) for s in reversed(q.src[0].src)])
                continue
        out.append(q)
    return out
