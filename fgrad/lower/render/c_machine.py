"""The functions of `lower.functions` as C: a machine whose handles are C expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fgrad.lower.functions.machine import Kind, Machine
from fgrad.lower.functions.table import FUNCTIONS
from fgrad.lower.render.c_text import float_literal, live


class CMachine(Machine[str]):
    """Writes one C statement per operation; equal ones once.

    p  24 (float) or 53 (double)
    """

    def __init__(self, p: int) -> None:
        self.p = p
        self.bits_wide = 32 if p == 24 else 64
        self.float_type = "float" if p == 24 else "double"
        self.int_type = f"int{self.bits_wide}_t"
        self.suffix = f"f{self.bits_wide}"
        self.lines: list[str] = []
        self._known: dict[str, str] = {}
        self._count = 0
        self._indent = "    "

    def _place(self, kind: Kind, text: str) -> str:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = f"v{self._count}"
            self._count += 1
            self.lines.append(f"{self._indent}const {self.type_of(kind)} {found} = {text};")
        return found

    def type_of(self, kind: Kind) -> str:
        """The C type of a handle."""
        match kind:
            case Kind.FLOAT:
                return self.float_type
            case Kind.INT:
                return self.int_type
            case Kind.MASK:
                return "bool"

    def _float(self, text: str) -> str:
        return self._place(Kind.FLOAT, text)

    def _int(self, op: str, x: str, y: str) -> str:
        u = f"u{self.int_type}"
        return self._place(Kind.INT, f"({self.int_type})(({u}){x} {op} ({u}){y})")

    def _mask(self, text: str) -> str:
        return self._place(Kind.MASK, text)

    def _call(self, name: str, *operands: str) -> str:
        return self._float(f"{name}{'f' if self.p == 24 else ''}({', '.join(operands)})")

    # ---- constants
    def const(self, value: float) -> str:
        return float_literal(value, self.p == 24)

    def int_const(self, value: int) -> str:
        value &= (1 << self.bits_wide) - 1
        if value >> (self.bits_wide - 1):
            value -= 1 << self.bits_wide
        if value == -(1 << (self.bits_wide - 1)):
            return f"INT{self.bits_wide}_MIN"
        text = f"INT{self.bits_wide}_C({value})"
        return f"({text})"

    # ---- floats
    def add(self, x: str, y: str) -> str:
        return self._float(f"{x} + {y}")

    def sub(self, x: str, y: str) -> str:
        return self._float(f"{x} - {y}")

    def mul(self, x: str, y: str) -> str:
        return self._float(f"{x} * {y}")

    def div(self, x: str, y: str) -> str:
        return self._float(f"{x} / {y}")

    def fma(self, x: str, y: str, z: str) -> str:
        return self._call("fma", x, y, z)

    def sqrt(self, x: str) -> str:
        return self._call("sqrt", x)

    def rint(self, x: str) -> str:
        return self._call("rint", x)

    def abs(self, x: str) -> str:
        return self._call("fabs", x)

    def neg(self, x: str) -> str:
        return self._float(f"-{x}")

    def copysign(self, x: str, y: str) -> str:
        return self._call("copysign", x, y)

    def lt(self, x: str, y: str) -> str:
        return self._mask(f"{x} < {y}")

    def le(self, x: str, y: str) -> str:
        return self._mask(f"{x} <= {y}")

    def eq(self, x: str, y: str) -> str:
        return self._mask(f"{x} == {y}")

    def ne(self, x: str, y: str) -> str:
        return self._mask(f"{x} != {y}")

    # ---- integers
    def int_add(self, x: str, y: str) -> str:
        return self._int("+", x, y)

    def int_sub(self, x: str, y: str) -> str:
        return self._int("-", x, y)

    def int_and(self, x: str, y: str) -> str:
        return self._int("&", x, y)

    def int_or(self, x: str, y: str) -> str:
        return self._int("|", x, y)

    def int_xor(self, x: str, y: str) -> str:
        return self._int("^", x, y)

    def shl(self, x: str, y: str) -> str:
        return self._int("<<", x, y)

    def lshr(self, x: str, y: str) -> str:
        return self._int(">>", x, y)

    def int_lt(self, x: str, y: str) -> str:
        return self._mask(f"{x} < {y}")

    def int_ne(self, x: str, y: str) -> str:
        return self._mask(f"{x} != {y}")

    # ---- masks
    def mask_and(self, x: str, y: str) -> str:
        return self._mask(f"{x} && {y}")

    def mask_or(self, x: str, y: str) -> str:
        return self._mask(f"{x} || {y}")

    def mask_xor(self, x: str, y: str) -> str:
        return self._mask(f"{x} != {y}")

    def mask_not(self, x: str) -> str:
        return self._mask(f"!{x}")

    # ---- between kinds
    def bits(self, x: str) -> str:
        return self._place(Kind.INT, f"fg_{self.suffix}_to_int{self.bits_wide}({x})")

    def from_bits(self, x: str) -> str:
        return self._float(f"fg_int{self.bits_wide}_to_{self.suffix}({x})")

    def select(self, kind: Kind, mask: str, x: str, y: str) -> str:
        return self._place(kind, f"{mask} ? {x} : {y}")

    def branch_any(
        self,
        mask: str,
        kinds: tuple[Kind, ...],
        then: Callable[[], tuple[str, ...]],
        otherwise: Callable[[], tuple[str, ...]],
    ) -> tuple[str, ...]:
        usual = otherwise()
        results = []
        for kind, y in zip(kinds, usual, strict=True):
            results.append(f"v{self._count}")
            self._count += 1
            self.lines.append(f"{self._indent}{self.type_of(kind)} {results[-1]} = {y};")
        known, indent = dict(self._known), self._indent
        self.lines.append(f"{indent}if ({mask}) {{")
        self._indent += "    "
        for name, x in zip(results, then(), strict=True):
            self.lines.append(f"{self._indent}{name} = {x};")
        self._known, self._indent = known, indent
        self.lines.append(f"{indent}}}")
        return tuple(results)


@cache
def c_function(name: str, p: int) -> tuple[str, str]:
    """-> (C name, definition) of a function of the table, on float (p = 24) or double (53)."""
    function = FUNCTIONS[name]
    machine = CMachine(p)
    arguments = [f"x{i}" for i in range(function.arity)]
    result = function(machine, *arguments)
    t = machine.float_type
    symbol = f"fg_{name}_{machine.suffix}"
    head = f"static {t} {symbol}({', '.join(f'{t} {a}' for a in arguments)})"
    body = live([*machine.lines, f"    return {result};"])
    return symbol, "\n".join([head, "{", *body, "}"])
