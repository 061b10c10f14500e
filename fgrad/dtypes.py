"""Element types: what they are called, how they promote, and the type of tangents that hold nothing."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from fgrad.errors import DtypeError
from fgrad.numpy.dtypes import bfloat16, extended, finfo, iinfo, issubdtype, prng_key, result_type
from fgrad.trace.frames import trim_public
from fgrad.trace.tree import float0
from fgrad.uop.dtype import to_dtype

__all__ = [
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "result_type",
    "scalar_type_of",
]


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype[Any]:
    """The NumPy dtype that `dtype` names; 64-bit types stay what they are.

    Extension types that fgrad has no arithmetic for, such as int4, keep their names too. Raises DtypeError for
    everything that is no numeric type.

    >>> canonicalize_dtype(float)
    dtype('float32')
    """
    try:
        named: np.dtype[Any] = to_dtype(dtype).np
    except DtypeError:
        named = np.dtype(dtype)
        if named != float0 and (named.kind != "V" or named.names is not None or named.itemsize == 0):
            raise
    return named


def itemsize_bits(dtype: Any) -> int:
    """The width of one element in bits.

    >>> itemsize_bits("bfloat16")
    16
    """
    named = canonicalize_dtype(dtype)
    if named == float0:
        return 0
    if named.kind == "V" or named.name.startswith("float"):  # extension types: half a byte and less also exist
        return int((ml_dtypes.iinfo if "int" in named.name else ml_dtypes.finfo)(named).bits)
    return to_dtype(named).bits


def scalar_type_of(x: Any) -> type:
    """The Python type of numbers like `x`: bool, int, float or complex.

    x   an array or a number

    >>> scalar_type_of(np.float16(1))
    <class 'float'>
    """
    dtype = to_dtype(x.dtype if hasattr(x, "dtype") else type(x))
    if dtype.is_complex:
        return complex
    if dtype.is_float:
        return float
    return int if dtype.is_int else bool

trim_public(globals(), __all__)
