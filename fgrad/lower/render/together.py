"""Which loops an interpreter may run all positions of at once, statement by statement, and how
many.

Running a body for many positions at once changes nothing if no position sees what another one
wrote: no accumulator is read while it is folded, and memory both written and read in the body is
accessed at one address per position, another for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd

from fgrad.lower.index import Expr, Index
from fgrad.lower.kernel import (
    Acc,
    Call,
    Fold,
    Keep,
    Kernel,
    Loop,
    LoopKind,
    Reduction,
    Sort,
    Stmt,
    Store,
)
from fgrad.lower.render.walk import Views, nodes_read, values_in
from fgrad.uop.node import UOp

MOST = 1 << 16  # positions at once; each value computed takes that many elements
DEEPEST = 16  # loops at once; NumPy arrays have at most 32 axes

Memory = tuple[str, int]  # ("buffer" | "scratch", number)
Access = tuple[Memory, Expr]


class Together:
    """`chunk[loop]` is the number of positions to run at once; 1: one after the other.

    same  for each buffer, the first one that is the same memory; default: all differ
    """

    def __init__(self, kernel: Kernel, views: Views, same: Sequence[int] | None = None) -> None:
        self.kernel = kernel
        self.views = views
        self.same = range(len(kernel.buffers)) if same is None else same
        self.chunk: dict[Loop, int] = {}
        self._keeps: dict[UOp, Keep | Store] = {}
        for s in kernel.walk():
            if isinstance(s, Keep):
                self._keeps[s.node] = s
            elif isinstance(s, Store) and s.keep:
                self._keeps[s.value] = s
        self._accs = {a.node: a for s in kernel.walk() if isinstance(s, Reduction) for a in s.accs}
        self._read: dict[int, tuple[set[Access], set[Acc]]] = {}
        self._plan(kernel.body, 0)
        self.shared = {s: self._shared(s) for s in kernel.body if self.is_task(s)}

    def _plan(self, body: Sequence[Stmt], depth: int) -> int:
        """Positions that the loops in `body` run at once, at most."""
        most = 1
        for s in body:
            if isinstance(s, Loop):
                can = depth < DEEPEST and self._may(s)
                inner = self._plan(s.body, depth + can)
                n = max(1, min(s.size, MOST // inner)) if can else 1
                self.chunk[s] = n
                most = max(most, n * inner)
            elif isinstance(s, Reduction | Call):
                most = max(most, self._plan(s.body, depth))
        return most

    def is_task(self, s: Stmt) -> bool:
        """Whether the positions of `s` are shared out among workers."""
        if not isinstance(s, Loop):
            return False
        return s.kind is LoopKind.TASK or (self.kernel.tasks > 1 and self.kernel.body == (s,))

    def _shared(self, loop: Stmt) -> frozenset[Memory]:
        """Buffers that the body writes, and of which addresses do not tell that each position has
        elements of its own.
        """
        assert isinstance(loop, Loop)
        inside = list(_all(loop.body))
        ranges = {loop.range, *[s.range for s in inside if isinstance(s, Loop)]}
        writes = [w for s in inside for w in self._writes(s) if w[0][0] == "buffer"]
        reads = {r for s in inside for r in self._reads(s)[0]}
        out = set()
        for memory in {m for m, _ in writes}:
            used = {e for m, e in writes if m == memory} | {e for m, e in reads if m == memory}
            e = next(iter(used))
            if len(used) > 1 or not self.is_injective(e, ranges, loop.range):
                out.add(memory)
        return frozenset(out)

    def _may(self, loop: Loop) -> bool:
        inside = list(_all(loop.body))
        if any(isinstance(s, Sort) for s in inside):
            return False
        own = {a for s in inside if isinstance(s, Reduction) for a in s.accs}
        reads: set[Access] = set()
        used: set[Acc] = set()
        for s in inside:
            accesses, accs = self._reads(s)
            reads |= accesses
            used |= accs
        folded = {s.acc for s in inside if isinstance(s, Fold)}
        if (folded & used) - own:
            return False
        ranges = {loop.range, *[s.range for s in inside if isinstance(s, Loop)]}
        return self._private(loop, ranges, [w for s in inside for w in self._writes(s)], reads)

    def _private(
        self, loop: Loop, ranges: set[int], writes: list[Access], reads: set[Access]
    ) -> bool:
        """Whether each position of `loop` accesses memory that the body writes at places of its
        own.
        """
        for memory in dict.fromkeys([m for m, _ in writes]):
            every = [e for m, e in writes if m == memory]
            written = list(dict.fromkeys(every))
            read = {e for m, e in reads if m == memory}
            if len(every) == 1 and not read:
                continue  # the last of several writes to one place wins, as in order
            if len(written) > 1 and not _apart(written):
                return False
            if not read <= set(written) or (read and len(written) > 1):
                return False
            if len(written) == 1 and not self.is_injective(written[0], ranges, loop.range):
                return False
        return True

    def is_injective(self, e: Expr, ranges: Iterable[int], above: int | None = None) -> bool:
        """Whether positions of `ranges` that differ give `e` other values.

        With `above`, only positions that differ in that range need to.
        """
        sizes = {
            t: self.kernel.ranges.atoms[t].hi for t in ranges if t in self.kernel.ranges.bases_of(e)
        }
        terms = dict(e[1])
        for t, _ in e[1]:
            if t not in sizes and not self.kernel.ranges.bases(t).isdisjoint(sizes):
                return False  # a range inside a quotient, a remainder or a computed index
        if above is not None and above not in sizes:
            return False
        if above is None and set(ranges) != set(sizes):
            return False
        span = 0
        for c, hi in sorted((abs(terms[t]), hi) for t, hi in sizes.items()):
            if c <= span:
                return False
            span += c * hi
        return True

    def _reads(self, s: Stmt) -> tuple[set[Access], set[Acc]]:
        """What evaluating a statement may load, and the accumulators it looks at."""
        known = self._read.get(id(s))
        if known is not None:
            return known
        accesses: set[Access] = set()
        accs: set[Acc] = set()
        if isinstance(s, Keep) and s.combine is not None:
            accesses |= set(self._writes(s))
        for root, index in self._roots(s):
            for u, at in nodes_read(self.kernel, self.views, root, index):
                acc = self._accs.get(u)
                if acc is not None:
                    accs.add(acc)
                keep = self._keeps.get(u)
                if keep is not None and keep is not s:
                    accesses |= set(self._writes(keep))
                elif u in self.kernel.loads:
                    address = self.kernel.ranges.address(at, u.shape)
                    accesses.add((("buffer", self.same[self.kernel.loads[u]]), address))
        self._read[id(s)] = accesses, accs
        return accesses, accs

    def _writes(self, s: Stmt) -> list[Access]:
        if isinstance(s, Store):
            return [(("buffer", self.same[s.buffer]), s.address)]
        return [(("scratch", s.scratch), s.address)] if isinstance(s, Keep) else []

    def _roots(self, s: Stmt) -> Iterator[tuple[UOp, Index]]:
        """The values a statement evaluates itself."""
        if isinstance(s, Fold | Store):
            yield s.value, s.index
            for e, _, _ in s.conds:
                yield from values_in(self.kernel, e)
        if isinstance(s, Store):
            if s.gate is not None:
                yield s.gate, s.gate_index
            yield from values_in(self.kernel, s.address)
        elif isinstance(s, Keep):
            yield s.node, s.index
            yield from values_in(self.kernel, s.address)


def _all(body: Sequence[Stmt]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, Loop | Reduction | Call):
            yield from _all(s.body)


def _apart(written: Sequence[Expr]) -> bool:
    """Whether addresses never meet, at any positions: multiples of one number plus different
    remainders.
    """
    common = 0
    for e in written:
        for _, c in e[1]:
            common = gcd(common, c)
    return len({e[0] % common if common else e[0] for e in written}) == len(written)
