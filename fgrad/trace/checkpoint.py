"""checkpoint: values that are computed again in the backward pass, and names for those that are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from fgrad.trace import tree
from fgrad.trace.apply import check_leaves
from fgrad.trace.ref import current, hide_refs, show_refs
from fgrad.trace.stage import Stage, is_tracing
from fgrad.trace.staging import function_name, need_function, trace
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop.node import open_param, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, close, closure, gets


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """A function whose intermediate values are computed again in the backward pass instead of being kept.

    policy          `policy(node) -> bool`: values to keep all the same (see `fgrad.checkpoint_policies`)
    static_argnums  arguments that are Python values

    >>> grad(checkpoint(lambda x: fnp.sin(fnp.sin(x))))(1.0) == grad(lambda x: fnp.sin(fnp.sin(x)))(1.0)
    Array(True, dtype=bool)
    """
    if fun is None:
        return lambda f: checkpoint(f, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums)
    need_function(fun, "checkpoint")
    name = function_name(fun)
    static = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)

    @wraps(fun)
    def remembered(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fun(*args, **kwargs)
        fixed = {i % len(args): args[i] for i in static}
        moving = tuple([x for i, x in enumerate(args) if i not in fixed])
        leaves, in_tree = tree.flatten(hide_refs((moving, kwargs)))
        check_leaves(leaves, in_tree, f"checkpoint({name})")
        operands = [lift(x) for x in leaves]

        def body(*given: Any, **named: Any) -> Any:
            given, named = show_refs((given, named))
            it = iter(given)
            return fun(*[fixed[i] if i in fixed else next(it) for i in range(len(args))], **named)

        traced = trace(body, in_tree, [t.aval for t in operands], Stage(f"checkpoint({name})"))
        n = len(traced.outs)
        captured, program = closure(
            (*traced.params, *traced.entries), [*traced.outs, *[node for _, node in traced.finals]]
        )
        sources = (*captured, *[t.node for t in operands], *[current(r) for r in traced.refs])
        members = gets(uop(Op.CALL, sources, Call(program, "checkpoint", name, policy)))
        for (i, _), node in zip(traced.finals, members[n:], strict=True):
            traced.refs[i].put(Tracer(node))
        return tree.unflatten(traced.out_tree, [Tracer(m, w) for m, w in zip(members[:n], traced.weak, strict=True)])

    return remembered


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` (a pytree of arrays), under a name that policies of `checkpoint` keep or leave out.

    >>> layer = checkpoint(lambda x: fnp.sin(checkpoint_name(fnp.cos(x), "inner")),
    ...                    policy=checkpoint_policies.save_only_these_names("inner"))
    """
    if not is_tracing():
        return x
    leaves, spec = tree.flatten(x)
    check_leaves(leaves, spec, "checkpoint_name")
    given = [lift(leaf) for leaf in leaves]
    params = [open_param(t.node.dtype, t.node.shape, "named") for t in given]
    named = gets(uop(Op.CALL, tuple([t.node for t in given]), Call(close(params, params), "named", name)))
    return tree.unflatten(spec, [Tracer(u, t.weak) for u, t in zip(named, given, strict=True)])


__all__ = ["checkpoint", "checkpoint_name"]
