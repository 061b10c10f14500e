"""Random raw graphs: views, reads, writes, snapshots and kernels over a few buffers; NumPy memory is the judge.

A `Graph` is plain data, so that a failing one can be printed, made smaller and typed in again. It has two readings:
`run` builds the nodes and gives them to fgrad, `judge` works out which steps must come before which, element by
element, and then carries the steps out one after the other on memory that is really overwritten. All numbers are
small whole ones, so results are compared bit for bit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad.errors import OrderingError
from fgrad.run.graph import run_graph
from fgrad.uop import build as b
from fgrad.uop.dtype import by_name
from fgrad.uop.node import UOp, slot_param, uop
from fgrad.uop.op import Mode, Op
from fgrad.uop.program import Call, Cond, Program, Scan, Update

Shape = tuple[int, ...]
Array = Any

DTYPES = ("float32", "int32", "bool", "uint8", "float64", "uint32")
MOVES = ("RESHAPE", "PERMUTE", "EXPAND", "SHRINK", "FLIP", "BITCAST")
SAME_WIDTH = {"int32": "uint32", "uint32": "int32"}
MODES = ("SET", "ADD", "MUL", "MIN", "MAX")
MOST = 64.0  # products of floats are cut to this, so that all stay exact
LARGEST = 1000


class Node(NamedTuple):
    """One step: the name of an op (or "buffer", "product"), the numbers of its sources, its argument."""

    op: str
    src: tuple[int, ...] = ()
    arg: Any = None


class Graph(NamedTuple):
    """`nodes` sources first, the buffers at the start; `outs` are what is asked for."""

    nodes: tuple[Node, ...]
    outs: tuple[int, ...]


def merged(graph: Graph) -> Graph:
    """The graph with equal nodes as one, as nodes are one by what they say: two equal writes are one write."""
    number: dict[Node, int] = {}
    at: list[int] = []
    nodes: list[Node] = []
    for i, node in enumerate(graph.nodes):
        node = node._replace(src=tuple([at[s] for s in node.src]))
        key = node if node.op != "buffer" else Node("buffer", (), i)
        at.append(number.setdefault(key, len(nodes)))
        if at[-1] == len(nodes):
            nodes.append(node)
    return Graph(tuple(nodes), tuple([at[o] for o in graph.outs]))


# ---- meaning, shared by no part of fgrad
def number_cast(x: Array, dtype: str) -> Array:
    """As NumPy; from floats, what is out of range is the nearest there is."""
    to = np.dtype(dtype)
    if x.dtype.kind == "f" and to.kind in "iu":
        info = np.iinfo(to)
        return np.clip(x.astype(np.float64), info.min, info.max).astype(to)
    return x.astype(to)


def is_narrowed(have: str, dtype: str) -> bool:
    """Integers that become floats are cut to `LARGEST` first, so that sums of them are exact."""
    return dtype[0] == "f" and have in ("int32", "int64", "uint32")


def _summand(x: Array) -> Array:
    """Floats are cut before they are added up, so that the order of the sum does not matter."""
    return np.clip(x, -LARGEST, LARGEST).astype(x.dtype) if x.dtype.kind == "f" else x


def _product(x: Array, y: Array) -> Array:
    z = x * y
    return np.clip(z, -MOST, MOST).astype(z.dtype) if z.dtype.kind == "f" else z


ALU: dict[str, Any] = {
    "ADD": lambda x, y: x + y,
    "product": _product,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "XOR": lambda x, y: x ^ y,
    "LT": lambda x, y: x < y,
    "EQ": lambda x, y: x == y,
    "WHERE": np.where,
    "NEG": lambda x: -x,
    "NOT": lambda x: ~x,
}
COMBINE: dict[str, Any] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "XOR": np.bitwise_xor,
}


def _moved(op: str, arg: Any, index: Array, starts: Sequence[int]) -> Array:
    """Movement of an array (of values, or of positions)."""
    match op:
        case "RESHAPE":
            return index.reshape(arg)
        case "PERMUTE":
            return index.transpose(arg)
        case "FLIP":
            return np.flip(index, arg)
        case "EXPAND":
            for axis, n in arg:
                index = np.repeat(np.expand_dims(index, axis), n, axis)
            return index
        case "SHRINK":
            return index[_slices(arg, index.shape, starts)]
        case "BITCAST":
            return index
    raise AssertionError(op)


def _slices(box: Any, shape: Shape, starts: Sequence[int]) -> tuple[slice, ...]:
    """A box as slices; computed starts are moved until the part fits in."""
    todo = iter(starts)
    out = []
    for (start, size, step), n in zip(box, shape, strict=True):
        span = (size - 1) * step + 1 if size else 0
        at = min(max(next(todo), 0), n - span) if start is None else start
        out.append(slice(at, at + span, step))
    return tuple(out)


def _updated(how: Any, old: Array, value: Array, more: Sequence[Array]) -> Array:
    """UPDATE: `old` with a part written; `how` is (mode, box, gated), an index where there is no box."""
    mode, box, gated = how
    out = old.copy()
    gate = more[-1] if gated else None
    if box is not None:
        where = _slices(box, old.shape, [int(s) for s in more[: len(more) - gated]])
        new = value if mode == "SET" else COMBINE[mode](out[where], value)
        out[where] = new if gate is None else np.where(gate, new, out[where])
        return out
    _scatter(out, more[0], value, mode, gate)
    return out


def _scatter(out: Array, index: Array, value: Array, mode: str, gate: Array | None) -> None:
    for at in np.ndindex(index.shape):
        i = int(index[at])
        if 0 <= i < len(out) and (gate is None or gate[at]):
            out[i] = value[at] if mode == "SET" else COMBINE[mode](out[i], value[at])


def _gathered(x: Array, index: Array) -> Array:
    out = np.zeros((*index.shape, *x.shape[1:]), x.dtype)
    for at in np.ndindex(index.shape):
        if 0 <= int(index[at]) < len(x):
            out[at] = x[int(index[at])]
    return out


def _padded(x: Array, widths: Any) -> Array:
    for axis, (lo, hi, inner) in enumerate(widths):
        shape = list(x.shape)
        n = shape[axis]
        shape[axis] = lo + hi + n + max(n - 1, 0) * inner
        out = np.zeros(shape, x.dtype)
        if n:
            where = [slice(None)] * x.ndim
            where[axis] = slice(lo, lo + (n - 1) * (inner + 1) + 1, inner + 1)
            out[tuple(where)] = x
        x = out
    return x


def value_of(node: Node, xs: Sequence[Array]) -> Array:
    """What a step without memory computes from its sources."""
    op, arg = node.op, node.arg
    if op == "CONST":
        return np.full(arg[2], arg[0], arg[1])
    if op in ALU:
        return ALU[op](*xs)
    match op:
        case "CAST":
            x = xs[0]
            if is_narrowed(str(x.dtype), arg):
                x = np.clip(x, -LARGEST if x.dtype.kind == "i" else 0, LARGEST)
            return number_cast(x, arg)
        case "BITCAST":
            return xs[0].view(arg)
        case "PAD":
            return _padded(xs[0], arg)
        case "REDUCE":
            x = _summand(xs[0]) if arg[0] == "ADD" else xs[0]
            return COMBINE[arg[0]].reduce(x, axis=arg[1], dtype=x.dtype)
        case "PREFIX":
            x = _summand(xs[0]) if arg[0] == "ADD" else xs[0]
            x = np.flip(x, arg[1]) if arg[2] else x
            x = COMBINE[arg[0]].accumulate(x, axis=arg[1], dtype=x.dtype)
            return np.flip(x, arg[1]) if arg[2] else x
        case "GATHER":
            return _gathered(*xs)
        case "UPDATE":
            return _updated(arg, xs[0], xs[1], xs[2:])
        case "LOAD":
            return xs[0].copy()
        case "GET":
            return xs[0][arg]
        case "SCAN":
            return _scanned(arg, xs)
        case "COND":
            branch = arg[min(max(int(xs[0]), 0), len(arg) - 1)]
            return Judge(branch).run([whole(x) for x in xs[1:]], random.Random(0))
    return _moved(op, arg, xs[0], [int(s) for s in xs[1:]])


def _scanned(arg: Any, xs: Sequence[Array]) -> list[Array]:
    """SCAN: `arg` is (body, rounds, how many constants, how many carried, whether backwards)."""
    body, length, consts, carried, reverse = arg
    judge = Judge(body)
    fixed, carry, rows = xs[:consts], list(xs[consts : consts + carried]), xs[consts + carried :]
    stacked = []
    for i in reversed(range(length)) if reverse else range(length):
        outs = judge.run([whole(x) for x in (*fixed, *carry, *[r[i] for r in rows])], random.Random(0))
        carry = outs[:carried]
        stacked.append(outs[carried:])
    return [*carry, *[np.stack(column) for column in zip(*stacked[:: -1 if reverse else 1], strict=True)]]


# ---- the judge
class Conflict(Exception):
    """The order cannot be honoured; its text is the word that the error must contain."""


class Memory:
    """Storage written in place: a flat array, and where in it the elements of a view lie."""

    def __init__(self, flat: Array, at: Array) -> None:
        self.flat = flat
        self.at = at

    def get(self, dtype: str) -> Array:
        return self.flat.view(dtype)[self.at]

    def put(self, dtype: str, value: Array) -> None:
        self.flat.view(dtype)[self.at] = value


class Judge:
    """The order of a graph's steps, and the carrying out of them."""

    def __init__(self, graph: Graph, is_strict: bool = True) -> None:
        """is_strict: a computed place counts as every place where it can come to lie, else as the whole buffer."""
        self.graph = graph = merged(graph)
        self.is_strict = is_strict
        self.nodes = graph.nodes
        self.is_needed = self._needed()
        self.avals = avals(graph)
        self.base: list[int | None] = []  # whose storage a node shows
        self.places: list[list[Array]] = []  # the positions in the base of all that it may show
        self.may: list[int] = []  # the same as bits
        self.computed: set[int] = set()  # nodes with more than one such place
        self.past: list[int] = []  # bits: the steps below
        for i, node in enumerate(self.nodes):
            past = 0
            for s in node.src:
                past |= self.past[s] | 1 << s
            self.past.append(past)
            self._enter(i, node)

    def _needed(self) -> set[int]:
        out = set(self.graph.outs)
        for i in range(len(self.nodes) - 1, -1, -1):
            if i in out:
                out.update(self.nodes[i].src)
        return out

    def _enter(self, i: int, node: Node) -> None:
        op = node.op
        base: int | None = None
        places: list[Array] = []
        if op in ("buffer", "LOAD"):
            base = i
            places = [np.arange(size_of(self.avals[i][1])).reshape(self.avals[i][1])]
        elif op in (*MOVES, "AFTER") and node.src and self.base[node.src[0]] is not None:
            base = self.base[node.src[0]]
            below = self.places[node.src[0]]
            if op == "AFTER":
                places = below
            elif op == "SHRINK" and len(node.src) > 1:
                reach = [
                    range(n - ((size - 1) * step + 1 if size else 0) + 1)
                    for (start, size, step), n in zip(node.arg, below[0].shape, strict=True)
                    if start is None
                ]
                places = [_moved(op, node.arg, p, starts) for p in below for starts in product(*reach)]
            else:
                places = [_moved(op, node.arg, p, ()) for p in below]
        self.base.append(base)
        self.places.append(places)
        may = _bits(places, size_of(self.avals[base][1])) if base is not None else 0
        if base not in (None, i) and (len(node.src) > 1 and op == "SHRINK" or node.src[0] in self.computed):
            self.computed.add(i)
            if not self.is_strict and may:
                may = (1 << size_of(self.avals[base][1])) - 1  # type: ignore[index]
        self.may.append(may)

    # ---- who reads and writes what
    def target(self, i: int) -> tuple[int, int]:
        """The storage and the elements that a write through node `i` may reach."""
        node = self.nodes[i]
        if node.op == "GATHER":
            base, may = self.target(node.src[0])
            if not self.is_strict and may:
                may = (1 << size_of(self.avals[base][1])) - 1
            return base, may
        base = self.base[i]
        assert base is not None
        return base, self.may[i]

    def reads(self) -> list[tuple[int, int, int]]:
        """(step, node that it reads, which source), for storage; a wanted view is read by a step of its own."""
        out = []
        for i, node in enumerate(self.nodes):
            if i in self.is_needed:
                out += [(i, node.src[k], k) for k in self._read_by(i)]
        out += [(len(self.nodes) + k, o, 0) for k, o in enumerate(self.graph.outs)]
        return [(i, x, k) for i, x, k in out if self.base[x] is not None]

    def _read_by(self, i: int) -> Sequence[int]:
        node = self.nodes[i]
        n = len(node.src)
        if node.op == "AFTER":
            return ()
        if node.op == "STORE":
            return range(int(node.arg == "SET"), n)
        if node.op == "CALL":
            return accesses(node.arg)[0]
        if node.op == "GATHER":  # a place to write to, or a value
            return range(int(not self._is_value(i)), n)
        return range(int(node.op in MOVES and self.base[i] is not None), n)

    def _is_value(self, i: int) -> bool:
        return i in self.graph.outs or any(
            i in node.src[node.op == "STORE" :] for k, node in enumerate(self.nodes) if k in self.is_needed
        )

    def writes(self) -> list[tuple[int, int, int]]:
        """(step, node that it writes through, which source)."""
        out = []
        for i, node in enumerate(self.nodes):
            if i in self.is_needed:
                if node.op == "STORE":
                    out.append((i, node.src[0], 0))
                elif node.op == "CALL":
                    out += [(i, node.src[k], k) for k in accesses(node.arg)[1]]
        return out

    def order(self, rng: random.Random) -> list[int]:
        """Steps in an order that honours all; raises Conflict when there is none."""
        writes = [(i, k, *self.target(t)) for i, t, k in self.writes()]
        for n, (i, _, base, may) in enumerate(writes):
            for j, _, base2, may2 in writes[:n]:
                if base == base2 and may & may2 and i != j and not self.past[i] >> j & 1 and not self.past[j] >> i & 1:
                    raise Conflict("unordered")
        before: dict[int, set[int]] = {i: set(self.nodes[i].src) for i in self.is_needed}
        for k, o in enumerate(self.graph.outs):
            before[len(self.nodes) + k] = {o}
        for r, x, k in self.reads():
            for w, position, base, may in writes:
                if base != self.base[x] or self.past[x] >> w & 1 or not may & self.may[x]:
                    continue
                if r != w:
                    before[w].add(r)
                elif self.nodes[w].op == "CALL" and k != position:
                    raise Conflict("cycle")
        out: list[int] = []
        waits = {i: len(b) for i, b in before.items()}
        after: dict[int, list[int]] = {i: [] for i in before}
        for i, earlier in before.items():
            for e in earlier:
                after[e].append(i)
        ready = sorted(i for i, n in waits.items() if not n)
        while ready:
            i = ready.pop(rng.randrange(len(ready)))
            out.append(i)
            for j in after[i]:
                waits[j] -= 1
                if not waits[j]:
                    ready.append(j)
        if len(out) < len(before):
            raise Conflict("cycle")
        return out

    # ---- carrying out
    def run(self, memories: Sequence[Memory], rng: random.Random) -> list[Array]:
        """The values of the outs; what is in `memories` is overwritten. Raises Conflict."""
        order = self.order(rng)
        held: dict[int, Any] = {}  # a Memory, or a value
        chosen: dict[int, Array] = {}  # the index of a place to write to

        def get(i: int) -> Array:
            x = held[i]
            return x.get(self.avals[i][0]) if isinstance(x, Memory) else x

        outs: dict[int, Array] = {}
        for i in order:
            if i >= len(self.nodes):
                k = i - len(self.nodes)
                outs[k] = np.array(get(self.graph.outs[k]))
                continue
            node = self.nodes[i]
            op = node.op
            match op:
                case "buffer":
                    held[i] = memories[i]
                case "LOAD":
                    held[i] = whole(get(node.src[0]))
                case "AFTER":
                    held[i] = held[node.src[0]]
                case "STORE":
                    gate = get(node.src[2]) if len(node.src) > 2 else None
                    self._store(node, held, chosen.get(node.src[0]), get, get(node.src[1]), gate)
                case "CALL":
                    arguments = [x if isinstance(x := held[s], Memory) else whole(x) for s in node.src]
                    Judge(node.arg, self.is_strict).run(arguments, rng)
                case _ if op in MOVES and self.base[i] is not None:
                    below = held[node.src[0]]
                    starts = [int(get(s)) for s in node.src[1:]]
                    held[i] = Memory(below.flat, _moved(op, node.arg, below.at, starts))
                case "GATHER" if not self._is_value(i):
                    chosen[i] = np.array(get(node.src[1]))  # where to write is decided now
                case _:
                    if op == "GATHER":
                        chosen[i] = np.array(get(node.src[1]))
                    value = value_of(node, [get(s) for s in node.src])
                    held[i] = value if isinstance(value, list) else np.asarray(value)
        return [outs[k] for k in range(len(outs))]

    def _store(
        self, node: Node, held: dict[int, Any], index: Array | None, get: Any, value: Array, gate: Array | None
    ) -> None:
        t = node.src[0]
        if index is not None:
            x = self.nodes[t].src[0]
            new = np.array(get(x))
            _scatter(new, index, value, node.arg, gate)
            held[x].put(self.avals[x][0], new)
            return
        old = get(t)
        new = value if node.arg == "SET" else COMBINE[node.arg](old, value)
        held[t].put(self.avals[t][0], new if gate is None else np.where(gate, new, old))


