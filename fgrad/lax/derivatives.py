"""Where derivatives stop, or are found in another way than by differentiating what was computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fgrad.errors import ArgumentError, DtypeError, ShapeError, note_user_line
from fgrad.lax.staging import as_one_program, close_together, describe, fits
from fgrad.numpy.common import public
from fgrad.trace import tree
from fgrad.trace.custom import opened_for
from fgrad.trace.interpret import jvp_program
from fgrad.trace.maybe import Maybe, add_, instantiate, neg_, present
from fgrad.trace.stage import Stage, opened
from fgrad.trace.staging import Traced, lift_results, need_functions, trace, without_refs
from fgrad.trace.tracer import Tracer, cast_node, lift
from fgrad.trace.transforms import vjp
from fgrad.trace.widen import Batching, align, batch_program
from fgrad.uop import build
from fgrad.uop.node import UOp, open_param, substitute, uop
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


# ---- linear systems
@dataclass(frozen=True, slots=True)
class _System:
    """A linear system and its transpose, as Programs over (*captured, *vector).

    The first two solve and multiply, the other two do so with the transpose (None: not given). Solving gives the
    vector, then what else the user's function returned.
    """

    solve: Program
    product: Program
    back_solve: Program | None
    back_product: Program | None

    @property
    def captured(self) -> int:
        """How many parameters are no part of the vector."""
        return len(self.product.params) - len(self.product.outs)

    def solution(self, captured: Sequence[UOp], vector: Sequence[UOp]) -> list[UOp]:
        """The system solved for `vector`, as a CALL with this rule."""
        call = Call(self.solve, "linear", "custom_linear_solve", self)
        return gets(uop(Op.CALL, (*captured, *vector), call))

    def jvp(self, u: UOp, tangents: Sequence[Maybe]) -> list[Maybe]:
        """A x = b gives A dx = db - dA x."""
        n, k = self.captured, len(self.product.outs)
        x = gets(u)
        program, moving = jvp_program(self.product, (*[t is not None for t in tangents[:n]], *[False] * k))
        got = iter(program.inline([*u.src[:n], *x[:k], *present(tangents[:n])])[k:])
        rhs = [add_(db, neg_(next(got)) if moves else None) for db, moves in zip(tangents[n:], moving, strict=True)]
        if all(d is None for d in rhs):
            return [None] * len(x)
        vector = [instantiate(d, like) for d, like in zip(rhs, x[:k], strict=True)]
        return [*self.solution(u.src[:n], vector)[:k], *[None] * (len(x) - k)]

    def transpose(self, u: UOp, cts: Sequence[Maybe], linear: Sequence[bool]) -> list[Maybe]:
        """The cotangent of the vector solves the transposed system."""
        n, k = self.captured, len(self.product.outs)
        if any(linear[:n]):
            raise NotImplementedError("custom_linear_solve is not linear in the values that its functions close over")
        if self.back_solve is None or self.back_product is None:
            raise NotImplementedError(
                "the reverse derivative of custom_linear_solve needs transpose_solve=, or symmetric=True"
            )
        back = _System(self.back_solve, self.back_product, self.solve, self.product)
        vector = [instantiate(ct, like) for ct, like in zip(cts[:k], gets(u)[:k], strict=True)]
        return [*[None] * n, *back.solution(u.src[:n], vector)[:k]]

    def batch(self, src: Sequence[UOp], flags: Sequence[bool], at: Batching) -> tuple[list[UOp], list[bool]]:
        """A system with its own captured values and its own vector for each member."""
        n = self.captured
        given = (*flags[:n], *[True] * (len(src) - n))

        def many(program: Program | None) -> Any:
            return program and batch_program(program, at, given, (True,) * len(program.outs))[0]

        batched = _System(*[many(p) for p in (self.solve, self.product, self.back_solve, self.back_product)])
        outs = batched.solution(src[:n], align(src[n:], flags[n:], at.size))
        return outs, [True] * len(outs)


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
    has_aux          `solve` and `transpose_solve` return pairs (x, aux), and so does this function; nothing is
                     differentiated through aux

    Differentiable in both modes, to any order; in reverse mode it needs `transpose_solve` or `symmetric`.

    >>> lax.custom_linear_solve(lambda x: 2 * x, fnp.array([2.0, 4.0]), lambda matvec, b: b / 2, symmetric=True)
    Array([1., 2.], dtype=float32)
    """
    back = solve if symmetric else transpose_solve
    leaves, spec = tree.flatten(b)
    rhs = [lift(x) for x in leaves]
    avals = [t.aval for t in rhs]
    in_tree = tree.structure(((b,), {}))

    def staged(name: str, f: Callable[[Any], Any], aux: bool) -> tuple[Traced, list[UOp]]:
        traced = without_refs(
            trace(f, in_tree, avals, Stage("custom_linear_solve")), "a function given to custom_linear_solve"
        )
        out_tree = traced.out_tree
        if aux:
            if out_tree.type is not tuple or out_tree.num_children != 2:
                raise note_user_line(ArgumentError(f"{name}() must return a pair (x, aux) with has_aux=True"))
            out_tree = out_tree.children()[0]
        if out_tree != spec:
            raise note_user_line(ArgumentError(f"{name}() output pytree must be that of b, {spec}, but is {out_tree}"))
        outs = list(traced.outs)
        for i, a in enumerate(avals):
            fitting = fits(outs[i], traced.weak[i], a)
            if fitting is None:
                kind = ShapeError if outs[i].shape != a.shape else DtypeError
                raise note_user_line(
                    kind(
                        f"{name}() output shapes and dtypes must be those of b, {describe(a)}, but at "
                        f"{tree.path_of(spec, i, 'x')} the output is {describe(traced.out_avals[i])}"
                    )
                )
            outs[i] = fitting
        return traced, outs

    def transposed(ct: Any) -> Any:
        return vjp(matvec, b)[1](ct)[0]

    functions = [staged("solve", lambda v: solve(matvec, v), has_aux), staged("matvec", matvec, False)]
    if back is not None:
        name = "solve" if symmetric else "transpose_solve"
        functions += [staged(name, lambda v: back(transposed, v), has_aux), staged("matvec", transposed, False)]
    captured, programs = close_together([(f.params, outs) for f, outs in functions], "custom_linear_solve")
    system = _System(programs[0], programs[1], *(programs[2:] if back is not None else (None, None)))
    got = system.solution(captured, [t.node for t in rhs])
    first = functions[0][0]
    weak = [t.weak for t in rhs] + first.weak[len(rhs) :]
    return tree.unflatten(first.out_tree, [Tracer(v, w) for v, w in zip(got, weak, strict=True)])


