"""Pytrees: optree with fgrad's namespace. None is an empty tree; dictionaries are ordered by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import optree

NAMESPACE = "fgrad"
TreeDef = optree.PyTreeSpec
Leaf = Any


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


def flat_arguments(n: int) -> TreeDef:
    """The structure of (args, kwargs) of a function of `n` positional arrays."""
    return structure((tuple(range(n)), {}))


def map_(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    return optree.tree_map(f, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def path_of(spec: TreeDef, i: int, root: str = "") -> str:
    """How a user would write leaf number `i`: `args[0]['w']`."""
    return str(spec.accessors()[i].codify(root)) if spec.num_leaves else root


def broadcast_prefix(prefix: Any, tree: Any, what: str, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of `prefix`, each repeated over the subtree of `tree` it stands for.

    None in the prefix counts as a leaf. Raises ValueError naming `what` when the prefix does not fit.
    """

    def leaf(x: Any) -> bool:
        return x is None or (is_leaf is not None and is_leaf(x))

    out: list[Any] = []

    def add(x: Any, subtree: Any) -> None:
        out.extend([x] * len(leaves_of(subtree)))

    try:
        optree.tree_map_(add, prefix, tree, is_leaf=leaf, namespace=NAMESPACE)
    except (ValueError, TypeError) as e:
        raise ValueError(f"{what} {prefix!r} is no prefix of the tree it is for: {e}") from None
    return out
