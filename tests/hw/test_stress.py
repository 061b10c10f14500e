"""The short forms of the faults and stress of `tests/hw/stress.py`."""

import pytest

from tests.hw.stress import STRESS


@pytest.mark.parametrize("number", sorted(STRESS), ids=lambda n: f"{n:02d}-{STRESS[n].__name__}")
def test_stress(number: int) -> None:
    STRESS[number](1)
