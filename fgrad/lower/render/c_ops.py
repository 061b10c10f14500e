"""Elementwise nodes as C expressions on operands that are names or constants."""

from __future__ import annotations

from fgrad.lower.render.c_helpers import Helpers
from fgrad.lower.render.c_machine import c_function
from fgrad.lower.render.c_text import c_type, memory_type, short
from fgrad.lower.render.elements import FUNCTION_NAME
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import SMALL_FLOATS, DType
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

_SYMBOL = {
    Op.ADD: "+", Op.MUL: "*", Op.DIV: "/", Op.AND: "&", Op.OR: "|", Op.XOR: "^",
    Op.LT: "<", Op.LE: "<=", Op.EQ: "==",
}  # fmt: skip
_OF_BOOL = {Op.ADD: "||", Op.MAX: "||", Op.MUL: "&&", Op.MIN: "&&"}
_LIBRARY = {
    Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.ROUND: "rint", Op.SQRT: "sqrt",
    Op.ABS: "fabs", Op.COPYSIGN: "copysign",
}  # fmt: skip


class Ops:
    """Writes ops; what they call goes into `helpers`."""

    def __init__(self, helpers: Helpers) -> None:
        self.helpers = helpers

    def apply(self, u: UOp, xs: list[str]) -> str:
        """The value of elementwise node `u`."""
        source = u.src[0].dtype
        match u.op:
            case Op.CAST:
                return self.cast(xs[0], source, u.dtype)
            case Op.BITCAST:
                return self._bitcast(xs[0], source, u.dtype)
            case Op.WHERE:
                return f"{xs[0]} ? {xs[1]} : {xs[2]}"
            case Op.THREEFRY:
                return self.helpers.threefry(int(u.arg), xs)
            case Op.LT | Op.LE | Op.EQ:
                if xs[0] == xs[1] and not source.is_float:  # compilers warn of x == x
                    return "false" if u.op is Op.LT else "true"
                if source is dt.bool_ and u.op is not Op.EQ:  # and of false < x
                    return f"!{xs[0]} {'&&' if u.op is Op.LT else '||'} {xs[1]}"
                return f"{xs[0]} {_SYMBOL[u.op]} {xs[1]}"
        return self.helpers.rounded(self.combine(u.op, source, xs), u.dtype)

    def combine(self, op: Op, dtype: DType, xs: list[str]) -> str:
        """An op on values of `dtype`; small floats are not rounded."""
        if dtype.is_float:
            return self._float(op, dtype is dt.float64, xs)
        if dtype is dt.bool_:
            return (
                f"!{xs[0]}"
                if op is Op.NOT
                else f"{xs[0]} {_OF_BOOL.get(op) or _SYMBOL[op]} {xs[1]}"
            )
        return self._int(op, dtype, xs)

    def _float(self, op: Op, double: bool, xs: list[str]) -> str:
        name = FUNCTION_NAME.get(op)
        if name is not None and op is not Op.SQRT:
            symbol, text = c_function(name, 53 if double else 24)
            width = 64 if double else 32
            self.helpers.bits(f"f{width}", f"int{width}", "")
            self.helpers.bits(f"int{width}", f"f{width}", "")
            return f"{self.helpers.need(symbol, lambda: text)}({', '.join(xs)})"
        if op in _LIBRARY:
            return f"{_LIBRARY[op]}{'' if double else 'f'}({', '.join(xs)})"
        if op is Op.NEG:
            return f"-{xs[0]}"
        if op in (Op.MAX, Op.MIN):
            return self.helpers.extreme(op is Op.MAX, double, *xs)
        if op is Op.MOD:
            return self.helpers.remainder(double, *xs)
        return f"{xs[0]} {_SYMBOL[op]} {xs[1]}"

    def _int(self, op: Op, dtype: DType, xs: list[str]) -> str:
        t = c_type(dtype)
        # signed overflow is undefined, and short types promote to int
        u = f"uint{max(dtype.bits, 32)}_t"
        x = xs[0]
        match op:
            case Op.ADD | Op.MUL | Op.AND | Op.OR | Op.XOR:
                return f"({t})(({u}){x} {_SYMBOL[op]} ({u}){xs[1]})"
            case Op.NEG:
                return f"({t})(0 - ({u}){x})"
            case Op.NOT:
                return f"({t})~{x}"
            case Op.ABS:
                return f"{x} < 0 ? ({t})(0 - ({u}){x}) : {x}" if dtype.is_signed else x
            case Op.MAX | Op.MIN:
                return f"{x} {'>' if op is Op.MAX else '<'} {xs[1]} ? {x} : {xs[1]}"
            case Op.SHL | Op.SHR:
                return self.helpers.shifted(op is Op.SHL, dtype, *xs)
            case Op.IDIV:
                return self.helpers.divided(dtype, *xs)
            case Op.MOD:
                return self.helpers.modulo(dtype, *xs)
        raise AssertionError(f"no C for {op.name} on {dtype}")

    def cast(self, x: str, source: DType, dtype: DType) -> str:
        """A conversion of values (see CAST)."""
        t = c_type(dtype)
        if dtype is dt.bool_:
            return x if source is dt.bool_ else f"{x} != 0"
        if dtype.is_int and source.is_float:
            return self.helpers.saturated(x, source, dtype)
        if dtype in SMALL_FLOATS:
            if source is dt.float64 and dtype is dt.bfloat16:
                x = f"(float){x}"  # its conversion from double goes by way of float
            return self.helpers.rounded(x, dtype)
        return x if t == c_type(source) else f"({t}){x}"

    def _bitcast(self, x: str, source: DType, dtype: DType) -> str:
        a, b = self._bits_name(source), self._bits_name(dtype)
        if source in SMALL_FLOATS:
            x = self.helpers.encode(x, source)
        elif source is dt.bool_:
            x = f"(uint8_t){x}"
        if a != b:
            x = self.helpers.bits(a, b, x)
        return self.from_memory(x, dtype)

    def _bits_name(self, dtype: DType) -> str:
        return memory_type(dtype)[:-2] if memory_type(dtype).endswith("_t") else short(dtype)

    # ---- memory
    def from_memory(self, x: str, dtype: DType) -> str:
        """A loaded element as a value."""
        if dtype is dt.bool_:
            return f"{x} != 0"
        return self.helpers.decode(x, dtype) if dtype in SMALL_FLOATS else x

    def to_memory(self, x: str, dtype: DType) -> str:
        """A value as an element to store."""
        return self.helpers.encode(x, dtype) if dtype in SMALL_FLOATS else x
