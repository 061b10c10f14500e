"""Transposing blocks through scratch: where an elementwise kernel reads an operand across its
lanes.

A tile of the operand is turned in registers (rows of vectors interleaved log2(lanes) times) and
written to scratch; the kernel then reads it along its lanes. In the tree that is Call("turn")
around plain Keep loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fgrad.lower.emit import I64
from fgrad.lower.graph import ELEMENTS, leaves
from fgrad.lower.index import AtomKind, Expr, Index, Ranges
from fgrad.lower.kernel import Call, Keep, Loop, LoopKind
from fgrad.lower.views import VIEWS, step
from fgrad.uop.node import UOp

if TYPE_CHECKING:
    from fgrad.lower.generate import Writer

SMALLEST = 8  # a shorter side is read element by element
LARGEST = 128  # a tile of this side still fits the first cache


@dataclass(frozen=True, slots=True)
class Turned:
    """What to turn: `nodes` (views) along axis `other`, in tiles of `tile_other` x `tile_lanes`."""

    nodes: tuple[UOp, ...]
    other: int
    tile_other: int
    tile_lanes: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Operand of Call("turn"): element (v, j) of the tile is at `base` + v*`stride` + j of
    `buffer`.
    """

    buffer: int
    base: Expr
    stride: int
    lanes: int
    others: int


def find_turned(
    ranges: Ranges, roots: Sequence[UOp], index: Callable[[UOp], Index], is_leaf: Callable[[UOp], bool],
    axes: Sequence[Expr], dims: Sequence[int], vector: int, width: int,
) -> Turned | None:  # fmt: skip
    """The views below `roots` that are read across the lanes, if they can be turned."""
    if vector <= 0 or dims[vector] < SMALLEST:
        return None
    lane = axes[vector][1][0][0]
    atoms = {e[1][0][0]: i for i, e in enumerate(axes) if e[1]}
    found: dict[UOp, int] = {}
    places: dict[UOp, set[Expr]] = {}  # of every leaf, where it is read
    for root in roots:
        for leaf, address, _ in leaves(ranges, root, index(root), is_leaf)[0]:
            places.setdefault(leaf, set()).add(address)
    stack = list(roots)
    seen: set[UOp] = set()
    while stack:
        u = stack.pop()
        if u in seen or is_leaf(u):
            continue
        seen.add(u)
        if u.op in ELEMENTS:
            stack += u.src
            continue
        below, others = leaves(ranges, u, index(u), is_leaf)
        if len(below) != 1 or others:
            continue
        coefficients = dict(below[0][1][1])
        if any(ranges.atoms[t].kind is not AtomKind.RANGE for t in coefficients):
            continue
        if coefficients.get(lane, 0) in (-1, 0, 1):
            continue
        along = [atoms[t] for t, c in coefficients.items() if c == 1 and t in atoms]
        leaf = below[0][0]
        if along and (_read_once(ranges, u, roots, index, is_leaf) if _is_view_of(u, leaf) else len(places[leaf]) == 1):
            found[u] = along[0]
    if not found or len(set(found.values())) != 1:
        return None
    other = next(iter(found.values()))
    tile_other, tile_lanes = _tile(dims[other], width), _tile(dims[vector], width)
    if not tile_other or not tile_lanes:
        return None
    return Turned(tuple(found), other, tile_other, tile_lanes)


def _read_once(
    ranges: Ranges, u: UOp, roots: Sequence[UOp], index: Callable[[UOp], Index], is_leaf: Callable[[UOp], bool]
) -> bool:
    """Whether all that reads `u` does so at one index: what is kept has no other elements."""
    places: set[Expr] = set()
    for root in roots:
        for leaf, address, _ in leaves(ranges, root, index(root), lambda x: x is u or is_leaf(x))[0]:
            if leaf is u:
                places.add(address)
    return places == {ranges.address(index(u), u.shape)}


