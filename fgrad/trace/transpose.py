"""transpose: carries cotangents backward through linear nodes. None is an exact zero.

A row receives the node, its cotangent, and which sources are linear; it returns one cotangent (or
None) for each source. Rows of tuple-valued ops receive a list of (value, mask) or None, one for
each member, and return such a list, one for each source. `interpret.pull` adds up what one node
gets from several readers, and keeps the masks (see `strong.py`). Complex cotangents pair without
conjugation: the tangent contributes Re(ct * dx).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fgrad.errors import DtypeError
from fgrad.trace import call, collective, control_transpose  # noqa: F401  rows of this table
from fgrad.trace.backward import pull, pull_masked
from fgrad.trace.interpret import transpose
from fgrad.trace.maybe import Maybe, where_
from fgrad.trace.strong import Cotangent, both, tail
from fgrad.trace.update import as_mode, gate_of, inverse, part_of, put_along, starts_of, writes_once
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    broadcast_to,
    cast,
    complex_,
    const,
    div,
    eq,
    gather,
    imag,
    iota,
    iota_along,
    mul,
    neg,
    pad,
    permute,
    real,
    reduce_,
    reshape,
    shrink,
    spread,
    update,
    where,
    zeros_like,
)  # fmt: skip
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import BITWISE, COMPARE, LEAVES, ROUNDING, Mode, Op
from fgrad.uop.program import Update, gets

__all__ = ["pull", "pull_masked", "transpose"]
Flags = Sequence[bool]
Parts = tuple[Maybe, ...]

_CURVED = "it is not linear in this operand; take the derivative (vjp) instead"
_NO_TANGENT = "integers, bools and bits have no cotangent"

transpose.refuse(*LEAVES, because="a leaf has no source")


# ---- movement
@transpose(Op.RESHAPE)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    return (reshape(ct, u.src[0].shape),)


@transpose(Op.PERMUTE)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    return (permute(ct, inverse(u.arg)),)


@transpose(Op.EXPAND)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    return (reduce_(ct, [a for a, _ in u.arg]),)


@transpose(Op.PAD)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    return (
        shrink(
            ct, [(lo, n, mid + 1) for (lo, _, mid), n in zip(u.arg, u.src[0].shape, strict=True)]
        ),
    )


@transpose(Op.SHRINK)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    """Zeros around the part; a part with a computed start is written into zeros."""
    x = u.src[0]
    if len(u.src) > 1:
        zeros = const(0, ct.dtype, x.shape)
        return (update(zeros, ct, box=u.arg, starts=starts_of(u)), *[None] * (len(u.src) - 1))
    widths = []
    for n, (start, size, step) in zip(x.shape, u.arg, strict=True):
        last = start + (size - 1) * step + 1
        widths.append((start, n - last, step - 1) if size else (0, n, 0))
    return (pad(ct, widths),)


transpose(Op.FLIP)(lambda u, ct, _: (u.like(ct),))
transpose.refuse(Op.BITCAST, because="bits are not a linear function of the value")
transpose(Op.WINDOW)(lambda u, ct, _: (uop(Op.SKEW, (ct,), u.arg),))
transpose(Op.SKEW)(lambda u, ct, _: (uop(Op.WINDOW, (ct,), u.arg),))


# ---- elementwise
@transpose(Op.CAST)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    if not u.src[0].dtype.is_inexact:
        raise DtypeError(
            f"cannot transpose the conversion from {u.src[0].dtype} to {u.dtype}: {_NO_TANGENT}"
        )
    return (cast(ct, u.src[0].dtype),)


transpose(Op.NEG)(lambda u, ct, _: (neg(ct),))
transpose.refuse(Op.NOT, because=_NO_TANGENT)
transpose.refuse(
    Op.ABS, *ROUNDING, *[op for op in Op if Op.SQRT <= op <= Op.DIGAMMA], because=_CURVED
)
transpose(Op.REAL)(lambda u, ct, _: (complex_(ct, zeros_like(ct)),))
transpose(Op.IMAG)(lambda u, ct, _: (complex_(zeros_like(ct), neg(ct)),))
transpose(Op.ADD)(lambda u, ct, _: (ct, ct))


@transpose(Op.MUL)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    if linear[0] and linear[1]:
        raise NotImplementedError(
            f"{transpose.name} of MUL: both factors depend on the input; {_CURVED}"
        )
    return (mul(ct, u.src[1]), None) if linear[0] else (None, mul(u.src[0], ct))


@transpose(Op.DIV)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    if linear[1]:
        raise NotImplementedError(
            f"{transpose.name} of DIV: the divisor depends on the input; {_CURVED}"
        )
    return (div(ct, u.src[1]), None)


transpose.refuse(Op.IDIV, *BITWISE, Op.SHL, Op.SHR, *COMPARE, Op.THREEFRY, because=_NO_TANGENT)
transpose.refuse(Op.MOD, Op.MAX, Op.MIN, Op.POW, Op.ATAN2, Op.HYPOT, Op.LOGADDEXP, Op.COPYSIGN, because=_CURVED)
transpose(Op.COMPLEX)(lambda u, ct, _: (real(ct), neg(imag(ct))))


@transpose(Op.WHERE)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    c = u.src[0]
    return (
        None,
        where_(c, ct, None) if linear[1] else None,
        where_(c, None, ct) if linear[2] else None,
    )


# ---- across elements
@transpose(Op.REDUCE)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    op, axes = u.arg
    if op is not Op.ADD:
        raise NotImplementedError(f"{transpose.name} of REDUCE({op.name}): {_CURVED}")
    return (spread(ct, u.src[0], axes),)


@transpose(Op.PREFIX)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    op, axis, reverse = u.arg
    if op is not Op.ADD:
        raise NotImplementedError(f"{transpose.name} of PREFIX({op.name}): {_CURVED}")
    return (uop(Op.PREFIX, (ct,), (op, axis, not reverse)),)


@transpose(Op.SORT)
def _(u: UOp, cts: list[Cotangent | None], linear: Flags) -> list[Cotangent | None]:
    """Payloads go back to where they came from."""
    if linear[0]:
        raise NotImplementedError(
            f"{transpose.name} of SORT: the order depends on the key; {_CURVED}"
        )
    axis = u.arg
    order = gets(uop(Op.SORT, (u.src[0], iota_along(u.src[0].shape, axis)), axis))[1]
    return [None if c is None else (put_along(c[0], order, axis), None) for c in cts]


@transpose(Op.GATHER)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    zeros = const(0, ct.dtype, u.src[0].shape)
    return update(zeros, ct, mode=Mode.ADD, idx=u.src[1], batch=u.arg), None


@transpose(Op.UPDATE)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    """What was overwritten gets nothing, the last writer of a place its cotangent.

    In mode ADD both the old contents and the value get all of it.
    """
    arg: Update = u.arg
    old, value = u.src[:2]
    rest: Parts = (None,) * (len(u.src) - 2)
    if arg.mode in (Mode.MIN, Mode.MAX):
        raise NotImplementedError(f"{transpose.name} of UPDATE({arg.mode.name}): {_CURVED}")
    if arg.mode is Mode.MUL:
        if linear[0] and linear[1] or linear[1] and not writes_once(u):
            raise NotImplementedError(
                f"{transpose.name} of UPDATE(MUL): the written values are multiplied with each "
                f"other; {_CURVED}"
            )
        if linear[0]:
            return (u.like(ct, *u.src[1:]), None, *rest)
        return (None, _gated(u, mul(part_of(ct, u), part_of(old, u))), *rest)
    ct_old: Maybe = None
    ct_value: Maybe = None
    if linear[0]:
        zeros = const(0, ct.dtype, value.shape)
        ct_old = ct if arg.mode is Mode.ADD else as_mode(u, Mode.SET, ct, zeros)
    if linear[1]:
        ct_value = part_of(ct, u)
        wins = None if arg.mode is Mode.ADD or writes_once(u) else _last_writer(u)
        gate = gate_of(u)
        gate = both(wins, None if gate is None else tail(gate, value))
        ct_value = ct_value if gate is None else where(gate, ct_value, const(0, ct.dtype))
    return (ct_old, ct_value, *rest)


def _gated(u: UOp, x: UOp) -> UOp:
    gate = gate_of(u)
    return x if gate is None else where(tail(gate, x), x, const(0, x.dtype))


def _last_writer(u: UOp) -> UOp:
    """Which of several values written to one place stays there; bool, shaped as the value."""
    nb = u.arg.batch
    old, value, idx = u.src[:3]
    n = math.prod(idx.shape[nb:])
    number = broadcast_to(reshape(iota(n), idx.shape[nb:]), idx.shape)
    nobody = const(-1, dt.int64, old.shape[: nb + 1])
    who = update(nobody, number, idx=idx, gate=gate_of(u), batch=nb)
    return tail(eq(gather(who, idx, nb), number), value)


# ---- calls: control_transpose.py, call.py; across devices: collective.py
@transpose(Op.TUPLE)
def _(u: UOp, cts: list[Cotangent | None], linear: Flags) -> list[Cotangent | None]:
    return cts


@transpose(Op.GET)
def _(u: UOp, ct: UOp, linear: Flags) -> Parts:
    raise AssertionError("pull hands members to their tuple itself")


# ---- memory
transpose.refuse(
    Op.LOAD, Op.STORE, because="reads and writes become versions before derivatives are taken"
)
transpose(Op.AFTER)(lambda u, ct, _: (ct,) + (None,) * (len(u.src) - 1))
