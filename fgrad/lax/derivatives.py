"""Where derivatives stop, or are found in another way than by differentiating what was computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fgrad.errors import ArgumentError, note_user_line
from fgrad.lax.staging import as_one_program, close_together
from fgrad.numpy.common import public
from fgrad.trace import tree
from fgrad.trace.maybe import Maybe, instantiate
from fgrad.trace.stage import Stage
from fgrad.trace.staging import trace
from fgrad.trace.tracer import Tracer, lift
from fgrad.trace.transforms import jvp, vjp
from fgrad.uop import build
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, Program, close, gets


class _Constant:
    """The rule of a value that does not move."""

    def jvp(self, primals: Sequence[UOp], tangents: Sequence[Maybe]) -> tuple[list[UOp], list[Maybe]]:
        """The same values, with exact zeros as tangents."""
        # still apart from the moving value: x * stop_gradient(x) is no square
        return [still_node(x) for x in primals], [None] * len(primals)


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


# ---- linear systems
@dataclass(frozen=True, slots=True)
class _System:
    """A linear system and its transpose, as Programs over (*captured, *vector).

    The first two solve and multiply, the other two do so with the transpose (None: not given).
    """

    solve: Program
    product: Program
    back_solve: Program | None
    back_product: Program | None

    @property
    def transposed(self) -> _System:
        """The same with both sides exchanged."""
        if self.back_solve is None or self.back_product is None:
            raise NotImplementedError(
                "the reverse derivative of custom_linear_solve needs transpose_solve=, or symmetric=True"
            )
        return _System(self.back_solve, self.back_product, self.solve, self.product)

    def fwd(self, primals: list[UOp]) -> tuple[list[UOp], list[UOp]]:
        """(captured, right-hand side, solution) -> (solution, captured)."""
        captured = len(self.solve.params) - len(self.solve.outs)
        return self.called(primals), primals[:captured]  # called again: the value still moves

    def called(self, sources: Sequence[UOp]) -> list[UOp]:
        """The solution, the last of (captured, right-hand side, solution), as a CALL with this rule."""
        params = [open_param(u.dtype, u.shape) for u in sources]
        body = close(params, params[-len(self.solve.outs) :])
        call = Call(body, "custom_vjp", "custom_linear_solve", self)
        return gets(uop(Op.CALL, tuple(sources), call))

    def bwd(self, residuals: list[UOp], cts: list[Maybe]) -> list[Maybe]:
        """The cotangent of the right-hand side solves the transposed system."""
        rhs = [instantiate(ct, out) for ct, out in zip(cts, self.solve.outs, strict=True)]
        got = solution_nodes(self.transposed, residuals, rhs)
        return [*[None] * len(residuals), *got, *[None] * len(got)]


def solution_nodes(system: _System, captured: list[UOp], rhs: list[UOp]) -> list[UOp]:
    """The solution, whose derivative is that of A x = b: A dx = db - dA x."""
    still = [still_node(u) for u in (*captured, *rhs)]
    x = system.solve.inline(still)
    now = system.product.inline([*captured, *[still_node(v) for v in x]])
    shifted = [build.sub(b, build.sub(a, still_node(a))) for b, a in zip(rhs, now, strict=True)]
    sources = [*captured, *shifted, *x]
    return system.called(sources)


@as_one_program("custom_linear_solve")
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """x with matvec(x) = b, found by `solve(matvec, b)`; its derivative solves a linear system too.

    matvec           a linear function of a pytree structured as `b`
    solve            may be anything, an iteration too; it is never differentiated
    transpose_solve  solves the transposed system; not needed when `symmetric`

    Differentiable in reverse mode, to any order.
    """
    if has_aux:
        raise NotImplementedError("custom_linear_solve with has_aux; return the auxiliary output from a separate call")
    back = solve if symmetric else transpose_solve
    leaves, spec = tree.flatten(b)
    rhs = [lift(x) for x in leaves]
    avals = [t.aval for t in rhs]
    in_tree = tree.structure(((b,), {}))

    def staged(f: Callable[[Any], Any]) -> tuple[list[UOp], list[UOp]]:
        traced = trace(f, in_tree, avals, Stage("custom_linear_solve"))
        if traced.out_tree != spec:
            raise note_user_line(
                ArgumentError(f"custom_linear_solve: a vector is {spec}, but a function returned {traced.out_tree}")
            )
        return traced.params, traced.outs

    def transposed(ct: Any) -> Any:
        return vjp(matvec, b)[1](ct)[0]

    functions = [staged(lambda v: solve(matvec, v)), staged(matvec)]
    if back is not None:
        functions += [staged(lambda v: back(transposed, v)), staged(transposed)]
    captured, programs = close_together(functions, "custom_linear_solve")
    system = _System(programs[0], programs[1], *(programs[2:] if back is not None else (None, None)))
    x = solution_nodes(system, captured, [t.node for t in rhs])
    return tree.unflatten(spec, [Tracer(v, t.weak) for v, t in zip(x, rhs, strict=True)])


def _zero(x: Any) -> Tracer:
    return Tracer(build.zeros_like(lift(x).node))


@as_one_program("custom_root")
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """x with f(x) = 0, found by `solve(f, initial_guess)` and differentiated by the implicit function theorem.

    tangent_solve   `tangent_solve(g, y)` gives v with g(v) = y for a linear g, the derivative of
                    f at the root

    Differentiable with respect to what `f` closes over, as far as `tangent_solve` is.
    """
    if has_aux:
        raise NotImplementedError("custom_root with has_aux; return the auxiliary output from a separate call")
    x = tree.map_(lambda v: Tracer(still_node(lift(v).node)), solve(f, initial_guess))

    def slope(v: Any) -> Any:
        return jvp(f, (x,), (v,))[1]

    value = f(x)
    nothing = tree.map_(_zero, value)
    step = tangent_solve(slope, _shifted(nothing, value))  # zero, with the derivative -J^-1 df
    return tree.map_(lambda a, b: Tracer(build.add(lift(a).node, lift(b).node)), x, step)


__all__ = ["custom_linear_solve", "custom_root", "stop_gradient"]
