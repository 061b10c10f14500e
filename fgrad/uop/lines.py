"""The user's source line of a node, remembered only while some check wants to name it.

Those of the STOREs and LOADs of graphs built by hand are remembered always: the error about their order names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary


class Lines:
    """`of` a node: "file.py:line, in function". Nodes made from others by renaming or simplification
    get the lines of those.

    recording   whether anything is noted at all
    """

    def __init__(self) -> None:
        self.recording = False
        self._of: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def note(self, node: Any, line: str) -> None:
        """Remember the first line that made `node`."""
        if line:
            self._of.setdefault(node, line)

    def note_below(self, node: Any, line: str) -> None:
        """Remember the line of `node` and of what it was made of on the way, of which nobody has a tracer."""
        waiting = [node]
        while waiting and line:
            made = waiting.pop()
            if made.src and made not in self._of:
                self._of[made] = line
                waiting += made.src

    def of(self, node: Any) -> str:
        """The line, "" where it is not known."""
        return self._of.get(node, "")

    def carry(self, made: Mapping[Any, Any]) -> None:
        """Let each new node have the line of the old one, which stands before it in `made`."""
        for old, new in made.items():
            line = self._of.get(old)
            if line is not None and new is not old and new.src:
                self._of.setdefault(new, line)

    def clear(self) -> None:
        """Forget everything."""
        self._of.clear()


lines = Lines()
