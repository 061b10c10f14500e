"""Loops end where nobody reads on: lengths that are numbers of the call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgrad.lower.need import length_of_product, length_of_sum, lengths_of_mask, needed
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.meaning import identity
from fgrad.uop.node import UOp, slot_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Program
from tests.lower.harness import Compiled, agree, program_of, sample

RNG = np.random.default_rng(11)
ROWS, COLUMNS = 70, 50
LENGTHS = (0, 1, 17, 69, 70, 1000, -3)


def below(n: UOp, shape: tuple[int, ...], axis: int) -> UOp:
    return b.expand(b.lt(b.iota(shape[axis]), n), [(i, m) for i, m in enumerate(shape) if i != axis])


def mask(x: UOp, n: UOp, axis: int, fill: float = 0) -> UOp:
    return b.where(below(n, x.shape, axis), x, fill)


def cut(x: UOp, n: UOp) -> UOp:
    """The rows below n; the others are not read."""
    place = b.iota(x.shape[0])
    return b.gather(x, b.where(b.lt(place, n), place, -1))


def with_span(program: Program, *slots: int) -> Program:
    """Of each output only as many rows are wanted as a parameter says."""
    return replace(program, spans=tuple(enumerate(slots)))


def agree_in_rows(program: Program, *arrays: np.ndarray, lengths: tuple[int, ...] = LENGTHS) -> int:
    """The wanted rows are right; returns how many of the others were left out, over all lengths."""
    compiled, whole = Compiled(program), Compiled(replace(program, spans=()))
    left = 0
    for n in lengths:
        for got, want in zip(compiled(*arrays, n), whole(*arrays, n), strict=True):
            stop = min(max(n, 0), len(want))
            np.testing.assert_array_equal(got[:stop], want[:stop])
            fresh = np.full(1, 0xA5A5A5A5A5A5A5A5, np.uint64).view(got.dtype)[0]
            left += int((got[stop:] == fresh).all(tuple(range(1, got.ndim))).sum())
    return left


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int8], ids=str)
def test_rows_that_nobody_wants_are_not_computed(dtype: DType) -> None:
    def f(x: UOp, n: UOp) -> list[UOp]:
        y = b.add(b.mul(x, x), 1)
        return [y, b.reduce_(y, (1,)), b.permute(b.add(b.permute(x, (1, 0)), 3), (1, 0))]

    program = with_span(program_of(f, (dtype, (ROWS, COLUMNS)), (dt.int64, ())), 1, 1, 1)
    assert agree_in_rows(program, sample(RNG, dtype, (ROWS, COLUMNS))) > 300


def test_a_vector_ends_after_whole_passes() -> None:
    program = with_span(program_of(lambda x, n: b.exp(x), (dt.float32, (1003,)), (dt.int64, ())), 1)
    assert agree_in_rows(program, sample(RNG, dt.float32, (1003,)), lengths=(0, 5, 300, 1000, 1003)) > 1500


def test_many_tasks_share_the_rows_that_are_wanted() -> None:
    def f(x: UOp, n: UOp) -> list[UOp]:
        return [b.tanh(b.exp(x))]

    program = with_span(program_of(f, (dt.float32, (400, 300)), (dt.int64, ())), 1)
    assert Compiled(program).lowered.workers_wanted
    assert agree_in_rows(program, sample(RNG, dt.float32, (400, 300)), lengths=(0, 1, 7, 399, 400)) > 1000


def test_rows_beyond_a_length_are_not_read() -> None:
    def f(x: UOp, n: UOp) -> list[UOp]:
        y = cut(x, n)
        return [b.exp(y), b.reduce_(y, (1,)), b.reduce_(mask(y, n, 0), (0,)), b.permute(y, (1, 0))]

    program = program_of(f, (dt.float32, (ROWS, COLUMNS)), (dt.int64, ()))
    for n in LENGTHS:
        x = sample(RNG, dt.float32, (ROWS, COLUMNS))
        x[max(n, 0) :] = np.nan
        agree(program, [x, n], 10)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_end_where_only_what_changes_nothing_follows(op: Op, axis: int) -> None:
    fill = identity(op, dt.float32)

    def f(x: UOp, n: UOp) -> list[UOp]:
        y = mask(x, n, axis, fill)
        total = b.reduce_(y, (axis,), op)
        return [total, b.mul(y, b.spread(total, y, (axis,))), b.reduce_(y, (0, 1), op)]

    program = program_of(f, (dt.float32, (ROWS, COLUMNS)), (dt.int64, ()))
    for n in LENGTHS:
        agree(program, [RNG.uniform(0.9, 1.1, (ROWS, COLUMNS)).astype(np.float32), n], 40)


def test_another_filling_counts() -> None:
    program = program_of(lambda x, n: b.reduce_(mask(x, n, 1, 5), (1,)), (dt.float32, (ROWS, COLUMNS)), (dt.int64, ()))
    for n in (0, 3, 50):
        agree(program, [sample(RNG, dt.float32, (ROWS, COLUMNS)), n], 40)


@pytest.mark.parametrize(
    ("spec", "long"),
    [
        ("mk,kn->mn", "m"),
        ("km,nk->mn", "m"),
        ("mk,kn->nm", "n"),
        ("bmk,bkn->bmn", "b"),
        ("mk,kn->mn", "k"),
        ("km,nk->mn", "k"),
        ("bmk,bkn->bmn", "k"),
    ],
)
def test_contractions_leave_out_rows_entries_and_steps(spec: str, long: str) -> None:
    size = {"m": 83, "k": 61, "n": 40, "b": 3} | {long: {"m": 150, "n": 150, "k": 1100, "b": 7}[long]}
    first, rest = spec.split(",")
    second, out = rest.split("->")
    letters = "bmnk" if "b" in spec else "mnk"
    k = len(letters) - 1

    def spread(x: UOp, names: str) -> UOp:
        order = [names.index(c) for c in letters if c in names]
        return b.expand(b.permute(x, order), [(i, size[c]) for i, c in enumerate(letters) if c not in names])

    def f(x: UOp, y: UOp, n: UOp) -> list[UOp]:
        if long == "k":
            x, y = mask(x, n, first.index("k")), mask(y, n, second.index("k"))
        product = b.reduce_(b.mul(spread(x, first), spread(y, second)), (k,))
        return [b.add(b.permute(product, [letters.index(c) for c in out]), 1)]

    shapes = [tuple([size[c] for c in names]) for names in (first, second)]
    program = program_of(f, *[(dt.float32, s) for s in shapes], (dt.int64, ()))
    x, y = [sample(RNG, dt.float32, s) for s in shapes]
    if long != "k":
        assert agree_in_rows(with_span(program, 2), x, y, lengths=(0, 1, 3, 14, 60, 200)) > 10
        return
    compiled = Compiled(program)
    for n in (0, 1, 15, 600, 1100):
        given = [np.take(z, range(n), names.index("k")).astype(np.float64) for z, names in ((x, first), (y, second))]
        np.testing.assert_allclose(compiled(x, y, n)[0], np.einsum(spec, *given) + 1, rtol=1e-4, atol=1e-4)


def test_what_two_readers_want_differs() -> None:
    """One of them wants all."""

    def f(x: UOp, n: UOp, m: UOp) -> list[UOp]:
        y = b.exp(x)
        return [b.reduce_(mask(y, n, 0), (0,)), b.reduce_(mask(y, m, 0), (0,)), b.reduce_(b.mul(y, y), (0,))]

    program = program_of(f, (dt.float32, (ROWS, COLUMNS)), (dt.int64, ()), (dt.int64, ()))
    for n, m in ((3, 60), (60, 3), (0, 70)):
        agree(program, [sample(RNG, dt.float32, (ROWS, COLUMNS)), n, m], 40)


def test_what_is_known_of_nodes() -> None:
    x, n, m = slot_param(0, dt.float32, (8, 6)), slot_param(1, dt.int64, ()), slot_param(2, dt.int64, ())
    rows, columns = below(n, (8, 6), 0), below(m, (8, 6), 1)
    assert lengths_of_mask(rows) == {0: n}
    assert lengths_of_mask(b.and_(rows, b.permute(b.permute(columns, (1, 0)), (1, 0)))) == {0: n, 1: m}
    assert lengths_of_mask(b.le(b.iota(8), n)) == {}
    y = b.exp(x)
    total = b.reduce_(b.where(rows, y, 0), (0,))
    assert length_of_sum(total, 0) is n and length_of_sum(total, 1) is None
    assert length_of_sum(b.reduce_(b.where(rows, y, 1), (0,)), 0) is None
    product = b.mul(b.where(rows, x, 0), b.where(rows, y, 0))
    assert length_of_product(product, 0) is n
    assert length_of_product(b.mul(b.where(rows, x, 0), y), 0) is None  # 0 * nan counts
    need = needed([total], {})
    assert need[y] == (n, None)
    need = needed([total, y], {})
    assert need[y] == (None, None)
    need = needed([b.add(b.reshape(b.permute(y, (1, 0)), (6, 1, 8)), 1)], {0: m})
    assert need[y] == (None, m)
    need = needed([uop(Op.PREFIX, (y,), (Op.ADD, 0, False)), uop(Op.PREFIX, (x,), (Op.ADD, 0, True))], {0: n, 1: n})
    assert need[y] == (n, None) and need[x] == (None, None)
