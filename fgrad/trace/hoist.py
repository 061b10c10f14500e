"""hoist: contractions that need not wait for the carry leave their loop, as one over all steps.

    before   a sum of products of a stream and a const (the input projection of an RNN) is computed
             for all steps at once and streamed in
    after    a carry that only adds up products, acc' = acc + e(p, q), and a result that is a
             contraction of p and q: the loop stacks p and q (often stacked already); after it
             stands e, batched over time, summed over time where it was added up

So the gradients of an RNN's weights and inputs become one matrix product each, not one a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.trace.batch import batch_nodes
from fgrad.trace.interpret import node_of
from fgrad.trace.products import is_expanded, is_outer
from fgrad.trace.widen import Batching, lead
from fgrad.uop.build import add, is_const, reduce_, scalar_of
from fgrad.uop.node import UOp, open_param, substitute, toposort, uop
from fgrad.uop.op import CALLS, ELEMENTWISE, LEAVES, MOVEMENT, Op
from fgrad.uop.program import Scan, close, gets

_THROUGH = (Op.NEG, Op.EXPAND, Op.PERMUTE, Op.RESHAPE)
# what is stacked for a move is at most so much bigger than what the loop streams anyway: loops over
# chunks, which are there to save memory, stay loops
_GROWTH = 8


def hoist(outs: Sequence[UOp]) -> list[UOp]:
    """`outs` with contractions moved out of all SCANs."""
    value: dict[UOp, UOp] = {}
    members: dict[UOp, list[UOp]] = {}
    for u in toposort(outs):
        if u.op is Op.GET and u.src[0] in members:
            value[u] = members[u.src[0]][u.arg]
            continue
        src = tuple([node_of(members.get(s, value[s])) for s in u.src])
        new = value[u] = u if src == u.src else uop(u.op, src, u.arg)
        if u.op is Op.SCAN:
            arg, src = _projected(new.arg, src)
            members[u] = _collected(arg, src)
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


# ---- before the loop
def _projected(s: Scan, src: tuple[UOp, ...]) -> tuple[Scan, tuple[UOp, ...]]:
    """The SCAN with its projections of streams computed before it."""
    nc, ns, ps = s.consts, s.carry, s.body.params
    nodes = s.body.nodes
    if not any(is_sum(u) and is_outer(u.src[0]) for u in nodes):
        return s, src
    consts = set(ps[:nc])
    streams = set(ps[nc + ns :])  # and what is cheaply made of them
    most = _GROWTH * sum(p.size for p in ps[nc + ns :])
    found: list[UOp] = []
    for u in nodes:
        if u.op in LEAVES:
            if u.op is not Op.PARAM:
                consts.add(u)
        elif u.op in CALLS:
            continue
        elif all(q in consts for q in u.src):
            consts.add(u)
        elif not all(q in consts or q in streams for q in u.src):
            continue
        elif u.op in ELEMENTWISE or u.op in MOVEMENT:
            streams.add(u)
        elif is_sum(u) and is_outer(u.src[0]) and u.size <= most:
            x, y = u.src[0].src
            moving = [s for s in (x, y) if s in streams]
            if len(moving) == 1 and all(q.size <= most for q in _factors(moving[0])):
                streams.add(u)
                found.append(u)
    if not found:
        return s, src
    env = {p: (a, False) for p, a in zip(ps[:nc], src, strict=False)}
    env |= {p: (a, True) for p, a in zip(ps[nc + ns :], src[nc + ns :], strict=True)}
    values, _ = batch_nodes(found, env, Batching(s.length))
    fresh = [open_param(u.dtype, u.shape, "projected") for u in found]
    outs = substitute(s.body.outs, dict(zip(found, fresh, strict=True)))
    used = set(toposort(outs))
    kept = [k for k in range(len(ps)) if ps[k] in used or nc <= k < nc + ns]
    pairs = [(p, v) for p, v in zip(fresh, values, strict=True) if p in used]
    body = close([*[ps[k] for k in kept], *[p for p, _ in pairs]], outs)
    n_consts = sum(k < nc for k in kept)
    xs = len(kept) - n_consts - ns + len(pairs)
    arg = Scan(body, s.length, n_consts, ns, xs, s.reverse)
    return arg, (*[src[k] for k in kept], *[v for _, v in pairs])


# ---- after the loop
def _collected(s: Scan, src: tuple[UOp, ...]) -> list[UOp]:
    """The members of the SCAN, those that are sums of products computed after it."""
    nc, ns, ps, outs = s.consts, s.carry, s.body.params, s.body.outs
    uses: dict[UOp, int] = {}
    for u in s.body.nodes:
        for q in u.src:
            uses[q] = uses.get(q, 0) + 1
    free = {*ps[:nc], *ps[nc + ns :]}
    terms: dict[int, UOp] = {}  # output number -> what is added up, or is the result, in one step
    stacked: dict[UOp, None] = {}
    delayed: dict[UOp, UOp] = {}  # what a checkpoint reads late, and what it is
    candidates: dict[int, UOp] = {}
    for k, o in enumerate(outs):
        if uses.get(o) or outs.count(o) != 1 or not o.dtype.is_inexact:
            continue
        e = _added(o, ps[nc + k], uses, outs) if k < ns else o if is_sum(o) else None
        if e is not None:
            candidates[k] = e
    streamed = sum(p.size for p in ps[nc + ns :])
    streamed += sum(o.size for k, o in enumerate(outs) if k not in candidates)
    for k, e in candidates.items():
        factors = _factors(e)
        late = {q: q.src[0] for q in factors if q.op is Op.AFTER and q.src[0] in free}
        new = [q for q in factors if q not in free and q not in late]
        size = sum(q.size for q in new)
        smaller = size < e.size or (k >= ns and is_outer(e.src[0]) and size == e.size)
        if smaller and size <= _GROWTH * streamed:
            terms[k] = e
            stacked.update(dict.fromkeys(new))
            delayed.update(late)
    if not terms:
        return gets(uop(Op.SCAN, src, s))
    kept = [k for k in range(len(outs)) if k not in terms]
    carries = [k for k in kept if k < ns]
    at = {outs[k]: i for i, k in enumerate(kept) if k >= ns}  # what is stacked already
    results = [outs[k] for k in kept]
    for q in stacked:
        if q not in at:
            at[q] = len(results)
            results.append(q)
    used = set(toposort(results))
    cs = [k for k in range(nc) if ps[k] in used]
    xs = [k for k in range(nc + ns, len(ps)) if ps[k] in used]
    got: list[UOp] = []
    if results:
        order = [*cs, *[nc + k for k in carries], *xs]
        body = close([ps[k] for k in order], results)
        arg = Scan(body, s.length, len(cs), len(carries), len(xs), s.reverse)
        got = gets(uop(Op.SCAN, tuple([src[k] for k in order]), arg))
    env = {p: (a, False) for p, a in zip(ps[:nc], src, strict=False)}
    env |= {p: (a, True) for p, a in zip(ps[nc + ns :], src[nc + ns :], strict=True)}
    env |= {q: (got[at[q]], True) for q in stacked}
    env |= {q: env[p] for q, p in delayed.items()}
    result: dict[int, UOp] = dict(zip(kept, got, strict=False))
    for k, e in terms.items():
        (value,), (over_time,) = batch_nodes([e], env, Batching(s.length))
        value = value if over_time else lead(value, s.length)
        if k < ns:
            total, init = reduce_(value, (0,)), src[nc + k]
            value = total if is_const(init) and scalar_of(init) == 0 else add(init, total)
        result[k] = value
    return [result[k] for k in range(len(outs))]


def _added(o: UOp, p: UOp, uses: dict[UOp, int], outs: Sequence[UOp]) -> UOp | None:
    """What the carry `p` grows by in a step, if nothing else reads it."""
    if o.op is not Op.ADD or uses.get(p) != 1 or p not in o.src or p in outs:
        return None
    return o.src[1] if o.src[0] is p else o.src[0]
