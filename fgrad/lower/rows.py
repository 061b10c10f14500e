"""Row clusters to kernel trees: which axes merge, which is in lanes, how many phases, what is kept
in scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fgrad.lower.ahead import ahead
from fgrad.lower.cascade import is_long, segments
from fgrad.lower.cluster import Cluster
from fgrad.lower.cost import EXPENSIVE, STREAM_BYTES, op_cost, tasks_for, work_ns
from fgrad.lower.graph import ELEMENTS, leaves, squeeze
from fgrad.lower.index import ZERO, Cond, Expr, Index, Ranges, add, scale
from fgrad.lower.kernel import (
    Acc,
    Buffer,
    Call,
    Fold,
    Keep,
    Kernel,
    Loop,
    LoopKind,
    Reduction,
    Scratch,
    Stmt,
    Store,
)
from fgrad.lower.limits import Limits
from fgrad.lower.need import Lengths, length_of_sum
from fgrad.lower.turn import Turned, find_turned, turn_call, what_to_turn
from fgrad.lower.width import choose_width, registers_for
from fgrad.uop.dtype import accumulator
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

PLAIN = frozenset((Op.RESHAPE, Op.EXPAND, Op.AFTER))  # views that move nothing where only axes of one come and go
HEAVY = 20  # instructions of a body above which values have several registers, and one copy is written
PIECE = 8  # rows added up in registers before their sum goes to scratch: as many streams as are prefetched
COLUMNS = 1024  # of a block whose sums stay in the first cache
MANY_COLUMNS = 64  # fewer are summed in registers from top to bottom
SHORT = 8  # a last axis shorter than half a vector gives its lanes to a longer one from this many elements


@dataclass(slots=True, eq=False)
class Built:
    """A kernel with the nodes its buffers hold: first those it reads, then those it writes."""

    kernel: Kernel
    nodes: tuple[UOp, ...]


def build_rows(
    name: str,
    cluster: Cluster,
    stores: Sequence[UOp],
    is_leaf: Callable[[UOp], bool],
    limits: Limits,
    need: Mapping[UOp, Lengths] | None = None,
) -> Built:
    """The kernel of a row cluster that computes `stores`; `is_leaf(u)`: u is read from memory.

    need   how much of the stores is wanted, see `need`
    """
    return _Rows(name, cluster, stores, is_leaf, limits, need or {}).build()


class _Rows:
    def __init__(
        self,
        name: str,
        cluster: Cluster,
        stores: Sequence[UOp],
        is_leaf: Callable[[UOp], bool],
        limits: Limits,
        need: Mapping[UOp, Lengths],
    ) -> None:
        self.need = need
        self.name = name
        self.shape = cluster.shape
        self.stores = list(stores)
        self.is_leaf = is_leaf
        self.limits = limits
        self.reduced = cluster.reduced or ()
        self.reduces = self._needed_reduces(cluster)
        self.reduce_set = set(self.reduces)
        self.ranges = Ranges()
        self.loads: dict[UOp, int] = {}
        self.phase_of: dict[UOp, int] = {}
        self.full: list[Expr] = []

    # ---- what is needed
    def _needed_reduces(self, cluster: Cluster) -> list[UOp]:
        """The cluster's REDUCEs that its stores use."""
        own = {u for u in cluster.nodes if u.op is Op.REDUCE and not self.is_leaf(u)}
        seen: set[UOp] = set()
        stack = list(self.stores)
        while stack:
            u = stack.pop()
            if u in seen or self.is_leaf(u):
                continue
            seen.add(u)
            stack += u.src
        return [u for u in cluster.nodes if u in own and u in seen]

    def _stop(self, u: UOp) -> bool:
        return u in self.reduce_set or self.is_leaf(u)

    def is_full(self, u: UOp) -> bool:
        """Whether a node has the full shape (is no row value)."""
        return u not in self.reduce_set and (not self.reduced or squeeze(u.shape) == self.shape)

    def index(self, u: UOp) -> Index:
        """A node's index in terms of the cluster's axes."""
        kept = [e for k, e in enumerate(self.full) if k not in self.reduced]
        it = iter(self.full if self.is_full(u) or squeeze(u.shape) == self.shape else kept)
        return tuple([next(it) if n != 1 else ZERO for n in u.shape])

    # ---- axes
    def _merge_axes(self) -> list[list[int]]:
        """Groups of neighbouring axes that every address walks as one."""
        first = self.ranges.ranges(self.shape)
        self.full = list(first)
        atoms = [e[1][0][0] for e in first]
        addresses: list[Expr] = []
        others: list[Expr] = []
        for u in self.stores:
            addresses.append(self.ranges.linear(self.index(u), u.shape))
        for u in [*self.stores, *[r.src[0] for r in self.reduces]]:
            if u in self.reduce_set:
                continue
            found, other = leaves(self.ranges, u, self.index(u), self._stop)
            addresses += [e for x, e, _ in found if x not in self.reduce_set]
            others += other
        self.addresses = addresses
        inner: set[int] = set()  # ranges that occur inside quotients, values, conditions: they stay as they are
        for e in addresses:
            for t, _ in e[1]:
                if t not in atoms:
                    inner |= self.ranges.bases(t)
        for e in others:
            inner |= self.ranges.bases_of(e)
        groups = [[i] for i in range(len(self.shape))]
        for j in range(len(self.shape) - 1, 0, -1):
            i = j - 1
            if (i in self.reduced) != (j in self.reduced) or atoms[i] in inner or atoms[j] in inner:
                continue
            if self.need and self._length([j]) is not None:  # a loop of its own can end early
                continue
            if all(_coefficient(e, atoms[i]) == _coefficient(e, atoms[j]) * self.shape[j] for e in addresses):
                right = next(g for g in groups if j in g)
                groups.remove(right)
                next(g for g in groups if i in g).extend(right)
        return groups

    # ---- building
    def build(self) -> Built:
        self._own_stores = set(self.stores)
        groups = self.groups = self._merge_axes()
        self.dims = [math.prod([self.shape[i] for i in g]) for g in groups]
        self.is_reduced = [g[0] in self.reduced for g in groups]
        self._set_axes(groups, self.ranges.ranges(self.dims))
        self._phases()
        self.visits = self._visits()
        nodes = self._leaf_nodes()
        lengths = [self._length(g) for g in groups]
        summed = [self._length_of_sum(r, k) for r in self.reduces for k in self.reduced] if self.need else []
        nodes += [n for n in dict.fromkeys([*lengths, *summed]) if n is not None and n not in nodes]
        self.loads = {u: i for i, u in enumerate(nodes)}
        buffers = [Buffer(u.dtype, u.size, True, False) for u in nodes]
        self.targets = {u: len(nodes) + i for i, u in enumerate(self.stores)}
        buffers += [Buffer(u.dtype, u.size, False, True) for u in self.stores]
        self.scratch: list[Scratch] = []
        self.width = self.lanes = choose_width(self.limits, self._computed())
        self.vector = self._vector_axis()
        self.copies = 4
        self.turned = None
        if not self.reduces:
            self.turned = find_turned(
                self.ranges,
                self.stores,
                self.index,
                self._stop,
                self.axes,
                self.dims,
                self.vector,
                self.width,
            )
        if self.turned is not None:
            self._split_for_tiles(groups, self.turned)
        elif self.vector >= 0 and self.instructions > HEAVY:
            self.width *= registers_for(self.dims[self.vector], self.lanes)
            self.copies = 1 if self.width > self.lanes else 2
        self._set_limits(lengths)
        self._plan_kept()
        body, tasks = self._body()
        moved = sum([b.size * b.dtype.itemsize for b in buffers])
        total = math.prod(self.shape)
        kernel = Kernel(
            self.name, self.ranges, tuple(buffers), self.loads, tuple(body), tuple(self.scratch), tasks,
            flops=self.instructions * total, bytes=moved, width=self.width,
            work_ns=self.work / 4 if self.ends else self.work,  # nobody knows the length: some part of the bound
        )  # fmt: skip
        return Built(kernel, (*nodes, *self.stores))

    def _set_axes(self, groups: list[list[int]], axes: Sequence[Expr]) -> None:
        """The positions along each group of axes, and with them those along the axes."""
        self.axes = tuple(axes)
        self.full = [ZERO] * len(self.shape)
        for g, e in zip(groups, self.axes, strict=True):
            for i, x in zip(g, self.ranges.delinear(e, [self.shape[i] for i in g]), strict=True):
                self.full[i] = x

    def _length(self, group: list[int]) -> UOp | None:
        """How far along the first axis of a group anybody wants the stores, and sums go."""
        k = group[0]
        known: list[UOp | None] = []
        if k in self.reduced:
            known += [self._length_of_sum(r, k) for r in self.reduces]
        for u in self.stores:
            axes = [i for i, n in enumerate(u.shape) if n != 1]
            if not self.is_full(u):
                kept = [i for i in range(len(self.shape)) if i not in self.reduced]
                if k in self.reduced:
                    continue
                axes = [axes[kept.index(k)]]
            else:
                axes = [axes[k]]
            known.append(self.need[u][axes[0]] if u in self.need else None)
        return known[0] if known and all(n is known[0] for n in known) else None

    def _length_of_sum(self, reduce: UOp, k: int) -> UOp | None:
        """From where on the elements along axis `k` of the cluster change nothing."""
        return length_of_sum(reduce, [i for i, n in enumerate(reduce.src[0].shape) if n != 1][k])

    def _fold(self, acc: Acc) -> Fold:
        """What is beyond a length need not be there."""
        conds: list[Cond] = []
        for k in self.reduced if self.need else ():
            n = self._length_of_sum(acc.node, k)
            if n is not None:
                size = self.shape[k]
                conds.append((add(self.full[k], self.ranges.value(n, (), 0, size), -1), -size, 0))
        x = acc.node.src[0]
        return Fold(acc, x, self.index(x), self.ranges.conditions(conds))

    def _set_limits(self, lengths: list[UOp | None]) -> None:
        """Loops end where nobody wants what follows; not those of kernels of a special form."""
        self.ends: dict[int, Expr] = {}
        if self.turned is not None or self._in_pieces():
            return
        for i, (group, n) in enumerate(zip(self.groups, lengths, strict=True)):
            if n is None or not self.axes[i][1]:
                continue
            first = self.shape[group[0]]
            self.ends[i] = scale(self.ranges.value(n, (), 0, first), self.dims[i] // first)
            if i != self.vector:
                self.ranges.limits[self.axes[i][1][0][0]] = self.ends[i]

    def _split_for_tiles(self, groups: list[list[int]], turned: Turned) -> None:
        """Cut the lane axis and the other one into tiles and positions inside them."""
        r = self.ranges
        other, lane = turned.other, self.vector
        sizes = {other: turned.tile_other, lane: turned.tile_lanes}
        self.outer = {i: r.range(self.dims[i] // n) for i, n in sizes.items()}
        self.inner = {i: r.range(n) for i, n in sizes.items()}
        axes = list(self.axes)
        for i, n in sizes.items():
            axes[i] = add(scale(self.outer[i], n), self.inner[i])
        self._set_axes(groups, axes)

    def _tiles(self, turned: Turned) -> tuple[list[Stmt], int]:
        """Loops over tiles; in each the operands are turned, then everything is as usual."""
        r, other, lane = self.ranges, turned.other, self.vector
        sizes = (turned.tile_other, turned.tile_lanes)
        body: list[Stmt] = []
        for node in turned.nodes:
            index = self.index(node)
            leaf, address, _ = leaves(r, node, index, self._stop)[0][0]
            kept, at = what_to_turn(r, node, index, self._stop)
            scratch = len(self.scratch)
            lanes, others = self.inner[lane], self.inner[other]
            body.append(turn_call(r, kept, at, address, self.loads[leaf], scratch, lanes, others, sizes))
            self.scratch.append(Scratch(kept.dtype, sizes[0] * sizes[1]))
        inside: Sequence[Stmt] = [self._store(u) for u in self.stores]
        inside = self._loop_of(self.inner[lane], sizes[1], LoopKind.VEC, inside, 4)
        body += self._loop_of(self.inner[other], sizes[0], LoopKind.SEQ, inside)
        loops = [(self.axes[i], self.dims[i]) for i in range(len(self.dims)) if i not in (other, lane)]
        loops += [(self.outer[i], self.dims[i] // n) for i, n in ((other, sizes[0]), (lane, sizes[1]))]
        loops = [(e, n) for e, n in loops if e[1]]
        out: Sequence[Stmt] = body
        for k, (e, n) in reversed(list(enumerate(loops))):
            out = self._loop_of(e, n, LoopKind.TASK if k == 0 else LoopKind.SEQ, out)
        over = loops[0][1] if loops else 1
        tasks = tasks_for(self.work, over)
        return list(out), -(-over // -(-over // tasks))

    # ---- long columns
    def _in_pieces(self) -> bool:
        """Whether this is one reduction along columns, long enough to be done a few rows at a time."""
        if not self.reduces or self.vector < 0 or self.is_reduced[self.vector]:
            return False
        long = [i for i, r in enumerate(self.is_reduced) if r]
        if any(self.phase_of[r] != 1 or accumulator(r.dtype) is not r.dtype for r in self.reduces):
            return False
        if any(self.is_full(u) for u in self.stores) or self.dims[self.vector] < MANY_COLUMNS:
            return False
        n = self.dims[long[0]]
        return n >= 4 * PIECE and divisor_near(n, PIECE) > 1

    def _columns(self) -> tuple[list[Stmt], int]:
        """For a block of columns: some rows are added up in registers, their sums in scratch."""
        r, lane = self.ranges, self.vector
        long = [i for i, reduced in enumerate(self.is_reduced) if reduced]
        first = long[0]
        size = divisor_near(self.dims[first], PIECE)
        width = divisor_near(self.dims[lane], COLUMNS) if self.dims[lane] > 2 * COLUMNS else self.dims[lane]
        width = self.dims[lane] if width < COLUMNS // 4 else width
        blocks, columns = self.dims[lane] // width, width
        pieces, row = r.range(self.dims[first] // size), r.range(size)
        block, column = r.range(blocks), r.range(columns)
        axes = list(self.axes)
        axes[first] = add(scale(pieces, size), row)
        axes[lane] = add(scale(block, columns), column)
        self._set_axes(self.groups, axes)
        accs = [Acc(u, u.arg[0]) for u in self.reduces]
        inner: Sequence[Stmt] = [self._fold(a) for a in accs]
        inner = self._nest(long[1:], inner)
        inner = self._loop_of(row, size, LoopKind.SEQ, inner)
        keeps = [
            Keep(len(self.scratch) + i, column, a.node, self.index(a.node), a.op, pieces)
            for i, a in enumerate(accs)
        ]  # fmt: skip
        self.scratch += [Scratch(a.node.dtype, columns) for a in accs]
        piece: Sequence[Stmt] = [Reduction(tuple(accs), tuple(inner)), *keeps]
        piece = self._loop_of(column, columns, LoopKind.VEC, piece, 4)
        body = self._loop_of(pieces, self.dims[first] // size, LoopKind.SEQ, piece)
        body += self._loop_of(column, columns, LoopKind.VEC, [self._store(u) for u in self.stores], 2)
        rows = [i for i in range(len(self.dims)) if not self.is_reduced[i] and i != lane]
        loops = [(self.axes[i], self.dims[i]) for i in rows] + [(block, blocks)]
        loops = [(e, n) for e, n in loops if e[1]]
        out: Sequence[Stmt] = body
        for k, (e, n) in reversed(list(enumerate(loops))):
            out = self._loop_of(e, n, LoopKind.TASK if k == 0 else LoopKind.SEQ, out)
        over = loops[0][1] if loops else 1
        tasks = tasks_for(self.work, over)
        return list(out), -(-over // -(-over // tasks))

    def _computed(self) -> list[UOp]:
        return list(self.visits)

    def _phases(self) -> None:
        """The number of finished reductions in a chain that a node needs."""
        done = self.phase_of
        for root in [*self.reduces, *self.stores]:
            stack = [root]
            while stack:
                u = stack[-1]
                if u in done:
                    stack.pop()
                    continue
                if self.is_leaf(u):
                    done[u] = 0
                    continue
                missing = [s for s in u.src if s not in done]
                if missing:
                    stack += missing
                    continue
                top = max([done[s] for s in u.src], default=0)
                done[u] = top + (u in self.reduce_set)

    def _visits(self) -> dict[UOp, set[int]]:
        """Nodes below each phase's roots: node -> phases that evaluate it over the full shape.

        `moved` are those that some view reads at another position than the cluster's own: what was kept for them at
        that position need not be there yet.
        """
        out: dict[UOp, set[int]] = {}
        self.moved: set[UOp] = set()
        for root in [*[r.src[0] for r in self.reduces], *self.stores]:
            if root in self.reduce_set:
                continue
            p = self.phase_of[root]
            stack = [(root, True)]
            seen: set[tuple[UOp, bool]] = set()
            while stack:
                u, straight = stack.pop()
                if (u, straight) in seen:
                    continue
                seen.add((u, straight))
                out.setdefault(u, set()).add(p)
                if not straight:
                    self.moved.add(u)
                if self._stop(u):
                    continue
                same = u.op in ELEMENTS or (u.op in PLAIN and squeeze(u.shape) == squeeze(u.src[0].shape))
                stack += [(s, straight and same) for s in u.src]
        return out

    def _leaf_nodes(self) -> list[UOp]:
        return [u for u in self.visits if self.is_leaf(u)]

    @property
    def instructions(self) -> int:
        """Instructions of one element, all phases."""
        return sum([op_cost(u) * len(p) for u, p in self.visits.items() if u.op in ELEMENTS]) + len(self.stores)

    def _vector_axis(self) -> int:
        if not self.dims:
            return -1
        last = len(self.dims) - 1
        if self.dims[last] * 2 <= self.width and self.reduces:
            rows = [i for i in range(last) if not self.is_reduced[i] and self.dims[i] >= max(SHORT, self.width)]
            if rows:
                return max(rows, key=lambda i: self.dims[i])
        return last

    def _plan_kept(self) -> None:
        """Which full nodes that several phases need are written to scratch, or read back from their
        output.
        """
        self.kept: dict[UOp, tuple[int, int]] = {}  # node -> (phase that writes it, scratch number)
        self.reread: dict[UOp, int] = {}
        if not self.reduces or self.vector < 0 or not self.is_reduced[self.vector]:
            return
        size = math.prod([n for n, r in zip(self.dims, self.is_reduced, strict=True) if r])
        for u, phases in self.visits.items():
            if len(phases) < 2 or u in self.loads or u in self.moved:
                continue
            if not self.is_full(u) or squeeze(u.shape) != self.shape:
                continue
            if u in self._own_stores:
                self.reread[u] = min(phases)
            elif u.op in ELEMENTS and op_cost(u) >= EXPENSIVE:
                self.kept[u] = min(phases), len(self.scratch)
                self.scratch.append(Scratch(u.dtype, size))

    # ---- statements
    def _body(self) -> tuple[list[Stmt], int]:
        total = math.prod(self.shape)
        moved = sum([min(u.size, total) * u.dtype.itemsize for u in [*self.loads, *self.stores]])
        self.work = work_ns(self.instructions * total, self.lanes, moved)
        if self.turned is not None:
            return self._tiles(self.turned)
        if self._in_pieces():
            return self._columns()
        rows = [i for i in range(len(self.dims)) if not self.is_reduced[i] and i != self.vector]
        inner = [i for i in range(len(self.dims)) if self.is_reduced[i] and i != self.vector]
        tasks = 1
        if rows:
            tasks = tasks_for(self.work, self.dims[rows[0]])
            tasks = -(-self.dims[rows[0]] // -(-self.dims[rows[0]] // tasks))
        elif self.vector >= 0 and not self.is_reduced[self.vector]:
            step = self.width * self.copies
            blocks = self.dims[self.vector] // step
            if blocks > 1:
                tasks = tasks_for(self.work, blocks)
                tasks = -(-blocks // -(-blocks // tasks))
        body = self._row_body(inner)
        for i in reversed(rows):
            body = self._loop(i, LoopKind.TASK if i == rows[0] else LoopKind.SEQ, body)
        return body, tasks

    def _loop(self, i: int, kind: LoopKind, body: Sequence[Stmt], unroll: int = 1) -> list[Stmt]:
        return self._loop_of(self.axes[i], self.dims[i], kind, body, unroll, self.ends.get(i))

    def _loop_of(
        self, e: Expr, size: int, kind: LoopKind, body: Sequence[Stmt], unroll: int = 1, end: Expr | None = None
    ) -> list[Stmt]:
        return [Loop(e[1][0][0], size, kind, tuple(body), unroll, limit=end)] if e[1] else list(body)

    def _row_body(self, inner: list[int]) -> list[Stmt]:
        if self.vector < 0:  # one element, and reductions of it alone
            phases = self._phases_of(list)
            return [*phases, *[self._store(u) for u in self.stores if not self.is_full(u)]]
        if self._in_segments():
            return [self._segments(inner), *[self._store(u) for u in self.stores]]
        if self.is_reduced[self.vector]:
            phases = self._phases_of(lambda body: self._nest(inner, self._vector(body)))
            return [*phases, *[self._store(u) for u in self.stores if not self.is_full(u)]]
        if not self.reduces:
            return self._vector([self._store(u) for u in self.stores])
        phases = self._phases_of(lambda body: self._nest(inner, body))
        return self._vector([*phases, *[self._store(u) for u in self.stores if not self.is_full(u)]])

    def _in_segments(self) -> bool:
        """Whether this is only reductions of a long axis, which all that is read has in steps of one or not at all."""
        if not self.is_reduced[self.vector] or not is_long(self.dims[self.vector], self.width, self.copies):
            return False
        if any(self.phase_of[r.src[0]] for r in self.reduces) or any(self.is_full(u) for u in self.stores):
            return False
        lane = self.axes[self.vector][1][0][0]
        for u in [r.src[0] for r in self.reduces]:
            found, other = leaves(self.ranges, u, self.index(u), self._stop)
            if any(lane in self.ranges.bases_of(e) for e in other):
                return False
            for _, e, _ in found:
                bent = any(lane in self.ranges.bases(t) for t, _ in e[1] if t != lane)
                if bent or _coefficient(e, lane) not in (0, 1):
                    return False
        return True

    def _segments(self, inner: list[int]) -> Reduction:
        accs = tuple([Acc(r, r.arg[0]) for r in self.reduces])
        body: list[Stmt] = []
        before = self.axes
        for s in segments(self.ranges, self.dims[self.vector], self.width, self.copies):
            self._set_axes(self.groups, [s.position if i == self.vector else e for i, e in enumerate(before)])
            part: Sequence[Stmt] = [self._fold(a) for a in accs]
            for k, (e, n) in reversed(list(enumerate(s.loops))):
                if n > 1:
                    part = [Loop(e[1][0][0], n, LoopKind.SEQ, tuple(part), alone=k > 0)]
            body.append(Loop(s.lanes[1][0][0], s.width, LoopKind.VEC, tuple(part), s.copies))
        self._set_axes(self.groups, before)
        return Reduction(accs, tuple(self._nest(inner, body)))

    def _vector(self, body: Sequence[Stmt]) -> list[Stmt]:
        return self._loop(self.vector, LoopKind.VEC, body, self.copies)

    def _nest(self, axes: list[int], body: Sequence[Stmt]) -> list[Stmt]:
        for i in reversed(axes):
            body = self._loop(i, LoopKind.SEQ, body)
        return list(body)

    def _phases_of(self, nest: Callable[[Sequence[Stmt]], list[Stmt]]) -> list[Stmt]:
        """For each phase: its reductions and the full values it stores."""
        out: list[Stmt] = []
        for p in range(max(self.phase_of.values(), default=0) + 1):
            accs = [Acc(r, r.arg[0]) for r in self.reduces if self.phase_of[r.src[0]] == p]
            body: list[Stmt] = [
                Keep(number, self._kept_address(), u, self.index(u))
                for u, (phase, number) in self.kept.items() if phase == p
            ]  # fmt: skip
            body += [self._store(u) for u in self.stores if self.is_full(u) and self.phase_of[u] == p]
            body += [self._fold(a) for a in accs]
            if not body:
                continue
            if p == 1 and self.vector >= 0 and self.is_reduced[self.vector]:
                body = [*self._ahead(), *body]
            out += [Reduction(tuple(accs), tuple(nest(body)))] if accs else nest(body)
        return out

    def _ahead(self) -> list[Stmt]:
        """The first phase's reading from big arrays, of the next row."""
        rows = [e for e, reduced in zip(self.axes, self.is_reduced, strict=True) if e[1] and not reduced]
        found: dict[Call, None] = {}
        if rows and self.axes[self.vector][1]:
            row, lane, columns = rows[-1][1][0][0], self.axes[self.vector][1][0][0], self.dims[self.vector]
            for u in [r.src[0] for r in self.reduces if self.phase_of[r.src[0]] == 0]:
                for leaf, address, _ in leaves(self.ranges, u, self.index(u), self._stop)[0]:
                    if leaf in self.loads and leaf.size * leaf.dtype.itemsize >= STREAM_BYTES:
                        calls = ahead(self.loads[leaf], leaf.dtype.itemsize, address, row, lane, columns)
                        found |= dict.fromkeys(calls)
        return list(found)

    def _kept_address(self) -> Expr:
        pairs = [(e, n) for e, n, r in zip(self.axes, self.dims, self.is_reduced, strict=True) if r]
        return self.ranges.linear([e for e, _ in pairs], [n for _, n in pairs])

    def _store(self, u: UOp) -> Store:
        index = self.index(u)
        streaming = u.size * u.dtype.itemsize >= STREAM_BYTES and u not in self.reread
        if streaming:
            lanes = self.turned.tile_lanes if self.turned else self.dims[self.vector] if self.dims else 1
            streaming = self.vector >= 0 and lanes % self.lanes == 0
        address = self.ranges.address(index, u.shape)
        return Store(self.targets[u], address, u, index, streaming=streaming, keep=u in self.reread)


def divisor_near(n: int, wanted: int) -> int:
    """The largest divisor of n up to `wanted`."""
    return max([d for d in range(1, wanted + 1) if n % d == 0])


def _coefficient(e: Expr, atom: int) -> int:
    for t, c in e[1]:
        if t == atom:
            return c
    return 0
