"""Distributions and sample statistics against SciPy."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.scipy import stats

theirs = pytest.importorskip("scipy.stats")

POINTS = np.array([-2.5, -1.0, -0.3, 0.0, 0.2, 0.5, 0.9, 1.0, 1.7, 4.0])
CONTINUOUS = {
    "beta": (2.0, 3.0), "cauchy": (), "chi2": (3.0,), "expon": (), "gamma": (2.5,), "gumbel_l": (), "gumbel_r": (),
    "laplace": (), "logistic": (), "norm": (), "pareto": (1.5,), "t": (4.0,), "truncnorm": (-1.0, 2.0), "uniform": (),
}  # fmt: skip
FUNCTIONS = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions_are_those_of_scipy(name: str) -> None:
    ours, reference, shapes = getattr(stats, name), getattr(theirs, name), CONTINUOUS[name]
    for function in FUNCTIONS:
        if hasattr(ours, function):
            got = getattr(ours, function)(POINTS, *shapes, 0.25, 1.5)
            with np.errstate(all="ignore"):
                wanted = getattr(reference, function)(POINTS, *shapes, 0.25, 1.5)
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12, err_msg=function)


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if hasattr(getattr(stats, n), "ppf")])
def test_quantiles_undo_distribution_functions(name: str) -> None:
    q = np.array([0.01, 0.3, 0.5, 0.99])
    ours, shapes = getattr(stats, name), CONTINUOUS[name]
    np.testing.assert_allclose(ours.cdf(ours.ppf(q, *shapes, 0.25, 1.5), *shapes, 0.25, 1.5), q, rtol=1e-9)
    if name not in ("norm", "cauchy", "logistic"):
        assert np.isnan(np.asarray(ours.ppf(np.array([-0.1, 1.1]), *shapes))).all()


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("bernoulli", (0.3,)), ("binom", (5, 0.3)), ("betabinom", (5, 2.0, 3.0)), ("geom", (0.3,)), ("nbinom", (3, 0.4)),
     ("poisson", (2.5,))],
)  # fmt: skip
def test_discrete_distributions_are_those_of_scipy(name: str, shapes: tuple[float, ...]) -> None:
    k = np.arange(-1, 9)
    for function in ("logpmf", "pmf"):
        wanted = getattr(getattr(theirs, name), function)(k, *shapes)
        got = getattr(getattr(stats, name), function)(k, *map(np.float64, shapes))
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-14)


def test_other_distributions() -> None:
    x = np.array([0.1, 1.0, 3.0])
    np.testing.assert_allclose(stats.gennorm.cdf(x, 1.5), theirs.gennorm.cdf(x, 1.5), rtol=1e-9)
    np.testing.assert_allclose(stats.vonmises.pdf(x, 2.0), theirs.vonmises.pdf(x, 2.0), rtol=1e-6)
    np.testing.assert_allclose(stats.wrapcauchy.logpdf(x, 0.4), theirs.wrapcauchy.logpdf(x, 0.4), rtol=1e-9)
    p = np.array([0.2, 0.3, 0.5])
    alpha = np.array([1.5, 2.0, 3.0])
    np.testing.assert_allclose(stats.dirichlet.logpdf(p, alpha), theirs.dirichlet.logpdf(p, alpha), rtol=1e-9)
    counts = np.array([2, 1, 3])
    wanted = theirs.multinomial.logpmf(counts, 6, p)
    np.testing.assert_allclose(stats.multinomial.logpmf(counts, 6, p), wanted, rtol=1e-9)
    mean, cov = np.array([0.5, -1.0]), np.array([[2.0, 0.3], [0.3, 0.7]])
    points = np.array([[0.0, 0.0], [1.0, -2.0]])
    wanted = theirs.multivariate_normal.logpdf(points, mean, cov)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(points, mean, cov), wanted, rtol=1e-9)
    mu = np.array([0.5, 5.0, 63.0, 65.0, 400.0])
    np.testing.assert_allclose(stats.poisson.entropy(mu), theirs.poisson.entropy(mu), rtol=1e-7)


def test_log_densities_have_gradients_also_outside_the_support() -> None:
    slope = fgrad.grad(lambda x: fnp.sum(stats.gamma.logpdf(x, 2.0)))(fnp.array([-1.0, 2.0]))
    np.testing.assert_allclose(slope, [0.0, 1 / 2 - 1], rtol=1e-6)


def test_mode_ranks_and_standard_errors() -> None:
    x = np.array([[3, 1, 1], [2, 1, 3], [3, 2, 3], [2, 2, 1]])
    for axis in (0, 1, None):
        got, wanted = stats.mode(x, axis=axis), theirs.mode(x, axis=axis)
        assert np.array_equal(got.mode, wanted.mode) and np.array_equal(got.count, wanted.count)
        for method in ("average", "min", "max", "dense", "ordinal"):
            wanted_ranks = theirs.rankdata(x, method=method, axis=axis)
            np.testing.assert_allclose(stats.rankdata(x, method, axis=axis), wanted_ranks)
        np.testing.assert_allclose(stats.sem(x * 1.0, axis=axis), theirs.sem(x, axis=axis))


def test_kernel_density_estimates() -> None:
    rng = np.random.default_rng(0)
    data, weights = rng.normal(size=(2, 20)), rng.uniform(size=20)
    ours, reference = stats.gaussian_kde(data, weights=weights), theirs.gaussian_kde(data, weights=weights)
    points = rng.normal(size=(2, 5))
    np.testing.assert_allclose(ours(points), reference(points), rtol=1e-8)
    mean, cov = np.zeros(2), np.eye(2)
    np.testing.assert_allclose(ours.integrate_gaussian(mean, cov), reference.integrate_gaussian(mean, cov), rtol=1e-8)
    np.testing.assert_allclose(ours.integrate_kde(ours), reference.integrate_kde(reference), rtol=1e-8)
    assert ours.resample(fgrad.random.key(0), shape=(7,)).shape == (2, 7)
    assert fgrad.jit(lambda k, x: k.logpdf(x))(ours, points).shape == (5,)
