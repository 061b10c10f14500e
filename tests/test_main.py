"""The command line: what it prints, and how it says no."""

import subprocess
import sys
from pathlib import Path

import pytest

from fgrad.__main__ import UsageError, argument, main
from fgrad.config import VARIABLES
from fgrad.run.inspect import ShapeDtypeStruct

MODEL = """
import fgrad.numpy as fnp
from fgrad import jit

limit = 3

def loss(params, x):
    return fnp.sum(fnp.tanh(x @ params["w"] + params["b"]))

@jit
def twice(x):
    return x * 2

def count(n, mask):
    return fnp.where(mask, n, 0)

class Model:
    @staticmethod
    def apply(x):
        return x + 1
"""

ARGUMENTS = ["{'w': float32[8,4], 'b': 0.5}", "float32[16,8]"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of functions; what loading it adds to the interpreter is taken back."""
    path = tmp_path / "shown_model.py"
    path.write_text(MODEL, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return str(path)


def test_devices_are_listed_with_the_default_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert sum(row.startswith("*") for row in rows) == 1
    ready = {row[2:].split()[0] for row in rows if row[2:].split()[1] == "ready"}
    assert {"CPU", "NULL", "PYTHON", "REFERENCE"} <= ready


def test_settings_are_listed_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    assert all(f"{variable.environment_name}=" in out for variable in VARIABLES)
    assert "FGRAD_CHECK=order,spec\n" in out


def test_show_prints_the_program_and_the_kernels(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{model}::loss", *ARGUMENTS]) == 0
    out = capsys.readouterr().out
    assert "== program\nprogram(" in out and "TANH" in out and "== kernels\n" in out


@pytest.mark.parametrize("stage", ["llvm", "asm", "commands"])
def test_show_prints_the_stage_that_is_asked_for(model: str, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{model}::twice", "float32[3]", "--stage", stage]) == 0
    out = capsys.readouterr().out
    assert out.strip() and "==" not in out.splitlines()[0]


def test_show_takes_the_gradient_first(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{model}::loss", *ARGUMENTS, "--grad", "0,1", "--stage", "program"]) == 0
    returned = capsys.readouterr().out.strip().splitlines()[-1]
    assert returned.count("%") == 3  # b, w and x


def test_show_finds_what_stands_in_a_class(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{model}::Model.apply", "2.0", "--stage", "program"]) == 0
    assert "ADD" in capsys.readouterr().out


def test_bench_prints_times(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", f"{model}::loss", *ARGUMENTS, "--seconds", "0.02", "--grad"]) == 0
    out = capsys.readouterr().out
    assert "first call" in out and "median" in out and "GFLOP/s" in out
    assert main(["bench", f"{model}::count", "int32[5]", "bool[5]", "--seconds", "0.01"]) == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{model}", "does not name a function"),
        ("nowhere.py::f", "there is no file nowhere.py"),
        ("{model}::los", "has no 'los'"),
        ("{model}::limit", "not a function"),
    ],
)
def test_a_target_that_is_not_there_is_named(
    model: str, target: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", target.format(model=model)]) == 2
    assert message in capsys.readouterr().err


def test_an_error_of_fgrad_is_printed_with_the_users_line(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{model}::loss", ARGUMENTS[0], "float32[16,9]"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("ShapeError: ") and "in loss" in err


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("-2.5", -2.5),
        ("True", True),
        ("float32[3]", ShapeDtypeStruct((3,), "float32")),
        ("bfloat16[2,3]", ShapeDtypeStruct((2, 3), "bfloat16")),
        ("int8", ShapeDtypeStruct((), "int8")),
        ("[1, (2.0, None)]", [1, (2.0, None)]),
        ("{'a': float32[1], 2: []}", {"a": ShapeDtypeStruct((1,), "float32"), 2: []}),
    ],
)
def test_arguments_are_read(text: str, value: object) -> None:
    assert argument(text) == value


@pytest.mark.parametrize("text", ["float32[", "f(1)", "float32[n:2]", "{**a}", "1 if x else 2", ""])
def test_an_argument_that_cannot_be_read_is_explained(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the argument"):
        argument(text)


def test_an_unknown_dtype_is_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"{model}::twice", "float33[3]"]) == 1
    assert "'float33' of type str is no dtype; did you mean 'float32'?" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fgrad", "--version"],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    assert done.stdout.startswith("fgrad ")
