"""The whole suite in other modes of the runtime, one after the other.

    python -m tests.modes                         all modes, whole suite
    python -m tests.modes poison threads-4        two of them
    python -m tests.modes pool-off -- tests/hw    what follows -- goes to pytest

A test passes in each mode or is wrong: memory that is never reused, memory that is overwritten when it is freed,
intermediates that share nothing, and any number of threads change no result.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODES: dict[str, dict[str, str]] = {
    "pool-off": {"FGRAD_POOL": "0"},
    "poison": {"FGRAD_POISON": "1"},
    "planner-off": {"FGRAD_PLANNER": "0"},
    "threads-1": {"FGRAD_THREADS": "1"},
    "threads-2": {"FGRAD_THREADS": "2"},
    "threads-4": {"FGRAD_THREADS": "4"},
}


def run(mode: str, arguments: Sequence[str]) -> int:
    """Run pytest with these arguments in a mode; returns its exit status."""
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **MODES[mode]}, check=False).returncode


def main(words: Sequence[str]) -> int:
    """Run what the command line names; returns 1 if any of it fails."""
    own, rest = list(words), []
    if "--" in own:
        at = own.index("--")
        own, rest = own[:at], own[at + 1 :]
    parser = argparse.ArgumentParser(prog="python -m tests.modes", description="The suite in other modes.")
    parser.add_argument("modes", nargs="*", metavar="mode", help=f"any of {', '.join(MODES)} (default: all)")
    modes = parser.parse_args(own).modes or list(MODES)
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        parser.error(f"there is no mode {unknown[0]!r}; there are {', '.join(MODES)}")
    rows, failed = [], False
    for mode in modes:
        settings = " ".join([f"{name}={value}" for name, value in MODES[mode].items()])
        print(f"== {mode}: {settings}", flush=True)
        start = time.monotonic()
        status = run(mode, rest)
        failed = failed or status != 0
        rows.append(f"{mode:12} {'passed' if status == 0 else 'FAILED'} {time.monotonic() - start:6.0f} s")
    print("\n".join(["== modes", *rows]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
