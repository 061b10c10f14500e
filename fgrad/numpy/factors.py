"""Factorizations into triangles as nodes: cholesky, qr, lu, with derivative rules. [.., m, n], k = min(m, n).

Rules after Murray (2016, arXiv:1602.07527), Walter and Lehmann (2012, arXiv:1001.1654), both for complex matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.numpy.blocks import (
    adjoint,
    columns,
    conj,
    identity,
    imaginary,
    keep,
    lower,
    mm,
    on_host,
    positions,
    rows,
    upper,
)
from fgrad.numpy.solves import each, right_triangular, triangular_solve
from fgrad.trace.maybe import Maybe
from fgrad.trace.update import take_along
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import gets

__all__: list[str] = []


# ---- cholesky
def _cholesky(a: Any) -> list[Any]:
    return [each(np.linalg.cholesky, a)]


def _cholesky_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """L phi(L^-1 da L^-H); phi takes the lower triangle with half of the diagonal."""
    (l,), (da,) = outs, tangents  # noqa: E741  the name of this triangle
    assert da is not None
    x = right_triangular(triangular_solve(l, da, True), adjoint(l), False)
    i, j = positions(x)
    half = build.where(build.eq(i, j), build.const_like(0.5, x), build.const_like(1, x))
    return [mm(l, lower(build.mul(x, half)))]


def cholesky(a: UOp) -> UOp:
    """The lower triangle l with l l^H = a; NaN where `a` is not positive definite. Takes Hermitian matrices."""
    return on_host(_cholesky, (a,), [(a.dtype, a.shape)], (), _cholesky_jvp)[0]


# ---- qr
def _qr(is_complete: bool, a: Any) -> list[Any]:
    q, r = np.linalg.qr(a, mode="complete" if is_complete else "reduced")
    return [q, r]


def _qr_jvp(is_complete: bool, args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """With x = q^H da r^-1: dq = da r^-1 - q (x - w), dr = (x - w) r, where w is skew and x - w is upper."""
    (q, r), (da,) = outs, tangents
    assert da is not None
    if q.shape[-2] != q.shape[-1] and q.shape[-1] != r.shape[-1] or q.shape[-1] > r.shape[-1]:
        raise NotImplementedError(
            "qr(mode='complete') of a tall matrix has no derivative: the added columns are not determined; "
            "use mode='reduced'"
        )
    y = right_triangular(da, r, False)
    x = mm(adjoint(q), y)
    below = lower(x, -1)
    w = build.sub(below, adjoint(below))
    if x.dtype.is_complex:
        i, j = positions(x)
        w = build.add(w, keep(imaginary(x), build.eq(i, j)))
    up = build.sub(x, w)
    return [build.sub(y, mm(q, up)), mm(up, r)]


def qr(a: UOp, is_complete: bool = False) -> tuple[UOp, UOp]:
    """q [.., m, k], r [.., k, n]; complete: q [.., m, m], r [.., m, n]."""
    *batch, m, n = a.shape
    if m < n:  # the first m columns determine q
        q, r = qr(columns(a, 0, m))
        return q, build.concatenate([r, mm(adjoint(q), columns(a, m, n))], a.ndim - 1)
    k = m if is_complete else n
    q, r = on_host(_qr, (a,), [(a.dtype, (*batch, m, k)), (a.dtype, (*batch, k, n))], (is_complete,), _qr_jvp)
    return q, r


# ---- lu
def _lu(a: Any) -> list[Any]:
    m, n = a.shape[-2:]
    k = min(m, n)
    out = np.array(a)
    pivots = np.zeros((*a.shape[:-2], k), np.int32)
    factor = _scipy_lu() if k >= 16 else None
    if factor is not None:
        for at in np.ndindex(*a.shape[:-2]):
            out[at], pivots[at], _ = factor(a[at])
    else:
        for at in np.ndindex(*a.shape[:-2]):
            pivots[at] = _eliminate(out[at])
    permutation = np.empty((*a.shape[:-2], m), np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        permutation[at] = permuted(pivots[at], m)
    return [out, pivots, permutation]


def _scipy_lu() -> Any:
    """LAPACK's getrf for any dtype, None where SciPy is not installed."""
    try:
        from scipy.linalg.lapack import get_lapack_funcs
    except ImportError:
        return None
    return lambda a: get_lapack_funcs(("getrf",), (a,))[0](a)


def _eliminate(a: Any) -> list[int]:
    """Gaussian elimination with partial pivoting, in place; returns the pivots."""
    m, n = a.shape
    pivots = []
    with np.errstate(all="ignore"):
        for i in range(min(m, n)):
            column = a[i:, i]
            p = i + int(np.argmax(np.abs(column.real) + np.abs(column.imag)))  # LAPACK's measure
            pivots.append(p)
            if p != i:
                a[[i, p]] = a[[p, i]]
            if a[i, i] != 0:
                a[i + 1 :, i] /= a[i, i]
            a[i + 1 :, i + 1 :] -= np.outer(a[i + 1 :, i], a[i, i + 1 :])
    return pivots


