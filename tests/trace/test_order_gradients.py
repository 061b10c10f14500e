"""Derivatives of raw AFTER/STORE graphs are those of the versions: the contract's table, by row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fgrad.errors import OrderingError
from fgrad.trace.batch import batch
from fgrad.trace.functionalise import functionalise
from fgrad.trace.reference import run_program
from fgrad.trace.vjp import vjp
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import Storage, UOp, open_param, slot_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.order import check_order
from fgrad.uop.program import Call, Program, close

F = dt.float64
X = np.array([0.5, -2.0, 3.0, 1.0])
Y = np.array([4.0, 5.0, -6.0, 0.25])
CT = np.array([1.0, 10.0, 100.0, 1000.0])


def param(name: str, shape: tuple[int, ...] = (4,), dtype: dt.DType = F) -> UOp:
    return open_param(dtype, shape, name)


def store(view: UOp, value: UOp | float, mode: Mode = Mode.SET, gate: UOp | None = None) -> UOp:
    value = value if isinstance(value, UOp) else b.const(value, view.dtype, view.shape)
    return uop(Op.STORE, (view, value) if gate is None else (view, value, gate), mode)


def after(x: UOp, *deps: UOp) -> UOp:
    return uop(Op.AFTER, (x, *deps))


def clone(x: UOp, name: str = "y") -> UOp:
    """Storage of its own that starts as x."""
    return uop(Op.LOAD, (x,), name)


def part(x: UOp, start: int, stop: int) -> UOp:
    return b.slice_axis(x, 0, start, stop)


def program(out: UOp, params: Sequence[UOp]) -> Program:
    """The checked and functionalised graph, closed over `params`."""
    check_order([out])
    (pure,), _ = functionalise([out])
    return close(params, [pure])


def grads(out: UOp, params: Sequence[UOp], arrays: Sequence[Any], wrt: int = 1) -> list[Any]:
    """The cotangents of the first `wrt` params for the cotangent CT of `out`."""
    back = vjp(program(out, params), tuple(range(wrt)), (True,))
    return run_program(back, [*arrays, CT[: out.size]])[1:]


# ---- one unconditional store of everything
def test_an_overwritten_value_gives_its_cotangent_to_what_was_stored() -> None:
    x, v = param("x"), param("v")
    y = clone(x)
    gx, gv = grads(after(y, store(y, b.mul(v, 3.0))), [x, v], [X, Y], 2)
    np.testing.assert_array_equal(gx, 0 * X)
    np.testing.assert_array_equal(gv, 3 * CT)


def test_overwriting_with_a_constant_cuts_the_gradient() -> None:
    x = param("x")
    y = clone(x)
    np.testing.assert_array_equal(grads(after(y, store(y, 7.0)), [x], [X])[0], 0 * X)


# ---- stores elsewhere
@pytest.mark.parametrize("count", [1, 2])
def test_stores_to_other_storage_leave_the_gradient_alone(count: int) -> None:
    x, v = param("x"), param("v")
    others = [store(param(f"s{i}"), b.mul(v, float(i + 1))) for i in range(count)]
    gx, gv = grads(after(b.mul(x, 2.0), *others), [x, v], [X, Y], 2)
    np.testing.assert_array_equal(gx, 2 * CT)
    np.testing.assert_array_equal(gv, 0 * CT)


def test_order_alone_gives_twice_the_cotangent_of_a_value_used_twice() -> None:
    x = param("x")
    ordered = after(x, store(param("state"), b.mul(x, 3.0)))
    np.testing.assert_array_equal(grads(b.add(ordered, x), [x], [X])[0], 2 * CT)


# ---- parts
def test_a_partial_store_splits_the_cotangent_and_counts_each_once() -> None:
    x, v = param("x"), param("v", (2,))
    y = clone(x)
    out = after(y, store(part(y, 1, 3), b.mul(v, v)))
    gx, gv = grads(out, [x, v], [X, Y[:2]], 2)
    np.testing.assert_array_equal(gx, [1, 0, 0, 1000])
    np.testing.assert_array_equal(gv, 2 * Y[:2] * CT[1:3])


def test_case_14() -> None:
    x = param("x", (2,))
    y = clone(x)
    out = after(y, store(part(y, 0, 1), 4.0))
    np.testing.assert_array_equal(grads(out, [x], [X[:2]])[0], [0, 10])


def test_two_disjoint_stores_that_cover_everything() -> None:
    x, v = param("x"), param("v")
    y = clone(x)
    out = after(y, store(part(y, 0, 2), part(v, 2, 4)), store(part(y, 2, 4), part(v, 0, 2)))
    gx, gv = grads(out, [x, v], [X, Y], 2)
    np.testing.assert_array_equal(gx, 0 * X)
    np.testing.assert_array_equal(gv, [100, 1000, 1, 10])


def test_a_gated_store_takes_the_gate_as_the_part() -> None:
    x, v, g = param("x"), param("v"), param("g", dtype=dt.bool_)
    gate = np.array([True, False, True, False])
    y = clone(x)
    out = after(y, store(y, b.mul(v, x), Mode.SET, g))
    gx, gv = grads(out, [x, v, g], [X, Y, gate], 2)
    np.testing.assert_array_equal(gx, np.where(gate, Y * CT, CT))
    np.testing.assert_array_equal(gv, np.where(gate, X * CT, 0))


@pytest.mark.parametrize("mode", [Mode.SET, Mode.ADD])
def test_computed_indices_with_duplicates_and_one_out_of_bounds(mode: Mode) -> None:
    x, v, i = param("x"), param("v", (4,)), param("i", (4,), dt.int64)
    idx = np.array([2, 0, 2, 9])
    y = clone(x)
    gx, gv = grads(after(y, store(b.gather(y, i), v, mode)), [x, v, i], [X, Y, idx], 2)
    if mode is Mode.ADD:
        np.testing.assert_array_equal(gx, CT)
        np.testing.assert_array_equal(gv, [100, 1, 100, 0])
    else:  # the last writer wins
        np.testing.assert_array_equal(gx, [0, 10, 0, 1000])
        np.testing.assert_array_equal(gv, [0, 1, 100, 0])


# ---- chains
def squares(x: UOp, times: int) -> UOp:
    y = clone(x)
    for _ in range(times):
        y = after(y, store(y, b.mul(y, y)))
    return y


def test_case_15_chained_squares_to_second_order() -> None:
    x = param("x")
    first = vjp(program(squares(x, 2), [x]), (0,), (True,))
    outs = run_program(first, [X, np.ones(4)])
    np.testing.assert_allclose(outs, [X**4, 4 * X**3])
    second = vjp(first, (0,), (False, True))
    np.testing.assert_allclose(run_program(second, [X, np.ones(4), np.ones(4)])[2], 12 * X**2)


def test_chained_squares_under_batching() -> None:
    x = param("x", ())
    grad = vjp(program(squares(x, 2), [x]), (0,), (True,))
    mapped, flags = batch(grad, (True, False), 4)
    assert flags[1]
    np.testing.assert_allclose(run_program(mapped, [X, np.ones(())])[1], 4 * X**3)


def test_a_read_between_two_stores_keeps_its_version() -> None:
    x = param("x")
    y = clone(x)
    y1 = after(y, store(y, b.mul(x, 3.0)))
    middle = b.mul(y1, y1)
    y2 = after(y1, store(y1, 1.0))
    np.testing.assert_array_equal(grads(b.add(middle, y2), [x], [X])[0], 18 * X * CT)


def test_an_accumulating_store_passes_the_cotangent_to_both() -> None:
    x, v = param("x"), param("v")
    y = clone(x)
    gx, gv = grads(after(y, store(y, b.mul(v, 2.0), Mode.ADD)), [x, v], [X, Y], 2)
    np.testing.assert_array_equal(gx, CT)
    np.testing.assert_array_equal(gv, 2 * CT)


# ---- calls
class Doubling:
    """The gradient of a kernel that doubles its first argument in place."""

    def grad(
        self, args: Sequence[UOp], outs: Sequence[UOp], cts: Sequence[UOp | None]
    ) -> list[UOp | None]:
        ct = cts[-1]  # of the new contents; the kernel's results come first
        assert ct is not None
        return [b.mul(ct, 2.0), *[None for _ in args[1:]]]


def test_case_16_an_in_place_kernel_with_a_gradient_function() -> None:
    p = slot_param(0, F, (4,))
    double = Program((p,), (store(p, b.add(p, p)),))
    x = param("x")
    y = clone(x)
    out = after(y, uop(Op.CALL, (y,), Call(double, "kernel", "double", Doubling())))
    np.testing.assert_array_equal(grads(out, [x], [X])[0], 2 * CT)


def test_a_read_only_argument_passes_its_cotangent_through() -> None:
    p, q = slot_param(0, F, (4,)), slot_param(1, F, (4,))
    copy = Program((p, q), (store(p, q),))
    x, o = param("x"), param("o")
    out = after(x, uop(Op.CALL, (clone(o), x), Call(copy, "kernel", "copy", Doubling())))
    np.testing.assert_array_equal(grads(out, [x, o], [X, Y])[0], CT)


def test_a_kernel_without_a_gradient_function_says_so() -> None:
    p = slot_param(0, F, (4,))
    double = Program((p,), (store(p, b.add(p, p)),))
    x = param("x")
    y = clone(x)
    out = after(y, uop(Op.CALL, (y,), Call(double, "kernel", "double")))
    with pytest.raises(NotImplementedError, match=r"double.*grad_fn"):
        grads(out, [x], [X])


# ---- refused before any derivative is taken
def test_a_destroyed_version_is_a_cycle_before_any_derivative() -> None:
    x = param("x")
    y = clone(x)
    out = b.add(y, after(y, store(y, b.mul(y, y))))
    with pytest.raises(OrderingError, match="cycle"):
        grads(out, [x], [X])


def test_a_write_that_may_alias_has_no_gradient() -> None:
    ext = uop(Op.BUFFER, (), Storage(F, (4,), X, external=True))
    x = param("x")
    out = b.mul(after(ext, store(ext, b.mul(x, 2.0))), clone(x))  # the snapshot is our own
    with pytest.raises(OrderingError, match="gradient through an aliased write"):
        grads(out, [x], [X])
