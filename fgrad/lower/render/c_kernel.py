"""One kernel as a C function: `static void name(char *const *b, char *scratch)`, all its tasks in
order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fgrad.lower.index import Atom, AtomKind, Expr
from fgrad.lower.kernel import (
    Acc,
    Call,
    Fold,
    Keep,
    Kernel,
    Loop,
    Reduction,
    Sort,
    Stmt,
    Store,
)
from fgrad.lower.render.c_helpers import Helpers
from fgrad.lower.render.c_ops import Ops
from fgrad.lower.render.c_text import c_type, index_literal, literal, live, memory_type
from fgrad.lower.render.elements import MODE_OP, start_of
from fgrad.lower.render.walk import Conds, Views, Walk
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, accumulator
from fgrad.uop.node import UOp, const_value
from fgrad.uop.op import Mode

_POINTER = re.compile(r"\b([bs]\d+)\[")


def c_name(name: str) -> str:
    """A name that C accepts."""
    return re.sub(r"\W", "_", name)


class CKernel(Walk[str]):
    """Writes one kernel. Values are names of locals, or constants; index expressions are texts."""

    def __init__(self, kernel: Kernel, helpers: Helpers) -> None:
        super().__init__(kernel, Views(kernel))
        self.ops = Ops(helpers)
        self.helpers = helpers
        self.lines: list[str] = []
        self.indent = 1
        self.count = 0
        self.masks: list[dict[tuple[Conds, Conds], str]] = [{}]
        self.acc_names: dict[Acc, str] = {}

    def text(self) -> str:
        """The whole function."""
        self._body(self.kernel.body)
        body = live(self.lines)
        used = set(_POINTER.findall("\n".join(body)))
        pointers = []
        for i, buffer in enumerate(self.kernel.buffers):
            if f"b{i}" in used:
                t = memory_type(buffer.dtype)
                const = "" if buffer.written else "const "
                pointers.append(f"    {const}{t} *const b{i} = ({const}{t} *)b[{i}];")
        offsets, _ = self.kernel.scratch_offsets
        for i, (s, at) in enumerate(zip(self.kernel.scratch, offsets, strict=True)):
            if f"s{i}" in used:
                t = memory_type(s.dtype)
                pointers.append(f"    {t} *const s{i} = ({t} *)(scratch + {at});")
        head = f"static void {c_name(self.kernel.name)}(char *const *b, char *scratch)"
        return "\n".join([head, "{", *pointers, *body, "}"])

    # ---- lines
    def _do(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _local(self, kind: str, text: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self._do(f"const {kind} {name} = {text};")
        return name

    def _open(self, text: str) -> None:
        self._do(text + " {")
        self.indent += 1
        self.open_level()
        self.masks.append({})

    def _close(self) -> None:
        self.masks.pop()
        self.close_level()
        self.indent -= 1
        self._do("}")

    # ---- statements
    def _body(self, statements: Sequence[Stmt]) -> None:
        for s in statements:
            match s:
                case Loop():
                    r = f"r{s.range}"
                    self._open(f"for (int64_t {r} = 0; {r} < {s.size}; {r}++)")
                    self._body(s.body)
                    self._close()
                case Reduction():
                    self._reduction(s)
                case Fold():
                    self._fold(s)
                case Store():
                    self._store(s)
                case Keep():
                    self._keep(s)
                case Call():
                    self._do(f"/* {s.name} */")
                    self._body(s.body)
                case Sort():
                    self._sort(s)

    def _reduction(self, s: Reduction) -> None:
        for acc in s.accs:
            dtype = accumulator(acc.node.dtype)
            name = self.acc_names[acc] = f"acc{self.count}"
            self.count += 1
            start = literal(start_of(acc.op, dtype)[()], dtype)
            self._do(f"{c_type(dtype)} {name} = {start};")
            self.accs[acc.node] = acc
        self._body(s.body)

    def _fold(self, s: Fold) -> None:
        dtype = accumulator(s.acc.node.dtype)
        x = self.value(s.value, s.index, s.conds)
        name = self.acc_names[s.acc]
        mask = self.mask(s.conds)
        if mask is not None:
            self._do(f"if ({mask}) {{")
            self.indent += 1
        self._do(f"{name} = {self.ops.combine(s.acc.op, dtype, [name, x])};")
        if mask is not None:
            self.indent -= 1
            self._do("}")

    def _keep(self, s: Keep) -> None:
        dtype = s.node.dtype
        x = self.value(s.node, s.index)
        at = f"s{s.scratch}[{self.number(s.address)}]"
        if s.combine is not None:  # with what earlier pieces of a reduction left there
            wide = accumulator(dtype)
            start = literal(start_of(s.combine, wide)[()], wide)
            there = self.ops.from_memory(at, dtype)
            old = self._local(c_type(wide), f"{self.number(s.piece)} == 0 ? {start} : ({there})")
            x = self._local(c_type(wide), self.ops.combine(s.combine, wide, [x, old]))
        self._do(f"{at} = {self.ops.to_memory(x, dtype)};")
        self.kept[s.node] = s
        if s.combine is not None:
            self.forget()
            for level in self.masks:
                level.clear()

    def _store(self, s: Store) -> None:
        dtype = s.value.dtype
        x = self.value(s.value, s.index, s.conds)
        mask = self.mask(s.conds)
        if s.gate is not None:
            gate = self.value(s.gate, s.gate_index, s.conds)
            mask = gate if mask is None else self._local("bool", f"{mask} && {gate}")
        at = f"b{s.buffer}[{self.number(s.address, s.conds)}]"
        if mask is not None:
            self._do(f"if ({mask}) {{")
            self.indent += 1
        if s.mode is not Mode.SET:
            old = self._local(c_type(dtype), self.ops.from_memory(at, dtype))
            x = self.ops.combine(MODE_OP[s.mode], accumulator(dtype), [old, x])
            x = self._local(c_type(dtype), x)
        self._do(f"{at} = {self.ops.to_memory(x, dtype)};")
        if mask is not None:
            self.indent -= 1
            self._do("}")
        if s.keep:
            self.kept[s.value] = s

    def _sort(self, s: Sort) -> None:
        """Positions are merged bottom-up by the keys they stand for, then every payload is
        gathered.
        """
        key = self.kernel.buffers[s.sources[0]].dtype
        space = f"b{s.space}" if s.pieces > 1 else f"s{s.space}"
        x = self.ops.from_memory(f"b{s.sources[0]}[at + p[i]]", key)
        y = self.ops.from_memory(f"b{s.sources[0]}[at + p[j]]", key)
        kind = c_type(key)
        later = "y < x || (x != x && y == y)" if key.is_float else "y < x"
        text = f"""for (int64_t row = 0; row < {s.rows}; row++) {{
    const int64_t at = row * {s.n};
    uint32_t *const p = (uint32_t *)&{space}[0], *const q = p + {s.n};
    for (int64_t i = 0; i < {s.n}; i++) {{
        p[i] = (uint32_t)i;
    }}
    for (int64_t half = 1; half < {s.n}; half *= 2) {{
        for (int64_t lo = 0; lo < {s.n}; lo += 2 * half) {{
            const int64_t middle = lo + half < {s.n} ? lo + half : {s.n};
            const int64_t hi = lo + 2 * half < {s.n} ? lo + 2 * half : {s.n};
            int64_t i = lo, j = middle;
            for (int64_t to = lo; to < hi; to++) {{
                bool second = i == middle;
                if (i < middle && j < hi) {{
                    const {kind} x = {x}, y = {y};
                    second = {later};
                }}
                q[to] = second ? p[j++] : p[i++];
            }}
        }}
        memcpy(p, q, {s.n} * sizeof(uint32_t));
    }}"""
        for line in text.splitlines():
            self._do(line)
        for source, target in zip(s.sources, s.targets, strict=True):
            if target < 0:
                continue
            self._do(f"    for (int64_t i = 0; i < {s.n}; i++) {{")
            value = f"b{source}[at + p[i]]" if source >= 0 else "(int64_t)p[i]"
            self._do(f"        b{target}[at + i] = {value};")
            self._do("    }")
        self._do("}")

    # ---- conditions
    def mask(self, conds: Conds, before: Conds = ()) -> str | None:
        """A local that says whether `conds` hold, looked at where `before` hold; None: always."""
        if not conds:
            return None
        key = (before, conds)
        for level in reversed(self.masks):
            found = level.get(key)
            if found is not None:
                return found
        first = self.mask(conds[:-1], before)
        e, lo, hi = conds[-1]
        x = self.number(e, before + conds[:-1])
        inside = f"{x} >= {index_literal(lo)} && {x} < {index_literal(hi)}"
        name = self._local("bool", inside if first is None else f"{first} && {inside}")
        self.masks[-1][key] = name
        return name

    # ---- values
    def constant(self, u: UOp) -> str:
        return literal(const_value(u), u.dtype)

    def iota(self, dtype: DType, e: Expr, conds: Conds) -> str:
        return self._local(c_type(dtype), self.ops.cast(self.number(e, conds), dt.int64, dtype))

    def accumulated(self, acc: Acc) -> str:
        dtype = acc.node.dtype
        return self._local(c_type(dtype), self.helpers.rounded(self.acc_names[acc], dtype))

    def kept_element(self, s: Keep | Store, conds: Conds) -> str:
        if isinstance(s, Keep):
            return self._loaded(f"s{s.scratch}", s.node.dtype, s.address, conds)
        return self._loaded(f"b{s.buffer}", s.value.dtype, s.address, conds)

    def load(self, buffer: int, u: UOp, address: Expr, conds: Conds) -> str:
        return self._loaded(f"b{buffer}", u.dtype, address, conds)

    def _loaded(self, pointer: str, dtype: DType, address: Expr, conds: Conds) -> str:
        mask = self.mask(conds)
        x = self.ops.from_memory(f"{pointer}[{self.number(address, conds)}]", dtype)
        return self._local(c_type(dtype), x if mask is None else f"{mask} ? {x} : 0")

    def zero_unless(self, conds: Conds, before: Conds, x: str, dtype: DType) -> str:
        mask = self.mask(conds, before)
        return x if mask is None else self._local(c_type(dtype), f"{mask} ? {x} : 0")

    def apply(self, u: UOp, xs: list[str]) -> str:
        return self._local(c_type(u.dtype), self.ops.apply(u, xs))

    # ---- integers
    def ranged(self, t: int) -> str:
        return f"r{t}"

    def sum_of(self, constant: int, terms: list[tuple[str, int]]) -> str:
        if not terms:
            return index_literal(constant)
        out = ""
        for x, c in terms:
            sign = " - " if c < 0 else " + "
            out += (sign if out or c < 0 else "") + (x if abs(c) == 1 else f"{abs(c)} * {x}")
        if constant:
            out += f" {'-' if constant < 0 else '+'} {abs(constant)}"
        out = out.strip()
        return out if re.fullmatch(r"\w+", out) else f"({out})"

    def divided(self, kind: AtomKind, x: str, by: int) -> str:
        return self._local("int64_t", f"{x} {'/' if kind is AtomKind.DIV else '%'} {by}")

    def number_of(self, x: str, a: Atom, conds: Conds) -> str:
        assert a.node is not None
        if a.node.dtype is dt.uint64:
            x = f"({x} > INT64_MAX ? INT64_MAX : (int64_t){x})"
        name = self._local("int64_t", x)
        if not a.clamped:
            return name
        lo, hi = index_literal(a.lo), index_literal(a.hi)
        return self._local("int64_t", f"{name} < {lo} ? {lo} : {name} > {hi} ? {hi} : {name}")
