"""Loops, branches and collectives: values, derivatives, Refs, and what their errors say."""

import numpy as np
import pytest

import fgrad
from fgrad import errors, lax
from fgrad import numpy as fnp

XS = np.arange(6, dtype=np.float32).reshape(3, 2)
W = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)


def rnn(w, checkpoint=None):
    def step(h, x):
        h = lax.tanh(lax.dot(w, h + x))
        return h, h

    _, ys = lax.scan(step, np.ones(2, np.float32), XS, checkpoint=checkpoint)
    return (ys * ys).sum()


def unrolled(w):
    h, total = np.ones(2, np.float32), 0.0
    for x in XS:
        h = lax.tanh(lax.dot(w, h + x))
        total = total + (h * h).sum()
    return total


# ---- scan
def test_scan_gives_the_last_carry_and_stacks_the_rest() -> None:
    carry, ys = lax.scan(lambda c, x: (c + x, c), np.zeros(2, np.float32), XS)
    assert np.asarray(carry).tolist() == [6, 9]
    assert np.asarray(ys).tolist() == [[0, 0], [0, 1], [2, 4]]
    carry, ys = lax.scan(lambda c, x: (c + x, c), np.zeros(2, np.float32), XS, reverse=True)
    assert np.asarray(ys).tolist() == [[6, 8], [4, 5], [0, 0]]


def test_scan_takes_pytrees_and_counts_without_xs() -> None:
    carry, ys = lax.scan(lambda c, _: ({"n": c["n"] * 2}, None), {"n": 1}, None, length=5)
    assert int(carry["n"]) == 32 and ys is None


def test_a_weak_first_carry_takes_the_dtype_of_the_body() -> None:
    carry, _ = lax.scan(lambda c, x: (c + x, None), 0, XS[:, 0])
    assert carry.dtype == np.float32
    carry, _ = lax.scan(lambda c, x: (0.0, None), np.float16(1), None, length=2)
    assert carry.dtype == np.float16


@pytest.mark.parametrize("checkpoint", [None, True, 2, "sqrt", 3])
def test_the_gradient_of_a_scan_is_that_of_the_unrolled_loop(checkpoint: object) -> None:
    value, slope = fgrad.value_and_grad(lambda w: rnn(w, checkpoint))(W)
    want, want_slope = fgrad.value_and_grad(unrolled)(W)
    np.testing.assert_allclose(np.asarray(value), np.asarray(want), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(slope), np.asarray(want_slope), rtol=1e-5)


