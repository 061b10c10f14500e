"""Complex values as pairs of real ones: the pass before everything else.

In memory a complex array is a real array with a last axis of 2, so parameters, outputs and
arguments of callbacks keep their bytes. Inside, every complex node is two nodes; the programs of
loops and branches take and give two arrays for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fgrad.lower import complex_math as cm
from fgrad.lower.views import VIEWS
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import DType, real_of
from fgrad.uop.node import UOp, const_value, open_param, slot_param, toposort, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Cond, Host, Program, Scan, While, closure, gets

Parts = tuple[UOp, ...]  # (x,) or (re, im); of a tuple-valued node: its only part
_SAME = frozenset((*VIEWS, Op.FLIP))
HostCall = tuple[Host, tuple[Aval, ...]]  # a callback and the avals of its arguments
HostAvals = dict[HostCall, HostCall]


@dataclass(slots=True, eq=False)
class Real:
    """`program` without complex dtypes; `hosts`: a callback as rewritten -> (the original, avals of
    its arguments).
    """

    program: Program
    hosts: HostAvals = field(default_factory=dict)


def real_program(program: Program) -> Real:
    """`program` without complex dtypes; complex parameters and outputs have a last axis of 2."""
    hosts: HostAvals = {}
    if not has_complex(program.outs):
        return Real(program, hosts)
    params = []
    known: dict[UOp, Parts] = {}
    for i, p in enumerate(program.params):
        if p.dtype.is_complex:
            params.append(slot_param(i, real_of(p.dtype), (*p.shape, 2)))
            known[p] = _unpack(params[-1])
        else:
            params.append(p)
            known[p] = (p,)
    parts = _rewrite(program.outs, known, hosts)
    outs = [_pack(parts[o]) for o in program.outs]
    return Real(replace(program, params=tuple(params), outs=tuple(outs)), hosts)


def has_complex(outs: Sequence[UOp]) -> bool:
    """Whether any node below is complex (programs of loops have complex results if they compute
    complex values that matter).
    """
    for u in toposort(outs):
        dtypes = u.dtype if isinstance(u.dtype, tuple) else (u.dtype,)
        if any(d.is_complex for d in dtypes) or any(has_complex(p.outs) for p in inner_programs(u)):
            return True
    return False


def inner_programs(u: UOp) -> tuple[Program, ...]:
    """The programs in the arg of a call."""
    if u.op is Op.WHILE:
        return (u.arg.cond, u.arg.body)
    if u.op is Op.COND:
        branches: tuple[Program, ...] = u.arg.branches
        return branches
    return (u.arg.body,) if u.op in (Op.SCAN, Op.CALL) else ()


def _unpack(x: UOp) -> Parts:
    n = x.ndim - 1
    return tuple([b.reshape(b.slice_axis(x, n, i, i + 1), x.shape[:-1]) for i in (0, 1)])


def _pack(parts: Parts) -> UOp:
    if len(parts) == 1:
        return parts[0]
    re, im = [b.expand(x, [(x.ndim, 2)]) for x in parts]
    first = b.eq(b.iota_along(re.shape, re.ndim - 1), b.const(0, dt.int64, re.shape))
    return b.where(first, re, im)


def _pairs(program: Program, hosts: HostAvals) -> Program:
    """A body whose complex parameters and results are two real ones each."""
    params: list[UOp] = []
    known: dict[UOp, Parts] = {}
    for p in program.params:
        n = 2 if p.dtype.is_complex else 1
        made = tuple([slot_param(len(params) + i, real_of(p.dtype), p.shape) for i in range(n)])
        params += made
        known[p] = made
    parts = _rewrite(program.outs, known, hosts)
    return Program(tuple(params), tuple([x for o in program.outs for x in parts[o]]))


def _rewrite(outs: Sequence[UOp], known: dict[UOp, Parts], hosts: HostAvals) -> dict[UOp, Parts]:
    done = dict(known)
    for u in toposort(outs):
        if u not in done:
            done[u] = _row(u, [done[s] for s in u.src], hosts)
    return done


def _count(d: DType) -> int:
    return 2 if d.is_complex else 1


def _row(u: UOp, src: list[Parts], hosts: HostAvals) -> Parts:
    op = u.op
    if op is Op.GET:
        return _get(u, src[0][0])
    if op is Op.TUPLE:
        return (uop(Op.TUPLE, tuple([x for parts in src for x in parts])),)
    if op in (Op.SCAN, Op.WHILE, Op.COND, Op.CALL):
        return _call(u, src, hosts)
    if op is Op.HOST:
        return _host(u, src, hosts)
    if op is Op.SORT:
        return _sort(u, src)
    if all(len(s) == 1 for s in src) and not (isinstance(u.dtype, DType) and u.dtype.is_complex):
        now = tuple([s[0] for s in src])
        return (u,) if now == u.src else (uop(op, now, u.arg),)
    return _elementwise(u, src)


def _get(u: UOp, of: UOp) -> Parts:
    """The members that result `u.arg` became."""
    before = u.src[0]
    if before.op is Op.HOST:
        one = uop(Op.GET, (of,), u.arg)
        return _unpack(one) if u.dtype.is_complex else (one,)
    dtypes: Any = before.dtype
    at = sum([_count(d) for d in dtypes[: u.arg]])
    return tuple([uop(Op.GET, (of,), at + i) for i in range(_count(u.dtype))])


def _widths(parts: Sequence[Parts]) -> int:
    return sum([len(p) for p in parts])


def _call(u: UOp, src: list[Parts], hosts: HostAvals) -> Parts:
    flat = tuple([x for parts in src for x in parts])
    arg = u.arg
    if isinstance(arg, Scan):
        carry = _widths(src[arg.consts : arg.consts + arg.carry])
        arg = replace(
            arg, body=_pairs(arg.body, hosts), consts=_widths(src[: arg.consts]), carry=carry,
            xs=_widths(src[arg.consts + u.arg.carry :]),
        )  # fmt: skip
    elif isinstance(arg, While):
        arg = While(_pairs(arg.cond, hosts), _pairs(arg.body, hosts), _widths(src[: arg.consts]))
    elif isinstance(arg, Cond):
        arg = Cond(tuple([_pairs(p, hosts) for p in arg.branches]))
    else:
        return (uop(Op.TUPLE, tuple(_pairs(arg.body, hosts).inline(flat))),)
    return (uop(u.op, flat, arg),)


def _host(u: UOp, src: list[Parts], hosts: HostAvals) -> Parts:
    host: Host = u.arg
    avals = tuple([
        Aval(real_of(a.dtype), (*a.shape, 2)) if a.dtype.is_complex else a for a in host.out_avals
    ])  # fmt: skip
    real = replace(host, out_avals=avals)
    packed = tuple([_pack(s) for s in src])
    given = tuple([Aval(s.dtype, s.shape) for s in packed])
    hosts[real, given] = (host, tuple([Aval(s.dtype, s.shape) for s in u.src]))
    return (uop(Op.HOST, packed, real),)


def _sort(u: UOp, src: list[Parts]) -> Parts:
    """By the real part, ties by the imaginary one: two stable sorts, the less important first."""
    payloads = [x for s in src[1:] for x in s]
    if len(src[0]) == 1:
        return (uop(Op.SORT, (src[0][0], *payloads), u.arg),)
    re, im = src[0]
    once = uop(Op.SORT, (im, re, *payloads), u.arg)
    im2, re2, *rest = [uop(Op.GET, (once,), i) for i in range(2 + len(payloads))]
    return (uop(Op.SORT, (re2, im2, *rest), u.arg),)


def _elementwise(u: UOp, src: list[Parts]) -> Parts:
    op = u.op
    if op is Op.CONST:
        z, real = const_value(u), real_of(u.dtype)
        return b.const(z.real, real), b.const(z.imag, real)
    if op in _SAME:  # further sources are indices and starts
        return tuple([uop(op, (x, *[s[0] for s in src[1:]]), u.arg) for x in src[0]])
    if op in cm.FUNCTIONS:
        return cm.FUNCTIONS[op]((src[0][0], src[0][1]))
    binary: dict[Op, Callable[[cm.Pair, cm.Pair], cm.Pair]] = {
        Op.ADD: cm.add,
        Op.MUL: cm.mul,
        Op.DIV: cm.div,
    }
    if op in binary:
        return binary[op]((src[0][0], src[0][1]), (src[1][0], src[1][1]))
    match op:
        case Op.REAL:
            return (src[0][0],)
        case Op.IMAG:
            return (src[0][1],)
        case Op.COMPLEX:
            return src[0][0], src[1][0]
        case Op.EQ:
            return (b.and_(b.eq(src[0][0], src[1][0]), b.eq(src[0][1], src[1][1])),)
        case Op.WHERE:
            return tuple([b.where(src[0][0], x, y) for x, y in zip(src[1], src[2], strict=True)])
        case Op.CAST:
            return _cast(u, src[0])
        case Op.BITCAST:
            return _bitcast(u, src[0])
        case Op.REDUCE:
            return _reduce(u, src[0])
        case Op.PREFIX if u.arg[0] is Op.ADD:
            return tuple([uop(op, (x,), u.arg) for x in src[0]])
        case Op.PREFIX if u.arg[0] is Op.MUL:
            return _running_product(u, (src[0][0], src[0][1]))
        case Op.UPDATE if u.arg.mode in (Mode.SET, Mode.ADD):
            rest = [s[0] for s in src[2:]]
            return tuple([uop(op, (x, y, *rest), u.arg) for x, y in zip(src[0], src[1], strict=True)])
        case Op.UPDATE:
            updated = _indexed_update if u.arg.indexed else _boxed_update
            return updated(u, (src[0][0], src[0][1]), (src[1][0], src[1][1]), [s[0] for s in src[2:]])
    raise NotImplementedError(
        f"{op.name} of complex numbers cannot be lowered here; write it with scan, or on the real and imaginary parts"
    )


def _cast(u: UOp, x: Parts) -> Parts:
    if u.dtype.is_complex:
        real = real_of(u.dtype)
        if len(x) == 1:
            return b.cast(x[0], real), b.const(0, real, u.shape)
        return tuple([b.cast(p, real) for p in x])
    if u.dtype is dt.bool_:
        return (b.or_(b.cast(x[0], dt.bool_), b.cast(x[1], dt.bool_)),)
    return (b.cast(x[0], u.dtype),)


def _bitcast(u: UOp, x: Parts) -> Parts:
    """complex64 is a pair of 32-bit words, the real part in the lower one."""
    if len(x) == 2 and u.dtype.is_complex:
        return x
    if len(x) == 2:
        low, high = [b.cast(b.bitcast(p, dt.uint32), dt.uint64) for p in x]
        return (b.bitcast(b.or_(low, b.shl(high, 32)), u.dtype),)
    bits = b.bitcast(x[0], dt.uint64)
    words = [b.cast(bits, dt.uint32), b.cast(b.shr(bits, 32), dt.uint32)]
    return tuple([b.bitcast(w, dt.float32) for w in words])


def _reduce(u: UOp, x: Parts) -> Parts:
    op, axes = u.arg
    if op is Op.ADD:
        return tuple([uop(Op.REDUCE, (p,), u.arg) for p in x])
    z: cm.Pair = (x[0], x[1])
    for axis in reversed(axes):  # a product: halves against halves
        if z[0].shape[axis] == 0:
            return b.const(1, u.dtype if not u.dtype.is_complex else real_of(u.dtype), u.shape), b.const(
                0, real_of(u.dtype), u.shape
            )
        while z[0].shape[axis] > 1:
            n = z[0].shape[axis]
            half = n // 2
            first = _cut(z, axis, 0, half)
            second = _cut(z, axis, half, 2 * half)
            product = cm.mul(first, second)
            if n % 2:
                last = _cut(z, axis, n - 1, n)
                product = cm.mul(_cut(product, axis, 0, 1), last) if half == 1 else _joined(product, last, axis)
            z = product
        shape = tuple([n for i, n in enumerate(z[0].shape) if i != axis])
        z = b.reshape(z[0], shape), b.reshape(z[1], shape)
    return z


def _running_product(u: UOp, z: cm.Pair) -> Parts:
    """A scan along the axis: each part of a product needs both parts of its factors."""
    _, axis, reverse = u.arg
    order = (axis, *[i for i in range(u.ndim) if i != axis])
    slices = [b.permute(x, order) for x in z]
    n, *rest = slices[0].shape
    so_far, factor = ([open_param(x.dtype, tuple(rest)) for x in z] for _ in range(2))
    product = cm.mul((so_far[0], so_far[1]), (factor[0], factor[1]))
    _, body = closure((*so_far, *factor), [*product, *product])
    one = [b.const(1, z[0].dtype, tuple(rest)), b.const(0, z[0].dtype, tuple(rest))]
    found = gets(uop(Op.SCAN, (*one, *slices), Scan(body, n, 0, 2, 2, reverse)))
    back = tuple([order.index(i) for i in range(u.ndim)])
    return tuple([b.permute(x, back) for x in found[2:]])


def _combined(mode: Mode, old: cm.Pair, new: cm.Pair) -> cm.Pair:
    """What an update leaves: the product, or the one that is first (MIN) or last (MAX) by real, then imaginary part;
    NaN before all.
    """
    if mode is Mode.MUL:
        return cm.mul(old, new)
    low, high = (new, old) if mode is Mode.MIN else (old, new)
    wins = b.or_(b.lt(low[0], high[0]), b.and_(b.eq(low[0], high[0]), b.lt(low[1], high[1])))
    old_nan, new_nan = [b.or_(b.ne(z[0], z[0]), b.ne(z[1], z[1])) for z in (old, new)]
    takes_new = b.and_(b.or_(wins, new_nan), b.not_(old_nan))
    return b.where(takes_new, new[0], old[0]), b.where(takes_new, new[1], old[1])


def _boxed_update(u: UOp, old: cm.Pair, value: cm.Pair, rest: list[UOp]) -> Parts:
    """The box is read, combined, and written back."""
    gate = rest.pop() if u.arg.gated else None
    before = b.shrink(old[0], u.arg.box, rest), b.shrink(old[1], u.arg.box, rest)
    product = _combined(u.arg.mode, before, value)
    if gate is not None:
        product = b.where(gate, product[0], before[0]), b.where(gate, product[1], before[1])
    return tuple([b.update(x, y, box=u.arg.box, starts=rest) for x, y in zip(old, product, strict=True)])


def _indexed_update(u: UOp, old: cm.Pair, value: cm.Pair, rest: list[UOp]) -> Parts:
    """One index after the other, since an index may come twice and each part of the result needs both parts."""
    batch, dtype = u.arg.batch, old[0].dtype
    lead, inner = old[0].shape[:batch], old[0].shape[batch + 1 :]
    n = math.prod(rest[0].shape[batch:])
    front = (batch, *range(batch))

    def by_index(x: UOp, more: tuple[int, ...]) -> UOp:
        flat = b.reshape(x, (*lead, n, *more))
        return b.permute(flat, (*front, *range(batch + 1, flat.ndim)))

    slices = [by_index(rest[0], ()), *[by_index(v, inner) for v in value], *[by_index(g, ()) for g in rest[1:]]]
    carry = [open_param(dtype, x.shape) for x in old]
    idx, re, im, *gate = [open_param(x.dtype, x.shape[1:]) for x in slices]
    at = b.expand(idx, [(batch, 1)])
    gates = [b.expand(g, [(batch, 1)]) for g in gate]
    factor = b.expand(re, [(batch, 1)]), b.expand(im, [(batch, 1)])
    before = b.gather(carry[0], at, batch), b.gather(carry[1], at, batch)
    product = _combined(u.arg.mode, before, factor)
    after = [
        b.update(x, y, idx=at, gate=gates[0] if gates else None, batch=batch)
        for x, y in zip(carry, product, strict=True)
    ]
    _, body = closure((*carry, idx, re, im, *gate), after)
    return tuple(gets(uop(Op.SCAN, (*old, *slices), Scan(body, n, 0, 2, len(slices)))))


def _cut(z: cm.Pair, axis: int, lo: int, hi: int) -> cm.Pair:
    return b.slice_axis(z[0], axis, lo, hi), b.slice_axis(z[1], axis, lo, hi)


def _joined(x: cm.Pair, y: cm.Pair, axis: int) -> cm.Pair:
    return b.concatenate([x[0], y[0]], axis), b.concatenate([x[1], y[1]], axis)
