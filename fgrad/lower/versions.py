"""Versions of an array: what lets an UPDATE or a loop work in the memory of the old one.

What it needs of the old version beside its own place is put in memory before (`apart`), and other readers of the old
version come before it (`in_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from fgrad.lower.cluster import Cluster
from fgrad.lower.graph import ELEMENTS, OPAQUE, under
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

MAX_NODES = 300  # looked at below a value


def apart(u: UOp, versions: Mapping[UOp, UOp]) -> list[UOp]:
    """What an UPDATE must find in memory so that it can be done in place: a value (or gate) that depends on other
    elements of the old version than those it replaces, or on older versions, if it is small beside that.
    """
    old, own = under(u.src[0]), u.src[1 + u.arg.indexed :]
    out = []
    for x in (u.src[1], *own[len(own) - u.arg.gated :]):
        if 0 < 2 * x.size <= old.size and _reads_elsewhere(x, old, u, versions):
            out.append(under(x))
    return out


def _reads_elsewhere(root: UOp, old: UOp, update: UOp, versions: Mapping[UOp, UOp]) -> bool:
    """Whether `root` depends on a version of `old` in another way than elementwise on this one where `update` writes.
    """
    first = versions[update]
    here = (update.arg.box, update.src[2 : 2 + sum(b[0] is None for b in update.arg.box or ())])
    stack, seen = [(root, True)], {(root, True)}
    while stack and len(seen) < MAX_NODES:
        x, is_elementwise = stack.pop()
        if versions.get(x, x) is first:
            return True
        if is_elementwise and x.op is Op.SHRINK and under(x.src[0]) is old and (x.arg, x.src[1:]) == here:
            continue
        if x.op in OPAQUE or x.op is Op.REDUCE:  # in memory anyway
            continue
        same = is_elementwise and (x.op in ELEMENTS or x.op in (Op.AFTER, Op.EXPAND))
        for s in x.src:
            if (s, same) not in seen:
                seen.add((s, same))
                stack.append((s, same))
    return False


def _olds(u: UOp) -> list[UOp]:
    """The old versions that an op could work on in place."""
    match u.op:
        case Op.UPDATE:
            return [under(u.src[0])]
        case Op.SCAN:
            return [under(s) for s in u.src[u.arg.consts : u.arg.consts + u.arg.carry]]
        case Op.WHILE:
            return [under(s) for s in u.src[u.arg.consts :]]
    return []


def in_order(
    clusters: list[Cluster], below: Callable[[Cluster], list[UOp]], home: Callable[[UOp], Cluster | None]
) -> list[Cluster]:
    """`clusters`, which come by stage, but an op that could work in place after the others that read the old version,
    where those do not depend on it.

    below      what a cluster reads or waits for
    home       the cluster that computes a node; None for parameters
    """
    olds = [dict.fromkeys([o for u in c.nodes for o in _olds(u)]) for c in clusters]
    watched = {o for mine in olds for o in mine}
    if not watched:
        return clusters
    number = {id(c): i for i, c in enumerate(clusters)}
    after: list[list[int]] = [[] for _ in clusters]  # who reads what cluster i computes
    waits = [0] * len(clusters)
    readers: dict[UOp, list[int]] = {o: [] for o in watched}
    for i, c in enumerate(clusters):
        for q in below(c):
            if q in watched:
                readers[q].append(i)
            c_of = home(q)
            j = i if c_of is None else number[id(c_of)]
            if j != i:
                after[j].append(i)
                waits[i] += 1
    left = {o: len(found) for o, found in readers.items()}
    ready: list[int] = []
    late: list[int] = []  # other readers of the old version are still to come

    def is_free(i: int) -> bool:
        return all(left[o] <= 1 for o in olds[i])

    def put(i: int) -> None:
        heappush(ready if is_free(i) else late, i)

    for i, n in enumerate(waits):
        if n == 0:
            put(i)
    out: list[Cluster] = []
    done = [False] * len(clusters)
    while len(out) < len(clusters):
        i = heappop(ready if ready else late)
        if done[i]:
            continue
        done[i] = True
        out.append(clusters[i])
        for o in [o for o in below(clusters[i]) if o in watched]:
            left[o] -= 1
            if left[o] == 1:
                for j in readers[o]:
                    if waits[j] == 0 and not done[j] and is_free(j):
                        heappush(ready, j)
        for j in after[i]:
            waits[j] -= 1
            if waits[j] == 0:
                put(j)
    return out
