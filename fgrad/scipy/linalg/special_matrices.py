"""Matrices with a structure: made of vectors (differentiable), or of their size alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.blocks import conj
from fgrad.numpy.common import DTypeLike, from_host, lift, public, size_of
from fgrad.numpy.creation import array
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler", "fiedler_companion", "hadamard",
    "hankel", "helmert", "hilbert", "invhilbert", "invpascal", "leslie", "pascal", "toeplitz",
]  # fmt: skip


# ---- of matrices and vectors
@public()
def _block_diag(parts: Any) -> Array:
    nodes, dtype, weak = promoted(*parts)
    blocks = [build.reshape(n, (1,) * (2 - n.ndim) + n.shape) for n in nodes]
    if any(x.ndim != 2 for x in blocks):
        raise note_user_line(
            ShapeError(f"block_diag takes matrices, vectors and numbers, got {[n.shape for n in nodes]}")
        )
    height, width = sum(x.shape[0] for x in blocks), sum(x.shape[1] for x in blocks)
    row = column = 0
    out = build.const(0, dtype, (height, width))
    for x in blocks:
        m, n = x.shape
        if m and n:
            out = build.update(out, x, box=[(row, m, 1), (column, n, 1)])
        row, column = row + m, column + n
    return Tracer(out, weak)


def block_diag(*arrs: ArrayLike) -> Array:
    """The matrix with these matrices (vectors are rows) along its diagonal, zeros elsewhere.

    >>> block_diag(fnp.array([[1, 2]]), fnp.array([[3]]))
    Array([[1, 2, 0],
           [0, 0, 3]], dtype=int64)
    """
    return (
        _block_diag([array(a) if isinstance(a, list | tuple) else a for a in arrs])
        if arrs
        else from_host(np.zeros((1, 0)), dt.default_float())
    )


def _vector(x: ArrayLike, name: str) -> UOp:
    t = lift(x)
    if t.ndim != 1:
        raise note_user_line(ShapeError(f"{name} takes vectors, got shape {t.shape}"))
    return t.node


def _pick(x: UOp, index: Any) -> UOp:
    """x at host-made positions [n, m]; 0 where they are out of bounds."""
    flat = lift(from_host(np.asarray(index, np.int64))).node
    return build.gather(x, flat)


def _grid(m: int, n: int) -> tuple[Any, Any]:
    return np.arange(m)[:, None], np.arange(n)[None, :]


@public()
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """[m], [n] -> [m, n]: the first column c, the first row r (c conjugated by default; r[0] is not read).

    >>> toeplitz(fnp.array([1, 2, 3]), fnp.array([1, 8, 9]))
    Array([[1, 8, 9],
           [2, 1, 8],
           [3, 2, 1]], dtype=int64)
    """
    first = lift(c)
    if r is None:
        r = Tracer(conj(first.node), first.weak)
    (x, y), _, weak = promoted(first, r)
    x, y = _vector(Tracer(x), "toeplitz"), _vector(Tracer(y), "toeplitz")
    m, n = x.shape[0], y.shape[0]
    i, j = _grid(m, n)
    return Tracer(_pick(build.concatenate([x, y], 0), np.where(i >= j, i - j, m + j - i)), weak)


@public()
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """[m], [n] -> [m, n]: the first column c, the last row r (zeros by default; r[0] is not read).

    >>> hankel(fnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int64)
    """
    first = lift(c)
    (x, y), _, weak = promoted(first, Tracer(build.zeros_like(first.node)) if r is None else r)
    x, y = _vector(Tracer(x), "hankel"), _vector(Tracer(y), "hankel")
    m, n = x.shape[0], y.shape[0]
    i, j = _grid(m, n)
    return Tracer(_pick(build.concatenate([x, y], 0), np.where(i + j < m, i + j, i + j + 1)), weak)


@public()
def circulant(c: ArrayLike) -> Array:
    """[n] -> [n, n]: every column is c, turned down by one more.

    >>> circulant(fnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int64)
    """
    x = _vector(c, "circulant")
    i, j = _grid(x.shape[0], x.shape[0])
    return Tracer(_pick(x, (i - j) % max(1, x.shape[0])), lift(c).weak)


@public(static=("n", "mode"))
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix with which a product is convolve(a, v, mode) for v of n elements.

    >>> convolution_matrix(fnp.array([1, 2]), 3)
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1],
           [0, 0, 2]], dtype=int64)
    """
    x = _vector(a, "convolution_matrix")
    m = x.shape[0]
    if mode not in ("full", "same", "valid"):
        raise note_user_line(ArgumentError(f"convolution_matrix: mode must be 'full', 'same' or 'valid', got {mode!r}"))
    rows = {"full": m + n - 1, "same": max(m, n), "valid": max(m, n) - min(m, n) + 1}[mode]
    start = {"full": 0, "same": (min(m, n) - 1) // 2, "valid": min(m, n) - 1}[mode]
    i, j = _grid(rows, n)
    index = i + start - j
    return Tracer(_pick(x, np.where((index >= 0) & (index < m), index, m)), lift(a).weak)


@public()
def companion(a: ArrayLike) -> Array:
    """[n + 1] -> [n, n]: the matrix whose eigenvalues are the roots of the polynomial a.

    >>> companion(fnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (x,), dtype, _ = promoted(a, least=dt.default_float())
    x = _vector(Tracer(x), "companion")
    n = x.shape[0] - 1
    if n < 1:
        raise note_user_line(ShapeError(f"companion needs at least 2 coefficients, got {n + 1}"))
    lead = build.broadcast_to(build.slice_axis(x, 0, 0, 1), (n,))
    row = build.neg(build.div(build.slice_axis(x, 0, 1, n + 1), lead))
    return Tracer(build.update(_ones_below(n, dtype), build.reshape(row, (1, n)), box=[(0, 1, 1), (0, n, 1)]))


def _ones_below(n: int, dtype: DType) -> UOp:
    i, j = build.iota_along((n, n), 0), build.iota_along((n, n), 1)
    return build.cast(build.eq(i, build.add(j, 1)), dtype)


@public()
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """[n], [n - 1] -> [n, n]: the first row f, the subdiagonal s.

    >>> leslie(fnp.array([0.1, 2.0]), fnp.array([0.5]))
    Array([[0.1, 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    (x, y), dtype, weak = promoted(f, s)
    n = x.shape[-1] if x.ndim else 0
    if n < 2:
        raise note_user_line(ShapeError(f"leslie: the length of f along the last axis must be at least 2, got {n}"))
    if x.ndim != 1 or y.shape != (n - 1,):
        raise note_user_line(
            ShapeError(
                f"leslie: Incorrect lengths for f and s: they are [n] and [n - 1], got shapes {x.shape} and {y.shape}"
            )
        )
    column = build.expand(build.pad(y, [(1, 0, 0)]), [(1, n)])
    i, j = build.iota_along((n, n), 0), build.iota_along((n, n), 1)
    below = build.where(build.eq(i, build.add(j, 1)), column, build.zeros_like(column))
    return Tracer(build.update(below, build.reshape(x, (1, n)), box=[(0, 1, 1), (0, n, 1)]), weak)


@public()
def fiedler(a: ArrayLike) -> Array:
    """[n] -> [n, n]: |a_i - a_j|.

    >>> fiedler(fnp.array([1, 4, 6]))
    Array([[0, 3, 5],
           [3, 0, 2],
           [5, 2, 0]], dtype=int64)
    """
    x = _vector(a, "fiedler")
    n = x.shape[0]
    return Tracer(build.abs_(build.sub(build.expand(x, [(1, n)]), build.expand(x, [(0, n)]))), lift(a).weak)


@public()
def fiedler_companion(a: ArrayLike) -> Array:
    """[n + 1] -> [n, n]: a pentadiagonal matrix with the eigenvalues of companion(a).

    >>> fiedler_companion(fnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (x,), dtype, _ = promoted(a, least=dt.default_float())
    x = _vector(Tracer(x), "fiedler_companion")
    n = x.shape[0] - 1
    if n < 2:
        raise note_user_line(ShapeError(f"fiedler_companion needs at least 3 coefficients, got {n + 1}"))
    lead = build.broadcast_to(build.slice_axis(x, 0, 0, 1), (n,))
    b = build.neg(build.div(build.slice_axis(x, 0, 1, n + 1), lead))
    # places of -a_k / a_0 and of ones, row by row: n stands for a zero, n + 1 for a one
    index = np.full((n, n), n)
    index[0, 0] = 0
    if n > 1:
        index[0, 1], index[1, 0] = 1, n + 1
    for k in range(1, n - 1):
        if k % 2:
            index[k + 1, k], index[k - 1, k + 1] = k + 1, n + 1
            index[k + 1, k - 1] = n
        if not k % 2:
            index[k, k + 1], index[k + 1, k - 1] = k + 1, n + 1
    source = build.concatenate([b, build.const(0, dtype, (1,)), build.const(1, dtype, (1,))], 0)
    return Tracer(_pick(source, index))


# ---- of a size
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike = None) -> Array:
    """The matrix of the discrete Fourier transform; scale None, "sqrtn" or "n" divides it.

    >>> dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    size = size_of(n, "dft")
    if scale not in (None, "sqrtn", "n"):
        raise note_user_line(ArgumentError(f"dft: scale must be None, 'sqrtn' or 'n', got {scale!r}"))
    i, j = _grid(size, size)
    x = np.exp(-2j * np.pi * (i * j % max(size, 1)) / max(size, 1))
    x = x / {None: 1.0, "sqrtn": math.sqrt(size), "n": float(size)}[scale]
    return from_host(x, dt.default_complex() if dtype is None else to_dtype(dtype))


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """[n, n] of 1 and -1 with orthogonal rows, for powers of 2.

    Raises ValueError for other n.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int64)
    """
    size = size_of(n, "hadamard")
    if size < 1 or size & (size - 1):
        raise note_user_line(ArgumentError(f"hadamard: n must be a power of 2, got {size}"))
    i, j = _grid(size, size)
    odd = np.vectorize(lambda x: bin(x).count("1") % 2)(i & j)
    return from_host(1 - 2 * odd, to_dtype(dtype))


def hilbert(n: int) -> Array:
    """[n, n]: 1 / (i + j + 1).

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    i, j = _grid(size_of(n, "hilbert"), n)
    return from_host(1.0 / (i + j + 1), dt.default_float())


def invhilbert(n: int) -> Array:
    """The inverse of hilbert(n), exact before rounding.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    size = size_of(n, "invhilbert")

    def element(i: int, j: int) -> int:
        product = math.comb(size + i, size - j - 1) * math.comb(size + j, size - i - 1) * math.comb(i + j, i) ** 2
        return (i + j + 1) * product * (-1 if (i + j) % 2 else 1)

    return from_host(_matrix(size, element), dt.default_float())


def _matrix(n: int, element: Any) -> Any:
    return np.array([[float(element(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n)


def pascal(n: int, kind: str = "symmetric") -> Array:
    """Binomial coefficients: C(i + j, i), or the "lower" triangle C(i, j), or its transpose ("upper").

    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    size = size_of(n, "pascal")
    if kind not in ("symmetric", "lower", "upper"):
        raise note_user_line(ArgumentError(f"pascal: kind must be 'symmetric', 'lower' or 'upper', got {kind!r}"))
    rule = {"symmetric": lambda i, j: math.comb(i + j, i), "lower": math.comb, "upper": lambda i, j: math.comb(j, i)}
    return from_host(_matrix(size, rule[kind]), dt.default_float())


def invpascal(n: int, kind: str = "symmetric") -> Array:
    """The inverse of pascal(n, kind).

    >>> invpascal(3)
    Array([[ 3., -3.,  1.],
           [-3.,  5., -2.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    size = size_of(n, "invpascal")
    if kind not in ("symmetric", "lower", "upper"):
        raise note_user_line(
            ValueError(f"invpascal: Expected kind to be one of 'symmetric', 'lower' or 'upper', got {kind!r}")
        )

    def low(i: int, j: int) -> int:
        return math.comb(i, j) * (-1 if (i + j) % 2 else 1)

    rule = {
        "lower": low,
        "upper": lambda i, j: low(j, i),
        "symmetric": lambda i, j: sum(low(k, i) * low(k, j) for k in range(size)),
    }
    return from_host(_matrix(size, rule[kind]), dt.default_float())


def helmert(n: int, full: bool = False) -> Array:
    """[n - 1, n] with orthonormal rows that add up to 0; `full`: [n, n], the first row constant.

    >>> helmert(2).round(4)
    Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    size = size_of(n, "helmert")
    i, j = _grid(size, size)
    below = np.where(j < i, 1.0, np.where(j == i, -i.astype(np.float64), 0.0))
    below[:1] = 1.0
    x = below / np.sqrt(np.maximum(i * (i + 1.0), 1.0))
    x[:1] = 1 / math.sqrt(max(size, 1))
    return from_host(x if full else x[1:], dt.default_float())
