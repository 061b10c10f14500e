"""fgrad.numpy: NumPy's array functions, differentiable, vectorisable and compiled.

Names, arguments and defaults are NumPy's, and the Python array API standard's (2024.12): this module is a conforming
namespace. Dtypes are NumPy's; Python numbers are weak, so `x * 2.0` keeps x's dtype.
"""
# ruff: noqa: F403
from __future__ import annotations

import sys
from math import e, inf, nan, pi

from fgrad.numpy import (
    creation,
    dtypes,
    elementwise,
    fft,
    functional,
    gathering,
    grids,
    linalg,
    logic,
    methods,
    padding,
    polynomials,
    products,
    reductions,
    shapes,
    sorting,
    statistics,
)
from fgrad.numpy.creation import *
from fgrad.numpy.dtypes import *
from fgrad.numpy.dtypes import bool_ as bool
from fgrad.numpy.elementwise import *
from fgrad.numpy.functional import *
from fgrad.numpy.gathering import *
from fgrad.numpy.grids import *
from fgrad.numpy.logic import *
from fgrad.numpy.padding import *
from fgrad.numpy.polynomials import *
from fgrad.numpy.products import *
from fgrad.numpy.reductions import *
from fgrad.numpy.shapes import *
from fgrad.numpy.sorting import *
from fgrad.numpy.statistics import *
from fgrad.trace.arraylike import Array as ndarray

euler_gamma = 0.5772156649015329
newaxis = None
_PARTS = (
    creation, dtypes, elementwise, functional, gathering, grids, logic, padding, polynomials, products, reductions,
    shapes, sorting, statistics,
)  # fmt: skip
__all__ = ["bool", "e", "euler_gamma", "fft", "inf", "linalg", "nan", "ndarray", "newaxis", "pi"]
__all__ += [_name for _part in _PARTS for _name in _part.__all__]
methods.NAMESPACE.append(sys.modules[__name__])
