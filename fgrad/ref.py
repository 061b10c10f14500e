"""Refs: arrays that can be written, under every transformation. The rules are in the page about order."""

from __future__ import annotations

from typing import Any

from fgrad.trace.frames import trim_public
from fgrad.trace.ref import Ref, empty_ref, free_ref, freeze, new_ref, swap

__all__ = ["Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]


def get(ref: Ref, index: Any = ...) -> Any:
    """What `ref` holds at `index` now: a value that later writes do not change.

    >>> get(new_ref(fnp.arange(3)), 1)
    Array(1, dtype=int64)
    """
    return ref[index]


def set(ref: Ref, index: Any, value: Any) -> None:
    """Write `value` at `index`; see `Ref.__setitem__`.

    >>> r = new_ref(fnp.zeros(3))
    >>> fgrad.ref.set(r, 1, 5.0)
    >>> r[...]
    Array([0., 5., 0.], dtype=float32)
    """
    ref[index] = value


def addupdate(ref: Ref, index: Any, value: Any) -> None:
    """Add `value` at `index`; repeated indices all count.

    >>> r = new_ref(fnp.zeros(3))
    >>> fgrad.ref.addupdate(r, fnp.array([1, 1, 2]), 1.0)
    >>> r[...]
    Array([0., 2., 1.], dtype=float32)
    """
    ref.addupdate(index, value)

trim_public(globals(), __all__)
