"""Transformations that remember past gradients: momentum, and running means of gradients and their squares.

Moments have the dtypes of the parameters (unless asked otherwise) and are computed in float32 for
half types.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fgrad.lax.shapes import full_like
from fgrad.optim.transformation import (
    GradientTransformation,
    Params,
    State,
    Updates,
    incremented,
    leaves_beside,
    rebuilt,
    wide,
    zero_count,
    zeros_like,
)  # fmt: skip
from fgrad.run.eager import public
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop.build import add, div, mul, sub, where
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op


def _blend(old: UOp, new: UOp, rate: UOp) -> UOp:
    """rate * old + (1 - rate) * new."""
    return add(mul(old, rate), mul(new, sub(1, rate)))


def _outputs(like: Any, update: UOp, *moments: tuple[UOp, Any]) -> tuple[Array, ...]:
    """The update in the dtype of the gradient, moments in those they had."""
    t = lift(like)
    kept = [Tracer(build.cast(m, lift(old).node.dtype)) for m, old in moments]
    return (Tracer(build.cast(update, t.node.dtype), t.weak), *kept)


# ---- momentum
class TraceState(NamedTuple):
    """trace: the decayed sum of past updates, a tree like the parameters.

    >>> optim.trace(0.9).init(fnp.ones(2))
    TraceState(trace=Array([0., 0.], dtype=float32))
    """

    trace: Params


@public(static=("nesterov",))
def _trace(g: ArrayLike, t: ArrayLike, decay: ArrayLike, nesterov: bool) -> tuple[Array, ...]:
    x, old = wide(lift(g).node), wide(lift(t).node)
    rate = cast_node(decay, x.dtype)
    new = add(x, mul(build.cast(old, x.dtype), rate))
    return _outputs(g, add(x, mul(new, rate)) if nesterov else new, (new, t))


def trace(decay: float, nesterov: bool = False, accumulator_dtype: Any = None) -> GradientTransformation:
    """Momentum: the sum of past updates, each step times `decay`; `nesterov` looks one step ahead.

    >>> t = optim.trace(0.5)
    >>> u, state = t.update(fnp.array([4.0]), t.init(fnp.zeros(1)))
    >>> t.update(fnp.array([4.0]), state)[0]
    Array([6.], dtype=float32)
    """

    def init(params: Params) -> State:
        return TraceState(zeros_like(params, accumulator_dtype))

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        leaves, (olds,), spec = leaves_beside(updates, state.trace)
        rows = [_trace(g, t, decay, nesterov) for g, t in zip(leaves, olds, strict=True)]
        updates, traces = rebuilt(spec, rows, 2)
        return updates, TraceState(traces)

    return GradientTransformation(init, update)


# ---- adam
class ScaleByAdamState(NamedTuple):
    """count: steps, int32; mu, nu: running means of gradients and of their squares.

    >>> optim.scale_by_adam().init(fnp.ones(2))
    ScaleByAdamState(count=Array(0, dtype=int32), mu=Array([0., 0.], dtype=float32), nu=Array([0., 0.], dtype=float32))
    """

    count: Array  # type: ignore[assignment]
    mu: Updates
    nu: Updates


def _correction(rate: UOp, count: UOp) -> UOp:
    """1 - rate ** count."""
    return sub(1, uop(Op.POW, (rate, build.cast(count, rate.dtype))))


@public(static=("nesterov",))
def _adam(
    g: ArrayLike,
    m: ArrayLike,
    v: ArrayLike,
    count: ArrayLike,
    b1: ArrayLike,
    b2: ArrayLike,
    eps: ArrayLike,
    eps_root: ArrayLike,
    nesterov: bool,
) -> tuple[Array, ...]:
    x = wide(lift(g).node)
    first, second, small, root = [cast_node(r, x.dtype) for r in (b1, b2, eps, eps_root)]
    step = lift(count).node
    mu = _blend(cast_node(m, x.dtype), x, first)
    nu = _blend(cast_node(v, x.dtype), mul(x, x), second)
    if nesterov:
        ahead = div(mul(mu, first), _correction(first, add(step, 1)))
        mean = add(ahead, div(mul(x, sub(1, first)), _correction(first, step)))
    else:
        mean = div(mu, _correction(first, step))
    size = div(nu, _correction(second, step))
    return _outputs(g, div(mean, add(build.sqrt(add(size, root)), small)), (mu, m), (nu, v))


def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Kingma, Ba: Adam (2014), algorithm 1: mean / (sqrt(mean square + eps_root) + eps), both without bias.

    >>> t = optim.scale_by_adam()
    >>> t.update(fnp.array([3.0, -0.1]), t.init(fnp.zeros(2)))[0].round(4)
    Array([ 1., -1.], dtype=float32)
    """

    def init(params: Params) -> State:
        return ScaleByAdamState(zero_count(), zeros_like(params, mu_dtype), zeros_like(params))

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        count = incremented(state.count)
        leaves, (ms, vs), spec = leaves_beside(updates, state.mu, state.nu)
        rows = [_adam(g, m, v, count, b1, b2, eps, eps_root, nesterov) for g, m, v in zip(leaves, ms, vs, strict=True)]
        updates, mu, nu = rebuilt(spec, rows, 3)
        return updates, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


