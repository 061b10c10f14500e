"""Whether the tasks of a kernel may really run at the same time: who touched which element.

Kept only for memory where the addresses alone do not tell (see `Together.shared`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fgrad.errors import BadAccessError

Array = npt.NDArray[Any]
NOBODY, SEVERAL = -1, -2


class Touched:
    """The task that wrote each element of a memory, and the one that read it."""

    def __init__(self, kernel: str, name: str, size: int) -> None:
        self.kernel = kernel
        self.name = name
        self.writer = np.full(size, NOBODY)
        self.reader = np.full(size, NOBODY)

    def read(self, at: Array, task: Array) -> None:
        """Elements `at` are read by tasks `task`, both flat."""
        self._refuse(at, task, self.writer[at], "reads", "writes")
        before = self.reader[at]
        mine = np.where((before == NOBODY) | (before == task), task, SEVERAL)
        self.reader[at] = mine
        self.reader[at[self.reader[at] != mine]] = SEVERAL

    def write(self, at: Array, task: Array) -> None:
        """Elements `at` are written by tasks `task`, both flat."""
        self._refuse(at, task, self.writer[at], "writes", "writes")
        self._refuse(at, task, self.reader[at], "writes", "reads")
        self.writer[at] = task
        self._refuse(at, task, self.writer[at], "writes", "writes")

    def _refuse(self, at: Array, task: Array, other: Array, verb: str, others: str) -> None:
        wrong = (other != NOBODY) & (other != task)
        if wrong.any():
            i = int(np.argmax(wrong))
            who = "several others" if other[i] == SEVERAL else f"task {int(other[i])}"
            raise BadAccessError(
                f"kernel {self.kernel}: task {int(task[i])} {verb} element {int(at[i])} of "
                f"{self.name}, which {who} {others}; tasks run in any order and at the same time"
            )
