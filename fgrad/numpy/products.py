"""Products of arrays: dot, matmul, einsum and what is built on them; differences, integrals,
convolutions.

`precision` is accepted everywhere and changes nothing: products are always computed at the full
precision of the
dtype. `preferred_element_type` is the dtype to accumulate in and return.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import DTypeLike, axis_of, broadcast, lift, no_out, public
from fgrad.numpy.contraction import Labels, contract, product_dtypes, sizes_of
from fgrad.numpy.joining import joined
from fgrad.numpy.running import prefix
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vander", "vdot",
    "vecdot", "vecmat",
]  # fmt: skip


def _conjugate(x: UOp) -> UOp:
    return build.complex_(build.real(x), build.neg(build.imag(x))) if x.dtype.is_complex else x


def _contract(
    name: str,
    a: ArrayLike,
    b: ArrayLike,
    la: Labels,
    lb: Labels,
    out: Labels,
    preferred: DTypeLike,
    conjugate: bool = False,
) -> Array:
    (x, y), dtype, weak = promoted(a, b)
    wide, kind = product_dtypes(dtype, preferred)
    for label in [a for a in la if a in lb and a not in out]:  # summed axes do not broadcast
        n, m = x.shape[la.index(label)], y.shape[lb.index(label)]
        if n != m:
            raise note_user_line(
                ShapeError(
                    f"{name}: shapes {x.shape} and {y.shape} do not fit: axis {la.index(label)} "
                    f"of the first has {n} elements, "
                    f"axis {lb.index(label)} of the second {m}; transpose one of them?"
                )
            )
    sizes = sizes_of((x, y), (la, lb), name, {})
    x = _conjugate(x) if conjugate else x
    z = contract((build.cast(x, wide), build.cast(y, wide)), (la, lb), out, sizes)
    return Tracer(build.cast(z, kind), weak and preferred is None)


def _need_axes(name: str, **arrays: tuple[Tracer, int]) -> None:
    for which, (t, least) in arrays.items():
        if t.ndim < least:
            raise note_user_line(
                ShapeError(
                    f"{name}: {which} needs at least {least} axes, got shape {t.shape}"
                    + ("; use multiply for scalars" if t.ndim == 0 else "")
                )  # fmt: skip
            )


@public(static=("precision", "preferred_element_type"))
def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of products over the last axis of `a` and the second last (or only) one of `b`.

    >>> dot(array([1., 2.]), array([3., 4.]))
    Array(11., dtype=float32)
    """
    x, y = lift(a), lift(b)
    if not x.ndim or not y.ndim:
        one, other = tuple(range(x.ndim)), tuple(range(y.ndim))
        return _contract("dot", a, b, one, other, max(one, other), preferred_element_type)
    la = tuple(range(x.ndim))
    rest = list(range(100, 100 + y.ndim - 1))
    lb = (*rest[: max(y.ndim - 2, 0)], la[-1], *rest[max(y.ndim - 2, 0) :])
    return _contract("dot", a, b, la, lb, (*la[:-1], *rest), preferred_element_type)


@public(static=("precision", "preferred_element_type"))
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of conj(a) * b over all elements, laid out flat.

    -> 0-d; ShapeError where sizes differ.

    >>> vdot(array([1j, 2]), array([1j, 3]))
    Array(7.+0.j, dtype=complex64)
    """
    x, y = lift(a), lift(b)
    p, q = (Tracer(build.reshape(t.node, (t.size,)), t.weak) for t in (x, y))
    return _contract("vdot", p, q, (0,), (0,), (), preferred_element_type, conjugate=True)


@public(static=("precision", "preferred_element_type"))
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of products over the last axes of both.

    [.., n], [.., n] -> the other axes of a, then those of b; numbers multiply. No conjugation.

    >>> inner(array([[1, 2], [3, 4]]), array([1, 10]))
    Array([21, 43], dtype=int64)
    """
    x, y = lift(a), lift(b)
    if not x.ndim or not y.ndim:
        return dot(a, b, preferred_element_type=preferred_element_type)
    la = tuple(range(x.ndim))
    rest = tuple(range(100, 100 + y.ndim - 1))
    return _contract("inner", a, b, la, (*rest, la[-1]), (*la[:-1], *rest), preferred_element_type)


@public()
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """[n], [m] -> [n, m]: all products of elements, laid out flat.

    >>> outer(array([1, 2]), array([1, 10]))
    Array([[ 1, 10],
           [ 2, 20]], dtype=int64)
    """
    no_out(out, "outer")
    (x, y), _, weak = promoted(a, b)
    n, m = x.size, y.size
    columns = build.expand(build.reshape(x, (n,)), [(1, m)])
    rows = build.expand(build.reshape(y, (m,)), [(0, n)])
    return Tracer(build.mul(columns, rows), weak)