def _is_view_of(u: UOp, leaf: UOp) -> bool:
    """Whether only views lie between."""
    while u is not leaf and u.op in VIEWS:
        u = u.src[0]
    return u is leaf


def what_to_turn(ranges: Ranges, u: UOp, index: Index, is_leaf: Callable[[UOp], bool]) -> tuple[UOp, Index]:
    """The node to keep: `u` itself if it is a view of memory, else the one leaf below it; and its index."""
    start = u, index
    pure = True
    while not is_leaf(u):
        if u.op in VIEWS:
            u, index, _ = step(ranges, u, index)
        else:
            pure = False
            u = next(s for s in u.src if leaves(ranges, s, index, is_leaf)[0])
    return start if pure else (u, index)


def _tile(n: int, width: int) -> int:
    """A divisor of n to tile by: a multiple of the lanes if there is one, 64 elements or near."""
    if n <= LARGEST // 2:
        return n if n >= SMALLEST else 0
    divisors = [d for d in range(SMALLEST, LARGEST + 1) if n % d == 0]
    whole = [d for d in divisors if d % width == 0 and d <= 64]
    return max(whole or divisors, default=0)


def turn_call(
    ranges: Ranges, node: UOp, index: Index, address: Expr, buffer: int, scratch: int,
    lane: Expr, other: Expr, sizes: tuple[int, int],
) -> Call:  # fmt: skip
    """The Call that keeps `node` for one tile; `sizes` are those of (other, lane)."""
    lane_atom, other_atom = lane[1][0][0], other[1][0][0]
    rest = tuple([(t, c) for t, c in address[1] if t not in (lane_atom, other_atom)])
    stride = dict(address[1])[lane_atom]
    keep = Keep(scratch, ranges.linear((other, lane), sizes), node, index)
    inner = Loop(lane_atom, sizes[1], LoopKind.SEQ, (keep,))
    body = Loop(other_atom, sizes[0], LoopKind.SEQ, (inner,))
    return Call("turn", (body,), (Turn(buffer, (address[0], rest), stride, sizes[1], sizes[0]),))


def write_turn(w: Writer, call: Call) -> None:
    """Call the helper that turns one tile, and read the node from scratch from here on."""
    turn = call.operands[0]
    assert isinstance(turn, Turn)
    outer = call.body[0]
    assert isinstance(outer, Loop) and isinstance(outer.body[0], Loop)
    keep = outer.body[0].body[0]
    assert isinstance(keep, Keep)
    dtype = keep.node.dtype
    kind = f"i{dtype.bits}"
    lanes = w.limits.vector_bytes // dtype.itemsize if dtype.itemsize >= 4 else 1
    name = f"@fgrad.turn.{dtype.itemsize}"
    w.e.helpers[name] = turn_text(name, kind, dtype.itemsize, lanes)
    base: I64 = w.ev.i64(turn.base)
    source = w.e.pointer(w.ev.buffers[turn.buffer], base, kind)
    target = w.ev.scratch[keep.scratch]
    w.e.do(f"call void {name}(ptr {source}, i64 {turn.stride}, ptr {target}, i64 {turn.lanes}, i64 {turn.others})")
    w.ev.kept[keep.node] = (target, dtype, keep.address)


