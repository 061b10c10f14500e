"""Complex numbers where they are more than two reals: products at indices, functions of large arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import grad, jit, vmap

Z = np.arange(12).reshape(3, 4) - 4 + 1j
PARTS: list[Any] = [
    1, (slice(0, 2), 1), (..., slice(1, 3)), np.array([1, 1, 0]), ([0, 2, 0], [1, 1, 1]), np.eye(3, 4) > 0,
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_parts_are_multiplied(part: Any, same: Callable[..., None]) -> None:
    rng = np.random.default_rng(3)
    factor = rng.normal(size=Z[part].shape) + 1j * rng.normal(size=Z[part].shape)
    wanted = Z.copy()
    np.multiply.at(wanted, part, factor)
    same(fnp.array(Z).at[part].multiply(factor), wanted)
    same(jit(lambda z, f: z.at[part].multiply(f))(Z, factor), wanted)


def test_parts_are_multiplied_at_computed_indices(same: Callable[..., None]) -> None:
    i = np.array([[0, 0], [1, 9]])
    found = vmap(lambda z, i: z.at[i].multiply(np.array([2j, 1 + 1j]), mode="drop"))(Z[:2], i)
    wanted = Z[:2].copy()
    wanted[0, 0] *= 2j * (1 + 1j)
    wanted[1, 1] *= 2j
    same(found, wanted)
    slope = grad(lambda f: fnp.sum(fnp.array(Z[0]).at[np.array([1, 1, 2])].multiply(f)).real)(np.array([2j, 3, 1]))
    same(slope, [Z[0, 1] * 3, Z[0, 1] * 2j, Z[0, 2]])


@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("name", ["min", "max"])
def test_parts_take_the_first_or_last_number(name: str, part: Any, same: Callable[..., None]) -> None:
    """By real part, then by imaginary part; NaN stays."""
    rng = np.random.default_rng(4)
    z = np.where(rng.random(Z.shape) < 0.2, np.nan, Z)
    values = rng.integers(-3, 4, Z[part].shape) + 1j * rng.integers(-3, 4, Z[part].shape)
    wanted = z.copy()
    getattr(np, name + "imum").at(wanted, part, values)
    same(getattr(fnp.array(z).at[part], name)(values), wanted)


def test_what_is_taken_has_the_derivative() -> None:
    def cost(z: Any, v: Any, part: Any, name: str) -> Any:
        return (getattr(z.at[part], name)(v) * np.array([1, 2j, 3])).real.sum()

    z, v = np.array([1 + 1j, 2, 3 - 1j]), np.array([1 + 2j, 1 + 0j])
    for part in (slice(0, 2), np.array([0, 1])):
        for name, taken in (("max", [1, 0]), ("min", [0, 1])):  # whether the value is taken
            dz, dv = grad(cost, (0, 1))(z, v, part, name)
            slope = np.array([1, 2j])
            np.testing.assert_allclose(dv, slope * taken)
            np.testing.assert_allclose(dz, [*(slope * (1 - np.array(taken))), 3])


def test_powers_leave_the_other_elements_alone() -> None:
    z = np.array([0.1 + 0.2j, 1 + 1j, 0.3 - 0.7j])
    out = np.asarray(fnp.array(z).at[1].power(2))
    assert (out[[0, 2]] == z[[0, 2]]).all() and out[1] == pytest.approx(2j)


@pytest.mark.parametrize("kind, most", [(np.complex64, 3e38), (np.complex128, 1e308)])
def test_inverse_functions_of_large_numbers(kind: Any, most: float) -> None:
    z = np.array([most + 1j, -most + most * 1j, 1e20 - 1e20j, 2e9j, 1.2e9 + 1e9j, 1e9 - 1j, -3e10 + 2j], kind)
    wide = z.astype(np.clongdouble)
    turn = np.arctan2(wide.imag, wide.real)
    log = np.log(np.abs(wide)) + np.log(np.longdouble(2))
    quarter = np.copysign(np.pi / 2, wide.imag)
    close = {"rtol": 4 * float(np.finfo(kind).eps)}
    np.testing.assert_allclose(np.asarray(fnp.arccosh(z)), log + 1j * turn, **close)
    np.testing.assert_allclose(np.asarray(fnp.arctanh(z)), (1 / wide).real + 1j * quarter, **close)
    np.testing.assert_allclose(np.asarray(fnp.arccos(z)).real, np.abs(turn), **close)
    np.testing.assert_allclose(np.asarray(fnp.arcsin(z)).imag, np.copysign(log, wide.imag), **close)


def test_options_of_ufuncs_that_are_not_there_say_what_to_use() -> None:
    x = fnp.ones(2)
    for f in (fnp.add, fnp.hypot):
        with pytest.raises(NotImplementedError, match=f"{f.__name__}: arrays are immutable"):
            f(x, x, out=x)
    with pytest.raises(NotImplementedError, match="sin: where= is not there; use fgrad.numpy.where"):
        jit(lambda x: fnp.sin(x, where=x > 0))(x)
    with pytest.raises(NotImplementedError, match="add: dtype= is not there; use astype"):
        fnp.add(x, x, dtype="float64")
    with pytest.raises(TypeError, match="add: got an unexpected keyword argument 'casing'"):
        fnp.add(x, x, casing="no")


def test_inverse_tangents_beside_nan_are_nan_but_at_infinity() -> None:
    z = np.array([complex(np.nan, 3e150), complex(np.nan, 1), complex(np.nan, np.inf), complex(3e150, np.nan)])
    np.testing.assert_array_equal(fnp.arctanh(z), np.arctanh(z))
    np.testing.assert_array_equal(fnp.arctan(z), np.arctan(z))
