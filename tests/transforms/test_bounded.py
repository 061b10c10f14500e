"""bounded: the program for many sizes holds what the program of each size holds, whatever lies beyond."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import ShapeDtypeStruct, lax, make_program, nn, random
from fgrad.trace import reference
from fgrad.trace.alike import Unlike, bounding
from fgrad.trace.bounded import bound

TOP, NEAR = 12, 7


def programs(f, shapes, lengths):
    return [make_program(f)(*[ShapeDtypeStruct(s, np.float32) for s in shapes(n)]) for n in lengths]


def outputs(made, args, rng):
    """What the bounded program gives for these arguments, with NaN or noise in the space beyond them."""
    given = []
    for i, (x, p) in enumerate(zip(args, made.program.params, strict=False)):
        if i in made.loose:
            flat = np.where(rng.random(p.shape) < 0.5, np.nan, rng.normal(size=p.shape)).astype(p.dtype.np)
            flat[: x.size] = x.ravel()
            given.append(flat)
        else:
            given.append(x)
    given += [
        np.frombuffer(w.to_bytes(8, "little")[: d.itemsize], d.np)[0]
        for d, w in zip(made.dtypes, made.words, strict=True)
    ]
    return reference.run_program(made.program, given)


def agrees(f, shapes, lengths=(12, 10, 9, 5, 3)):
    """The bounded program, the same one for all lengths, against the program of each."""
    rng = np.random.default_rng(0)
    top, near = programs(f, shapes, (TOP, NEAR))
    made = set()
    for n in lengths:
        (now,) = programs(f, shapes, (n,))
        args = [rng.normal(size=s).astype(np.float32) for s in shapes(n)]
        b = bound(top, near, now)
        made.add(b.program)
        for got, want in zip(outputs(b, args, rng), reference.run_program(now, args), strict=True):
            np.testing.assert_allclose(got.ravel()[: want.size].reshape(want.shape), want, rtol=2e-5, atol=2e-6)
    assert len(made) == 1


def test_every_op_has_a_row():
    assert bounding.missing() == ()


rows = lambda n: [(n, 4)]  # noqa: E731
columns = lambda n: [(3, n)]  # noqa: E731
vector = lambda n: [(n,)]  # noqa: E731

CASES = {
    "elementwise": (lambda x: fnp.tanh(x) * x.shape[0] + 1 / x.shape[0], rows),
    "sums": (lambda x: (x.sum(0), x.sum(1), x.prod(), (x > 0).all(0), (x > 0).any(), x.mean(), x.var(0)), rows),
    "extremes": (lambda x: (x.max(1), x.min(1), fnp.argmax(x, 1), fnp.nanmin(x, 1)), columns),
    "softmax": (lambda x: (nn.softmax(x, -1), nn.logsumexp(x, -1)), columns),
    "a product over the axis": (lambda x, y: x @ y, lambda n: [(3, n), (n, 5)]),
    "a product beside it": (lambda x, y: x @ y, lambda n: [(n, 4), (4, n)]),
    "heads": (lambda x: x.reshape(x.shape[0], 2, 2).transpose(1, 0, 2) @ x.reshape(x.shape[0], 2, 2).transpose(1, 2, 0),
              rows),  # fmt: skip
    "attention": (lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), lambda n: [(2, n, 2, 4)] * 3),
    "weights times infinity": (lambda x, s: (x[:, 0] * (1 / (s - s))).sum(), lambda n: [(n, 4), ()]),
    "concatenate": (lambda x, y: fnp.concatenate([x, y, x], 1), lambda n: [(3, n), (3, 2 * n)]),
    "slices": (lambda x: (x[1:], x[:-1], x[::-1], x[::2], x[-1], x[-3:], x[1:-1:2], x[:, None]), rows),
    "reshapes": (lambda x: (x.reshape(-1), x.T.reshape(-1), x.reshape(2, -1), x.reshape(4, -1).T, x.T.ravel()), rows),
    "padding": (lambda x: (fnp.pad(x, 2), fnp.roll(x, 1, 0), lax.pad(x, 0.0, ((1, 2, 1), (0, 0, 0)))), rows),
    "where and arange": (lambda x: fnp.where(fnp.arange(x.shape[0])[:, None] > x.shape[0] // 2, x, -x), rows),
    "made of lengths": (lambda x: (fnp.eye(x.shape[0]), fnp.linspace(0, 1, x.shape[0]), fnp.ones(x.shape)), rows),
    "running sums": (lambda x: (fnp.cumsum(x, 0), fnp.cumsum(x[::-1], 0), lax.cummax(x, reverse=True)), rows),
    "sort": (lambda x: (fnp.sort(x, 0), fnp.argsort(-x, 0), fnp.median(x, 0), fnp.sort(x > 0, 0)), rows),
    "gather": (lambda x: (x[fnp.arange(x.shape[0]) // 2], fnp.take(x, fnp.arange(3) - 1, axis=0)), rows),
    "out of bounds": (lambda x: x.at[fnp.argmax(x[:, 0]) + 3].get(mode="clip"), rows),
    "filled": (lambda x: x.at[fnp.sum(x > 0) + 3].get(mode="fill", fill_value=7.0), rows),
    "writes": (lambda x: (x.at[1:].add(1.0), x.at[-fnp.arange(2)].set(0.0), x.at[::2].mul(3.0)), rows),
    "dropped": (lambda x: x.at[fnp.argsort(x[:, 0]) * 2].add(1.0, mode="drop"), rows),
    "a computed place": (lambda x: (lax.dynamic_slice_in_dim(x, fnp.sum(x > 0), 2),
                                    lax.dynamic_update_slice_in_dim(x, x[:2], fnp.sum(x > 0), 0)), rows),  # fmt: skip
    "a large part, somewhere": (lambda x: lax.dynamic_update_slice_in_dim(x, x[1:], fnp.sum(x > 0), 0), rows),
    "convolution": (lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME"), lambda n: [(2, 3, n), (4, 3, 3)]),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum() / x.shape[0]), fnp.zeros(4), x), rows),
    "backward scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), fnp.zeros(4), x, reverse=True), rows),
    "scan beside": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), fnp.zeros(x.shape[1]), x), columns),
    "loops": (lambda x: (lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i] * i, fnp.zeros(4)),
                         lax.while_loop(lambda s: s < x.shape[0] // 2, lambda s: s + 1, 0)), rows),  # fmt: skip
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda x: x / x.shape[0], lambda x: x * x.shape[0], x), rows),
    "vmap": (lambda x: fgrad.vmap(lambda a: fnp.cumsum(a) / a.shape[0])(x), columns),
    "vmap over it": (lambda x, y: fgrad.vmap(lambda a: fnp.sort(a * y))(x), lambda n: [(n, 4), (4,)]),
    "random": (lambda x: x + random.normal(random.wrap_key_data(fnp.zeros(2, "uint32")), x.shape), rows),
    "gradient": (lambda x, w: fgrad.grad(lambda x, w: (nn.softmax(x @ w, 0) ** 2).sum(), (0, 1))(x, w),
                 lambda n: [(n, 4), (4, 6)]),  # fmt: skip
    "gradient of a scan": (lambda x: fgrad.grad(lambda x: (lax.scan(
        lambda c, r: (fnp.sin(c) * 0.5 + r, c.sum()), fnp.zeros(4), x)[1] ** 2).sum())(x), rows),  # fmt: skip
    "tangents": (lambda x: fgrad.jvp(lambda y: fnp.sort(y, 0).cumsum(0), (x,), (x * 2,)), rows),
    "second order": (lambda x: fgrad.hessian(lambda w: fnp.tanh(x @ w).sum())(fnp.ones(4)), rows),
    "checkpoint": (lambda x: fgrad.grad(lambda x: fgrad.checkpoint(lambda y: fnp.sin(y).sum() * 2)(x))(x), rows),
    "complex": (lambda x: fnp.abs((x + 1j / x.shape[0]).sum(0)), rows),
    "NumPy inside": (lambda x: x * np.hanning(x.shape[0]).astype("f").sum(), rows),
    "a callback": (lambda x: fgrad.pure_callback(_sorted, ShapeDtypeStruct(x.shape, np.float32), x), columns),
    "transforms": (lambda x: (fnp.fft.irfft(fnp.fft.rfft(x), x.shape[1]), fnp.linalg.cholesky(x @ x.T)), columns),
    "whole numbers": (lambda x: fnp.bincount((x * 3).astype(int).clip(0, 4), length=5), vector),
}


def _sorted(x):
    return np.sort(np.asarray(x), 1)


@pytest.mark.parametrize("name", CASES)
def test_inside_its_lengths_it_is_the_program_of_each_size(name):
    agrees(*CASES[name])


def test_what_was_simplified_at_one_size_is_no_difference():
    agrees(lambda x: (x[-3:], x.reshape(4, -1), x[:, 0] / x.shape[0]), lambda n: [(n, 4)], (3, 4, 8, 5))


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: sum(x[i] for i in range(x.shape[0])), "there, and"),
        (lambda x: x + 1 if x.shape[0] > 6 else x * 2, "MUL .* there, and ADD"),
        (lambda x: fnp.zeros(20 - x.shape[0]) + x.sum(), "is larger"),
    ],
)
def test_what_is_another_program_is_refused(f, text):
    top, near, now = programs(f, lambda n: [(n,)], (12, 7, 5))
    with pytest.raises(Unlike, match=text):
        bound(top, near, now)
