"""Initial values of parameters: `init = he_normal(); w = init(key, shape)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fgrad import numpy as functions
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.elementwise import complex as lax_complex
from fgrad.lax.shapes import full
from fgrad.random import continuous, structured
from fgrad.random.threefry import split
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trim_public, trimmed
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import to_dtype

Axes = int | Sequence[int]
DTypeLike = Any


class Initializer(Protocol):
    """A function (key, shape, dtype) -> array.

    key     of `fgrad.random`
    dtype   floating or complex; None: the one that the initializer was made with

    >>> init: Initializer = he_normal()
    >>> init(random.key(0), (3, 2)).shape
    (3, 2)
    """

    def __call__(self, key: Any, shape: Sequence[int], dtype: DTypeLike = None) -> Array:
        """The initial values."""


def _dtype(given: DTypeLike, default: DTypeLike) -> dt.DType:
    what = default if given is None else given
    return dt.default_float() if what is None else to_dtype(what)


def zeros(key: Any, shape: Sequence[int], dtype: DTypeLike = None, out_sharding: None = None) -> Array:
    """All 0; the key is not used.

    An initializer itself: (key, shape, dtype) -> array; float32 by default.

    >>> zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return full(shape, 0, _dtype(dtype, None))


def ones(key: Any, shape: Sequence[int], dtype: DTypeLike = None, out_sharding: None = None) -> Array:
    """All 1; the key is not used.

    An initializer itself: (key, shape, dtype) -> array; float32 by default.

    >>> ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return full(shape, 1, _dtype(dtype, None))


def constant(value: Any, dtype: DTypeLike = None) -> Initializer:
    """Every element the same `value`.

    value   a number, or an array that broadcasts to the shape
    dtype   of the result, unless the initializer is called with one; float32 by default

    >>> constant(0.5)(None, (2,))
    Array([0.5, 0.5], dtype=float32)
    """

    def init(key: Any, shape: Sequence[int], dtype: DTypeLike = dtype) -> Array:
        return full(shape, value, _dtype(dtype, None))

    return trimmed(init)


def uniform(scale: float = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Uniform in [0, scale).

    `dtype` as in `constant`.

    >>> uniform(0.1)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: DTypeLike = dtype) -> Array:
        return functions.multiply(continuous.uniform(key, shape, _dtype(dtype, None)), scale)

    return trimmed(init)


def normal(stddev: float = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Normal with mean 0 and that standard deviation.

    `dtype` as in `constant`.

    >>> normal(0.1)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: DTypeLike = dtype) -> Array:
        return functions.multiply(continuous.normal(key, shape, _dtype(dtype, None)), stddev)

    return trimmed(init)


def truncated_normal(
    stddev: float = 1e-2, dtype: DTypeLike = None, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """stddev times standard normal numbers between `lower` and `upper`.

    lower, upper   are bounds before the multiplication with `stddev`, which is not that of the result

    >>> fnp.abs(truncated_normal(0.1)(random.key(0), (100,))).max() <= 0.2
    Array(True, dtype=bool)
    """

    def init(key: Any, shape: Sequence[int], dtype: DTypeLike = dtype) -> Array:
        x = continuous.truncated_normal(key, lower, upper, shape, _dtype(dtype, None))
        return functions.multiply(x, stddev)

    return trimmed(init)


def _product(shape: Sequence[int], axes: Axes) -> int:
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    return math.prod([shape[a] for a in given])


def fans(shape: Sequence[int], in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = ()) -> tuple[float, float]:
    """-> (fan_in, fan_out): how many inputs feed an output, and the other way round.

    in_axis, out_axis   one axis or several
    batch_axis          axes that count for neither

    Axes that are none of these are the receptive field and count for both.

    >>> fans((3, 3, 16, 32))
    (144.0, 288.0)
    """
    if len(shape) < 2 and isinstance(in_axis, int) and isinstance(out_axis, int):
        raise note_user_line(
            ShapeError(f"this initializer needs at least two axes (in_axis, out_axis), got shape {tuple(shape)}")
        )
    into, out, batch = [_product(shape, a) for a in (in_axis, out_axis, batch_axis)]
    field = math.prod(shape) / into / out / batch if into and out and batch else 0.0
    return into * field, out * field


_TRUNCATED_STDDEV = 0.87962566103423978  # of a standard normal number between -2 and 2


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike = None,
) -> Initializer:
    """Mean 0 and variance scale / n.

    mode          what n is: "fan_in", "fan_out", "fan_avg", or "fan_geo_avg"
    distribution  "truncated_normal", "normal" or "uniform"; of complex numbers |z|^2 has that mean, and the phase is
                  uniform

    Axes as in `fans`. Raises ArgumentError for other words.

    >>> variance_scaling(2.0, "fan_in", "normal")(random.key(0), (64, 32)).shape
    (64, 32)
    """
    if mode not in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        raise note_user_line(ArgumentError(f'mode is "fan_in", "fan_out", "fan_avg" or "fan_geo_avg", got {mode!r}'))
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise note_user_line(
            ArgumentError(f'distribution is "truncated_normal", "normal" or "uniform", got {distribution!r}')
        )

    def init(key: Any, shape: Sequence[int], dtype: DTypeLike = dtype) -> Array:
        kind = _dtype(dtype, None)
        fan_in, fan_out = fans(shape, in_axis, out_axis, batch_axis)
        n = {
            "fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }[mode]  # fmt: skip
        variance = scale / n if n else 0.0
        if kind.is_complex and distribution != "normal":
            radius = 2.0 if distribution == "truncated_normal" else None
            return _in_a_disk(key, shape, kind, variance, radius)
        if distribution == "uniform":
            x, factor = continuous.uniform(key, shape, kind, -1.0), math.sqrt(3 * variance)
        elif distribution == "normal":
            x, factor = continuous.normal(key, shape, kind), math.sqrt(variance)
        else:
            x = continuous.truncated_normal(key, -2.0, 2.0, shape, kind)
            factor = math.sqrt(variance) / _TRUNCATED_STDDEV
        return functions.multiply(x, factor)

    return trimmed(init)


def _in_a_disk(key: Any, shape: Sequence[int], kind: dt.DType, variance: float, radius: float | None) -> Array:
    """Complex numbers of mean 0 and E |z|^2 = variance, with a uniform phase.

    radius   of standard normal numbers (E |z|^2 = 1) that are cut off there; None: uniform in a disk

    |z|^2 is uniform in the disk, and exponential, cut off at radius^2, for the normal numbers.
    """
    real = dt.real_of(kind)
    k1, k2 = split(key)
    u = continuous.uniform(k1, shape, real)
    if radius is None:
        square, mean = u, 0.5
    else:
        most = -math.expm1(-(radius**2))
        square = functions.negative(functions.log1p(functions.multiply(u, -most)))
        mean = 1 - radius**2 * math.exp(-(radius**2)) / most
    size = functions.sqrt(functions.multiply(square, variance / mean))
    turn = continuous.uniform(k2, shape, real, 0.0, 2 * math.pi)
    parts = [functions.multiply(size, f(turn)) for f in (functions.cos, functions.sin)]
    return functions.astype(lax_complex(*parts), kind)


_FAMILY = """{distribution}, mean 0, variance {scale} / {n}.

