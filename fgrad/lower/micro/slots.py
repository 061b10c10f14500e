"""slots: the numbers of the micro-kernels in the runtime table, and the text of each.

A `Micro` names one module; `micro_ir` gives its text and the functions in it, each with its slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from fgrad.lower.micro import driver, pack, tile, vector
from fgrad.lower.micro.machine import Element, Machine

FIRST = 16  # the runtime's own pointers come before
LAST = 400

GEMM = FIRST
PACK_B = FIRST + 1
GEMV = FIRST + 2
_PACK = FIRST + 4  # five functions for 4 bytes, then for 8
_VECTOR = FIRST + 20  # dot and axpy of each element
_TILE = FIRST + 32
_NAMES = ("along", "across", "any", "rows", "turn")  # the first four in the order of driver.Pack
_TALLEST = 16

Slot = int


def pack_slot(which: str, size: int) -> Slot:
    """Slot of the packing function "along", "across", "any", "rows" or "turn" for elements of
    `size` bytes."""
    return _PACK + _NAMES.index(which) + (8 if size == 8 else 0)


def vector_slot(which: str, element: Element) -> Slot:
    """Slot of "dot" or "axpy"."""
    return _VECTOR + 2 * element + ("dot", "axpy").index(which)


def tile_slot(element: Element, rows: int, vectors: int, by_rows: bool) -> Slot:
    """Slot of the tile kernel of `rows` rows of `vectors` vectors, for A panels as `pack_rows`
    leaves them or not."""
    assert 1 <= rows <= _TALLEST and 1 <= vectors <= 2
    return _TILE + ((by_rows * 4 + element) * 2 + vectors - 1) * _TALLEST + rows - 1


@dataclass(frozen=True, slots=True)
class Micro:
    """One module of micro-kernels: "driver", "pack" or "turn" (of `size` bytes), "vector", "tile"."""

    kind: str
    size: int = 0
    element: Element = Element.F32
    rows: int = 0
    vectors: int = 0
    by_rows: bool = False


DRIVER = Micro("driver")


def micro_slots(key: Micro) -> tuple[tuple[str, Slot], ...]:
    """The functions of a module: (name, slot)."""
    match key.kind:
        case "driver":
            return (("gemm", GEMM), ("pack_b", PACK_B), ("gemv", GEMV))
        case "pack":
            return tuple(
                [(f"pack_{w}_{key.size}", pack_slot(w, key.size)) for w in ("along", "any", "rows")]
            )
        case "turn":
            names = (("across", "pack_across"), ("turn", "turn"))
            return tuple([(f"{name}_{key.size}", pack_slot(w, key.size)) for w, name in names])
        case "vector":
            return tuple(
                [(f"{w}_{key.element.bits}", vector_slot(w, key.element)) for w in ("dot", "axpy")]
            )
        case "tile":
            name = tile.tile_name(key.element, key.rows, key.vectors, key.by_rows)
            return ((name, tile_slot(key.element, key.rows, key.vectors, key.by_rows)),)
    raise ValueError(
        f"no module of micro-kernels is called {key.kind!r}; use driver, pack, turn, vector or tile"
    )


@lru_cache(maxsize=256)
def micro_ir(key: Micro, machine: Machine) -> tuple[str, tuple[tuple[str, Slot], ...]]:
    """LLVM text of a module (without target lines) and (name, slot) of each function in it.

    The text leaves target triple, CPU and features to whoever compiles it: code of one machine
    only.
    """
    match key.kind:
        case "driver":
            functions = [driver.gemm(), driver.pack_b(), driver.gemv()]
        case "pack":
            makers = (pack.pack_along, pack.pack_any, pack.pack_rows)
            functions = [make(machine, key.size) for make in makers]
        case "turn":
            functions = [make(machine, key.size) for make in (pack.pack_across, pack.turn_block)]
        case "vector":
            functions = [vector.dot(machine, key.element), vector.axpy(machine, key.element)]
        case _:
            functions = [tile.tile(machine, key.element, key.rows, key.vectors, key.by_rows)]
    text = "\n".join(functions)
    declared = _declarations(text, machine)
    width = 8 * machine.vector
    attributes = (
        f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" "no-stack-arg-probe" }}'
    )
    return f"{text}\n{declared}\n{attributes}\n", micro_slots(key)


def _declarations(text: str, machine: Machine) -> str:
    """Declarations of the intrinsics that `text` calls."""
    out = []
    if "@llvm.prefetch." in text:
        out.append("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for kind, bits, size in (
        ("float", "f32", 4),
        ("double", "f64", 8),
        ("i32", "i32", 4),
        ("i64", "i64", 8),
    ):
        n = machine.lanes(size)
        vec = f"<{n} x {kind}>"
        for name, signature in (
            (f"@llvm.fma.v{n}{bits}", f"{vec} {{}}({vec}, {vec}, {vec})"),
            (f"@llvm.masked.load.v{n}{bits}.p0", f"{vec} {{}}(ptr, i32, <{n} x i1>, {vec})"),
            (f"@llvm.vector.reduce.fadd.v{n}{bits}", f"{kind} {{}}({kind}, {vec})"),
            (f"@llvm.vector.reduce.add.v{n}{bits}", f"{kind} {{}}({vec})"),
        ):
            if name + "(" in text:
                out.append("declare " + signature.format(name))
    return "\n".join(out)
