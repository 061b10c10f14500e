"""plan: from the sizes of a contraction to its descriptor, its tasks and the micro-kernels it
needs.

The plan depends on sizes and on the machine's vectors and caches, never on the number of threads:
results do not either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fgrad.lower.micro.driver import WORDS, D, Pack
from fgrad.lower.micro.machine import Element, Machine
from fgrad.lower.micro.slots import DRIVER, Micro, pack_slot, tile_slot, vector_slot

ONE_BLOCK = 1024  # steps of k summed in registers at most; beyond, blocks of about half
BLOCK = 512
TASKS = 8  # at least, where the work is worth it
TASK_WORK = 1 << 20  # multiplications that pay for a second task
SHARE_WORK = 1 << 25  # and for packing B once for all tasks, in a kernel before
SHARE_SIZE = 1 << 15  # elements of B
BLOCK_COLUMNS = 1024  # columns of a unit when K is in blocks: bounds the unfinished tiles
IN_PLACE_ROWS = 160  # up to so many rows packing B does not pay for itself
VECTOR_WIDE = 64  # column panels of one axpy call: sums stay in L1, rows are read by the page
ALIGN = 64


@dataclass(frozen=True, slots=True)
class Access:
    """How a factor lies in memory: a strided view (`outer` along rows or columns, `step` along k),
    or generated.

    across: a generated factor is better evaluated with lanes along k.
    """

    outer: int = 0
    step: int = 0
    generated: bool = False
    across: bool = False

    @property
    def mode(self) -> Pack:
        """How its panels are packed."""
        if self.generated:
            return Pack.GENERATED
        if self.outer == 1:
            return Pack.ALONG
        return Pack.ACROSS if self.step == 1 else Pack.ANY


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do. `units` tasks for each of `batch` entries; `words` is the descriptor.

    vector_form: `gemv` instead of `gemm`; line_at: where in scratch its vector is laid out first,
    if it is not in memory with neighbouring elements. packed: bytes of the B panels packed
    beforehand in `pack_tasks` tasks of `pack_panels` panels each (0: no packing). scratch: bytes
    for each worker. micro: the modules used.
    """

    words: tuple[int, ...]
    batch: int
    units: int
    rows: int
    vectors: int
    width: int
    columns: int
    vector_form: bool
    line_at: int | None
    scratch: int
    packed: int
    pack_tasks: int
    pack_panels: int
    pack_mode: Pack
    micro: tuple[Micro, ...]

    @property
    def one_block(self) -> bool:
        """Whether all of k is one block (then a generated pack function may rely on k0 = 0)."""
        return self.words[D.BLOCKS] <= 1

    @property
    def all_straight(self) -> bool:
        """Whether every tile goes straight into the output, so that no epilogue is called."""
        w = self.words
        return (
            not self.vector_form
            and (w[D.LDC] > 0 and w[D.FULL_M] == w[D.PANELS_M])
            and (w[D.FULL_N] == w[D.PANELS_N])
        )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What the split into units looks at; `a_panel`: bytes of a packed panel of A; `a_cost`, `b_cost`: of packing an
    element, in products.
    """

    batch: int
    m: int
    n: int
    k: int
    panels_m: int
    panels_n: int
    width: int
    blocks: int
    a_panel: int
    a_cost: float
    b_cost: float


def make_plan(
    machine: Machine,
    element: Element,
    batch: int,
    m: int,
    n: int,
    k: int,
    a: Access,
    b: Access,
    ldc: int = 0,
    run: int = 1,
) -> Plan:
    """The plan for C[batch, m, n] = A[batch, m, k] B[batch, k, n].

    ldc        row stride of C where tiles may be stored straight into it (then columns are
    neighbours), else 0
    run        where k is in several blocks, each is a multiple of so many steps
    """
    size, lanes = element.size, machine.lanes(element.size)
    vectors = 2 if n > lanes else 1
    width = machine.width(size, vectors)
    panels_n = -(-n // width)
    words = [0] * WORDS
    words[D.SIZE], words[D.M], words[D.N], words[D.K] = size, m, n, k
    words[D.WIDTH], words[D.PANELS_N], words[D.FULL_N] = width, panels_n, n // width
    words[D.B_COLUMN], words[D.B_STEP] = b.outer, b.step
    words[D.A_ROW], words[D.A_STEP] = a.outer, a.step
    common = {"batch": batch, "vectors": vectors, "width": width, "columns": n}
    if m == 1 and b.mode in (Pack.ALONG, Pack.ACROSS):
        return _vector_plan(machine, element, words, a, b, k, common)

    rows, last = machine.choose_rows(m, vectors)
    panels_m = -(-m // rows)
    blocks = 1 if k <= ONE_BLOCK else -(-k // BLOCK)
    kc = _round(-(-k // blocks), math.lcm(run if blocks > 1 else 1, max(16, lanes)))
    blocks = -(-k // kc)
    height = machine.height(size)
    sizes = _Sizes(batch, m, n, k, panels_m, panels_n, width, blocks, kc * height * size,
                   8.0 if a.generated else 4.0, 6.0 if b.generated else 2.5)  # fmt: skip
    pm, pn = _split(sizes, machine.l2)
    units_m, units_n = -(-panels_m // pm), -(-panels_n // pn)

    b_mode = pack_mode = b.mode
    packed = pack_tasks = pack_panels = 0
    if b_mode is Pack.ALONG and m <= IN_PLACE_ROWS:
        b_mode = Pack.IN_PLACE
    elif units_m > 1 and batch == 1 and m * n * k >= SHARE_WORK and n * k >= SHARE_SIZE:
        b_mode = Pack.SHARED
        packed = blocks * panels_n * kc * width * size + ALIGN
        pack_tasks = min(panels_n, TASKS)
        pack_panels = -(-panels_n // pack_tasks)
        pack_tasks = -(-panels_n // pack_panels)
    a_mode = Pack.ROWS if a.mode is Pack.ACROSS else a.mode
    by_rows = a_mode is Pack.ROWS or (a.generated and a.across)
    at = 0
    for word, length in (
        (D.AT_A, pm * kc * height),
        (D.AT_B, kc * width),
        (D.AT_C, (pm * pn if blocks > 1 else 1) * rows * width),
        (D.AT_BLOCK, max(height, width) * lanes),
    ):
        words[word] = at
        at += _round(length * size, ALIGN) + ALIGN
    words[D.KC], words[D.BLOCKS], words[D.ROWS], words[D.HEIGHT] = kc, blocks, rows, height
    words[D.TILE], words[D.TILE_LAST] = (
        tile_slot(element, rows, vectors, by_rows),
        tile_slot(element, last, vectors, by_rows),
    )
    words[D.A_MODE], words[D.B_MODE], words[D.PACK] = a_mode, b_mode, pack_slot("along", size)
    words[D.PM], words[D.PN], words[D.UNITS_N] = pm, pn, units_n
    words[D.PANELS_M], words[D.LDC] = panels_m, ldc
    words[D.FULL_M] = panels_m if last == m - (panels_m - 1) * rows else panels_m - 1
    tiles = {Micro("tile", 0, element, r, vectors, by_rows) for r in (rows, last)}
    turned = (Micro("turn", size),) if b.mode is Pack.ACROSS or b.across else ()
    micro = (DRIVER, Micro("pack", size), *turned, *sorted(tiles, key=lambda t: -t.rows))
    return Plan(
        tuple(words),
        units=units_m * units_n,
        rows=rows,
        vector_form=False,
        line_at=None,
        scratch=at,
        packed=packed,
        pack_tasks=pack_tasks,
        pack_panels=pack_panels,
        pack_mode=pack_mode,
        micro=micro,
        **common,
    )


def _vector_plan(
    machine: Machine,
    element: Element,
    words: list[int],
    a: Access,
    b: Access,
    k: int,
    common: dict[str, int],
) -> Plan:
    """One row: dot products where k is contiguous in B, else sums of rows of B."""
    panels, width = words[D.PANELS_N], words[D.WIDTH]
    dots = b.step == 1
    work = common["columns"] * k * common["batch"]
    wanted = 2 * TASKS if dots else max(-(-panels // VECTOR_WIDE), min(TASKS // 2, panels // 8))
    tasks = 1 if work < TASK_WORK else max(1, min(panels, wanted))
    pn = -(-panels // tasks)
    wide = 1 if dots else min(VECTOR_WIDE, pn)
    words[D.PN], words[D.UNITS_N] = pn, -(-panels // pn)
    words[D.FUNCTION], words[D.WIDE] = vector_slot("dot" if dots else "axpy", element), wide
    micro = (DRIVER, Micro("vector", element=element))
    sums = _round(wide * width * element.size, ALIGN)
    line_at = sums if a.generated or a.step != 1 else None
    line = 0 if line_at is None else _round((k + machine.lanes(element.size)) * element.size, ALIGN)
    return Plan(
        tuple(words),
        units=words[D.UNITS_N],
        rows=1,
        vector_form=True,
        line_at=line_at,
        scratch=sums + line,
        packed=0,
        pack_tasks=0,
        pack_panels=0,
        pack_mode=b.mode,
        micro=micro,
        **common,
    )


def _split(sizes: _Sizes, l2: int) -> tuple[int, int]:
    """(row panels, column panels) of a unit. Its packed A panels take 5/8 of L2 at most."""
    s = sizes
    pm = max(1, min(s.panels_m, l2 * 5 // 8 // s.a_panel))
    pn = s.panels_n
    if s.blocks > 1:
        pn = max(1, min(pn, BLOCK_COLUMNS // s.width))
    pm, pn = _even(s.panels_m, pm), _even(s.panels_n, pn)
    want = -(-TASKS // s.batch)
    if s.batch * s.m * s.n * s.k < TASK_WORK or want == 1:
        return pm, pn
    # a grid of units that keeps all threads busy, and packs each row and column as seldom as possible
    best = pm, pn
    best_cost = math.inf
    for down in range(-(-s.panels_m // pm), max(want, -(-s.panels_m // pm)) + 1):
        across = min(-(-want // down), s.panels_n)
        for wide in (-(-s.panels_n // across), s.panels_n // across):
            here = min(pm, -(-s.panels_m // down)), min(pn, wide)
            units = -(-s.panels_m // here[0]), -(-s.panels_n // here[1])
            packing = s.a_cost * s.m * units[1] + s.b_cost * s.n * units[0]
            cost = s.m * s.n * _idle(units[0] * units[1], want) + packing
            if cost < best_cost:
                best, best_cost = here, cost
    return best


def _idle(units: int, want: int) -> float:
    """How much longer so many equal units take than evenly shared work, with several numbers of threads."""
    return 1.0 if units >= want else sum([-(-units // t) * t / units for t in (2, 4, 8)]) / 3


def _even(panels: int, most: int) -> int:
    """At most `most`, so that blocks of as many are about equal."""
    return -(-panels // -(-panels // most))


def _round(n: int, to: int) -> int:
    return -(-n // to) * to
