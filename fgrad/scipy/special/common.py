"""What the special functions share: operands, and computing in double precision."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.lax.elementwise import float_node
from fgrad.numpy.common import common, need
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op


def log1p(x: UOp) -> UOp:
    """log(1 + x)."""
    return uop(Op.LOG1P, (x,))


def lgamma(x: UOp) -> UOp:
    """log |gamma(x)|."""
    return uop(Op.LGAMMA, (x,))


def like(value: complex, x: UOp) -> UOp:
    """A constant with the dtype and shape of `x`."""
    return build.const_like(value, x)


def horner(coefficients: list[float], x: UOp) -> UOp:
    """The polynomial with these coefficients, the lowest power first."""
    total = like(coefficients[-1], x)
    for c in coefficients[-2::-1]:
        total = build.add(build.mul(total, x), c)
    return total


def in_double(f: Callable[..., UOp]) -> Callable[..., UOp]:
    """`f` computed in float64."""
    return lambda *xs: build.cast(f(*[build.cast(x, dt.float64) for x in xs]), xs[0].dtype)


def unary(name: str, f: Callable[[UOp], UOp], x: ArrayLike) -> Array:
    """f of a real array."""
    node, weak = float_node(name, x)
    return Tracer(f(node), weak)


def nary(name: str, f: Callable[..., UOp], *xs: ArrayLike) -> Array:
    """f of real arrays of one dtype and shape."""
    nodes, dtype, weak = common(name, *xs, least=dt.default_float())
    need(dtype.is_float, name, f"it is defined for real numbers, not for {dtype}")
    return Tracer(f(*nodes), weak)
