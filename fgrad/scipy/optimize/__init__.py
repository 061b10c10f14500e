"""Minimising functions under SciPy's names."""

from fgrad.scipy.optimize.minimize import OptimizeResults as OptimizeResults
from fgrad.scipy.optimize.minimize import minimize as minimize
from fgrad.trace.frames import trim_public

__all__ = ["OptimizeResults", "minimize"]

trim_public(globals(), __all__)
