"""step: how every pass over a Program is run: verified, timed, and shown on request."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from fgrad.config import config
from fgrad.errors import SpecError
from fgrad.uop.node import paused_gc
from fgrad.uop.program import Program
from fgrad.uop.show import listing
from fgrad.uop.spec import TRACED, Spec, verify


class _Work(threading.local):
    """What a thread is at work on. `function`: the user's function whose Program it closed last."""

    function = ""


work = _Work()


def step(
    name: str,
    run: Callable[[Program], Program],
    program: Program,
    *,
    spec: Spec = TRACED,
    function: str = "",
) -> Program:
    """`run(program)`, checked against `spec` under FGRAD_CHECK=spec, printed under FGRAD_SHOW.

    name      "room/pass" or just the pass: FGRAD_SHOW chooses by either word
    function  the user's function, for FGRAD_SHOW=pass:function; "" is the one in `work`

    With neither setting this is `run(program)`. Raises SpecError naming the pass when its result
    breaks a rule of `spec`.
    """
    if not (config.check or config.show):
        return run(program)
    started = time.perf_counter()
    with paused_gc():
        out = run(program)
    took_ms = (time.perf_counter() - started) * 1e3
    if "spec" in config.check:
        try:
            verify(out, spec)
        except SpecError as error:
            raise SpecError(f"after the pass {name}: {error}") from None
    function = function or work.function
    if config.show and is_shown(name, function):
        print(_report(name, function, program, out, took_ms), file=sys.stderr)
    return out


def is_shown(name: str, function: str = "") -> bool:
    """Does FGRAD_SHOW ask for this pass ("room/pass") of this function?

    >>> with config.override(show="lower,jvp:loss"):
    ...     is_shown("lower/place"), is_shown("trace/jvp", "loss"), is_shown("trace/jvp", "f")
    (True, True, False)
    """
    words = {name, *name.split("/")}
    for wish in config.show:
        what, _, whose = wish.partition(":")
        if what in words and whose in ("", function):
            return True
    return False


def _report(name: str, function: str, before: Program, after: Program, took_ms: float) -> str:
    title = f"== {name}{f' of {function}' if function else ''}: "
    if after == before:
        return f"{title}unchanged, {took_ms:.2f} ms"
    sizes = f"{len(before.nodes)} -> {len(after.nodes)} nodes, {took_ms:.2f} ms"
    return f"{title}{sizes}\n{listing(after)}"
