"""Operators and methods of arrays, with NumPy arrays and numbers on either side."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad import jit

X = np.array([[1.5, -2.0], [3.0, 4.5]], np.float32)
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.matmul, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
    operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_an_operator_takes_arrays_and_numbers_on_either_side(
    op: Callable[[Any, Any], Any], same: Callable[..., None]
) -> None:
    a, n = fnp.array(X), X.T.copy()
    with np.errstate(all="ignore"):
        same(op(a, n), op(X, n))
        same(op(n, a), op(n, X))
        assert isinstance(op(n, a), fnp.ndarray)
        if op is not operator.matmul:
            same(op(a, 2), op(X, np.float32(2)))
            same(op(2, a), op(np.float32(2), X))
            same(op(a, np.float32(2)), op(X, np.float32(2)))


def test_bit_operators_of_integers(same: Callable[..., None]) -> None:
    x = np.array([1, 6, 12], np.int32)
    a = fnp.array(x)
    same([a & 4, a | 4, a ^ 4, a << 1, a >> 1, ~a], [x & 4, x | 4, x ^ 4, x << 1, x >> 1, ~x])
    same([-a, +a, abs(-a)], [-x, +x, x])
    same(divmod(a, 5), divmod(x, 5))


def test_an_operator_leaves_other_types_their_turn() -> None:
    class Other:
        def __radd__(self, x: Any) -> str:
            return "theirs"

    assert fnp.ones(2) + Other() == "theirs"
    with pytest.raises(TypeError):
        fnp.ones(2) + "text"


def test_methods_are_the_functions(same: Callable[..., None]) -> None:
    a = fnp.array(X)
    for name in ("sum", "mean", "max", "min", "std", "var", "prod", "argmax", "argmin", "ravel",
                 "cumsum", "cumprod", "ptp", "all", "any", "sort", "argsort", "flatten"):  # fmt: skip
        wanted = getattr(np, name, None)
        same(getattr(a, name)(), wanted(X) if wanted else X.flatten())
    same(a.sum(axis=0, keepdims=True), X.sum(axis=0, keepdims=True))
    same([a.T, a.mT, a.real, a.imag, a.flat], [X.T, X.T, X.real, X.imag, X.ravel()])
    same(
        [a.reshape(4, 1), a.reshape((1, -1)), a.transpose(1, 0)],
        [X.reshape(4, 1), X.reshape(1, -1), X.T],
    )
    same(
        [a.astype(int), a.clip(0, 2), a.round(), a.dot(a)],
        [X.astype(int), X.clip(0, 2), X.round(), X @ X],
    )
    same([a.take([1, 0], axis=0), a.repeat(2), a.squeeze()], [X[[1, 0]], X.repeat(2), X])
    same(a.view(np.int32), X.view(np.int32))
    same(a.view(np.int16), X.view(np.int16))


def test_arrays_iterate_compare_and_convert() -> None:
    a = fnp.arange(3)
    assert [int(v) for v in a] == [0, 1, 2]
    assert 2 in a and 7 not in a
    assert len(a) == 3 and a.tolist() == [0, 1, 2]
    assert round(fnp.array(2.6)) == 3
    assert float(fnp.array(2.5)) == 2.5
    with pytest.raises(TypeError, match="0-d"):
        iter(fnp.array(1))


def test_arrays_are_copied_and_pickled(same: Callable[..., None]) -> None:
    a = fnp.array(X)
    for b in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a)), a.copy()):
        same(b, X)
        assert b is not a


def test_assignment_into_an_array_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"x = x\.at\[idx\]\.set\(value\)"):
        fnp.ones(3)[0] = 1


def test_arrays_are_lent_through_dlpack(same: Callable[..., None]) -> None:
    a = fnp.array(X)
    same(np.from_dlpack(a), X)
    same(fnp.from_dlpack(X.copy()), X)


def test_the_namespace_is_found_from_an_array() -> None:
    assert fnp.ones(2).__array_namespace__() is fnp
    info = fnp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == np.float32
    assert set(info.dtypes(kind="bool")) == {"bool"}
    assert info.default_device() in info.devices()


def test_tuples_with_operators_of_their_own_get_their_turn() -> None:
    class Pair(NamedTuple):
        x: Any

        def __mul__(self, other: Any) -> "Pair":  # type: ignore[override]
            return Pair(self.x * other)

        def __rmul__(self, other: Any) -> "Pair":  # type: ignore[override]
            return Pair(other * self.x)

    a, b = Pair(fnp.ones(2)), fnp.arange(2.0)
    for f in (lambda p, q: p * q, jit(lambda p, q: p * q)):
        for product in (f(a, b), f(b, a)):
            assert isinstance(product, Pair) and np.array_equal(product.x, [0.0, 1.0])
    with pytest.raises(TypeError, match="is no operand of an array"):
        b * (1.0, 2.0)
