"""A Ref outlives a call that fails, and so do callbacks, whose order is kept by a Ref."""

from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import CallbackFailedError


def test_callbacks_run_after_one_of_them_has_raised() -> None:
    seen: list[float] = []

    @fgrad.jit
    def check(x: Any) -> Any:
        fgrad.debug.check(x > 0, "must be positive")
        return x * 2.0

    @fgrad.jit
    def look(x: Any) -> Any:
        fgrad.debug.callback(lambda v: seen.append(float(v)), x)
        return x * 2.0

    for _ in range(2):
        with pytest.raises(CallbackFailedError, match="must be positive"):
            check(-1.0).block_until_ready()
        assert check(1.0) == 2.0 and look(3.0) == 6.0
    assert seen == [3.0, 3.0]


@pytest.mark.parametrize("size", [1, 1000])
def test_a_ref_can_be_read_and_written_after_a_failed_call(size: int) -> None:
    total = fgrad.new_ref(fnp.zeros(size))

    @fgrad.jit
    def add(x: Any) -> Any:
        total[...] = total[...] + x
        fgrad.debug.check(x > 0, "must be positive")
        return x

    with pytest.raises(CallbackFailedError):
        add(-1.0).block_until_ready()
    assert total[...].shape == (size,)
    total[...] = fnp.zeros(size)
    add(2.0)
    add(3.0)
    np.testing.assert_array_equal(total[...], np.full(size, 5.0))