def test_a_scan_is_differentiated_twice_and_mapped() -> None:
    push = fgrad.jvp(fgrad.grad(rnn), (W,), (W,))[1]
    want = fgrad.jvp(fgrad.grad(unrolled), (W,), (W,))[1]
    np.testing.assert_allclose(np.asarray(push), np.asarray(want), rtol=1e-4)
    both = fgrad.vmap(fgrad.grad(rnn))(np.stack([W, 2 * W]))
    np.testing.assert_allclose(np.asarray(both[1]), np.asarray(fgrad.grad(rnn)(2 * W)), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: lax.scan(lambda c, x: (c + np.float64(1), None), np.float32(0), XS),
            errors.ArgumentError,
            r"carry must have type float32\[\].*float64\[\]",
        ),
        (
            lambda: lax.scan(lambda c, x: ({"w": x}, None), {"w": np.float32(0)}, XS),
            errors.ArgumentError,
            r"carry\['w'\] must have type float32\[\].*float32\[2\]",
        ),
        (lambda: lax.scan(lambda c, x: (x, None), {"w": 1.0}, XS), errors.ArgumentError, "structure"),
        (lambda: lax.scan(lambda c, x: c, 1.0, XS), errors.ArgumentError, "must return a pair"),
        (
            lambda: lax.scan(lambda c, x: (c, c), 1.0, XS, length=7),
            errors.ShapeError,
            "xs has 3, length has 7",
        ),
        (lambda: lax.scan(lambda c, x: (c, c), 1.0), errors.ArgumentError, "needs length="),
        (lambda: lax.scan(lambda c, x: (c, c), 1.0, 2.0), errors.ShapeError, "is a scalar"),
        (lambda: lax.while_loop(lambda x: x, lambda x: x, 1.0), errors.ArgumentError, "one bool"),
        (
            lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0),
            errors.ArgumentError,
            "same structure",
        ),
        (
            lambda: lax.cond(True, lambda x: x, lambda x: x.astype("int32"), np.float32(1)),
            errors.ArgumentError,
            "same types",
        ),
        (
            lambda: lax.cond(XS, lambda x: x, lambda x: x, 1.0),
            errors.ShapeError,
            "scalar predicate",
        ),
        (lambda: lax.switch(1.0, [abs, abs], 1.0), errors.DtypeError, "integer scalar index"),
        (lambda: lax.psum(XS, "rows"), errors.VmapAxisError, "no axis is called 'rows'"),
        (lambda: lax.fori_loop(0.0, 3, lambda i, x: x, 1), errors.DtypeError, "lower"),
    ],
)
def test_mistakes_are_named(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


# ---- while and for
def test_while_runs_until_its_condition_fails() -> None:
    n, x = lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * 1.5), (0, np.float32(1)))
    assert int(n) == 10 and abs(float(x) - 1.5**10) < 1e-3


def test_each_member_of_a_batch_stops_by_itself() -> None:
    doubled = fgrad.vmap(lambda x: lax.while_loop(lambda s: s < 10, lambda s: s * 2, x))
    assert np.asarray(doubled(np.array([1, 3, 20]))).tolist() == [16, 12, 20]


def power(x, **options):
    return lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * x), (0, x), **options)[1]


def test_while_has_forward_derivatives_and_with_a_limit_reverse_ones() -> None:
    x = np.float32(1.1)
    want = 11 * 1.1**10
    assert abs(float(fgrad.jvp(power, (x,), (np.float32(1),))[1]) - want) < 1e-3
    assert abs(float(fgrad.grad(lambda v: power(v, max_steps=20))(x)) - want) < 1e-3
    with pytest.raises(NotImplementedError, match="max_steps"):
        fgrad.grad(power)(x)


def test_fori_loops_count_known_and_computed_bounds() -> None:
    assert int(lax.fori_loop(2, 6, lambda i, x: x + i, np.int32(0))) == 14
    totals = fgrad.vmap(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0))(np.arange(5))
    assert np.asarray(totals).tolist() == [0, 0, 1, 3, 6]
    slope = fgrad.grad(lambda x: lax.fori_loop(0, 3, lambda i, y: y * x, x))(np.float32(2))
    assert float(slope) == 32


# ---- branches
def test_cond_and_switch_run_the_chosen_branch() -> None:
    for pred, want in ((True, 6), (False, 0), (2, 6), (np.array(0), 0)):
        assert float(lax.cond(pred, lambda x: x * 2, lambda x: 0.0, np.float32(3))) == want
    branches = [lambda x: x, lambda x: x * 2, lambda x: x * x]
    got = [float(lax.switch(i, branches, np.float32(5))) for i in (-1, 0, 1, 2, 7)]
    assert got == [5, 5, 10, 25, 25]


def test_branches_close_over_values_and_differ_under_vmap() -> None:
    def f(x):
        return lax.cond(x > 0, lambda: lax.sin(x), lambda: x * x)

    assert abs(float(fgrad.grad(f)(np.float32(1))) - np.cos(1)) < 1e-6
    assert float(fgrad.grad(f)(np.float32(-1))) == -2
    np.testing.assert_allclose(np.asarray(fgrad.vmap(f)(np.array([1, -2], np.float32))), [np.sin(1), 4], rtol=1e-6)