# ---- roots
@dataclass(frozen=True, slots=True)
class _Root:
    """What is known of x with f(x) = 0.

    solve   Program over (*captured, *guess): x, then what else the user's function returned
    f       Program over (*captured, *x): what is to be zero
    """

    solve: Program
    f: Program
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any]
    x_tree: tree.TreeDef
    value_tree: tree.TreeDef

    def root(self, sources: Sequence[UOp]) -> list[UOp]:
        """x and the rest, as a CALL with this rule."""
        return gets(uop(Op.CALL, tuple(sources), Call(self.solve, "custom_jvp", "custom_root", self)))

    def jvp(self, primals: list[UOp], tangents: list[Maybe]) -> tuple[list[UOp], list[Maybe]]:
        """f(a, x) = 0 gives (df/dx) dx = -(df/da) da, at an x that moves itself."""
        k = self.x_tree.num_leaves
        n = len(self.f.params) - k
        stage, both, meaning = opened_for("custom_root", [*primals, *tangents])
        with opened(stage):
            given, moves = both[: len(primals)], both[len(primals) :]
            got = self.root(given)
            at_root = [*given[:n], *got[:k]]
            by_captured, moving = jvp_program(self.f, (*[t is not None for t in moves[:n]], *[False] * k))
            if not any(moving):
                return self.root(primals), [None] * len(got)
            outs = by_captured.inline([*at_root, *present(moves[:n])])
            values, slopes = outs[: len(moving)], iter(outs[len(moving) :])
            rhs = [build.neg(next(slopes)) if m else build.zeros_like(v) for v, m in zip(values, moving, strict=True)]
            by_x, reached = jvp_program(self.f, (*[False] * n, *[True] * k))

            def slope(v: Any) -> Any:
                leaves, spec = tree.flatten(v)
                if spec != self.x_tree:
                    raise ArgumentError(f"custom_root: the slope takes a tree like x, {self.x_tree}, got {spec}")
                vector = [cast_node(x, like.dtype) for x, like in zip(leaves, got[:k], strict=True)]
                along = by_x.inline([*at_root, *vector])
                there = iter(along[len(reached) :])
                out = [next(there) if m else build.zeros_like(v) for v, m in zip(values, reached, strict=True)]
                return tree.unflatten(self.value_tree, [Tracer(o) for o in out])

            found = self.tangent_solve(slope, tree.unflatten(self.value_tree, [Tracer(r) for r in rhs]))
            steps, spec = lift_results(found, "tangent_solve")
            if spec != self.x_tree:
                raise ArgumentError(f"tangent_solve() output pytree must be that of x, {self.x_tree}, but is {spec}")
            douts = [build.cast(t.node, x.dtype) for t, x in zip(steps, got[:k], strict=True)]
        out = substitute([*got, *douts], meaning)
        return out[: len(got)], [*out[len(got) :], *[None] * (len(got) - k)]


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
    has_aux         `solve` returns a pair (x, aux), and so does this function; nothing is differentiated through aux

    Differentiable with respect to what `f` closes over, as far as `tangent_solve` is.

    >>> def newton(f, x):
    ...     return lax.fori_loop(0, 8, lambda i, v: v - f(v) / grad(f)(v), x)
    >>> def root(a):
    ...     return lax.custom_root(lambda x: x**2 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> root(4.0), grad(root)(4.0)
    (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    need_functions("custom_root", f=f, solve=solve, tangent_solve=tangent_solve)
    leaves, spec = tree.flatten(initial_guess)
    guess = [lift(x) for x in leaves]
    in_tree = tree.structure(((initial_guess,), {}))
    what = "a function given to custom_root"
    solved = without_refs(trace(lambda g: solve(f, g), in_tree, [t.aval for t in guess], Stage("custom_root")), what)
    x_tree = solved.out_tree
    if has_aux:
        if x_tree.type is not tuple or x_tree.num_children != 2:
            raise note_user_line(ArgumentError("solve() must return a pair (x, aux) with has_aux=True"))
        x_tree = x_tree.children()[0]
    if x_tree != spec:
        raise note_user_line(
            ArgumentError(f"solve() output pytree must be that of initial_guess, {spec}, but is {x_tree}")
        )
    valued = without_refs(trace(f, in_tree, solved.out_avals[: len(guess)], Stage("custom_root")), what)
    captured, (solve_program, f_program) = close_together([(t.params, t.outs) for t in (solved, valued)], "custom_root")
    rule = _Root(solve_program, f_program, tangent_solve, x_tree, valued.out_tree)
    got = rule.root([*captured, *[t.node for t in guess]])
    return tree.unflatten(solved.out_tree, [Tracer(v, w) for v, w in zip(got, solved.weak, strict=True)])


__all__ = ["custom_linear_solve", "custom_root", "stop_gradient"]
