"""Products summed over shared axes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import Enum
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp

DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class Precision(Enum):
    """How exact products are; accepted everywhere, and always the highest here.

    >>> dot(fnp.ones(3), fnp.ones(3), precision=Precision.HIGHEST)
    Array(3., dtype=float32)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


def operand_dtype(dtype: DType, preferred: DType | None) -> DType:
    """The dtype that products and sums are made in: that of the result, small floats in float32."""
    return dt.accumulator(dtype if preferred is None else dt.promote((dtype, False), (preferred, False))[0])


def _factors(lhs: ArrayLike, rhs: ArrayLike, preferred: DType | None) -> tuple[list[UOp], DType, bool]:
    """-> (both factors, their common dtype, weak). Two kinds of 8-bit floats have none, but `preferred` will do."""
    kinds = [lift(x).node.dtype for x in (lhs, rhs)]
    if preferred is not None and kinds[0] is not kinds[1] and all(k.is_float and k.itemsize == 1 for k in kinds):
        return [cast_node(x, preferred) for x in (lhs, rhs)], preferred, False
    return promoted(lhs, rhs)


def _axes(axes: Sequence[int], x: UOp, side: str) -> list[int]:
    out = [operator.index(a) for a in axes]
    if any(not -x.ndim <= a < x.ndim for a in out):
        raise note_user_line(ShapeError(f"dot_general: axes {tuple(out)} do not exist in {side} of shape {x.shape}"))
    out = [a % x.ndim for a in out]
    return out


def contract(x: UOp, y: UOp, sums: tuple[list[int], list[int]], batch: tuple[list[int], list[int]]) -> UOp:
    """[batch.., rows of x.., columns of y..]: the sum over `sums` of products, side by side along `batch`."""
    (xs, ys), (xb, yb) = sums, batch
    rows = [i for i in range(x.ndim) if i not in xs and i not in xb]
    columns = [i for i in range(y.ndim) if i not in ys and i not in yb]
    left = build.permute(x, [*xb, *rows, *xs])
    right = build.permute(y, [*yb, *columns, *ys])
    nb, nr, nc = len(xb), len(rows), len(columns)
    left = build.expand(left, [(nb + nr + i, y.shape[c]) for i, c in enumerate(columns)])
    right = build.expand(right, [(nb + i, x.shape[r]) for i, r in enumerate(rows)])
    first = nb + nr + nc
    return build.reduce_(build.mul(left, right), range(first, first + len(xs)))


@public(static=("dimension_numbers", "precision", "preferred_element_type", "out_sharding"))
def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: None = None,
) -> Array:
    """Contraction of any axes: [batch.., free axes of lhs.., free axes of rhs..].

    dimension_numbers        ((summed axes of lhs, of rhs), (batch axes of lhs, of rhs))
    preferred_element_type   dtype of the result and of the sums; half types are always summed in
                             float32

    >>> dot_general(fnp.ones((2, 3)), fnp.ones((3, 4)), (((1,), (0,)), ((), ()))).shape
    (2, 4)
    """
    preferred = None if preferred_element_type is None else to_dtype(preferred_element_type)
    (x, y), dtype, weak = _factors(lhs, rhs, preferred)
    try:
        (xs, ys), (xb, yb) = dimension_numbers
    except (TypeError, ValueError):
        raise note_user_line(
            ArgumentError(
                "dot_general needs dimension_numbers ((lhs summed, rhs summed), (lhs batch, rhs "
                "batch)), "
                f"got {dimension_numbers!r}"
            )
        ) from None
    sums = _axes(xs, x, "lhs"), _axes(ys, y, "rhs")
    batch = _axes(xb, x, "lhs"), _axes(yb, y, "rhs")
    for what, (left, right) in (("summed", sums), ("batch", batch)):
        if len(left) != len(right) or any(x.shape[a] != y.shape[b] for a, b in zip(left, right, strict=True)):
            raise note_user_line(
                ShapeError(
                    f"dot_general: the {what} axes {tuple(left)} of lhs {x.shape} and "
                    f"{tuple(right)} of rhs {y.shape} "
                    "must have the same sizes"
                )
            )
    for left, n, side in (
        ([*sums[0], *batch[0]], x.ndim, "lhs"),
        ([*sums[1], *batch[1]], y.ndim, "rhs"),
    ):
        if len(set(left)) != len(left):
            raise note_user_line(ShapeError(f"dot_general: an axis of {side} (of {n} axes) is named twice: {left}"))
    inner = operand_dtype(dtype, preferred)
    out = contract(build.cast(x, inner), build.cast(y, inner), sums, batch)
    return Tracer(build.cast(out, preferred or dtype), weak and preferred is None)


@public(static=("dimension_numbers", "precision", "preferred_element_type", "out_sharding"))
def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: None = None,
) -> Array:
    """Vectors and matrices multiplied; with `dimension_numbers` the same as `dot_general`.

    >>> lax.dot(fnp.array([[1, 2], [3, 4]]), fnp.array([1, 10]))
    Array([21, 43], dtype=int64)
    """
    if dimension_numbers is None:
        x, y = lift(lhs), lift(rhs)
        if x.ndim not in (1, 2) or y.ndim not in (1, 2):
            raise note_user_line(
                ShapeError(f"dot takes vectors and matrices, got {x.shape} and {y.shape}; use dot_general or matmul")
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """[.., m, k], [.., k, n] -> [.., m, n]; the leading axes are the same on both sides.

    >>> lax.batch_matmul(fnp.ones((2, 1, 3)), fnp.ones((2, 3, 1))).shape
    (2, 1, 1)
    """
    x, y = lift(lhs), lift(rhs)
    if x.ndim != y.ndim or x.ndim < 2:
        raise note_user_line(
            ShapeError(f"batch_matmul needs matrices with the same leading axes, got {x.shape}, {y.shape}")
        )
    lead = tuple(range(x.ndim - 2))
    return dot_general(lhs, rhs, (((x.ndim - 1,), (x.ndim - 2,)), (lead, lead)), precision)


__all__ = ["DotDimensionNumbers", "Precision", "batch_matmul", "contract", "dot", "dot_general", "operand_dtype"]
