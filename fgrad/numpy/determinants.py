"""Determinants as nodes. Their derivative is the matrix of cofactors, which exists for singular matrices too."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.numpy.blocks import (
    across,
    adjoint,
    conj,
    diagonal,
    diagonal_of,
    identity,
    like,
    mm,
    on_host,
    swap,
    trace,
)
from fgrad.numpy.solves import each, solve
from fgrad.numpy.spectra import real_part, svd
from fgrad.trace.maybe import Maybe
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import mul, reduce_
from fgrad.uop.node import UOp
from fgrad.uop.op import Op

__all__: list[str] = []


def _det(a: Any) -> list[Any]:
    return [np.linalg.det(a)]


def _det_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    (a,), (da,) = args, tangents
    assert da is not None
    return [reduce_(mul(cofactors(a), da), (a.ndim - 2, a.ndim - 1))]


def det(a: UOp) -> UOp:
    """[.., n, n] -> [..]"""
    return on_host(_det, (a,), [(a.dtype, a.shape[:-2])], (), _det_jvp)[0]


# ---- cofactors
def _cofactors(a: Any) -> list[Any]:
    """det(u) det(v^H) conj(u) diag(products of the other singular values) conj(v^H)."""

    def f(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a)
        ones = np.ones_like(s[..., :1])
        before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
        after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., ::-1]
        phase = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
        return (np.conj(u) * (before * after)[..., None, :]) @ np.conj(vh) * phase

    return [each(f, a)]


def _cofactors_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """In the basis of singular vectors: x = u^H da v changes the cofactor (i, i) by the sum of p_ij x_jj, and (i, j)
    by -p_ij x_ji, where p_ij is the product of the singular values other than i and j.
    """
    (a,), (da,) = args, tangents
    assert da is not None
    u, s, vh = svd(a)
    n = s.shape[-1]
    x = mm(mm(adjoint(u), da), adjoint(vh))
    cube = (*s.shape[:-1], n, n, n)
    b = s.ndim - 1
    i, j, k = (build.iota_along(cube, b + axis) for axis in range(3))
    others = build.expand(s, [(b, n), (b + 1, n)])
    left_out = build.or_(build.eq(i, k), build.eq(j, k))
    p = reduce_(build.where(left_out, build.const_like(1, others), others), (b + 2,), Op.MUL)
    same = build.cast(identity(x.shape, dt.real_of(x.dtype)), dt.bool_)
    p = like(build.where(same, build.zeros_like(p), p), x)
    on = reduce_(mul(p, across(diagonal_of(x), n)), (x.ndim - 1,))
    change = build.sub(diagonal(on), mul(p, swap(x)))
    phase = mul(det(u), det(vh))
    full = build.expand(phase, [(phase.ndim, n), (phase.ndim + 1, n)])
    return [mul(full, mm(mm(conj(u), change), conj(vh)))]


def cofactors(a: UOp) -> UOp:
    """[.., n, n] -> [.., n, n]: the derivative of det(a) by each element."""
    if a.shape[-1] == 0:
        return a
    return on_host(_cofactors, (a,), [(a.dtype, a.shape)], (), _cofactors_jvp)[0]


# ---- the logarithm
def _slogdet(a: Any) -> list[Any]:
    return list(np.linalg.slogdet(a))


def _slogdet_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """d log det = trace(a^-1 da)"""
    (a,), (sign, _), (da,) = args, outs, tangents
    assert da is not None
    t = trace(solve(a, da))
    turn = None
    if t.dtype.is_complex:
        im = build.imag(t)
        turn = mul(sign, build.complex_(build.zeros_like(im), im))
    return [turn, real_part(t)]


def slogdet(a: UOp) -> tuple[UOp, UOp]:
    """sign [..] (a phase for complex matrices) and the logarithm of the size, real [..]."""
    shape = a.shape[:-2]
    avals = [(a.dtype, shape), (dt.real_of(a.dtype), shape)]
    sign, log = on_host(_slogdet, (a,), avals, (), _slogdet_jvp)
    return sign, log
