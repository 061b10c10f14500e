"""Machine: what micro-kernels must know of the processor, and the shapes of tiles that follow from
it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Element(IntEnum):
    """What products and sums are carried in. Narrower types are widened to one of these while
    packing."""

    F32 = 0
    F64 = 1
    I32 = 2
    I64 = 3

    @property
    def llvm(self) -> str:
        """The LLVM type."""
        return ("float", "double", "i32", "i64")[self]

    @property
    def bits(self) -> str:
        """The suffix of intrinsics on it."""
        return ("f32", "f64", "i32", "i64")[self]

    @property
    def size(self) -> int:
        """Bytes."""
        return (4, 8, 4, 8)[self]

    @property
    def is_float(self) -> bool:
        return self < Element.I32


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor: `vector` bytes of a vector register, whether it has a fused multiply-add,
    cache sizes in bytes."""

    vector: int
    fma: bool
    l1: int = 32 << 10
    l2: int = 1 << 20

    def lanes(self, size: int) -> int:
        """Elements of `size` bytes in a vector."""
        return self.vector // size

    @property
    def rows(self) -> tuple[int, ...]:
        """Heights a tile may have, tallest first; two vectors of accumulators a row must leave
        registers for B."""
        return (14, 12, 10, 8, 6, 4, 2, 1) if self.vector == 64 else (6, 4, 3, 2, 1)

    def height(self, size: int) -> int:
        """Elements of one step of a packed A panel: at least the tallest tile, whole vectors."""
        lanes = self.lanes(size)
        return -(-self.rows[0] // lanes) * lanes

    def width(self, size: int, vectors: int) -> int:
        """Columns of a tile of `vectors` vectors."""
        return vectors * self.lanes(size)

    def choose_rows(self, m: int, vectors: int) -> tuple[int, int]:
        """(height of the tiles, height of the last one) that take least time for `m` rows.

        A step of a tile takes a cycle for each vector of sums, four at least (the latency of an
        addition), and one for its loads.
        """
        best, best_cost = (1, 1), float("inf")
        for rows in self.rows:
            panels = -(-m // rows)
            last = min(r for r in self.rows if r >= m - (panels - 1) * rows)
            steps = [max(r * vectors, 4) + 1 for r in (rows, last)]
            cost = (panels - 1) * steps[0] + steps[1] + 0.5 * (last != rows)
            if cost < best_cost:
                best, best_cost = (rows, last), cost
        return best
