"""Checks of derivatives against differences, for tests of functions and of their derivative rules.

Everything is compared along random directions: a tangent `v` with the difference quotient of `f`
along `v`, a cotangent by `<ct, J v> == <J^T ct, v>`. Random numbers are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, note_user_line
from fgrad.run.jit import jit
from fgrad.trace import tree
from fgrad.trace.transforms import jvp, vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]

Leaves = list[np.ndarray[Any, Any]]
# relative and absolute tolerance, step of the differences
_LOOSE = {2: (0.1, 0.1, 2**-4), 4: (2e-2, 2e-2, 2**-8), 8: (1e-5, 1e-5, 2**-18)}


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare the derivatives of `f(*args)` up to `order` with differences, in all combinations of `modes`.

    args   pytrees of arrays; floating and complex leaves move, the others stay
    modes  "fwd" (jvp), "rev" (vjp)
    atol, rtol, eps   tolerances and the step; by default as the dtype allows. float64 arguments are best

    Raises AssertionError saying which derivative is wrong.

    >>> check_grads(lambda x: x * x, (2.0,), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or not set(modes) <= {"fwd", "rev"}:
        raise note_user_line(
            ArgumentError(f'check_grads takes modes "fwd" and "rev", got {modes!r}')
        )
    _check(f, tuple(args), order, modes, (atol, rtol, eps), "f")


Tolerances = tuple[float | None, float | None, float | None]


def _check(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    order: int,
    modes: tuple[str, ...],
    loose: Tolerances,
    name: str,
) -> None:
    g, moving, _ = _apart(f, args)
    atol, rtol, eps = loose
    if "fwd" in modes:
        title = f"jvp of {name}"
        check_jvp(g, lambda x, v: jvp(g, x, v), moving, atol, rtol, eps, title)
        if order > 1:
            v = _noise(moving, 1)

            def tangents(*x: Any) -> list[Any]:
                return [t for t in tree.leaves_of(jvp(g, x, tuple(v))[1]) if _is_inexact(t)]

            _check(tangents, tuple(moving), order - 1, modes, loose, title)
    if "rev" in modes:
        title = f"vjp of {name}"
        check_vjp(g, lambda *x: vjp(g, *x), moving, atol, rtol, eps, title)
        if order > 1:
            ct = tree.unflatten(*_cotangents(g(*moving), 2))
            _check(lambda *x: vjp(g, *x)[1](ct), tuple(moving), order - 1, modes, loose, title)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check that `f_jvp(args, tangents)` is `(f(*args), the difference quotient of f along tangents)`.

    args   floating and complex leaves only

    Tolerances and errors as in `check_grads`.

    >>> check_jvp(fnp.sin, lambda primals, tangents: jvp(fnp.sin, primals, tangents), (2.0,))
    """
    leaves, spec, args = _arrays(args)
    rtol, atol, eps = _tolerances(leaves, rtol, atol, eps)
    v = _noise(leaves, 0)
    out, moved = f_jvp(args, tree.unflatten(spec, v))
    _near(_inexact(out), _inexact(f(*args)), rtol, atol, f"{err_msg}: value")
    _near(_inexact(moved), _differences(f, leaves, spec, v, eps), rtol, atol, f"{err_msg}: tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check that `f_vjp(*args)` is `(f(*args), transpose)` with `<ct, J v> == <transpose(ct), v>`.

    The products with complex numbers are real parts, without conjugation.

    Tolerances and errors as in `check_grads`.

    >>> check_vjp(fnp.sin, lambda x: vjp(fnp.sin, x), (2.0,))
    """
    leaves, spec, args = _arrays(args)
    rtol, atol, eps = _tolerances(leaves, rtol, atol, eps)
    out, transpose = f_vjp(*args)
    _near(_inexact(out), _inexact(f(*args)), rtol, atol, f"{err_msg}: value")
    v = _noise(leaves, 0)
    moved = _differences(f, leaves, spec, v, eps)
    out_tree, cts = _cotangents(out, 3)
    pulled = _inexact(transpose(tree.unflatten(out_tree, cts)))
    floating = [c for c in cts if np.issubdtype(c.dtype, np.inexact)]
    want = sum(_inner(c, m) for c, m in zip(floating, moved, strict=True))
    got = sum(_inner(p, d) for p, d in zip(pulled, v, strict=True))
    scale = 1 + sum(float(np.sum(np.abs(c * m))) for c, m in zip(floating, moved, strict=True))
    _near([np.asarray(got)], [np.asarray(want)], rtol, atol * scale, f"{err_msg}: <J^T ct, v>")


# ---- parts
def _arrays(args: Sequence[Any]) -> tuple[Leaves, tree.TreeDef, tuple[Any, ...]]:
    """-> (the leaves as NumPy's arrays, their structure, the arguments made of them): a Python float is a float64."""
    leaves, spec = tree.flatten(tuple(args))
    arrays = [np.asarray(x) for x in leaves]
    return arrays, spec, tree.unflatten(spec, arrays)


def _apart(
    f: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], list[Any], list[int]]:
    """`f` of its floating leaves alone, jitted; those leaves; their places."""
    leaves, spec = tree.flatten(args)
    places = [i for i, x in enumerate(leaves) if _is_inexact(x)]

    def g(*moving: Any) -> Any:
        full = list(leaves)
        for i, x in zip(places, moving, strict=True):
            full[i] = x
        return f(*tree.unflatten(spec, full))

    return jit(g), [np.asarray(leaves[i]) for i in places], places


def _is_inexact(x: Any) -> bool:
    dtype = np.asarray(x).dtype if np.isscalar(x) else x.dtype
    # kind V: the small floats that NumPy lacks, but with names the tangents of integers
    return np.issubdtype(dtype, np.inexact) or (dtype.kind == "V" and dtype.names is None)


def _inexact(out: Any) -> Leaves:
    return [_wide(x) for x in tree.leaves_of(out) if _is_inexact(x)]


def _wide(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x, np.complex128 if np.asarray(x).dtype.kind == "c" else np.float64)


def _noise(leaves: Sequence[Any], seed: int) -> Leaves:
    """Random directions like `leaves`."""
    rng = np.random.default_rng(seed)
    out = []
    for x in leaves:
        x = np.asarray(x)
        v = rng.standard_normal(x.shape)
        if x.dtype.kind == "c":
            v = v + 1j * rng.standard_normal(x.shape)
        out.append(np.asarray(v).astype(x.dtype))
    return out


def _cotangents(out: Any, seed: int) -> tuple[Any, Leaves]:
    """Cotangents for `out`: random for floating leaves, zeros for the others."""
    leaves, spec = tree.flatten(out)
    noise = _noise(leaves, seed)
    return spec, [
        v if _is_inexact(x) else np.zeros_like(v) for x, v in zip(leaves, noise, strict=True)
    ]


def _tolerances(
    leaves: Leaves, rtol: float | None, atol: float | None, eps: float | None
) -> tuple[float, float, float]:
    sizes = [x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1) for x in leaves]
    given = _LOOSE[min(sizes, default=8)]
    return (
        given[0] if rtol is None else rtol,
        given[1] if atol is None else atol,
        given[2] if eps is None else eps,
    )


def _differences(
    f: Callable[..., Any], leaves: Leaves, spec: Any, v: Leaves, eps: float
) -> Leaves:
    """The central difference quotients of the floating outputs of `f` along `v`."""

    def at(t: float) -> Leaves:
        moved = [(x + t * d).astype(x.dtype) for x, d in zip(leaves, v, strict=True)]
        return _inexact(f(*tree.unflatten(spec, moved)))

    return [(a - b) / (2 * eps) for a, b in zip(at(eps), at(-eps), strict=True)]


def _inner(x: Any, y: Any) -> float:
    return float(np.real(np.sum(_wide(x) * _wide(y))))


def _near(got: Leaves, want: Leaves, rtol: float, atol: float, title: str) -> None:
    assert len(got) == len(want), f"{title}: {len(got)} arrays instead of {len(want)}"
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=title)
