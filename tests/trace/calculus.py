"""What the tests of the transforms share.

Staging helpers, finite differences, a recogniser of contractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from fgrad.trace.batch import batch
from fgrad.trace.reference import run_program
from fgrad.trace.vjp import jvp_of, vjp
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, open_param, toposort, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, Program, Scan, While, close, closure, gets
from fgrad.uop.simplify import simplify_program

Array = Any
F = dt.float64


# ---- staging
def stage(f: Callable[..., Any], *values: Array) -> Program:
    """The Program of `f`, which takes and returns nodes, for arguments like `values`."""
    ps = [open_param(dt.to_dtype(np.asarray(v).dtype), np.shape(v)) for v in values]
    outs = f(*ps)
    return close(ps, list(outs) if isinstance(outs, list | tuple) else [outs])


def run(program: Program, *values: Array) -> list[Array]:
    return run_program(program, [np.asarray(v) for v in values])


def scan(
    f: Callable[[list[UOp], list[UOp]], tuple[list[UOp], list[UOp]]],
    init: Sequence[UOp],
    xs: Sequence[UOp],
    length: int | None = None,
    reverse: bool = False,
) -> tuple[list[UOp], list[UOp]]:
    """f(carries, slices) -> (carries, ys)."""
    n = xs[0].shape[0] if length is None else length
    pc = [open_param(u.dtype, u.shape) for u in init]
    px = [open_param(u.dtype, u.shape[1:]) for u in xs]
    carry, ys = f(pc, px)
    if not (pc or px):
        raise ValueError("a scan over nothing")
    caps, body = closure((*pc, *px), [*carry, *ys])
    arg = Scan(body, n, len(caps), len(init), len(xs), reverse)
    got = gets(uop(Op.SCAN, (*caps, *init, *xs), arg))
    return got[: len(init)], got[len(init) :]


def switch(index: UOp, branches: Sequence[Callable[..., list[UOp]]], *operands: UOp) -> list[UOp]:
    ps = [open_param(u.dtype, u.shape) for u in operands]
    sides = [f(*ps) for f in branches]
    n = len(sides[0])
    caps, every = closure(ps, [o for side in sides for o in side])
    programs = [Program(every.params, every.outs[i * n : i * n + n]) for i in range(len(sides))]
    return gets(uop(Op.COND, (index, *caps, *operands), Cond(tuple(programs))))


def while_(cond: Callable[..., UOp], body: Callable[..., list[UOp]], *init: UOp) -> list[UOp]:
    ps = [open_param(u.dtype, u.shape) for u in init]
    caps, both = closure(ps, [cond(*ps), *body(*ps)])
    c, f = Program(both.params, both.outs[:1]), Program(both.params, both.outs[1:])
    return gets(uop(Op.WHILE, (*caps, *init), While(c, f, len(caps))))


def total(x: UOp) -> UOp:
    return b.reduce_(x, range(x.ndim))


def einsum(spec: str, x: UOp, y: UOp) -> UOp:
    """Two operands, every index summed or kept."""
    ins, out = spec.split("->")
    sx, sy = ins.split(",")
    space = list(dict.fromkeys(sx + sy))
    size = {**dict(zip(sx, x.shape, strict=True)), **dict(zip(sy, y.shape, strict=True))}

    def put(u: UOp, s: str) -> UOp:
        order = [c for c in space if c in s]
        u = b.permute(u, tuple([s.index(c) for c in order]))
        return b.expand(u, [(i, size[c]) for i, c in enumerate(space) if c not in s])

    r = b.reduce_(b.mul(put(x, sx), put(y, sy)), [space.index(c) for c in space if c not in out])
    left = [c for c in space if c in out]
    return b.permute(r, tuple([left.index(c) for c in out]))


def dot(x: UOp, y: UOp) -> UOp:
    return einsum("ij,jk->ik", x, y)


def matvec(w: UOp, x: UOp) -> UOp:
    return einsum("ij,j->i", w, x)


# ---- derivatives of whole programs
def floats(program: Program) -> tuple[int, ...]:
    return tuple(k for k, p in enumerate(program.params) if p.dtype.is_inexact)


def value_and_grad(program: Program) -> Program:
    """Of the sum of all float outs: (*params) -> (*outs, *grads)."""
    present = tuple(o.dtype.is_inexact for o in program.outs)
    pulled = vjp(program, floats(program), present)
    ones = [b.const_like(1, o) for o, m in zip(program.outs, present, strict=True) if m]
    n = len(program.params)
    return simplify_program(close(program.params, pulled.inline([*program.params[:n], *ones])))


def grads(program: Program) -> Program:
    both = value_and_grad(program)
    return Program(both.params, both.outs[len(program.outs) :])


def tangents(program: Program) -> Program:
    """(*params, *tangents of the float ones) -> tangents of the float outs."""
    moved = jvp_of(program, [p.dtype.is_inexact for p in program.params])
    n = len(program.outs)
    outs = [t for t in moved.outs[n:] if t.dtype.is_inexact]
    return simplify_program(Program(moved.params, tuple(outs)))


def forward_over_reverse(program: Program) -> Program:
    return tangents(grads(program))


def reverse_over_reverse(program: Program) -> Program:
    """The gradient of <grad, v>, with v after the params."""
    g = grads(program)
    vs = [open_param(o.dtype, o.shape) for o in g.outs]
    s = None
    for o, v in zip(g.outs, vs, strict=True):
        t = total(b.mul(o, v))
        s = t if s is None else b.add(s, t)
    both = close((*program.params, *vs), [s])
    pulled = vjp(both, floats(program), (True,))
    one = b.const_like(1, both.outs[0])
    outs = pulled.inline([*both.params, one])
    return simplify_program(close(both.params, outs[1:]))


def direction(program: Program, rng: np.random.Generator) -> list[Array]:
    return [_normal(program.params[k], rng) for k in floats(program)]


def _normal(p: UOp, rng: np.random.Generator) -> Array:
    x = rng.standard_normal(p.shape)
    if p.dtype.is_complex:
        x = x + 1j * rng.standard_normal(p.shape)
    return x.astype(p.dtype.np)


def moved(values: Sequence[Array], program: Program, v: Sequence[Array], h: float) -> list[Array]:
    out = [np.asarray(x) for x in values]
    for k, d in zip(floats(program), v, strict=True):
        out[k] = out[k] + h * d
    return out


def differences(program: Program, values: Sequence[Array], v: Sequence[Array]) -> list[Array]:
    """Directional derivatives of the float outs, by central differences of fourth order."""
    h = 2e-4

    def at(s: float) -> list[Array]:
        outs = run(program, *moved(values, program, v, s))
        return [o for o, u in zip(outs, program.outs, strict=True) if u.dtype.is_inexact]

    parts = [at(s * h) for s in (-2, -1, 1, 2)]
    return [(a - 8 * b_ + 8 * c - d) / (12 * h) for a, b_, c, d in zip(*parts, strict=True)]


def same(got: Sequence[Array], want: Sequence[Array], what: str, rtol: float, atol: float) -> None:
    assert len(got) == len(want), what
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=what)


def inner(xs: Sequence[Array], ys: Sequence[Array]) -> float:
    return float(sum(np.sum(x * y).real for x, y in zip(xs, ys, strict=True)))


def check(
    f: Callable[..., Any] | Program,
    *values: Array,
    rng: np.random.Generator,
    order: int = 2,
    rtol: float = 1e-6,
    reverse: bool = True,
    mapped: bool = True,
) -> None:
    """Finite differences of both orders, <ct, Jv> = <J^T ct, v>, and vmap against a stack."""
    program = f if isinstance(f, Program) else stage(f, *values)
    v = direction(program, rng)
    forward = tangents(program)
    atol = 1e-7
    jv = run(forward, *values, *v)
    same(jv, differences(program, values, v), "jvp", rtol, atol)
    todo = [program, forward]
    if reverse:
        cts = [_normal(o, rng) for o in program.outs if o.dtype.is_inexact]
        present = tuple(o.dtype.is_inexact for o in program.outs)
        pulled = vjp(program, floats(program), present)
        got = run(pulled, *values, *cts)
        n = len(program.outs)
        same(got[:n], run(program, *values), "value beside the gradient", 1e-9, 1e-12)
        np.testing.assert_allclose(inner(got[n:], v), inner(cts, jv), rtol=1e-8, atol=1e-9)
        todo.append(pulled)
    if reverse and order > 1:
        g = grads(program)
        want = differences(g, values, v)
        scale = max([1.0, *[float(np.max(np.abs(w), initial=0)) for w in want]])
        same(run(tangents(g), *values, *v), want, "forward over reverse", rtol, atol * scale)
        same(
            run(reverse_over_reverse(program), *values, *v),
            want,
            "reverse over reverse",
            rtol,
            atol * scale,
        )
        todo.append(tangents(g))
    if mapped:
        for p in todo:
            check_batch(p, values, rng)


def check_batch(program: Program, values: Sequence[Array], rng: np.random.Generator) -> None:
    """vmap over all params, and over the first only, is the stack of what single calls give."""
    size = 3
    first = len(values)
    full = [
        np.asarray(values[k]) if k < first else _normal(p, rng)
        for k, p in enumerate(program.params)
    ]
    rows = []
    for i in range(size):
        rows.append([x * (1 - 0.1 * i) if x.dtype.kind in "fc" else x for x in full])
    for flags in (
        [True] * len(full),
        [k == 0 for k in range(len(full))],
        [k == len(full) - 1 for k in range(len(full))],
    ):
        many, out = batch(program, flags, size)
        args = [np.stack([r[k] for r in rows]) if f else full[k] for k, f in enumerate(flags)]
        got = run(many, *args)
        want = [
            run(program, *[rows[i][k] if f else full[k] for k, f in enumerate(flags)])
            for i in range(size)
        ]
        for k, (g, f) in enumerate(zip(got, out, strict=True)):
            w = np.stack([r[k] for r in want])
            g = g if f else np.broadcast_to(g, w.shape)
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-10, err_msg="vmap")


# ---- contractions
def contractions(program: Program) -> int:
    """How many sums of products have rows, columns and a summed axis (loop bodies count once)."""
    users: dict[UOp, list[UOp]] = {}
    nodes = toposort(program.outs)
    for u in nodes:
        for q in u.src:
            users.setdefault(q, []).append(u)
    views = (Op.PERMUTE, Op.RESHAPE, Op.SKEW, Op.WINDOW, Op.PAD, Op.SHRINK)

    def is_sum(u: UOp) -> bool:
        return u.op is Op.REDUCE and u.arg[0] is Op.ADD

    def absorbed(u: UOp) -> bool:
        us = users.get(u, [])
        return len(us) == 1 and (is_sum(us[0]) or us[0].op in views and absorbed(us[0]))

    n = sum(recognise(u) is not None for u in nodes if is_sum(u) and not absorbed(u))
    return n + sum(contractions(u.arg.body) for u in nodes if u.op is Op.SCAN)


def recognise(u: UOp) -> dict[str, int] | None:
    """M, N, K and batch of a sum of a product, found from which ranges each factor depends on.

    None: no contraction.
    """
    fresh = count()
    size: dict[int, int] = {}

    def new(n: int) -> frozenset[int]:
        k = next(fresh)
        size[k] = n
        return frozenset([k]) if n != 1 else frozenset()

    start = [new(n) for n in u.src[0].shape]
    summed = set().union(*[start[a] for a in u.arg[1]])
    kept = set().union(*start) - summed
    leaves: list[frozenset[int]] = []

    def go(x: UOp, idx: list[frozenset[int]], merge: bool) -> None:
        if x.op is Op.MUL:
            for s in x.src:
                go(s, idx, False)
        elif x.op is Op.NEG:
            go(x.src[0], idx, merge)
        elif x.op is Op.EXPAND:
            gone = {a for a, _ in x.arg}
            go(x.src[0], [i for a, i in enumerate(idx) if a not in gone], merge)
        elif x.op is Op.PERMUTE:
            s: list[Any] = [None] * len(idx)
            for k, p in enumerate(x.arg):
                s[p] = idx[k]
            go(x.src[0], s, merge)
        elif x.op is Op.RESHAPE:
            go(x.src[0], _through_reshape(x.src[0].shape, x.shape, idx), merge)
        elif x.op in (Op.PAD, Op.SHRINK, Op.FLIP):
            go(x.src[0], idx, merge)
        elif x.op in (Op.WINDOW, Op.SKEW):
            a, k = x.arg[:2]
            s = list(idx)
            s[a] = idx[a] | idx[k]
            go(x.src[0], s, merge)
        elif x.op is Op.REDUCE and x.arg[0] is Op.ADD and merge:
            it = iter(idx)
            s = []
            for a, n in enumerate(x.src[0].shape):
                if a in x.arg[1]:
                    r = new(n)
                    summed.update(r)
                    s.append(r)
                else:
                    s.append(next(it))
            go(x.src[0], s, True)
        else:
            leaves.append(frozenset().union(*idx) if idx else frozenset())

    go(u.src[0], start, True)
    sides = [r for r in leaves if r]
    best: dict[str, int] | None = None
    for m in range(1, 1 << max(0, len(sides) - 1)):
        x = frozenset().union(*[r for i, r in enumerate(sides) if m >> i & 1])
        y = frozenset().union(*[r for i, r in enumerate(sides) if not m >> i & 1])
        ks, ms, ns = x & y & summed, (x - y) & kept, (y - x) & kept
        if ks and ms and ns and not (x - y) & summed and not (y - x) & summed:
            shape = {
                n: math.prod(size[i] for i in s) for n, s in zip("MNK", (ms, ns, ks), strict=True)
            }
            shape["batch"] = math.prod(size[i] for i in x & y & kept)
            if best is None or min(shape["M"], shape["N"]) > min(best["M"], best["N"]):
                best = shape
    return best


def _through_reshape(
    src: Sequence[int], dst: Sequence[int], idx: list[frozenset[int]]
) -> list[frozenset[int]]:
    """The ranges of each source axis, from those of each target axis."""
    r: list[frozenset[int]] = []
    i = j = 0
    while i < len(src) or j < len(dst):
        p, q = [i] if i < len(src) else [], [j] if j < len(dst) else []
        np_, nq = src[i] if p else 1, dst[j] if q else 1
        i, j = i + bool(p), j + bool(q)
        while np_ != nq:
            if np_ < nq:
                np_ *= src[i]
                p.append(i)
                i += 1
            else:
                nq *= dst[j]
                q.append(j)
                j += 1
        s = frozenset().union(*[idx[k] for k in q]) if q else frozenset()
        r += [s if src[k] != 1 else frozenset() for k in p]
    return r
