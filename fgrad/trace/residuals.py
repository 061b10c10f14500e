"""Which primal values the linear part keeps.

Cheap ones are computed again, from what is there anyway or is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import BITWISE, COMPARE, LEAVES, MOVEMENT, ROUNDING, Op

CHEAP = frozenset((
    *MOVEMENT, Op.CAST, Op.NEG, Op.NOT, Op.ABS, *ROUNDING, Op.SQRT, Op.RSQRT, Op.SIN, Op.COS,
    Op.REAL, Op.IMAG, Op.ADD, Op.MUL, Op.DIV, Op.MAX, Op.MIN, Op.COPYSIGN, *BITWISE, Op.SHL, Op.SHR,
    *COMPARE, Op.COMPLEX, Op.WHERE,
))  # fmt: skip
_MOST = 4  # values one is rebuilt from


def bytes_of(u: UOp) -> int:
    return max(1, math.prod(u.shape)) * u.dtype.itemsize


def is_constant(u: UOp) -> bool:
    return u.op in LEAVES and u.op is not Op.PARAM and u.op is not Op.BUFFER


def linear_reads(order: Sequence[UOp], linear: set[UOp], roots: Sequence[UOp]) -> list[UOp]:
    """The primal values that linear nodes read, or that are results no linear node makes."""
    reads: dict[UOp, None] = {}
    for u in order:
        if u in linear:
            for s in u.src:
                if s not in linear and s.dtype is not dt.void:
                    reads[s] = None
    for o in roots:
        if o not in linear:
            reads[o] = None
    return list(reads)


def to_keep(
    reads: Iterable[UOp], order: Iterable[UOp], linear: set[UOp], free: set[UOp]
) -> list[UOp]:
    """The values to keep so that all of `reads` can be computed from them and from `free` ones.

    A cheap node is computed again when what it needs is no bigger than itself.
    """
    needs: dict[UOp, tuple[UOp, ...]] = {}
    for u in order:
        if u in linear:
            continue
        if u in free or is_constant(u):
            needs[u] = ()
        elif u.op not in CHEAP:
            needs[u] = (u,)
        else:
            union = tuple(dict.fromkeys([x for s in u.src for x in needs.get(s, (s,))]))
            smaller = len(union) <= _MOST and sum(map(bytes_of, union)) <= bytes_of(u)
            needs[u] = union if smaller else (u,)
    return list(dict.fromkeys([x for u in reads for x in needs.get(u, (u,))]))
