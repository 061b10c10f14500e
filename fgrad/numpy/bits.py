"""Bits and integers: bit operations, packing, greatest common divisors."""

from __future__ import annotations

import math

from fgrad.numpy.common import alias, binary, common, lift, need, public, truth
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, Kind
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = [
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "gcd", "invert", "lcm", "left_shift",
    "packbits", "right_shift", "unpackbits",
]  # fmt: skip


# ---- bits
def _bits(name: str, op: Op, x1: ArrayLike, x2: ArrayLike, bools: bool = True) -> Array:
    (x, y), dtype, weak = common(name, x1, x2)
    need(
        not dtype.is_inexact,
        name,
        f"{dtype} has no bits to combine; convert with .astype, or use .view",
    )
    if dtype is dt.bool_ and not bools:
        x, y = build.cast(x, dt.int8), build.cast(y, dt.int8)
    return Tracer(uop(op, (x, y)), weak)


@binary
def bitwise_and(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 & x2 of integers or bools.

    The operands broadcast; floats raise DtypeError.

    >>> bitwise_and(array([12, 7]), 10)
    Array([8, 2], dtype=int64)
    """
    return _bits("bitwise_and", Op.AND, x1, x2)


@binary
def bitwise_or(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 | x2 of integers or bools.

    The operands broadcast; floats raise DtypeError.

    >>> bitwise_or(array([12, 7]), 10)
    Array([14, 15], dtype=int64)
    """
    return _bits("bitwise_or", Op.OR, x1, x2)


@binary
def bitwise_xor(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 ^ x2 of integers or bools.

    The operands broadcast; floats raise DtypeError.

    >>> bitwise_xor(array([12, 7]), 10)
    Array([ 6, 13], dtype=int64)
    """
    return _bits("bitwise_xor", Op.XOR, x1, x2)


@binary
def left_shift(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 << x2 of integers; 0 when all bits are shifted out.

    x1 and x2 broadcast; floats raise DtypeError.

    >>> left_shift(array([1, 3]), array([4, 70]))
    Array([16,  0], dtype=int64)
    """
    return _bits("left_shift", Op.SHL, x1, x2, bools=False)


@binary
def right_shift(x1: ArrayLike, x2: ArrayLike) -> Array:
    """x1 >> x2 of integers; the sign is kept.

    x1 and x2 broadcast; floats raise DtypeError.

    >>> right_shift(array([16, -1]), 2)
    Array([ 4, -1], dtype=int64)
    """
    return _bits("right_shift", Op.SHR, x1, x2, bools=False)


@public()
def invert(x: ArrayLike) -> Array:
    """~x: all bits flipped; of bools: not.

    Raises DtypeError for floats.

    >>> invert(array([0, 7]))
    Array([-1, -8], dtype=int64)
    >>> invert(array([True, False]))
    Array([False,  True], dtype=bool)
    """
    t = lift(x)
    need(
        not t.node.dtype.is_inexact,
        "invert",
        f"{t.node.dtype} has no bits to flip; convert with .astype",
    )
    return Tracer(build.not_(t.node), t.weak)


bitwise_not = alias(invert, "bitwise_not")
bitwise_invert = alias(invert, "bitwise_invert")


bitwise_left_shift = alias(left_shift, "bitwise_left_shift")
bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


def unsigned(dtype: DType) -> DType:
    """The unsigned integer as wide as `dtype`."""
    return {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}[dtype.itemsize]


def signed(dtype: DType) -> DType:
    """The signed integer as wide as `dtype`."""
    return {1: dt.int8, 2: dt.int16, 4: dt.int32, 8: dt.int64}[dtype.itemsize]


@public()
def bitwise_count(x: ArrayLike) -> Array:
    """The number of 1 bits in |x|, as uint8.

    Raises DtypeError for floats.

    >>> bitwise_count(array([0, 7, -8]))
    Array([0, 3, 1], dtype=uint8)
    """
    t = lift(x)
    need(
        t.node.dtype.kind in (Kind.INT, Kind.UINT, Kind.BOOL),
        "bitwise_count",
        "only integers have bits to count",
    )
    if t.node.dtype is dt.bool_:
        return Tracer(build.cast(t.node, dt.uint8))
    v = build.abs_(t.node) if t.node.dtype.is_signed else t.node
    v = build.cast(v, unsigned(v.dtype))
    bits = v.dtype.bits
    shift = 1
    while shift < bits:  # sums of neighbouring fields: 1 bit wide, then 2, 4 ..
        mask = sum(((1 << shift) - 1) << at for at in range(0, bits, 2 * shift))
        v = build.add(build.and_(v, mask), build.and_(build.shr(v, shift), mask))
        shift *= 2
    return Tracer(build.cast(v, dt.uint8))


@public(static=("axis", "bitorder"))
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Groups of eight bools (or integers, nonzero is 1) along `axis` as uint8.

    The last group is padded with 0.

    >>> packbits(array([1, 0, 0, 0, 0, 0, 1, 1]))
    Array([131], dtype=uint8)
    """
    x = truth(lift(a).node)
    if axis is None:
        x, axis = build.reshape(x, (x.size,)), 0
    axis %= x.ndim
    n = x.shape[axis]
    x = build.pad(x, [(0, -n % 8, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
    x = build.reshape(x, (*x.shape[:axis], -(-n // 8), 8, *x.shape[axis + 1 :]))
    k = build.iota(8, dt.uint8)
    place = build.shl(build.const(1, dt.uint8, (8,)), build.sub(7, k) if bitorder == "big" else k)
    weight = build.broadcast_to(build.reshape(place, (8, *(1,) * (x.ndim - axis - 2))), x.shape)
    return Tracer(build.reduce_(build.mul(build.cast(x, dt.uint8), weight), (axis + 1,)))


@public(static=("axis", "count", "bitorder"))
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of uint8 numbers along `axis`, as uint8 zeros and ones.

    axis=None takes the array laid out flat. `count` is how many bits to give, negative: how many to leave out at the
    end. Raises DtypeError for other dtypes.

    >>> unpackbits(array([5], dtype="uint8"))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    x = lift(a).node
    need(x.dtype is dt.uint8, "unpackbits", f"it takes uint8, got {x.dtype}")
    if axis is None:
        x, axis = build.reshape(x, (x.size,)), 0
    axis %= x.ndim
    n = x.shape[axis]
    wide = build.expand(x, [(axis + 1, 8)])
    k = build.iota(8, dt.uint8)
    shift = build.reshape(build.sub(7, k) if bitorder == "big" else k, (8, *(1,) * (x.ndim - axis - 1)))
    bits = build.and_(build.shr(wide, build.broadcast_to(shift, wide.shape)), 1)
    out = build.reshape(bits, (*x.shape[:axis], n * 8, *x.shape[axis + 1 :]))
    keep = n * 8 if count is None else count if count >= 0 else max(0, n * 8 + count)
    if keep > n * 8:
        out = build.pad(out, [(0, keep - n * 8, 0) if i == axis else (0, 0, 0) for i in range(out.ndim)])
    return Tracer(build.slice_axis(out, axis, 0, keep))


# ---- integers
def _integers(name: str, x1: ArrayLike, x2: ArrayLike) -> tuple[UOp, UOp, bool]:
    (x, y), dtype, weak = common(name, x1, x2)
    need(dtype.is_int, name, f"it takes integers, got {dtype}")
    return (x, y, weak) if dtype.kind is Kind.UINT else (build.abs_(x), build.abs_(y), weak)


def euclid(x: UOp, y: UOp) -> UOp:
    """gcd by Euclid's algorithm; the number of steps is bounded by the Fibonacci numbers of the
    width.
    """
    phi = (1 + math.sqrt(5)) / 2
    for _ in range(math.ceil(x.dtype.bits / math.log2(phi)) + 1):
        done = build.eq(y, 0)
        x, y = build.where(done, x, y), build.mod(x, y)  # modulo 0 is 0
    return x


@binary
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor, >= 0; gcd(0, 0) is 0.

    x1 and x2 broadcast; others than integers raise DtypeError.

    >>> gcd(array([12, 0, -8]), array([18, 5, 6]))
    Array([6, 5, 2], dtype=int64)
    """
    x, y, weak = _integers("gcd", x1, x2)
    return Tracer(euclid(x, y), weak)


@binary
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple, >= 0; 0 if either is 0.

    x1 and x2 broadcast; others than integers raise DtypeError.

    >>> lcm(array([4, 0]), array([6, 3]))
    Array([12,  0], dtype=int64)
    """
    x, y, weak = _integers("lcm", x1, x2)
    return Tracer(build.mul(build.idiv(x, euclid(x, y)), y), weak)  # divided by 0 is 0
