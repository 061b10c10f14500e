"""Random integers, orders and choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.config import config
from fgrad.errors import ArgumentError, DtypeError, ShapeError, note_user_line
from fgrad.random.continuous import (
    DTypeLike,
    Shape,
    fits,
    gumbel_node,
    log,
    log1p,
    sample_shape,
    sign_node,
)
from fgrad.random.keys import normal_shape, single
from fgrad.random.threefry import UINT, Words, bits_node, split_words, uniform_node
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, div, mul, sub, where
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op
from fgrad.uop.program import gets


# ---- integers
def _clip_cast(x: UOp, dtype: DType) -> UOp:
    """`x` in another integer dtype, clipped to its range instead of wrapped."""
    (lo, hi), (mine_lo, mine_hi) = dt.int_range(dtype), dt.int_range(x.dtype)
    if lo > mine_lo:
        x = build.maximum(x, lo)
    if hi < mine_hi:
        x = build.minimum(x, hi)
    return build.cast(x, dtype)


def randint_node(key: Words, shape: tuple[int, ...], low: UOp, high: UOp, dtype: DType) -> UOp:
    """Integers in [low, high): twice the bits of the dtype, modulo the span."""
    limit = min(dt.int_range(dtype)[1], dt.int_range(high.dtype)[1])
    past_end = build.lt(build.const(limit, high.dtype, high.shape), high)
    low, high = _clip_cast(low, dtype), _clip_cast(high, dtype)
    unsigned, n = UINT[dtype.bits], dtype.bits
    empty = build.le(high, low)
    span = build.cast(sub(high, low), unsigned)
    span = where(empty, build.const(1, unsigned), span)
    # a span that reaches past the largest integer is one longer; 0 then means all of them
    spread = build.and_(past_end, build.lt(low, high))
    span = where(spread, add(span, 1), span)
    k1, k2 = split_words(key)
    upper, lower = bits_node(k1, n, shape), bits_node(k2, n, shape)
    multiplier = _mod(build.const(1 << n // 2, unsigned), span)
    multiplier = _mod(mul(multiplier, multiplier), span)
    offset = add(mul(_mod(upper, span), multiplier), _mod(lower, span))
    return build.cast(add(build.cast(low, unsigned), _mod(offset, span)), dtype)


def _mod(x: UOp, span: UOp) -> UOp:
    """x modulo span, where a span of 0 stands for 2 ** width."""
    return where(build.eq(span, 0), x, build.mod(x, span))


@public(static=("shape", "dtype"))
def randint(key: Any, shape: Shape, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike = int) -> Array:
    """Uniform integers in [minval, maxval), of an integer `dtype` (default int64).

    minval, maxval   broadcast to `shape`; where maxval <= minval the result is minval

    >>> randint(key(0), (3,), 0, 10, dtype="int32")
    Array([9, 0, 2], dtype=int32)
    """
    kind = to_dtype(dtype)
    if not kind.is_int:
        raise note_user_line(DtypeError(f"randint gives integers, not {kind}"))
    ends = []
    for x in (minval, maxval):
        node = lift(x).node
        ends.append(node if node.dtype.is_int else build.cast(node, dt.int64))
    size = sample_shape(shape, "randint", *ends)
    words = single(key, "randint")
    if kind.bits >= 32:
        return Tracer(randint_node(words, size, ends[0], ends[1], kind))
    least, most = dt.int_range(kind)  # small dtypes are drawn in 32 bits, with less bias
    ends = [_clip_cast(x, dt.int32) for x in ends]
    low, high = [build.minimum(build.maximum(x, least), most + i) for i, x in enumerate(ends)]
    return Tracer(build.cast(randint_node(words, size, low, high, dt.int32), kind))


@public(static=("shape", "mode"))
def bernoulli(key: Any, p: ArrayLike = 0.5, shape: Shape = None, mode: str = "low") -> Array:
    """True with probability `p`; mode="high" is right for tiny `p` too.

    p   broadcasts to `shape`, which is its shape when None

    -> bool [*shape].

    >>> random.bernoulli(random.key(0), 0.9, (4,))
    Array([False, False,  True,  True], dtype=bool)
    """
    given = lift(p).node
    dtype = given.dtype if given.dtype.is_float else dt.default_float()
    chance = cast_node(p, dtype)
    size = sample_shape(shape, "bernoulli", chance)
    words = single(key, "bernoulli")
    if mode == "low":
        return Tracer(build.lt(uniform_node(words, size, dtype), chance))
    if mode != "high":
        raise note_user_line(ValueError(f'bernoulli mode is "low" or "high", got {mode!r}'))
    both = uniform_node(words, (2, *size), dtype)
    u1, u2 = [build.reshape(build.slice_axis(both, 0, i, i + 1), size) for i in range(2)]
    fine = mul(u2, 2.0 ** -int(dt.finfo(dtype).nmant))
    return Tracer(build.lt(fine, sub(chance, u1)))


@public(static=("shape", "dtype"))
def rademacher(key: Any, shape: Shape = (), dtype: DTypeLike = int) -> Array:
    """-1 or 1, each with probability 1/2.

    -> dtype [*shape].

    >>> random.rademacher(random.key(0), (4,))
    Array([-1, -1,  1,  1], dtype=int64)
    """
    size = normal_shape(shape, "rademacher")
    return Tracer(sign_node(single(key, "rademacher"), size, to_dtype(dtype)))


@public(static=("shape", "dtype"))
def geometric(key: Any, p: ArrayLike, shape: Shape = None, dtype: DTypeLike = int) -> Array:
    """How many tries until the first success, when each succeeds with probability `p`.

    The largest integer where `p` is 0, and -1 where it is no probability.

    >>> random.geometric(random.key(0), 0.5, (4,))
    Array([1, 1, 2, 2], dtype=int64)
    """
    kind = to_dtype(dtype)
    given = lift(p).node
    chance = cast_node(p, given.dtype if given.dtype.is_float else dt.default_float())
    size = sample_shape(shape, "geometric", chance)
    u = uniform_node(single(key, "geometric"), size, chance.dtype)
    u = where(build.eq(u, 0), build.const(1, chance.dtype), u)
    inside = build.and_(build.lt(0, chance), build.lt(chance, 1))
    safe = where(inside, chance, build.const_like(0.5, chance))
    tries = build.cast(build.floor(div(log(u), log1p(build.neg(safe)))), kind)
    most = dt.int_range(kind)[1] if kind.is_int else math.inf
    none = build.const(-1 if kind.is_signed else 0, kind, size)
    edge = where(build.eq(chance, 0), build.const(most, kind, size), none)
    edge = where(build.eq(chance, 1), build.const(1, kind, size), edge)
    return Tracer(where(build.broadcast_to(inside, size), add(tries, 1), edge))


# ---- orders
def axis_of(axis: int, ndim: int, what: str) -> int:
    """A possibly negative axis as a position."""
    if not -ndim <= axis < ndim:
        raise note_user_line(ShapeError(f"{what} got axis {axis} for an array of {ndim} axes"))
    return axis % ndim


def shuffle_node(key: Words, x: UOp, axis: int) -> UOp:
    """Shuffled along `axis`, every line on its own: sorted by random keys, often enough to make ties unlikely."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, fresh = split_words(key)
        x = gets(uop(Op.SORT, (bits_node(fresh, 32, x.shape), x), axis))[1]
    return x


