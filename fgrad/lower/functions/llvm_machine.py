"""A machine that writes LLVM IR, one instruction per operation.

Handles are LLVM operands: names such as `%v7`, or constants. Whoever emits decides where an
instruction goes and whether an equal one is already there; this file only knows how each is spelt.
"""

import struct
from collections.abc import Callable

from fgrad.lower.functions.machine import Kind, Machine

_SPLITTER = 134217729.0  # 2^27 + 1 (Dekker 1971)


class LlvmMachine(Machine[str]):
    """Writes vector code (lanes > 1) or scalar code (lanes = 1).

    emit   `emit(text, *operands)` places the instruction whose right-hand side is `text`, and
           returns the name of its value. `operands` are the operands within `text`, in order,
           names and constants; equal texts are equal values, so `text` is a key to share them by.
    lanes  width of the vectors
    p      24 (float) or 53 (double)
    fma    whether the target fuses multiply and add. If not it is written out in exact arithmetic,
           for float in double; for double with |x|, |y| below 2^995 and no underflow in the
           product's low part.

    A subclass that can open blocks overrides `branch_any` (as `llvm_helper` does); here both sides
    are written out. `declarations` collects the declarations of the intrinsics in use. No
    fast-math flag is written and none may be added.
    """

    def __init__(self, emit: Callable[..., str], lanes: int, p: int, fma: bool = True) -> None:
        assert lanes >= 1, f"a vector has at least one lane, not {lanes}"
        assert p in (24, 53), f"no float format with {p} bits of precision"
        self.emit = emit
        self.lanes = lanes
        self.p = p
        self.has_fma = fma
        self.declarations: set[str] = set()
        self.width = 32 if p == 24 else 64
        self._element = "float" if p == 24 else "double"
        self.float_type = self._vector(self._element)
        self.int_type = self._vector(f"i{self.width}")
        self.mask_type = self._vector("i1")
        self.suffix = f"f{self.width}" if lanes == 1 else f"v{lanes}f{self.width}"

    def type_of(self, kind: Kind) -> str:
        """The LLVM type of a handle."""
        match kind:
            case Kind.FLOAT:
                return self.float_type
            case Kind.INT:
                return self.int_type
            case Kind.MASK:
                return self.mask_type

    def _vector(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def _splat(self, element: str, literal: str) -> str:
        return literal if self.lanes == 1 else f"splat ({element} {literal})"

    def _float(self, op: str, *operands: str) -> str:
        return self.emit(f"{op} {self.float_type} {', '.join(operands)}", *operands)

    def _int(self, op: str, *operands: str) -> str:
        return self.emit(f"{op} {self.int_type} {', '.join(operands)}", *operands)

    def _mask(self, op: str, *operands: str) -> str:
        return self.emit(f"{op} {self.mask_type} {', '.join(operands)}", *operands)

    def _cast(self, op: str, x: str, source: str, target: str) -> str:
        return self.emit(f"{op} {source} {x} to {target}", x)

    def _intrinsic(self, name: str, *operands: str) -> str:
        t = self.float_type
        function = f"@llvm.{name}.{self.suffix}"
        self.declarations.add(f"declare {t} {function}({', '.join([t] * len(operands))})")
        arguments = ", ".join(f"{t} {operand}" for operand in operands)
        return self.emit(f"call {t} {function}({arguments})", *operands)

    # ---- constants
    def const(self, value: float) -> str:
        if self.p == 24:
            value = _to_single(value)
        # LLVM writes a float in the bits of the equal double
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return self._splat(self._element, f"0x{bits:016X}")

    def int_const(self, value: int) -> str:
        value &= (1 << self.width) - 1
        if value >> (self.width - 1):
            value -= 1 << self.width
        return self._splat(f"i{self.width}", str(value))

    # ---- floats
    def add(self, x: str, y: str) -> str:
        return self._float("fadd", x, y)

    def sub(self, x: str, y: str) -> str:
        return self._float("fsub", x, y)

    def mul(self, x: str, y: str) -> str:
        return self._float("fmul", x, y)

    def div(self, x: str, y: str) -> str:
        return self._float("fdiv", x, y)

    def fma(self, x: str, y: str, z: str) -> str:
        if self.has_fma:
            return self._intrinsic("fma", x, y, z)
        return self._fma_in_double(x, y, z) if self.p == 24 else self._fma_by_pairs(x, y, z)

    def sqrt(self, x: str) -> str:
        return self._intrinsic("sqrt", x)

    def rint(self, x: str) -> str:
        return self._intrinsic("roundeven", x)  # llvm.rint would depend on the rounding mode

    def abs(self, x: str) -> str:
        return self._intrinsic("fabs", x)

    def neg(self, x: str) -> str:
        return self._float("fneg", x)

    def copysign(self, x: str, y: str) -> str:
        return self._intrinsic("copysign", x, y)

    def lt(self, x: str, y: str) -> str:
        return self._float("fcmp olt", x, y)

    def le(self, x: str, y: str) -> str:
        return self._float("fcmp ole", x, y)

    def eq(self, x: str, y: str) -> str:
        return self._float("fcmp oeq", x, y)

    def ne(self, x: str, y: str) -> str:
        return self._float("fcmp une", x, y)

    # ---- integers
    def int_add(self, x: str, y: str) -> str:
        return self._int("add", x, y)

    def int_sub(self, x: str, y: str) -> str:
        return self._int("sub", x, y)

    def int_and(self, x: str, y: str) -> str:
        return self._int("and", x, y)

    def int_or(self, x: str, y: str) -> str:
        return self._int("or", x, y)

    def int_xor(self, x: str, y: str) -> str:
        return self._int("xor", x, y)

    def shl(self, x: str, y: str) -> str:
        return self._int("shl", x, y)

    def lshr(self, x: str, y: str) -> str:
        return self._int("lshr", x, y)

    def int_lt(self, x: str, y: str) -> str:
        return self._int("icmp slt", x, y)

    def int_ne(self, x: str, y: str) -> str:
        return self._int("icmp ne", x, y)

    # ---- masks
    def mask_and(self, x: str, y: str) -> str:
        return self._mask("and", x, y)

    def mask_or(self, x: str, y: str) -> str:
        return self._mask("or", x, y)

    def mask_xor(self, x: str, y: str) -> str:
        return self._mask("xor", x, y)

    def mask_not(self, x: str) -> str:
        return self._mask("xor", x, self._splat("i1", "1"))

    # ---- between kinds
    def bits(self, x: str) -> str:
        return self._cast("bitcast", x, self.float_type, self.int_type)

    def from_bits(self, x: str) -> str:
        return self._cast("bitcast", x, self.int_type, self.float_type)

    def select(self, kind: Kind, mask: str, x: str, y: str) -> str:
        t = self.type_of(kind)
        return self.emit(f"select {self.mask_type} {mask}, {t} {x}, {t} {y}", mask, x, y)

    # ---- without a fused multiply-add
    def _fma_in_double(self, x: str, y: str, z: str) -> str:
        """float: the product is exact in double, the sum is rounded to odd and then once more."""
        wide = LlvmMachine(self.emit, self.lanes, 53, fma=False)
        a, b, c = (self._cast("fpext", q, self.float_type, wide.float_type) for q in (x, y, z))
        s, error = wide._two_sum(wide.mul(a, b), c)
        return self._cast("fptrunc", wide._to_odd(s, error), wide.float_type, self.float_type)

    def _fma_by_pairs(self, x: str, y: str, z: str) -> str:
        """double, after Boldo and Melquiond (2008)."""
        product = self.mul(x, y)
        (xh, xl), (yh, yl) = self._split(x), self._split(y)
        low = self.sub(self.mul(xh, yh), product)
        low = self.add(self.add(low, self.mul(xh, yl)), self.mul(xl, yh))
        t, t_low = self._two_sum(z, self.add(low, self.mul(xl, yl)))
        v, v_low = self._two_sum(product, t)
        result = self.add(v, self._to_odd(*self._two_sum(t_low, v_low)))
        # With an infinite or NaN operand the low parts are NaN; the plain sum is right.
        plain = self.add(product, z)
        return self.select(Kind.FLOAT, self.ne(result, result), plain, result)

    def _split(self, x: str) -> tuple[str, str]:
        t = self.mul(x, self.const(_SPLITTER))
        high = self.sub(t, self.sub(t, x))
        return high, self.sub(x, high)

    def _two_sum(self, a: str, b: str) -> tuple[str, str]:
        s = self.add(a, b)
        t = self.sub(s, a)
        return s, self.add(self.sub(a, self.sub(s, t)), self.sub(b, t))

    def _to_odd(self, h: str, low: str) -> str:
        """h + low, where low is the exact error, rounded to odd; an infinite h stays."""
        zero, one = self.const(0.0), self.int_const(1)
        i = self.bits(h)
        even = self.int_ne(self.int_and(i, one), one)
        inexact = self.mask_or(self.lt(low, zero), self.lt(zero, low))  # false for NaN
        away = self.mask_not(self.mask_xor(self.lt(low, zero), self.lt(h, zero)))
        step = self.select(Kind.INT, away, one, self.int_const(-1))
        fixed = self.from_bits(self.int_add(i, step))
        return self.select(Kind.FLOAT, self.mask_and(even, inexact), fixed, h)


def _to_single(value: float) -> float:
    """value rounded to float32, overflowing to infinity."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return single
