"""Element types and their promotion lattice.

A `DType` is a singleton: compare with `is`. Weak types (Python scalars, and results made only of them) are no
DTypes of their own: an array carries a `weak` flag beside its dtype, and `promote` looks at both.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np

from fgrad.config import config
from fgrad.errors import DtypeError, describe


class Kind(IntEnum):
    """What the bits mean; the order is that of promotion between kinds."""

    VOID = 0
    BOOL = 1
    UINT = 2
    INT = 3
    FLOAT = 4
    COMPLEX = 5


class DType:
    """One element type. `name`, `kind`, `itemsize` (bytes) and `np` (the NumPy dtype, native byte order)."""

    __slots__ = ("name", "kind", "itemsize", "np", "is_float", "is_int", "is_complex", "is_inexact")

    def __init__(self, name: str, kind: Kind, np_dtype: Any) -> None:
        self.name = name
        self.kind = kind
        self.np: Any = np.dtype(np_dtype)
        self.itemsize: int = 0 if kind is Kind.VOID else self.np.itemsize
        self.is_float = kind is Kind.FLOAT
        self.is_int = kind in (Kind.INT, Kind.UINT)
        self.is_complex = kind is Kind.COMPLEX
        self.is_inexact = kind in (Kind.FLOAT, Kind.COMPLEX)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return by_name, (self.name,)

    @property
    def bits(self) -> int:
        """Width of one element in bits (bool counts as 8)."""
        return self.itemsize * 8

    @property
    def is_signed(self) -> bool:
        return self.kind is Kind.INT


void = DType("void", Kind.VOID, np.void)
bool_ = DType("bool", Kind.BOOL, np.bool_)
uint8 = DType("uint8", Kind.UINT, np.uint8)
uint16 = DType("uint16", Kind.UINT, np.uint16)
uint32 = DType("uint32", Kind.UINT, np.uint32)
uint64 = DType("uint64", Kind.UINT, np.uint64)
int8 = DType("int8", Kind.INT, np.int8)
int16 = DType("int16", Kind.INT, np.int16)
int32 = DType("int32", Kind.INT, np.int32)
int64 = DType("int64", Kind.INT, np.int64)
float8_e4m3fn = DType("float8_e4m3fn", Kind.FLOAT, ml_dtypes.float8_e4m3fn)
float8_e5m2 = DType("float8_e5m2", Kind.FLOAT, ml_dtypes.float8_e5m2)
float8_e3m4 = DType("float8_e3m4", Kind.FLOAT, ml_dtypes.float8_e3m4)
float8_e4m3 = DType("float8_e4m3", Kind.FLOAT, ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = DType("float8_e4m3b11fnuz", Kind.FLOAT, ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fnuz = DType("float8_e4m3fnuz", Kind.FLOAT, ml_dtypes.float8_e4m3fnuz)
float8_e5m2fnuz = DType("float8_e5m2fnuz", Kind.FLOAT, ml_dtypes.float8_e5m2fnuz)
float16 = DType("float16", Kind.FLOAT, np.float16)
bfloat16 = DType("bfloat16", Kind.FLOAT, ml_dtypes.bfloat16)
float32 = DType("float32", Kind.FLOAT, np.float32)
float64 = DType("float64", Kind.FLOAT, np.float64)
complex64 = DType("complex64", Kind.COMPLEX, np.complex64)
complex128 = DType("complex128", Kind.COMPLEX, np.complex128)

ALL: tuple[DType, ...] = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float8_e4m3fn, float8_e5m2, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fnuz, float8_e5m2fnuz,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
_BY_NAME = {d.name: d for d in ALL} | {"void": void}
_BY_NP = {d.np: d for d in ALL}
# Finite, NaN and only one zero: the last three letters of their names say so.
ONE_ZERO = (float8_e4m3b11fnuz, float8_e4m3fnuz, float8_e5m2fnuz)
WITHOUT_INFINITY = (float8_e4m3fn, *ONE_ZERO)
FLOAT8 = (float8_e4m3fn, float8_e5m2, float8_e3m4, float8_e4m3, *ONE_ZERO)
SMALL_FLOATS = (*FLOAT8, float16, bfloat16)
# What ml_dtypes has besides: no arithmetic, and several elements in a byte elsewhere.
_INSTEAD = {
    "int1": "int8", "int2": "int8", "int4": "int8", "uint1": "uint8", "uint2": "uint8", "uint4": "uint8",
    "float4_e2m1fn": "float8_e4m3fn", "float6_e2m3fn": "float8_e4m3fn", "float6_e3m2fn": "float8_e4m3fn",
    "float8_e8m0fnu": "float32",
}  # fmt: skip


def by_name(name: str) -> DType:
    """The DType of that name; used by pickle."""
    return _BY_NAME[name]


def to_dtype(what: Any) -> DType:
    """The DType that `what` names: a DType, NumPy dtype or scalar type, Python type, or string.

    `float`, `int`, `complex` give the defaults (float32, int64, complex64; 64-bit floats with enable_x64).
    Raises DtypeError for types fgrad has no arithmetic for (strings, objects, dates).
    """
    if type(what) is DType:
        return what
    found = _QUICK.get(what) if isinstance(what, type) else None
    if found is not None:
        return found if isinstance(found, DType) else found()
    if hasattr(what, "fgrad_dtype"):
        named: DType = what.fgrad_dtype
        return named
    try:
        key = np.dtype(what)
    except TypeError:
        name = _BY_NAME.get(what) if isinstance(what, str) else None
        if name is None or name is void:
            names = [str(d) for d in ALL]
            near = get_close_matches(what, names, n=1) if isinstance(what, str) else []
            way_out = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(names)}"
            raise DtypeError(f"{describe(what)} is no dtype; {way_out}") from None
        return name
    got = _BY_NP.get(key.newbyteorder("=") if key.byteorder not in "=|" else key)
    if got is None:
        if key.names == ("float0",):
            raise DtypeError("float0s do not support any operations by design: they are the tangents of integers")
        if key.name in _INSTEAD:
            raise DtypeError(
                f"arrays of dtype {key} are not supported; use {_INSTEAD[key.name]}, which holds all its values"
            )
        raise DtypeError(f"arrays of dtype {key} are not supported; use one of {', '.join(map(str, ALL))}")
    return got


def default_float() -> DType:
    """float32, or float64 when `enable_x64` is set."""
    return float64 if config.enable_x64 else float32


def default_complex() -> DType:
    """complex64, or complex128 when `enable_x64` is set."""
    return complex128 if config.enable_x64 else complex64


_QUICK: dict[type, DType | Callable[[], DType]] = {
    bool: bool_, int: int64, float: default_float, complex: default_complex,
}  # fmt: skip


def real_of(dtype: DType) -> DType:
    """The dtype of the real part: float32 of complex64; the dtype itself when it is real."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype that holds `dtype` as its real part."""
    return complex128 if dtype in (float64, complex128) else complex64


