"""Linear algebra under SciPy's names; what needs SciPy when it runs says so. See also fgrad.numpy.linalg."""

# ruff: noqa: F403
from fgrad.scipy.linalg import functions, special_matrices, systems
from fgrad.scipy.linalg.functions import *
from fgrad.scipy.linalg.special_matrices import *
from fgrad.scipy.linalg.systems import *
from fgrad.trace.frames import trim_public

__all__ = [*functions.__all__, *special_matrices.__all__, *systems.__all__]

trim_public(globals(), __all__)
