"""Batching given by users: custom_vmap.

Inside a stage such a function becomes a CALL of kind "custom_vmap", whose rule the batching interpreter asks. Its
forward derivative is such a CALL again, batched by the derivative of the rule; in reverse mode it is what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.errors import DtypeError, OrderingError, ShapeError
from fgrad.trace import tree
from fgrad.trace.custom import Custom, Rule, opened_for
from fgrad.trace.stage import opened
from fgrad.trace.staging import function_name, lift_results
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp
from fgrad.uop.program import Call

__all__ = ["custom_vmap"]


class _BatchRule(Rule):
    def batch(
        self, call: Call, src: Sequence[UOp], flags: Sequence[bool], size: int
    ) -> tuple[list[UOp], list[bool]]:
        """The outputs for a batch, and which of them have the batch axis."""
        owner = self.owner
        assert isinstance(owner, custom_vmap) and owner.rule is not None
        name = function_name(owner.fun)
        what = f"the vmap rule of {name}"
        first = len(self.captured)
        if any(flags[:first]):
            raise NotImplementedError(
                f"the custom_vmap function {name} closes over a value that is mapped, which its rule cannot see; pass "
                "it as an argument"
            )
        stage, inner, meaning = opened_for(what, src)
        with opened(stage):
            in_batched = list(tree.unflatten(self.in_tree, flags[first:]))
            result = owner.rule(size, in_batched, *self.full(self.tracers(inner, ())))
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise TypeError(f"{what} must return a pair (output, which of it is batched), got {result!r}")
            outs, out_tree = lift_results(result[0], what)
            if out_tree != self.out_tree:
                raise ShapeError(
                    f"structure of output returned by custom vmap rule ({function_name(owner.rule)}) does not match "
                    f"that of original custom-vmapped function {name}: {out_tree}, not {self.out_tree}"
                )
            batched = [bool(b) for b in tree.broadcast_prefix(result[1], result[0], f"{what}: which output is batched")]
        nodes = [t.node for t in outs]
        for i, (node, is_batched, one) in enumerate(zip(nodes, batched, call.body.outs, strict=True)):
            shape = (size, *one.shape) if is_batched else one.shape
            if node.shape != shape or node.dtype is not one.dtype:
                kind = DtypeError if node.shape == shape else ShapeError
                raise kind(
                    f"{what} must return {Aval(one.dtype, shape)} at {tree.path_of(out_tree, i, 'output')}, got "
                    f"{Aval(node.dtype, node.shape)}"
                )
        return self.rebound(nodes, src, meaning), batched


class custom_vmap(Custom):
    """A function that says itself how it is mapped over a batch.

    >>> @custom_vmap
    ... def norm(x):
    ...     return fnp.sqrt(fnp.sum(x * x))
    >>> @norm.def_vmap
    ... def norm_of_many(axis_size, in_batched, x):
    ...     return fnp.sqrt(fnp.einsum("ij,ij->i", x, x)), in_batched[0]

    The rule is given the size of the batch, a list that says of each argument (each leaf of a pytree) whether it is
    batched, and the arguments, the batched ones with a leading axis. It returns the output and whether it is batched,
    as a tree or a prefix of one. Forward derivatives follow the rule; reverse derivatives are those of the function,
    mapped without it. Source: the interface of jax.custom_batching.custom_vmap.
    """

    kind = "custom_vmap"
    needs = "batching rule", "def_vmap"

    rule: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[..., Any]) -> None:
        super().__init__(fun)

    def ready(self) -> bool:
        return self.rule is not None

    def make_rule(self, *args: Any) -> Rule:
        rule = _BatchRule(*args)
        if rule.refs:
            raise OrderingError(
                f"the custom_vmap function {function_name(self.fun)} uses a Ref from outside of it, or a callback, "
                "whose order its rule cannot keep; pass what it needs as an array"
            )
        return rule

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule: `rule(axis_size, in_batched, *args) -> (output, out_batched)`; returns it."""
        self.rule = rule
        self.rules.clear()
        return rule
