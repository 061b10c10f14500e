"""A pytree of arrays as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fgrad.errors import ShapeError, note_user_line
from fgrad.run.eager import public
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public, trimmed
from fgrad.trace.tracer import Tracer, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval


@public()
def _raveled(leaves: list[Any]) -> Array:
    if not leaves:
        return Tracer(build.const(0, dt.default_float(), (0,)))
    nodes, _, _ = promoted(*leaves)
    return Tracer(build.concatenate([build.reshape(n, (n.size,)) for n in nodes], 0))


@public(static=("avals",))
def _parts(vector: Any, avals: tuple[Aval, ...]) -> list[Array]:
    x = lift(vector).node
    out: list[Array] = []
    start = 0
    for a in avals:
        n = math.prod(a.shape)
        part = build.reshape(build.slice_axis(x, 0, start, start + n), a.shape)
        out.append(Tracer(build.cast(part, a.dtype)))
        start += n
    return out


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """-> (all elements as one vector of the common dtype, a function that turns such a vector into the tree again).

    >>> flat, back = ravel_pytree({"b": fnp.zeros(2), "w": fnp.ones((1, 2))})
    >>> flat
    Array([0., 0., 1., 1.], dtype=float32)
    """
    leaves, treedef = tree.flatten(pytree)
    avals = tuple([Aval(lift(x).aval.dtype, lift(x).shape) for x in leaves])
    total = sum(math.prod(a.shape) for a in avals)

    def unravel(vector: Any) -> Any:
        shape = lift(vector).shape
        if shape != (total,):
            raise note_user_line(
                ShapeError(f"the tree has {total} elements, so its vector has shape {(total,)}, got {shape}")
            )
        return tree.unflatten(treedef, _parts(vector, avals) if avals else [])

    return _raveled(leaves), trimmed(unravel)


__all__ = ["ravel_pytree"]

trim_public(globals(), __all__)
