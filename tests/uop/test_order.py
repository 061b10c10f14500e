"""The ordering contract on raw graphs: which are refused, with which words, and at which cost."""

import time
from itertools import pairwise

import numpy as np
import pytest

from fgrad.errors import OrderingError
from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.accesses import Accesses, accesses
from fgrad.uop.node import Storage, UOp, open_param, slot_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.order import check_order
from fgrad.uop.program import Call, Program
from fgrad.uop.region import Region

F = dt.float64


def buffer(name: str = "b", shape: tuple[int, ...] = (4,)) -> UOp:
    return open_param(F, shape, name)


def store(view: UOp, value: UOp | float, mode: Mode = Mode.SET, gate: UOp | None = None) -> UOp:
    value = value if isinstance(value, UOp) else b.const(value, view.dtype, view.shape)
    return uop(Op.STORE, (view, value) if gate is None else (view, value, gate), mode)


def after(x: UOp, *deps: UOp) -> UOp:
    return uop(Op.AFTER, (x, *deps))


def load(x: UOp) -> UOp:
    return uop(Op.LOAD, (x,))


def half(x: UOp, k: int) -> UOp:
    return b.slice_axis(x, 0, 2 * k, 2 * k + 2)


def refused(outs: list[UOp], *words: str) -> None:
    with pytest.raises(OrderingError) as caught:
        check_order(outs)
    for word in words:
        assert word in str(caught.value)


# ---- clause 3: writes
def test_two_unordered_writes_of_one_buffer_are_refused() -> None:
    x = buffer("state")
    refused([after(x, store(x, 1.0), store(x, 2.0))], "unordered overlapping stores", "'state'")
    refused([after(x, store(x, 1.0)), after(x, store(x, 2.0))], "unordered overlapping stores")


def test_unordered_writes_of_disjoint_halves_are_fine() -> None:
    x = buffer()
    check_order([after(x, store(half(x, 0), 1.0), store(half(x, 1), 2.0))])
    even, odd = (b.shrink(x, [(k, 2, 2)]) for k in (0, 1))
    check_order([after(x, store(even, 1.0), store(odd, 2.0))])
    refused([after(x, store(half(x, 0), 1.0), store(even, 2.0))], "unordered")


def test_one_write_after_the_other_is_fine() -> None:
    x = buffer()
    x1 = after(x, store(x, b.add(x, 1.0)))
    check_order([after(x1, store(x1, b.mul(x1, 2.0)))])


def test_computed_places_count_as_all_that_they_could_be() -> None:
    x, i = buffer(), open_param(dt.int64, ())
    part = b.shrink(x, [(None, 1, 1)], [i])
    refused([after(x, store(part, 1.0), store(half(x, 1), 2.0))], "unordered")
    rows = buffer("rows", (4, 4))
    left = b.shrink(rows, [(None, 1, 1), (0, 2, 1)], [i])
    right = b.shrink(rows, [(None, 1, 1), (2, 2, 1)], [i])
    check_order([after(rows, store(left, 1.0), store(right, 2.0))])
    idx = open_param(dt.int64, (2,))
    refused([after(x, store(b.gather(x, idx), 1.0), store(half(x, 0), 2.0))], "unordered")


# ---- clauses 1, 2, 4: reads
def test_a_read_of_what_a_needed_write_destroys_is_a_cycle() -> None:
    x, y = buffer("x"), buffer("y")
    x1 = after(x, store(x, b.mul(x, 2.0)))
    refused([b.add(x, x1)], "cycle", "'x'", "STORE", "snapshot")
    check_order([b.add(y, x1), x1])  # nobody needs the old x
    check_order([b.add(load(x), x1)])  # a snapshot in time


def test_case_6_needs_a_snapshot() -> None:
    def state(old: UOp) -> list[UOp]:
        x1 = after(x, store(x, b.mul(x, 2.0)))
        y1 = after(y, store(y, b.add(y, x1)))
        return [b.add(y1, old), x1, y1]

    x, y = buffer("x"), buffer("y")
    snapshot = b.mul(load(y), 1.0)
    refused(state(y), "cycle", "'y'")  # the old y itself, wanted beside the new one
    check_order(state(snapshot))
    check_order(state(b.add(y, x)))  # a value: it can be computed before either write


def test_the_message_names_both_source_lines() -> None:
    x = buffer("x")
    write = store(x, 1.0)
    read = b.add(x, after(x, write))
    with pytest.raises(OrderingError, match=r"(?s)m.py:3, in f.*'x'.*m.py:2, in f"):
        check_order([read], {write: "m.py:2, in f", read: "m.py:3, in f"})


