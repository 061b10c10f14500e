"""How many lanes a kernel has: those of a register, or of a few."""

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


# A long body is one chain of dependent instructions, too long for the processor to look beyond. Values of
# several registers put as many chains side by side: what a register's worth then costs, against one alone.
COSTS = {4: 0.55, 2: 0.65, 1: 1.0}


def registers_for(size: int, lanes: int) -> int:
    """Registers to a value of a long body, in a loop over `size` elements with `lanes` to a register.

    The last value of the loop is computed whole, whatever is missing of it.
    """
    return min(COSTS, key=lambda n: -(-size // (n * lanes)) * n * COSTS[n])