`variance_scaling` says what the arguments mean. Source: {source}.

>>> w = {name}()(random.key(0), (300, 100))
>>> fnp.round(fnp.var(w) * {size}, 1)
Array({scale}., dtype=float32)
"""


def _family(name: str, scale: int, mode: str, distribution: str, source: str) -> Callable[..., Initializer]:
    def make(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    n, size = ("fan_in", 300) if mode == "fan_in" else ("mean of the fans", 200)
    words = distribution.replace("_", " ").capitalize()
    make.__name__ = make.__qualname__ = name
    make.__doc__ = _FAMILY.format(distribution=words, scale=scale, n=n, source=source, name=name, size=size)
    return make


_GLOROT = "X. Glorot, Y. Bengio, AISTATS 2010, equation 16"
_LECUN = "Y. LeCun and others, Efficient BackProp (1998), equation 16"
_HE = "K. He and others, ICCV 2015, equation 10"

glorot_uniform = _family("glorot_uniform", 1, "fan_avg", "uniform", _GLOROT)
glorot_normal = _family("glorot_normal", 1, "fan_avg", "truncated_normal", _GLOROT)
lecun_uniform = _family("lecun_uniform", 1, "fan_in", "uniform", _LECUN)
lecun_normal = _family("lecun_normal", 1, "fan_in", "truncated_normal", _LECUN)
he_uniform = _family("he_uniform", 2, "fan_in", "uniform", _HE)
he_normal = _family("he_normal", 2, "fan_in", "truncated_normal", _HE)
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """A random matrix whose rows or columns (whichever are fewer) are orthogonal and have length `scale`.

    column_axis   the axis of the columns; all others together are the rows

    Raises ShapeError for fewer than two axes.

    >>> w = orthogonal()(random.key(0), (2, 4))
    >>> fnp.allclose(w @ w.T, fnp.eye(2), atol=1e-5)
    Array(True, dtype=bool)
    """

    def init(key: Any, shape: Sequence[int], dtype: DTypeLike = dtype) -> Array:
        if len(shape) < 2:
            raise note_user_line(ShapeError(f"orthogonal needs at least two axes, got shape {tuple(shape)}"))
        at = column_axis % len(shape)
        n, rest = shape[at], [m for i, m in enumerate(shape) if i != at]
        q = structured.orthogonal(key, math.prod(rest), (), _dtype(dtype, None), n)
        return functions.multiply(functions.moveaxis(functions.reshape(q, (*rest, n)), -1, at), scale)

    return trimmed(init)


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """A convolution kernel [spatial.., in, out], in <= out, that is orthogonal at its center and 0 around.

    Raises ShapeError for other shapes.

    >>> delta_orthogonal()(random.key(0), (3, 2, 4)).shape
    (3, 2, 4)
    """

    def init(key: Any, shape: Sequence[int], dtype: DTypeLike = dtype) -> Array:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise note_user_line(
                ShapeError(f"delta_orthogonal needs [spatial.., in, out] with in <= out, got {tuple(shape)}")
            )
        kind = _dtype(dtype, None)
        center = orthogonal(scale, column_axis, kind)(key, shape[-2:])
        padding = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in shape[:-2]]
        inner = functions.reshape(center, (*(1,) * len(padding), *shape[-2:]))
        return functions.pad(inner, (*padding, (0, 0), (0, 0)))

    return trimmed(init)


__all__ = [
    "Initializer", "constant", "delta_orthogonal", "fans", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones",
    "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform",
    "zeros",
]  # fmt: skip

trim_public(globals(), __all__)
