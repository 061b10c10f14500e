"""Random numbers: the very bits of the published counter generator, and what follows from them.

EXPECTED holds numbers of another library with the same generator and layout, of key(42).
"""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import dtypes, errors, lax, random
from fgrad.config import config

KEY = 42
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
SHAPES = np.array([0.3, 1.0, 2.5, 10.0], np.float32)
ROWS = np.arange(6).reshape(3, 2)
EXPECTED = {
    "split": [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]],
    "fold_in": [605133419, 3761158475],
    "split_shape": [[[1832780943, 270669613]], [[64467757, 2916123636]]],
    "bits uint8": [162, 217, 249, 215],
    "bits uint16": [5026, 12505, 63993, 49623],
    "bits uint32": [2098992034, 2919706841, 2646866425, 2409546199],
    "uniform float16": [-0.6953125, -0.23828125, 2.90234375],
    "uniform bfloat16": [1.53125, 2.375, 2.875],
    "uniform float32": [0.9548382759094238, 1.7191886901855469, 1.4650859832763672],
    "normal": (
        [-0.02830461598932743, 0.4671318531036377, 0.2957029640674591, 0.15354591608047485,
        -0.12403281778097153, 0.21692314743995667]
    ),
    "truncated_normal": (
        [-0.027016498148441315, 0.44438081979751587, 0.2818770706653595, 0.14650805294513702]
    ),
    "exponential": [0.670817494392395, 1.1388006210327148, 0.9578199982643127, 0.8232924938201904],
    "gumbel": [0.3340933918952942, 0.952019453048706, 0.7255305647850037, 0.5481715202331543],
    "laplace": (
        [0.022839652374386787, -0.4456535577774048, -0.2646729052066803, -0.1301453858613968]
    ),
    "logistic": [-0.0451694130897522, 0.7528398036956787, 0.47375231981277466, 0.245286762714386],
    "cauchy": [-0.03548463061451912, 0.6337261199951172, 0.38244056701660156, 0.1940706968307495],
    "maxwell": [0.553582489490509, 0.293285071849823, 1.708603024482727, 1.5084577798843384],
    "gumbel high": (
        [0.39925798773765564, -0.12997561693191528, 0.043095413595438004, 0.1944437325000763]
    ),
    "pareto": [1.3077747821807861, 1.5769935846328735, 1.4668657779693604, 1.3900184631347656],
    "rayleigh": [2.9916276931762695, 2.196476697921753, 2.4598467350006104, 2.6879491806030273],
    "weibull_min": [1.9157681465148926, 2.726288318634033, 2.429196357727051, 2.1960527896881104],
    "triangular": [1.2485027313232422, 1.6139203310012817, 1.4826433658599854, 1.3770694732666016],
    "wald": [2.226588487625122, 3.9277124404907227, 0.38947534561157227, 0.9742456674575806],
    "lognormal": [0.9859473705291748, 1.2630960941314697, 1.159340739250183, 1.0797969102859497],
    "randint int32": [44, 14, 71, 69, 9, 19],
    "randint uint8": [44, 14, 71, 69, 9, 19],
    "randint int8": [44, 14, 71, 69, 9, 19],
    "randint all": [196, 18, 183, 193, 141, 107],
    "bernoulli": [False, False, False, False, False, False, True, False],
    "bernoulli high": [False, False, False, False, False, False, True, False],
    "rademacher": [1, -1, -1, -1, 1, -1],
    "geometric": [3, 2, 2, 2, 3, 2],
    "permutation": [7, 4, 2, 5, 3, 6, 8, 0, 1],
    "permutation rows": [[4, 5], [0, 1], [2, 3]],
    "permutation independent": [[0, 1], [2, 3], [4, 5]],
    "choice p": [2, 2, 2, 2, 2, 2, 3, 1, 2],
    "choice no replacement": [7, 4, 2, 5, 3],
    "choice p no replacement": [3, 2, 1],
    "categorical": [3, 3, 3, 3, 3, 3, 1, 1, 1],
    "categorical no replacement": [3, 2, 1],
    "gamma": [0.43624743819236755, 0.33158406615257263, 4.194111347198486, 8.321683883666992],
    "loggamma": [-0.8295456171035767, -1.1038738489151, 1.4336814880371094, 2.1188647747039795],
    "beta": [0.27497145533561707, 0.15737295150756836, 0.5494621992111206, 0.012798871845006943],
    "dirichlet": [0.20680315792560577, 0.06861007958650589, 0.7245867848396301],
    "t": [0.08987478166818619, -1.7357467412948608, 2.3520190715789795, 1.1635191440582275],
    "chisquare": [5.87071418762207, 1.3978509902954102, 5.559423446655273, 1.4829895496368408],
    "f": [0.7448718547821045, 0.4786113500595093, 0.23294630646705627, 0.153814435005188],
    "ball": (
        [[0.3234022855758667, 0.061338748782873154, 0.01824338734149933], [0.4372413158416748,
        -0.07705393433570862, 0.3594384789466858]]
    ),
    "generalized_normal": (
        [-0.8782375454902649, -0.2061624526977539, 1.160470962524414, 0.10202968865633011]
    ),
    "poisson": [1, 2, 15, 977],
    "binomial": [3.0, 34.0, 18.0],
    "multivariate_normal": (
        [[0.9599712491035461, 2.426954746246338], [1.418187141418457, 2.248175859451294]]
    ),
    "double_sided_maxwell": (
        [-1.7620434761047363, -0.3513779640197754, 5.444042682647705, 2.351099967956543]
    ),
    "randint64": [76, 55, 3, 83, 71, 26],
    "choice": [4, 4, 1, 9, 9, 9],
    "bits uint64": [7871734211187709741, 276886910877598708, 10591095138341673235],
    "uniform float64": [0.7069102665996363, -0.9399597219387417, 1.2965776715981407],
    "normal float64": [-0.18471174528191162, -2.169824560397754, 0.18693555179382582],
}  # fmt: skip


