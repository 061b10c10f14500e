"""custom_vjp: a function whose reverse derivative the user gives; custom_gradient takes both from one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import optree

from fgrad.errors import ArgumentError, ShapeError, describe
from fgrad.trace import tree
from fgrad.trace.custom import Custom, CustomVJPPrimal, Rule, avals_of, is_zero, opened_for, tangent_of
from fgrad.trace.maybe import Maybe
from fgrad.trace.ref import Held, Ref, carried, current, hide_refs, show_refs, uncarried
from fgrad.trace.stage import opened
from fgrad.trace.staging import function_name, lift_results, need_function
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, substitute


class _VjpRule(Rule):
    def fwd(self, primals: list[UOp], moves: Sequence[bool]) -> tuple[list[UOp], list[UOp], _Backward]:
        owner = self.owner
        assert isinstance(owner, custom_vjp) and owner.forward is not None
        name = function_name(owner.fun)
        what = f"the forward rule of {name}"
        stage, inner, meaning = opened_for(what, primals)
        with opened(stage):
            _, contents, reverse = self.sections(inner)
            ref_avals = avals_of(contents)
            refs = self.begin_refs(ref_avals, contents, reverse)
            args: Sequence[Any] = self.tracers(inner, refs)
            if owner.symbolic:
                flags = show_refs(tree.unflatten(self.in_tree, self.sections(moves)[0][len(self.captured) :]))
                args = tree.map_(_marked, args, flags)
            result = owner.forward(*self.full(args))
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise ArgumentError(f"{what} must return a pair (output, residuals), got {describe(result)}")
            outs, out_tree = lift_results(result[0], what)
            self.check_outputs(what, out_tree)
            residuals, res_tree = lift_results(hide_refs(result[1], lambda r: _number(r, refs, what)), what)
            self.check_known()
            finals = [current(r) for r in (*refs, *[r.reverse for r in refs])]
        nodes = [r.node for r in residuals]
        outs_there = [*[o.node for o in outs], *finals]
        fixed_up = self.rebound([*outs_there, *nodes], primals, meaning)
        given = fixed_up[: len(outs_there)]
        written = tuple([a is not b for a, b in zip(self.sections(given)[1], self.sections(primals)[1], strict=True)])
        back = _Backward(self, res_tree, avals_of([o.node for o in outs]), ref_avals, written)
        return given, fixed_up[len(outs_there) :], back


@dataclass(frozen=True, slots=True)
class _Backward:
    """The way back of one call: its rule, the structure of its residuals, what its outs and Refs are.

    written   the Refs that the forward rule has written
    """

    rule: _VjpRule
    res_tree: tree.TreeDef
    outs: tuple[Aval, ...]
    refs: tuple[Aval, ...]
    written: tuple[bool, ...]

    @property
    def captured(self) -> int:
        """How many cotangents come before those of the user's arguments."""
        return len(self.rule.captured)

    def bwd(self, residuals: list[UOp], cts: list[Maybe]) -> list[Maybe]:
        """Cotangents of (captured, arguments, contents of Refs), then what the Refs are in the backward pass now."""
        rule, owner = self.rule, self.rule.owner
        assert isinstance(owner, custom_vjp) and owner.backward is not None
        name = function_name(owner.fun)
        what = f"the backward rule of {name}"
        for k, ct in enumerate(rule.sections(cts)[1]):
            if ct is not None and self.written[k]:
                raise NotImplementedError(
                    f"the derivative of what the forward rule of {name} has written to a Ref ({self.refs[k]}): {what} "
                    "only says what becomes of the cotangents of its results; return the value too, and use that"
                )
        stage, inner, meaning = opened_for(what, [*residuals, *cts])
        there, given = inner[: len(residuals)], inner[len(residuals) :]
        with opened(stage):
            ct_outs, _, states = rule.sections(given)
            begin = [None if s is None else uncarried(s, a) for s, a in zip(states, self.refs, strict=True)]
            why = f"{what} uses a Ref that was made inside the function that is differentiated; make it outside of that"
            refs = rule.begin_refs(self.refs, begin, None, why)
            res = show_refs(tree.unflatten(self.res_tree, [Tracer(r) for r in there]), lambda k: refs[k])
            ct = tree.unflatten(
                rule.out_tree, [tangent_of(c, o, owner.symbolic) for c, o in zip(ct_outs, self.outs, strict=True)]
            )
            got = owner.backward(*[x for _, x in rule.known()], res, ct)
            if not isinstance(got, tuple | list):
                raise ArgumentError(
                    f"{what} must return a tuple with one cotangent for each argument, got {describe(got)}"
                )
            out = [*[None] * len(rule.captured), *self._of_arguments(got, what)]
            rule.check_known()
            ends = [b if b is None else current(r) for r, b in zip(refs, begin, strict=True)]
            out += [s if e is b or e is None else carried(e) for s, b, e in zip(states, begin, ends, strict=True)]
        it = iter(substitute([x for x in out if x is not None], meaning))
        return [None if x is None else next(it) for x in out]

    def _of_arguments(self, got: Sequence[Any], what: str) -> list[Maybe]:
        """The cotangents that the rule gave, one for each leaf of the arguments, then for the contents of each Ref."""
        rule = self.rule
        moving = tree.unflatten(rule.in_tree, list(range(rule.in_tree.num_leaves)))
        if len(got) != len(moving):
            many = len(moving) != 1
            raise ArgumentError(
                f"{what} must return one cotangent for each of the {len(moving)} differentiated "
                f"argument{'s' if many else ''}, but returned {len(got)}; None stands for no derivative"
            )
        out: list[Maybe] = []
        of_refs: list[Maybe] = [None] * rule.refs
        for i, (g, arg) in enumerate(zip(got, moving, strict=True)):
            leaves = tree.leaves_of(arg, is_leaf=lambda x: isinstance(x, Held))
            shown = tree.map_(lambda x: 0, arg, is_leaf=lambda x: isinstance(x, Held))
            for x, w in zip(_cotangent_leaves(g, shown, i, what), leaves, strict=True):
                node = None if is_zero(x) else lift(x).node
                if not isinstance(w, Held):
                    out.append(node)
                elif node is not None:
                    of_refs[w.what] = _like(node, self.refs[w.what], what)
        return [*out, *of_refs]


