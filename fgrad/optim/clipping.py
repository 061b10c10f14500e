"""Transformations that keep updates small, and weight decay."""

from __future__ import annotations

from typing import Any

from fgrad.errors import ArgumentError, note_user_line
from fgrad.optim.transformation import (
    GradientTransformation,
    Params,
    Updates,
    global_norm,
    masked,
    needs_params,
    stateless,
    wide,
)  # fmt: skip
from fgrad.run.eager import public
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop.build import add, div, mul, where


def _positive(value: float, what: str) -> None:
    if isinstance(value, int | float) and not value > 0:
        raise note_user_line(ArgumentError(f"{what} must be positive, got {value}"))


@public()
def _clipped(u: ArrayLike, limit: ArrayLike) -> Array:
    t = lift(u)
    top = cast_node(limit, t.node.dtype)
    return Tracer(build.minimum(build.maximum(t.node, build.neg(top)), top), t.weak)


def clip(max_delta: float) -> GradientTransformation:
    """Moves every element of the updates into [-max_delta, max_delta].

    >>> t = optim.clip(1.0)
    >>> t.update(fnp.array([3.0, -0.5]), t.init(fnp.zeros(2)))[0]
    Array([ 1. , -0.5], dtype=float32)
    """
    _positive(max_delta, "clip's max_delta")
    return stateless(lambda updates, _: tree.map_(lambda u: _clipped(u, max_delta), updates))


@public()
def _shortened(leaves: list[Any], norm: ArrayLike, limit: ArrayLike) -> list[Array]:
    length = lift(norm).node
    top = cast_node(limit, length.dtype)
    is_short = build.lt(length, top)
    factor = where(is_short, build.const_like(1, length), div(top, where(is_short, top, length)))
    out: list[Array] = []
    for x in leaves:
        t = lift(x)
        inner = wide(t.node)
        shorter = build.cast(mul(inner, build.cast(factor, inner.dtype)), t.node.dtype)
        out.append(Tracer(shorter, t.weak))
    return out


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Shortens all updates together so that their global norm is at most `max_norm`.

    Shorter updates pass.

    >>> t = optim.clip_by_global_norm(1.0)
    >>> t.update(fnp.array([3.0, 4.0]), t.init(fnp.zeros(2)))[0]
    Array([0.6, 0.8], dtype=float32)
    """
    _positive(max_norm, "clip_by_global_norm's max_norm")

    def shortened(updates: Updates, params: Params) -> Updates:
        leaves, spec = tree.flatten(updates)
        return tree.unflatten(spec, _shortened(leaves, global_norm(updates), max_norm) if leaves else [])

    return stateless(shortened)


@public()
def _decayed(u: ArrayLike, p: ArrayLike, rate: ArrayLike) -> Array:
    t = lift(u)
    inner = wide(t.node)
    weight = cast_node(p, inner.dtype)
    return Tracer(build.cast(add(inner, mul(weight, cast_node(rate, inner.dtype))), t.node.dtype), t.weak)


def add_decayed_weights(weight_decay: float = 0.0, mask: Any = None) -> GradientTransformation:
    """Adds weight_decay * parameter to every update.

    mask   tree of bools (or a function of the parameters): which parameters decay

    >>> t = optim.add_decayed_weights(0.1)
    >>> t.update(fnp.array([1.0]), t.init(fnp.array([2.0])), fnp.array([2.0]))[0]
    Array([1.2], dtype=float32)
    """

    def decayed(updates: Updates, params: Params) -> Updates:
        needs_params("add_decayed_weights", params)
        return tree.map_(lambda u, p: _decayed(u, p, weight_decay), updates, params)

    inner = stateless(decayed)
    return inner if mask is None else masked(inner, mask)


__all__ = ["add_decayed_weights", "clip", "clip_by_global_norm"]
