"""Elementwise ops as instructions on registers of 1 or more lanes.

A register holds a value of a dtype as: bool i1; integers iN; float32 and the small floats float
(already rounded to the dtype); float64 double. `Alu.apply(node, operands)` is one op at one
width; all operands have that width.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from fgrad.lower.emit import Emitter
from fgrad.lower.functions.llvm_helper import Helper, helper
from fgrad.lower.functions.llvm_machine import LlvmMachine
from fgrad.lower.functions.table import FUNCTIONS
from fgrad.lower.limits import Limits
from fgrad.lower.remainder import float_remainder
from fgrad.lower.smallfloat import SmallFloats
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import SMALL_FLOATS, DType
from fgrad.uop.node import UOp, const_value
from fgrad.uop.op import FLOAT_FUNCTIONS, Op

INLINE_COST = 50  # longer functions are called: compiling them at every use costs more than the calls
_SMOOTH = (*FLOAT_FUNCTIONS, Op.POW, Op.ATAN2, Op.HYPOT, Op.LOGADDEXP)
FUNCTION_NAME = {op: op.name.lower() for op in _SMOOTH} | {Op.ERF_INV: "erfinv"}
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al. 2011, table 2, threefry2x32
_ROUNDING = {Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.ROUND: "roundeven"}


def element(dtype: DType) -> str:
    """LLVM type of a value of `dtype` in a register."""
    if dtype is dt.bool_:
        return "i1"
    if dtype.is_int:
        return f"i{dtype.bits}"
    assert dtype.is_float, f"{dtype} has no registers; complex values are pairs by now"
    return "double" if dtype is dt.float64 else "float"


def memory_element(dtype: DType) -> str:
    """LLVM type of an element of `dtype` in memory."""
    return element(dtype) if dtype in (dt.float32, dt.float64) else f"i{dtype.bits}"


def literal(value: object, dtype: DType) -> str:
    """A scalar constant."""
    if dtype is dt.bool_:
        return "true" if value else "false"
    if dtype.is_int:
        n = int(value)  # type: ignore[call-overload]
        return str(n - (1 << 64) if n >= 1 << 63 else n)
    bits = struct.unpack("<Q", struct.pack("<d", float(value)))[0]  # type: ignore[arg-type]
    return f"0x{bits:016X}"


class Alu:
    """Writes ops on `lanes` lanes through an emitter."""

    def __init__(self, emitter: Emitter, lanes: int, limits: Limits) -> None:
        self.e = emitter
        self.lanes = lanes
        self.limits = limits
        self.i1 = self.t("i1")
        emit: Callable[..., str] = emitter.value
        self.small = SmallFloats(emit, emitter.declare, lanes, "f16c" in limits.features)
        self._machines: dict[int, LlvmMachine] = {}

    # ---- spelling
    def t(self, kind: str) -> str:
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def c(self, kind: str, value: str | int) -> str:
        return str(value) if self.lanes == 1 else f"splat ({kind} {value})"

    def const(self, value: object, dtype: DType) -> str:
        return self.c(element(dtype), literal(value, dtype))

    def splat(self, x: str, kind: str) -> str:
        """A scalar register in all lanes."""
        if self.lanes == 1:
            return x
        if not x.startswith("%"):
            return f"splat ({kind} {x})"
        t = self.t(kind)
        one = self.e.value(f"insertelement {t} poison, {kind} {x}, i64 0", x)
        return self.e.value(f"shufflevector {t} {one}, {t} poison, <{self.lanes} x i32> zeroinitializer", one)

    def _two(self, op: str, kind: str, x: str, y: str) -> str:
        return self.e.value(f"{op} {self.t(kind)} {x}, {y}", x, y)

    def convert(self, op: str, source: str, x: str, target: str) -> str:
        return self.e.value(f"{op} {self.t(source)} {x} to {self.t(target)}", x)

    def select(self, mask: str, kind: str, x: str, y: str) -> str:
        if x == y:
            return x
        t = self.t(kind)
        return self.e.value(f"select {self.i1} {mask}, {t} {x}, {t} {y}", mask, x, y)

    def both(self, x: str, y: str) -> str:
        return self._two("and", "i1", x, y)

    def suffix(self, kind: str) -> str:
        name = {"float": "f32", "double": "f64"}.get(kind, kind)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def call(self, name: str, kind: str, *operands: str) -> str:
        """An intrinsic on operands of one type."""
        t = self.t(kind)
        self.e.declare(f"declare {t} @llvm.{name}.{self.suffix(kind)}({', '.join([t] * len(operands))})")
        args = ", ".join(f"{t} {x}" for x in operands)
        return self.e.value(f"call {t} @llvm.{name}.{self.suffix(kind)}({args})", *operands)

    def machine(self, kind: str) -> LlvmMachine:
        p = 53 if kind == "double" else 24
        found = self._machines.get(p)
        if found is None:
            found = self._machines[p] = LlvmMachine(self.e.value, self.lanes, p, self.limits.fma)
            found.declarations = self.e.declarations
        return found

    def function(self, name: str, kind: str, *operands: str) -> str:
        """A function of the table: written out if short, else called."""
        if FUNCTIONS[name].cost <= INLINE_COST:
            return FUNCTIONS[name](self.machine(kind), *operands)
        h = helper_text(name, self.lanes, 53 if kind == "double" else 24, self.limits.fma)
        self.e.helpers[h.name] = h.text
        self.e.declarations |= h.declarations
        args = ", ".join(f"{h.type} {x}" for x in operands)
        return self.e.value(f"call {h.type} {h.name}({args})", *operands)

    def rounded(self, x: str, dtype: DType) -> str:
        return self.small.rounded(x, dtype) if dtype in SMALL_FLOATS else x

    # ---- ops
    def apply(self, u: UOp, xs: list[str]) -> str:
        """The value of elementwise node `u` on operand registers."""
        op, dtype, source = u.op, u.dtype, u.src[0].dtype
        kind = element(source)
        if op is Op.CAST:
            return self.cast(xs[0], source, dtype)
        if op is Op.BITCAST:
            return self._bitcast(xs[0], source, dtype)
        if op is Op.WHERE:
            return self.select(xs[0], element(dtype), xs[1], xs[2])
        if op is Op.THREEFRY:
            return self._threefry(xs, u.arg)
        if op in (Op.LT, Op.LE, Op.EQ):
            return self._compare(op, source, xs)
        if source.is_float:
            return self.rounded(self._float(op, kind, xs), dtype)
        if source is dt.bool_:
            return self._bool(op, xs)
        return self._int(op, source, xs)

    def combine(self, op: Op, dtype: DType, x: str, y: str) -> str:
        """x.op(y) in the accumulator's dtype."""
        if dtype.is_float:
            return self._float(op, element(dtype), [x, y])
        return self._bool(op, [x, y]) if dtype is dt.bool_ else self._int(op, dtype, [x, y])

    def fma(self, x: str, y: str, z: str, kind: str) -> str:
        return self.call("fma", kind, x, y, z)

    def _compare(self, op: Op, dtype: DType, xs: list[str]) -> str:
        word = {Op.LT: "lt", Op.LE: "le", Op.EQ: "eq"}[op]
        if dtype.is_float:
            return self._two(f"fcmp o{word}", element(dtype), *xs)
        sign = "" if op is Op.EQ else ("s" if dtype.is_signed else "u")
        return self._two(f"icmp {sign}{word}", element(dtype), *xs)

    def _bool(self, op: Op, xs: list[str]) -> str:
        if op is Op.NOT:
            return self._two("xor", "i1", xs[0], self.c("i1", "true"))
        name = {
            Op.ADD: "or",
            Op.MAX: "or",
            Op.OR: "or",
            Op.MUL: "and",
            Op.MIN: "and",
            Op.AND: "and",
            Op.XOR: "xor",
        }
        return self._two(name[op], "i1", xs[0], xs[1])

    def _float(self, op: Op, kind: str, xs: list[str]) -> str:
        x = xs[0]
        if op in FUNCTION_NAME:
            if op is Op.SQRT:
                return self.call("sqrt", kind, x)
            return self.function(FUNCTION_NAME[op], kind, *xs)
        if op in _ROUNDING:
            return self.call(_ROUNDING[op], kind, x)
        match op:
            case Op.ADD | Op.MUL | Op.DIV:
                return self._two({Op.ADD: "fadd", Op.MUL: "fmul", Op.DIV: "fdiv"}[op], kind, x, xs[1])
            case Op.NEG:
                return self.e.value(f"fneg {self.t(kind)} {x}", x)
            case Op.ABS:
                return self.call("fabs", kind, x)
            case Op.COPYSIGN:
                return self.call("copysign", kind, x, xs[1])
            case Op.MAX | Op.MIN:
                more = self._two("fcmp ogt" if op is Op.MAX else "fcmp olt", kind, x, xs[1])
                near = self.select(more, kind, x, xs[1])  # the second where either is NaN
                return self.select(self._two("fcmp uno", kind, x, x), kind, x, near)
            case Op.MOD:
                name, text = float_remainder(self.lanes, kind, self.limits.fma)
                self.e.helpers[name] = text
                self.e.declarations |= _remainder_needs(self.suffix(kind), self.t(kind), self.lanes)
                return self.e.value(f"call {self.t(kind)} {name}({self.t(kind)} {x}, {self.t(kind)} {xs[1]})", *xs)
        raise AssertionError(f"no instruction for {op.name} on floats")

    def _int(self, op: Op, dtype: DType, xs: list[str]) -> str:
        kind = element(dtype)
        x = xs[0]
        match op:
            case Op.ADD | Op.MUL | Op.AND | Op.OR | Op.XOR:
                return self._two(op.name.lower(), kind, x, xs[1])
            case Op.NEG:
                return self._two("sub", kind, self.c(kind, 0), x)
            case Op.NOT:
                return self._two("xor", kind, x, self.c(kind, -1))
            case Op.ABS:
                if not dtype.is_signed:
                    return x
                negative = self._two("icmp slt", kind, x, self.c(kind, 0))
                return self.select(negative, kind, self._two("sub", kind, self.c(kind, 0), x), x)
            case Op.MAX | Op.MIN:
                word = ("s" if dtype.is_signed else "u") + ("gt" if op is Op.MAX else "lt")
                return self.select(self._two(f"icmp {word}", kind, x, xs[1]), kind, x, xs[1])
            case Op.SHL | Op.SHR:
                return self._shift(op, dtype, x, xs[1])
            case Op.IDIV | Op.MOD:
                return self._divide(op, dtype, x, xs[1])
        raise AssertionError(f"no instruction for {op.name} on {dtype}")

    def _shift(self, op: Op, dtype: DType, x: str, n: str) -> str:
        kind, bits = element(dtype), dtype.bits
        inside = self._two("icmp ult", kind, n, self.c(kind, bits))
        if op is Op.SHR and dtype.is_signed:
            return self._two("ashr", kind, x, self.select(inside, kind, n, self.c(kind, bits - 1)))
        safe = self.select(inside, kind, n, self.c(kind, 0))
        return self.select(
            inside,
            kind,
            self._two("shl" if op is Op.SHL else "lshr", kind, x, safe),
            self.c(kind, 0),
        )

    def _divide(self, op: Op, dtype: DType, x: str, d: str) -> str:
        """Floor division and its remainder; by zero 0; the smallest integer by -1 wraps."""
        kind = element(dtype)
        zero, one = self.c(kind, 0), self.c(kind, 1)
        known = not d.startswith("%")
        if known and d not in (zero, self.c(kind, -1)):
            safe, is_zero, is_minus = d, None, None
        else:
            is_zero = self._two("icmp eq", kind, d, zero)
            safe = self.select(is_zero, kind, one, d)
            is_minus = None
            if dtype.is_signed:
                is_minus = self._two("icmp eq", kind, d, self.c(kind, -1))
                safe = self.select(is_minus, kind, one, safe)
        if not dtype.is_signed:
            q = self._two("udiv", kind, x, safe)
            if op is Op.MOD:
                q = self._two("sub", kind, x, self._two("mul", kind, q, safe))
            return q if is_zero is None else self.select(is_zero, kind, zero, q)
        q = self._two("sdiv", kind, x, safe)
        r = self._two("sub", kind, x, self._two("mul", kind, q, safe))
        wrong = self._two("icmp slt", kind, self._two("xor", kind, r, safe), zero)
        off = self.both(wrong, self._two("icmp ne", kind, r, zero))
        if op is Op.MOD:  # by 1 in place of -1 the remainder is 0 as well
            out = self.select(off, kind, self._two("add", kind, r, safe), r)
        else:
            out = self._two("sub", kind, q, self.convert("zext", "i1", off, kind))
            if is_minus is not None:
                out = self.select(is_minus, kind, self._two("sub", kind, zero, x), out)
        return out if is_zero is None else self.select(is_zero, kind, zero, out)

    def _threefry(self, xs: list[str], word: int) -> str:
        """Threefry-2x32-20."""

        def add(x: str, y: str) -> str:
            return self._two("add", "i32", x, y)

        def xor(x: str, y: str) -> str:
            return self._two("xor", "i32", x, y)

        k0, k1 = xs[0], xs[1]
        keys = (k0, k1, xor(xor(k0, k1), self.c("i32", 0x1BD11BDA)))
        a, b = add(xs[2], k0), add(xs[3], k1)
        for block in range(5):
            for r in ROTATIONS[block % 2]:
                a = add(a, b)
                b = xor(self.call("fshl", "i32", b, b, self.c("i32", r)), a)
            a = add(a, keys[(block + 1) % 3])
            b = add(add(b, keys[(block + 2) % 3]), self.c("i32", block + 1))
        return b if word else a

    # ---- conversions
    def _bitcast(self, x: str, source: DType, dtype: DType) -> str:
        if source in SMALL_FLOATS:
            x, kind = self.small.encode(x, source), f"i{source.bits}"
        elif source is dt.bool_:
            x, kind = self.convert("zext", "i1", x, "i8"), "i8"
        else:
            kind = element(source)
        if dtype in SMALL_FLOATS:
            return self.small.decode(x, dtype)
        if dtype is dt.bool_:
            return self._two("icmp ne", "i8", x, self.c("i8", 0))
        return x if kind == element(dtype) else self.convert("bitcast", kind, x, element(dtype))

    def cast(self, x: str, source: DType, dtype: DType) -> str:
        """A conversion of values (see CAST)."""
        a, b = element(source), element(dtype)
        if source.is_float:
            if dtype is dt.bool_:
                return self._two("fcmp une", a, x, self.c(a, "0.0"))
            if dtype.is_int:
                return self._saturate(x, a, dtype)
            if dtype in SMALL_FLOATS:
                if source is dt.float64:
                    x = self._to_odd(x) if dtype is not dt.bfloat16 else self.convert("fptrunc", a, x, b)
                return self.small.rounded(x, dtype)
            return x if a == b else self.convert("fpext" if b == "double" else "fptrunc", a, x, b)
        if dtype.is_float:
            signed = source.is_signed
            if dtype in SMALL_FLOATS and source.bits > 16 and source is not dt.bool_:
                wide = self.convert("sitofp" if signed else "uitofp", a, x, "double")
                return self.small.rounded(self._to_odd(wide), dtype)
            return self.rounded(self.convert("sitofp" if signed else "uitofp", a, x, b), dtype)
        if dtype is dt.bool_:
            return x if a == b else self._two("icmp ne", a, x, self.c(a, 0))
        if a == b:
            return x
        if source is not dt.bool_ and source.bits > dtype.bits:
            return self.convert("trunc", a, x, b)
        return self.convert("sext" if source.is_signed else "zext", a, x, b)

    def _saturate(self, x: str, a: str, dtype: DType) -> str:
        name = "fptosi.sat" if dtype.is_signed else "fptoui.sat"
        b = element(dtype)
        symbol = f"@llvm.{name}.{self.suffix(b)}.{self.suffix(a)}"
        self.e.declare(f"declare {self.t(b)} {symbol}({self.t(a)})")
        return self.e.value(f"call {self.t(b)} {symbol}({self.t(a)} {x})", x)

    def _to_odd(self, x: str) -> str:
        """double -> float, truncated with the lost bits noted in the last one, so that rounding
        again is right.
        """
        near = self.convert("fptrunc", "double", x, "float")
        back = self.convert("fpext", "float", near, "double")
        bits = self.convert("bitcast", "float", near, "i32")
        beyond = self._two("fcmp ogt", "double", self.call("fabs", "double", back), self.call("fabs", "double", x))
        cut = self._two("sub", "i32", bits, self.convert("zext", "i1", beyond, "i32"))
        inexact = self._two("fcmp one", "double", back, x)
        noted = self._two("or", "i32", cut, self.convert("zext", "i1", inexact, "i32"))
        return self.convert("bitcast", "i32", noted, "float")

    # ---- memory
    def from_memory(self, x: str, dtype: DType) -> str:
        """A loaded element as a register value."""
        if dtype is dt.bool_:
            return self._two("icmp ne", "i8", x, self.c("i8", 0))
        return self.small.decode(x, dtype) if dtype in SMALL_FLOATS else x

    def to_memory(self, x: str, dtype: DType) -> str:
        """A register value as an element to store."""
        if dtype is dt.bool_:
            return self.convert("zext", "i1", x, "i8")
        return self.small.encode(x, dtype) if dtype in SMALL_FLOATS else x


_helpers: dict[tuple[str, int, int, bool], Helper] = {}


def helper_text(name: str, lanes: int, p: int, fma: bool) -> Helper:
    """`llvm_helper.helper`, remembered."""
    key = (name, lanes, p, fma)
    found = _helpers.get(key)
    if found is None:
        found = _helpers[key] = helper(name, lanes, p, fma)
    return found


def _remainder_needs(suffix: str, t: str, lanes: int) -> set[str]:
    needs = {
        f"declare {t} @llvm.{name}.{suffix}({', '.join([t] * n)})"
        for name, n in (("fabs", 1), ("trunc", 1), ("fma", 3), ("copysign", 2))
    }
    return needs


def const_literal(u: UOp) -> str:
    """The scalar literal of a CONST."""
    return literal(const_value(u), u.dtype)
