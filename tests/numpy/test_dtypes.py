"""Dtypes, promotion, casts, limits; and the public names."""

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import jit
from fgrad.errors import DtypeError
from fgrad.uop.dtype import FLOAT8


def test_names_are_numpys() -> None:
    assert fnp.float32 == np.float32 and fnp.bool == np.bool_ and fnp.newaxis is None
    assert fnp.ndarray is type(fnp.ones(1)).__mro__[1]
    assert fnp.zeros(2, fnp.bfloat16).dtype == fnp.bfloat16


@pytest.mark.parametrize(
    "kinds, wanted",
    [(("int8", "uint8"), "int16"), (("int32", "float16"), "float16"), (("uint64", "int64"), "float32"),
     (("bfloat16", "float16"), "float32"), (("float64", "complex64"), "complex128"), (("bool", "uint8"), "uint8"),
     (("int64", "float32"), "float32")],
)  # fmt: skip
def test_promotion_follows_the_lattice(kinds: tuple[str, str], wanted: str) -> None:
    assert fnp.promote_types(*kinds) == wanted
    x, y = (fnp.ones(2, k) for k in kinds)
    assert (x + y).dtype == wanted
    assert fnp.result_type(x, y) == wanted
    assert fnp.where(True, x, y).dtype == wanted


def test_scalar_types_equal_dtypes_from_either_side() -> None:
    for name in ("bool_", "int8", "uint64", "bfloat16", "float8_e5m2", "float64", "complex64"):
        scalar, dtype = getattr(fnp, name), fnp.zeros(1, name).dtype
        assert scalar == dtype and dtype == scalar and not (scalar != dtype)
        assert scalar != fnp.int16 and fnp.zeros(1, np.int16).dtype != scalar and scalar != np.dtype(np.int16)
        assert scalar != 3 and scalar is not None and [k for k in (np.dtype(np.int16), dtype) if scalar == k] == [dtype]


def test_result_type_takes_numbers_and_arrays() -> None:
    assert fnp.result_type(np.int8, 3) == np.int8
    assert fnp.result_type(np.int8, 3.0) == np.float32
    assert fnp.result_type(fnp.ones(2, np.float16), 2.0) == np.float16
    assert fnp.result_type(np.float64(1), fnp.ones(1)) == np.float64
    with pytest.raises(DtypeError, match="'nothing' of type str is no dtype"):
        fnp.result_type("nothing")


X64 = np.linspace(0.05, 1, 7)
INTS, BEYOND = np.array([1, 2, 3]), 2**53 + 1  # that integer is no float64
NUMBERS: list[Callable[[Any], Any]] = [
    lambda m: m.pad(X64, 2, constant_values=0.1),
    lambda m: m.pad(INTS, 2, constant_values=BEYOND),
    lambda m: m.pad(X64 + 0j, 2, constant_values=0.1 + 0.2j),
    lambda m: m.pad(X64, 2, mode="linear_ramp", end_values=0.1),
    lambda m: m.insert(X64, 2, 0.1),
    lambda m: m.insert(INTS, 2, BEYOND),
    lambda m: m.ediff1d(X64, to_begin=0.1, to_end=0.3),
    lambda m: m.where(X64 > 0.5, X64 + 0j, 0.1 + 0.2j),
    lambda m: m.piecewise(X64, [X64 > 0.5], [0.1, 0.2]),
    lambda m: m.piecewise(INTS, [INTS > 1], [BEYOND, 0]),
    lambda m: m.sum(X64, initial=0.1),
    lambda m: m.sum(INTS, initial=BEYOND),
    lambda m: m.prod(X64, initial=0.1),
    lambda m: m.max(X64, initial=1.1),
    lambda m: m.min(X64, initial=0.01),
    lambda m: m.max(INTS, initial=BEYOND),
    lambda m: m.nansum(X64, initial=0.1),
    lambda m: m.linspace(0.1, 0.7, 5, dtype=np.float64),
    lambda m: m.logspace(0.1, 0.7, 5, base=2.1, dtype=np.float64),
    lambda m: m.geomspace(0.1, 0.7, 5, dtype=np.float64),
    lambda m: m.var(X64, ddof=0.1),
    lambda m: m.unwrap(X64 * 9, discont=2.1, period=1.1),
    lambda m: m.interp(np.array([-1.0, 0.3, 9]), X64, X64 * 2, left=0.1, right=0.7),
    lambda m: m.interp(np.array([-1.0, 0.3, 9]), X64, X64 * 2, period=1.1),
    lambda m: m.histogram_bin_edges(X64, 3, range=(0.1, 0.7)),
    lambda m: m.isclose(X64, X64 + 1e-9, rtol=0, atol=1 + 1e-10 - 1),
    lambda m: m.multiply(X64 + 0j, 0.1 + 0.2j),
]


