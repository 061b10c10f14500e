"""Operands that know their machine and kind, so that functions read as arithmetic.

Python numbers mix in: beside a float value they are float constants, beside an integer value
integer constants. Inside this room a `Value` is what travels; handles appear only at its door.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from fgrad.lower.functions.constants import Format, format_of
from fgrad.lower.functions.machine import Kind, Machine

Operand: TypeAlias = "Value | float"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A handle of a machine with its kind; the handle's type is the machine's own business."""

    machine: Machine[Any]
    handle: Any
    kind: Kind

    @property
    def format(self) -> Format:
        """The constants of the machine's float format."""
        return format_of(self.machine.p)

    def const(self, number: float) -> "Value":
        """A constant of this value's kind, on its machine."""
        if self.kind is Kind.INT:
            return Value(self.machine, self.machine.int_const(int(number)), Kind.INT)
        assert self.kind is Kind.FLOAT, "masks have no constants"
        return Value(self.machine, self.machine.const(number), Kind.FLOAT)

    def _lift(self, other: Operand) -> "Value":
        if not isinstance(other, Value):
            return self.const(other)
        assert other.kind is self.kind, f"{self.kind} meets {other.kind}"
        return other

    def _binary(self, by_kind: "dict[Kind, str]", other: Operand) -> "Value":
        handle = getattr(self.machine, by_kind[self.kind])(self.handle, self._lift(other).handle)
        return Value(self.machine, handle, self.kind)

    def _compare(self, by_kind: "dict[Kind, str]", other: Operand, swap: bool = False) -> "Value":
        x, y = self.handle, self._lift(other).handle
        if swap:
            x, y = y, x
        return Value(self.machine, getattr(self.machine, by_kind[self.kind])(x, y), Kind.MASK)

    def _float(self, handle: Any) -> "Value":
        return Value(self.machine, handle, Kind.FLOAT)

    # ---- arithmetic
    def __add__(self, other: Operand) -> "Value":
        return self._binary(_ADD, other)

    def __radd__(self, other: float) -> "Value":
        return self.const(other) + self

    def __sub__(self, other: Operand) -> "Value":
        return self._binary(_SUB, other)

    def __rsub__(self, other: float) -> "Value":
        return self.const(other) - self

    def __mul__(self, other: Operand) -> "Value":
        return self._binary(_MUL, other)

    def __rmul__(self, other: float) -> "Value":
        return self.const(other) * self

    def __truediv__(self, other: Operand) -> "Value":
        return self._binary(_DIV, other)

    def __rtruediv__(self, other: float) -> "Value":
        return self.const(other) / self

    def __neg__(self) -> "Value":
        assert self.kind is Kind.FLOAT
        return self._float(self.machine.neg(self.handle))

    def sqrt(self) -> "Value":
        """The correctly rounded square root."""
        return self._float(self.machine.sqrt(self.handle))

    def rint(self) -> "Value":
        """The nearest integer as a float, ties to even."""
        return self._float(self.machine.rint(self.handle))

    def abs(self) -> "Value":
        """The value without its sign bit."""
        return self._float(self.machine.abs(self.handle))

    def copysign(self, other: "Value") -> "Value":
        """The magnitude of self with the sign bit of other."""
        return self._float(self.machine.copysign(self.handle, other.handle))

    # ---- bits
    def bits(self) -> "Value":
        """The bit pattern of a float."""
        return Value(self.machine, self.machine.bits(self.handle), Kind.INT)

    def as_float(self) -> "Value":
        """The float with this bit pattern."""
        return self._float(self.machine.from_bits(self.handle))

    def __lshift__(self, other: Operand) -> "Value":
        return self._binary(_SHL, other)

    def __rshift__(self, other: Operand) -> "Value":
        """Shift right, zeros come in (also for negative integers)."""
        return self._binary(_LSHR, other)

    def __and__(self, other: Operand) -> "Value":
        return self._binary(_AND, other)

    def __or__(self, other: Operand) -> "Value":
        return self._binary(_OR, other)

    def __xor__(self, other: Operand) -> "Value":
        return self._binary(_XOR, other)

    def __invert__(self) -> "Value":
        assert self.kind is Kind.MASK
        return Value(self.machine, self.machine.mask_not(self.handle), Kind.MASK)

    # ---- comparisons
    def __lt__(self, other: Operand) -> "Value":
        return self._compare(_LT, other)

    def __gt__(self, other: Operand) -> "Value":
        return self._compare(_LT, other, swap=True)

    def __le__(self, other: Operand) -> "Value":
        return self._compare(_LE, other)

    def __ge__(self, other: Operand) -> "Value":
        return self._compare(_LE, other, swap=True)

    def equals(self, other: Operand) -> "Value":
        """self == other, lane by lane."""
        return self._compare(_EQ, other)

    def differs(self, other: Operand) -> "Value":
        """self != other, lane by lane; true when either is NaN."""
        return self._compare(_NE, other)

    def is_nan(self) -> "Value":
        """True in the lanes that hold a NaN."""
        return self.differs(self)


_ADD = {Kind.FLOAT: "add", Kind.INT: "int_add"}
_SUB = {Kind.FLOAT: "sub", Kind.INT: "int_sub"}
_MUL = {Kind.FLOAT: "mul"}
_DIV = {Kind.FLOAT: "div"}
_SHL = {Kind.INT: "shl"}
_LSHR = {Kind.INT: "lshr"}
_AND = {Kind.INT: "int_and", Kind.MASK: "mask_and"}
_OR = {Kind.INT: "int_or", Kind.MASK: "mask_or"}
_XOR = {Kind.INT: "int_xor", Kind.MASK: "mask_xor"}
_LT = {Kind.FLOAT: "lt", Kind.INT: "int_lt"}
_LE = {Kind.FLOAT: "le"}
_EQ = {Kind.FLOAT: "eq"}
_NE = {Kind.FLOAT: "ne", Kind.INT: "int_ne"}


def fma(x: Value, y: Operand, z: Operand) -> Value:
    """x * y + z with one rounding."""
    m = x.machine
    return Value(m, m.fma(x.handle, x._lift(y).handle, x._lift(z).handle), Kind.FLOAT)


def where(mask: Value, x: Operand, y: Operand) -> Value:
    """x where mask, else y. Two Python numbers make floats, unless both are int."""
    m = mask.machine
    if not isinstance(x, Value) and not isinstance(y, Value):
        if isinstance(x, int) and isinstance(y, int):
            a, b = (Value(m, m.int_const(q), Kind.INT) for q in (x, y))
        else:
            a, b = (Value(m, m.const(q), Kind.FLOAT) for q in (x, y))
    elif isinstance(x, Value):
        a, b = x, x._lift(y)
    else:
        assert isinstance(y, Value)
        a, b = y.const(x), y
    return Value(m, m.select(a.kind, mask.handle, a.handle, b.handle), a.kind)


def branch_any(
    mask: Value,
    kinds: tuple[Kind, ...],
    then: Callable[[], tuple[Value, ...]],
    otherwise: Callable[[], tuple[Value, ...]],
) -> tuple[Value, ...]:
    """`then()` in the lanes of mask, `otherwise()` elsewhere; see `Machine.branch_any`."""
    m = mask.machine

    def handles(f: Callable[[], tuple[Value, ...]]) -> Callable[[], tuple[Any, ...]]:
        return lambda: tuple(value.handle for value in f())

    results = m.branch_any(mask.handle, kinds, handles(then), handles(otherwise))
    return tuple(Value(m, h, kind) for h, kind in zip(results, kinds, strict=True))
