"""Long reductions as sums of sums: the rounding error of a sum grows with its longest chain of additions.

The elements of a row go to the lanes of a vector loop; each lane adds up STEP of its elements, then STEP of
these sums, and so on. The unrolled copies of the vector loop are far apart, so that memory is read as
several streams at once, which is faster than one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fgrad.lower.index import Expr, Ranges, add, constant, scale

STEP = 32  # additions in a chain


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an axis.

    position  of an element on the axis
    lanes     the range of the vector loop, `width` positions in `copies`
    loops     ranges and sizes of the loops inside it, outermost first
    """

    position: Expr
    lanes: Expr
    width: int
    copies: int
    loops: tuple[tuple[Expr, int], ...] = ()


def is_long(size: int, lanes: int, copies: int) -> bool:
    """Whether an axis is worth being cut up."""
    return size >= 2 * STEP * lanes * copies


def segments(ranges: Ranges, size: int, lanes: int, copies: int) -> Iterator[Segment]:
    """An axis of `size` elements in segments, for vectors of `lanes` elements in `copies` streams."""
    width = lanes * copies
    pieces = size // (width * STEP)  # of STEP vectors in each stream
    if size - pieces * STEP * width == 1:  # a range has two positions at least
        pieces -= 1
    stream = pieces * STEP * lanes
    start = 0
    while pieces:
        count, sizes = pieces, [STEP]
        while count >= STEP:
            count //= STEP
            sizes.append(STEP)
        pieces -= count * STEP ** (len(sizes) - 1)
        lane = ranges.range(width)
        loops = [(ranges.range(n), n) for n in (count, *sizes)]
        position = add(constant(start), ranges.mod(lane, lanes))
        position = add(position, scale(ranges.div(lane, lanes), stream))
        step = lanes
        for e, n in reversed(loops):
            position = add(position, scale(e, step))
            step *= n
        start += step
        yield Segment(position, lane, width, copies, tuple(loops))
    rest = size - stream * copies
    if rest:
        lane = ranges.range(rest)
        yield Segment(add(constant(size - rest), lane), lane, rest, copies)
