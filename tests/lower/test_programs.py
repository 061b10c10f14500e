"""Lowered programs give what the reference gives, on random programs of every kind of op."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings

from fgrad.lower.limits import Limits
from fgrad.trace.reference import run_program
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Mode, Op
from tests.laws.programs import EVERY, Case, close_to, programs
from tests.lower.harness import Compiled, agree, host_limits, program_of, sample

F, INT = dt.float32, dt.int64
RNG = np.random.default_rng(3)


def check(case: Case, limits: Limits | None = None) -> None:
    assume(all(u.op is not Op.COPYSIGN for u in case[0].nodes))  # nothing says which sign a NaN has
    program, arrays = case
    got = Compiled(program, limits, opt=0)(*arrays)
    for g, w in zip(got, run_program(program, arrays), strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        close_to(g, w)


@settings(max_examples=60)
@given(programs(max_nodes=14))
def test_random_programs(case: Case) -> None:
    check(case)


@settings(max_examples=60)
@given(programs(max_nodes=10, dtypes=EVERY))
def test_random_programs_in_every_dtype(case: Case) -> None:
    check(case)


@settings(max_examples=20)
@given(programs(max_nodes=10))
def test_random_programs_on_narrow_vectors(case: Case) -> None:
    check(case, Limits(16, host_limits().features))


def row_softmax(x: UOp) -> UOp:
    m = b.reduce_(x, (1,), Op.MAX)
    e = b.exp(b.sub(x, b.spread(m, x, (1,))))
    return b.div(e, b.spread(b.reduce_(e, (1,)), x, (1,)))


def place_of_largest(x: UOp) -> UOp:
    """Along the last axis of -log(-log(x)): both logarithms are kept for the second pass over it."""
    y = b.neg(b.log(b.neg(b.log(x))))
    hit = b.eq(y, b.spread(b.reduce_(y, (1,), Op.MAX), y, (1,)))
    at = b.where(hit, b.iota_along(y.shape, 1), b.const(y.shape[1], INT))
    return b.reduce_(at, (1,), Op.MIN)


def layer_norm(x: UOp) -> UOp:
    n = float(x.shape[1])
    mean = b.mul(b.reduce_(x, (1,)), 1 / n)
    d = b.sub(x, b.spread(mean, x, (1,)))
    var = b.mul(b.reduce_(b.mul(d, d), (1,)), 1 / n)
    return b.mul(d, b.spread(b.rsqrt(b.add(var, 1e-5)), x, (1,)))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (37, 300), (64, 512), (5, 1), (1, 40), (130, 33)])
@pytest.mark.parametrize("f", [row_softmax, layer_norm])
def test_row_functions_are_one_kernel(f: object, shape: tuple[int, int]) -> None:
    compiled = agree(program_of(f, (F, shape)), [RNG.standard_normal(shape)], 10)
    assert len(compiled.lowered.kernels) == 1


@pytest.mark.parametrize("n", [5, 16, 17, 94, 200])
@pytest.mark.parametrize("rows", [1, 3])
def test_kept_values_that_need_kept_values_are_computed_in_every_part_of_a_loop(rows: int, n: int) -> None:
    agree(program_of(place_of_largest, (F, (rows, n))), [RNG.uniform(size=(rows, n))])


def test_values_shared_by_row_and_column_sums_are_stored_once() -> None:
    def f(x: UOp) -> list[UOp]:
        e = b.exp(x)
        return [b.reduce_(e, (1,)), b.reduce_(e, (0,))]

    compiled = agree(program_of(f, (F, (70, 90))), [RNG.standard_normal((70, 90))])
    assert len(compiled.lowered.kernels) == 2


def test_a_reduction_of_one_element_is_a_kernel_like_others() -> None:
    def f(x: UOp) -> list[UOp]:
        rows = b.reduce_(x, (0, 1, 2), Op.MAX)
        return [b.reduce_(x, (0, 1, 2, 3), Op.MAX), rows, b.reduce_(rows, (0,), Op.MAX)]

    agree(program_of(f, (F, (1, 1, 3, 1))), [np.arange(3, dtype=np.float32).reshape(1, 1, 3, 1)])


@pytest.mark.parametrize("dtype", [d for d in dt.ALL if not d.is_complex], ids=str)
@pytest.mark.parametrize(
    "shape,axes",
    [((40,), (0,)), ((33, 20), (0,)), ((20, 33), (1,)), ((5, 6, 7), (0, 2)), ((9, 50), (0, 1))],
)
def test_reductions(dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = sample(RNG, dtype, shape)
    ops = [Op.ADD, Op.MAX, Op.MIN, Op.MUL]
    if not dtype.is_float:
        ops += [Op.AND, Op.OR, Op.XOR]
    program = program_of(lambda p: [b.reduce_(p, axes, op) for op in ops], (dtype, shape))
    agree(program, [x], 30)


@pytest.mark.parametrize("dtype", [d for d in dt.ALL if not d.is_complex], ids=str)
@pytest.mark.parametrize("shape,axis", [((40,), 0), ((33, 20), 0), ((5, 17), 1), ((3, 6, 40), 1), ((2, 9, 130), 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes(dtype: DType, shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    x = sample(RNG, dtype, shape)
    ops = [Op.ADD, Op.MAX, Op.MIN, Op.MUL]
    program = program_of(lambda p: [uop(Op.PREFIX, (p,), (op, axis, reverse)) for op in ops], (dtype, shape))
    agree(program, [x], 60)


@pytest.mark.parametrize("dtype", [d for d in dt.ALL if not d.is_complex], ids=str)
@pytest.mark.parametrize("shape,axis", [((300,), 0), ((3, 70), 1), ((70, 4), 0), ((1, 5), 1)])
def test_sorts(dtype: DType, shape: tuple[int, ...], axis: int) -> None:
    x = sample(RNG, dtype, shape)
    if dtype.is_float:
        odd = np.array([np.nan, -0.0, 0.0, 1.0]).astype(dtype.np)
        x = np.where(RNG.random(shape) < 0.2, odd[RNG.integers(0, 4, shape)], x)

    def f(p: UOp) -> list[UOp]:
        s = uop(Op.SORT, (p, b.iota_along(shape, axis)), axis)
        return [uop(Op.GET, (s,), 0), uop(Op.GET, (s,), 1)]

    agree(program_of(f, (dtype, shape)), [x])


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("rest", [(), (3,), (40,), (2, 1024)])
def test_indexed_updates_take_duplicates_in_order(mode: Mode, rest: tuple[int, ...]) -> None:
    def f(old: UOp, value: UOp, idx: UOp, gate: UOp) -> list[UOp]:
        return [
            b.update(old, value, mode=mode, idx=idx),
            b.update(old, value, mode=mode, idx=idx, gate=gate),
        ]

    program = program_of(f, (F, (6, *rest)), (F, (9, *rest)), (INT, (9,)), (dt.bool_, (9,)))
    arrays = [
        sample(RNG, F, (6, *rest)),
        sample(RNG, F, (9, *rest)),
        RNG.integers(-2, 8, 9),
        RNG.random(9) < 0.7,
    ]
    agree(program, arrays, 20)


def test_gathers_with_batch_axes_and_indices_out_of_bounds() -> None:
    program = program_of(lambda x, i: b.gather(x, i, 1), (F, (3, 7, 20)), (dt.int32, (3, 4)))
    agree(program, [sample(RNG, F, (3, 7, 20)), RNG.integers(-2, 9, (3, 4))])


def test_computed_starts_are_clamped() -> None:
    def f(x: UOp, i: UOp, j: UOp) -> list[UOp]:
        part = b.shrink(x, [(None, 3, 2), (None, 20, 1)], [i, j])
        return [part, b.update(x, b.exp(part), box=[(None, 3, 2), (None, 20, 1)], starts=[j, i])]

    program = program_of(f, (F, (9, 40)), (INT, ()), (INT, ()))
    for i, j in ((0, 0), (-5, 3), (3, 50), (100, -1)):
        agree(program, [sample(RNG, F, (9, 40)), i, j])


@pytest.mark.parametrize("size,stride,dilation", [(3, 1, 1), (2, 3, 2), (4, 2, 3)])
def test_windows_and_their_transposes(size: int, stride: int, dilation: int) -> None:
    def f(x: UOp) -> list[UOp]:
        w = b.window(x, 1, size, stride, dilation)
        skew = uop(Op.SKEW, (b.mul(w, 2.0),), b.window(x, 1, size, stride, dilation).arg)
        return [w, b.reduce_(w, (2,), Op.MAX), b.reduce_(skew, (skew.ndim - 1,))]

    agree(program_of(f, (F, (5, 37))), [sample(RNG, F, (5, 37))], 10)


@pytest.mark.parametrize("dtype", [F, dt.float64, dt.int8, dt.bfloat16, dt.bool_], ids=str)
def test_movement(dtype: DType) -> None:
    def f(x: UOp) -> list[UOp]:
        return [
            b.permute(x, (1, 0)), b.flip(x, (1,)), b.flip(x, (0, 1)), b.pad(x, [(1, 2, 1), (3, 0, 2)]),
            b.shrink(x, [(1, 5, 2), (2, 9, 3)]), b.reshape(b.permute(x, (1, 0)), (15, 2, 24)),
            b.expand(b.reshape(x, (20, 36)), [(1, 3)]), b.reshape(b.pad(x, [(1, 0, 0), (0, 3, 0)]), (39, 21)),
        ]  # fmt: skip

    agree(program_of(f, (dtype, (20, 36))), [sample(RNG, dtype, (20, 36))])


def test_results_do_not_depend_on_the_tasks_order() -> None:
    program = program_of(lambda x: [b.reduce_(x, (0, 1)), b.reduce_(x, (0,)), b.exp(x)], (F, (700, 640)))
    x = sample(RNG, F, (700, 640))
    compiled = agree(program, [x], 100)
    assert any(k.tasks > 1 for k in compiled.lowered.kernels)
    again = Compiled(program)(x)
    for a, c in zip(compiled(x), again, strict=True):
        assert (a == c).all()


def test_long_chains_lower_in_linear_time() -> None:
    def f(x: UOp) -> UOp:
        y = x
        for i in range(3000):
            y = b.mul(b.add(y, 1e-4 * (i % 7)), 0.9999)
        return y

    agree(program_of(f, (F, (100,))), [sample(RNG, F, (100,))], 300)


@pytest.mark.parametrize("shape", [(64, 100), (48, 2048), (3, 40, 70), (200, 3, 65)])
@pytest.mark.parametrize("dtype", [F, dt.int32, dt.bfloat16], ids=str)
def test_long_columns_are_reduced_in_pieces(shape: tuple[int, ...], dtype: DType) -> None:
    axis = len(shape) - 2

    def f(x: UOp, y: UOp) -> list[UOp]:
        s = b.reduce_(x, (axis,))
        return [b.reduce_(b.mul(x, x), (axis,)), b.add(s, y), b.reduce_(x, (axis,), Op.MAX)]

    rest = tuple([n for i, n in enumerate(shape) if i != axis])
    agree(
        program_of(f, (dtype, shape), (dtype, rest)),
        [sample(RNG, dtype, shape), sample(RNG, dtype, rest)],
        50,
    )


@pytest.mark.parametrize("shape", [(64, 128), (48, 40), (1000, 24), (40, 9), (3, 50, 70)])
@pytest.mark.parametrize("dtype", [F, dt.float64, dt.int8, dt.bool_], ids=str)
def test_transposed_operands_are_turned(shape: tuple[int, ...], dtype: DType) -> None:
    n = len(shape)
    back = (*range(n - 2), n - 1, n - 2)

    def f(x: UOp, y: UOp) -> list[UOp]:
        t = b.permute(x, back)
        u = b.permute(b.cast(x, dt.float32), back)
        return [t, b.maximum(t, y), b.add(x, b.permute(y, back)), b.exp(b.mul(u, 0.1))]

    turned = (*shape[:-2], shape[-1], shape[-2])
    agree(
        program_of(f, (dtype, shape), (dtype, turned)),
        [sample(RNG, dtype, shape), sample(RNG, dtype, turned)],
    )


@pytest.mark.parametrize("dtype", dt.SMALL_FLOATS, ids=str)
@pytest.mark.parametrize("f16c", [True, False])
def test_small_floats_are_rounded_like_numpy(dtype: DType, f16c: bool) -> None:
    bits = np.arange(1 << min(dtype.bits, 16), dtype=np.uint32).astype(f"u{dtype.itemsize}")
    every = bits.view(dtype.np)
    near = np.nan_to_num(every.astype(np.float32), posinf=6e4, neginf=-6e4)
    tiny = near[np.isfinite(near)] * np.float32(1 + 3e-3)
    odd = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -0.0, 464, 465, 65519, 65520], np.float32)
    wide = np.concatenate([near, tiny, odd])
    features = host_limits().features - (set() if f16c else {"f16c"})
    limits = Limits(host_limits().vector_bytes, frozenset(features))
    program = program_of(
        lambda x, y: [b.cast(x, F), b.cast(y, dtype), b.mul(x, x), b.cast(b.cast(y, dt.float64), dtype)],
        (dtype, every.shape),
        (F, wide.shape),
    )
    got = Compiled(program, limits)(every, wide)
    for g, w in zip(got, run_program(program, [every, wide]), strict=True):
        same = (g == w) | (np.isnan(g.astype(F.np)) & np.isnan(w.astype(F.np)))
        assert same.all(), (g[~same][:5], w[~same][:5])


@pytest.mark.parametrize("dtype", [F, dt.float64], ids=str)
@pytest.mark.parametrize("fma", [True, False])
def test_the_remainder_of_floats_is_exact(dtype: DType, fma: bool) -> None:
    x = (RNG.standard_normal(400) * 10.0 ** RNG.integers(-30, 30, 400)).astype(dtype.np)
    y = (RNG.standard_normal(400) * 10.0 ** RNG.integers(-30, 30, 400)).astype(dtype.np)
    odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 3.0]
    x = np.concatenate([x, np.repeat(odd, 8)]).astype(dtype.np)
    y = np.concatenate([y, np.tile(odd, 8)]).astype(dtype.np)
    features = host_limits().features - (set() if fma else {"fma"})
    limits = Limits(host_limits().vector_bytes, frozenset(features))
    program = program_of(lambda p, q: uop(Op.MOD, (p, q)), (dtype, x.shape), (dtype, y.shape))
    (got,) = Compiled(program, limits)(x, y)
    want = run_program(program, [x, y])[0]
    finite = np.isfinite(y) & np.isfinite(x) & (y != 0)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    assert same[finite].all(), (x[finite & ~same][:5], y[finite & ~same][:5], got[finite & ~same][:5])
    assert same.all(), (x[~same][:5], y[~same][:5], got[~same][:5], want[~same][:5])
