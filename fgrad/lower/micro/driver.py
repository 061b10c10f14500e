"""driver: the loops of a contraction around the micro-kernels. All sizes come from a descriptor, so
one text serves all.

C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n], in units: a unit is a block of row
panels times a block of column panels of one batch entry. Units are independent, so they are the
tasks. K is never split over units, so the number of threads does not matter. A unit, for each block
of k in order: packs its A panels; then for each B panel (packed now, packed before by everybody
together, or read in place) runs the tile kernel over the A panels. A finished tile lies in L1,
where the generated epilogue takes it.

Signatures of what the program passes in:
    epilogue  void(ptr t, ptr tile, i64 first_row, i64 rows, i64 column_panel, i64 batch)
              tile: [rows] rows of one column panel
    pack      void(ptr t, ptr panel, i64 panel_number, i64 k0, i64 k, i64 batch, ptr block)
              fills [k][width]; block: room for one square block of vectors for each vector of the
              panel
"""

from __future__ import annotations

from enum import IntEnum

from fgrad.lower.micro.text import Text, Value


class D(IntEnum):
    """Words (i64) of a descriptor. Strides are in elements, offsets into the scratch of a worker in
    bytes."""

    SIZE = 0  # bytes of an element
    M = 1
    N = 2
    K = 3
    KC = 4  # steps in a block of k
    BLOCKS = 5  # blocks of k
    ROWS = 6  # of a tile
    WIDTH = 7  # of a column panel
    HEIGHT = 8  # elements of one step of a packed A panel
    TILE = 9  # slot of the tile kernel
    TILE_LAST = 10  # slot of the one for the last row panel
    A_MODE = 11  # a `Pack`
    A_ROW = 12  # stride from row to row
    A_STEP = 13  # stride from step to step of k
    B_MODE = 14
    B_COLUMN = 15
    B_STEP = 16
    PACK = 17  # slot of the first packing function
    PM = 18  # row panels of a unit
    PN = 19  # column panels of a unit
    UNITS_N = 20  # units side by side
    PANELS_M = 21
    PANELS_N = 22
    AT_A = 23
    AT_B = 24
    AT_C = 25
    AT_BLOCK = 26
    LDC = 27  # row stride of the output if full tiles go straight into it; 0: to the epilogue
    FUNCTION = 28  # slot of dot or axpy (gemv)
    FULL_M = 29  # row panels whose tile kernel writes just the rows there are
    FULL_N = 30  # column panels that are full
    WIDE = 31  # column panels that one call of FUNCTION covers (gemv)


WORDS = len(D)


class Pack(IntEnum):
    """How a panel comes about. The first four are functions in the slots from D.PACK on."""

    ALONG = 0  # neighbours in the panel are neighbours in memory
    ACROSS = 1  # steps of k are neighbours in memory
    ANY = 2  # neither
    ROWS = 3  # A only: steps of k are neighbours in memory and stay so (see `tile`)
    GENERATED = 4  # by the program's own function
    SHARED = 5  # all B panels were packed before, by `pack_b`
    IN_PLACE = 6  # B is read where it is; its last panel, if not full, is packed


class _Driver(Text):
    """A function with a descriptor `d` and the runtime table `runtime`."""

    def word(self, which: D) -> str:
        return self.load("i64", self.at("%d", "i64", int(which)), 8)

    def function(self, slot: Value) -> str:
        """The pointer in a slot of the runtime table."""
        return self.load("ptr", self.at("%runtime", "ptr", slot), 8)

    def bytes_at(self, pointer: str, elements: Value, size: str) -> str:
        return self.at(pointer, "i8", self.mul(elements, size))

    def pack(
        self,
        mode: str,
        source: str,
        pitch: str,
        step: str,
        generated: str,
        panel: str,
        number: Value,
        k0: Value,
        k: Value,
        per: str,
        limit: str,
        width: str,
        block: str,
    ) -> None:
        """Fill `panel` with panel `number`, which has `per` of the `limit` rows (or columns), for
        k0 .. k0 + k - 1."""
        size = self.word(D.SIZE)

        def plain() -> None:
            first = self.mul(number, per)
            at = self.add(self.mul(first, pitch), self.mul(k0, step))
            function = self.function(self.add(self.word(D.PACK), mode))
            valid = self.min(per, self.sub(limit, first))
            self.do(
                f"call void {function}(ptr {self.bytes_at(source, at, size)}, ptr {panel}, "
                f"i64 {k}, i64 {step}, "
                f"i64 {pitch}, i64 {valid}, i64 {width})"
            )

        def own() -> None:
            self.do(
                f"call void {generated}(ptr %t, ptr {panel}, i64 {number}, "
                f"i64 {k0}, i64 {k}, i64 %batch, ptr {block})"
            )

        self.branch(self.equal(mode, Pack.GENERATED), own, plain)

    def block_bounds(self, panels: str, per: str, which: str) -> tuple[Value, Value]:
        first = self.mul(which, per)
        return first, self.min(self.add(first, per), panels)


