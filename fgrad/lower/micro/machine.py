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
        return (14, 12, 8, 4, 2, 1) if self.vector == 64 else (6, 4, 2, 1)

    def height(self, size: int) -> int:
        """Elements of one step of a packed A panel: at least the tallest tile, whole vectors."""
        lanes = self.lanes(size)
        return -(-self.rows[0] // lanes) * lanes

    def width(self, size: int, vectors: int) -> int:
        """Columns of a tile of `vectors` vectors."""
        return vectors * self.lanes(size)

    def choose_rows(self, m: int) -> int:
        """The height with the least padding of `m` rows; small tiles count as slower."""
        best, best_cost = 1, float("inf")
        for rows in self.rows:
            speed = min(1.0, 0.35 + 0.65 * (rows / self.rows[0]) ** 0.5)
            cost = -(-m // rows) * rows / speed
            if cost < best_cost * 0.999:
                best, best_cost = rows, cost
        return best
