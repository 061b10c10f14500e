"""The worked cases of the ordering contract, and its table of gradients, with Refs and `.at`.

Each is run eagerly, under jit, vmap, scan, and differentiated where it has a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.config import config
from fgrad.errors import OrderingError, VmapAxisError
from fgrad.trace.ref import swap

F = Callable[[Any], Any]
X = np.array([2.0, -3.0])


def in_place(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r[...] += 1
    r[...] *= 2
    return fgrad.freeze(r)


def two_readers(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r[...] = r[...] * 3
    return r[...] + 1 + r[...] * 2


def halves(x: Any) -> Any:
    r = fgrad.new_ref(fnp.zeros(2, x.dtype))
    r[0], r[1] = x[1], x[0] * 2
    return r[...]


def unrelated_state(x: Any) -> Any:
    state = fgrad.new_ref(fnp.zeros(2, x.dtype))
    state[...] = 3 * x
    return x + x


def old_and_new(x: Any) -> Any:
    """Case 6: a read of a Ref is a snapshot, so the old value is the old one."""
    a, c = fgrad.new_ref(x), fgrad.new_ref(x * 10)
    old = c[...] + a[...]
    a[...] = 2 * a[...]
    c[...] = c[...] + a[...]
    return c[...] + old


def between(x: Any) -> Any:
    a = fgrad.new_ref(x * 0)
    a[...] = x + 1
    v = 3 * a[...]
    a[...] = x + 100
    return v * a[...]


def read_only(x: Any) -> Any:
    """Cases 8 and 9: a read-only argument is the same after the call, and what it was before a later write."""
    add_one = fgrad.kernel_call(lambda i, o: o.__setitem__(..., i[...] + 1), ((2,), "float64"))
    r = fgrad.new_ref(x)
    first = add_one(r[...])
    second = add_one(r[...])
    kept = r[...]
    r[...] = r[...] * 5
    return first * second + kept * r[...]


def clone(x: Any) -> Any:
    r = fgrad.new_ref(x)
    copy = r[...]
    r[...] = copy * copy
    return copy + r[...]


def constant(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r[...] = 7.0
    return r[...]


def unrelated_store(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r[...] = x * x
    r[0] = 1.0
    return x * 1.0


def partial(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r[0] = 4.0
    return r[...]


def partial_value(x: Any) -> Any:
    """What was stored counts once, what was overwritten not at all."""
    r = fgrad.new_ref(x)
    r[0] = x[1] * 5
    return r[...]


def squares(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r[...] *= r[...]
    r[...] *= r[...]
    return r[...]


def gated(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r[...] = fnp.where(x > 0, x * 3, r[...])
    return r[...]


def computed(x: Any) -> Any:
    """The last of several writes to a place stays."""
    r = fgrad.new_ref(x)
    r[np.array([1, 1])] = x * np.array([2.0, 3.0])
    return r[...]


def accumulated(x: Any) -> Any:
    r = fgrad.new_ref(x)
    r.addupdate(np.array([1, 1]), x * np.array([2.0, 3.0]))
    return r[...]


def swapped(x: Any) -> Any:
    r = fgrad.new_ref(x)
    old = swap(r, 0, x[1])
    return r[...] * old


def looped(x: Any) -> Any:
    r = fgrad.new_ref(x)
    lax.fori_loop(0, 3, lambda i, _: r.addupdate(i % 2, r[...].sum()), None)
    return r[...]


def chosen(x: Any) -> Any:
    r = fgrad.new_ref(x)
    lax.cond(x[0] > 0, lambda: r.__setitem__(0, x[1] * 2), lambda: r.__setitem__(1, x[0] * 3))
    return r[...]


def nested_jit(x: Any) -> Any:
    r = fgrad.new_ref(x)
    fgrad.jit(lambda q: q.__setitem__(..., q[...] * q[...]))(r)
    return r[...] + 1


def functional(x: Any) -> Any:
    y = x.at[0].set(x[1]).at[1].multiply(x[0]).at[np.array([0, 0])].add(x)
    return y + x


def aliased(x: Any) -> Any:
    """A kernel that works in place on its argument's copy."""
    double = fgrad.kernel_call(lambda i, o: o.__setitem__(..., o[...] + i[...]), ((2,), "float64"),
                               input_output_aliases={0: 0})  # fmt: skip
    return double(x) * x


def looped_in_values(x: Any) -> Any:
    a, c = x[0], x[1]
    a = a + (a + c)
    c = c + (a + c)
    return fnp.stack([a + (a + c), c])


# function, the same in values
CASES: dict[str, tuple[F, F]] = {
    "1 in a row": (in_place, lambda x: (x + 1) * 2),
    "2 two readers": (two_readers, lambda x: x * 9 + 1),
    "3 halves": (halves, lambda x: fnp.stack([x[1], x[0] * 2])),
    "5 an unrelated state": (unrelated_state, lambda x: x + x),
    "6 old and new": (old_and_new, lambda x: 23 * x),
    "7 a read between": (between, lambda x: 3 * (x + 1) * (x + 100)),
    "8, 9 read-only arguments": (read_only, lambda x: (x + 1) ** 2 + x * 5 * x),
    "10 a clone": (clone, lambda x: x + x * x),
    "11 a constant": (constant, lambda x: x * 0 + 7),
    "12, 13 unrelated stores": (unrelated_store, lambda x: x),
    "14 a partial store": (partial, lambda x: fnp.stack([x[0] * 0 + 4, x[1]])),
    "14 a partial store of a value": (partial_value, lambda x: fnp.stack([x[1] * 5, x[1]])),
    "15 chained squares": (squares, lambda x: x**4),
    "a gated store": (gated, lambda x: fnp.where(x > 0, 3 * x, x)),
    "computed places, set": (computed, lambda x: fnp.stack([x[0], 3 * x[1]])),
    "computed places, add": (accumulated, lambda x: fnp.stack([x[0], x[1] + 2 * x[0] + 3 * x[1]])),
    "a swap": (swapped, lambda x: fnp.stack([x[1], x[1]]) * x[0]),
    "a loop": (looped, looped_in_values),
    "a branch": (chosen, lambda x: fnp.where(x[0] > 0, fnp.stack([x[1] * 2, x[1]]), fnp.stack([x[0], x[0] * 3]))),
    "a nested jit": (nested_jit, lambda x: x * x + 1),
    "at": (functional, lambda x: fnp.stack([x[1] + x[0] + x[1], x[1] * x[0]]) + x),
    "16 a kernel in place": (aliased, lambda x: 2 * x * x),
}  # fmt: skip


