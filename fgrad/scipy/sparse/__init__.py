"""What of SciPy's sparse module is there: solvers that need products only."""

from fgrad.scipy.sparse import linalg as linalg

__all__ = ["linalg"]
