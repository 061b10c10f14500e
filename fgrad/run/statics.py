"""Statics: the Python values that are part of a function's cache key."""

from __future__ import annotations

from typing import Any


class Statics(tuple):  # type: ignore[type-arg]
    """A tuple that compares with the types of its members, also inside tuples: 1, 1.0 and True are different keys."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other) is True and _types(self) == _types(other)

    __hash__ = tuple.__hash__


def _types(x: Any) -> Any:
    return tuple([_types(y) for y in x]) if isinstance(x, tuple) else type(x)
