"""tile: the innermost kernel, C[rows, columns] (+)= A panel times B panel, accumulators in
registers."""

from __future__ import annotations

from fgrad.lower.micro.machine import Element, Machine
from fgrad.lower.micro.text import Text

PREFETCH_A = 16  # steps of k ahead: the panel streams from L2
PREFETCH_B = 8
UNROLL = 4


def tile_name(element: Element, rows: int, vectors: int, by_rows: bool) -> str:
    """Name of the function `tile` makes."""
    return f"tile_{element.bits}_{rows}_{vectors}{'_rows' if by_rows else ''}"


def tile(machine: Machine, element: Element, rows: int, vectors: int, by_rows: bool) -> str:
    """void(ptr a, ptr b, ptr c, i64 k, i64 ldb, i64 ldc, i64 add).

    a   [k][height] packed, `height` of the machine; the first `rows` of each step are used.
        by_rows: [k / lanes][height][lanes], as `pack_rows` leaves them
    b   [k] rows of `vectors` vectors, `ldb` elements apart
    c   [rows] rows of `vectors` vectors, `ldc` elements apart; added to if `add`, else overwritten

    The products are summed in order of k, one (fused, where the machine can) operation each.
    """
    kind, size, lanes = element.llvm, element.size, machine.lanes(element.size)
    vec = f"<{lanes} x {kind}>"
    step = machine.height(size)
    line = min(64, machine.vector)
    args = [("ptr", p) for p in "abc"] + [("i64", p) for p in ("k", "ldb", "ldc", "add")]
    f = Text(tile_name(element, rows, vectors, by_rows), args)
    c_rows = ["%c"]
    for _ in range(rows - 1):
        c_rows.append(f.at(c_rows[-1], kind, "%ldc"))
    for row in c_rows:
        for byte in range(0, vectors * machine.vector, 64):
            f.prefetch(f.at(row, "i8", byte), write=True)
    ahead = f.mul("%ldb", PREFETCH_B)

    def product(x: str, y: str, total: str) -> str:
        if element.is_float and machine.fma:
            return f.value(
                f"call {vec} @llvm.fma.v{lanes}{element.bits}({vec} {x}, {vec} {y}, {vec} {total})"
            )
        multiply, plus = ("fmul", "fadd") if element.is_float else ("mul", "add")
        return f.value(f"{plus} {vec} {total}, {f.value(f'{multiply} {vec} {x}, {y}')}")

    def steps(count: int) -> object:
        def body(k: str, a: str, b: str, *sums: str) -> list[str]:
            totals = list(sums)
            if by_rows:  # k = lanes * block + lane
                base = f.mul(f.value(f"and i64 {k}, {-lanes}"), step)
                lane = f.value(f"and i64 {k}, {lanes - 1}")
                first, ahead_a = f.at("%a", kind, f.add(base, lane)), f.at(a, kind, step * lanes)
            far = f.at(b, kind, ahead)
            for u in range(count):
                columns = [f.load(vec, f.at(b, kind, j * lanes), size) for j in range(vectors)]
                for byte in range(0, vectors * machine.vector, line):
                    f.prefetch(f.at(far, "i8", byte))
                if by_rows:  # a only counts the lines: the next block, one line a step
                    here, pitch = f.at(first, kind, u), lanes
                    for byte in range(0, step * size, 64):
                        f.prefetch(f.at(ahead_a, "i8", u * step * size + byte))
                else:
                    here, pitch = f.at(a, kind, u * step), 1
                    f.prefetch(f.at(here, kind, step * PREFETCH_A))
                for r in range(rows):
                    x = f.splat(kind, lanes, f.load(kind, f.at(here, kind, r * pitch), size))
                    for j in range(vectors):
                        totals[r * vectors + j] = product(x, columns[j], totals[r * vectors + j])
                b = f.at(b, kind, "%ldb")
                far = f.at(far, kind, "%ldb")
            return [f.at(a, kind, count * step), b, *totals]

        return body

    carry = [("ptr", "%a"), ("ptr", "%b")] + [(vec, "zeroinitializer")] * (rows * vectors)
    unroll = min(UNROLL, lanes) if by_rows else UNROLL  # rows are contiguous for one vector
    whole = f.value(f"and i64 %k, {-unroll}")
    now = f.loop(0, whole, unroll, carry, steps(unroll))  # type: ignore[arg-type]
    carry = [(t, v) for (t, _), v in zip(carry, now, strict=True)]
    sums = f.loop(whole, "%k", 1, carry, steps(1))[2:]  # type: ignore[arg-type]

    def write(add: bool) -> None:
        for r in range(rows):
            for j in range(vectors):
                place, total = f.at(c_rows[r], kind, j * lanes), sums[r * vectors + j]
                if add:
                    old = f.load(vec, place, size)
                    total = f.value(f"{'fadd' if element.is_float else 'add'} {vec} {old}, {total}")
                f.store(vec, total, place, size)

    f.branch(f.value("icmp ne i64 %add, 0"), lambda: write(True), lambda: write(False))
    return f.done()
