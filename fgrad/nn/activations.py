"""Activation functions. Kinks have gradient 0 on their flat side: relu'(0) = 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import axis_of, need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, div, exp, maximum, minimum, mul, neg, tanh, where
from fgrad.uop.dtype import to_dtype
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op


def _apply(name: str, f: Callable[[UOp], UOp], x: ArrayLike) -> Array:
    """`f` of a floating array; integers become the default float."""
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(dtype.is_float, name, f"it takes real numbers, not {dtype}")
    return Tracer(f(node), weak)


def _sigmoid(x: UOp) -> UOp:
    return uop(Op.SIGMOID, (x,))


def _softplus(x: UOp) -> UOp:
    return uop(Op.SOFTPLUS, (x,))


def _expm1_below(x: UOp) -> UOp:
    """exp(x) - 1 where x <= 0, else 0: without overflow on the side that is not used."""
    safe = where(build.lt(0, x), build.zeros_like(x), x)
    return uop(Op.EXPM1, (safe,))


@public()
def relu(x: ArrayLike) -> Array:
    """max(x, 0), with gradient 0 at 0. Integers stay integers.

    Shape and dtype are those of x.

    >>> nn.relu(fnp.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 2.], dtype=float32)
    """
    t = lift(x)
    need(not t.node.dtype.is_complex, "relu", "complex numbers have no order")
    if not t.node.dtype.is_float:
        return Tracer(maximum(t.node, 0), t.weak)
    return Tracer(where(build.le(t.node, 0), build.zeros_like(t.node), t.node), t.weak)


@public()
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6).

    Shape as x; the gradient is 1 inside.

    >>> nn.relu6(fnp.array([-1.0, 3.0, 9.0]))
    Array([0., 3., 6.], dtype=float32)
    """
    return _apply("relu6", _relu6, x)


def _relu6(x: UOp) -> UOp:
    inside = build.and_(build.lt(0, x), build.lt(x, 6))
    return where(inside, x, where(build.le(6, x), build.const_like(6, x), _nan_or_zero(x)))


def _nan_or_zero(x: UOp) -> UOp:
    """0, but NaN where `x` is NaN."""
    return where(build.ne(x, x), x, build.zeros_like(x))


@public()
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    Shape as x; integers become the default float. Relatively accurate where it is small.

    >>> nn.sigmoid(fnp.array([-100.0, 0.0, 2.0]))
    Array([3.783506e-44, 5.000000e-01, 8.807971e-01], dtype=float32)
    """
    return _apply("sigmoid", _sigmoid, x)


@public()
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)) = -softplus(-x).

    Shape as x; without overflow.

    >>> nn.log_sigmoid(fnp.array([-1000.0, 0.0]))
    Array([-1.000000e+03, -6.931472e-01], dtype=float32)
    """
    return _apply("log_sigmoid", lambda v: neg(_softplus(neg(v))), x)


