"""Whole models.

Values and derivatives, how many contractions and nodes they take, and how long staging takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad.trace import interpret
from fgrad.trace.batch import batch
from fgrad.trace.vjp import jvp_of, vjp
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, open_param, paused_gc
from fgrad.uop.op import Op
from fgrad.uop.program import Program, close
from fgrad.uop.simplify import simplify_program
from tests.trace.calculus import (
    F,
    check,
    contractions,
    differences,
    dot,
    einsum,
    grads,
    run,
    same,
    scan,
    stage,
    tangents,
    total,
)

Rng = np.random.Generator


def mean(x: UOp) -> UOp:
    """Over the last axis, which stays as one element."""
    s = b.mul(b.reduce_(x, [x.ndim - 1]), 1 / x.shape[-1])
    return b.reshape(s, (*s.shape, 1))


def layer_norm(x: UOp, g: UOp, c: UOp) -> UOp:
    centred = b.sub(x, mean(x))
    scale = b.rsqrt(b.add(mean(b.mul(centred, centred)), 1e-5))
    return b.add(b.mul(b.mul(centred, scale), g), c)


def largest(x: UOp) -> UOp:
    m = b.reduce_(x, [x.ndim - 1], Op.MAX)
    return b.reshape(m, (*m.shape, 1))


def softmax(x: UOp) -> UOp:
    e = b.exp(b.sub(x, largest(x)))
    s = b.reduce_(e, [x.ndim - 1])
    return b.div(e, b.reshape(s, (*s.shape, 1)))


def transformer(heads: int) -> Callable[..., UOp]:
    """Two blocks and a cross entropy."""

    def block(x: UOp, p: tuple[UOp, ...]) -> UOp:
        g1, b1, wq, wk, wv, wo, g2, b2, w1, c1, w2, c2 = p
        n, t, d = x.shape
        h = layer_norm(x, g1, b1)
        q, k, v = (
            b.reshape(einsum("btd,de->bte", h, w), (n, t, heads, d // heads)) for w in (wq, wk, wv)
        )
        s = b.mul(einsum("bthe,bshe->bhts", q, k), 1 / math.sqrt(d // heads))
        later = b.lt(b.iota_along((t, t), 0), b.iota_along((t, t), 1))
        a = softmax(b.where(later, b.const(-1e30, x.dtype), s))
        o = b.reshape(einsum("bhts,bshe->bthe", a, v), (n, t, d))
        x = b.add(x, einsum("btd,de->bte", o, wo))
        u = b.add(einsum("btd,df->btf", layer_norm(x, g2, b2), w1), c1)
        cubic = b.mul(b.add(u, b.mul(b.mul(b.mul(u, u), u), 0.044715)), 0.7978845608)
        u = b.mul(b.mul(u, 0.5), b.add(b.tanh(cubic), 1.0))
        return b.add(x, b.add(einsum("btf,fd->btd", u, w2), c2))

    def loss(x: UOp, y: UOp, wout: UOp, *p: UOp) -> UOp:
        for layer in range(2):
            x = block(x, p[12 * layer : 12 * layer + 12])
        z = einsum("btd,dv->btv", x, wout)
        m = largest(z)
        s = b.reduce_(b.exp(b.sub(z, m)), [2])
        lse = b.add(m, b.log(b.reshape(s, (*s.shape, 1))))
        return b.neg(b.mul(total(b.mul(y, b.sub(z, lse))), 1 / (x.shape[0] * x.shape[1])))

    return loss


N, T, D, H, V = 2, 4, 8, 2, 11


def transformer_values(rng: Rng) -> list[Any]:
    r = rng.standard_normal

    def layer() -> list[Any]:
        shapes = [
            (D,),
            (D,),
            (D, D),
            (D, D),
            (D, D),
            (D, D),
            (D,),
            (D,),
            (D, 2 * D),
            (2 * D,),
            (2 * D, D),
            (D,),
        ]
        return [
            1 + 0.1 * r(s) if k in (0, 6) else 0.1 * r(s) if len(s) == 1 else r(s)
            for k, s in enumerate(shapes)
        ]

    y = np.eye(V)[rng.integers(0, V, (N, T))]
    return [r((N, T, D)), y, r((D, V)), *layer(), *layer()]


def gradient(program: Program, wrt: tuple[int, ...]) -> Program:
    pulled = vjp(program, wrt, (True,))
    one = b.const_like(1, program.outs[0])
    outs = pulled.inline([*program.params, one])
    return simplify_program(Program(program.params, tuple(outs[1:])))


@pytest.fixture(scope="module")
def model() -> tuple[Program, list[Any], Program]:
    """Labels are data: nothing is differentiated with respect to them."""
    rng = np.random.default_rng(0)
    values = transformer_values(rng)
    program = simplify_program(stage(transformer(H), *values))
    wrt = tuple(k for k in range(len(values)) if k != 1)
    return program, values, gradient(program, wrt)


def moving(program: Program) -> list[bool]:
    return [k != 1 for k in range(27)] + [False] * (len(program.params) - 27)


def test_transformer_gradient(model: Any, rng: Rng) -> None:
    program, values, g = model
    v = [rng.standard_normal(np.shape(x)) for x in values]
    v[1] *= 0
    got = run(g, *values)
    want = differences(program, values, v)[0]
    inner = sum(
        np.sum(a * v[k]) for a, k in zip(got, [k for k in range(27) if k != 1], strict=True)
    )
    np.testing.assert_allclose(inner, want, rtol=1e-7)
    both = vjp(program, tuple(k for k in range(27) if k != 1), (True,))
    assert contractions(both) == 51  # 17 forward, two for each backward
    assert len(both.nodes) < 760


def test_transformer_hessian_vector_products(model: Any, rng: Rng) -> None:
    program, values, g = model
    moved = jvp_of(g, moving(g))
    n = len(g.outs)
    hvp = simplify_program(Program(moved.params, moved.outs[n:]))
    vs = [rng.standard_normal(np.shape(x)) for k, x in enumerate(values) if k != 1]
    h = 1e-4

    def at(s: float) -> list[Any]:
        it = iter(vs)
        return run(g, *[x if k == 1 else x + s * h * next(it) for k, x in enumerate(values)])

    want = [
        (a - 8 * c + 8 * d - e) / (12 * h)
        for a, c, d, e in zip(at(-2), at(-1), at(1), at(2), strict=True)
    ]
    same(run(hvp, *values, *vs), want, "forward over reverse", 1e-5, 1e-6)
    assert contractions(hvp) == 140

    ps = [open_param(o.dtype, o.shape) for o in g.outs]
    s = None
    for o, p in zip(g.outs, ps, strict=True):
        t = total(b.mul(o, p))
        s = t if s is None else b.add(s, t)
    product = close((*g.params, *ps), [s])
    rr = gradient(product, tuple(k for k in range(27) if k != 1))
    same(run(rr, *values, *vs), want, "reverse over reverse", 1e-5, 1e-6)
    assert contractions(rr) == 140


def test_per_example_gradients_keep_the_contractions(model: Any, rng: Rng) -> None:
    program, values, g = model
    flags = [k < 2 for k in range(27)]
    many, _ = batch(g, flags, 3)
    many = simplify_program(many)
    assert contractions(many) == 51
    xs = [np.stack([x, 0.5 * x, 0.1 + x]) if f else x for x, f in zip(values, flags, strict=True)]
    single = [run(g, *[x[i] if f else x for x, f in zip(xs, flags, strict=True)]) for i in range(3)]
    same(
        run(many, *xs),
        [np.stack(s) for s in zip(*single, strict=True)],
        "vmap of grad",
        1e-9,
        1e-10,
    )


def test_mlp(rng: Rng) -> None:
    def f(x: UOp, y: UOp, w1: UOp, b1: UOp, w2: UOp, b2: UOp, w3: UOp, b3: UOp) -> UOp:
        h = b.tanh(b.add(dot(x, w1), b1))
        h = b.maximum(b.add(dot(h, w2), b2), 0.0)
        e = b.sub(b.add(dot(h, w3), b3), y)
        return b.mul(total(b.mul(e, e)), 1 / x.shape[0])

    shapes = ((5, 4), (5, 3), (4, 6), (6,), (6, 7), (7,), (7, 3), (3,))
    values = [np.random.default_rng(1).standard_normal(s) for s in shapes]  # no unit near its kink
    check(f, *values, rng=rng)
    pulled = vjp(stage(f, *values), (0, 2, 3, 4, 5, 6, 7), (True,))
    assert contractions(pulled) == 9  # 3 forward, 3 dw, 3 dx


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution(stride: int, rng: Rng) -> None:
    def conv(x: UOp, w: UOp) -> UOp:
        x = b.pad(x, [(0, 0, 0), (1, 1, 0), (1, 1, 0), (0, 0, 0)])
        p = b.window(b.window(x, 1, 3, stride), 2, 3, stride)
        p = b.permute(p, (0, 1, 2, 4, 5, 3))
        n, h, width = p.shape[:3]
        left = b.expand(p, [(3, w.shape[-1])])
        right = b.expand(b.permute(w, (3, 0, 1, 2)), [(0, n), (1, h), (2, width)])
        return b.reduce_(b.mul(left, right), [4, 5, 6])

    def f(x: UOp, w: UOp) -> UOp:
        r = b.tanh(conv(x, w))
        return total(b.mul(r, r))

    values = rng.standard_normal((2, 6, 7, 3)), rng.standard_normal((3, 3, 3, 4))
    check(f, *values, rng=rng, mapped=False)
    assert contractions(vjp(stage(f, *values), (0, 1), (True,))) == 3
    assert contractions(vjp(stage(f, *values), (1,), (True,))) == 2


def test_mixed_precision_keeps_its_contractions(rng: Rng) -> None:
    """Half-precision factors summed in float32."""

    def f(x: UOp, w: UOp) -> UOp:
        y = einsum(
            "ij,jk->ik",
            b.cast(b.cast(x, dt.bfloat16), dt.float32),
            b.cast(b.cast(w, dt.bfloat16), dt.float32),
        )
        return total(b.mul(y, y))

    x, w = (
        rng.standard_normal((4, 5)).astype(np.float32),
        rng.standard_normal((5, 3)).astype(np.float32),
    )
    assert contractions(vjp(stage(f, x, w), (0, 1), (True,))) == 3


# ---- long programs
def chain(n: int) -> Program:
    def f(x: UOp, w: UOp) -> UOp:
        for _ in range(n // 4):
            x = b.sin(b.mul(b.add(x, w), b.where(b.lt(x, w), x, w)))
        return x

    with paused_gc():
        return stage(f, np.zeros(2), np.zeros(2))


def test_long_chains_take_linear_time() -> None:
    def seconds(n: int) -> float:
        interpret.clear()
        program = chain(n)
        start = time.process_time()
        vjp.cache_clear()  # type: ignore[attr-defined]
        vjp(program, (0, 1), (True,))
        batch(program, (True, False), 3)
        return time.process_time() - start

    small, large = seconds(1_000), seconds(10_000)
    assert large < 25 * small + 1
    assert large < 20


def test_many_readers_of_one_value_take_linear_time() -> None:
    """Contributions that are products are kept apart; thousands of them still add up."""

    def f(x: UOp, w: UOp) -> UOp:
        s = b.const(0.0, F, (2, 2))
        for k in range(500):
            s = b.add(s, dot(b.mul(x, float(k)), w))
        return total(s)

    program = stage(f, np.zeros((2, 2)), np.zeros((2, 2)))
    start = time.process_time()
    tangents(program)
    grads(program)
    assert time.process_time() - start < 20


def test_signs_of_deep_values_are_found_quickly() -> None:
    def f(x: UOp) -> UOp:
        y = b.mul(x, x)
        for _ in range(60):
            y = b.add(y, b.maximum(y, b.add(y, y)))
            y = b.mul(y, 0.25)
        return b.sqrt(b.where(b.lt(x, 1.0), b.log(y), y))

    start = time.process_time()
    grads(stage(f, np.ones(3)))
    assert time.process_time() - start < 5


def test_programs_are_the_same_when_made_again() -> None:
    """Equal input, identical output: caches and disk keys rely on it."""
    first = grads(chain(400))
    interpret.clear()
    second = grads(chain(400))
    assert first.outs == second.outs


def test_nested_loops_transform_in_reasonable_time(rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        def loop(depth: int, x: UOp) -> UOp:
            if depth == 0:
                return b.sin(x)
            c, _ = scan(lambda c, _: ([loop(depth - 1, c[0])], []), [x], [], length=2)
            return c[0]

        return loop(5, x)

    program = stage(f, np.array(0.3))
    start = time.process_time()
    check(program, np.array(0.3), rng=rng, mapped=False)
    assert time.process_time() - start < 20
