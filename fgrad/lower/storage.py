"""Where the memories of a Block lie: updates in place, parameters reused for outputs, temporaries
sharing one arena.
"""

from __future__ import annotations

from collections.abc import Mapping

from fgrad.config import config
from fgrad.lower.steps import Block, Home, Launch

ALIGN = 64


def find(root: dict[int, int], i: int) -> int:
    while root.get(i, i) != i:
        i = root[i]
    return i


def place(block: Block, donated: Mapping[int, int] | frozenset[int], *, exact: bool) -> None:
    """Merge memories, drop copies, assign offsets.

    donated: parameter slots whose memory may be overwritten. With `exact` it maps output j to
    the one slot that the output may share memory with (the carries of a loop); else any output
    may take any donated slot.
    """
    if config.planner:
        _replace(block, donated, exact)
    _offsets(block)


def _uses(block: Block) -> dict[int, list[int]]:
    """Memory -> positions of the steps that read it."""
    out: dict[int, list[int]] = {}
    for i, s in enumerate(block.steps):
        for m in s.reads:
            out.setdefault(m, []).append(i)
    return out


def _replace(block: Block, donated: Mapping[int, int] | frozenset[int], exact: bool) -> None:
    """Let new versions live in the memory of old ones that nobody reads any more; the last version
    first.
    """
    root = block.root
    position = {id(s): i for i, s in enumerate(block.steps)}
    reads = _uses(block)
    dropped: set[int] = set()
    given: set[int] = set()  # memories that another one has taken over already
    taken: set[int] = set()
    owner = {m: block.memories[m] for m in range(len(block.memories))}
    outputs = set(block.outs)
    for r in reversed(block.replacements):
        old, new = find(root, r.old), find(root, r.new)
        if old == new or r.old in given or r.new in taken:
            continue
        at = position[id(r.step)]
        # what the kernel itself reads of the old version was judged when it was built; loops may
        # read nothing of it
        again = at + isinstance(r.step, Launch)
        if any(i >= again for i in reads.get(old, ())):
            continue
        home = owner[old].home
        if owner[old].bytes != owner[new].bytes or home is Home.OUT or old in outputs:
            continue
        if home is Home.PARAM:
            target = owner[new]
            if target.home is not Home.OUT:
                continue
            slot = owner[old].number
            if exact:
                assert isinstance(donated, Mapping)
                allowed = donated.get(target.number) == slot
            else:
                allowed = slot in donated
            if not allowed or slot in block.aliases.values():
                continue
            block.aliases[target.number] = slot
            root[new] = old
        else:
            root[old] = new
        keep = find(root, old)
        reads[keep] = reads.get(old, []) + reads.get(new, [])
        given.add(r.old)
        taken.add(r.new)
        if r.copy is not None:
            dropped.add(id(r.copy))
    block.steps = [s for s in block.steps if id(s) not in dropped]


def _offsets(block: Block) -> None:
    """First fit among the memories that are alive at the same time.

    With FGRAD_PLANNER=0 all are, all the time.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, s in enumerate(block.steps):
        for m in (*s.reads, *s.writes):
            k = find(block.root, m)
            if block.memories[k].home is Home.TEMP:
                first.setdefault(k, i)
                last[k] = i
    if not config.planner:
        last = dict.fromkeys(last, len(block.steps))
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    for m in sorted(first, key=lambda m: (first[m], -block.memories[m].bytes)):
        size = -(-block.memories[m].bytes // ALIGN) * ALIGN
        at = 0
        for lo, hi, _, _ in sorted(p for p in placed if p[3] >= first[m] and p[2] <= last[m]):
            if lo - at >= size:
                break
            at = max(at, hi)
        block.offset[m] = at
        placed.append((at, at + size, first[m], last[m]))
        block.bytes = max(block.bytes, at + size)
