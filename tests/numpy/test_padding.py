"""pad in all modes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad.errors import ArgumentError

WIDTHS = (2, ((1, 2), (0, 3), (2, 0)), (1, 0))
MODES = ("constant", "edge", "wrap", "symmetric", "maximum", "minimum", "mean", "median", "linear_ramp")


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_pads_floats_and_integers(mode: str, as_numpy: Callable[..., None], cube: Any, ints: Any) -> None:
    for widths in WIDTHS:
        as_numpy("pad", cube, widths, mode)
    as_numpy("pad", ints, WIDTHS[1], mode)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("kind", ["even", "odd"])
def test_mirrors_go_on_through_many_reflections(mode: str, kind: str, as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("pad", cube[..., 0], ((3, 7), (4, 4)), mode, reflect_type=kind)
    as_numpy("pad", np.array([3.0]), 3, mode, reflect_type=kind)


def test_options_of_modes(as_numpy: Callable[..., None], cube: Any) -> None:
    as_numpy("pad", cube, 1, constant_values=5)
    as_numpy("pad", cube, 1, constant_values=((1, 2), (3, 4), (5, 6)))
    as_numpy("pad", cube, 2, "linear_ramp", end_values=(1, 9))
    as_numpy("pad", cube, 2, "mean", stat_length=2)
    as_numpy("pad", cube[:0], 1)

    def fill(row: Any, width: Any, axis: int, options: Any) -> None:
        row[: width[0]] = options.get("value", 10)

    as_numpy("pad", cube, (1, 0), fill, value=4)


def test_errors_of_pad() -> None:
    x = fnp.ones((2, 3))
    with pytest.raises(ValueError, match="mode must be one of constant"):
        fnp.pad(x, 1, "mirror")
    with pytest.raises(ValueError, match="unsupported keyword arguments for mode .edge.: stat_length"):
        fnp.pad(x, 1, "edge", stat_length=2)
    with pytest.raises(ValueError, match="must not be negative"):
        fnp.pad(x, -1)
    with pytest.raises(ArgumentError, match="does not give a pair for each of 2 axes"):
        fnp.pad(x, ((1, 1), (1, 1), (1, 1)))
    with pytest.raises(ValueError, match="axis 0 is empty"):
        fnp.pad(x[:0], 1, "edge")