# ---- map and associative_scan
def test_map_works_one_by_one_and_in_batches() -> None:
    want = XS.sum(1).tolist()
    assert np.asarray(lax.map(lambda x: x.sum(), XS)).tolist() == want
    assert np.asarray(lax.map(lambda x: x.sum(), XS, batch_size=2)).tolist() == want


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8])
def test_associative_scan_combines_in_order(n: int) -> None:
    a, b = np.arange(1.0, n + 1), np.arange(0.0, n)

    def after(p, q):  # x -> a x + b, one map after the other
        return p[0] * q[0], p[1] * q[0] + q[1]

    got = lax.associative_scan(after, (a, b))
    x, want = 0.0, []
    for s, t in zip(a, b, strict=True):
        x = s * x + t
        want.append(x)
    np.testing.assert_allclose(np.asarray(got[1]), want)
    down = lax.associative_scan(lax.add, a, reverse=True)
    np.testing.assert_allclose(np.asarray(down), np.cumsum(a[::-1])[::-1])


# ---- Refs
def test_refs_are_read_and_written_inside_loops_and_branches() -> None:
    ref = fgrad.new_ref(np.zeros(3, np.float32))

    def step(c, x):
        ref[...] = ref[...] + x
        return c + 1, c

    lax.scan(step, 0, np.ones((4, 3), np.float32))
    assert np.asarray(ref[...]).tolist() == [4, 4, 4]

    def double(i):
        ref[...] = ref[...] * 2
        return i + 1

    lax.while_loop(lambda i: i < 3, double, 0)

    def write():
        ref[0] = 1.0

    lax.cond(True, write, lambda: None)
    assert np.asarray(ref[...]).tolist() == [1, 32, 32]


# ---- derivatives that go another way
def test_stop_gradient_is_a_constant_of_the_derivative() -> None:
    assert float(fgrad.grad(lambda x: x * lax.stop_gradient(x))(3.0)) == 3
    assert float(fgrad.grad(lambda x: lax.stop_gradient(x * x))(3.0)) == 0
    out = lax.stop_gradient({"a": XS, "b": 1})
    assert np.array_equal(out["a"], XS) and int(out["b"]) == 1


def richardson(matvec, b):
    def step(state):
        i, x = state
        return i + 1, x + 0.2 * (b - matvec(x))

    return lax.while_loop(lambda s: s[0] < 80, step, (0, lax.full_like(b, 0)))[1]


def test_a_linear_solve_is_differentiated_by_solving() -> None:
    a, b = np.array([[4.0, 1], [1, 3]]), np.array([1.0, 2])

    def solve(a, b):
        return lax.custom_linear_solve(lambda v: lax.dot(a, v), b, richardson, symmetric=True)

    def loss(a, b):
        return (solve(a, b) ** 2).sum()

    x = np.linalg.solve(a, b)
    back = np.linalg.solve(a.T, 2 * x)
    np.testing.assert_allclose(np.asarray(solve(a, b)), x, rtol=1e-9)
    da, db = fgrad.grad(loss, (0, 1))(a, b)
    np.testing.assert_allclose(np.asarray(db), back, rtol=1e-8)
    np.testing.assert_allclose(np.asarray(da), -np.outer(back, x), rtol=1e-8)
    second = fgrad.grad(lambda b: (fgrad.grad(loss, 1)(a, b) ** 2).sum())(b)
    inverse = np.linalg.inv(a)
    hessian = 2 * inverse.T @ inverse
    np.testing.assert_allclose(np.asarray(second), 2 * hessian @ hessian @ b, rtol=1e-7)


