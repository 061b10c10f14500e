"""need: how much of an array anybody reads, where that is a number known when the program runs.

A length is an int64 scalar parameter: from that position of an axis on, nobody wants the elements. It is known of
outputs (`Program.spans`), of sums of what is 0 from there on, and below a mask ``where(position < length, x, ..)``;
from there it goes down to the sources. Kernels need not compute what nobody reads. So a kernel that sums takes what is
beyond such a length for unknown, also where another kernel has applied the mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgrad.uop.build import is_const, scalar_of
from fgrad.uop.meaning import identity
from fgrad.uop.node import UOp, toposort
from fgrad.uop.op import ELEMENTWISE, Op

Lengths = tuple[UOp | None, ...]  # for each axis; None: all of it
_EACH = frozenset((*ELEMENTWISE, Op.BITCAST))


def needed(outs: Sequence[UOp], spans: Mapping[int, UOp]) -> dict[UOp, Lengths]:
    """What is read of each node below `outs`. `spans`: how much of the first axis of an output is wanted."""
    need: dict[UOp, Lengths] = {}

    def read(u: UOp, lengths: Lengths) -> None:
        known = need.get(u)
        need[u] = (
            lengths if known is None else tuple([a if a is b else None for a, b in zip(known, lengths, strict=True)])
        )

    for j, o in enumerate(outs):
        read(o, tuple([spans.get(j) if i == 0 else None for i in range(o.ndim)]))
    for u in reversed(toposort(outs)):
        lengths = need.get(u, ()) if not isinstance(u.dtype, tuple) else ()
        for k, s in enumerate(u.src):
            if not isinstance(s.dtype, tuple):
                read(s, _read_of(u, k, lengths) or (None,) * s.ndim)
    return need


def _read_of(u: UOp, k: int, lengths: Lengths) -> Lengths | None:
    """What `u` reads of its source number `k`; None: all of it."""
    op, s = u.op, u.src[k]
    if op in _EACH:
        if op is Op.WHERE and k == 1:
            masks = lengths_of_mask(u.src[0])
            return tuple([masks.get(i) if n is None else n for i, n in enumerate(lengths)])
        return lengths
    if k:
        return None
    if op is Op.AFTER:
        return lengths
    if op is Op.EXPAND:
        new = {axis for axis, _ in u.arg}
        return tuple([n for i, n in enumerate(lengths) if i not in new])
    if op is Op.PERMUTE:
        out: list[UOp | None] = [None] * s.ndim
        for i, axis in enumerate(u.arg):
            out[axis] = lengths[i]
        return tuple(out)
    if op is Op.REDUCE:
        it = iter(lengths)
        return tuple([length_of_sum(u, i) if i in u.arg[1] else next(it) for i in range(s.ndim)])
    if op is Op.PREFIX:
        return tuple([None if i == u.arg[1] and u.arg[2] else n for i, n in enumerate(lengths)])
    if op is Op.RESHAPE:
        kept = {i: lengths[j] for i, j in _same_axes(s.shape, u.shape)}
        return tuple([kept.get(i) for i in range(s.ndim)])
    return None


def _same_axes(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Axes of two shapes of one size, so that what lies before and after them has the same size too."""
    places = {}
    before = 1
    for i, n in enumerate(a):
        if n != 1:
            places[before, n] = i
        before *= n
    out = []
    before = 1
    for j, n in enumerate(b):
        if (before, n) in places:
            out.append((places[before, n], j))
        before *= n
    return out


def lengths_of_mask(c: UOp) -> dict[int, UOp]:
    """Axis -> length, where `c` is False from there on."""
    if c.op in (Op.AND, Op.MUL):
        return {**lengths_of_mask(c.src[1]), **lengths_of_mask(c.src[0])}
    if c.op is Op.LT and c.src[0].op is Op.IOTA and c.src[1].op is Op.EXPAND and c.src[1].src[0].op is Op.PARAM:
        return {0: c.src[1].src[0]}
    below = lengths_of_mask(c.src[0]) if c.op in (Op.EXPAND, Op.PERMUTE) else {}
    if c.op is Op.EXPAND:
        new = {axis for axis, _ in c.arg}
        old = [i for i in range(c.ndim) if i not in new]
        return {old[i]: n for i, n in below.items()}
    return {c.arg.index(i): n for i, n in below.items()}


def length_of_sum(reduce: UOp, axis: int) -> UOp | None:
    """From where on the elements along `axis` of what a REDUCE combines change nothing."""
    return _neutral(reduce.src[0], axis, identity(reduce.arg[0], reduce.dtype))


def length_of_product(product: UOp, axis: int) -> UOp | None:
    """From where on both factors of a MUL are 0 along `axis`."""
    return _neutral(product, axis, 0)


def lengths_below(product: UOp) -> list[UOp]:
    """All lengths of a MUL's axes."""
    found = [length_of_product(product, i) for i in range(product.ndim)]
    return [n for n in found if n is not None]


def _neutral(u: UOp, axis: int, fill: object) -> UOp | None:
    """From where on `u` is `fill` along `axis`."""
    if u.op is Op.WHERE:
        other = u.src[2]
        return lengths_of_mask(u.src[0]).get(axis) if is_const(other) and scalar_of(other) == fill else None
    if u.op is Op.MUL and fill == 0:
        first, second = [_neutral(s, axis, fill) for s in u.src]
        return first if first is second else None
    if u.op is Op.EXPAND:
        new = [a for a, _ in u.arg]
        return None if axis in new else _neutral(u.src[0], axis - sum(a < axis for a in new), fill)
    if u.op is Op.PERMUTE:
        return _neutral(u.src[0], u.arg[axis], fill)
    return None
