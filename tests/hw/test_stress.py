"""The short forms of the faults and stress of `tests/hw/stress.py`."""

import pytest

from tests.hw.stress import STRESS, chosen


@pytest.mark.parametrize("number", sorted(STRESS), ids=lambda n: f"{n:02d}-{STRESS[n].__name__}")
def test_stress(number: int) -> None:
    STRESS[number](1)


def test_the_command_runs_all_unless_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen([]) == (sorted(STRESS), 20)
    assert chosen(["7", "21", "-n", "3"]) == ([7, 21], 3)
    with pytest.raises(SystemExit):
        chosen(["2"])
    assert "there is no number 2; there are 1, 4," in capsys.readouterr().err
