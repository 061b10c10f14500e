"""Random floating-point numbers, each computed from uniform or normal ones by a formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.errors import ShapeError, note_user_line
from fgrad.random.keys import normal_shape, single
from fgrad.random.threefry import Words, float_of, split_words, uniform_node
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, div, maximum, minimum, mul, neg, sub, where
from fgrad.uop.dtype import DType, to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

Shape = Any
DTypeLike = Any


def fits(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether `shape` broadcasts to the shape `to`."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(n in (1, m) for n, m in pairs)


def sample_shape(shape: Shape, what: str, *params: UOp) -> tuple[int, ...]:
    """The shape of a sample: as given, to which the parameters must broadcast, or (None) what they broadcast to."""
    needed = build.broadcast_shapes(*[p.shape for p in params]) if params else ()
    if shape is None:
        return needed
    asked = normal_shape(shape, what)
    if not fits(needed, asked):
        raise note_user_line(
            ShapeError(
                f"{what} got shape={asked}, but its parameters have shapes "
                f"{', '.join(str(p.shape) for p in params)}, which do not broadcast to it"
            )
        )
    return asked


def log(x: UOp) -> UOp:
    """Natural logarithm."""
    return uop(Op.LOG, (x,))


def log1p(x: UOp) -> UOp:
    """log(1 + x)."""
    return uop(Op.LOG1P, (x,))


def erf_inv(x: UOp) -> UOp:
    """The inverse of the error function."""
    return uop(Op.ERF_INV, (x,))


def power(x: UOp, y: UOp) -> UOp:
    """x ** y, broadcast."""
    return uop(Op.POW, tuple(build.operands(x, y)))


# ---- nodes that several distributions share
def normal_node(key: Words, shape: tuple[int, ...], dtype: DType) -> UOp:
    """Standard normal numbers: sqrt(2) erf_inv(u) for u uniform in (-1, 1)."""
    low = np.nextafter(np.array(-1, dtype.np), np.array(0, dtype.np))
    return mul(erf_inv(uniform_node(key, shape, dtype, low, 1)), math.sqrt(2))


def exponential_node(key: Words, shape: tuple[int, ...], dtype: DType) -> UOp:
    """Exponential numbers of rate 1: -log(1 - u)."""
    return neg(log1p(neg(uniform_node(key, shape, dtype))))


def gumbel_node(key: Words, shape: tuple[int, ...], dtype: DType, mode: str | None) -> UOp:
    """Standard Gumbel numbers; "high" mode spends twice the bits on the far tail, "highest" three times."""
    tiny = dt.finfo(dtype).tiny
    if mode in (None, "low"):
        return neg(log(neg(log(uniform_node(key, shape, dtype, tiny, 1)))))
    if mode not in ("high", "highest"):
        raise note_user_line(ValueError(f'gumbel mode is "low", "high" or "highest", got {mode!r}'))
    count = 2 if mode == "high" else 3
    parts = uniform_node(key, (count, *shape), dtype)
    step = 2.0 ** -int(dt.finfo(dtype).nmant)
    fine = build.const(0, dtype, shape)
    for i in range(count - 1, -1, -1):
        fine = add(mul(fine, step), build.reshape(build.slice_axis(parts, 0, i, i + 1), shape))
    fine = maximum(fine, float(tiny))
    flipped = log1p(neg(fine))
    return neg(log(neg(flipped)))


# ---- uniform and normal
@public(static=("shape", "dtype"))
def uniform(
    key: Any,
    shape: Shape = (),
    dtype: DTypeLike = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Uniform numbers in [minval, maxval).

    shape            of the result
    dtype            floating; float32 by default (float64 with `enable_x64`)
    minval, maxval   broadcast to `shape`

    The bits are those of JAX's threefry with the partitionable layout. Raises DtypeError for other dtypes.

    >>> uniform(key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    dtype = float_of(dtype, "uniform")
    low, high = cast_node(minval, dtype), cast_node(maxval, dtype)
    size = sample_shape(shape, "uniform", low, high)
    return Tracer(uniform_node(single(key, "uniform"), size, dtype, low, high))


@public(static=("shape", "dtype"))
def normal(key: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Standard normal numbers; complex ones have independent parts of variance 1/2.

    `shape` and `dtype` as in `uniform`; complex dtypes are allowed.

    >>> normal(key(0), (2,)).dtype
    dtype('float32')
    """
    words, size = single(key, "normal"), normal_shape(shape, "normal")
    kind = None if dtype is None else to_dtype(dtype)
    if kind is None or not kind.is_complex:
        kind = float_of(dtype, "normal")
    return Tracer(any_normal_node(words, size, kind))


