"""Loops, branches, callbacks and donated memory in the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from fgrad.config import config
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Cond, Host, Program, Scan, While, close, gets
from tests.lower.harness import Compiled, agree, program_of

F, D, INT = dt.float32, dt.float64, dt.int64
RNG = np.random.default_rng(7)


@pytest.fixture
def planned() -> Iterator[None]:
    """Memory is planned, whatever the mode of the test run."""
    with config.override(planner=True):
        yield


def inner(f: object, *avals: tuple[dt.DType, tuple[int, ...]]) -> Program:
    return program_of(f, *avals)


def scan(
    body: Program,
    length: int,
    consts: Sequence[UOp],
    init: Sequence[UOp],
    xs: Sequence[UOp],
    **more: bool,
) -> list[UOp]:
    arg = Scan(body, length, len(consts), len(init), len(xs), **more)
    return gets(uop(Op.SCAN, (*consts, *init, *xs), arg))


@pytest.mark.parametrize("length", [1, 2, 3, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_carries_and_stacks(length: int, reverse: bool) -> None:
    body = inner(
        lambda c, h, k, x: [b.add(b.mul(h, c), x), b.add(k, 1), b.mul(h, 2.0)],
        (F, (5,)), (F, (5,)), (INT, ()), (F, (5,)),
    )  # fmt: skip

    def f(c: UOp, h: UOp, x: UOp) -> list[UOp]:
        return scan(body, length, [c], [h, b.const(3, INT)], [b.exp(x)], reverse=reverse)

    p = program_of(f, (F, (5,)), (F, (5,)), (F, (length, 5)))
    agree(p, [RNG.standard_normal(5), RNG.standard_normal(5), RNG.standard_normal((length, 5))], 10)


def test_a_carry_that_is_only_updated_stays_in_place() -> None:
    def step(table: UOp, i: UOp, x: UOp) -> list[UOp]:
        row = b.reshape(x, (1, 4))
        box = [(None, 1, 1), (0, 4, 1)]
        return [b.update(table, row, mode=Mode.ADD, box=box, starts=[i]), b.add(i, 1)]

    body = inner(step, (F, (6, 4)), (INT, ()), (F, (4,)))
    p = program_of(lambda t, x: scan(body, 6, [], [t, b.const(0, INT)], [x]), (F, (6, 4)), (F, (6, 4)))
    compiled = agree(p, [RNG.standard_normal((6, 4)), RNG.standard_normal((6, 4))])
    assert [k.name.split("_")[1] for k in compiled.lowered.kernels].count("copy") <= 2


def test_carries_may_swap() -> None:
    body = inner(lambda x, y: [y, x, b.add(x, y)], (F, (3,)), (F, (3,)))
    p = program_of(lambda x, y: scan(body, 5, [], [x, y], []), (F, (3,)), (F, (3,)))
    agree(p, [RNG.standard_normal(3), RNG.standard_normal(3)])


def test_scans_nest() -> None:
    small = inner(lambda a, x: [b.add(a, x), b.mul(a, x)], (F, (2,)), (F, (2,)))

    def step(w: UOp, s: UOp, x: UOp) -> list[UOp]:
        a, ys = scan(small, 4, [], [s], [x])
        return [b.mul(a, w), b.reduce_(ys, (0,))]

    body = inner(step, (F, (2,)), (F, (2,)), (F, (4, 2)))
    p = program_of(lambda w, s, x: scan(body, 3, [w], [s], [x]), (F, (2,)), (F, (2,)), (F, (3, 4, 2)))
    agree(p, [RNG.uniform(0.1, 1, 2), RNG.uniform(0.1, 1, 2), RNG.uniform(0.1, 1, (3, 4, 2))], 10)


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_a_while_stops_by_its_condition(limit: int) -> None:
    cond = inner(lambda n, i, x: [b.lt(i, n)], (INT, ()), (INT, ()), (F, (3,)))
    body = inner(lambda n, i, x: [b.add(i, 1), b.mul(x, 2.0)], (INT, ()), (INT, ()), (F, (3,)))

    def f(n: UOp, x: UOp) -> list[UOp]:
        return gets(uop(Op.WHILE, (n, b.const(0, INT), x), While(cond, body, 1)))

    compiled = agree(program_of(f, (INT, ()), (F, (3,))), [limit, RNG.standard_normal(3)])
    assert compiled.lowered.unbounded


@pytest.mark.parametrize("which", [-3, 0, 1, 2, 9])
@pytest.mark.parametrize("dtype", [dt.int32, dt.int64, dt.uint8])
def test_a_branch_is_chosen_by_the_clamped_index(which: int, dtype: dt.DType) -> None:
    if which < 0 and not dtype.is_signed:
        which += 256
    branches = tuple([
        inner(lambda x, y: [b.add(x, y), x], (F, (3,)), (F, (3,))),
        inner(lambda x, y: [b.mul(x, y), b.exp(y)], (F, (3,)), (F, (3,))),
        inner(lambda x, y: [b.const(1, F, (3,)), y], (F, (3,)), (F, (3,))),
    ])  # fmt: skip
    p = program_of(
        lambda i, x, y: gets(uop(Op.COND, (i, x, y), Cond(branches))),
        (dtype, ()),
        (F, (3,)),
        (F, (3,)),
    )
    agree(p, [which, RNG.standard_normal(3), RNG.standard_normal(3)])


def test_the_host_is_called_in_order() -> None:
    seen: list[float] = []

    def note(x: np.ndarray) -> list[np.ndarray]:
        seen.append(float(x.sum()))
        return [x * 2]

    host = Host(note, (Aval(dt.uint8, ()), Aval(D, (2,))), ordered=True)

    def f(x: UOp) -> list[UOp]:
        token, y = gets(uop(Op.HOST, (b.const(0, dt.uint8), x), host))
        token, z = gets(uop(Op.HOST, (token, b.add(x, 1.0)), host))
        return [token, y, z]

    compiled = Compiled(program_of(f, (D, (2,))))
    _, y, z = compiled(np.array([1.0, 2.0]))
    assert seen == [3.0, 5.0] and y.tolist() == [2, 4] and z.tolist() == [4, 6]


def test_calls_are_inlined() -> None:
    body = inner(lambda x, y: [b.add(x, y), b.mul(x, y)], (F, (3,)), (F, (3,)))
    p = program_of(lambda x: gets(uop(Op.CALL, (x, b.exp(x)), Call(body, "checkpoint"))), (F, (3,)))
    agree(p, [RNG.standard_normal(3)])


def test_every_output_has_its_own_memory() -> None:
    def f(x: UOp, y: UOp) -> list[UOp]:
        z = b.add(x, y)
        return [
            x,
            z,
            z,
            b.reshape(z, (3, 2)),
            b.const(4, F, (2,)),
            x,
            b.iota(3),
            b.permute(z, (1, 0)),
        ]

    agree(
        program_of(f, (F, (2, 3)), (F, (2, 3))),
        [RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3))],
    )


@pytest.mark.usefixtures("planned")
def test_a_donated_parameter_is_updated_in_place() -> None:
    def f(x: UOp, v: UOp) -> list[UOp]:
        y = b.update(x, v, box=[(1, 2, 1)])
        return [b.update(y, v, mode=Mode.ADD, box=[(0, 2, 1)]), b.reduce_(v, (0,))]

    p = program_of(f, (F, (4,)), (F, (2,)))
    compiled = agree(p, [RNG.standard_normal(4), RNG.standard_normal(2)], donated=frozenset({0}))
    assert compiled.lowered.aliases == {0: 0}


def test_an_old_version_that_is_read_later_is_kept() -> None:
    def f(x: UOp, v: UOp) -> list[UOp]:
        y = b.update(x, v, box=[(1, 2, 1)])
        return [y, b.add(x, 1.0)]

    p = program_of(f, (F, (4,)), (F, (2,)))
    agree(p, [RNG.standard_normal(4), RNG.standard_normal(2)], donated=frozenset({0}))


def test_scalars_may_be_inlined_in_the_table() -> None:
    p = program_of(
        lambda x, lr, n: [b.mul(x, b.expand(lr, [(0, 4)])), b.add(n, 1)],
        (F, (4,)),
        (F, ()),
        (INT, ()),
    )
    agree(p, [RNG.standard_normal(4), 0.5, 41], inline=frozenset({1, 2}))


def test_buffers_cannot_be_lowered() -> None:
    from fgrad.uop.node import Storage

    p = Program((), (b.add(uop(Op.BUFFER, (), Storage(F, (2,))), 1.0),))
    with pytest.raises(NotImplementedError, match="pass the array as a parameter"):
        Compiled(p)


def test_params_may_be_unused() -> None:
    x, y = open_param(F, (2,)), open_param(F, (3,))
    agree(close([x, y], [b.exp(x)]), [RNG.standard_normal(2), RNG.standard_normal(3)])


@pytest.mark.usefixtures("planned")
def test_donated_weights_take_their_updates() -> None:
    def f(w: UOp, c: UOp, x: UOp, g: UOp) -> list[UOp]:
        m, k, n = 40, 30, 50
        grad = b.reduce_(b.mul(b.expand(x, [(2, n)]), b.expand(g, [(1, k)])), (0,))
        return [
            b.sub(w, b.mul(grad, 0.1)),
            b.sub(c, b.mul(b.reduce_(g, (0,)), 0.1)),
            b.add(c, float(m)),
        ]

    p = program_of(f, (F, (30, 50)), (F, (50,)), (F, (40, 30)), (F, (40, 50)))
    arrays = [RNG.standard_normal(s) for s in ((30, 50), (50,), (40, 30), (40, 50))]
    compiled = agree(p, arrays, 100, donated=frozenset({0, 1}))
    assert compiled.lowered.aliases[0] == 0


def test_an_operand_that_is_also_moved_is_not_overwritten() -> None:
    p = program_of(lambda x: b.add(x, b.permute(x, (1, 0))), (F, (33, 33)))
    compiled = agree(p, [RNG.standard_normal((33, 33))], donated=frozenset({0}))
    assert not compiled.lowered.aliases
    p = program_of(lambda x: b.add(x, b.spread(b.reduce_(x, (1,)), x, (1,))), (F, (33, 33)))
    compiled = agree(p, [RNG.standard_normal((33, 33))], 20, donated=frozenset({0}))
    assert not compiled.lowered.aliases


@pytest.mark.usefixtures("planned")
def test_parts_side_by_side_need_no_fill() -> None:
    p = program_of(lambda x, y: b.concatenate([x, b.exp(y), x], 1), (F, (3, 20)), (F, (3, 5)))
    compiled = agree(p, [RNG.standard_normal((3, 20)), RNG.standard_normal((3, 5))])
    assert len(compiled.lowered.kernels) == 3
    p = program_of(lambda x: b.update(b.const(2, F, (6,)), x, box=[(0, 5, 1)]), (F, (5,)))
    agree(p, [RNG.standard_normal(5)])


def test_callbacks_see_complex_arrays() -> None:
    def twice(x: np.ndarray) -> list[np.ndarray]:
        assert x.dtype == np.complex64
        return [x * 2j]

    C = dt.complex64
    small, large = [Host(twice, (Aval(C, (n,)),)) for n in (2, 3)]

    def f(x: UOp, y: UOp) -> list[UOp]:
        (a,) = gets(uop(Op.HOST, (b.mul(x, x),), small))
        (c,) = gets(uop(Op.HOST, (y,), large))
        return [a, b.add(c, y)]

    agree(program_of(f, (C, (2,)), (C, (3,))), [np.array([1 + 2j, 3]), np.array([1j, 2, 3])])


def test_loops_carry_complex_values() -> None:
    C = dt.complex64
    body = inner(lambda z, x: [b.add(b.mul(z, z), x), b.real(z)], (C, (3,)), (C, (3,)))
    p = program_of(lambda z, x: scan(body, 4, [], [z], [x]), (C, (3,)), (C, (4, 3)))
    z = RNG.uniform(-0.3, 0.3, 3) + 1j * RNG.uniform(-0.3, 0.3, 3)
    x = RNG.uniform(-0.3, 0.3, (4, 3)) + 1j * RNG.uniform(-0.3, 0.3, (4, 3))
    agree(p, [z, x], 20)