def take_node(x: UOp, idx: UOp, axis: int) -> UOp:
    """x[.., idx[i..], ..] along `axis`."""
    front = build.permute(x, [axis, *[i for i in range(x.ndim) if i != axis]])
    taken = build.gather(front, idx)
    lead = list(range(idx.ndim, idx.ndim + axis))
    rest = list(range(idx.ndim + axis, taken.ndim))
    return build.permute(taken, [*lead, *range(idx.ndim), *rest])


@public(static=("axis", "independent"))
def _permuted(key: Any, x: ArrayLike, axis: int, independent: bool) -> Array:
    node = lift(x).node
    at = axis_of(axis, node.ndim, "permutation")
    words = single(key, "permutation")
    if independent or node.ndim == 1:
        return Tracer(shuffle_node(words, node, at))
    order = shuffle_node(words, build.iota(node.shape[at], dt.int64), 0)
    return Tracer(take_node(node, order, at))


@public(static=("n",))
def _permuted_range(key: Any, n: int) -> Array:
    return Tracer(shuffle_node(single(key, "permutation"), build.iota(n, dt.int64), 0))


def permutation(key: Any, x: int | ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """A random order of the slices of `x` along `axis`; of 0 .. x-1 when `x` is an int.

    independent   shuffle every line along `axis` on its own

    >>> random.permutation(random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int64)
    """
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        if x < 0:
            raise note_user_line(ArgumentError(f"permutation of the numbers below {x}: there are none"))
        return _permuted_range(key, int(x))
    if lift(x).ndim == 0:
        raise note_user_line(ArgumentError("permutation takes an int known while tracing, or an array"))
    return _permuted(key, x, axis=axis, independent=independent)


def shuffle(key: Any, x: ArrayLike, axis: int = 0) -> Array:
    """`x` shuffled along `axis`; the same as `permutation`.

    >>> random.shuffle(random.key(0), fnp.arange(5))
    Array([0, 1, 4, 3, 2], dtype=int64)
    """
    return permutation(key, x, axis)


# ---- choices
def search_node(sorted_: UOp, values: UOp) -> UOp:
    """For every value the number of elements of the ascending vector `sorted_` below it, by bisection."""
    n = sorted_.shape[0]
    at = build.const(0, dt.int64, values.shape)
    step = 1 << max(n.bit_length() - 1, 0)
    while step:
        ahead = add(at, step)
        below = build.lt(build.gather(sorted_, sub(ahead, 1)), values)
        at = where(build.and_(build.le(ahead, n), below), ahead, at)
        step //= 2
    return at


def top_indices(x: UOp, k: int) -> UOp:
    """Indices of the `k` largest along the last axis, largest first."""
    axis = x.ndim - 1
    order = gets(uop(Op.SORT, (build.neg(x), build.iota_along(x.shape, axis)), axis))[1]
    return build.slice_axis(order, axis, 0, k)


@public(static=("a", "shape", "replace", "axis", "mode"))
def _choose(key: Any, x: ArrayLike | None, a: int, shape: Any, replace: bool, p: Any, axis: int, mode: Any) -> Array:
    words = single(key, "choice")
    size = normal_shape(shape, "choice")
    draws = math.prod(size)
    node = None if x is None else lift(x).node
    at = 0 if node is None else axis_of(axis, node.ndim, "choice")
    n = a if node is None else node.shape[at]
    if draws == 0:
        kind = dt.int64 if node is None else node.dtype
        rest = () if node is None else (*node.shape[:at], *node.shape[at + 1 :])
        return Tracer(build.const(0, kind, (*size, *rest)))
    if n <= 0:
        raise note_user_line(ArgumentError(f"choice has nothing to choose from: a has {n} elements"))
    if not replace and draws > n:
        raise note_user_line(ArgumentError(f"choice without replacement cannot draw {draws} of {n} elements"))
    if p is None:
        if not replace and node is not None and node.ndim == 1:
            picked = build.slice_axis(shuffle_node(words, node, 0), 0, 0, draws)
            return Tracer(build.reshape(picked, size))
        if replace:
            # of as many bits as with other libraries: who calls `choice` cannot ask for them
            kind = dt.int64 if config.enable_x64 or n >= 1 << 31 else dt.int32
            ind = randint_node(words, size, build.const(0, kind), build.const(n, kind), kind)
            ind = build.cast(ind, dt.int64)
        else:
            ind = build.slice_axis(shuffle_node(words, build.iota(n, dt.int64), 0), 0, 0, draws)
    else:
        ind = _weighted(words, size, lift(p).node, n, replace, draws, mode)
    ind = build.reshape(ind, size)
    return Tracer(ind if node is None else take_node(node, ind, at))


def _weighted(words: Words, size: tuple[int, ...], p: UOp, n: int, replace: bool, draws: int, mode: str | None) -> UOp:
    chance = p if p.dtype.is_float else build.cast(p, dt.default_float())
    if chance.shape != (n,):
        raise note_user_line(
            ShapeError(f"choice needs one probability for each of {n} elements, got p of shape {p.shape}")
        )
    if replace:
        total = uop(Op.PREFIX, (chance,), (Op.ADD, 0, False))
        last = build.reshape(build.slice_axis(total, 0, n - 1, n), ())
        return search_node(total, mul(sub(1, uniform_node(words, size, chance.dtype)), last))
    return top_indices(add(gumbel_node(words, (n,), chance.dtype, mode), log(chance)), draws)


def choice(
    key: Any,
    a: int | ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random elements of `a` (of 0 .. a-1 when it is an int): an array of `shape`, along `axis`.

    replace   whether an element may be drawn twice
    p         probabilities of the elements; uniform when None

    >>> random.choice(random.key(0), 5, (3,), replace=False)
    Array([0, 1, 4], dtype=int64)
    """
    if isinstance(a, int | np.integer) and not isinstance(a, bool):
        return _choose(key, None, int(a), shape, replace, p, axis, mode)
    return _choose(key, a, 0, shape, replace, p, axis, mode)


@public(static=("axis", "shape", "replace", "mode"))
def categorical(
    key: Any,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Indices drawn with probabilities softmax(logits) along `axis`.

    shape   of the result: any leading axes, then the shape of `logits` without `axis` (the default)

    Without replacement the leading axes hold different indices. dtype int64.

    -> int64.

    >>> random.categorical(random.key(0), fnp.log(fnp.array([0.1, 0.9])), shape=(5,))
    Array([1, 1, 1, 1, 1], dtype=int64)
    """
    node = lift(logits).node
    x = node if node.dtype.is_float else build.cast(node, dt.default_float())
    at = axis_of(axis, x.ndim, "categorical")
    batch = (*x.shape[:at], *x.shape[at + 1 :])
    size = batch if shape is None else normal_shape(shape, "categorical")
    prefix = size[: len(size) - len(batch)]
    if len(size) < len(batch) or not fits(batch, size[len(prefix) :]):
        raise note_user_line(
            ShapeError(f"categorical got shape={size}, which does not end in {batch} (logits without axis {axis})")
        )
    words = single(key, "categorical")
    if replace:
        inner = list(size[len(prefix) :])
        inner.insert(at, x.shape[at])
        noisy = add(gumbel_node(words, (*prefix, *inner), x.dtype, mode), x)
        return Tracer(argmax_node(noisy, len(prefix) + at))
    k = math.prod(prefix)
    if k > x.shape[at]:
        raise note_user_line(
            ArgumentError(f"categorical without replacement cannot draw {k} of {x.shape[at]} categories")
        )
    noisy = add(gumbel_node(words, x.shape, x.dtype, mode), x)
    last = build.permute(noisy, [*[i for i in range(x.ndim) if i != at], at])
    found = top_indices(last, k)
    front = build.permute(found, [found.ndim - 1, *range(found.ndim - 1)])
    return Tracer(build.reshape(front, size))


def argmax_node(x: UOp, axis: int) -> UOp:
    """The first position of the largest element along `axis` (of the first NaN, if there is one)."""
    top = build.spread(build.reduce_(x, [axis], Op.MAX), x, [axis])
    hit = build.or_(build.eq(x, top), build.ne(x, x))
    at = where(hit, build.iota_along(x.shape, axis), build.const(x.shape[axis], dt.int64))
    return build.reduce_(at, [axis], Op.MIN)


__all__ = [
    "argmax_node", "axis_of", "bernoulli", "categorical", "choice", "geometric", "permutation", "rademacher",
    "randint", "randint_node", "search_node", "shuffle", "shuffle_node", "take_node", "top_indices",
]  # fmt: skip