def test_a_read_of_another_part_is_not_destroyed() -> None:
    x = buffer()
    x1 = after(x, store(half(x, 0), 1.0))
    check_order([b.add(half(x, 1), half(x1, 0))])
    refused([b.add(half(x, 0), half(x1, 0))], "cycle")
    swapped = after(x, store(half(x, 0), half(x, 1)))
    check_order([swapped])


def test_a_read_may_run_between_two_writes() -> None:
    a, c = buffer("a"), buffer("c")
    a1 = after(a, store(a, b.add(c, 1.0)))
    v = b.mul(a1, 3.0)
    a2 = after(a1, store(a1, b.add(c, 100.0)))
    check_order([b.add(v, a2)])
    refused([b.add(v, b.add(a1, a2))], "cycle")


def test_two_reads_that_each_need_the_others_write_are_a_cycle() -> None:
    x, y = buffer("x"), buffer("y")
    wx = store(x, b.mul(load(y), 2.0))
    wy = store(y, b.mul(load(x), 2.0))
    check_order([after(x, wx), after(y, wy)])  # both loads first
    cross = store(x, b.add(y, 1.0)), store(y, b.add(x, 1.0))
    check_order([after(x, cross[0]), after(y, cross[1])])
    late = store(y, b.add(x, b.mul(after(x, cross[0]), 1.0)))
    refused([after(y, late)], "cycle")


def test_an_order_without_a_write_changes_nothing() -> None:
    x, y = buffer("x"), buffer("y")
    y1 = after(y, store(y, b.mul(x, 3.0)))
    z = after(x, store(y, b.mul(x, 3.0)))
    check_order([b.add(z, x), y1])


def test_reads_through_views_and_afters_keep_their_place() -> None:
    x = buffer("x", (2, 3))
    x1 = after(x, store(x, 1.0))
    transposed = b.permute(x1, (1, 0))
    x2 = after(x1, store(x1, 2.0))
    refused([b.add(b.permute(x2, (1, 0)), transposed)], "cycle")
    check_order([b.add(b.mul(transposed, 2.0), b.permute(x2, (1, 0)))])


def test_accumulating_stores_read_their_target() -> None:
    x = buffer()
    x1 = after(x, store(x, 1.0, Mode.ADD))
    check_order([after(x1, store(x1, 1.0, Mode.ADD))])
    refused([after(x, store(x, 1.0, Mode.ADD), store(x, 2.0, Mode.ADD))], "unordered")


def test_writes_need_storage() -> None:
    refused([after(buffer(), store(b.add(buffer(), 1.0), 2.0))], "has no storage", "clone()")
    y = load(b.add(buffer(), 1.0))
    check_order([after(y, store(y, 2.0))])


# ---- clause 5, 6
def test_a_failing_check_fails_again_the_same_way() -> None:
    x = buffer("x")
    outs = [b.add(x, after(x, store(x, 1.0)))]
    with pytest.raises(OrderingError) as first:
        check_order(outs)
    with pytest.raises(OrderingError) as second:
        check_order(outs)
    assert str(first.value) == str(second.value)


def test_external_memory_may_overlap_any_buffer() -> None:
    ext = uop(Op.BUFFER, (), Storage(F, (4,), external=True))
    own = uop(Op.BUFFER, (), Storage(F, (4,)))
    other = uop(Op.BUFFER, (), Storage(F, (4,)))
    done = after(ext, store(ext, 1.0))
    refused([b.add(done, after(own, store(own, 2.0)))], "unordered")
    refused([b.add(done, own)], "cycle")
    check_order([b.add(done, load(own))])
    small = uop(Op.BUFFER, (), Storage(F, (8,), external=True))
    refused([b.add(after(b.slice_axis(small, 0, 4, 8), store(b.slice_axis(small, 0, 4, 8), 1.0)),
                   after(own, store(own, 2.0)))], "unordered")  # fmt: skip
    first = store(ext, b.mul(own, 2.0))
    late = after(own, store(after(other, first), 1.0))
    refused([b.add(late, own)], "cycle")  # ext, not other, may be what `own` shares its bytes with
    check_order([b.add(late, load(own))])
    check_order([after(own, store(own, 1.0)), after(other, store(other, 2.0))])


# ---- clause 7: calls
def kernel(body: Program, *args: UOp) -> UOp:
    return uop(Op.CALL, args, Call(body, "kernel", "k"))


def body(*outs: UOp, params: tuple[UOp, ...]) -> Program:
    return Program(params, outs)


