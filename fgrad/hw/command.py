"""The commands of a queue: frozen records whose operands may be holes.

A command list is neutral: nothing in it knows how a device writes it. Operands are numbers, a Span
of memory, or a Sym, which stands for a number that is known later: when the list is linked (the
address of an arena), or at each call (the address of an input, the bits of a scalar, a tick).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum


class Role(Enum):
    """What a Sym stands for, and so when it is known."""

    # known at each call
    INPUT = "in"  # address of an input, or the bits of an inline scalar in its place
    OUTPUT = "out"  # address of an output
    SCALAR = "scalar"  # bits of a scalar
    TICK = "tick"  # newest tick of a lane's timeline before this call; the index is the lane's
    # known for each copy of the words: calls in flight at the same time use different ones
    CONTROL = "control"  # address of the copy itself
    SCRATCH = "scratch"
    ARENA = "arena"
    HANDLE = "handle"  # by which a program calls Python back
    GATE = "gate"  # address of the word that lets the queues of a launch begin
    # known when the words are linked
    RUNTIME = "runtime"
    CAPTURED = "captured"  # address of an array that lives as long as the program
    QUEUE = "queue"  # address of a lane's queue
    CODE = "code"  # address of a program

    @property
    def is_per_call(self) -> bool:
        """Whether it is known only when the list is run."""
        return self in (Role.INPUT, Role.OUTPUT, Role.SCALAR, Role.TICK)

    @property
    def is_per_copy(self) -> bool:
        """Whether each copy of the words has its own."""
        return self in (Role.CONTROL, Role.SCRATCH, Role.ARENA, Role.HANDLE, Role.GATE)


@dataclass(frozen=True, slots=True)
class Sym:
    """A hole: the number that has `role` and `index`, plus `plus`."""

    role: Role
    index: int = 0
    plus: int = 0

    def __str__(self) -> str:
        return f"{self.role.value}{self.index}" + (f"+{self.plus}" if self.plus else "")


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of memory of a device.

    device   name of the device it belongs to
    base     its address, or the Sym that stands for it, with nothing added. It is the block's
             identity: blocks of different bases must not share bytes
    """

    device: str
    base: int | Sym
    nbytes: int

    def __post_init__(self) -> None:
        if isinstance(self.base, Sym) and self.base.plus:
            raise ValueError(f"a block begins at {self.base}; use a span of the block without it")

    def span(self, offset: int = 0, length: int | None = None) -> Span:
        """The bytes from `offset` on, all of them by default."""
        return Span(self, offset, self.nbytes - offset if length is None else length)

    def __str__(self) -> str:
        base = f"{self.base:#x}" if isinstance(self.base, int) else str(self.base)
        return f"{self.device}:{base}"


@dataclass(frozen=True, slots=True)
class Span:
    """`length` bytes of a block from `offset` on. Raises ValueError when they are not in it."""

    block: Block
    offset: int
    length: int

    def __post_init__(self) -> None:
        if self.offset < 0 or self.length < 0 or self.offset + self.length > self.block.nbytes:
            raise ValueError(
                f"bytes {self.offset} to {self.offset + self.length} are not inside the "
                f"{self.block.nbytes} bytes of {self.block}"
            )

    @property
    def address(self) -> int | Sym:
        """Where it begins."""
        base = self.block.base
        if isinstance(base, Sym):
            return Sym(base.role, base.index, base.plus + self.offset)
        return base + self.offset

    def __str__(self) -> str:
        return f"{self.block}[{self.offset}:{self.offset + self.length}]"


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure in memory, laid out as C does: each field at a multiple of its alignment.

    fields  (width in bytes: 1, 2, 4 or 8; value), or a Struct that stands inside. A value is a number, a Sym, a Span
            (its address), or a Struct that stands elsewhere (its address)

    As an argument of a program it is given by its address. Raises ValueError for a number that does not fit its field.
    """

    fields: tuple[tuple[int, int | Sym | Span | Struct] | Struct, ...]

    def __post_init__(self) -> None:
        for field in self.fields:
            if isinstance(field, Struct):
                continue
            width, value = field
            if width not in (1, 2, 4, 8):
                raise ValueError(f"a field is 1, 2, 4 or 8 bytes wide, not {width}")
            if isinstance(value, int) and not -(1 << 8 * width - 1) <= value < 1 << 8 * width:
                raise ValueError(f"{value} does not fit a field of {width} bytes")
            if isinstance(value, Span | Struct) and width != 8:
                raise ValueError(f"an address needs a field of 8 bytes, not {width}")

    @property
    def align(self) -> int:
        """At multiples of what it stands."""
        return max([f.align if isinstance(f, Struct) else f[0] for f in self.fields], default=1)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each field begins."""
        return self._ends()[0]

    @property
    def nbytes(self) -> int:
        """With what is unused at its end, so that another one can follow."""
        return self._ends()[1]

    def __str__(self) -> str:
        words = []
        for field in self.fields:
            if isinstance(field, Struct):
                words.append(str(field))
            else:
                width, value = field
                words.append(f"u{8 * width} {'&' * isinstance(value, Struct)}{_number(value)}")
        return "{" + ", ".join(words) + "}"

    def _ends(self) -> tuple[tuple[int, ...], int]:
        at, starts = 0, []
        for field in self.fields:
            align, nbytes = (field.align, field.nbytes) if isinstance(field, Struct) else (field[0], field[0])
            at += -at % align
            starts.append(at)
            at += nbytes
        return tuple(starts), at + -at % self.align


