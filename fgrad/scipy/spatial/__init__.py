"""Geometry under SciPy's names."""

from fgrad.scipy.spatial import transform as transform

__all__ = ["transform"]