@pytest.mark.parametrize("f", range(len(NUMBERS)))
def test_python_numbers_keep_their_digits_beside_64_bits(f: int) -> None:
    got, wanted = np.asarray(NUMBERS[f](fnp)), NUMBERS[f](np)
    assert got.dtype == wanted.dtype
    exact = wanted.dtype.kind not in "fc"
    np.testing.assert_allclose(got, wanted, rtol=0 if exact else 1e-14, atol=0)


def test_complex_numbers_keep_their_digits_in_every_call() -> None:
    x, z = fnp.array([1.0, 2.0], np.complex128), 0.1 + 0.2j
    for _ in range(3):  # compiled, remembered, by generated code
        for f in (fnp.multiply, jit(lambda x, z: x * z), lambda x, z: x * z):
            np.testing.assert_array_equal(f(x, z), np.asarray(x) * z)
        assert (fnp.array([1.0], np.complex64) * z).dtype == np.complex64
        assert (fnp.array([1.0]) * z).dtype == np.complex64 and fnp.asarray(z).dtype == np.complex64
    np.testing.assert_array_equal(fnp.multiply(1e300 + 0j, fnp.array([0.5], np.complex128)), [5e299])


def test_casting_rules() -> None:
    kinds = ("int8", "uint8", "int64", "float16", "float32", "complex64", "bool")
    for a in kinds:
        for b in kinds:
            assert fnp.can_cast(a, b) == np.can_cast(a, b), (a, b)
            assert fnp.can_cast(a, b, "same_kind") == np.can_cast(a, b, "same_kind"), (a, b)
    assert fnp.can_cast(fnp.bfloat16, np.float32) and not fnp.can_cast(np.float32, fnp.bfloat16)
    assert fnp.can_cast(2, np.int8) and not fnp.can_cast(2.5, np.int8)


def test_kinds_of_dtypes() -> None:
    assert fnp.issubdtype(fnp.bfloat16, fnp.floating) and not fnp.issubdtype(fnp.bfloat16, fnp.integer)
    assert fnp.issubdtype("float32", fnp.inexact) and fnp.issubdtype(np.int32, np.signedinteger)
    assert not fnp.issubdtype("float32", "bfloat16") and fnp.issubdtype(fnp.bfloat16, "bfloat16")
    assert fnp.isdtype(np.float32, "real floating") and fnp.isdtype(np.int8, ("bool", "integral"))
    assert not fnp.isdtype(np.uint8, "signed integer")
    with pytest.raises(ValueError, match="unknown kind"):
        fnp.isdtype(np.int8, "whole")


def test_limits() -> None:
    info = fnp.finfo(fnp.ones(1))
    assert isinstance(info.eps, float) and info.bits == 32 and info.max == np.finfo(np.float32).max
    assert (fnp.ones(1, np.float16) * fnp.finfo(np.float16).eps).dtype == np.float16
    assert fnp.finfo(np.complex128).dtype == np.float64
    assert fnp.iinfo(np.int8).max == 127
    with pytest.raises(ValueError, match="use iinfo"):
        fnp.finfo(np.int8)


def test_casts(same: Callable[..., None]) -> None:
    x = np.array([1.7, -2.5, np.nan, 1e30, -np.inf], np.float32)
    same(fnp.astype(x, np.int32), np.int32([1, -2, 0, 2**31 - 1, -(2**31)]))
    same(fnp.astype(x, bool), [True] * 5)
    same(fnp.array([1 + 2j]).astype(np.float32), np.float32([1]))
    same(fnp.array([300]).astype(np.uint8), np.uint8([44]))
    same(fnp.array([1.5]).astype(np.complex64), np.complex64([1.5]))
    assert fnp.iscomplexobj(1j) and fnp.isrealobj(fnp.ones(1)) and fnp.isscalar(fnp.array(1))