def any_normal_node(words: Words, shape: tuple[int, ...], kind: DType) -> UOp:
    """Standard normal numbers, real or complex."""
    if not kind.is_complex:
        return normal_node(words, shape, kind)
    real = dt.real_of(kind)
    return build.complex_(*[mul(normal_node(k, shape, real), math.sqrt(0.5)) for k in split_words(words)])


@public(static=("shape", "dtype"))
def truncated_normal(
    key: Any, lower: ArrayLike, upper: ArrayLike, shape: Shape = None, dtype: DTypeLike = None
) -> Array:
    """Standard normal numbers under the condition lower < x < upper.

    shape   of the result, to which `lower` and `upper` broadcast; by default what they broadcast to

    >>> x = truncated_normal(key(0), 0.0, 1.0, (100,))
    >>> fnp.all((x > 0) & (x < 1))
    Array(True, dtype=bool)
    """
    dtype = float_of(dtype, "truncated_normal")
    low, high = cast_node(lower, dtype), cast_node(upper, dtype)
    size = sample_shape(shape, "truncated_normal", low, high)
    a, b = [uop(Op.ERF, (div(x, math.sqrt(2)),)) for x in (low, high)]
    u = uniform_node(single(key, "truncated_normal"), size, dtype, a, b)
    x = mul(erf_inv(u), math.sqrt(2))
    # rounding must not leave the open interval
    return Tracer(minimum(maximum(x, next_to(low, np.inf)), next_to(high, -np.inf)))


def next_to(x: UOp, toward: float) -> UOp:
    """The next representable number after `x` towards an infinity (x itself when it is that infinity)."""
    holder = {2: dt.int16, 4: dt.int32, 8: dt.int64}[x.dtype.itemsize]
    raw = build.bitcast(x, holder)
    up = toward > 0
    away = build.lt(raw, 0) if not up else build.not_(build.lt(raw, 0))
    moved = build.where(away, add(raw, 1), add(raw, -1))
    smallest = dt.int_range(holder)[0] + 1 if not up else 1
    stepped = build.bitcast(moved, x.dtype)
    at_zero = build.bitcast(build.const(smallest, holder), x.dtype)
    stepped = where(build.eq(x, 0), at_zero, stepped)
    stays = build.or_(build.ne(x, x), build.eq(x, float(toward)))
    return where(stays, x, stepped)


