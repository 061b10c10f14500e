"""Rows of HOST in every table: Python functions called with arrays, which carry their own rules.

All rules take and give nodes: `jvp(args, outs, tangents) -> tangents` (None is an exact zero),
`transpose(args, linear, cts) -> cts` (linear args are None), `batch(args, batched, size) -> (outs,
batched)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fgrad.trace.interpret import batching, jvp, split_rules, transpose
from fgrad.trace.maybe import Maybe, pick
from fgrad.trace.strong import Cotangent
from fgrad.trace.widen import Batching, align, results_of
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.build import reduce_
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Host, Scan, close, gets


def checked(got: Sequence[Any], like: Sequence[UOp], what: str) -> list[Any]:
    """`got`, if it fits `like` (None fits); raises TypeError saying where it does not."""
    if len(got) != len(like):
        raise TypeError(f"{what} must give {len(like)} values, gave {len(got)}")
    for k, (a, b) in enumerate(zip(got, like, strict=True)):
        if a is not None and (a.shape != b.shape or a.dtype is not b.dtype):
            raise TypeError(
                f"{what}: value {k} must be {b.dtype}{list(b.shape)}, is {a.dtype}{list(a.shape)}"
            )
    return list(got)


def float_tangents(tangents: Sequence[Maybe]) -> list[Maybe]:
    return [t if t is not None and t.dtype.is_inexact else None for t in tangents]


@jvp(Op.HOST)
def _(u: UOp, d: list[Maybe]) -> tuple[list[UOp], list[Maybe]]:
    host: Host = u.arg
    members = gets(u)
    if not any(m.dtype.is_inexact for m in members):
        return members, [None] * len(members)
    if host.jvp is None:
        raise NotImplementedError(
            f"callback {host.name or host.callback!r} has no derivative; "
            "wrap the call in custom_jvp or custom_vjp, or pass its arguments through stop_gradient"
        )
    tangents = checked(host.jvp(list(u.src), members, d), members, f"the jvp rule of {host.name}")
    return members, float_tangents(tangents)


@split_rules(Op.HOST)
def _(u: UOp, flags: list[bool]) -> None:
    return None


@transpose(Op.HOST)
def _(u: UOp, cts: list[Cotangent | None], linear: list[bool]) -> list[Cotangent | None]:
    host: Host = u.arg
    if host.transpose is None:
        raise NotImplementedError(f"callback {host.name or host.callback!r} has no transpose")
    args = [None if m else a for a, m in zip(u.src, linear, strict=True)]
    got = host.transpose(args, linear, [None if c is None else c[0] for c in cts])
    parts = checked(got, u.src, f"the transpose rule of {host.name}")
    return [None if p is None else (p, None) for p in parts]


@batching(Op.HOST)
def _(u: UOp, src: list[UOp], flags: list[bool], at: Batching) -> tuple[list[UOp], list[bool]]:
    """By its own rule; in one call when it is vectorized.

    Else one member after the other, tokens threaded through.
    """
    host: Host = u.arg
    if host.batch is not None:
        outs, out_flags = host.batch(src, flags, at.size)
        return list(outs), list(out_flags)
    if not host.vectorized or not any(flags[int(host.ordered) :]):
        return one_by_one(u, src, flags, at)
    t = int(host.ordered)
    args = [*src[:t], *align(src[t:], flags[t:], at.size)]
    avals = (*host.out_avals[:t], *[Aval(a.dtype, (at.size, *a.shape)) for a in host.out_avals[t:]])
    return gets(uop(Op.HOST, tuple(args), replace(host, out_avals=avals))), [
        k >= t for k in range(len(avals))
    ]


def one_by_one(
    u: UOp, src: list[UOp], flags: list[bool], at: Batching
) -> tuple[list[UOp], list[bool]]:
    """A SCAN over the members; the token of an ordered call is carried."""
    t = int(u.op is Op.HOST and u.arg.ordered)
    ps = [open_param(s.dtype, s.shape, "member") for s in u.src]
    mapped = [f and k >= t for k, f in enumerate(flags)]
    order = [*pick(ps[t:], mapped[t:], False), *ps[:t], *pick(ps, mapped)]
    body = close(order, gets(u.like(*ps)))
    consts = pick(src[t:], mapped[t:], False)
    xs = pick(src, mapped)
    token = [s if not f else _alike(s) for s, f in zip(src[:t], flags[:t], strict=True)]
    arg = Scan(body, at.size, len(consts), t, len(xs))
    got = gets(uop(Op.SCAN, (*consts, *token, *xs), arg))
    return got, [k >= t for k in range(len(got))]


def _alike(token: UOp) -> UOp:
    """A token that came to be batched: its members are all alike."""
    return reduce_(token, (0,), Op.MAX)


def is_token(u: UOp) -> bool:
    """The token that an ordered call gives, also out of the calls around it."""
    if u.op is not Op.GET or u.dtype is not dt.uint8 or u.shape != ():
        return False
    if u.src[0].op is Op.HOST:
        return bool(u.src[0].arg.ordered) and u.arg == 0
    return any(is_token(p.outs[u.arg]) for p in results_of(u.src[0]))
