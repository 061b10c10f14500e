"""How many registers a value of a long body has."""

import pytest

from fgrad.lower.width import registers_for


@pytest.mark.parametrize(("size", "registers"), [(1, 1), (8, 1), (9, 2), (16, 2), (24, 4), (33, 2), (64, 4), (4096, 4)])
def test_no_more_registers_than_elements_are_worth(size: int, registers: int) -> None:
    assert registers_for(size, 8) == registers
