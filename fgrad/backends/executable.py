"""What the executables of machines share that work through the kernels of a lowered program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.errors import DeviceError
from fgrad.lower.pipeline import Lowered
from fgrad.uop.program import Program


class LoweredExecutable:
    """A lowered program; `call` is each machine's own.

    machine              the kind of device, for messages
    in_sizes, out_sizes  bytes of the parameters and of the outputs
    """

    machine: str
    short = False

    def __init__(self, program: Program, lowered: Lowered, inline: frozenset[int], name: str) -> None:
        self.lowered = lowered
        self.name = name
        self.inline_params = inline
        self.aliases = lowered.aliases
        self.flops, self.bytes = lowered.flops, lowered.bytes
        self.kernel_count = len(lowered.kernels)
        self.arena_bytes = lowered.arena_bytes
        self.in_sizes = [p.size * p.dtype.itemsize for p in program.params]
        self.out_sizes = [o.size * o.dtype.itemsize for o in program.outs]

    def check_words(self, argument_words: Sequence[int]) -> None:
        """Raise DeviceError unless there is a word for each parameter and each output."""
        if len(argument_words) != len(self.in_sizes) + len(self.out_sizes):
            raise DeviceError(
                f"{self.name} takes {len(self.in_sizes)} parameters and {len(self.out_sizes)} outputs, "
                f"got {len(argument_words)} words"
            )

    def stages(self) -> dict[str, Callable[[], str]]:
        """What `text` knows of: by name, how it is written."""
        return {
            "kernels": self.lowered.as_text,
            "llvm": lambda: self.lowered.ir,
            "commands": lambda: "\n".join([f"EXEC {k.name}" for k in self.lowered.kernels]),
        }

    def text(self, stage: str) -> str:
        """The program at `stage`; raises NotImplementedError for one that is none of `stages`."""
        known = self.stages()
        if stage not in known:
            *some, last = known
            raise NotImplementedError(
                f"the {self.machine} device has no stage {stage!r}; choose {', '.join(some)} or {last}"
            )
        return known[stage]()
