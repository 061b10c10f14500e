"""The batching walk: one new leading axis, and its memoised form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fgrad.trace.interpret import TUPLES, batching, memo, node_of
from fgrad.uop.build import expand
from fgrad.uop.node import UOp, open_param, toposort, uop
from fgrad.uop.op import CALLS, Op
from fgrad.uop.program import Program, close

BATCHED_STORE = (
    "a batched value is stored to a Ref that is not batched; "
    "create the Ref inside the function, or map over it too"
)


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
    """`outs` with nodes replaced as `env` says.

    Value, and whether it has the new leading axis -> (values, which have it).
    """
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


def results_of(u: UOp) -> tuple[Program, ...]:
    """The programs whose outs are the members of a call, one of them at a time."""
    return (u.arg.body,) if u.op is Op.WHILE else programs_of(u)


@memo
def has_axis(program: Program, axis: Any) -> bool:
    """Whether a collective over `axis` stands in the program."""
    return any(_names(u, axis) for u in program.nodes)


@memo
def batch_program(
    program: Program, at: Batching, in_batched: tuple[bool, ...], force: tuple[bool, ...] = ()
) -> tuple[Program, tuple[bool, ...]]:
    """-> (Program over the batched params, which outs are batched).

    Outs named in `force` are batched in any case.
    """
    params = [
        open_param(p.dtype, (at.size, *p.shape) if f else p.shape, "batched")
        for p, f in zip(program.params, in_batched, strict=True)
    ]
    env = {p: (q, f) for p, q, f in zip(program.params, params, in_batched, strict=True)}
    outs, flags = batch_nodes(program.outs, env, at)
    if force:
        outs = [
            lead(o, at.size) if w and not f else o
            for o, f, w in zip(outs, flags, force, strict=True)
        ]
        flags = [f or w for f, w in zip(flags, force, strict=True)]
    return close(params, outs, program.effects), tuple(flags)