@public(static=("precision", "preferred_element_type"))
def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """Matrix products: [.., n, k], [.., k, m] -> [.., n, m].

    The other axes broadcast; a vector is a row on the left, a column on the right, and its axis disappears.

    >>> matmul(array([[1, 2], [3, 4]]), array([1, 1]))
    Array([3, 7], dtype=int64)
    """
    x, y = lift(a), lift(b)
    _need_axes("matmul", a=(x, 1), b=(y, 1))
    return _matmul("matmul", a, b, x.ndim, y.ndim, preferred_element_type)


def _matmul(name: str, a: ArrayLike, b: ArrayLike, n: int, m: int, preferred: DTypeLike) -> Array:
    rank = max(n, m) - 2
    batch = tuple(range(rank))
    row, k, column = 100, 101, 102
    la = (k,) if n == 1 else (*batch[rank - (n - 2) :], row, k)
    lb = (k,) if m == 1 else (*batch[rank - (m - 2) :], k, column)
    out = (*batch[: max(rank, 0)], *([row] if n > 1 else []), *([column] if m > 1 else []))
    return _contract(name, a, b, la, lb, out, preferred)


@public(static=("axis", "precision", "preferred_element_type"))
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The sum of conj(x1) * x2 over `axis`; the other axes broadcast.

    >>> vecdot(array([[1, 2], [3, 4]]), array([1, 10]))
    Array([21, 43], dtype=int64)
    """
    x, y = lift(x1), lift(x2)
    _need_axes("vecdot", x1=(x, 1), x2=(y, 1))
    moved = []
    for t in (x, y):
        i = axis_of(axis, t.ndim, "vecdot")
        moved.append(Tracer(build.permute(t.node, [*[k for k in range(t.ndim) if k != i], i]), t.weak))
    rank = max(x.ndim, y.ndim) - 1
    batch, k = tuple(range(rank)), 100
    la, lb = ((*batch[rank - (t.ndim - 1) :], k) for t in (x, y))
    return _contract("vecdot", moved[0], moved[1], la, lb, batch, preferred_element_type, conjugate=True)


@public()
def matvec(x1: ArrayLike, x2: ArrayLike) -> Array:
    """[.., n, k], [.., k] -> [.., n]: matrices times vectors.

    Axes in front broadcast; ShapeError where k differs.

    >>> matvec(array([[1, 2], [3, 4]]), array([1, 10]))
    Array([21, 43], dtype=int64)
    """
    x, y = lift(x1), lift(x2)
    _need_axes("matvec", x1=(x, 2), x2=(y, 1))
    rank = max(x.ndim - 2, y.ndim - 1)
    batch = tuple(range(rank))
    la = (*batch[rank - (x.ndim - 2) :], 100, 101)
    lb = (*batch[rank - (y.ndim - 1) :], 101)
    return _contract("matvec", x1, x2, la, lb, (*batch, 100), None)


@public()
def vecmat(x1: ArrayLike, x2: ArrayLike) -> Array:
    """[.., n], [.., n, k] -> [.., k]: (conjugated) vectors times matrices.

    Axes in front broadcast; ShapeError where n differs.

    >>> vecmat(array([1, 10]), array([[1, 2], [3, 4]]))
    Array([31, 42], dtype=int64)
    """
    x, y = lift(x1), lift(x2)
    _need_axes("vecmat", x1=(x, 1), x2=(y, 2))
    rank = max(x.ndim - 1, y.ndim - 2)
    batch = tuple(range(rank))
    la = (*batch[rank - (x.ndim - 1) :], 100)
    lb = (*batch[rank - (y.ndim - 2) :], 100, 101)
    return _contract("vecmat", x1, x2, la, lb, (*batch, 101), None, conjugate=True)


@public(static=("axes", "precision", "preferred_element_type"))
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The sum of products over pairs of axes.

    axes   n: the last n of a with the first n of b; (of a, of b): an axis or a list of axes of each

    -> the other axes of a, then those of b; ShapeError where sizes differ.

    >>> tensordot(ones((2, 3)), ones((3, 4)), axes=1).shape
    (2, 4)
    >>> tensordot(ones((2, 3)), ones((3, 2)), axes=([0, 1], [1, 0]))
    Array(6., dtype=float32)
    """
    x, y = lift(a), lift(b)
    if isinstance(axes, list | tuple | np.ndarray):
        of_a, of_b = [list(v) if isinstance(v, list | tuple) else [v] for v in axes]
        of_a = [axis_of(i, x.ndim, "tensordot") for i in of_a]
        of_b = [axis_of(i, y.ndim, "tensordot") for i in of_b]
    else:
        n = int(axes)
        if n > min(x.ndim, y.ndim):
            raise note_user_line(ShapeError(f"tensordot: axes={n}, but the shapes are {x.shape} and {y.shape}"))
        of_a, of_b = list(range(x.ndim - n, x.ndim)), list(range(n))
    if len(of_a) != len(of_b):
        raise note_user_line(ArgumentError(f"tensordot: {len(of_a)} axes of a, but {len(of_b)} of b"))
    la = tuple(range(x.ndim))
    lb = tuple([of_a[of_b.index(i)] if i in of_b else 100 + i for i in range(y.ndim)])
    out = (*[i for i in la if i not in of_a], *[i for i in lb if i >= 100])
    return _contract("tensordot", a, b, la, lb, out, preferred_element_type)


