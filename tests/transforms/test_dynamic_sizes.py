"""jit(dynamic_sizes=...): one compilation for all lengths of an axis in a range."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import Size, jit, lax, make_program, nn
from fgrad.config import config
from fgrad.errors import ArgumentError, DonatedError, ShapeError
from fgrad.hw.device import get_device
from fgrad.trace import reference

rng = np.random.default_rng(0)
N = Size("n", 0, 40)


def array(*shape):
    return rng.normal(size=shape).astype(np.float32)


@pytest.fixture
def compiled(monkeypatch):
    """The names of what the device compiles."""
    names = []
    device = get_device()
    plain = device.compile

    def compile(program, inline, donated, name):
        names.append(name)
        return plain(program, inline, donated, name)

    monkeypatch.setattr(device, "compile", compile)
    return names


def agrees(f, g, *args):
    """g(*args) is what NumPy says of the program of f for arguments like these."""
    got = fgrad.tree.leaves(g(*args))
    wanted = reference.run_program(make_program(f)(*args), [np.asarray(a) for a in fgrad.tree.leaves(args)])
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


def test_every_length_in_the_range_is_served_by_one_compilation(compiled):
    def step(x, w):
        y = nn.softmax(fnp.tanh(x @ w) / x.shape[0], 0)
        return y, y.sum(0), fgrad.grad(lambda w: (x @ w).sum() * x.shape[0])(w)

    f = jit(step, dynamic_sizes={"x": {0: Size("n", 2, 40)}})
    w = array(4, 16)
    for n in (7, 40, 2, 3, 39, 16, 7, 17):
        agrees(step, f, array(n, 4), w)
    assert compiled == ["step"] and f.cache_size() == 1
    f(array(9, 4), array(4, 8))
    assert len(compiled) == 2  # another static size


FUNCTIONS = {
    "rows": lambda x, y: (x.T * 2 + y[0], x.sum(0), x.max(1), nn.softmax(x, 0), fnp.cumsum(x, 0)),
    "places": lambda x, y: (fnp.sort(x, 0), fnp.argsort(y, 1), x[::-1], fnp.concatenate([x, y.T], 0), x[-1:] + x[:1]),
    "products": lambda x, y: (x @ y, y @ x, fnp.einsum("ni,jn->ijn", x, y)),
    "layouts": lambda x, y: (y.reshape(-1), y.T, x.reshape(-1), x.reshape(2, -1), fnp.stack([x.T, y])),
    "loops": lambda x, y: lax.scan(lambda c, r: (fnp.sin(c) + r, c[:2]), y[:, 0], x),
    "gradients": lambda x, y: fgrad.grad(lambda x, y: fnp.log(fnp.cosh(x @ y @ x)).sum(), (0, 1))(x, y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_program_of_each_size(name):
    f = FUNCTIONS[name]
    g = jit(f, dynamic_sizes={"x": {0: N}, "y": {1: N}})
    for n in (40, 33, 16, 5, 2):
        agrees(f, g, array(n, 4), array(4, n))
    assert g.cache_size() == 1


LARGE = {
    "layers": lambda x, w: nn.relu(nn.relu(x @ w) @ w.T),
    "gradients": lambda x, w: fgrad.grad(lambda x, w: (fnp.tanh(x @ w) ** 2).mean(), (0, 1))(x, w),
    "attention": lambda x, w: fgrad.value_and_grad(
        lambda x: (nn.dot_product_attention(*[(x @ w).reshape(1, -1, 2, 16)] * 3, is_causal=True) ** 2).sum()
    )(x),
    "norms": lambda x, w: ((x - x.mean(0)) / fnp.sqrt(x.var(0) + 1e-3) @ w, nn.softmax(x @ x.T, -1) @ x),
    "columns": lambda x, w: (fnp.exp(x).sum(0), nn.logsumexp((x @ w).T, 1), fnp.cumsum(x @ w, 0)),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_a_longer_call_has_left_in_memory_reaches_no_shorter_one(name):
    f = LARGE[name]
    g = jit(f, dynamic_sizes={"x": {0: Size("n", 2, 90)}})
    w = array(32, 32) / 8
    for n in (50, 3, 90, 17):
        fgrad.block_until_ready(g(np.full((90, 32), np.nan, np.float32), w))
        agrees(f, g, array(n, 32), w)
    assert g.cache_size() == 1


def test_lengths_of_zero_and_one_are_lengths():
    def f(x):
        return x.sum(0), nn.softmax(x, 1), x @ x.T, fnp.concatenate([x, x]), fgrad.grad(lambda x: (x**2).sum())(x)

    g = jit(f, dynamic_sizes={"x": {0: N}})
    for n in (0, 1, 5, 1, 0):
        agrees(f, g, array(n, 3))
    assert g.cache_size() <= 3  # 0 and 1 may be programs of their own


def test_two_sizes_are_independent_and_may_be_equal(compiled):
    def f(q, k):
        return nn.softmax(q @ k.T / q.shape[0] + k.shape[0], -1)

    g = jit(f, dynamic_sizes={"q": {0: Size("n", 1, 32)}, "k": {0: Size("m", 1, 32)}})
    for n, m in ((5, 7), (7, 5), (6, 6), (32, 2), (2, 32), (32, 32)):
        agrees(f, g, array(n, 4), array(m, 4))
    assert len(compiled) == 1


def test_sizes_of_leaves_are_named_by_argument_or_path(compiled):
    def f(batch, scale, *, flag=True):
        return {"y": batch["a"] * scale + batch["b"].sum(), "k": batch["c"]}

    g = jit(f, dynamic_sizes={"batch['a']": {0: N}, "batch['b']": {-1: N}}, static_argnames="flag")
    h = jit(lambda pair: pair[0] + pair[1], dynamic_sizes={"pair": {0: N}})
    for n in (3, 8):
        a, b = array(n, 2), array(2, n)
        got = g({"a": a, "b": b, "c": array(3)}, 2.0)
        np.testing.assert_allclose(got["y"], a * 2 + b.sum(), rtol=1e-5, atol=1e-5)
        held = g({"a": a, "b": b, "c": array(3)}, 3.0, flag=False)
        np.testing.assert_allclose(held["y"], a * 3 + b.sum(), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(h((a, a)), a + a)
    assert len(compiled) == 2


def test_python_code_sees_plain_numbers():
    def f(x):
        n = x.shape[0]
        assert type(n) is int and len(x) == n
        table = np.linspace(0, 1, n, dtype=np.float32) ** 2
        return x * table * np.sqrt(n) + (n // 3) * f"{n:>4}".count(" ")

    g = jit(f, dynamic_sizes={"x": {0: Size("n", 2, 40)}})
    for n in (7, 33, 12, 40):
        agrees_np(f, g, n)
    assert g.cache_size() == 1


def agrees_np(f, g, n):
    x = array(n)
    np.testing.assert_allclose(g(x), f(x), rtol=1e-5, atol=1e-6)


def test_a_branch_on_a_length_makes_a_program_for_each_side(caplog):
    def f(x):
        return x.sum() if x.shape[0] > 20 else x.prod()

    g = jit(f, dynamic_sizes={"x": {0: Size("n", 2, 40)}})
    with config.override(show="recompiles"), caplog.at_level("WARNING", "fgrad"):
        for n in (30, 10, 40, 21, 20, 3, 25, 12):
            x = np.linspace(0.5, 1.5, n, dtype=np.float32)
            np.testing.assert_allclose(g(x), x.sum() if n > 20 else x.prod(), rtol=1e-4)
    assert g.cache_size() <= 3
    assert "something else than with other sizes" in caplog.text


def test_another_program_at_every_length_is_refused_with_the_line():
    @fgrad.jit
    def plain(x):
        return x

    def unrolled(x):
        total = 0.0
        for i in range(x.shape[0]):
            total = fnp.sin(total + x[i])
        return plain(total)

    g = jit(unrolled, dynamic_sizes={"x": {0: Size("n", 2, 40)}})
    with pytest.raises(
        NotImplementedError, match=r"(?s)unrolled with n = 9 .*n = 8.*test_dynamic_sizes.py:\d+, in .*un.*scan"
    ):
        g(array(9))


def test_lengths_out_of_range_and_unequal_ones_are_refused_with_both_numbers():
    g = jit(
        lambda x, y: x + y, dynamic_sizes={"x": {0: Size("n", 2, 40, multiple_of=2)}, "y": {0: Size("n", 2, 40, 2)}}
    )
    with pytest.raises(ShapeError, match="axis 0 of x has length 42, size 'n' is from 2 to 40"):
        g(array(42), array(42))
    with pytest.raises(ShapeError, match="'n' is 4 in axis 0 of x, but 6 in axis 0 of y"):
        g(array(4), array(6))
    with pytest.raises(ShapeError, match="length 5, size 'n' is a multiple of 2"):
        g(array(5), array(5))
    with pytest.raises(ShapeError, match="axis 0 of x, which has shape"):
        g(1.0, array(4))
    with pytest.raises(ShapeError, match="length 42"):
        jit(lambda x: g(x, x))(array(42))


def test_descriptions_that_make_no_sense_are_refused():
    with pytest.raises(ShapeError, match="no length in it"):
        Size("n", 5, 4)
    with pytest.raises(ShapeError, match="no multiple of 8"):
        Size("n", 9, 15, 8)
    with pytest.raises(ArgumentError, match="have one name"):
        jit(lambda x: x, dynamic_sizes={"x": {0: Size("n", 1, 4), 1: Size("n", 1, 5)}})
    with pytest.raises(ArgumentError, match="takes {axis: Size}"):
        jit(lambda x: x, dynamic_sizes={"x": {0: 4}})
    with pytest.raises(ArgumentError, match="names 'z', but the arrays of this call are x"):
        jit(lambda x: x, dynamic_sizes={"z": {0: N}})(array(3))


def test_errors_of_other_sizes_say_so():
    table = fnp.arange(30.0)
    g = jit(lambda x: x + table[: x.shape[0]], dynamic_sizes={"x": {0: N}})
    with pytest.raises(ShapeError) as error:
        g(array(9))
    assert any("traced for the dynamic sizes n = 40" in note for note in error.value.__notes__)


def test_calls_take_the_short_path_and_results_are_arrays_like_any_other():
    w = fnp.arange(4.0)
    f = jit(lambda x: x * w + x.shape[0], dynamic_sizes={"x": {0: N}})
    x = fnp.ones((5, 4))
    y = f(x)
    (entry,) = f.dispatcher.entries.values()
    (sig,) = entry.out_sigs
    list.append(sig.free, sig.take())  # there is a free block, also where the pool keeps none
    np.testing.assert_array_equal(entry.short([x]), np.arange(4.0) + np.full((5, 1), 5))
    assert y.shape == (5, 4) and y.nbytes == 80 and y.sig.key is fnp.ones((5, 4)).sig.key
    z = jit(lambda y: y + 1, donate_argnums=0)(y)
    np.testing.assert_array_equal(z, f(x) + 1)
    with pytest.raises(DonatedError):
        y + 1


def test_donated_arguments_and_refs():
    total = fgrad.new_ref(fnp.zeros(4))

    def f(x, k):
        total[...] += x.sum(0)
        return x + 1, k + 1

    g = jit(f, dynamic_sizes={"x": {0: N}}, donate_argnums=(0, 1))
    for n in (40, 3, 9):
        x, k = fnp.ones((n, 4)), fnp.zeros(160)
        y, m = g(x, k)
        np.testing.assert_array_equal(y, np.full((n, 4), 2))
        np.testing.assert_array_equal(m, np.ones(160))
        with pytest.raises(DonatedError):
            x + 1
    np.testing.assert_array_equal(total[...], np.full(4, 52))


def test_under_nan_and_bounds_checks_each_size_is_compiled_by_itself():
    f = jit(lambda x: fnp.log(x) + x[fnp.argmax(x)], dynamic_sizes={"x": {0: N}})
    with config.override(check="nan,oob"):
        for n in (3, 4):
            assert f(fnp.ones(n)).shape == (n,)
    assert f.cache_size() == 2


def test_lower_shows_the_program_for_all_sizes():
    f = jit(lambda x: x * x.shape[0], dynamic_sizes={"x": {0: N}})
    assert f.lower(array(7)).as_text() == f.lower(array(9)).as_text()
    np.testing.assert_allclose(f.lower(array(7)).compile()(np.ones(7, np.float32)), np.full(7, 7))


@pytest.mark.parametrize("device", ["python", "reference", "sim"])
def test_on_devices_that_check_every_access(device):
    def f(x, w):
        return nn.softmax(x @ w, 0), fnp.cumsum(x[::-1], 0), x.T.reshape(-1)

    g = jit(f, dynamic_sizes={"x": {0: Size("n", 1, 8)}})
    with fgrad.default_device(device):
        for n in (5, 8, 1):
            x, w = fnp.asarray(array(n, 4)), fnp.asarray(array(4, 4))
            agrees(f, g, x, w)