P = tuple([slot_param(i, F, (4,)) for i in range(3)])
SCALE = body(after(P[0], store(P[0], b.add(P[1], 1.0))), params=P)
INPLACE = body(after(P[0], store(P[0], b.add(P[0], P[1]))), params=P)


def test_accesses_are_computed_from_the_body() -> None:
    args = (buffer("o"), buffer("x"), buffer("u"))
    assert accesses(kernel(SCALE, *args)) == Accesses((1,), (0,))
    assert accesses(kernel(INPLACE, *args)) == Accesses((0, 1), (0,))
    nothing = body(b.const(1.0, F), params=P)
    assert accesses(kernel(nothing, *args)) == Accesses((), ())
    accumulate = body(after(P[0], store(P[0], P[2], Mode.ADD)), params=P)
    assert accesses(kernel(accumulate, *args)) == Accesses((0, 2), (0,))
    assert accesses(uop(Op.COPY, (args[0],), "CPU:1")) == Accesses((0,), ())


def test_nested_calls_resolve_through_each_levels_parameters() -> None:
    inner = body(after(P[0], store(P[0], P[1])), params=P[:2])
    outer = body(after(P[1], kernel(inner, P[1], P[0])), params=P)
    call = kernel(outer, buffer("a"), buffer("b"), buffer("c"))
    assert accesses(call) == Accesses((0,), (1,))


def test_an_opaque_call_must_carry_a_valid_record() -> None:
    x, y = buffer("x"), buffer("y")
    anything = body(b.const(1.0, F), params=P[:2])

    def opaque(rule: object, *args: UOp) -> UOp:
        return uop(Op.CALL, args, Call(anything, "opaque", "lib", rule))

    for _ in range(2):
        refused([after(x, opaque(None, x, y))], "cannot compute accesses", "lib")
    refused([after(x, opaque(Accesses((2,), (0,)), x, y))], "invalid CALL access slot 2")
    refused([after(x, opaque(Accesses((1,), (-1,)), x, y))], "invalid CALL access slot -1")
    refused([after(x, opaque(Accesses((1,), (0,)), x, b.flip(x, [0])))], "aliased opaque argument")
    check_order([after(x, opaque(Accesses((1,), (0,)), x, y))])


def test_case_8_a_read_only_argument_used_after_a_later_assign_is_refused() -> None:
    o, x = buffer("o"), buffer("x")
    x1 = after(x, kernel(SCALE, o, x, o))
    x2 = after(x, store(x, 5.0))
    refused([b.add(x1, x2)], "cycle")
    check_order([b.add(b.mul(x1, 2.0), x2)])


def test_case_9_a_read_only_argument_may_be_chained_through_two_calls() -> None:
    o, p, x = buffer("o"), buffer("p"), buffer("x")
    first = kernel(SCALE, o, x, x)
    second = kernel(SCALE, p, after(x, first), x)
    check_order([b.add(after(o, first), after(p, second)), after(x, second)])


def test_a_call_may_read_one_buffer_twice_but_not_write_what_it_reads() -> None:
    o, x = buffer("o"), buffer("x")
    both = body(after(P[0], store(P[0], b.add(P[1], P[2]))), params=P)
    check_order([after(o, kernel(both, o, x, b.flip(x, [0])))])
    refused([after(o, kernel(both, o, x, b.flip(o, [0])))], "cycle", "through one argument")


# ---- regions
def shown(x: UOp) -> set[int]:
    moves = []
    while x.src:
        moves.append(x)
        x = x.src[0]
    return set(Region(x.shape, moves[::-1]).flat().tolist())


