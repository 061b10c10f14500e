"""Probability distributions under SciPy's names."""

from fgrad.scipy.stats import norm as norm

__all__ = ["norm"]
