"""fgrad: array programs that can be differentiated, vectorised and compiled."""

from fgrad._version import __version__ as __version__
from fgrad.config import config as config

__all__ = ["config"]
