"""Values of nodes at an index, as registers: rules 1 to 6 of `kernel`.

Every result is remembered in the innermost open level, keyed by node, index, conditions and
unrolled copy, so a node is written once where it is needed. The walk is iterative: programs are
deep.
"""

from __future__ import annotations

from fgrad.lower.alu import Alu, const_literal, element, memory_element
from fgrad.lower.emit import I64, Emitter
from fgrad.lower.index import AtomKind, Cond, Expr, Index
from fgrad.lower.kernel import Kernel
from fgrad.lower.lanes import Lanes
from fgrad.lower.limits import Limits
from fgrad.lower.views import VIEWS, step
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

Key = tuple[UOp, Index, tuple[Cond, ...], int]
_KNOWN = 1 << 20
Value = tuple[str, int]  # register (or constant), lanes: 1 or the vector width


class Evaluator(Lanes):
    """Evaluates nodes of one kernel. `buffers[i]` is the pointer register of buffer i."""

    def __init__(
        self,
        emitter: Emitter,
        kernel: Kernel,
        width: int,
        limits: Limits,
        buffers: list[str],
        scratch: list[str],
    ) -> None:
        self.scalar = Alu(emitter, 1, limits)
        self.wide = Alu(emitter, width, limits) if width > 1 else self.scalar
        super().__init__(emitter, kernel.ranges, width, self.wide)
        self.kernel = kernel
        self.limits = limits
        self.buffers = buffers
        self.scratch = scratch
        self.memo: list[dict[Key, Value]] = [{}]
        self.bound: dict[tuple[UOp, int], Value] = {}  # accumulators, by node and copy (-1: all copies)
        self.kept: dict[UOp, tuple[str, DType, Expr]] = {}  # node -> pointer, dtype, address
        self.tail: str | None = None
        self.clamped = False  # whether scalar loads must clamp their address: a lane decides if it is wanted
        self._narrow: dict[int, Alu] = {}
        self.changing = {i for i, b in enumerate(kernel.buffers) if b.written}

    # ---- state
    @property
    def copy(self) -> int:
        """Which unrolled copy is being written."""
        return self.open.u if self.open is not None else 0

    @property
    def instance(self) -> int:
        """Copies of passes at a known position differ from those of loops, which have their own
        level.
        """
        v = self.open
        if v is None:
            return 0
        return v.u if isinstance(v.base, str) else _KNOWN + v.base // self.width + v.u

    def forget(self) -> None:
        """Drop remembered values: what they were read from may have changed."""
        self.memo[-1].clear()

    # ---- entry points
    def value(self, u: UOp, index: Index, conds: tuple[Cond, ...] = ()) -> Value:
        """`u[index]` where `conds` hold; elsewhere anything, but no access out of bounds."""
        root: Key = (u, index, conds, self.instance)
        found = self._find(root)
        if found is not None:
            return found
        top = self.memo[-1]
        stack = [root]
        while stack:
            key = stack[-1]
            if self._find(key) is not None:
                stack.pop()
                continue
            u, index, conds, _ = key
            ready = self._leaf(u, index, conds)
            if ready is not None:
                top[key] = ready
                stack.pop()
                continue
            if u.op in VIEWS:
                source, inner, added = step(self.ranges, u, index)
                extra = self.ranges.conditions(added)
                below = (source, inner, conds + tuple([c for c in extra if c not in conds]), key[3])
                x = self._find(below)
                if x is None:
                    stack.append(below)
                    continue
                top[key] = x if not extra or self._is_load(source) else self._where(extra, conds, x, u.dtype)
                stack.pop()
                continue
            operands = []
            missing = False
            for s in u.src:
                below = (s, index, conds, key[3])
                x = self._find(below)
                if x is None:
                    stack.append(below)
                    missing = True
                else:
                    operands.append(x)
            if missing:
                continue
            top[key] = self._apply(u, operands)
            stack.pop()
        found = self._find(root)
        assert found is not None
        return found

    def lanes_of(self, x: Value, dtype: DType) -> str:
        """A value in all lanes."""
        return x[0] if x[1] == self.width else self.wide.splat(x[0], element(dtype))

    def integer(self, node: UOp, index: Index) -> I64:
        wanted = self._needed(node, index)
        conds = tuple([c for c in wanted if self.split(c[0])[1] == 0])
        saved = self.open, self.clamped
        self.open, self.clamped = None, self.clamped or len(conds) < len(wanted)
        x, _ = self.value(node, index, conds)
        self.open, self.clamped = saved
        return self._to_i64(self.scalar, x, node.dtype)

    def integers(self, node: UOp, index: Index) -> str:
        x = self.lanes_of(self.value(node, index, self._needed(node, index)), node.dtype)
        return self._to_i64(self.wide, x, node.dtype)

    def _needed(self, node: UOp, index: Index) -> tuple[Cond, ...]:
        """The conditions of `within`, unless the index is within bounds without them."""
        if not self.within:
            return ()
        for e, n in zip(index, node.shape, strict=True):
            lo, hi = self.ranges.bounds(e)
            if lo < 0 or hi >= n:
                return self.within
        return ()

    def _to_i64(self, alu: Alu, x: str, dtype: DType) -> str:
        kind = element(dtype)
        if kind == "i64":
            return x
        if alu.lanes == 1 and not x.startswith("%"):
            return x
        return alu.convert("sext" if dtype.is_signed else "zext", kind, x, "i64")

    # ---- rules
    def _find(self, key: Key) -> Value | None:
        for level in reversed(self.memo):
            found = level.get(key)
            if found is not None:
                return found
        return None

    def is_plain(self, u: UOp) -> bool:
        """Whether a node is computed from its sources, here."""
        found = (u, self.copy) in self.bound or (u, -1) in self.bound or u in self.kept
        return not found and u not in self.kernel.loads

    def narrow(self, lanes: int) -> Alu:
        """Ops on fewer lanes."""
        if lanes == 1:
            return self.scalar
        found = self._narrow.get(lanes)
        if found is None:
            found = self._narrow[lanes] = Alu(self.e, lanes, self.limits)
        return found

    def _is_load(self, u: UOp) -> bool:
        return u in self.kernel.loads and (u, -1) not in self.bound and u not in self.kept

    def _leaf(self, u: UOp, index: Index, conds: tuple[Cond, ...]) -> Value | None:
        loads = self.kernel.loads
        kept = self.kept.get(u)
        if kept is not None:
            return self.load(kept[0], kept[1], kept[2], (), pure=False, size=1 << 62)
        bound = self.bound.get((u, self.copy)) or self.bound.get((u, -1))
        if bound is not None:
            return bound
        if u in loads:
            b = loads[u]
            buffer = self.kernel.buffers[b]
            e = self.ranges.address(index, u.shape)
            return self.load(self.buffers[b], u.dtype, e, conds, b not in self.changing, buffer.size)
        if u.op is Op.CONST:
            return const_literal(u), 1
        if u.op is Op.IOTA:
            outer, self.within = self.within, conds
            x = self._iota(u.dtype, index[0])
            self.within = outer
            return x
        return None

    def _iota(self, dtype: DType, e: Expr) -> Value:
        rest, k = self.split(e)
        kind = element(dtype)
        if k == 0:
            a = self.i64(rest)
            return self._from_i64(self.scalar, a, dtype), 1
        if k is None:
            return self._from_i64(self.wide, self.vector_of(rest), dtype), self.width
        if dtype.is_int and dtype.bits < 64:
            a = self.i64(rest)
            low = self._from_i64(self.scalar, a, dtype)
            b = self.wide.splat(low, kind)
            half = 1 << dtype.bits
            steps = "<" + ", ".join(f"{kind} {i * k % half}" for i in range(self.width)) + ">"
            return self.e.value(f"add {self.wide.t(kind)} {steps}, {b}", b), self.width
        a = self.i64(rest)
        b = self.wide.splat(str(a), "i64")
        x = self.e.value(f"add {self.wide.t('i64')} {self.steps(k)}, {b}", b)
        return self._from_i64(self.wide, x, dtype), self.width

    def _from_i64(self, alu: Alu, a: I64, dtype: DType) -> str:
        if isinstance(a, int):
            if dtype is dt.bool_:
                return "true" if a else "false"
            if dtype.is_int:
                n = a & ((1 << dtype.bits) - 1)
                return str(n - (1 << dtype.bits) if n >> (dtype.bits - 1) else n)
        return alu.cast(str(a), dt.int64, dtype)

    def _apply(self, u: UOp, operands: list[Value]) -> Value:
        lanes = max([n for _, n in operands])
        if lanes == 1:
            return self.scalar.apply(u, [x for x, _ in operands]), 1
        xs = [self.lanes_of(x, s.dtype) for x, s in zip(operands, u.src, strict=True)]
        return self.wide.apply(u, xs), lanes

    def _where(self, conds: tuple[Cond, ...], before: tuple[Cond, ...], x: Value, dtype: DType) -> Value:
        scalar, lanes = self.masks(conds, before)
        kind = element(dtype)
        zero = self.scalar.const(0, dtype)
        if lanes is None and x[1] == 1:
            assert scalar is not None
            return self.scalar.select(scalar, kind, x[0], zero), 1
        mask = self.all(scalar, lanes)
        assert mask is not None
        wide = self.lanes_of(x, dtype)
        return self.wide.select(mask, kind, wide, self.wide.splat(zero, kind)), self.width

    def all(self, scalar: str | None, *masks: str | None) -> str | None:
        """One lane mask of a scalar condition and lane masks; None if there are none."""
        out = None if scalar is None else self.wide.splat(scalar, "i1")
        for m in masks:
            if m is not None:
                out = m if out is None else self.wide.both(out, m)
        return out

    # ---- memory
    def load(
        self,
        pointer: str,
        dtype: DType,
        address: Expr,
        conds: tuple[Cond, ...],
        pure: bool,
        size: int,
    ) -> Value:
        """An element (or a vector of elements) of a buffer; 0 where `conds` fail."""
        scalar, lanes = self.masks(conds)
        outer, self.within = self.within, conds
        x = self._load(pointer, dtype, address, scalar, lanes, pure, size)
        self.within = outer
        return x

    def _load(
        self,
        pointer: str,
        dtype: DType,
        address: Expr,
        scalar: str | None,
        lanes: str | None,
        pure: bool,
        size: int,
    ) -> Value:
        rest, k = self.split(address)
        kind = memory_element(dtype)
        if k == 0:
            return self._load_scalar(pointer, dtype, self.i64(rest), scalar, lanes, pure, size)
        mask = self.all(scalar, lanes, self.tail)
        if k == 1:
            p = self.e.pointer(pointer, self.i64(rest), kind)
            if scalar is not None and self._is_computed(self.within):
                # a masked load far beyond an array costs a thousand others, though no lane of it is wanted
                p = self.e.value(f"select i1 {scalar}, ptr {p}, ptr {pointer}", scalar, p)
            x = self._load_vector(p, kind, dtype.itemsize, mask, pure)
        elif k == -1:
            p = self.e.pointer(pointer, self.e.add(self.i64(rest), 1 - self.width), kind)
            back = None if mask is None else self._reversed(mask, "i1")
            x = self._reversed(self._load_vector(p, kind, dtype.itemsize, back, pure), kind)
        else:
            x = self._gather(pointer, dtype, rest, k, mask, pure)
        return self.wide.from_memory(x, dtype), self.width

    def _is_computed(self, conds: tuple[Cond, ...]) -> bool:
        """Whether some condition depends on a number of the program."""
        return any(self.ranges.atoms[t].kind is AtomKind.VALUE for e, _, _ in conds for t, _ in e[1])

    def _load_scalar(
        self,
        p: str,
        dtype: DType,
        a: I64,
        scalar: str | None,
        lanes: str | None,
        pure: bool,
        size: int,
    ) -> Value:
        kind = memory_element(dtype)
        if scalar == "false":
            return self.scalar.const(0, dtype), 1
        if scalar == "true":
            scalar = None
        if scalar is not None:
            a = self.e.value(f"select i1 {scalar}, i64 {a}, i64 0", scalar, a)
        if lanes is not None or self.clamped:  # the address itself may be out of bounds where no lane wants it
            a = self.e.minimum(self.e.maximum(a, 0), size - 1)
        q = self.e.pointer(p, a, kind)
        x = self.e.value(f"load {kind}, ptr {q}, align {dtype.itemsize}", q, pure=pure)
        x = self.scalar.from_memory(x, dtype)
        zero = self.scalar.const(0, dtype)
        if scalar is not None:
            x = self.scalar.select(scalar, element(dtype), x, zero)
        if lanes is None:
            return x, 1
        wide = self.wide.splat(x, element(dtype))
        return self.wide.select(lanes, element(dtype), wide, self.wide.splat(zero, element(dtype))), self.width

    def _load_vector(self, p: str, kind: str, align: int, mask: str | None, pure: bool) -> str:
        t = self.wide.t(kind)
        if mask is None:
            return self.e.value(f"load {t}, ptr {p}, align {align}", p, pure=pure)
        name = f"@llvm.masked.load.{self.wide.suffix(kind)}.p0"
        self.e.declare(f"declare {t} {name}(ptr, i32, {self.wide.i1}, {t})")
        return self.e.value(
            f"call {t} {name}(ptr {p}, i32 {align}, {self.wide.i1} {mask}, {t} zeroinitializer)",
            p, mask, pure=pure,
        )  # fmt: skip

    def _reversed(self, x: str, kind: str) -> str:
        t = self.wide.t(kind)
        order = ", ".join(f"i32 {i}" for i in reversed(range(self.width)))
        return self.e.value(f"shufflevector {t} {x}, {t} poison, <{self.width} x i32> <{order}>", x)

    def _gather(self, pointer: str, dtype: DType, rest: Expr, k: int | None, mask: str | None, pure: bool) -> str:
        kind = memory_element(dtype)
        w = self.wide
        t = w.t(kind)
        if k is None:
            at = self.vector_of(rest)
            base = pointer
        else:
            at = self.steps(k)
            base = self.e.pointer(pointer, self.i64(rest), kind)
        if dtype.itemsize < 4:
            if mask is not None and k is not None:
                at, base, k = self.vector_of((rest[0], (*rest[1], (self.lane, k)))), pointer, None
            return self._gather_bytes(base, kind, dtype.itemsize, at, k, mask, pure)
        q = self.e.value(f"getelementptr {kind}, ptr {base}, {w.t('i64')} {at}", base, at)
        ptrs = f"<{self.width} x ptr>"
        name = f"@llvm.masked.gather.{w.suffix(kind)}.v{self.width}p0"
        self.e.declare(f"declare {t} {name}({ptrs}, i32, {w.i1}, {t})")
        m = mask or w.c("i1", "true")
        return self.e.value(
            f"call {t} {name}({ptrs} {q}, i32 {dtype.itemsize}, {w.i1} {m}, {t} zeroinitializer)",
            q, m, pure=pure,
        )  # fmt: skip

    def _gather_bytes(
        self, base: str, kind: str, align: int, at: str, k: int | None, mask: str | None, pure: bool
    ) -> str:
        """Element by element: there is no gather of small elements."""
        w = self.wide
        t = w.t(kind)
        if mask is not None:  # masked lanes read the first element instead
            at = w.select(mask, "i64", at, w.c("i64", 0))
        out = f"{'zeroinitializer' if mask is not None else 'poison'}"
        for i in range(self.width):
            if at.startswith("%"):
                a: I64 = self.e.value(f"extractelement {w.t('i64')} {at}, i64 {i}", at)
            else:
                assert k is not None
                a = i * k
            p = self.e.pointer(base, a, kind)
            x = self.e.value(f"load {kind}, ptr {p}, align {align}", p, pure=pure)
            out = self.e.value(f"insertelement {t} {out}, {kind} {x}, i64 {i}", out, x)
        return out if mask is None else w.select(mask, kind, out, w.c(kind, 0))
