"""Steps into a pytree, and paths made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

import optree


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The step to element `idx` of a list or tuple.

    >>> tree_leaves_with_path([5])[0][0]
    (SequenceKey(idx=0),)
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class DictKey:
    """The step to the value at `key` of a dictionary.

    >>> str(DictKey("w"))
    "['w']"
    """

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The step to attribute `name`.

    >>> str(GetAttrKey("w"))
    '.w'
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey:
    """The step to child number `key` of a class registered without keys.

    >>> str(FlattenedIndexKey(0))
    '[<flat index 0>]'
    """

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyEntry = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey
KeyPath = tuple[Any, ...]


class KeyedEntry(optree.PyTreeEntry):
    """A step whose entry is the key that the class gave."""

    def codify(self, node: str = "") -> str:
        """The code that takes this step from `node`."""
        return f"{node}{self.entry}"

    def __call__(self, obj: Any) -> Any:
        key = self.entry
        if isinstance(key, GetAttrKey):
            return getattr(obj, key.name)
        return obj[key.idx if isinstance(key, SequenceKey) else key.key]


def key_of(entry: Any) -> Any:
    if isinstance(entry, KeyedEntry):
        return entry.entry
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(entry.entry)
    if isinstance(entry, optree.GetAttrEntry):
        return GetAttrKey(entry.entry)
    return FlattenedIndexKey(entry.entry)


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `['w'][0]`; with `simple` the bare names joined by `separator`.

    >>> keystr((DictKey("w"), SequenceKey(0)))
    "['w'][0]"
    """
    if not simple:
        return separator.join([str(k) for k in keys])
    names = [getattr(k, "name", getattr(k, "key", getattr(k, "idx", k))) for k in keys]
    return separator.join([str(n) for n in names])


__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "SequenceKey", "keystr"]
