"""custom_jvp: a function whose forward derivative the user gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.errors import ArgumentError, describe
from fgrad.trace import tree
from fgrad.trace.custom import Custom, Rule, as_node, avals_of, opened_for, tangent_of
from fgrad.trace.frames import trim_methods
from fgrad.trace.maybe import Maybe
from fgrad.trace.ref import Ref, current, ref_over, show_refs
from fgrad.trace.stage import opened
from fgrad.trace.staging import function_name, lift_results
from fgrad.trace.tracer import lift
from fgrad.uop.node import UOp


class _JvpRule(Rule):
    def jvp(self, primals: list[UOp], tangents: list[Maybe]) -> tuple[list[UOp], list[Maybe]]:
        owner = self.owner
        assert isinstance(owner, custom_jvp) and owner.rule is not None
        name = function_name(owner.fun)
        what = f"the jvp rule of {name}"
        stage, both, meaning = opened_for(what, [*primals, *tangents])
        inner, moves = both[: len(primals)], both[len(primals) :]
        with opened(stage):
            plain, contents, reverse = self.sections(inner)
            refs = self.begin_refs(avals_of(contents), contents, reverse)
            args = self.tracers(inner, refs)
            moves_plain, moves_refs, moves_reverse = self.sections(moves)
            n = len(self.captured)
            leaves = [tangent_of(d, p, owner.symbolic) for d, p in zip(moves_plain[n:], plain[n:], strict=True)]
            moved_refs = [
                ref_over(lift(tangent_of(d, c, False)).node) if c.dtype.is_inexact else tangent_of(d, c, False)
                for c, d in zip(contents, moves_refs, strict=True)
            ]
            starts = [current(r) if isinstance(r, Ref) else None for r in moved_refs]
            given = show_refs(tree.unflatten(self.in_tree, leaves), lambda k: moved_refs[k])
            result = owner.rule(*[x for _, x in self.known()], args, given)
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise ArgumentError(
                    f"Custom JVP rule {function_name(owner.rule)} for function {name} must produce a pair (list or "
                    f"tuple of length two) representing primal and tangent outputs, but got {describe(result)}"
                )
            outs, out_tree = lift_results(result[0], what)
            self.check_outputs(what, out_tree)
            moved, spec = tree.flatten(result[1], is_leaf=lambda x: x is None)
            if len(moved) != len(outs):
                path, want, got = tree.difference(out_tree, spec, "the tangent") or ("", "", "")
                raise ArgumentError(
                    f"{what} must return tangents of the structure of its outputs, but {path} is {got}, and the output "
                    f"{want}"
                )
            douts = [
                as_node(x, o.node, what, tree.path_of(out_tree, i, "the tangent"))
                for i, (x, o) in enumerate(zip(moved, outs, strict=True))
            ]
            self.check_known()
            finals = [current(r) for r in (*refs, *[r.reverse for r in refs])]
            # the rule says what becomes of the tangents of its arguments; a Ref that it closes over and writes is still
            for k, (ref, start, d) in enumerate(zip(moved_refs, starts, moves_refs, strict=True)):
                now = current(ref) if isinstance(ref, Ref) else None
                is_given = self.outer[k] is None or now is not start
                douts.append((d if now is start else now) if is_given or finals[k] is contents[k] else None)
            douts += moves_reverse
        there = [d for d in douts if d is not None]
        outs_there = [*[o.node for o in outs], *finals]
        fixed_up = self.rebound([*outs_there, *there], primals, meaning)
        it = iter(fixed_up[len(outs_there) :])
        return fixed_up[: len(outs_there)], [None if d is None else next(it) for d in douts]


trim_methods(Custom, ("__call__",))


class custom_jvp(Custom):
    """A function whose forward derivative you give (reverse mode is its transpose).

    nondiff_argnums   arguments that are not differentiated; they come first in the rule
    nondiff_argnames  the same by name

    >>> @custom_jvp
    ... def f(x):
    ...     return fnp.log(1 + fnp.exp(x))
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return f(x), nn.sigmoid(x) * dx

    Source: the interface of jax.custom_jvp.
    """

    kind = "custom_jvp"
    needs = "JVP", "defjvp"
    rule: Callable[..., Any] | None = None

    def ready(self) -> bool:
        return self.rule is not None

    def make_rule(self, *args: Any) -> Rule:
        return _JvpRule(*args)

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Give the rule: `jvp(*nondiff, primals, tangents) -> (output, tangent of the output)`; returns it.

        symbolic_zeros   tangents that are zero arrive as `custom_derivatives.SymbolicZero`, not as arrays of zeros;
                         the rule may return such ones
        """
        self.rule, self.symbolic = jvp, symbolic_zeros
        self.rules.clear()  # equal programs must not be taken for those of an older rule
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Give one rule for each argument: `jvp_i(tangent_i, output, *primals)`; None for a zero derivative."""

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            out = self(*primals)
            parts = [j(t, out, *primals) for j, t in zip(jvps, tangents, strict=True) if j is not None]
            if not parts:
                return out, tree.map_(lambda o: o * 0, out)
            total = parts[0]
            for p in parts[1:]:
                total = tree.map_(lambda a, b: a + b, total, p)
            return out, total

        self.defjvp(rule)


__all__ = ["custom_jvp"]
