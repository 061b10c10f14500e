"""Classes that are containers of pytrees: registering them; functools.partial as one."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import optree

from fgrad.errors import ArgumentError
from fgrad.trace.paths import GetAttrKey, KeyedEntry
from fgrad.trace.tree import NAMESPACE

T = TypeVar("T")


def _register(nodetype: Any, flatten: Any, unflatten: Any, **options: Any) -> None:
    """Register with optree, which warns of named tuples: that such a class gets functions of its own is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is a subclass of `collections.namedtuple`", category=UserWarning)
        optree.register_pytree_node(nodetype, flatten, unflatten, **options)


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make `nodetype` a container.

    flatten_func            object -> (children, metadata); metadata is compared and hashed
    unflatten_func          (metadata, children) -> object; the children may be any values, not
                            only arrays
    flatten_with_keys_func  object -> ([(key, child), ..], metadata), for paths

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
    >>> tree_map(lambda x: x + 1, Pair(1, 2)).b
    3
    """
    if flatten_with_keys_func is not None:
        register_pytree_with_keys(nodetype, flatten_with_keys_func, unflatten_func, flatten_func)
        return
    _register(
        nodetype,
        lambda x: tuple(flatten_func(x))[:2],
        unflatten_func,
        path_entry_type=optree.FlattenedEntry,
        namespace=NAMESPACE,
    )


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make `nodetype` a container whose children have keys.

    flatten_with_keys   object -> ([(key, child), ..], metadata); metadata is compared and hashed
    unflatten_func      (metadata, children) -> object
    flatten_func        object -> (children, metadata), where that is cheaper

    Raises ValueError for a class that is registered already.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> def flatten(p):
    ...     return [(GetAttrKey("a"), p.a), (GetAttrKey("b"), p.b)], None
    >>> register_pytree_with_keys(Pair, flatten, lambda _, children: Pair(*children))
    >>> [keystr(path) for path, _ in tree_leaves_with_path(Pair(1, 2))]
    ['.a', '.b']
    """

    def flatten(x: T) -> tuple[list[Any], Any, list[Any]]:
        pairs, metadata = flatten_with_keys(x)
        pairs = list(pairs)
        return [c for _, c in pairs], metadata, [k for k, _ in pairs]

    _register(nodetype, flatten, unflatten_func, path_entry_type=KeyedEntry, namespace=NAMESPACE)


def _with_methods(cls: type, *names: str) -> Any:
    """The class; raises ArgumentError when a method that makes it a container is missing."""
    for name in names:
        if not hasattr(cls, name):
            raise ArgumentError(f"the class {cls.__name__} needs a method {name} to become a container")
    return cls


def register_pytree_node_class(cls: type[T]) -> type[T]:
    """Class decorator: the class has `tree_flatten(self)` and a classmethod `tree_unflatten(metadata, children)`.

    Raises ValueError for a class that is registered already.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    ...     def tree_flatten(self):
    ...         return (self.a, self.b), None
    ...     @classmethod
    ...     def tree_unflatten(cls, metadata, children):
    ...         return cls(*children)
    >>> tree_leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    named = _with_methods(cls, "tree_flatten", "tree_unflatten")
    register_pytree_node(cls, named.tree_flatten, named.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: type[T]) -> type[T]:
    """Class decorator: the class has `tree_flatten_with_keys(self)` and a classmethod `tree_unflatten`.

    Raises ValueError for a class that is registered already.

    >>> @register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten_with_keys(self):
    ...         return [(GetAttrKey("x"), self.x)], None
    ...     @classmethod
    ...     def tree_unflatten(cls, metadata, children):
    ...         return cls(*children)
    >>> keystr(tree_leaves_with_path(Box(1))[0][0])
    '.x'
    """
    named = _with_methods(cls, "tree_flatten_with_keys", "tree_unflatten")
    register_pytree_with_keys(cls, named.tree_flatten_with_keys, named.tree_unflatten)
    return cls


def register_dataclass(
    nodetype: Any = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Make a class with named fields a container; also a decorator.

    data_fields   fields that are children; by default those not marked with
                  field(metadata={"static": True})
    meta_fields   fields that are metadata: compared and hashed
    drop_fields   fields that are neither, and take their defaults

    Raises ArgumentError where the fields named are not those of the class.

    >>> import dataclasses
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     name: str = dataclasses.field(default="dense", metadata={"static": True})
    >>> tree_map(lambda x: x * 2, Layer(3.0)).w, tree_leaves(Layer(3.0))
    (6.0, [3.0])
    """
    if nodetype is None:
        return functools.partial(
            register_dataclass,
            data_fields=data_fields,
            meta_fields=meta_fields,
            drop_fields=drop_fields,
        )
    if (data_fields is None) != (meta_fields is None):
        raise ArgumentError("register_dataclass needs both data_fields and meta_fields, or neither")
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise ArgumentError("register_dataclass of a class that is no dataclass needs data_fields and meta_fields")
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
    elif dataclasses.is_dataclass(nodetype):
        known = {f.name for f in dataclasses.fields(nodetype) if f.init}
        named = {*data_fields, *meta_fields, *drop_fields}
        if known != named & known or not {*data_fields, *meta_fields} <= known:
            raise ArgumentError(
                f"register_dataclass of {nodetype}: its fields are {sorted(known)}, but data_fields, meta_fields "
                f"and drop_fields name {sorted(named)}; missing: {sorted(known - named)}, "
                f"unknown: {sorted(named - known)}"
            )
    data, meta = tuple(data_fields), tuple(meta_fields)
    keys = [GetAttrKey(name) for name in data]

    def flatten(x: Any) -> tuple[list[Any], Any, list[Any]]:
        return [getattr(x, n) for n in data], tuple([getattr(x, n) for n in meta]), keys

    def unflatten(metadata: Any, children: Any) -> Any:
        values = dict(zip(data, children, strict=True))
        return nodetype(**values, **dict(zip(meta, metadata, strict=True)))

    _register(nodetype, flatten, unflatten, path_entry_type=KeyedEntry, namespace=NAMESPACE)
    return nodetype


def register_static(cls: type[T]) -> type[T]:
    """Class decorator for objects without leaves, which are compared and hashed as a whole.

    >>> tree_leaves([1, register_static(type("Mode", (), {}))()])
    [1]
    """
    _register(cls, lambda x: ((), x), lambda x, _: x, namespace=NAMESPACE)
    return cls


class Partial(functools.partial):  # type: ignore[type-arg]
    """functools.partial as a container: the arguments are children, the function is metadata.

    >>> f = Partial(fnp.multiply, fnp.ones(2))
    >>> f(3.0), tree_leaves(f)
    (Array([3., 3.], dtype=float32), [Array([1., 1.], dtype=float32)])
    """


_register(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, parts: Partial(func, *parts[0], **parts[1]),
    path_entry_type=optree.FlattenedEntry,
    namespace=NAMESPACE,
)


__all__ = [
    "Partial", "register_dataclass", "register_pytree_node", "register_pytree_node_class",
    "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static",
]  # fmt: skip
