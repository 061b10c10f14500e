"""The von Mises distribution: angles around 0 with concentration `kappa`."""

from __future__ import annotations

import math

from fgrad import numpy as fnp
from fgrad.numpy.common import public
from fgrad.scipy.special import i0e
from fgrad.scipy.stats.common import document, floats
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike


@public()
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density; NaN unless kappa is positive."""
    x, kappa = floats("logpdf", x, kappa)
    value = kappa * (fnp.cos(x) - 1) - fnp.log(2 * math.pi * i0e(kappa))
    return fnp.where(kappa > 0, value, fnp.nan)


@public()
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density."""
    return fnp.exp(logpdf(x, kappa))


document(
    globals(),
    "2.0",
    "[0.0, 0.5]",
    logpdf="[-0.66187066, -0.90670556]",
    pdf="[0.5158854, 0.4038525]",
)

__all__ = ["logpdf", "pdf"]
