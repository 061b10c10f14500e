"""Derivatives that are no single expression: products, running extremes, trigamma."""

from __future__ import annotations

import math

from fgrad.trace.maybe import Maybe, add_, mul_
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    add,
    cast,
    const,
    const_like,
    div,
    eq,
    expand,
    floor,
    iota,
    lt,
    mul,
    not_,
    pad,
    permute,
    reduce_,
    reshape,
    sin,
    slice_axis,
    spread,
    sub,
    where,
    zeros_like,
)  # fmt: skip
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Scan, close, gets


def to_front(x: UOp, axis: int) -> UOp:
    return permute(x, (axis, *[i for i in range(x.ndim) if i != axis]))


def from_front(x: UOp, axis: int) -> UOp:
    """Undo `to_front`."""
    order = list(range(1, x.ndim))
    order.insert(axis, 0)
    return permute(x, order)


def product_tangent(x: UOp, dx: UOp, axes: tuple[int, ...]) -> UOp:
    """The tangent of the product of `x` over `axes`, by a balanced tree.

    No division, so zeros are no special case.
    """
    kept = [i for i in range(x.ndim) if i not in axes]
    n = math.prod(x.shape[a] for a in axes)
    if n == 0:
        return const(0, x.dtype, tuple(x.shape[i] for i in kept))
    shape = (n, *[x.shape[i] for i in kept])

    def flat(v: UOp) -> UOp:
        return reshape(permute(v, (*axes, *kept)), shape)

    v: UOp = flat(x)
    dv: Maybe = flat(dx)
    odd: list[tuple[UOp, UOp]] = []
    while n > 1:
        if n % 2:
            odd.append((slice_axis(v, 0, n - 1, n), slice_axis(_there(dv), 0, n - 1, n)))
        half = n // 2
        a, b = slice_axis(v, 0, 0, half), slice_axis(v, 0, half, 2 * half)
        da, db = slice_axis(_there(dv), 0, 0, half), slice_axis(_there(dv), 0, half, 2 * half)
        v, dv = mul(a, b), add(mul(da, b), mul(a, db))
        n = half
    for w, dw in odd:
        v, dv = mul(v, w), add_(mul_(dv, w), mul(v, dw))
    return reshape(_there(dv), shape[1:])


def _there(x: Maybe) -> UOp:
    assert x is not None
    return x


def recurrence(factor: UOp, term: UOp, axis: int, reverse: bool, masked: bool) -> UOp:
    """s[t] = s[t-1] * factor[t] + term[t] along `axis`.

    masked   factor is bool: s[t-1] where it is true, else 0
    """
    fs, ts = to_front(factor, axis), to_front(term, axis)
    s, f, t = [open_param(x.dtype, x.shape[1:], "recur") for x in (ts, fs, ts)]
    kept = where(f, s, 0) if masked else mul(s, f)
    new = add(kept, t)
    body = close((s, f, t), (new, new))
    init = const(0, term.dtype, ts.shape[1:])
    scan = uop(Op.SCAN, (init, fs, ts), Scan(body, ts.shape[0], 0, 1, 2, reverse))
    return from_front(gets(scan)[1], axis)


def shifted(x: UOp, axis: int, fill: UOp, reverse: bool) -> UOp:
    """x[t-1] along `axis` (x[t+1] when `reverse`), `fill` at the end."""
    n = x.shape[axis]
    if n == 0:
        return x
    rest = slice_axis(x, axis, 1, n) if reverse else slice_axis(x, axis, 0, n - 1)
    moved = pad(
        rest,
        [((0, 1) if reverse else (1, 0)) + (0,) if i == axis else (0, 0, 0) for i in range(x.ndim)],
    )
    edge = n - 1 if reverse else 0
    place = expand(iota(n), [(i, m) for i, m in enumerate(x.shape) if i != axis])
    return where(eq(place, edge), fill, moved)


def running_product_tangent(u: UOp, dx: UOp) -> UOp:
    """dy[t] = dy[t-1] * x[t] + y[t-1] * dx[t]."""
    _, axis, reverse = u.arg
    before = shifted(u, axis, const_like(1, u), reverse)
    return recurrence(u.src[0], mul(before, dx), axis, reverse, masked=False)


def running_extreme_tangent(u: UOp, dx: UOp) -> UOp:
    """The mean of the tangents of all elements so far that equal the running maximum (minimum)."""
    x = u.src[0]
    op, axis, reverse = u.arg
    before = shifted(u, axis, x, reverse)
    record = (
        lt(before, x) if op is Op.MAX else lt(x, before)
    )  # a new extreme: what came before counts no more
    tie = eq(x, u)
    total = recurrence(not_(record), where(tie, dx, 0), axis, reverse, masked=True)
    ones = cast(tie, dt.int64)
    so_far = uop(Op.PREFIX, (ones,), (Op.ADD, axis, reverse))
    dropped = where(
        record, sub(so_far, ones), 0
    )  # grows along the axis, so its running maximum is the last one
    count = sub(so_far, uop(Op.PREFIX, (dropped,), (Op.MAX, axis, reverse)))
    wide = dt.accumulator(dx.dtype)
    return cast(div(cast(total, wide), cast(count, wide)), dx.dtype)


def extreme_tangent(u: UOp, dx: UOp) -> UOp:
    """Ties share evenly; they are counted, and their sum carried, in a wide type."""
    x = u.src[0]
    _, axes = u.arg
    wide = dt.accumulator(u.dtype)
    tie = eq(x, spread(u, x, axes))
    count = reduce_(cast(tie, dt.int64), axes)
    total = reduce_(cast(where(tie, dx, 0), wide), axes)
    return cast(div(total, cast(count, wide)), u.dtype)


def trigamma(x: UOp) -> UOp:
    """The derivative of digamma.

    Recurrence up to x + 8, asymptotic series there (DLMF 5.15.8), reflection below 1/2.
    """
    dtype = x.dtype
    small = dtype in dt.SMALL_FLOATS
    x = cast(x, dt.accumulator(dtype)) if small else x
    low = lt(x, 0.5)
    z = where(low, sub(1, x), x)
    total: UOp = zeros_like(z)
    for k in range(8):
        total = add(total, div(1, mul(add(z, k), add(z, k))))
    w = add(z, 8)
    r = div(1, w)
    r2 = mul(r, r)
    # Bernoulli numbers B2 .. B16
    bernoulli = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
    series: UOp = const_like(bernoulli[-1], z)
    for b in reversed(bernoulli[:-1]):
        series = add(mul(series, r2), b)
    total = add(total, add(add(r, mul(r2, 0.5)), mul(mul(series, r2), r)))
    s = sin(mul(sub(x, floor(x)), math.pi))
    reflected = sub(div(math.pi**2, mul(s, s)), total)
    out = where(low, reflected, total)
    return cast(out, dtype) if small else out
