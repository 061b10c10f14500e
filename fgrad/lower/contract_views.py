"""contract_views: the way between a contraction and what is stored, and strides in an address."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.lower import views
from fgrad.lower.graph import ELEMENTS
from fgrad.lower.index import ZERO, Cond, Expr, Index, Ranges
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op


def way_down(node: UOp, root: UOp, is_leaf: Callable[[UOp], bool]) -> list[UOp] | None:
    """The nodes from `root` down to `node`, through elementwise ops and views."""
    above: dict[UOp, UOp] = {}
    stack = [root]
    while stack:
        u = stack.pop()
        if u is node:
            path = [u]
            while path[-1] is not root:
                path.append(above[path[-1]])
            return path[::-1]
        if is_leaf(u) or not (u.op in ELEMENTS or u.op in views.VIEWS):
            continue
        for s in u.src[:1] if u.op in views.VIEWS else u.src:
            if s not in above and s is not root:
                above[s] = u
                stack.append(s)
    return None


def index_above(
    ranges: Ranges, node: UOp, index: Index, root: UOp, is_leaf: Callable[[UOp], bool]
) -> Index | None:
    """The index of `root` at which it uses `node[index]`; None if views between cut or repeat."""
    chain = way_down(node, root, is_leaf)
    assert chain is not None, "a stored node that does not use its contraction"
    for u in reversed(chain[:-1]):
        if u.op is Op.PERMUTE:
            index = tuple([index[axis] for axis in u.arg])
        elif u.op is Op.RESHAPE:
            index = views.step(ranges, uop(Op.RESHAPE, (u,), u.src[0].shape), index)[1]
        elif u.op is Op.FLIP:
            index = views.step(ranges, u, index)[1]  # its own inverse
        elif u.op is Op.EXPAND:
            if any(n != 1 for _, n in u.arg):
                return None
            full = list(index)
            for axis, _ in u.arg:
                full.insert(axis, ZERO)
            index = tuple(full)
        elif u.op in views.VIEWS and u.op is not Op.AFTER:
            return None
    return index


def index_below(
    ranges: Ranges, node: UOp, root: UOp, at: Index, is_leaf: Callable[[UOp], bool]
) -> tuple[Index, list[Cond]] | None:
    """The index of `node` that `root[at]` uses, and where it does."""
    chain = way_down(node, root, is_leaf)
    if chain is None:
        return None
    conds: list[Cond] = []
    for u in chain[:-1]:
        if u.op in views.VIEWS:
            _, at, more = views.step(ranges, u, at)
            conds += more
    return at, conds


def stride_of(ranges: Ranges, address: Expr, t: int) -> int:
    """The smallest step that range `t` makes in `address`; large where it makes none."""
    found = [abs(c) for atom, c in address[1] if t in ranges.bases(atom)]
    return min(found, default=1 << 62)


def lane_step(ranges: Ranges, e: Expr, atom: int, vector: Expr, lane: int) -> int | None:
    """The step of `e` from lane to lane when range `atom` runs over `vector`; None: irregular."""
    if all(atom not in ranges.bases(t) for t, _ in e[1]):
        return 0
    step = 0
    for t, c in ranges.recombine(ranges.substitute(e, {atom: vector}))[1]:
        if t == lane:
            step = c
        elif lane in ranges.bases(t):
            return None
    return step


def split_strides(ranges: Ranges, e: Expr, x: Expr, y: Expr) -> tuple[int, int, Expr | None]:
    """(coefficient of x, of y, the rest), the rest None if it depends on them otherwise."""
    atoms = [v[1][0][0] if v[1] else -1 for v in (x, y)]
    terms = dict(e[1])
    first, second = [terms.pop(t, 0) for t in atoms]
    rest: Expr = (e[0], tuple(sorted(terms.items())))
    return (first, second, rest) if ranges.bases_of(rest).isdisjoint(atoms) else (0, 0, None)