def near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_values(name: str) -> None:
    f, pure = CASES[name]
    want = np.asarray(pure(X))
    near(f(fnp.asarray(X)), want)
    near(fgrad.jit(f)(X), want)
    rows = np.stack([X, X[::-1], -X])
    near(fgrad.vmap(f)(rows), np.stack([pure(x) for x in rows]))
    _, ys = lax.scan(lambda c, x: (c, f(x)), None, rows)
    near(ys, np.stack([pure(x) for x in rows]))


@pytest.mark.parametrize("name", CASES)
def test_the_derivatives(name: str) -> None:
    f, pure = CASES[name]

    def loss(g: F) -> F:
        return lambda x: fnp.sum(fnp.sin(g(x)) * np.array([1.0, 2.0]))

    want = fgrad.grad(loss(pure))(X)
    near(fgrad.grad(loss(f))(X), want)
    near(fgrad.jit(fgrad.grad(loss(f)))(X), want)
    near(fgrad.jacfwd(loss(f))(X), want)
    near(fgrad.vmap(fgrad.grad(loss(f)))(np.stack([X, X])), [want, want])
    second = fgrad.hessian(loss(pure))(X)
    near(fgrad.jacfwd(fgrad.grad(loss(f)))(X), second)
    near(fgrad.jacrev(fgrad.grad(loss(f)))(X), second)


# ---- effects
def test_case_5_the_state_gets_what_was_stored() -> None:
    state = fgrad.new_ref(fnp.zeros(2))

    @fgrad.jit
    def f(x: Any) -> Any:
        state[...] = 3 * x
        return x + x

    for k in (1.0, 2.0):
        near(f(k * X), 2 * k * X)
        near(state[...], np.float32(3 * k * X))


def test_effects_happen_once_under_grad_and_are_seen_by_the_next_call() -> None:
    count = fgrad.new_ref(fnp.zeros((), np.int64))

    @fgrad.jit
    def f(x: Any) -> Any:
        count[...] = count[...] + 1
        return (x * count[...]).sum()

    near(fgrad.grad(f)(X), [1, 1])
    near(fgrad.grad(f)(X), [2, 2])
    assert count[...] == 2
    lax.scan(lambda c, x: (c + f(x), None), 0.0, np.stack([X] * 3))
    assert count[...] == 5


def test_one_ref_given_twice_is_one_ref() -> None:
    @fgrad.jit
    def f(a: Any, c: Any) -> Any:
        a[...] = a[...] + 1
        c[...] = c[...] * 2
        return a[...]

    r, q = fgrad.new_ref(fnp.ones(2)), fgrad.new_ref(fnp.ones(2))
    assert f(r, q).tolist() == [2, 2] and q[...].tolist() == [2, 2]
    assert f(r, r).tolist() == [6, 6]


def test_vmap_refuses_a_batched_store_into_an_unbatched_ref() -> None:
    r = fgrad.new_ref(fnp.zeros(2))
    with pytest.raises(VmapAxisError, match="batched value is stored"):
        fgrad.vmap(lambda x: r.__setitem__(..., x))(np.stack([X, X]))
    assert r[...].tolist() == [0, 0]


def test_a_value_read_before_a_write_is_a_snapshot_eagerly_too() -> None:
    r = fgrad.new_ref(fnp.asarray(X))
    before = r[...]
    view = np.asarray(before)
    r[...] = 0.0
    r[0] = 9.0
    near(before, X)
    near(view, X)


def test_a_frozen_ref_is_refused() -> None:
    r = fgrad.new_ref(fnp.zeros(2))
    fgrad.freeze(r)
    for use in (lambda: r[...], lambda: r.__setitem__(..., 1.0)):
        with pytest.raises(OrderingError, match="frozen"):
            use()


def test_case_16_an_in_place_kernel_with_a_gradient_function() -> None:
    double = fgrad.kernel_call(
        lambda i, o: o.__setitem__(..., o[...] * 2), ((2,), "float64"), input_output_aliases={0: 0},
        grad_fn=lambda args, outs, cts: (cts * 2,),
    )  # fmt: skip
    near(fgrad.grad(lambda x: double(x).sum())(X), [2, 2])
    near(double(X), 2 * X)


def test_a_failing_body_leaves_the_ref_as_it_was() -> None:
    r = fgrad.new_ref(fnp.asarray(X))

    @fgrad.jit
    def f(x: Any) -> Any:
        r[...] = x
        raise RuntimeError("no")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            f(X * 2)
        near(r[...], X)


def test_a_write_of_the_whole_happens_in_the_memory_of_the_ref() -> None:
    ref = fgrad.new_ref(fnp.arange(3.0))
    address = ref.unsafe_buffer_pointer()

    @fgrad.jit
    def double() -> None:
        ref[...] = 2 * ref[...]

    with config.override(planner=True):
        double()
    assert ref.unsafe_buffer_pointer() == address and ref[...].tolist() == [0, 2, 4]
