"""Activations, the softmax family, attention, pooling and initializers."""

import numpy as np
import pytest
import scipy.special

import fgrad
import fgrad.numpy as fnp
from fgrad import errors, nn, random

X = np.array([-1e4, -30, -3, -1, -0.5, 0, 0.5, 1, 3, 7, 30, 1e4], np.float32)
FINITE = np.array([-2.5, -1.5, -0.4, 0.3, 1.2, 4], np.float32)
SELU = 1.0507009873554805


def softplus(x):
    return np.logaddexp(x, 0)


FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": scipy.special.expit,
    "log_sigmoid": lambda x: -softplus(-x),
    "softplus": softplus,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "silu": lambda x: x * scipy.special.expit(x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: SELU * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations_are_their_formulas_and_so_are_their_slopes(name: str) -> None:
    f, formula = getattr(nn, name), FORMULAS[name]
    np.testing.assert_allclose(np.asarray(f(X)), formula(X.astype(float)), rtol=2e-6, atol=1e-6)
    slope = np.asarray(fgrad.vmap(fgrad.grad(f))(FINITE))
    h = 1e-5
    want = (formula(FINITE.astype(float) + h) - formula(FINITE.astype(float) - h)) / (2 * h)
    np.testing.assert_allclose(slope, want, rtol=2e-4, atol=1e-5)


def test_gelu_by_the_error_function() -> None:
    want = FINITE * (1 + scipy.special.erf(FINITE / np.sqrt(2))) / 2
    np.testing.assert_allclose(np.asarray(nn.gelu(FINITE, approximate=False)), want, rtol=1e-5)


def test_slopes_at_kinks_are_those_of_the_flat_side() -> None:
    assert float(fgrad.grad(nn.relu)(0.0)) == 0
    assert np.asarray(nn.relu(np.array([-1, 2]))).tolist() == [0, 2]
    assert np.isnan(float(nn.relu(np.float32(np.nan))))
    far = fgrad.vmap(fgrad.grad(nn.elu))(np.array([-1e4, 1e4], np.float32))
    assert np.asarray(far).tolist() == [0, 1]


def test_glu_and_one_hot() -> None:
    x = np.array([1.0, 2, 0, -1], np.float32)
    np.testing.assert_allclose(np.asarray(nn.glu(x)), x[:2] * scipy.special.expit(x[2:]), rtol=1e-6)
    with pytest.raises(errors.ShapeError, match="even size"):
        nn.glu(x[:3])
    hot = nn.one_hot(np.array([0, 2, -1, 9]), 3)
    assert np.asarray(hot).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert nn.one_hot(np.array([0, 1]), 3, axis=0).shape == (3, 2)


# ---- softmax family
M = np.random.default_rng(0).random((4, 5)) > 0.3
Z = np.random.default_rng(1).normal(size=(4, 5)) * 50


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
def test_the_softmax_family(axis: object) -> None:
    np.testing.assert_allclose(np.asarray(nn.logsumexp(Z, axis)), scipy.special.logsumexp(Z, axis), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(nn.softmax(Z, axis)), scipy.special.softmax(Z, axis), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(np.asarray(nn.log_softmax(Z, axis)), scipy.special.log_softmax(Z, axis), rtol=1e-12)
    masked = np.where(M, Z, -np.inf)
    np.testing.assert_allclose(
        np.asarray(nn.softmax(Z, axis, where=M)), scipy.special.softmax(masked, axis), atol=1e-14
    )


def test_logsumexp_takes_factors_and_signs() -> None:
    b = np.array([1.0, -2, 0])
    value, sign = nn.logsumexp(np.array([0.0, 1, np.inf]), b=b, return_sign=True)
    assert float(sign) == -1 and float(value) == pytest.approx(np.log(2 * np.e - 1))


def test_rows_of_minus_infinity_have_zero_gradients() -> None:
    x = np.full(3, -np.inf, np.float32)
    assert float(nn.logsumexp(x)) == -np.inf
    assert np.asarray(fgrad.grad(nn.logsumexp)(x)).tolist() == [0, 0, 0]
    assert np.asarray(nn.softmax(x)).tolist() == [0, 0, 0]
    slope = fgrad.grad(lambda v: (nn.softmax(v) * np.array([1, 2, 3], np.float32)).sum())(x)
    assert np.asarray(slope).tolist() == [0, 0, 0]
    assert float(nn.logsumexp(np.array([np.inf, 1.0]))) == np.inf


def test_half_types_stay_and_are_summed_in_float32() -> None:
    x = fnp.zeros(5000, "float16")
    assert nn.softmax(x).dtype == np.float16
    assert float(nn.logsumexp(x)) == pytest.approx(np.log(5000), rel=1e-3)


def test_standardize_has_mean_zero_and_variance_one() -> None:
    y = np.asarray(nn.standardize(Z, axis=1))
    np.testing.assert_allclose(y.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(y.std(1), 1, rtol=1e-5)
    only = np.asarray(nn.standardize(Z, axis=1, where=M))
    np.testing.assert_allclose(np.where(M, only, 0).sum(1), 0, atol=1e-10)


# ---- attention
def attention(q, k, v, visible=None, bias=0.0, scale=None):
    """By its definition, one head and batch at a time."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    group = q.shape[2] // k.shape[2]
    for b in range(q.shape[0]):
        for n in range(q.shape[2]):
            logits = q[b, :, n] @ k[b, :, n // group].T * (scale or q.shape[3] ** -0.5)
            logits = logits + np.broadcast_to(bias, (q.shape[0], q.shape[2], *logits.shape))[b, n]
            if visible is not None:
                shown = np.broadcast_to(visible, (q.shape[0], q.shape[2], *logits.shape))[b, n]
                logits = np.where(shown, logits, -np.inf)
            out[b, :, n] = scipy.special.softmax(logits, -1) @ v[b, :, n // group]
    return out


R = np.random.default_rng(2)
QUERY, KEY, VALUE = R.normal(size=(2, 5, 4, 3)), R.normal(size=(2, 6, 2, 3)), R.normal(size=(2, 6, 2, 3))
HERE, THERE = np.arange(5)[:, None], np.arange(6)[None, :]


@pytest.mark.parametrize(
    ("options", "same_as"),
    [
        ({}, {}),
        ({"is_causal": True}, {"visible": THERE <= HERE}),
        ({"local_window_size": (1, 2)}, {"visible": (THERE >= HERE - 1) & (THERE <= HERE + 2)}),
        ({"scale": 0.25}, {"scale": 0.25}),
        ({"bias": np.ones((1, 4, 5, 1)) * THERE}, {"bias": np.ones((1, 4, 5, 1)) * THERE}),
        ({"mask": THERE % 2 == 0}, {"visible": np.broadcast_to(THERE % 2 == 0, (5, 6))}),
        (
            {"key_value_seq_lengths": np.array([6, 2])},
            {"visible": THERE < np.array([6, 2]).reshape(2, 1, 1, 1)},
        ),
    ],
)
def test_attention_is_its_definition(options: dict, same_as: dict) -> None:
    got = nn.dot_product_attention(QUERY, KEY, VALUE, **options)
    np.testing.assert_allclose(np.asarray(got), attention(QUERY, KEY, VALUE, **same_as), rtol=1e-9)


def test_attention_without_batch_and_with_nothing_to_see() -> None:
    one = nn.dot_product_attention(QUERY[0], KEY[0], VALUE[0])
    np.testing.assert_allclose(np.asarray(one), attention(QUERY, KEY, VALUE)[0], rtol=1e-9)

    def blind(q):
        return nn.dot_product_attention(q, KEY, VALUE, mask=np.zeros((5, 6), bool)).sum()

    value, slope = fgrad.value_and_grad(blind)(QUERY)
    assert float(value) == 0 and not np.asarray(slope).any()
    with pytest.raises(errors.ShapeError, match="multiple of the key heads"):
        nn.dot_product_attention(QUERY[:, :, :3], KEY, VALUE)


def test_attention_gives_the_logsumexp_of_its_logits() -> None:
    shown = np.broadcast_to(THERE <= HERE, (5, 6)).copy()
    shown[2] = False
    out, residual = nn.dot_product_attention(QUERY, KEY, VALUE, mask=shown, return_residual=True)
    plain = nn.dot_product_attention(QUERY, KEY, VALUE, mask=shown)
    assert np.array_equal(out, plain) and residual.shape == (2, 5, 4)
    logits = np.einsum("btnh,bsnh->btns", QUERY, np.repeat(KEY, 2, 2)) / np.sqrt(3)
    logits = np.where(shown[None, :, None], logits, -np.inf)
    np.testing.assert_allclose(residual, scipy.special.logsumexp(logits, -1), rtol=1e-9)

    def total(q):
        return fnp.sum(fnp.where(np.arange(5)[:, None] == 2, 0, residual_of(q)))

    def residual_of(q):
        return nn.dot_product_attention(q, KEY, VALUE, mask=shown, return_residual=True)[1]

    slope = fgrad.grad(total)(QUERY)
    weights = scipy.special.softmax(np.where(np.isfinite(logits), logits, -1e300), -1)
    want = np.einsum("btns,bsnh->btnh", weights, np.repeat(KEY, 2, 2)) / np.sqrt(3)
    want[:, 2] = 0
    np.testing.assert_allclose(slope, want, rtol=1e-9, atol=1e-12)


# ---- pooling
def test_pooling_over_windows() -> None:
    x = R.normal(size=(2, 6, 6, 3))
    blocks = x.reshape(2, 3, 2, 3, 2, 3)
    np.testing.assert_allclose(np.asarray(nn.max_pool(x, (2, 2), (2, 2))), blocks.max((2, 4)))
    np.testing.assert_allclose(np.asarray(nn.min_pool(x, (2, 2), (2, 2))), blocks.min((2, 4)))
    np.testing.assert_allclose(np.asarray(nn.avg_pool(x, (2, 2), (2, 2))), blocks.mean((2, 4)))
    ones = nn.avg_pool(np.ones((1, 5, 5, 1)), (3, 3), (2, 2), "SAME", count_include_pad=False)
    np.testing.assert_allclose(np.asarray(ones), 1)


# ---- initializers
FANS = {"glorot": (1, 12 * (60 + 80) / 2), "he": (2, 12 * 60), "lecun": (1, 12 * 60)}


@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize("family", FANS)
def test_initializers_have_the_variance_they_promise(family: str, kind: str) -> None:
    make = getattr(nn.initializers, f"{family}_{kind}")
    x = np.asarray(make()(random.key(3), (3, 4, 60, 80)))
    scale, fan = FANS[family]
    assert abs(x.var() / (scale / fan) - 1) < 0.02
    assert abs(x.mean()) < 0.01 * x.std()


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_complex_initializers_have_the_variance_they_promise(kind: str) -> None:
    x = np.asarray(getattr(nn.initializers, f"he_{kind}")()(random.key(3), (100, 300), np.complex64))
    square = np.abs(x) ** 2 * 100 / 2
    assert x.dtype == np.complex64 and abs(square.mean() - 1) < 0.02
    assert abs(x.mean()) < 0.02 * x.std() and abs((x**2).mean()) < 0.02 * square.mean()
    if kind == "uniform":
        assert abs(np.median(square) - 1) < 0.03 and square.max() < 2.001  # |z|^2 is uniform


def test_plain_initializers() -> None:
    key = random.key(0)
    assert np.asarray(nn.initializers.zeros(key, (2,))).tolist() == [0, 0]
    assert np.asarray(nn.initializers.ones(key, (2,), "int32")).tolist() == [1, 1]
    assert np.asarray(nn.initializers.constant(2.5)(key, (2,))).tolist() == [2.5, 2.5]
    w = np.asarray(nn.initializers.orthogonal(2.0)(key, (6, 4)))
    np.testing.assert_allclose(w.T @ w, 4 * np.eye(4), atol=1e-5)
    assert nn.initializers.orthogonal()(key, (0, 3)).shape == (0, 3)
    kernel = np.asarray(nn.initializers.delta_orthogonal()(key, (3, 3, 2, 5)))
    assert not kernel[0].any()
    np.testing.assert_allclose(kernel[1, 1] @ kernel[1, 1].T, np.eye(2), atol=1e-6)
    with pytest.raises(errors.ShapeError, match="at least two axes"):
        nn.initializers.he_normal()(key, (3,))


@pytest.mark.parametrize(("shape", "axis"), [((4, 4), -1), ((4, 4), 0), ((2, 3, 6), 1)])
def test_the_orthogonal_initializer_lays_out_the_matrix_with_rows_first(shape: tuple[int, ...], axis: int) -> None:
    """Square ones would be transposed without anybody's noticing."""
    key = random.key(3)
    w = np.asarray(fgrad.nn.initializers.orthogonal(1.0, axis)(key, shape))
    columns = shape[axis]
    matrix = np.asarray(random.orthogonal(key, int(np.prod(shape)) // columns, m=columns))
    np.testing.assert_allclose(np.moveaxis(w, axis, -1).reshape(matrix.shape), matrix, rtol=1e-6)
