"""Special functions under SciPy's names. Integers become the default float; results have the dtype of the arguments."""

# ruff: noqa: F403
from fgrad.scipy.special import complex_functions, elementary, hypergeometric, integrals, orthogonal
from fgrad.scipy.special.complex_functions import *
from fgrad.scipy.special.elementary import *
from fgrad.scipy.special.hypergeometric import *
from fgrad.scipy.special.integrals import *
from fgrad.scipy.special.orthogonal import *
from fgrad.trace.frames import trim_public

__all__ = [
    *complex_functions.__all__, *elementary.__all__, *hypergeometric.__all__, *integrals.__all__, *orthogonal.__all__,
]  # fmt: skip

trim_public(globals(), __all__)
