"""CALL and HOST: checkpoint, custom rules, kernels, callbacks; collectives; BUFFERs; effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fgrad.errors import VmapAxisError
from fgrad.trace import collective
from fgrad.trace.batch import batch
from fgrad.trace.vjp import jvp_of, linearize, transpose_linear, vjp
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import Storage, UOp, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, Host, Program, close, closure, gets
from tests.trace.calculus import (
    F,
    check,
    grads,
    run,
    scan,
    stage,
    switch,
    tangents,
    total,
    value_and_grad,
    while_,
)

Rng = np.random.Generator
Maybe = UOp | None


def call(
    f: Callable[..., list[UOp]], kind: str, rule: Any, *args: UOp, name: str = "f"
) -> list[UOp]:
    ps = [open_param(a.dtype, a.shape) for a in args]
    caps, body = closure(ps, f(*ps))
    return gets(uop(Op.CALL, (*caps, *args), Call(body, kind, name, rule)))


# ---- checkpoint
def block(h: UOp, w: UOp) -> list[UOp]:
    return [b.tanh(b.mul(b.sin(b.mul(h, w)), b.exp(h)))]


def net(x: UOp, ws: UOp, policy: Any = None) -> UOp:
    for k in range(4):
        w = b.reshape(b.slice_axis(ws, 0, k, k + 1), (3,))
        (x,) = call(block, "checkpoint", policy, x, w)
    return total(b.mul(x, x))


def kinds(program: Program) -> list[str]:
    names = []
    for u in program.nodes:
        names.append(u.op.name)
        if u.op is Op.CALL or u.op is Op.SCAN:
            names += kinds(u.arg.body)
    return names


def test_checkpoint_keeps_inputs_and_computes_again(rng: Rng) -> None:
    x, ws = rng.standard_normal(3), rng.standard_normal((4, 3))
    check(net, x, ws, rng=rng)
    ops = kinds(value_and_grad(stage(net, x, ws)))
    assert ops.count("EXP") == 8 and ops.count("AFTER") == 8  # each block twice; two inputs each


def test_a_policy_keeps_what_it_names(rng: Rng) -> None:
    def f(x: UOp, ws: UOp) -> UOp:
        return net(x, ws, policy=keep_exp)

    x, ws = rng.standard_normal(3), rng.standard_normal((4, 3))
    check(f, x, ws, rng=rng, mapped=False)
    ops = kinds(value_and_grad(stage(f, x, ws)))
    assert ops.count("EXP") == 4 and ops.count("TANH") == 8


def keep_exp(u: UOp) -> bool:
    return u.op is Op.EXP


def test_checkpoint_in_a_scan(rng: Rng) -> None:
    def f(x: UOp, ws: UOp) -> UOp:
        c, _ = scan(lambda c, w: (call(block, "checkpoint", None, c[0], w[0]), []), [x], [ws])
        return total(b.mul(c[0], c[0]))

    x, ws = rng.standard_normal(3), rng.standard_normal((4, 3))
    check(f, x, ws, rng=rng)
    forward = next(u.arg for u in value_and_grad(stage(f, x, ws)).nodes if u.op is Op.SCAN)
    assert len(forward.body.outs) - forward.carry == 1  # the carry alone is stacked


def test_strong_zeros_in_a_checkpoint(rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        (y,) = call(lambda x: [b.sqrt(x)], "checkpoint", None, x)
        return total(b.where(b.lt(b.const_like(0, x), x), y, 0))

    x = np.array([0.0, 4.0])
    np.testing.assert_allclose(run(grads(stage(f, x)), x)[0], [0, 0.25])


# ---- custom rules
class Thrice:
    """sin, with three times its derivative."""

    @staticmethod
    def jvp(primals: Sequence[UOp], tangents: Sequence[Maybe]) -> tuple[list[UOp], list[Maybe]]:
        (x,), (dx,) = primals, tangents
        return [b.sin(x)], [None if dx is None else b.mul(b.mul(dx, b.cos(x)), 3)]

    @staticmethod
    def fwd(primals: Sequence[UOp], moves: Sequence[bool]) -> tuple[list[UOp], list[UOp], Any]:
        return [b.sin(primals[0])], [primals[0]], Thrice

    @staticmethod
    def bwd(residuals: Sequence[UOp], cts: Sequence[Maybe]) -> list[Maybe]:
        return [None if cts[0] is None else b.mul(b.mul(cts[0], b.cos(residuals[0])), 3)]


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_custom_rules_in_both_orders_and_under_vmap(kind: str, rng: Rng) -> None:
    def f(x: UOp, w: UOp) -> UOp:
        (y,) = call(lambda x: [b.sin(x)], kind, Thrice, b.mul(x, w))
        return total(b.mul(y, y))

    x, w = rng.standard_normal(3), rng.standard_normal(3)
    program = stage(f, x, w)
    g = grads(program)
    z = x * w
    want = 6 * np.sin(z) * np.cos(z)
    np.testing.assert_allclose(run(g, x, w)[0], want * w)
    v = rng.standard_normal(3)
    (gx, gw) = run(tangents(g), x, w, v, 0 * v)
    # from here on the rule's own expressions are differentiated, and those are plain sin and cos
    second = 6 * (np.cos(z) ** 2 - np.sin(z) ** 2)
    np.testing.assert_allclose(gx, second * w * w * v)
    np.testing.assert_allclose(gw, (second * z + want) * v)
    xs = rng.standard_normal((4, 3))
    single = [run(g, x, w) for x in xs]
    for make in (lambda: batch(g, (True, False), 4)[0], lambda: grads(stage_sum(program))):
        got = run(make(), xs, w)
        np.testing.assert_allclose(got[0], [s[0] for s in single])
        gw_want = np.stack([s[1] for s in single])
        np.testing.assert_allclose(got[1], gw_want if got[1].ndim == 2 else gw_want.sum(0))


def stage_sum(program: Program) -> Program:
    """The sum over a batch, whose first argument is mapped."""
    many, _ = batch(program, (True, False), 4)
    return Program(many.params, (total(many.outs[0]),))


def test_custom_vjp_refuses_forward_mode_when_it_runs(rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        return call(lambda x: [b.sin(x)], "custom_vjp", Thrice, x)[0]

    program = tangents(stage(f, np.ones(2)))
    with pytest.raises(TypeError, match="forward-mode.*custom_jvp"):
        run(program, np.ones(2), np.ones(2))
    with pytest.raises(NotImplementedError, match="second forward"):
        tangents(program)


def test_linearize_of_custom_vjp_transposes_later(rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        return call(lambda x: [b.sin(x)], "custom_vjp", Thrice, x)[0]

    x = rng.standard_normal(2)
    program = stage(f, x)
    primal, linear = linearize(program, (0,))
    outs = run(primal, x)
    back = transpose_linear(linear, (len(linear.params) - 1,))
    np.testing.assert_allclose(run(back, *outs[1:], np.ones(2))[0], 3 * np.cos(x))
    many, _ = batch(linear, (False,) * (len(linear.params) - 1) + (True,), 2)
    back = transpose_linear(many, (len(linear.params) - 1,))
    np.testing.assert_allclose(run(back, *outs[1:], np.eye(2))[0], np.eye(2) * 3 * np.cos(x))


def test_rules_are_checked() -> None:
    class Wrong:
        @staticmethod
        def jvp(primals: Any, tangents: Any) -> Any:
            return [primals[0]], [b.reduce_(tangents[0], [0])]

    def f(x: UOp) -> UOp:
        return call(lambda x: [b.sin(x)], "custom_jvp", Wrong, x, name="mine")[0]

    with pytest.raises(TypeError, match=r"mine.*float64\[2\].*float64\[\]"):
        tangents(stage(f, np.ones(2)))


def test_kernels_with_and_without_a_gradient(rng: Rng) -> None:
    class Rule:
        @staticmethod
        def grad(args: Sequence[UOp], outs: Sequence[UOp], cts: Sequence[Maybe]) -> list[Maybe]:
            assert len(args) == 2 and len(outs) == 1
            ct = cts[0]
            return [None, None] if ct is None else [b.mul(ct, args[1]), b.mul(ct, args[0])]

    def f(rule: Any) -> Callable[[UOp, UOp], UOp]:
        return lambda x, y: b.sin(call(lambda x, y: [b.mul(x, y)], "kernel", rule, x, y)[0])

    x, y = rng.standard_normal(3), rng.standard_normal(3)
    program = grads(stage(f(Rule), x, y))
    np.testing.assert_allclose(run(program, x, y)[0], np.cos(x * y) * y)
    many, _ = batch(program, (True, False), 2)
    xs = np.stack([x, 2 * x])
    np.testing.assert_allclose(run(many, xs, y)[0], np.cos(xs * y) * y)
    with pytest.raises(NotImplementedError, match="grad_fn"):
        grads(stage(f(None), x, y))


# ---- callbacks
def host(x: UOp, **options: Any) -> UOp:
    arg = Host(lambda x: (np.sin(x),), (Aval(x.dtype, x.shape),), "sine", **options)
    return gets(uop(Op.HOST, (x,), arg))[0]


def test_callback_rules(rng: Rng) -> None:
    def derivative(args: Any, outs: Any, tangents: Any) -> list[UOp]:
        return [b.mul(tangents[0], b.cos(args[0]))]

    x = rng.standard_normal(3)
    for vectorized in (False, True):
        check(lambda x, v=vectorized: host(x, jvp=derivative, vectorized=v), x, rng=rng)
    with pytest.raises(NotImplementedError, match="sine.*custom_jvp"):
        grads(stage(host, x))


def test_linear_callback_transposes_by_its_rule(rng: Rng) -> None:
    """A solve: its tangent is the same call, its transpose another one."""
    a = np.array([[2.0, 1.0], [0.0, 3.0]])

    def solve(x: UOp, transposed: bool) -> UOp:
        m = a.T if transposed else a

        def back(args: Any, linear: Any, cts: Any) -> list[UOp]:
            return [solve(cts[0], not transposed)]

        def forward(args: Any, outs: Any, tangents: Any) -> list[UOp]:
            return [solve(tangents[0], transposed)]

        arg = Host(
            lambda x: (np.linalg.solve(m, x),),
            (Aval(x.dtype, x.shape),),
            "solve",
            jvp=forward,
            transpose=back,
        )
        return gets(uop(Op.HOST, (x,), arg))[0]

    check(lambda x: b.sin(solve(b.mul(x, x), False)), rng.standard_normal(2), rng=rng)


def test_ordered_callbacks_thread_one_token(rng: Rng) -> None:
    seen: list[Any] = []

    def note(x: Any) -> tuple[()]:
        seen.append(np.array(x))
        return ()

    token_aval = Aval(dt.uint8, ())

    def f(x: UOp, token: UOp) -> list[UOp]:
        arg = Host(note, (token_aval,), "note", ordered=True)
        (token,) = gets(uop(Op.HOST, (token, x), arg))
        (token,) = gets(uop(Op.HOST, (token, b.mul(x, 10.0)), arg))
        return [b.mul(x, x), token]

    x = np.array([1.0, 2.0, 3.0])
    many, out = batch(stage(f, x[0], np.uint8(0)), (True, False), 3)
    assert out == (True, False)
    run(many, x, np.uint8(0))
    assert [float(s) for s in seen] == [1, 2, 3, 10, 20, 30]
    seen.clear()
    run(vjp(stage(f, x[0], np.uint8(0)), (0,), (True, False)), x[0], np.uint8(0), np.array(1.0))
    assert len(seen) == 2


def test_effects_in_a_choice_for_each_member_keep_one_token() -> None:
    seen: list[float] = []

    def note(x: Any) -> tuple[()]:
        seen.append(float(x))
        return ()

    def noted(token: UOp, x: UOp) -> UOp:
        arg = Host(note, (Aval(dt.uint8, ()),), "note", ordered=True)
        return gets(uop(Op.HOST, (token, x), arg))[0]

    def choose(x: UOp, token: UOp) -> list[UOp]:
        index = b.cast(b.lt(x, 0), dt.int64)
        return switch(index, [lambda x, t: [x, noted(t, x)], lambda x, t: [b.neg(x), t]], x, token)

    def repeat(x: UOp, token: UOp) -> list[UOp]:
        return while_(lambda x, t: b.lt(x, 3), lambda x, t: [b.add(x, 1.0), noted(t, x)], x, token)

    x = np.array([1.0, -2.0])
    for f, value, times in ((choose, [1, 2], 2), (repeat, [3, 3], 2 * 5)):
        many, out = batch(stage(f, x[0], np.uint8(0)), (True, False), 2)
        assert out == (True, False)
        np.testing.assert_array_equal(run(many, x, np.uint8(0))[0], value)
        assert len(seen) == times
        seen.clear()


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_custom_rules_inside_loops(kind: str, rng: Rng) -> None:
    def f(x: UOp, w: UOp) -> UOp:
        def body(c: list[UOp], y: list[UOp]) -> tuple[list[UOp], list[UOp]]:
            (z,) = call(lambda x: [b.sin(x)], kind, Thrice, b.mul(c[0], y[0]))
            return [b.add(z, c[0])], [z]

        c, ys = scan(body, [x], [w])
        return b.add(c[0], total(ys[0]))

    def plain(x: Any, w: Any) -> Any:
        """The value and its derivative by x, with three times the cosine."""
        d, dys, c = 1.0, 0.0, x
        for y in w:
            dz = 3 * np.cos(c * y) * y * d
            d, dys, c = d + dz, dys + dz, c + np.sin(c * y)
        return d + dys

    x, w = rng.standard_normal(()), rng.standard_normal(4)
    g = grads(stage(f, x, w))
    np.testing.assert_allclose(run(g, x, w)[0], plain(x, w))
    xs = rng.standard_normal(3)
    many, _ = batch(g, (True, False), 3)
    np.testing.assert_allclose(run(many, xs, w)[0], [plain(a, w) for a in xs])
    inside, _ = batch(stage(f, x, w), (True, False), 3)
    np.testing.assert_allclose(run(grads(inside), xs, w)[0], [plain(a, w) for a in xs])


# ---- collectives
def test_collectives_under_vmap(rng: Rng) -> None:
    def f(x: UOp) -> list[UOp]:
        c = collective
        gathered = c.all_gather(x, "i", 4)
        return [
            b.sub(x, c.combine(x, "psum", "i")),
            c.combine(x, "pmean", "i"),
            c.combine(x, "pmax", "i"),
            c.combine(x, "pmin", "i"),
            gathered,
            c.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]),
            c.ppermute(x, "i", [(3, 1), (0, 2)]),
            b.mul(x, b.broadcast_to(b.cast(c.axis_index("i"), F), x.shape)),
            c.all_to_all(b.mul(gathered, b.expand(x, [(0, 4)])), "i", 0),
            c.combine(b.const(1.0, F), "psum", "i"),
        ]

    x = rng.standard_normal((4, 3))
    many, out = batch(stage(f, x[0]), (True,), 4, "i")
    got = run(many, x)
    assert out == (True, False, False, False, False, True, True, True, True, False)
    want = [
        x - x.sum(0), x.mean(0), x.max(0), x.min(0), x, np.roll(x, 1, 0),
        np.stack([0 * x[0], x[3], x[0], 0 * x[0]]), x * np.arange(4)[:, None],
        np.einsum("id,jd->ijd", x, x), np.array(4.0),
    ]  # fmt: skip
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12)


@pytest.mark.parametrize("kind", ["psum", "pmean", "pmax", "all_gather", "ppermute", "all_to_all"])
def test_collectives_differentiate_before_and_after_vmap(kind: str, rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        c = collective
        y = b.sin(x)
        if kind == "all_gather":
            z = c.all_gather(y, "i", 4)
            return total(b.mul(z, z))
        if kind == "ppermute":
            z = c.ppermute(y, "i", [(0, 2), (1, 0), (2, 3)])
        elif kind == "all_to_all":
            z = c.all_to_all(y, "i", 0)
        else:
            z = c.combine(y, kind, "i")
        return total(b.mul(z, x))

    x = rng.standard_normal((4, 4))
    program = stage(f, x[0])
    many, out = batch(program, (True,), 4, "i")
    if not out[0]:
        many = Program(many.params, (b.mul(many.outs[0], 4.0),))
    check(many, x, rng=rng)
    inner, _ = batch(grads(program), (True,), 4, "i")
    np.testing.assert_allclose(run(inner, x)[0], run(grads(many), x)[0])


def test_collectives_over_two_names(rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        y = collective.all_gather(x, "outer", 2)
        return b.add(b.reduce_(y, [0]), collective.combine(x, "psum", "inner"))

    x = rng.standard_normal((2, 3))
    inner, _ = batch(stage(f, x[0, 0]), (True,), 3, "inner")
    both, _ = batch(inner, (True,), 2, "outer")
    np.testing.assert_allclose(run(both, x)[0], x.sum(0) + x.sum(1, keepdims=True))


def test_collective_in_a_scan_over_what_is_not_batched(rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        c, _ = scan(
            lambda c, _: ([b.mul(c[0], collective.combine(b.const(1.0, F), "psum", "i"))], []),
            [x],
            [],
            length=2,
        )
        return c[0]

    many, out = batch(stage(f, np.array(2.0)), (False,), 3, "i")
    got = run(many, np.array(2.0))[0]
    np.testing.assert_allclose(got, 18)


def test_bad_ppermute() -> None:
    with pytest.raises(VmapAxisError, match="twice"):
        collective.ppermute(b.const(1.0, F), "i", [(0, 1), (0, 2)])


# ---- buffers, effects, linear parts
def test_buffers_are_constants(rng: Rng) -> None:
    data = rng.standard_normal(3)
    buffer = uop(Op.BUFFER, (), Storage(F, (3,), data))

    def f(x: UOp) -> UOp:
        c, _ = scan(
            lambda c, y: ([b.mul(b.sin(c[0]), y[0])], []), [total(b.mul(x, buffer))], [buffer]
        )
        return b.add(c[0], total(b.mul(x, b.exp(buffer))))

    check(f, rng.standard_normal(3), rng=rng)


def test_effects_stay_and_happen_once() -> None:
    state, x = open_param(F, (2,)), open_param(F, (2,))
    new = b.add(state, b.mul(x, x))
    program = close((state, x), [total(b.mul(new, x)), new], ((0, 1),))
    pulled = vjp(program, (1,), (True, False))
    assert pulled.effects == ((0, 1),)
    s, v = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    value, final, g = run(pulled, s, v, np.array(1.0))
    np.testing.assert_allclose(final, s + v * v)
    np.testing.assert_allclose(g, s + 3 * v * v)
    np.testing.assert_allclose(value, np.sum((s + v * v) * v))
    with pytest.raises(VmapAxisError, match="not batched"):
        batch(program, (False, True), 3)
    many, out = batch(program, (True, False), 3)
    assert out == (True, True) and many.effects == program.effects


def test_a_ref_argument_that_is_mapped_stays_batched() -> None:
    state = open_param(F, ())
    program = close((state,), [b.const(1.0, F)], ((0, 0),))
    _, out = batch(program, (True,), 3)
    assert out == (True,)


def test_linearize(rng: Rng) -> None:
    def f(x: UOp, w: UOp, n: UOp) -> list[UOp]:
        return [b.mul(b.sin(b.mul(x, w)), b.exp(x)), b.add(n, 1)]

    x, w, n = rng.standard_normal(3), rng.standard_normal(3), np.int64(3)
    program = stage(f, x, w, n)
    primal, linear = linearize(program, (0,))
    outs = run(primal, x, w, n)
    residuals = outs[2:]
    v = rng.standard_normal(3)
    got = run(linear, *residuals, v)
    want = run(jvp_of(program, (True, False, False)), x, w, n, v)
    np.testing.assert_allclose(got[0], want[2])
    assert got[1] == 0 and got[1].dtype == np.int64


def test_transpose_of_a_linear_program(rng: Rng) -> None:
    a = rng.standard_normal((3, 2))

    def f(a: UOp, x: UOp) -> UOp:
        c, ys = scan(lambda c, y: ([b.add(c[0], y[0])], [b.mul(c[0], 2.0)]), [b.const(0.0, F)], [x])
        return b.add(
            b.reduce_(b.mul(a, b.expand(x, [(0, 3)])), [1]),
            b.expand(b.add(c[0], total(ys[0])), [(0, 3)]),
        )

    x, ct = rng.standard_normal(2), rng.standard_normal(3)
    program = stage(f, a, x)
    back = transpose_linear(program, (1,))
    np.testing.assert_allclose(run(back, a, ct)[0] @ x, run(program, a, x)[0] @ ct)
    with pytest.raises(NotImplementedError, match="SIN.*not linear"):
        transpose_linear(stage(b.sin, x), (0,))
    with pytest.raises(NotImplementedError, match="both factors"):
        transpose_linear(stage(lambda x: b.mul(x, x), x), (0,))


def test_transpose_of_a_permutation(rng: Rng) -> None:
    key, x, ct = (rng.standard_normal(4) for _ in range(3))
    program = stage(lambda k, x: b.mul(*gets(uop(Op.SORT, (k, x), 0))), key, x)
    back = transpose_linear(program, (1,))
    np.testing.assert_allclose(run(back, key, ct)[0] @ x, run(program, key, x)[0] @ ct)


def test_transpose_notices_a_choice_that_depends_on_the_input() -> None:
    program = stage(lambda x: b.where(b.lt(x, 1), x, b.mul(x, 2.0)), np.ones(2))
    with pytest.raises(NotImplementedError, match="dtype bool.*not linear"):
        transpose_linear(program, (0,))


def test_transpose_looks_into_custom_functions() -> None:
    def f(x: UOp) -> UOp:
        return call(lambda x: [b.mul(x, 5.0)], "custom_jvp", Thrice, x)[0]

    back = transpose_linear(stage(f, np.ones(2)), (0,))
    np.testing.assert_allclose(run(back, np.array([1.0, 2.0]))[0], [5, 10])


def test_integer_results_have_no_tangent() -> None:
    program = stage(lambda x: [b.cast(x, dt.int64), b.lt(x, 1)], np.ones(2))
    moved = jvp_of(program, (True,))
    assert [o.dtype for o in moved.outs] == [dt.int64, dt.bool_, dt.int64, dt.bool_]
    pulled = vjp(program, (0,), (False, False))
    np.testing.assert_array_equal(run(pulled, np.ones(2))[2], np.zeros(2))
