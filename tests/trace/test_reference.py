"""The reference evaluator: every op against NumPy, SciPy, or a value worked out by hand."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special as sp

from fgrad.errors import ArgumentError, ShapeError
from fgrad.trace.reference import ROWS, evaluate, run_program
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import Storage, UOp, open_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Cond, Host, Program, Scan, While, close, gets

INF, NAN = math.inf, math.nan


def leaf(x: Any, dtype: dt.DType | None = None) -> UOp:
    """A BUFFER that holds `x`."""
    array = np.asarray(x) if dtype is None else np.asarray(x).astype(dtype.np)
    return uop(Op.BUFFER, (), Storage(dt.to_dtype(array.dtype), array.shape, array))


def value(u: UOp) -> Any:
    (out,) = evaluate([u], {})
    assert out.dtype == u.dtype.np and out.shape == u.shape
    return out


def same(got: Any, want: Any) -> None:
    """Equal bits, but for the payload of NaN."""
    got = np.asarray(got)
    want = np.broadcast_to(np.asarray(want, got.dtype), got.shape)
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind in "fV":
        known = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


def test_every_op_has_a_row() -> None:
    assert [op for op in Op if op not in ROWS] == []


# ---- integers
def test_integer_division_floors_and_by_zero_gives_zero() -> None:
    x = leaf([7, -7, 7, -7, 5, -128], dt.int8)
    y = leaf([2, 2, -2, -2, 0, -1], dt.int8)
    same(value(b.idiv(x, y)), [3, -4, -4, 3, 0, -128])
    same(value(b.mod(x, y)), [1, 1, -1, -1, 0, 0])


def test_shifts_by_the_width_or_more_shift_everything_out() -> None:
    x = leaf([-3, -3, 3, -3], dt.int32)
    n = leaf([1, 32, 40, -1], dt.int32)
    same(value(b.shl(x, n)), [-6, 0, 0, 0])
    same(value(b.shr(x, n)), [-2, -1, 0, -1])
    y, m = leaf([0x80, 0x80], dt.uint8), leaf([7, 8], dt.uint8)
    same(value(b.shr(y, m)), [1, 0])
    same(value(b.shl(y, m)), [0, 0])


def test_small_integers_wrap() -> None:
    same(value(b.add(leaf([127], dt.int8), leaf([1], dt.int8))), [-128])
    same(value(b.neg(leaf([-128], dt.int8))), [-128])
    same(value(b.abs_(leaf([-128], dt.int8))), [-128])
    same(value(b.reduce_(leaf([200, 100], dt.uint8), [0])), 44)


def test_bool_addition_is_or_and_multiplication_is_and() -> None:
    x, y = leaf([True, True, False]), leaf([True, False, False])
    same(value(b.add(x, y)), [True, True, False])
    same(value(b.mul(x, y)), [True, False, False])
    same(value(b.reduce_(x, [0])), True)
    same(value(b.not_(x)), [False, False, True])
    same(value(b.not_(leaf([0, 5], dt.int16))), [-1, -6])


# ---- casts
def test_casting_floats_to_integers_truncates_saturates_and_maps_nan_to_zero() -> None:
    x = leaf([1.9, -1.9, NAN, INF, -INF, 300.0, -300.0])
    same(value(b.cast(x, dt.int8)), [1, -1, 0, 127, -128, 127, -128])
    same(value(b.cast(x, dt.uint8)), [1, 0, 0, 255, 0, 255, 0])
    big = leaf([2.0**63, -(2.0**63), 2.0**64, 2.0**63 - 1024])
    same(value(b.cast(big, dt.int64)), [2**63 - 1, -(2**63), 2**63 - 1, 2**63 - 1024])
    same(value(b.cast(big, dt.uint64)), np.array([2**63, 0, 2**64 - 1, 2**63 - 1024], np.uint64))
    same(value(b.cast(leaf([NAN, 0.0, -0.0, 0.1]), dt.bool_)), [True, False, False, True])
    same(value(b.cast(leaf([NAN, 3.5, -INF], dt.bfloat16), dt.int32)), [0, 3, -(2**31)])


def test_casting_between_other_kinds() -> None:
    same(value(b.cast(leaf([300, -1], dt.int64), dt.uint8)), [44, 255])
    same(value(b.cast(leaf([1 + 2j, 0 + 1j]), dt.float32)), [1, 0])
    same(value(b.cast(leaf([0j, 1j]), dt.bool_)), [False, True])
    same(value(b.cast(leaf([1.0009765625]), dt.bfloat16)), ml_dtypes.bfloat16(1.0))
    same(value(b.bitcast(leaf([1.0], dt.float32), dt.int32)), [0x3F800000])


@pytest.mark.parametrize("dtype", dt.SMALL_FLOATS, ids=str)
def test_small_floats_are_computed_in_float32_and_rounded_per_op(dtype: dt.DType) -> None:
    x = np.array([0.1, 1.5, -2.0, 3.0]).astype(dtype.np)
    f = x.astype(np.float32)
    same(value(b.mul(leaf(x), leaf(x))), (f * f).astype(dtype.np))
    same(value(b.exp(leaf(x))), np.exp(f.astype(np.float64)).astype(np.float32).astype(dtype.np))
    same(value(b.lt(leaf(x), leaf(-x))), f < -f)
    same(value(b.reduce_(leaf(x), [0])), f.sum().astype(dtype.np))


# ---- floats
X = np.array([0.3, 0.7, 1.0, -0.4, 0.0, -0.0, 2.5, -3.5, INF, -INF, NAN])
FUNCTIONS = {
    Op.SQRT: np.sqrt, Op.RSQRT: lambda x: 1 / np.sqrt(x), Op.CBRT: np.cbrt, Op.EXP: np.exp,
    Op.EXP2: np.exp2, Op.EXPM1: np.expm1, Op.LOG: np.log, Op.LOG2: np.log2, Op.LOG10: np.log10,
    Op.LOG1P: np.log1p, Op.SIN: np.sin, Op.COS: np.cos, Op.TAN: np.tan, Op.ASIN: np.arcsin,
    Op.ACOS: np.arccos, Op.ATAN: np.arctan, Op.SINH: np.sinh, Op.COSH: np.cosh, Op.TANH: np.tanh,
    Op.ASINH: np.arcsinh, Op.ACOSH: np.arccosh, Op.ATANH: np.arctanh, Op.SIGMOID: sp.expit,
    Op.SOFTPLUS: lambda x: np.logaddexp(x, 0),
    Op.ERF: sp.erf, Op.ERFC: sp.erfc,
    Op.ERF_INV: lambda x: np.copysign(sp.erfinv(x), x),  # SciPy drops the sign of zero
    Op.DIGAMMA: sp.digamma,
    Op.FLOOR: np.floor, Op.CEIL: np.ceil, Op.TRUNC: np.trunc, Op.ROUND: np.rint, Op.ABS: np.abs,
    Op.NEG: np.negative,
    Op.LGAMMA: lambda x: np.where(x == -INF, INF, sp.gammaln(x)),  # SciPy has -inf; C has inf
}  # fmt: skip


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_functions_of_one_float(op: Op, dtype: dt.DType) -> None:
    x = X.astype(dtype.np)
    got = value(uop(op, (leaf(x),)))
    with np.errstate(all="ignore"):
        want = FUNCTIONS[op](x.astype(np.float64)).astype(dtype.np)
    np.testing.assert_allclose(got, want, rtol=3e-15 if dtype is dt.float64 else 1e-7)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize(
    "op",
    [Op.SQRT, Op.EXP, Op.LOG, Op.SIN, Op.COS, Op.TANH, Op.LOG1P, Op.ACOSH],
    ids=lambda op: op.name,
)
def test_functions_of_complex_numbers(op: Op) -> None:
    z = np.array([0.3 + 0.2j, -1.5 + 2j, 1 - 0.5j])
    np.testing.assert_allclose(value(uop(op, (leaf(z),))), FUNCTIONS[op](z), rtol=1e-14)
    z64 = z.astype(np.complex64)
    np.testing.assert_allclose(value(uop(op, (leaf(z64),))), FUNCTIONS[op](z64), rtol=1e-5)


def test_special_functions_agree_with_scipy(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(-1, 1, 200), 1 - 10.0 ** -rng.uniform(1, 15, 50)])
    np.testing.assert_allclose(value(uop(Op.ERF_INV, (leaf(x),))), sp.erfinv(x), rtol=1e-15)
    y = rng.uniform(0.01, 40, 200)
    np.testing.assert_allclose(value(uop(Op.DIGAMMA, (leaf(y),))), sp.digamma(y), rtol=2e-13)
    same(value(uop(Op.DIGAMMA, (leaf([0.0, -0.0, -2.0, INF, -INF]),))), [-INF, INF, NAN, INF, NAN])
    same(value(uop(Op.LGAMMA, (leaf([0.0, -3.0, -INF, 1e308]),))), [INF, INF, INF, INF])


def test_nan_wins_in_max_and_min() -> None:
    x, y = leaf([NAN, 1.0, 2.0]), leaf([1.0, NAN, 3.0])
    same(value(b.maximum(x, y)), [NAN, NAN, 3])
    same(value(b.minimum(x, y)), [NAN, NAN, 2])
    same(value(b.reduce_(x, [0], Op.MAX)), NAN)
    half = leaf([NAN, 1.0], dt.bfloat16)
    assert np.isnan(value(b.reduce_(half, [0], Op.MIN)))


def test_functions_of_two_floats() -> None:
    x, y = np.array([0.0, -0.0, 2.0, -3.5, NAN, 1.0]), np.array([0.0, 1.0, -3.0, INF, 0.0, NAN])
    with np.errstate(all="ignore"):
        for op, f in [
            (Op.POW, np.power), (Op.ATAN2, np.arctan2), (Op.HYPOT, np.hypot),
            (Op.LOGADDEXP, np.logaddexp), (Op.COPYSIGN, np.copysign), (Op.MOD, np.mod), (Op.DIV, np.divide),
        ]:  # fmt: skip
            np.testing.assert_array_equal(value(uop(op, (leaf(x), leaf(y)))), f(x, y))


def test_complex_parts() -> None:
    z = b.complex_(leaf([1.0, -0.0], dt.float32), leaf([INF, 2.0], dt.float32))
    assert z.dtype is dt.complex64
    same(value(b.real(z)), [1.0, -0.0])
    same(value(b.imag(z)), [INF, 2.0])


def test_threefry_gives_the_published_words() -> None:
    # Known answers of the Random123 distribution, kat_vectors, threefry2x32 20
    for key, counter, want in [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]:
        src = tuple([b.const(w, dt.uint32) for w in (*key, *counter)])
        assert tuple([int(value(uop(Op.THREEFRY, src, i))) for i in (0, 1)]) == want


# ---- movement
def test_movement() -> None:
    x = np.arange(6.0).reshape(2, 3)
    u = leaf(x)
    same(value(b.reshape(u, (3, 2))), x.reshape(3, 2))
    same(value(b.permute(u, (1, 0))), x.T)
    same(value(b.expand(u, [(0, 2), (2, 3)])), np.broadcast_to(x[None, :, None, :], (2, 2, 3, 3)))
    same(value(b.flip(u, [1])), x[:, ::-1])
    same(value(b.shrink(u, [(1, 1, 1), (0, 2, 2)])), x[1:, ::2])
    want = np.zeros((3, 8))
    want[1:3, 2:7:2] = x
    same(value(b.pad(u, [(1, 0, 0), (2, 1, 1)])), want)
    same(value(b.pad(leaf(np.zeros((0,))), [(1, 2, 3)])), np.zeros(3))


def test_computed_starts_are_clamped_so_that_the_part_lies_inside() -> None:
    x = leaf(np.arange(10))
    for start, want in [(-3, [0, 2, 4]), (4, [4, 6, 8]), (100, [5, 7, 9])]:
        same(value(b.shrink(x, [(None, 3, 2)], [b.const(start, dt.int64)])), want)
    part = b.update(x, leaf([-1, -2]), box=[(None, 2, 1)], starts=[b.const(99, dt.int64)])
    same(value(part), [0, 1, 2, 3, 4, 5, 6, 7, -1, -2])


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_window_and_skew_are_transposes(
    stride: int, dilation: int, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((2, 9))
    w = b.window(leaf(x), 1, 3, stride, dilation)
    want = [[row[i * stride + k * dilation] for k in range(3)]
            for row in x for i in range(w.shape[1])]  # fmt: skip
    same(value(w), np.reshape(want, w.shape))
    expanded = rng.standard_normal(w.src[0].shape)
    y = rng.standard_normal(w.shape)
    back = value(uop(Op.SKEW, (leaf(y),), w.arg))
    out = value(uop(Op.WINDOW, (leaf(expanded),), w.arg))
    np.testing.assert_allclose((back * expanded).sum(), (out * y).sum())


# ---- across elements
def test_reductions_over_no_elements_give_the_identity() -> None:
    x = leaf(np.zeros((0, 2), np.float32))
    for op, want in {Op.ADD: 0, Op.MUL: 1, Op.MAX: -INF, Op.MIN: INF}.items():
        same(value(b.reduce_(x, [0], op)), [want, want])
    i = leaf(np.zeros((0,), np.uint8))
    for op, want in {Op.MAX: 0, Op.MIN: 255, Op.AND: 255, Op.OR: 0, Op.XOR: 0}.items():
        same(value(b.reduce_(i, [0], op)), want)
    c = leaf(np.zeros((2, 0), np.complex64))
    for op in (Op.ADD, Op.MUL):
        assert value(b.reduce_(c, [0], op)).shape == (0,)


def test_a_sum_keeps_the_sign_of_zero() -> None:
    same(value(b.reduce_(leaf([-0.0, -0.0]), [0])), -0.0)
    same(value(b.reduce_(leaf([-0.0, 0.0]), [0])), 0.0)


def test_running_sums() -> None:
    x = leaf([[1, 2, 3], [4, 5, 6]], dt.int32)
    same(value(uop(Op.PREFIX, (x,), (Op.ADD, 1, False))), [[1, 3, 6], [4, 9, 15]])
    same(value(uop(Op.PREFIX, (x,), (Op.MUL, 1, True))), [[6, 6, 3], [120, 30, 6]])
    same(value(uop(Op.PREFIX, (leaf([1.0, NAN, 3.0]),), (Op.MAX, 0, False))), [1, NAN, NAN])


def test_sorting_is_stable_with_nan_last() -> None:
    key = leaf([2.0, NAN, 1.0, 2.0, -INF, 0.0, -0.0])
    keys, order = gets(uop(Op.SORT, (key, b.iota(7)), 0))
    same(value(order), [4, 5, 6, 2, 0, 3, 1])
    same(value(keys), [-INF, 0.0, -0.0, 1, 2, 2, NAN])


def test_gather_gives_zero_out_of_bounds() -> None:
    x = np.arange(6.0).reshape(3, 2)
    idx = leaf([[2, 0], [3, -1]])
    same(value(b.gather(leaf(x), idx)), [[[4, 5], [0, 1]], [[0, 0], [0, 0]]])
    batched = b.gather(leaf(x), leaf([[1], [0], [7]]), 1)
    same(value(batched), [[1], [2], [0]])
    same(value(b.gather(leaf(np.zeros((0, 2))), leaf([0]))), [[0, 0]])
    same(value(b.gather(leaf([5.0]), leaf(np.array([2**64 - 1, 0], np.uint64)))), [0, 5])


def test_update_by_index_drops_out_of_bounds_and_the_last_duplicate_wins() -> None:
    old, idx = leaf([1, 1, 1, 1]), leaf([2, 0, 2, 9, -1])
    v = leaf([10, 20, 30, 40, 50])
    same(value(b.update(old, v, idx=idx)), [20, 1, 30, 1])
    same(value(b.update(old, v, idx=idx, mode=Mode.ADD)), [21, 1, 41, 1])
    same(value(b.update(old, v, idx=idx, mode=Mode.MUL)), [20, 1, 300, 1])
    same(value(b.update(old, v, idx=idx, mode=Mode.MIN)), [1, 1, 1, 1])
    gate = leaf([True, True, False, True, True])
    same(value(b.update(old, v, idx=idx, gate=gate)), [20, 1, 10, 1])


def test_update_with_batch_axes_and_boxes() -> None:
    old = leaf(np.zeros((2, 3, 2)))
    v = leaf(np.arange(1.0, 5).reshape(2, 1, 2))
    got = value(b.update(old, v, idx=leaf([[2], [0]]), batch=1))
    same(got, [[[0, 0], [0, 0], [1, 2]], [[3, 4], [0, 0], [0, 0]]])
    base = leaf(np.zeros((2, 4)))
    part = b.update(base, leaf([[1.0, 2.0]]), box=[(1, 1, 1), (1, 2, 2)],
                    gate=leaf([[True, False]]), mode=Mode.ADD)  # fmt: skip
    same(value(part), [[0, 0, 0, 0], [0, 1, 0, 0]])


# ---- calls
def program(f: Any, *avals: tuple[dt.DType, tuple[int, ...]]) -> Program:
    params = [open_param(*a) for a in avals]
    return close(params, f(*params))


F = (dt.float64, ())


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    body = program(lambda c, s, x: [b.add(b.mul(s, c), x), b.neg(s)], F, F, F)
    xs = np.array([1.0, 2.0, 3.0])
    src = (b.const(2.0, dt.float64), b.const(1.0, dt.float64), leaf(xs))
    s, ys = evaluate(gets(uop(Op.SCAN, src, Scan(body, 3, 1, 1, 1, reverse))), {})
    state, want = 1.0, np.zeros(3)
    for t in (2, 1, 0) if reverse else (0, 1, 2):
        want[t] = -state
        state = state * 2 + xs[t]
    same(s, state)
    same(ys, want)


def test_while_and_cond() -> None:
    cond = program(lambda n, x: [b.lt(x, n)], F, F)
    body = program(lambda n, x: [b.add(x, x)], F, F)
    src = (b.const(100.0, dt.float64), b.const(3.0, dt.float64))
    loop = uop(Op.WHILE, src, While(cond, body, 1))
    same(value(gets(loop)[0]), 192)
    sides = tuple([program(lambda x, k=k: [b.mul(x, k)], F) for k in (1.0, 10.0, 100.0)])
    for index, want in [(-5, 2), (0, 2), (1, 20), (2, 200), (9, 200)]:
        src = (b.const(index, dt.int32), b.const(2.0, dt.float64))
        same(value(gets(uop(Op.COND, src, Cond(sides)))[0]), want)


def test_host_callbacks_take_arrays_and_ordered_ones_pass_a_token() -> None:
    aval = Aval(dt.float64, (2,))
    plain = Host(lambda x: (x * 2,), (aval,))
    same(value(gets(uop(Op.HOST, (leaf([1.0, 2.0]),), plain))[0]), [2, 4])
    ordered = Host(lambda x: (x + 1,), (Aval(dt.uint8, ()), aval), ordered=True)
    token, y = gets(uop(Op.HOST, (b.const(0, dt.uint8), leaf([1.0, 2.0])), ordered))
    same(value(token), 0)
    same(value(y), [2, 3])
    with pytest.raises(ArgumentError, match="returned 2 arrays, 1 are declared"):
        value(gets(uop(Op.HOST, (leaf([1.0, 2.0]),), Host(lambda x: (x, x), (aval,))))[0])


# ---- the door
def test_run_program_checks_its_arguments() -> None:
    p = program(lambda x: [b.neg(x)], (dt.float32, (2,)))
    same(run_program(p, [np.array([1.0, 2.0])])[0], [-1, -2])
    with pytest.raises(ArgumentError, match="takes 1 arrays, got 2"):
        run_program(p, [1, 2])
    with pytest.raises(ShapeError, match=r"shape \(3,\)"):
        run_program(p, [np.zeros(3)])
    with pytest.raises(ArgumentError, match="no value was given for PARAM"):
        evaluate(p.outs, {})


def test_what_lies_below_a_given_node_is_not_evaluated() -> None:
    x = open_param(dt.float32, (2,))
    y = b.neg(b.sin(x))
    same(evaluate([b.neg(y)], {y: [1.0, 2.0]})[0], [-1, -2])


def test_collectives_loads_and_stores_say_what_to_do_first() -> None:
    x = leaf([1.0])
    with pytest.raises(NotImplementedError, match="vmap"):
        value(uop(Op.COLLECTIVE, (x,), ("psum", "i")))
    with pytest.raises(NotImplementedError, match="functionalise"):
        value(uop(Op.LOAD, (x,)))