def test_regions_overlap_exactly_where_their_elements_do(rng: np.random.Generator) -> None:
    base = buffer("m", (4, 6))

    def view() -> UOp:
        x = base
        for _ in range(rng.integers(1, 4)):
            how = rng.integers(5)
            if how == 0:
                x = b.permute(x, rng.permutation(x.ndim).tolist())
            elif how == 1:
                box = []
                for n in x.shape:
                    step = int(rng.integers(1, 3))
                    size = int(rng.integers(1, (n - 1) // step + 2))
                    box.append((int(rng.integers(0, n - (size - 1) * step)), size, step))
                x = b.shrink(x, box)
            elif how == 2:
                x = b.flip(x, [int(rng.integers(x.ndim))])
            elif how == 3:
                x = b.reshape(x, x.shape[::-1] if rng.integers(2) else (*x.shape, 1))
            else:
                x = b.expand(x, [(0, 2)])
        return x

    seen = set()
    for _ in range(300):
        v, w = view(), view()
        regions = []
        for x in (v, w):
            moves = []
            while x is not base:
                moves.append(x)
                x = x.src[0]
            regions.append(Region(base.shape, moves[::-1]))
        elements = [shown(v), shown(w)]
        assert regions[0].overlaps(regions[1]) == bool(elements[0] & elements[1])
        assert all(r.lo <= min(e) and max(e) < r.hi for r, e in zip(regions, elements, strict=True))
        assert regions[0].is_whole == (len(elements[0]) == 24)
        seen.add(regions[0].axes is None)
    assert seen == {False, True}


# ---- cost
@pytest.mark.parametrize("how", ["chain", "disjoint", "ring"])
def test_the_check_is_near_linear(how: str) -> None:
    def graph(n: int) -> list[UOp]:
        x = buffer("x", (n,))
        if how == "disjoint":
            stores = [store(b.slice_axis(x, 0, i, i + 1), float(i)) for i in range(n)]
            return [after(x, *stores)]
        for i in range(n):
            if how == "chain":
                x = after(x, store(x, b.add(x, 1.0)))
            else:
                part = b.slice_axis(x, 0, (i * 7) % n, (i * 7) % n + 1)
                x = after(x, store(b.slice_axis(x, 0, i, i + 1), b.mul(part, 2.0)))
        return [x]

    times = []
    for n in (1000, 4000):
        outs = graph(n)
        started = time.process_time()
        check_order(outs)
        times.append(time.process_time() - started)
    for short, long in pairwise(times):
        assert long < 12 * short + 0.05


# ---- computed places, in every mixture with other views
def at(x: UOp, start: UOp, size: int = 1) -> UOp:
    """The part of the first axis that begins at a computed place."""
    return b.shrink(x, [(None, size, 1), *[(0, n, 1) for n in x.shape[1:]]], [start])


def test_a_cut_of_a_computed_place_may_lie_anywhere() -> None:
    x, start = buffer(), open_param(dt.int64, (), "start")
    first_of_two = b.slice_axis(at(x, start, 2), 0, 0, 1)  # element 0, 1 or 2
    reversed_ = b.slice_axis(b.flip(at(x, start, 2), (0,)), 0, 0, 1)  # element 1, 2 or 3
    for part in (first_of_two, reversed_):
        for k in (1, 2):
            refused([after(x, store(part, 1.0), store(b.slice_axis(x, 0, k, k + 1), 2.0))], "unordered")


def test_computed_places_are_compared_with_views_that_mix_axes() -> None:
    x, start = buffer(shape=(2, 3)), open_param(dt.int64, (), "start")
    mixed = b.slice_axis(b.reshape(x, (6,)), 0, 2, 4)
    index = open_param(dt.int32, (1,), "index")
    targets = [
        at(x, start),
        at(b.reshape(x, (6,)), start),
        b.gather(x, index),
        b.gather(b.reshape(x, (6,)), index),
    ]
    for target in targets:
        refused([after(x, store(target, 1.0), store(mixed, 2.0))], "unordered")
        check_order([after(x, store(target, 1.0), store(b.slice_axis(mixed, 0, 0, 0), 2.0))])


def test_a_view_without_elements_overlaps_nothing() -> None:
    x, start = buffer(shape=()), open_param(dt.int64, (), "start")
    nothing = b.slice_axis(b.expand(x, [(0, 3)]), 0, 0, 0)
    check_order([after(x, store(x, 1.0), store(nothing, 2.0))])
    y = buffer()
    check_order([after(y, store(y, 1.0), store(at(y, start, 0), 2.0))])


def test_the_inside_of_a_kernel_owes_an_order_too() -> None:
    x = buffer()
    p = slot_param(0, F, (4,))
    unordered = Program((p,), (after(p, store(p, 1.0), store(half(p, 0), 2.0)),))
    inner = uop(Op.CALL, (p,), Call(unordered, "kernel", "inner"))
    outer = Program((p,), (after(p, inner),))
    for body in (unordered, outer):
        refused([after(x, uop(Op.CALL, (x,), Call(body, "kernel", "k")))], "unordered overlapping stores")
    new = after(p, store(p, 1.0))
    body = Program((p,), (after(new, store(new, b.add(p, new))),))
    refused([after(x, uop(Op.CALL, (x,), Call(body, "kernel", "k")))], "cycle")


def test_what_is_asked_for_is_read_where_it_stands() -> None:
    x, y = buffer("x"), buffer("y")
    y_written = after(y, store(y, 1.0))
    x_written = after(x, store(x, y))  # sees the old y
    check_order([y_written, x_written, x])
    refused([after(x, y_written), x_written], "cycle", "'x'")  # the old x, but after the write that needs it gone
    check_order([load(after(x, x_written)), x_written])
