"""What the next row of a kernel needs comes into the caches while the present one is computed.

A row that is gone through several times (softmax: maximum, sum, quotient) is first read at the pace of
memory, with nothing to compute meanwhile, and then computed with nothing to read. So the second time
through also asks for what the first will want in the next row: Call("ahead"), which means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fgrad.lower.index import Expr, add
from fgrad.lower.kernel import Call

if TYPE_CHECKING:
    from fgrad.lower.generate import Writer

LINE = 64  # bytes that come at once
WORTHWHILE = 1024  # bytes of a row: less is there before the processor has begun to wait
KEPT = 128 << 10  # bytes of a row: more is gone again before the next one begins


@dataclass(frozen=True, slots=True)
class Ahead:
    """Operand of Call("ahead"): elements of `buffer`, each of `itemsize` bytes, at `address` and the lanes after it."""

    buffer: int
    address: Expr
    itemsize: int


def ahead(buffer: int, itemsize: int, address: Expr, row: int, lane: int, columns: int) -> Iterable[Call]:
    """The Call that asks for the elements one step of the atom `row` after `address`, if that is worthwhile.

    `lane` is the atom of the vector loop that the Call will stand in, of `columns` positions.
    """
    steps = dict(address[1])
    if steps.get(lane) == 1 and row in steps and WORTHWHILE <= columns * itemsize <= KEPT:
        yield Call("ahead", (), (Ahead(buffer, add(address, (steps[row], ())), itemsize),))


def write_ahead(w: Writer, call: Call) -> None:
    """Ask for every line of what the unrolled copies cover."""
    wanted = call.operands[0]
    assert isinstance(wanted, Ahead)
    if w.ev.open is None:
        return  # element by element nothing waits for memory
    w.ev.open.u = 0
    first, _ = w.ev.split(wanted.address)
    start = w.e.pointer(w.ev.buffers[wanted.buffer], w.e.mul(w.ev.i64(first), wanted.itemsize), "i8")
    w.e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for offset in range(0, w.width * len(w.copies) * wanted.itemsize, LINE):
        w.e.do(f"call void @llvm.prefetch.p0(ptr {w.e.pointer(start, offset, 'i8')}, i32 0, i32 2, i32 1)")
