"""Which outputs of a kernel may be written into the memory of an input.

An input qualifies when exactly one statement reads it, the Store of that output, and only at the
address it writes: then every element is read before it is overwritten, whatever the order of
loops and tasks.
"""

from __future__ import annotations

from fgrad.lower.graph import leaves
from fgrad.lower.index import Expr, Index
from fgrad.lower.kernel import Fold, Keep, Kernel, Sort, Store
from fgrad.uop.node import UOp
from fgrad.uop.op import Mode


def same_place(kernel: Kernel) -> list[tuple[int, int]]:
    """(input, output) pairs of buffer numbers."""
    users: dict[int, list[Store | None]] = {}
    places: dict[int, set[Expr]] = {}
    computed = {s.acc.node for s in kernel.walk() if isinstance(s, Fold)}

    def note(statement: Store | None, value: UOp, index: Index) -> None:
        found, others = leaves(
            kernel.ranges,
            value,
            index,
            lambda u: u in kernel.loads or (u in computed and u is not value),
        )
        del others
        for u, address, _ in found:
            b = kernel.loads.get(u)
            if b is None:
                continue
            users.setdefault(b, [])
            if statement not in users[b]:
                users[b].append(statement)
            places.setdefault(b, set()).add(address)

    for s in kernel.walk():
        match s:
            case Fold():
                note(None, s.value, s.index)
            case Keep() if s.node not in computed:
                note(None, s.node, s.index)
            case Store():
                if s.value not in computed:
                    note(s, s.value, s.index)
                if s.gate is not None:
                    note(None, s.gate, s.gate_index)
            case Sort():
                return []
    out: list[tuple[int, int]] = []
    for b, statements in users.items():
        store = statements[0]
        if len(statements) != 1 or store is None or store.mode is not Mode.SET or store.conds or store.keep:
            continue
        to, source = kernel.buffers[store.buffer], kernel.buffers[b]
        if places[b] == {store.address} and to.dtype is source.dtype and to.size == source.size:
            out.append((b, store.buffer))
    return out
