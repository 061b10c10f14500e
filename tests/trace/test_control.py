"""Loops and choices under all transforms, in both orders."""

from __future__ import annotations

import numpy as np
import pytest

from fgrad.trace.batch import batch
from fgrad.trace.tidy import tidy_program
from fgrad.trace.vjp import jvp_of, vjp
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, Program, close, gets
from tests.trace.calculus import (
    check,
    contractions,
    dot,
    grads,
    matvec,
    run,
    same,
    scan,
    stage,
    switch,
    total,
    value_and_grad,
    while_,
)

F = dt.float64


def rnn(h: UOp, w: UOp, u: UOp, xs: UOp) -> UOp:
    c, ys = scan(
        lambda c, x: (
            [b.tanh(b.add(matvec(w, c[0]), matvec(u, x[0])))],
            [total(b.mul(c[0], c[0]))],
        ),
        [h],
        [xs],
    )
    return b.add(total(b.mul(c[0], c[0])), total(ys[0]))


def invariant(h: UOp, w: UOp, xs: UOp) -> UOp:
    c, _ = scan(lambda c, x: ([b.add(matvec(b.exp(w), b.sin(c[0])), x[0])], []), [h], [xs])
    return total(b.mul(c[0], c[0]))


def counter(x: UOp) -> UOp:
    """An integer carry, and carries that move only after some steps."""
    zero = b.const(0, F, x.shape)
    c, ys = scan(
        lambda c, _: (
            [
                b.add(c[0], 1),
                b.add(c[1], b.mul(x, b.broadcast_to(b.cast(c[0], F), x.shape))),
                b.add(c[2], b.sin(c[1])),
            ],
            [c[2]],
        ),
        [b.const(0, dt.int64), zero, zero],
        [],
        length=4,
    )
    return b.add(total(b.mul(c[2], c[1])), total(ys[0]))


def nested(x: UOp, w: UOp) -> UOp:
    def outer(c: list[UOp], xx: list[UOp]) -> tuple[list[UOp], list[UOp]]:
        d, _ = scan(
            lambda e, y: ([b.mul(b.sin(b.add(e[0], y[0])), c[0])], []), [b.mul(c[0], w)], [xx[0]]
        )
        return [b.add(d[0], c[0])], [b.mul(d[0], w)]

    c, ys = scan(outer, [w], [x])
    return b.add(c[0], total(b.mul(ys[0], ys[0])))


def choice(x: UOp, w: UOp) -> UOp:
    negative = b.cast(b.lt(total(x), 0), dt.int64)
    (r,) = switch(
        negative,
        [
            lambda a: [b.mul(total(a), total(b.exp(a)))],
            lambda a: [total(b.mul(b.sin(a), w))],
        ],
        x,
    )
    return b.mul(r, r)


def choice_in_scan(x: UOp) -> UOp:
    def body(c: list[UOp], y: list[UOp]) -> tuple[list[UOp], list[UOp]]:
        index = b.cast(b.lt(y[0], c[0]), dt.int64)
        (r,) = switch(
            index,
            [lambda c, y: [b.add(c, b.mul(y, y))], lambda c, y: [b.mul(c, b.sin(y))]],
            c[0],
            y[0],
        )
        return [r], [b.mul(r, c[0])]

    c, ys = scan(body, [b.const(0.3, F)], [x])
    return b.add(c[0], total(ys[0]))


def test_rnn(rng: np.random.Generator) -> None:
    r = rng.standard_normal
    check(rnn, r(3), r((3, 3)) * 0.5, r((3, 2)), r((5, 2)), rng=rng)


def test_loop_invariant_work(rng: np.random.Generator) -> None:
    r = rng.standard_normal
    check(invariant, r(3), r((3, 3)) * 0.2, r((4, 3)), rng=rng)


def test_carries_that_move_late(rng: np.random.Generator) -> None:
    check(counter, rng.standard_normal(3), rng=rng)


def test_nested_scans(rng: np.random.Generator) -> None:
    check(nested, rng.standard_normal((3, 4)), rng.standard_normal(()), rng=rng)


@pytest.mark.parametrize("sign", [1, -1])
def test_choice(sign: int, rng: np.random.Generator) -> None:
    x = np.abs(rng.standard_normal(3)) * sign
    check(choice, x, rng.standard_normal(3), rng=rng)


def test_choice_in_scan(rng: np.random.Generator) -> None:
    check(choice_in_scan, rng.standard_normal(6), rng=rng)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_switch_of_three(index: int, rng: np.random.Generator) -> None:
    def f(x: UOp, w: UOp, i: UOp) -> UOp:
        r = switch(
            i,
            [
                lambda a: [b.sin(a), a],
                lambda a: [b.mul(a, w), b.exp(a)],
                lambda a: [w, b.mul(a, a)],
            ],
            x,
        )
        return b.mul(r[0], r[1])

    check(f, rng.standard_normal(3), rng.standard_normal(3), np.int64(index), rng=rng)


