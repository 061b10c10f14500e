"""The report on accuracy: its quick form holds the bounds, and it sees errors where there are some."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fgrad.lower.functions.bounds import Bound
from fgrad.lower.functions.table import FUNCTIONS

ROOT = Path(__file__).parent.parent


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.accuracy")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_compiled_function_is_within_its_bound(accuracy: ModuleType, name: str) -> None:
    for found in next(accuracy.report([name], count=2000, judged=60)):
        assert found.holds, f"{found.error} ulp at {found.where}"
        assert found.tried >= 60


def test_sums_are_pairwise_or_better(accuracy: ModuleType) -> None:
    count = 1 << 18
    errors = accuracy.sum_errors(count)
    assert {name: error for name, error in errors.items() if error > accuracy.SUM_BOUND} == {}
    table = accuracy.SUMS_TABLE.read_text(encoding="utf-8")
    assert [name for name in errors if f"   * - {name}\n" not in table] == []


def test_a_sum_of_one_number_after_the_other_is_found(accuracy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(m: Any, x: Any) -> Any:
        return m.sum(x) if m is np else m.zeros(1, x.dtype).at[m.zeros(x.shape, int)].add(x)[0]

    monkeypatch.setattr(accuracy, "SUMS", {"slow": slow})
    assert accuracy.sum_errors(1 << 18)["slow"] > 4 * accuracy.SUM_BOUND


def test_every_function_is_in_the_documentation(accuracy: ModuleType) -> None:
    rows = [row for row in accuracy.TABLE.read_text().splitlines() if row.startswith("   * - ")]
    assert rows[1:] == [f"   * - {accuracy.PUBLIC[name][0]}" for name in FUNCTIONS]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda x: np.nextafter(np.sqrt(x), np.inf), 1.5),
        (lambda x: np.where(x == 1, np.nan, np.sqrt(x)), np.inf),
        (lambda x: np.where(x < 0, 0, np.sqrt(x)), np.inf),
        (lambda x: np.where(np.isinf(x), 1, np.sqrt(x)), np.inf),
    ],
)
def test_a_wrong_result_is_found(
    accuracy: ModuleType, monkeypatch: pytest.MonkeyPatch, wrong: Any, error: float, dtype: Any
) -> None:
    def broken(x: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return wrong(np.asarray(x)).astype(dtype)

    special = np.array([1, 2, 3, -1, 0, np.inf, np.nan], dtype)
    monkeypatch.setattr(accuracy.fgrad, "jit", lambda f: broken)
    monkeypatch.setattr(accuracy, "operands", lambda *args: [special])
    found = accuracy.measure("sqrt", np.dtype(dtype), 7, 7)
    assert found.error == error or 1 <= found.error <= error
    assert not found.holds


def test_overflow_beyond_the_largest_number_is_no_error(accuracy: ModuleType) -> None:
    values = np.array([2.0**128, 2.0**128 * (1 - 2.0**-26), -(2.0**130), 1e300])
    ys = np.array([np.inf, np.inf, -np.inf, np.finfo(np.float32).max], np.float32)
    errors = accuracy.quick_errors(ys, values, 24, np.zeros(4, bool))
    assert errors.tolist() == [0, 0.25, 0, 0.5]


def test_the_report_fails_when_a_bound_is_broken(
    accuracy: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accuracy.main(["--quick", "--only", "cosh"]) == 0
    monkeypatch.setitem(accuracy.BOUNDS, "cosh", Bound(0.1, 0.1))
    assert accuracy.main(["--quick", "--only", "cosh"]) == 1
    assert "BEYOND" in capsys.readouterr().out


def test_unknown_functions_are_refused(accuracy: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        accuracy.main(["--only", "sine"])
    assert "no function sine" in capsys.readouterr().err
