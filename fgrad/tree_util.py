"""Pytrees: nested containers of arrays, and functions over them.

Lists, tuples, named tuples, dictionaries (ordered by key) and registered classes are containers; None is an empty one;
everything else is a leaf.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import optree

from fgrad.errors import ArgumentError
from fgrad.trace import tree as trees
from fgrad.trace.containers import Partial as Partial
from fgrad.trace.containers import register_dataclass as register_dataclass
from fgrad.trace.containers import register_pytree_node as register_pytree_node
from fgrad.trace.containers import register_pytree_node_class as register_pytree_node_class
from fgrad.trace.containers import register_pytree_with_keys as register_pytree_with_keys
from fgrad.trace.containers import register_pytree_with_keys_class as register_pytree_with_keys_class
from fgrad.trace.containers import register_static as register_static
from fgrad.trace.frames import trim_public
from fgrad.trace.paths import DictKey as DictKey
from fgrad.trace.paths import FlattenedIndexKey as FlattenedIndexKey
from fgrad.trace.paths import GetAttrKey as GetAttrKey
from fgrad.trace.paths import KeyEntry as KeyEntry
from fgrad.trace.paths import KeyPath as KeyPath
from fgrad.trace.paths import SequenceKey as SequenceKey
from fgrad.trace.paths import key_of
from fgrad.trace.paths import keystr as keystr

PyTreeDef = optree.PyTreeSpec
IsLeaf = Callable[[Any], bool] | None
NAMESPACE = trees.NAMESPACE


# ---- flattening
def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree and its structure, as a pair.

    Containers are tuples, lists, dictionaries (in the order of their keys), None (no leaves) and registered classes.

    is_leaf   is asked first whether a value counts as a leaf, here and in the functions below

    >>> tree_flatten([1, {"b": 2, "a": None}])
    ([1, 2], PyTreeSpec([*, {'a': None, 'b': *}]))
    """
    return trees.flatten(tree, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves.

    Raises ValueError for another number of leaves than the structure has.

    >>> tree_unflatten(tree_structure({"a": 0, "b": 0}), [1, 2])
    {'a': 1, 'b': 2}
    """
    return trees.unflatten(treedef, leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves, in the order of the structure.

    >>> tree_leaves({"b": 1, "a": [2, 3]})
    [2, 3, 1]
    """
    return trees.leaves_of(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure without the leaves.

    >>> tree_structure([0, {"a": 1}]) == tree_structure([5, {"a": 6}])
    True
    """
    return trees.structure(tree, is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The pairs (path, leaf) of a tree and its structure, as a pair.

    A path is a tuple of keys; `keystr` prints it.

    is_leaf_takes_path   `is_leaf` is called with (path, value) instead of the value alone

    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"w": [1, 2]})[0]]
    [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    if is_leaf_takes_path and is_leaf is not None:
        is_leaf = _replayed(_decisions(tree, is_leaf, ()))
    leaves, treedef = trees.flatten(tree, is_leaf)
    paths = [tuple([key_of(e) for e in a]) for a in treedef.accessors()]
    return list(zip(paths, leaves, strict=True)), treedef


def _decisions(tree: Any, is_leaf: Any, path: KeyPath) -> list[bool]:
    """What `is_leaf(path, value)` says of each value of the tree, parents first."""
    answer = bool(is_leaf(path, tree))
    out = [answer]
    if answer or trees.structure(tree).is_leaf():
        return out
    for child, key in _children(tree):
        out += _decisions(child, is_leaf, (*path, key))
    return out


def _replayed(decisions: list[bool]) -> IsLeaf:
    """The decisions again, one a call: containers are asked in the same order."""
    answers = iter(decisions)
    return lambda value: next(answers)


def _children(tree: Any) -> list[tuple[Any, Any]]:
    """[(child, its key), ..] of a container."""
    children, _, entries, *_ = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    one_level = trees.structure(tree, lambda x: x is not tree)
    keys = [key_of(a[0]) for a in one_level.accessors()]
    assert len(keys) == len(entries) == len(children), "accessors of one level are one step long"
    return list(zip(children, keys, strict=True))


def tree_leaves_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The pairs (path, leaf) of a tree, in a list.

    Arguments as in `tree_flatten_with_path`.

    >>> tree_leaves_with_path({"w": 1})
    [((DictKey(key='w'),), 1)]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of `f(leaf, *leaves of the others)`.

    The other trees have the structure of `tree`, or go deeper. Raises ValueError where they differ.

    >>> tree_map(lambda x, y: x + y, {"a": 1}, {"a": 2})
    {'a': 3}
    """
    try:
        return trees.map_(f, tree, *rest, is_leaf=is_leaf)
    except ValueError:
        _refuse_differences("tree_map", tree, rest, is_leaf)
        raise


def _refuse_differences(what: str, first: Any, rest: Sequence[Any], is_leaf: IsLeaf) -> None:
    """Raise ArgumentError where another tree does not go on from the structure of the first."""
    for i, other in enumerate(rest, 1):
        place = trees.difference(trees.structure(first, is_leaf), trees.structure(other, is_leaf), "tree", prefix=True)
        if place is not None:
            path, here, there = place
            raise ArgumentError(
                f"{what}: the trees must have one structure, but {path} is {here} in the first and {there} in number "
                f"{i + 1}"
            ) from None


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """As `tree_map`, with the path of the leaf as the first argument of `f`.

    Other arguments as in `tree_map` and `tree_flatten_with_path`.

    >>> tree_map_with_path(lambda path, x: keystr(path), {"w": [1, 2]})
    {'w': ["['w'][0]", "['w'][1]"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [treedef.flatten_up_to(r) for r in rest]
    return treedef.unflatten(
        [f(*args) for args in zip(*zip(*pairs, strict=True), *others, strict=True)] if pairs else []
    )


_MISSING = object()


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Leaves combined one after the other, from `initializer` on if it is given.

    Raises TypeError for no leaves and no `initializer`.

    >>> tree_reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]})
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _MISSING:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Leaves combined pairwise, as a balanced tree; `identity` is the result for no leaves.

    Raises ArgumentError for no leaves and no `identity`.

    >>> tree_reduce_associative(lambda x, y: x + y, [1, 2, 3, 4])
    10
    """
    parts = tree_leaves(tree, is_leaf)
    if not parts:
        if identity is _MISSING:
            raise ArgumentError("tree_reduce_associative of no leaves needs identity=")
        return identity
    while len(parts) > 1:
        pairs = [operation(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true.

    True for no leaves.

    >>> tree_all({"a": True, "b": [False]})
    False
    """
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether every element is a leaf.

    >>> all_leaves([1, 2]), all_leaves([1, [2]])
    (True, False)
    """
    return all(trees.structure(x, is_leaf).is_leaf() for x in iterable)


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees with inside and outside exchanged.

    >>> outer, inner = tree_structure([0, 0]), tree_structure({"a": 0})
    >>> tree_transpose(outer, inner, [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}

    The inner structure may be None: it is then that of the first inner tree. Raises ArgumentError when the tree is not
    made of those structures.
    """
    try:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        if inner_treedef is None:
            if not subtrees:
                raise ArgumentError("tree_transpose of an empty outer structure needs inner_treedef")
            inner_treedef = trees.structure(subtrees[0])
        inner = [inner_treedef.flatten_up_to(t) for t in subtrees]
    except ValueError:
        given = trees.structure(pytree_to_transpose)
        whole = outer_treedef if inner_treedef is None else outer_treedef.compose(inner_treedef)
        path, want, got = trees.difference(whole, given, "tree", prefix=True) or ("tree", str(whole), str(given))
        raise ArgumentError(
            f"tree_transpose: Mismatch: with these outer and inner structures {path} must be {want}, and it is {got}"
        ) from None
    if inner_treedef.num_leaves == 0:
        return inner_treedef.unflatten([])
    columns = [[row[i] for row in inner] for i in range(inner_treedef.num_leaves)]
    return inner_treedef.unflatten([outer_treedef.unflatten(c) for c in columns])


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The structure of `full_tree`, filled with the leaves of `prefix_tree` that stand above.

    Raises ValueError unless `prefix_tree` is the upper part of `full_tree`.

    >>> tree_broadcast([1, 2], [{"a": 0, "b": 0}, 0])
    [{'a': 1, 'b': 1}, 2]
    """
    return optree.tree_broadcast_prefix(prefix_tree, full_tree, is_leaf, namespace=NAMESPACE)


# ---- structures
def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures one level down.

    >>> treedef_children(tree_structure([0, 0]))
    [PyTreeSpec(*), PyTreeSpec(*)]
    """
    return list(treedef.children())


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single leaf.

    >>> treedef_is_leaf(tree_structure(0)), treedef_is_leaf(tree_structure([0]))
    (True, False)
    """
    return bool(treedef.is_leaf())


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of such trees.

    >>> treedef_tuple([tree_structure(0), tree_structure([0])]) == tree_structure((0, [0]))
    True
    """
    return optree.treespec_tuple(tuple(treedefs), namespace=NAMESPACE)


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The children of a container and what else there is to know of it, as a pair.

    Raises ValueError for a leaf.

    >>> flatten_one_level([1, [2]])
    ([1, [2]], None)
    """
    if trees.structure(tree).is_leaf():
        raise ValueError(f"can't tree-flatten type {type(tree).__name__}: a leaf has no children, got {tree!r}")
    children, metadata, *_ = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    return list(children), metadata


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The pairs (key, child) of a container and what else there is to know of it, as a pair.

    Raises ValueError for a leaf.

    >>> flatten_one_level_with_keys({"a": 1})
    ([(DictKey(key='a'), 1)], ('a',))
    """
    _, metadata = flatten_one_level(tree)
    if isinstance(tree, dict) and isinstance(metadata, list):  # the keys
        metadata = tuple(metadata)
    return [(key, child) for child, key in _children(tree)], metadata


def is_tree_node(x: Any) -> bool:
    """Whether `x` is a container, and not a leaf.

    >>> is_tree_node([1]), is_tree_node(1)
    (True, False)
    """
    return not trees.structure(x, lambda y: y is not x).is_leaf()


__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef",
    "SequenceKey", "all_leaves", "flatten_one_level", "flatten_one_level_with_keys",
    "is_tree_node", "keystr", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class",
    "register_static", "tree_all", "tree_broadcast", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce", "tree_reduce_associative",
    "tree_structure", "tree_transpose", "tree_unflatten", "treedef_children", "treedef_is_leaf",
    "treedef_tuple",
]  # fmt: skip

trim_public(globals(), __all__)
