"""The four interpreters: their tables, walks over nodes, and memoised forms over Programs.

    push    (primal, tangent) forward            rows: jvp
    split   primal and linear parts of calls      rows: split
    pull    cotangents backward                   rows: transpose
    batch   one new leading axis                  rows: batching

The rows stand in files of their own (`jvp.py`, `transpose.py`, `batch.py`, `control_*.py`,
`call.py`); import the walks from `jvp`, `split`, `transpose`, `batch`, whose imports fill the
tables. A walk is one pass, sources first, without recursion but into the programs of calls, and
those are memoised: nested loops with fixed points would multiply otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import fgrad.uop.infer  # noqa: F401  no node can be made before its table is filled
from fgrad.trace.maybe import Maybe, instantiate, pick, present
from fgrad.trace.rules import Rules
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

    A tangent of None is an exact zero; so is that of every integer and bool. Primal outs are the
    nodes themselves except below calls, which now carry primals and tangents together. Nodes older
    than the moving ones are not visited.
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
    """-> (Program, which outs have a tangent).

    The Program maps (*params, *tangents of those that move) to (*outs, *tangents that are there).
    """
    ps = program.params
    dps = [open_param(p.dtype, p.shape, "tangent") for p in pick(ps, moves)]
    outs, douts = push(program.outs, dict(zip(pick(ps, moves), dps, strict=True)))
    body = close((*ps, *dps), [*outs, *present(douts)], program.effects)
    return body, tuple([t is not None for t in douts])


# ---- split
def marked(roots: Sequence[UOp], linear: Iterable[UOp], since: int = -2) -> set[UOp]:
    """The nodes that depend on `linear`.

    What only waits for something (AFTER) does not depend on it.
    """
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


def instantiated(douts: Sequence[Maybe], outs: Sequence[UOp], flags: Sequence[bool]) -> list[UOp]:
    """Tangents of the flagged outs, zeros where they have none."""
    return [instantiate(t, o) for t, o, m in zip(douts, outs, flags, strict=True) if m]