def sample(name: str, key: object):
    """The numbers that EXPECTED has under `name`."""
    kind, _, detail = name.partition(" ")
    same = {"exponential", "gumbel", "laplace", "logistic", "cauchy", "maxwell"}
    if kind in same:
        return getattr(random, kind)(key, (4,), mode=detail or None) if kind == "gumbel" else (
            getattr(random, kind)(key, (4,)))  # fmt: skip
    calls = {
        "split": lambda: random.split(key, 3).words,
        "split_shape": lambda: random.split(key, (2, 1)).words,
        "fold_in": lambda: random.fold_in(key, 12345).words,
        "bits": lambda: random.bits(key, (3,) if detail == "uint64" else (4,), detail),
        "uniform": lambda: random.uniform(key, (3,), detail, -1, 3),
        "normal": lambda: random.normal(key, (3,), detail) if detail else random.normal(key, (6,)),
        "truncated_normal": lambda: random.truncated_normal(key, -2.0, 2.0, (4,)),
        "pareto": lambda: random.pareto(key, 2.5, (4,)),
        "rayleigh": lambda: random.rayleigh(key, 2.5, (4,)),
        "weibull_min": lambda: random.weibull_min(key, 2.5, 1.5, (4,)),
        "triangular": lambda: random.triangular(key, 0.0, 1.0, 3.0, (4,)),
        "wald": lambda: random.wald(key, 2.0, (4,)),
        "lognormal": lambda: random.lognormal(key, 0.5, (4,)),
        "randint": lambda: (
            random.randint(key, (6,), 0, 256, "uint8") if detail == "all" else random.randint(key, (6,), 0, 100, detail)
        ),
        "randint64": lambda: random.randint(key, (6,), -3, 100),
        "bernoulli": lambda: random.bernoulli(key, 0.3, (8,), detail or "low"),
        "rademacher": lambda: random.rademacher(key, (6,)),
        "geometric": lambda: random.geometric(key, 0.3, (6,)),
        "gamma": lambda: random.gamma(key, SHAPES),
        "loggamma": lambda: random.loggamma(key, SHAPES),
        "beta": lambda: random.beta(key, 0.5, 2.0, (4,)),
        "dirichlet": lambda: random.dirichlet(key, np.array([0.5, 1.0, 2.0], np.float32)),
        "t": lambda: random.t(key, 3.0, (4,)),
        "chisquare": lambda: random.chisquare(key, 3.0, (4,)),
        "f": lambda: random.f(key, 3.0, 4.0, (4,)),
        "ball": lambda: random.ball(key, 3, 2, (2,)),
        "generalized_normal": lambda: random.generalized_normal(key, 1.5, (4,)),
        "poisson": lambda: random.poisson(key, np.array([0.5, 3.0, 20.0, 1000.0], np.float32)),
        "binomial": lambda: random.binomial(
            key, np.array([5, 100.0, 20], np.float32), np.array([0.5, 0.3, 0.9], np.float32)
        ),
        "multivariate_normal": lambda: random.multivariate_normal(
            key, np.array([1.0, 2.0], np.float32), np.array([[2, 0.5], [0.5, 1]], np.float32), (2,)
        ),
        "double_sided_maxwell": lambda: random.double_sided_maxwell(key, 1.0, 2.0, (4,)),
    }
    by_name = {
        "permutation": lambda: random.permutation(key, 9),
        "permutation rows": lambda: random.permutation(key, ROWS),
        "permutation independent": lambda: random.permutation(key, ROWS, 1, independent=True),
        "choice": lambda: random.choice(key, 10, (6,)),
        "choice p": lambda: random.choice(key, 4, (9,), p=P),
        "choice no replacement": lambda: random.choice(key, 10, (5,), False),
        "choice p no replacement": lambda: random.choice(key, 4, (3,), False, P),
        "categorical": lambda: random.categorical(key, np.log(P), shape=(9,)),
        "categorical no replacement": lambda: random.categorical(key, np.log(P), shape=(3,), replace=False),
    }
    return by_name[name]() if name in by_name else calls[kind]()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_key_gives_the_published_numbers(name: str) -> None:
    got = np.asarray(sample(name, random.key(KEY)))
    want = np.asarray(EXPECTED[name])
    assert got.shape == want.shape
    if got.dtype.kind in "iub":
        assert np.array_equal(got, want)
    else:
        loose = {"float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-12}.get(str(got.dtype), 2e-5)
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=loose, atol=loose)


