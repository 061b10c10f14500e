"""pack: copies a strided block into a panel [k][width]. Only bits move: one function serves 4 or 8
bytes.

All have one signature: void(ptr source, ptr panel, i64 k, i64 step, i64 pitch, i64 valid, i64
width). `step` leads from one k to the next, `pitch` from one row or column of the panel to the
next, in elements. `valid` columns of the panel exist in the source; the others are filled with
zeros, with copies of the last one, or left as they are, and never reach a result.
"""

from __future__ import annotations

from fgrad.lower.micro.machine import Machine
from fgrad.lower.micro.text import Text

UNROLL = 4


def _function(name: str) -> Text:
    sizes = ("k", "step", "pitch", "valid", "width")
    return Text(name, [("ptr", "source"), ("ptr", "panel"), *[("i64", n) for n in sizes]])


def pack_along(machine: Machine, size: int) -> str:
    """Neighbours in the panel are neighbours in the source; steps of k are apart."""
    lanes, kind = machine.lanes(size), f"i{8 * size}"
    vec = f"<{lanes} x {kind}>"
    f = _function(f"pack_along_{size}")

    def column(first: str) -> None:
        left = f.sub("%valid", first)
        source, panel = f.at("%source", kind, first), f.at("%panel", kind, first)

        def whole(unroll: int) -> object:
            def body(_: str, s: str, p: str) -> list[str]:
                for _u in range(unroll):
                    f.store(vec, f.load(vec, s, size), p, size)
                    s, p = f.at(s, kind, "%step"), f.at(p, kind, "%width")
                return [s, p]

            return body

        def full() -> None:
            many = f.value(f"and i64 %k, {-UNROLL}")
            now = f.loop(0, many, UNROLL, [("ptr", source), ("ptr", panel)], whole(UNROLL))  # type: ignore[arg-type]
            f.loop(many, "%k", 1, [("ptr", now[0]), ("ptr", now[1])], whole(1))  # type: ignore[arg-type]

        def part() -> None:
            mask = f.mask(left, lanes)

            def body(_: str, s: str, p: str) -> list[str]:
                f.store(vec, masked_load(f, machine, size, s, mask), p, size)
                return [f.at(s, kind, "%step"), f.at(p, kind, "%width")]

            f.loop(0, "%k", 1, [("ptr", source), ("ptr", panel)], body)

        f.branch(f.less(left, lanes), part, full)

    def run(first: str) -> list[str]:
        column(first)
        return []

    f.loop(0, "%width", lanes, (), run)
    return f.done()


def masked_load(f: Text, machine: Machine, size: int, pointer: str, mask: str) -> str:
    """The lanes of a vector that `mask` selects; others are 0, their memory is not touched."""
    lanes, kind = machine.lanes(size), f"i{8 * size}"
    vec = f"<{lanes} x {kind}>"
    return f.value(
        f"call {vec} @llvm.masked.load.v{lanes}{kind}.p0(ptr {pointer}, i32 {size}, "
        f"<{lanes} x i1> {mask}, "
        f"{vec} zeroinitializer)"
    )


