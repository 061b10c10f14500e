"""The table: what it names, and that the costs in it are those of the code."""

import re

import mpmath
import numpy as np
import pytest

from fgrad.lower.functions.constants import format_of, log_ten, log_two, pi
from fgrad.lower.functions.llvm_helper import helper
from fgrad.lower.functions.numpy_machine import NumpyMachine
from fgrad.lower.functions.table import FUNCTIONS


def cost_of(text: str) -> int:
    """Operations outside the rare block, a division or square root counting as 8."""
    usual = re.sub(r"rare\d+:\n.*?join\d+:\n", "", text, flags=re.DOTALL)
    lines = [line for line in usual.splitlines() if " = " in line]
    return sum(8 if "fdiv" in line or "@llvm.sqrt" in line else 1 for line in lines)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_cost_is_that_of_the_float32_code(name: str) -> None:
    assert FUNCTIONS[name].cost == cost_of(helper(name, 16, 24).text)


def test_names_are_keys() -> None:
    assert all(function.name == name for name, function in FUNCTIONS.items())


def test_a_wrong_number_of_operands_is_refused() -> None:
    with pytest.raises(TypeError, match="pow takes 2 operands, got 1"):
        FUNCTIONS["pow"](NumpyMachine(np.float64), np.ones(3))


@pytest.mark.parametrize("p", [24, 53])
def test_constants_are_exact(p: int) -> None:
    k = format_of(p)
    with mpmath.workprec(1500):
        for q, exact in ((pi(), mpmath.pi), (log_two(), mpmath.ln2), (log_ten(), mpmath.ln10)):
            assert abs(mpmath.mpf(q.numerator) / q.denominator / exact - 1) < mpmath.mpf(2) ** -390
        for parts, exact in (
            (k.half_pi, mpmath.pi / 2),
            (k.two_over_sqrt_pi, 2 / mpmath.sqrt(mpmath.pi)),
            (k.log10_e, 1 / mpmath.ln10),
            (k.digamma_root, mpmath.findroot(mpmath.digamma, 1.4616)),
        ):
            assert abs(sum(map(mpmath.mpf, parts)) / exact - 1) < mpmath.mpf(2) ** (-p * len(parts))
        # The chunks of 2/pi, put together again, are 2/pi cut off.
        chunks = k.two_over_pi_chunks
        total = sum(mpmath.mpf(c) * mpmath.mpf(2) ** (-p * (j + 1)) for j, c in enumerate(chunks))
        assert 0 <= 2 / mpmath.pi - total < mpmath.mpf(2) ** (-p * len(chunks))
