"""Following the steps of a placed block: what the driver, the C renderer and the interpreter have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from fgrad.lower.kernel import Kernel
from fgrad.lower.steps import Block, CondStep, Home, HostStep, Launch, ScanStep, Step, WhileStep
from fgrad.lower.storage import find

P = TypeVar("P")


class Follower(ABC, Generic[P]):
    """Goes through the steps of blocks; `P` is how a memory is spoken of: a place, a text, an array."""

    def follow(
        self, block: Block, params: Sequence[P], outs: Sequence[P], temporary: Callable[[int, int], P]
    ) -> None:
        """All steps of `block`, in order. temporary: offset in the block's arena, bytes -> the memory there."""
        places: list[P] = []
        for m in range(len(block.memories)):
            k = find(block.root, m)
            owner = block.memories[k]
            if owner.home is Home.PARAM:
                places.append(params[owner.number])
            elif owner.home is Home.OUT:
                places.append(outs[owner.number])
            else:
                places.append(temporary(block.offset.get(k, 0), owner.bytes))
        for s in block.steps:
            self.take(s, places)

    def take(self, s: Step, places: list[P]) -> None:
        """One step; `places` are the memories of its block."""
        match s:
            case Launch():
                self._launch(s.kernel, [places[m] for m in s.arguments])
            case ScanStep():
                self._scan(s, places)
            case WhileStep():
                self._while(s, places)
            case CondStep():
                self._cond(s, places)
            case HostStep():
                self._host(s, places)
            case _:
                raise AssertionError(f"nobody follows a {type(s).__name__}")

    @abstractmethod
    def _launch(self, kernel: Kernel, memories: list[P]) -> None: ...

    @abstractmethod
    def _scan(self, s: ScanStep, places: list[P]) -> None: ...

    @abstractmethod
    def _while(self, s: WhileStep, places: list[P]) -> None: ...

    @abstractmethod
    def _cond(self, s: CondStep, places: list[P]) -> None: ...

    @abstractmethod
    def _host(self, s: HostStep, places: list[P]) -> None: ...
