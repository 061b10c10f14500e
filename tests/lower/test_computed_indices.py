"""Computed indices are read only where they are wanted: behind padding they do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from tests.lower.harness import agree, program_of, sample

RNG = np.random.default_rng(8)
FAR = 1 << 24  # elements: the indices there would lie 128 MiB in front of their buffer
DTYPES = [dt.int8, dt.float32, dt.float64]


def test_the_index_of_a_padded_gather_is_not_read_in_the_padding() -> None:
    def f(x: UOp, i: UOp, at: UOp) -> list[UOp]:
        padded = b.pad(b.gather(x, i), [(FAR, 3, 0)])
        near = b.shrink(padded, [(None, 50, 1)], [at])
        return [near, b.add(near, 1), b.reduce_(near, (0,))]

    program = program_of(f, (dt.int8, (9,)), (dt.int64, (40,)), (dt.int64, ()))
    x, i = sample(RNG, dt.int8, (9,)), RNG.integers(-1, 10, 40)
    for at in (0, FAR - 20, FAR + 5, FAR // 2):
        agree(program, [x, i, at], 10)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_a_padded_gather(dtype: DType) -> None:
    def f(x: UOp, i: UOp) -> list[UOp]:
        rows = b.pad(b.gather(x, i), [(700, 500, 0), (0, 0, 0)])
        return [rows, b.permute(rows, (1, 0)), b.reduce_(rows, (0,))]

    program = program_of(f, (dtype, (9, 5)), (dt.int64, (7,)))
    agree(program, [sample(RNG, dtype, (9, 5)), RNG.integers(-1, 10, 7)], 40)


def test_an_index_that_is_a_padded_gather() -> None:
    def f(x: UOp, i: UOp, j: UOp) -> list[UOp]:
        k = b.pad(b.gather(i, j), [(2000, 1000, 0)])
        return [b.gather(x, k), b.pad(b.gather(x, k), [(1500, 9, 0)]), b.cast(k, dt.float32)]

    program = program_of(f, (dt.float32, (30,)), (dt.int32, (12,)), (dt.int64, (20,)))
    agree(program, [sample(RNG, dt.float32, (30,)), RNG.integers(-3, 33, 12), RNG.integers(-1, 13, 20)])


def test_a_start_read_from_a_padded_array() -> None:
    def f(x: UOp, i: UOp, n: UOp) -> list[UOp]:
        starts = b.pad(i, [(5, 5, 0)])
        start = b.reshape(b.shrink(starts, [(None, 1, 1)], [n]), ())
        return [b.pad(b.shrink(x, [(None, 4, 1)], [start]), [(3, 30, 0)])]

    program = program_of(f, (dt.float32, (30,)), (dt.int64, (3,)), (dt.int64, ()))
    for n in range(13):
        agree(program, [sample(RNG, dt.float32, (30,)), RNG.integers(-3, 33, 3), n])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_turned_operand_is_also_gathered_from(dtype: DType) -> None:
    def f(x: UOp, i: UOp) -> list[UOp]:
        t = b.permute(x, (0, 2, 1))
        row = b.shrink(b.flip(t, (1,)), [(2, 1, 1), (0, 8, 1), (0, 16, 1)])
        one = b.reshape(b.gather(t, i), (8, 16))
        return [b.add(t, b.expand(one, [(0, 4)])), b.add(t, b.expand(b.reshape(row, (8, 16)), [(0, 4)]))]

    program = program_of(f, (dtype, (4, 16, 8)), (dt.int64, (1,)))
    agree(program, [sample(RNG, dtype, (4, 16, 8)), np.array([1])])