def _bits(places: Sequence[Array], size: int) -> int:
    """A number with a bit for each position that occurs."""
    shown = np.zeros(size, np.bool_)
    for p in places:
        shown[p] = True
    return int.from_bytes(np.packbits(shown, bitorder="little").tobytes(), "little")


def whole(x: Array) -> Memory:
    """Fresh storage that holds a copy of `x`."""
    flat = np.array(x).reshape(-1)
    return Memory(flat, np.arange(flat.size).reshape(np.shape(x)))


def size_of(shape: Shape) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


@lru_cache(maxsize=64)
def accesses(body: Graph) -> tuple[list[int], list[int]]:
    """The arguments that a kernel reads and writes."""
    inner = Judge(body)
    buffers = [i for i, node in enumerate(inner.nodes) if node.op == "buffer"]
    n = len(inner.nodes)
    reads = {inner.base[x] for i, x, _ in inner.reads() if i < n}
    writes = {inner.target(t)[0] for _, t, _ in inner.writes()}
    return [i for i in buffers if i in reads], [i for i in buffers if i in writes]


def avals(graph: Graph) -> list[tuple[str, Shape]]:
    """dtype and shape of every node."""
    out: list[tuple[str, Shape]] = []
    for node in graph.nodes:
        src = [out[s] for s in node.src]
        match node.op:
            case "buffer":
                out.append(node.arg)
            case "CONST":
                out.append(node.arg[1:])
            case "STORE" | "CALL":
                out.append(("void", ()))
            case "AFTER" | "LOAD" | "UPDATE" | "PREFIX":
                out.append(src[0])
            case "SCAN" | "COND":
                out.append(("tuple", ()))
            case "GET":
                out.append(_member(graph.nodes[node.src[0]], node.arg))
            case "CAST" | "BITCAST":
                out.append((node.arg, src[0][1]))
            case "LT" | "EQ":
                out.append(("bool", src[0][1]))
            case "WHERE":
                out.append(src[1])
            case "REDUCE":
                out.append((src[0][0], tuple([n for a, n in enumerate(src[0][1]) if a not in node.arg[1]])))
            case "GATHER":
                out.append((src[0][0], src[1][1] + src[0][1][1:]))
            case "PAD":
                sizes = zip(src[0][1], node.arg, strict=True)
                out.append((src[0][0], tuple([lo + hi + n + max(n - 1, 0) * mid for n, (lo, hi, mid) in sizes])))
            case "SHRINK":
                out.append((src[0][0], tuple([size for _, size, _ in node.arg])))
            case op if op in MOVES:
                out.append((src[0][0], _moved(op, node.arg, np.empty(src[0][1], np.int8), ()).shape))
            case _:
                out.append(src[0])
    return out


