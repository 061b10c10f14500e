"""Which nodes share a kernel.

A node is *keyed* (computed by a cluster) or *floating* (written again wherever it is used). A
fused edge keeps the stage, every other edge between clusters raises it: clusters are acyclic by
construction, and any two of one stage may merge. A row cluster iterates a shape S (without axes
of one element); values of shape S minus its reduced axes R are its row values. A contraction is
a cluster of its own and takes elementwise consumers as its epilogue. Other ops (`graph.OPAQUE`)
are clusters of one node whose operands are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.lower.cluster import Cluster, ClusterKind, Partition, find, merge
from fgrad.lower.contract import Contraction, recognise
from fgrad.lower.cost import EXPENSIVE, op_cost
from fgrad.lower.graph import ELEMENTS, OPAQUE, Edge, Way, edges, squeeze, under
from fgrad.lower.sort import memory_sources
from fgrad.lower.versions import apart, in_order
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import Op

MAX_NODES = 300  # ops in one kernel body
RECOMPUTE_COST = 4  # cheap enough to write again instead of storing
SHARED_COST = 8  # a value with several readers opens a cluster above this


class _Partitioner:
    def __init__(self, outs: Sequence[UOp]) -> None:
        self.outs = outs
        nodes = toposort(outs)
        self.order = {u: i for i, u in enumerate(nodes)}
        nodes = [u for u in nodes if isinstance(u.dtype, tuple) or u.size]
        versions: dict[UOp, UOp] = {}  # UPDATE -> the first version of what it is a version of
        self.required: set[UOp] = set()  # in memory as they are: outputs, operands of opaque ops
        for o in outs:
            self.required.add(under(o))
        for u in nodes:
            if u.op in OPAQUE:
                for s in opaque_operands(u):
                    self.required.add(under(s))
                if u.op is Op.UPDATE:
                    old = under(u.src[0])
                    versions[u] = versions.get(old, old)
                    self.required.update(apart(u, versions))
        self.nodes = [
            u
            for u in nodes
            if u.op in ELEMENTS or u.op is Op.REDUCE or u.op in OPAQUE
            or (u in self.required and u.op not in (Op.PARAM, Op.GET))
        ]  # fmt: skip
        self.edges: dict[UOp, list[Edge]] = {}
        self.readers: dict[UOp, list[UOp]] = {}
        self._known: dict[UOp, list[Edge]] = {}
        self.of: dict[UOp, Cluster] = {}
        self.stage: dict[UOp, int] = {}
        self.cone: dict[UOp, tuple[int, int]] = {}  # floating: (cost, nodes)
        self.large: dict[UOp, frozenset[UOp]] = {}
        self.absorbed: set[UOp] = set()
        self.contractions: dict[UOp, Contraction] = {}

    # ---- edges
    def find_contractions(self) -> None:
        if not any(u.op is Op.REDUCE and u.arg[0] is Op.ADD for u in self.nodes):
            return
        count: dict[UOp, int] = {}
        for u in self.nodes:
            for p in {e.node for s in u.src for e in self._edges_of(s)}:
                count[p] = count.get(p, 0) + 1

        def private(x: UOp) -> bool:
            return count.get(x, 0) == 1 and x not in self.required

        for u in reversed(self.nodes):
            if u.op is Op.REDUCE and u not in self.absorbed:
                c = recognise(u, private)
                if c is not None:
                    self.contractions[u] = c
                    self.absorbed.update(c.inside)
        self.nodes = [u for u in self.nodes if u not in self.absorbed]

    def _edges_of(self, operand: UOp) -> list[Edge]:
        found = self._known.get(operand)
        if found is None:
            found = self._known[operand] = edges(operand)
        return found

    def find_edges(self) -> None:
        for u in self.nodes:
            if u in self.contractions:
                sources: Sequence[UOp] = self.contractions[u].product.src
            elif u.op in ELEMENTS or u.op is Op.REDUCE or u.op in OPAQUE:
                sources = u.src
            else:
                sources = (u,)  # a view, to be copied
            found: list[Edge] = []
            if u.op in OPAQUE:
                for s in opaque_operands(u):
                    p = self._producer(under(s))
                    if (p.op not in (Op.CONST, Op.IOTA) or p in self.required) and s.size:
                        found.append(Edge(p, Way.REPEATED))
                sources = [s for s in u.src if s not in opaque_operands(u)]
            for s in sources:
                for e in self._edges_of(s) if s is not u else _copied(u):
                    if e.node.op in (Op.CONST, Op.IOTA):
                        continue
                    producer = self._producer(e.node)
                    if producer is not e.node:
                        e = Edge(producer, Way.REPEATED if e.way is not Way.ORDER else Way.ORDER)
                    found.append(e)
                    self.readers.setdefault(e.node, []).append(u)
            self.edges[u] = found

    def _producer(self, p: UOp) -> UOp:
        """GET stands for the op whose result it is."""
        return p.src[0] if p.op is Op.GET else p

    # ---- clusters
    def assign(self) -> None:
        for u in self.nodes:
            if u in self.contractions:
                self._open_contraction(u)
            elif u.op in OPAQUE:
                self._new(u, ClusterKind.OPAQUE, self._later(u), ())
            else:
                self._row(u)

    def _later(self, u: UOp) -> int:
        """The first stage at which all operands are in memory."""
        stage = 0
        for e in self.edges[u]:
            if e.node.op is not Op.PARAM:
                stage = max(stage, self.stage[e.node] + (e.node in self.of))
        return stage

    def _new(self, u: UOp, kind: ClusterKind, stage: int, shape: tuple[int, ...]) -> Cluster:
        c = Cluster(kind, stage, shape, nodes=[u], size=1)
        self.of[u] = c
        self.stage[u] = stage
        return c

    def _open_contraction(self, u: UOp) -> None:
        c = self._new(u, ClusterKind.CONTRACT, self._later(u), squeeze(u.shape))
        c.contraction = self.contractions[u]

    def _row(self, u: UOp) -> None:
        is_reduce = u.op is Op.REDUCE
        is_view = not is_reduce and u.op not in ELEMENTS
        shape = squeeze(u.src[0].shape if is_reduce else u.shape)
        reduced = _reduced(u) if is_reduce else None
        cost, size = self._cone_of(u)
        stage = 0
        candidates: list[tuple[int, Cluster]] = []
        for e in self.edges[u]:
            p = e.node
            if p.op is Op.PARAM:
                continue
            if p not in self.of:
                stage = max(stage, self.stage[p])
                continue
            c = find(self.of[p])
            joins = c.size + size <= MAX_NODES and self._joins(u, e, c, is_reduce, shape, reduced)
            if is_view:  # a copy: only a contraction writes its result in any order at no cost
                joins = joins and c.kind is ClusterKind.CONTRACT and _is_rearranged(u, e.node)
            if joins:
                candidates.append((c.stage, c))
            stage = max(stage, c.stage + (not joins))
        join = self._choose([c for s, c in candidates if s == stage])
        if join is None and any(s == stage for s, _ in candidates):
            stage += 1
        self.stage[u] = stage
        if join is not None:
            if is_reduce and join.reduced is None:
                join.reduced = reduced
            if join.kind is ClusterKind.CONTRACT and join.shape != shape:
                join.moved = True
                join.shape = shape
            elif join.kind is ClusterKind.CONTRACT and self._through_view(u, join):
                join.moved = True
            join.nodes.append(u)
            join.size += size
            self.of[u] = join
        elif is_reduce or is_view or self._opens(u, cost, size):
            c = self._new(u, ClusterKind.ROW, stage, shape)
            c.size = size
            c.reduced = reduced
        else:
            self.cone[u] = cost, size
            self.large[u] = self._large_inputs(u)

    def _through_view(self, u: UOp, c: Cluster) -> bool:
        return any(e.way is Way.MOVED and e.node in self.of and find(self.of[e.node]) is c for e in self.edges[u])

    def _joins(
        self,
        u: UOp,
        e: Edge,
        c: Cluster,
        is_reduce: bool,
        shape: tuple[int, ...],
        reduced: tuple[int, ...] | None,
    ) -> bool:
        if c.kind is ClusterKind.OPAQUE:
            return False
        if c.kind is ClusterKind.CONTRACT:
            if is_reduce:
                return False
            if e.way is Way.SAME:
                return shape == c.shape and (not c.moved or e.node is not c.nodes[0])
            assert c.contraction is not None
            alone = len(c.nodes) == 1 and e.node is c.contraction.node and len(self.readers[e.node]) == 1
            if e.way is not Way.MOVED or not alone or e.node in self.required:
                return False
            return u.size == e.node.size or any(_is_rearranged(s, e.node) for s in _read_by(u))
        row_value = c.reduced is not None and squeeze(e.node.shape) != c.shape
        if is_reduce:
            fits = c.reduced is None or c.reduced == reduced
            return e.way is Way.SAME and not row_value and c.shape == shape and fits
        if e.way is Way.SAME:
            return shape == squeeze(e.node.shape)
        return e.way is Way.SPREAD and row_value and e.axes == c.reduced and shape == c.shape

    def _choose(self, candidates: list[Cluster]) -> Cluster | None:
        """One of the clusters that can take a node, merging them if that is allowed."""
        unique: list[Cluster] = []
        for c in candidates:
            c = find(c)
            if c not in unique:
                unique.append(c)
        if not unique:
            return None
        if len(unique) == 1:
            return unique[0]
        reduced = {c.reduced for c in unique if c.reduced is not None}
        rows = all(c.kind is ClusterKind.ROW and c.shape == unique[0].shape for c in unique)
        if rows and len(reduced) <= 1 and sum(c.size for c in unique) <= MAX_NODES:
            first = unique[0]
            for c in unique[1:]:
                first = merge(first, c)
            return find(first)
        return None

    def _cone_of(self, u: UOp) -> tuple[int, int]:
        """Cost and number of the nodes that come along when `u` is written: its own and the
        floating ones below.
        """
        cost, size = op_cost(u), 1
        for p in {e.node: None for e in self.edges[u]}:
            if p in self.cone:
                cost += self.cone[p][0]
                size += self.cone[p][1]
        return cost, size

    def _large_inputs(self, u: UOp) -> frozenset[UOp]:
        out: set[UOp] = set()
        for e in self.edges[u]:
            if e.node in self.large:
                out |= self.large[e.node]
            elif isinstance(e.node.shape, tuple) and _elements(e.node) * 2 > u.size:
                out.add(e.node)
        return frozenset(out) if len(out) <= 8 else frozenset(list(out)[:8])

    def _opens(self, u: UOp, cost: int, size: int) -> bool:
        if u in self.required or size > MAX_NODES:
            return True
        readers = {r: None for r in self.readers.get(u, ())}
        if len(readers) > 1 and (cost > SHARED_COST or len(self._large_inputs(u)) > 2):
            return True
        if cost < EXPENSIVE:
            return False
        for r in readers:  # a costly value read many times over
            for e in self.edges[r]:
                if (
                    e.node is u
                    and e.way in (Way.SPREAD, Way.REPEATED)
                    and r.size * (r.op is not Op.REDUCE) > 2 * u.size
                ):
                    return True
        return False

    # ---- what crosses
    def users(self) -> dict[UOp, list[Cluster]]:
        """For each keyed node the other clusters that read it, through floating nodes."""
        out: dict[UOp, list[Cluster]] = {}
        for c in self.clusters():
            seen: set[UOp] = set()
            stack = list(c.nodes)
            while stack:
                u = stack.pop()
                for e in self.edges[u]:
                    p = e.node
                    if p.op is Op.PARAM or p in seen or e.way is Way.ORDER:
                        continue
                    seen.add(p)
                    if p not in self.of:
                        stack.append(p)
                    elif find(self.of[p]) is not c:
                        out.setdefault(p, []).append(c)
        return out

    def below(self, c: Cluster) -> list[UOp]:
        """What `c` reads or waits for: nodes of other clusters, and parameters."""
        found: dict[UOp, None] = {}
        seen: set[UOp] = set()
        stack = list(c.nodes)
        while stack:
            for e in self.edges[stack.pop()]:
                q = e.node
                if q in seen:
                    continue
                seen.add(q)
                if q.op is Op.PARAM:
                    found[q] = None
                elif q not in self.of:
                    stack.append(q)
                elif find(self.of[q]) is not c:
                    found[q] = None
        return list(found)

    def clusters(self) -> list[Cluster]:
        seen: dict[int, Cluster] = {}
        for u in self.nodes:
            if u in self.of:
                c = find(self.of[u])
                seen.setdefault(id(c), c)
        return sorted(seen.values(), key=lambda c: c.stage)

    def sink(self) -> None:
        """A row cluster read by exactly one other of equal S and R, with nothing required, moves
        into it.
        """
        users = self.users()
        for c in reversed(self.clusters()):
            if c.kind is not ClusterKind.ROW or c.parent is not None or any(u in self.required for u in c.nodes):
                continue
            readers = {id(find(d)): find(d) for u in c.nodes for d in users.get(u, ())}
            if len(readers) != 1:
                continue
            d = next(iter(readers.values()))
            fits = d.kind is ClusterKind.ROW and d is not c and d.shape == c.shape and d.reduced == c.reduced
            if fits and c.size + d.size <= MAX_NODES and self._same_way(c, d):
                merge(c, d)

    def _same_way(self, c: Cluster, d: Cluster) -> bool:
        """Whether `d` (also through floating nodes) reads every value of `c` in its own place."""
        own = set(c.nodes)
        stack = list(d.nodes)
        seen: set[UOp] = set()
        while stack:
            u = stack.pop()
            for e in self.edges[u]:
                p = e.node
                if p in own:
                    row = squeeze(p.shape) != c.shape
                    if not (e.way is Way.SAME and not (row and squeeze(_in_shape(u)) == c.shape)) and not (
                        row and e.way is Way.SPREAD and e.axes == c.reduced
                    ):
                        return False
                elif p not in self.of and p not in seen and p.op is not Op.PARAM:
                    if e.way is not Way.SAME:
                        below = self._reads(p, own)
                        if below:
                            return False
                        continue
                    seen.add(p)
                    stack.append(p)
        return True

    def _reads(self, u: UOp, own: set[UOp]) -> bool:
        """Whether floating `u` reads one of `own`."""
        stack, seen = [u], {u}
        while stack:
            for e in self.edges[stack.pop()]:
                if e.node in own:
                    return True
                if e.node not in self.of and e.node not in seen and e.node.op is not Op.PARAM:
                    seen.add(e.node)
                    stack.append(e.node)
        return False

    def stored(self) -> set[UOp]:
        """Required nodes, and those that cross and are not cheap to write again."""
        users = self.users()
        out: set[UOp] = set()
        for u in self.nodes:
            if u not in self.of or u.op in OPAQUE:
                continue
            if u in self.required:
                out.add(u)
            elif u in users and not self._cheap(u, out):
                out.add(u)
        return out

    def _cheap(self, u: UOp, stored: set[UOp]) -> bool:
        """Whether at most a few cheap ops over values stored anyway (or PARAMs) give `u`; its row
        values get stored.
        """
        if u.op not in ELEMENTS or u in self.contractions:
            return False
        cost = 0
        big: set[UOp] = set()
        rows: list[UOp] = []
        stack, seen = [u], {u}
        while stack:
            x = stack.pop()
            cost += op_cost(x) if op_cost(x) <= 1 else 99
            if cost > RECOMPUTE_COST:
                return False
            for e in self.edges[x]:
                p = e.node
                if e.way is Way.ORDER or p in seen:
                    continue
                seen.add(p)
                if p.op in OPAQUE or p.op is Op.PARAM or p in stored:
                    if _elements(p) * 2 > u.size:
                        big.add(p)
                elif p in self.of and p.op is Op.REDUCE and p not in self.contractions and _elements(p) * 2 <= u.size:
                    rows.append(p)
                elif p.op in ELEMENTS and e.way is Way.SAME:
                    stack.append(p)
                else:
                    return False
        if len(big) > 2:
            return False
        stored.update(rows)
        return True


def opaque_operands(u: UOp) -> tuple[UOp, ...]:
    """The sources of an opaque op that must be in memory; the others are evaluated inside its
    kernel.
    """
    if u.op is Op.PREFIX:
        return ()
    if u.op is Op.UPDATE:
        return u.src[:1]
    return memory_sources(u) if u.op is Op.SORT else u.src


def _copied(u: UOp) -> list[Edge]:
    """What a view (or constant) that is to be copied reads."""
    kept = (Way.ORDER, Way.MOVED)
    return [Edge(e.node, e.way if e.way in kept else Way.REPEATED) for e in edges(u) if e.node is not u]


def _read_by(u: UOp) -> Sequence[UOp]:
    """The operands of `u`; a view is its own."""
    return u.src if u.op in ELEMENTS or u.op is Op.REDUCE else (u,)


def _is_rearranged(view: UOp, node: UOp) -> bool:
    """Whether `view` is a box of the elements of `node`, in another order: what computes them can put them there."""
    is_cut = is_reshaped = False
    while view is not node:
        match view.op:
            case Op.PERMUTE | Op.AFTER:
                pass
            case Op.RESHAPE:
                is_reshaped |= squeeze(view.shape) != squeeze(view.src[0].shape)
            case Op.SHRINK if len(view.src) == 1:
                is_cut = True
            case _:
                return False
        view = view.src[0]
    return not (is_cut and is_reshaped)


def _reduced(u: UOp) -> tuple[int, ...]:
    """Positions of the reduced axes among those with more than one element."""
    kept = [i for i, n in enumerate(u.src[0].shape) if n != 1]
    return tuple([k for k, i in enumerate(kept) if i in u.arg[1]])


def _in_shape(u: UOp) -> tuple[int, ...]:
    return u.src[0].shape if u.op is Op.REDUCE else u.shape


def _elements(u: UOp) -> int:
    if isinstance(u.dtype, tuple):
        return max([_product(s) for s in u.shape], default=0)
    return u.size


def _product(shape: tuple[int, ...]) -> int:
    n = 1
    for m in shape:
        n *= m
    return n


def partition(outs: Sequence[UOp]) -> Partition:
    """The clusters of a prepared program."""
    p = _Partitioner(outs)
    p.find_contractions()
    p.find_edges()
    p.assign()
    p.sink()
    stored = p.stored()
    clusters = in_order(p.clusters(), p.below, lambda u: find(p.of[u]) if u in p.of else None)
    for c in clusters:
        c.nodes = sorted(set(c.nodes), key=p.order.__getitem__)
    of = {u: find(c) for u, c in p.of.items()}
    return Partition(clusters, of, stored, p.order)
