"""What lowering knows of a device: plain numbers, no device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """vector_bytes  width of a vector register: 64, 32 or 16
    features      of the instruction set, LLVM's names: "fma", "f16c", "avx512f", ..
    workers       threads that a parallel loop may use; results do not depend on it
    l1, l2        bytes of cache one core has
    """

    vector_bytes: int = 32
    features: frozenset[str] = frozenset()
    workers: int = 1
    l1: int = 32 << 10
    l2: int = 1 << 20

    @property
    def fma(self) -> bool:
        return "fma" in self.features or "neon" in self.features
