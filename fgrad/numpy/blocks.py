"""Matrices over the last two axes of nodes, any number of axes before them: what the rules of factorizations are
written with.

Letters: [.., n, m] is a batch of matrices. All helpers build nodes; shapes and dtypes are the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from fgrad.numpy.contraction import contract, sizes_of
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval, Shape
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Host, gets

__all__: list[str] = []

Rule = Callable[..., Any]


@lru_cache(maxsize=4096)
def bound(f: Rule, statics: tuple[Any, ...]) -> Rule:
    """`f` with its first arguments given; one object for equal arguments, so that equal programs stay equal."""
    return partial(f, *statics) if statics else f


def on_host(
    callback: Rule,
    args: Sequence[UOp],
    outs: Sequence[tuple[DType, Shape]],
    statics: tuple[Any, ...] = (),
    jvp: Rule | None = None,
    transpose: Rule | None = None,
) -> list[UOp]:
    """Nodes of `callback(*statics, *arrays)`, which takes any number of leading batch axes.

    jvp         rule(*statics, args, outs, tangents) -> tangents, None for an exact zero
    transpose   rule(*statics, args, linear, cts) -> cts, for functions that are linear in some arguments
    """
    host = Host(
        bound(callback, statics),
        tuple([Aval(d, s) for d, s in outs]),
        callback.__name__.strip("_"),
        vectorized=True,
        jvp=None if jvp is None else bound(jvp, statics),
        transpose=None if transpose is None else bound(transpose, statics),
    )
    return gets(uop(Op.HOST, tuple(args), host))


# ---- shapes
def swap(x: UOp) -> UOp:
    """[.., n, m] -> [.., m, n]"""
    return build.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def conj(x: UOp) -> UOp:
    return build.complex_(build.real(x), build.neg(build.imag(x))) if x.dtype.is_complex else x


def adjoint(x: UOp) -> UOp:
    """The conjugate transpose."""
    return conj(swap(x))


def rows(x: UOp, start: int, stop: int) -> UOp:
    return build.slice_axis(x, x.ndim - 2, start, stop)


def columns(x: UOp, start: int, stop: int) -> UOp:
    return build.slice_axis(x, x.ndim - 1, start, stop)


def across(x: UOp, n: int) -> UOp:
    """[.., m] -> [.., n, m]: every row is x."""
    return build.expand(x, [(x.ndim - 1, n)])


def down(x: UOp, m: int) -> UOp:
    """[.., n] -> [.., n, m]: every column is x."""
    return build.expand(x, [(x.ndim, m)])


# ---- products
def mm(x: UOp, y: UOp) -> UOp:
    """[.., n, k], [.., k, m] -> [.., n, m], with equal batch axes; small floats are summed in float32."""
    batch = tuple(range(x.ndim - 2))
    labels = ((*batch, 100, 101), (*batch, 101, 102))
    return contract((x, y), labels, (*batch, 100, 102), sizes_of((x, y), labels, "matmul", {}))


def scaled(x: UOp, s: UOp) -> UOp:
    """[.., n, m], real [.., m] -> the columns of x, each times its number."""
    return build.mul(x, like(across(s, x.shape[-2]), x))


def like(x: UOp, other: UOp) -> UOp:
    """x in the dtype of `other`."""
    return build.cast(x, other.dtype)


# ---- structure
def positions(x: UOp) -> tuple[UOp, UOp]:
    """(row, column) numbers of every element."""
    return build.iota_along(x.shape, x.ndim - 2), build.iota_along(x.shape, x.ndim - 1)


def keep(x: UOp, mask: UOp) -> UOp:
    """x where the mask holds, else 0."""
    return build.where(mask, x, build.zeros_like(x))


def lower(x: UOp, k: int = 0) -> UOp:
    """The lower triangle: columns up to row + k."""
    i, j = positions(x)
    return keep(x, build.le(j, build.add(i, k)))


def upper(x: UOp, k: int = 0) -> UOp:
    """The upper triangle: columns from row + k on."""
    i, j = positions(x)
    return keep(x, build.le(build.add(i, k), j))


def identity(shape: Shape, dtype: DType) -> UOp:
    """1 on the diagonal of [.., n, m], else 0."""
    i, j = build.iota_along(shape, len(shape) - 2), build.iota_along(shape, len(shape) - 1)
    return build.cast(build.eq(i, j), dtype)


def diagonal_of(x: UOp) -> UOp:
    """[.., n, n] -> [.., n]"""
    i, j = positions(x)
    return build.reduce_(keep(x, build.eq(i, j)), (x.ndim - 1,))


def diagonal(d: UOp) -> UOp:
    """[.., n] -> [.., n, n]"""
    full = down(d, d.shape[-1])
    i, j = positions(full)
    return keep(full, build.eq(i, j))


def trace(x: UOp) -> UOp:
    """[.., n, n] -> [..]"""
    i, j = positions(x)
    return build.reduce_(keep(x, build.eq(i, j)), (x.ndim - 2, x.ndim - 1))


def hermitian(x: UOp) -> UOp:
    """(x + x^H) / 2"""
    return build.mul(build.add(x, adjoint(x)), 0.5)


def imaginary(x: UOp) -> UOp:
    """i Im(x) of complex numbers."""
    im = build.imag(x)
    return build.complex_(build.zeros_like(im), im)


def inverse_or_zero(x: UOp, tiny: UOp | None = None) -> UOp:
    """1 / x, and 0 where |x| is at most `tiny` (exactly 0 by default)."""
    size = magnitude(x)
    none = build.eq(size, 0) if tiny is None else build.le(size, tiny)
    one = build.const_like(1, x)
    return build.where(none, build.zeros_like(x), build.div(one, build.where(none, one, x)))


def magnitude(x: UOp) -> UOp:
    """|x|, without a derivative of its own at 0."""
    return uop(Op.HYPOT, (build.real(x), build.imag(x))) if x.dtype.is_complex else build.abs_(x)


def noise(sizes: UOp) -> UOp:
    """[.., n] -> [..]: differences up to this are rounding, beside numbers of the given sizes."""
    most = build.reduce_(sizes, (sizes.ndim - 1,), Op.MAX) if sizes.shape[-1] else None
    if most is None:
        return build.const(0, sizes.dtype, sizes.shape[:-1])
    return build.mul(most, float(dt.finfo(sizes.dtype).eps) * sizes.shape[-1])
