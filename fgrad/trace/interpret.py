"""The four interpreters: their tables, their walks over nodes, and their memoised forms over whole Programs.

    push    (primal, tangent) forward            rows: jvp
    split   primal and linear parts of calls      rows: split
    pull    cotangents backward                   rows: transpose
    batch   one new leading axis                  rows: batching

The rows stand in files of their own (`jvp.py`, `transpose.py`, `batch.py`, `control_*.py`, `call.py`); import the walks from
`jvp`, `split`, `transpose`, `batch`, whose imports fill the tables. A walk is one pass, sources first, without recursion
but into the programs of calls, and those are memoised: nested loops with fixed points would multiply otherwise.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import fgrad.uop.infer  # noqa: F401  no node can be made before its table is filled
from fgrad.trace.maybe import Maybe, instantiate, pick, present
from fgrad.trace.products import addends, holds_product, is_outer
from fgrad.trace.rules import Rules
from fgrad.trace.strong import Cotangent, Singular, either, mask_of_source
from fgrad.uop import dtype as dt
from fgrad.uop.build import const, expand, is_const, scalar_of, where
from fgrad.uop.node import UOp, open_param, toposort, uop
from fgrad.uop.op import CALLS, Op
from fgrad.uop.program import Program, close

jvp = Rules("the derivative")
split_rules = Rules("the primal-linear split")
transpose = Rules("the transpose")
batching = Rules("vmap")

TUPLES = frozenset((*CALLS, Op.SORT, Op.TUPLE))  # rows of these give one value for each member
_F = TypeVar("_F", bound=Callable[..., Any])
_caches: list[Any] = []


def memo(f: _F) -> _F:
    """Remember the results for the last few hundred Programs; `clear` forgets them."""
    cached: Any = lru_cache(maxsize=512)(f)
    _caches.append(cached)
    wrapped: _F = cached
    return wrapped


def clear() -> None:
    """Empty the caches of all transforms."""
    for c in _caches:
        c.cache_clear()


def node_of(value: Any) -> UOp:
    """A tuple that a walk keeps as the list of its members, as one node again."""
    return uop(Op.TUPLE, tuple(value)) if type(value) is list else value


# ---- jvp
def push(outs: Sequence[UOp], tangents: Mapping[UOp, UOp]) -> tuple[list[UOp], list[Maybe]]:
    """-> (primal outs, tangent outs); `tangents` gives those of the nodes that move.

    A tangent of None is an exact zero; so is that of every integer and bool. Primal outs are the nodes themselves except
    below calls, which now carry primals and tangents together. Nodes older than the moving ones are not visited.
    """
    primal: dict[UOp, Any] = {p: p for p in tangents}
    moving: dict[UOp, Any] = dict(tangents)
    for u in toposort(outs, min([p.born for p in tangents], default=0)):
        if u in primal:
            continue
        src = u.src
        for s in src:
            if s not in primal:
                primal[s], moving[s] = s, None
        if u.op is Op.GET and type(primal[src[0]]) is list:
            primal[u] = primal[src[0]][u.arg]
            moving[u] = moving[src[0]][u.arg]
            continue
        new = tuple([node_of(primal[s]) for s in src])
        d = [moving[s] for s in src]
        v = u if new == src else uop(u.op, new, u.arg)
        if all(t is None for t in d):
            primal[u], moving[u] = v, None
        elif u.op in TUPLES:
            primal[u], moving[u] = jvp[u.op](v, d)
        else:
            primal[u], moving[u] = v, jvp[u.op](v, *d)
    return [primal.get(o, o) for o in outs], [moving.get(o) for o in outs]


@memo
def jvp_program(program: Program, moves: tuple[bool, ...]) -> tuple[Program, tuple[bool, ...]]:
    """-> (Program from (*params, *tangents of those that move) to (*outs, *tangents), which outs have a tangent)."""
    ps = program.params
    dps = [open_param(p.dtype, p.shape, "tangent") for p in pick(ps, moves)]
    outs, douts = push(program.outs, dict(zip(pick(ps, moves), dps, strict=True)))
    body = close((*ps, *dps), [*outs, *present(douts)], program.effects)
    return body, tuple([t is not None for t in douts])


# ---- split
def marked(roots: Sequence[UOp], linear: Iterable[UOp], since: int = -2) -> set[UOp]:
    """The nodes that depend on `linear`. What only waits for something (AFTER) does not depend on it."""
    lin = set(linear)
    for u in toposort(roots, since):
        if u.op is Op.AFTER:
            if u.src[0] in lin:
                lin.add(u)
        elif u not in lin and any(s in lin for s in u.src):
            lin.add(u)
    return lin


def split(outs: Sequence[UOp], linear: Sequence[UOp]) -> tuple[list[UOp], set[UOp]]:
    """Make every call purely primal or purely linear -> (outs, the linear nodes).

    linear   the nodes (tangent parameters) that `outs` depends on linearly
    """
    since = min([p.born for p in linear], default=0)
    lin = set(linear)
    value: dict[UOp, Any] = {}
    flags: dict[UOp, list[bool]] = {}
    get = value.get
    changed = False
    for u in toposort(outs, since):
        if u in lin:
            value[u] = u
            continue
        if u.op is Op.GET and u.src[0] in flags:
            v = value[u] = value[u.src[0]][u.arg]
            if flags[u.src[0]][u.arg]:
                lin.add(v)
            continue
        src = tuple([node_of(get(s, s)) for s in u.src])
        v = u if src == u.src else uop(u.op, src, u.arg)
        value[u] = v
        if any(s in lin for s in src[: 1 if u.op is Op.AFTER else None]):
            lin.add(v)
            parts = split_rules[u.op](v, [s in lin for s in src])
            if parts is not None:
                changed = True
                value[u], flags[u] = parts
    new = [get(o, o) for o in outs]
    return new, marked(new, linear, since) if changed else lin


# ---- transpose
def pull(
    outs: Sequence[UOp], cts: Sequence[Maybe], wrt: Sequence[UOp], linear: set[UOp] | None = None
) -> list[Maybe]:
    """The cotangents of `wrt` for those of `outs`; None is an exact zero.

    linear   the nodes that depend on `wrt` linearly (from `split`), or None: find them
    """
    given = [None if c is None else (c, None) for c in cts]
    lin = marked(outs, wrt, _since(wrt)) if linear is None else linear
    return [None if c is None else c[0] for c in pull_masked(outs, given, wrt, lin)]


def _since(wrt: Sequence[UOp]) -> int:
    return min([w.born for w in wrt], default=0)


# what a product passes through on its own, so that it is reduced before it is added to others
_APART = frozenset((
    Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.NEG, Op.PAD, Op.SHRINK, Op.FLIP, Op.WINDOW, Op.SKEW,
))  # fmt: skip


def pull_masked(
    outs: Sequence[UOp],
    cts: Sequence[Cotangent | None],
    wrt: Sequence[UOp],
    linear: set[UOp],
    singular: Sequence[UOp] = (),
) -> list[Cotangent | None]:
    """`pull` for cotangents with strong-zero masks; `singular` are parameters that can be infinite or NaN."""
    order = toposort(outs, _since(wrt))
    asks = Singular(singular)
    masks = any(_asks_for_masks(u, linear, asks) for u in order)
    apart: dict[UOp, list[Cotangent]] = {}  # contributions, kept apart until the node is visited
    members: dict[UOp, dict[int, Cotangent]] = {}  # of tuple-valued nodes

    def give(s: UOp, v: UOp, m: Maybe) -> None:
        got = apart.get(s)
        if got is None:
            apart[s] = [(v, m)]
        else:
            got.append((v, m))

    for o, c in zip(outs, cts, strict=True):
        if c is not None and o in linear:
            give(o, c[0], c[1] if masks else None)
    ends = set(wrt)
    for u in reversed(order):
        if u not in linear or u in ends:
            continue
        if u.op in TUPLES:
            if u in members:
                here = members.pop(u)
                parts = [here.get(i) for i in range(len(u.shape))]
                flags = [s in linear for s in u.src]
                for s, part, wanted in zip(u.src, transpose[u.op](u, parts, flags), flags, strict=True):
                    if wanted and part is not None:
                        give(s, part[0], part[1] if masks else None)
            continue
        contributions = apart.pop(u, None)
        if contributions is None:
            continue
        if u.op is Op.GET:
            members.setdefault(u.src[0], {})[u.arg] = _total(contributions)
            continue
        flags = [s in linear for s in u.src]
        if u.op in _APART and any(holds_product(v) for v, _ in contributions):
            todo = [(term, m) for v, m in contributions for term in addends(v)]
        else:
            todo = [_total(contributions)]
        for v, m in todo:
            if m is not None and _multiplies_singular(u, linear, asks) and not is_outer(u):
                j = 0 if flags[0] else 1
                product = transpose[u.op](u, v, flags)[j]
                give(u.src[j], where(m, product, const(0, product.dtype)), m)
                continue
            for j, part in enumerate(transpose[u.op](u, v, flags)):
                if part is not None and flags[j]:
                    give(u.src[j], part, mask_of_source(transpose, u, j, m, flags) if masks else None)
    return [_total(apart[w]) if w in apart else None for w in wrt]


def _multiplies_singular(u: UOp, linear: set[UOp], asks: Singular) -> bool:
    if u.op is Op.MUL:
        x, y = u.src
        return (x in linear or y in linear) and asks(y if x in linear else x)
    return u.op is Op.DIV and u.src[0] in linear and not (is_const(u.src[1]) and scalar_of(u.src[1]) != 0)


def _asks_for_masks(u: UOp, linear: set[UOp], asks: Singular) -> bool:
    return u in linear and (u.op in CALLS or _multiplies_singular(u, linear, asks))


def _total(contributions: list[Cotangent]) -> Cotangent:
    total, mask = contributions[0]
    for v, m in contributions[1:]:
        total, mask = uop(Op.ADD, (total, v)), either(mask, m)
    return total, mask


ABSENT, MASKED, PLAIN = range(3)  # what is known of a cotangent: an exact zero; zero where its mask is false; nothing


def kind_of(c: Cotangent | None) -> int:
    return ABSENT if c is None else PLAIN if c[1] is None else MASKED


class Transposed(NamedTuple):
    """program: (*non-linear params, *cotangents that are there, *their masks) -> (*cotangents of linear params, *masks)."""

    program: Program
    kinds: tuple[int, ...]  # of the linear params' cotangents


@memo
def transpose_program(
    program: Program, linear: tuple[bool, ...], kinds: tuple[int, ...], singular: tuple[bool, ...]
) -> Transposed:
    """Transpose a program in its `linear` params, for cotangents of these kinds.

    singular   which params can be infinite or NaN (see `strong.py`)
    """
    ps = program.params
    wrt = pick(ps, linear)
    outs, lin = split(program.outs, wrt)
    cts = [open_param(o.dtype, o.shape, "ct") for o, k in zip(outs, kinds, strict=True) if k]
    masks = [open_param(dt.bool_, o.shape, "mask") for o, k in zip(outs, kinds, strict=True) if k == MASKED]
    c, m = iter(cts), iter(masks)
    given = [(next(c), next(m) if k == MASKED else None) if k else None for k in kinds]
    got = pull_masked(outs, given, wrt, lin, pick(ps, singular))
    parts = present(got)
    results = [*[v for v, _ in parts], *present([mask for _, mask in parts])]
    body = close((*pick(ps, linear, False), *cts, *masks), results)
    return Transposed(body, tuple([kind_of(g) for g in got]))


@memo
def needs_masks(program: Program, linear: tuple[bool, ...], singular: tuple[bool, ...]) -> bool:
    """Whether some linear value of the program meets a factor that can be infinite or NaN."""
    asks = Singular(pick(program.params, singular))
    lin = marked(program.outs, pick(program.params, linear))
    return any(_asks_for_masks(u, lin, asks) for u in program.nodes)


# ---- batch
class Batching(NamedTuple):
    """size of the new axis, and the name that collectives know it by."""

    size: int
    axis: Any = None


def lead(x: UOp, size: int) -> UOp:
    """The same value for every member of the batch."""
    return expand(x, [(0, size)])


def align(xs: Sequence[UOp], flags: Sequence[bool], size: int) -> list[UOp]:
    """All batched."""
    return [x if f else lead(x, size) for x, f in zip(xs, flags, strict=True)]


def batch_nodes(
    outs: Sequence[UOp], env: Mapping[UOp, tuple[UOp, bool]], at: Batching
) -> tuple[list[UOp], list[bool]]:
    """`outs` with nodes replaced as `env` says: value, and whether it has the new leading axis -> (values, which have it)."""
    value: dict[UOp, Any] = {p: v for p, (v, _) in env.items()}
    flags: dict[UOp, Any] = {p: f for p, (_, f) in env.items()}
    for u in toposort(outs, min([p.born for p in env], default=-2)):
        if u in value:
            continue
        for s in u.src:
            if s not in value:
                value[s], flags[s] = s, False
        if u.op is Op.GET and type(value[u.src[0]]) is list:
            value[u], flags[u] = value[u.src[0]][u.arg], flags[u.src[0]][u.arg]
            continue
        src = [node_of(value[s]) for s in u.src]
        f = [any(flags[s]) if type(flags[s]) is list else flags[s] for s in u.src]
        if not any(f) and not _names(u, at.axis):
            new = tuple(src)
            value[u], flags[u] = u if new == u.src else uop(u.op, new, u.arg), False
        elif u.op in TUPLES or u.op is Op.COLLECTIVE or u.op is Op.AFTER:
            value[u], flags[u] = batching[u.op](u, src, f, at)
        else:
            value[u], flags[u] = batching[u.op](u, src, f, at), True
    return [value.get(o, o) for o in outs], [flags.get(o, False) for o in outs]


def _names(u: UOp, axis: Any) -> bool:
    """A collective over `axis`, or a call that may hold one."""
    if axis is None:
        return False
    if u.op is Op.COLLECTIVE:
        return bool(u.arg[1] == axis)
    return u.op in CALLS and u.op is not Op.HOST and any(has_axis(p, axis) for p in programs_of(u))


def programs_of(u: UOp) -> tuple[Program, ...]:
    """The programs that a call holds."""
    if u.op is Op.COND:
        branches: tuple[Program, ...] = u.arg.branches
        return branches
    if u.op is Op.WHILE:
        return (u.arg.cond, u.arg.body)
    return (u.arg.body,) if u.op in (Op.CALL, Op.SCAN) else ()


@memo
def has_axis(program: Program, axis: Any) -> bool:
    """Whether a collective over `axis` stands in the program."""
    return any(_names(u, axis) for u in program.nodes)


@memo
def batch_program(
    program: Program, at: Batching, in_batched: tuple[bool, ...], force: tuple[bool, ...] = ()
) -> tuple[Program, tuple[bool, ...]]:
    """-> (Program over the batched params, which outs are batched); outs named in `force` are batched in any case."""
    params = [
        open_param(p.dtype, (at.size, *p.shape) if f else p.shape, "batched")
        for p, f in zip(program.params, in_batched, strict=True)
    ]
    env = {p: (q, f) for p, q, f in zip(program.params, params, in_batched, strict=True)}
    outs, flags = batch_nodes(program.outs, env, at)
    if force:
        outs = [lead(o, at.size) if w and not f else o for o, f, w in zip(outs, flags, force, strict=True)]
        flags = [f or w for f, w in zip(flags, force, strict=True)]
    return close(params, outs, program.effects), tuple(flags)


def instantiated(douts: Sequence[Maybe], outs: Sequence[UOp], flags: Sequence[bool]) -> list[UOp]:
    """Tangents of the flagged outs, zeros where they have none."""
    return [instantiate(t, o) for t, o, m in zip(douts, outs, flags, strict=True) if m]
