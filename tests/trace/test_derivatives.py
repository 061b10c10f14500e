"""jvp, transpose and batch of every op, against finite differences and stacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad.trace.batch import batch
from fgrad.trace.interpret import batching, jvp, split_rules, transpose
from fgrad.trace.vjp import vjp
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Program, gets
from tests.trace.calculus import F, check, einsum, grads, run, stage, tangents, total

Rng = np.random.Generator


@pytest.mark.parametrize("table", [jvp, split_rules, transpose, batching], ids=lambda t: t.name)
def test_tables_are_complete(table: Any) -> None:
    assert table.missing() == ()


def test_a_refusal_gives_its_reason() -> None:
    with pytest.raises(NotImplementedError, match="transpose of ABS.*not linear"):
        transpose[Op.ABS](None, None, None)


def u1(op: Op) -> Callable[[UOp], UOp]:
    return lambda x: uop(op, (x,))


RANGES = {  # where a function of one operand is smooth
    Op.SQRT: (0.3, 2),
    Op.RSQRT: (0.3, 2),
    Op.CBRT: (0.3, 2),
    Op.LOG: (0.3, 2),
    Op.LOG2: (0.3, 2),
    Op.LOG10: (0.3, 2),
    Op.LOG1P: (-0.5, 1),
    Op.ASIN: (-0.8, 0.8),
    Op.ACOS: (-0.8, 0.8),
    Op.TAN: (-1, 1),
    Op.ACOSH: (1.3, 3),
    Op.ATANH: (-0.8, 0.8),
    Op.ERF_INV: (-0.8, 0.8),
    Op.LGAMMA: (0.4, 3),
    Op.ABS: (0.2, 1),
}
SMOOTH = [Op.NEG, Op.ABS, *[op for op in Op if Op.SQRT <= op < Op.DIGAMMA]]


@pytest.mark.parametrize("op", SMOOTH, ids=lambda o: o.name)
def test_one_operand(op: Op, rng: Rng) -> None:
    check(u1(op), rng.uniform(*RANGES.get(op, (-1.5, 1.5)), 4), rng=rng)


@pytest.mark.parametrize("x", [0.1, 0.45, 0.9, 2.7, 11.0, -0.3, -2.6])
def test_derivatives_of_digamma(x: float, rng: Rng) -> None:
    check(u1(Op.DIGAMMA), np.array([x]), rng=rng, mapped=False)


@pytest.mark.parametrize("x", [0.5, 1.0, 3.25, -1.5])
def test_trigamma_to_the_last_digits(x: float) -> None:
    special = pytest.importorskip("scipy.special")
    got = run(tangents(stage(u1(Op.DIGAMMA), np.array(x))), np.array(x), np.array(1.0))[0]
    want = special.polygamma(1, x) if x > 0 else math.pi**2 - special.polygamma(1, 1 - x)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("op", [Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND], ids=lambda o: o.name)
def test_rounding_is_flat(op: Op, rng: Rng) -> None:
    check(u1(op), rng.uniform(-3, 3, 4), rng=rng)


BINARY = [Op.ADD, Op.MUL, Op.DIV, Op.MOD, Op.MAX, Op.MIN, Op.POW, Op.ATAN2, Op.HYPOT, Op.COPYSIGN, Op.LOGADDEXP]


@pytest.mark.parametrize("op", BINARY, ids=lambda o: o.name)
def test_two_operands(op: Op, rng: Rng) -> None:
    x, y = rng.uniform(0.3, 2, 4), rng.uniform(0.3, 2, 4)
    if op in (Op.ATAN2, Op.HYPOT, Op.COPYSIGN, Op.MAX):
        x, y = x * [1, -1, 1, -1], y * [1, 1, -1, -1]
    if op is Op.MOD:
        x = x * [3, -3, 3, -3]
    check(lambda x, y: uop(op, (x, y)), x, y, rng=rng)


@pytest.mark.parametrize("op", [Op.MUL, Op.MAX, Op.ADD], ids=lambda o: o.name)
def test_an_operand_given_twice(op: Op, rng: Rng) -> None:
    check(lambda x: uop(op, (x, x)), rng.uniform(0.3, 2, 4), rng=rng)


MOVES: dict[str, Callable[[UOp], UOp]] = {
    "reshape": lambda x: b.reshape(x, (2, 2, 3)),
    "permute": lambda x: b.permute(x, (1, 0)),
    "expand": lambda x: b.expand(x, [(0, 2), (2, 3)]),
    "pad": lambda x: b.pad(x, [(1, 2, 1), (0, 1, 2)]),
    "shrink": lambda x: b.shrink(x, [(1, 2, 2), (0, 2, 1)]),
    "shrink to nothing": lambda x: b.shrink(x, [(1, 0, 2), (0, 2, 1)]),
    "flip": lambda x: b.flip(x, [0, 1]),
    "window": lambda x: b.window(x, 0, 2, 1, 2),
    "strided window": lambda x: b.window(x, 0, 2, 2, 1),
    "sum": lambda x: b.reduce_(x, [1]),
    "running sum": lambda x: uop(Op.PREFIX, (x,), (Op.ADD, 0, False)),
    "running sum, reversed": lambda x: uop(Op.PREFIX, (x,), (Op.ADD, 1, True)),
    "copy": lambda x: uop(Op.COPY, (x,), "CPU:1"),
    "after": lambda x: uop(Op.AFTER, (x, b.exp(x))),
    "concatenate": lambda x: b.concatenate([x, b.sin(x), x], 1),
    "cast": lambda x: b.cast(b.cast(x, dt.complex128), F),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str, rng: Rng) -> None:
    f = MOVES[name]
    check(lambda x: b.sin(f(b.mul(x, x))), rng.standard_normal((4, 3)), rng=rng)


def test_skew(rng: Rng) -> None:
    def f(x: UOp) -> UOp:
        return b.sin(uop(Op.SKEW, (x,), (0, 1, 5, 2, 2, 1)))

    check(f, rng.standard_normal((2, 3)), rng=rng)


@pytest.mark.parametrize("start", [-3, 0, 1, 7])
def test_computed_starts(start: int, rng: Rng) -> None:
    def f(x: UOp, v: UOp, i: UOp) -> UOp:
        part = b.shrink(b.mul(x, x), [(None, 2, 2), (0, 3, 1), (None, 2, 1)], [i, b.add(i, 1)])
        put = b.update(
            x,
            b.sin(v),
            box=[(None, 2, 2), (0, 3, 1), (None, 2, 1)],
            starts=[i, b.const(1, dt.int64)],
        )
        return b.add(total(b.mul(part, v)), total(b.mul(put, put)))

    x, v = rng.standard_normal((5, 3, 3)), rng.standard_normal((2, 3, 2))
    check(f, x, v, np.int64(start), rng=rng)


def test_batched_starts(rng: Rng) -> None:
    def parts(x: UOp, v: UOp, g: UOp, i: UOp, j: UOp) -> list[UOp]:
        box = [(None, 2, 2), (1, 2, 1), (None, 2, 1)]
        return [
            b.shrink(x, box, [i, j]),
            b.update(x, v, box=box, starts=[i, j]),
            b.update(x, v, box=box, starts=[i, j], gate=g, mode=Mode.ADD),
            b.update(
                x,
                b.const(2.0, F, (2, 3, 3)),
                box=[(None, 2, 1), (0, 3, 1), (0, 3, 1)],
                starts=[j],
                mode=Mode.MUL,
            ),
        ]

    x, v = rng.standard_normal((5, 3, 3)), rng.standard_normal((2, 2, 2))
    g = rng.integers(0, 2, (2, 2, 2)).astype(bool)
    i, j = np.array([-1, 0, 1, 2, 5]), np.array([1, 0, 4, 0, -2])
    program = stage(parts, x, v, g, i[0], j[0])
    for flags in (
        (False, False, False, True, True),
        (False, False, False, True, False),
        (False,) * 4 + (True,),
    ):
        many, out = batch(program, flags, 5)
        args = [x, v, g, i if flags[3] else i[2], j if flags[4] else j[2]]
        want = [
            run(program, x, v, g, i[k] if flags[3] else i[2], j[k] if flags[4] else j[2])
            for k in range(5)
        ]
        for got, f, *single in zip(run(many, *args), out, *want, strict=True):
            np.testing.assert_array_equal(got, np.stack(single) if f else single[0])


def apart(rng: Rng, *shape: int) -> Any:
    """Values between 0.3 and 1.5, no two of them close."""
    n = math.prod(shape)
    return rng.permutation(np.linspace(0.3, 1.5, n)).reshape(shape)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN], ids=lambda o: o.name)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_reductions(op: Op, axes: tuple[int, ...], rng: Rng) -> None:
    check(lambda x: b.reduce_(b.sin(x), axes, op), apart(rng, 3, 5, 2), rng=rng)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN], ids=lambda o: o.name)
@pytest.mark.parametrize("reverse", [False, True])
def test_running_reductions(op: Op, reverse: bool, rng: Rng) -> None:
    check(lambda x: uop(Op.PREFIX, (b.mul(x, x),), (op, 1, reverse)), apart(rng, 2, 5), rng=rng)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_products_never_divide(zeros: int, rng: Rng) -> None:
    x = rng.standard_normal(5)
    x[:zeros] = 0
    check(lambda x: b.reduce_(x, [0], Op.MUL), x, rng=rng)
    check(lambda x: uop(Op.PREFIX, (x,), (Op.MUL, 0, False)), x, rng=rng)


def test_empty_reductions(rng: Rng) -> None:
    for op in (Op.ADD, Op.MUL):
        check(lambda x, op=op: b.reduce_(x, [1], op), np.zeros((3, 0)), rng=rng)


def test_sort_carries_payloads_and_tangents(rng: Rng) -> None:
    def f(x: UOp, y: UOp) -> list[UOp]:
        key, payload = gets(uop(Op.SORT, (b.sin(x), b.mul(x, y)), 1))
        return [b.mul(key, payload), payload]

    check(f, apart(rng, 2, 5), rng.standard_normal((2, 5)), rng=rng)
    check(lambda x: gets(uop(Op.SORT, (x,), 0))[0], apart(rng, 4, 2), rng=rng)


@pytest.mark.parametrize("nb", [0, 1])
def test_gather(nb: int, rng: Rng) -> None:
    idx = rng.integers(-1, 6, (2, 3))
    check(
        lambda x, i: b.gather(b.sin(x), i, nb),
        rng.standard_normal((2, 5, 2)[1 - nb :]),
        idx,
        rng=rng,
    )


@pytest.mark.parametrize("mode", Mode, ids=lambda m: m.name)
@pytest.mark.parametrize("gated", [False, True])
def test_update_of_a_box(mode: Mode, gated: bool, rng: Rng) -> None:
    box = [(1, 2, 2), (0, 2, 1)]

    def f(x: UOp, v: UOp, g: UOp) -> UOp:
        return b.update(b.sin(x), b.exp(v), mode=mode, box=box, gate=g if gated else None)

    g = np.array([[True, False], [False, True]])
    check(f, rng.standard_normal((4, 3)), rng.standard_normal((2, 2)), g, rng=rng)


@pytest.mark.parametrize("mode", Mode, ids=lambda m: m.name)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("nb", [0, 1])
def test_update_by_index_with_duplicates(mode: Mode, gated: bool, nb: int, rng: Rng) -> None:
    """Places written twice, and indices out of bounds."""
    idx = np.array([[0, 2, 2, 5, -1, 2], [1, 1, 1, 3, 0, 9]])[: None if nb else 1]
    g = np.array([[True, True, False, True, True, True], [True, False, True, True, True, False]])[
        : None if nb else 1
    ]
    x, v = rng.standard_normal((2, 4, 2)), rng.standard_normal((2, 6, 2))
    if not nb:
        idx, g, x, v = idx[0], g[0], x[0], v[0]

    def f(x: UOp, v: UOp, i: UOp, g: UOp) -> UOp:
        return b.update(b.sin(x), b.exp(v), mode=mode, idx=i, gate=g if gated else None, batch=nb)

    check(f, x, v, idx, g, rng=rng)


@pytest.mark.parametrize("mode", Mode, ids=lambda m: m.name)
def test_update_at_one_index(mode: Mode, rng: Rng) -> None:
    def f(x: UOp, v: UOp, i: UOp) -> UOp:
        return b.update(b.sin(x), b.exp(v), mode=mode, idx=i)

    for i in (2, 7):
        check(f, rng.standard_normal((4, 2)), rng.standard_normal(2), np.int64(i), rng=rng)


def test_select(rng: Rng) -> None:
    c = np.array([True, False, True])
    check(
        lambda c, x, y: b.where(c, b.sin(x), b.mul(y, y)),
        c,
        rng.standard_normal(3),
        rng.standard_normal(3),
        rng=rng,
    )


def test_einsum(rng: Rng) -> None:
    check(
        lambda x, y: einsum("bij,bjk->kbi", x, y),
        rng.standard_normal((2, 3, 4)),
        rng.standard_normal((2, 4, 2)),
        rng=rng,
    )


# ---- complex
def _complex(rng: Rng, *shape: int) -> Any:
    return rng.uniform(0.2, 0.8, shape) + 1j * rng.uniform(0.2, 0.8, shape)


HOLOMORPHIC = [
    Op.NEG,
    Op.SQRT,
    Op.RSQRT,
    Op.EXP,
    Op.EXPM1,
    Op.LOG,
    Op.LOG1P,
    Op.SIN,
    Op.COS,
    Op.TAN,
    Op.ASIN,
    Op.ACOS,
    Op.ATAN,
    Op.SINH,
    Op.COSH,
    Op.TANH,
    Op.ASINH,
    Op.ACOSH,
    Op.ATANH,
]


@pytest.mark.parametrize("op", HOLOMORPHIC, ids=lambda o: o.name)
def test_complex_functions(op: Op, rng: Rng) -> None:
    check(u1(op), _complex(rng, 3), rng=rng, order=1)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.DIV], ids=lambda o: o.name)
def test_complex_arithmetic(op: Op, rng: Rng) -> None:
    check(lambda x, y: uop(op, (x, y)), _complex(rng, 3), _complex(rng, 3), rng=rng, order=1)


def test_complex_parts(rng: Rng) -> None:
    def f(z: UOp, x: UOp) -> list[UOp]:
        w = b.mul(z, b.complex_(b.sin(x), b.mul(x, x)))
        return [b.mul(b.real(w), b.imag(w)), b.cast(b.mul(w, w), F), b.cast(x, dt.complex128)]

    check(f, _complex(rng, 3), rng.standard_normal(3), rng=rng, order=1)


def test_complex_gradient_pairs_without_conjugation() -> None:
    """grad of Re(z^2) is 2z in this pairing: the tangent contributes Re(ct * dz)."""
    z = np.array(1.5 + 2j)
    (g,) = run(grads(stage(lambda z: b.real(b.mul(z, z)), z)), z)
    np.testing.assert_allclose(g, 2 * z)


# ---- conventions at kinks
def slope(f: Callable[[UOp], UOp], x: Any) -> Any:
    return run(grads(stage(f, np.asarray(x, np.float64))), np.asarray(x, np.float64))[0]


KINKS: dict[str, tuple[Callable[[UOp], UOp], Any, Any]] = {
    "relu": (lambda x: b.maximum(x, 0), [0.0, -0.0, 1.0], [0, 0, 1]),
    "minimum with a constant": (lambda x: b.minimum(1, x), [1.0, 0.5], [0, 1]),
    "abs": (b.abs_, [0.0, -0.0, -2.0], [0, 0, -1]),
    "sqrt of abs": (lambda x: b.sqrt(b.abs_(x)), [0.0, 4.0], [0, 0.25]),
    "max ties": (
        lambda x: b.reduce_(x, [0], Op.MAX),
        [2.0, 1.0, 2.0, 2.0],
        [1 / 3, 0, 1 / 3, 1 / 3],
    ),
    "min ties": (lambda x: b.reduce_(x, [0], Op.MIN), [1.0, 1.0, 2.0], [0.5, 0.5, 0]),
    "max with itself": (lambda x: b.maximum(x, b.add(x, 0.0)), [2.0], [1]),
    "x ** 0": (lambda x: uop(Op.POW, (x, b.const_like(0, x))), [0.0, 2.0], [0, 0]),
    "x ** 1": (lambda x: uop(Op.POW, (x, b.const_like(1, x))), [0.0, 2.0], [1, 1]),
    "x ** 2": (lambda x: uop(Op.POW, (x, b.const_like(2, x))), [0.0, 3.0], [0, 6]),
    "0 ** y": (lambda y: uop(Op.POW, (b.const_like(0, y), y)), [0.0, 2.0], [0, 0]),
    "computed exponent 0": (lambda x: uop(Op.POW, (x, b.mul(x, 0.0))), [0.0], [0]),
    "hypot": (lambda x: uop(Op.HYPOT, (x, x)), [0.0], [0]),
    "sqrt of hypot": (
        lambda x: b.sqrt(uop(Op.HYPOT, (x, b.const_like(0, x)))),
        [0.0, 4.0],
        [0, 0.25],
    ),
    "atan2 at the origin": (lambda x: uop(Op.ATAN2, (x, b.mul(x, 2.0))), [0.0], [0]),
    "copysign": (
        lambda x: uop(Op.COPYSIGN, (x, b.const_like(-1, x))),
        [0.0, 2.0, -2.0],
        [0, -1, 1],
    ),
    "sqrt": (b.sqrt, [0.0], [math.inf]),
    "cumulative max ties": (
        lambda x: b.slice_axis(uop(Op.PREFIX, (x,), (Op.MAX, 0, False)), 0, 3, 4),
        [1.0, 2.0, 2.0, 0.0],
        [0, 0.5, 0.5, 0],
    ),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks(name: str) -> None:
    f, x, want = KINKS[name]
    np.testing.assert_allclose(slope(f, x), want)


def test_many_ties_in_a_small_dtype() -> None:
    x = np.ones(70000, np.float16)
    g = run(grads(stage(lambda x: b.reduce_(x, [0], Op.MAX), x)), x)[0]
    assert g.dtype == np.float16
    np.testing.assert_allclose(g, np.float16(1 / 70000))


# ---- strong zeros
def positive(x: UOp) -> UOp:
    return b.lt(b.const_like(0, x), x)


STRONG: dict[str, tuple[Callable[[UOp], UOp], Any, Any]] = {
    "where over sqrt": (
        lambda x: b.where(positive(x), b.sqrt(x), 0),
        [0.0, 4.0, -1.0],
        [0, 0.25, 0],
    ),
    "where over log": (lambda x: b.where(positive(x), b.log(x), 0), [0.0, 4.0, -1.0], [0, 0.25, 0]),
    "where over 1/x": (lambda x: b.where(positive(x), b.div(1, x), 0), [0.0, 2.0], [0, -0.25]),
    "where over exp": (lambda x: b.where(b.lt(x, 1), b.exp(x), 0), [0.0, 1e4], [1, 0]),
    "slice of log": (lambda x: b.slice_axis(b.log(x), 0, 1, 2), [0.0, 0.5, -1.0], [0, 2, 0]),
    "overwritten log": (
        lambda x: b.update(b.log(x), b.const(1, F, (1,)), box=[(0, 1, 1)]),
        [0.0, 0.5],
        [0, 2],
    ),
    "gathered log": (
        lambda x: b.gather(b.log(x), b.const(1, dt.int64)),
        [0.0, 0.5, 0.0],
        [0, 2, 0],
    ),
    "computed slice of log": (
        lambda x: b.shrink(b.log(x), [(None, 1, 1)], [b.const(1, dt.int64)]),
        [0.0, 0.5, 0.0],
        [0, 2, 0],
    ),
    "dropped update": (
        lambda x: b.update(
            b.const(0, F, (2,)),
            b.log(x),
            idx=b.iota(3),
            gate=b.lt(b.iota(3), b.const(2, dt.int64, (3,))),
        ),
        [1.0, 0.5, 0.0],
        [1, 2, 0],
    ),
    "norm of zeros": (
        lambda x: (lambda n: b.where(positive(n), b.sqrt(n), 0))(total(b.mul(x, x))),
        [0.0, 0.0],
        [0, 0],
    ),
    "one reciprocal masked twice": (
        lambda x: (
            lambda r: b.add(
                total(b.where(b.lt(b.const_like(0.1, x), x), r, 0)),
                total(b.where(b.lt(b.const_like(0.2, x), x), b.mul(r, r), 0)),
            )
        )(b.div(1, x)),
        [0.0, 0.5, -1.0],
        [0, -20, 0],
    ),
    "arccos of a clip": (
        lambda x: uop(Op.ACOS, (b.minimum(b.maximum(x, -1), 1),)),
        [0.0, 2.0, -3.0],
        [-1, 0, 0],
    ),
}


@pytest.mark.parametrize("name", STRONG)
def test_strong_zeros(name: str) -> None:
    f, x, want = STRONG[name]
    np.testing.assert_allclose(slope(f, x), want)


def selections(program: Program) -> int:
    return sum(u.op is Op.WHERE or u.op is Op.REDUCE and u.arg[0] is Op.OR for u in program.nodes)


def test_masks_cost_nothing_where_all_is_finite(rng: Rng) -> None:
    """Layer norm, softmax and cross entropy below relu and gather: no selects but their own."""

    def rows(x: UOp) -> UOp:
        return b.reshape(x, (*x.shape, 1))

    def f(x: UOp, w: UOp, i: UOp) -> UOp:
        c = b.sub(x, rows(b.mul(b.reduce_(x, [1]), 1 / 4)))
        x = b.mul(c, b.rsqrt(b.add(rows(b.mul(b.reduce_(b.mul(c, c), [1]), 1 / 4)), 1e-5)))
        x = b.maximum(einsum("ij,jk->ik", x, w), 0)
        e = b.exp(b.sub(x, rows(b.reduce_(x, [1], Op.MAX))))
        x = b.maximum(b.sub(b.div(e, rows(b.reduce_(e, [1]))), 0.1), 0)
        m = rows(b.reduce_(x, [1], Op.MAX))
        lse = b.add(m, rows(b.log(b.reduce_(b.exp(b.sub(x, m)), [1]))))
        return total(b.gather(b.sub(x, b.broadcast_to(lse, x.shape)), i, 1))

    values = rng.uniform(1, 2, (3, 4)), rng.uniform(0.5, 2, (4, 5)), np.array([0, 4, 2])
    check(f, *values, rng=rng, order=1, mapped=False)
    pulled = vjp(stage(f, *values), (0, 1), (True,))
    assert selections(pulled) == 2 + 2  # relu twice; ties of the two maxima


def test_second_derivative_at_an_accidental_zero_of_the_cotangent() -> None:
    """A mask depends on what was selected, not on the cotangent being 0 just here."""

    def f(x: UOp) -> UOp:
        e = b.sub(b.where(positive(x), b.log(x), 0), 0.0)
        return total(b.mul(e, e))

    x = np.array([1.0, 0.0])
    program = grads(stage(f, x))
    np.testing.assert_allclose(run(tangents(program), x, np.ones(2))[0], [2, 0])
    np.testing.assert_allclose(run(grads(program), x)[0], [2, 0])
