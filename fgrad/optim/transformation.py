"""Gradient transformations: what turns gradients into updates, step by step.

A transformation is a pair of functions: `init(params) -> state` and `update(updates, state,
params) -> (updates, state)`. They
are pure, take any pytree, and compose with `chain`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, describe, note_user_line
from fgrad.lax.shapes import full, full_like
from fgrad.run.eager import public
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trimmed
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, mul
from fgrad.uop.node import UOp

Params = Any
Updates = Any
State = Any
Schedule = Callable[[Any], Any]
ScalarOrSchedule = float | Array | Schedule


class _Functions(NamedTuple):
    init: Callable[[Params], State]
    update: Callable[..., tuple[Updates, State]]


class GradientTransformation(_Functions):
    """init(params) -> state; update(updates, state, params=None) -> (new updates, new state).

    >>> half = optim.GradientTransformation(lambda params: (), lambda g, state, params=None: (g / 2, state))
    >>> half.update(fnp.array([3.0]), half.init(None))
    (Array([1.5], dtype=float32), ())
    """

    def __new__(cls, init: Callable[[Params], State], update: Callable[..., Any]) -> GradientTransformation:
        return super().__new__(cls, trimmed(init), trimmed(update))

    init: Callable[[Params], State]
    update: Callable[..., tuple[Updates, State]]


class EmptyState(NamedTuple):
    """The state of a transformation that remembers nothing.

    >>> optim.scale(0.1).init(fnp.ones(2))
    EmptyState()
    """


def stateless(f: Callable[[Updates, Params], Updates]) -> GradientTransformation:
    """A transformation without state, of a function of (updates, params).

    >>> t = optim.stateless(lambda updates, params: updates + params)
    >>> t.update(fnp.array([3.0]), t.init(fnp.ones(1)), fnp.ones(1))[0]
    Array([4.], dtype=float32)
    """

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        return f(updates, params), state

    return GradientTransformation(lambda params: EmptyState(), update)


def identity() -> GradientTransformation:
    """Leaves updates as they are.

    >>> t = optim.identity()
    >>> t.update(fnp.array([3.0]), t.init(fnp.zeros(1)))[0]
    Array([3.], dtype=float32)
    """
    return stateless(lambda updates, _: updates)


def set_to_zero() -> GradientTransformation:
    """Makes all updates 0: freezes parameters.

    >>> t = optim.set_to_zero()
    >>> t.update(fnp.array([3.0]), t.init(fnp.zeros(1)))[0]
    Array([0.], dtype=float32)
    """
    return stateless(lambda updates, _: tree.map_(lambda u: full_like(u, 0), updates))


def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """One transformation after the other; the state is the tuple of their states.

    >>> t = optim.chain(optim.clip(1.0), optim.scale(-0.5))
    >>> t.update(fnp.array([3.0, 0.5]), t.init(fnp.zeros(2)))[0]
    Array([-0.5 , -0.25], dtype=float32)
    """

    def init(params: Params) -> State:
        return tuple([t.init(params) for t in transformations])

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        if not isinstance(state, tuple | list) or len(state) != len(transformations):
            raise note_user_line(
                ArgumentError(
                    f"update(grads, state, params): the state must be what init returned, with {len(transformations)} "
                    f"parts, got {describe(state)}"
                )
            )
        after = []
        for t, s in zip(transformations, state, strict=True):
            updates, s = t.update(updates, s, params)
            after.append(s)
        return updates, tuple(after)

    return GradientTransformation(init, update)


def masked(inner: GradientTransformation, mask: Any) -> GradientTransformation:
    """`inner` on the leaves where `mask` is true; the others pass.

    mask   a tree of bools, or a function that makes one of the parameters

    >>> t = optim.masked(optim.scale(10.0), {"a": True, "b": False})
    >>> t.update({"a": fnp.array(1.0), "b": fnp.array(1.0)}, t.init({"a": fnp.array(0.0), "b": fnp.array(0.0)}))[0]
    {'a': Array(10., dtype=float32, weak_type=True), 'b': Array(1., dtype=float32, weak_type=True)}
    """

    def kept(values: Any, like: Any) -> Any:
        flags = mask(like) if callable(mask) else mask
        return tree.map_(lambda m, v: v if m else None, flags, values)

    def init(params: Params) -> State:
        return inner.init(kept(params, params))

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        like = updates if params is None else params
        some, state = inner.update(kept(updates, like), state, None if params is None else kept(params, like))
        flags = mask(like) if callable(mask) else mask
        changed = iter(tree.leaves_of(some))
        return tree.map_(lambda m, u: next(changed) if m else u, flags, updates), state

    return GradientTransformation(init, update)


# ---- the end of a step
@public()
def _applied(p: ArrayLike, u: ArrayLike) -> Array:
    t = lift(p)
    return Tracer(build.cast(add(wide(t.node), wide(cast_node(u, t.node.dtype))), t.node.dtype), t.weak)


def apply_updates(params: Params, updates: Updates) -> Params:
    """params + updates, in the dtypes of the parameters.

    >>> apply_updates({"w": fnp.ones(2)}, {"w": -0.5 * fnp.ones(2)})
    {'w': Array([0.5, 0.5], dtype=float32)}
    """
    leaves, (changes,), spec = leaves_beside(params, updates, names=("params", "updates"))
    return tree.unflatten(spec, [_applied(p, u) for p, u in zip(leaves, changes, strict=True)])


@public()
def _norm(leaves: list[Any]) -> Array:
    total: UOp | None = None
    for x in leaves:
        node = lift(x).node
        parts = [build.real(node), build.imag(node)] if node.dtype.is_complex else [node]
        for part in parts:
            part = wide(part) if part.dtype.is_float else build.cast(part, dt.default_float())
            square = build.reduce_(mul(part, part), range(part.ndim))
            if total is None:
                total = square
            else:
                kind, _ = dt.promote((total.dtype, False), (square.dtype, False))
                total = add(build.cast(total, kind), build.cast(square, kind))
    total = build.const(0, dt.default_float()) if total is None else total
    zero = build.eq(total, 0)
    root = build.sqrt(build.where(zero, build.const_like(1, total), total))
    return Tracer(build.where(zero, build.zeros_like(total), root))


def global_norm(updates: Updates) -> Array:
    """The square root of the sum of all squares of all leaves; its gradient at 0 is 0.

    >>> optim.global_norm({"a": fnp.array([3.0]), "b": fnp.array([4.0])})
    Array(5., dtype=float32)
    """
    return _norm(tree.leaves_of(updates))


# ---- helpers that transformations share
def wide(x: UOp) -> UOp:
    """Half types as float32: moments and sums are computed there."""
    return build.cast(x, dt.accumulator(x.dtype))


def zeros_like(params: Params, dtype: Any = None) -> Params:
    """A tree of zeros, in the dtypes of the parameters unless one is given."""
    return tree.map_(lambda p: full_like(p, 0, dtype), params)


def zero_count() -> Array:
    """A step counter: int32."""
    return full((), 0, dt.int32)


@public()
def incremented(count: ArrayLike) -> Array:
    """count + 1, which stops at the largest integer instead of wrapping."""
    node = lift(count).node
    top = dt.int_range(node.dtype)[1]
    return Tracer(add(build.minimum(node, top - 1), 1))


@public()
def _scaled(u: ArrayLike, factor: ArrayLike) -> Array:
    t = lift(u)
    inner = dt.accumulator(t.node.dtype)
    return Tracer(
        build.cast(mul(wide(t.node), build.cast(cast_node(factor, inner), inner)), t.node.dtype),
        t.weak,
    )


def scaled(updates: Updates, factor: Any) -> Updates:
    """All leaves times a number, in their own dtypes."""
    return tree.map_(lambda u: _scaled(u, factor), updates)


def scale(step_size: float) -> GradientTransformation:
    """Multiplies updates by a number.

    >>> t = optim.scale(-0.1)
    >>> t.update(fnp.array([3.0]), t.init(fnp.zeros(1)))[0]
    Array([-0.3], dtype=float32)
    """
    return stateless(lambda updates, _: scaled(updates, step_size))


class ScaleByScheduleState(NamedTuple):
    """count: steps taken, int32.

    >>> optim.scale_by_schedule(lambda count: 0.1).init(fnp.ones(2))
    ScaleByScheduleState(count=Array(0, dtype=int32))
    """

    count: Array  # type: ignore[assignment]


def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Multiplies updates by `step_size_fn(number of steps taken so far)`.

    >>> t = optim.scale_by_schedule(lambda n: 1 / (n + 1))
    >>> u, state = t.update(fnp.array([4.0]), t.init(fnp.zeros(1)))
    >>> t.update(fnp.array([4.0]), state)[0]
    Array([2.], dtype=float32)
    """

    def init(params: Params) -> State:
        return ScaleByScheduleState(zero_count())

    def update(updates: Updates, state: State, params: Params = None) -> tuple[Updates, State]:
        factor = step_size_fn(state.count)
        return scaled(updates, factor), ScaleByScheduleState(incremented(state.count))

    return GradientTransformation(init, update)


