"""Integrals, hypergeometric functions, families and complex functions of scipy.special, against SciPy."""

from typing import Any

import numpy as np
import pytest
import scipy.special

import fgrad
import fgrad.numpy as fnp
from fgrad import grad, jit, lax
from fgrad.errors import ArgumentError, ConcretizationError, DtypeError
from fgrad.scipy import special

RNG = np.random.default_rng(0)
WIDE = np.concatenate([np.linspace(-50, 50, 301), [0, np.inf, -np.inf, np.nan, 1e-8, -1e-8, 1e5, 700, 1e9]])
ORDERS, POINTS = (v.ravel() for v in np.meshgrid(np.arange(12.0), [0, 1e-9, 0.3, 1, 1.9, 2, 2.1, 7, 60]))
H, A = (v.ravel() for v in np.meshgrid([-3, -0.5, 0, 1e-3, 2, 9], [-np.inf, -7, -1, -0.2, 0, 0.9, 3]))
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "expi": (WIDE,), "sici": (WIDE,), "fresnel": (WIDE,), "dawsn": (WIDE,), "spence": (WIDE[np.isfinite(WIDE)],),
    "expn": (ORDERS, POINTS), "owens_t": (H, A),
    "hyp1f1": (*RNG.uniform(0.1, 9, (2, 60)), RNG.uniform(-9, 60, 60)),
    "hyp2f1": (*RNG.uniform(-3, 3, (3, 60)), RNG.uniform(-4, 0.99, 60)),
}  # fmt: skip


def agree(got: Any, wanted: Any, rtol: float) -> None:
    for g, w in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]:
        np.testing.assert_allclose(np.asarray(g), w, rtol=rtol)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_values_are_those_of_scipy(name: str) -> None:
    args = ARGUMENTS[name]
    agree(getattr(special, name)(*args), getattr(scipy.special, name)(*args), 1e-9 if "hyp" in name else 1e-12)


