"""functionalise: raw graphs become pure ones that compute what the same NumPy statements would."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrad.errors import OrderingError
from fgrad.trace.functionalise import functionalise
from fgrad.trace.reference import evaluate
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.node import Storage, UOp, open_param, slot_param, toposort, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.order import check_order
from fgrad.uop.program import Call, Program, gets

F = dt.float64


def buffer(name: str = "b", shape: tuple[int, ...] = (4,)) -> UOp:
    return open_param(F, shape, name)


def store(view: UOp, value: UOp | float, mode: Mode = Mode.SET, gate: UOp | None = None) -> UOp:
    value = value if isinstance(value, UOp) else b.const(value, view.dtype, view.shape)
    return uop(Op.STORE, (view, value) if gate is None else (view, value, gate), mode)


def after(x: UOp, *deps: UOp) -> UOp:
    return uop(Op.AFTER, (x, *deps))


def load(x: UOp, name: object = None) -> UOp:
    return uop(Op.LOAD, (x,), name)


def assign(x: UOp, value: UOp | float) -> UOp:
    return after(x, store(x, value))


def run(outs: list[UOp], env: dict[UOp, Any]) -> tuple[list[np.ndarray], dict[UOp, np.ndarray]]:
    """Check the order, functionalise, evaluate: -> (outs, final contents)."""
    check_order(outs)
    pure, final = functionalise(outs)
    for u in toposort([*pure, *final.values()]):
        assert u.op not in (Op.STORE, Op.LOAD)
    values = evaluate([*pure, *final.values()], env)
    return values[: len(outs)], dict(zip(final, values[len(outs) :], strict=True))


X = np.array([0.5, -2.0, 3.0, 1.0])
Y = np.array([4.0, 5.0, -6.0, 0.25])


# ---- the worked cases
def test_case_1_two_assignments_in_a_row() -> None:
    x = buffer("x", (1,))
    x1 = assign(x, b.add(x, 1.0))
    x2 = assign(x1, b.mul(x1, 2.0))
    (got,), final = run([x2], {x: [2.0]})
    assert got == [6.0] and final[x] == [6.0]


def test_case_2_two_readers_of_an_assigned_state_both_see_it() -> None:
    x = buffer("x")
    x1 = assign(x, 7.0)
    outs, _ = run([b.add(x1, 1.0), b.mul(x1, 2.0)], {x: X})
    np.testing.assert_array_equal(outs, [[8.0] * 4, [14.0] * 4])


def test_case_3_two_halves_without_an_order() -> None:
    x = buffer("x", (2,))
    lo, hi = (b.slice_axis(x, 0, i, i + 1) for i in (0, 1))
    (got,), _ = run([after(x, store(lo, 1.0), store(hi, 2.0))], {x: [0.0, 0.0]})
    np.testing.assert_array_equal(got, [1.0, 2.0])


def test_case_5_order_alone_changes_no_value() -> None:
    x, state = buffer("x"), buffer("state")
    ordered = after(x, store(state, b.mul(x, 3.0)))
    (got,), final = run([b.add(ordered, x)], {x: X, state: Y})
    np.testing.assert_array_equal(got, 2 * X)
    np.testing.assert_array_equal(final[state], 3 * X)
    assert list(final) == [state]
    assert functionalise([ordered])[0] == [x]  # case 12: so its gradient is that of x


def test_case_6_with_a_snapshot_in_time_gives_the_right_number() -> None:
    x, y = buffer("x"), buffer("y")
    old = b.add(load(y), load(x))
    x1 = assign(x, b.mul(x, 2.0))
    y1 = assign(y, b.add(y, x1))
    (got, new_x, new_y), _ = run([b.add(y1, old), x1, y1], {x: X, y: Y})
    np.testing.assert_array_equal(got, (Y + 2 * X) + (Y + X))
    np.testing.assert_array_equal(new_x, 2 * X)
    np.testing.assert_array_equal(new_y, Y + 2 * X)


def test_case_7_a_read_between_two_assignments() -> None:
    a, c = buffer("a"), buffer("c")
    a1 = assign(a, b.add(c, 1.0))
    v = b.mul(a1, 3.0)
    a2 = assign(a1, b.add(c, 100.0))
    (got,), _ = run([b.add(v, a2)], {a: X, c: Y})
    np.testing.assert_array_equal(got, 3 * (Y + 1) + Y + 100)


def test_case_9_the_same_kernel_twice_with_the_argument_chained() -> None:
    p = [slot_param(i, F, (4,)) for i in range(2)]
    scale = Program(tuple(p), (after(p[0], store(p[0], b.mul(p[1], 3.0))),))
    o, q, x = buffer("o"), buffer("q"), buffer("x")
    first = uop(Op.CALL, (o, x), Call(scale, "kernel"))
    x1 = after(x, first)
    second = uop(Op.CALL, (q, x1), Call(scale, "kernel"))
    outs, final = run([after(o, first), after(q, second), after(x1, second)], {o: X, q: X, x: Y})
    np.testing.assert_array_equal(outs, [3 * Y, 3 * Y, Y])
    assert set(final) == {o, q}


def test_case_10_a_clone_does_not_alias_its_source() -> None:
    x = buffer("x")
    copied = uop(Op.COPY, (x,), "CPU:1")
    clone = load(copied)
    late = assign(copied, 9.0)
    outs, _ = run([clone, late, x], {x: X})
    np.testing.assert_array_equal(outs, [X, [9.0] * 4, X])


def test_case_11_overwriting_with_a_constant_forgets_what_was_there() -> None:
    x = buffer("x")
    y = load(x, "y")
    (pure,), final = functionalise([assign(y, 7.0)])
    assert x not in toposort([pure]) and final == {}


def test_case_13_two_unrelated_stores_leave_the_value_alone() -> None:
    x, s, t = buffer("x"), buffer("s"), buffer("t")
    (pure,), final = functionalise([after(x, store(s, 1.0), store(t, b.mul(x, 2.0)))])
    assert pure is x and set(final) == {s, t}


def test_case_14_a_partial_store_keeps_the_rest() -> None:
    x = buffer("x", (2,))
    y = load(x, "y")
    (got,), _ = run([after(y, store(b.slice_axis(y, 0, 0, 1), 4.0))], {x: [1.0, 2.0]})
    np.testing.assert_array_equal(got, [4.0, 2.0])


def test_case_15_chained_squares_are_three_pure_nodes() -> None:
    x = buffer("x")
    y = load(x, "y")
    y1 = assign(y, b.mul(y, y))
    y2 = assign(y1, b.mul(y1, y1))
    (pure,), _ = functionalise([y2])
    assert len(toposort([pure])) == 3
    (got,), _ = run([y2], {x: X})
    np.testing.assert_array_equal(got, X**4)


def test_case_16_an_in_place_kernel_becomes_a_call_that_returns_the_new_contents() -> None:
    p = slot_param(0, F, (4,))
    rule = object()
    double = Program((p,), (after(p, store(p, b.add(p, p))),))
    x = buffer("x")
    y = load(x, "y")
    call = uop(Op.CALL, (y,), Call(double, "kernel", "double", rule))
    (pure,), _ = functionalise([after(y, call)])
    assert pure.op is Op.GET and pure.src[0].op is Op.CALL and pure.src[0].arg.rule is rule
    (got,), _ = run([after(y, call)], {x: X})
    np.testing.assert_array_equal(got, 2 * X)


def test_a_kernel_whose_body_ends_in_a_store() -> None:
    p = [slot_param(i, F, (4,)) for i in range(2)]
    body = Program(tuple(p), (store(p[0], b.mul(p[1], 2.0), Mode.ADD),))
    o, x = buffer("o"), buffer("x")
    (got,), _ = run([after(o, uop(Op.CALL, (o, x), Call(body, "kernel")))], {o: X, x: Y})
    np.testing.assert_array_equal(got, X + 2 * Y)


# ---- places to write to
M = np.arange(12.0).reshape(3, 4)


def test_stores_through_movement() -> None:
    m, v = buffer("m", (3, 4)), buffer("v", (2, 2))
    view = b.shrink(b.flip(b.permute(m, (1, 0)), [0]), [(1, 2, 1), (0, 2, 2)])
    values = np.array([[10.0, 20.0], [30.0, 40.0]])
    (got,), _ = run([after(m, store(view, v))], {m: M, v: values})
    want = M.copy()
    want.T[::-1][1:3, 0:3:2] = values
    np.testing.assert_array_equal(got, want)
    flat = b.slice_axis(b.reshape(m, (12,)), 0, 3, 9, 2)
    (got,), _ = run([after(m, store(flat, -1.0, Mode.ADD))], {m: M})
    want = M.copy()
    want.reshape(-1)[3:9:2] -= 1
    np.testing.assert_array_equal(got, want)
    bits = b.bitcast(m, dt.int64)
    (got,), _ = run([after(m, store(bits, b.const(0, dt.int64, (3, 4))))], {m: M})
    np.testing.assert_array_equal(got, 0 * M)


@pytest.mark.parametrize(
    ("mode", "f"),
    [(Mode.SET, lambda o, v: v), (Mode.ADD, np.add), (Mode.MUL, np.multiply),
     (Mode.MIN, np.minimum), (Mode.MAX, np.maximum)],
)  # fmt: skip
def test_gates_and_modes(mode: Mode, f: Any) -> None:
    x, y, g = buffer("x"), buffer("y"), open_param(dt.bool_, (4,))
    gate = np.array([True, False, True, True])
    (got,), _ = run([after(x, store(x, y, mode, g))], {x: X, y: Y, g: gate})
    np.testing.assert_array_equal(got, np.where(gate, f(X, Y), X))
    part = b.slice_axis(x, 0, 1, 3)
    half = b.slice_axis(y, 0, 0, 2), b.slice_axis(g, 0, 0, 2)
    (got,), _ = run([after(x, store(part, half[0], mode, half[1]))], {x: X, y: Y, g: gate})
    want = X.copy()
    want[1:3] = np.where(gate[:2], f(X[1:3], Y[:2]), X[1:3])
    np.testing.assert_array_equal(got, want)


def test_computed_places() -> None:
    x, v, i = buffer("x"), buffer("v", (3,)), open_param(dt.int64, (3,))
    idx, values = np.array([2, 9, 2]), np.array([1.0, 2.0, 3.0])
    (got,), _ = run([after(x, store(b.gather(x, i), v))], {x: X, v: values, i: idx})
    np.testing.assert_array_equal(got, [X[0], X[1], 3.0, X[3]])
    (got,), _ = run([after(x, store(b.gather(x, i), v, Mode.ADD))], {x: X, v: values, i: idx})
    np.testing.assert_array_equal(got, [X[0], X[1], X[2] + 4, X[3]])
    at = open_param(dt.int64, ())
    window = b.shrink(x, [(None, 2, 1)], [at])
    (got,), _ = run([after(x, store(window, 0.0))], {x: X, at: 99})
    np.testing.assert_array_equal(got, [X[0], X[1], 0, 0])


def test_writes_through_expanded_views_and_finer_gates_are_refused() -> None:
    x = buffer("x")
    with pytest.raises(OrderingError, match="expanded view of buffer 'x'"):
        functionalise([after(x, store(b.expand(x, [(0, 2)]), 1.0))])
    m, i, g = buffer("m", (3, 4)), open_param(dt.int64, (2,)), open_param(dt.bool_, (2, 4))
    with pytest.raises(NotImplementedError, match="gated more finely"):
        functionalise([after(m, store(b.gather(m, i), 1.0, Mode.SET, g))])


def test_two_tips_of_one_buffer_meet_at_a_join() -> None:
    x = buffer("x", (6,))
    parts = [b.slice_axis(x, 0, 2 * k, 2 * k + 2) for k in range(3)]
    tips = [after(x, store(p, float(k + 1))) for k, p in enumerate(parts)]
    joined = after(tips[2], tips[0], tips[1])
    (got, first), final = run([b.mul(joined, 1.0), tips[0]], {x: np.zeros(6)})
    np.testing.assert_array_equal(got, [1, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(first, [1, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(final[x], got)


def test_orders_between_values_stay() -> None:
    x, ct = buffer("x"), b.sin(buffer("ct"))
    again = after(b.neg(x), ct)
    assert functionalise([again]) == ([again], {})


def test_what_may_alias_is_refused() -> None:
    ext = uop(Op.BUFFER, (), Storage(F, (4,), external=True))
    x = buffer("x")
    with pytest.raises(OrderingError, match="gradient through an aliased write"):
        functionalise([b.add(assign(ext, 1.0), x)])
    p = [slot_param(i, F, (4,)) for i in range(2)]
    both = Program(tuple(p), (after(p[0], store(p[0], 1.0)), after(p[1], store(p[1], 2.0))))
    halves = [b.slice_axis(buffer("w", (8,)), 0, 0, 4)]
    halves.append(b.slice_axis(halves[0].src[0], 0, 4, 8))
    call = uop(Op.CALL, tuple(halves), Call(both, "kernel", "k"))
    check_order([after(halves[0], call)])
    with pytest.raises(OrderingError, match="ambiguous CALL output gradient"):
        functionalise([after(halves[0], call)])


def test_a_long_chain_of_assignments_is_linear_and_does_not_recurse() -> None:
    x = buffer("x")
    y = x
    for _ in range(5000):
        y = assign(y, b.add(y, 1.0))
    (got,), _ = run([y], {x: X})
    np.testing.assert_allclose(got, X + 5000)
    assert gets(uop(Op.TUPLE, (x,)))[0].dtype is F


# ---- the law: raw graphs in program order do what NumPy does
@st.composite
def statements(draw: Any) -> list[tuple[Any, ...]]:
    n = draw(st.integers(1, 10))
    out = []
    for _ in range(n):
        which = draw(st.integers(0, 1))
        where = (draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.booleans()))
        kind = draw(st.sampled_from(("const", "own", "other", "snapshot", "add", "gated")))
        out.append((which, where, kind, draw(st.integers(-3, 3))))
    return out


@settings(max_examples=120)
@given(statements())
def test_program_order_gives_what_numpy_gives(program: list[tuple[Any, ...]]) -> None:
    arrays = [np.arange(9.0).reshape(3, 3), -np.arange(1.0, 10).reshape(3, 3)]
    params = [buffer("p", (3, 3)), buffer("q", (3, 3))]
    env = {p: a.copy() for p, a in zip(params, arrays, strict=True)}
    state = list(params)
    snapshots, seen = [], []
    for which, (row, col, flipped), kind, k in program:

        def view(x: Any, row: int = row, col: int = col, flipped: bool = flipped) -> Any:
            """Rows from `row`, columns from `col`, transposed when `flipped`."""
            if isinstance(x, UOp):
                part = b.shrink(x, [(row, 3 - row, 1), (col, 3 - col, 1)])
                return b.permute(part, (1, 0)) if flipped else part
            return x[row:, col:].T if flipped else x[row:, col:]

        target, array = view(state[which]), view(arrays[which])
        mode, gate = Mode.SET, None
        if kind in ("const", "add"):
            value, new = b.const(k, F, target.shape), np.full(target.shape, float(k))
            mode = Mode.ADD if kind == "add" else mode
        else:
            source = which if kind in ("own", "gated") else 1 - which
            value = b.mul(load(view(state[source])), float(k))
            new = view(arrays[source]) * k
        if kind == "snapshot":
            snapshots.append(load(state[1 - which]))
            seen.append(arrays[1 - which].copy())
        if kind == "gated":
            gate = b.lt(value, 1.0)
            array[...] = np.where(new < 1, new, array)
        else:
            array[...] = array + new if mode is Mode.ADD else new
        write = store(target, value, mode, gate)
        # in program order: later statements come after this write, whichever buffer they touch
        state = [after(x, write, *snapshots[-1:]) for x in state]
    outs, final = run([*state, *snapshots], env)
    for got, want in zip(outs, [*arrays, *seen], strict=True):
        np.testing.assert_array_equal(got, want)
    for p, got in final.items():
        np.testing.assert_array_equal(got, arrays[params.index(p)])
