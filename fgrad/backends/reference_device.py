"""The REFERENCE device: evaluates programs op by op in NumPy, without lowering. The judge of everything else, and slow."""
from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.hw.device import register_device
from fgrad.hw.pool import host_pool
from fgrad.trace.reference import run_program
from fgrad.uop.program import Program


class _Window:
    def __init__(self, address: int, dtype: Any, shape: tuple[int, ...], writable: bool) -> None:
        typestr = dtype.np.str if dtype.np.isbuiltin == 1 else {1: "|u1", 2: "<u2"}[dtype.itemsize]
        self.__array_interface__ = {
            "data": (address, not writable), "shape": shape, "typestr": typestr, "version": 3,
        }  # fmt: skip


def view(address: int, dtype: Any, shape: tuple[int, ...], writable: bool = False) -> Any:
    """The NumPy array at `address`."""
    if 0 in shape:
        return np.zeros(shape, dtype.np)
    array = np.asarray(_Window(address, dtype, shape, writable))
    return array if array.dtype == dtype.np else array.view(dtype.np)


class ReferenceExecutable:
    """A program and nothing else."""

    short = False
    flops = bytes = kernel_count = arena_bytes = 0

    def __init__(self, program: Program, inline: frozenset[int]) -> None:
        self.program = program
        self.inline_params = inline
        self.aliases: dict[int, int] = {}

    def call(self, words: list[int]) -> None:
        args = []
        for i, p in enumerate(self.program.params):
            if i in self.inline_params:
                bits = (words[i] & (1 << 64) - 1).to_bytes(8, "little")
                args.append(np.frombuffer(bits[: p.dtype.itemsize], p.dtype.np)[0])
            else:
                args.append(view(words[i], p.dtype, p.shape))
        results = run_program(self.program, args)
        for address, out, value in zip(words[len(args) :], self.program.outs, results, strict=True):
            view(address, out.dtype, out.shape, writable=True)[...] = value

    def text(self, stage: str) -> str:
        return str(self.program)


class ReferenceDevice:
    """See the module."""

    def __init__(self, index: int) -> None:
        self.name = f"reference:{index}" if index else "reference"
        self.pool = host_pool

    def compile(self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str) -> Any:
        return ReferenceExecutable(program, inline)

    def sync(self) -> None:
        """Everything is done when `call` returns."""


register_device("reference", ReferenceDevice)
