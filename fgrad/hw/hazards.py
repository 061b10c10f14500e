"""Which earlier accesses a later one must wait for, byte by byte.

A read waits for the last write of each of its bytes; a write waits for the last write and for all
reads since. A write to some bytes of a block forgets the older accesses of those bytes only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from fgrad.hw.command import Span, Sym


@dataclass(slots=True)
class _Piece:
    """The accesses of the bytes from `start` up to the next piece."""

    start: int
    writer: int | None = None
    readers: set[int] = field(default_factory=set)

    def cut(self, start: int) -> _Piece:
        return _Piece(start, self.writer, set(self.readers))


class _Ranges:
    """Adjacent pieces that cover all bytes of one block, in order."""

    def __init__(self) -> None:
        self.starts = [0]
        self.pieces = [_Piece(0)]

    def between(self, start: int, end: int) -> slice:
        """The pieces that make up start..end, cut where they cross its ends."""
        return slice(self._cut(start), self._cut(end))

    def _cut(self, at: int) -> int:
        i = bisect_right(self.starts, at) - 1
        if self.starts[i] != at:
            i += 1
            self.starts.insert(i, at)
            self.pieces.insert(i, self.pieces[i - 1].cut(at))
        return i

    def overwrite(self, where: slice, writer: int) -> None:
        first = self.pieces[where.start]
        self.pieces[where] = [_Piece(first.start, writer)]
        self.starts[where] = [first.start]


class Hazards:
    """Follows accesses in program order. Numbers name the accesses; they grow."""

    def __init__(self) -> None:
        self._blocks: dict[int | Sym, _Ranges] = {}

    def access(self, number: int, reads: Iterable[Span], writes: Iterable[Span]) -> set[int]:
        """Note that access `number` comes next; returns the earlier ones it must wait for."""
        found: set[int] = set()
        reads, writes = list(reads), list(writes)
        for span in reads:
            for piece in self._pieces(span):
                if piece.writer is not None:
                    found.add(piece.writer)
        for span in writes:
            for piece in self._pieces(span):
                if piece.writer is not None:
                    found.add(piece.writer)
                found |= piece.readers
        for span in reads:
            for piece in self._pieces(span):
                piece.readers.add(number)
        for span in writes:
            if span.length:
                ranges = self._ranges(span)
                ranges.overwrite(ranges.between(span.offset, span.offset + span.length), number)
        found.discard(number)
        return found

    def last(self, spans: Iterable[Span]) -> set[int]:
        """The accesses after which these bytes are at rest."""
        found: set[int] = set()
        for span in spans:
            for piece in self._pieces(span):
                found |= piece.readers
                if piece.writer is not None:
                    found.add(piece.writer)
        return found

    def _ranges(self, span: Span) -> _Ranges:
        return self._blocks.setdefault(span.block.base, _Ranges())

    def _pieces(self, span: Span) -> list[_Piece]:
        if not span.length:
            return []
        ranges = self._ranges(span)
        return ranges.pieces[ranges.between(span.offset, span.offset + span.length)]
