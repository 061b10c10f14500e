"""The worked cases of the ordering contract, and every row of its tables, as raw graphs inside traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.errors import OrderingError
from fgrad.run.graph import run_graph
from fgrad.trace.tracer import lift
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.accesses import Accesses
from fgrad.uop.node import Storage, UOp, slot_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Program

F = Callable[[Any], Any]
Maybe = UOp | None
X = np.array([2.0, -3.0, 0.5, 1.5])


def store(view: UOp, value: UOp | float, mode: Mode = Mode.SET, gate: UOp | None = None) -> UOp:
    value = value if isinstance(value, UOp) else b.const(value, view.dtype, view.shape)
    return uop(Op.STORE, (view, value) if gate is None else (view, value, gate), mode)


def after(x: UOp, *deps: UOp) -> UOp:
    return uop(Op.AFTER, (x, *deps))


def assign(x: UOp, value: UOp | float) -> UOp:
    return after(x, store(x, value))


def memory(x: UOp, name: str = "") -> UOp:
    """Storage of its own that begins as x."""
    return uop(Op.LOAD, (x,), name)


def part(x: UOp, start: int, stop: int) -> UOp:
    return b.slice_axis(x, 0, start, stop)


def node(x: Any) -> UOp:
    return lift(x).node


def result(*outs: UOp) -> Any:
    """The first value of a graph that asks for all of `outs`."""
    return run_graph(outs)[0]


# ---- kernels
class Gradient:
    """The derivative of a kernel, whose new contents come last among its results."""

    def __init__(self, back: Callable[..., list[Maybe]]) -> None:
        self.back = back

    def grad(self, args: Sequence[UOp], outs: Sequence[UOp], cts: Sequence[Maybe]) -> list[Maybe]:
        ct = cts[-1]
        return [None] * len(args) if ct is None else self.back(args, ct)


P = tuple([slot_param(i, dt.float64, (4,)) for i in range(3)])
ONE_MORE = Program(P, (store(P[0], b.add(P[1], 1.0)),))
ADDED = Program(P, (store(P[0], b.add(P[0], P[1])),))
DOUBLED = Program(P[:1], (store(P[0], b.add(P[0], P[0])),))
READS_TWO = Program(P, (store(P[0], b.mul(P[1], P[2])),))
WRITES_TWO = Program(P[:2], (after(P[0], store(part(P[0], 0, 2), 1.0), store(part(P[1], 2, 4), 2.0)),))
OF_ONE_MORE = Gradient(lambda args, ct: [None, ct, None])
OF_ADDED = Gradient(lambda args, ct: [ct, ct, None])
OF_DOUBLED = Gradient(lambda args, ct: [b.mul(ct, 2.0)])
OF_READS_TWO = Gradient(lambda args, ct: [None, b.mul(ct, args[2]), b.mul(ct, args[1])])
inner = Program(P[:2], (store(P[0], b.add(P[1], 1.0)),))
NESTED = Program(P, (after(P[0], uop(Op.CALL, (P[1], P[0]), Call(inner, "kernel", "inner"))),))
OF_NESTED = Gradient(lambda args, ct: [ct, None, None])


def kernel(body: Program, gradient: Any, *args: UOp) -> UOp:
    return uop(Op.CALL, args, Call(body, "kernel", "k", gradient))


# ---- what is computed: the graph, the same in values
def in_a_row(x: Any) -> Any:
    y = memory(node(x))
    y = assign(y, b.add(y, 1.0))
    return result(assign(y, b.mul(y, 2.0)))


def two_readers(x: Any) -> Any:
    y = assign(y0 := memory(node(x)), b.mul(y0, 3.0))
    return result(b.add(b.add(y, 1.0), b.mul(y, 2.0)))


def halves(x: Any) -> Any:
    n = node(x)
    y = memory(b.zeros_like(n))
    low, high = store(part(y, 0, 2), b.mul(part(n, 2, 4), 2.0)), store(part(y, 2, 4), part(n, 0, 2))
    return result(after(y, low, high))


def an_unrelated_state(x: Any) -> Any:
    n = node(x)
    state = memory(b.zeros_like(n), "state")
    ordered = after(n, store(state, b.mul(n, 3.0)))
    return result(b.add(ordered, n))


def a_snapshot_in_time(x: Any) -> Any:
    n = node(x)
    p, q = memory(n, "p"), memory(b.mul(n, 10.0), "q")
    old = uop(Op.LOAD, (b.add(q, p),), "old")
    p1 = assign(after(p, old), b.mul(p, 2.0))
    q1 = assign(after(q, old), b.add(q, p1))
    return result(b.add(q1, old), p1)


def what_can_be_computed_in_time(x: Any) -> Any:
    """Case 6 as it is written: the sum needs neither write, so it can be computed before both."""
    n = node(x)
    p, q = memory(n, "p"), memory(b.mul(n, 10.0), "q")
    old = b.add(q, p)
    p1 = assign(p, b.mul(p, 2.0))
    q1 = assign(q, b.add(q, p1))
    return result(b.add(q1, old), p1, q1)


def a_read_between(x: Any) -> Any:
    n = node(x)
    a = memory(b.zeros_like(n))
    first = assign(a, b.add(n, 1.0))
    v = b.mul(first, 3.0)
    second = assign(first, b.add(n, 100.0))
    return result(b.mul(v, second))


def a_read_only_argument(x: Any) -> Any:
    n = node(x)
    y, out = memory(n, "y"), memory(b.zeros_like(n), "out")
    call = kernel(ONE_MORE, OF_ONE_MORE, out, y, y)
    same = b.mul(after(y, call), 5.0)  # used before the next write
    y1 = assign(after(y, call), b.mul(y, y))
    return result(b.add(b.mul(after(out, call), same), y1))


def a_kernel_twice(x: Any) -> Any:
    n = node(x)
    p, q = memory(b.zeros_like(n), "p"), memory(b.zeros_like(n), "q")
    first = kernel(ONE_MORE, OF_ONE_MORE, p, n, n)
    chained = after(n, first)
    second = kernel(ONE_MORE, OF_ONE_MORE, q, chained, chained)
    return result(b.mul(b.mul(after(p, first), after(q, second)), after(chained, second)))


def a_clone(x: Any) -> Any:
    y = memory(node(x))
    copy = memory(y, "copy")
    y1 = assign(after(y, copy), b.mul(copy, copy))
    return result(b.add(copy, y1))


def a_constant(x: Any) -> Any:
    return result(assign(memory(node(x)), 7.0))


def unrelated_stores(count: int) -> F:
    def f(x: Any) -> Any:
        n = node(x)
        others = [store(memory(b.zeros_like(n), f"s{i}"), b.mul(n, float(i + 2))) for i in range(count)]
        return result(after(b.mul(n, 1.0), *others))

    return f


def a_partial_store(x: Any) -> Any:
    y = memory(node(x))
    return result(after(y, store(part(y, 0, 1), 4.0)))


def a_partial_store_of_a_value(x: Any) -> Any:
    n = node(x)
    y = memory(n)
    return result(after(y, store(part(y, 0, 2), b.mul(part(n, 2, 4), 5.0))))


def squares(x: Any) -> Any:
    y = memory(node(x))
    for _ in range(2):
        y = assign(y, b.mul(y, y))
    return result(y)


def in_place(x: Any) -> Any:
    y = memory(node(x))
    return result(after(y, kernel(DOUBLED, OF_DOUBLED, y)))


def read_and_written(x: Any) -> Any:
    n = node(x)
    y = memory(b.mul(n, n), "y")
    return result(after(y, kernel(ADDED, OF_ADDED, y, n, n)))


def one_buffer_twice(x: Any) -> Any:
    n = node(x)
    out = memory(b.zeros_like(n))
    return result(after(out, kernel(READS_TWO, OF_READS_TWO, out, n, b.flip(n, [0]))))


def through_the_parameters_of_two_levels(x: Any) -> Any:
    n = node(x)
    y = memory(b.zeros_like(n))
    return result(after(y, kernel(NESTED, OF_NESTED, n, y, n)))


def a_call_that_writes_something_else(x: Any) -> Any:
    n = node(x)
    out = memory(b.zeros_like(n))
    return result(after(b.mul(n, 3.0), kernel(ONE_MORE, OF_ONE_MORE, out, n, n)))


def no_memory_operand(x: Any) -> Any:
    n = node(x)
    nothing = Program(P, (b.const(1.0, dt.float64),))
    return result(after(n, kernel(nothing, Gradient(lambda args, ct: [None] * 3), n, n, n)))


def gated(x: Any) -> Any:
    n = node(x)
    y = memory(n)
    return result(after(y, store(y, b.mul(n, 3.0), Mode.SET, b.lt(b.zeros_like(n), n))))


PLACES = np.array([1, 3, 1, 9])


def computed(mode: Mode) -> F:
    def f(x: Any) -> Any:
        n = node(x)
        y = memory(n)
        return result(after(y, store(b.gather(y, node(PLACES)), b.mul(n, 2.0), mode)))

    return f


def through_views(x: Any) -> Any:
    n = node(x)
    y = memory(n)
    view = b.permute(b.reshape(y, (2, 2)), (1, 0))
    return result(after(y, store(part(view, 1, 2), b.mul(part(view, 1, 2), 10.0), Mode.ADD)))


def into(x: Any, places: Any, values: Any) -> Any:
    return fnp.asarray(x).at[fnp.array(places)].set(values)


CASES: dict[str, tuple[F, F]] = {
    "1 in a row": (in_a_row, lambda x: (x + 1) * 2),
    "2 two readers": (two_readers, lambda x: 9 * x + 1),
    "3 halves": (halves, lambda x: fnp.concatenate([x[2:] * 2, x[:2]])),
    "5 an unrelated state": (an_unrelated_state, lambda x: 2 * x),
    "6 a snapshot": (a_snapshot_in_time, lambda x: 23 * x),
    "6 in time": (what_can_be_computed_in_time, lambda x: 23 * x),
    "7 a read between": (a_read_between, lambda x: 3 * (x + 1) * (x + 100)),
    "8 a read-only argument": (a_read_only_argument, lambda x: (x + 1) * 5 * x + x * x),
    "9 a kernel twice": (a_kernel_twice, lambda x: (x + 1) ** 2 * x),
    "10 a clone": (a_clone, lambda x: x + x * x),
    "11 a constant": (a_constant, lambda x: 0 * x + 7),
    "12 an unrelated store": (unrelated_stores(1), lambda x: x),
    "13 two unrelated stores": (unrelated_stores(2), lambda x: x),
    "14 a part": (a_partial_store, lambda x: into(x, [0], 4.0)),
    "14 a part, of a value": (a_partial_store_of_a_value, lambda x: into(x, [0, 1], x[2:] * 5)),
    "15 chained squares": (squares, lambda x: x**4),
    "16 a kernel in place": (in_place, lambda x: 2 * x),
    "a kernel reads and writes": (read_and_written, lambda x: x * x + x),
    "a kernel reads one buffer twice": (one_buffer_twice, lambda x: x * x[::-1]),
    "through the parameters of two levels": (through_the_parameters_of_two_levels, lambda x: x + 1),
    "a call that writes something else": (a_call_that_writes_something_else, lambda x: 3 * x),
    "a call without memory": (no_memory_operand, lambda x: x),
    "a gate": (gated, lambda x: fnp.where(x > 0, 3 * x, x)),
    "computed places, set": (computed(Mode.SET), lambda x: into(x, [1, 3], 2 * x[np.array([2, 1])])),
    "computed places, add": (computed(Mode.ADD), lambda x: x.at[PLACES[:3]].add(2 * x[:3])),
    "a view": (through_views, lambda x: x * np.array([1.0, 11.0, 1.0, 11.0])),
}


def near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_values(name: str) -> None:
    f, pure = CASES[name]
    x = fnp.asarray(X)
    rows = fnp.asarray(np.stack([X, X[::-1]]))
    near(f(x), pure(x))
    near(x, X)
    one, mapped, looped = fgrad.jit(lambda x, rows: (f(x), fgrad.vmap(f)(rows), lax.map(f, rows)))(X, rows)
    near(one, pure(x))
    for many in (mapped, looped):
        near(many, [pure(r) for r in rows])


@pytest.mark.parametrize("name", CASES)
def test_the_derivatives(name: str) -> None:
    f, pure = CASES[name]

    def loss(g: F) -> F:
        return lambda x: fnp.sum(fnp.sin(g(x)) * np.array([1.0, 2.0, 3.0, 4.0]))

    has_tangents = not any(u.op is Op.CALL for u in fgrad.make_program(f)(X).nodes)  # a kernel's rule has none

    @fgrad.jit
    def derivatives(x: Any) -> Any:
        gradient = fgrad.grad(loss(f))
        twice = fnp.stack([x, x])
        directional = fgrad.jvp(loss(f), (x,), (x,))[1] if has_tangents else 0
        mapped = (*fgrad.vmap(gradient)(twice), *lax.map(gradient, twice))
        return (gradient(x), *mapped), directional, fgrad.jacrev(gradient)(x)

    x = fnp.asarray(X)
    want, hessian = fgrad.jit(lambda x: (fgrad.grad(loss(pure))(x), fgrad.hessian(loss(pure))(x)))(x)
    near(fgrad.grad(loss(f))(x), want)
    gradients, directional, second = derivatives(x)
    near(gradients, [want] * 5)
    near(second, hessian)
    near(directional, (want * x).sum() if has_tangents else 0)


# ---- what is refused, under every interpreter in the same words, and nothing has happened
def two_full_writes(y: UOp, n: UOp) -> list[UOp]:
    return [after(y, store(y, 1.0), store(y, 2.0))]


def the_old_beside_the_new(y: UOp, n: UOp) -> list[UOp]:
    return [b.add(y, assign(y, b.mul(y, 2.0)))]


def an_argument_after_a_later_assign(y: UOp, n: UOp) -> list[UOp]:
    call = kernel(ONE_MORE, OF_ONE_MORE, memory(b.zeros_like(n), "out"), y, n)
    return [b.add(after(y, call), assign(y, 7.0))]


def a_destroyed_version(y: UOp, n: UOp) -> list[UOp]:
    y1 = assign(y, b.mul(y, y))
    return [b.mul(y1, assign(y1, b.mul(y1, y1)))]


def written_through_two_arguments(y: UOp, n: UOp) -> list[UOp]:
    return [after(y, kernel(WRITES_TWO, Gradient(lambda args, ct: [ct, ct]), y, y))]


def opaque(record: Any, *args: UOp) -> UOp:
    return uop(Op.CALL, args, Call(Program(P, (b.const(1.0, dt.float64),)), "opaque", "lib", record))


REFUSED: dict[str, tuple[Callable[[UOp, UOp], list[UOp]], str]] = {
    "4 two full writes": (two_full_writes, "unordered overlapping stores"),
    "6 the old beside the new": (the_old_beside_the_new, "cycle"),
    "8 used after a later assign": (an_argument_after_a_later_assign, "cycle"),
    "a destroyed version": (a_destroyed_version, "cycle"),
    "through two arguments": (written_through_two_arguments, "ambiguous CALL output gradient"),
    "no record": (lambda y, n: [after(y, opaque(None, y, n, n))], "cannot compute accesses"),
    "a slot past the arguments": (
        lambda y, n: [after(y, opaque(Accesses((3,), (0,)), y, n, n))], "invalid CALL access slot 3"),
    "a slot below zero": (
        lambda y, n: [after(y, opaque(Accesses((1,), (-1,)), y, n, n))], "invalid CALL access slot -1"),
    "an aliased argument": (
        lambda y, n: [after(y, opaque(Accesses((1,), (0,)), y, b.flip(y, [0]), n))], "aliased opaque argument"),
}  # fmt: skip
INTERPRETERS: dict[str, Callable[[F], F]] = {
    "eager": lambda f: f,
    "jit": fgrad.jit,
    "grad": lambda f: fgrad.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: fgrad.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: fgrad.vmap(f)(fnp.stack([x, x])),
    "scan": lambda f: lambda x: lax.map(f, fnp.stack([x, x])),
}


@pytest.mark.parametrize("how", INTERPRETERS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_order_is_refused_twice_and_changes_nothing(name: str, how: str) -> None:
    graph, words = REFUSED[name]
    x = fnp.asarray(X)
    state = fgrad.new_ref(X)

    def f(x: Any) -> Any:
        n = node(x)
        value = run_graph(graph(memory(n, "y"), n))[0]
        state[...] = 0.0
        return value

    messages = []
    for _ in range(2):
        with pytest.raises(OrderingError, match=words) as caught:
            INTERPRETERS[how](f)(x)
        messages.append(str(caught.value))
        near(state[...], X)
        near(x, X)
    assert messages[0] == messages[1]


@pytest.mark.parametrize("how", ["eager", "jit", "grad"])
def test_a_write_that_may_alias_is_refused(how: str) -> None:
    external = uop(Op.BUFFER, (), Storage(dt.float64, (4,), fnp.asarray(X), external=True))

    def f(x: Any) -> Any:
        done = after(external, store(external, b.mul(node(x), 2.0)))
        return run_graph([b.mul(done, memory(node(x)))])[0]

    with pytest.raises(OrderingError, match="gradient through an aliased write|write overlapping|cycle"):
        INTERPRETERS[how](f)(fnp.asarray(X))


def test_traced_values_have_no_memory() -> None:
    y = fnp.asarray(X)
    for target in (lambda x: node(x), lambda x: node(y)):
        with pytest.raises(OrderingError, match="a graph inside a traced function writes"):
            fgrad.jit(lambda x: run_graph([assign(target(x), 1.0)])[0])(X)  # noqa: B023
    near(y, X)


def test_what_a_graph_holds_is_kept_in_a_ref() -> None:
    state = fgrad.new_ref(X)

    @fgrad.jit
    def f(x: Any) -> Any:
        n, s = node(x), memory(node(state[...]))
        s1 = assign(s, b.add(s, n))
        doubled, new = run_graph([b.mul(n, 2.0), s1])
        state[...] = new
        return doubled

    for k in (1, 2):
        near(f(X), 2 * X)
        near(state[...], X * (1 + k))


# ---- both accesses and their lines are named
def test_the_error_names_both_accesses_and_their_lines() -> None:
    x = fnp.asarray(X)
    n = node(x)
    write = uop(Op.STORE, (n, b.const(1.0, dt.float64, (4,))), Mode.SET)
    other = uop(Op.STORE, (n, b.const(2.0, dt.float64, (4,))), Mode.SET)
    with pytest.raises(OrderingError) as caught:
        run_graph([b.add(n, after(n, write))])
    here = "test_the_error_names_both_accesses_and_their_lines"
    text = str(caught.value)
    assert "the ADD of float64[4] reads a buffer (float64[4])" in text
    assert f"before the STORE of float64[4] (tests/order/{__name__.rsplit('.', 1)[-1]}.py:" in text
    assert any(here in note for note in caught.value.__notes__)  # of the graph that asks for the read
    with pytest.raises(OrderingError) as caught:
        run_graph([after(n, write, other)])
    assert str(caught.value).count(f"in {here})") == 2
    n1 = after(n, write)
    with pytest.raises(OrderingError, match=rf"the MUL of float64\[4\] \(for .*, in {here}\) reads .*{here}\), but"):
        run_graph([after(n1, uop(Op.STORE, (n1, b.mul(n, n1)), Mode.SET))])
