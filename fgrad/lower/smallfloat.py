"""float16, bfloat16 and the 8-bit floats: between their bits and float32, by integer arithmetic.

A value of such a dtype is carried as the float32 equal to it. `rounded` makes any float32 such a
value (nearest, ties to even, overflow as the format says), `encode` and `decode` go to and from
its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType


@dataclass(frozen=True, slots=True)
class Format:
    """`mantissa` bits stored, `least` exponent of normals, `largest` finite value, whether there is
    an `infinity`, and two zeros. Where there is `one_zero`, the bits of the negative one are the only NaN.
    """

    bits: int
    mantissa: int
    least: int
    largest: float
    infinity: bool
    one_zero: bool = False


FORMATS: dict[DType, Format] = {
    dt.float16: Format(16, 10, -14, 65504.0, True),
    dt.bfloat16: Format(16, 7, -126, 3.3895313892515355e38, True),
    dt.float8_e4m3fn: Format(8, 3, -6, 448.0, False),
    dt.float8_e5m2: Format(8, 2, -14, 57344.0, True),
    dt.float8_e3m4: Format(8, 4, -2, 15.5, True),
    dt.float8_e4m3: Format(8, 3, -6, 240.0, True),
    dt.float8_e4m3b11fnuz: Format(8, 3, -10, 30.0, False, one_zero=True),
    dt.float8_e4m3fnuz: Format(8, 3, -7, 240.0, False, one_zero=True),
    dt.float8_e5m2fnuz: Format(8, 2, -15, 57344.0, False, one_zero=True),
}


def f32(value: float) -> str:
    """A float literal: the bits of the equal double."""
    return f"0x{int(np.float64(np.float32(value)).view(np.uint64)):016X}"


class SmallFloats:
    """Writes the conversions for `lanes` lanes through `emit(text, *operands) -> name`."""

    def __init__(self, emit: Callable[..., str], declare: Callable[[str], None], lanes: int, f16c: bool) -> None:
        self.emit = emit
        self.declare = declare
        self.lanes = lanes
        self.f16c = f16c
        self.f = self._t("float")
        self.i = self._t("i32")
        self.m = self._t("i1")

    def _t(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def _c(self, element: str, literal: str | int) -> str:
        return str(literal) if self.lanes == 1 else f"splat ({element} {literal})"

    def _int(self, op: str, x: str, y: str | int) -> str:
        if isinstance(y, int):
            y = self._c("i32", y)
        return self.emit(f"{op} {self.i} {x}, {y}", x, y)

    def _float(self, op: str, x: str, y: str | float) -> str:
        if isinstance(y, float):
            y = self._c("float", f32(y))
        return self.emit(f"{op} {self.f} {x}, {y}", x, y)

    def _select(self, mask: str, kind: str, x: str, y: str) -> str:
        return self.emit(f"select {self.m} {mask}, {kind} {x}, {kind} {y}", mask, x, y)

    def _bits(self, x: str) -> str:
        return self.emit(f"bitcast {self.f} {x} to {self.i}", x)

    def _from_bits(self, x: str) -> str:
        return self.emit(f"bitcast {self.i} {x} to {self.f}", x)

    def rounded(self, x: str, dtype: DType) -> str:
        """float32 -> the nearest value of `dtype`, as float32."""
        if dtype is dt.float16 and self.f16c:
            h = self.emit(f"fptrunc {self.f} {x} to {self._t('half')}", x)
            return self.emit(f"fpext {self._t('half')} {h} to {self.f}", h)
        form = FORMATS[dtype]
        bits = self._bits(x)
        sign = self._int("and", bits, -(1 << 31))
        size = self._int("and", bits, (1 << 31) - 1)
        drop = 23 - form.mantissa
        odd = self._int("and", self._int("lshr", size, drop), 1)
        up = self._int("add", self._int("add", size, (1 << (drop - 1)) - 1), odd)
        near = self._int("and", up, -(1 << drop))
        if form.least > -126:  # below its normals the format has a fixed spacing: add and take away 2^k
            magic = 1.5 * 2.0 ** (23 + form.least - form.mantissa)
            low = self._float("fsub", self._float("fadd", self._from_bits(size), magic), magic)
            tiny = self._int("icmp ult", size, (form.least + 127) << 23)
            near = self._select(tiny, self.i, self._bits(low), near)
        top = int(np.float32(form.largest).view(np.uint32))
        beyond = 0x7F800000 if form.infinity else 0x7FC00000
        over = self._int("icmp ugt", near, top)
        near = self._select(over, self.i, self._c("i32", beyond), near)
        nan = self._int("icmp ugt", size, 0x7F800000)
        near = self._select(nan, self.i, self._c("i32", 0x7FC00000), near)
        if form.one_zero:
            sign = self._select(self._int("icmp eq", near, 0), self.i, self._c("i32", 0), sign)
        return self._from_bits(self._int("or", near, sign))

    def decode(self, x: str, dtype: DType) -> str:
        """Bits (an integer of the format's width) -> float32."""
        form = FORMATS[dtype]
        narrow = self._t(f"i{form.bits}")
        if dtype is dt.float16 and self.f16c:
            h = self.emit(f"bitcast {narrow} {x} to {self._t('half')}", x)
            return self.emit(f"fpext {self._t('half')} {h} to {self.f}", h)
        wide = self.emit(f"zext {narrow} {x} to {self.i}", x)
        if dtype is dt.bfloat16:
            return self._from_bits(self._int("shl", wide, 16))
        sign = self._int("shl", self._int("and", wide, 1 << (form.bits - 1)), 32 - form.bits)
        size = self._int("and", wide, (1 << (form.bits - 1)) - 1)
        # the same exponent and mantissa fields, read as float32, are the value times 2^(least - 1 +
        # 127 - ..)
        moved = self._from_bits(self._int("shl", size, 23 - form.mantissa))
        scaled = self._bits(self._float("fmul", moved, 2.0 ** (126 + form.least)))
        if form.infinity:
            special = self._int("icmp uge", size, ((1 << (form.bits - 1 - form.mantissa)) - 1) << form.mantissa)
            lost = self._int("or", self._bits(moved), 0x7F800000)
            scaled = self._select(special, self.i, lost, scaled)
        else:
            nan = 1 << (form.bits - 1) if form.one_zero else (1 << (form.bits - 1)) - 1
            special = self._int("icmp eq", wide if form.one_zero else size, nan)
            scaled = self._select(special, self.i, self._c("i32", 0x7FC00000), scaled)
        return self._from_bits(self._int("or", scaled, sign))

    def encode(self, x: str, dtype: DType) -> str:
        """A float32 that is a value of `dtype` -> its bits."""
        form = FORMATS[dtype]
        narrow = self._t(f"i{form.bits}")
        if dtype is dt.float16 and self.f16c:
            h = self.emit(f"fptrunc {self.f} {x} to {self._t('half')}", x)
            return self.emit(f"bitcast {self._t('half')} {h} to {narrow}", h)
        bits = self._bits(x)
        if dtype is dt.bfloat16:
            high = self._int("lshr", bits, 16)
            return self.emit(f"trunc {self.i} {high} to {narrow}", high)
        sign = self._int("lshr", self._int("and", bits, -(1 << 31)), 32 - form.bits)
        size = self._int("and", bits, (1 << 31) - 1)
        scaled = self._float("fmul", self._from_bits(size), 2.0 ** -(126 + form.least))
        moved = self._int("lshr", self._bits(scaled), 23 - form.mantissa)
        special = self._int("icmp uge", size, 0x7F800000)
        if form.infinity:
            top = ((1 << (form.bits - 1 - form.mantissa)) - 1) << form.mantissa
            nan = self._int("icmp ugt", size, 0x7F800000)
            quiet = self._select(nan, self.i, self._c("i32", top | 1 << (form.mantissa - 1)), self._c("i32", top))
            moved = self._select(special, self.i, quiet, moved)
        elif form.one_zero:
            sign = self._select(self._int("icmp eq", moved, 0), self.i, self._c("i32", 0), sign)
            nan = self._c("i32", 1 << (form.bits - 1))
            whole = self._select(special, self.i, nan, self._int("or", moved, sign))
            return self.emit(f"trunc {self.i} {whole} to {narrow}", whole)
        else:
            moved = self._select(special, self.i, self._c("i32", (1 << (form.bits - 1)) - 1), moved)
        whole = self._int("or", moved, sign)
        return self.emit(f"trunc {self.i} {whole} to {narrow}", whole)