def test_batched_index_chooses_for_each_member(rng: np.random.Generator) -> None:
    def f(x: UOp, i: UOp) -> UOp:
        return switch(i, [lambda a: [b.sin(a)], lambda a: [b.exp(a)], lambda a: [b.neg(a)]], x)[0]

    x, index = rng.standard_normal(3), np.array([-2, 0, 1, 2, 9])
    program = stage(f, x, index[0])
    many, _ = batch(program, (False, True), 5)
    want = np.stack([run(program, x, i)[0] for i in index])
    np.testing.assert_allclose(run(many, x, index)[0], want)


def power(x: UOp) -> list[UOp]:
    return while_(
        lambda i, y: b.lt(y, 10),
        lambda i, y: [b.add(i, 1), b.mul(y, b.add(x, 1.5))],
        b.const(0, dt.int64),
        b.mul(x, x),
    )


def test_while_forward_and_batched(rng: np.random.Generator) -> None:
    check(power, np.array(0.7), rng=rng, reverse=False)
    many, _ = batch(stage(power, np.array(0.7)), (True,), 3)
    xs = np.array([0.3, 0.9, 1.7])
    single = [run(stage(power, x), x) for x in xs]
    same(run(many, xs), [np.stack(c) for c in zip(*single, strict=True)], "while", 1e-12, 0)


def test_while_refuses_reverse_mode_and_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match="max_steps"):
        vjp(stage(power, np.array(0.7)), (0,), (True, True))


def test_a_while_loop_whose_result_does_not_move_is_no_obstacle() -> None:
    """Only a cotangent that arrives at the loop is refused, not one that passes by."""

    def f(x: UOp) -> UOp:
        steps, y = power(x)
        return b.add(b.mul(x, b.cast(steps, F)), b.floor(y))

    x = np.array(0.7)
    check(f, x, rng=np.random.default_rng(0))


def test_gradient_of_weights_is_one_contraction_over_time(rng: np.random.Generator) -> None:
    def f(h: UOp, w: UOp, u: UOp, xs: UOp) -> UOp:
        c, _ = scan(lambda c, x: ([b.tanh(b.add(dot(c[0], w), dot(x[0], u)))], []), [h], [xs])
        return total(b.mul(c[0], c[0]))

    r = rng.standard_normal
    values = r((4, 6)), r((6, 6)) * 0.3, r((5, 6)), r((7, 4, 5))
    program = value_and_grad(stage(f, *values))
    scans = [u.arg for u in program.nodes if u.op is Op.SCAN]
    assert len(scans) == 2
    assert [len(s.body.outs) for s in scans] == [3, 2]  # h twice; its cotangent, and that of z
    assert [contractions(s.body) for s in scans] == [1, 1]  # h @ w and its transpose
    assert contractions(program) == 2 + 4  # outside, over all steps: xs @ u; dw, du, dxs
    check(f, *values, rng=rng, order=1, mapped=False)


def test_loops_over_chunks_stay_loops(rng: np.random.Generator) -> None:
    """A loss over many classes, in chunks: the logits of all chunks are never there at once."""

    def f(xs: UOp, w: UOp) -> UOp:
        def chunk(x: UOp, w: UOp) -> UOp:
            z = dot(x, w)
            return total(b.log(b.reduce_(b.exp(z), [1])))

        def body(c: list[UOp], x: list[UOp]) -> tuple[list[UOp], list[UOp]]:
            ps = [open_param(u.dtype, u.shape) for u in (x[0], w)]
            program = close(ps, [chunk(*ps)])
            (y,) = gets(uop(Op.CALL, (x[0], w), Call(program, "checkpoint")))
            return [b.add(c[0], y)], []

        return scan(body, [b.const(0.0, F)], [xs])[0][0]

    values = rng.standard_normal((5, 2, 4)), 0.1 * rng.standard_normal((4, 60))
    check(f, *values, rng=rng, order=1, mapped=False)
    program = value_and_grad(stage(f, *values))
    assert all(u.size <= 4 * 60 for u in program.nodes if u.op in (Op.REDUCE, Op.GET))


def test_residuals_are_few(rng: np.random.Generator) -> None:
    """An RNN keeps the new carry and reads the old one; nothing invariant is stacked."""
    values = [rng.standard_normal(s) for s in ((3,), (3, 3), (4, 3))]
    program = value_and_grad(stage(invariant, *values))
    forward = next(u.arg for u in program.nodes if u.op is Op.SCAN)
    assert len(forward.body.outs) - forward.carry == 1
    back = [u.arg for u in program.nodes if u.op is Op.SCAN][1]
    assert not any(u.op is Op.EXP for u in back.body.nodes)