SLOPES = {
    "expi": (2.5,), "dawsn": (0.7,), "spence": (0.4,), "owens_t": (0.8, -1.6), "hyp1f1": (1.5, 2.5, -3.0),
    "hyp2f1": (0.8, 0.7, 0.2, 0.4),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_in_every_argument(name: str) -> None:
    args = [np.float64(a) for a in SLOPES[name]]
    f, judge = getattr(special, name), getattr(scipy.special, name)
    slopes = grad(f, tuple(range(len(args))))(*args)
    for i, slope in enumerate(slopes):
        steps = [[a + sign * 1e-6 * (i == k) for k, a in enumerate(args)] for sign in (1, -1)]
        assert float(slope) == pytest.approx((judge(*steps[0]) - judge(*steps[1])) / 2e-6, rel=1e-6)


def test_slopes_of_pairs_and_at_removable_singularities() -> None:
    for f, want in ((special.sici, (np.sin(3) / 3, np.cos(3) / 3)),
                    (special.fresnel, (np.sin(4.5 * np.pi), np.cos(4.5 * np.pi)))):  # fmt: skip
        got = fgrad.jacfwd(f)(np.float64(3.0))
        np.testing.assert_allclose([float(g) for g in got], want, rtol=1e-12, atol=1e-14)
    assert float(grad(lambda x: special.sici(x)[0])(0.0)) == 1
    assert float(grad(special.spence)(1.0)) == -1
    assert float(grad(special.expn, 1)(3, 0.5)) == pytest.approx(-scipy.special.expn(2, 0.5))
    assert float(grad(special.expn, 1)(0, np.float64(0.5))) == pytest.approx(-6 * np.exp(-0.5))
    with pytest.raises(NotImplementedError, match="the derivative of expn in its argument 0"):
        grad(special.expn)(2.0, 0.5)
    with pytest.raises(DtypeError, match="sici"):
        special.sici(1j)


def test_hypergeometric_series_that_end_or_do_not_converge() -> None:
    a = np.array([0, 1, 1, 1, 5, 0.245, 0.45, 2, -2, -1, -2, 1])
    b = np.array([1, 0, 1, 1, 1, 3, 0.7, 1, 1, 1, 0.5, 1])
    c = np.array([1, 1, 0, 1, 3, 3, 0.45, 5, -1, -2, 1, 1])
    x = np.array([1, 1, 1, 0, 1, 0.35, 1.5, 1, 0.5, 0.5, 3, -100])
    agree(special.hyp2f1(a, b, c, x), scipy.special.hyp2f1(a, b, c, x), 1e-10)
    a, b, x = np.array([1.0, -1, -2, -3]), np.array([0.0, -2, -1, 2]), np.array([0.5, 0.5, 0.5, 7])
    agree(special.hyp1f1(a, b, x), scipy.special.hyp1f1(a, b, x), 1e-12)


Z = RNG.uniform(-12, 12, 80) + 1j * RNG.uniform(-12, 12, 80)
CUT = np.array([-0.5 + 0j, complex(-0.5, -0.0), -7.5 + 0j, complex(-7.5, -0.0), 0.5 - 1j, -2.5 + 1e-12j, -3 + 0j, 200j])


@pytest.mark.parametrize("name", ["gamma", "loggamma", "wofz", "erfcx"])
def test_complex_functions(name: str) -> None:
    z = np.concatenate([Z, CUT]) if "gamma" in name else np.concatenate([Z / 2, [0, 1e-3, 5, 1e5]])
    agree(getattr(special, name)(z), getattr(scipy.special, name)(z), 1e-11)


def test_results_have_the_dtype_of_the_arguments() -> None:
    assert special.wofz(np.complex64(1j)).dtype == np.complex64
    assert special.dawsn(np.float16(1)).dtype == np.float16
    assert special.spence(np.float32(2)).dtype == np.float32


def test_faddeeva_has_a_derivative() -> None:
    _, slope = fgrad.jvp(special.wofz, (np.array(0.4 - 0.7j),), (np.array(1 + 0j),))
    h = 1e-5
    want = (scipy.special.wofz(0.4 - 0.7j + h) - scipy.special.wofz(0.4 - 0.7j - h)) / (2 * h)
    assert complex(slope) == pytest.approx(want, rel=1e-8)


def test_orders_of_polygamma_may_be_computed() -> None:
    orders, x = np.arange(6, dtype=np.int32), np.float64(1.7)
    agree(jit(special.polygamma)(orders, x), scipy.special.polygamma(orders, x), 1e-12)
    slope = grad(lambda x: special.polygamma(fnp.array(2), x))(x)
    assert float(slope) == pytest.approx(scipy.special.polygamma(3, 1.7), rel=1e-12)
    edge = special.polygamma(np.array([-1, 1, 2, 1]), np.array([1.0, 0.0, 0.0, -1.0]))
    np.testing.assert_array_equal(np.asarray(edge), [np.nan, np.inf, -np.inf, np.nan])
    assert float(lax.polygamma(1, 2.0)) == pytest.approx(scipy.special.polygamma(1, 2.0))


def test_betaln_of_large_arguments_does_not_cancel() -> None:
    x = np.geomspace(1, 1e30, 40)
    np.testing.assert_allclose(special.betaln(x, 1.0), -np.log(x), rtol=1e-13, atol=1e-13)
    agree(special.betaln(np.array([1e8, 3e5, 12]), np.array([2.5, 1e6, 30])),
          scipy.special.betaln([1e8, 3e5, 12], [2.5, 1e6, 30]), 1e-13)  # fmt: skip
    assert float(grad(special.betaln)(np.float64(1e10), 1.0)) == pytest.approx(-1e-10, rel=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"axis": 1}, {"axis": 0, "return_sign": True, "keepdims": True}, {"return_sign": True}]
)
def test_logsumexp_of_complex_numbers(options: dict[str, Any]) -> None:
    z, b = Z[:12].reshape(3, 4), Z[12:24].reshape(3, 4)
    agree(special.logsumexp(z, **options), scipy.special.logsumexp(z, **options), 1e-12)
    agree(special.logsumexp(z.real, b=b, **options), scipy.special.logsumexp(z.real, b=b, **options), 1e-12)
    assert np.isfinite(np.asarray(special.logsumexp(z * 1000))).all()
    assert np.asarray(special.logsumexp(np.full(2, -np.inf + 0j))).real == -np.inf


def test_families() -> None:
    np.testing.assert_allclose(special.bernoulli(12), scipy.special.bernoulli(12), rtol=1e-6)
    x = np.concatenate([[0, 1e-6, -2], RNG.uniform(-25, 25, 30)])
    rows = special.bessel_jn(x, v=5)
    np.testing.assert_allclose(rows, [scipy.special.jv(k, x) for k in range(6)], atol=1e-12)
    n = RNG.integers(0, 7, 50)
    m = np.array([RNG.integers(-k, k + 1) for k in n])
    theta, phi = RNG.uniform(-3, 3, 50), RNG.uniform(-6, 6, 50)
    wanted = scipy.special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(special.sph_harm_y(n, m, theta, phi), wanted, atol=1e-13)
    traced = jit(lambda n: special.sph_harm_y(n, m, theta, phi, n_max=6))(n)
    np.testing.assert_allclose(traced, wanted, atol=1e-13)
    with pytest.raises(ConcretizationError, match="give n_max="):
        jit(lambda n: special.sph_harm_y(n, m, theta, phi))(n)
    with pytest.raises(ArgumentError, match="n_iter must be more than v = 5"):
        special.bessel_jn(1.0, v=5, n_iter=4)
    with pytest.raises(NotImplementedError, match="use grad or jvp"):
        special.sph_harm_y(1, 0, 0.1, 0.2, 1)
