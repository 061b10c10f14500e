"""Programs with one mistake each, and what their user gets to read.

A mistake is a file ``<folder>/<name>.py``; beside it, ``<name>.txt`` holds what the interpreter prints when it is run,
and the classes that an ``except`` can name. ``python -m tests.errors.write`` writes the texts anew: read the diff.
"""

import contextlib
import io
import re
import traceback
from pathlib import Path

from fgrad import config

HERE = Path(__file__).parent
# What the texts were written under, whatever the suite runs under.
SETTINGS = {"device": "CPU", "check": "spec,order", "traceback": "short", "enable_x64": False, "show": ""}
MISTAKES = sorted(HERE.glob("*/*.py"))


def name_of(path: Path) -> str:
    """``folder/name`` of a program."""
    return path.relative_to(HERE).with_suffix("").as_posix()


def report(path: Path) -> str:
    """What a user reads who runs the program `path`: the traceback, without the underlining (it varies by Python)."""
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    try:
        with contextlib.redirect_stdout(io.StringIO()), config.override(**SETTINGS):
            exec(code, {"__name__": "__main__", "__file__": str(path)})
    except Exception as error:
        below = error.__traceback__.tb_next if error.__traceback__ else None  # without this function's own frame
        lines = "".join(traceback.format_exception(type(error), error, below)).splitlines()
        lines = [line for line in lines if not re.fullmatch(r"\s*[~^]+\s*", line)]
        caught = [c.__name__ for c in type(error).__mro__ if c is not object and c is not BaseException]
        text = "\n".join([*lines, "", f"except {', '.join(caught)}", ""])
        return re.sub(rf"[^\s\"'(]*{re.escape(path.name)}", path.name, text)
    raise AssertionError(f"{name_of(path)} runs to its end: where is the mistake?")


def expected(path: Path) -> Path:
    """The file that holds the report on the program `path`."""
    return path.with_suffix(".txt")
