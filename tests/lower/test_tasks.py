"""Kernels cut into tasks: every task has a share of its own, whatever remains at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.lower import cost

SIZES = (18, 33, 44, 47, 58, 63, 74, 90, 106, 122, 127, 138, 186, 250)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_no_task_writes_beyond_the_part(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "TASK_NS", 0.1)

    def parts(x: Any) -> list[Any]:
        return [x.at[2 : 2 + n].set(k + 1) for k, n in enumerate(SIZES)]

    x = np.arange(300).astype(dtype)
    for k, (n, got) in enumerate(zip(SIZES, fgrad.jit(parts)(x), strict=True)):
        want = x.copy()
        want[2 : 2 + n] = k + 1
        np.testing.assert_array_equal(got, want)
