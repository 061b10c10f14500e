"""The first pass over a program: calls inlined, tuples opened, empty arrays gone, long sums cut for
many workers, long running sums into blocks.

After it: no CALL, no TUPLE, no node without elements below one with elements, PREFIX may have a start, no REDUCE over
axes of one element only.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.lower.contract import recognise
from fgrad.lower.generate import identity
from fgrad.lower.views import VIEWS
from fgrad.uop import dtype as dt
from fgrad.uop.build import (
    broadcast_to,
    cast,
    const,
    eq,
    iota_along,
    is_const,
    lt,
    pad,
    permute,
    reduce_,
    reshape,
    slice_axis,
    where,
)
from fgrad.uop.dtype import DType
from fgrad.uop.lines import lines
from fgrad.uop.node import UOp, slot_param, toposort, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import TANGENT, no_forward

UNDEFINED = -1  # slot of a PARAM that stands for memory with any contents
SPLIT_FROM = 1 << 17  # elements summed into each result from which a REDUCE is cut in two
SPLIT_ROWS = 64  # results from which there is enough to share out without cutting
SPLIT_COLUMNS = 1 << 12  # rows from which sums of columns are cut, so that the error grows less than with their number
BLOCKS_FROM = 1 << 12  # elements of a running sum of floats from which it is made in blocks, for the sake of its error
BLOCK = 1 << 9  # elements of a block, at most
_REFUSED = {
    Op.BUFFER: "pass the array as a parameter of the program",
    Op.VARIABLE: "pass the size as an int64 parameter of the program",
    Op.COPY: "copies between devices are made outside programs",
    Op.COLLECTIVE: "batch the program first, so that its named axis is an array axis",
    Op.LOAD: "make versions with functionalise() first",
    Op.STORE: "make versions with functionalise() first",
}


def prepare(outs: Sequence[UOp]) -> list[UOp]:
    """The outputs, rewritten. Raises NotImplementedError for ops that kernels cannot do."""
    new: dict[UOp, UOp] = {}
    for u in toposort(outs):
        new[u] = _row(u, tuple([new[s] for s in u.src]))
    _carry(new)
    outs = _from_parts([new[o] for o in outs])
    new = {}
    for u in toposort(outs):
        src = tuple([new[s] for s in u.src])
        now = u if src == u.src else uop(u.op, src, u.arg)
        new[u] = _shared_out(now) if u.op is Op.REDUCE else _in_blocks(now) if u.op is Op.PREFIX else now
    _carry(new)
    return _without_fills([new[o] for o in outs])


def _carry(new: dict[UOp, UOp]) -> None:
    if lines.recording:
        lines.carry(new)


def undefined(dtype: DType, shape: tuple[int, ...]) -> UOp:
    """Memory whose contents do not matter."""
    return slot_param(UNDEFINED, dtype, shape)


def _without_fills(outs: list[UOp]) -> list[UOp]:
    """Parts laid side by side until they cover a constant array: what it held does not matter."""
    order = toposort(outs)
    readers: dict[UOp, int] = {}
    for u in order:
        for s in u.src:
            readers[s] = readers.get(s, 0) + 1
    for o in outs:
        readers[o] = readers.get(o, 0) + 1
    laid: dict[UOp, tuple[int, int, UOp]] = {}  # axis, elements of it written so far, first UPDATE
    filled: dict[UOp, None] = {}
    for u in order:
        if u.op is not Op.UPDATE:
            continue
        part = _part_along_one_axis(u)
        if part is None:
            continue
        old = u.src[0]
        axis, start, size = part
        if start == 0 and is_const(old):
            laid[u] = axis, size, u
        elif old in laid and readers[old] == 1 and laid[old][:2] == (axis, start):
            laid[u] = axis, start + size, laid[old][2]
        if u in laid and laid[u][1] == u.shape[axis]:
            filled[laid[u][2]] = None
    if not filled:
        return outs
    new: dict[UOp, UOp] = {}
    for u in order:
        src = tuple([new[s] for s in u.src])
        if u in filled:
            src = (undefined(u.dtype, u.shape), *src[1:])
        new[u] = u if src == u.src else uop(u.op, src, u.arg)
    _carry(new)
    return [new[o] for o in outs]


def _part_along_one_axis(u: UOp) -> tuple[int, int, int] | None:
    """(axis, start, size) of a plain write that is whole along all other axes."""
    arg = u.arg
    if arg.box is None or arg.gated or arg.mode is not Mode.SET:
        return None
    partial = [i for i, (b, n) in enumerate(zip(arg.box, u.shape, strict=True)) if b != (0, n, 1)]
    if len(partial) != 1:
        return None
    start, size, step = arg.box[partial[0]]
    return None if start is None or step != 1 else (partial[0], start, size)


def _from_parts(outs: list[UOp]) -> list[UOp]:
    """REDUCE(x, A) becomes REDUCE(REDUCE(x, B), A - B) where REDUCE(x, B) is there anyway, B being
    part of A.
    """
    groups: dict[tuple[UOp, Op], list[UOp]] = {}
    order = toposort(outs)
    for u in order:
        if u.op is Op.REDUCE:
            groups.setdefault((u.src[0], u.arg[0]), []).append(u)
    part: dict[UOp, UOp] = {}
    for group in groups.values():
        for u in group if len(group) > 1 else ():
            smaller = [v for v in group if set(v.arg[1]) < set(u.arg[1])]
            if smaller:
                part[u] = max(smaller, key=lambda v: len(v.arg[1]))
    if not part:
        return outs
    new: dict[UOp, UOp] = {}
    for u in order:
        new[u] = _rebuilt(u, new, part)
    _carry(new)
    return [new[o] for o in outs]


def _rebuilt(u: UOp, new: dict[UOp, UOp], part: dict[UOp, UOp]) -> UOp:
    src = tuple([new[s] for s in u.src])
    smaller = part.get(u)
    if smaller is None:
        return u if src == u.src else uop(u.op, src, u.arg)
    op, axes = u.arg
    inner = _rebuilt(smaller, new, part)  # of the same source: it is there already
    done = smaller.arg[1]
    rest = [a - sum(b < a for b in done) for a in axes if a not in done]
    return reduce_(inner, rest, op)


def _row(u: UOp, src: tuple[UOp, ...]) -> UOp:
    op = u.op
    if op is Op.CALL:
        if u.arg.kind == TANGENT:
            raise TypeError(no_forward(u.arg.name))
        inner = prepare(u.arg.body.inline(src))
        return uop(Op.TUPLE, tuple(inner))
    if op is Op.GET and src[0].op is Op.TUPLE:
        member: UOp = src[0].src[u.arg]
        return member
    if op in _REFUSED:
        raise NotImplementedError(f"{op.name} cannot be lowered; {_REFUSED[op]}")
    if isinstance(u.dtype, DType) and 0 in u.shape and op is not Op.PARAM:
        return const(0, u.dtype, u.shape)
    if op is Op.SORT and 0 in src[0].shape:
        return uop(Op.TUPLE, tuple([const(0, s.dtype, s.shape) for s in src]))
    if op is Op.SORT and u.arg != src[0].ndim - 1:
        return _sort_last(u, src)
    if op is Op.REDUCE:
        return _reduce(u, src[0])
    if op in VIEWS and src[0].size == 0:
        return const(0, u.dtype, u.shape)
    if op is Op.UPDATE and 0 in src[1].shape:
        return src[0]
    if op is Op.SCAN and u.arg.length == 0:
        carry = src[u.arg.consts : u.arg.consts + u.arg.carry]
        stacked = [const(0, d, s) for d, s in u.arg.avals[u.arg.carry :]]
        return uop(Op.TUPLE, (*carry, *stacked))
    return u if src == u.src else uop(op, src, u.arg)


def _sort_last(u: UOp, src: tuple[UOp, ...]) -> UOp:
    """A sort along another axis: that axis moved to the end, and back."""
    axis, n = u.arg, src[0].ndim
    to = (*[i for i in range(n) if i != axis], axis)
    back = tuple([to.index(i) for i in range(n)])
    inner = uop(Op.SORT, tuple([permute(s, to) for s in src]), n - 1)
    lines.note(inner, lines.of(u))
    return uop(Op.TUPLE, tuple([permute(uop(Op.GET, (inner,), i), back) for i in range(len(src))]))


def _reduce(u: UOp, x: UOp) -> UOp:
    op, axes = u.arg
    if any(x.shape[a] == 0 for a in axes):
        start = identity(op, u.dtype)
        if u.dtype in dt.WITHOUT_INFINITY and op in (Op.MAX, Op.MIN):
            start = float(dt.finfo(u.dtype).min if op is Op.MAX else dt.finfo(u.dtype).max)
        return const(start if start != 0 else 0, u.dtype, u.shape)  # type: ignore[arg-type]
    if all(x.shape[a] == 1 for a in axes):
        return reshape(x, u.shape)
    return uop(Op.REDUCE, (x,), u.arg)


def _shared_out(node: UOp) -> UOp:
    """A long REDUCE with few results, cut in two so that many workers have a part.

    Sums over other axes than the last are carried lane by lane, one row after the other: long ones are cut for the
    sake of their rounding errors, however many they are.
    """
    x = node.src[0]
    op, axes = node.arg
    summed = 1
    for a in axes:
        summed *= x.shape[a]
    of_columns = op is Op.ADD and x.dtype.is_float and summed >= SPLIT_COLUMNS and x.ndim - 1 not in axes
    is_long = summed >= SPLIT_FROM and node.size < SPLIT_ROWS * 64
    if not (of_columns or is_long) or recognise(node, lambda _: True) is not None:
        return node
    if of_columns:
        return _cut(x, op, axes, node)
    leading = 1
    for a in range(axes[0]):
        leading *= x.shape[a]
    return _cut(x, op, axes, node) if leading < SPLIT_ROWS else node


def _in_blocks(u: UOp) -> UOp:
    """A long running sum of floats: that of each block by itself, onto the sum of all blocks before it.

    So the error grows with the length of a block and the number of blocks, and blocks are independent.
    """
    op, axis, reverse = u.arg
    n = u.shape[axis]
    if op is not Op.ADD or not u.dtype.is_float or n < BLOCKS_FROM:
        return u
    wide = dt.accumulator(u.dtype)
    x = cast(u.src[0], wide)
    zero = const(-0.0, wide)  # x + -0.0 is x for every x
    block = max([d for d in range(BLOCK // 8, BLOCK + 1) if n % d == 0], default=BLOCK)
    blocks = -(-n // block)
    room = blocks * block - n
    if room:
        x = pad(x, [(0, room if i == axis else 0, 0) for i in range(u.ndim)])
        x = where(lt(iota_along(x.shape, axis), n), x, broadcast_to(zero, x.shape))
    cut = reshape(x, (*u.shape[:axis], blocks, block, *u.shape[axis + 1 :]))
    sums = reduce_(cut, [axis + 1])
    upto = _in_blocks(uop(Op.PREFIX, (sums,), (op, axis, reverse)))
    kept = slice_axis(upto, axis, 1, blocks) if reverse else slice_axis(upto, axis, 0, blocks - 1)
    widths = [((not reverse) * (i == axis), reverse * (i == axis), 0) for i in range(sums.ndim)]
    first = eq(iota_along(sums.shape, axis), blocks - 1 if reverse else 0)
    start = where(first, broadcast_to(zero, sums.shape), pad(kept, widths))
    out = reshape(uop(Op.PREFIX, (cut, start), (op, axis + 1, reverse)), x.shape)
    return cast(slice_axis(out, axis, 0, n) if room else out, u.dtype)


def _cut(x: UOp, op: Op, axes: tuple[int, ...], whole: UOp) -> UOp:
    """Reduce pieces of the first summed axis, then the pieces: the same cut on every machine."""
    first = next((a for a in axes if x.shape[a] >= 16), None)
    if first is None:
        return whole
    n = x.shape[first]
    pieces = next(
        (p for p in (32, 64, 16, 24, 40, 48, 20, 25, 27, 49, 8, 10, 12, 9, 11, 13, 7, 6, 5) if n % p == 0),
        0,
    )
    if not pieces or pieces == n:
        return whole
    cut = reshape(x, (*x.shape[:first], pieces, n // pieces, *x.shape[first + 1 :]))
    inner = reduce_(cut, [a if a < first else a + 1 for a in axes], op)
    return reduce_(inner, [first - sum(a < first for a in axes)], op)
