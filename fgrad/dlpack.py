"""Arrays exchanged with other libraries in memory: DLPack.

>>> fgrad.dlpack.from_dlpack(np.arange(3))
Array([0, 1, 2], dtype=int64)
"""

from __future__ import annotations

from typing import Any

from fgrad.run.dlpack import from_dlpack as from_dlpack
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public


def to_dlpack(x: Array, *, copy: bool | None = None, max_version: tuple[int, int] | None = None) -> Any:
    """The DLPack capsule of a concrete array, for libraries that take capsules; others take the array itself.

    copy          as for `from_dlpack`
    max_version   the newest version of the protocol that the receiver knows

    >>> type(to_dlpack(fnp.ones(3))).__name__
    'PyCapsule'
    """
    return x.__dlpack__(copy=copy, max_version=max_version)  # type: ignore[attr-defined]  # attached by fgrad.numpy


__all__ = ["from_dlpack", "to_dlpack"]

trim_public(globals(), __all__)