@public()
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow.

    Shape as x; integers become the default float.

    >>> nn.softplus(fnp.array([-1000.0, 0.0, 1000.0]))
    Array([0.000000e+00, 6.931472e-01, 1.000000e+03], dtype=float32)
    """
    return _apply("softplus", _softplus, x)


@public()
def sparse_plus(x: ArrayLike) -> Array:
    """0 below -1, x above 1, (x + 1)^2 / 4 between.

    Shape as x; between soft plus and relu, with zeros.

    >>> nn.sparse_plus(fnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    return _apply("sparse_plus", _sparse_plus, x)


def _sparse_plus(x: UOp) -> UOp:
    shifted = add(x, 1)
    middle = mul(mul(shifted, shifted), 0.25)
    return where(build.le(x, -1), build.zeros_like(x), where(build.le(1, x), x, middle))


@public()
def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 below -1, 1 above 1, (x + 1) / 2 between.

    Shape as x; the derivative of sparse_plus.

    >>> nn.sparse_sigmoid(fnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return _apply("sparse_sigmoid", lambda v: _clipped(mul(add(v, 1), 0.5), 0, 1), x)


def _clipped(x: UOp, low: float, high: float) -> UOp:
    """`x` moved into [low, high]; the gradient is 1 inside and at the bounds, NaN stays."""
    raised = where(build.lt(x, low), build.const_like(low, x), x)
    return where(build.lt(high, raised), build.const_like(high, x), raised)


@public()
def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + |x|).

    Shape as x; integers become the default float.

    >>> nn.soft_sign(fnp.array([-1.0, 0.0, 3.0]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    return _apply("soft_sign", lambda v: div(v, add(build.abs_(v), 1)), x)


@public()
def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x).

    Shape as x; also called swish.

    >>> nn.silu(fnp.array([-1.0, 0.0, 2.0]))
    Array([-0.26894143,  0.        ,  1.7615942 ], dtype=float32)
    """
    return _apply("silu", lambda v: mul(v, _sigmoid(v)), x)


swish = silu


@public()
def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x)).

    Shape as x; Misra 2019.

    >>> nn.mish(fnp.array([-1.0, 0.0, 2.0]))
    Array([-0.30340147,  0.        ,  1.943959  ], dtype=float32)
    """
    return _apply("mish", lambda v: mul(v, tanh(_softplus(v))), x)


@public(static=("approximate",))
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the normal distribution function of x; `approximate` uses a formula with tanh.

    Shape as x; integers become the default float.

    >>> nn.gelu(fnp.array([-1.0, 0.0, 2.0]))
    Array([-0.158808 ,  0.       ,  1.9545977], dtype=float32)
    >>> nn.gelu(fnp.array([-1.0, 0.0, 2.0]), approximate=False)
    Array([-0.15865526,  0.        ,  1.9544997 ], dtype=float32)
    """
    return _apply("gelu", _gelu_tanh if approximate else _gelu, x)


def _gelu_tanh(x: UOp) -> UOp:
    cube = mul(mul(x, x), x)
    inner = mul(add(x, mul(cube, 0.044715)), math.sqrt(2 / math.pi))
    return mul(mul(x, 0.5), add(tanh(inner), 1))


def _gelu(x: UOp) -> UOp:
    return mul(mul(x, 0.5), uop(Op.ERFC, (mul(x, -math.sqrt(0.5)),)))


@public()
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha * (exp(x) - 1) below.

    Shape as x; integers become the default float. No NaN comes from large x, nor in the gradient.

    >>> nn.elu(fnp.array([-1.0, 0.0, 2.0]))
    Array([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """
    return _apply("elu", lambda v: where(build.lt(0, v), v, _scaled(_expm1_below(v), alpha)), x)


def _scaled(x: UOp, factor: ArrayLike) -> UOp:
    return mul(x, cast_node(factor, x.dtype))


@public()
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0).

    Shape as x; integers become the default float.

    >>> nn.celu(fnp.array([-1.0, 0.0, 2.0]))
    Array([-0.63212055,  0.        ,  2.        ], dtype=float32)
    """

    def value(v: UOp) -> UOp:
        a = cast_node(alpha, v.dtype)
        return where(build.lt(0, v), v, mul(_expm1_below(div(v, a)), a))

    return _apply("celu", value, x)


_SELU_ALPHA = 1.6732632423543772  # Klambauer et al.: Self-Normalizing Neural Networks (2017), equation 14
_SELU_SCALE = 1.0507009873554805


@public()
def selu(x: ArrayLike) -> Array:
    """The scaled elu that keeps mean 0 and variance 1.

    Shape as x; Klambauer et al. 2017.

    >>> nn.selu(fnp.array([-1.0, 0.0, 2.0]))
    Array([-1.1113307,  0.       ,  2.101402 ], dtype=float32)
    """

    def value(v: UOp) -> UOp:
        return mul(where(build.lt(0, v), v, mul(_expm1_below(v), _SELU_ALPHA)), _SELU_SCALE)

    return _apply("selu", value, x)


@public()
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x above 0, negative_slope * x below.

    Shape as x.

    >>> nn.leaky_relu(fnp.array([-2.0, 3.0]))
    Array([-0.02,  3.  ], dtype=float32)
    """
    return _apply("leaky_relu", lambda v: where(build.le(0, v), v, _scaled(v, negative_slope)), x)


@public()
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x^2 + b)) / 2, without cancellation below 0.

    Shape as x; integers become the default float.

    >>> nn.squareplus(fnp.array([-1e4, 0.0, 3.0]))
    Array([9.9999997e-05, 1.0000000e+00, 3.3027756e+00], dtype=float32)
    """

    def value(v: UOp) -> UOp:
        width = cast_node(b, v.dtype)
        root = build.sqrt(add(mul(v, v), width))
        is_low = build.lt(v, 0)
        gap = add(root, build.abs_(v))
        below = div(mul(width, 0.5), where(is_low, gap, build.const_like(1, v)))
        return where(is_low, below, mul(add(v, root), 0.5))

    return _apply("squareplus", value, x)


@public()
def hard_tanh(x: ArrayLike) -> Array:
    """x moved into [-1, 1].

    Shape as x.

    >>> nn.hard_tanh(fnp.array([-4.0, 0.5, 4.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return _apply("hard_tanh", lambda v: _clipped(v, -1, 1), x)


@public()
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6.

    Shape as x.

    >>> nn.hard_sigmoid(fnp.array([-4.0, 0.0, 1.5]))
    Array([0.  , 0.5 , 0.75], dtype=float32)
    """
    return _apply("hard_sigmoid", lambda v: div(_relu6(add(v, 3)), 6), x)


@public()
def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x).

    Shape as x; also called hard_swish.

    >>> nn.hard_silu(fnp.array([-4.0, 1.0, 4.0]))
    Array([-0.       ,  0.6666667,  4.       ], dtype=float32)
    """
    return _apply("hard_silu", lambda v: mul(v, div(_relu6(add(v, 3)), 6)), x)


hard_swish = hard_silu


@public()
def identity(x: ArrayLike) -> Array:
    """`x`.

    >>> nn.identity(fnp.array([1, 2]))
    Array([1, 2], dtype=int64)
    """
    return lift(x)


@public()
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, exact at both ends.

    Shape as x; -inf at 0, NaN below.

    >>> nn.log1mexp(fnp.array([1e-10, 1.0, 50.0]))
    Array([-2.3025850e+01, -4.5867515e-01, -1.9287499e-22], dtype=float32)
    """
    return _apply("log1mexp", _log1mexp, x)


def _log1mexp(x: UOp) -> UOp:
    """Maechler: Accurately Computing log(1 - exp(-|a|)) (2012)."""
    is_small = build.le(x, math.log(2))
    near = where(is_small, x, build.const_like(1, x))
    far = where(is_small, build.const_like(1, x), x)
    return where(
        is_small,
        build.log(neg(uop(Op.EXPM1, (neg(near),)))),
        uop(Op.LOG1P, (neg(exp(neg(far))),)),
    )


@public(static=("axis",))
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along `axis` times the sigmoid of the second. Raises ShapeError for an odd size.

    The axis becomes half as long.

    >>> nn.glu(fnp.array([1.0, 2.0, 0.0, 100.0]))
    Array([0.5, 2. ], dtype=float32)
    """
    (node,), dtype, weak = promoted(x, least=dt.default_float())
    need(dtype.is_float, "glu", f"it takes real numbers, not {dtype}")
    at = axis_of(axis, node.ndim, "glu")
    n = node.shape[at]
    if n % 2:
        raise note_user_line(ShapeError(f"glu needs an even size along axis {at}, got {n}"))
    halves = [build.slice_axis(node, at, s, s + n // 2) for s in (0, n // 2)]
    return Tracer(mul(halves[0], _sigmoid(halves[1])), weak)


@public(static=("num_classes", "dtype", "axis"))
def one_hot(x: ArrayLike, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Array:
    """1 at position x of a new axis of `num_classes`, else 0; all 0 for an index outside.

    >>> one_hot(fnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    node = lift(x).node
    at = axis_of(axis, node.ndim + 1, "one_hot")
    spread = build.expand(node, [(at, int(num_classes))])
    counter = build.iota_along(spread.shape, at)
    if not node.dtype.is_int:
        counter = build.cast(counter, node.dtype if node.dtype.is_float else dt.int64)
        spread = build.cast(spread, counter.dtype)
    else:
        if node.dtype is dt.uint64:
            spread = minimum(spread, (1 << 63) - 1)
        spread = build.cast(spread, dt.int64)
    return Tracer(build.cast(build.eq(spread, counter), to_dtype(dtype)))


__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity",
    "leaky_relu", "log1mexp", "log_sigmoid", "mish", "one_hot", "relu", "relu6", "selu", "sigmoid", "silu",
    "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "swish",
]  # fmt: skip
