"""check_block: after memories were placed, does every step still read what was meant for it?

Run under FGRAD_CHECK=order. Sharing memory (updates in place, outputs in donated parameters, one
arena for temporaries) is right as long as nothing is overwritten before its last reader.
"""

from __future__ import annotations

from fgrad.errors import SpecError
from fgrad.lower.steps import Block, CondStep, CopyStep, Home, Launch, ScanStep, Step, WhileStep
from fgrad.lower.storage import find


def check_block(block: Block, name: str) -> None:
    """Follow what each piece of memory holds through the steps, those of loops and branches too.

    Raises SpecError naming the step, when what it reads has been overwritten, and when an output
    does not hold its value at the end.
    """
    _Contents(block, name).check()


class _Contents:
    """`holds[r]`: the memories whose values the root memory r has now; more than one after a copy
    that was dropped.
    """

    def __init__(self, block: Block, name: str) -> None:
        self.block = block
        self.name = name
        self.holds: dict[int, set[int]] = {}
        self.dropped = {r.new: r.old for r in block.replacements if r.copy is not None}
        for m in block.params:
            self.holds.setdefault(find(block.root, m), set()).add(m)

    def check(self) -> None:
        block = self.block
        for place, s in enumerate(block.steps):
            for m in s.reads:
                self.expect(m, f"step {place}, {_title(s)},")
            for m in s.writes:
                self.write(m, in_step=s)
            for inner in _inner(s):
                check_block(inner, self.name)
        for number, m in enumerate(block.outs):
            if block.memories[m].bytes:
                self.expect(m, f"output {number}")

    def expect(self, m: int, who: str) -> None:
        if not self.block.memories[m].bytes:
            return
        held = self.holds.get(find(self.block.root, m), set())
        at: int | None = m
        while at is not None:  # what a dropped copy was to copy is as good
            if at in held:
                return
            at = self.dropped.get(at)
        raise SpecError(
            f"{self.name}: {who} reads memory {m}, which holds {sorted(held) or 'nothing'} by then"
        )

    def write(self, m: int, in_step: Step) -> None:
        block = self.block
        root = find(block.root, m)
        others = {find(block.root, w) for w in in_step.writes} - {root}
        if block.memories[root].home is Home.TEMP and root in block.offset:
            lo, hi = self.span(root)
            for r in list(self.holds):
                if r != root and r in block.offset and block.memories[r].home is Home.TEMP:
                    start, end = self.span(r)
                    if start < hi and lo < end:
                        if r in others:
                            raise SpecError(
                                f"{self.name}: {_title(in_step)} writes memories {root} and {r}, which overlap"
                            )
                        del self.holds[r]
        self.holds[root] = {m}

    def span(self, root: int) -> tuple[int, int]:
        at = self.block.offset[root]
        return at, at + self.block.memories[root].bytes


def _title(s: Step) -> str:
    return s.kernel.name if isinstance(s, Launch | CopyStep) else type(s).__name__


def _inner(s: Step) -> tuple[Block, ...]:
    match s:
        case ScanStep():
            return (s.body,)
        case WhileStep():
            return (s.cond, s.body)
        case CondStep():
            return s.branches
    return ()
