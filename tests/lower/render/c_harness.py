"""Compiles rendered C with the system's compiler and calls its entry on arrays."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fgrad.lower.abi import Runtime, Table
from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import lower
from fgrad.lower.render.c import render_c
from fgrad.uop.dtype import DType
from fgrad.uop.program import Program

COMPILER = shutil.which("gcc") or shutil.which("clang")
FLAGS = ["-std=c11", "-O1", "-Wall", "-Werror", "-ffp-contract=off", "-shared", "-fPIC"]


def compile_c(text: str, folder: Path) -> ctypes.CDLL:
    """The library made of `text`; warnings are errors."""
    assert COMPILER is not None, "no C compiler is on the PATH"
    name = hashlib.sha1(text.encode()).hexdigest()
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    if not library.exists():
        source.write_text(text, encoding="utf-8")
        command = [COMPILER, *FLAGS, str(source), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000] + text[:8000]
    return ctypes.CDLL(str(library))


def aligned(nbytes: int) -> np.ndarray[Any, Any]:
    raw = np.full(nbytes + 128, 0xA5, np.uint8)
    at = -raw.ctypes.data % 64
    return raw[at : at + max(nbytes, 1)]


def array_at(address: int, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)
    return raw.view(dtype.np).reshape(shape)


def run_c(
    program: Program, arrays: Sequence[Any], folder: Path, inline: frozenset[int] = frozenset()
) -> list[np.ndarray[Any, Any]]:
    """The outputs of a program, by way of C."""
    lowered = lower(program, Limits(), inline=inline)
    library = compile_c(render_c(lowered, inline), folder)
    ins = [np.ascontiguousarray(np.asarray(x, p.dtype.np)).reshape(-1).view(np.uint8)
           for x, p in zip(arrays, program.params, strict=True)]  # fmt: skip
    ins = [x if x.size else np.zeros(1, np.uint8) for x in ins]
    outs = [aligned(o.size * o.dtype.itemsize) for o in program.outs]
    arena, scratch, ctl = (
        aligned(lowered.arena_bytes),
        aligned(lowered.scratch_bytes),
        np.zeros(8, np.int64),
    )

    @ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
    )
    def host(handle: int, number: int, words: Any) -> int:
        spec, avals = lowered.hosts[number], lowered.host_avals[number]
        every = [*avals, *spec.out_avals]
        views = [array_at(int(words[i]), a.dtype, a.shape) for i, a in enumerate(every)]
        results = spec.callback(*[v.copy() for v in views[: len(avals)]])
        for view, x in zip(views[len(avals) :], results, strict=True):
            view[...] = x
        return 0

    runtime = np.zeros(64, np.int64)
    runtime[Runtime.HOST] = ctypes.cast(host, ctypes.c_void_p).value
    table = np.zeros(Table.ARGUMENTS + len(ins) + len(outs), np.int64)
    table[Table.CTL], table[Table.RUNTIME] = ctl.ctypes.data, runtime.ctypes.data
    table[Table.ARENA], table[Table.SCRATCH] = arena.ctypes.data, scratch.ctypes.data
    for i, x in enumerate([*ins, *outs]):
        table[Table.ARGUMENTS + i] = x.ctypes.data
        if i in inline:
            table[Table.ARGUMENTS + i] = int.from_bytes(
                x.tobytes().ljust(8, b"\0"), "little", signed=True
            )
    library.entry.argtypes = [ctypes.c_void_p]
    library.entry.restype = None
    library.entry(table.ctypes.data)
    return [x[: o.size * o.dtype.itemsize].view(o.dtype.np).reshape(o.shape)
            for x, o in zip(outs, program.outs, strict=True)]  # fmt: skip