def test_bare_words_are_keys_too() -> None:
    bare, typed = random.PRNGKey(7), random.key(7)
    assert np.array_equal(random.uniform(bare, (4,)), random.uniform(typed, (4,)))
    first, second = random.split(bare)
    assert np.array_equal(first, random.key_data(random.split(typed)[0]))
    assert second.shape == (2,)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_keys_of_four_words(impl: str) -> None:
    bare, typed = random.PRNGKey(7, impl=impl), random.key(7, dtype=random.key_dtype(impl))
    assert np.asarray(bare).tolist() == [0, 7, 0, 7]
    assert random.key_impl(typed) == impl and typed.dtype != random.key(7).dtype
    assert typed.dtype == random.key(0, impl=impl).dtype == random.split(typed).dtype
    assert np.array_equal(random.uniform(bare, (4,)), random.uniform(typed, (4,)))
    assert not np.array_equal(random.uniform(bare, (4,)), random.uniform(random.PRNGKey(7), (4,)))
    keys = random.split(bare, 3)
    assert keys.shape == (3, 4) and len({random.bits(k).item() for k in keys}) == 3
    assert random.fold_in(typed, 1).shape == () and random.split(typed, (2, 3)).shape == (2, 3)
    x = np.asarray(fgrad.jit(fgrad.vmap(lambda k: random.uniform(k, (2000,))))(random.split(typed, 5)))
    assert abs(x.mean() - 0.5) < 0.01 and np.abs(np.corrcoef(x) - np.eye(5)).max() < 0.1
    assert np.array_equal(random.wrap_key_data(bare, impl=impl).words, bare)
    assert np.asarray(fgrad.vmap(lambda s: random.PRNGKey(s, impl=impl))(np.arange(2))).shape == (2, 4)
    with pytest.raises(errors.DtypeError, match=r"needs uint32\[..., 2\]"):
        random.wrap_key_data(bare)
    with pytest.raises(ValueError, match="not both"):
        random.key(0, impl=impl, dtype=impl)
    with pytest.raises(NotImplementedError, match="use impl='threefry2x32'"):
        random.key(0, impl="philox4x32")


