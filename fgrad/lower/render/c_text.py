"""How types and constants are spelt in C, and the few lines every function is written with."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from fgrad.uop import dtype as dt
from fgrad.uop.dtype import SMALL_FLOATS, DType

_LOCAL = re.compile(r"^\s*(?:const )?\w+ (?:\*const )?([vp]\d+) = .*;$")
_NAMES = re.compile(r"\b[vp]\d+\b")


def c_type(dtype: DType) -> str:
    """The C type of a value: small floats are carried as float."""
    if dtype is dt.bool_:
        return "bool"
    if dtype.is_float:
        return "double" if dtype is dt.float64 else "float"
    assert dtype.is_int, f"{dtype} has no C type; complex values are pairs by now"
    return f"{dtype.name}_t"


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory."""
    return f"uint{dtype.bits}_t" if dtype is dt.bool_ or dtype in SMALL_FLOATS else c_type(dtype)


def short(dtype: DType) -> str:
    """A dtype in the name of a C function."""
    return {"float32": "f32", "float64": "f64"}.get(dtype.name, dtype.name)


def float_literal(value: float, single: bool) -> str:
    """A float constant, exactly."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    if single:
        value = float(np.float32(value))
    text = repr(value)
    if float(text) != value or single:
        text = value.hex()
    text += "f" if single else ""
    return f"({text})" if text.startswith("-") else text


def literal(value: object, dtype: DType) -> str:
    """A constant of `dtype`."""
    if dtype is dt.bool_:
        return "true" if value else "false"
    if dtype.is_int:
        return int_literal(int(value), dtype)  # type: ignore[call-overload]
    number = float(value)  # type: ignore[arg-type]
    return float_literal(number, dtype is not dt.float64)


def int_literal(n: int, dtype: DType) -> str:
    """An integer constant of `dtype`."""
    if dtype.bits < 64:
        if n == -(1 << 31):
            return "INT32_MIN"
        text = f"{n}U" if dtype is dt.uint32 else str(n)
    elif n == -(1 << 63):
        text = "INT64_MIN"
    else:
        text = f"{'' if dtype.is_signed else 'U'}INT64_C({n})"
    return f"({text})" if n < 0 else text


def index_literal(n: int) -> str:
    """A constant in an index expression."""
    return str(n) if abs(n) < 1 << 31 else int_literal(n, dt.int64)


def live(lines: Sequence[str]) -> list[str]:
    """The lines without locals that nobody uses."""
    needed: set[str] = set()
    kept: list[str] = []
    for line in reversed(lines):
        local = _LOCAL.match(line)
        if local and local.group(1) not in needed:
            continue
        needed.update(_NAMES.findall(line))
        kept.append(line)
    return kept[::-1]
