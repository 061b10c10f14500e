"""Random programs as users write them: Refs, `.at`, loops, branches, kernels, nested jit; NumPy is the judge.

A `Program` is plain data with one interpreter and two worlds to run it in: arrays and Refs of fgrad (eagerly, or
under jit in one of several ways), and arrays of NumPy that are overwritten. All numbers are small whole ones, so
results are compared bit for bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.kernels import kernel_call, program_id
from tests.order.graphs import LARGEST, MOST, Shape, differences, is_narrowed, number_cast, size_of
from tests.order.model import NumPyRef

Aval = tuple[str, Shape]
Index = tuple[Any, ...]
Expr = tuple[Any, ...]

WAYS = ("eager", "arguments", "closed", "local", "donated", "mapped")
ROWS = 2  # a mapped program has that many rows of contents
CALLS = 2  # a jitted program runs twice: the second call takes the short way, and sees what the first left


class Statement(NamedTuple):
    """`op`, the number of the Ref or value it is about, an index with the shape it picks, a value, blocks and more."""

    op: str
    target: int = 0
    index: Index | None = None
    part: Shape = ()
    value: Expr = ()
    blocks: tuple[Any, ...] = ()
    more: Any = None


class Program(NamedTuple):
    """Refs and values by dtype and shape, statements, and the way they are run. `is_one`: the last Ref is the first."""

    refs: tuple[Aval, ...]
    values: tuple[Aval, ...]
    block: tuple[Statement, ...]
    way: str = "eager"
    is_one: bool = False

    def with_refs(self, refs: Sequence[Any]) -> tuple[Any, ...]:
        """The Refs that the statements mean, of those that there are."""
        return (*refs[:-1], refs[0]) if self.is_one else tuple(refs)


# ---- two worlds
_AT = {"set": None, "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


class NumPyWorld:
    """Statements are carried out at once."""

    xp: Any = np

    def cast(self, x: Any, dtype: str) -> Any:
        return number_cast(np.asarray(x), dtype)

    def changed(self, x: Any, how: str, index: Any, value: Any) -> Any:
        out = np.array(x)
        ufunc = _AT[how]
        if ufunc is None:
            out[index] = value
        else:
            ufunc.at(out, index, value)
        return out

    def part(self, x: Any, starts: Sequence[Any], sizes: Shape) -> Any:
        return np.array(x[self._slices(x, starts, sizes)])

    def put(self, x: Any, value: Any, starts: Sequence[Any]) -> Any:
        out = np.array(x)
        out[self._slices(x, starts, value.shape)] = value
        return out

    def _slices(self, x: Any, starts: Sequence[Any], sizes: Shape) -> tuple[slice, ...]:
        """Starts below 0 count from the end; then the part is moved until it fits in."""
        out = []
        for start, size, n in zip(map(int, starts), sizes, x.shape, strict=True):
            at = min(max(start + n if start < 0 else start, 0), n - size)
            out.append(slice(at, at + size))
        return tuple(out)

    def fori(self, n: int, body: Callable[[Any, Any], Any], values: Any) -> Any:
        for i in range(n):
            values = body(np.int32(i), values)
        return values

    def scan(self, n: int, reverse: bool, body: Callable[[Any, Any], Any], values: Any) -> tuple[Any, Any]:
        ys = []
        for i in reversed(range(n)) if reverse else range(n):
            values, y = body(np.int32(i), values)
            ys.append(y)
        return values, np.stack(ys[::-1] if reverse else ys)

    def while_(self, test: Callable[[Any], Any], body: Callable[[Any], Any], values: Any) -> Any:
        while test(values):
            values = body(values)
        return values

    def switch(self, k: Any, branches: Sequence[Callable[[Any], Any]], values: Any) -> Any:
        return branches[min(max(int(k), 0), len(branches) - 1)](values)

    def scan_rows(self, ref: NumPyRef, reverse: bool, body: Callable[[Any, Any], Any], values: Any) -> Any:
        for i in reversed(range(len(ref.x))) if reverse else range(len(ref.x)):
            values = body(ref.row(i), values)
        return values

    def map_rows(self, ref: NumPyRef, body: Callable[[Any], None]) -> None:
        for i in range(len(ref.x)):
            body(ref.row(i))

    def inside(self, how: str, f: Callable[..., Any], refs: Any, values: Any) -> Any:
        return f(refs, values)

    def kernel(self, body: Callable[..., Any], outs: Sequence[Aval], grid: int, aliases: dict[int, int],
               args: Sequence[Any]) -> list[Any]:  # fmt: skip
        made = [NumPyRef(np.zeros(shape, dtype)) for dtype, shape in outs]
        ins = [NumPyRef(a) for a in args]
        for i, o in aliases.items():
            ins[i] = made[o] = NumPyRef(args[i])
        for i in range(grid):
            body(np.int32(i), [*ins, *made])
        return [r[...] for r in made]


class FgradWorld:
    """The same through the public functions."""

    xp: Any = fnp

    def cast(self, x: Any, dtype: str) -> Any:
        return fnp.asarray(x).astype(dtype)

    def changed(self, x: Any, how: str, index: Any, value: Any) -> Any:
        return getattr(x.at[index], how)(value)

    def part(self, x: Any, starts: Sequence[Any], sizes: Shape) -> Any:
        return lax.dynamic_slice(x, starts, sizes)

    def put(self, x: Any, value: Any, starts: Sequence[Any]) -> Any:
        return lax.dynamic_update_slice(x, value, starts)

    def fori(self, n: int, body: Callable[[Any, Any], Any], values: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, v: body(i.astype("int32"), v), values)

    def scan(self, n: int, reverse: bool, body: Callable[[Any, Any], Any], values: Any) -> tuple[Any, Any]:
        return lax.scan(lambda v, i: body(i, v), values, fnp.arange(n, dtype="int32"), reverse=reverse)

    def while_(self, test: Callable[[Any], Any], body: Callable[[Any], Any], values: Any) -> Any:
        return lax.while_loop(test, body, values)

    def switch(self, k: Any, branches: Sequence[Callable[[Any], Any]], values: Any) -> Any:
        return lax.switch(k, branches, values)

    def scan_rows(self, ref: Any, reverse: bool, body: Callable[[Any, Any], Any], values: Any) -> Any:
        return lax.scan(lambda v, row: (body(row, v), None), values, ref, reverse=reverse)[0]

    def map_rows(self, ref: Any, body: Callable[[Any], None]) -> None:
        fgrad.vmap(body)(ref)

    def inside(self, how: str, f: Callable[..., Any], refs: Any, values: Any) -> Any:
        wrap = {"jit": fgrad.jit, "checkpoint": fgrad.checkpoint}[how]
        return wrap(f)(refs, values)

    def kernel(self, body: Callable[..., Any], outs: Sequence[Aval], grid: int, aliases: dict[int, int],
               args: Sequence[Any]) -> list[Any]:  # fmt: skip
        def run(*refs: Any) -> None:
            body(program_id(0).astype("int32"), refs)

        shapes = [fgrad.ShapeDtypeStruct(shape, dtype) for dtype, shape in outs]
        return list(kernel_call(run, shapes, grid=(grid,), input_output_aliases=aliases)(*args))


NUMPY, FGRAD = NumPyWorld(), FgradWorld()


# ---- one interpreter
class Run:
    """Statements in a world: `refs`, `values` (always of the avals `types`) and the number of the round `i`."""

    def __init__(self, world: Any, refs: Sequence[Any], types: Sequence[Aval], values: Sequence[Any], i: Any) -> None:
        self.world = world
        self.refs = refs
        self.types = types
        self.values = list(values)
        self.i = i

    def within(
        self, block: Sequence[Statement], values: Sequence[Any], i: Any, refs: Sequence[Any] | None = None
    ) -> tuple[Any, ...]:
        """The values after a block, here with other values to begin with, and maybe other Refs."""
        inner = Run(self.world, self.refs if refs is None else refs, self.types, values, i)
        inner.block(block)
        return tuple(inner.values)

    def block(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: Statement) -> None:
        w = self.world
        match s.op:
            case "set" | "add" | "increase" | "swap":
                ref = self.refs[s.target]
                index = self.index(s.index)
                value = self.fit(self.expr(s.value), str(ref.dtype), s.part)
                if s.op == "set":
                    ref[index] = value
                elif s.op == "add":
                    ref.addupdate(index, value)
                elif s.op == "increase":
                    ref[index] = ref[index] + value
                else:
                    self.let(s.more, ref.swap(index, value))
            case "mask":
                ref = self.refs[s.target]
                kept = ref[...]
                value = self.fit(self.expr(s.value), str(ref.dtype), ref.shape)
                ref[...] = w.xp.where(kept < value, value, kept)
            case "exchange":
                a, c = self.refs[s.target], self.refs[s.more]
                old, new = a[...], c[...]
                a[...] = self.fit(new, str(a.dtype), a.shape)
                c[...] = self.fit(old, str(c.dtype), c.shape)
            case "let":
                self.let(s.target, self.expr(s.value))
            case "at":
                dtype, _ = self.types[s.target]
                value = self.fit(self.expr(s.value), dtype, s.part)
                self.values[s.target] = w.changed(self.values[s.target], s.more, self.index(s.index), value)
            case "put":
                dtype, shape = self.types[s.target]
                value = self.fit(self.expr(s.value), dtype, s.part)
                starts = [self.fit(self.expr(e), "int32", ()) for e in s.more]
                self.values[s.target] = w.put(self.values[s.target], value, starts)
            case "fori":
                length, with_refs = s.more

                def body(i: Any, carry: Any) -> Any:
                    refs, v = carry if with_refs else (self.refs, carry)
                    v = self.within(s.blocks[0], v, i, refs)
                    return (refs, v) if with_refs else v

                first = tuple(self.values)
                carry = w.fori(length, body, (tuple(self.refs), first) if with_refs else first)
                self.values = list(carry[1] if with_refs else carry)
            case "rows":
                others = [*self.refs[: s.target], None, *self.refs[s.target + 1 :]]

                def turn_row(row: Any, v: Any) -> Any:
                    refs = [row if r is None else r for r in others]
                    return self.within(s.blocks[0], v, self.i, refs)

                self.values = list(w.scan_rows(self.refs[s.target], s.more, turn_row, tuple(self.values)))
            case "map":
                w.map_rows(self.refs[s.target], lambda row: Run(w, [row], (), (), self.i).block(s.blocks[0]))
            case "scan":
                length, reverse = s.more

                def step(i: Any, v: Any) -> Any:
                    v = self.within(s.blocks[0], v, i)
                    return v, v[s.target]

                values, ys = w.scan(length, reverse, step, tuple(self.values))
                self.values = list(values)
                self.let(s.target, ys)
            case "while":
                most, of = s.more

                def test(v: Any) -> Any:
                    inner = Run(w, self.refs, self.types, v[1:], v[0])
                    return (v[0] < most) & (inner.fit(inner.expr(of), "int32", ()) < 5)

                def turn(v: Any) -> Any:
                    return (v[0] + np.int32(1), *self.within(s.blocks[0], v[1:], v[0]))

                first = w.cast(0, "int32")
                self.values = list(w.while_(test, turn, (first, *self.values)))[1:]
            case "switch":
                k = self.fit(self.expr(s.value), "int32", ())
                branches = [lambda x, b=b: self.within(b, x[1], self.i, x[0] or None) for b in s.blocks]
                self.values = list(w.switch(k, branches, (tuple(self.refs) if s.more else (), tuple(self.values))))
            case "jit" | "checkpoint":

                def inside(refs: Any, v: Any) -> Any:
                    return self.within(s.blocks[0], v, self.i, refs)

                self.values = list(w.inside(s.op, inside, list(self.refs), tuple(self.values)))
            case "kernel":
                ins, outs, grid, aliases, targets = s.more
                args = [self.fit(self.expr(e), *aval) for e, aval in ins]

                def point(i: Any, refs: Any) -> None:
                    Run(w, refs, (), (), i).block(s.blocks[0])

                made = w.kernel(point, outs, grid, dict(aliases), args)
                for t, x in zip(targets, made, strict=True):
                    self.let(t, x)
            case _:
                raise AssertionError(s.op)

    def let(self, k: int, x: Any) -> None:
        self.values[k] = self.fit(x, *self.types[k])

    def index(self, index: Index | None) -> Any:
        """An index as Python writes it."""
        if index is None:
            return Ellipsis
        out: list[Any] = []
        for kind, *rest in index:
            match kind:
                case "slice":
                    out.append(slice(*rest))
                case "at":
                    out.append(rest[0])
                case "list":
                    out.append(np.array(rest[0], np.int32))
                case "computed":
                    n, e = rest
                    out.append(self.fit(self.expr(e), "int32", ()) % np.int32(n))
                case "computed list":
                    n, count, e = rest
                    out.append(self.fit(self.expr(e), "int32", (count,)) % np.int32(n))
        return tuple(out)

    def expr(self, e: Expr) -> Any:
        xp = self.world.xp
        match e[0]:
            case "value":
                return self.values[e[1]]
            case "ref":
                return self.refs[e[1]][self.index(e[2])]
            case "number":
                return self.world.cast(e[1], "int32")
            case "round":
                return self.i
            case "sum":
                x = self.summand(self.expr(e[1]))
                if str(x.dtype) in ("bool", "uint8"):
                    return x.max() if x.size else self.world.cast(0, str(x.dtype))
                return x.sum(dtype=x.dtype)
            case "part":
                x = self.expr(e[1])
                starts = [self.fit(self.expr(q), "int32", ()) for q in e[2]]
                return self.world.part(x, starts, e[3])
            case "sort" | "running" | "taken":
                return self.along(e[0], self.expr(e[1]), e[-1])
        x = self.expr(e[1])
        dtype = str(x.dtype)
        if e[0] == "dot":
            if not x.shape or not x.size:
                return x
            y = self.fit(self.expr(e[2]), dtype, (x.shape[-1], 3))
            return self.bounded(xp.matmul(self.bounded(x), self.bounded(y)))
        y = self.fit(self.expr(e[2]), dtype, x.shape)
        match e[0]:
            case "+":
                return self.bounded(x + y)
            case "*":
                return self.bounded(x * y)
            case "max":
                return xp.maximum(x, y)
            case "min":
                return xp.minimum(x, y)
            case "<":
                return x < y
            case "where":
                return xp.where(x < y, x, y)
        raise AssertionError(e[0])

    def along(self, op: str, x: Any, e: Expr) -> Any:
        """What moves elements along the last axis."""
        xp = self.world.xp
        if not x.shape or not x.size:
            return x
        if op == "sort":
            return xp.sort(x, axis=-1)
        if op == "running":
            x = self.fit(x, "int32", x.shape) if str(x.dtype) == "bool" else x
            return self.bounded(xp.cumsum(self.summand(x), axis=-1, dtype=x.dtype))
        return xp.take(x, self.fit(self.expr(e), "int32", (3,)) % np.int32(x.shape[-1]), axis=-1)

    def bounded(self, x: Any, most: float = MOST) -> Any:
        """Floats stay small, and thereby exact."""
        if str(x.dtype)[0] != "f":
            return x
        return self.world.xp.minimum(self.world.xp.maximum(x, x.dtype.type(-most)), x.dtype.type(most))

    def summand(self, x: Any) -> Any:
        """Floats are cut before they are added up, so that the order of the sum does not matter."""
        return self.bounded(x, LARGEST)

    def fit(self, x: Any, dtype: str, shape: Shape) -> Any:
        """`x` as an array of that dtype and shape."""
        xp = self.world.xp
        n, m = size_of(x.shape), size_of(shape)
        if x.shape != shape:
            if not n or not m:
                return xp.zeros(shape, dtype)
            if n == 1 or n < m:
                x = xp.broadcast_to(x if not x.shape else x.reshape((n,))[0], shape)
            else:
                x = x.reshape((n,))[:m].reshape(shape)
        if str(x.dtype) == dtype:
            return x
        if is_narrowed(str(x.dtype), dtype):
            x = xp.minimum(xp.maximum(x, x.dtype.type(-LARGEST)), x.dtype.type(LARGEST))
        return self.world.cast(x, dtype)


# ---- whole programs
def contents(program: Program, seed: int) -> tuple[list[Any], list[Any]]:
    """What Refs and values are at first."""
    rng = np.random.default_rng(seed)

    def fill(aval: Aval) -> Any:
        dtype, shape = aval
        low, high = {"bool": (0, 2), "uint8": (0, 9)}.get(dtype, (-4, 8))
        return rng.integers(low, high, shape).astype(dtype)

    return [fill(a) for a in program.refs], [fill(a) for a in program.values]


def expected(program: Program, seed: int) -> tuple[list[Any], list[Any]]:
    """Refs and values as NumPy leaves them."""
    if program.way != "mapped":
        return _expected(program, contents(program, seed))
    rows = [_expected(program, contents(program, seed + row)) for row in range(ROWS)]
    refs, values = [list(map(np.stack, zip(*[row[k] for row in rows], strict=True))) for k in (0, 1)]
    return refs, values


def _expected(program: Program, first: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
    refs, values = first
    held = program.with_refs([NumPyRef(x) for x in refs])
    with np.errstate(all="ignore"):
        for _ in range(CALLS if program.way in ("arguments", "closed", "donated") else 1):
            run = Run(NUMPY, held, program.values, values, np.int32(0))
            run.block(program.block)
            values = run.values
    return [r.x for r in held], [np.asarray(v) for v in values]


def check_together(group: Sequence[tuple[Program, int]]) -> list[str]:
    """Run the programs of each way as one -> what differs from NumPy."""
    lines: list[str] = []
    for way in WAYS:
        same = [(p, s) for p, s in group if p.way == way]
        lines += _check_way(way, same) if same else []
    return lines


def _check_way(way: str, group: Sequence[tuple[Program, int]]) -> list[str]:
    programs = [p for p, _ in group]
    first = [contents(p, s) for p, s in group]
    values: Any = tuple([tuple([fnp.array(x) for x in v]) for _, v in first])
    refs: Any = tuple([p.with_refs([fgrad.new_ref(fnp.array(x)) for x in r])
                       for p, (r, _) in zip(programs, first, strict=True)])  # fmt: skip

    def whole(refs: Any, values: Any) -> Any:
        out = []
        for p, r, v in zip(programs, refs, values, strict=True):
            run = Run(FGRAD, r, p.values, v, fnp.asarray(np.int32(0)))
            run.block(p.block)
            out.append(tuple(run.values))
        return tuple(out)

    def local(contents: Any, values: Any) -> Any:
        made = [[fgrad.new_ref(x) for x in r] for r in contents]
        inner = tuple([p.with_refs(r) for p, r in zip(programs, made, strict=True)])
        return whole(inner, values), tuple([tuple([r[...] for r in rs]) for rs in inner])

    match way:
        case "eager":
            values = whole(refs, values)
            final = [[r[...] for r in rs] for rs in refs]
        case "local":
            values, final = fgrad.jit(local)(tuple([tuple([r[...] for r in rs]) for rs in refs]), values)
        case "mapped":
            rows = [[contents(p, s + row) for row in range(ROWS)] for p, s in group]
            stacked = [[list(map(np.stack, zip(*[r[k] for r in of], strict=True))) for of in rows] for k in (0, 1)]
            values, final = fgrad.jit(fgrad.vmap(local))(*stacked)
        case _:
            jitted = {
                "arguments": lambda: fgrad.jit(whole),
                "closed": lambda: (lambda f: lambda _, v: f(v))(fgrad.jit(lambda v: whole(refs, v))),
                "donated": lambda: fgrad.jit(whole, donate_argnums=(1,)),
            }[way]()
            for _ in range(CALLS):
                values = jitted(refs, values)
            final = [[r[...] for r in rs] for rs in refs]
    lines = []
    for (p, s), got_refs, got in zip(group, final, values, strict=True):
        want_refs, want = expected(p, s)
        lines += differences(got_refs, want_refs, f"seed {s} {way}: ref")
        lines += differences(got, want, f"seed {s} {way}: value")
    return lines


def check(program: Program, seed: int) -> list[str]:
    """Run a program by itself -> what differs from NumPy; no lines: nothing."""
    return check_together([(program, seed)])


# ---- drawing
SHAPES: tuple[Shape, ...] = (
    (), (1,), (3,), (5,), (2, 3), (3, 4), (2, 1, 3), (17,), (0,), (4, 4), (2, 0), (33,), (5, 19), (17, 33),
)  # fmt: skip
DTYPES = ("float32", "int32", "bool", "uint8", "float64")
SIMPLE = ("set", "set", "add", "increase", "swap", "mask", "exchange", "let", "at", "at", "put")
OPERATIONS = ("+", "+", "+", "*", "*", "max", "min", "<", "where", "sum", "part", "dot", "sort", "running", "taken")
NESTED = ("fori", "scan", "while", "switch", "jit", "kernel", "kernel", "checkpoint", "rows", "map")


class Draw:
    """A program in the making."""

    def __init__(self, rng: random.Random, refs: Sequence[Aval], values: Sequence[Aval]) -> None:
        self.rng = rng
        self.refs = refs
        self.values = values

    def block(self, count: int, depth: int) -> tuple[Statement, ...]:
        return tuple([s for _ in range(count) if (s := self.statement(depth)) is not None])

    def statement(self, depth: int) -> Statement | None:
        rng = self.rng
        op = rng.choice(NESTED) if depth and self.values and rng.random() < 0.4 else rng.choice(SIMPLE)
        if op in NESTED:
            return self.nested(op, depth - 1)
        if op in ("let", "at", "put", "swap") and not self.values:
            op = "set"
        if op in ("let", "at", "put"):
            v = rng.randrange(len(self.values))
            dtype, shape = self.values[v]
            if op == "let":
                return Statement("let", v, value=self.expr(2))
            if op == "put":
                sizes = tuple([rng.randint(min(n, 1), n) for n in shape])
                starts = tuple([self.expr(0) for _ in shape])
                return Statement("put", v, part=sizes, value=self.expr(1), more=starts)
            index, part = self.index(shape)
            how = rng.choice(("set", "min", "max") if dtype == "bool" else ("set", "add", "min", "max", "set"))
            return Statement("at", v, index, part, self.expr(1), more=how)
        r = rng.randrange(len(self.refs))
        if op == "exchange":
            return Statement(op, r, more=rng.randrange(len(self.refs)))
        if op == "mask":
            return Statement(op, r, value=self.expr(1))
        index, part = self.index(self.refs[r][1])
        more = rng.randrange(len(self.values)) if op == "swap" else None
        return Statement(op, r, index, part, self.expr(2), more=more)

    def nested(self, op: str, depth: int) -> Statement | None:
        rng = self.rng
        if op in ("rows", "map"):
            return self.rows(op, depth)
        count = rng.choice((2, 3)) if op == "switch" else 1
        blocks = tuple([self.block(rng.randint(1, 2), depth) for _ in range(count)])
        v = rng.randrange(len(self.values))
        match op:
            case "fori":
                return Statement(op, blocks=blocks, more=(rng.randint(0, 4), rng.random() < 0.2))
            case "scan":
                return Statement(op, v, blocks=blocks, more=(rng.randint(1, 4), rng.random() < 0.3))
            case "while":
                return Statement(op, blocks=blocks, more=(rng.randint(0, 4), self.expr(1)))
            case "switch":
                return Statement(op, value=self.expr(1), blocks=blocks, more=rng.random() < 0.2)
            case "kernel":
                return self.kernel()
        return Statement(op, blocks=blocks)

    def rows(self, op: str, depth: int) -> Statement | None:
        """Every row of a Ref is a Ref: one after the other, where it stands for the whole, or all at once."""
        r = self.rng.randrange(len(self.refs))
        dtype, shape = self.refs[r]
        if not shape or not shape[0]:
            return None
        row = (dtype, shape[1:])
        if op == "map":
            return Statement(op, r, blocks=(Draw(self.rng, [row], ()).block(self.rng.randint(1, 2), 0),))
        inner = Draw(self.rng, [*self.refs[:r], row, *self.refs[r + 1 :]], self.values)
        return Statement(op, r, blocks=(inner.block(self.rng.randint(1, 2), depth),), more=self.rng.random() < 0.3)

    def kernel(self) -> Statement:
        rng = self.rng
        outs = tuple([rng.choice(self.values) for _ in range(rng.randint(1, 2))])
        ins = [(self.expr(1), rng.choice((*self.values, *self.refs))) for _ in range(rng.randint(1, 2))]
        aliases = []
        for o, aval in enumerate(outs):
            if o < len(ins) and rng.random() < 0.6:
                ins[o] = (ins[o][0], aval)
                aliases.append((o, o))
        inner = Draw(rng, [*[aval for _, aval in ins], *outs], ())
        block = inner.block(rng.randint(1, 3), 0)
        targets = tuple([rng.randrange(len(self.values)) for _ in outs])
        return Statement("kernel", blocks=(block,), more=(tuple(ins), outs, rng.randint(1, 4), tuple(aliases), targets))

    def index(self, shape: Shape) -> tuple[Index | None, Shape]:
        """An index, and the shape of what it picks."""
        rng = self.rng
        if not shape or 0 in shape or rng.random() < 0.25:
            return None, shape
        out: list[Any] = []
        advanced = False
        for n in shape[: rng.randint(1, len(shape))]:
            kind = rng.choice(("slice", "slice", "slice", "at", "computed", "list", "computed list"))
            if "list" in kind and advanced:
                kind = "slice"
            if kind in ("at", "computed") and advanced:
                kind = "slice"  # NumPy moves axes where the two mix
            if "list" in kind and any(k[0] in ("at", "computed") for k in out):
                kind = "slice"
            match kind:
                case "slice":
                    out.append(("slice", *self.slice(n)))
                case "at":
                    out.append(("at", rng.randint(-n, n - 1)))
                case "computed":
                    out.append(("computed", n, self.expr(0)))
                case "list":
                    out.append(("list", tuple([rng.randrange(n) for _ in range(rng.randint(1, 3))])))
                    advanced = True
                case _:
                    out.append(("computed list", n, rng.randint(1, 3), self.expr(0)))
                    advanced = True
        index = tuple(out)
        return index, np.empty(shape, np.int8)[_stand_in(index)].shape

    def slice(self, n: int) -> tuple[int | None, int | None, int | None]:
        rng = self.rng
        match rng.randrange(5):
            case 0:
                return None, None, None
            case 1:
                return None, None, -1
            case 2:
                return rng.randrange(n), None, 2
            case 3:
                return None, rng.randint(1, n), None
        a = rng.randint(0, n - 1)
        return a, rng.randint(a, n) if rng.random() < 0.1 else rng.randint(a + 1, n), None

    def expr(self, depth: int) -> Expr:
        rng = self.rng
        if depth and rng.random() < 0.6:
            op = rng.choice(OPERATIONS)
            if op in ("sum", "sort", "running"):
                return op, self.expr(depth - 1)
            if op == "part":
                leaf = self.leaf()
                shape = self.shape(leaf)
                return op, leaf, tuple([self.leaf() for _ in shape]), tuple([rng.randint(min(n, 1), n) for n in shape])
            return op, self.expr(depth - 1), self.expr(depth - 1)
        return self.leaf()

    def leaf(self) -> Expr:
        rng = self.rng
        kind = rng.choice(("value", "value", "ref", "ref", "ref", "number", "round"))
        if kind == "value" and self.values:
            return kind, rng.randrange(len(self.values))
        if kind == "number":
            return kind, rng.randint(-2, 3)
        if kind == "round":
            return (kind,)
        r = rng.randrange(len(self.refs))
        return "ref", r, self.plain_index(self.refs[r][1])

    def plain_index(self, shape: Shape) -> Index | None:
        if not shape or 0 in shape or self.rng.random() < 0.5:
            return None
        return (("slice", *self.slice(shape[0])),)

    def shape(self, leaf: Expr) -> Shape:
        if leaf[0] == "value":
            return self.values[leaf[1]][1]
        if leaf[0] != "ref":
            return ()
        shape = self.refs[leaf[1]][1]
        return shape if leaf[2] is None else np.empty(shape, np.int8)[_stand_in(leaf[2])].shape


def _stand_in(index: Index) -> Any:
    """An index that picks as much, with zeros for what is computed."""
    out: list[Any] = []
    for kind, *rest in index:
        if kind == "slice":
            out.append(slice(*rest))
        elif kind == "list":
            out.append(np.array(rest[0]))
        elif kind == "computed list":
            out.append(np.zeros(rest[1], int))
        else:
            out.append(0)
    return tuple(out)


def draw(rng: random.Random) -> Program:
    """A random program."""

    def avals(count: int) -> tuple[Aval, ...]:
        return tuple([(rng.choice((dtype, dtype, rng.choice(DTYPES))), rng.choice(shapes)) for _ in range(count)])

    dtype = rng.choice(DTYPES)
    shapes = rng.sample(SHAPES, 2)
    refs, values = avals(rng.randint(1, 2)), avals(rng.randint(1, 2))
    way = rng.choice((*WAYS, *WAYS[1:]))
    block = Draw(rng, refs, values).block(rng.randint(1, 3), 1 if way == "eager" else 2)
    is_one = len(refs) > 1 and refs[0] == refs[-1] and rng.random() < 0.4 and not _takes_rows(block)
    return Program(refs, values, block, way, is_one)


def _takes_rows(block: Sequence[Statement]) -> bool:
    return any(s.op in ("rows", "map") or any(map(_takes_rows, s.blocks)) for s in block)


# ---- making smaller
def variants(program: Program) -> Iterator[Program]:
    """Programs with less in them."""
    for block in _smaller(program.block):
        yield program._replace(block=block)
    if program.way != "eager":
        yield program._replace(way="eager")


def _smaller(block: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    for k, s in enumerate(block):
        yield block[:k] + block[k + 1 :]
        if s.op in ("fori", "scan", "while", "switch", "jit", "checkpoint"):
            for inner in s.blocks:
                yield block[:k] + inner + block[k + 1 :]
        for j, inner in enumerate(s.blocks):
            for less in _smaller(inner):
                yield (*block[:k], s._replace(blocks=s.blocks[:j] + (less,) + s.blocks[j + 1 :]), *block[k + 1 :])
        for e in _simpler(s.value):
            yield (*block[:k], s._replace(value=e), *block[k + 1 :])


def _simpler(e: Expr) -> Iterator[Expr]:
    if e and e[0] not in ("value", "ref", "number", "round"):
        yield e[1]
        if e[0] not in ("sum", "part", "sort", "running"):
            yield e[2]
            yield from ((e[0], e[1], q) for q in _simpler(e[2]))
        yield from ((e[0], q, *e[2:]) for q in _simpler(e[1]) if e[0] != "part")
    elif e and e[0] != "number":
        yield "number", 1
