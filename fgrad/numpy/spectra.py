"""Eigenvalues and singular values as nodes, with derivative rules that stay finite where values coincide.

Vectors of equal eigenvalues are not determined, so their derivative towards each other is taken as 0; every function
that does not depend on the choice has its right derivative. Rules after Giles (2008), "Collected matrix derivative
results", and for complex svd Wan and Zhang (2019, arXiv:1909.02659).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.numpy.blocks import (
    across,
    adjoint,
    diagonal_of,
    down,
    inverse_or_zero,
    like,
    magnitude,
    mm,
    noise,
    on_host,
    scaled,
)
from fgrad.numpy.solves import each, solve
from fgrad.trace.maybe import Maybe
from fgrad.trace.update import take_along
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, mul, real, reduce_, reshape, sub
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__: list[str] = []


def _gaps(w: UOp) -> UOp:
    """[.., n] -> [.., n, n]: 1 / (w_j - w_i), 0 where they differ by rounding only."""
    n = w.shape[-1]
    gap = sub(across(w, n), down(w, n))
    tiny = noise(magnitude(w))
    return inverse_or_zero(gap, build.expand(tiny, [(tiny.ndim, n), (tiny.ndim + 1, n)]))


# ---- Hermitian matrices
def _eigh(a: Any) -> list[Any]:
    def f(a: Any) -> Any:
        return tuple(np.linalg.eigh(a))

    return list(each(f, a))


def _eigvalsh(a: Any) -> list[Any]:
    return [each(np.linalg.eigvalsh, a)]


def _eigh_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """dw = diag(x), dv = v (f * x), where x = v^H da v."""
    (w, v), (da,) = outs, tangents
    assert da is not None
    x = mm(adjoint(v), mm(da, v))
    return [real_part(diagonal_of(x)), mm(v, mul(like(_gaps(w), x), x))]


def _eigvalsh_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    (a,), (da,) = args, tangents
    assert da is not None
    _, v = eigh(a)
    return [real_part(diagonal_of(mm(adjoint(v), mm(da, v))))]


def real_part(x: UOp) -> UOp:
    return real(x) if x.dtype.is_complex else x


def eigh(a: UOp) -> tuple[UOp, UOp]:
    """w real [.., n] ascending, v [.., n, n] with a v = v diag(w). Takes Hermitian matrices."""
    avals = [(dt.real_of(a.dtype), a.shape[:-1]), (a.dtype, a.shape)]
    w, v = on_host(_eigh, (a,), avals, (), _eigh_jvp)
    return w, v


def eigvalsh(a: UOp) -> UOp:
    """w of eigh alone."""
    return on_host(_eigvalsh, (a,), [(dt.real_of(a.dtype), a.shape[:-1])], (), _eigvalsh_jvp)[0]


# ---- singular values
def _svd(is_full: bool, a: Any) -> list[Any]:
    def f(a: Any) -> Any:
        return tuple(np.linalg.svd(a, full_matrices=is_full))

    return list(each(f, a))


def _svdvals(a: Any) -> list[Any]:
    def f(a: Any) -> Any:
        return np.linalg.svd(a, compute_uv=False)

    return [each(f, a)]


def _svd_jvp(is_full: bool, args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """With x = u^H da v, g_ij = 1 / (s_j - s_i), h_ij = 1 / (s_i + s_j): ds = diag(x),
    du = u (g * (x + x^H) + h * (x - x^H)) / 2 and dv = v (g * (x + x^H) - h * (x - x^H)) / 2.

    g turns both together and h against each other: equal singular values lose the first only. What leaves the span
    of u or v is divided by s.
    """
    (u, s, vh), (da,) = outs, tangents
    assert da is not None
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if is_full and m != n:
        raise NotImplementedError(
            "svd(full_matrices=True) of a matrix that is not square has no derivative: the added vectors are not "
            "determined; use full_matrices=False"
        )
    v = adjoint(vh)
    dav = mm(da, v)
    x = mm(adjoint(u), dav)
    xh = adjoint(x)
    ds = real_part(diagonal_of(x))
    together = mul(like(_gaps(s), x), add(x, xh))
    against = mul(like(inverse_or_zero(add(across(s, k), down(s, k))), x), sub(x, xh))
    du, dv = mm(u, mul(add(together, against), 0.5)), mm(v, mul(sub(together, against), 0.5))
    one_over_s = inverse_or_zero(s, build.expand(noise(s), [(s.ndim - 1, k)]))
    if m > n:
        du = add(du, scaled(sub(dav, mm(u, x)), one_over_s))
    if n > m:
        dau = mm(adjoint(da), u)
        dv = add(dv, scaled(sub(dau, mm(v, xh)), one_over_s))
    return [du, ds, adjoint(dv)]


def _svdvals_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    (a,), (da,) = args, tangents
    assert da is not None
    u, _, vh = svd(a)
    return [real_part(diagonal_of(mm(mm(adjoint(u), da), adjoint(vh))))]


def svd(a: UOp, is_full: bool = False) -> tuple[UOp, UOp, UOp]:
    """u [.., m, k], s real [.., k] descending, v^H [.., k, n]; full: u [.., m, m], v^H [.., n, n]."""
    *batch, m, n = a.shape
    k = min(m, n)
    left, right = (m, n) if is_full else (k, k)
    avals = [
        (a.dtype, (*batch, m, left)),
        (dt.real_of(a.dtype), (*batch, k)),
        (a.dtype, (*batch, right, n)),
    ]
    u, s, vh = on_host(_svd, (a,), avals, (is_full,), _svd_jvp)
    return u, s, vh


def svdvals(a: UOp) -> UOp:
    """s of svd alone."""
    shape = (*a.shape[:-2], min(a.shape[-2:]))
    return on_host(_svdvals, (a,), [(dt.real_of(a.dtype), shape)], (), _svdvals_jvp)[0]


# ---- general matrices
def _eig(a: Any) -> list[Any]:
    wide = np.result_type(a.dtype, np.complex64)

    def f(a: Any) -> Any:
        w, v = np.linalg.eig(a)
        return w.astype(wide), v.astype(wide)

    return list(each(f, a))


def _eigvals(a: Any) -> list[Any]:
    wide = np.result_type(a.dtype, np.complex64)

    def f(a: Any) -> Any:
        return np.linalg.eigvals(a).astype(wide)

    return [each(f, a)]


def _moves(w: UOp, v: UOp, da: UOp) -> UOp:
    """v^-1 da v"""
    return solve(v, mm(like(da, w), v))


def _eig_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """dw = diag(x), dv = v (f * x), x = v^-1 da v; then kept at length 1 with its largest element real, as LAPACK
    returns vectors.
    """
    (w, v), (da,) = outs, tangents
    assert da is not None
    x = _moves(w, v, da)
    dv = mm(v, mul(_gaps(w), x))
    along = v.ndim - 2
    overlap = reduce_(add(mul(real(v), real(dv)), mul(build.imag(v), build.imag(dv))), (along,))
    size = magnitude(v)
    largest = build.eq(size, build.expand(reduce_(size, (along,), Op.MAX), [(along, v.shape[-2])]))
    place = build.where(largest, build.iota_along(v.shape, along), v.shape[-2])
    first = reduce_(place, (along,), Op.MIN)
    index = build.expand(first, [(along, 1)])
    lead = mul(take_along(dv, index, along), inverse_or_zero(take_along(v, index, along)))
    phase = reshape(build.imag(lead), w.shape)
    return [diagonal_of(x), sub(dv, mul(v, across(build.complex_(overlap, phase), v.shape[-2])))]


def _eigvals_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    (a,), (da,) = args, tangents
    assert da is not None
    w, v = eig(a)
    return [diagonal_of(_moves(w, v, da))]


def eig(a: UOp) -> tuple[UOp, UOp]:
    """w complex [.., n], v complex [.., n, n] with a v = v diag(w)."""
    wide = dt.complex_of(a.dtype)
    w, v = on_host(_eig, (a,), [(wide, a.shape[:-1]), (wide, a.shape)], (), _eig_jvp)
    return w, v


def eigvals(a: UOp) -> UOp:
    """w of eig alone."""
    return on_host(_eigvals, (a,), [(dt.complex_of(a.dtype), a.shape[:-1])], (), _eigvals_jvp)[0]