Operand = int | Sym | Span | Struct


@dataclass(frozen=True, slots=True)
class Exec:
    """Run `program`, known to the device by that name, with `arguments`.

    reads, writes  what it touches; a span that it reads and writes is in both
    """

    program: str
    arguments: tuple[Operand, ...] = ()
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy bytes; both spans have one length and do not overlap. Raises ValueError otherwise."""

    target: Span
    source: Span

    def __post_init__(self) -> None:
        if self.target.length != self.source.length:
            raise ValueError(
                f"a copy of {self.source.length} bytes into {self.target.length} bytes: {self.source} to {self.target}"
            )
        (a, b) = (self.target, self.source)
        if a.block.base == b.block.base and a.length:
            if a.offset < b.offset + b.length and b.offset < a.offset + a.length:
                raise ValueError(f"a copy between overlapping bytes: {b} to {a}")

    @property
    def reads(self) -> tuple[Span, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Span, ...]:
        return (self.target,)


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the queue until the signal of `lane` is at least `tick`."""

    lane: int
    tick: int | Sym


@dataclass(frozen=True, slots=True)
class Signal:
    """Set the signal of `lane` to `tick`, once all earlier commands of the queue are finished."""

    lane: int
    tick: int | Sym


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Write the device's clock, nanoseconds in 64 bits, once earlier commands are finished."""

    target: Span

    @property
    def writes(self) -> tuple[Span, ...]:
        return (self.target,)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Let later commands see what the host or another engine has written."""


@dataclass(frozen=True, slots=True)
class Write:
    """Store the `bits` (32 or 64) of `value`."""

    target: Span
    value: int | Sym
    bits: int = 64

    def __post_init__(self) -> None:
        if self.bits not in (32, 64) or self.target.length * 8 != self.bits:
            raise ValueError(f"WRITE stores 32 or 64 bits, not {self.bits} to {self.target}")

    @property
    def writes(self) -> tuple[Span, ...]:
        return (self.target,)


@dataclass(frozen=True, slots=True)
class Poll:
    """Hold the queue until the 64-bit word at `source`, under `mask`, equals `expected`."""

    source: Span
    expected: int | Sym
    mask: int = (1 << 64) - 1

    def __post_init__(self) -> None:
        if self.source.length != 8:
            raise ValueError(f"POLL looks at 8 bytes, not at {self.source}")


@dataclass(frozen=True, slots=True)
class Host:
    """Call the Python function of that name on the host, between the commands around it."""

    name: str
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()


Command = Exec | Copy | Wait | Signal | Timestamp | Barrier | Write | Poll | Host


def accesses(command: Command) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """What a command reads and what it writes."""
    return getattr(command, "reads", ()), getattr(command, "writes", ())


def show(command: Command) -> str:
    """One line: the name in capitals, then the fields in order."""
    words = [type(command).__name__.upper()]
    for field in fields(command):
        value = getattr(command, field.name)
        if isinstance(value, tuple):
            if value:
                words.append(f"{field.name}=({', '.join(map(_number, value))})")
        elif field.name in ("program", "name"):
            words.append(value)
        elif field.default != value:
            words.append(f"{field.name}={_number(value)}")
    return " ".join(words)


def listing(commands: Iterable[Command]) -> str:
    """The commands, one numbered line each; the same commands always give the same text."""
    return "\n".join(f"{i:3d}  {show(command)}" for i, command in enumerate(commands))


def _number(value: object) -> str:
    return hex(value) if isinstance(value, int) and value > 1 << 16 else str(value)
