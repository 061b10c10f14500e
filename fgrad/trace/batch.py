"""batch: adds one leading axis. Carries (value, is batched); the unbatched stays as it is.

A row receives the node, its new sources, which of them are batched (at least one, but for
collectives and calls that hold one), and the axis; it returns the batched node. Rows of tuple-
valued ops, COLLECTIVE and AFTER return (values, flags).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fgrad.errors import VmapAxisError
from fgrad.trace import call, collective, control_batch  # noqa: F401  rows of this table
from fgrad.trace.interpret import batching
from fgrad.trace.update import inverse, starts_of
from fgrad.trace.widen import BATCHED_STORE, Batching, align, batch_nodes, batch_program, lead
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    add,
    cast,
    const,
    expand,
    gather,
    iota,
    maximum,
    minimum,
    mul,
    permute,
    reshape,
    shrink,
    update,
)  # fmt: skip
from fgrad.uop.node import UOp, paused_gc, uop
from fgrad.uop.op import ELEMENTWISE, LEAVES, Op
from fgrad.uop.program import Program, Update, gets

__all__ = ["batch", "batch_nodes", "batch_program", "batching"]


def batch(
    program: Program, in_batched: Sequence[bool], size: int, axis_name: Any = None
) -> tuple[Program, tuple[bool, ...]]:
    """Add a leading axis of `size` to the params flagged -> (Program, which outs have it).

    axis_name   what collectives inside call this axis

    Raises VmapAxisError when a batched value is the final version of a Ref that is not batched.
    """
    with paused_gc():
        out, flags = batch_program(program, Batching(size, axis_name), tuple(map(bool, in_batched)))
        batched_refs = tuple([flags[o] or in_batched[slot] for slot, o in program.effects])
        for (slot, o), wanted in zip(program.effects, batched_refs, strict=True):
            if flags[o] and not in_batched[slot]:
                raise VmapAxisError(BATCHED_STORE)
            if wanted and not flags[o]:
                force = tuple(
                    [f or any(o == k for _, o in program.effects) for k, f in enumerate(flags)]
                )
                out, flags = batch_program(
                    program, Batching(size, axis_name), tuple(map(bool, in_batched)), force
                )
        return out, flags


batching.refuse(*LEAVES, because="a leaf has no batched source")
# ---- movement: axes move up by one
batching(Op.RESHAPE)(lambda u, src, f, at: reshape(src[0], (at.size, *u.arg)))
batching(Op.PERMUTE)(lambda u, src, f, at: permute(src[0], (0, *[a + 1 for a in u.arg])))
batching(Op.EXPAND)(lambda u, src, f, at: expand(src[0], [(a + 1, n) for a, n in u.arg]))
batching(Op.PAD)(lambda u, src, f, at: uop(Op.PAD, (src[0],), ((0, 0, 0), *u.arg)))


@batching(Op.SHRINK)
def _(u: UOp, src: list[UOp], f: list[bool], at: Batching) -> UOp:
    """A start that differs between members becomes a gather along its axis."""
    x = src[0]
    if not any(f[1:]):
        return uop(Op.SHRINK, tuple(src), ((0, at.size, 1), *u.arg))
    x = x if f[0] else lead(x, at.size)
    starts = iter(zip(src[1:], f[1:], strict=True))
    common: list[Any] = [(0, at.size, 1)]
    common_starts: list[UOp] = []
    own: list[tuple[int, UOp]] = []  # axis, positions [batch, size]
    for axis, (n, (start, size, step)) in enumerate(zip(u.src[0].shape, u.arg, strict=True)):
        given, each = (None, False) if start is not None else next(starts)
        if given is not None and each:
            own.append((axis + 1, positions(given, n, size, step)))
            common.append((0, n, 1))
            continue
        if given is not None:
            common_starts.append(given)
        common.append((start, size, step))
    x = shrink(x, common, common_starts)
    for axis, where in own:
        order = [0, axis, *[i for i in range(1, x.ndim) if i != axis]]
        x = permute(gather(permute(x, order), where, 1), inverse(tuple(order)))
    return x


def positions(start: UOp, n: int, size: int, step: int) -> UOp:
    """start: i64[*b] -> i64[*b, size], the places along an axis.

    Those that a computed start means on an axis of `n` elements, clamped as SHRINK does.
    """
    extent = (size - 1) * step + 1 if size else 0
    inside = minimum(maximum(cast(start, dt.int64), 0), n - extent)
    steps = expand(mul(iota(size), step), list(enumerate(start.shape)))
    return add(expand(inside, [(start.ndim, size)]), steps)


batching(Op.FLIP)(lambda u, src, f, at: uop(Op.FLIP, (src[0],), tuple([a + 1 for a in u.arg])))
batching(Op.BITCAST)(lambda u, src, f, at: u.like(*src))
batching(Op.WINDOW, Op.SKEW)(
    lambda u, src, f, at: uop(u.op, (src[0],), (u.arg[0] + 1, u.arg[1] + 1, *u.arg[2:]))
)
# ---- elementwise
batching(*ELEMENTWISE)(lambda u, src, f, at: u.like(*align(src, f, at.size)))
# ---- across elements
batching(Op.REDUCE)(
    lambda u, src, f, at: uop(Op.REDUCE, (src[0],), (u.arg[0], tuple([a + 1 for a in u.arg[1]])))
)
batching(Op.PREFIX)(
    lambda u, src, f, at: uop(Op.PREFIX, (src[0],), (u.arg[0], u.arg[1] + 1, u.arg[2]))
)


@batching(Op.SORT)
def _(u: UOp, src: list[UOp], f: list[bool], at: Batching) -> tuple[list[UOp], list[bool]]:
    return gets(uop(Op.SORT, tuple(align(src, f, at.size)), u.arg + 1)), [True] * len(src)


@batching(Op.GATHER)
def _(u: UOp, src: list[UOp], f: list[bool], at: Batching) -> UOp:
    """From one table, batched indices are just more indices."""
    if u.arg == 0 and not f[0]:
        return gather(src[0], src[1], 0)
    x, idx = align(src, f, at.size)
    return gather(x, idx, u.arg + 1)


@batching(Op.UPDATE)
def _(u: UOp, src: list[UOp], f: list[bool], at: Batching) -> UOp:
    arg: Update = u.arg
    n_starts = len(starts_of(u))
    if arg.box is None:
        return uop(Op.UPDATE, tuple(align(src, f, at.size)), replace(arg, batch=arg.batch + 1))
    starts = src[2 : 2 + n_starts]
    if any(f[2 : 2 + n_starts]):
        return _scattered(u, src, f, at)
    old, value = align(src[:2], f[:2], at.size)
    gate = align(src[2 + n_starts :], f[2 + n_starts :], at.size)
    return uop(
        Op.UPDATE, (old, value, *starts, *gate), replace(arg, box=((0, at.size, 1), *arg.box))
    )


def _scattered(u: UOp, src: list[UOp], f: list[bool], at: Batching) -> UOp:
    """A box whose start differs between members, written by index.

    The axes up to the last that is not written whole are flattened into one; the rest are the rows
    that are written.
    """
    arg: Update = u.arg
    assert arg.box is not None
    shape, box = u.shape, arg.box
    n_starts = len(starts_of(u))
    old, value = align(src[:2], f[:2], at.size)
    starts = iter(align(src[2 : 2 + n_starts], f[2 : 2 + n_starts], at.size))
    gates = align(src[2 + n_starts :], f[2 + n_starts :], at.size)
    whole = [b == (0, n, 1) for b, n in zip(box, shape, strict=True)]
    cut = len(shape) if arg.gated else max(i for i, w in enumerate(whole) if not w) + 1
    sizes = tuple([size for _, size, _ in box[:cut]])
    idx: UOp = const(0, dt.int64, (at.size, *sizes))
    for axis in range(cut):
        start, size, step = box[axis]
        first = next(starts) if start is None else const(start, dt.int64, (at.size,))
        stride = math.prod(shape[axis + 1 : cut])
        places = mul(positions(first, shape[axis], size, step), stride)
        idx = add(idx, expand(places, [(i + 1, n) for i, n in enumerate(sizes) if i != axis]))
    flat = reshape(old, (at.size, math.prod(shape[:cut]), *shape[cut:]))
    new = update(flat, value, mode=arg.mode, idx=idx, gate=gates[0] if gates else None, batch=1)
    return reshape(new, (at.size, *shape))


# ---- calls: control_batch.py, call.py; across devices: collective.py
@batching(Op.TUPLE)
def _(u: UOp, src: list[UOp], f: list[bool], at: Batching) -> tuple[list[UOp], list[bool]]:
    return src, f


@batching(Op.GET)
def _(u: UOp, src: list[UOp], f: list[bool], at: Batching) -> UOp:
    raise AssertionError(
        "batch_nodes reads members itself: every row of a tuple-valued op returns a list"
    )


# ---- memory
batching.refuse(
    Op.LOAD, Op.STORE, because="reads and writes become versions before vmap; see functionalise"
)
batching(Op.AFTER)(lambda u, src, f, at: (u.like(*src), f[0]))
