"""Where derivatives stop, or are found in another way than by differentiating what was computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.lax.staging import as_one_program
from fgrad.numpy.common import public
from fgrad.trace import tree
from fgrad.trace.custom import custom_vjp
from fgrad.trace.maybe import Maybe
from fgrad.trace.tracer import Tracer, lift
from fgrad.trace.transforms import jvp, vjp
from fgrad.uop import build
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, close, gets


class _Constant:
    """The rule of a value that does not move."""

    def jvp(
        self, primals: Sequence[UOp], tangents: Sequence[Maybe]
    ) -> tuple[list[UOp], list[Maybe]]:
        """The same values, with exact zeros as tangents."""
        return list(primals), [None] * len(primals)


_STILL = _Constant()


def still_node(x: UOp) -> UOp:
    """`x`, with zero derivatives of every order."""
    if not x.dtype.is_inexact:
        return x
    p = open_param(x.dtype, x.shape)
    return gets(uop(Op.CALL, (x,), Call(close([p], [p]), "custom_jvp", "stop_gradient", _STILL)))[0]


@public()
def _still(leaves: list[Any]) -> list[Any]:
    lifted = [lift(x) for x in leaves]
    return [Tracer(still_node(t.node), t.weak) for t in lifted]


def stop_gradient(x: Any) -> Any:
    """`x` (any pytree of arrays), which counts as a constant in every derivative.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    leaves, spec = tree.flatten(x)
    return tree.unflatten(spec, _still(leaves))


def _minus(x: Any, y: Any) -> Tracer:
    a, b = lift(x), lift(y)
    return Tracer(build.sub(a.node, b.node), a.weak and b.weak)


def _shifted(b: Any, now: Any) -> Any:
    """`b`, with the derivative of b - now."""
    return tree.map_(lambda x, y: _minus(x, _minus(y, Tracer(still_node(lift(y).node)))), b, now)


@as_one_program("custom_linear_solve")
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """x with matvec(x) = b, found by `solve(matvec, b)` and differentiated by the implicit function theorem.

    matvec           a linear function of a pytree structured as `b`
    solve            may be anything, an iteration too; it is never differentiated
    transpose_solve  solves the transposed system; not needed when `symmetric`

    Differentiable in reverse mode, to any order.
    """
    if has_aux:
        raise NotImplementedError(
            "custom_linear_solve with has_aux; return the auxiliary output from a separate call"
        )
    back = solve if symmetric else transpose_solve

    @custom_vjp
    def solution(rhs: Any, x: Any) -> Any:
        return x

    def forward(rhs: Any, x: Any) -> tuple[Any, Any]:
        return x, rhs

    def backward(rhs: Any, ct: Any) -> tuple[Any, Any]:
        if back is None:
            raise NotImplementedError(
                "the reverse derivative of custom_linear_solve needs transpose_solve=, or symmetric=True"
            )
        transposed = _transposed(matvec, rhs)
        return custom_linear_solve(transposed, ct, back, solve, symmetric), tree.map_(_zero, ct)

    solution.defvjp(forward, backward)
    x = tree.map_(lambda v: Tracer(still_node(lift(v).node)), solve(matvec, b))
    # from A x = b follows A dx = db - dA x, which is the derivative of the right-hand side below
    return solution(_shifted(b, matvec(x)), x)


def _zero(x: Any) -> Tracer:
    return Tracer(build.zeros_like(lift(x).node))


def _transposed(matvec: Callable[[Any], Any], like: Any) -> Callable[[Any], Any]:
    """The transpose of a linear function of trees shaped as `like`."""
    _, pull = vjp(matvec, like)
    return lambda ct: pull(ct)[0]


@as_one_program("custom_root")
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """x with f(x) = 0, found by `solve(f, initial_guess)` and differentiated by the implicit function theorem.

    tangent_solve   `tangent_solve(g, y)` gives v with g(v) = y for a linear g, the derivative of f at the root

    Differentiable with respect to what `f` closes over, as far as `tangent_solve` is.
    """
    if has_aux:
        raise NotImplementedError(
            "custom_root with has_aux; return the auxiliary output from a separate call"
        )
    x = tree.map_(lambda v: Tracer(still_node(lift(v).node)), solve(f, initial_guess))

    def slope(v: Any) -> Any:
        return jvp(f, (x,), (v,))[1]

    value = f(x)
    nothing = tree.map_(_zero, value)
    step = tangent_solve(slope, _shifted(nothing, value))  # zero, with the derivative -J^-1 df
    return tree.map_(lambda a, b: Tracer(build.add(lift(a).node, lift(b).node)), x, step)


__all__ = ["custom_linear_solve", "custom_root", "stop_gradient"]