def gemm() -> str:
    """void(ptr d, ptr runtime, ptr t, ptr a, ptr b, ptr c, i64 unit, i64 batch, ptr scratch, ptr
    epilogue, ptr pack_a, ptr pack_b): one unit. c: element (0, 0) of this batch entry's output, if
    D.LDC; a, b: of the operands."""
    pointers = ("d", "runtime", "t", "a", "b", "c")
    args = [("ptr", p) for p in pointers] + [("i64", "unit"), ("i64", "batch"), ("ptr", "scratch")]
    f = _Driver("gemm", [*args, *[("ptr", p) for p in ("epilogue", "pack_a", "pack_b")]])
    size, m, n, k, kc, blocks = [f.word(w) for w in (D.SIZE, D.M, D.N, D.K, D.KC, D.BLOCKS)]
    rows, width, height, ldc = [f.word(w) for w in (D.ROWS, D.WIDTH, D.HEIGHT, D.LDC)]
    b_mode, b_column, b_step = [f.word(w) for w in (D.B_MODE, D.B_COLUMN, D.B_STEP)]
    panels_n, units_n, pm, pn = [f.word(w) for w in (D.PANELS_N, D.UNITS_N, D.PM, D.PN)]
    panels_m = f.word(D.PANELS_M)
    at_a, at_b, at_c, block = [
        f.at("%scratch", "i8", f.word(w)) for w in (D.AT_A, D.AT_B, D.AT_C, D.AT_BLOCK)
    ]
    a_mode, a_row, a_step = [f.word(w) for w in (D.A_MODE, D.A_ROW, D.A_STEP)]
    main, last = f.function(f.word(D.TILE)), f.function(f.word(D.TILE_LAST))
    unit_m = f.value(f"sdiv i64 %unit, {units_n}")
    p0, p1 = f.block_bounds(panels_m, pm, unit_m)
    j0, j1 = f.block_bounds(panels_n, pn, f.value(f"srem i64 %unit, {units_n}"))
    one = f.equal(blocks, 1)
    a_panel, b_panel = f.mul(kc, height), f.mul(kc, width)
    tile_size = f.mul(rows, width)
    in_place, shared = f.equal(b_mode, Pack.IN_PLACE), f.equal(b_mode, Pack.SHARED)
    straight = f.value(f"icmp ne i64 {ldc}, 0")
    full_m, full_n = f.word(D.FULL_M), f.word(D.FULL_N)
    end_m = f.sub(panels_m, 1)

    def full(p: Value, j: Value) -> str:
        """Whether the tile lies wholly inside C and may go straight there."""
        return f.both(straight, f.both(f.less(p, full_m), f.less(j, full_n)))

    def tile_at(p: Value, j: Value) -> str:
        number = f.add(f.mul(f.sub(p, p0), pn), f.sub(j, j0))
        place = f.select(one, 0, f.mul(number, tile_size))
        return f.bytes_at(at_c, place, size)

    def finish(p: Value, j: Value, tile: str) -> None:
        first = f.mul(p, rows)
        left = f.min(rows, f.sub(m, first))
        f.do(
            f"call void %epilogue(ptr %t, ptr {tile}, i64 {first}, i64 {left}, i64 {j}, i64 %batch)"
        )

    def k_block(which: str) -> None:
        k0 = f.mul(which, kc)
        kl = f.min(kc, f.sub(k, k0))

        def pack_a(p: str) -> None:
            panel = f.bytes_at(at_a, f.mul(f.sub(p, p0), a_panel), size)
            f.pack(a_mode, "%a", a_row, a_step, "%pack_a", panel, p, k0, kl, rows, m, height, block)

        f.each(p0, p1, pack_a)

        def column(j: str) -> None:
            here = f.both(in_place, f.less(j, full_n))
            packed_now = f.value(f"or i1 {here}, {shared}")

            def pack_b() -> None:
                mode = f.select(in_place, Pack.ALONG, b_mode)
                f.pack(
                    mode, "%b", b_column, b_step, "%pack_b", at_b, j, k0, kl, width, n, width, block
                )

            f.branch(packed_now, lambda: None, pack_b)
            number = f.add(f.mul(which, panels_n), j)
            far = f.select(
                shared, f.mul(number, b_panel), f.add(f.mul(k0, b_step), f.mul(j, width))
            )
            base = f.select(packed_now, "%b", at_b, "ptr")
            b = f.bytes_at(base, f.select(packed_now, far, 0), size)
            ldb = f.select(here, b_step, width)

            def row(p: str) -> None:
                a = f.bytes_at(at_a, f.mul(f.sub(p, p0), a_panel), size)
                direct = full(p, j)
                tile = tile_at(p, j)
                c = f.bytes_at("%c", f.add(f.mul(f.mul(p, rows), ldc), f.mul(j, width)), size)
                to, pitch = f.select(direct, c, tile, "ptr"), f.select(direct, ldc, width)
                kernel = f.select(f.equal(p, end_m), last, main, "ptr")
                f.do(
                    f"call void {kernel}(ptr {a}, ptr {b}, ptr {to}, i64 {kl}, "
                    f"i64 {ldb}, i64 {pitch}, i64 {which})"
                )
                due = f.both(one, f.value(f"xor i1 {direct}, true"))
                f.branch(due, lambda: finish(p, j, tile))

            f.each(p0, p1, row)

        f.each(j0, j1, column)

    f.each(0, blocks, k_block)

    def finish_all() -> None:
        def at(j: str, p: str) -> None:
            f.branch(full(p, j), lambda: None, lambda: finish(p, j, tile_at(p, j)))

        f.each(j0, j1, lambda j: f.each(p0, p1, lambda p: at(j, p)))

    f.branch(one, lambda: None, finish_all)
    return f.done()


