"""Values of several registers, rows that are asked for ahead of time, and long sums."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.nn as nn
import fgrad.numpy as fnp
from fgrad.lower.cost import STREAM_BYTES


@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 32, 33, 100, 131])
def test_long_bodies_are_right_at_every_tail(size: int) -> None:
    x = np.linspace(-3, 3, size, dtype=np.float32)
    rows = np.stack([x, x[::-1]])
    np.testing.assert_allclose(fg.jit(lambda x: fnp.tanh(x) * fnp.exp(-x))(x), np.tanh(x) * np.exp(-x), rtol=3e-7)
    want = np.exp(rows - rows.max(1, keepdims=True))
    np.testing.assert_allclose(fg.jit(nn.softmax)(rows), want / want.sum(1, keepdims=True), rtol=5e-7)


def test_rows_of_a_big_array_are_asked_for_while_the_row_before_is_computed() -> None:
    rows, columns = STREAM_BYTES // 4096 + 1, 1024
    x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    softmax = fg.jit(nn.softmax)
    assert "ahead" in softmax.lower(x).as_text("kernels")
    assert "ahead" not in softmax.lower(x[:9]).as_text("kernels")
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(softmax(x), want / want.sum(1, keepdims=True), rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("size", [2047, 2048, 2049, 4095, 33_333, 1_082_373])
def test_long_sums_err_like_sums_of_sums(size: int) -> None:
    x = np.full(size, 0.1, np.float32)
    exact = float(np.sum(x, dtype=np.float64))
    assert abs(float(fnp.sum(x)) - exact) <= 32 * 2.0**-24 * exact
    ints = np.arange(size, dtype=np.int32) % 7
    assert int(fnp.sum(ints)) == int(ints.sum()) and int(fnp.max(ints)) == 6
    rows = np.random.default_rng(size).random((3, min(size, 40_000)), np.float32)
    products = (rows[:, ::-1] * rows).sum(1)
    np.testing.assert_allclose(fg.jit(lambda r: (r[:, ::-1] * r).sum(1))(rows), products, rtol=1e-5)
    np.testing.assert_allclose(
        fg.jit(lambda r: fnp.pad(r, ((0, 0), (3, 5))).sum(1))(rows), rows.sum(1, dtype=np.float64), rtol=2e-6
    )
