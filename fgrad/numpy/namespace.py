"""What the Python array API standard asks of a namespace about itself."""

from __future__ import annotations

from typing import Any

from fgrad.hw.device import get_device
from fgrad.numpy.dtypes import isdtype
from fgrad.run.placement import devices
from fgrad.uop import dtype as dt

__all__ = ["NamespaceInfo"]


class NamespaceInfo:
    """Capabilities, devices and dtypes; what `__array_namespace_info__()` returns."""

    def capabilities(self) -> dict[str, Any]:
        """Whether results may have sizes that depend on values, and how many axes there can be."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Any:
        """The device that arrays are made on."""
        return get_device()

    def devices(self) -> list[Any]:
        """All devices that can be used."""
        return list(devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of literals, by kind."""
        return {
            "real floating": dt.default_float().np,
            "complex floating": dt.default_complex().np,
            "integral": dt.int64.np,
            "indexing": dt.int64.np,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes by name, of one kind (or a tuple of kinds) on request."""
        standard = [d for d in dt.ALL if d not in dt.SMALL_FLOATS]
        return {d.name: d.np for d in standard if kind is None or isdtype(d.np, kind)}
