"""What only concerns how a program runs, not what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.lax.staging import as_one_program
from fgrad.trace import tree
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop.node import uop
from fgrad.uop.op import Op


@as_one_program("optimization_barrier")
def optimization_barrier(operand: Any) -> Any:
    """The same pytree; no leaf of it is there before all are.

    Values and derivatives pass; nothing is moved or merged across.

    >>> lax.optimization_barrier((fnp.array([1, 2]), 3.0))
    (Array([1, 2], dtype=int64), Array(3., dtype=float32, weak_type=True))
    """
    leaves, spec = tree.flatten(operand)
    lifted = [lift(x) for x in leaves]
    nodes = [t.node for t in lifted]
    out = []
    for i, t in enumerate(lifted):
        others = tuple([n for k, n in enumerate(nodes) if k != i])
        out.append(Tracer(uop(Op.AFTER, (t.node, *others)) if others else t.node, t.weak))
    return tree.unflatten(spec, out)


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """per_platform["cpu"](*args) if it is given, else default(*args).

    Raises NotImplementedError where there is neither.

    >>> lax.platform_dependent(fnp.array([1.0]), cpu=lambda x: x + 1, default=lambda x: x)
    Array([2.], dtype=float32)
    """
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise NotImplementedError(f"platform_dependent without cpu= or default=; got {sorted(per_platform)}")
    return chosen(*args)


__all__ = ["optimization_barrier", "platform_dependent"]
