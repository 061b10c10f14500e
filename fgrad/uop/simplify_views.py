"""Simplification rows of movement, reductions and partial writes. `#` gives each row's equation.

EXPAND travels outwards (towards the results), RESHAPEs of axes of one element and PERMUTEs inwards,
so that repeated values are computed once and a REDUCE sees what is expanded below it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.meaning import identity
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.pattern import Make, Rows, constant, filled, no_ones, only_ones, value
from fgrad.uop.program import Box, Update

rows = Rows()


def spread_over(u: UOp, axes: dict[int, int], make: Make) -> UOp:
    """EXPAND `u` by {axis of the result: size}."""
    return make(Op.EXPAND, (u,), tuple(sorted(axes.items()))) if axes else u


def _stay(u: UOp) -> list[int]:
    """The axes of an EXPAND that its source has."""
    new = {a for a, _ in u.arg}
    return [i for i in range(u.ndim) if i not in new]


@rows(
    Op.RESHAPE, Op.PERMUTE, Op.PAD, Op.SHRINK, Op.FLIP, Op.BITCAST, Op.WINDOW, Op.SKEW, Op.PREFIX,
    Op.GATHER, Op.UPDATE,
)  # fmt: skip
def _(u: UOp, make: Make) -> UOp | None:
    """A value without elements == a constant."""
    return b.zeros_like(u) if 0 in u.shape else None


# ---- RESHAPE
@rows(Op.RESHAPE)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if x.shape == u.shape:  # reshape to the same shape == x
        return x
    if x.op is Op.RESHAPE:  # reshape(reshape x) == reshape x
        return make(Op.RESHAPE, x.src, u.arg)
    if x.op is Op.EXPAND:
        c = constant(x)
        if c is not None:  # reshape of a constant == the constant
            return spread_over(c, dict(enumerate(u.shape)), make)
        return _reshape_of_ones_past_expand(u, x, make)
    if x.op is Op.CONST:
        return spread_over(x, dict(enumerate(u.shape)), make)
    return None


def _reshape_of_ones_past_expand(u: UOp, x: UOp, make: Make) -> UOp | None:
    """reshape(expand x) == expand(reshape x) when only axes of one element come or go."""
    if not only_ones(u.shape, x.shape):
        return None
    new = dict(x.arg)
    is_new = iter([a in new for a in no_ones(x.shape)])
    axes: dict[int, int] = {}
    inner: list[int] = []
    for j, n in enumerate(u.shape):
        if n != 1 and next(is_new):
            axes[j] = n
        else:
            inner.append(n)
    return spread_over(make(Op.RESHAPE, x.src, tuple(inner)), axes, make)


# ---- PERMUTE
@rows(Op.PERMUTE)
def _(u: UOp, make: Make) -> UOp | None:
    x, p = u.src[0], u.arg
    if p == tuple(range(len(p))):  # permute in order == x
        return x
    if x.op is Op.PERMUTE:  # permute(permute x) == permute x
        return make(Op.PERMUTE, x.src, tuple([x.arg[i] for i in p]))
    if x.op is Op.EXPAND:  # permute(expand x) == expand(permute x)
        stay = _stay(x)
        new = dict(x.arg)
        inner = tuple([stay.index(a) for a in p if a not in new])
        axes = {j: x.shape[a] for j, a in enumerate(p) if a in new}
        return spread_over(make(Op.PERMUTE, x.src, inner), axes, make)
    moved = [a for a in p if x.shape[a] != 1]
    if moved == sorted(moved):  # permute that moves only axes of one element == reshape
        return make(Op.RESHAPE, (x,), u.shape)
    return None


# ---- EXPAND
@rows(Op.EXPAND)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if not u.arg:  # expand by nothing == x
        return x
    if x.op is Op.EXPAND:  # expand(expand x) == expand x
        keep = _stay(u)
        return spread_over(x.src[0], dict(u.arg) | {keep[a]: n for a, n in x.arg}, make)
    if x.op is not Op.CONST and 0 in u.shape:
        return b.zeros_like(u)
    if x.op is not Op.CONST and all(n == 1 for _, n in u.arg):  # expand by ones == reshape
        return make(Op.RESHAPE, (x,), u.shape)
    return None


# ---- PAD
@rows(Op.PAD)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if x.shape == u.shape:  # pad by nothing == x
        return x
    c = value(x)
    if c is not None and not any(c.tobytes()):  # pad of +0 == +0
        return b.zeros_like(u)
    if x.op is Op.PAD and not any(w[2] for w in (*u.arg, *x.arg)):  # pad(pad x) == pad x
        return make(Op.PAD, x.src, tuple([
            (lo + l2, hi + h2, 0) for (lo, hi, _), (l2, h2, _) in zip(u.arg, x.arg, strict=True)
        ]))  # fmt: skip
    if x.op is Op.EXPAND:  # pad(expand x) == expand(pad x) along axes that are not padded
        out = {a: n for a, n in x.arg if u.arg[a][0] == u.arg[a][1] == 0 and u.shape[a] == n}
        if out:
            left = [i for i in range(u.ndim) if i not in out]
            part = {left.index(a): n for a, n in x.arg if a not in out}
            inner = spread_over(x.src[0], part, make)
            return spread_over(make(Op.PAD, (inner,), tuple([u.arg[i] for i in left])), out, make)
    return None


# ---- SHRINK
def _static(box: Box, shape: tuple[int, ...], starts: tuple[UOp, ...]) -> tuple[Box, list[UOp]]:
    """`box` with the starts that are constants filled in, clamped; and the starts that are left."""
    rest = iter(starts)
    out: list[tuple[int | None, int, int]] = []
    left: list[UOp] = []
    for n, (start, size, step) in zip(shape, box, strict=True):
        if start is None:
            s = next(rest)
            v = value(s)
            room = n - ((size - 1) * step + 1 if size else 0)
            if room == 0:
                start = 0
            elif v is not None:
                start = min(max(int(v), 0), room)
            else:
                left.append(s)
        out.append((start, size, step))
    return tuple(out), left


def _is_whole(box: Box, shape: tuple[int, ...]) -> bool:
    return all(at == 0 and size == n and (step == 1 or n <= 1)
               for (at, size, step), n in zip(box, shape, strict=True))  # fmt: skip


@rows(Op.SHRINK)
def _(u: UOp, make: Make) -> UOp | None:
    x, starts = u.src[0], u.src[1:]
    if starts:  # a constant start == a static one
        box, left = _static(u.arg, x.shape, starts)
        return make(Op.SHRINK, (x, *left), box) if len(left) < len(starts) else None
    if _is_whole(u.arg, x.shape):  # the whole of x == x
        return x
    if x.op is Op.EXPAND:
        return _shrink_past_expand(u, x, make)
    if x.op is Op.SHRINK and len(x.src) == 1:  # shrink(shrink x) == shrink x
        return make(Op.SHRINK, x.src, tuple([
            (a0 + a1 * s0, n, s0 * s1)
            for (a0, _, s0), (a1, n, s1) in zip(x.arg, u.arg, strict=True)
        ]))  # fmt: skip
    if x.op is Op.PAD:
        return _shrink_of_pad(u, x, make)
    if x.op is Op.UPDATE:
        return _shrink_of_update(u, x, make)
    return None


def _shrink_past_expand(u: UOp, x: UOp, make: Make) -> UOp:
    """shrink(expand x) == expand(shrink x)"""
    stay = _stay(x)
    inner = make(Op.SHRINK, x.src, tuple([u.arg[i] for i in stay]))
    return spread_over(inner, {a: u.shape[a] for a, _ in x.arg}, make)


def _shrink_of_pad(u: UOp, x: UOp, make: Make) -> UOp | None:
    """shrink(pad x) == pad(shrink x), for steps of one and no zeros between elements."""
    if any(w[2] for w in x.arg) or any(s != 1 for _, _, s in u.arg):
        return None
    widths, box = [], []
    for (at, size, _), (lo, _, _), n in zip(u.arg, x.arg, x.src[0].shape, strict=True):
        first, last = max(at - lo, 0), min(at + size - lo, n)
        if first >= last:  # nothing but zeros
            return b.zeros_like(u)
        box.append((first, last - first, 1))
        before = first + lo - at
        widths.append((before, size - before - (last - first), 0))
    inner = make(Op.SHRINK, x.src, tuple(box))
    return make(Op.PAD, (inner,), tuple(widths))


def _shrink_of_update(u: UOp, x: UOp, make: Make) -> UOp | None:
    """Reading exactly what was set == the value; reading beside it == reading what was there."""
    how: Update = x.arg
    if how.box is None or any(at is None for at, _, _ in how.box):
        return None
    if how.box == u.arg and how.mode is Mode.SET and not how.gated:
        return x.src[1]
    for (a, n, s), (c, m, t) in zip(how.box, u.arg, strict=True):
        if a is None or c is None:
            return None
        if a + (n - 1) * s < c or c + (m - 1) * t < a or (s == t and (a - c) % s):
            return make(Op.SHRINK, (x.src[0],), u.arg)
    return None


# ---- FLIP, BITCAST, WINDOW
@rows(Op.FLIP)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    axes = tuple([a for a in u.arg if u.shape[a] != 1])
    if axes != u.arg:  # flipping one element == x
        return make(Op.FLIP, (x,), axes) if axes else x
    if not axes:
        return x
    if x.op is Op.FLIP:  # flip(flip x) == x along common axes
        left = tuple(sorted(set(axes) ^ set(x.arg)))
        return make(Op.FLIP, x.src, left) if left else x.src[0]
    if x.op is Op.EXPAND:  # flip(expand x) == expand(flip x)
        stay = _stay(x)
        inner = tuple([stay.index(a) for a in axes if a in stay])
        flipped = make(Op.FLIP, x.src, inner) if inner else x.src[0]
        return spread_over(flipped, dict(x.arg), make)
    return None


@rows(Op.BITCAST)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    if x.dtype is u.dtype:  # bitcast to the same dtype == x
        return x
    if x.op is Op.BITCAST:  # bitcast(bitcast x) == bitcast x
        return make(Op.BITCAST, x.src, u.arg)
    if x.op is Op.CONST:
        return uop(Op.CONST, (), (u.dtype, x.arg[1]))
    if x.op is Op.EXPAND:  # bitcast(expand x) == expand(bitcast x)
        return spread_over(make(Op.BITCAST, x.src, u.arg), dict(x.arg), make)
    return None


@rows(Op.WINDOW, Op.SKEW)
def _(u: UOp, make: Make) -> UOp | None:
    axis, kaxis, n, o, stride, _ = u.arg
    if u.shape[kaxis] == 1 and n == o and (stride == 1 or n == 1):  # windows of one element == x
        return u.src[0]
    return None


# ---- REDUCE, PREFIX
_IDEMPOTENT = (Op.MAX, Op.MIN, Op.AND, Op.OR)


@rows(Op.REDUCE)
def _(u: UOp, make: Make) -> UOp | None:
    x = u.src[0]
    op, axes = u.arg
    if not axes:  # reduce over no axes == x
        return x
    if 0 in x.shape:  # reduce of nothing == the identity
        return b.const_like(identity(op, u.dtype), u)
    ones = [a for a in axes if x.shape[a] == 1]
    if ones:  # reduce of one element == reshape
        keep = [i for i in range(x.ndim) if i not in ones]
        inner = make(Op.RESHAPE, (x,), tuple([x.shape[i] for i in keep]))
        left = tuple([keep.index(a) for a in axes if a not in ones])
        return make(Op.REDUCE, (inner,), (op, left)) if left else inner
    if x.op is Op.REDUCE and x.arg[0] is op:  # sum(sum x) == sum x
        outer = [i for i in range(x.src[0].ndim) if i not in x.arg[1]]
        return make(Op.REDUCE, x.src, (op, tuple(sorted((*x.arg[1], *[outer[a] for a in axes])))))
    if x.op is Op.EXPAND:
        return _reduce_of_expand(u, x, make)
    if x.op is Op.PERMUTE:  # reduce(permute x) == permute(reduce x)
        inner_axes = sorted([x.arg[a] for a in axes])
        kept = [i for i in range(x.ndim) if i not in inner_axes]
        order = tuple([kept.index(x.arg[a]) for a in range(x.ndim) if a not in axes])
        return make(Op.PERMUTE, (make(Op.REDUCE, x.src, (op, tuple(inner_axes))),), order)
    if x.op is Op.RESHAPE and only_ones(x.shape, x.src[0].shape):
        # reduce(reshape x) == reshape(reduce x) where only axes of one element come or go
        to = dict(zip(no_ones(x.shape), no_ones(x.src[0].shape), strict=True))
        reduced = make(Op.REDUCE, x.src, (op, tuple([to[a] for a in axes])))
        return make(Op.RESHAPE, (reduced,), u.shape)
    return None


def _reduce_of_expand(u: UOp, x: UOp, make: Make) -> UOp | None:
    """sum(expand x) == n*x, max(expand x) == x; axes that are not reduced are expanded after."""
    op, axes = u.arg
    new = dict(x.arg)
    hit = [a for a in axes if a in new]
    n = math.prod([new[a] for a in hit])
    is_bool = u.dtype is dt.bool_
    if hit and not (op is Op.ADD or op is Op.XOR or op in _IDEMPOTENT or is_bool):
        return None  # a power
    stay = _stay(x)
    inner = tuple([stay.index(a) for a in axes if a not in new])
    out = make(Op.REDUCE, x.src, (op, inner)) if inner else x.src[0]
    if hit and op is Op.XOR:  # of an even number of equal values == 0
        out = out if n % 2 else b.zeros_like(out)
    elif hit and op is Op.ADD and not is_bool:
        out = times(out, n, make)
    left = [i for i in range(x.ndim) if i not in axes]
    return spread_over(out, {left.index(a): m for a, m in x.arg if a not in hit}, make)


def times(x: UOp, n: int, make: Make) -> UOp:
    """n * x, for x of any dtype but bool, with small floats multiplied in float32."""
    if x.dtype.is_complex:
        parts = [make(part, (x,), None) for part in (Op.REAL, Op.IMAG)]
        return make(Op.COMPLEX, tuple([times(p, n, make) for p in parts]), None)
    if x.dtype in dt.SMALL_FLOATS:
        wide = times(make(Op.CAST, (x,), dt.float32), n, make)
        return make(Op.CAST, (wide,), x.dtype)
    return make(Op.MUL, (x, filled(n, x)), None)


@rows(Op.PREFIX)
def _(u: UOp, make: Make) -> UOp | None:
    return u.src[0] if u.shape[u.arg[1]] == 1 else None  # running sum of one element == x


# ---- UPDATE
@rows(Op.UPDATE)
def _(u: UOp, make: Make) -> UOp | None:
    old, new = u.src[:2]
    how: Update = u.arg
    if 0 in new.shape:  # writing nothing == old
        return old
    gate = value(u.src[-1]) if how.gated else None
    if gate is not None:  # a gate that is always open == none, one that never is == old
        return make(Op.UPDATE, u.src[:-1], replace(how, gated=False)) if gate else old
    if how.box is None:
        return None
    starts = u.src[2 : len(u.src) - how.gated]
    if starts:  # a constant start == a static one
        box, left = _static(how.box, old.shape, starts)
        if len(left) == len(starts):
            return None
        gates = u.src[len(u.src) - how.gated :]
        return make(Op.UPDATE, (old, new, *left, *gates), replace(how, box=box))
    if how.gated or how.mode is not Mode.SET:
        return None
    if _is_whole(how.box, old.shape):  # overwriting everything == the value
        return new
    if old.op is Op.UPDATE and old.arg == how:  # writing the same part twice == the second time
        return make(Op.UPDATE, (old.src[0], new), how)
    return None
