"""Functions under SciPy's names."""

from fgrad.scipy import cluster as cluster
from fgrad.scipy import fft as fft
from fgrad.scipy import integrate as integrate
from fgrad.scipy import interpolate as interpolate
from fgrad.scipy import linalg as linalg
from fgrad.scipy import ndimage as ndimage
from fgrad.scipy import optimize as optimize
from fgrad.scipy import signal as signal
from fgrad.scipy import sparse as sparse
from fgrad.scipy import spatial as spatial
from fgrad.scipy import special as special
from fgrad.scipy import stats as stats

__all__ = [
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial",
    "special", "stats",
]  # fmt: skip