def _member(node: Node, k: int) -> tuple[str, Shape]:
    """dtype and shape of one result of a loop or branch."""
    body = node.arg[0]
    dtype, shape = avals(body)[body.outs[k]]
    return dtype, (node.arg[1], *shape) if node.op == "SCAN" and k >= node.arg[3] else shape


# ---- the same in fgrad
def build(graph: Graph, buffers: Sequence[UOp]) -> list[UOp]:
    """The nodes of fgrad for the wanted nodes, over the given memory."""
    made: list[UOp] = []
    for i, node in enumerate(graph.nodes):
        xs = tuple([made[s] for s in node.src])
        made.append(buffers[i] if node.op == "buffer" else _node(node, xs))
    return [made[o] for o in graph.outs]


def _node(node: Node, xs: tuple[UOp, ...]) -> UOp:
    op, arg = node.op, node.arg
    match op:
        case "CONST":
            return b.const(arg[0], by_name(arg[1]), arg[2])
        case "product":
            z = uop(Op.MUL, xs)
            return b.maximum(b.minimum(z, MOST), -MOST) if z.dtype.is_float else z
        case "CAST":
            x = xs[0]
            if is_narrowed(x.dtype.name, arg):
                x = b.maximum(b.minimum(x, LARGEST), -LARGEST if x.dtype.is_signed else 0)
            return uop(Op.CAST, (x,), by_name(arg))
        case "BITCAST":
            return uop(Op.BITCAST, xs, by_name(arg))
        case "REDUCE" | "PREFIX":
            x = xs[0]
            if arg[0] == "ADD" and x.dtype.is_float:
                x = b.maximum(b.minimum(x, LARGEST), -LARGEST)
            return uop(Op[op], (x,), (Op[arg[0]], *arg[1:]))
        case "GATHER":
            return uop(Op.GATHER, xs, 0)
        case "UPDATE":
            mode, box, gated = arg
            return uop(Op.UPDATE, xs, Update(Mode[mode], box, box is None, gated))
        case "STORE":
            return uop(Op.STORE, xs, Mode[arg])
        case "CALL":
            return uop(Op.CALL, xs, Call(_program(arg), "kernel", "body"))
        case "SCAN":
            body, length, consts, carried, reverse = arg
            return uop(Op.SCAN, xs, Scan(_program(body), length, consts, carried, len(xs) - consts - carried, reverse))
        case "COND":
            return uop(Op.COND, xs, Cond(tuple([_program(body) for body in arg])))
    return uop(Op[op], xs, arg)