@public()
def _negative(x: ArrayLike) -> Array:
    t = lift(x)
    return Tracer(build.neg(t.node), t.weak)


def scale_by_learning_rate(learning_rate: ScalarOrSchedule, *, flip_sign: bool = True) -> GradientTransformation:
    """Multiplies updates by the learning rate, a number or a schedule; with `flip_sign` downhill.

    >>> t = optim.scale_by_learning_rate(0.1)
    >>> t.update(fnp.array([3.0]), t.init(fnp.zeros(1)))[0]
    Array([-0.3], dtype=float32)
    """
    if callable(learning_rate):
        schedule = learning_rate
        return scale_by_schedule(lambda count: _negative(schedule(count)) if flip_sign else schedule(count))
    if isinstance(learning_rate, int | float) and not math.isfinite(learning_rate):
        raise note_user_line(ArgumentError(f"the learning rate must be finite, got {learning_rate}"))
    rate = learning_rate
    if not flip_sign:
        return scale(rate)  # type: ignore[arg-type]
    return stateless(lambda updates, _: scaled(updates, -rate if isinstance(rate, int | float) else _negative(rate)))


def needs_params(name: str, params: Params) -> None:
    """Raise ArgumentError when `update` was called without the parameters."""
    if params is None:
        raise note_user_line(ArgumentError(f"{name} needs the parameters: update(grads, state, params)"))