def pack_b() -> str:
    """void(ptr d, ptr runtime, ptr t, ptr b, ptr packed, i64 j0, i64 j1, ptr block, ptr pack_b, i64
    mode): packs column panels j0 .. j1 - 1 of all blocks of k, [block of k][panel][kc][width], for
    units whose B_MODE is SHARED."""
    args = [("ptr", p) for p in ("d", "runtime", "t", "b", "packed")] + [
        ("i64", "j0"),
        ("i64", "j1"),
    ]
    f = _Driver(
        "pack_b", [*args, ("ptr", "block"), ("ptr", "pack_b"), ("i64", "mode"), ("i64", "batch")]
    )
    size, n, k, kc, blocks = [f.word(w) for w in (D.SIZE, D.N, D.K, D.KC, D.BLOCKS)]
    width, column, step, panels = [f.word(w) for w in (D.WIDTH, D.B_COLUMN, D.B_STEP, D.PANELS_N)]
    panel_size = f.mul(kc, width)

    def panel(j: str) -> None:
        def block(which: str) -> None:
            k0 = f.mul(which, kc)
            to = f.bytes_at("%packed", f.mul(f.add(f.mul(which, panels), j), panel_size), size)
            kl = f.min(kc, f.sub(k, k0))
            f.pack("%mode", "%b", column, step, "%pack_b", to, j, k0, kl, width, n, width, "%block")

        f.each(0, blocks, block)

    f.each("%j0", "%j1", panel)
    return f.done()


def gemv() -> str:
    """void(ptr d, ptr runtime, ptr t, ptr x, ptr b, i64 unit, i64 batch, ptr scratch, ptr
    epilogue): one unit of a product of one row: c[n] = sum over k of x[k] B[k, n], x with
    neighbouring elements; D.FUNCTION is dot or axpy."""
    args = [("ptr", p) for p in ("d", "runtime", "t", "x", "b")] + [
        ("i64", "unit"),
        ("i64", "batch"),
    ]
    f = _Driver("gemv", [*args, ("ptr", "scratch"), ("ptr", "epilogue")])
    size, n, k, width = [f.word(w) for w in (D.SIZE, D.N, D.K, D.WIDTH)]
    column, step, wide, panels = [f.word(w) for w in (D.B_COLUMN, D.B_STEP, D.WIDE, D.PANELS_N)]
    function, pn = f.function(f.word(D.FUNCTION)), f.word(D.PN)
    result = f.at("%scratch", "i8", f.word(D.AT_C))
    j0, j1 = f.block_bounds(panels, pn, "%unit")
    dots = f.equal(step, 1)
    pitch = f.select(dots, column, step)

    def group(g: str) -> None:
        first = f.add(j0, f.mul(g, wide))
        stop = f.min(f.add(first, wide), j1)
        columns = f.sub(f.min(n, f.mul(stop, width)), f.mul(first, width))
        b = f.bytes_at("%b", f.mul(f.mul(first, width), column), size)
        f.do(
            f"call void {function}(ptr %x, ptr {b}, ptr {result}, i64 {k}, "
            f"i64 {pitch}, i64 {columns})"
        )

        def panel(j: str) -> None:
            tile = f.bytes_at(result, f.mul(f.sub(j, first), width), size)
            f.do(f"call void %epilogue(ptr %t, ptr {tile}, i64 0, i64 1, i64 {j}, i64 %batch)")

        f.each(first, stop, panel)

    groups = f.value(f"sdiv i64 {f.sub(f.add(f.sub(j1, j0), wide), 1)}, {wide}")
    f.each(0, groups, group)
    return f.done()
