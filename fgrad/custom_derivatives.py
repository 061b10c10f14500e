"""Functions with derivatives of their own, and what their rules are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.run.program import closure_convert
from fgrad.trace import tree
from fgrad.trace.custom import CustomVJPPrimal, SymbolicZero
from fgrad.trace.custom_jvp import custom_jvp
from fgrad.trace.custom_vjp import custom_gradient, custom_vjp
from fgrad.trace.tracer import Tracer, aval_of
from fgrad.uop import build

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_vjp",
    "custom_vjp_primal_tree_values", "zero_from_primal",
]  # fmt: skip


def zero_from_primal(x: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value: zeros of its shape, of dtype float0 for integers and bools.

    symbolic_zeros   as a `SymbolicZero` instead

    >>> zero_from_primal(3).dtype
    dtype([('float0', 'V')])
    """
    aval = aval_of(x)
    if symbolic_zeros:
        return SymbolicZero(aval)
    if not aval.dtype.is_inexact:
        return np.zeros(aval.shape, tree.float0)
    return Tracer(build.const(0, aval.dtype, aval.shape))


def custom_vjp_primal_tree_values(tree_of_primals: Any) -> Any:
    """The values of a pytree of `CustomVJPPrimal`, as a forward rule given with `symbolic_zeros=True` receives it.

    >>> custom_vjp_primal_tree_values({"w": CustomVJPPrimal(3.0, True)})
    {'w': 3.0}
    """
    return tree.map_(lambda x: x.value, tree_of_primals, is_leaf=lambda x: isinstance(x, CustomVJPPrimal))