def accumulator(dtype: DType) -> DType:
    """The dtype sums of `dtype` are carried in: float32 for the small floats, else itself."""
    return float32 if dtype in SMALL_FLOATS else dtype


# ---- promotion: the published lattice; "i*" "f*" "c*" stand for the weak kinds
_EDGES = {
    "bool": ("i*",), "i*": ("uint8", "int8"), "uint8": ("int16", "uint16"), "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"), "uint64": ("f*",), "int8": ("int16",), "int16": ("int32",), "int32": ("int64",),
    "int64": ("f*",), "f*": (*map(str, SMALL_FLOATS), "c*"),
    **dict.fromkeys(map(str, FLOAT8), ("float16", "bfloat16")),
    "float16": ("float32",), "bfloat16": ("float32",), "float32": ("float64", "complex64"), "float64": ("complex128",),
    "c*": ("complex64",), "complex64": ("complex128",), "complex128": (),
}  # fmt: skip


def _upper_bounds() -> dict[str, frozenset[str]]:
    done: dict[str, frozenset[str]] = {}

    def above(n: str) -> frozenset[str]:
        if n not in done:
            done[n] = frozenset({n}).union(*(above(m) for m in _EDGES[n]))
        return done[n]

    for n in _EDGES:
        above(n)
    return done


_ABOVE = _upper_bounds()


def _lub(a: str, b: str) -> str:
    common = _ABOVE[a] & _ABOVE[b]
    least = [n for n in common if common <= _ABOVE[n]]
    if len(least) != 1:
        raise DtypeError(f"{a} and {b} have no common dtype; cast one of them with .astype(...)")
    return least[0]


_LUB = {
    (a, b): _lub(a, b)
    for a in _EDGES
    for b in _EDGES
    if _ABOVE[a] & _ABOVE[b] and len([n for n in _ABOVE[a] & _ABOVE[b] if _ABOVE[a] & _ABOVE[b] <= _ABOVE[n]]) == 1
}
_WEAK = {Kind.BOOL: "bool", Kind.UINT: "i*", Kind.INT: "i*", Kind.FLOAT: "f*", Kind.COMPLEX: "c*"}


def _node(dtype: DType, weak: bool) -> str:
    return _WEAK[dtype.kind] if weak else dtype.name


def _resolve(node: str) -> tuple[DType, bool]:
    if node == "i*":
        return int64, True
    if node == "f*":
        return default_float(), True
    if node == "c*":
        return default_complex(), True
    return _BY_NAME[node], False


def promote(*operands: tuple[DType, bool]) -> tuple[DType, bool]:
    """The (dtype, weak) that operands given as (dtype, weak) meet in.

    >>> promote((int32, False), (float32, True))
    (float32, True)
    """
    first = operands[0]
    if all(o == first for o in operands):
        return first
    if all(o[0] is first[0] for o in operands):
        return first[0], False
    strong = [o for o in operands if not o[1]]
    kind = max(o[0].kind for o in operands)
    if len({o[0] for o in strong}) == 1 and strong[0][0].kind >= kind:
        return strong[0][0], False
    at = _node(*first)
    for o in operands[1:]:
        pair = (at, _node(*o))
        if pair not in _LUB:
            raise DtypeError(f"{pair[0]} and {pair[1]} have no common dtype; cast one of them with .astype(...)")
        at = _LUB[pair]
    dtype, weak = _resolve(at)
    if weak:  # a weak result keeps the widest dtype that its operands really have
        same = [o[0] for o in operands if o[1] and o[0].kind is dtype.kind]
        if same:
            dtype = max(same, key=lambda d: d.itemsize)
    return dtype, weak


def int_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer or bool dtype."""
    if dtype is bool_:
        return 0, 1
    if dtype.kind is Kind.UINT:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def finfo(dtype: DType) -> Any:
    """Machine limits of a floating or complex dtype (as `numpy.finfo`)."""
    return ml_dtypes.finfo(real_of(dtype).np)
