"""Tables of rewriting rows, the engine that applies them, and the questions that rows ask of nodes.

A row `(u, make) -> UOp | None` states one equation: it returns another node of the same value, or
None where it does not apply. It builds through `make(op, src, arg)`, the Rewriter, which returns
the normal form of that node, so what a row returns needs no second look. A row is right alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgrad.uop import build as b
from fgrad.uop.bounds import Bounds
from fgrad.uop.dtype import WITHOUT_INFINITY, DType
from fgrad.uop.lines import lines
from fgrad.uop.node import Src, UOp, const_value, paused_gc, toposort, uop
from fgrad.uop.op import Op

_DEEPEST = 64  # rows nested more deeply leave the node as it is; bounds Python's stack


class Rows:
    """A table of rows: for every op, in the order they were entered; the first that fires wins."""

    def __init__(self, *tables: Rows) -> None:
        self.of: dict[Op, list[Row]] = {}
        for table in tables:
            for op, rows in table.of.items():
                self.of.setdefault(op, []).extend(rows)

    def __call__(self, *ops: Op) -> Callable[[Row], Row]:
        """Enter a row for `ops`."""

        def enter(row: Row) -> Row:
            for op in ops:
                self.of.setdefault(op, []).append(row)
            return row

        return enter


class Rewriter:
    """One pass: every node is made anew from normal sources, and rewritten by its rows."""

    __slots__ = ("rows", "known", "depth", "bounds")

    def __init__(self, rows: Mapping[Op, Sequence[Row]]) -> None:
        self.rows = rows
        self.known: dict[UOp, UOp] = {}
        self.depth = 0
        self.bounds = Bounds()

    def __call__(self, op: Op, src: Src, arg: Any = None) -> UOp:
        """The normal form of a node over normal sources."""
        return self.normal(uop(op, src, arg))

    def normal(self, u: UOp) -> UOp:
        """The normal form of `u`, whose sources are normal."""
        found = self.known.get(u)
        if found is not None:
            return found
        out = u
        rows = self.rows.get(u.op)
        if rows is not None and self.depth < _DEEPEST:
            self.depth += 1
            try:
                for row in rows:
                    new = row(u, self)
                    if new is not None:
                        out = new
                        break
            finally:
                self.depth -= 1
            self.known[u] = out
        return out

    def walk(self, outs: Sequence[UOp], start: Mapping[UOp, UOp] | None = None) -> list[UOp]:
        """`outs` in normal form, with the nodes of `start` replaced first. Linear, no recursion."""
        done: dict[UOp, UOp] = dict(start) if start else {}
        normal = self.normal
        with paused_gc():
            for u in toposort(outs):
                if u in done:
                    continue
                src = u.src
                new = tuple([done[s] for s in src])
                done[u] = normal(u if new == src else uop(u.op, new, u.arg))
        if lines.recording:
            lines.carry(done)
        return [done[o] for o in outs]


Row = Callable[[UOp, Rewriter], UOp | None]
Make = Rewriter  # the name that rows call it by


# ---- questions
def constant(u: UOp) -> UOp | None:
    """The CONST that every element of `u` is, or None. Constants are EXPANDs of a CONST."""
    if u.op is Op.EXPAND:
        u = u.src[0]
    return u if u.op is Op.CONST else None


def value(u: UOp) -> Any:
    """The NumPy scalar that every element of `u` is, or None."""
    c = constant(u)
    return None if c is None else const_value(c)


def is_value(u: UOp, number: int) -> bool:
    """Is every element of `u` this number (either zero for 0)?"""
    v = value(u)
    return v is not None and bool(v == number)


def filled(number: Any, u: UOp) -> UOp:
    """The constant like `u`; integers wrap into its dtype."""
    if u.dtype.is_int:
        number = int(number) & ((1 << u.dtype.bits) - 1)
        if u.dtype.is_signed and number >> (u.dtype.bits - 1):
            number -= 1 << u.dtype.bits
    return b.const_like(number, u)


def no_ones(shape: Sequence[int]) -> list[int]:
    """The axes that have not exactly one element."""
    return [i for i, n in enumerate(shape) if n != 1]


def only_ones(a: Sequence[int], c: Sequence[int]) -> bool:
    """Do two shapes differ only by axes of one element?"""
    return [n for n in a if n != 1] == [n for n in c if n != 1]


# Of each float: its digits, -log2 of the least positive value, log2 of what all values are below.
_FLOATS = {
    "float8_e4m3fn": (4, 9, 9), "float8_e5m2": (3, 16, 16), "float8_e3m4": (5, 6, 4), "float8_e4m3": (4, 9, 8),
    "float8_e4m3b11fnuz": (4, 13, 5), "float8_e4m3fnuz": (4, 10, 8), "float8_e5m2fnuz": (3, 17, 16),
    "float16": (11, 24, 16), "bfloat16": (8, 133, 128), "float32": (24, 149, 128), "float64": (53, 1074, 1024),
}  # fmt: skip


def holds(wide: DType, narrow: DType) -> bool:
    """Is every value of the dtype `narrow` also one of `wide`? (False when one is complex.)"""
    if wide is narrow or narrow.name == "bool":
        return True
    if wide.name == "bool" or wide.is_complex or narrow.is_complex:
        return False
    if narrow.is_int:
        value_bits = narrow.bits - narrow.is_signed
        if wide.is_int:
            room = wide.bits - wide.is_signed
            return room >= value_bits and (wide.is_signed or not narrow.is_signed)
        digits, _, largest = _FLOATS[wide.name]
        return digits >= value_bits and largest > value_bits
    if not wide.is_float or wide in WITHOUT_INFINITY:
        return False
    return all(a >= c for a, c in zip(_FLOATS[wide.name], _FLOATS[narrow.name], strict=True))
