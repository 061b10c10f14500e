"""Minimising functions under SciPy's names."""

from fgrad.scipy.optimize.minimize import OptimizeResults as OptimizeResults
from fgrad.scipy.optimize.minimize import minimize as minimize

__all__ = ["OptimizeResults", "minimize"]