def test_reverse_scan_and_ys_only(rng: np.random.Generator) -> None:
    def f(x: UOp, s: UOp) -> UOp:
        _, ys = scan(
            lambda c, x: ([b.mul(b.add(c[0], x[0]), s)], [b.sin(c[0])]), [s], [x], reverse=True
        )
        return ys[0]

    check(f, rng.standard_normal(5), rng.standard_normal(()), rng=rng)


def test_a_while_loop_loses_what_nobody_reads() -> None:
    def f(x: UOp) -> UOp:
        return while_(
            lambda i, y, z: b.lt(i, 3),
            lambda i, y, z: [b.add(i, 1), b.mul(y, z), b.mul(z, z)],
            b.const(0, dt.int64),
            x,
            x,
        )[2]

    program = derivative(stage(f, np.array(1.1)))
    (loop,) = [u for u in program.nodes if u.op is Op.WHILE]
    assert len(gets(loop)) == 3  # i, z, dz


def derivative(program: Program) -> Program:
    moved = jvp_of(program, (True,))
    return tidy_program(Program(moved.params, moved.outs[1:]))


def test_zero_length_scan(rng: np.random.Generator) -> None:
    def f(x: UOp, s: UOp) -> UOp:
        c, ys = scan(lambda c, x: ([b.mul(c[0], x[0])], [c[0]]), [s], [x])
        return b.add(c[0], total(ys[0]))

    check(f, np.zeros((0,)), rng.standard_normal(()), rng=rng)


def test_strong_zero_through_a_loop(rng: np.random.Generator) -> None:
    """ys that are masked afterwards send no NaN back, through carries neither."""

    def f(x: UOp) -> UOp:
        keep = b.lt(b.const(0, F, (4,)), x)
        _, ys = scan(lambda c, x: ([c[0]], [b.mul(b.sqrt(x[0]), c[0])]), [b.const(1.0, F)], [x])
        return total(b.where(keep, ys[0], 0))

    x = np.array([0.0, 4.0, -1.0, 1.0])
    got = run(value_and_grad(stage(f, x)), x)
    np.testing.assert_allclose(got[1], [0, 0.25, 0, 0.5])


def test_members_through_a_tuple_node() -> None:
    def f(x: UOp) -> UOp:
        t = uop(Op.TUPLE, (b.sin(x), b.exp(x)))
        return b.mul(uop(Op.GET, (t,), 0), uop(Op.GET, (t,), 1))

    check(f, np.array([0.3, 0.8]), rng=np.random.default_rng(0))


def test_strong_zeros_through_choices_and_nested_loops() -> None:
    def f(x: UOp) -> UOp:
        def body(c: list[UOp], x: list[UOp]) -> tuple[list[UOp], list[UOp]]:
            (y,) = switch(
                b.cast(b.lt(x[0], 2.0), dt.int64),
                [lambda a: [b.log(a)], lambda a: [b.mul(b.sqrt(a), 3.0)]],
                x[0],
            )
            return [b.add(c[0], 1.0)], [y]

        def outer(c: list[UOp], x: list[UOp]) -> tuple[list[UOp], list[UOp]]:
            (d,), (y,) = scan(body, [c[0]], [x[0]])
            return [d], [y]

        keep = b.lt(b.const_like(0, x), x)
        _, (ys,) = scan(outer, [b.const(0.0, F)], [x])
        return total(b.where(keep, ys, 0))

    x = np.array([[0.0, 4.0], [-1.0, 1.0]])
    program = stage(f, x)
    np.testing.assert_allclose(run(value_and_grad(program), x)[1], [[0, 0.25], [0, 1.5]])
    second = run(grads(grads(program)), x)[0]
    np.testing.assert_allclose(second, [[0, -1 / 16], [0, -0.75]])


def test_strong_zero_in_a_carry() -> None:
    """Finished steps keep the carry; the branch that was not taken is singular."""

    def f(x: UOp) -> UOp:
        def body(c: list[UOp], i: list[UOp]) -> tuple[list[UOp], list[UOp]]:
            return [b.where(b.lt(i[0], 2), b.add(c[0], 1.0), b.log(b.mul(c[0], 0.0)))], [c[0]]

        (c,), (ys,) = scan(body, [x], [b.iota(4)])
        late = b.lt(b.iota(4), b.const(2, dt.int64, (4,)))
        return total(b.where(late, ys, 0))

    x = np.array(1.5)
    np.testing.assert_allclose(run(value_and_grad(stage(f, x)), x)[1], 2.0)
