"""The code of a Sort: calls of the functions in `sort_text`, row by row, or piece by piece of a row in phases."""

from __future__ import annotations

from fgrad.lower.emit import I64, Emitter
from fgrad.lower.kernel import Kernel, Sort
from fgrad.lower.sort import STATS_WORDS, Layout, layout
from fgrad.lower.sort_text import SortText, by_rank


class SortWriter:
    """Writes one Sort statement with emitter `e`; `buffers` and `scratch` are pointers."""

    def __init__(
        self, e: Emitter, kernel: Kernel, s: Sort, buffers: list[str], scratch: list[str], vector_bytes: int
    ) -> None:
        self.e, self.kernel, self.s = e, kernel, s
        self.buffers = buffers
        self.layout: Layout = layout(kernel, s)
        self.text = SortText(self.layout, vector_bytes)
        self.space = buffers[s.space] if s.pieces > 1 else scratch[s.space]
        for line in self.text.declarations:
            e.declare(line)

    def write(self, phase: str) -> None:
        """All rows of this task; `phase`: the number of the phase, of a row in pieces."""
        e, s = self.e, self.s
        if s.pieces > 1:
            row = e.value(f"udiv i64 %task, {s.pieces}", "%task")
            piece = e.value(f"urem i64 %task, {s.pieces}", "%task")
            self._piece(row, piece, phase)
            return
        lo: I64 = 0
        hi: I64 = s.rows
        if self.kernel.tasks > 1:
            per = -(-s.rows // self.kernel.tasks)
            lo = e.mul("%task", per)
            hi = e.minimum(e.add(lo, per), s.rows)

        def row_of(i: I64, _: list[str]) -> list[str]:
            if self.layout.is_short:
                self._short_row(i)
            else:
                self._row(i)
            return []

        e.loop(lo, hi, 1, [], row_of)

    def _call(self, function: tuple[str, str], *operands: str) -> None:
        name, text = function
        self.e.helpers[name] = text
        self.e.do(f"call void {name}({', '.join(operands)})")

    def _in_row(self, buffer: int, row: I64) -> str:
        """Pointer to the row of a buffer."""
        dtype = self.kernel.buffers[buffer].dtype
        return self.e.pointer(self.buffers[buffer], self.e.mul(row, self.s.n), f"i{dtype.bits}")

    def _short_row(self, row: I64) -> None:
        s = self.s
        keys, ranks = [self.e.pointer(self.space, o) for o in self.layout.offsets[0]]
        self._call(self.text.ranks(), f"ptr {self._in_row(s.sources[0], row)}", f"ptr {keys}", f"ptr {ranks}")
        for source, target in zip(s.sources, s.targets, strict=True):
            if target >= 0:
                size = self.kernel.buffers[source].dtype.itemsize if source >= 0 else 0
                from_ = self._in_row(source, row) if source >= 0 else ranks
                to = self._in_row(target, row)
                self._call(by_rank(size), f"ptr {ranks}", f"ptr {from_}", f"ptr {to}", f"i64 {s.n}")

    def _row(self, row: I64) -> None:
        parts = [self.e.pointer(self.space, o) for o in self.layout.offsets[0]]

        def phase(i: I64, _: list[str]) -> list[str]:
            self._sort(str(i), "0", row, parts, 0, self.s.n)
            return []

        self.e.loop(0, self.layout.sorting_phases, 1, [], phase)
        self._results(row, parts, parts[2], 0, self.s.n)
        self._odd(row, parts, parts[2])

    def _piece(self, row: str, piece: str, phase: str) -> None:
        e, n = self.e, self.s.n
        space = e.pointer(self.space, e.mul(row, self.layout.offsets[1]))
        parts = [e.pointer(space, o) for o in self.layout.offsets[0]]
        lo, hi = [
            e.value(f"udiv i64 {ends}, {self.s.pieces}", ends)
            for ends in (e.mul(piece, n), e.mul(e.add(piece, 1), n))
        ]  # fmt: skip
        self._sort_functions()
        stats = e.pointer(parts[2], e.mul(piece, 8 * STATS_WORDS))

        def only(number: int) -> str:
            return e.value(f"icmp eq i64 {phase}, {number}", phase)

        def sort() -> list[tuple[str, str]]:
            self._sort(phase, piece, row, parts, lo, hi)
            return []

        def results() -> list[tuple[str, str]]:
            self._results(row, parts, stats, lo, hi)
            return []

        def odd() -> list[tuple[str, str]]:
            self._odd(row, parts, stats)
            return []

        last = self.layout.sorting_phases
        e.branch(e.value(f"icmp ult i64 {phase}, {last}", phase), sort)
        e.branch(only(last), results)
        if self.layout.restores:
            first = e.value(f"icmp eq i64 {piece}, 0", piece)
            both = e.value(f"and i1 {first}, {only(last + 1)}", first, only(last + 1))
            e.branch(both, odd)

    def _sort_functions(self) -> None:
        t = self.text
        for name, text in (t.load(), t.plan(), t.count(), t.places(), t.move()):
            self.e.helpers[name] = text

    def _sort(self, phase: str, piece: str, row: I64, parts: list[str], lo: I64, hi: I64) -> None:
        self._sort_functions()
        pieces = f"i64 {phase}", f"i64 {piece}", f"i64 {self.s.pieces}"
        spaces = [f"ptr {p}" for p in parts]
        self._call(
            self.text.phase(), *pieces, f"ptr {self._in_row(self.s.sources[0], row)}", *spaces, f"i64 {lo}", f"i64 {hi}"
        )

    def _results(self, row: I64, parts: list[str], stats: str, lo: I64, hi: I64) -> None:
        s, t = self.s, self.text
        arrays = f"ptr {stats}", f"ptr {parts[0]}", f"ptr {parts[1]}"
        ends = f"i64 {lo}", f"i64 {hi}"
        for i, (source, target) in enumerate(zip(s.sources, s.targets, strict=True)):
            if target < 0:
                continue
            to = f"ptr {self._in_row(target, row)}"
            if source < 0:
                self._call(t.positions(), *arrays, to, *ends)
            elif i == 0 and not self.layout.carries:
                self._call(t.keys(), *arrays, to, *ends)
            else:
                from_ = f"ptr {self._in_row(source, row)}"
                size = self.kernel.buffers[source].dtype.itemsize
                self._call(t.keys() if i == 0 else t.payload(size), *arrays, from_, to, *ends)

    def _odd(self, row: I64, parts: list[str], stats: str) -> None:
        if self.layout.restores and self.s.targets[0] >= 0:
            arrays = f"ptr {stats}", f"ptr {parts[0]}", f"ptr {parts[1]}"
            from_, to = (f"ptr {self._in_row(b, row)}" for b in (self.s.sources[0], self.s.targets[0]))
            self._call(self.text.odd(), *arrays, from_, to, f"i64 {self.s.n}")
