"""Collectives over a named axis: builders, and their rows in every table. COPY beside them.

    psum pmean pmax pmin    combine the members of the axis; every member gets the result
    all_to_all              an axis of the value has one element for each member:
                            out[i][.., j, ..] = x[j][.., i, ..]
    ppermute                ((from, to), ..): out[to] = x[from]; members nobody sends to get 0
    axis_index              the number of the member, shaped and typed as the operand (ignored)

`vmap` over the name turns them into ordinary ops; a name that no vmap binds is an error when the
program is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.errors import VmapAxisError
from fgrad.trace.interpret import batching, jvp, split_rules, transpose
from fgrad.trace.maybe import Maybe
from fgrad.trace.widen import Batching, lead
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    cast,
    const,
    div,
    eq,
    expand,
    iota,
    mul,
    permute,
    reduce_,
    shrink,
    update,
    where,
)  # fmt: skip
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

COMBINING = ("psum", "pmean", "pmax", "pmin")


# ---- builders
def combine(x: UOp, kind: str, axis: Any) -> UOp:
    """psum, pmean, pmax or pmin of `x` over the members of `axis`."""
    return uop(Op.COLLECTIVE, (x,), (kind, axis))


def all_to_all(x: UOp, axis: Any, position: int) -> UOp:
    """Exchange elements between the members.

    Element i along `position` goes to member i, and stands there at the number of its sender.
    """
    return uop(Op.COLLECTIVE, (x,), ("all_to_all", axis, position))


def all_gather(x: UOp, axis: Any, size: int) -> UOp:
    """[*s] -> [size, *s]: the values of all members, in their order.

    `size` is that of the named axis.
    """
    return all_to_all(expand(x, [(0, size)]), axis, 0)


def ppermute(x: UOp, axis: Any, pairs: Sequence[tuple[int, int]]) -> UOp:
    """Send `x` along (from, to) pairs.

    Raises VmapAxisError when a member sends or receives twice.
    """
    for side in zip(*pairs, strict=True):
        if len(set(side)) != len(side):
            raise VmapAxisError(
                f"ppermute over {axis!r}: a member occurs twice on one side of {list(pairs)}"
            )
    return uop(Op.COLLECTIVE, (x,), ("ppermute", axis, tuple(sorted(tuple(p) for p in pairs))))


def axis_index(axis: Any, dtype: dt.DType = dt.int64) -> UOp:
    """The number of the member of `axis` that asks."""
    return uop(Op.COLLECTIVE, (const(0, dtype),), ("axis_index", axis))


# ---- rows of COLLECTIVE
@jvp(Op.COLLECTIVE)
def _(u: UOp, dx: UOp) -> Maybe:
    """pmax and pmin share ties evenly."""
    kind, axis = u.arg[:2]
    if kind == "axis_index":
        return None
    if kind not in ("pmax", "pmin"):
        return u.like(dx)
    tie = eq(u.src[0], u)
    count = combine(cast(tie, dt.int64), "psum", axis)
    wide = dt.accumulator(u.dtype)
    total = combine(cast(where(tie, dx, 0), wide), "psum", axis)
    return cast(div(total, cast(count, wide)), u.dtype)


@transpose(Op.COLLECTIVE)
def _(u: UOp, ct: UOp, linear: Sequence[bool]) -> tuple[Maybe]:
    """psum, pmean and all_to_all are their own transposes.

    Every member's result has every member as a source.
    """
    kind, axis = u.arg[:2]
    if kind == "ppermute":
        return (ppermute(ct, axis, [(to, of) for of, to in u.arg[2]]),)
    if kind not in ("psum", "pmean", "all_to_all"):
        raise NotImplementedError(
            f"{transpose.name} of {kind}: it is not linear; take the derivative (vjp) instead"
        )
    return (u.like(ct),)


@batching(Op.COLLECTIVE)
def _(u: UOp, src: list[UOp], flags: list[bool], at: Batching) -> tuple[UOp, bool]:
    kind, axis = u.arg[:2]
    x, n = src[0], at.size
    if axis != at.axis:
        if kind == "all_to_all":
            return uop(Op.COLLECTIVE, (x,), (kind, axis, u.arg[2] + 1)), True
        return uop(Op.COLLECTIVE, (x,), u.arg), True
    if kind in COMBINING:
        return _combined(kind, x, flags[0], n), False
    if kind == "axis_index":
        number = iota(n) if x.dtype is dt.int64 else cast(iota(n), x.dtype)
        return expand(number, [(i + 1, m) for i, m in enumerate(u.shape)]), True
    if kind == "ppermute":
        return send(x if flags[0] else lead(x, n), u.arg[2]), True
    k = u.arg[2]
    if u.shape[k] != n:
        raise VmapAxisError(
            f"all_to_all over {axis!r} of size {n} was given {u.shape[k]} elements to exchange"
        )
    if not flags[0]:  # every member sends the same: member i gets n times element i
        front = permute(x, (k, *[i for i in range(x.ndim) if i != k]))
        return expand(front, [(k + 1, n)]), True
    if x.op is Op.EXPAND and any(
        a == k + 1 for a, _ in x.arg
    ):  # every member sends to all alike: all get the same
        rest = [(a - 1 if a > k + 1 else a, m) for a, m in x.arg if a != k + 1]
        inner = expand(x.src[0], rest)
        order = list(range(1, inner.ndim))
        order.insert(k, 0)
        return permute(inner, order), False
    order = list(range(x.ndim))
    order[0], order[k + 1] = k + 1, 0
    return permute(x, order), True


def _combined(kind: str, x: UOp, batched: bool, n: int) -> UOp:
    if not batched:
        return mul(x, const(n, x.dtype)) if kind == "psum" else x
    if kind in ("pmax", "pmin"):
        return reduce_(x, (0,), Op.MAX if kind == "pmax" else Op.MIN)
    total = reduce_(x, (0,))
    return div(total, const(n, x.dtype)) if kind == "pmean" else total


def send(x: UOp, pairs: Sequence[tuple[int, int]]) -> UOp:
    """x[n, ..] with row `of` at row `to` for each (of, to), zeros elsewhere.

    Runs of neighbours that stay neighbours are moved in one piece."""
    out = const(0, x.dtype, x.shape)
    rest = tuple([(0, m, 1) for m in x.shape[1:]])
    i = 0
    while i < len(pairs):
        of, to = pairs[i]
        n = 1
        while i + n < len(pairs) and pairs[i + n] == (of + n, to + n):
            n += 1
        out = update(out, shrink(x, [(of, n, 1), *rest]), box=[(to, n, 1), *rest])
        i += n
    return out


# ---- rows of COPY
jvp(Op.COPY)(lambda u, dx: u.like(dx))
batching(Op.COPY)(lambda u, src, flags, at: u.like(*src))


@transpose(Op.COPY)
def _(u: UOp, ct: UOp, linear: Sequence[bool]) -> tuple[Maybe]:
    """Back to where the operand lives; a device of None is that of the program."""
    x = u.src[0]
    while x.src and x.op is not Op.COPY:
        x = x.src[0]
    return (uop(Op.COPY, (ct,), x.arg if x.op is Op.COPY else None),)


split_rules(Op.COPY, Op.COLLECTIVE)(lambda u, flags: None)
