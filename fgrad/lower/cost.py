"""What things cost, roughly: vector instructions of an op, nanoseconds of a kernel."""

from __future__ import annotations

from fgrad.lower.functions.table import FUNCTIONS
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import FLOAT_FUNCTIONS, Op

_NAMES = {Op.ERF_INV: "erfinv"}
_SMOOTH = (*FLOAT_FUNCTIONS, Op.POW, Op.ATAN2, Op.HYPOT, Op.LOGADDEXP)
_COST = {op: FUNCTIONS[_NAMES.get(op, op.name.lower())].cost for op in _SMOOTH}
_COST |= {
    Op.DIV: 6,
    Op.IDIV: 30,
    Op.MOD: 40,
    Op.THREEFRY: 100,
    Op.MAX: 2,
    Op.MIN: 2,
    Op.SQRT: 8,
    Op.CAST: 1,
}
_FREE = (Op.BITCAST, Op.REAL, Op.IMAG)

EXPENSIVE = 20  # from here a value is worth memory rather than a second evaluation
TASK_NS = 20_000  # work a task should have at least
MAX_TASKS = 32  # more than any machine's cores we split one kernel over, few enough to be cheap
STREAM_BYTES = 8 << 20  # outputs from here on are stored past the caches


def op_cost(u: UOp) -> int:
    """Vector instructions of one elementwise op."""
    cost = 0 if u.op in _FREE else _COST.get(u.op, 1)
    if u.dtype in dt.SMALL_FLOATS:
        cost += 6
    return cost


def work_ns(instructions: float, lanes: int, bytes_moved: float) -> float:
    """Time of `instructions` scalar operations done in lanes, or of moving the bytes, whichever is
    longer.
    """
    return max(instructions / max(lanes, 1) * 0.4, bytes_moved * 0.08)


def tasks_for(ns: float, most: int) -> int:
    """How many tasks a kernel is split into: depends on its work only, never on the machine's
    threads.
    """
    n = int(min(ns / TASK_NS, MAX_TASKS, most))
    return max(n, 1)
