"""Simplification rows that turn a choice between old and updated contents into a gated UPDATE.

The gated form writes a few elements, and can do it in place; the choice reads and writes them all.
It is what becomes of a loop that vmap gave a condition for each member.
"""

from __future__ import annotations

from dataclasses import replace

from fgrad.uop.node import UOp
from fgrad.uop.op import Op
from fgrad.uop.pattern import Make, Rows
from fgrad.uop.program import Update

rows = Rows()
_LONGEST = 16  # updates one after the other


@rows(Op.WHERE)
def _(u: UOp, make: Make) -> UOp | None:
    """where(c, update(x, v), x) == update(x, v, gate c), and the other way round."""
    c, x, y = u.src
    if x.op in (Op.UPDATE, Op.RESHAPE):
        gated = _gated(x, y, c, make)
        if gated is not None:
            return gated
    if y.op in (Op.UPDATE, Op.RESHAPE):
        return _gated(y, x, make(Op.NOT, (c,), None), make)
    return None


def _gated(new: UOp, old: UOp, c: UOp, make: Make) -> UOp | None:
    """`new`, a few small UPDATEs of `old`, done only where `c`; None if it is something else."""
    if new.op is Op.RESHAPE:
        return _reshaped(new, old, c, make)
    chain: list[UOp] = []
    q = new
    while q.op is Op.UPDATE and q is not old and len(chain) < _LONGEST:
        chain.append(q)
        q = q.src[0]
    if q is not old or 2 * sum(w.src[1].size for w in chain) > old.size:
        return None
    gates = [_gate(w, c, make) for w in chain]
    out = old
    for w, gate in zip(reversed(chain), reversed(gates), strict=True):
        if gate is None:
            return None
        how: Update = w.arg
        rest = w.src[1 : len(w.src) - how.gated]
        if how.gated:
            gate = make(Op.AND, (w.src[-1], gate), None)
        out = make(Op.UPDATE, (out, *rest, gate), replace(how, gated=True))
    return out


def _gate(w: UOp, c: UOp, make: Make) -> UOp | None:
    """The elements of `c` that an UPDATE's gate consists of, if it does not ask for more."""
    how: Update = w.arg
    if how.box is not None:
        starts = w.src[2 : len(w.src) - how.gated]
        return make(Op.SHRINK, (c, *starts), how.box)
    idx, nb = w.src[2], how.batch
    same = dict(c.arg) if c.op is Op.EXPAND else {}  # axes along which it is the same
    if any(a not in same for a in range(nb + 1, c.ndim)):
        return None
    stem = c.src[0] if same else c
    missing = tuple([(a, n) for a, n in same.items() if a < nb])
    if nb in same:
        inner = tuple(enumerate(idx.shape[nb:], nb))
        return _spread(stem, (*missing, *inner), make)
    return make(Op.GATHER, (_spread(stem, missing, make), idx), nb)


def _spread(x: UOp, axes: tuple[tuple[int, int], ...], make: Make) -> UOp:
    return make(Op.EXPAND, (x,), axes) if axes else x


def _reshaped(new: UOp, old: UOp, c: UOp, make: Make) -> UOp | None:
    """The same through a view: reshape(update(reshape x, v)), chosen by whole leading axes."""
    inner = new.src[0]
    if inner.op is not Op.UPDATE or c.op is not Op.EXPAND:
        return None
    stem = c.src[0]
    k = stem.ndim
    if [a for a, _ in c.arg] != list(range(k, c.ndim)) or inner.shape[:k] != old.shape[:k]:
        return None
    base = make(Op.RESHAPE, (old,), inner.shape)
    chosen = _spread(stem, tuple(enumerate(inner.shape[k:], k)), make)
    gated = _gated(inner, base, chosen, make)
    return None if gated is None else make(Op.RESHAPE, (gated,), new.shape)
