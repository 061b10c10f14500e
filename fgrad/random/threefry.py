"""Random bits: the threefry2x32 counter generator.

Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011). Element number
i of a result encrypts the
64-bit counter i with the key, so any part can be computed alone (the layout is called
partitionable), and the same key
gives the same bits as other libraries with this layout.
"""

from __future__ import annotations

import math
from typing import Any

from fgrad.errors import DtypeError, ShapeError, note_user_line
from fgrad.random.keys import like_key, normal_shape, pairs, single, stack_words
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

Words = tuple[UOp, UOp]  # the two words of one key, uint32 scalars
UINT = {8: dt.uint8, 16: dt.uint16, 32: dt.uint32, 64: dt.uint64}


def threefry(key: Words, hi: UOp, lo: UOp) -> Words:
    """Both words of the encrypted counters (hi, lo)."""
    k0, k1 = [build.broadcast_to(k, lo.shape) for k in key]
    return uop(Op.THREEFRY, (k0, k1, hi, lo), 0), uop(Op.THREEFRY, (k0, k1, hi, lo), 1)


def counters(shape: tuple[int, ...]) -> Words:
    """The position of every element of an array of `shape`, as high and low words."""
    n = math.prod(shape)
    if n < 1 << 32:
        return build.const(0, dt.uint32, shape), build.reshape(build.iota(n, dt.uint32), shape)
    at = build.reshape(build.iota(n, dt.uint64), shape)
    return build.cast(build.shr(at, 32), dt.uint32), build.cast(build.and_(at, 0xFFFFFFFF), dt.uint32)


def bits_node(key: Words, width: int, shape: tuple[int, ...]) -> UOp:
    """Uniform bits: an unsigned integer of `width` bits for every element of `shape`."""
    hi, lo = threefry(key, *counters(shape))
    if width == 64:
        return build.or_(build.shl(build.cast(hi, dt.uint64), 32), build.cast(lo, dt.uint64))
    return build.cast(build.xor(hi, lo), UINT[width])


def split_words(key: Words, num: int = 2) -> list[Words]:
    """`num` new keys of one."""
    zero = build.const(0, dt.uint32)
    return [threefry(key, zero, build.const(i, dt.uint32)) for i in range(num)]


@public(static=("num",))
def _split(key: Any, num: tuple[int, ...]) -> Array:
    halves = [stack_words(*threefry(pair, *counters(num))) for pair in pairs(key, "split")]
    return Tracer(build.concatenate(halves, len(num)))


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """New keys, independent of each other and of `key`, which should not be used any more.

    num   how many, or the shape of the array of keys

    >>> k1, k2 = split(key(0))
    """
    return like_key(_split(key, normal_shape(num, "split")), key)


@public()
def _fold_in(key: Any, data: ArrayLike) -> Array:
    x = lift(data).node
    if x.shape != ():
        raise note_user_line(ShapeError(f"fold_in takes a scalar, got shape {x.shape}; use vmap for many"))
    if not x.dtype.is_int and x.dtype is not dt.bool_:
        raise note_user_line(DtypeError(f"fold_in takes an integer, got {x.dtype}"))
    counter = build.const(0, dt.uint32), build.cast(x, dt.uint32)
    halves = [stack_words(*threefry(pair, *counter)) for pair in pairs(key, "fold_in", uses=False)]
    return Tracer(build.concatenate(halves, 0))


def fold_in(key: Any, data: ArrayLike) -> Any:
    """A new key made of `key` and an integer (its low 32 bits), e.g. the number of a step.

    -> a key. It does not use `key` up: other integers give other keys.

    >>> random.uniform(random.fold_in(random.key(0), 7))
    Array(0.47504628, dtype=float32)
    """
    return like_key(_fold_in(key, data), key)


@public(static=("shape", "dtype"))
def bits(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Uniform random bits as unsigned integers of `dtype` (default uint32).

    -> dtype [*shape].

    Source: Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011), Threefry-2x32.

    >>> random.bits(random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    what = dt.uint32 if dtype is None else to_dtype(dtype)
    if what not in UINT.values():
        raise note_user_line(DtypeError(f"bits gives unsigned integers, not {what}; use uint8 to uint64"))
    return Tracer(bits_node(single(key, "bits"), what.bits, normal_shape(shape, "bits")))


# ---- uniform numbers
def float_of(dtype: Any, what: str) -> DType:
    """`dtype` (None: the default) as a real floating dtype that random numbers come in."""
    found = dt.default_float() if dtype is None else to_dtype(dtype)
    if not found.is_float or found.itemsize < 2:
        raise note_user_line(
            DtypeError(f"{what} gives floating numbers, not {found}; use float32, float64 or a half type")
        )
    return found


def unit_node(key: Words, shape: tuple[int, ...], dtype: DType) -> UOp:
    """Uniform in [0, 1): as many random mantissa bits as the dtype has, below an exponent of 1, minus 1."""
    mantissa = int(dt.finfo(dtype).nmant)
    width = 8 if mantissa < 8 else dtype.bits
    holder = UINT[dtype.bits]
    random = build.cast(bits_node(key, width, shape), holder)
    one = dtype.np.type(1).view(holder.np)
    filled = build.or_(build.shr(random, width - mantissa), int(one))
    return build.sub(build.bitcast(filled, dtype), 1)


def uniform_node(key: Words, shape: tuple[int, ...], dtype: DType, low: Any = 0, high: Any = 1) -> UOp:
    """Uniform in [low, high); `low` and `high` are numbers or nodes of `dtype`."""
    unit = unit_node(key, shape, dtype)
    lo = low if isinstance(low, UOp) else build.const(low, dtype)
    hi = high if isinstance(high, UOp) else build.const(high, dtype)
    spread = build.add(build.mul(unit, build.sub(hi, lo)), lo)
    return build.maximum(lo, spread)


__all__ = [
    "bits", "bits_node", "counters", "float_of", "fold_in", "split", "split_words", "threefry",
    "uniform_node", "unit_node",
]  # fmt: skip