def _marked(x: Any, moves: bool) -> Any:
    """An argument of a rule that asked for symbolic zeros."""
    return x if isinstance(x, Ref) else CustomVJPPrimal(x, moves)


def _number(ref: Ref, refs: Sequence[Ref], what: str) -> int:
    """The number of a Ref that a forward rule gives to the backward rule."""
    if ref in refs:
        return refs.index(ref)
    raise ArgumentError(
        f"{what} returned a Ref ({ref.aval}) among its residuals that is none of its arguments; return what it contains"
    )


def _like(ct: UOp, aval: Aval, what: str) -> Maybe:
    """The cotangent of the contents of a Ref."""
    if not aval.dtype.is_inexact:
        return None
    if ct.shape != aval.shape:
        raise ShapeError(f"{what} gave a cotangent of shape {ct.shape} for a Ref of shape {aval.shape}")
    return build.cast(ct, aval.dtype)


def _cotangent_leaves(cotangent: Any, argument: Any, i: int, what: str) -> list[Any]:
    """The leaves of a cotangent beside those of its argument; a None stands for all below it."""
    out: list[Any] = []

    def add(x: Any, subtree: Any) -> None:
        spec = tree.structure(subtree)
        if x is not None and not spec.is_leaf():
            raise ValueError(f"{x!r} stands for {spec}")
        out.extend([x] * spec.num_leaves)

    try:
        optree.tree_map_(add, cotangent, argument, is_leaf=lambda x: x is None, namespace=tree.NAMESPACE)
    except (ValueError, TypeError):
        given = tree.structure(cotangent, is_leaf=lambda x: x is None)
        place = tree.difference(tree.structure(argument), given, f"cotangent {i}")
        path, want, found = place or (f"cotangent {i}", "another", "this")
        raise ArgumentError(
            f"{what} must return cotangents with the structure of the arguments, but {path} is {found}, and the "
            f"argument {want}"
        ) from None
    return out


class custom_vjp(Custom):
    """A function whose reverse derivative you give.

    nondiff_argnums   arguments that are not differentiated; they come first in the backward rule
    nondiff_argnames  the same by name

    >>> @custom_vjp
    ... def clip_gradient(x, limit):
    ...     return x
    >>> clip_gradient.defvjp(
    ...     lambda x, limit: (x, limit), lambda limit, ct: (fnp.clip(ct, -limit, limit), None))

    The backward rule returns one cotangent for each argument; None means no gradient. Source: the interface of
    jax.custom_vjp.
    """

    kind = "custom_vjp"
    needs = "VJP", "defvjp"
    forward: Callable[..., Any] | None = None
    backward: Callable[..., Any] | None = None

    def ready(self) -> bool:
        return self.forward is not None

    def make_rule(self, *args: Any) -> Rule:
        return _VjpRule(*args)

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Give the rules: `fwd(*args) -> (output, residuals)`, `bwd(*nondiff, residuals, ct) -> tuple of cotangents`.

        symbolic_zeros   `fwd` is given a `custom_derivatives.CustomVJPPrimal` in place of each array, and cotangents
                         that are zero arrive in `bwd` as `custom_derivatives.SymbolicZero`
        optimize_remat   nothing to ask for: what a forward rule computes for residuals that nobody reads is never run
        """
        self.forward, self.backward, self.symbolic = fwd, bwd, symbolic_zeros
        self.rules.clear()


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns its value and its own vjp: `fun(*args) -> (output, ct -> cotangents of args)`.

    >>> @custom_gradient
    ... def twice(x):
    ...     return 2 * x, lambda ct: (2 * ct,)
    """
    need_function(fun, "custom_gradient")

    @wraps(fun)
    def value(*args: Any) -> Any:
        return fun(*args)[0]

    wrapped = custom_vjp(value)

    def forward(*args: Any) -> Any:
        return fun(*args)[0], args

    def backward(args: Any, ct: Any) -> Any:
        got = fun(*args)[1](ct)
        return tuple(got) if isinstance(got, tuple | list) else (got,)

    wrapped.defvjp(forward, backward)
    return wrapped


__all__ = ["custom_gradient", "custom_vjp"]