# ---- running means of squares
class ScaleByRmsState(NamedTuple):
    """nu: running mean of squares.

    >>> optim.scale_by_rms().init(fnp.ones(2))
    ScaleByRmsState(nu=Array([0., 0.], dtype=float32))
    """

    nu: Updates


class ScaleByRStdDevState(NamedTuple):
    """mu, nu: running means of gradients and of their squares.

    >>> optim.scale_by_stddev().init(fnp.ones(2)).mu
    Array([0., 0.], dtype=float32)
    """

    mu: Updates
    nu: Updates


@public(static=("eps_in_sqrt",))
def _rms(g: ArrayLike, v: ArrayLike, decay: ArrayLike, eps: ArrayLike, eps_in_sqrt: bool) -> tuple[Array, ...]:
    x = wide(lift(g).node)
    nu = _blend(cast_node(v, x.dtype), mul(x, x), cast_node(decay, x.dtype))
    small = cast_node(eps, x.dtype)
    size = build.sqrt(add(nu, small)) if eps_in_sqrt else add(build.sqrt(nu), small)
    return _outputs(g, div(x, size), (nu, v))


def scale_by_rms(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """Divides by the square root of the running mean of squares.

    >>> t = optim.scale_by_rms(decay=0.75)
    >>> t.update(fnp.array([3.0, -0.1]), t.init(fnp.zeros(2)))[0].round(4)
    Array([ 2., -2.], dtype=float32)
    """

    def init(params: Params) -> State:
        return ScaleByRmsState(tree.map_(lambda p: full_like(p, initial_scale), params))

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        leaves, (vs,), spec = leaves_beside(updates, state.nu)
        rows = [_rms(g, v, decay, eps, eps_in_sqrt) for g, v in zip(leaves, vs, strict=True)]
        updates, nu = rebuilt(spec, rows, 2)
        return updates, ScaleByRmsState(nu)

    return GradientTransformation(init, update)


@public(static=("eps_in_sqrt",))
def _stddev(
    g: ArrayLike, m: ArrayLike, v: ArrayLike, decay: ArrayLike, eps: ArrayLike, eps_in_sqrt: bool
) -> tuple[Array, ...]:
    x = wide(lift(g).node)
    rate, small = cast_node(decay, x.dtype), cast_node(eps, x.dtype)
    mu = _blend(cast_node(m, x.dtype), x, rate)
    nu = _blend(cast_node(v, x.dtype), mul(x, x), rate)
    variance = sub(nu, mul(mu, mu))
    size = build.sqrt(add(variance, small)) if eps_in_sqrt else add(build.sqrt(variance), small)
    return _outputs(g, div(x, size), (mu, m), (nu, v))


def scale_by_stddev(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True
) -> GradientTransformation:
    """Divides by the running standard deviation.

    >>> t = optim.scale_by_stddev(initial_scale=1.0)
    >>> t.update(fnp.array([0.0]), t.init(fnp.zeros(1)))[0]
    Array([0.], dtype=float32)
    """

    def init(params: Params) -> State:
        return ScaleByRStdDevState(zeros_like(params), tree.map_(lambda p: full_like(p, initial_scale), params))

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        leaves, (ms, vs), spec = leaves_beside(updates, state.mu, state.nu)
        rows = [_stddev(g, m, v, decay, eps, eps_in_sqrt) for g, m, v in zip(leaves, ms, vs, strict=True)]
        updates, mu, nu = rebuilt(spec, rows, 3)
        return updates, ScaleByRStdDevState(mu, nu)

    return GradientTransformation(init, update)


# ---- adagrad
class ScaleByRssState(NamedTuple):
    """sum_of_squares: of all gradients so far.

    >>> optim.scale_by_rss(0.1).init(fnp.ones(2))
    ScaleByRssState(sum_of_squares=Array([0.1, 0.1], dtype=float32))
    """

    sum_of_squares: Updates


@public()
def _rss(g: ArrayLike, s: ArrayLike, eps: ArrayLike) -> tuple[Array, ...]:
    x = wide(lift(g).node)
    total = add(cast_node(s, x.dtype), mul(x, x))
    some = build.lt(0, total)
    safe = where(some, total, build.const_like(1, total))
    factor = where(some, build.rsqrt(add(safe, cast_node(eps, x.dtype))), build.zeros_like(total))
    return _outputs(g, mul(x, factor), (total, s))


def scale_by_rss(initial_accumulator_value: float = 0.1, eps: float = 1e-7) -> GradientTransformation:
    """Divides by the square root of the sum of all squares so far (Duchi, Hazan, Singer: Adagrad, 2011).

    >>> t = optim.scale_by_rss(0.0)
    >>> t.update(fnp.array([3.0, -0.1]), t.init(fnp.zeros(2)))[0].round(4)
    Array([ 1., -1.], dtype=float32)
    """

    def init(params: Params) -> State:
        return ScaleByRssState(tree.map_(lambda p: full_like(p, initial_accumulator_value), params))

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        leaves, (sums,), spec = leaves_beside(updates, state.sum_of_squares)
        rows = [_rss(g, s, eps) for g, s in zip(leaves, sums, strict=True)]
        updates, totals = rebuilt(spec, rows, 2)
        return updates, ScaleByRssState(totals)

    return GradientTransformation(init, update)


# ---- lion
class ScaleByLionState(NamedTuple):
    """count: steps, int32; mu: running mean of gradients.

    >>> optim.scale_by_lion().init(fnp.ones(2)).mu
    Array([0., 0.], dtype=float32)
    """

    count: Array  # type: ignore[assignment]
    mu: Updates


@public()
def _lion(g: ArrayLike, m: ArrayLike, b1: ArrayLike, b2: ArrayLike) -> tuple[Array, ...]:
    x = wide(lift(g).node)
    old = cast_node(m, x.dtype)
    look = _blend(old, x, cast_node(b1, x.dtype))
    down = where(build.lt(look, 0), build.const_like(-1, look), look)
    sign = where(build.lt(0, look), build.const_like(1, look), down)
    return _outputs(g, sign, (_blend(old, x, cast_node(b2, x.dtype)), m))


def scale_by_lion(b1: float = 0.9, b2: float = 0.99, mu_dtype: Any = None) -> GradientTransformation:
    """The sign of a blend of gradient and running mean.

    Chen et al.: Symbolic Discovery of Optimization Algorithms (2023).

    >>> t = optim.scale_by_lion()
    >>> t.update(fnp.array([3.0, -0.1]), t.init(fnp.zeros(2)))[0]
    Array([ 1., -1.], dtype=float32)
    """

    def init(params: Params) -> State:
        return ScaleByLionState(zero_count(), zeros_like(params, mu_dtype))

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        leaves, (ms,), spec = leaves_beside(updates, state.mu)
        rows = [_lion(g, m, b1, b2) for g, m in zip(leaves, ms, strict=True)]
        updates, mu = rebuilt(spec, rows, 2)
        return updates, ScaleByLionState(incremented(state.count), mu)

    return GradientTransformation(init, update)


__all__ = [
    "ScaleByAdamState", "ScaleByLionState", "ScaleByRStdDevState", "ScaleByRmsState", "ScaleByRssState",
    "TraceState", "scale_by_adam", "scale_by_lion", "scale_by_rms", "scale_by_rss", "scale_by_stddev", "trace",
]  # fmt: skip
