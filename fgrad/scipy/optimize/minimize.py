"""Minimising a function of a vector by quasi-Newton steps.

Source: J. Nocedal, S. Wright, Numerical Optimization, 2nd edition, algorithms 6.1 (BFGS) and 7.4 (limited memory).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.loops import while_loop
from fgrad.run.jit import jit
from fgrad.scipy.optimize.line_search import search
from fgrad.trace.gradient import value_and_grad

_LIMITED = ("l-bfgs", "l-bfgs-experimental-do-not-rely-on-this")
_OPTIONS = {"maxiter", "norm", "gtol", "line_search_maxiter", "maxcor"}


class OptimizeResults(NamedTuple):
    """What a minimisation ended with.

    x          the solution; fun its value, jac its gradient
    success    whether the gradient is small enough; status: 0 yes, 1 too many iterations, 3 the line search failed
    hess_inv   the approximate inverse of the Hessian (BFGS), else None
    nfev, njev, nit   numbers of values, gradients and iterations

    >>> found = minimize(lambda x: fnp.sum((x - 2.0) ** 2), fnp.zeros(2), method="BFGS")
    >>> bool(found.success), fnp.round(found.x, 3)
    (True, Array([2., 2.], dtype=float32))
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    memory: Any
    previous: Any
    failed: Any
    iterations: Any
    evaluations: Any


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of `fun(x, *args)`, from x0 on.

    fun      a differentiable function of a vector with a real scalar result
    x0       real vector [n]; for l-bfgs also complex
    method   `BFGS`, or `l-bfgs`, which keeps `maxcor` (10) pairs of vectors instead of an n x n matrix
    tol      for options' gtol: it ends when the norm of the gradient is below it (1e-5)
    options  maxiter (200 n), norm (its order, inf), gtol, line_search_maxiter (10 for BFGS, 20), maxcor

    Runs inside jit and vmap. Raises ArgumentError for another method or option, ShapeError unless x0 is a vector.

    >>> import fgrad.numpy as fnp
    >>> minimize(lambda x: fnp.sum((x - 1) ** 2), fnp.zeros(2), method="BFGS").x
    Array([1., 1.], dtype=float32)
    """
    if not isinstance(args, tuple):
        raise note_user_line(ArgumentError(f"minimize: args {args!r} must be a tuple"))
    given = dict(options or {})
    if given.keys() - _OPTIONS:
        unknown = sorted(given.keys() - _OPTIONS)
        raise note_user_line(ArgumentError(f"minimize: no options {unknown}; there are {sorted(_OPTIONS)}"))
    kind = method.lower()
    if kind != "bfgs" and kind not in _LIMITED:
        raise note_user_line(ArgumentError(f"minimize: method must be BFGS or l-bfgs, got {method!r}"))
    start = fnp.multiply(fnp.asarray(x0), 1.0)
    if start.ndim != 1:
        raise note_user_line(ShapeError(f"minimize: x0 must be a vector, got shape {start.shape}"))
    is_complex = start.dtype.kind == "c"
    if is_complex and kind == "bfgs":
        raise note_user_line(ArgumentError("minimize: BFGS is for real vectors; use l-bfgs for complex ones"))
    n = start.shape[0]

    def run(x: Any, extra: Any) -> OptimizeResults:
        if not is_complex:
            return _minimized(lambda v: fun(v, *extra), x, kind, tol, given)
        whole = lambda v: v[:n] + 1j * v[n:]  # noqa: E731  a complex vector as twice as many real ones
        flat = fnp.concatenate([fnp.real(x), fnp.imag(x)])
        found = _minimized(lambda v: fun(whole(v), *extra), flat, kind, tol, given)
        return found._replace(x=whole(found.x), jac=fnp.conj(whole(found.jac)))

    result: OptimizeResults = jit(run)(start, args)
    return result


def _option(given: Mapping[str, Any], name: str, default: Any) -> Any:
    value = given.get(name)
    return default if value is None else value


def _minimized(
    fun: Callable[[Any], Any], x0: Any, kind: str, tol: float | None, given: Mapping[str, Any]
) -> OptimizeResults:
    n = x0.shape[0]
    steps = _option(given, "maxiter", 200 * n)
    order = _option(given, "norm", fnp.inf)
    limit = _option(given, "gtol", 1e-5 if tol is None else tol)
    tries = _option(given, "line_search_maxiter", 10 if kind == "bfgs" else 20)
    pairs = _option(given, "maxcor", 10)
    derive = value_and_grad(fun)
    value, gradient = derive(x0)
    if kind == "bfgs":
        memory: Any = fnp.eye(n, dtype=x0.dtype)
        direction: Callable[..., Any] = _bfgs_direction
        update: Callable[..., Any] = _bfgs_update
    else:
        empty = fnp.zeros((pairs, n), dtype=x0.dtype)
        memory = (empty, empty, fnp.zeros(pairs, dtype=x0.dtype))
        direction, update = _limited_direction, _limited_update

    def small(g: Any) -> Any:
        return fnp.linalg.norm(g, ord=order) <= limit

    def unfinished(s: _State) -> Any:
        return ~small(s.gradient) & ~s.failed & (s.iterations < steps)

    def step(s: _State) -> _State:
        p = direction(s.memory, s.gradient)
        slope = fnp.dot(s.gradient, p)
        downhill = slope < 0
        p = fnp.where(downhill, p, -s.gradient)
        slope = fnp.where(downhill, slope, -fnp.dot(s.gradient, s.gradient))

        def along(t: Any) -> Any:
            v, g = derive(s.x + t * p)
            return v, fnp.dot(g, p), g

        # the first step has no scale of its own: not longer than 1; later ones try the whole quasi-Newton step
        length = fnp.sqrt(fnp.dot(p, p))
        first = fnp.where(s.iterations == 0, fnp.minimum(1, 1 / fnp.where(length == 0, 1, length)), 1)
        found = search(along, s.value, slope, s.gradient, first.astype(s.x.dtype), tries)
        moved = found.size * p
        change = found.gradient - s.gradient
        stuck = found.size == 0
        memory = update(s.memory, moved, change, s.iterations)
        return _State(
            s.x + moved, found.value, found.gradient, memory, s.value, stuck,
            s.iterations + 1, s.evaluations + found.evaluations,
        )  # fmt: skip

    state = _State(x0, value, gradient, memory, value, fnp.asarray(False), 0, 1)
    end = while_loop(unfinished, step, state)
    done = small(end.gradient)
    status = fnp.where(done, 0, fnp.where(end.failed, 3, 1))
    return OptimizeResults(
        end.x, done, status, end.value, end.gradient, end.memory if kind == "bfgs" else None,
        end.evaluations, end.evaluations, end.iterations,
    )  # fmt: skip


def _bfgs_direction(inverse: Any, gradient: Any) -> Any:
    return -(inverse @ gradient)


def _bfgs_update(inverse: Any, s: Any, y: Any, iteration: Any) -> Any:
    """Equation 6.17; left alone where the curvature is not positive. The first scales the identity (6.20)."""
    curvature = fnp.dot(s, y)
    good = curvature > 0
    rho = 1 / fnp.where(good, curvature, 1)
    norm = fnp.dot(y, y)
    scaled = inverse * fnp.where(iteration == 0, curvature / fnp.where(norm == 0, 1, norm), 1)
    left = fnp.eye(s.shape[0], dtype=s.dtype) - rho * fnp.outer(s, y)
    return fnp.where(good, left @ scaled @ left.T + rho * fnp.outer(s, s), inverse)


def _limited_direction(memory: Any, gradient: Any) -> Any:
    """Algorithm 7.4: two loops over the pairs; unused ones have rho 0 and change nothing."""
    steps, changes, rhos = memory
    count = rhos.shape[0]
    q, weights = gradient, []
    for i in range(count):  # newest first
        a = rhos[i] * fnp.dot(steps[i], q)
        weights.append(a)
        q = q - a * changes[i]
    norm = fnp.dot(changes[0], changes[0])
    q = q * fnp.where(norm > 0, fnp.dot(steps[0], changes[0]) / fnp.where(norm > 0, norm, 1), 1)
    for i in reversed(range(count)):
        q = q + (weights[i] - rhos[i] * fnp.dot(changes[i], q)) * steps[i]
    return -q


def _limited_update(memory: Any, s: Any, y: Any, iteration: Any) -> Any:
    steps, changes, rhos = memory
    curvature = fnp.dot(s, y)
    good = curvature > 0
    rho = 1 / fnp.where(good, curvature, 1)
    new = [fnp.concatenate([v[None], old[:-1]]) for v, old in ((s, steps), (y, changes), (rho, rhos))]
    return tuple([fnp.where(good, a, b) for a, b in zip(new, memory, strict=True)])


__all__ = ["OptimizeResults", "minimize"]
