"""hoist: a carry that only adds up products leaves its loop as one contraction over time.

acc' = acc + e(p, q), where acc is read nowhere else and e multiplies values that together are
smaller than itself: the loop stacks p and q (often stacked already), and after it acc + sum over
time of e, batched over time. The gradient of an RNN's weights so becomes one matrix product instead
of one for each step.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.trace.batch import batch_nodes
from fgrad.trace.interpret import node_of
from fgrad.trace.products import is_expanded
from fgrad.trace.widen import Batching, lead
from fgrad.uop.build import add, is_const, reduce_, scalar_of
from fgrad.uop.node import UOp, toposort, uop
from fgrad.uop.op import LEAVES, Op
from fgrad.uop.program import Scan, close, gets

_THROUGH = (Op.NEG, Op.EXPAND, Op.PERMUTE, Op.RESHAPE)


def hoist(outs: Sequence[UOp]) -> list[UOp]:
    """`outs` with accumulators moved out of all SCANs."""
    value: dict[UOp, UOp] = {}
    members: dict[UOp, list[UOp]] = {}
    for u in toposort(outs):
        if u.op is Op.GET and u.src[0] in members:
            value[u] = members[u.src[0]][u.arg]
            continue
        src = tuple([node_of(members.get(s, value[s])) for s in u.src])
        new = value[u] = u if src == u.src else uop(u.op, src, u.arg)
        if u.op is Op.SCAN:
            found = _hoisted(new.arg, src)
            if found is not None:
                members[u] = found
    return [value[o] for o in outs]


def is_sum(u: UOp) -> bool:
    return u.op is Op.REDUCE and u.arg[0] is Op.ADD


def _factors(e: UOp) -> list[UOp]:
    """The values that `e` is made of by outer products, sums and views."""
    out: dict[UOp, None] = {}
    stack = [e]
    while stack:
        q = stack.pop()
        if q.op in _THROUGH or (q.op is Op.MUL and any(map(is_expanded, q.src))) or is_sum(q):
            stack.extend(q.src)
        elif q.op not in LEAVES or q.op is Op.PARAM:
            out[q] = None
    return list(out)


def _hoisted(s: Scan, src: tuple[UOp, ...]) -> list[UOp] | None:
    nc, ns, ps, outs = s.consts, s.carry, s.body.params, s.body.outs
    uses: dict[UOp, int] = {}
    for u in s.body.nodes:
        for q in u.src:
            uses[q] = uses.get(q, 0) + 1
    free = {*ps[:nc], *ps[nc + ns :]}
    terms: dict[int, UOp] = {}
    stacked: dict[UOp, None] = {}
    for k in range(ns):
        p, o = ps[nc + k], outs[k]
        if o.op is not Op.ADD or uses.get(p) != 1 or p not in o.src or p in outs or uses.get(o):
            continue
        e = o.src[1] if o.src[0] is p else o.src[0]
        new = [q for q in _factors(e) if q not in free]
        if e.dtype.is_inexact and outs.count(o) == 1 and sum(q.size for q in new) < e.size:
            terms[k] = e
            stacked.update(dict.fromkeys(new))
    if not terms:
        return None
    kept = [k for k in range(ns) if k not in terms]
    results = [*[outs[k] for k in kept], *outs[ns:], *stacked]
    used = set(toposort(results))
    cs = [k for k in range(nc) if ps[k] in used]
    xs = [k for k in range(nc + ns, len(ps)) if ps[k] in used]
    got: list[UOp] = []
    if results:
        body = close(
            [*[ps[k] for k in cs], *[ps[nc + k] for k in kept], *[ps[k] for k in xs]], results
        )
        sources = (*[src[k] for k in cs], *[src[nc + k] for k in kept], *[src[k] for k in xs])
        got = gets(
            uop(Op.SCAN, sources, Scan(body, s.length, len(cs), len(kept), len(xs), s.reverse))
        )
    env = {p: (a, False) for p, a in zip(ps[:nc], src, strict=False)}
    env |= {p: (a, True) for p, a in zip(ps[nc + ns :], src[nc + ns :], strict=True)}
    n_ys = len(outs) - ns
    env |= {q: (y, True) for q, y in zip(stacked, got[len(kept) + n_ys :], strict=True)}
    result: dict[int, UOp] = dict(zip(kept, got, strict=False))
    result |= {ns + j: got[len(kept) + j] for j in range(n_ys)}
    for k, e in terms.items():
        (value,), (over_time,) = batch_nodes([e], env, Batching(s.length))
        value = value if over_time else lead(value, s.length)
        total, init = reduce_(value, (0,)), src[nc + k]
        result[k] = total if is_const(init) and scalar_of(init) == 0 else add(init, total)
    return [result[k] for k in range(len(outs))]
