"""Derivatives of array functions where they are easily wrong: at kinks, zeros, masks and edges."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import grad, jit, vmap

INF, NAN = float("inf"), float("nan")
CASES: list[tuple[str, Callable[[Any], Any], list[float], list[float]]] = [
    ("std of equal elements", fnp.std, [1, 1, 1], [0, 0, 0]),
    ("norm at zero", fnp.linalg.norm, [0, 0], [0, 0]),
    ("a norm with a zero element", lambda v: fnp.linalg.norm(v, 3), [0, 2], [0, 1]),
    ("clip at its bounds", lambda v: fnp.clip(v, 0, 1).sum(), [-1, 0, 0.5, 1, 2], [0, 1, 1, 1, 0]),
    ("square", lambda v: (v**2).sum(), [0, 3], [0, 6]),
    ("power zero", lambda v: (v**0).sum(), [0, 3], [0, 0]),
    ("max shares ties", fnp.max, [1, 3, 3], [0, 0.5, 0.5]),
    ("abs at zero", lambda v: abs(v).sum(), [-1, 0, 3], [-1, 0, 1]),
    ("prod with a zero", fnp.prod, [0, 2, 3], [6, 0, 0]),
    ("prod with two zeros", fnp.prod, [0, 0, 3], [0, 0, 0]),
    ("cumprod with a zero", lambda v: fnp.cumprod(v).sum(), [0, 2, 3], [9, 0, 0]),
    ("nansum", lambda v: fnp.nansum(v * 2), [0, NAN, 3], [2, 0, 2]),
    ("where over a bad branch", lambda v: fnp.where(v > 0, fnp.log(v), 0).sum(), [0, 2], [0, 0.5]),
    ("logaddexp of nothing", lambda v: fnp.logaddexp(v[0], v[1]), [-INF, -INF], [0.5, 0.5]),
    ("spacing", lambda v: fnp.spacing(v).sum(), [0, 1, -3e38], [0, 0, 0]),
    ("sinc at zero", lambda v: fnp.sinc(v).sum(), [0, 1], [0, -1]),
    ("arccos of clip", lambda v: fnp.arccos(fnp.clip(v, -1, 1)).sum(), [2, 0], [0, -1]),
    ("take", lambda v: v[np.array([0, 0, 2])].sum(), [1, 1, 1], [2, 0, 1]),
    ("set", lambda v: (v.at[1].set(5.0) * 2).sum(), [1, 1, 1], [2, 0, 2]),
    ("multiply twice", lambda v: fnp.ones(2).at[np.array([0, 0, 1])].multiply(v).sum(), [2, 3, 4], [3, 2, 1]),
    ("sort", lambda v: (fnp.sort(v) * np.arange(3.0, dtype=np.float32)).sum(), [3, 1, 2], [2, 0, 1]),
    ("median", fnp.median, [3, 1, 2, 5], [0.5, 0, 0.5, 0]),
    ("roll", lambda v: fnp.roll(v, 1)[0], [1, 2, 3], [0, 0, 1]),
    ("pad", lambda v: fnp.pad(v, 1, "edge").sum(), [1, 2, 3], [2, 1, 2]),
    ("sum of a mask", lambda v: fnp.sum(v, where=np.array([True, False])), [1, NAN], [1, 0]),
    ("mod", lambda v: (v % 2).sum(), [3, 1.5], [1, 1]),
    ("floor_divide", lambda v: (v // 2).sum(), [3, 1.5], [0, 0]),
    ("outer", lambda v: fnp.outer(v, v).sum(), [1, 2], [6, 6]),
    ("interp", lambda v: fnp.interp(v, np.arange(3.0), np.float32([0, 2, 3])).sum(), [0.5, 1.5], [2, 1]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_the_gradient_of(case: Any) -> None:
    _, f, x, wanted = case
    got = grad(f)(fnp.array(x, dtype=np.float32))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_a_masked_update_inside_jit() -> None:
    f = jit(lambda v: v.at[v > 1].set(0.0).sum())
    assert grad(f)(fnp.array([3.0, 1.0, 0.2])).tolist() == [0, 1, 1]


def test_functions_map_over_a_batch(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    i = np.array([0, 3, 1])
    np.testing.assert_array_equal(vmap(lambda v, k: v[k])(x, i), x[np.arange(3), i])
    np.testing.assert_array_equal(vmap(lambda v, k: v.at[k].set(9))(x, i)[0, 0], 9)
    np.testing.assert_array_equal(vmap(fnp.roll)(x, i), [np.roll(v, k) for v, k in zip(x, i, strict=True)])
    np.testing.assert_array_equal(vmap(fnp.sort)(x), np.sort(x))
    for f, n in [
        (lambda v: fnp.convolve(v, v), lambda v: np.convolve(v, v)),
        (lambda v: fnp.searchsorted(fnp.sort(v), 0.1), lambda v: np.searchsorted(np.sort(v), 0.1)),
        (lambda v: fnp.quantile(v, 0.3), lambda v: np.quantile(v, 0.3)),
        (lambda v: fnp.einsum("i,j->ij", v, v), lambda v: np.outer(v, v)),
    ]:
        np.testing.assert_allclose(vmap(f)(x), [n(v) for v in x], rtol=1e-5)
