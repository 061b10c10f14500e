"""Bounds are tight where it matters: index arithmetic."""

import pytest

from fgrad.uop import build as b
from fgrad.uop import dtype as dt
from fgrad.uop.bounds import Bounds
from fgrad.uop.node import UOp, open_param, uop
from fgrad.uop.op import Op

K = b.iota(10)  # 0 .. 9
N = uop(Op.VARIABLE, (), ("n", 1, 100))
Z = open_param(dt.int64, (10,))
SMALL = b.cast(open_param(dt.uint8, (10,)), dt.int64)  # 0 .. 255
IDX = b.mod(K, 3)


@pytest.mark.parametrize(
    ("u", "want"),
    [
        (K, (0, 9)),
        (N, (1, 100)),
        (b.add(b.mul(K, 4), 3), (3, 39)),
        (b.sub(9, K), (0, 9)),
        (b.mul(b.neg(K), N), (-900, 0)),
        (b.idiv(K, 4), (0, 2)),
        (b.idiv(b.neg(K), 4), (-3, 0)),
        (b.mod(Z, 7), (0, 6)),
        (b.mod(Z, -7), (-6, 0)),
        (b.mod(K, 100), (0, 9)),
        (b.maximum(Z, 0), (0, 2**63 - 1)),
        (b.minimum(b.maximum(Z, 0), 9), (0, 9)),
        (b.abs_(b.sub(K, 5)), (0, 5)),
        (b.and_(Z, 15), (0, 15)),
        (b.or_(K, 16), (16, 31)),
        (b.xor(K, 3), (0, 15)),
        (b.shl(K, 2), (0, 36)),
        (b.shr(K, 2), (0, 2)),
        (b.not_(K), (-10, -1)),
        (b.where(b.lt(Z, 0), K, b.add(K, 10)), (0, 19)),
        (b.where(b.lt(K, 10), K, Z), (0, 9)),
        (b.lt(K, 10), (1, 1)),
        (b.le(10, K), (0, 0)),
        (b.eq(K, 10), (0, 0)),
        (SMALL, (0, 255)),
        (b.cast(K, dt.float32), None),
        (b.pad(K, [(1, 0, 0)]), (0, 9)),
        (b.gather(b.add(K, 5), IDX), (0, 14)),
        (b.reduce_(K, [0]), (0, 90)),
        (b.reduce_(K, [0], Op.MAX), (0, 9)),
        (uop(Op.PREFIX, (K,), (Op.ADD, 0, False)), (0, 90)),
        (b.update(K, b.const(20, dt.int64, (1,)), box=[(0, 1, 1)]), (0, 20)),
        (b.add(Z, 1), dt.int_range(dt.int64)),
        (b.add(b.const(127, dt.int8), b.const(1, dt.int8)), (-128, 127)),
        (b.neg(b.const(-128, dt.int8)), (-128, 127)),
        (Z, dt.int_range(dt.int64)),
    ],
)
def test_bounds_of_index_arithmetic(u: UOp, want: tuple[int, int] | None) -> None:
    if want is not None:
        assert Bounds()(u) == want


def test_bounds_of_long_chains_do_not_recurse() -> None:
    x: UOp = K
    for _ in range(20_000):
        x = b.add(x, 1)
    assert Bounds()(x) == (20_000, 20_009)
