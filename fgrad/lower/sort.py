"""Kernels of SORT along the last axis: which sources they read, how they are cut into tasks, and the work space.

A long row is sorted by several tasks together, phase after phase: each task counts and moves its own piece.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fgrad.lower import views
from fgrad.lower.cost import MAX_TASKS, TASK_NS, tasks_for
from fgrad.lower.index import Ranges
from fgrad.lower.kernel import Buffer, Kernel, Scratch, Sort
from fgrad.lower.limits import Limits
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

SHORT = 64  # rows up to here: every element counts how many come before it
NARROW, WIDE = 8, 11  # bits of a digit
WIDE_FROM = 8192  # elements of a row whose digits are wide
TOGETHER_FROM = 32768  # elements of a row that several tasks may sort together
PIECE = 32768  # elements of such a row that a task has at least
STATS_WORDS = 16  # of each piece: what it found out about its keys, and the plan it made of that; two cache lines
NS_PER_PASS = 2.0  # an element


@dataclass(frozen=True, slots=True)
class Layout:
    """How a row of `n` keys is sorted by `pieces` tasks.

    key       dtype of the keys
    carries   whether positions travel with the keys: an element is then (position, key), of two words of 4 or 8 bytes
    """

    key: DType
    n: int
    carries: bool
    pieces: int

    @property
    def is_short(self) -> bool:
        return self.n <= SHORT

    @property
    def key_bits(self) -> int:
        """Of the word that holds a key while it is sorted."""
        return max(self.key.bits, 32) if self.carries or self.is_short else self.key.bits

    @property
    def element_bytes(self) -> int:
        return self.key_bits // 8 * (1 + self.carries)

    @property
    def digit_bits(self) -> int:
        return min(WIDE if self.n >= WIDE_FROM else NARROW, self.key.bits)

    @property
    def bins(self) -> int:
        return 1 << self.digit_bits

    @property
    def passes(self) -> int:
        """At most; keys that differ in few bits need fewer."""
        return -(-self.key.bits // self.digit_bits)

    @property
    def sorting_phases(self) -> int:
        """The keys are made; then each pass counts, and moves."""
        return 1 + 2 * self.passes

    @property
    def restores(self) -> bool:
        """Whether keys of a source may have bits that are not restored from what is sorted."""
        return self.key.is_float and not self.carries

    @property
    def phases(self) -> int:
        """After the sorting, results are written, and then odd keys."""
        return self.sorting_phases + 1 + self.restores

    @property
    def offsets(self) -> tuple[tuple[int, ...], int]:
        """Where in the work space of a row the parts are, and its size, in bytes: two arrays of elements, what each
        piece found out about its keys, its counts, its places. Of a short row: keys and ranks.
        """
        if self.is_short:
            keys = _aligned(self.n * self.key_bits // 8)
            return (0, keys), keys + _aligned(4 * self.n)
        table = _aligned(4 * self.bins * self.pieces)
        sizes = [_aligned(self.n * self.element_bytes)] * 2 + [8 * STATS_WORDS * self.pieces, table, table]
        return tuple([sum(sizes[:i]) for i in range(5)]), sum(sizes)


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def layout(kernel: Kernel, s: Sort) -> Layout:
    """The layout of a statement of `kernel`."""
    carried = [target for source, target in zip(s.sources, s.targets, strict=True) if source != s.sources[0]]
    carries = any(target >= 0 for target in carried)
    return Layout(kernel.buffers[s.sources[0]].dtype, s.n, carries, s.pieces)


def is_position(x: UOp, sort: UOp) -> bool:
    """Whether payload `x` of a sort along the last axis is an element's place in its row."""
    if x.dtype is not dt.int64:
        return False
    ranges = Ranges()
    axes = index = ranges.ranges(x.shape)
    while x.op in (Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.AFTER):
        x, index, _ = views.step(ranges, x, index)
    return x.op is Op.IOTA and index[0] == axes[-1]


def build_sort(name: str, u: UOp, wanted: tuple[bool, ...], limits: Limits) -> Kernel:
    """The kernel of SORT node `u` along its last axis; buffers: the key, the payloads that are no positions, the
    `wanted` results, and the work space of tasks that share a row.
    """
    shape = u.src[0].shape
    n = shape[-1]
    rows = math.prod(shape[:-1])
    reads = memory_sources(u)
    buffers = [Buffer(s.dtype, s.size, True, False) for s in reads]
    sources = [0]
    for s in u.src[1:]:
        sources.append(-1 if is_position(s, u) else max(sources) + 1)
    targets = []
    for s, is_wanted in zip(u.src, wanted, strict=True):
        targets.append(len(buffers) if is_wanted else -1)
        if is_wanted:
            buffers.append(Buffer(s.dtype, s.size, False, True))
    key = u.src[0].dtype
    carries = any(wanted[1:])
    one = Layout(key, n, carries, 1)
    per_element = 2 * sum(wanted) + (one.passes * NS_PER_PASS if not one.is_short else n / 8)
    work = rows * n * per_element
    moved = 2 * sum([s.size * s.dtype.itemsize for s in u.src])
    scratch: tuple[Scratch, ...] = ()
    pieces = _pieces(rows, n, work)
    tasks = rows * pieces
    if pieces > 1:
        space, phases = len(buffers), Layout(key, n, carries, pieces).phases
        size = rows * max(Layout(key, n, carries, pieces).offsets[1], 8 * n)
        buffers.append(Buffer(dt.uint8, size, False, True))
    else:
        space, phases = 0, 1
        scratch = (Scratch(dt.uint8, max(one.offsets[1], 8 * n)),)
        tasks = tasks_for(work, rows)
        tasks = -(-rows // -(-rows // tasks))
    statement = Sort(rows, n, tuple(sources), tuple(targets), space, pieces)
    return Kernel(
        name, Ranges(), tuple(buffers), {}, (statement,), scratch, tasks, bytes=moved, work_ns=work, about=(u,),
        phases=phases,
    )  # fmt: skip


def memory_sources(u: UOp) -> tuple[UOp, ...]:
    """The sources of a SORT that must be in memory."""
    return (u.src[0], *[s for s in u.src[1:] if not is_position(s, u)])


def _pieces(rows: int, n: int, work: float) -> int:
    """Into how many pieces each row is cut; they differ in length by one element at most."""
    if n < TOGETHER_FROM or rows >= MAX_TASKS // 4:
        return 1
    return max(1, min(n // PIECE, MAX_TASKS // rows, int(work / rows / TASK_NS)))
