"""Steps of a program over buffers, and the Block that holds them: what `block` builds, `storage`
places, `driver` writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from fgrad.lower.kernel import Kernel
from fgrad.uop.dtype import DType
from fgrad.uop.program import Scan, While


class Home(Enum):
    """Whose memory a buffer is in."""

    PARAM = "param"
    OUT = "out"
    TEMP = "temp"


@dataclass(slots=True, eq=False)
class Memory:
    """A buffer of a Block: `number` is the slot of a PARAM or OUT. `dtype` is that of the value."""

    home: Home
    dtype: DType
    bytes: int
    number: int = -1


@dataclass(slots=True, eq=False)
class Step:
    """What happens at one position: `reads` and `writes` are buffer numbers, each in the order its
    kind says.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Launch(Step):
    """A kernel on `arguments` (its buffers in order)."""

    kernel: Kernel = field(kw_only=True)
    arguments: tuple[int, ...] = field(kw_only=True)


@dataclass(slots=True, eq=False)
class CopyStep(Launch):
    """A whole copy reads[0] -> writes[0]; dropped where both turn out to be one buffer."""


@dataclass(slots=True, eq=False)
class ScanStep(Step):
    """reads: consts, init, xs; writes: carry, ys. `in_place[c]`: carry c stays in one buffer.
    `work`: nested temps.
    """

    scan: Scan = field(kw_only=True)
    body: Block = field(kw_only=True)
    in_place: tuple[bool, ...] = field(kw_only=True)
    spare: tuple[int, ...] = field(kw_only=True)  # second buffers of the other carries
    work: int = field(kw_only=True)


@dataclass(slots=True, eq=False)
class WhileStep(Step):
    """reads: consts, init; writes: carry. As ScanStep; `flag` holds the condition."""

    loop: While = field(kw_only=True)
    cond: Block = field(kw_only=True)
    body: Block = field(kw_only=True)
    in_place: tuple[bool, ...] = field(kw_only=True)
    spare: tuple[int, ...] = field(kw_only=True)
    flag: int = field(kw_only=True)
    work: int = field(kw_only=True)


@dataclass(slots=True, eq=False)
class CondStep(Step):
    """reads: index, operands; writes: results."""

    index_dtype: DType = field(kw_only=True)
    branches: tuple[Block, ...] = field(kw_only=True)
    work: int = field(kw_only=True)


@dataclass(slots=True, eq=False)
class HostStep(Step):
    """reads: arguments; writes: results. `call` is the number of the Host in the program's list."""

    call: int = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Replacement:
    """At `step`, `new` could live in the memory of `old`; `copy` is the step that is then dropped,
    if any.
    """

    copy: CopyStep | None
    step: Step
    old: int
    new: int


@dataclass(slots=True, eq=False)
class Block:
    """Steps over memories; filled in by `storage`: `root` of merged memories, `offset` of TEMPs,
    total `bytes`.

    `aliases`: output number -> parameter slot whose memory it shares.
    """

    memories: list[Memory] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)
    outs: list[int] = field(default_factory=list)
    params: list[int] = field(default_factory=list)
    root: dict[int, int] = field(default_factory=dict)
    offset: dict[int, int] = field(default_factory=dict)
    bytes: int = 0
    aliases: dict[int, int] = field(default_factory=dict)

    def memory(self, home: Home, dtype: DType, bytes_: int, number: int = -1) -> int:
        """A new buffer."""
        self.memories.append(Memory(home, dtype, bytes_, number))
        return len(self.memories) - 1
