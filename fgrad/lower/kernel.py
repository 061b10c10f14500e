"""The kernel tree: what a kernel computes, as loops over ranges and stores of UOps evaluated at an
index.

There is no value language of its own. A value is a node of the traced program *evaluated at an
index* (one expression per axis of the node), by these rules, first that applies:

1. the node is in `kernel.loads`: element `ranges.address(index, node.shape)` of that buffer;
2. the node is the `node` of an open or finished `Acc`: the accumulator's present value (the index
plays no part);
3. the node was `Keep`t before: the scratch element written for it (its index is the same as then);
4. a view (movement op, GATHER): `views.step` gives the index of the source and conditions; where a
condition
   fails the value is 0 (False), and the source need not exist there; AFTER: its first source;
5. CONST: its value. IOTA: the index itself, converted to the dtype;
6. an elementwise op: applied to the sources evaluated at the same index; one rounding to the node's
dtype.

float16, bfloat16 and the 8-bit floats are computed in float32 and rounded after every op. Integers
wrap.

Statements run in order; a `Loop` runs its body for each position of its range, a `TASK` loop's
positions in any order and at the same time. Conditions are triples (e, lo, hi): lo <= e < hi.

An interpreter keeps: positions of open ranges, buffers, scratch (one copy for each worker),
accumulators. Loops of different phases of a row share their ranges: an expression means the same
in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from fgrad.lower.index import ZERO, Cond, Expr, Index, Ranges
from fgrad.uop.dtype import DType
from fgrad.uop.lines import lines
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode, Op


class LoopKind(Enum):
    """How the positions of a loop may run."""

    SEQ = "seq"  # one after the other, in order
    TASK = "task"  # in any order, split over workers; only outermost
    VEC = "vec"  # in lanes, `unroll` vectors at once; folds may combine in any fixed order


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A parameter of a kernel: a contiguous row-major array of `size` elements."""

    dtype: DType
    size: int
    read: bool
    written: bool


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Memory of one worker: `size` elements, undefined at the start of a task."""

    dtype: DType
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Acc:
    """An accumulator that stands for `node`: starts at the identity of `op`, in
    `accumulator(node.dtype)`.

    For the small floats it is float32 and rounded once, when the reduction ends (a running
    PREFIX: at each use).
    """

    node: UOp
    op: Op  # ADD MUL MAX MIN AND OR XOR


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Run `body` with range atom `range` at 0 .. size-1.

    `alone`: what it folds is added up by itself before it joins what was folded earlier.
    Where there is a `limit`, nobody wants positions from there on: they may be left out. A SEQ or TASK loop in code for
    a processor leaves out all of them, a VEC loop some; so reads under `Ranges.limits` may lie out of bounds there.
    """

    range: int
    size: int
    kind: LoopKind
    body: tuple[Stmt, ...]
    unroll: int = 1
    alone: bool = False
    limit: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """Start `accs`, run `body` (which folds into them); from then on their nodes have values."""

    accs: tuple[Acc, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """acc = acc.op(acc, value[index]) where all `conds` hold."""

    acc: Acc
    value: UOp
    index: Index
    conds: tuple[Cond, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """buffer[address] = value[index] where all `conds` hold; other modes combine with what is
    there.

    `streaming` asks for stores past the caches. `gate[gate_index]` must be true as well.
    `keep`: as for Keep, from the next loop on `value` at `index` is read from there.
    """

    buffer: int
    address: Expr
    value: UOp
    index: Index
    conds: tuple[Cond, ...] = ()
    mode: Mode = Mode.SET
    streaming: bool = False
    gate: UOp | None = None
    gate_index: Index = ()
    keep: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Keep:
    """scratch[address] = node[index]; from then on, `node` at `index` is read from there.

    With `combine` an op (of a reduction in pieces): scratch[address].op(node[index]), unless
    `piece` is 0.
    """

    scratch: int
    address: Expr
    node: UOp
    index: Index
    combine: Op | None = None
    piece: Expr = ZERO


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A precompiled or specially generated form of `body`, which is its meaning for everybody else.

    name      which form ("contract", "transpose", "sort", ..)
    operands  plain data for it (descriptor); hashable, part of the kernel's structural key
    """

    name: str
    body: tuple[Stmt, ...]
    operands: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """Sort `rows` rows of `n` elements stably by the first source, carrying the others along. Ascending; NaN last; -0
    and 0 are equal.

    sources  buffers of rows x n elements; -1: 0 .. n-1 of each row, as int64 (never the first)
    targets  where their sorted rows go; -1: nowhere
    space    where work space is: a scratch array; of rows that are cut into `pieces`, a buffer that all tasks share
    pieces   tasks that sort a row together, in the phases of the kernel
    """

    rows: int
    n: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    space: int
    pieces: int = 1


Stmt = Loop | Reduction | Fold | Store | Keep | Call | Sort


@dataclass(slots=True, eq=False)
class Kernel:
    """One kernel. `loads` says which nodes are read from which buffer; `tasks` into how many pieces
    it is split.

    flops and bytes are estimates for one run; `work_ns` is the estimated time on one core.
    `width`: lanes of VEC loops.
    `unaligned`: buffers that may start anywhere, so that no store to them is streaming.
    `about`: what it computes, where no statement names it.
    `phases`: how many times the tasks run, each time all of them before the next time; word 2 of the frame counts.
    """

    name: str
    ranges: Ranges
    buffers: tuple[Buffer, ...]
    loads: Mapping[UOp, int]
    body: tuple[Stmt, ...]
    scratch: tuple[Scratch, ...] = ()
    tasks: int = 1
    flops: int = 0
    bytes: int = 0
    work_ns: float = 0.0
    width: int = 1
    unaligned: frozenset[int] = frozenset()
    about: tuple[UOp, ...] = ()
    phases: int = 1

    @property
    def scratch_offsets(self) -> tuple[list[int], int]:
        """Byte offset of each scratch array inside a worker's scratch, and their total size."""
        offsets: list[int] = []
        at = 0
        for s in self.scratch:
            offsets.append(at)
            at += -(-s.size * s.dtype.itemsize // 64) * 64 + 64
        return offsets, at

    @property
    def line(self) -> str:
        """The user's source line that the kernel computes, as far as lines are recorded: that of what it stores, or of
        the nearest value below, in the kernel or else before it. Derivatives have the lines of what they are of.
        """
        stored = [*self.about, *[s.value for s in self.walk() if isinstance(s, Store)]]
        return _nearest_line(stored, self.loads) or _nearest_line([*stored, *self.loads], {})

    def walk(self) -> Iterator[Stmt]:
        """All statements, outer before inner; those of a Call's meaning included."""
        stack = list(reversed(self.body))
        while stack:
            s = stack.pop()
            yield s
            if isinstance(s, Loop | Reduction | Call):
                stack.extend(reversed(s.body))


def _nearest_line(roots: Sequence[UOp], leaves: Mapping[UOp, int]) -> str:
    """The line of one of the roots, or of the nearest node below that is not below `leaves`; "" if none has one."""
    level, seen = list(roots), set(roots)
    while level:
        for u in level:
            if lines.of(u):
                return lines.of(u)
        below = dict.fromkeys([s for u in level if u not in leaves for s in u.src])
        level = [u for u in below if u not in seen]
        seen.update(level)
    return ""