def test_a_root_is_differentiated_by_the_implicit_function_theorem() -> None:
    def newton(f, x):
        def step(s):
            return s[0] + 1, s[1] - f(s[1]) / (2 * s[1])

        return lax.while_loop(lambda s: s[0] < 30, step, (0, x))[1]

    def root(a):
        return lax.custom_root(lambda x: x * x - a, np.float32(1), newton, lambda g, y: y / g(np.float32(1)))

    assert abs(float(root(np.float32(2))) - 2**0.5) < 1e-6
    assert abs(float(fgrad.grad(root)(np.float32(2))) - 0.5 / 2**0.5) < 1e-6


# ---- collectives
def test_members_of_a_named_axis_combine_their_values() -> None:
    def f(x):
        return lax.psum(x, "i"), lax.pmean(x, "i"), lax.pmax(x, "i"), lax.axis_index("i")

    total, mean, top, index = fgrad.vmap(f, axis_name="i")(np.arange(4))
    assert np.asarray(total).tolist() == [6] * 4 and np.asarray(mean).tolist() == [1.5] * 4
    assert np.asarray(top).tolist() == [3] * 4 and np.asarray(index).tolist() == [0, 1, 2, 3]


def test_members_exchange_values() -> None:
    square = np.arange(9).reshape(3, 3)

    def over(f):
        return np.asarray(fgrad.vmap(f, axis_name="i")(square))

    shifted = over(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]))
    np.testing.assert_array_equal(shifted, np.roll(square, 1, 0))
    np.testing.assert_array_equal(over(lambda x: lax.pswapaxes(x, "i", 0)), square.T)
    np.testing.assert_array_equal(over(lambda x: lax.all_gather(x, "i"))[1], square)
    np.testing.assert_array_equal(over(lambda x: lax.psum_scatter(x, "i")), square.sum(0))
    assert over(lambda x: lax.psum(1, "i") * x).tolist() == (3 * square).tolist()


# ---- unrolled loops
@pytest.mark.parametrize("unroll", [2, 7, 50, 0, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("keep", [None, 3])
def test_unrolled_scans_give_the_same(unroll, reverse, keep):
    xs = fnp.asarray(np.linspace(0.1, 1, 7, dtype=np.float32))

    def run(xs, **how):
        return lax.scan(lambda c, x: (fnp.sin(c + x), (c * x, x)), 0.5, xs, reverse=reverse, **how)

    def total(xs, **how):
        return sum(v.sum() for v in fgrad.tree.leaves(run(xs, **how)))

    for got, want in zip(
        fgrad.tree.leaves(run(xs, unroll=unroll, checkpoint=keep)), fgrad.tree.leaves(run(xs)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    slope = fgrad.grad(total)
    np.testing.assert_allclose(slope(xs, unroll=unroll, checkpoint=keep), slope(xs), rtol=1e-5)


def test_how_many_loops_are_left():
    def count(**how):
        program = fgrad.make_program(lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x, **how))(fnp.ones(5))
        return str(program).count("SCAN")

    assert [count(unroll=u) for u in (1, 2, 4, 5, True)] == [1, 1, 1, 0, 0]
    loop = fgrad.make_program(lambda x: lax.fori_loop(0, 3, lambda i, v: v * x + i, x, unroll=True))(1.0)
    assert "SCAN" not in str(loop)
    assert float(lax.fori_loop(0, 3, lambda i, v: v * 2 + i, 1.0, unroll=2)) == 12


def test_unrolling_needs_a_number_of_steps():
    for bad, error, words in ((-1, ValueError, "non-negative"), (1.5, TypeError, "concrete `int`")):
        with pytest.raises(error, match=words):
            lax.scan(lambda c, x: (c, x), 0.0, fnp.ones(3), unroll=bad)
    with pytest.raises(ValueError, match="statically known"):
        fgrad.jit(lambda n: lax.fori_loop(0, n, lambda i, v: v, 0.0, unroll=2))(3)


def test_the_index_of_a_switch_is_an_integer():
    for bad in ("foo", fnp.sin, 1.0):
        with pytest.raises(TypeError, match="Index type must be an integer, got"):
            lax.switch(bad, [lambda: 1, lambda: 2])
