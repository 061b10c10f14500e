"""Memory: the writes and reads of a raw graph, and which writes lie in whose past.

The past of a node, for one buffer, is a clock: a set of positions in the buffer's list of writes,
kept as (n, mask): the first n writes, and those at n+i where bit i of mask is set. Writes that
follow each other make n grow and the mask stay 0, so clocks cost a constant; nodes share equal
dictionaries of clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fgrad.errors import OrderingError
from fgrad.uop.accesses import reads_of, value_uses, writes_of
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import Op
from fgrad.uop.region import VIEWS, Region

Clock = tuple[int, int]
NEVER: Clock = (0, 0)
STORAGE = (Op.BUFFER, Op.PARAM, Op.LOAD, Op.COPY)


def joined(a: Clock, c: Clock) -> Clock:
    """The union of two clocks."""
    if a == c:
        return a
    n = max(a[0], c[0])
    return _normal(n, (a[1] >> (n - a[0])) | (c[1] >> (n - c[0])))


def with_(a: Clock, i: int) -> Clock:
    """The clock with write `i` too."""
    return a if i < a[0] else _normal(a[0], a[1] | 1 << (i - a[0]))


def has(a: Clock, i: int) -> bool:
    """Is write `i` in the clock?"""
    return i < a[0] or bool(a[1] >> (i - a[0]) & 1)


def last_of(a: Clock) -> tuple[int, Clock]:
    """-> (the latest write in a clock that is not empty, the clock without it)."""
    n, mask = a
    if not mask:
        return n - 1, (n - 1, 0)
    top = mask.bit_length() - 1
    return n + top, (n, mask ^ (1 << top))


def _normal(n: int, mask: int) -> Clock:
    ones = (~mask & (mask + 1)).bit_length() - 1
    return n + ones, mask >> ones


class View(NamedTuple):
    """Storage and the view ops between it and a node, the first applied first."""

    base: UOp
    moves: tuple[UOp, ...]


class Write(NamedTuple):
    """One write: the STORE or CALL, which source it writes through, and the clock just before it.

    `is_followed`: all later writes of the buffer have this one in their past.
    """

    node: UOp
    position: int
    view: View
    region: Region
    before: Clock
    is_followed: bool


class Read(NamedTuple):
    """One read: who reads which source, through which view, and which writes it must see."""

    node: UOp
    position: int
    view: View
    region: Region
    key: UOp
    clock: Clock


class Memory:
    """What a raw graph does to memory.

    nodes    topological order
    writes   {key: the writes of that storage, in topological order}; the key is the buffer, or one
             buffer for all when an external one is written (clause 6)
    clocks   {node: {key: Clock}}: the past of a node, itself included when it writes
    views    {node: View} of every node that shows storage
    targets  the same for writing, where a GATHER shows storage too
    """

    def __init__(self, outs: Sequence[UOp]) -> None:
        self.nodes = toposort(outs)
        self.outs = tuple(outs)
        self.views: dict[UOp, View] = {}
        self.targets: dict[UOp, View] = {}
        self.clocks: dict[UOp, dict[UOp, Clock]] = {}
        self.writes: dict[UOp, list[Write]] = {}
        self._regions: dict[View, Region] = {}
        for u in self.nodes:
            self._enter_view(u)
        self._shared: UOp | None = self._external()
        for u in self.nodes:
            self._enter_writes(u)
        for writes in self.writes.values():
            _mark_followed(writes)

    def key(self, base: UOp) -> UOp:
        """What writes to `base` are filed under. LOADs and COPYs are fresh and never alias."""
        if self._shared is None or base.op not in (Op.BUFFER, Op.PARAM):
            return base
        return self._shared

    @property
    def is_shared(self) -> bool:
        """Are all writes filed under one key because any two buffers may overlap?"""
        return self._shared is not None

    def region(self, view: View) -> Region:
        """The elements that a view shows."""
        found = self._regions.get(view)
        if found is None:
            found = self._regions[view] = Region(view.base.shape, view.moves)
        return found

    def may_overlap(self, a: View, ra: Region, c: View, rc: Region) -> bool:
        """Clauses 3 and 6, for two views filed under one key."""
        if a.base is c.base:
            return ra.overlaps(rc)
        return _is_external(a.base) or _is_external(c.base)

    def reads(self) -> Iterator[Read]:
        """The reads of storage that is also written."""
        as_value = value_uses(self.nodes, self.outs)
        for u in self.nodes:
            for i in reads_of(u, as_value):
                x = u.src[i]
                view = self.views.get(x)
                if view is None:
                    continue
                key = self.key(view.base)
                if key in self.writes:
                    clock = self.clocks[x].get(key, NEVER)
                    yield Read(u, i, view, self.region(view), key, clock)
        for o in self.outs:  # what is asked for is read, where it stands
            view = self.views.get(o)
            if view is not None and (key := self.key(view.base)) in self.writes:
                yield Read(o, -1, view, self.region(view), key, self.clocks[o].get(key, NEVER))

    def _enter_view(self, u: UOp) -> None:
        if u.op in STORAGE:
            self.views[u] = self.targets[u] = View(u, ())
            return
        for table in (self.views, self.targets):
            below = table.get(u.src[0]) if u.src else None
            if below is None:
                continue
            if u.op is Op.AFTER:
                table[u] = below
            elif u.op in VIEWS or (u.op is Op.GATHER and table is self.targets):
                table[u] = View(below.base, (*below.moves, u))

    def _external(self) -> UOp | None:
        """An external buffer that is written: it may share bytes with all others (clause 6)."""
        for u in self.nodes:
            for i in writes_of(u):
                view = self.targets.get(u.src[i])
                if view and _is_external(view.base):
                    return view.base
        return None

    def _enter_writes(self, u: UOp) -> None:
        past = self._past(u)
        written = writes_of(u)
        if written:
            past = dict(past)
            for i in written:
                x = u.src[i]
                view = self.targets.get(x)
                if view is None:
                    raise OrderingError(
                        f"{u.op.name} writes into a computed {x.op.name}, which has no storage of "
                        "its own; write into clone() of it"
                    )
                key = self.key(view.base)
                writes = self.writes.setdefault(key, [])
                before = past.get(key, NEVER)
                writes.append(Write(u, i, view, self.region(view), before, False))
                past[key] = with_(before, len(writes) - 1)
        self.clocks[u] = past

    def _past(self, u: UOp) -> dict[UOp, Clock]:
        """The union of the sources' clocks; the very dictionary of a source when that is all."""
        out: dict[UOp, Clock] = {}
        is_own = False
        for s in u.src:
            past = self.clocks[s]
            if not past or past is out:
                continue
            if not out:
                out = past
                continue
            for key, clock in past.items():
                have = out.get(key)
                both = clock if have is None else joined(have, clock)
                if both != have:
                    if not is_own:
                        out, is_own = dict(out), True
                    out[key] = both
        return out


def _is_external(base: UOp) -> bool:
    return base.op is Op.BUFFER and base.arg.external


def _mark_followed(writes: list[Write]) -> None:
    """Set `is_followed` on the writes that are in the past of all later ones."""
    least = len(writes)  # the first `least` writes are in the past of every later one seen
    for i in range(len(writes) - 1, -1, -1):
        if i < least:
            writes[i] = writes[i]._replace(is_followed=True)
        least = min(least, writes[i].before[0])
