"""Products, einsum, convolution, differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy as fnp
from fgrad.errors import ArgumentError, ShapeError

Make = Callable[..., Any]


@pytest.fixture
def normal(rng: np.random.Generator) -> Make:
    """normal(*shape): random float32."""
    return lambda *shape: rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "a, b",
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((3,), (5, 3, 2)),
     ((5, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((0, 3), (3, 4)), ((2, 0), (0, 4))],
)  # fmt: skip
def test_matmul_and_dot(a: Any, b: Any, normal: Make, as_numpy: Callable[..., None]) -> None:
    x, y = normal(*a), normal(*b)
    as_numpy("matmul", x, y)
    as_numpy("dot", x, y)


def test_other_products(normal: Make, as_numpy: Callable[..., None], same: Callable[..., None]) -> None:
    x, y, z = normal(2, 3, 4), normal(5, 4), normal(4) + 1j * normal(4)
    as_numpy("inner", x, y)
    as_numpy("outer", x, y)
    as_numpy("dot", 2.0, y)
    as_numpy("vdot", z, z[::-1])
    as_numpy("vecdot", x, z)
    as_numpy("matvec", x, y[0])
    as_numpy("vecmat", y[0, :3], x)
    as_numpy("kron", x[0], y)
    as_numpy("cross", normal(4, 3), normal(4, 3))
    as_numpy("cross", normal(3, 4), normal(3, 4), axis=0)
    same(fnp.cross(np.array([1.0, 2]), np.array([3.0, 4])), -2.0)
    as_numpy("vander", normal(3), 4)
    as_numpy("vander", np.array([1, 2, 3]), increasing=True)


@pytest.mark.parametrize(
    "a, b, axes",
    [((3, 4, 5), (5, 2), 1), ((3, 4), (2, 3), 0), ((3, 4, 5), (4, 5, 2), 2), ((3, 4, 5), (5, 7, 4), ((1, 2), (2, 0))),
     ((3, 4), (7, 3), ([0], [1])), ((3, 4), (4, 3), (1, 0))],
)  # fmt: skip
def test_tensordot(a: Any, b: Any, axes: Any, normal: Make, as_numpy: Callable[..., None]) -> None:
    as_numpy("tensordot", normal(*a), normal(*b), axes)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("ij->ji", (2, 3)),
    ("ij->", (2, 3)), ("i,j,k->ijk", (2,), (3,), (4,)), ("bij,bjk,bkl->il", (5, 2, 3), (5, 3, 4), (5, 4, 2)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)), ("...ij,...jk", (5, 2, 3), (1, 3, 4)), ("ijk,ik->j", (2, 3, 4), (2, 4)),
    ("iij,j->i", (3, 3, 2), (2,)), ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 5), (5, 6)), ("i...->...i", (2, 3, 4)),
    ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)), ("b...i,i->b...", (2, 5, 3), (3,)), ("ij,j->", (2, 0), (0,)),
]  # fmt: skip


@pytest.mark.parametrize("spec", EINSUMS, ids=lambda s: s[0])
def test_einsum(spec: Any, normal: Make, same: Callable[..., None]) -> None:
    text, *shapes = spec
    operands = [normal(*s) for s in shapes]
    wanted = np.einsum(text, *operands)
    same(fnp.einsum(text, *operands), wanted)
    same(fnp.einsum(text, *operands, optimize=False), wanted)


def test_einsum_takes_axes_as_numbers_and_a_path(normal: Make, same: Callable[..., None]) -> None:
    a, b, c = normal(2, 3), normal(3, 4), normal(4, 5)
    same(fnp.einsum(a, [0, 1], b, [1, 2], [0, 2]), a @ b)
    path, text = fnp.einsum_path("ij,jk,kl->il", a, b, c)
    assert path[0] == "einsum_path" and len(path) == 3 and "ij,jk,kl" in text
    same(fnp.einsum("ij,jk,kl->il", a, b, c, optimize=path), a @ b @ c)


def test_small_floats_multiply_in_float32(normal: Make) -> None:
    x = normal(16, 512).astype(np.float16)
    wanted = x.astype(np.float32) @ x.T.astype(np.float32)
    got = fnp.matmul(x, x.T)
    assert got.dtype == np.float16
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-3, atol=1e-2)
    wide = fnp.matmul(x, x.T, preferred_element_type=np.float32)
    assert wide.dtype == np.float32
    np.testing.assert_allclose(wide, wanted, rtol=1e-5, atol=1e-4)
    assert fnp.dot(fnp.full(200, 2, np.int8), fnp.full(200, 2, np.int8), preferred_element_type=np.int32) == 800


def test_errors_of_products(normal: Make) -> None:
    with pytest.raises(ShapeError, match=r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit.*transpose"):
        fnp.matmul(normal(2, 3), normal(2, 3))
    with pytest.raises(ShapeError, match="a needs at least 1 axes.*use multiply"):
        fnp.matmul(2.0, normal(2, 3))
    with pytest.raises(ShapeError, match="einsum: axis j has 3 and 4 elements"):
        fnp.einsum("ij,jk", normal(2, 3), normal(4, 5))
    with pytest.raises(ShapeError, match="names 2 axes, the operand has 1"):
        fnp.einsum("ij", normal(2))
    with pytest.raises(ArgumentError, match="names 2 operands, got 1"):
        fnp.einsum("i,i", normal(2))
    with pytest.raises(ArgumentError, match="repeats a letter or has one that no operand has"):
        fnp.einsum("i->k", normal(2))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve_and_correlate(mode: str, normal: Make, as_numpy: Callable[..., None]) -> None:
    for n, m in ((5, 3), (3, 5), (4, 4), (6, 2), (2, 6), (1, 1)):
        as_numpy("convolve", normal(n), normal(m), mode)
        as_numpy("correlate", normal(n) + 1j, normal(m) - 1j, mode)


def test_differences(normal: Make, as_numpy: Callable[..., None], cube: Any) -> None:
    for n in (0, 1, 2, 5):
        as_numpy("diff", cube, n, 1)
    as_numpy("diff", cube > 0, axis=0)
    as_numpy("diff", cube[..., 0], prepend=0, append=cube[:, :2, 0])
    as_numpy("ediff1d", cube, to_end=np.float32([1, 2]), to_begin=np.float32(0))
    points = np.sort(normal(4))
    as_numpy("trapezoid", cube, axis=1)
    as_numpy("trapezoid", cube[..., 0], points)
    for order in (1, 2):
        as_numpy("gradient", cube[..., 0], edge_order=order)
        as_numpy("gradient", cube, points, axis=1, edge_order=order)
        as_numpy("gradient", cube[..., 0], 2.0, 0.5, edge_order=order)
    as_numpy("gradient", points)
