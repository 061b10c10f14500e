"""contract_share: which operand of a contraction's epilogue may lie in the memory of an output.

An update of weights, `w - lr * (x^T dy)`, reads each element of w just where it writes the new one.
"""

from __future__ import annotations

from fgrad.lower import views
from fgrad.lower.contract_build import Form
from fgrad.lower.index import Index
from fgrad.lower.kernel import Call, Kernel, Store
from fgrad.uop.node import UOp


def may_share(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """Pairs (buffer read, buffer written) of a contraction kernel that may be one memory.

    The node read has the dtype and size of what is written. No factor reads it, no store after that
    one does, and every store reads it only at the address that it writes.
    """
    call = kernel.body[0]
    if not isinstance(call, Call) or not call.operands or not isinstance(call.operands[0], Form):
        return ()
    form = call.operands[0]
    factors = _addresses(kernel, [(form.a, form.index), (form.b, form.index)], None)
    by_store = [_addresses(kernel, [(s.value, s.index)], form.node) for s in form.stores]
    out = []
    for node, number in kernel.loads.items():
        if node in factors:
            continue
        for i, s in enumerate(form.stores):
            to = kernel.buffers[s.buffer]
            fits = to.dtype is node.dtype and to.size == node.size
            later = any(node in reads for reads in by_store[i + 1 :])
            if fits and not later and _only_there(node, by_store[: i + 1], s):
                out.append((number, s.buffer))
    return tuple(out)


def _only_there(node: UOp, by_store: list[dict[UOp, set[object]]], store: Store) -> bool:
    found = [reads[node] for reads in by_store if node in reads]
    return bool(found) and all(addresses == {store.address} for addresses in found)


def _addresses(
    kernel: Kernel, roots: list[tuple[UOp, Index]], node: UOp | None
) -> dict[UOp, set[object]]:
    """The nodes in memory that evaluating `roots` reads, given `node`, with the addresses."""
    ranges, loads = kernel.ranges, kernel.loads
    found: dict[UOp, set[object]] = {}
    stack = list(roots)
    seen = set(stack)
    while stack:
        u, index = stack.pop()
        if u is node:
            continue
        if u in loads:
            found.setdefault(u, set()).add(ranges.address(index, u.shape))
            continue
        below: list[tuple[UOp, Index]] = []
        if u.op in views.VIEWS:
            source, inner, _ = views.step(ranges, u, index)
            below.append((source, inner))
            for s in u.src[1:]:  # indices and starts, read who knows where
                for x in _all_loads(s, kernel):
                    found.setdefault(x, set()).add(None)
        else:
            below += [(s, index) for s in u.src]
        for key in below:
            if key not in seen:
                seen.add(key)
                stack.append(key)
    return found


def _all_loads(u: UOp, kernel: Kernel) -> list[UOp]:
    stack, seen, out = [u], {u}, []
    while stack:
        x = stack.pop()
        if x in kernel.loads:
            out.append(x)
            continue
        for s in x.src:
            if s not in seen:
                seen.add(s)
                stack.append(s)
    return out
