"""Derivatives where a function has a kink, a tie, a mask, or values that are not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax, nn

INF, NAN = float("inf"), float("nan")
la = fnp.linalg
F = Callable[[Any], Any]


def both(x: Any) -> Any:
    """Two different numbers of one vector."""
    return x[0], x[1]


# (what, function of a vector, where, its gradient there)
KINKS: list[tuple[str, F, list[float], list[float]]] = [
    # ---- ties are shared evenly
    ("max of equals", fnp.max, [2, 2, 1, 2], [1 / 3, 1 / 3, 0, 1 / 3]),
    ("min of equals", fnp.min, [1, 2, 1], [0.5, 0, 0.5]),
    ("maximum of equals", lambda v: fnp.maximum(*both(v)), [1, 1], [0.5, 0.5]),
    ("minimum of equals", lambda v: fnp.minimum(*both(v)), [1, 1], [0.5, 0.5]),
    ("fmax of equals", lambda v: fnp.fmax(*both(v)), [1, 1], [0.5, 0.5]),
    ("maximum of one thing", lambda v: fnp.maximum(v, v).sum(), [1, 1], [1, 1]),
    ("ptp of equals", fnp.ptp, [1, 1], [0, 0]),
    ("nanmax of equals", fnp.nanmax, [NAN, 2, 2], [0, 0.5, 0.5]),
    ("a running maximum", lambda v: lax.cummax(v)[-1], [1, 3, 3], [0, 0.5, 0.5]),
    ("the norm of infinite order", lambda v: la.norm(v, INF), [-2, 2], [-0.5, 0.5]),
    ("max of rows", lambda v: fnp.max(v.reshape(2, 2), axis=1).sum(), [1, 1, 0, 3], [0.5, 0.5, 0, 1]),
    ("sort of equals", lambda v: fnp.sort(v)[0], [1, 1], [1, 0]),
    ("median of equals", fnp.median, [1, 1, 1], [0, 1, 0]),
    ("max_pool of equals", lambda v: nn.max_pool(v.reshape(1, 4, 1), (2,), (2,)).sum(), [1, 1, 0, 1],
     [0.5, 0.5, 0, 1]),
    # ---- kinks
    ("abs at 0", lambda v: abs(v).sum(), [0, -0.0], [0, 0]),
    ("relu at 0", lambda v: nn.relu(v).sum(), [0, -1, 2], [0, 0, 1]),
    ("maximum with 0", lambda v: fnp.maximum(v, 0).sum(), [0, -1, 2], [0, 0, 1]),
    ("relu6 at its ends", lambda v: nn.relu6(v).sum(), [0, 6, 3], [0, 0, 1]),
    ("leaky_relu at 0", lambda v: nn.leaky_relu(v).sum(), [-1, 2], [0.01, 1]),
    ("clip inside, at its bounds, outside", lambda v: fnp.clip(v, 0, 1).sum(), [0.5, 0, 1, -1, 2],
     [1, 1, 1, 0, 0]),
    ("lax.clamp at its bounds", lambda v: lax.clamp(0.0, v, 1.0).sum(), [0, 1, 2], [1, 1, 0]),
    ("sign", lambda v: fnp.sign(v).sum(), [0, 1], [0, 0]),
    ("copysign at 0", lambda v: fnp.copysign(v, -1.0).sum(), [0, 2], [0, -1]),
    ("hypot at 0", lambda v: fnp.hypot(*both(v)), [0, 0], [0, 0]),
    ("arctan2 at 0", lambda v: fnp.arctan2(*both(v)), [0, 0], [0, 0]),
    ("arctan2 at infinity", lambda v: fnp.arctan2(fnp.exp(v[0]), v[1]), [200, 1], [0, 0]),
    # ---- roots
    ("sqrt at 0", lambda v: fnp.sqrt(v).sum(), [0, 1], [INF, 0.5]),
    ("norm at 0", la.norm, [0, 0], [0, 0]),
    ("norm of a row of zeros", lambda v: la.norm(v.reshape(2, 2), axis=1).sum(), [0, 0, 3, 4], [0, 0, 0.6, 0.8]),
    ("norm of order 3 at 0", lambda v: la.norm(v, 3), [0, 0], [0, 0]),
    ("sqrt of a sum of squares", lambda v: fnp.sqrt((v**2).sum()), [0, 0], [0, 0]),
    ("sqrt of a dot", lambda v: fnp.sqrt(v @ v), [0, 0], [0, 0]),
    ("sqrt of a mean of squares", lambda v: fnp.sqrt(fnp.mean(fnp.square(v))), [0, 0], [0, 0]),
    ("a power of a sum of squares", lambda v: ((v**2).sum()) ** 0.5, [0, 0], [0, 0]),
    ("sqrt of a fourth power", lambda v: fnp.sqrt(v**4).sum(), [0, 2], [0, 4]),
    ("sqrt of masked squares", lambda v: fnp.sqrt(fnp.where(v > 0, v * v, 0).sum()), [0, 0], [0, 0]),
    ("std of equals", fnp.std, [1, 1, 1], [0, 0, 0]),
    ("nanstd of equals", fnp.nanstd, [1, NAN, 1], [0, 0, 0]),
    ("var of equals", fnp.var, [1, 1], [0, 0]),
    ("sqrt and a sum of squares of zeros", lambda v: fnp.sqrt((v * v).sum() + 1e-12), [0, 0], [0, 0]),
    ("hypotenuse times weight", lambda v: fnp.sqrt(((fnp.zeros(2) * v) ** 2).sum()), [1, 1], [0, 0]),
    # ---- powers
    ("x**0", lambda v: (v**0).sum(), [0, 2, NAN], [0, 0, 0]),
    ("x**0.0, computed", lambda v: (v ** (v[1] * 0))[0], [0, 2], [0, 0]),
    ("x**1 at 0", lambda v: (v**1).sum(), [0, 2], [1, 1]),
    ("x**2 at 0", lambda v: (v**2.0).sum(), [0, 2], [0, 4]),
    ("powers 0, 1, 2 of 0", lambda v: (v[0] ** fnp.arange(3.0)).sum(), [0], [1]),
    ("0**y", lambda v: (0.0**v).sum(), [1, 2], [0, 0]),
    ("square at 0", lambda v: fnp.square(v).sum(), [0], [0]),
    # ---- products with zeros
    ("prod, one zero", fnp.prod, [0, 2, 3], [6, 0, 0]),
    ("prod, two zeros", fnp.prod, [0, 0, 3], [0, 0, 0]),
    ("nanprod", fnp.nanprod, [0, NAN, 3], [3, 0, 0]),
    ("cumprod", lambda v: fnp.cumprod(v).sum(), [2, 0, 0, 3], [1, 2, 0, 0]),
    ("nancumprod", lambda v: fnp.nancumprod(v).sum(), [2, NAN, 3], [5, 0, 2]),
    ("reduce_prod", lambda v: lax.reduce_prod(v, (0,)), [0, 5], [5, 0]),
    # ---- masks: what is not selected contributes nothing, whatever it is
    ("where over log", lambda v: fnp.where(v > 0, fnp.log(v), 0).sum(), [0, 2, -1], [0, 0.5, 0]),
    ("where over a quotient", lambda v: fnp.where(v != 0, 1 / v, 0).sum(), [0, 2], [0, -0.25]),
    ("where over sqrt, twice", lambda v: fnp.where(v > 0, fnp.sqrt(fnp.log(v)), 0).sum(), [0, 1e-9], [0, NAN]),
    ("where over the square of NaN", lambda v: fnp.where(fnp.isnan(v), 0, v**2).sum(), [NAN, 3], [0, 6]),
    ("where of a given mask", lambda v: fnp.where(np.array([True, False]), v * v * v, 0).sum(), [2, NAN], [12, 0]),
    ("where of infinities", lambda v: fnp.where(fnp.isfinite(v), v * fnp.exp(v), 0).sum(), [0, INF], [1, 0]),
    ("nansum of squares", lambda v: fnp.nansum(v**2), [NAN, 3], [0, 6]),
    ("nanmean of squares", lambda v: fnp.nanmean(v**2), [NAN, 1, 3], [0, 1, 3]),
    ("nanvar", fnp.nanvar, [NAN, 1, 3], [0, -1, 1]),
    ("sum of a mask", lambda v: fnp.sum(v * v, where=np.array([True, False])), [2, NAN], [4, 0]),
    ("mean of a mask", lambda v: fnp.mean(v * v, where=np.array([True, False])), [2, INF], [4, 0]),
    ("overwritten", lambda v: (v * v).at[0].set(0.0).sum(), [NAN, 3], [0, 6]),
    ("cut out", lambda v: (1 / v)[1:].sum(), [0, 2], [0, -0.25]),
    ("gathered", lambda v: fnp.take(fnp.log(v), np.array([1, 1])).sum(), [0, 2], [0, 1]),
    ("arccos of clip", lambda v: fnp.arccos(fnp.clip(v, -1, 1)).sum(), [10, 0], [0, -1]),
    ("log of clip", lambda v: fnp.log(fnp.clip(v, 0.0, 1)).sum(), [0.5, 3], [2, 0]),
    ("cond over log", lambda v: lax.cond(v[0] > 0, fnp.log, fnp.zeros_like, v).sum(), [0, 2], [0, 0]),
    ("nan_to_num", lambda v: fnp.nan_to_num(v).sum(), [NAN, 2], [0, 1]),
    # ---- logarithms of sums
    ("logsumexp of nothing", nn.logsumexp, [-INF, -INF], [0, 0]),
    ("logsumexp with -inf", nn.logsumexp, [0, -INF], [1, 0]),
    ("logsumexp of a mask", lambda v: nn.logsumexp(v, where=np.array([True, False])), [0, 100], [1, 0]),
    ("logsumexp of factors", lambda v: nn.logsumexp(fnp.zeros(3), b=v), [2, 0, 5], [1 / 7] * 3),
    ("logsumexp of factors 0", lambda v: nn.logsumexp(v, b=np.array([1.0, 0.0])), [0, 1e30], [1, 0]),
    ("logsumexp of large numbers", nn.logsumexp, [1e30, 0], [1, 0]),
    ("softmax of a mask", lambda v: nn.softmax(v, where=np.array([True, False]))[0], [1, NAN], [0, 0]),
    ("log_softmax far away", lambda v: nn.log_softmax(v)[0], [0, 1e4], [1, -1]),
    ("logaddexp of -inf", lambda v: fnp.logaddexp(*both(v)), [-INF, 0], [0, 1]),
    ("logaddexp of equals", lambda v: fnp.logaddexp(*both(v)), [0, 0], [0.5, 0.5]),
    # ---- functions that level off, of arguments that overflow
    ("1/(1+exp(-x))", lambda v: (1 / (1 + fnp.exp(-v))).sum(), [-200, 0, 200], [0, 0.25, 0]),
    ("tanh of exp", lambda v: fnp.tanh(fnp.exp(v)).sum(), [200, -200], [0, 0]),
    ("arctan of exp", lambda v: fnp.arctan(fnp.exp(v)).sum(), [200], [0]),
    ("sigmoid of exp", lambda v: nn.sigmoid(fnp.exp(v)).sum(), [200], [0]),
    ("erf of exp", lambda v: lax.erf(fnp.exp(v)).sum(), [200], [0]),
    ("exp of -exp", lambda v: fnp.exp(-fnp.exp(v)).sum(), [200, 0], [0, -np.exp(-1)]),
    ("expm1 of -exp", lambda v: fnp.expm1(-fnp.exp(v)).sum(), [200], [0]),
    ("rsqrt of exp", lambda v: lax.rsqrt(1 + fnp.exp(v)).sum(), [200], [0]),
    ("a negative power of exp", lambda v: ((1 + fnp.exp(v)) ** -2.0).sum(), [200, 0], [0, -0.25]),
    ("1/cosh", lambda v: (1 / fnp.cosh(v)).sum(), [200], [0]),
    ("exp(-1/x)", lambda v: fnp.exp(-1 / v).sum(), [0, 1], [0, np.exp(-1)]),
    ("silu", lambda v: nn.silu(v).sum(), [-1e4, 1e4], [0, 1]),
    ("softplus", lambda v: nn.softplus(v).sum(), [-1e4, 0, 1e4], [0, 0.5, 1]),
    ("log_sigmoid", lambda v: nn.log_sigmoid(v).sum(), [-1e4, 1e4], [1, 0]),
    ("mish", lambda v: nn.mish(v).sum(), [-1e4, 1e4], [0, 1]),
    ("gelu", lambda v: nn.gelu(v).sum(), [-1e4, 1e4], [0, 1]),
    ("elu", lambda v: nn.elu(v).sum(), [-1e4, 1e4], [0, 1]),
    ("selu", lambda v: nn.selu(v).sum(), [1e4], [1.0507009873554805]),
    ("celu", lambda v: nn.celu(v).sum(), [-1e4, 1e4], [0, 1]),
    ("tanh", lambda v: fnp.tanh(v).sum(), [-200, 1e4], [0, 0]),
    ("sinc", lambda v: fnp.sinc(v).sum(), [0], [0]),
    # ---- no derivative
    ("argmax of ties", lambda v: fnp.argmax(v) * 1.0, [1, 1], [0, 0]),
    ("floor", lambda v: fnp.floor(v).sum(), [1, 1.5], [0, 0]),
    ("x % y at a multiple", lambda v: (v % 2).sum(), [4, 3], [1, 1]),
    ("searchsorted", lambda v: fnp.searchsorted(v, 0.5) * v[0], [0, 1], [1, 0]),
]  # fmt: skip


@pytest.mark.parametrize("case", KINKS, ids=[c[0] for c in KINKS])
def test_the_gradient_of(case: Any) -> None:
    _, f, x, wanted = case
    x = np.array(x, np.float32)
    got = fgrad.grad(f)(x)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)
    rows = fgrad.jit(fgrad.vmap(fgrad.grad(f)))(np.stack([x, x]))
    np.testing.assert_allclose(rows, [wanted] * 2, rtol=2e-5, atol=1e-6)


SECOND: list[tuple[str, F, float, float]] = [
    ("x**2 at 0", lambda x: x**2, 0.0, 2.0),
    ("x**2.0, computed, at 0", lambda x: x ** fnp.float32(2.0), 0.0, 2.0),
    ("exp(-x**2) at 0", lambda x: fnp.exp(-(x**2)), 0.0, -2.0),
    ("a masked logarithm", lambda x: fnp.where(x > 0, fnp.log(x), x * x), 0.0, 2.0),
    ("the square of a product with 0", lambda x: fnp.prod(fnp.stack([x, x, 3.0 * x])), 0.0, 0.0),
    ("1/(1+exp(-x))", lambda x: 1 / (1 + fnp.exp(-x)), -200.0, 0.0),
    ("silu at 0", nn.silu, 0.0, 0.5),
    ("softplus at 0", nn.softplus, 0.0, 0.25),
    ("sinc at 0", fnp.sinc, 0.0, -np.pi**2 / 3),
]


@pytest.mark.parametrize("case", SECOND, ids=[c[0] for c in SECOND])
def test_the_second_derivative_of(case: Any) -> None:
    _, f, x, wanted = case
    np.testing.assert_allclose(fgrad.grad(fgrad.grad(f))(x), wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fgrad.jacfwd(fgrad.grad(f))(x), wanted, rtol=1e-4, atol=1e-6)


def test_mixed_derivatives_of_a_power_where_the_exponent_is_zero() -> None:
    def f(x: Any, y: Any) -> Any:
        return x**y

    np.testing.assert_allclose(fgrad.grad(fgrad.grad(f, 0), 1)(23.0, 0.0), 1 / 23, rtol=1e-6)
    np.testing.assert_allclose(fgrad.grad(fgrad.grad(f, 1), 0)(23.0, 0.0), 1 / 23, rtol=1e-6)


def test_a_mask_keeps_what_is_nan_out_of_a_loop() -> None:
    """Padded sequences: what a step computes from NaN is not selected."""

    def f(w: Any, xs: Any, mask: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            x, m = row
            return fnp.where(m, fnp.tanh(c * w + x * x * w), c), None

        return lax.scan(step, 0.1, (xs, mask))[0]

    xs = np.array([1.0, 2.0, NAN], np.float32)
    got = fgrad.grad(f)(0.5, xs, np.array([True, True, False]))
    np.testing.assert_allclose(got, fgrad.grad(f)(0.5, xs[:2], np.array([True, True])), rtol=1e-6)
