"""Random vectors and matrices with structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.scans import scan
from fgrad.numpy.blocks import conj
from fgrad.numpy.elementwise import magnitude
from fgrad.numpy.spectra import eigh, svd
from fgrad.random.continuous import DTypeLike, Shape, any_normal_node, normal_node, sample_shape
from fgrad.random.keys import normal_shape, single
from fgrad.random.threefry import float_of
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop.build import add, div, mul, sub
from fgrad.uop.dtype import accumulator, to_dtype
from fgrad.uop.node import UOp


def _column(x: UOp, j: UOp) -> UOp:
    """x[.., n, k] -> x[.., j]."""
    box: list[tuple[int | None, int, int]] = [(0, n, 1) for n in x.shape[:-1]]
    part = build.shrink(x, [*box, (None, 1, 1)], [j])
    return build.reshape(part, x.shape[:-1])


def _by_columns(step: Callable[[UOp, UOp], tuple[UOp, UOp]], carry: UOp, count: int) -> UOp:
    """`step(carry, j)` for every column j, the columns it gives side by side on a new last axis."""

    def body(state: Any, j: Any) -> tuple[Tracer, Tracer]:
        following, column = step(lift(state).node, lift(j).node)
        return Tracer(following), Tracer(column)

    columns = lift(scan(body, Tracer(carry), Tracer(build.iota(count)))[1]).node
    return build.permute(columns, [*range(1, columns.ndim), 0])


def cholesky_node(a: UOp) -> UOp:
    """The lower triangular L with L L^T = a[.., n, n] (NaN where a is not positive definite)."""
    n, lead = a.shape[-1], a.shape[:-2]
    rows = build.iota_along((*lead, n), len(lead))

    def step(rest: UOp, j: UOp) -> tuple[UOp, UOp]:
        column = _column(rest, j)
        pivot = build.sqrt(build.expand(_column(column, j), [(len(lead), n)]))
        column = build.where(build.lt(rows, j), build.zeros_like(column), div(column, pivot))
        across, down = (
            build.expand(column, [(a.ndim - 1, n)]),
            build.expand(column, [(a.ndim - 2, n)]),
        )
        return sub(rest, mul(across, down)), column

    return _by_columns(step, a, n)


def orthonormal_node(z: UOp) -> UOp:
    """The Q of z[.., n, k] = Q R, n >= k, where R has a positive diagonal: Gram-Schmidt, each column cleaned twice."""
    n, k, lead = z.shape[-2], z.shape[-1], len(z.shape) - 2
    places = build.iota_along(z.shape, lead + 1)

    def step(done: UOp, j: UOp) -> tuple[UOp, UOp]:
        v = _column(z, j)
        for _ in range(2):
            overlap = build.reduce_(mul(conj(done), build.expand(v, [(lead + 1, k)])), [lead])
            part = build.reduce_(mul(done, build.expand(overlap, [(lead, n)])), [lead + 1])
            v = sub(v, part)
        size = magnitude(v)
        length = build.cast(build.sqrt(build.reduce_(mul(size, size), [lead])), v.dtype)
        v = div(v, build.expand(length, [(lead, n)]))
        return build.where(build.eq(places, j), build.expand(v, [(lead + 1, k)]), done), v

    return _by_columns(step, build.zeros_like(z), k)


def _root_node(c: UOp, method: str) -> UOp:
    """F [.., n, n] with F F^T = c, symmetric and not negative definite."""
    if method == "cholesky":
        return cholesky_node(c)
    wide = build.cast(c, accumulator(c.dtype))
    if method == "svd":
        vectors, values, _ = svd(wide)
    else:
        values, vectors = eigh(wide)
    # eigenvalues that rounding took below 0 count as 0
    root = build.sqrt(build.maximum(values, 0))
    return build.cast(mul(vectors, build.expand(root, [(vectors.ndim - 2, vectors.shape[-2])])), c.dtype)


@public(static=("shape", "dtype", "method"))
def multivariate_normal(
    key: Any,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Shape = None,
    dtype: DTypeLike = None,
    method: str = "cholesky",
) -> Array:
    """Normal vectors [*shape, n] of that `mean` [.., n] and covariance `cov` [.., n, n].

    method   how the covariance is factored: "cholesky" (NaN where it is singular), "eigh" or "svd"

    >>> random.multivariate_normal(random.key(0), fnp.zeros(2), fnp.eye(2), (3,)).shape
    (3, 2)
    """
    if method not in ("cholesky", "svd", "eigh"):
        raise note_user_line(ArgumentError(f'method is "cholesky", "eigh" or "svd", got {method!r}'))
    kind = float_of(dtype, "multivariate_normal")
    m, c = cast_node(mean, kind), cast_node(cov, kind)
    if m.ndim < 1 or c.ndim < 2 or c.shape[-2:] != (m.shape[-1],) * 2:
        raise note_user_line(
            ShapeError(f"multivariate_normal needs mean [.., n] and cov [.., n, n], got {m.shape}, {c.shape}")
        )
    n = m.shape[-1]
    leads = [build.const(0, kind, s) for s in (m.shape[:-1], c.shape[:-2])]
    size = sample_shape(shape, "multivariate_normal", *leads)
    x = normal_node(single(key, "multivariate_normal"), (*size, n), kind)
    factor = build.broadcast_to(_root_node(c, method), (*size, n, n))
    product = mul(factor, build.expand(x, [(len(size), n)]))
    return Tracer(add(build.reduce_(product, [len(size) + 1]), m))


@public(static=("n", "shape", "dtype", "m"))
def orthogonal(key: Any, n: int, shape: Shape = (), dtype: DTypeLike = None, m: int | None = None) -> Array:
    """Uniformly random matrices [*shape, n, m] with orthonormal rows or columns, whichever are fewer.

    m       is n by default
    dtype   floating, or complex for unitary matrices

    >>> q = random.orthogonal(random.key(0), 3)
    >>> fnp.allclose(q @ q.T, fnp.eye(3), atol=1e-5)
    Array(True, dtype=bool)
    """
    given = None if dtype is None else to_dtype(dtype)
    kind = given if given is not None and given.is_complex else float_of(dtype, "orthogonal")
    rows, columns = int(n), int(n if m is None else m)
    size = normal_shape(shape, "orthogonal")
    tall = (max(rows, columns), min(rows, columns))
    if not tall[1]:
        return Tracer(build.const(0, kind, (*size, rows, columns)))
    z = any_normal_node(single(key, "orthogonal"), (*size, *tall), kind)
    q = build.cast(orthonormal_node(build.cast(z, accumulator(kind))), kind)
    if rows < columns:
        q = build.permute(q, [*range(len(size)), len(size) + 1, len(size)])
    return Tracer(q)


__all__ = ["cholesky_node", "multivariate_normal", "orthogonal", "orthonormal_node"]
