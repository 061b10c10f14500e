"""The worked cases of the ordering contract, as raw graphs over the memory of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad.errors import OrderingError
from fgrad.run.graph import run_graph
from fgrad.uop import build as b
from fgrad.uop.node import UOp, slot_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Program


def store(view: UOp, value: UOp | float, mode: Mode = Mode.SET) -> UOp:
    value = value if isinstance(value, UOp) else b.const(value, view.dtype, view.shape)
    return uop(Op.STORE, (view, value), mode)


def after(x: UOp, *deps: UOp) -> UOp:
    return uop(Op.AFTER, (x, *deps))


def assign(x: UOp, value: UOp | float) -> UOp:
    return after(x, store(x, value))


def load(x: UOp, name: str = "") -> UOp:
    return uop(Op.LOAD, (x,), name)


def array(*values: float) -> Any:
    return fnp.array(np.array(values, np.float32))


def adds_one(target: UOp, source: UOp) -> tuple[UOp, UOp]:
    """A kernel target := source + 1, called on both: -> its arguments after it."""
    p, q = slot_param(0, target.dtype, target.shape), slot_param(1, source.dtype, source.shape)
    body = Program((p, q), (after(p, store(p, b.add(q, 1.0))),))
    call = uop(Op.CALL, (target, source), Call(body, "kernel", "adds_one"))
    return after(target, call), after(source, call)


def test_case_1_assignments_in_a_row() -> None:
    x = array(2)
    n = x.as_node()
    n = assign(n, b.add(n, 1.0))
    (got,) = run_graph([assign(n, b.mul(n, 2.0))])
    assert got.tolist() == [6] and x.tolist() == [6]


def test_case_2_two_readers_of_an_assigned_state() -> None:
    x = array(1)
    n = assign(x.as_node(), 5.0)
    got = run_graph([b.add(n, 1.0), b.mul(n, 2.0)])
    assert [g.tolist() for g in got] == [[6], [10]]


def test_case_3_halves_without_an_order() -> None:
    x = array(0, 0)
    n = x.as_node()
    lo, hi = b.slice_axis(n, 0, 0, 1), b.slice_axis(n, 0, 1, 2)
    (got,) = run_graph([after(n, store(lo, 1.0), store(hi, 2.0))])
    assert got.tolist() == [1, 2]


def test_case_4_two_full_unordered_writes() -> None:
    x = array(0, 0)
    n = x.as_node()
    with pytest.raises(OrderingError, match="unordered overlapping stores"):
        run_graph([after(n, store(n, 1.0), store(n, 2.0))])
    assert x.tolist() == [0, 0]


def test_case_5_an_order_changes_no_value() -> None:
    x, state = array(1, 2), array(0, 0)
    n, s = x.as_node(), state.as_node()
    ordered = after(n, store(s, b.mul(n, 3.0)))
    (got,) = run_graph([b.add(ordered, n)])
    assert got.tolist() == [2, 4] and state.tolist() == [3, 6] and x.tolist() == [1, 2]


def sixth(snapshot: bool) -> tuple[Any, Any, list[UOp]]:
    """The old y is wanted beside the new one, which needs the new x."""
    x, y = array(1), array(10)
    n, m = x.as_node(), y.as_node()
    old = load(m) if snapshot else m
    n = assign(n, b.mul(n, 2.0))
    m2 = assign(after(m, old) if snapshot else m, b.add(m, n))
    return x, y, [b.add(m2, old), n, m2]


def test_case_6_what_a_needed_write_destroys() -> None:
    x, y, outs = sixth(snapshot=False)
    with pytest.raises(RuntimeError, match="cycle"):
        run_graph(outs)
    assert x.tolist() == [1] and y.tolist() == [10]
    x, y, outs = sixth(snapshot=True)
    assert run_graph(outs)[0].tolist() == [22]
    assert x.tolist() == [2] and y.tolist() == [12]


def test_case_7_a_read_between_two_assignments() -> None:
    a, c = array(0), array(3)
    n, m = a.as_node(), c.as_node()
    first = assign(n, b.add(m, 1.0))
    v = load(b.mul(first, 3.0))
    second = after(first, v)
    second = assign(second, b.add(m, 100.0))
    got = run_graph([v, second, b.add(v, second)])
    assert [g.tolist() for g in got] == [[12], [103], [115]]


def test_case_8_a_read_only_argument_used_after_a_later_assign() -> None:
    x, out = array(1), array(0)
    n = x.as_node()
    made, same = adds_one(out.as_node(), n)
    (got,) = run_graph([b.add(made, same)])
    assert got.tolist() == [3] and x.tolist() == [1] and out.tolist() == [2]
    made, same = adds_one(out.as_node(), n)
    with pytest.raises(OrderingError, match="cycle"):
        run_graph([b.add(same, assign(n, 7.0)), made])
    assert x.tolist() == [1]


def test_case_9_a_kernel_twice_with_the_argument_chained() -> None:
    x, p, q = array(1), array(0), array(0)
    first, n = adds_one(p.as_node(), x.as_node())
    second, n = adds_one(q.as_node(), n)
    got = run_graph([first, second, n])
    assert [g.tolist() for g in got] == [[2], [2], [1]] and x.tolist() == [1]


@pytest.mark.parametrize("realised_first", [False, True])
def test_case_10_a_clone_does_not_alias(realised_first: bool) -> None:
    x = array(1, 2)
    n = x.as_node()
    clone = load(n)
    if realised_first:
        (kept,) = run_graph([clone])
        run_graph([assign(n, 9.0)])
        assert kept.tolist() == [1, 2]
    else:
        kept, _ = run_graph([clone, assign(after(n, clone), 9.0)])
        assert kept.tolist() == [1, 2] and x.tolist() == [9, 9]


def test_case_14_a_partial_store() -> None:
    x = array(5, 6)
    n = x.as_node()
    (got,) = run_graph([after(n, store(b.slice_axis(n, 0, 0, 1), 4.0))])
    assert got.tolist() == [4, 6]


def test_case_17_a_graph_can_be_run_again() -> None:
    x = array(3)
    n = x.as_node()
    y = b.mul(n, n)
    assert run_graph([y])[0].tolist() == [9]
    assert run_graph([assign(n, y)])[0].tolist() == [9] and x.tolist() == [9]
    assert run_graph([y])[0].tolist() == [81]


def test_case_18_a_failure_fails_again_and_replaces_nothing() -> None:
    x, y, outs = sixth(snapshot=False)
    messages = []
    for _ in range(2):
        with pytest.raises(OrderingError) as e:
            run_graph(outs)
        messages.append(str(e.value))
    assert messages[0] == messages[1] and "cycle" in messages[0]
    assert x.tolist() == [1] and y.tolist() == [10]


def test_what_numpy_saw_stays_as_it_was() -> None:
    x = array(1, 2)
    view = np.asarray(x)
    run_graph([assign(x.as_node(), 5.0)])
    kept = [fnp.zeros(2), fnp.ones(2)]  # would take the memory that NumPy looks at, were it free
    assert len(kept) == 2
    assert view.tolist() == [1, 2] and x.tolist() == [5, 5]


def test_two_nodes_of_one_array_are_one_buffer() -> None:
    x = array(1, 2)
    with pytest.raises(OrderingError, match="unordered overlapping stores"):
        run_graph([assign(x.as_node(), 1.0), assign(x.as_node(), 2.0)])


def test_writes_through_views() -> None:
    x = fnp.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    n = x.as_node()
    part = b.slice_axis(b.permute(n, (1, 0)), 0, 1, 3)
    run_graph([after(n, store(part, b.mul(part, 10.0), Mode.ADD))])
    assert x.tolist() == [[0, 11, 22], [3, 44, 55]]
