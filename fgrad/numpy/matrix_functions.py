"""Functions of matrices as nodes: the exponential, its derivative, Sylvester's equation, square roots, Schur form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.numpy.blocks import columns, mm, on_host, rows, swap
from fgrad.numpy.solves import each
from fgrad.trace.maybe import Maybe
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp

__all__: list[str] = []

# Higham (2005), "The scaling and squaring method for the matrix exponential revisited", table 2.3: the approximant of
# order 13 is good to double precision for norms up to theta
THETA = 5.371920351148152
COEFFICIENTS = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip


# ---- the exponential
def _expm(a: Any) -> list[Any]:
    wide = a.astype(np.result_type(a.dtype, np.float64))
    out = np.empty_like(wide)
    for at in np.ndindex(*a.shape[:-2]):
        out[at] = _expm_of(wide[at])
    return [out.astype(a.dtype)]


def _expm_of(a: Any) -> Any:
    norm = np.linalg.norm(a, 1) if a.size else 0.0
    if not np.isfinite(norm):
        return np.full_like(a, np.nan)
    squarings = max(0, int(np.ceil(np.log2(norm / THETA)))) if norm > THETA else 0
    a = a / 2.0**squarings
    c = COEFFICIENTS
    one = np.eye(len(a), dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    u = a @ (a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one)
    v = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * one
    out = each(np.linalg.solve, v - u, v + u)
    for _ in range(squarings):
        out = out @ out
    return out


def _expm_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    (a,), (da,) = args, tangents
    assert da is not None
    return [frechet(a, da)]


def expm(a: UOp) -> UOp:
    """[.., n, n] -> [.., n, n]; computed in double precision."""
    return on_host(_expm, (a,), [(a.dtype, a.shape)], (), _expm_jvp)[0]


# ---- its derivative
def _frechet(a: Any, e: Any) -> list[Any]:
    n = a.shape[-1]
    (big,) = _expm(np.block([[a, e], [np.zeros_like(a), a]]))
    return [big[..., :n, n:]]


def _frechet_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """Linear in e; in a, the derivative of the exponential of [[a, e], [0, a]]."""
    (a, e), (da, de) = args, tangents
    out = None if de is None else frechet(a, de)
    if da is None:
        return [out]
    n = a.shape[-1]
    big = frechet(_blocks(a, e), _blocks(da, build.zeros_like(da)))
    turn = columns(rows(big, 0, n), n, 2 * n)
    return [turn if out is None else build.add(out, turn)]


def _blocks(a: UOp, e: UOp) -> UOp:
    top = build.concatenate([a, e], a.ndim - 1)
    return build.concatenate([top, build.concatenate([build.zeros_like(a), a], a.ndim - 1)], a.ndim - 2)


def _frechet_transpose(args: list[Maybe], linear: Sequence[bool], cts: list[Maybe]) -> list[Maybe]:
    a, ct = args[0], cts[0]
    if a is None or linear[0]:
        raise NotImplementedError("transpose of the derivative of expm: it is not linear in the matrix; take the vjp")
    return [None, None if ct is None else swap(frechet(a, swap(ct)))]


def frechet(a: UOp, e: UOp) -> UOp:
    """The derivative of expm at `a` towards `e`: Van Loan (1978), the upper right block of exp([[a, e], [0, a]])."""
    return on_host(_frechet, (a, e), [(e.dtype, e.shape)], (), _frechet_jvp, _frechet_transpose)[0]


# ---- Sylvester's equation
def _sylvester(tol: float, a: Any, b: Any, c: Any) -> list[Any]:
    from scipy.linalg import eigvals, solve_sylvester

    out = np.empty_like(c)
    for at in np.ndindex(*c.shape[:-2]):
        try:
            sums = eigvals(a[at])[:, None] + eigvals(b[at])
            out[at] = solve_sylvester(a[at], b[at], c[at]) if (np.abs(sums) > tol).all() else np.nan
        except (np.linalg.LinAlgError, ValueError):  # singular; not finite
            out[at] = np.nan
    return [out]


def _sylvester_jvp(tol: float, args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """a dx + dx b = dc - da x - x db"""
    (a, b, _), (x,), (da, db, change) = args, outs, tangents
    for part in (None if da is None else mm(da, x), None if db is None else mm(x, db)):
        if part is not None:
            change = build.neg(part) if change is None else build.sub(change, part)
    assert change is not None
    return [sylvester(a, b, change, tol)]


def _sylvester_transpose(
    tol: float, args: list[Maybe], linear: Sequence[bool], cts: list[Maybe]
) -> list[Maybe]:
    a, b, ct = args[0], args[1], cts[0]
    if a is None or b is None or linear[0] or linear[1]:
        raise NotImplementedError(
            "transpose of solve_sylvester: it is linear in the right-hand side only; take the vjp"
        )
    return [None, None, None if ct is None else sylvester(swap(a), swap(b), ct, tol)]


def sylvester(a: UOp, b: UOp, c: UOp, tol: float = 0.0) -> UOp:
    """x with a x + x b = c, equal batch axes; NaN where eigenvalues of `a` and `b` add up to no more than `tol`.
    Needs SciPy when it runs.
    """
    return on_host(_sylvester, (a, b, c), [(c.dtype, c.shape)], (tol,), _sylvester_jvp, _sylvester_transpose)[0]


# ---- square roots
def _sqrtm(a: Any) -> list[Any]:
    from scipy.linalg import sqrtm as root

    out = np.empty(a.shape, np.result_type(a.dtype, np.complex64))
    for at in np.ndindex(*a.shape[:-2]):
        out[at] = root(a[at])
    return [out]


def _sqrtm_jvp(args: list[UOp], outs: list[UOp], tangents: list[Maybe]) -> list[Maybe]:
    """x dx + dx x = da"""
    (x,), (da,) = outs, tangents
    assert da is not None
    return [sylvester(x, x, build.cast(da, x.dtype))]


def sqrtm(a: UOp) -> UOp:
    """The principal square root, complex. Needs SciPy when it runs."""
    return on_host(_sqrtm, (a,), [(dt.complex_of(a.dtype), a.shape)], (), _sqrtm_jvp)[0]


# ---- forms without derivatives
def _schur(kind: str, a: Any) -> list[Any]:
    from scipy.linalg import schur as form

    wide = np.result_type(a.dtype, np.complex64) if kind == "complex" else a.dtype
    t, z = np.empty(a.shape, wide), np.empty(a.shape, wide)
    for at in np.ndindex(*a.shape[:-2]):
        t[at], z[at] = form(a[at], output=kind)
    return [t, z]


def schur(a: UOp, kind: str) -> tuple[UOp, UOp]:
    """t upper triangular (kind "complex"; quasi for "real"), z unitary: a = z t z^H. Needs SciPy when it runs."""
    dtype = dt.complex_of(a.dtype) if kind == "complex" else a.dtype
    t, z = on_host(_schur, (a,), [(dtype, a.shape), (dtype, a.shape)], (kind,))
    return t, z


def _hessenberg(a: Any) -> list[Any]:
    from scipy.linalg import hessenberg as form

    h, q = np.empty_like(a), np.empty_like(a)
    for at in np.ndindex(*a.shape[:-2]):
        h[at], q[at] = form(a[at], calc_q=True)
    return [h, q]


def hessenberg(a: UOp) -> tuple[UOp, UOp]:
    """h with zeros below the first subdiagonal, q unitary: a = q h q^H. Needs SciPy when it runs."""
    h, q = on_host(_hessenberg, (a,), [(a.dtype, a.shape), (a.dtype, a.shape)])
    return h, q


def _packed_hessenberg(a: Any) -> list[Any]:
    from scipy.linalg import lapack

    n = a.shape[-1]
    packed, taus = np.empty_like(a), np.zeros((*a.shape[:-2], max(n - 1, 0)), a.dtype)
    reduce_ = lapack.get_lapack_funcs("gehrd", (a,))
    for at in np.ndindex(*a.shape[:-2]):
        packed[at], taus[at], _ = reduce_(a[at])
    return [packed, taus]


def packed_hessenberg(a: UOp) -> tuple[UOp, UOp]:
    """(h, below it the reflections, [.., n - 1] their factors). Needs SciPy when it runs."""
    shape = (*a.shape[:-2], max(a.shape[-1] - 1, 0))
    packed, taus = on_host(_packed_hessenberg, (a,), [(a.dtype, a.shape), (a.dtype, shape)])
    return packed, taus


def _complex_form(t: Any, z: Any) -> list[Any]:
    from scipy.linalg import rsf2csf

    wide = np.result_type(t.dtype, np.complex64)
    new_t, new_z = np.empty(t.shape, wide), np.empty(z.shape, wide)
    for at in np.ndindex(*t.shape[:-2]):
        new_t[at], new_z[at] = rsf2csf(t[at], z[at])
    return [new_t, new_z]


def complex_form(t: UOp, z: UOp) -> tuple[UOp, UOp]:
    """The complex Schur form of the real one. Needs SciPy when it runs."""
    dtype = dt.complex_of(t.dtype)
    new_t, new_z = on_host(_complex_form, (t, z), [(dtype, t.shape), (dtype, z.shape)])
    return new_t, new_z
