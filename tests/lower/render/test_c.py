"""Rendered C compiles without a warning and computes what the reference does.

Without a C compiler on the PATH only the text is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import lower
from fgrad.lower.render.c import render_c
from fgrad.lower.render.python_program import PythonProgram
from fgrad.trace.reference import run_program
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import BITWISE, COMPARE, FLOAT_FUNCTIONS, ROUNDING, Mode, Op
from fgrad.uop.program import Cond, Host, Program, Scan, While, close, gets
from tests.laws.programs import EVERY, Case, close_to, programs
from tests.lower.render.c_harness import COMPILER, run_c

F, I64 = dt.float32, dt.int64
SAMPLES = [0, 1, -1, 2, 0.5, -2.75, 3, 7, -0.0, np.inf, -np.inf, np.nan, 100, 1e-6]


def program_of(f: Callable[..., Sequence[UOp]], *avals: Any) -> Program:
    params = [open_param(d, s) for d, s in avals]
    return close(params, list(f(*params)))


def check(
    program: Program, arrays: Sequence[Any], folder: Path, inline: frozenset[int] = frozenset(),
    slack: float = 1.0,
) -> None:  # fmt: skip
    text = render_c(lower(program, Limits(), inline=inline), inline)
    assert text.count("{") == text.count("}") and text.count("(") == text.count(")")
    assert "void entry(int64_t *t)" in text
    if COMPILER is None:
        return
    arrays = [np.asarray(x, p.dtype.np) for x, p in zip(arrays, program.params, strict=True)]
    got = run_c(program, arrays, folder, inline)
    for g, w in zip(got, run_program(program, arrays), strict=True):
        close_to(g, w, slack)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(max_nodes=30))
def test_random_programs(tmp_path: Path, case: Case) -> None:
    check(*case, tmp_path)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(max_nodes=30, dtypes=EVERY))
def test_random_programs_of_every_dtype(tmp_path: Path, case: Case) -> None:
    check(*case, tmp_path)


REAL = [d for d in dt.ALL if not d.is_complex]


def unary_ops(dtype: DType) -> list[Op]:
    if dtype is dt.bool_:
        return [Op.NOT]
    if dtype.is_int:
        return [Op.NEG, Op.NOT, Op.ABS]
    return [Op.NEG, Op.ABS, *ROUNDING, *FLOAT_FUNCTIONS]


def binary_ops(dtype: DType) -> list[Op]:
    out = [Op.ADD, Op.MUL, Op.MAX, Op.MIN, *COMPARE]
    if dtype.is_float:
        return [*out, Op.DIV, Op.MOD, Op.POW, Op.ATAN2, Op.HYPOT, Op.LOGADDEXP, Op.COPYSIGN]
    out += BITWISE
    return out if dtype is dt.bool_ else [*out, Op.IDIV, Op.MOD, Op.SHL, Op.SHR]


def samples(dtype: DType) -> np.ndarray[Any, Any]:
    if dtype is dt.bool_:
        return np.array([False, True])
    if dtype.is_int:
        lo, hi = dt.int_range(dtype)
        known = [0, 1, 2, 3, 5, 8, 31, 100, lo, lo + 1, hi, hi - 1]
        return np.array(known + [-1, -2, -7] * dtype.is_signed, dtype.np)
    return np.array(SAMPLES).astype(dtype.np)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_every_op_on_one_operand(dtype: DType, tmp_path: Path) -> None:
    x = samples(dtype)
    p = program_of(lambda v: [uop(op, (v,)) for op in unary_ops(dtype)], (dtype, x.shape))
    check(p, [x], tmp_path)


def test_8_bit_floats_keep_their_bits_and_are_rounded(tmp_path: Path) -> None:
    """Every value and NaN of every format is read, negated, written, and made from floats nearby."""
    bits = np.arange(256, dtype=np.uint8)
    odd = [np.inf, -np.inf, np.nan, -0.0, 7e4]
    near = np.concatenate([np.linspace(-600, 600, 400), np.linspace(-0.1, 0.1, 200), odd])
    avals = [(d, bits.shape) for d in dt.FLOAT8]

    def f(y: UOp, *xs: UOp) -> list[UOp]:
        return [*[b.neg(x) for x in xs], *[b.cast(x, F) for x in xs], *[b.cast(y, d) for d in dt.FLOAT8]]

    check(program_of(f, (F, near.shape), *avals), [near, *[bits.view(d.np) for d in dt.FLOAT8]], tmp_path)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.bfloat16], ids=str)
def test_functions_agree_with_the_interpreter_to_the_bit(
    dtype: DType, tmp_path: Path, rng: np.random.Generator
) -> None:
    if COMPILER is None:
        return
    x = (rng.standard_normal(400) * 10.0 ** rng.integers(-8, 9, 400)).astype(dtype.np)
    p = program_of(lambda v: [uop(op, (v,)) for op in FLOAT_FUNCTIONS], (dtype, x.shape))
    outs = [np.zeros(2 * x.nbytes, np.uint8)[: x.nbytes] for _ in p.outs]
    lowered = lower(p, Limits())
    PythonProgram(lowered.block, lowered.arena_bytes, no_host).run([x.view(np.uint8)], outs)
    for op, got, want in zip(FLOAT_FUNCTIONS, run_c(p, [x], tmp_path), outs, strict=True):
        a, c = got.astype(np.float64), want.view(dtype.np).astype(np.float64)
        np.testing.assert_array_equal(a, c, op.name)


def no_host(number: int, ins: Sequence[Any], outs: Sequence[Any]) -> None:
    raise AssertionError("no callback is called here")


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_every_op_on_two_operands(dtype: DType, tmp_path: Path) -> None:
    x = samples(dtype)
    n = len(x)
    left, right = np.repeat(x, n), np.tile(x, n)

    def f(v: UOp, w: UOp) -> list[UOp]:
        zero = b.const(0, dtype, v.shape)
        fixed = [uop(op, xs) for op in COMPARE for xs in ((v, zero), (zero, v))]
        return [
            *fixed,
            *[uop(op, (v, w)) for op in binary_ops(dtype)],
            b.where(b.le(v, w), v, w),
            b.eq(v, v),
        ]

    check(program_of(f, (dtype, (n * n,)), (dtype, (n * n,))), [left, right], tmp_path)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_conversions_to_every_dtype(dtype: DType, tmp_path: Path) -> None:
    x = samples(dtype)

    def f(v: UOp) -> list[UOp]:
        same = [d for d in REAL if d.itemsize == dtype.itemsize and d is not dt.bool_]
        return [*[b.cast(v, d) for d in REAL if d is not dtype], *[b.bitcast(v, d) for d in same]]

    p = program_of(f, (dtype, x.shape))
    check(p, [x], tmp_path)
    if COMPILER is None:
        return
    for got, want in zip(run_c(p, [x], tmp_path), run_program(p, [x]), strict=True):
        if want.dtype.kind not in "biu":
            got, want = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(got, want)


def test_threefry_and_sorting_and_gathering(tmp_path: Path, rng: np.random.Generator) -> None:
    def f(k: UOp, x: UOp, i: UOp) -> list[UOp]:
        words = [uop(Op.THREEFRY, (k, k, k, b.cast(i, dt.uint32)), w) for w in (0, 1)]
        return [
            *words,
            *gets(uop(Op.SORT, (x, i), 0)),
            b.gather(x, i),
            b.pad(b.gather(x, i), ((3, 2, 1),)),
        ]

    p = program_of(f, (dt.uint32, (9,)), (F, (9,)), (I64, (9,)))
    x = rng.integers(-3, 3, 9).astype(np.float32)
    x[3] = np.nan
    check(p, [rng.integers(0, 2**32, 9), x, rng.integers(-3, 12, 9)], tmp_path)


def test_positions_in_the_order_of_long_and_short_rows(tmp_path: Path, rng: np.random.Generator) -> None:
    def f(x: UOp) -> list[UOp]:
        axis = x.ndim - 1
        return gets(uop(Op.SORT, (x, b.iota_along(x.shape, axis)), axis))[1:]

    for shape in ((2, 40), (70_000,)):  # the second is sorted in pieces elsewhere, with work space between tasks
        p = program_of(f, (F, shape))
        check(p, [rng.integers(-9, 9, shape).astype(np.float32)], tmp_path)


def test_writes_that_repeat(tmp_path: Path, rng: np.random.Generator) -> None:
    def f(old: UOp, i: UOp, v: UOp) -> list[UOp]:
        return [b.update(old, v, mode=m, idx=i) for m in Mode]

    p = program_of(f, (F, (7,)), (I64, (30,)), (F, (30,)))
    arrays = [rng.normal(size=7), rng.integers(-2, 9, 30), rng.normal(size=30)]
    check(p, arrays, tmp_path)


def test_row_functions_and_products(tmp_path: Path, rng: np.random.Generator) -> None:
    def f(x: UOp, y: UOp) -> list[UOp]:
        e = b.exp(b.sub(x, b.spread(b.reduce_(x, (1,), Op.MAX), x, (1,))))
        p = uop(Op.DIV, (e, b.spread(b.reduce_(e, (1,)), x, (1,))))
        a = b.expand(p, ((1, 20),))
        c = b.expand(b.permute(y, (1, 0)), ((0, 19),))
        return [p, b.reduce_(uop(Op.MUL, (a, c)), (2,)), uop(Op.PREFIX, (x,), (Op.ADD, 1, True))]

    p = program_of(f, (F, (19, 37)), (F, (37, 20)))
    check(p, [rng.normal(size=q.shape) for q in p.params], tmp_path, slack=10)


def test_columns_and_running_sums_in_pieces(tmp_path: Path, rng: np.random.Generator) -> None:
    p = program_of(
        lambda x: [b.reduce_(x, (0,)), uop(Op.PREFIX, (x,), (Op.ADD, 0, False))], (F, (70, 90))
    )
    check(p, [rng.normal(size=(70, 90))], tmp_path, slack=10)


def test_loops_branches_and_callbacks(tmp_path: Path, rng: np.random.Generator) -> None:
    step = program_of(
        lambda h, k, x: [b.mul(k, x), h, b.add(h, k)], (F, (3,)), (F, (3,)), (F, (3,))
    )
    more = program_of(lambda x, i: [b.lt(i, 5)], (F, (3,)), (I64, ()))
    turn = program_of(lambda x, i: [b.mul(x, 2.0), b.add(i, 1)], (F, (3,)), (I64, ()))
    branches = tuple([program_of(lambda x, k=k: [b.add(x, float(k))], (F, (3,))) for k in range(3)])

    def f(n: UOp, h: UOp, k: UOp, x: UOp) -> list[UOp]:
        host = Host(lambda v: (np.flip(v), v.sum() > 0), (Aval(F, (3,)), Aval(dt.bool_, ())))
        return [
            *gets(uop(Op.SCAN, (h, k, x), Scan(step, 4, 0, 2, 1, reverse=True))),
            *gets(uop(Op.WHILE, (h, n), While(more, turn, 0))),
            *gets(uop(Op.COND, (n, k), Cond(branches))),
            *gets(uop(Op.HOST, (b.exp(h),), host)),
        ]

    p = program_of(f, (I64, ()), (F, (3,)), (F, (3,)), (F, (4, 3)))
    for n in (-1, 1, 7):
        arrays = [n, *[rng.normal(size=q.shape) for q in p.params[1:]]]
        check(p, arrays, tmp_path)
        check(p, arrays, tmp_path, inline=frozenset({0}))


def test_the_text_is_readable() -> None:
    p = program_of(lambda x, y: [b.add(b.exp(x), y)], (F, (4, 6)), (F, (4, 6)))
    text = render_c(lower(p, Limits()))
    kernel = text[re.search(r"static void k0_\w+\(", text).start() :]  # type: ignore[union-attr]
    assert kernel.startswith(
        "static void k0_row(char *const *b, char *scratch)\n"
        "{\n"
        "    const float *const b0 = (const float *)b[0];\n"
    )
    assert "= fg_exp_f32(v" in kernel and "for (int64_t r" in kernel
    assert "static float fg_exp_f32(float x0)" in text


def test_equal_kernels_are_written_once() -> None:
    p = program_of(
        lambda x: [b.reduce_(b.exp(b.broadcast_to(b.reduce_(b.exp(x), (1,)), (5, 5))), (1,))],
        (F, (5, 5)),
    )
    lowered = lower(p, Limits())
    text = render_c(lowered)
    functions = re.findall(r"^static void (k\w+)\(", text, re.M)
    assert len(functions) == len(set(functions)) == lowered.distinct
