"""Every example runs to its end in a process of its own, and finds that what it shows works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fgrad

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def run(example: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The example as a user runs it: from another folder, without the checks that tests switch on."""
    environment = {k: v for k, v in os.environ.items() if k not in ("FGRAD_CHECK", "OPENBLAS_NUM_THREADS")}
    environment["PYTHONPATH"] = str(Path(fgrad.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-W", "error", str(example), *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def test_there_are_examples() -> None:
    assert {"digits", "language_model", "vae"} <= {e.stem for e in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    quick = ["--quick"] if "--quick" in example.read_text(encoding="utf-8") else []
    done = run(example, *quick, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) > 2, "it shows nothing"
    assert not done.stderr, done.stderr
