"""The structural key of a kernel: equal for kernels whose code is the same."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from fgrad.lower.index import Ranges
from fgrad.lower.kernel import Kernel
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp


def structural_key(kernel: Kernel) -> tuple[Any, ...]:
    """Everything the code of a kernel depends on, with nodes numbered as they are met and leaves by
    their buffer.
    """
    return _Keys(kernel).key()


class _Keys:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.numbers: dict[UOp, int] = {}
        self.rows: list[Any] = []
        self.seen: dict[int, int] = {}

    def key(self) -> tuple[Any, ...]:
        k = self.kernel
        buffers = tuple([(b.dtype, b.size, b.read, b.written) for b in k.buffers])
        scratch = tuple([(s.dtype, s.size) for s in k.scratch])
        body = self.of(k.body)
        atoms = tuple([self.of(a) for a in k.ranges.atoms])
        return (buffers, scratch, body, atoms, tuple(self.rows), k.tasks, k.width, k.unaligned, k.phases)

    def of(self, x: Any) -> Any:
        """A hashable stand-in for any part of a kernel."""
        if isinstance(x, UOp):
            return self.node(x)
        if isinstance(x, tuple):
            if not x or isinstance(x[0], int):
                return x if _plain(x) else tuple([self.of(y) for y in x])
            return tuple([self.of(y) for y in x])
        if x is None or isinstance(x, int | str | float | Enum | DType | bytes | frozenset):
            return x
        if isinstance(x, Ranges):
            return "ranges"
        if isinstance(x, list):
            return tuple([self.of(y) for y in x])
        assert is_dataclass(x), f"a kernel holds a {type(x).__name__}"
        number = self.seen.get(id(x))
        if number is not None:
            return ("again", number)
        self.seen[id(x)] = len(self.seen)
        return (type(x).__name__, *[self.of(getattr(x, f.name)) for f in fields(x)])

    def node(self, root: UOp) -> int:
        """The number of a node; its row is (op, arg, dtype, shape, sources), or its buffer."""
        numbers = self.numbers
        found = numbers.get(root)
        if found is not None:
            return found
        loads = self.kernel.loads
        stack = [root]
        while stack:
            u = stack[-1]
            if u in numbers:
                stack.pop()
                continue
            if u in loads:
                row: tuple[Any, ...] = ("buffer", loads[u], u.dtype, u.shape)
            else:
                missing = [s for s in u.src if s not in numbers]
                if missing:
                    stack += reversed(missing)
                    continue
                row = (u.op, u.arg, u.dtype, u.shape, tuple([numbers[s] for s in u.src]))
            numbers[u] = len(self.rows)
            self.rows.append(row)
            stack.pop()
        return numbers[root]


def _plain(x: tuple[Any, ...]) -> bool:
    """Whether a tuple holds only ints and tuples of ints (an index expression)."""
    for y in x:
        if isinstance(y, tuple):
            if not _plain(y):
                return False
        elif not isinstance(y, int):
            return False
    return True
