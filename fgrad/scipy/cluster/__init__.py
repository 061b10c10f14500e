"""Clusters of observations under SciPy's names."""

from fgrad.scipy.cluster import vq as vq

__all__ = ["vq"]