def _program(body: Graph) -> Program:
    """A graph whose buffers are the parameters."""
    avals = [node.arg for node in body.nodes if node.op == "buffer"]
    params = tuple([slot_param(i, by_name(dtype), shape) for i, (dtype, shape) in enumerate(avals)])
    return Program(params, tuple(build(body, params)))


def contents(graph: Graph, seed: int) -> list[Array]:
    """What the buffers hold at first."""
    rng = np.random.default_rng(seed)
    out = []
    for node in graph.nodes:
        if node.op == "buffer":
            dtype, shape = node.arg
            low, high = {"bool": (0, 2), "uint8": (0, 9), "uint32": (0, 9)}.get(dtype, (-4, 8))
            out.append(rng.integers(low, high, shape).astype(dtype))
    return out


class Expected(NamedTuple):
    """What must come out: values and final contents, or an error with one of the words `must`.

    `may`: an error with one of these words is as good as the values, as a computed place was taken for any place.
    """

    values: list[Array]
    final: list[Array]
    must: set[str]
    may: set[str]


def conflicts(graph: Graph, seed: int, is_strict: bool) -> set[str]:
    """What is wrong with the order of a graph and of the kernels in it: "cycle", "unordered"."""
    out = set()
    try:
        Judge(graph, is_strict).order(random.Random(seed))
    except Conflict as conflict:
        out.add(str(conflict))
    for node in graph.nodes:
        if node.op == "CALL":
            out |= conflicts(node.arg, seed, is_strict)
    return out


