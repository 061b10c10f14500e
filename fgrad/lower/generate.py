"""Kernel tree to LLVM text: one function `void name(ptr frame, i64 task, i64 worker)`.

The frame holds words: 0 the scratch memory of all workers, 1 the bytes of it one worker has, 2
the runtime table, or the phase of a kernel of several, then the buffers in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.lower.alu import Alu, element, memory_element
from fgrad.lower.emit import I64, Emitter
from fgrad.lower.evaluate import Evaluator, Value
from fgrad.lower.index import Cond, Expr
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
from fgrad.lower.limits import Limits
from fgrad.lower.sort_emit import SortWriter
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, accumulator
from fgrad.uop.op import Mode, Op

FRAME_HEAD = 3
MODE_OP = {Mode.ADD: Op.ADD, Mode.MUL: Op.MUL, Mode.MIN: Op.MIN, Mode.MAX: Op.MAX}
CALLS: dict[str, Callable[[Any, Call], None]] = {}  # special forms, by Call.name: (Writer, Call)


def identity(op: Op, dtype: DType) -> object:
    """Where an accumulator starts (-0.0 for float sums: x + -0.0 is x for every x)."""
    if dtype.is_float:
        return {Op.ADD: -0.0, Op.MUL: 1.0, Op.MAX: float("-inf"), Op.MIN: float("inf")}[op]
    lo, hi = dt.int_range(dtype)
    if op is Op.AND:
        return hi if not dtype.is_signed else -1
    return {Op.ADD: 0, Op.MUL: 1, Op.MAX: lo, Op.MIN: hi, Op.OR: 0, Op.XOR: 0}[op]


class Writer:
    """Writes one kernel. `ev` evaluates; `copies` are the unrolled copies now being written."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        width: int,
        limits: Limits,
        declarations: set[str],
        helpers: dict[str, str],
    ) -> None:
        self.kernel = kernel
        self.limits = limits
        self.width = width
        self.e = Emitter(name, "ptr noalias %f, i64 %task, i64 %worker", declarations, helpers)
        buffers = [self._word(FRAME_HEAD + i, "ptr") for i in range(len(kernel.buffers))]
        scratch: list[str] = []
        offsets, size = kernel.scratch_offsets
        if size:
            base, per = self._word(0, "ptr"), self._word(1, "i64")
            own = self.e.value(f"mul i64 %worker, {per}", per)
            mine = self.e.pointer(base, own)
            scratch = [self.e.pointer(mine, o) for o in offsets]
        self.ev = Evaluator(self.e, kernel, width, limits, buffers, scratch)
        self.copies: list[int] = [0]
        self.tail_lanes = 0
        self.accs: dict[tuple[Acc, int], str] = {}
        self._folds: dict[int, frozenset[Acc]] = {}
        self._wide_accs: set[Acc] = set()  # carried in lanes
        self._kept_before = dict(self.ev.kept)  # as the vector loop now written began

    def _word(self, i: int, kind: str) -> str:
        at = self.e.pointer("%f", i, "i64")
        return self.e.value(f"load {kind}, ptr {at}, align 8", at)

    def text(self) -> str:
        """The whole function."""
        self.run(self.kernel.body)
        return self.e.finish()

    # ---- statements
    def run(self, body: Sequence[Stmt]) -> None:
        for s in body:
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
                    form = CALLS.get(s.name)
                    if form is None:
                        self.run(s.body)
                    else:
                        form(self, s)
                case Sort():
                    phase = self._word(2, "i64") if self.kernel.phases > 1 else ""
                    ev = self.ev
                    SortWriter(self.e, self.kernel, s, ev.buffers, ev.scratch, self.limits.vector_bytes).write(phase)

    def _at(self, u: int) -> None:
        if self.ev.open is not None:
            self.ev.open.u = u

    # ---- loops
    def folded(self, body: Sequence[Stmt]) -> frozenset[Acc]:
        """The accumulators that statements fold into."""
        out: set[Acc] = set()
        for s in body:
            if isinstance(s, Fold):
                out.add(s.acc)
            elif isinstance(s, Loop | Reduction | Call):
                known = self._folds.get(id(s))
                if known is None:
                    known = self._folds[id(s)] = self.folded(s.body)
                out |= known
        return frozenset(out)

    def _carried(self, body: Sequence[Stmt]) -> list[tuple[Acc, int]]:
        folded = self.folded(body)
        return [key for key in self.accs if key[0] in folded]

    def _acc_type(self, acc: Acc) -> str:
        kind = element(accumulator(acc.node.dtype))
        return self.ev.wide.t(kind) if acc in self._wide_accs else kind

    def _through(self, keys: list[tuple[Acc, int]], lo: I64, hi: I64, by: int, body: Callable[[I64], None]) -> None:
        """A loop that carries the accumulators `keys`."""

        def inside(position: I64, values: list[str]) -> list[str]:
            looped = isinstance(position, str)
            if looped:
                self.ev.memo.append({})
            for key, v in zip(keys, values, strict=True):
                self.accs[key] = v
            body(position)
            if looped:
                self.ev.memo.pop()
            return [self.accs[key] for key in keys]

        carried = [(self._acc_type(acc), self.accs[acc, u]) for acc, u in keys]
        after = self.e.loop(lo, hi, by, carried, inside)
        for key, v in zip(keys, after, strict=True):
            self.accs[key] = v

    def _loop(self, s: Loop) -> None:
        if s.kind is LoopKind.VEC and self.width > 1:
            self._vector_loop(s)
            return
        e = self.e
        lo: I64 = 0
        hi = end = self._end(s)
        if s.kind is LoopKind.TASK and self.kernel.tasks > 1:
            tasks = self.kernel.tasks
            per = self._quotient(e.add(end, tasks - 1), tasks)
            assert not isinstance(per, int) or per * (tasks - 1) < s.size, "a task without work"
            lo = e.mul2("%task", per)
            hi = e.minimum(e.add(lo, per), end)

        def body(position: I64) -> None:
            if isinstance(position, int):
                self.ev.memo.append({})
            self.ev.position[s.range] = position
            self.run(s.body)
            if isinstance(position, int):
                self.ev.memo.pop()

        keys = self._carried(s.body)
        before = [self.accs[key] for key in keys]
        if s.alone:
            self.accs |= {key: self._start(key[0]) for key in keys}
        if isinstance(end, int):
            self._through(keys, lo, hi, 1, body)
        else:
            self._through_any(keys, lo, hi, body)
        if s.alone:
            for key, old in zip(keys, before, strict=True):
                alu = self.ev.wide if key[0] in self._wide_accs else self.ev.scalar
                self.accs[key] = alu.combine(key[0].op, accumulator(key[0].node.dtype), old, self.accs[key])

    def _through_any(self, keys: list[tuple[Acc, int]], lo: I64, hi: I64, body: Callable[[I64], None]) -> None:
        """A loop that may have no position at all."""
        e = self.e
        before = [self.accs[key] for key in keys]

        def then() -> list[tuple[str, str]]:
            self.ev.memo.append({})
            self._through(keys, lo, hi, 1, body)
            self.ev.memo.pop()
            return [(self._acc_type(key[0]), self.accs[key]) for key in keys]

        after = e.branch(e.value(f"icmp slt i64 {lo}, {hi}", lo, hi), then, before)
        self.accs |= dict(zip(keys, after, strict=True))

    def _start(self, acc: Acc) -> str:
        dtype = accumulator(acc.node.dtype)
        alu = self.ev.wide if acc in self._wide_accs else self.ev.scalar
        return alu.const(identity(acc.op, dtype), dtype)

    def _end(self, s: Loop) -> I64:
        """Where a loop ends."""
        return s.size if s.limit is None else self.ev.i64(s.limit)

    def _quotient(self, a: I64, by: int) -> I64:
        """a // by of a number that is not negative."""
        return a // by if isinstance(a, int) else self.e.value(f"udiv i64 {a}, {by}", a)

    def unroll(self, s: Loop) -> int:
        """Copies of a vector loop's body: as wished, or fewer where that leaves no remainder."""
        vectors = s.size // self.width
        u = max(1, s.unroll)
        while u > 1 and (vectors < u or (vectors % u and vectors < 8 * u)):
            u //= 2
        return u

    def _vector_loop(self, s: Loop) -> None:
        w, u = self.width, self.unroll(s)
        step = w * u
        main = s.size // step * step
        keys = self._carried(s.body)
        self._kept_before = dict(self.ev.kept)
        outermost = self.kernel.tasks > 1 and self.kernel.body == (s,)
        lo: I64 = 0
        hi: I64 = main
        if s.limit is not None and main:  # whole passes, one at least
            passes = self._quotient(self.e.add(self._end(s), step - 1), step)
            hi = self.e.maximum(self.e.minimum(self.e.mul(passes, step), main), step)
        if outermost:
            lo = self._share("%task", main // step, step)
            hi = self.e.minimum(self._share(self.e.add("%task", 1), main // step, step), hi)
        if main:
            wanted = [key for key in keys if key[1] < u]
            self._through(wanted, lo, hi, step, lambda base: self._pass(s, base, u, None))
        if main == s.size:
            return
        if not outermost:
            self._rest(s, main, keys)
            return
        last = self.e.value(f"icmp eq i64 %task, {self.kernel.tasks - 1}")

        def then() -> list[tuple[str, str]]:
            self.ev.memo.append({})
            self._rest(s, main, keys)
            self.ev.memo.pop()
            return []

        self.e.branch(last, then)

    def _share(self, task: I64, passes: int, step: int) -> I64:
        """Where the share of a task begins: equal shares, each of at least one pass, as a loop runs at least once."""
        tasks = self.kernel.tasks
        assert passes >= tasks, "a task without work"
        if passes % tasks == 0:
            return self.e.mul(task, passes // tasks * step)
        work = self.e.mul(task, passes)
        return self.e.mul(self.e.value(f"udiv i64 {work}, {tasks}", work), step)

    def _rest(self, s: Loop, at: int, keys: list[tuple[Acc, int]]) -> None:
        """Whole vectors the unrolled loop left, then the tail under a mask."""
        w = self.width
        whole = s.size // w * w
        first = [key for key in keys if key[1] == 0]
        if at < whole:
            self._through(first, at, whole, w, lambda base: self._pass(s, base, 1, None))
        if whole < s.size:
            self.tail_lanes = s.size - whole
            mask = "<" + ", ".join(f"i1 {int(whole + i < s.size)}" for i in range(w)) + ">"
            self._pass(s, whole, 1, mask)

    def _pass(self, s: Loop, base: I64, copies: int, tail: str | None) -> None:
        assert self.ev.open is None, "vector loops do not nest"
        saved = self.copies
        self.ev.kept = dict(self._kept_before)  # what the body keeps is read after it, not by its next pass
        self.ev.bind_vector(s.range, s.size, base)
        self.ev.tail = tail
        self.copies = list(range(copies))
        self.run(s.body)
        self.copies = saved
        self.ev.tail = None
        self.ev.open = None

    # ---- reductions
    def _vectors_inside(self, body: Sequence[Stmt]) -> list[Loop]:
        out = []
        for s in body:
            if isinstance(s, Loop):
                if s.kind is LoopKind.VEC:
                    out.append(s)
                else:
                    out += self._vectors_inside(s.body)
            elif isinstance(s, Reduction | Call):
                out += self._vectors_inside(s.body)
        return out

    def _reduction(self, s: Reduction) -> None:
        ev = self.ev
        across = ev.open is None and self.width > 1
        loops = self._vectors_inside(s.body) if across else []
        across = bool(loops)
        copies = list(range(max(self.unroll(x) for x in loops))) if across else list(self.copies)
        wide = across or ev.open is not None
        for acc in s.accs:
            if wide:
                self._wide_accs.add(acc)
            for u in copies:
                self.accs[acc, u] = self._start(acc)
        self.run(s.body)
        for acc in s.accs:
            values = [self.accs.pop((acc, u)) for u in copies]
            if across:
                x = self._across(acc, values)
                ev.bound[acc.node, -1] = ev.scalar.rounded(x, acc.node.dtype), 1
                continue
            alu = ev.wide if wide else ev.scalar
            for u, x in zip(copies, values, strict=True):
                ev.bound[acc.node, u] = alu.rounded(x, acc.node.dtype), alu.lanes

    def _across(self, acc: Acc, values: list[str]) -> str:
        """Copies in a tree, then lanes by halves."""
        dtype = accumulator(acc.node.dtype)
        kind = element(dtype)
        alu = self.ev.wide
        while len(values) > 1:
            half = (len(values) + 1) // 2
            values = [
                alu.combine(acc.op, dtype, values[i], values[i + half]) if i + half < len(values) else values[i]
                for i in range(half)
            ]
        x = values[0]
        n = self.width
        while n > 1:
            n //= 2
            whole, part = f"<{2 * n} x {kind}>", self.ev.narrow(n)
            low = ", ".join(f"i32 {i}" for i in range(n))
            high = ", ".join(f"i32 {i + n}" for i in range(n))
            a = self.e.value(f"shufflevector {whole} {x}, {whole} poison, <{n} x i32> <{low}>", x)
            b = self.e.value(f"shufflevector {whole} {x}, {whole} poison, <{n} x i32> <{high}>", x)
            if n == 1:
                a = self.e.value(f"extractelement {whole} {x}, i64 0", x)
                b = self.e.value(f"extractelement {whole} {x}, i64 1", x)
            x = part.combine(acc.op, dtype, a, b)
        return x

    def _fold(self, s: Fold) -> None:
        ev = self.ev
        acc = s.acc
        dtype = accumulator(acc.node.dtype)
        for u in self.copies:
            self._at(u)
            key = (acc, u)
            wide = acc in self._wide_accs
            alu = ev.wide if wide else ev.scalar
            new = self._combined(s, alu, dtype, self.accs[key])
            mask = self._mask(s.conds)
            if mask is not None:
                new = alu.select(mask, element(dtype), new, self.accs[key])
            self.accs[key] = new
            if acc.node.op is Op.PREFIX:
                ev.bound[acc.node, u] = alu.rounded(new, acc.node.dtype), alu.lanes

    def _combined(self, s: Fold, a: Alu, dtype: DType, old: str) -> str:
        ev, acc = self.ev, s.acc
        v = s.value

        def lift(x: Value, d: DType) -> str:
            return ev.lanes_of(x, d) if a.lanes > 1 else x[0]

        product = v.op is Op.MUL and acc.op is Op.ADD and v.dtype in (dt.float32, dt.float64)
        if product and self.limits.fma and ev.is_plain(v):
            x = lift(ev.value(v.src[0], s.index, s.conds), v.dtype)
            y = lift(ev.value(v.src[1], s.index, s.conds), v.dtype)
            return a.fma(x, y, old, element(dtype))
        x = lift(ev.value(v, s.index, s.conds), v.dtype)
        return a.combine(acc.op, dtype, x, old)

    def _mask(self, conds: tuple[Cond, ...]) -> str | None:
        """Conditions and the tail as one register of the width now written."""
        ev = self.ev
        scalar, lanes = ev.masks(conds)
        if ev.open is None:
            return scalar
        return ev.all(scalar, lanes, ev.tail)

    # ---- stores
    def _keep(self, s: Keep) -> None:
        ev = self.ev
        dtype = s.node.dtype
        pointer = ev.scratch[s.scratch]
        for u in self.copies:
            self._at(u)
            x = ev.value(s.node, s.index)
            if s.combine is not None:
                x = self._with_pieces(s, s.combine, pointer, x)
                ev.memo[-1][s.node, s.index, (), ev.instance] = x
            self._write(pointer, dtype, s.address, x, (), False)
        ev.kept[s.node] = (pointer, dtype, s.address)

    def _with_pieces(self, s: Keep, op: Op, pointer: str, x: Value) -> Value:
        """What earlier pieces of a reduction left, and this one."""
        ev = self.ev
        dtype = s.node.dtype
        alu = ev.wide if ev.open is not None else ev.scalar
        there = ev.load(pointer, dtype, s.address, (), False, 1 << 62)[0]
        start = alu.const(identity(op, dtype), dtype)
        piece = ev.i64(s.piece)
        t = alu.t(element(dtype))
        first = self.e.value(f"icmp eq i64 {piece}, 0", piece)
        old = self.e.value(f"select i1 {first}, {t} {start}, {t} {there}", first, there)
        lifted = ev.lanes_of(x, dtype) if alu is ev.wide else x[0]
        return alu.combine(op, dtype, lifted, old), alu.lanes

    def _store(self, s: Store) -> None:
        ev = self.ev
        dtype = self.kernel.buffers[s.buffer].dtype
        pointer = ev.buffers[s.buffer]
        for u in self.copies:
            self._at(u)
            x = ev.value(s.value, s.index, s.conds)
            gate = None if s.gate is None else ev.value(s.gate, s.gate_index, s.conds)
            streaming = s.streaming and s.buffer not in self.kernel.unaligned
            self._write(pointer, dtype, s.address, x, s.conds, streaming, s.mode, gate)
        if s.keep:
            ev.kept[s.value] = (pointer, dtype, s.address)

    def _write(
        self, pointer: str, dtype: DType, address: Expr, x: Value, conds: tuple[Cond, ...],
        streaming: bool, mode: Mode = Mode.SET, gate: Value | None = None,
    ) -> None:  # fmt: skip
        ev = self.ev
        rest, k = ev.split(address)
        if ev.open is None:
            self._write_scalar(pointer, dtype, ev.i64(rest), x[0], conds, mode, gate)
            return
        mask = self._mask(conds)
        if gate is not None:
            g = ev.lanes_of(gate, dt.bool_)
            mask = g if mask is None else ev.wide.both(mask, g)
        value = ev.lanes_of(x, dtype)
        if mode is not Mode.SET:
            old = ev.lanes_of(ev.load(pointer, dtype, address, conds, False, 1 << 62), dtype)
            value = ev.wide.rounded(ev.wide.combine(MODE_OP[mode], accumulator(dtype), old, value), dtype)
        kind = memory_element(dtype)
        t = ev.wide.t(kind)
        stored = ev.wide.to_memory(value, dtype)
        w = ev.wide
        if k == 1:
            p = self.e.pointer(pointer, ev.i64(rest), kind)
            if mask is None:
                align = min(self.width * dtype.itemsize, self.limits.vector_bytes) if streaming else dtype.itemsize
                note = ", !nontemporal !0" if streaming else ""
                self.e.do(f"store {t} {stored}, ptr {p}, align {align}{note}")
                return
            if dtype.itemsize < 4 and mask == ev.tail:
                self._write_first(p, kind, dtype.itemsize, stored)
                return
            name = f"@llvm.masked.store.{w.suffix(kind)}.p0"
            self.e.declare(f"declare void {name}({t}, ptr, i32, {w.i1})")
            self.e.do(f"call void {name}({t} {stored}, ptr {p}, i32 {dtype.itemsize}, {w.i1} {mask})")
            return
        assert k != 0, "lanes would store to one place"
        at = ev.vector_of(rest) if k is None else ev.vector_of((rest[0], (*rest[1], (ev.lane, k))))
        if dtype.itemsize < 4:
            self._scatter_bytes(pointer, kind, dtype.itemsize, at, stored, mask)
            return
        q = self.e.value(f"getelementptr {kind}, ptr {pointer}, {w.t('i64')} {at}", pointer, at)
        ptrs = f"<{self.width} x ptr>"
        name = f"@llvm.masked.scatter.{w.suffix(kind)}.v{self.width}p0"
        self.e.declare(f"declare void {name}({t}, {ptrs}, i32, {w.i1})")
        m = mask or w.c("i1", "true")
        self.e.do(f"call void {name}({t} {stored}, {ptrs} {q}, i32 {dtype.itemsize}, {w.i1} {m})")

    def _write_first(self, pointer: str, kind: str, size: int, x: str) -> None:
        """The first lanes of the tail, in parts of a power of two.

        A masked store of one small element is no choice: LLVM writes four bytes for it (seen in
        LLVM 22.1).
        """
        w = self.ev.wide
        at = 0
        while at < self.tail_lanes:
            n = 1 << ((self.tail_lanes - at).bit_length() - 1)
            p = self.e.pointer(pointer, at, kind)
            if n == 1:
                part = self.e.value(f"extractelement {w.t(kind)} {x}, i64 {at}", x)
                self.e.do(f"store {kind} {part}, ptr {p}, align {size}")
            else:
                order = ", ".join(f"i32 {at + i}" for i in range(n))
                t = w.t(kind)
                part = self.e.value(f"shufflevector {t} {x}, {t} poison, <{n} x i32> <{order}>", x)
                self.e.do(f"store <{n} x {kind}> {part}, ptr {p}, align {size}")
            at += n

    def _scatter_bytes(self, base: str, kind: str, align: int, at: str, x: str, mask: str | None) -> None:
        w = self.ev.wide
        for i in range(self.width):
            a = self.e.value(f"extractelement {w.t('i64')} {at}, i64 {i}", at)
            one = self.e.value(f"extractelement {w.t(kind)} {x}, i64 {i}", x)
            p = self.e.pointer(base, a, kind)
            line = f"store {kind} {one}, ptr {p}, align {align}"
            if mask is None:
                self.e.do(line)
            else:
                wanted = self.e.value(f"extractelement {w.i1} {mask}, i64 {i}", mask)
                self._guarded(wanted, line)

    def _guarded(self, condition: str, line: str) -> None:
        def then() -> list[tuple[str, str]]:
            self.e.do(line)
            return []

        self.e.branch(condition, then)

    def _write_scalar(
        self, pointer: str, dtype: DType, at: I64, x: str, conds: tuple[Cond, ...], mode: Mode,
        gate: Value | None,
    ) -> None:  # fmt: skip
        ev = self.ev
        kind = memory_element(dtype)
        condition, _ = ev.masks(conds)
        if gate is not None:
            g = gate[0]
            condition = g if condition is None else self.e.value(f"and i1 {condition}, {g}", condition, g)
        if condition == "false":
            return

        def then() -> list[tuple[str, str]]:
            p = self.e.pointer(pointer, at, kind)
            new = x
            if mode is not Mode.SET:
                old = self.e.value(f"load {kind}, ptr {p}, align {dtype.itemsize}", p, pure=False)
                old = ev.scalar.from_memory(old, dtype)
                new = ev.scalar.combine(MODE_OP[mode], accumulator(dtype), old, x)
                new = ev.scalar.rounded(new, dtype)
            stored = ev.scalar.to_memory(new, dtype)
            self.e.do(f"store {kind} {stored}, ptr {p}, align {dtype.itemsize}")
            return []

        if condition is None or condition == "true":
            then()
        else:
            self.e.branch(condition, then)
