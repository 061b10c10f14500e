"""The smallest and largest value of integer and bool nodes.

`Bounds()(u)` is an interval (lo, hi) that holds every element of `u`. It is never too narrow: an
arithmetic result that could wrap has the whole range of its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.uop.dtype import DType, int_range
from fgrad.uop.node import UOp, const_value
from fgrad.uop.op import Mode, Op

Interval = tuple[int, int]
Row = Callable[..., Interval]
ROWS: dict[Op, Row] = {}


class Bounds:
    """Intervals of integer nodes, remembered for as long as the object lives."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[UOp, Interval] = {}

    def __call__(self, root: UOp) -> Interval:
        """(lo, hi) of an integer or bool node; walks what it has not seen, without recursion."""
        known = self.known
        stack = [root]
        while stack:
            u = stack[-1]
            if u in known:
                stack.pop()
                continue
            row = ROWS.get(u.op)
            if row is None:
                known[u] = int_range(u.dtype)
                stack.pop()
                continue
            wanted = [s for s in u.src if s not in known and _is_integer(s.dtype)]
            if wanted:
                stack.extend(wanted)
                continue
            lo, hi = row(u, *[known.get(s, _NOTHING) for s in u.src])
            least, most = int_range(u.dtype)
            known[u] = (lo, hi) if least <= lo and hi <= most else (least, most)
            stack.pop()
        return known[root]


_NOTHING: Interval = (0, -1)  # stands for the sources that are no integers


def _is_integer(dtype: DType) -> bool:
    return isinstance(dtype, DType) and (dtype.is_int or dtype.name == "bool")


def row(*ops: Op) -> Callable[[Row], Row]:
    """Enter a row: the node and its sources' intervals to its interval."""

    def enter(f: Row) -> Row:
        for op in ops:
            ROWS[op] = f
        return f

    return enter


def _hull(*xs: Interval) -> Interval:
    return min(x[0] for x in xs), max(x[1] for x in xs)


def _corners(f: Callable[[int, int], int], x: Interval, y: Interval) -> Interval:
    """The interval of a function that is monotone in each operand."""
    values = [f(a, c) for a in x for c in y]
    return min(values), max(values)


def _whole(u: UOp) -> Interval:
    return int_range(u.dtype)


@row(Op.CONST)
def _(u: UOp) -> Interval:
    value = int(const_value(u))
    return value, value


row(Op.IOTA)(lambda u: (0, max(u.arg[1] - 1, 0)) if u.dtype.is_int else _whole(u))
row(Op.VARIABLE)(lambda u: (u.arg[1], u.arg[2]))


@row(
    Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SHRINK, Op.FLIP, Op.WINDOW, Op.COPY, Op.AFTER,
    Op.LOAD,
)  # fmt: skip
def _(u: UOp, x: Interval, *_rest: Interval) -> Interval:
    return x


row(Op.PAD, Op.SKEW, Op.GATHER)(lambda u, x, *_: _hull(x, (0, 0)))


@row(Op.CAST)
def _(u: UOp, x: Interval) -> Interval:
    if x == _NOTHING:
        return _whole(u)
    if u.dtype.name == "bool":
        return (int(x[0] > 0 or x[1] < 0), int(x != (0, 0)))
    return x


row(Op.NEG)(lambda u, x: (-x[1], -x[0]))
row(Op.NOT)(lambda u, x: (1 - x[1], 1 - x[0]) if u.dtype.name == "bool" else (
    (-1 - x[1], -1 - x[0]) if u.dtype.is_signed else _whole(u)))  # fmt: skip
row(Op.ABS)(lambda u, x: x if x[0] >= 0 else (0 if x[1] >= 0 else -x[1], max(-x[0], x[1])))


@row(Op.ADD)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    if u.dtype.name == "bool":
        return max(x[0], y[0]), max(x[1], y[1])
    return x[0] + y[0], x[1] + y[1]


row(Op.MUL)(lambda u, x, y: _corners(lambda a, c: a * c, x, y))


@row(Op.IDIV)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    if y[0] <= 0:  # by zero gives 0, by negative numbers it turns around
        most = max(abs(x[0]), abs(x[1]))
        return (0 if x[0] >= 0 and y[0] >= 0 else -most), most
    return _corners(lambda a, c: a // c, x, y)


@row(Op.MOD)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    if y[0] > 0 and 0 <= x[0] and x[1] < y[0]:
        return x
    return min(0, y[0] + 1), max(0, y[1] - 1)


row(Op.MAX)(lambda u, x, y: (max(x[0], y[0]), max(x[1], y[1])))
row(Op.MIN)(lambda u, x, y: (min(x[0], y[0]), min(x[1], y[1])))


@row(Op.AND)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    least = [hi for lo, hi in (x, y) if lo >= 0]
    return (0, min(least)) if least else _whole(u)


@row(Op.OR, Op.XOR)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    if x[0] < 0 or y[0] < 0:
        return _whole(u)
    ones = (1 << max(x[1], y[1]).bit_length()) - 1
    return (max(x[0], y[0]) if u.op is Op.OR else 0), ones


@row(Op.SHL)
def _(u: UOp, x: Interval, n: Interval) -> Interval:
    if n[0] < 0 or n[1] >= u.dtype.bits:
        return _whole(u)
    return _corners(lambda a, k: a << k, x, n)


@row(Op.SHR)
def _(u: UOp, x: Interval, n: Interval) -> Interval:
    if n[0] < 0:
        return min(x[0], 0 if x[0] >= 0 else -1), max(x[1], 0)
    return _corners(lambda a, k: a >> min(k, 64), x, n)


@row(Op.LT)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    if _NOTHING in (x, y):
        return 0, 1
    return int(x[1] < y[0]), int(x[0] < y[1])


@row(Op.LE)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    if _NOTHING in (x, y):
        return 0, 1
    return int(x[1] <= y[0]), int(x[0] <= y[1])


@row(Op.EQ)
def _(u: UOp, x: Interval, y: Interval) -> Interval:
    if _NOTHING in (x, y):
        return 0, 1
    return int(x[0] == x[1] == y[0] == y[1]), int(x[0] <= y[1] and y[0] <= x[1])


@row(Op.WHERE)
def _(u: UOp, c: Interval, x: Interval, y: Interval) -> Interval:
    return (y, _hull(x, y), x)[c[0] + c[1]]


@row(Op.REDUCE)
def _(u: UOp, x: Interval) -> Interval:
    op, axes = u.arg
    n = 1
    for a in axes:
        n *= u.src[0].shape[a]
    if n == 0:
        return _whole(u)
    if op in (Op.MAX, Op.MIN) or (u.dtype.name == "bool" and op in (Op.ADD, Op.MUL)):
        return x
    return (n * x[0], n * x[1]) if op is Op.ADD else _whole(u)


@row(Op.PREFIX)
def _(u: UOp, x: Interval) -> Interval:
    op, axis, _ = u.arg
    if op in (Op.MAX, Op.MIN) or u.dtype.name == "bool":
        return x
    n = max(u.shape[axis], 1)
    return (min(x[0], n * x[0]), max(x[1], n * x[1])) if op is Op.ADD else _whole(u)


@row(Op.UPDATE)
def _(u: UOp, old: Interval, value: Interval, *_rest: Interval) -> Interval:
    mode: Any = u.arg.mode
    return _hull(old, value) if mode in (Mode.SET, Mode.MIN, Mode.MAX) else _whole(u)
