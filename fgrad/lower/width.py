"""How many lanes a kernel has."""

from __future__ import annotations

from collections.abc import Iterable

from fgrad.lower.limits import Limits
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Op


def choose_width(limits: Limits, nodes: Iterable[UOp]) -> int:
    """Lanes for the widest type that `nodes` compute with: 32 bits at least where small floats are
    involved.
    """
    widest = 1
    for u in nodes:
        if not isinstance(u.dtype, dt.DType) or u.op is Op.CONST:
            continue
        size = 4 if u.dtype in dt.SMALL_FLOATS else u.dtype.itemsize
        widest = max(widest, size)
    if widest == 1:
        widest = 2  # 64 lanes of bytes gain little and cost much text
    return limits.vector_bytes // widest
