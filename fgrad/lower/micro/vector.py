"""vector: products of a matrix with one vector, bound by memory: the matrix is read once, several
rows at a time."""

from __future__ import annotations

from fgrad.lower.micro.machine import Element, Machine
from fgrad.lower.micro.text import Text

DOT_ROWS = 4
AXPY_ROWS = 8


def _product(
    f: Text, machine: Machine, element: Element, vec: str, x: str, y: str, total: str
) -> str:
    if element.is_float and machine.fma:
        lanes = machine.lanes(element.size)
        return f.value(
            f"call {vec} @llvm.fma.v{lanes}{element.bits}({vec} {x}, {vec} {y}, {vec} {total})"
        )
    multiply, plus = ("fmul", "fadd") if element.is_float else ("mul", "add")
    return f.value(f"{plus} {vec} {total}, {f.value(f'{multiply} {vec} {x}, {y}')}")


def _masked(f: Text, element: Element, lanes: int, pointer: str, mask: str) -> str:
    vec = f"<{lanes} x {element.llvm}>"
    return f.value(
        f"call {vec} @llvm.masked.load.v{lanes}{element.bits}.p0(ptr {pointer}, "
        f"i32 {element.size}, "
        f"<{lanes} x i1> {mask}, {vec} zeroinitializer)"
    )


def dot(machine: Machine, element: Element) -> str:
    """void(ptr x, ptr b, ptr c, i64 k, i64 stride, i64 columns): c[j] = sum over k of x[k] b[stride
    j + k].

    Four columns share each load of x; each has two accumulators, added at the end.
    """
    kind, size, lanes = element.llvm, element.size, machine.lanes(element.size)
    vec = f"<{lanes} x {kind}>"
    args = [
        ("ptr", "x"),
        ("ptr", "b"),
        ("ptr", "c"),
        ("i64", "k"),
        ("i64", "stride"),
        ("i64", "columns"),
    ]
    f = Text(f"dot_{element.bits}", args)
    last = f.sub("%columns", 1)
    even, whole = f.value(f"and i64 %k, {-2 * lanes}"), f.value(f"and i64 %k, {-lanes}")

    def group(first: str) -> list[str]:
        places = [f.min(f.add(first, r), last) for r in range(DOT_ROWS)]
        rows = [f.at("%b", kind, f.mul(p, "%stride")) for p in places]

        def add(k: str | int, sums: list[str], which: int, mask: str | None) -> None:
            def load(p: str) -> str:
                return _masked(f, element, lanes, p, mask) if mask else f.load(vec, p, size)

            x = load(f.at("%x", kind, k))
            for r in range(DOT_ROWS):
                y = load(f.at(rows[r], kind, k))
                if mask is None:
                    f.prefetch(f.at(rows[r], "i8", f.add(f.mul(k, size), 1024)))
                sums[2 * r + which] = _product(f, machine, element, vec, x, y, sums[2 * r + which])

        def two(k: str, *now: str) -> list[str]:
            sums = list(now)
            add(k, sums, 0, None)
            add(f.add(k, lanes), sums, 1, None)
            return sums

        def one(k: str, *now: str) -> list[str]:
            sums = list(now)
            add(k, sums, 0, None)
            return sums

        def rest(k: str, *now: str) -> list[str]:
            sums = list(now)
            add(k, sums, 0, f.mask(f.sub("%k", k), lanes))
            return sums

        sums = f.loop(0, even, 2 * lanes, [(vec, "zeroinitializer")] * (2 * DOT_ROWS), two)
        sums = f.loop(even, whole, lanes, [(vec, s) for s in sums], one)
        sums = f.loop(whole, "%k", lanes, [(vec, s) for s in sums], rest)
        for r in range(DOT_ROWS):
            both = f.value(
                f"{'fadd' if element.is_float else 'add'} {vec} {sums[2 * r]}, {sums[2 * r + 1]}"
            )
            if element.is_float:  # reassoc: a tree instead of a chain; the tree is fixed
                total = f.value(
                    f"call reassoc {kind} @llvm.vector.reduce.fadd.v{lanes}{element.bits}"
                    f"({kind} -0.0, {vec} {both})"
                )
            else:
                total = f.value(
                    f"call {kind} @llvm.vector.reduce.add.v{lanes}{element.bits}({vec} {both})"
                )
            # columns past the last repeat it: the same value is stored again
            f.store(kind, total, f.at("%c", kind, places[r]), size)
        return []

    f.loop(0, "%columns", DOT_ROWS, (), group)
    return f.done()


def axpy(machine: Machine, element: Element) -> str:
    """void(ptr x, ptr b, ptr c, i64 k, i64 stride, i64 columns): c[j] = sum over k of x[k] b[stride
    k + j].

    Eight rows are added to c (which stays in L1) at once. c has room for columns rounded up to a
    vector.
    """
    kind, size, lanes = element.llvm, element.size, machine.lanes(element.size)
    vec = f"<{lanes} x {kind}>"
    args = [
        ("ptr", "x"),
        ("ptr", "b"),
        ("ptr", "c"),
        ("i64", "k"),
        ("i64", "stride"),
        ("i64", "columns"),
    ]
    f = Text(f"axpy_{element.bits}", args)
    whole = f.value(f"and i64 %columns, {-lanes}")

    def clear(j: str) -> list[str]:
        f.store(vec, "zeroinitializer", f.at("%c", kind, j), size)
        return []

    f.loop(0, "%columns", lanes, (), clear)

    def rows(count: int) -> object:
        def body(k: str) -> list[str]:
            xs = [
                f.splat(kind, lanes, f.load(kind, f.at("%x", kind, f.add(k, r)), size))
                for r in range(count)
            ]
            starts = [f.at("%b", kind, f.mul(k, "%stride"))]
            for _ in range(count - 1):
                starts.append(f.at(starts[-1], kind, "%stride"))

            def column(j: str, mask: str | None) -> None:
                total = f.load(vec, f.at("%c", kind, j), size)
                for r in range(count):
                    place = f.at(starts[r], kind, j)
                    y = (
                        _masked(f, element, lanes, place, mask)
                        if mask
                        else f.load(vec, place, size)
                    )
                    total = _product(f, machine, element, vec, xs[r], y, total)
                f.store(vec, total, f.at("%c", kind, j), size)

            def full(j: str) -> list[str]:
                column(j, None)
                return []

            f.loop(0, whole, lanes, (), full)
            f.branch(
                f.less(whole, "%columns"),
                lambda: column(whole, f.mask(f.sub("%columns", whole), lanes)),
            )
            return []

        return body

    many = f.value(f"and i64 %k, {-AXPY_ROWS}")
    f.loop(0, many, AXPY_ROWS, (), rows(AXPY_ROWS))  # type: ignore[arg-type]
    f.loop(many, "%k", 1, (), rows(1))  # type: ignore[arg-type]
    return f.done()
