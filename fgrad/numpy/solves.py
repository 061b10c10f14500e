"""Linear systems as nodes: general and triangular matrices, and inverses.

A singular matrix gives NaN, in its own member of a batch only. solve is linear in the right-hand side: its transpose
solves with the transposed matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.numpy.blocks import adjoint, keep, lower, mm, on_host, positions, swap, upper
from fgrad.trace.maybe import Maybe
from fgrad.uop import build
from fgrad.uop.node import UOp

__all__: list[str] = []

BIG = 32  # rows from which a triangular solver is worth its call for each member


def each(f: Callable[..., Any], *arrays: Any) -> Any:
    """`f` of whole batches of matrices; where one of them fails member by member, with NaN for those that fail.

    f   of arrays [.., n, m], to one array or a tuple
    """
    try:
        return f(*arrays)
    except np.linalg.LinAlgError:
        batch = arrays[0].shape[:-2]
    like = f(*[np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape) for a in arrays])
    results = like if isinstance(like, tuple) else (like,)
    outs = [np.array(r) for r in results]
    for at in np.ndindex(*batch):
        try:
            got = f(*[a[at] for a in arrays])
            values = got if isinstance(got, tuple) else (got,)
        except np.linalg.LinAlgError:
            values = (np.nan,) * len(outs)
        for out, value in zip(outs, values, strict=True):
            out[at] = value
    return tuple(outs) if isinstance(like, tuple) else outs[0]


# ---- general matrices
def _solve(a: Any, b: Any) -> list[Any]:
    return [each(np.linalg.solve, a, b)]


def _solve_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """a dx = db - da x"""
    (a, _), (da, db), (x,) = args, tangents, outs
    change = db if da is None else build.neg(mm(da, x))
    if da is not None and db is not None:
        assert change is not None
        change = build.add(db, change)
    assert change is not None
    return [solve(a, change)]


def _solve_transpose(args: list[Maybe], linear: Sequence[bool], cts: list[Maybe]) -> list[Maybe]:
    a, ct = args[0], cts[0]
    if a is None or linear[0]:
        raise NotImplementedError("transpose of solve: it is not linear in the matrix; take the derivative (vjp)")
    return [None, None if ct is None else solve(swap(a), ct)]


def solve(a: UOp, b: UOp) -> UOp:
    """x with a x = b: [.., n, n], [.., n, k] -> [.., n, k], equal batch axes."""
    return on_host(_solve, (a, b), [(b.dtype, b.shape)], (), _solve_jvp, _solve_transpose)[0]


# ---- triangular matrices
def _triangular(is_lower: bool, unit: bool, a: Any, b: Any) -> list[Any]:
    n = a.shape[-1]
    if unit:
        a = np.where(np.eye(n, dtype=bool), 1, a).astype(a.dtype)
    if n >= BIG and (solver := _scipy_triangular()):
        out = np.empty_like(b)
        for at in np.ndindex(*b.shape[:-2]):
            try:
                out[at] = solver(a[at], b[at], lower=is_lower, check_finite=False)
            except np.linalg.LinAlgError:
                out[at] = np.nan
        return [out]
    return [each(np.linalg.solve, np.tril(a) if is_lower else np.triu(a), b)]


def _scipy_triangular() -> Any:
    """SciPy's solver of triangular systems, None where SciPy is not installed."""
    try:
        from scipy.linalg import solve_triangular as solver
    except ImportError:
        return None
    return solver


def _part(is_lower: bool, unit: bool, a: UOp) -> UOp:
    """The triangle that counts."""
    return (lower if is_lower else upper)(a, (-1 if is_lower else 1) * unit)


def _triangular_jvp(is_lower: bool, unit: bool, args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    (a, _), (da, db), (x,) = args, tangents, outs
    change = db if da is None else build.neg(mm(_part(is_lower, unit, da), x))
    if da is not None and db is not None:
        assert change is not None
        change = build.add(db, change)
    assert change is not None
    return [triangular_solve(a, change, is_lower, unit)]


def _triangular_transpose(
    is_lower: bool, unit: bool, args: list[Maybe], linear: Sequence[bool], cts: list[Maybe]
) -> list[Maybe]:
    a, ct = args[0], cts[0]
    if a is None or linear[0]:
        raise NotImplementedError("transpose of triangular_solve: it is not linear in the matrix; take the vjp")
    return [None, None if ct is None else triangular_solve(swap(a), ct, not is_lower, unit)]


def triangular_solve(a: UOp, b: UOp, is_lower: bool, unit: bool = False) -> UOp:
    """x with t x = b, where t is a triangle of `a` (with ones on the diagonal if `unit`)."""
    return on_host(_triangular, (a, b), [(b.dtype, b.shape)], (is_lower, unit), _triangular_jvp, _triangular_transpose)[
        0
    ]


def right_triangular(b: UOp, a: UOp, is_lower: bool, unit: bool = False) -> UOp:
    """x with x t = b: [.., k, n], [.., n, n] -> [.., k, n]."""
    return swap(triangular_solve(swap(a), swap(b), not is_lower, unit))


# ---- inverses
def _inv(a: Any) -> list[Any]:
    return [each(np.linalg.inv, a)]


def _inv_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    (x,), (da,) = outs, tangents
    assert da is not None
    return [build.neg(mm(mm(x, da), x))]


def inv(a: UOp) -> UOp:
    """[.., n, n] -> [.., n, n]"""
    return on_host(_inv, (a,), [(a.dtype, a.shape)], (), _inv_jvp)[0]


def _pinv(is_hermitian: bool, a: Any, rtol: Any) -> list[Any]:
    def f(a: Any, rtol: Any) -> Any:
        return np.linalg.pinv(a, rcond=rtol[..., 0, 0], hermitian=is_hermitian)

    return [each(f, a, rtol[..., None, None])]


def _pinv_jvp(is_hermitian: bool, args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """Golub and Pereyra (1973), equation 4.12, at constant rank."""
    (a, _), (p,), da = args, outs, tangents[0]
    if da is None:
        return [None]
    ph, dah = adjoint(p), adjoint(da)
    t = build.neg(mm(mm(p, da), p))
    left = build.sub(dah, mm(mm(dah, a), p))
    right = build.sub(dah, mm(p, mm(a, dah)))
    return [build.add(t, build.add(mm(mm(p, ph), left), mm(mm(right, ph), p)))]


def pinv(a: UOp, rtol: UOp, is_hermitian: bool = False) -> UOp:
    """[.., m, n], real [..] -> [.., n, m]: singular values up to rtol times the largest count as 0."""
    shape = (*a.shape[:-2], a.shape[-1], a.shape[-2])
    return on_host(_pinv, (a, rtol), [(a.dtype, shape)], (is_hermitian,), _pinv_jvp)[0]


def off_diagonal(x: UOp) -> UOp:
    """x with zeros on the diagonal."""
    i, j = positions(x)
    return keep(x, build.ne(i, j))
