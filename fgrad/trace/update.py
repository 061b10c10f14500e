"""Derivatives of UPDATE in every mode, and of reading and writing along an axis."""

from __future__ import annotations

import math
from dataclasses import replace

from fgrad.trace.interpret import jvp
from fgrad.trace.maybe import Maybe, add_, instantiate, mul_, where_
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    cast,
    const,
    div,
    eq,
    gather,
    lt,
    mul,
    permute,
    reshape,
    shrink,
    update,
    where,
)
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Scan, Update, close


def last_axis(ndim: int, axis: int) -> tuple[int, ...]:
    """The PERMUTE that brings `axis` last."""
    return (*[i for i in range(ndim) if i != axis], axis)


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The PERMUTE that undoes `order`."""
    out = [0] * len(order)
    for i, a in enumerate(order):
        out[a] = i
    return tuple(out)


def take_along(x: UOp, idx: UOp, axis: int) -> UOp:
    """x[.., idx[.., i, ..], ..]: one index for each element, shaped as `x`."""
    order = last_axis(x.ndim, axis)
    got = gather(permute(x, order), permute(idx, order), x.ndim - 1)
    return permute(got, inverse(order))


def put_along(x: UOp, idx: UOp, axis: int) -> UOp:
    """Undo `take_along` for an `idx` that is a permutation.

    In general, add up what was read from one place.
    """
    order = last_axis(x.ndim, axis)
    moved = permute(x, order)
    zeros = const(0, x.dtype, moved.shape)
    got = update(zeros, moved, mode=Mode.ADD, idx=permute(idx, order), batch=x.ndim - 1)
    return permute(got, inverse(order))


def starts_of(u: UOp) -> tuple[UOp, ...]:
    """The computed starts of a SHRINK, or of an UPDATE's box."""
    if u.op is Op.SHRINK:
        return u.src[1:]
    return u.src[2 : len(u.src) - u.arg.indexed - u.arg.gated]


def part_of(x: UOp, u: UOp) -> UOp:
    """The part of `x` that the UPDATE `u` writes."""
    arg: Update = u.arg
    if arg.box is not None:
        return shrink(x, arg.box, starts_of(u))
    return gather(x, u.src[2], arg.batch)


def gate_of(u: UOp) -> UOp | None:
    return u.src[-1] if u.arg.gated else None


def writes_once(u: UOp) -> bool:
    """No place is written twice: a box, or one index for each member of the batch."""
    return u.arg.box is not None or math.prod(u.src[2].shape[u.arg.batch :]) == 1


def as_mode(u: UOp, mode: Mode, old: UOp, value: UOp) -> UOp:
    """The same write in another mode, of other contents."""
    return uop(Op.UPDATE, (old, value, *u.src[2:]), replace(u.arg, mode=mode))


def update_tangent(u: UOp, dold: Maybe, dvalue: Maybe) -> UOp:
    """The tangent of an UPDATE.

    MUL where places may be written twice is done write by write. MIN and MAX share ties evenly,
    between the old contents and all that were written there.
    """
    old, value = u.src[:2]
    arg: Update = u.arg
    dold_, dvalue_ = instantiate(dold, old), instantiate(dvalue, value)
    if arg.mode in (Mode.SET, Mode.ADD):
        return u.like(dold_, dvalue_, *u.src[2:])
    if arg.mode is Mode.MUL:
        if not writes_once(u):
            return _one_by_one(u, dold, dvalue)
        part = part_of(old, u)
        dpart = add_(None if dold is None else mul(part_of(dold, u), value), mul_(part, dvalue))
        return as_mode(u, Mode.SET, dold_, instantiate(dpart, part))
    if writes_once(u) and not u.dtype.is_complex:
        part = part_of(old, u)
        new = uop(Op.MAX if arg.mode is Mode.MAX else Op.MIN, (part, value))
        dpart_old = None if dold is None else part_of(dold, u)
        shared = mul_(add_(dpart_old, dvalue), const(0.5, u.dtype, part.shape))
        ahead, behind = (lt(value, part), lt(part, value))
        if new.op is Op.MIN:
            ahead, behind = behind, ahead
        dpart = where_(ahead, dpart_old, where_(behind, dvalue, shared))
        return as_mode(u, Mode.SET, dold_, instantiate(dpart, part))
    wide = dt.accumulator(u.dtype)
    tie_old, tie_value = eq(old, u), eq(value, part_of(u, u))
    total = as_mode(
        u, Mode.ADD, cast(where(tie_old, dold_, 0), wide), cast(where(tie_value, dvalue_, 0), wide)
    )
    count = as_mode(u, Mode.ADD, cast(tie_old, dt.int64), cast(tie_value, dt.int64))
    return cast(div(total, cast(count, wide)), u.dtype)


def _one_by_one(u: UOp, dold: Maybe, dvalue: Maybe) -> UOp:
    """The tangent of the same writes done by a SCAN over the indices."""
    old, value, idx = u.src[:3]
    gate = gate_of(u)
    nb = u.arg.batch
    n = math.prod(idx.shape[nb:])

    def stream(x: UOp) -> UOp:
        flat = reshape(x, (*x.shape[:nb], n, *x.shape[idx.ndim :]))
        return permute(flat, (nb, *[i for i in range(flat.ndim) if i != nb]))

    xs = [stream(x) for x in (value, idx, gate) if x is not None]
    carry = open_param(old.dtype, old.shape, "old")
    ps = [open_param(x.dtype, x.shape[1:], "write") for x in xs]
    new = uop(Op.UPDATE, (carry, *ps), replace(u.arg))
    scan = uop(Op.SCAN, (old, *xs), Scan(close((carry, *ps), (new,)), n, 0, 1, len(xs)))
    moves = [dold, None if dvalue is None else stream(dvalue), *[None] * (len(xs) - 1)]
    tangent = jvp[Op.SCAN](scan, moves)[1][0]
    assert isinstance(tangent, UOp)
    return tangent
