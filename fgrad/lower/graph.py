"""Looking through views: what a node really reads, and how.

An edge says how operand p reaches its reader: SAME (only axes of one element come and go),
SPREAD (an EXPAND on exactly `axes`, otherwise SAME), MOVED (permuted, reshaped, cut, flipped:
each element read at most once), REPEATED (any other way: windows, gathers, several EXPANDs),
ORDER (AFTER's dependency: no value is read).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from fgrad.lower.index import Cond, Expr, Index, Ranges
from fgrad.lower.views import VIEWS, step
from fgrad.uop.node import UOp
from fgrad.uop.op import ELEMENTWISE, Op

ELEMENTS = frozenset((*ELEMENTWISE, Op.BITCAST))
OPAQUE = frozenset((Op.PREFIX, Op.SORT, Op.UPDATE, Op.SCAN, Op.WHILE, Op.COND, Op.HOST))
SAME_LAYOUT = (Op.RESHAPE, Op.AFTER)


class Way(Enum):
    """How an operand is read."""

    SAME = 0
    SPREAD = 1
    MOVED = 2
    REPEATED = 3
    ORDER = 4


@dataclass(frozen=True, slots=True)
class Edge:
    """Operand `node` (no view), and the way it is read; `axes` of the reader's squeezed shape for
    SPREAD.
    """

    node: UOp
    way: Way
    axes: tuple[int, ...] = ()


def squeeze(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([n for n in shape if n != 1])


def under(u: UOp) -> UOp:
    """The node whose memory can stand for `u`: below RESHAPE and AFTER."""
    while u.op in SAME_LAYOUT:
        u = u.src[0]
    return u


def edges(x: UOp) -> list[Edge]:
    """What operand `x` reads: the node below its views first, then indices, starts and
    dependencies.
    """
    chain: list[UOp] = []
    extra: list[Edge] = []
    while x.op in VIEWS:
        chain.append(x)
        if x.op in (Op.GATHER, Op.SHRINK):
            for s in x.src[1:]:
                extra += [Edge(e.node, max(e.way, Way.REPEATED, key=lambda w: w.value)) for e in edges(s)]
        elif x.op is Op.AFTER:
            for s in x.src[1:]:
                extra += [Edge(e.node, Way.ORDER) for e in edges(s)]
        x = x.src[0]
    way, axes = _way(chain)
    return [Edge(x, way, axes), *extra]


def _way(chain: list[UOp]) -> tuple[Way, tuple[int, ...]]:
    way = Way.SAME
    axes: tuple[int, ...] = ()
    for m in reversed(chain):
        x = m.src[0]
        if m.op is Op.AFTER or (m.op is Op.RESHAPE and squeeze(m.shape) == squeeze(x.shape)):
            continue
        if m.op is Op.EXPAND:
            real = {a for a, n in m.arg if n != 1}
            if not real:
                continue
            if way is not Way.SAME:
                return Way.REPEATED, ()
            way = Way.SPREAD
            kept = [i for i, n in enumerate(m.shape) if n != 1]
            axes = tuple([k for k, i in enumerate(kept) if i in real])
        elif m.op in (Op.PERMUTE, Op.RESHAPE, Op.SHRINK, Op.FLIP, Op.PAD):
            if m.op is Op.PERMUTE:
                moved = [a for a in m.arg if x.shape[a] != 1]
                if moved == sorted(moved):
                    continue
            if way is Way.SPREAD:
                return Way.REPEATED, ()
            way = Way.MOVED
        else:
            return Way.REPEATED, ()
    return way, axes


Leaf = tuple[UOp, Expr, tuple[Cond, ...]]


def leaves(ranges: Ranges, root: UOp, index: Index, is_leaf: Callable[[UOp], bool]) -> tuple[list[Leaf], list[Expr]]:
    """-> (leaves with their addresses, other expressions that occur: conditions, IOTAs) below
    `root` at `index`.
    """
    found: list[Leaf] = []
    other: list[Expr] = []
    seen: set[tuple[UOp, Index]] = set()
    stack: list[tuple[UOp, Index]] = [(root, index)]
    values = 0
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        u, i = at
        if is_leaf(u):
            found.append((u, ranges.address(i, u.shape), ()))
        elif u.op in VIEWS:
            first = len(ranges.atoms)
            source, inner, conds = step(ranges, u, i)
            other += [c[0] for c in conds]
            stack.append((source, inner))
            if u.op is Op.GATHER:
                stack.append((u.src[1], i[: u.src[1].ndim]))
            elif u.op is Op.SHRINK:
                stack += [(s, ()) for s in u.src[1:]]
            values += len(ranges.atoms) - first
        elif u.op is Op.IOTA:
            other.append(i[0])
        elif u.op is not Op.CONST:
            stack += [(s, i) for s in u.src]
    return found, other
