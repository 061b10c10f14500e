"""fgrad.numpy: NumPy's array functions, differentiable, vectorisable and compiled.

Names, arguments and defaults are NumPy's, and the Python array API standard's (2024.12): this
module is a conforming
namespace. Dtypes are NumPy's; Python numbers are weak, so `x * 2.0` keeps x's dtype.
"""

# ruff: noqa: F403
from __future__ import annotations

import sys
from importlib import import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from fgrad.numpy import (
    analysis,
    bits,
    creation,
    differences,
    dtypes,
    einsums,
    elementwise,
    extremes,
    floats,
    functional,
    gathering,
    grids,
    histograms,
    joining,
    logic,
    matrices,
    methods,
    moments,
    padding,
    powers,
    products,
    ranges,
    reductions,
    repeating,
    rounding,
    running,
    searching,
    sets,
    shapes,
    sorting,
    statistics,
)
from fgrad.numpy.analysis import *
from fgrad.numpy.bits import *
from fgrad.numpy.creation import *
from fgrad.numpy.differences import *
from fgrad.numpy.dtypes import *
from fgrad.numpy.dtypes import bool_ as bool
from fgrad.numpy.einsums import *
from fgrad.numpy.elementwise import *
from fgrad.numpy.extremes import *
from fgrad.numpy.floats import *
from fgrad.numpy.functional import *
from fgrad.numpy.gathering import *
from fgrad.numpy.grids import *
from fgrad.numpy.histograms import *
from fgrad.numpy.joining import *
from fgrad.numpy.logic import *
from fgrad.numpy.matrices import *
from fgrad.numpy.moments import *
from fgrad.numpy.namespace import NamespaceInfo
from fgrad.numpy.padding import *
from fgrad.numpy.powers import *
from fgrad.numpy.products import *
from fgrad.numpy.ranges import *
from fgrad.numpy.reductions import *
from fgrad.numpy.repeating import *
from fgrad.numpy.rounding import *
from fgrad.numpy.running import *
from fgrad.numpy.searching import *
from fgrad.numpy.sets import *
from fgrad.numpy.shapes import *
from fgrad.numpy.sorting import *
from fgrad.numpy.statistics import *
from fgrad.trace.arraylike import Array as ndarray
from fgrad.trace.frames import trim_public, trimmed
from fgrad.uop.dtype import default_complex, default_float

euler_gamma = 0.5772156649015329
newaxis = None
__array_api_version__ = "2024.12"
_PARTS = (
    analysis,
    bits,
    creation,
    differences,
    dtypes,
    einsums,
    elementwise,
    extremes,
    floats,
    functional,
    gathering,
    grids,
    histograms,
    joining,
    logic,
    matrices,
    moments,
    padding,
    powers,
    products,
    ranges,
    reductions,
    repeating,
    rounding,
    running,
    searching,
    sets,
    shapes,
    sorting,
    statistics,
)
if TYPE_CHECKING:
    from fgrad.numpy import fft as fft
    from fgrad.numpy import linalg as linalg
    from fgrad.numpy.polynomials import *

# Imported when first asked for: they need the decompositions.
_POLYNOMIALS = frozenset((
    "interp", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
    "roots", "unwrap",
))  # fmt: skip

__all__ = ["bool", "e", "euler_gamma", "fft", "inf", "linalg", "nan", "ndarray", "newaxis", "pi"]
__all__ += [_name for _part in _PARTS for _name in _part.__all__]
__all__ += sorted(_POLYNOMIALS)

from fgrad.numpy import ufuncs  # noqa: E402  it gives the functions above their methods
from fgrad.numpy.ufuncs import *  # noqa: E402

__all__ += ufuncs.__all__


def __array_namespace_info__() -> NamespaceInfo:
    """What this namespace can do: the array API standard's inspection object."""
    return NamespaceInfo()


@trimmed
def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg"):
        return import_module(f"{__name__}.{name}")
    if name in _POLYNOMIALS:
        found = globals()[name] = getattr(import_module(f"{__name__}.polynomials"), name)
        return found
    if name == "float_":  # depends on the configuration
        return default_float().np.type
    if name == "complex_":
        return default_complex().np.type
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


methods.NAMESPACE.append(sys.modules[__name__])
trim_public(globals(), __all__)
