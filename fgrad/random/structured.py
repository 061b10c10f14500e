"""Random vectors and matrices with structure."""

from __future__ import annotations

from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.random.continuous import DTypeLike, Shape, normal_node, sample_shape
from fgrad.random.keys import single
from fgrad.random.threefry import float_of
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build
from fgrad.uop.build import add, div, mul, sub
from fgrad.uop.node import UOp


def cholesky_columns(a: UOp) -> UOp:
    """The lower triangular L with L L^T = a[.., n, n], column by column (NaN where a is not positive definite)."""
    n, axis = a.shape[-1], a.ndim - 1
    lead = a.shape[:-2]
    rows = build.iota_along((*lead, n), len(lead))
    done: list[UOp] = []
    rest = a
    for j in range(n):
        column = build.reshape(build.slice_axis(rest, axis, j, j + 1), (*lead, n))
        pivot = build.sqrt(build.slice_axis(column, len(lead), j, j + 1))
        column = div(column, build.broadcast_to(pivot, column.shape))
        column = build.where(build.lt(rows, j), build.zeros_like(column), column)
        done.append(build.reshape(column, (*lead, n, 1)))
        across = build.expand(column, [(axis, n)])
        down = build.expand(column, [(axis - 1, n)])
        rest = sub(rest, mul(across, down))
    return build.concatenate(done, axis)


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

    method   only "cholesky" is supported; the factorization is unrolled, so keep n below a hundred
    """
    if method != "cholesky":
        if method in ("svd", "eigh"):
            raise NotImplementedError(f'multivariate_normal with method="{method}"; use "cholesky"')
        raise note_user_line(
            ArgumentError(f'method is "cholesky", "eigh" or "svd", got {method!r}')
        )
    kind = float_of(dtype, "multivariate_normal")
    m, c = cast_node(mean, kind), cast_node(cov, kind)
    if m.ndim < 1 or c.ndim < 2 or c.shape[-2:] != (m.shape[-1],) * 2:
        raise note_user_line(
            ShapeError(
                f"multivariate_normal needs mean [.., n] and cov [.., n, n], got {m.shape}, {c.shape}"
            )
        )
    n = m.shape[-1]
    leads = [build.const(0, kind, s) for s in (m.shape[:-1], c.shape[:-2])]
    size = sample_shape(shape, "multivariate_normal", *leads)
    x = normal_node(single(key, "multivariate_normal"), (*size, n), kind)
    factor = build.broadcast_to(cholesky_columns(c), (*size, n, n))
    product = mul(factor, build.expand(x, [(len(size), n)]))
    return Tracer(add(build.reduce_(product, [len(size) + 1]), m))


def orthogonal(
    key: Any, n: int, shape: Shape = (), dtype: DTypeLike = None, m: int | None = None
) -> Array:
    """Random orthogonal matrices; they need a QR factorization of traced arrays, which is not there yet."""
    raise NotImplementedError(
        "random.orthogonal; take the q of fgrad.numpy.linalg.qr(normal(key, (n, n)))"
    )