def test_keys_count_all_64_bits_of_a_seed() -> None:
    assert np.asarray(random.PRNGKey((1 << 40) + 5)).tolist() == [256, 5]
    assert np.asarray(random.PRNGKey(-1)).tolist() == [0, 0xFFFFFFFF]  # a seed of 32 bits
    assert np.asarray(random.PRNGKey(-(1 << 31) - 1)).tolist() == [0xFFFFFFFF, 0x7FFFFFFF]
    with config.override(enable_x64=True):
        assert np.asarray(random.PRNGKey(-1)).tolist() == [0xFFFFFFFF, 0xFFFFFFFF]
    with pytest.raises(OverflowError):
        random.key(1 << 64)
    with pytest.raises(errors.DtypeError, match="a seed is an integer"):
        random.key(1.5)


def test_choice_draws_indices_of_as_many_bits_as_the_default_integers_of_other_libraries() -> None:
    with config.override(enable_x64=True):
        assert np.asarray(random.choice(random.key(KEY), 10, (6,))).tolist() == [5, 8, 3, 1, 5, 6]
    rows = random.choice(random.key(KEY), np.arange(20).reshape(2, 10), (6,), axis=1)
    assert np.asarray(rows[0]).tolist() == EXPECTED["choice"] and rows.dtype == np.int64


def test_a_traced_seed_gives_the_same_key() -> None:
    keys = fgrad.vmap(random.PRNGKey)(np.arange(3))
    assert np.asarray(keys).tolist() == [[0, 0], [0, 1], [0, 2]]


def test_keys_pass_through_transformations() -> None:
    def step(key, _):
        key, fresh = random.split(key)
        return key, random.uniform(fresh)

    end, numbers = lax.scan(step, random.key(0), None, length=3)
    assert isinstance(end, random.KeyArray) and end.shape == ()
    key, want = random.key(0), []
    for _ in range(3):
        key, fresh = random.split(key)
        want.append(float(random.uniform(fresh)))
    assert np.asarray(numbers).tolist() == want
    many = random.split(random.key(0), 3)
    mapped = fgrad.vmap(lambda k: random.normal(k, (2,)))(many)
    assert np.array_equal(mapped[1], random.normal(many[1], (2,)))
    assert np.array_equal(fgrad.jit(lambda k: random.bits(k))(many[2]), random.bits(many[2]))


def test_a_key_array_is_indexed_and_iterated_like_an_array_of_keys() -> None:
    keys = random.split(random.key(0), 4)
    assert keys.shape == (4,) and len(keys) == 4 and keys.dtype == "key<fry>"
    assert np.array_equal(keys[-1].words, list(keys)[3].words)
    assert keys[1:3].shape == (2,) and keys.reshape(2, 2).shape == (2, 2)
    with pytest.raises(IndexError):
        keys[4]


def test_functions_want_one_key() -> None:
    with pytest.raises(errors.ShapeError, match="takes a single key"):
        random.uniform(random.split(random.key(0)))
    with pytest.raises(errors.DtypeError, match="needs a key"):
        random.normal(np.zeros(2, np.float32))


def test_parameters_must_fit_the_shape() -> None:
    with pytest.raises(errors.ShapeError, match="do not broadcast to it"):
        random.uniform(random.key(0), (3,), minval=np.zeros((2, 3), np.float32))
    with pytest.raises(errors.DtypeError, match="randint gives integers"):
        random.randint(random.key(0), (3,), 0, 2, "float32")
    with pytest.raises(errors.ShapeError, match=r"gamma got shape=\(2,\), but its parameters have shapes \(3,\)"):
        random.gamma(random.key(0), np.ones(3), (2,))
    with pytest.raises(errors.ShapeError, match=r"categorical got shape=\(5,\), which does not end in \(3,\)"):
        random.categorical(random.key(0), np.zeros((3, 4)), shape=(5,))
    with pytest.raises(errors.ShapeError, match="ball got the negative size"):
        random.ball(random.key(0), -1)
    with pytest.raises(errors.ArgumentError, match="there are none"):
        random.permutation(random.key(0), -1)
    with pytest.raises(errors.ArgumentError, match="cannot draw 5 of 3"):
        random.choice(random.key(0), 3, (5,), replace=False)


