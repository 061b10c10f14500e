"""Convolutions and their gradients in all layouts: values, and that each is one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

LAYOUTS = [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OIHW", "NCHW"), ("NCHW", "HWIO", "NHWC")]
KERNEL = (3, 2)


def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """x[n, h, w, ci] (padded), w[kh, kw, ci, co] -> [n, h', w', co]."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("nhwckl,klco->nhwo", windows, w)


def gradients(x: np.ndarray, w: np.ndarray, ct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    dw = np.einsum("nhwckl,nhwo->klco", windows, ct)
    dx = np.zeros_like(x)
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            dx[:, k : k + ct.shape[1], j : j + ct.shape[2]] += ct @ w[k, j].T
    return dx, dw


def placed(x: np.ndarray, have: str, want: str) -> np.ndarray:
    return np.ascontiguousarray(x.transpose([have.index(c) for c in want]))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda names: "-".join(names))
@pytest.mark.parametrize("channels", [(1, 5), (3, 16), (16, 8), (40, 24)], ids=str)
@pytest.mark.parametrize("size", [(2, 7, 9), (5, 20, 13)], ids=str)
def test_a_convolution_and_its_gradients(
    layout: tuple[str, str, str], channels: tuple[int, int], size: tuple[int, int, int]
) -> None:
    lhs, rhs, out = layout
    (n, h, w), (ci, co) = size, channels
    rng = np.random.default_rng(ci)
    x = rng.integers(-4, 5, (n, h, w, ci)).astype(np.float64)  # whole numbers: exact in any order
    k = rng.integers(-4, 5, (*KERNEL, ci, co)).astype(np.float64)
    ct = rng.integers(-4, 5, (n, h, w, co)).astype(np.float64)
    pads = ((1, 1), (1, 0))
    padded = np.pad(x, ((0, 0), *pads, (0, 0)))

    def convolved(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), pads, dimension_numbers=layout)

    operands = placed(x, "NHWC", lhs).astype("f"), placed(k, "HWIO", rhs).astype("f")
    np.testing.assert_array_equal(fgrad.jit(convolved)(*operands), placed(reference(padded, k), "NHWC", out))

    dx, dk = fgrad.jit(lambda x, k, ct: fgrad.vjp(convolved, x, k)[1](ct))(
        *operands, placed(ct, "NHWC", out).astype("f")
    )
    want_x, want_k = gradients(padded, k, ct)
    np.testing.assert_array_equal(dx, placed(want_x[:, 1:-1, 1:], "NHWC", lhs))
    np.testing.assert_array_equal(dk, placed(want_k, "HWIO", rhs))


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=lambda names: "-".join(names))
def test_results_go_where_they_belong_without_a_kernel_of_their_own(layout: tuple[str, str, str]) -> None:
    lhs, rhs, out = layout
    x = placed(np.ones((2, 12, 12, 16), "f"), "NHWC", lhs)
    k = placed(np.ones((3, 3, 16, 32), "f"), "HWIO", rhs)
    ct = placed(np.ones((2, 12, 12, 32), "f"), "NHWC", out)

    def convolved(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=layout)

    for f in (
        lambda x, k, ct: convolved(x, k),
        lambda x, k, ct: fgrad.vjp(lambda x: convolved(x, k), x)[1](ct),
        lambda x, k, ct: fgrad.vjp(lambda k: convolved(x, k), k)[1](ct),
    ):
        text = fgrad.jit(f).lower(x, k, ct).as_text("kernels")
        assert [line.split(":")[0] for line in text.splitlines() if line.startswith("k")] == ["k0_contract"]
