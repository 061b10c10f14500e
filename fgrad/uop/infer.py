"""dtype and shape of every op, and what is wrong when the sources do not fit. One row per op, in the order of op.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fgrad.errors import DtypeError, ShapeError
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, Kind
from fgrad.uop.node import INFER, Infer, Src
from fgrad.uop.op import BITWISE, COMPARE, FLOAT_FUNCTIONS, ROUNDING, Op

Aval2 = tuple[DType, tuple[int, ...]]


def infer(*ops: Op) -> Callable[[Infer], Infer]:
    """Enter a row of the table."""

    def enter(row: Infer) -> Infer:
        for op in ops:
            INFER[op] = row
        return row

    return enter


def _same(op: Op, s: Src) -> None:
    x = s[0]
    for y in s[1:]:
        if y.shape != x.shape:
            shapes = ", ".join(str(z.shape) for z in s)
            raise ShapeError(f"{op.name} needs operands of one shape, got {shapes}")
        if y.dtype is not x.dtype:
            raise DtypeError(f"{op.name} needs operands of one dtype, got {', '.join(str(z.dtype) for z in s)}")


infer(Op.CONST)(lambda s, a: (a[0], ()))
infer(Op.PARAM)(lambda s, a: (a[1], a[2]))
infer(Op.BUFFER)(lambda s, a: (a.dtype, a.shape))
infer(Op.IOTA)(lambda s, a: (a[0], (a[1],)))
infer(Op.VARIABLE)(lambda s, a: (dt.int64, ()))


@infer(Op.RESHAPE)
def _(s: Src, a: Any) -> Aval2:
    if math.prod(a) != s[0].size:
        raise ShapeError(f"cannot reshape {s[0].shape} ({s[0].size} elements) into {a} ({math.prod(a)} elements)")
    return s[0].dtype, a


@infer(Op.PERMUTE)
def _(s: Src, a: Any) -> Aval2:
    if sorted(a) != list(range(s[0].ndim)):
        raise ShapeError(f"axes {a} are no permutation of the {s[0].ndim} axes of {s[0].shape}")
    return s[0].dtype, tuple([s[0].shape[i] for i in a])


@infer(Op.EXPAND)
def _(s: Src, a: Any) -> Aval2:
    shape = list(s[0].shape)
    for axis, n in a:
        shape.insert(axis, n)
    return s[0].dtype, tuple(shape)


@infer(Op.PAD)
def _(s: Src, a: Any) -> Aval2:
    if len(a) != s[0].ndim or any(x < 0 for row in a for x in row):
        raise ShapeError(f"PAD of {s[0].shape} needs one (lo, hi, interior) >= 0 for each axis, got {a}")
    return s[0].dtype, tuple(
        [lo + hi + n + max(n - 1, 0) * mid for n, (lo, hi, mid) in zip(s[0].shape, a, strict=True)]
    )


def box_shape(old: tuple[int, ...], box: Any, starts: int) -> tuple[int, ...]:
    """Shape of the part that `box` cuts out of `old`; raises ShapeError when it does not fit."""
    if len(box) != len(old) or sum(b[0] is None for b in box) != starts:
        raise ShapeError(f"a box over {old} needs one (start, size, step) for each axis, got {box}")
    for n, (start, size, step) in zip(old, box, strict=True):
        last = (start or 0) + (size - 1) * step
        if step < 1 or size < 0 or (size and not (0 <= last < n)) or (start is not None and start < 0):
            raise ShapeError(f"box {box} reaches out of shape {old}")
    return tuple([b[1] for b in box])


@infer(Op.SHRINK)
def _(s: Src, a: Any) -> Aval2:
    return s[0].dtype, box_shape(s[0].shape, a, len(s) - 1)


infer(Op.FLIP)(lambda s, a: (s[0].dtype, s[0].shape))


@infer(Op.BITCAST)
def _(s: Src, a: Any) -> Aval2:
    if a.itemsize != s[0].dtype.itemsize:
        raise DtypeError(f"BITCAST needs dtypes of one width, got {s[0].dtype} and {a}")
    return a, s[0].shape


@infer(Op.WINDOW)
def _(s: Src, a: Any) -> Aval2:
    axis, _, n, o, _, _ = a
    if s[0].shape[axis] != n:
        raise ShapeError(f"WINDOW over {n} elements got shape {s[0].shape}")
    return s[0].dtype, (*s[0].shape[:axis], o, *s[0].shape[axis + 1 :])


@infer(Op.SKEW)
def _(s: Src, a: Any) -> Aval2:
    axis, _, n, o, _, _ = a
    if s[0].shape[axis] != o:
        raise ShapeError(f"SKEW over {o} elements got shape {s[0].shape}")
    return s[0].dtype, (*s[0].shape[:axis], n, *s[0].shape[axis + 1 :])


infer(Op.CAST)(lambda s, a: (a, s[0].shape))


def _unary(op: Op, allowed: tuple[Kind, ...], hint: str) -> Infer:
    def row(s: Src, a: Any) -> Aval2:
        if s[0].dtype.kind not in allowed:
            raise DtypeError(f"{op.name} is not defined for {s[0].dtype}; {hint}")
        return s[0].dtype, s[0].shape

    return row


_NUMBERS = (Kind.UINT, Kind.INT, Kind.FLOAT, Kind.COMPLEX)
_COMPLEX_TOO = (
    Op.SQRT, Op.RSQRT, Op.EXP, Op.EXPM1, Op.LOG, Op.LOG1P, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN,
    Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH,
)  # fmt: skip
infer(Op.NEG)(_unary(Op.NEG, _NUMBERS, "use logical_not for bool"))
infer(Op.NOT)(_unary(Op.NOT, (Kind.BOOL, Kind.UINT, Kind.INT), "only bool and integers have bits to flip"))
infer(Op.ABS)(_unary(Op.ABS, (Kind.UINT, Kind.INT, Kind.FLOAT), "for complex take the HYPOT of its parts"))
for _op in ROUNDING:
    infer(_op)(_unary(_op, (Kind.FLOAT,), "integers are round already"))
for _op in FLOAT_FUNCTIONS:
    _kinds = (Kind.FLOAT, Kind.COMPLEX) if _op in _COMPLEX_TOO else (Kind.FLOAT,)
    infer(_op)(_unary(_op, _kinds, "convert with .astype first"))


@infer(Op.REAL, Op.IMAG)
def _(s: Src, a: Any) -> Aval2:
    if not s[0].dtype.is_complex:
        raise DtypeError(f"REAL and IMAG take complex values, got {s[0].dtype}")
    return dt.real_of(s[0].dtype), s[0].shape


def _binary(op: Op, allowed: tuple[Kind, ...], hint: str, to_bool: bool = False) -> Infer:
    def row(s: Src, a: Any) -> Aval2:
        x, y = s
        if x.shape != y.shape or x.dtype is not y.dtype:
            _same(op, s)
        if x.dtype.kind not in allowed:
            raise DtypeError(f"{op.name} is not defined for {x.dtype}; {hint}")
        return dt.bool_ if to_bool else x.dtype, x.shape

    return row


_ANY = (Kind.BOOL, *_NUMBERS)
_ORDERED = (Kind.BOOL, Kind.UINT, Kind.INT, Kind.FLOAT)
infer(Op.ADD)(_binary(Op.ADD, _ANY, ""))
infer(Op.MUL)(_binary(Op.MUL, _ANY, ""))
infer(Op.DIV)(_binary(Op.DIV, (Kind.FLOAT, Kind.COMPLEX), "integers use IDIV"))
infer(Op.IDIV)(_binary(Op.IDIV, (Kind.UINT, Kind.INT), "floats use DIV and FLOOR"))
infer(Op.MOD)(_binary(Op.MOD, (Kind.UINT, Kind.INT, Kind.FLOAT), "it takes real numbers"))
for _op in (Op.MAX, Op.MIN):
    infer(_op)(_binary(_op, _ORDERED, "complex numbers have no order"))
for _op in (Op.POW, Op.ATAN2, Op.HYPOT, Op.LOGADDEXP, Op.COPYSIGN):
    infer(_op)(_binary(_op, (Kind.FLOAT,), "it takes floats"))
for _op in BITWISE:
    infer(_op)(_binary(_op, (Kind.BOOL, Kind.UINT, Kind.INT), "only bool and integers have bits"))
for _op in (Op.SHL, Op.SHR):
    infer(_op)(_binary(_op, (Kind.UINT, Kind.INT), "only integers can be shifted"))
for _op in COMPARE:
    infer(_op)(_binary(_op, _ANY if _op is Op.EQ else _ORDERED, "complex numbers have no order", to_bool=True))


@infer(Op.COMPLEX)
def _(s: Src, a: Any) -> Aval2:
    _same(Op.COMPLEX, s)
    if s[0].dtype not in (dt.float32, dt.float64):
        raise DtypeError(f"COMPLEX takes float32 or float64 parts, got {s[0].dtype}")
    return dt.complex_of(s[0].dtype), s[0].shape


@infer(Op.WHERE)
def _(s: Src, a: Any) -> Aval2:
    c, x, y = s
    if not (c.shape == x.shape == y.shape) or x.dtype is not y.dtype:
        if x.dtype is not y.dtype:
            raise DtypeError(f"WHERE needs branches of one dtype, got {x.dtype} and {y.dtype}")
        raise ShapeError(f"WHERE needs operands of one shape, got {c.shape}, {x.shape}, {y.shape}")
    if c.dtype is not dt.bool_:
        raise DtypeError(f"WHERE needs a bool condition, got {c.dtype}")
    return x.dtype, x.shape


@infer(Op.THREEFRY)
def _(s: Src, a: Any) -> Aval2:
    _same(Op.THREEFRY, s)
    if s[0].dtype is not dt.uint32:
        raise DtypeError(f"THREEFRY takes uint32 words, got {s[0].dtype}")
    return dt.uint32, s[0].shape


@infer(Op.REDUCE)
def _(s: Src, a: Any) -> Aval2:
    _, axes = a
    return s[0].dtype, tuple([n for i, n in enumerate(s[0].shape) if i not in axes])


infer(Op.PREFIX)(lambda s, a: (s[0].dtype, s[0].shape))


@infer(Op.SORT)
def _(s: Src, a: Any) -> Any:
    for y in s[1:]:
        if y.shape != s[0].shape:
            raise ShapeError(f"SORT needs payloads shaped as the key {s[0].shape}, got {y.shape}")
    return tuple([x.dtype for x in s]), tuple([x.shape for x in s])


@infer(Op.GATHER)
def _(s: Src, nb: Any) -> Aval2:
    x, idx = s
    if not idx.dtype.is_int:
        raise DtypeError(f"GATHER needs integer indices, got {idx.dtype}")
    if x.ndim <= nb or x.shape[:nb] != idx.shape[:nb]:
        raise ShapeError(f"GATHER from {x.shape} by {idx.shape} with {nb} batch axes")
    return x.dtype, idx.shape + x.shape[nb + 1 :]


@infer(Op.UPDATE)
def _(s: Src, a: Any) -> Aval2:
    old, value = s[:2]
    if old.dtype is not value.dtype:
        raise DtypeError(f"UPDATE of {old.dtype} with {value.dtype}")
    rest = len(s) - 2 - a.indexed - a.gated
    if a.box is not None:
        want = part = box_shape(old.shape, a.box, rest)
    else:
        idx = s[2]
        part = idx.shape
        want = idx.shape + old.shape[a.batch + 1 :]
    if value.shape != want:
        raise ShapeError(f"UPDATE writes a part of shape {want}, got a value of shape {value.shape}")
    if a.gated and (s[-1].shape != part or s[-1].dtype is not dt.bool_):
        raise ShapeError(f"UPDATE needs a bool gate of shape {part}, got {s[-1].dtype} {s[-1].shape}")
    return old.dtype, old.shape


@infer(Op.CALL, Op.SCAN, Op.WHILE, Op.COND, Op.HOST)
def _(s: Src, a: Any) -> Any:
    avals = a.avals
    return tuple([d for d, _ in avals]), tuple([sh for _, sh in avals])


@infer(Op.TUPLE)
def _(s: Src, a: Any) -> Any:
    return tuple([x.dtype for x in s]), tuple([x.shape for x in s])


@infer(Op.GET)
def _(s: Src, a: Any) -> Aval2:
    members: Any = s[0]  # tuple-valued: a dtype and a shape for each member
    return members.dtype[a], members.shape[a]


infer(Op.COPY)(lambda s, a: (s[0].dtype, s[0].shape))
infer(Op.COLLECTIVE)(lambda s, a: (s[0].dtype, s[0].shape))
infer(Op.LOAD)(lambda s, a: (s[0].dtype, s[0].shape))


@infer(Op.STORE)
def _(s: Src, a: Any) -> Aval2:
    _same(Op.STORE, s[:2])
    return dt.void, ()


infer(Op.AFTER)(lambda s, a: (s[0].dtype, s[0].shape))
