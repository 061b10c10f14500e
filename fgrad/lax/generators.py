"""Random bits from a state that the caller carries along."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

from fgrad.errors import ArgumentError, DtypeError, note_user_line
from fgrad.numpy.common import public, shape_of
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

__all__ = ["RandomAlgorithm", "rng_bit_generator"]


class RandomAlgorithm(IntEnum):
    """How `rng_bit_generator` makes bits: by threefry, which is also the default."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def _halves(x: UOp) -> tuple[UOp, UOp]:
    """The low and the high word of uint64."""
    return build.cast(build.and_(x, 0xFFFFFFFF), dt.uint32), build.cast(build.shr(x, 32), dt.uint32)


def _joined(low: UOp, high: UOp) -> UOp:
    return build.or_(build.shl(build.cast(high, dt.uint64), 32), build.cast(low, dt.uint64))


@public(static=("shape", "dtype", "algorithm", "out_sharding"))
def rng_bit_generator(
    key: ArrayLike,
    shape: Any,
    dtype: Any = None,
    algorithm: Any = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: None = None,
) -> tuple[Array, Array]:
    """-> (the state after it, random bits of `shape`): the same state always gives the same bits.

    key     the state, uint32[4] or uint64[2]: a key of 64 bits and a counter of 64 bits
    dtype   unsigned integers, uint32 by default

    Element i encrypts the counter plus i // 2 (64-bit elements: plus i) with the key, by threefry2x32, so states that
    differ only in their counter run into each other. `fgrad.random` has keys that cannot.
    Raises NotImplementedError for another algorithm.

    >>> state, bits = rng_bit_generator(fnp.array([1, 2, 0, 0], "uint32"), (5,))
    >>> state
    Array([1, 2, 3, 0], dtype=uint32)
    """
    if algorithm not in (RandomAlgorithm.RNG_DEFAULT, RandomAlgorithm.RNG_THREE_FRY):
        raise NotImplementedError(f"rng_bit_generator by {algorithm!r}; use RandomAlgorithm.RNG_THREE_FRY")
    state, what = lift(key).node, dt.uint32 if dtype is None else to_dtype(dtype)
    if not what.is_int or what.is_signed:
        raise note_user_line(DtypeError(f"rng_bit_generator gives unsigned integers, not {what}"))
    if (state.dtype, state.shape) not in ((dt.uint32, (4,)), (dt.uint64, (2,))):
        raise note_user_line(
            ArgumentError(f"rng_bit_generator takes a state uint32[4] or uint64[2], got {lift(key).aval}")
        )
    size = shape_of(shape, "rng_bit_generator")
    n = math.prod(size)
    blocks = n if what is dt.uint64 else -(-n // 2)
    parts = [build.reshape(build.slice_axis(state, 0, i, i + 1), ()) for i in range(state.shape[0])]
    key_words = _halves(parts[0]) if len(parts) == 2 else (parts[0], parts[1])
    counter = parts[1] if len(parts) == 2 else _joined(parts[2], parts[3])
    low, high = _halves(build.add(build.expand(counter, [(0, blocks)]), build.iota(blocks, dt.uint64)))
    words = [build.broadcast_to(k, (blocks,)) for k in key_words]
    first, second = [uop(Op.THREEFRY, (*words, high, low), i) for i in (0, 1)]
    if what is dt.uint64:
        bits = _joined(first, second)
    else:
        pairs = [build.expand(x, [(1, 1)]) for x in (first, second)]
        bits = build.slice_axis(build.reshape(build.concatenate(pairs, 1), (2 * blocks,)), 0, 0, n)
    after = build.add(counter, blocks)
    last = [after] if len(parts) == 2 else list(_halves(after))
    kept = parts[: len(parts) // 2]
    new = build.concatenate([build.reshape(x, (1,)) for x in (*kept, *last)], 0)
    return Tracer(new), Tracer(build.reshape(build.cast(bits, what), size))
