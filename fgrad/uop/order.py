"""The ordering contract: what a STORE means, what a read may see, and the check of both.

Everything is a pure value except memory: a BUFFER, or a PARAM that will be bound to one. `STORE`
writes through a view, `AFTER(x, *deps)` is x for whoever runs after the deps, `LOAD(x)` is the
contents at that point of the order, in storage of its own.

Clauses
1. A read keeps the dependencies of the node it reads: it runs after every dep of every AFTER that
   it passes through on the way to the buffer.
2. A read runs before any other write that would destroy what it must see, whichever views or
   arguments of a call the two use.
3. Overlap is decided by elements. Writes to disjoint parts need no order. Two overlapping writes,
   neither of which is in the other's past, are an error, never a race.
4. Requirements that cannot all hold are an error whose message contains `cycle`. Overwritten
   contents are never read instead.
5. Failure is atomic: this check runs before anything else does, changes nothing, and says the same
   when asked again.
6. Buffers with different identities never overlap, unless one was made on an external pointer:
   then any two may overlap.
7. What a call reads and writes is computed from its body, or recorded with it; never guessed from
   its argument list.

`check_order` holds 1 to 6 on a graph as the user wrote it, `accesses` is 7. Cost: linear in nodes
when the writes of a buffer follow each other or are disjoint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from typing import NamedTuple

from fgrad.errors import OrderingError
from fgrad.uop.accesses import accesses
from fgrad.uop.cache import remember
from fgrad.uop.lines import lines as noted
from fgrad.uop.memory import Clock, Memory, Write, has
from fgrad.uop.node import UOp, paused_gc, toposort
from fgrad.uop.op import Op
from fgrad.uop.program import Program
from fgrad.uop.region import Region
from fgrad.uop.show import aval_text

_BUCKETS = 256  # of element ranges per buffer, so that a read meets only writes near it


class _Edge(NamedTuple):
    """`read` must run before `write`, which destroys what it sees of `buffer` (clause 2)."""

    read: UOp
    write: UOp
    buffer: UOp


def check_order(outs: Sequence[UOp], lines: Mapping[UOp, str] | None = None) -> None:
    """Raise OrderingError unless every read of the graph can see what it must.

    `lines` gives nodes' source lines ("model.py:41, in step") for the messages. Those of STOREs and LOADs are known.
    """
    with paused_gc():
        memory = Memory(outs)
        if not memory.writes:
            return
        for u in memory.nodes:
            if u.op is Op.CALL and u.arg.kind == "kernel":
                _check_body(u.arg.body)
        check = _Check(outs, memory, lines or {})
        for writes in memory.writes.values():
            check.unordered(writes)
        edges = check.destroyed_reads()
        if edges:
            check.cycles(outs, edges)


@remember(1024)
def _check_body(body: Program) -> None:
    """The reads and writes inside a kernel owe the same."""
    check_order(body.outs)


class _Check:
    def __init__(self, outs: Sequence[UOp], memory: Memory, lines: Mapping[UOp, str]) -> None:
        self.outs = outs
        self.memory = memory
        self.lines = lines

    # ---- clause 3
    def unordered(self, writes: Sequence[Write]) -> None:
        """Refuse two overlapping writes of one buffer with no order between them."""
        loose = [j for j, w in enumerate(writes) if not w.is_followed or w.before[0] < j]
        active: list[int] = []
        for j in sorted(loose, key=lambda k: writes[k].region.lo):
            if not self.memory.is_shared:  # positions in one buffer
                active = [i for i in active if writes[i].region.hi > writes[j].region.lo]
            for i in active:
                a, c = (writes[i], writes[j]) if i < j else (writes[j], writes[i])
                is_loose = a.node is not c.node and not has(c.before, min(i, j))
                if is_loose and self.memory.may_overlap(a.view, a.region, c.view, c.region):
                    raise OrderingError(
                        f"unordered overlapping stores to {describe(a.view.base)}: neither "
                        f"{self.at(a.node)} nor {self.at(c.node)} comes after the other; let the "
                        "second one target AFTER(buffer, first store)"
                    )
            active.append(j)

    # ---- clause 2
    def destroyed_reads(self) -> list[_Edge]:
        """The edges from every read to the writes that would destroy what it sees."""
        edges: list[_Edge] = []
        memory = self.memory
        near = {key: _Near(ws, memory.is_shared) for key, ws in memory.writes.items()}
        for read in memory.reads():
            for i in near[read.key].after(read.clock, read.region):
                w = memory.writes[read.key][i]
                if w.node is read.node and (w.node.op is Op.STORE or w.position == read.position):
                    continue  # it reads before it writes
                if memory.may_overlap(read.view, read.region, w.view, w.region):
                    if w.node is read.node:
                        raise self.in_one_call(w.node, read.view.base)
                    edges.append(_Edge(read.node, w.node, read.view.base))
                    if w.is_followed:  # later writes have this one in their past
                        break
        return edges

    def in_one_call(self, call: UOp, buffer: UOp) -> OrderingError:
        """A call that writes what it reads through another argument has no order inside."""
        return OrderingError(
            f"cycle: {self.at(call)} reads {describe(buffer)} through one argument and writes "
            "overlapping elements of it through another; pass a clone() of the one it reads"
        )

    # ---- clause 4
    def cycles(self, outs: Sequence[UOp], edges: Sequence[_Edge]) -> None:
        """Search sources and edges, depth first, for a node that must run before itself."""
        before: dict[UOp, list[_Edge]] = {}
        for edge in edges:
            before.setdefault(edge.write, []).append(edge)
        done: dict[UOp, bool] = {}  # False: on the current path
        for root in outs:
            stack: list[UOp] = [root]
            while stack:
                u = stack[-1]
                state = done.get(u)
                if state is not None:
                    if not state:
                        done[u] = True
                    stack.pop()
                    continue
                done[u] = False
                for s in u.src:
                    if s not in done:
                        stack.append(s)
                    elif not done[s]:
                        raise self.cycle_error(stack, done, s, before)
                for edge in before.get(u, ()):
                    if edge.read not in done:
                        stack.append(edge.read)
                    elif not done[edge.read]:
                        raise self.cycle_error(stack, done, edge.read, before)

    def cycle_error(
        self,
        stack: Sequence[UOp],
        done: Mapping[UOp, bool],
        start: UOp,
        before: Mapping[UOp, Sequence[_Edge]],
    ) -> OrderingError:
        """Name the read and the write of a cycle that runs through `start`."""
        path = [u for u in stack if done.get(u) is False]
        path = path[len(path) - 1 - path[::-1].index(start) :]
        on_path = dict.fromkeys(path)
        for u in reversed(path):
            for edge in before.get(u, ()):
                if edge.read in on_path:
                    return OrderingError(
                        f"cycle: {self.at(edge.read)} reads {describe(edge.buffer)} as it is "
                        f"before {self.at(edge.write)}, but must also run after that write; take "
                        "a snapshot (LOAD, clone()) before the write"
                    )
        raise AssertionError("a cycle without a destroyed read")

    # ---- words
    def at(self, u: UOp) -> str:
        shown = u.src[1] if u.op is Op.STORE else u
        line = self.line(u) or self.line_of_use(u)
        return f"the {u.op.name} of {aval_text(shown)}{f' ({line})' if line else ''}"

    def line(self, u: UOp) -> str:
        return self.lines.get(u) or noted.of(u)

    def line_of_use(self, read: UOp) -> str:
        """The line of the first write or snapshot that needs a read, whose own line is not known."""
        needs = {read}
        for u in toposort(self.outs):
            if any(s in needs for s in u.src):
                if line := self.line(u):
                    return f"for {line}"
                needs.add(u)
        return ""


class _Near:
    """The writes of one buffer by element range, to find those that a read could meet."""

    def __init__(self, writes: Sequence[Write], is_shared: bool) -> None:
        self.wide: list[int] = []  # positions of the writes to more than a few buckets
        self.buckets: list[list[int]] = [[] for _ in range(_BUCKETS)]
        self.width = max(1, -(-max(w.region.hi for w in writes) // _BUCKETS))
        for i, w in enumerate(writes):
            span = self.span(w.region)
            if is_shared or len(span) > 8 or len(writes) < _BUCKETS:
                self.wide.append(i)
            else:
                for k in span:
                    self.buckets[k].append(i)
        self.is_split = len(self.wide) < len(writes)

    def span(self, region: Region) -> range:
        """The buckets that a region reaches into."""
        last = _BUCKETS - 1
        first = min(region.lo // self.width, last)
        return range(first, min(max(region.hi - 1, 0) // self.width, last) + 1)

    def after(self, clock: Clock, region: Region) -> Iterator[int]:
        """Positions of the writes not in `clock` that are near `region`, ascending, lazily."""
        lists = [self.wide] if self.wide else []
        if self.is_split:
            lists += [self.buckets[k] for k in self.span(region) if self.buckets[k]]
        streams = [_from(xs, clock[0]) for xs in lists]
        previous = -1
        for i in merge(*streams) if len(streams) > 1 else chain.from_iterable(streams):
            if i != previous and not has(clock, i):
                yield i
            previous = i


def _from(ascending: list[int], first: int) -> Iterator[int]:
    for k in range(bisect_left(ascending, first), len(ascending)):
        yield ascending[k]


def describe(buffer: UOp) -> str:
    """A buffer in the user's words: its name, or which argument it is, and its aval."""
    if buffer.op is Op.PARAM:
        slot = buffer.arg[0]
        name = repr(slot[2]) if isinstance(slot, tuple) else f"of argument {slot}"
        return f"buffer {name} ({aval_text(buffer)})"
    if buffer.op is Op.BUFFER:
        return f"a buffer ({aval_text(buffer)})"
    return f"the {buffer.op.name} ({aval_text(buffer)})"


__all__ = ["accesses", "check_order", "describe"]