def permuted(pivots: Any, m: int) -> Any:
    """The order that rows 0 .. m - 1 end up in when row i is exchanged with row pivots[i], one after the other."""
    order = np.arange(m, dtype=np.int32)
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    return order


def lu_parts(packed: UOp) -> tuple[UOp, UOp]:
    """lower [.., m, k] with ones on its diagonal, upper [.., k, n]."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    left = columns(packed, 0, k)
    return build.add(lower(left, -1), identity(left.shape, packed.dtype)), upper(rows(packed, 0, k))


def take_rows(x: UOp, order: UOp) -> UOp:
    """[.., m, n], int [.., m] -> [.., m, n]: rows in the given order."""
    full = build.expand(build.cast(order, dt.int64), [(x.ndim - 1, x.shape[-1])])
    return take_along(x, full, x.ndim - 2)


def _lu_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """With x = l^-1 p da u^-1: dl = l tril(x, -1), du = triu(x) u; l and u are filled up to squares."""
    (packed, _, order), (da,) = outs, tangents
    assert da is not None
    *batch, m, n = packed.shape
    k = min(m, n)
    l, u = lu_parts(packed)  # noqa: E741
    if m > k:
        l = build.concatenate([l, columns(identity((*batch, m, m), l.dtype), k, m)], l.ndim - 1)  # noqa: E741
    if n > k:
        u = build.concatenate([u, rows(identity((*batch, n, n), u.dtype), k, n)], u.ndim - 2)
    x = right_triangular(triangular_solve(l, take_rows(da, order), True, True), u, False)
    dl = mm(l, lower(columns(x, 0, k), -1))
    du = mm(upper(rows(x, 0, k)), u)
    if n > k:
        dl = build.pad(dl, [(0, 0, 0)] * (dl.ndim - 1) + [(0, n - k, 0)])
    if m > k:
        du = build.pad(du, [(0, 0, 0)] * (du.ndim - 2) + [(0, m - k, 0), (0, 0, 0)])
    return [build.add(lower(dl, -1), upper(du)), None, None]


def lu(a: UOp) -> tuple[UOp, UOp, UOp]:
    """-> both triangles in one [.., m, n], pivots int32 [.., k], the order of the rows int32 [.., m]."""
    *batch, m, n = a.shape
    avals = [(a.dtype, a.shape), (dt.int32, (*batch, min(m, n))), (dt.int32, (*batch, m))]
    packed, pivots, order = on_host(_lu, (a,), avals, (), _lu_jvp)
    return packed, pivots, order


# ---- reflections
def householder(a: UOp, tau: UOp) -> UOp:
    """[.., m, n], [.., k] -> [.., m, n]: the product of elementary reflections, its first n columns. As nodes it is
    differentiable: one update of a matrix for each reflection.
    """
    m, n = a.shape[-2:]
    out = identity(a.shape, a.dtype)
    for i in reversed(range(tau.shape[-1])):
        column = build.reshape(columns(a, i, i + 1), a.shape[:-1])
        place = build.iota_along(column.shape, column.ndim - 1)
        v = build.where(build.lt(i, place), column, build.cast(build.eq(place, i), a.dtype))
        row = build.expand(conj(v), [(v.ndim - 1, 1)])
        t = build.expand(build.reshape(columns(tau, i, i + 1), tau.shape[:-1]), [(tau.ndim - 1, m), (tau.ndim, n)])
        inner = build.broadcast_to(mm(row, out), out.shape)
        out = build.sub(out, build.mul(t, build.mul(build.expand(v, [(v.ndim, n)]), inner)))
    return out


def geqrf(a: UOp) -> tuple[UOp, UOp]:
    """[.., m, n] -> [.., m, n], [.., k]: R above the reflections of qr, as LAPACK keeps them. No derivative."""
    k = min(a.shape[-2:])
    h, tau = on_host(_geqrf, (a,), [(a.dtype, a.shape), (a.dtype, (*a.shape[:-2], k))])
    return h, tau


def _geqrf(a: Any) -> list[Any]:
    h, tau = np.linalg.qr(a, mode="raw")
    return [np.swapaxes(h, -1, -2), tau]


# ---- orders
def descending(x: UOp) -> UOp:
    """[.., n] -> int64 [.., n]: positions of the elements from the largest to the smallest."""
    axis = x.ndim - 1
    order = gets(uop(Op.SORT, (build.neg(x), build.iota_along(x.shape, axis)), axis))
    return order[1]


def take_elements(x: UOp, order: UOp) -> UOp:
    """[.., n], int64 [.., n] -> [.., n]"""
    return take_along(x, order, x.ndim - 1)


def take_columns(x: UOp, order: UOp) -> UOp:
    """[.., m, n], int64 [.., n] -> [.., m, n]"""
    return take_along(x, build.expand(order, [(x.ndim - 2, x.shape[-2])]), x.ndim - 1)
