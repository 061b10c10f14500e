"""Special functions of lax and scipy.special, against SciPy."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

import fgrad
from fgrad import lax
from fgrad.scipy import special
from fgrad.scipy.stats import norm

RNG = np.random.default_rng(0)
X = RNG.normal(size=50) * 3
P, Q = RNG.random(50), RNG.random(50)
A = RNG.gamma(1, 4, 50)
ARGUMENTS = {
    "gammaln": (X,), "gamma": (X,), "digamma": (A,), "erf": (X,), "erfc": (X,), "erfinv": (2 * P - 1,), "expit": (X,),
    "logit": (P,), "entr": (P,), "ndtr": (X,), "log_ndtr": (X * 10,), "ndtri": (P,), "betaln": (A, Q), "beta": (A, Q),
    "rel_entr": (P, Q), "kl_div": (P, Q), "xlogy": (X, P), "xlog1py": (X, P), "boxcox": (P, X), "boxcox1p": (P, X),
    "gammasgn": (X,), "i0": (X,), "i1": (X,), "i0e": (X * 10,), "i1e": (X * 10,), "gammainc": (A, P * 9),
    "gammaincc": (A, P * 9), "erfcx": (X,), "exp1": (A,),
    "betainc": (A, Q * 5, P), "poch": (A, P), "factorial": (A,), "zeta": (1 + A, Q),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_values_are_those_of_scipy(name: str) -> None:
    args = ARGUMENTS[name]
    want = getattr(scipy.special, name)(*args)
    np.testing.assert_allclose(np.asarray(getattr(special, name)(*args)), want, rtol=1e-11)


SLOPES = {
    "gammainc": (1, (2.3, 1.7)), "igamma_a": (0, (2.3, 1.7)), "betainc": (2, (1.5, 2.0, 0.3)), "ndtri": (0, (0.2,)),
    "log_ndtr": (0, (-20.0,)), "i0e": (0, (1.3,)), "i1e": (0, (30.0,)), "zeta": (1, (3.0, 0.7)), "entr": (0, (0.4,)),
    "xlogy": (1, (0.5, 2.0)), "rel_entr": (0, (0.3, 0.4)), "betaln": (0, (2.0, 0.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_those_of_finite_differences(name: str) -> None:
    i, args = SLOPES[name]
    f = lax.igamma if name == "igamma_a" else getattr(special, name)
    args = [np.float64(a) for a in args]
    got = float(fgrad.grad(f, i)(*args))
    h = 1e-5
    up, down = list(args), list(args)
    up[i], down[i] = args[i] + h, args[i] - h
    want = (float(f(*up)) - float(f(*down))) / (2 * h)
    assert got == pytest.approx(want, rel=1e-6)


def test_edges_have_their_limits() -> None:
    edge = np.array([0.0, 1, -1, 2, np.nan])
    np.testing.assert_array_equal(np.asarray(special.ndtri(edge)), [-np.inf, np.inf, np.nan, np.nan, np.nan])
    tails = np.array([1e-300, 1e-40, 1e-12, 1 - 1e-12])
    np.testing.assert_allclose(np.asarray(special.ndtri(tails)), scipy.special.ndtri(tails), rtol=1e-11)
    assert float(special.xlogy(0.0, 0.0)) == 0 and float(special.entr(-1.0)) == -np.inf
    a, x = np.array([1.0, 0, -1, 1, np.inf, 1]), np.array([0.0, 1, 1, np.inf, 1, -1])
    np.testing.assert_array_equal(np.asarray(lax.igamma(a, x)), scipy.special.gammainc(a, x))


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_polygamma(order: int) -> None:
    want = scipy.special.polygamma(order, A)
    np.testing.assert_allclose(np.asarray(special.polygamma(order, A)), want, rtol=1e-12)


@pytest.mark.parametrize("name", ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"])
def test_the_normal_distribution(name: str) -> None:
    want = getattr(scipy.stats.norm, name)(X, 1.0, 2.0)
    np.testing.assert_allclose(np.asarray(getattr(norm, name)(X, 1.0, 2.0)), want, rtol=1e-11)


def test_combinations_of_integers_are_exact() -> None:
    got = special.comb(np.arange(12.0), 3)
    np.testing.assert_array_equal(np.asarray(got), scipy.special.comb(np.arange(12.0), 3))