def test_an_empty_range_gives_its_lower_end_and_a_full_one_all_integers() -> None:
    assert np.asarray(random.randint(random.key(0), (5,), 7, 3)).tolist() == [7] * 5
    full = np.asarray(random.randint(random.key(0), (4000,), 0, 256, "uint8"))
    assert len(np.unique(full)) == 256


def test_parameters_that_make_no_distribution() -> None:
    chances = np.array([0.0, 1.0, -0.5, 2.0, np.nan])
    most = np.iinfo(np.int64).max
    assert np.asarray(random.geometric(random.key(0), chances)).tolist() == [most, 1, -1, -1, -1]
    for draw in (random.gamma, random.t):
        assert np.isnan(np.asarray(draw(random.key(0), np.array([-1.0, np.nan])))).all()
    assert np.asarray(random.poisson(random.key(0), np.array([-1.0, np.nan]))).tolist() == [-1, -1]


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_normal_vectors_have_the_covariance_that_was_asked_for(method: str) -> None:
    cov = np.array([[2.0, -1.0], [-1.0, 3.0]])
    draw = fgrad.jit(lambda k: random.multivariate_normal(k, np.array([1.0, -1.0]), cov, (8000,), method=method))
    x = np.asarray(draw(random.key(5)))
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.15)
    np.testing.assert_allclose(x.mean(0), [1, -1], atol=0.07)
    flat = random.multivariate_normal(random.key(5), np.zeros(2), np.ones((2, 2)), (50,), method=method)
    if method != "cholesky":  # a singular covariance has a root all the same
        np.testing.assert_allclose(flat[:, 0], flat[:, 1], atol=1e-3)


def test_the_far_tail_of_gumbel_numbers() -> None:
    for mode in ("low", "high", "highest"):
        x = np.asarray(random.gumbel(random.key(1), (20_000,), mode=mode))
        assert abs(x.mean() - 0.5772) < 0.03 and abs(x.std() - np.pi / np.sqrt(6)) < 0.03
    with pytest.raises(ValueError, match="got 'most'"):
        random.gumbel(random.key(1), mode="most")


def test_gamma_samples_move_with_their_parameter() -> None:
    slope = fgrad.grad(lambda a: random.gamma(random.key(KEY), a).sum())(SHAPES)
    want = [1.8602114, 0.6333831, 1.3690077, 0.92624474]
    np.testing.assert_allclose(np.asarray(slope), want, rtol=1e-5)


def test_samples_have_the_moments_of_their_distribution() -> None:
    key = random.key(3)
    x = np.asarray(random.normal(key, (20_000,)))
    assert abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.02
    assert abs(np.asarray(random.gamma(key, fnp.full((2000,), 3.0))).mean() - 3) < 0.15
    assert abs(np.asarray(random.poisson(key, 30.0, (2000,))).mean() - 30) < 0.5


def test_orthogonal_matrices_are_orthogonal() -> None:
    q = np.asarray(random.orthogonal(random.key(1), 6, (2,), m=4))
    assert q.shape == (2, 6, 4)
    np.testing.assert_allclose(q.swapaxes(1, 2) @ q, np.stack([np.eye(4)] * 2), atol=1e-5)
    u = np.asarray(random.orthogonal(random.key(1), 3, dtype=np.complex64, m=5))
    np.testing.assert_allclose(u @ u.conj().T, np.eye(3), atol=1e-5)
    assert np.abs(u.imag).max() > 0.1
    assert random.orthogonal(random.key(1), 3, (2,), m=0).shape == (2, 3, 0)


def test_counts_of_outcomes_add_up() -> None:
    counts = np.asarray(random.multinomial(random.key(KEY), np.float32(100), P))
    assert counts.sum() == 100 and counts.tolist() == [13, 15, 27, 45]


