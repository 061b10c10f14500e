"""Objects that are indexed rather than called: mgrid, ogrid, r_, c_, s_; and printing."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.numpy.common import from_host, host
from fgrad.numpy.creation import array
from fgrad.numpy.joining import concatenate
from fgrad.numpy.shapes import reshape
from fgrad.trace.arraylike import Array
from fgrad.uop import dtype as dt

__all__ = [
    "array_repr", "array_str", "c_", "get_printoptions", "index_exp", "mgrid", "ogrid",
    "printoptions", "r_", "s_", "set_printoptions",
]  # fmt: skip

s_, index_exp = np.s_, np.index_exp


def _own(x: Any) -> Array:
    """A host grid as an array; floats in the default float."""
    return from_host(x.astype(dt.default_float().np) if x.dtype == np.float64 else x)


class _Grid:
    """mgrid and ogrid."""

    def __init__(self, grid: Any, doc: str) -> None:
        self._grid = grid
        self.__doc__ = doc

    def __getitem__(self, key: Any) -> Any:
        found = self._grid[key]
        return [_own(x) for x in found] if isinstance(found, list | tuple) else _own(found)


mgrid = _Grid(
    np.mgrid,
    "mgrid[0:2, 0:3]: coordinate arrays of a grid, stacked; a complex step is a number of points.",
)
ogrid = _Grid(np.ogrid, "ogrid[0:2, 0:3]: coordinate arrays of a grid, thin.")


class _Joined:
    """r_ and c_: slices, numbers and arrays one after the other."""

    def __init__(self, columns: bool, doc: str) -> None:
        self._columns = columns
        self.__doc__ = doc

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        if items and isinstance(items[0], str):
            if any(isinstance(x, Array) for x in items[1:]):
                items = (
                    items[0],
                    *[host(x, "r_", "use concatenate and stack") if isinstance(x, Array) else x for x in items[1:]],
                )
            return _own((np.c_ if self._columns else np.r_)[items])
        parts = []
        for x in items:
            if isinstance(x, slice):
                x = _own(np.r_[x])
            x = x if isinstance(x, Array) else array(x)
            if self._columns:
                x = reshape(x, (x.size, 1)) if x.ndim < 2 else x
            parts.append(reshape(x, (1,)) if x.ndim == 0 else x)
        return concatenate(parts, -1)


r_ = _Joined(False, "r_[0:3, 7, x]: ranges, numbers and arrays one after the other.")
c_ = _Joined(True, "c_[x, y]: vectors as the columns of a matrix.")


# ---- printing
def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text that `repr` gives, with these options.

    >>> array_repr(array([1 / 3]), precision=3)
    'Array([0.333], dtype=float32)'
    """
    x = array(arr, copy=False)
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return repr(x)


def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text that `str` gives, with these options.

    >>> array_str(array([1 / 3]), precision=3)
    '[0.333]'
    """
    x = array(a, copy=False)
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return str(x)


def _options(width: int | None, precision: int | None, suppress: bool | None) -> dict[str, Any]:
    given = {"linewidth": width, "precision": precision, "suppress": suppress}
    return {k: v for k, v in given.items() if v is not None}


def get_printoptions() -> dict[str, Any]:
    """NumPy's print options, which hold for these arrays too.

    >>> get_printoptions()["threshold"]
    1000
    """
    return dict(np.get_printoptions())


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Set NumPy's print options, which hold for these arrays too.

    Options are those of numpy.set_printoptions; they hold until they are set again.

    >>> set_printoptions(**get_printoptions())
    """
    np.set_printoptions(*args, **kwargs)


def printoptions(*args: Any, **kwargs: Any) -> Any:
    """NumPy's print options for a with-block.

    Options are those of numpy.set_printoptions.

    >>> with printoptions(precision=2):
    ...     print(array([1 / 3]))
    [0.33]
    """
    return np.printoptions(*args, **kwargs)
