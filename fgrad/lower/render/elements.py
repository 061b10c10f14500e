"""Elementwise nodes on NumPy arrays, as compiled code computes them.

The smooth functions are those of `lower.functions`, run on arrays: an interpreter and compiled
code then agree to the bit. Everything else is the op's meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.lower.functions.numpy_machine import NumpyMachine
from fgrad.lower.functions.table import FUNCTIONS
from fgrad.uop import dtype as dt
from fgrad.uop import meaning
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp
from fgrad.uop.op import FLOAT_FUNCTIONS, Mode, Op

Array = Any  # NDArray of any dtype, or a NumPy scalar

FUNCTION_NAME = {op: op.name.lower() for op in (*FLOAT_FUNCTIONS, Op.POW, Op.ATAN2, Op.HYPOT, Op.LOGADDEXP)} | {
    Op.ERF_INV: "erfinv"
}
MODE_OP = {Mode.ADD: Op.ADD, Mode.MUL: Op.MUL, Mode.MIN: Op.MIN, Mode.MAX: Op.MAX}
_MACHINES = {dt.float32: NumpyMachine(np.float32), dt.float64: NumpyMachine(np.float64)}
_UFUNCS = {
    Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum,
    Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
}  # fmt: skip


def ufunc(op: Op, dtype: DType) -> Any:
    """The NumPy function that combines two values of a reduction."""
    if dtype is dt.bool_ and op in (Op.ADD, Op.MUL):
        return np.logical_or if op is Op.ADD else np.logical_and
    return _UFUNCS[op]


def start_of(op: Op, dtype: DType) -> Array:
    """Where an accumulator starts. -0.0 for sums of floats: x + -0.0 is x for every x."""
    if op is Op.ADD and dtype.is_float:
        return np.asarray(-0.0, dtype.np)
    return np.asarray(meaning.identity(op, dtype), dtype.np)


def apply(u: UOp, xs: list[Array]) -> Array:
    """The value of elementwise node `u` on operands that broadcast."""
    if u.op is Op.BITCAST:
        return np.ascontiguousarray(xs[0]).reshape(xs[0].shape).view(u.dtype.np)
    name = FUNCTION_NAME.get(u.op)
    if name is None or u.op is Op.SQRT or not u.dtype.is_float:
        return meaning.apply(u, *xs)
    wide = dt.accumulator(u.dtype)
    xs = [np.asarray(x.astype(wide.np, copy=False)) for x in xs]
    return FUNCTIONS[name](_MACHINES[wide], *xs).astype(u.dtype.np, copy=False)
