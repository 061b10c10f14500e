"""Rules: the table of one interpreter, one row per op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from fgrad.uop.op import Op

Row = Callable[..., Any]
_Row = TypeVar("_Row", bound=Row)


class Rules:
    """Rows by op. Call it with ops to enter a row; index it to get one.

    A row that is missing is a bug (`missing`, held by a test); a row that says no is entered with
    `refuse`, and its reason is what the user reads.
    """

    __slots__ = ("name", "rows", "refused")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[Op, Row] = {}
        self.refused: dict[Op, str] = {}

    def __call__(self, *ops: Op) -> Callable[[_Row], _Row]:
        """Enter a row for `ops`; each op has one row."""

        def enter(row: _Row) -> _Row:
            for op in ops:
                if op in self.rows:
                    raise ValueError(f"{self.name} has two rows for {op.name}")
                self.rows[op] = row
            return row

        return enter

    def refuse(self, *ops: Op, because: str) -> None:
        """Enter rows that raise NotImplementedError with this reason."""
        for op in ops:
            self.refused[op] = because
            self(op)(self._no(op, because))

    def _no(self, op: Op, because: str) -> Row:
        def row(*_: Any) -> NoReturn:
            raise NotImplementedError(f"{self.name} of {op.name}: {because}")

        return row

    def __getitem__(self, op: Op) -> Row:
        return self.rows[op]

    def missing(self) -> tuple[Op, ...]:
        """Ops without a row."""
        return tuple(op for op in Op if op not in self.rows)