MOVES = {
    "stack": lambda k: fnp.stack([k, k], 1),
    "concatenate": lambda k: fnp.concatenate([k, k[:1]]),
    "vstack": lambda k: fnp.vstack([k[0], k[1]]),
    "where": lambda k: fnp.where(np.array([True, False, True]), k[0], k[1]),
    "reshape": lambda k: fnp.reshape(k, (3, -1)),
    "ravel": lambda k: fnp.ravel(k),
    "expand_dims": lambda k: fnp.expand_dims(k, 1),
    "squeeze": lambda k: fnp.squeeze(k[:1]),
    "broadcast_to": lambda k: fnp.broadcast_to(k[0], (4, 3)),
    "take": lambda k: fnp.take(k, np.array([2, 0]), axis=1),
    "tile": lambda k: fnp.tile(k, (2, 1)),
    "repeat": lambda k: fnp.repeat(k, 2, axis=0),
    "repeat each": lambda k: fnp.repeat(k, np.array([2, 1]), axis=0),
    "moveaxis": lambda k: fnp.moveaxis(k, 0, 1),
    "transpose": lambda k: fnp.transpose(k),
    "flip": lambda k: fnp.flip(k, 1),
    "roll": lambda k: fnp.roll(k, 1, 1),
    "split": lambda k: fnp.split(k, 3, axis=1)[2],
    "dynamic_index_in_dim": lambda k: lax.dynamic_index_in_dim(k, 1, keepdims=False),
    "dynamic_slice": lambda k: lax.dynamic_slice(k, (0, 1), (2, 2)),
    "dynamic_update_index_in_dim": lambda k: lax.dynamic_update_index_in_dim(k, k[0], 1, 0),
    "select": lambda k: lax.select(np.array([True, False, True]), k[0], k[1]),
    "asarray": lambda k: fnp.asarray(k),
    "T": lambda k: k.T,
    "transpose of axes": lambda k: k.transpose(1, 0),
    "squeeze of all": lambda k: k[:1].squeeze(),
    "squeeze of one": lambda k: k[:1].squeeze(0),
    "at set": lambda k: k.at[0, 1].set(k[1, 2]),
    "at get": lambda k: k.at[..., 0].get(),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_functions_that_move_elements_take_arrays_of_keys(name: str, impl: str) -> None:
    keys = random.split(random.key(3, impl=impl), (2, 3))
    numbers = fnp.arange(6).reshape(2, 3)
    places = MOVES[name](numbers)
    words = np.asarray(random.key_data(keys)).reshape(6, -1)
    for got in (MOVES[name](keys), fgrad.jit(MOVES[name])(keys), fgrad.vmap(MOVES[name])(keys[None])[0]):
        assert isinstance(got, random.KeyArray) and got.dtype == keys.dtype and got.shape == places.shape
        np.testing.assert_array_equal(random.key_data(got), words[np.asarray(places)])


def test_keys_are_moved_with_keys_of_their_kind_only() -> None:
    with pytest.raises(errors.ArgumentError, match=r"stack got keys of different kinds, key<fry> and key<rbg>"):
        fnp.stack([random.key(0), random.key(0, impl="rbg")])
    with pytest.raises(errors.ArgumentError, match="expected an array or a number, got a KeyArray"):
        fnp.add(random.key(0), 1)
    with pytest.raises(errors.DtypeError, match=r"set needs key<fry>, got"):
        random.split(random.key(0)).at[0].set(3)
    with pytest.raises(errors.ShapeError, match="not of size 1"):
        random.split(random.key(0)).squeeze(0)


def test_the_dtype_of_keys_lies_below_prng_key() -> None:
    kind = random.key(0).dtype
    assert dtypes.issubdtype(kind, dtypes.prng_key) and dtypes.issubdtype(kind, dtypes.extended)
    assert not dtypes.issubdtype(kind, np.integer) and not dtypes.issubdtype(np.float32, dtypes.prng_key)
    assert not dtypes.issubdtype(fnp.ones(2).dtype, dtypes.prng_key) and random.key(0).nbytes == 8
