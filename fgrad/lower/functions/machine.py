"""The abstract machine that every function is written for.

A machine computes on opaque handles of three kinds: floats of one width, signed integers of the
same width and lane masks. Which handle is of which kind is the caller's knowledge (`value.Value`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

H = TypeVar("H")


class Kind(Enum):
    """What a handle holds."""

    FLOAT = "float"
    INT = "int"  # as wide as the floats
    MASK = "mask"  # one truth value per lane


class Machine(ABC, Generic[H]):
    """Operations on lanes of one float format.

    p  bits of precision: 24 (float32, int32) or 53 (float64, int64)

    Float arithmetic rounds to nearest even, once per operation. Integer arithmetic wraps.
    Comparisons with a NaN are false, except `ne`, which is true. No operation traps.
    """

    p: int

    # ---- constants
    @abstractmethod
    def const(self, value: float) -> H:
        """The float constant `value`, rounded to the machine's format, in every lane."""

    @abstractmethod
    def int_const(self, value: int) -> H:
        """The integer constant `value`, taken modulo 2**width, in every lane."""

    # ---- floats
    @abstractmethod
    def add(self, x: H, y: H) -> H:
        """x + y."""

    @abstractmethod
    def sub(self, x: H, y: H) -> H:
        """x - y."""

    @abstractmethod
    def mul(self, x: H, y: H) -> H:
        """x * y."""

    @abstractmethod
    def div(self, x: H, y: H) -> H:
        """x / y."""

    @abstractmethod
    def fma(self, x: H, y: H, z: H) -> H:
        """x * y + z with one rounding."""

    @abstractmethod
    def sqrt(self, x: H) -> H:
        """The correctly rounded square root; NaN below zero."""

    @abstractmethod
    def rint(self, x: H) -> H:
        """The nearest integer as a float, ties to even."""

    @abstractmethod
    def abs(self, x: H) -> H:
        """x with its sign bit cleared."""

    @abstractmethod
    def neg(self, x: H) -> H:
        """x with its sign bit flipped."""

    @abstractmethod
    def copysign(self, x: H, y: H) -> H:
        """|x| with the sign bit of y."""

    @abstractmethod
    def lt(self, x: H, y: H) -> H:
        """x < y."""

    @abstractmethod
    def le(self, x: H, y: H) -> H:
        """x <= y."""

    @abstractmethod
    def eq(self, x: H, y: H) -> H:
        """x == y."""

    @abstractmethod
    def ne(self, x: H, y: H) -> H:
        """x != y, true when either is NaN."""

    # ---- integers
    @abstractmethod
    def int_add(self, x: H, y: H) -> H:
        """x + y."""

    @abstractmethod
    def int_sub(self, x: H, y: H) -> H:
        """x - y."""

    @abstractmethod
    def int_and(self, x: H, y: H) -> H:
        """x & y."""

    @abstractmethod
    def int_or(self, x: H, y: H) -> H:
        """x | y."""

    @abstractmethod
    def int_xor(self, x: H, y: H) -> H:
        """x ^ y."""

    @abstractmethod
    def shl(self, x: H, y: H) -> H:
        """x << y, 0 <= y < width."""

    @abstractmethod
    def lshr(self, x: H, y: H) -> H:
        """x >> y with zeros shifted in, 0 <= y < width."""

    @abstractmethod
    def int_lt(self, x: H, y: H) -> H:
        """x < y, signed."""

    @abstractmethod
    def int_ne(self, x: H, y: H) -> H:
        """x != y."""

    # ---- masks
    @abstractmethod
    def mask_and(self, x: H, y: H) -> H:
        """x and y."""

    @abstractmethod
    def mask_or(self, x: H, y: H) -> H:
        """x or y."""

    @abstractmethod
    def mask_xor(self, x: H, y: H) -> H:
        """x differs from y."""

    @abstractmethod
    def mask_not(self, x: H) -> H:
        """not x."""

    # ---- between kinds
    @abstractmethod
    def bits(self, x: H) -> H:
        """The bit pattern of float x as an integer."""

    @abstractmethod
    def from_bits(self, x: H) -> H:
        """The float whose bit pattern is integer x."""

    @abstractmethod
    def select(self, kind: Kind, mask: H, x: H, y: H) -> H:
        """x where mask, else y; x and y are of `kind`."""

    def branch_any(
        self,
        mask: H,
        kinds: tuple[Kind, ...],
        then: Callable[[], tuple[H, ...]],
        otherwise: Callable[[], tuple[H, ...]],
    ) -> tuple[H, ...]:
        """`then()` in the lanes of mask, `otherwise()` in the others; one handle per kind.

        Here both are computed. A machine may skip `then`, which is long and rarely needed, when no
        lane of mask is set; what `then` computes is then not available outside it.
        """
        rare, usual = then(), otherwise()
        return tuple(
            self.select(kind, mask, x, y) for kind, x, y in zip(kinds, rare, usual, strict=True)
        )
