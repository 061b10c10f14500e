"""Kernel trees interpreted: the judge of lowering.

Every access is checked against the size of what it touches. Loops run as arrays of positions
where that changes nothing (see `together`), so that checking everything stays affordable. Tasks
run from the last to the first: a kernel that leans on their order is found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fgrad.errors import BadAccessError, SpecError
from fgrad.lower.index import Atom, AtomKind, Expr
from fgrad.lower.kernel import (
    Acc,
    Call,
    Fold,
    Keep,
    Kernel,
    Loop,
    LoopKind,
    Reduction,
    Sort,
    Stmt,
    Store,
)
from fgrad.lower.render.elements import MODE_OP, apply, start_of, ufunc
from fgrad.lower.render.tasks import Touched
from fgrad.lower.render.together import Together
from fgrad.lower.render.walk import Conds, Views, Walk
from fgrad.uop.dtype import SMALL_FLOATS, DType, accumulator
from fgrad.uop.node import UOp, const_value
from fgrad.uop.op import Mode, Op

Array = npt.NDArray[Any]


@dataclass(slots=True, eq=False)
class _Space:
    """Memory an index goes into: a buffer, or scratch (whose elements are `defined` once they
    were kept).
    """

    name: str
    elements: Array
    defined: npt.NDArray[np.bool_] | None = None


class PythonKernel:
    """A kernel ready to be interpreted: `run(buffers)` on one flat array for each of
    `kernel.buffers`.

    Raises BadAccessError for an index out of bounds or scratch read before it was written,
    SpecError for a tree that means nothing.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.views = Views(kernel)
        self.together: dict[tuple[int, ...], Together] = {}
        self.injective: dict[tuple[Expr, tuple[int, ...]], bool] = {}

    def run(self, buffers: Sequence[Array | None]) -> None:
        """Run once. None stands for a buffer that only special forms use, and their meaning does
        not.
        """
        if len(buffers) != len(self.kernel.buffers):
            raise BadAccessError(
                f"kernel {self.kernel.name} has {len(self.kernel.buffers)} buffers, "
                f"got {len(buffers)}"
            )
        for i, (array, b) in enumerate(zip(buffers, self.kernel.buffers, strict=True)):
            if array is not None and (array.dtype, array.shape) != (b.dtype.np, (b.size,)):
                raise BadAccessError(
                    f"kernel {self.kernel.name} needs {b.size} elements of {b.dtype} as "
                    f"buffer {i}, got {array.dtype} of shape {array.shape}"
                )
        same = self._same(buffers)
        if same not in self.together:
            self.together[same] = Together(self.kernel, self.views, same)
        with np.errstate(all="ignore"):
            run = _Run(self, self.together[same], buffers)
            run.body(self.kernel.body)

    def _same(self, buffers: Sequence[Array | None]) -> tuple[int, ...]:
        """For each buffer the first one in the same memory. Refuses those that overlap
        otherwise.
        """
        out: list[int] = []
        for i, x in enumerate(buffers):
            out.append(i)
            for j, y in enumerate(buffers[:i]):
                if x is None or y is None or not np.may_share_memory(x, y):
                    continue
                if x.ctypes.data == y.ctypes.data and x.itemsize == y.itemsize:
                    out[i] = out[j]
                    break
                if self.kernel.buffers[i].written or self.kernel.buffers[j].written:
                    raise BadAccessError(
                        f"kernel {self.kernel.name}: buffers {j} and {i} overlap in part, "
                        "and one of them is written"
                    )
        return tuple(out)


