"""Functions under SciPy's names."""

from fgrad.scipy import linalg as linalg
from fgrad.scipy import optimize as optimize
from fgrad.scipy import signal as signal
from fgrad.scipy import sparse as sparse
from fgrad.scipy import special as special
from fgrad.scipy import stats as stats

__all__ = ["linalg", "optimize", "signal", "sparse", "special", "stats"]
