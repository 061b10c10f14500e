"""fgrad: array programs that can be differentiated, vectorised and compiled."""

from fgrad._version import __version__ as __version__
from fgrad.backends import reference_device as _reference_device
from fgrad.config import config as config
from fgrad.run import compile as _compile
from fgrad.uop import infer as _infer

__all__ = ["config"]