def has_computed_places(graph: Graph) -> bool:
    """Does it matter whether a conflict is judged strictly?"""
    return any(
        node.op == "GATHER" or (node.op == "SHRINK" and len(node.src) > 1)
        or (node.op == "CALL" and has_computed_places(node.arg))
        for node in graph.nodes
    )  # fmt: skip


def expected(graph: Graph, seed: int, xs: Sequence[Array]) -> Expected:
    """Judge a graph over buffers with the contents `xs`."""
    must = conflicts(graph, seed, is_strict=True)
    may = must
    if has_computed_places(graph) and conflicts(graph, seed, is_strict=False):
        may = {"unordered", "cycle"}  # the judge names the first only, and fgrad may know a place better than it
    if must:
        return Expected([], list(xs), must, may)
    return Expected(*carried_out(graph, seed, xs), must, may)


def carried_out(graph: Graph, seed: int, xs: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """The values of the outs and the final contents of the buffers, by a judge that found no conflict."""
    memories = [whole(x) for x in xs]
    with np.errstate(all="ignore"):
        values = Judge(graph).run(memories, random.Random(seed))
    return values, [m.flat.reshape(x.shape) for m, x in zip(memories, xs, strict=True)]


def differences(got: Sequence[Any], want: Sequence[Array], what: str) -> list[str]:
    """Lines that name what is not the same, bit for bit but for the sign of zero."""
    out = []
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        x = np.asarray(g)
        if x.dtype != w.dtype or x.shape != w.shape or not np.array_equal(x, w):
            have, wanted = f"{x.dtype}{list(x.shape)} {x.tolist()}", f"{w.dtype}{list(w.shape)} {w.tolist()}"
            out.append(f"{what} {k} is {have}, not {wanted}")
    return out


def check(graph: Graph, seed: int) -> list[str]:
    """Run a graph by itself -> what differs from the judge's memory; no lines: nothing."""
    xs = contents(graph, seed)
    want = expected(graph, seed, xs)
    arrays = [fgrad.numpy.array(x) for x in xs]
    nodes = build(graph, [a.as_node() for a in arrays])
    said: list[str] = []
    for _ in range(2):
        try:
            got = run_graph(nodes)
        except OrderingError as error:
            said.append(str(error))
        else:
            if said:
                return [f"gives values, after the error {said[0]}"]
            if want.must:
                return [f"gives values, instead of an error with one of the words {want.must}"]
            return differences(got, want.values, "value") + differences(arrays, want.final, "buffer")
    if said[0] != said[1]:
        return [f"raises {said[1]}, after {said[0]}"]
    if not any(word in said[0] for word in want.may):
        return [f"raises {said[0]}, instead of {want.must or 'values'}"]
    return differences(arrays, xs, "after the error, buffer")


def check_together(group: Sequence[tuple[Graph, int]]) -> list[str]:
    """The same for several (graph, seed), those without a conflict as one program.

    Some groups run a second time, over what the first has left.
    """
    lines: list[str] = []
    calm: list[tuple[Graph, int, list[Array], list[Any]]] = []
    for graph, seed in group:
        if conflicts(graph, seed, is_strict=not has_computed_places(graph)):
            lines += check(graph, seed)
        else:
            xs = contents(graph, seed)
            calm.append((graph, seed, xs, [fgrad.numpy.array(x) for x in xs]))
    shown: list[tuple[list[Any], list[Array], str]] = []
    for turn in range(2 if group[0][1] // len(group) % 4 == 0 else 1):
        nodes = [node for graph, _, _, arrays in calm for node in build(graph, [a.as_node() for a in arrays])]
        got = iter(run_graph(nodes))
        for k, (graph, seed, xs, arrays) in enumerate(calm):
            values, final = carried_out(graph, seed, xs)
            shown.append(([next(got) for _ in values], values, f"seed {seed}, turn {turn}: value"))
            lines += differences(arrays, final, f"seed {seed}, turn {turn}: buffer")
            calm[k] = (graph, seed, final, arrays)
    return lines + [line for values in shown for line in differences(*values)]


def variants(graph: Graph) -> Iterator[Graph]:
    """Graphs with less in them."""
    for k in range(len(graph.outs)):
        if len(graph.outs) > 1:
            yield tidy(graph._replace(outs=graph.outs[:k] + graph.outs[k + 1 :]))
    types = avals(graph)
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        for s in dict.fromkeys(node.src):
            if types[s] == types[i]:
                yield tidy(_instead(graph, i, s))
        if node.op == "AFTER" and len(node.src) > 2:
            for k in range(1, len(node.src)):
                yield _with(graph, i, node._replace(src=node.src[:k] + node.src[k + 1 :]))
        if node.op in ("STORE", "UPDATE") and node.arg[0] not in ("SET", "S"):
            yield _with(graph, i, node._replace(arg="SET" if node.op == "STORE" else ("SET", *node.arg[1:])))
        if node.op not in ("buffer", "CONST", "STORE", "CALL", "SCAN", "COND"):
            yield _with(graph, i, Node("CONST", (), (1, *types[i])))
        if node.op == "CALL":
            for body in variants(node.arg):
                yield _with(graph, i, node._replace(arg=body))


def _with(graph: Graph, i: int, node: Node) -> Graph:
    return tidy(graph._replace(nodes=(*graph.nodes[:i], node, *graph.nodes[i + 1 :])))


def _instead(graph: Graph, i: int, s: int) -> Graph:
    """Every use of node `i` uses `s`."""
    nodes = [n._replace(src=tuple([s if x == i else x for x in n.src])) for n in graph.nodes]
    return Graph(tuple(nodes), tuple([s if o == i else o for o in graph.outs]))


# ---- drawing
SIZES = (1, 2, 2, 3, 3, 4, 5, 6, 7, 0, 17, 33)
BINARY = {"bool": ("ADD", "product", "MAX", "MIN", "XOR"), "float32": ("ADD", "ADD", "product", "MAX", "MIN"),
          "int32": ("ADD", "product", "MAX", "MIN", "XOR")}  # fmt: skip


class Draw:
    """A graph in the making. Mostly it goes on from the latest contents of each buffer, sometimes not."""

    def __init__(self, rng: random.Random, buffers: Sequence[tuple[str, Shape]]) -> None:
        self.rng = rng
        self.nodes: list[Node] = []
        self.avals: list[tuple[str, Shape]] = []
        self.base: list[int | None] = []
        self.can_write: list[bool] = []
        for aval in buffers:
            self.add("buffer", (), aval, aval, base=len(self.nodes))
        self.tips = list(range(len(buffers)))  # per buffer: the node that is after all writes
        self.loose: list[list[int]] = [[] for _ in buffers]  # writes that no tip has in its past yet
        self.values: list[int] = []
        self.memory = list(self.tips)  # whatever shows storage
        self.is_pure = False  # nothing but values: the inside of a loop or branch

    def add(self, op: str, src: Sequence[int], arg: Any, aval: tuple[str, Shape], base: int | None = None,
            can_write: bool = True) -> int:  # fmt: skip
        self.nodes.append(Node(op, tuple(src), arg))
        self.avals.append(aval)
        self.base.append(base)
        self.can_write.append(base is not None and can_write)
        return len(self.nodes) - 1

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # ---- views
    def move(self, x: int, *, to_write: bool = False) -> int:
        """`x` seen through one movement op."""
        rng = self.rng
        dtype, shape = self.avals[x]
        kinds = ["RESHAPE", "SHRINK", "SHRINK"]
        if shape:
            kinds += ["FLIP", "PERMUTE"]
        if not to_write and size_of(shape) < 64:
            kinds += ["EXPAND"]
        if dtype in SAME_WIDTH:
            kinds += ["BITCAST"]
        op = rng.choice(kinds)
        src = [x]
        arg: Any
        match op:
            case "RESHAPE":
                arg = self.other_shape(size_of(shape), shape)
            case "SHRINK":
                arg, starts = self.box(shape)
                src += starts
            case "FLIP":
                arg = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))
            case "PERMUTE":
                arg = tuple(rng.sample(range(len(shape)), len(shape)))
            case "EXPAND":
                arg = ((rng.randint(0, len(shape)), rng.choice((1, 2, 3))),)
            case _:
                arg = SAME_WIDTH[dtype]
        if op in ("RESHAPE", "PERMUTE") and arg in (shape, tuple(range(len(shape)))) and len(shape) < 2:
            return x
        aval = (arg if op == "BITCAST" else dtype, _moved_shape(op, arg, shape))
        can_write = self.can_write[x] and op != "EXPAND"
        return self.add(op, src, arg, aval, self.base[x], can_write)

    def other_shape(self, size: int, shape: Shape) -> Shape:
        if not size:
            return tuple(self.rng.sample(shape, len(shape))) if self.chance(0.5) else (0,)
        parts = [n for n in (1, 2, 3, 4, 5, 6, 7) if size % n == 0]
        a = self.rng.choice(parts)
        return self.rng.choice([(size,), (a, size // a), (size // a, a), (1, a, size // a)])

    def box(self, shape: Shape) -> tuple[Any, list[int]]:
        box: list[tuple[int | None, int, int]] = []
        starts = []
        for n in shape:
            step = self.rng.choice((1, 1, 1, 2, 3))
            size = self.rng.randint(0 if self.chance(0.05) else min(n, 1), -(-n // step)) if n else 0
            if self.chance(0.4):
                size, step = n, 1
            last = n - ((size - 1) * step + 1 if size else 0)
            if 0 < n < 8 and self.chance(0.08):
                box.append((None, size, step))
                starts.append(self.fit(self.value(), "int64", ()))
            else:
                box.append((self.rng.randint(0, last), size, step))
        return tuple(box), starts

    def view(self, x: int, *, to_write: bool = False) -> int:
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            y = self.move(x, to_write=to_write)
            if size_of(self.avals[y][1]) or self.chance(0.1):
                x = y
        return x

    # ---- values
    def storage(self) -> int:
        """A node that shows a buffer: the latest contents, or now and then something older."""
        return self.rng.choice(self.memory if self.chance(0.06) else self.tips)

    def read(self) -> int:
        x = self.view(self.storage())
        if self.chance(0.5) and not self.is_pure:
            x = self.add("LOAD", (x,), "", self.avals[x], len(self.nodes))
        return x

    def value(self) -> int:
        if not self.values or self.chance(0.5):
            self.values.append(self.read())
            return self.values[-1]
        return self.rng.choice(self.values[-3:] if self.chance(0.8) else self.values)

    def fit(self, x: int, dtype: str, shape: Shape) -> int:
        """`x` as a value of that dtype and shape."""
        have, old = self.avals[x]
        n, m = size_of(old), size_of(shape)
        if old != shape:
            if not n or not m:
                return self.add("CONST", (), (self.rng.randint(0, 1), dtype, shape), (dtype, shape))
            if n != m and n > 1 and self.chance(0.3):
                axes = tuple(range(len(old)))
                x = self.add("REDUCE", (x,), ("MAX" if self.chance(0.5) else "ADD", axes), (have, ()))
                n, old = 1, ()
            if n == 1 and m > 1:
                x = self.keep("RESHAPE", x, (), (have, ()))
                x = self.add("EXPAND", (x,), tuple(enumerate(shape)), (have, shape), self.base[x], False)
            elif n != m:
                x = self.keep("RESHAPE", x, (n,), (have, (n,)))
                if n > m:
                    x = self.keep("SHRINK", x, ((self.rng.randint(0, n - m), m, 1),), (have, (m,)))
                else:
                    x = self.add("PAD", (x,), ((0, m - n, 0),), (have, (m,)))
            x = self.keep("RESHAPE", x, shape, (have, shape))
        return x if have == dtype else self.add("CAST", (x,), dtype, (dtype, shape))

    def keep(self, op: str, x: int, arg: Any, aval: tuple[str, Shape]) -> int:
        """A view of `x`, or `x` if it is that already."""
        return x if self.avals[x] == aval else self.add(op, (x,), arg, aval, self.base[x], self.can_write[x])

    def compute(self) -> int:
        rng = self.rng
        if not self.is_pure and self.chance(0.12):
            return self.loop() if self.chance(0.6) else self.branch()
        x = self.value()
        dtype, shape = self.avals[x]
        match rng.choice(("alu", "alu", "alu", "where", "reduce", "prefix", "gather", "update", "update", "constant")):
            case "where":
                c = self.add("LT", (x, self.fit(self.value(), dtype, shape)), None, ("bool", shape))
                return self.add("WHERE", (c, x, self.fit(self.value(), dtype, shape)), None, (dtype, shape))
            case "reduce" if shape and size_of(shape):
                axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))
                out = tuple([n for a, n in enumerate(shape) if a not in axes])
                return self.add("REDUCE", (x,), (rng.choice(("ADD", "MAX", "MIN")), axes), (dtype, out))
            case "prefix" if shape and dtype != "bool" and size_of(shape):
                how = (rng.choice(("ADD", "MAX", "MIN")), rng.randrange(len(shape)), self.chance(0.3))
                return self.add("PREFIX", (x,), how, (dtype, shape))
            case "gather" if shape and shape[0]:
                index = self.fit(self.value(), "int32", (rng.choice((1, 3, 5)),))
                return self.add("GATHER", (x, index), 0, (dtype, self.avals[index][1] + shape[1:]))
            case "update" if shape:
                return self.update(x)
            case "constant":
                y = self.add("CONST", (), (rng.randint(0, 3), dtype, shape), (dtype, shape))
            case _:
                y = self.fit(self.value(), dtype, shape)
        return self.add(rng.choice(BINARY.get(dtype, BINARY["int32"])) if dtype[0] != "f"
                        else rng.choice(BINARY["float32"]), (x, y), None, (dtype, shape))  # fmt: skip

    def loop(self) -> int:
        """A result of a scan over one or two arrays; what it reads may be storage."""
        rng = self.rng
        carry, const = self.value(), self.value()
        length = rng.randint(0, 3)
        rows = []
        if self.chance(0.5):
            x = self.value()
            dtype, shape = self.avals[x]
            rows = [self.fit(x, dtype, (length, *shape[1:]))] if length else []
        src = [const, carry, *rows]
        types = [self.avals[const], self.avals[carry], *[(self.avals[r][0], self.avals[r][1][1:]) for r in rows]]
        body = _pure(rng, types, [self.avals[carry], rng.choice(types)] if length else [self.avals[carry]])
        scan = self.add("SCAN", src, (body, length, 1, 1, self.chance(0.3)), ("tuple", ()))
        k = rng.randrange(len(body.outs))
        return self.add("GET", (scan,), k, _member(self.nodes[scan], k))

    def branch(self) -> int:
        """A result of one of two functions."""
        x, y = self.value(), self.value()
        types = [self.avals[x], self.avals[y]]
        bodies = tuple([_pure(self.rng, types, types[:1]) for _ in range(2)])
        cond = self.add("COND", (self.fit(self.value(), "int32", ()), x, y), bodies, ("tuple", ()))
        return self.add("GET", (cond,), 0, types[0])

    def update(self, x: int) -> int:
        dtype, shape = self.avals[x]
        mode = self.mode(dtype)
        gated = self.chance(0.2)
        box, more = (None, []) if shape[0] and self.chance(0.3) else self.box(shape)
        if box is None:
            more = [self.fit(self.value(), "int32", (self.rng.choice((1, 2, 4)),))]
            part, gate_shape = self.avals[more[0]][1] + shape[1:], self.avals[more[0]][1]
        else:
            part = gate_shape = tuple([size for _, size, _ in box])
        value = self.fit(self.value(), dtype, part)
        gates = [self.fit(self.value(), "bool", gate_shape)] if gated else []
        return self.add("UPDATE", (x, value, *more, *gates), (mode, box, gated), (dtype, shape))

    def mode(self, dtype: str) -> str:
        if self.chance(0.5):
            return "SET"
        return self.rng.choice(("ADD", "MIN", "MAX") if dtype[0] == "f" else MODES)

    # ---- writes
    def store(self) -> None:
        t = self.storage()
        root = self.root(t)
        if not self.can_write[t]:
            return
        t = self.view(t, to_write=True)
        dtype, shape = self.avals[t]
        gate_shape = shape
        if shape and shape[0] and self.chance(0.1):
            index = self.fit(self.value(), "int32", (self.rng.choice((1, 2, 4)),))
            gate_shape = self.avals[index][1]
            shape = gate_shape + shape[1:]
            t = self.add("GATHER", (t, index), 0, (dtype, shape))
        value = self.fit(self.compute() if self.chance(0.6) else self.value(), dtype, shape)
        src = [t, value]
        if self.chance(0.2):
            src.append(self.fit(self.value(), "bool", gate_shape))
        self.wrote(root, self.add("STORE", src, self.mode(dtype), ("void", ())))

    def halves(self) -> None:
        """Two writes of disjoint parts, in no order."""
        k = self.rng.randrange(len(self.tips))
        t = self.view(self.tips[k], to_write=True)
        dtype, shape = self.avals[t]
        axes = [a for a, n in enumerate(shape) if n > 1]
        if not axes or not self.can_write[t]:
            return
        axis = self.rng.choice(axes)
        n = shape[axis]
        cut = self.rng.randint(1, n - 1)
        parts = [((0, cut, 1), (cut, n - cut, 1)), ((0, -(-n // 2), 2), (1, n // 2, 2))][self.rng.randrange(2)]
        value = self.compute() if self.chance(0.6) else self.value()
        for part in parts if self.chance(0.5) else parts[::-1]:
            box = tuple([part if a == axis else (0, m, 1) for a, m in enumerate(shape)])
            sizes = tuple([size for _, size, _ in box])
            half = self.add("SHRINK", (t,), box, (dtype, sizes), self.base[t])
            write = self.add("STORE", (half, self.fit(value, dtype, sizes)), self.mode(dtype), ("void", ()))
            self.loose[k].append(write)
        if self.chance(0.8):
            self.join(k)

    def root(self, t: int) -> int:
        """The number of the buffer that `t` shows, or -1: a snapshot's own storage."""
        base = self.base[t]
        return base if base is not None and base < len(self.tips) else -1

    def wrote(self, root: int, write: int) -> None:
        if root < 0:
            return
        self.loose[root].append(write)
        if self.chance(0.9):
            self.join(root)

    def join(self, root: int) -> None:
        """The latest contents are those after all writes so far."""
        if self.loose[root]:
            t = self.tips[root]
            self.tips[root] = self.add("AFTER", (t, *self.loose[root]), None, self.avals[t], self.base[t])
            self.memory.append(self.tips[root])
            self.loose[root] = []

    def call(self) -> None:
        """A kernel that writes its first argument and perhaps its second."""
        first = self.view(self.rng.choice(self.tips), to_write=True)
        if not self.can_write[first]:
            return
        args = [first]
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            args.append(self.view(self.storage(), to_write=True) if self.chance(0.7) else self.value())
        roots = [self.root(a) if self.can_write[a] else -1 for a in args]
        writable = [k for k, r in enumerate(roots) if r >= 0 and r not in roots[:k]]
        body = _body(self.rng, [self.avals[a] for a in args], writable)
        call = self.add("CALL", args, body, ("void", ()))
        for k in accesses(body)[1]:
            self.wrote(roots[k], call)
        if self.chance(0.3):
            a = self.rng.choice(args)
            self.values.append(self.add("AFTER", (a, call), None, self.avals[a], self.base[a], self.can_write[a]))

    def after(self) -> None:
        """An order that no data asks for."""
        t, k = self.rng.randrange(len(self.tips)), self.rng.randrange(len(self.tips))
        dep = self.loose[k][-1] if self.loose[k] else self.tips[k]
        if self.chance(0.5):
            x = self.value()
            self.values.append(self.add("AFTER", (x, dep), None, self.avals[x], self.base[x], self.can_write[x]))
        else:
            x = self.tips[t]
            self.tips[t] = self.add("AFTER", (x, dep), None, self.avals[x], self.base[x])

    def steps(self, count: int, kinds: Sequence[str]) -> None:
        for _ in range(count):
            match self.rng.choice(kinds):
                case "store":
                    self.store()
                case "halves":
                    self.halves()
                case "call":
                    self.call()
                case "after":
                    self.after()
                case _:
                    self.values.append(self.compute())
        for k in range(len(self.tips)):
            self.join(k)


def _moved_shape(op: str, arg: Any, shape: Shape) -> Shape:
    if op == "SHRINK":
        return tuple([size for _, size, _ in arg])
    if op == "RESHAPE":
        return arg
    if op == "PERMUTE":
        return tuple([shape[a] for a in arg])
    if op == "EXPAND":
        out = list(shape)
        for axis, n in arg:
            out.insert(axis, n)
        return tuple(out)
    return shape


def _body(rng: random.Random, avals: Sequence[tuple[str, Shape]], writable: Sequence[int]) -> Graph:
    """A kernel's body: some writes in a row to its first argument, some to others."""
    d = Draw(rng, avals)
    for k, _ in enumerate(avals):
        d.can_write[k] = k in writable
    d.steps(rng.randint(1, 2), ("store", "store", "store", "compute", "compute", "call"))
    if d.tips[0] == 0:
        value = d.fit(d.value(), *avals[0])
        d.wrote(0, d.add("STORE", (0, value), "SET", ("void", ())))
        d.join(0)
    return tidy(_graph(d, [t for k, t in enumerate(d.tips) if t != k]))


def _pure(rng: random.Random, avals: Sequence[tuple[str, Shape]], results: Sequence[tuple[str, Shape]]) -> Graph:
    """The body of a loop or branch: from values to values."""
    d = Draw(rng, avals)
    d.is_pure = True
    return tidy(_graph(d, [d.fit(d.compute(), *aval) for aval in results]))


def _graph(d: Draw, outs: Sequence[int]) -> Graph:
    return Graph(tuple(d.nodes), tuple(outs))


def tidy(graph: Graph) -> Graph:
    """The same without nodes that nothing asks for; buffers stay."""
    needed = set(graph.outs) | {i for i, node in enumerate(graph.nodes) if node.op == "buffer"}
    for i in range(len(graph.nodes) - 1, -1, -1):
        if i in needed:
            needed.update(graph.nodes[i].src)
    new = {old: k for k, old in enumerate(sorted(needed))}
    nodes = [Node(n.op, tuple([new[s] for s in n.src]), n.arg) for i, n in enumerate(graph.nodes) if i in needed]
    return Graph(tuple(nodes), tuple([new[o] for o in graph.outs]))


def draw(rng: random.Random, most: int = 6) -> Graph:
    """A random graph."""

    def shape() -> Shape:
        n = rng.choice((0, 1, 1, 2, 2, 2, 3))
        sizes = [rng.choice(SIZES) for _ in range(n)]
        return tuple(sizes) if size_of(tuple(sizes)) <= 600 else tuple([min(n, 4) for n in sizes])

    first = rng.choice(DTYPES)
    d = Draw(rng, [(first if rng.random() < 0.6 else rng.choice(DTYPES), shape()) for _ in range(rng.randint(1, 3))])
    d.steps(rng.randint(2, most), ("store", "store", "store", "halves", "compute", "compute", "call", "after"))
    shown = rng.sample(d.values, min(len(d.values), rng.randint(0, 2)))
    return tidy(_graph(d, [*shown, *d.tips]))
