"""contract_find: recognises sums of products that are contractions.

C[batch.., m.., n..] = sum over k.. of A[batch.., m.., k..] B[batch.., k.., n..], whatever views
lie between: axes are sorted by which ranges occur in which factor's index. A REDUCE(ADD) chain over
a MUL is a contraction when each summed range is in both factors, and each factor has a range of its
own (or one has: a matrix times a vector).

The partition asks `recognise` about every REDUCE; `contract_build` makes the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fgrad.lower import views
from fgrad.lower.index import AtomKind, Cond, Expr, Index, Ranges
from fgrad.lower.micro.machine import Element
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, Kind
from fgrad.uop.node import UOp
from fgrad.uop.op import ELEMENTWISE, LEAVES, Op

MIN_K = 4  # shorter sums are cheaper in a row kernel
MIN_WORK = 512  # multiplications
MIN_MATRIX = 1 << 14  # elements of the matrix in a product with a vector


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A REDUCE that is one. `inside`: nodes between it and the factors (inner REDUCEs, the MUL),
    which the kernel absorbs."""

    node: UOp
    product: UOp
    inside: tuple[UOp, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """Ranges sorted: each a tuple of RANGE atoms in order."""

    product: UOp
    inside: tuple[UOp, ...]
    index: Index
    conds: tuple[Cond, ...]
    batch: tuple[int, ...]
    own: tuple[tuple[int, ...], tuple[int, ...]]  # of the first and of the second factor alone
    summed: tuple[int, ...]


def element_of(dtype: DType) -> Element | None:
    """What products of `dtype` are carried in; None: not by contraction kernels."""
    if dtype.kind is Kind.FLOAT:
        return Element.F64 if dtype is dt.float64 else Element.F32
    if dtype.is_int:
        return Element.I64 if dtype.itemsize == 8 else Element.I32
    return None


# ---- recognising
def recognise(node: UOp, private: Callable[[UOp], bool]) -> Contraction | None:
    """`node` as a contraction, or None.

    private(u): whether the compute node u has one consumer and is no output, so that the kernel may
    swallow it.
    """
    if node.op is not Op.REDUCE or node.arg[0] is not Op.ADD or element_of(node.dtype) is None:
        return None
    if not _leads_to_product(node, private):
        return None
    ranges = Ranges()
    axes = find_axes(ranges, node, ranges.ranges(node.shape), private)
    if axes is None:
        return None
    size = _sizer(ranges)
    batch, first, second, k = (
        size(axes.batch),
        size(axes.own[0]),
        size(axes.own[1]),
        size(axes.summed),
    )
    if k < MIN_K or batch * first * second * k < MIN_WORK:
        return None
    if not axes.own[0] or not axes.own[1]:
        if first * second * k < MIN_MATRIX or not _matrix_is_view(ranges, axes):
            return None
    return Contraction(node, axes.product, axes.inside)


def _leads_to_product(node: UOp, private: Callable[[UOp], bool]) -> bool:
    """The cheap half of the test: down from `node` only movement and private sums come before a
    MUL."""
    x = node.src[0]
    while True:
        while x.op in views.VIEWS:
            x = x.src[0]
        if x.op is Op.MUL:
            return private(x)
        if x.op is not Op.REDUCE or x.arg[0] is not Op.ADD or not private(x):
            return False
        x = x.src[0]


def find_axes(
    ranges: Ranges,
    node: UOp,
    index: Index,
    private: Callable[[UOp], bool],
    wanted: Sequence[Cond] = (),
) -> Axes | None:
    """The ranges of `node[index]` and of its sums, sorted by the factors they occur in.

    wanted: where the node is of interest at all; each of these must belong to one factor, too.
    """
    outer: dict[int, None] = {}
    for e in index:
        for t in sorted(ranges_in(ranges, (e,))):
            outer[t] = None
    inside: list[UOp] = []
    summed: list[int] = []
    conds: list[Cond] = list(wanted)
    x = node
    while x.op is Op.REDUCE:
        full = list(index)
        for axis in x.arg[1]:
            r = ranges.range(x.src[0].shape[axis])
            full.insert(axis, r)
            summed += [t for t, _ in r[1]]
        index = tuple(full)
        if x is not node:
            inside.append(x)
        x = x.src[0]
        while x.op in views.VIEWS:
            if (
                x.op is Op.EXPAND or x.op is Op.GATHER
            ):  # a sum of copies, or of a choice, is no plain contraction
                return None
            x, index, more = views.step(ranges, x, index)
            conds += more
    if x.op is not Op.MUL:
        return None
    inside.append(x)
    first, second = [_dependence(ranges, f, index) for f in x.src]
    if any(t not in first or t not in second for t in summed):
        return None
    if any(t not in first and t not in second for t in outer):
        return None
    batch = tuple([t for t in outer if t in first and t in second])
    own = tuple([t for t in outer if t not in second]), tuple([t for t in outer if t not in first])
    if not summed or not (own[0] or own[1]):
        return None
    for e, _, _ in conds:  # each condition must belong to one factor
        at = ranges_in(ranges, (e,))
        if not at.isdisjoint(own[0]) and not at.isdisjoint(own[1]):
            return None
    return Axes(x, tuple(inside), index, tuple(conds), batch, own, tuple(summed))


def ranges_in(ranges: Ranges, index: Sequence[Expr]) -> frozenset[int]:
    """The RANGE atoms in these expressions."""
    found: set[int] = set()
    for e in index:
        found |= ranges.bases_of(e)
    return frozenset([t for t in found if ranges.atoms[t].kind is AtomKind.RANGE])


def _dependence(ranges: Ranges, factor: UOp, index: Index) -> frozenset[int]:
    """Ranges that `factor[index]` depends on, seen through views down to the first node that
    computes."""
    found: set[int] = set()
    while factor.op in views.VIEWS:
        factor, index, conds = views.step(ranges, factor, index)
        found |= ranges_in(ranges, [e for e, _, _ in conds])
    if factor.op is not Op.CONST:
        found |= ranges_in(ranges, index)
    return frozenset(found)


def _sizer(ranges: Ranges) -> Callable[[Sequence[int]], int]:
    return lambda atoms: math.prod([ranges.atoms[t].hi + 1 for t in atoms])


def _matrix_is_view(ranges: Ranges, axes: Axes) -> bool:
    """Whether the factor that has ranges of its own is memory, or will be, read in order."""
    which = 0 if axes.own[0] else 1
    factor, index = axes.product.src[which], axes.index
    while factor.op in views.VIEWS:
        factor, index, conds = views.step(ranges, factor, index)
        if conds:
            return False
    if (
        factor.op in ELEMENTWISE
        or factor.op in LEAVES
        and factor.op is not Op.PARAM
        and factor.op is not Op.BUFFER
    ):
        return False
    coefficients = dict(ranges.address(index, factor.shape)[1])
    return any(coefficients.get(t) == 1 for t in (axes.own[which][-1], axes.summed[-1]))
