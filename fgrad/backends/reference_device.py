"""The REFERENCE device: programs are evaluated op by op in NumPy, without lowering; slow, the judge of all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.errors import DeviceError
from fgrad.hw.device import register_device
from fgrad.hw.pool import Pool
from fgrad.hw.window import window
from fgrad.trace.reference import run_program
from fgrad.uop.program import Program


class ReferenceExecutable:
    """A program and nothing else."""

    short = False
    flops = bytes = kernel_count = arena_bytes = 0

    def __init__(self, program: Program, inline: frozenset[int], name: str) -> None:
        self.program = program
        self.name = name
        self.inline_params = inline
        self.aliases: dict[int, int] = {}

    def call(self, words: list[int]) -> None:
        """Run. The words: addresses of parameters (bits of inlined scalars), then of outputs."""
        wanted = len(self.program.params) + len(self.program.outs)
        if len(words) != wanted:
            raise DeviceError(f"{self.name} takes {wanted} words, got {len(words)}")
        args = []
        for i, p in enumerate(self.program.params):
            if i in self.inline_params:
                bits = (words[i] & (1 << 64) - 1).to_bytes(8, "little")
                args.append(np.frombuffer(bits[: p.dtype.itemsize], p.dtype.np)[0])
            else:
                args.append(window(words[i], p.dtype, p.shape))
        results = run_program(self.program, args)
        for address, out, value in zip(words[len(args) :], self.program.outs, results, strict=True):
            window(address, out.dtype, out.shape, writable=True)[...] = value

    def text(self, stage: str) -> str:
        return str(self.program)


class ReferenceDevice:
    """See the module."""

    wants_whole_arguments = False

    def __init__(self, index: int) -> None:
        self.name = f"reference:{index}" if index else "reference"
        self.pool = Pool(self.name)

    def compile(self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str) -> Any:
        return ReferenceExecutable(program, inline, name)

    def check_readable(self) -> None:
        """Raise where results cannot be read back: never, here."""

    def sync(self) -> None:
        """Everything is done when `call` returns."""


register_device("reference", ReferenceDevice)
