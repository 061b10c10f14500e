"""Functions that say themselves how `vmap` maps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.lax.loops import map as map_
from fgrad.trace import tree
from fgrad.trace.custom_vmap import custom_vmap
from fgrad.trace.frames import trim_public

__all__ = ["custom_vmap", "sequential_vmap"]


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function that `vmap` runs for one member of the batch after the other, as `lax.map` does.

    >>> vmap(sequential_vmap(lambda x: x + 1))(fnp.arange(3.0))
    Array([1., 2., 3.], dtype=float32)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, spec = tree.flatten(args)
        flags = tree.leaves_of(in_batched)

        def one(members: list[Any]) -> Any:
            it = iter(members)
            return mapped(*tree.unflatten(spec, [next(it) if b else x for x, b in zip(leaves, flags, strict=True)]))

        return map_(one, [x for x, b in zip(leaves, flags, strict=True) if b]), True

    return mapped

trim_public(globals(), __all__)
