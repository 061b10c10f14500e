"""fgrad.numpy.linalg: NumPy's linear algebra and the array API standard's, over the last two axes.

Factorizations are computed by LAPACK on the host, one call for a whole batch. A matrix that cannot be factored
(singular, not positive definite) gives NaN in its own place of the batch, under jit as outside. Real and complex
matrices of any float dtype; integers become the default float, small floats are computed in float32.
"""

from __future__ import annotations

import operator
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, describe, note_user_line
from fgrad.numpy import decompositions, norms, systems
from fgrad.numpy.common import DTypeLike, axis_of, lift, public
from fgrad.numpy.decompositions import *  # noqa: F403
from fgrad.numpy.matrices import diagonal as _diagonal
from fgrad.numpy.matrices import eye
from fgrad.numpy.norms import *  # noqa: F403
from fgrad.numpy.products import cross as _cross
from fgrad.numpy.products import matmul, tensordot, vecdot
from fgrad.numpy.products import outer as _outer
from fgrad.numpy.reductions import trace as _trace
from fgrad.numpy.shapes import matrix_transpose
from fgrad.numpy.systems import *  # noqa: F403
from fgrad.numpy.systems import inv
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build

__all__ = [
    "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer", "tensordot", "trace",
    "vecdot",
]  # fmt: skip
for _part in (decompositions, norms, systems):
    __all__ += _part.__all__


@public(static=("n",))
def matrix_power(a: ArrayLike, n: int) -> Array:
    """[.., m, m] -> [.., m, m]: the n-th power of square matrices, by squaring; of the inverse for n < 0.

    Raises ShapeError for matrices that are not square.

    >>> matrix_power(array([[1, 1], [0, 1]]), 5)
    Array([[1, 5],
           [0, 1]], dtype=int64)
    """
    t = lift(a)
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise note_user_line(ShapeError(f"matrix_power takes square matrices, got shape {t.shape}"))
    try:
        n = operator.index(n)
    except TypeError:
        raise note_user_line(ArgumentError(f"matrix_power: n must be an integer, got {describe(n)}")) from None
    if n < 0:
        t, n = lift(inv(t)), -n
    if n == 0:
        one = cast_node(eye(t.shape[-1]), t.node.dtype)
        return Tracer(build.broadcast_to(one, t.shape), t.weak)
    out: Array | None = None
    base: Array = t
    while True:
        if n & 1:
            out = base if out is None else matmul(out, base)
        n >>= 1
        if not n:
            assert out is not None
            return out
        base = matmul(base, base)


@public(static=("precision",))
def multi_dot(arrays: Any, *, precision: Any = None) -> Array:
    """The product of several matrices (vectors at the ends), in the order that is cheapest.

    At least two; raises ShapeError where they do not fit.

    >>> multi_dot([fnp.ones((2, 9)), fnp.ones((9, 3)), fnp.ones(3)])
    Array([27., 27.], dtype=float32)
    """
    xs: list[Array] = [lift(a) for a in arrays]
    if len(xs) < 2:
        raise note_user_line(ArgumentError("multi_dot needs at least two arrays"))
    for k, x in enumerate(xs):
        if x.ndim != 2 and not (x.ndim == 1 and k in (0, len(xs) - 1)):
            raise note_user_line(
                ShapeError(f"multi_dot takes matrices (vectors at the ends), array {k} has shape {x.shape}")
            )
    sizes = {0: xs[0].shape[0] if xs[0].ndim == 2 else 1}
    for k, x in enumerate(xs):
        sizes[k + 1] = x.shape[-1] if x.ndim == 2 or k == 0 else 1
    left: list[tuple[Array, tuple[int, int]]] = [(x, (k, k + 1)) for k, x in enumerate(xs)]
    while len(left) > 1:  # neighbours only: the pair that saves most

        def cost(i: int) -> tuple[int, int]:
            (_, (a, b)), (_, (_, c)) = left[i], left[i + 1]
            return sizes[a] * sizes[c] - sizes[a] * sizes[b] - sizes[b] * sizes[c], i

        i = min(range(len(left) - 1), key=cost)
        (x, (a, _)), (y, (_, c)) = left[i], left[i + 1]
        left[i : i + 2] = [(matmul(x, y), (a, c))]
    return left[0][0]


@public(static=("offset",))
def diagonal(x: ArrayLike, *, offset: int = 0) -> Array:
    """[.., n, m] -> [.., d]: a diagonal of the matrices over the last two axes.

    offset > 0 lies above the main diagonal.

    >>> diagonal(array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int64)
    """
    return _diagonal(x, offset, -2, -1)


@public(static=("offset", "dtype"))
def trace(x: ArrayLike, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """[.., n, m] -> [..]: the sum of a diagonal of the matrices over the last two axes.

    offset > 0 lies above the main diagonal. Small integers are summed as int64, unless `dtype` says otherwise.

    >>> trace(array([[1, 2], [3, 4]]))
    Array(5, dtype=int64)
    """
    return _trace(x, offset, -2, -1, dtype)


@public()
def outer(x1: ArrayLike, x2: ArrayLike) -> Array:
    """[n], [m] -> [n, m]: all products of two vectors.

    Raises ShapeError for anything but vectors.

    >>> outer(array([1, 2]), array([1, 10]))
    Array([[ 1, 10],
           [ 2, 20]], dtype=int64)
    """
    a, b = lift(x1), lift(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise note_user_line(ShapeError(f"linalg.outer takes vectors, got shapes {a.shape} and {b.shape}"))
    return _outer(x1, x2)


@public(static=("axis",))
def cross(x1: ArrayLike, x2: ArrayLike, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 elements along `axis`.

    The other axes broadcast; ShapeError for vectors of other sizes.

    >>> cross(array([1.0, 0.0, 0.0]), array([0.0, 1.0, 0.0]))
    Array([0., 0., 1.], dtype=float32)
    """
    for x in (lift(x1), lift(x2)):
        if x.shape[axis_of(axis, x.ndim, "linalg.cross")] != 3:
            raise note_user_line(
                ShapeError(f"linalg.cross takes vectors of 3 elements along axis {axis}, got shape {x.shape}")
            )
    return _cross(x1, x2, axis=axis)

trim_public(globals(), __all__)
