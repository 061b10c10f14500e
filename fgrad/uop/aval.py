"""What is known of a value before it exists: dtype, shape, and whether its dtype is weak."""

from __future__ import annotations

import math
from typing import NamedTuple

from fgrad.uop.dtype import DType

Shape = tuple[int, ...]


class Aval(NamedTuple):
    """dtype, shape, weak. Prints as `float32[3,4]`, with a `~` in front when weak."""

    dtype: DType
    shape: Shape
    weak: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def weak_type(self) -> bool:
        """Whether the dtype is weak: the name that arrays give it."""
        return self.weak

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without padding."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{'~' if self.weak else ''}{self.dtype}[{','.join(map(str, self.shape))}]"
