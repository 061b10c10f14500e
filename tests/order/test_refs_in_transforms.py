"""Refs as arguments, operands, slices and closures, under every transformation and in every nesting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import checkpoint, custom_jvp, custom_vjp, grad, jit, lax, new_ref, value_and_grad, vjp, vmap
from fgrad.errors import ArgumentError, DtypeError, LeakedTracerError, OrderingError, VmapAxisError

F = Callable[..., Any]
ROOM = 64


# ---- the order of what the rules of custom functions write
class Diary:
    """Two Refs, in which `step` notes its number: as it is in the forward pass, negative in the backward pass."""

    def __init__(self, are_arguments: bool) -> None:
        self.entries = new_ref(np.zeros(ROOM, np.int64))
        self.end = new_ref(0)
        write = self.write

        def through_arguments() -> F:
            @custom_vjp
            def step(k: Any, x: Any, entries: Any, end: Any) -> Any:
                write(entries, end, k)
                return fnp.sin(x)

            def forward(k: Any, x: Any, entries: Any, end: Any) -> Any:
                write(entries, end, k)
                return fnp.sin(x), (k, x, entries, end)

            def backward(kept: Any, ct: Any) -> Any:
                k, x, entries, end = kept
                write(entries, end, -k)
                return None, ct * fnp.cos(x), None, None

            step.defvjp(forward, backward)
            return lambda k, x: step(k, x, self.entries, self.end)

        def through_closures() -> F:
            @custom_vjp
            def step(k: Any, x: Any) -> Any:
                write(self.entries, self.end, k)
                return fnp.sin(x)

            def forward(k: Any, x: Any) -> Any:
                write(self.entries, self.end, k)
                return fnp.sin(x), (k, x)

            def backward(kept: Any, ct: Any) -> Any:
                k, x = kept
                write(self.entries, self.end, -k)
                return None, ct * fnp.cos(x)

            step.defvjp(forward, backward)
            return step

        self.step = through_arguments() if are_arguments else through_closures()

    @staticmethod
    def write(entries: Any, end: Any, k: Any) -> None:
        entries[end[...]] = k
        end[...] += 1

    def read(self) -> list[int]:
        """What was noted since the last time."""
        noted = np.asarray(self.entries[...])[: int(self.end[...])].tolist()
        self.end[...] = 0
        return noted


def in_a_row(step: F, x: Any) -> Any:
    return step(2, step(1, x))


def looped(step: F, x: Any) -> Any:
    return lax.fori_loop(1, 4, step, x)


def looped_backwards(step: F, x: Any) -> Any:
    return lax.scan(lambda x, k: (step(k, x), None), x, fnp.arange(1, 4), reverse=True)[0]


def loop_in_a_loop(step: F, x: Any) -> Any:
    def outer(x: Any, k: Any) -> Any:
        return lax.fori_loop(0, 2, lambda i, x: step(10 * k + i, x), x), None

    return lax.scan(outer, x, fnp.arange(1, 3))[0]


def branch(step: F, x: Any) -> Any:
    return lax.cond(x > 0, lambda x: step(2, step(1, x)), lambda x: step(3, x), x)


def branches_in_a_loop(step: F, x: Any) -> Any:
    return lax.fori_loop(0, 4, lambda i, x: lax.switch(i, [lambda x: x, lambda x: step(1, x), lambda x: step(2, x)], x),
                         x)  # fmt: skip


def while_it_is_small(step: F, x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, step(c[0], c[1])), (1, x), max_steps=6)[1]


def computed_again(step: F, x: Any) -> Any:
    return checkpoint(lambda x: step(2, step(1, x)))(x)


def computed_again_in_a_loop(step: F, x: Any) -> Any:
    return lax.scan(lambda x, k: (step(k, x), None), x, fnp.arange(1, 6), checkpoint="sqrt")[0]


def nested_functions(step: F, x: Any) -> Any:
    return jit(lambda x: step(2, jit(lambda x: step(1, x))(x)))(x)


PROGRAMS: dict[str, tuple[F, list[int]]] = {
    "in a row": (in_a_row, [1, 2]),
    "a loop": (looped, [1, 2, 3]),
    "a loop backwards": (looped_backwards, [3, 2, 1]),
    "a loop in a loop": (loop_in_a_loop, [10, 11, 20, 21]),
    "a branch": (branch, [1, 2]),
    "branches in a loop": (branches_in_a_loop, [1, 2, 2]),
    "while": (while_it_is_small, [1, 2, 3]),
    "a checkpoint": (computed_again, [1, 2]),
    "checkpoints in a loop": (computed_again_in_a_loop, [1, 2, 3, 4, 5]),
    "nested functions": (nested_functions, [1, 2]),
}


CASES = [(name, True) for name in PROGRAMS] + [(name, False) for name in ("a loop", "a checkpoint")]


@pytest.mark.parametrize(("name", "are_arguments"), CASES)
def test_rules_write_refs_in_the_order_of_their_pass(name: str, are_arguments: bool) -> None:
    program, order = PROGRAMS[name]
    diary = Diary(are_arguments)

    def f(x: Any) -> Any:
        return program(diary.step, x)

    def plain(x: Any) -> Any:
        return program(lambda k, x: fnp.sin(x), x)

    back = [-k for k in reversed(order)]
    x = np.float64(0.7)
    want, want_grad = value_and_grad(plain)(x)
    for run in (f, jit(f)):
        np.testing.assert_allclose(run(x), want)
        assert diary.read() == order
    got, got_grad = value_and_grad(f)(x)
    np.testing.assert_allclose(got, want)
    np.testing.assert_allclose(got_grad, want_grad, rtol=1e-12)
    assert diary.read() == order + back
    value, pullback = vjp(f, x)
    assert diary.read() == order
    for _ in range(2):
        np.testing.assert_allclose(pullback(np.float64(1))[0], want_grad, rtol=1e-12)
        assert diary.read() == back
    both = jit(lambda x: (grad(f)(x), lax.map(grad(f), fnp.stack([x, x]))))(x)
    np.testing.assert_allclose(fnp.append(*both), [want_grad] * 3, rtol=1e-12)
    assert diary.read() == (order + back) * 3


def test_a_second_derivative_writes_once_for_each_pass_of_the_first() -> None:
    diary = Diary(are_arguments=True)
    got = grad(grad(lambda x: diary.step(2, diary.step(1, x))))(np.float64(0.7))
    want = grad(grad(lambda x: fnp.sin(fnp.sin(x))))(np.float64(0.7))
    np.testing.assert_allclose(got, want)
    assert diary.read() == [1, 2, -2, -1]  # the rules are differentiated, not their writes


def test_callbacks_in_rules_run_in_the_order_of_their_pass() -> None:
    heard: list[str] = []

    @custom_vjp
    def speak(x: Any) -> Any:
        return x

    def forward(x: Any) -> Any:
        fgrad.debug.callback(lambda v: heard.append(f"> {float(v):.0f}"), x)
        return x, None

    def backward(_: None, ct: Any) -> Any:
        fgrad.debug.callback(lambda v: heard.append(f"< {float(v):.0f}"), ct)
        return (ct,)

    speak.defvjp(forward, backward)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 2, lambda i, x: 3 * speak(x), x)

    for derived in (grad(f), jit(grad(f))):
        assert derived(2.0) == 9
        fgrad.block_until_ready(fgrad.numpy.zeros(1))
        assert heard == ["> 2", "> 6", "< 3", "< 9"]
        heard.clear()


# ---- plumbing: cotangents out of the backward pass
@custom_vjp
def stash(ref: Any, x: Any) -> Any:
    """x; in the backward pass its cotangent is left in `ref`."""
    return x


def _stash(ref: Any, ct: Any) -> Any:
    ref[...] = ct
    return None, ct


stash.defvjp(lambda ref, x: (x, ref), _stash)


def test_a_cotangent_is_left_in_a_ref() -> None:
    r = new_ref(np.float64(0))

    def f(x: Any) -> Any:
        return fnp.sin(stash(r, fnp.sin(x)))

    for derived in (grad(f), jit(grad(f)), grad(checkpoint(f))):
        r[...] = 0.0
        derived(np.float64(1))
        np.testing.assert_allclose(r[...], np.cos(np.sin(1)))
    with pytest.raises(VmapAxisError, match="batched value is stored"):
        vmap(grad(f))(np.ones(3))


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_every_step_and_every_member_leaves_its_cotangent_in_its_slice(wrap: F) -> None:
    w = np.array([1.0, 0.5, 2.0])

    def layers(kept: Any, w: Any) -> Any:
        def layer(x: Any, both: Any) -> Any:
            ref, w = both
            return stash(ref, fnp.sin(x * w)), None

        return lax.scan(layer, np.float64(1), (kept, w))[0]

    def members(kept: Any, w: Any) -> Any:
        return vmap(lambda ref, w: fnp.sin(stash(ref, fnp.sin(w))))(kept, w).sum()

    kept = new_ref(np.zeros(3))
    wrap(grad(lambda w: layers(kept, w)))(w)
    x, outs = 1.0, []
    for v in w:
        x = np.sin(x * v)
        outs.append(x)
    want = [1.0]
    for k in (2, 1):  # d out / d the output of the layer before
        want.insert(0, want[0] * np.cos(outs[k - 1] * w[k]) * w[k])
    np.testing.assert_allclose(kept[...], want)
    wrap(grad(lambda w: members(kept, w)))(w)
    np.testing.assert_allclose(kept[...], np.cos(np.sin(w)))


def test_a_ref_of_integers_goes_through_the_backward_pass_exactly() -> None:
    start = 2**62 + 12345
    for dtype, begin in ((np.int64, start), (np.uint64, start), (np.int8, -100), (np.bool_, True)):
        r = new_ref(dtype(begin))

        @custom_vjp
        def f(x: Any, r: Any) -> Any:
            return x

        def back(r: Any, ct: Any) -> Any:
            r[...] = ~r[...]  # noqa: B023
            return ct, None

        f.defvjp(lambda x, r: (x, r), back)
        grad(lambda x: f(f(f(x, r), r), r))(1.0)  # noqa: B023
        assert r[...] == ~dtype(begin) and r.dtype == dtype


def test_the_contents_of_a_ref_have_a_cotangent() -> None:
    @custom_vjp
    def f(ref: Any, x: Any) -> Any:
        return ref[...] * x

    f.defvjp(lambda ref, x: (ref[...] * x, (ref[...], x)), lambda kept, ct: (10 * ct * kept[1], ct * kept[0]))

    def g(x: Any, y: Any) -> Any:
        r = new_ref(x)
        out = f(r, y)
        return out + r[...]  # the Ref is as it was, and so is what it contributes

    for derived in (grad(g, (0, 1)), jit(grad(g, (0, 1)))):
        np.testing.assert_allclose(derived(2.0, 3.0), (31, 2))


def test_what_a_forward_rule_has_written_has_no_derivative() -> None:
    @custom_vjp
    def f(ref: Any, x: Any) -> Any:
        ref[...] = x
        return x

    f.defvjp(lambda ref, x: (f(ref, x), None), lambda _, ct: (None, ct))
    r = new_ref(0.0)
    assert grad(lambda x: f(r, x))(3.0) == 1 and r[...] == 3
    with pytest.raises(NotImplementedError, match="forward rule of f has written to a Ref"):
        grad(lambda x: f(r, x) + r[...])(3.0)


def test_jvp_rules_see_refs_and_their_tangents() -> None:
    seen = new_ref(np.float64(0))

    @custom_jvp
    def f(ref: Any, x: Any) -> Any:
        seen[...] += 1
        ref[...] = ref[...] * x
        return x

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (ref, x), (dref, dx) = primals, tangents
        seen[...] += 10
        old = ref[...]
        ref[...] = old * x
        dref[...] = dref[...] * x + old * dx
        return x, dx

    def g(x: Any) -> Any:
        r = new_ref(x)
        return f(r, x) * r[...]  # x**3

    np.testing.assert_allclose(fgrad.jvp(g, (2.0,), (1.0,)), (8, 12))
    assert seen[...] == 10
    for derived in (grad(g), jit(grad(g)), fgrad.jacfwd(g)):
        np.testing.assert_allclose(derived(2.0), 12)
    np.testing.assert_allclose(grad(grad(g))(2.0), 12)
    assert g(2.0) == 8 and seen[...] == 51


def test_a_ref_made_inside_ends_before_the_backward_pass() -> None:
    with pytest.raises(OrderingError, match="backward rule of stash uses a Ref that was made inside"):
        grad(lambda x: stash(new_ref(0.0), x))(1.0)
    assert stash(new_ref(0.0), 1.0) == 1 and jit(lambda x: stash(new_ref(0.0), x))(1.0) == 1


def test_residuals_may_hold_only_refs_that_were_given() -> None:
    @custom_vjp
    def f(x: Any) -> Any:
        return x

    f.defvjp(lambda x: (x, new_ref(x)), lambda r, ct: (ct,))
    with pytest.raises(ArgumentError, match="forward rule of f returned a Ref"):
        grad(f)(1.0)


# ---- slices, operands, carries
def running(cells: Any, xs: Any) -> Any:
    def step(total: Any, both: Any) -> Any:
        cell, x = both
        cell[...] += total * x
        return total + cell[...], cell[...] * 2

    return lax.scan(step, xs[0] * 0, (cells, xs))


def running_in_values(cells: Any, xs: Any) -> Any:
    def step(total: Any, both: Any) -> Any:
        cell, x = both
        cell = cell + total * x
        return total + cell, (cell * 2, cell)

    total, (ys, cells) = lax.scan(step, xs[0] * 0, (cells, xs))
    return total, ys, cells


def test_each_step_of_a_scan_has_its_slice_of_a_ref() -> None:
    cells, xs = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])

    def f(cells: Any, xs: Any) -> Any:
        r = new_ref(cells)
        total, ys = running(r, xs)
        return total, ys, r[...]

    def loss(g: F) -> F:
        return lambda *args: sum([(a * a).sum() for a in g(*args)])

    want = running_in_values(cells, xs)
    many = [np.stack([a, 2 * a]) for a in (cells, xs)]
    for run in (f, jit(f)):
        for got, value in zip(run(cells, xs), want, strict=True):
            np.testing.assert_allclose(got, value)
    for got, value in zip(vmap(f)(*many), vmap(running_in_values)(*many), strict=True):
        np.testing.assert_allclose(got, value)
    wanted = grad(loss(running_in_values), (0, 1))(cells, xs)
    for derived in (grad(loss(f), (0, 1)), jit(grad(loss(f), (0, 1))), fgrad.jacfwd(loss(f), (0, 1))):
        for got, value in zip(derived(cells, xs), wanted, strict=True):
            np.testing.assert_allclose(got, value)
    outer = new_ref(cells)
    total, _ = jit(running)(outer, xs)
    np.testing.assert_allclose(outer[...], want[2])
    np.testing.assert_allclose(total, want[0])


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_each_member_of_a_vmap_has_its_slice_of_a_ref(wrap: F) -> None:
    def distance(x: Any, y: Any, out: Any) -> None:
        out[...] = fnp.sum((x - y) ** 2)

    x = np.arange(12.0).reshape(3, 4)
    for axes in (((None, 0, 0), (0, None, 0)), ((0, None, 0), (None, 0, 1))):
        out = new_ref(np.zeros((3, 3)))
        wrap(vmap(vmap(distance, axes[0]), axes[1]))(x, x * 2, out)
        want = ((x[:, None] - 2 * x[None]) ** 2).sum(-1)
        np.testing.assert_allclose(out[...], want)
    shared, cells = new_ref(10), new_ref(np.arange(3))
    wrap(vmap(lambda cell: cell.addupdate(..., shared[...])))(cells)
    assert cells[...].tolist() == [10, 11, 12]
    wrap(vmap(lambda cell: cell.__setitem__(..., 7)))(cells)
    assert cells[...].tolist() == [7, 7, 7]


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_refs_are_operands_of_branches_and_carries_of_loops(wrap: F) -> None:
    def f(r: Any, x: Any) -> Any:
        y = lax.cond(x > 0, lambda r, x: r.addupdate(..., x) or x, lambda r, x: -x, r, x)
        y += lax.switch(1, [lambda q: 0.0, lambda q: q["r"][...]], {"r": r})

        def body(c: Any) -> Any:
            c["r"][...] *= 2
            return {"i": c["i"] + 1, "r": c["r"]}

        last = lax.while_loop(lambda c: (c["i"] < 3) & (c["r"][...] < 100), body, {"i": 0, "r": r})
        same, _ = lax.scan(lambda r, _: (r.addupdate(..., 1) or r, None), last["r"], length=2)
        return y + same[...] + lax.fori_loop(0, 2, lambda i, q: q, r)[...]

    r = new_ref(np.float64(1))
    assert wrap(f)(r, np.float64(3)) == 3 + 4 + 2 * (4 * 8 + 2) and r[...] == 34


def test_a_pullback_adds_into_refs() -> None:
    total, of_b = new_ref(np.float64(0)), new_ref(np.zeros(2))
    p = {"a": np.float64(3), "b": np.array([1.0, 2.0])}
    pullback = vjp(lambda p, x: p["a"] * x + p["b"].sum(), p, np.float64(2))[1]
    add = pullback.with_refs({"a": total, "b": of_b}, None)
    for k in (1, 2):
        assert add(np.float64(1)) == ({"a": None, "b": None}, 3)
        assert total[...] == 2 * k and of_b[...].tolist() == [k, k]

    @jit
    def accumulated(w: Any, batches: Any) -> Any:
        gradient = new_ref(fnp.zeros_like(w))

        def one(_: None, x: Any) -> Any:
            loss, pullback = vjp(lambda w: ((w * x) ** 2).sum(), w)
            pullback.with_refs(gradient)(fnp.ones_like(loss))
            return None, loss

        losses = lax.scan(one, None, batches)[1]
        return losses.sum(), gradient[...]

    w, batches = np.array([1.0, -2.0]), np.arange(6.0).reshape(3, 2)
    loss, gradient = accumulated(w, batches)
    np.testing.assert_allclose(gradient, (2 * w * batches**2).sum(0))


def test_refs_among_the_primals_of_vjp_are_not_differentiated() -> None:
    r = new_ref(np.float64(5))

    def f(x: Any, r: Any) -> Any:
        r[...] += 1
        return x * r[...]

    value, pullback = vjp(f, np.float64(2), r)
    assert value == 12 and r[...] == 6 and pullback(np.float64(1)) == (6, None)


# ---- making, ending, parts
def test_an_empty_ref_is_written_before_it_is_read() -> None:
    @jit
    def f(x: Any) -> Any:
        r = fgrad.empty_ref(fgrad.ShapeDtypeStruct((), "float64"))
        r[...] = 2 * x
        out = r[...]
        fgrad.free_ref(r)
        return out

    assert f(np.float64(3)) == 6 and grad(f)(np.float64(3)) == 2
    r = fgrad.empty_ref(fnp.ones(3))
    assert r.shape == (3,) and r.dtype == np.float32
    fgrad.free_ref(r)
    for use in (lambda: fgrad.free_ref(r), lambda: r[...]):
        with pytest.raises(OrderingError, match="frozen"):
            use()


def test_a_part_of_a_ref_is_read_and_written_like_a_ref() -> None:
    def f(x: Any) -> Any:
        r = new_ref(fnp.ones(5))
        part = r.at[1:4]
        part[...] += x
        part[0] *= 3
        part.at[1:].addupdate(..., 1)
        part.addupdate(fnp.array([0, 0]), 1)
        assert part.shape == (3,) and part.dtype == np.float32
        old = part.swap(2, 7)
        return r[...], old

    for run in (f, jit(f)):
        got, old = run(np.float32([1, 2, 3]))
        assert got.tolist() == [1, 8, 4, 7, 1] and old == 5
    np.testing.assert_allclose(grad(lambda x: f(x)[0].sum())(fnp.zeros(3)), [3, 1, 0])


def test_a_program_lists_what_it_leaves_in_refs() -> None:
    r, q = new_ref(1.0), new_ref(2.0)

    def f(x: Any, r: Any) -> Any:
        r[...] += q[...] * x
        return x

    program = fgrad.make_program(f)(3.0, r)
    assert len(program.params) == 3 and len(program.effects) == 1
    assert fgrad.eval_shape(f, 3.0, r) == fgrad.ShapeDtypeStruct((), "float32", weak_type=True)
    assert r[...] == 1


# ---- what is refused
@pytest.mark.parametrize("value", [1.5, np.float32(1), 1j])
def test_a_ref_of_integers_takes_no_floats(value: Any) -> None:
    r = new_ref(fnp.arange(3))
    for write in (lambda: r.__setitem__(..., value), lambda: r.__setitem__(0, value), lambda: r.addupdate(0, value)):
        with pytest.raises(DtypeError, match=r"in a Ref of dtype int64; convert it with \.astype"):
            write()
    assert r[...].tolist() == [0, 1, 2]


def test_refs_do_not_leave_traced_functions() -> None:
    r = new_ref(1.0)
    for f in (new_ref, lambda x: r, lambda x: {"a": [r]}):
        with pytest.raises(ArgumentError, match="returned a Ref .* cannot leave a traced function"):
            jit(f)(2.0)
    with pytest.raises(ArgumentError, match="returned a Ref"):
        lax.cond(True, lambda: new_ref(1.0), lambda: new_ref(2.0))
    with pytest.raises(ArgumentError, match="each must come back as it went in"):
        lax.scan(lambda c, x: (new_ref(c), x), 0, fnp.arange(3))
    with pytest.raises(ArgumentError, match="each must come back as it went in"):
        lax.while_loop(lambda c: c[...] < 1, lambda c: c[...], r)
    kept: list[Any] = []
    jit(lambda x: kept.append(new_ref(x)) or x)(1.0)
    with pytest.raises(LeakedTracerError, match="after its trace has ended"):
        kept[0][...]


def test_a_slice_and_the_whole_are_not_used_together() -> None:
    r = new_ref(np.zeros(3))
    with pytest.raises(ArgumentError, match="scan runs over a Ref that its function also closes over"):
        lax.scan(lambda c, x: (c + x[...] + r[0], None), 0.0, r)
    with pytest.raises(VmapAxisError, match="also closes over"):
        vmap(lambda x: x.__setitem__(..., r[0]))(r)
    square = new_ref(np.zeros((3, 3)))
    with pytest.raises(VmapAxisError, match="twice, mapped along two axes"):
        vmap(lambda a, b: None, (0, 1))(square, square)


def test_a_ref_is_not_given_and_closed_over_at_once() -> None:
    r, q = new_ref(1.0), new_ref(1.0)
    f = jit(lambda a: r.addupdate(..., 1) or a.__setitem__(..., a[...] * 2))
    f(q)
    assert (float(r[...]), float(q[...])) == (2, 2)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="a Ref that it also closes over"):
            f(r)
    assert r[...] == 2


def test_a_pullback_that_leaves_a_jitted_function_writes_what_that_closes_over() -> None:
    r = new_ref(0.0)
    pullback = jit(lambda x: vjp(lambda x: 3 * stash(r, x), x)[1])(1.0)
    assert pullback(1.0) == (3,) and r[...] == 3
    pullback = jit(lambda r, x: vjp(lambda x: 3 * stash(r, x), x)[1])(r, 1.0)
    with pytest.raises(LeakedTracerError, match="after its trace has ended"):
        pullback(1.0)


def test_functions_that_must_be_pure_refuse_refs() -> None:
    r = new_ref(1.0)
    with pytest.raises(OrderingError, match="custom_linear_solve must not read or write a Ref"):
        lax.custom_linear_solve(lambda x: x * r[...], 1.0, lambda f, b: b, symmetric=True)
    with pytest.raises(OrderingError, match="linear_transpose takes a pure function"):
        fgrad.linear_transpose(lambda x: x * r[...], 1.0)
    with pytest.raises(OrderingError, match="closure_convert takes a pure function"):
        fgrad.closure_convert(lambda x: x * r[...], 1.0)