def turn_text(name: str, kind: str, size: int, lanes: int) -> str:
    """Text of `void name(ptr from, i64 stride, ptr to, i64 v, i64 j)`: to[b*v + a] = from[a*stride
    + b].
    """
    head = f"define internal void {name}(ptr %from, i64 %stride, ptr %to, i64 %v, i64 %j) #0 {{\nentry:\n"
    if lanes == 1:
        return head + "  %vw = add i64 0, 0\n  %jw = add i64 0, 0\n  br label %edges\n" + _edges(kind, size) + "}"
    t = f"<{lanes} x {kind}>"
    lines = [
        f"  %vw = and i64 %v, {-lanes}",
        f"  %jw = and i64 %j, {-lanes}",
        "  %av = icmp ne i64 %vw, 0",
        "  %aj = icmp ne i64 %jw, 0",
        "  %any = and i1 %av, %aj",
        "  br i1 %any, label %rows, label %edges",
        "rows:",
        "  %a = phi i64 [ 0, %entry ], [ %an, %rowsn ]",
        "  %ra = mul i64 %a, %stride",
        f"  %fa = getelementptr {kind}, ptr %from, i64 %ra",
        f"  %ta = getelementptr {kind}, ptr %to, i64 %a",
        "  br label %block",
        "block:",
        "  %b = phi i64 [ 0, %rows ], [ %bn, %block ]",
        f"  %p0 = getelementptr {kind}, ptr %fa, i64 %b",
        "  %rb = mul i64 %b, %v",
        f"  %q0 = getelementptr {kind}, ptr %ta, i64 %rb",
    ]
    names = []
    for i in range(lanes):
        if i:
            lines.append(f"  %p{i} = getelementptr {kind}, ptr %p{i - 1}, i64 %stride")
        lines.append(f"  %x{i} = load {t}, ptr %p{i}, align {size}")
        names.append(f"%x{i}")
    half = lanes // 2
    low = ", ".join(f"i32 {x}" for i in range(half) for x in (i, i + lanes))
    high = ", ".join(f"i32 {x}" for i in range(half, lanes) for x in (i, i + lanes))
    stage = 0
    n = lanes
    while n > 1:
        made = []
        for i in range(half):
            for k, m in enumerate((low, high)):
                out = f"%s{stage}.{2 * i + k}"
                lines.append(f"  {out} = shufflevector {t} {names[i]}, {t} {names[i + half]}, <{lanes} x i32> <{m}>")
                made.append(out)
        names = made
        stage += 1
        n //= 2
    for i in range(lanes):
        if i:
            lines.append(f"  %q{i} = getelementptr {kind}, ptr %q{i - 1}, i64 %v")
        lines.append(f"  store {t} {names[i]}, ptr %q{i}, align {size}")
    lines += [
        f"  %bn = add nuw i64 %b, {lanes}",
        "  %bc = icmp ult i64 %bn, %jw",
        "  br i1 %bc, label %block, label %rowsn",
        "rowsn:",
        f"  %an = add nuw i64 %a, {lanes}",
        "  %ac = icmp ult i64 %an, %vw",
        "  br i1 %ac, label %rows, label %edges",
    ]
    return head + "\n".join(lines) + "\n" + _edges(kind, size) + "}"


def _edges(kind: str, size: int) -> str:
    """What the blocks left: rows from vw on whole, and in the rows before the columns from jw on."""
    return f"""edges:
  %some = icmp ne i64 %v, 0
  br i1 %some, label %row, label %done
row:
  %c = phi i64 [ 0, %edges ], [ %cn, %rown ]
  %inside = icmp ult i64 %c, %vw
  %d0 = select i1 %inside, i64 %jw, i64 0
  %todo = icmp ult i64 %d0, %j
  br i1 %todo, label %one, label %rown
one:
  %d = phi i64 [ %d0, %row ], [ %dn, %one ]
  %e0 = mul i64 %c, %stride
  %e1 = add i64 %e0, %d
  %e2 = getelementptr {kind}, ptr %from, i64 %e1
  %e3 = load {kind}, ptr %e2, align {size}
  %e4 = mul i64 %d, %v
  %e5 = add i64 %e4, %c
  %e6 = getelementptr {kind}, ptr %to, i64 %e5
  store {kind} %e3, ptr %e6, align {size}
  %dn = add nuw i64 %d, 1
  %dc = icmp ult i64 %dn, %j
  br i1 %dc, label %one, label %rown
rown:
  %cn = add nuw i64 %c, 1
  %cc = icmp ult i64 %cn, %v
  br i1 %cc, label %row, label %done
done:
  ret void
"""
