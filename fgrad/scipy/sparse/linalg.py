"""Linear systems solved by products with the matrix: conjugate gradients, BiCGSTAB, GMRES.

The matrix may be an array [n, n] or a function of a vector; a vector may be any pytree of arrays. The solutions are
differentiable with respect to the right side and to what the matrix is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad import numpy as fnp
from fgrad import tree_util as trees
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.derivatives import custom_linear_solve
from fgrad.lax.loops import while_loop
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import is_arraylike, lift

Vector = Any  # a pytree of arrays


def _operator(A: Any, name: str) -> Callable[[Vector], Vector]:  # noqa: N803  SciPy's name
    if A is None:
        return lambda x: x
    if callable(A):
        found: Callable[[Vector], Vector] = A
        return found
    if not is_arraylike(A) and not hasattr(A, "__matmul__"):
        raise note_user_line(ArgumentError(f"{name}: the matrix must be an array or a function, got {A!r}"))
    shape: tuple[int, ...] = getattr(A, "shape", ())
    if len(shape) != 2 or shape[0] != shape[1]:
        raise note_user_line(ShapeError(f"{name}: the matrix must be square, got shape {shape}"))
    return lambda x: A @ x


def _dot(x: Vector, y: Vector) -> Any:
    """The real part of the inner product."""
    parts = trees.tree_map(lambda a, b: fnp.real(fnp.vdot(a, b)), x, y)
    return trees.tree_reduce(fnp.add, parts)


def _dot_whole(x: Vector, y: Vector) -> Any:
    return trees.tree_reduce(fnp.add, trees.tree_map(fnp.vdot, x, y))


def _norm(x: Vector) -> Any:
    return fnp.sqrt(_dot(x, x))


def _plus(x: Vector, y: Vector, factor: Any = 1) -> Vector:
    """x + factor * y, in the dtypes of x."""
    return trees.tree_map(lambda a, b: (a + factor * b).astype(a.dtype), x, y)


def _times(factor: Any, x: Vector) -> Vector:
    return trees.tree_map(lambda a: (factor * a).astype(a.dtype), x)


def _prepared(A: Any, b: Vector, x0: Vector, M: Any, maxiter: int | None, name: str) -> Any:  # noqa: N803
    b = trees.tree_map(fnp.asarray, b)
    b = trees.tree_map(lambda v: v if v.dtype.kind in "fcV" else v * 1.0, b)
    start = trees.tree_map(fnp.zeros_like, b) if x0 is None else trees.tree_map(fnp.asarray, x0)
    spec, given = trees.tree_structure(b), trees.tree_structure(start)
    if spec != given:
        raise note_user_line(ArgumentError(f"{name}: x0 must have the structure of b, {spec}, got {given}"))
    shapes = [[v.shape for v in trees.tree_leaves(t)] for t in (b, start)]
    if shapes[0] != shapes[1]:
        raise note_user_line(ShapeError(f"{name}: x0 must have the shapes of b, {shapes[0]}, got {shapes[1]}"))
    kinds = trees.tree_leaves(b)
    start = trees.tree_unflatten(
        spec, [s.astype(k.dtype) for s, k in zip(trees.tree_leaves(start), kinds, strict=True)]
    )
    size = sum(lift(v).size for v in kinds)
    return _operator(A, name), b, start, _operator(M, name), 10 * size if maxiter is None else maxiter


def _solved(A: Any, b: Vector, solver: Callable[..., Vector], transposed: Callable[..., Vector] | None) -> Vector:
    return custom_linear_solve(A, b, solver, transposed, symmetric=transposed is None)


def cg(
    A: Any,  # noqa: N803  SciPy's names
    b: Vector,
    x0: Vector | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
) -> tuple[Vector, None]:
    """Solve A x = b by conjugate gradients, for a Hermitian positive definite A -> (x, None).

    x0          where to start; zeros by default
    tol, atol   it ends when the norm of b - A x is at most max(tol * norm(b), atol)
    maxiter     most steps; 10 times the number of unknowns by default
    M           an approximation of the inverse of A: array or function

    Source: J. R. Shewchuk, An introduction to the conjugate gradient method, section B3.

    >>> import fgrad.numpy as fnp
    >>> cg(lambda x: 2 * x, fnp.array([2.0, 4.0]))[0]
    Array([1., 2.], dtype=float32)
    """
    operator, b, start, precondition, steps = _prepared(A, b, x0, M, maxiter, "cg")

    def solve(matvec: Any, right: Vector) -> Vector:
        limit = fnp.maximum(tol * _norm(right), atol)
        residual = _plus(right, matvec(start), -1)
        direction = precondition(residual)

        def unfinished(state: Any) -> Any:
            _, r, _, _, k = state
            return (_norm(r) > limit) & (k < steps)

        def step(state: Any) -> Any:
            x, r, p, gamma, k = state
            ap = matvec(p)
            alpha = gamma / _dot(p, ap)
            x, r = _plus(x, p, alpha), _plus(r, ap, -alpha)
            z = precondition(r)
            new = _dot(r, z)
            return x, r, _plus(z, p, new / gamma), new, k + 1

        state = (start, residual, direction, _dot(residual, direction), 0)
        return while_loop(unfinished, step, state)[0]

    return _solved(operator, b, solve, None), None


def bicgstab(
    A: Any,  # noqa: N803
    b: Vector,
    x0: Vector | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
) -> tuple[Vector, None]:
    """Solve A x = b by stabilised biconjugate gradients, for any square A -> (x, None). Arguments as for cg.

    It also ends where the method breaks down: a division by an exact 0.
    Source: H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992).

    >>> import fgrad.numpy as fnp
    >>> x, _ = bicgstab(fnp.array([[2.0, 1.0], [0.0, 4.0]]), fnp.array([4.0, 8.0]))
    >>> fnp.round(x, 3)
    Array([1., 2.], dtype=float32)
    """
    operator, b, start, precondition, steps = _prepared(A, b, x0, M, maxiter, "bicgstab")

    def solve(matvec: Any, right: Vector) -> Vector:
        limit = fnp.maximum(tol * _norm(right), atol)
        first = _plus(right, matvec(start), -1)
        one = fnp.ones_like(_dot_whole(first, first))

        def unfinished(state: Any) -> Any:
            _, r, *_, k = state
            return (_norm(r) > limit) & (k < steps) & (k >= 0)

        def step(state: Any) -> Any:
            x, r, p, q, alpha, omega, rho, k = state
            new = _dot_whole(first, r)
            p = _plus(r, _plus(p, q, -omega), new / rho * alpha / omega)
            ph = precondition(p)
            q = matvec(ph)
            alpha = new / _dot_whole(first, q)
            s = _plus(r, q, -alpha)
            done = _norm(s) <= limit
            sh = precondition(s)
            t = matvec(sh)
            power = _dot_whole(t, t)
            omega = fnp.where(power == 0, 0, _dot_whole(t, s) / fnp.where(power == 0, 1, power))
            omega = fnp.where(done, 0, omega).astype(alpha.dtype)
            x = _plus(_plus(x, ph, alpha), sh, omega)
            r = _plus(s, t, -omega)
            broken = (new == 0) | (fnp.abs(alpha) == 0) | ((omega == 0) & ~done)
            return x, r, p, q, alpha, omega, new, fnp.where(broken, -1, k + 1)

        zero = trees.tree_map(fnp.zeros_like, right)
        return while_loop(unfinished, step, (start, first, zero, zero, one, one, one, 0))[0]

    return _solved(operator, b, solve, solve), None


def gmres(
    A: Any,  # noqa: N803
    b: Vector,
    x0: Vector | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
    solve_method: str = "batched",
) -> tuple[Vector, None]:
    """Solve A x = b by the generalised minimal residual method, for any square A -> (x, None).

    restart        vectors that a round keeps; rounds go on from the best solution so far
    maxiter        most rounds
    solve_method   `batched` or `incremental`: the same result, without effect

    The other arguments are those of cg. Source: Y. Saad, M. H. Schultz, SIAM J. Sci. Stat. Comput. 7 (1986).

    >>> import fgrad.numpy as fnp
    >>> x, _ = gmres(fnp.array([[2.0, 1.0], [0.0, 4.0]]), fnp.array([4.0, 8.0]))
    >>> fnp.round(x, 3)
    Array([1., 2.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise note_user_line(ArgumentError(f"gmres: solve_method must be batched or incremental, got {solve_method!r}"))
    operator, b, start, precondition, steps = _prepared(A, b, x0, M, maxiter, "gmres")
    size = sum(lift(v).size for v in trees.tree_leaves(b))
    width = min(restart, size)

    def solve(matvec: Any, right: Vector) -> Vector:
        limit = fnp.maximum(tol * _norm(right), atol)

        def unfinished(state: Any) -> Any:
            _, norm, k = state
            return (norm > limit) & (k < steps)

        def step(state: Any) -> Any:
            x, _, k = state
            x = _plus(x, _correction(matvec, precondition, _plus(right, matvec(x), -1), width))
            return x, _norm(_plus(right, matvec(x), -1)), k + 1

        first = _norm(_plus(right, matvec(start), -1))
        return while_loop(unfinished, step, (start, first, 0))[0]

    return _solved(operator, b, solve, solve), None


def _correction(matvec: Any, precondition: Any, residual: Vector, width: int) -> Vector:
    """What minimises the residual over the Krylov space of `width` vectors: Arnoldi's process, then least squares."""
    leaves, spec = trees.tree_flatten(residual)
    kind = fnp.result_type(*leaves)
    sizes = [v.size for v in leaves]

    def flat(tree: Vector) -> Any:
        return fnp.concatenate([fnp.ravel(v).astype(kind) for v in trees.tree_leaves(tree)])

    def whole(vector: Any) -> Vector:
        parts = fnp.split(vector, [sum(sizes[:i]) for i in range(1, len(sizes))])
        return trees.tree_unflatten(
            spec, [fnp.reshape(p, v.shape).astype(v.dtype) for p, v in zip(parts, leaves, strict=True)]
        )

    def unit(v: Any) -> tuple[Any, Any]:
        norm = fnp.linalg.norm(v)
        small = norm <= fnp.finfo(norm.dtype).eps * 10
        return fnp.where(small, 0, v / fnp.where(small, 1, norm)).astype(kind), fnp.where(small, 0, norm)

    r = flat(residual)
    first, length = unit(r)
    basis = fnp.zeros((width + 1, r.size), dtype=kind).at[0].set(first)
    hessenberg = fnp.zeros((width + 1, width), dtype=kind)
    for j in range(width):
        w = flat(matvec(precondition(whole(basis[j]))))
        before = fnp.linalg.norm(w)
        for _ in range(2):  # orthogonalised twice: once loses the small angles
            part = fnp.conj(basis) @ w
            hessenberg = hessenberg.at[:, j].add(part)
            w = w - part @ basis
        new, norm = unit(w)
        gone = norm <= 10 * fnp.finfo(norm.dtype).eps * before  # the space is closed: nothing but rounding is left
        basis = basis.at[j + 1].set(fnp.where(gone, 0, new))
        hessenberg = hessenberg.at[j + 1, j].set(fnp.where(gone, 0, norm).astype(kind))
    target = fnp.zeros(width + 1, dtype=kind).at[0].set(length.astype(kind))
    weights = fnp.linalg.lstsq(hessenberg, target)[0]
    return precondition(whole(weights @ basis[:width]))


__all__ = ["bicgstab", "cg", "gmres"]

trim_public(globals(), __all__)
