"""Operands of linear algebra: matrices over the last two axes, in a dtype that LAPACK computes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fgrad.errors import ShapeError, note_user_line
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp

__all__: list[str] = []


class Matrices(NamedTuple):
    """Nodes to compute with, and what results become: small floats are computed in float32 and rounded at the end."""

    nodes: list[UOp]
    dtype: DType
    weak: bool

    def result(self, x: UOp) -> Tracer:
        """A result computed from the nodes, real or complex, in the dtype of the operands."""
        if x.dtype.is_complex or not x.dtype.is_inexact:
            return Tracer(x, self.weak)
        return Tracer(build.cast(x, dt.real_of(self.dtype)), self.weak)


def matrices(name: str, *xs: ArrayLike, square: Sequence[bool] = ()) -> Matrices:
    """The operands of function `name`, which need two axes; equal ones where `square` says so."""
    nodes, dtype, weak = promoted(*xs, least=dt.default_float())
    for k, wanted in enumerate(square or [False] * len(nodes)):
        shape = nodes[k].shape
        if len(shape) < 2:
            raise note_user_line(ShapeError(f"{name} takes matrices over the last two axes, got shape {shape}"))
        if wanted and shape[-1] != shape[-2]:
            raise note_user_line(ShapeError(f"{name} takes square matrices, got shape {shape}"))
    return Matrices([build.cast(n, dt.accumulator(n.dtype)) for n in nodes], dtype, weak)


def same_batch(name: str, *nodes: UOp) -> list[UOp]:
    """[.., n, m] nodes with their leading axes broadcast."""
    try:
        batch = build.broadcast_shapes(*[n.shape[:-2] for n in nodes])
    except ShapeError:
        raise note_user_line(
            ShapeError(f"{name}: the leading axes of {', '.join(str(n.shape) for n in nodes)} do not broadcast")
        ) from None
    return [build.broadcast_to(n, (*batch, *n.shape[-2:])) for n in nodes]