@pytest.mark.parametrize("dtype", [d.np for d in FLOAT8], ids=str)
def test_8_bit_floats_are_stored_and_computed_with(dtype: Any) -> None:
    def equal(got: Any, wanted: Any) -> None:
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), np.asarray(wanted).astype(np.float32))

    every = np.arange(256, dtype=np.uint8).view(dtype)
    wide = every.astype(np.float32)
    x = fnp.array(every)
    assert x.dtype == dtype and fnp.zeros(2, dtype.name).dtype == dtype
    equal(x, every)
    equal(-x, -every)
    equal(fnp.signbit(x)[wide == 0], np.signbit(wide)[wide == 0])
    equal(fnp.sort(x), np.sort(wide))
    equal(fnp.argsort(x), np.argsort(wide, stable=True))
    equal(x + x[::-1], (wide + wide[::-1]).astype(dtype))
    equal(x / 4, (wide / 4).astype(dtype))
    assert fnp.promote_types(dtype, np.float32) == np.float32
    assert (x + np.float16(1)).dtype == np.float16
    assert fnp.finfo(dtype).max == np.nanmax(wide[np.isfinite(wide)])


def test_what_is_narrower_than_a_byte_says_what_to_use() -> None:
    for name, instead in [("int4", "int8"), ("uint2", "uint8"), ("float4_e2m1fn", "float8_e4m3fn")]:
        dtype = getattr(fnp, name)
        with pytest.raises(DtypeError, match=f"dtype {name} are not supported; use {instead}, which holds all"):
            fnp.zeros(3, dtype)
    with pytest.raises(DtypeError, match="use float32"):
        fnp.array(np.ones(2, fnp.float8_e8m0fnu))


def test_every_public_function_says_what_it_does() -> None:
    silent = [n for n in fnp.__all__ if callable(f := getattr(fnp, n)) and not inspect.getdoc(f)]
    assert silent == []
    assert len(set(fnp.__all__)) == len(fnp.__all__)


def test_bits_of_floats_are_refused_with_the_way_out() -> None:
    for f, message in [
        (lambda: fnp.ones(2) << 1, "left_shift: float32 has no bits to combine; convert with .astype"),
        (lambda: ~fnp.ones(2), "invert: float32 has no bits to flip"),
        (lambda: fnp.array([True]) - True, "subtract: bools have no difference; use logical_xor"),
        (lambda: -fnp.array([True]), "use logical_not"),
        (lambda: fnp.floor(1j), "complex numbers cannot be rounded"),
        (lambda: fnp.gcd(1.5, 2), "gcd: it takes integers"),
    ]:
        with pytest.raises(DtypeError, match=message):
            f()


def test_configuration_chooses_the_default_float() -> None:
    assert fnp.float_ == np.float32 and fnp.complex_ == np.complex64
    missing: Any = fnp
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = missing.nothing


def test_scalar_types_convert_traced_values_and_arrays() -> None:
    assert fgrad.jit(lambda x: fnp.float32(x) / 2)(3) == 1.5
    assert fgrad.jit(lambda x: fnp.int32(x))(3.7).dtype == np.int32
    assert fgrad.grad(lambda x: fnp.float16(x) ** 2)(3.0) == 6.0
    np.testing.assert_array_equal(fgrad.vmap(fnp.bool_)(fnp.arange(2)), [False, True])
    halves = fnp.bfloat16(fnp.array([1.0, 2.5]))
    assert isinstance(halves, fgrad.Array) and halves.dtype == fnp.bfloat16
    number = fnp.float32(0.1)
    assert type(number) is np.float32 and fnp.float64("inf") == np.inf and fnp.int8() == 0


def test_scalar_types_are_those_of_numpy_for_numpy_and_for_python() -> None:
    for mine, numpys in ((fnp.float32, np.float32), (fnp.bool_, np.bool_), (fnp.int64, np.int64)):
        assert mine == numpys and numpys == mine and {numpys: 1}[mine] == {mine: 1}[numpys] == 1
        assert np.dtype(mine) is np.dtype(numpys) and np.zeros(2, mine).dtype == numpys
        assert isinstance(numpys(1), mine) and issubclass(mine, np.generic) and issubclass(numpys, mine)
        assert pickle.loads(pickle.dumps(mine)) is mine
    assert fnp.float32 != np.float64 and fnp.float32 != fnp.float64
    assert np.issubdtype(fnp.float32, np.floating) and not fnp.issubdtype(fnp.float32, fnp.integer)