def leaves_beside(
    updates: Updates, *others: Any, names: tuple[str, str] = ("grads", "the state")
) -> tuple[list[Any], list[list[Any]], tree.TreeDef]:
    """-> (leaves, leaves of each other tree in the same places, structure).

    Raises ArgumentError or ShapeError, with these names, where another tree was made for other parameters.
    """
    leaves, spec = tree.flatten(updates)
    beside = []
    for other in others:
        kept, other_spec = tree.flatten(other)
        place = tree.difference(spec, other_spec, names[0])
        if place is not None:
            path, here, there = place
            raise note_user_line(ArgumentError(f"{path} is {here}, but {there} in {names[1]}; both are for one model"))
        for i, (x, y) in enumerate(zip(leaves, kept, strict=True)):
            if np.shape(y) not in ((), np.shape(x)):
                path, shapes = tree.path_of(spec, i, names[0]), (np.shape(x), np.shape(y))
                raise note_user_line(
                    ShapeError(f"{path} has shape {shapes[0]}, but {shapes[1]} in {names[1]}; both are for one model")
                )
        beside.append(kept)
    return leaves, beside, spec


def rebuilt(spec: tree.TreeDef, columns: Sequence[Sequence[Any]], n: int) -> tuple[Any, ...]:
    """`n` trees of the rows of leaf results."""
    return tuple([tree.unflatten(spec, [c[i] for c in columns]) for i in range(n)])


__all__ = [
    "EmptyState", "GradientTransformation", "ScaleByScheduleState", "apply_updates", "chain", "global_norm",
    "identity", "masked", "scale", "scale_by_learning_rate", "scale_by_schedule", "set_to_zero", "stateless",
]  # fmt: skip
