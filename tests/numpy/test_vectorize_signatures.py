"""What vectorize says of results that do not fit its signature."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import jit
from fgrad.errors import ArgumentError, ShapeError


@pytest.mark.parametrize(
    ("f", "signature", "error", "words"),
    [
        (fnp.dot, "(n,m),(m,k)->(n,k),()", ArgumentError, "output must be a tuple of 2 arrays"),
        (lambda a, b: (a, b), "(n,m),(m,k)->(n,m)", ArgumentError, "wrong number of output arg.*expected 1, got 2"),
        (fnp.dot, "(n,m),(m,k)->(n)", ShapeError, r"\(n\) has shape \(2, 4\)"),
        (fnp.dot, "(n,m),(m,k)->(n,m)", ShapeError, r"axis m has 3 elements, and 4 in a result of shape \(2, 4\)"),
        (lambda a, b: (a, b), "(n,m),(m,k)->(i,j),(j,i)", ShapeError, "axis i has 2 elements, and 4"),
    ],
)
def test_results_that_do_not_fit_the_signature_are_named(f, signature, error, words):
    with pytest.raises(error, match=words):
        fnp.vectorize(f, signature=signature)(np.ones((5, 2, 3)), np.ones((3, 4)))


def test_new_axes_may_have_any_size():
    f = fnp.vectorize(lambda x: (fnp.stack([x, x]), x.sum()), signature="(n)->(p,n),()")
    a, b = jit(f)(np.ones((4, 3)))
    assert a.shape == (4, 2, 3) and b.shape == (4,)