def transposed(f: Text, lanes: int, kind: str, rows: list[str]) -> list[str]:
    """`lanes` vectors of `lanes` elements, transposed by log2(lanes) rounds of interleaving."""
    vec = f"<{lanes} x {kind}>"
    masks = []
    for first in (0, lanes // 2):
        picks = [i + far for i in range(first, first + lanes // 2) for far in (0, lanes)]
        masks.append(f"<{lanes} x i32> <" + ", ".join([f"i32 {p}" for p in picks]) + ">")
    for _ in range(lanes.bit_length() - 1):
        half = lanes // 2
        rows = [
            f.value(f"shufflevector {vec} {rows[i]}, {vec} {rows[i + half]}, {mask}")
            for i in range(half)
            for mask in masks
        ]
    return rows


def pack_across(machine: Machine, size: int) -> str:
    """Steps of k are neighbours in the source; neighbours in the panel are apart. Blocks turn in
    registers."""
    lanes, kind = machine.lanes(size), f"i{8 * size}"
    vec = f"<{lanes} x {kind}>"
    f = _function(f"pack_across_{size}")
    last = f.sub("%valid", 1)

    def block(first: str) -> list[str]:
        rows = []
        for r in range(lanes):
            row = f.min(f.add(first, r), last)  # columns that do not exist repeat the last one
            rows.append(f.at("%source", kind, f.mul(row, "%pitch")))
        panel = f.at("%panel", kind, first)

        def turn(k: str, mask: str | None) -> None:
            loaded = []
            for r in range(lanes):
                place = f.at(rows[r], kind, k)
                loaded.append(
                    masked_load(f, machine, size, place, mask) if mask else f.load(vec, place, size)
                )
            to = f.at(panel, kind, f.mul(k, "%width"))
            for column in transposed(f, lanes, kind, loaded):
                f.store(vec, column, to, size)
                to = f.at(to, kind, "%width")

        whole = f.value(f"and i64 %k, {-lanes}")

        def full(k: str) -> list[str]:
            turn(k, None)
            return []

        f.loop(0, whole, lanes, (), full)
        # the rest writes whole blocks: panels have room for k rounded up to a vector
        f.branch(f.less(whole, "%k"), lambda: turn(whole, f.mask(f.sub("%k", whole), lanes)))
        return []

    f.loop(0, "%width", lanes, (), block)
    return f.done()


def turn_block(machine: Machine, size: int) -> str:
    """void(ptr block, ptr panel, i64 width): a square block of one vector a row, turned into the
    panel."""
    lanes, kind = machine.lanes(size), f"i{8 * size}"
    vec = f"<{lanes} x {kind}>"
    f = Text(f"turn_{size}", [("ptr", "block"), ("ptr", "panel"), ("i64", "width")])
    to = "%panel"
    for column in transposed(
        f, lanes, kind, [f.load(vec, f.at("%block", kind, lanes * r), size) for r in range(lanes)]
    ):
        f.store(vec, column, to, size)
        to = f.at(to, kind, "%width")
    return f.done()


def pack_any(machine: Machine, size: int) -> str:
    """Any strides, element by element."""
    kind = f"i{8 * size}"
    f = _function(f"pack_any_{size}")

    def step(k: str) -> None:
        source = f.at("%source", kind, f.mul(k, "%step"))
        panel = f.at("%panel", kind, f.mul(k, "%width"))

        def copy(i: str) -> None:
            f.store(
                kind,
                f.load(kind, f.at(source, kind, f.mul(i, "%pitch")), size),
                f.at(panel, kind, i),
                size,
            )

        f.each(0, "%valid", copy)
        f.each("%valid", "%width", lambda i: f.store(kind, "0", f.at(panel, kind, i), size))

    f.each(0, "%k", step)
    return f.done()


def pack_rows(machine: Machine, size: int) -> str:
    """Steps of k are neighbours in the source and in the panel: [k / lanes][width][lanes], one row
    after the other."""
    lanes, kind = machine.lanes(size), f"i{8 * size}"
    vec = f"<{lanes} x {kind}>"
    f = _function(f"pack_rows_{size}")
    whole = f.value(f"and i64 %k, {-lanes}")
    block = f.mul("%width", lanes)

    def row(r: str) -> None:
        source = f.at("%source", kind, f.mul(r, "%pitch"))
        panel = f.at("%panel", kind, f.mul(r, lanes))

        def copy(k: str, to: str) -> list[str]:
            f.store(vec, f.load(vec, f.at(source, kind, k), size), to, size)
            return [f.at(to, kind, block)]

        to = f.loop(0, whole, lanes, [("ptr", panel)], copy)[0]

        def rest() -> None:
            mask = f.mask(f.sub("%k", whole), lanes)
            f.store(vec, masked_load(f, machine, size, f.at(source, kind, whole), mask), to, size)

        f.branch(f.less(whole, "%k"), rest)

    f.each(0, "%valid", row)
    return f.done()
