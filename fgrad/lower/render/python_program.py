"""Blocks interpreted: the steps of a lowered program over memories, as the driver of compiled
code runs them.

A memory is an array of bytes. Carries of loops stay in place or change between two buffers
exactly as in compiled code, so that a memory reused too early gives wrong values here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fgrad.errors import BadAccessError
from fgrad.lower.follow import Follower
from fgrad.lower.kernel import Kernel
from fgrad.lower.render.python import PythonKernel
from fgrad.lower.steps import Block, CondStep, HostStep, ScanStep, WhileStep
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp

Bytes = npt.NDArray[np.uint8]
HostCall = Callable[[int, Sequence[Bytes], Sequence[Bytes]], None]
POISON = 0xA5


class PythonProgram(Follower[Bytes]):
    """A placed Block ready to run.

    host  called as host(number, memories of arguments, memories of results to fill) for every
          call of a Python function
    """

    def __init__(self, block: Block, arena_bytes: int, host: HostCall) -> None:
        self.block = block
        self.arena_bytes = arena_bytes
        self.host = host
        self.kernels: dict[int, PythonKernel] = {}

    def run(self, params: Sequence[Bytes], outs: Sequence[Bytes]) -> None:
        """Run on the memories of parameters and outputs. The arena starts full of a pattern.

        Raises BadAccessError for a kernel that leaves its memory.
        """
        arena = np.full(self.arena_bytes, POISON, np.uint8)
        self._block(self.block, arena, params, outs)

    def _block(
        self, block: Block, arena: Bytes, params: Sequence[Bytes], outs: Sequence[Bytes]
    ) -> None:
        self.follow(block, params, outs, lambda at, size: arena[at : at + size])

    def _host(self, s: HostStep, places: list[Bytes]) -> None:
        self.host(s.call, [places[m] for m in s.reads], [places[m] for m in s.writes])

    def _launch(self, kernel: Kernel, memories: Sequence[Bytes]) -> None:
        ready = self.kernels.get(id(kernel))
        if ready is None:
            ready = self.kernels[id(kernel)] = PythonKernel(kernel)
        buffers = []
        for i, (memory, b) in enumerate(zip(memories, kernel.buffers, strict=True)):
            wanted = b.size * b.dtype.itemsize
            if len(memory) < wanted:
                raise BadAccessError(
                    f"kernel {kernel.name} takes {wanted} bytes as buffer {i}, "
                    f"which has {len(memory)}"
                )
            buffers.append(shaped(memory, b.dtype, (b.size,)))
        ready.run(buffers)

    def _carries(
        self, s: ScanStep | WhileStep, n: int, init: Sequence[Bytes], places: list[Bytes], last: int
    ) -> tuple[list[Bytes], list[tuple[Bytes, Bytes]]]:
        """-> (present memories, for each carry those of even and odd turns); turn `last` writes
        the result.
        """
        now: list[Bytes] = []
        pairs: list[tuple[Bytes, Bytes]] = []
        spare = iter(s.spare)
        for j in range(n):
            result = places[s.writes[j]]
            if s.in_place[j]:
                now.append(result)
                pairs.append((result, result))
                continue
            now.append(init[j])
            other = places[next(spare)]
            pairs.append((result, other) if last % 2 == 0 else (other, result))
        return now, pairs

    def _scan(self, s: ScanStep, places: list[Bytes]) -> None:
        scan = s.scan
        reads = [places[m] for m in s.reads]
        first = scan.consts + scan.carry
        consts, init, xs = reads[: scan.consts], reads[scan.consts : first], reads[first:]
        ys = [places[m] for m in s.writes[scan.carry : len(scan.body.outs)]]
        now, pairs = self._carries(s, scan.carry, init, places, scan.length - 1)
        for i in range(scan.length):
            t = scan.length - 1 - i if scan.reverse else i
            slices = [_row(x, p, t) for x, p in zip(xs, scan.body.params[first:], strict=True)]
            rows = [_row(y, o, t) for y, o in zip(ys, scan.body.outs[scan.carry :], strict=True)]
            new = [pair[i % 2] for pair in pairs]
            self._block(s.body, places[s.work], [*consts, *now, *slices], [*new, *rows])
            now = new

    def _while(self, s: WhileStep, places: list[Bytes]) -> None:
        loop = s.loop
        n = len(loop.body.outs)
        reads = [places[m] for m in s.reads]
        consts, init = reads[: loop.consts], reads[loop.consts :]
        now, pairs = self._carries(s, n, init, places, 0)
        flag, work = places[s.flag], places[s.work]
        turn = 0
        while True:
            self._block(s.cond, work, [*consts, *now], [flag])
            if not flag[0]:
                break
            new = [pair[turn % 2] for pair in pairs]
            self._block(s.body, work, [*consts, *now], new)
            now = new
            turn += 1
        for j, x in enumerate(now):
            result = places[s.writes[j]]
            if not s.in_place[j]:
                result[: len(x)] = x.copy()

    def _cond(self, s: CondStep, places: list[Bytes]) -> None:
        reads = [places[m] for m in s.reads]
        index = int(shaped(reads[0], s.index_dtype, ())[()])
        branch = s.branches[min(max(index, 0), len(s.branches) - 1)]
        results = [places[m] for m in s.writes if m != s.work]
        self._block(branch, places[s.work], reads[1:], results)


def shaped(memory: Bytes, dtype: DType, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array at the start of a memory."""
    count = 1
    for n in shape:
        count *= n
    array: npt.NDArray[Any] = memory[: count * dtype.itemsize].view(dtype.np).reshape(shape)
    return array


def _row(memory: Bytes, u: UOp, t: int) -> Bytes:
    """Row `t` of an array whose rows are shaped as `u`."""
    size = u.size * u.dtype.itemsize
    return memory[t * size : (t + 1) * size]
