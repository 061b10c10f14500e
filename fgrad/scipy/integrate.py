"""Integrals of sampled functions under SciPy's names."""

from fgrad.numpy.differences import trapezoid as trapezoid

__all__ = ["trapezoid"]