# ---- small products
@public()
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: every element of `a` times the whole of `b`.

    Sizes multiply axis by axis; the smaller shape gets axes in front.

    >>> kron(array([1, 10]), array([1, 2, 3]))
    Array([ 1,  2,  3, 10, 20, 30], dtype=int64)
    """
    (x, y), _, weak = promoted(a, b)
    rank = max(x.ndim, y.ndim)
    x, y = (build.reshape(v, (1,) * (rank - v.ndim) + v.shape) for v in (x, y))
    wide_x = build.expand(x, [(2 * i + 1, n) for i, n in enumerate(y.shape)])
    wide_y = build.expand(y, [(2 * i, n) for i, n in enumerate(x.shape)])
    shape = tuple([n * m for n, m in zip(x.shape, y.shape, strict=True)])
    return Tracer(build.reshape(build.mul(wide_x, wide_y), shape), weak)


@public(static=("axisa", "axisb", "axisc", "axis"))
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors of 3 (or 2) elements along an axis.

    Of two 2-vectors it is the third component.

    >>> cross(array([1, 0, 0]), array([0, 1, 0]))
    Array([0, 0, 1], dtype=int64)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    (x, y), _, weak = promoted(a, b)
    parts = []
    for v, i in ((x, axisa), (y, axisb)):
        at = axis_of(i, v.ndim, "cross")
        n = v.shape[at]
        if n not in (2, 3):
            raise note_user_line(
                ShapeError(f"cross: vectors need 2 or 3 elements along axis {at}, got shape {v.shape}")
            )
        gone = (*v.shape[:at], *v.shape[at + 1 :])
        parts.append([build.reshape(build.slice_axis(v, at, k, k + 1), gone) for k in range(n)])
    flat = broadcast("cross", *parts[0], *parts[1])
    p, q = flat[: len(parts[0])], flat[len(parts[0]) :]

    def minor(i: int, j: int) -> UOp:
        return build.sub(build.mul(p[i], q[j]), build.mul(p[j], q[i]))

    if len(p) == len(q) == 2:
        return Tracer(minor(0, 1), weak)
    zero = build.zeros_like(p[0])
    p, q = (v if len(v) == 3 else [*v, zero] for v in (p, q))
    out = [minor(1, 2), minor(2, 0), minor(0, 1)]
    at = axis_of(axisc, out[0].ndim + 1, "cross")
    shape = out[0].shape
    return Tracer(joined([build.reshape(v, (*shape[:at], 1, *shape[at:])) for v in out], at, "cross"), weak)


@public(static=("N", "increasing"))
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """[n] -> [n, N]: the powers N-1 .. 0 of every element (0 .. N-1 if increasing).

    >>> vander(array([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int64)
    """
    t = lift(x)
    if t.ndim != 1:
        raise note_user_line(ShapeError(f"vander takes a vector, got shape {t.shape}"))
    n = t.shape[0]
    columns = n if N is None else N
    if columns < 0:
        raise note_user_line(ValueError(f"vander: N must not be negative, got {columns}"))
    kind = t.node.dtype if t.node.dtype is not dt.bool_ else dt.int64
    node = build.cast(t.node, kind)
    if columns < 2:
        return Tracer(build.const(1, kind, (n, columns)))
    ones = build.const(1, kind, (n, 1))
    powers = prefix(build.concatenate([ones, build.expand(node, [(1, columns - 1)])], 1), 1, Op.MUL)
    return Tracer(powers if increasing else build.flip(powers, (1,)))