@public(static=("shape", "dtype"))
def lognormal(key: Any, sigma: ArrayLike = 1.0, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Numbers whose logarithm is normal with mean 0 and standard deviation `sigma`.

    shape   of the result, to which `sigma` broadcasts; that of `sigma` by default

    >>> lognormal(key(0), 0.5, (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "lognormal")
    s = cast_node(sigma, dtype)
    size = sample_shape(shape, "lognormal", s)
    return Tracer(build.exp(mul(normal_node(single(key, "lognormal"), size, dtype), s)))


# ---- by a formula from uniform numbers
@public(static=("shape", "dtype"))
def exponential(key: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Exponential numbers of rate 1.

    `shape` and `dtype` as in `uniform`.

    >>> exponential(key(0), (2,)).shape
    (2,)
    """
    size = normal_shape(shape, "exponential")
    return Tracer(exponential_node(single(key, "exponential"), size, float_of(dtype, "exponential")))


@public(static=("shape", "dtype", "mode"))
def gumbel(key: Any, shape: Shape = (), dtype: DTypeLike = None, mode: str | None = None) -> Array:
    """Standard Gumbel numbers; mode="high" spends twice the bits on the far tail, "highest" three times.

    `shape` and `dtype` as in `uniform`. Raises ValueError for another mode than these and "low".

    >>> gumbel(key(0), (2,)).shape
    (2,)
    """
    size = normal_shape(shape, "gumbel")
    return Tracer(gumbel_node(single(key, "gumbel"), size, float_of(dtype, "gumbel"), mode))


@public(static=("shape", "dtype"))
def laplace(key: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Laplace numbers of location 0 and scale 1.

    `shape` and `dtype` as in `uniform`.

    >>> laplace(key(0), (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "laplace")
    low = -1.0 + float(dt.finfo(dtype).epsneg)
    u = uniform_node(single(key, "laplace"), normal_shape(shape, "laplace"), dtype, low, 1)
    size = log1p(neg(build.abs_(u)))
    return Tracer(where(build.lt(u, 0), neg(size), where(build.eq(u, 0), mul(size, 0), size)))


@public(static=("shape", "dtype"))
def logistic(key: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Logistic numbers of location 0 and scale 1.

    `shape` and `dtype` as in `uniform`.

    >>> logistic(key(0), (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "logistic")
    tiny = dt.finfo(dtype).tiny
    u = uniform_node(single(key, "logistic"), normal_shape(shape, "logistic"), dtype, tiny, 1)
    return Tracer(sub(log(u), log1p(neg(u))))


@public(static=("shape", "dtype"))
def cauchy(key: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Cauchy numbers of location 0 and scale 1.

    `shape` and `dtype` as in `uniform`.

    >>> cauchy(key(0), (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "cauchy")
    eps = dt.finfo(dtype).eps
    u = uniform_node(single(key, "cauchy"), normal_shape(shape, "cauchy"), dtype, eps, 1)
    return Tracer(uop(Op.TAN, (mul(sub(u, 0.5), math.pi),)))


@public(static=("shape", "dtype"))
def pareto(key: Any, b: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Pareto numbers of shape parameter `b` and scale 1.

    shape   of the result, to which `b` broadcasts; that of `b` by default

    >>> fnp.all(pareto(key(0), 2.0, (100,)) >= 1)
    Array(True, dtype=bool)
    """
    dtype = float_of(dtype, "pareto")
    exponent = cast_node(b, dtype)
    size = sample_shape(shape, "pareto", exponent)
    e = exponential_node(single(key, "pareto"), size, dtype)
    return Tracer(build.exp(div(e, exponent)))


@public(static=("shape", "dtype"))
def rayleigh(key: Any, scale: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Rayleigh numbers of that `scale`.

    shape   of the result, to which `scale` broadcasts; that of `scale` by default

    >>> rayleigh(key(0), 2.0, (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "rayleigh")
    s = cast_node(scale, dtype)
    size = sample_shape(shape, "rayleigh", s)
    u = uniform_node(single(key, "rayleigh"), size, dtype)
    return Tracer(mul(build.sqrt(mul(log(u), -2)), s))


@public(static=("shape", "dtype"))
def weibull_min(
    key: Any, scale: ArrayLike, concentration: ArrayLike, shape: Shape = (), dtype: DTypeLike = None
) -> Array:
    """Weibull numbers: scale * (-log(1 - u)) ** (1 / concentration).

    shape   of the result, to which the parameters broadcast

    >>> weibull_min(key(0), 1.0, 2.0, (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "weibull_min")
    s, c = cast_node(scale, dtype), cast_node(concentration, dtype)
    size = sample_shape(shape, "weibull_min", s, c)
    e = exponential_node(single(key, "weibull_min"), size, dtype)
    return Tracer(mul(power(e, div(build.const(1, dtype), c)), s))


@public(static=("shape", "dtype"))
def triangular(
    key: Any,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Shape = None,
    dtype: DTypeLike = None,
) -> Array:
    """Numbers with a triangular density over [left, right], highest at `mode`.

    shape   of the result; by default what the parameters broadcast to

    >>> triangular(key(0), 0.0, 1.0, 2.0, (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "triangular")
    a, c, b = [cast_node(x, dtype) for x in (left, mode, right)]
    size = sample_shape(shape, "triangular", a, c, b)
    u = uniform_node(single(key, "triangular"), size, dtype)
    width = sub(b, a)
    rising = add(build.sqrt(mul(mul(u, width), sub(c, a))), a)
    falling = sub(b, build.sqrt(mul(mul(sub(1, u), width), sub(b, c))))
    return Tracer(where(build.lt(u, div(sub(c, a), width)), rising, falling))


@public(static=("shape", "dtype"))
def maxwell(key: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Maxwell numbers of scale 1: the length of a normal vector in three dimensions.

    `shape` and `dtype` as in `uniform`.

    >>> maxwell(key(0), (2,)).shape
    (2,)
    """
    size = (*normal_shape(shape, "maxwell"), 3)
    x = normal_node(single(key, "maxwell"), size, float_of(dtype, "maxwell"))
    return Tracer(build.sqrt(build.reduce_(mul(x, x), [len(size) - 1])))


@public(static=("shape", "dtype"))
def double_sided_maxwell(
    key: Any, loc: ArrayLike, scale: ArrayLike, shape: Shape = (), dtype: DTypeLike = None
) -> Array:
    """Maxwell numbers of random sign, times `scale` plus `loc`.

    The shape of the result is `shape` followed by what the parameters broadcast to.

    >>> double_sided_maxwell(key(0), 0.0, fnp.ones(2), (3,)).shape
    (3, 2)
    """
    dtype = float_of(dtype, "double_sided_maxwell")
    m, s = cast_node(loc, dtype), cast_node(scale, dtype)
    tail = build.broadcast_shapes(m.shape, s.shape)
    size = (*(normal_shape(shape, "double_sided_maxwell") or tail), *tail)
    k1, k2 = split_words(single(key, "double_sided_maxwell"))
    x = normal_node(k1, (*size, 3), dtype)
    length = build.sqrt(build.reduce_(mul(x, x), [len(size)]))
    return Tracer(add(mul(mul(sign_node(k2, size, dtype), length), s), m))


def sign_node(key: Words, shape: tuple[int, ...], dtype: DType) -> UOp:
    """-1 or 1, each with probability 1/2."""
    heads = build.lt(uniform_node(key, shape, dt.default_float()), 0.5)
    return where(heads, build.const(1, dtype, shape), build.const(-1, dtype, shape))


@public(static=("shape", "dtype"))
def wald(key: Any, mean: ArrayLike, shape: Shape = None, dtype: DTypeLike = None) -> Array:
    """Wald (inverse Gaussian) numbers of that mean and scale 1.

    shape   of the result, to which `mean` broadcasts; that of `mean` by default

    After Michael, Schucany, Haas: Generating Random Variates Using Transformations with Multiple Roots (1976).

    >>> wald(key(0), 1.0, (2,)).shape
    (2,)
    """
    dtype = float_of(dtype, "wald")
    m = cast_node(mean, dtype)
    size = sample_shape(shape, "wald", m)
    k1, k2 = split_words(single(key, "wald"))
    m = build.broadcast_to(m, size)
    v, z = normal_node(k1, size, dtype), uniform_node(k2, size, dtype)
    y = mul(v, v)
    square = mul(m, m)
    root = build.sqrt(add(mul(mul(m, y), 4), mul(square, mul(y, y))))
    x = sub(add(m, div(mul(square, y), 2)), mul(div(m, 2), root))
    return Tracer(where(build.le(z, div(m, add(m, x))), x, div(square, x)))


__all__ = [
    "cauchy", "double_sided_maxwell", "erf_inv", "exponential", "exponential_node", "gumbel", "gumbel_node",
    "laplace", "log", "log1p", "logistic", "lognormal", "maxwell", "next_to", "normal", "normal_node",
    "pareto", "power", "rayleigh", "sample_shape", "sign_node", "triangular", "truncated_normal", "uniform",
    "wald", "weibull_min",
]  # fmt: skip