class _Run(Walk[Array]):
    """One run. Positions of ranges are integers, or arrays with an axis of their own, outer loops
    first.
    """

    def __init__(
        self, kernel: PythonKernel, together: Together, buffers: Sequence[Array | None]
    ) -> None:
        super().__init__(kernel.kernel, kernel.views)
        self.injective = kernel.injective
        self.together = together
        none = np.zeros(0, np.uint8)
        self.buffers = [
            _Space(f"buffer {i}", none if x is None else x) for i, x in enumerate(buffers)
        ]
        self.scratch: list[_Space] = []
        self._new_scratch()
        chunk = together.chunk
        self.rank = _depth(self.kernel.body, {s for s, n in chunk.items() if n > 1})
        self.axes: list[tuple[int, int]] = []  # (range, positions) of the loops run as arrays
        self.position: dict[int, Array] = {}
        self.values: dict[Acc, Array] = {}
        self.outside: dict[Acc, int] = {}  # how many axes were open when the accumulator started
        self.task: int | None = None  # the range whose positions are shared out among workers
        self.touched: dict[int, Touched] = {}

    def _new_scratch(self) -> None:
        self.scratch = [
            _Space(f"scratch {i}", np.zeros(s.size, s.dtype.np), np.zeros(s.size, np.bool_))
            for i, s in enumerate(self.kernel.scratch)
        ]

    # ---- statements
    def body(self, statements: Sequence[Stmt]) -> None:
        for s in statements:
            match s:
                case Loop():
                    self._loop(s)
                case Reduction():
                    self._reduction(s)
                case Fold():
                    self._fold(s)
                case Store():
                    self._store(s)
                case Keep():
                    self._keep(s)
                case Call():
                    self.body(s.body)
                case Sort():
                    self._sort(s)

    def _loop(self, s: Loop) -> None:
        if s in self.together.shared:
            self._start_tasks(s)
        chunk = self.together.chunk[s]
        starts = range(0, s.size, chunk)
        before = dict(self.kept)
        for lo in reversed(starts) if s.kind is LoopKind.TASK else starts:
            n = min(chunk, s.size - lo)
            if chunk > 1:
                shape = [1] * self.rank
                shape[len(self.axes)] = n
                self.position[s.range] = np.arange(lo, lo + n).reshape(shape)
                self.axes.append((s.range, n))
            else:
                self.position[s.range] = np.asarray(lo)
            if s.kind is LoopKind.TASK:
                self._new_scratch()
            self.kept = dict(before)  # what the body keeps is read after it, not by its next pass
            self.open_level()
            self.body(s.body)
            self.close_level()
            if chunk > 1:
                self.axes.pop()
            del self.position[s.range]

    def _start_tasks(self, s: Loop) -> None:
        """From here on, watch the buffers of which addresses do not tell whose elements are."""
        self.task = s.range
        watched = {number: None for _, number in self.together.shared[s]}
        for i, first in enumerate(self.together.same):
            if first in watched:
                space = self.buffers[i]
                size = len(space.elements)
                if first == i:
                    self.touched[i] = Touched(self.kernel.name, space.name, size)
                else:
                    self.touched[i] = self.touched[first]

    def _reduction(self, s: Reduction) -> None:
        for acc in s.accs:
            self.values[acc] = start_of(acc.op, accumulator(acc.node.dtype))
            self.outside[acc] = len(self.axes)
            self.accs[acc.node] = acc
        self.body(s.body)

    def _fold(self, s: Fold) -> None:
        acc = s.acc
        if acc not in self.values:
            raise SpecError(
                f"kernel {self.kernel.name} folds into an accumulator that was not started"
            )
        dtype = accumulator(acc.node.dtype)
        combine = ufunc(acc.op, dtype)
        x = self.value(s.value, s.index, s.conds).astype(dtype.np, copy=False)
        mask = self.mask(s.conds)
        if mask is not None:
            x = np.where(mask, x, start_of(acc.op, dtype))
        first = self.outside[acc]
        if len(self.axes) > first:
            shape = list(x.shape) or [1] * self.rank
            for k, (_, n) in enumerate(self.axes[first:], first):
                shape[k] = n
            inner = tuple(range(first, len(self.axes)))
            x = combine.reduce(np.broadcast_to(x, shape), inner, dtype=dtype.np, keepdims=True)
        self.values[acc] = np.asarray(combine(self.values[acc], x), dtype.np)

    def _keep(self, s: Keep) -> None:
        space = self.scratch[s.scratch]
        _same_type(space, s.node.dtype, self.kernel.name)
        self.kept.pop(s.node, None)
        x = self.value(s.node, s.index)
        if s.combine is not None:
            x = self._with_pieces(s, s.combine, x)
        at, x, _ = self._targets(space, s.address, x, ())
        space.elements[at] = x
        assert space.defined is not None
        space.defined[at] = True
        self.kept[s.node] = s
        if s.combine is not None:
            self.forget()

    def _with_pieces(self, s: Keep, op: Op, x: Array) -> Array:
        """What earlier pieces of a reduction left in scratch, and this one."""
        dtype = accumulator(s.node.dtype)
        old = start_of(op, dtype)
        if (self.number(s.piece) != 0).all():
            old = self.kept_element(s, ()).astype(dtype.np)
        elif (self.number(s.piece) != 0).any():
            raise SpecError(f"kernel {self.kernel.name} combines the pieces of a sum out of order")
        return np.asarray(ufunc(op, dtype)(x.astype(dtype.np), old)).astype(s.node.dtype.np)

    def _store(self, s: Store) -> None:
        space = self.buffers[s.buffer]
        if not self.kernel.buffers[s.buffer].written:
            raise BadAccessError(
                f"kernel {self.kernel.name} stores to {space.name}, which it only reads"
            )
        _same_type(space, s.value.dtype, self.kernel.name)
        x = self.value(s.value, s.index, s.conds)
        gate = None if s.gate is None else self.value(s.gate, s.gate_index, s.conds)
        at, x, unique = self._targets(
            space, s.address, x, s.conds, gate, s.mode is Mode.SET, s.buffer
        )
        if s.mode is Mode.SET:
            space.elements[at] = x
        else:
            _accumulate(space.elements, at, x, s.mode, s.value.dtype, unique)
        if s.keep:
            self.kept[s.value] = s

    def _targets(
        self, space: _Space, address: Expr, x: Array, conds: Conds, gate: Array | None = None,
        last_wins: bool = True, buffer: int = -1,
    ) -> tuple[Array, Array, bool]:  # fmt: skip
        """-> (places to write, what, whether they all differ), in the order of the loops."""
        mask = self.mask(conds)
        if gate is not None:
            mask = gate if mask is None else mask & gate
        at = self.number(address, conds)
        shape = [1] * self.rank
        for k, (_, n) in enumerate(self.axes):
            shape[k] = n
        whole = tuple(shape)
        at = np.broadcast_to(at, whole).ravel()
        x = np.broadcast_to(x, whole).ravel()
        if mask is not None:
            wanted = np.broadcast_to(mask, whole).ravel()
            at, x = at[wanted], x[wanted]
        self._check(space, at, None, "writes")
        if buffer in self.touched and self.task in self.position:
            task = np.broadcast_to(self.position[self.task], whole).ravel()
            self.touched[buffer].write(at, task if mask is None else task[wanted])
        ranges = tuple([t for t, _ in self.axes])
        unique = self.injective.get((address, ranges))
        if unique is None:
            unique = self.together.is_injective(address, ranges)
            self.injective[address, ranges] = unique
        if not unique and last_wins:
            at, x = _last(at, x)
        return at, x, unique

    def _sort(self, s: Sort) -> None:
        key = self.buffers[s.sources[0]].elements
        if self.kernel.buffers[s.sources[0]].dtype in SMALL_FLOATS:
            key = key.astype(np.float32)
        for i in [i for i in (*s.sources, *s.targets) if i >= 0]:
            size = len(self.buffers[i].elements)
            if size < s.rows * s.n:
                raise BadAccessError(
                    f"kernel {self.kernel.name} sorts {s.rows} x {s.n} elements in buffer {i}, "
                    f"which has {size}"
                )
        count = s.rows * s.n
        order = np.argsort(key[:count].reshape(s.rows, s.n), axis=1, kind="stable")
        done: list[tuple[int, Array]] = []
        for source, target in zip(s.sources, s.targets, strict=True):
            if source < 0:
                done.append((target, order.ravel()))
            else:
                row = self.buffers[source].elements[:count].reshape(s.rows, s.n)
                done.append((target, np.take_along_axis(row, order, 1).ravel()))
        for i, x in done:
            if i >= 0:
                self.buffers[i].elements[:count] = x

    # ---- checks
    def mask(self, conds: Conds, before: Conds = ()) -> Array | None:
        """Where `conds` hold; None: everywhere."""
        out: Array | None = None
        for i, (e, lo, hi) in enumerate(conds):
            x = self.number(e, before + conds[:i])
            inside = (lo <= x) & (x < hi)
            out = inside if out is None else out & inside
        return out

    def _check(self, space: _Space, at: Array, mask: Array | None, verb: str) -> None:
        size = len(space.elements)
        wrong = (at < 0) | (at >= size)
        if mask is not None:
            wrong = wrong & mask
        if wrong.any():
            index = np.broadcast_to(at, wrong.shape)[wrong].ravel()[0]
            raise BadAccessError(
                f"kernel {self.kernel.name} {verb} element {int(index)} of {space.name}, "
                f"which has {size}{self._where(wrong)}"
            )

    def _where(self, wrong: Array) -> str:
        """Where the loops stand, for an error's text."""
        parts = [f"r{t}={int(x)}" for t, x in sorted(self.position.items()) if x.ndim == 0]
        if wrong.ndim == self.rank and self.axes:
            first = np.argwhere(wrong)[0]
            parts += [
                f"r{t}={int(self.position[t].ravel()[first[k]])}"
                for k, (t, _) in enumerate(self.axes)
                if wrong.shape[k] > 1
            ]
        return f" (at {', '.join(parts)})" if parts else ""

    # ---- values
    def constant(self, u: UOp) -> Array:
        return np.asarray(const_value(u))

    def iota(self, dtype: DType, e: Expr, conds: Conds) -> Array:
        return self.number(e, conds).astype(dtype.np)

    def accumulated(self, acc: Acc) -> Array:
        return self.values[acc].astype(acc.node.dtype.np, copy=False)

    def kept_element(self, s: Keep | Store, conds: Conds) -> Array:
        space = self.scratch[s.scratch] if isinstance(s, Keep) else self.buffers[s.buffer]
        mask = self.mask(conds)
        at = self.number(s.address, conds)
        self._check(space, at, mask, "reads")
        if mask is not None:
            at = np.where(mask, at, 0)
        if space.defined is None:
            return np.asarray(space.elements[at])
        lost = ~space.defined[at] if mask is None else mask & ~space.defined[at]
        if lost.any():
            raise BadAccessError(
                f"kernel {self.kernel.name} reads {space.name} where nothing was kept"
                f"{self._where(lost)}"
            )
        return np.asarray(space.elements[at])

    def load(self, buffer: int, u: UOp, address: Expr, conds: Conds) -> Array:
        space = self.buffers[buffer]
        _same_type(space, u.dtype, self.kernel.name)
        mask = self.mask(conds)
        at = self.number(address, conds)
        if not self.kernel.buffers[buffer].read:
            raise BadAccessError(
                f"kernel {self.kernel.name} reads {space.name}, which it only writes"
            )
        self._check(space, at, mask, "reads")
        if buffer in self.touched and self.task in self.position:
            parts = [at, self.position[self.task], True if mask is None else mask]
            every, task, wanted = np.broadcast_arrays(*parts)
            self.touched[buffer].read(every[wanted], task[wanted])
        if mask is None:
            return np.asarray(space.elements[at])
        if not len(space.elements):
            return np.broadcast_to(np.zeros((), u.dtype.np), mask.shape)
        return np.where(mask, space.elements[np.where(mask, at, 0)], np.zeros((), u.dtype.np))

    def zero_unless(self, conds: Conds, before: Conds, x: Array, dtype: DType) -> Array:
        mask = self.mask(conds, before)
        return x if mask is None else np.where(mask, x, np.zeros((), dtype.np))

    def apply(self, u: UOp, xs: list[Array]) -> Array:
        return np.asarray(apply(u, xs))

    def ranged(self, t: int) -> Array:
        at = self.position.get(t)
        if at is None:
            raise SpecError(f"kernel {self.kernel.name} uses range r{t} outside its loop")
        return at

    def sum_of(self, constant: int, terms: list[tuple[Array, int]]) -> Array:
        out = np.asarray(constant)
        for x, c in terms:
            out = out + x * c
        return np.asarray(out)

    def divided(self, kind: AtomKind, x: Array, by: int) -> Array:
        return np.asarray(x // by if kind is AtomKind.DIV else x % by)

    def number_of(self, x: Array, a: Atom, conds: Conds) -> Array:
        if x.dtype == np.uint64:  # beyond int64 means out of bounds, not negative
            x = np.minimum(x, np.uint64((1 << 63) - 1))
        x = x.astype(np.int64)
        return np.clip(x, a.lo, a.hi) if a.clamped else x


def _depth(body: Sequence[Stmt], wide: set[Loop]) -> int:
    most = 0
    for s in body:
        if isinstance(s, Loop):
            most = max(most, (s in wide) + _depth(s.body, wide))
        elif isinstance(s, Reduction | Call):
            most = max(most, _depth(s.body, wide))
    return most


def _same_type(space: _Space, dtype: DType, kernel: str) -> None:
    if space.elements.dtype != dtype.np:
        raise SpecError(f"kernel {kernel} uses {space.name} of {space.elements.dtype} as {dtype}")


def _last(at: Array, x: Array) -> tuple[Array, Array]:
    """Of several writes to one place only the last."""
    _, back = np.unique(at[::-1], return_index=True)
    if len(back) == len(at):
        return at, x
    keep = len(at) - 1 - back
    return at[keep], x[keep]


def _accumulate(target: Array, at: Array, x: Array, mode: Mode, dtype: DType, unique: bool) -> None:
    """target[at] = op(target[at], x), one after the other where places repeat."""
    combine = ufunc(MODE_OP[mode], dtype)
    if dtype not in SMALL_FLOATS and not unique:
        combine.at(target, at, x)
        return
    wide = accumulator(dtype).np
    while len(at):
        places, first = np.unique(at, return_index=True)
        new = combine(target[places].astype(wide), x[first].astype(wide))
        target[places] = new.astype(dtype.np)
        rest = np.ones(len(at), np.bool_)
        rest[first] = False
        at, x = at[rest], x[rest]
