"""The NULL device: lowers programs and counts what would run; it moves no data.

Outputs keep whatever their memory held. Reading an array back is therefore an error, unless
`allow_reading` says otherwise.
Time stands still but for a fixed amount per kernel, so that schedules can be tested to the
nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass

from fgrad.backends.executable import LoweredExecutable
from fgrad.errors import DeviceError
from fgrad.hw.device import register_device
from fgrad.hw.pool import Pool
from fgrad.lower.limits import Limits
from fgrad.lower.pipeline import Lowered, lower
from fgrad.uop.program import Program

KERNEL_NS = 1000  # what every kernel takes


@dataclass(slots=True)
class Counts:
    """What has been submitted so far. Bodies of loops count once."""

    programs: int = 0
    kernels: int = 0
    flops: int = 0
    bytes: int = 0
    compiled: int = 0


class NullExecutable(LoweredExecutable):
    """A lowered program that is counted when called."""

    machine = "NULL"

    def __init__(
        self, device: NullDevice, program: Program, lowered: Lowered, inline: frozenset[int], name: str
    ) -> None:
        super().__init__(program, lowered, inline, name)
        self.device = device

    def call(self, argument_words: list[int]) -> None:
        """Count one run. No word is followed."""
        self.check_words(argument_words)
        counts = self.device.counts
        counts.programs += 1
        counts.kernels += self.kernel_count
        counts.flops += self.flops
        counts.bytes += self.bytes
        self.device.now_ns += KERNEL_NS * self.kernel_count


class NullDevice:
    """See the module.

    allow_reading  whether reading results back gives meaningless values instead of DeviceError
    counts         what was submitted
    now_ns         the device's clock
    """

    wants_whole_arguments = False

    def __init__(self, index: int) -> None:
        self.name = f"null:{index}" if index else "null"
        self.pool = Pool(self.name)
        self.limits = Limits()
        self.allow_reading = False
        self.counts = Counts()
        self.now_ns = 0

    def compile(
        self, program: Program, inline: frozenset[int], donated: frozenset[int], name: str
    ) -> NullExecutable:
        """Lower, to know what would run."""
        lowered = lower(program, self.limits, inline=inline, donated=donated, name=name)
        self.counts.compiled += 1
        return NullExecutable(self, program, lowered, inline, name)

    def check_readable(self) -> None:
        """Raise DeviceError unless reading results back was allowed."""
        if not self.allow_reading:
            raise DeviceError(
                f"{self.name} computes nothing, so there is nothing to read back; use another "
                "device, or set its allow_reading to get whatever its memory holds"
            )

    def sync(self) -> None:
        """Everything is done when `call` returns."""


register_device("null", NullDevice)
