"""Pytrees: optree with fgrad's namespace. None is an empty tree; dictionaries are ordered by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

from fgrad.errors import VmapAxisError, note_user_line

NAMESPACE = "fgrad"
TreeDef = optree.PyTreeSpec
Leaf = Any

float0 = np.dtype([("float0", np.void, 0)])
"""The dtype of the tangents of integers and bools: it holds nothing (as in JAX)."""


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Leaf], TreeDef]:
    """-> (leaves, structure)."""
    leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    return leaves, spec


def unflatten(spec: TreeDef, leaves: Iterable[Leaf]) -> Any:
    """The tree of that structure with these leaves."""
    return optree.tree_unflatten(spec, leaves)


def leaves_of(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Leaf]:
    return optree.tree_leaves(tree, is_leaf, namespace=NAMESPACE)


def structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeDef:
    return optree.tree_structure(tree, is_leaf, namespace=NAMESPACE)


class _Nothing:
    """Stands for a float0 array in a structure: a container without leaves. Unflattening gives the array back."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def register(cls: Any, flatten: Any, unflatten: Any, **options: Any) -> None:
    """Make `cls` a container."""
    optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE, **options)


register(_Nothing, lambda x: ((), x.shape), lambda shape, _: np.zeros(shape, float0))


def is_nothing(x: Any) -> bool:
    """Whether `x` is a float0 array."""
    return type(x) is np.ndarray and x.dtype.kind == "V" and x.dtype == float0


def flatten_arrays(tree: Any) -> tuple[list[Leaf], TreeDef]:
    """As `flatten`, with float0 arrays as part of the structure: no program has values of theirs."""
    leaves, spec = flatten(tree)
    if any(is_nothing(x) for x in leaves):
        return flatten(map_(lambda x: _Nothing(x.shape) if is_nothing(x) else x, tree))
    return leaves, spec


def flat_arguments(n: int) -> TreeDef:
    """The structure of (args, kwargs) of a function of `n` positional arrays."""
    return structure((tuple(range(n)), {}))


def map_(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    return optree.tree_map(f, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def register_constant(kind: type[Any], content: Callable[[Any], Any], make: Callable[[Any], Any]) -> None:
    """Make instances of `kind` a part of the structure of pytrees: no leaves, equal where their `content` is."""
    optree.register_pytree_node(kind, lambda x: ((), content(x), ()), lambda aux, _: make(aux), namespace=NAMESPACE)


def path_of(spec: TreeDef, i: int, root: str = "") -> str:
    """How a user would write leaf number `i`: `args[0]['w']`."""
    return str(spec.accessors()[i].codify(root)) if spec.num_leaves else root


def path_of_argument(spec: TreeDef, i: int) -> str:
    """How a user would write leaf number `i` of (args, kwargs): `args[0]['w']`, or `scale['w']` of a keyword."""
    which, *rest = spec.accessors()[i]
    if which.entry == 0:
        return "args" + "".join([step.codify("") for step in rest])
    return str(rest[0].entry) + "".join([step.codify("") for step in rest[1:]])


def kind_of(spec: TreeDef) -> str:
    """What stands at the top of a structure, in words: `a tuple of 2`, `a dict with keys ['w']`, `an array`."""
    kind = spec.type
    if kind is None:
        return "an array"
    if kind is type(None):
        return "None"
    if issubclass(kind, dict):
        return f"a {kind.__name__} with keys {list(spec.entries())}"
    return f"a {kind.__name__} of {spec.num_children}" if issubclass(kind, tuple | list) else f"a {kind.__name__}"


def difference(a: TreeDef, b: TreeDef, root: str, prefix: bool = False) -> tuple[str, str, str] | None:
    """Where two structures first differ, and what stands there: (path, in `a`, in `b`); None where they are equal.

    prefix   a leaf of `a` may stand for any subtree of `b`
    """
    rest = [(a, b, root)]
    while rest:
        a, b, path = rest.pop()
        if a == b or (prefix and a.is_leaf()):
            continue
        steps = [[] if level is None else level.accessors() for level in (a.one_level(), b.one_level())]
        if a.type is not b.type or steps[0] != steps[1]:
            return path, kind_of(a), kind_of(b)
        if not a.num_children:  # equal but for what a registered class says of itself
            return path, str(a), str(b)
        children = zip(a.children(), b.children(), steps[0], strict=True)
        rest += [(x, y, path + step.codify("")) for x, y, step in reversed(list(children))]
    return None


def broadcast_prefix(
    prefix: Any, tree: Any, what: str, is_leaf: Callable[[Any], bool] | None = None, root: str = ""
) -> list[Any]:
    """The leaves of `prefix`, each repeated over the subtree of `tree` it stands for.

    None in the prefix counts as a leaf. Raises VmapAxisError naming `what`, and the place below `root` where the prefix
    does not fit.
    """

    def leaf(x: Any) -> bool:
        return x is None or (is_leaf is not None and is_leaf(x))

    out: list[Any] = []

    def add(x: Any, subtree: Any) -> None:
        out.extend([x] * len(leaves_of(subtree)))

    try:
        optree.tree_map_(add, prefix, tree, is_leaf=leaf, namespace=NAMESPACE)
    except (ValueError, TypeError):
        place = difference(structure(prefix, is_leaf=leaf), structure(tree), root, prefix=True)
        path, here, there = place or (root, "", "")
        here = here.replace("an array", "a leaf")
        raise note_user_line(
            VmapAxisError(
                f"{what} specification must be a tree prefix of the corresponding value; got {prefix!r}, which has "
                f"{here} for {path}, and that is {there}"
            )
        ) from None
    return out
