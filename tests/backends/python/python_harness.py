"""Runs programs on the PYTHON device, on plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.backends.python.device import PythonDevice, PythonExecutable
from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import lower
from fgrad.uop.node import UOp, open_param
from fgrad.uop.program import Program, close

NARROW, WIDE = Limits(16), Limits(64, frozenset({"fma"}), workers=4)


def program_of(f: Callable[..., Sequence[UOp]], *avals: Any) -> Program:
    """The program of `f` on parameters of (dtype, shape) each."""
    params = [open_param(d, s) for d, s in avals]
    return close(params, list(f(*params)))


def compile_for(
    program: Program,
    limits: Limits,
    inline: frozenset[int] = frozenset(),
    donated: frozenset[int] = frozenset(),
) -> PythonExecutable:
    lowered = lower(program, limits, inline=inline, donated=donated)
    return PythonExecutable(program, lowered, inline, "test")


def call(
    executable: PythonExecutable, program: Program, arrays: Sequence[Any]
) -> list[np.ndarray[Any, Any]]:
    """The outputs; parameters are copied first, inlined ones passed as bits."""
    ins = [
        np.array(np.asarray(x, p.dtype.np)).reshape(-1)
        for x, p in zip(arrays, program.params, strict=True)
    ]
    outs = [
        ins[executable.aliases[j]]
        if j in executable.aliases
        else np.zeros(max(o.size, 1), o.dtype.np)
        for j, o in enumerate(program.outs)
    ]
    words = [x.__array_interface__["data"][0] for x in (*ins, *outs)]
    for i in executable.inline_params:
        words[i] = int.from_bytes(ins[i].tobytes(), "little")
    executable.call(words)
    return [x[: o.size].reshape(o.shape) for x, o in zip(outs, program.outs, strict=True)]


def run(program: Program, arrays: Sequence[Any], **options: Any) -> list[np.ndarray[Any, Any]]:
    """Compile on a fresh device and run once."""
    inline = options.get("inline", frozenset())
    donated = options.get("donated", frozenset())
    return call(PythonDevice(0).compile(program, inline, donated, "test"), program, arrays)
