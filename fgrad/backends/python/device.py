"""The PYTHON device: the kernels that other devices compile, interpreted; slow, the judge of lowering.

It runs what every other device runs (kernels and the driver's steps), by interpretation over the
same memory, and checks every access. A wrong index raises BadAccessError with kernel, buffer,
index and limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fgrad.backends.executable import LoweredExecutable
from fgrad.errors import CallbackFailedError, FgradError
from fgrad.hw.device import register_device
from fgrad.hw.pool import Pool
from fgrad.hw.window import window
from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import Lowered, lower
from fgrad.lower.render.c import render_c
from fgrad.lower.render.python_program import PythonProgram, shaped
from fgrad.uop import dtype as dt
from fgrad.uop.program import Program

Bytes = npt.NDArray[np.uint8]


class PythonExecutable(LoweredExecutable):
    """A lowered program, interpreted in the caller's thread."""

    machine = "PYTHON"

    def __init__(
        self,
        program: Program,
        lowered: Lowered,
        inline: frozenset[int],
        name: str,
        turn: threading.RLock | None = None,
    ) -> None:
        super().__init__(program, lowered, inline, name)
        self.turn = turn or threading.RLock()
        self.interpreter = PythonProgram(lowered.block, lowered.arena_bytes, self._host)

    def call(self, argument_words: list[int]) -> None:
        """Run. The words: addresses of parameters (bits of inlined scalars), then of outputs."""
        self.check_words(argument_words)
        count = len(self.in_sizes)
        params = []
        for i, (word, size) in enumerate(zip(argument_words[:count], self.in_sizes, strict=True)):
            if i in self.inline_params:
                bits = (word & (1 << 64) - 1).to_bytes(8, "little")
                params.append(np.frombuffer(bytearray(bits[:size]), np.uint8))
            else:
                params.append(window(word, dt.uint8, (size,), writable=True))
        outs = [
            window(w, dt.uint8, (n,), writable=True)
            for w, n in zip(argument_words[count:], self.out_sizes, strict=True)
        ]
        with self.turn:
            self.interpreter.run(params, outs)

    def _host(self, number: int, ins: Sequence[Bytes], outs: Sequence[Bytes]) -> None:
        """Call a Python function on copies of its arguments; an ordered one sees no token."""
        spec = self.lowered.hosts[number]
        arrays = [
            shaped(m, a.dtype, a.shape).copy()
            for m, a in zip(ins, self.lowered.host_avals[number], strict=True)
        ]
        token = arrays[: int(spec.ordered)]
        try:
            results = [*token, *spec.callback(*arrays[len(token) :])]
        except Exception as e:
            if isinstance(e, FgradError) and e.by_program:
                raise
            raise CallbackFailedError(f"a Python callback inside {self.name} raised {e!r}") from e
        if len(results) != len(outs):
            raise CallbackFailedError(
                f"callback {spec.name!r} inside {self.name} declared "
                f"{len(outs) - len(token)} results and returned {len(results) - len(token)}"
            )
        for memory, aval, x in zip(outs, spec.out_avals, results, strict=True):
            value = np.asarray(x, aval.dtype.np)
            if value.shape != aval.shape:
                raise CallbackFailedError(
                    f"callback {spec.name!r} inside {self.name} returned shape {value.shape}, "
                    f"declared was {aval.shape}"
                )
            shaped(memory, aval.dtype, aval.shape)[...] = value

    def stages(self) -> dict[str, Callable[[], str]]:
        """The common ones, and the kernels as C."""
        return super().stages() | {"c": lambda: render_c(self.lowered, self.inline_params)}


class PythonDevice:
    """See the module. `limits` are what programs are lowered for."""

    wants_whole_arguments = True  # to check bounds by

    def __init__(self, index: int) -> None:
        self.name = f"python:{index}" if index else "python"
        self.pool = Pool(self.name)
        self.limits = Limits()
        self.turn = threading.RLock()  # one program after the other; a callback may run another

    def compile(
        self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str
    ) -> PythonExecutable:
        """Lower for interpretation."""
        lowered = lower(program, self.limits, inline=inline, donated=donated, name=name)
        return PythonExecutable(program, lowered, inline, name, self.turn)

    def check_readable(self) -> None:
        """Raise where results cannot be read back: never, here."""

    def sync(self) -> None:
        """Everything is done when `call` returns."""


register_device("python", PythonDevice)
