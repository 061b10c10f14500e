"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.contraction import contract
from fgrad.lax.derivatives import still_node
from fgrad.numpy.common import need, public
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.build import add, and_, div, exp, le, lt, mul, sub, where
from fgrad.uop.node import UOp
from fgrad.uop.op import Op


def _masked_softmax(x: UOp, mask: UOp | None) -> tuple[UOp, UOp]:
    """(softmax, logsumexp) over the last axis; rows without a visible element are 0 and -inf, their gradients 0."""
    axis = [x.ndim - 1]
    if mask is not None:
        x = where(mask, x, build.const_like(-math.inf, x))
    top = still_node(build.reduce_(x, axis, Op.MAX))
    top = where(lt(build.abs_(top), math.inf), top, build.const_like(0, top))
    parts = exp(sub(x, build.spread(top, x, axis)))
    total = build.reduce_(parts, axis)
    empty = build.eq(total, 0)
    total = where(empty, build.const_like(1, total), total)
    size = where(empty, build.const_like(-math.inf, total), add(build.log(total), top))
    return div(parts, build.spread(total, parts, axis)), size


def _visible(
    shape: tuple[int, ...],
    mask: UOp | None,
    is_causal: bool,
    lengths: tuple[UOp | None, UOp | None],
    window: tuple[int, int] | None,
) -> UOp | None:
    """Which keys every query sees, [b, n, t, s]; None for all."""
    parts: list[UOp] = [] if mask is None else [build.broadcast_to(mask, shape)]
    query, key = build.iota_along(shape, 2), build.iota_along(shape, 3)
    if is_causal:
        parts.append(le(key, query))
    if window is not None:
        left, right = window
        parts.append(and_(le(sub(query, left), key), le(key, add(query, right))))
    for position, length in zip((query, key), lengths, strict=True):
        if length is not None:
            spread = build.expand(build.cast(length, dt.int64), [(1, shape[1]), (2, shape[2]), (3, shape[3])])
            parts.append(lt(position, spread))
    out: UOp | None = None
    for p in parts:
        out = p if out is None else and_(out, p)
    return out


def _four_axes(x: UOp, name: str) -> UOp:
    if x.ndim not in (3, 4):
        raise note_user_line(
            ShapeError(
                f"dot_product_attention needs {name} as [.., length, heads, depth] of 3 or 4 axes, got {x.shape}"
            )
        )
    return x if x.ndim == 4 else build.reshape(x, (1, *x.shape))


@public(static=("is_causal", "local_window_size", "implementation", "return_residual"))
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query key^T * scale + bias) value.

    query        [b, t, n, h] (or without b); key, value [b, s, k, h]: n heads share k <= n key
                 heads
    bias, mask   broadcast to [b, n, t, s]; the mask is bool, true where a key is seen
    scale        1 / sqrt(h) by default
    is_causal    a query sees the keys up to its own position
    local_window_size   so many keys to the left and right are seen
    return_residual     -> (the result, logsumexp of the logits [b, t, n])

    Logits and softmax are computed in float32 for half types. A query that sees no key gives 0.

    >>> q = fnp.ones((1, 2, 1, 4))
    >>> nn.dot_product_attention(q, q, q, is_causal=True).shape
    (1, 2, 1, 4)
    """
    if implementation not in (None, "xla"):
        raise note_user_line(ArgumentError(f"there is one implementation of attention; got {implementation!r}"))
    (q, k, v), dtype, weak = promoted(query, key, value)
    need(dtype.is_float, "dot_product_attention", f"it takes floating arrays, not {dtype}")
    is_single = q.ndim == 3
    q, k, v = _four_axes(q, "query"), _four_axes(k, "key"), _four_axes(v, "value")
    b, t, n, h = q.shape
    s, heads = k.shape[1:3]
    if k.shape != (b, s, heads, h) or v.shape[:3] != k.shape[:3] or n % heads:
        raise note_user_line(
            ShapeError(
                f"dot_product_attention: query {q.shape}, key {k.shape} and value {v.shape} do "
                f"not fit; the batch and depth "
                "are the same, and the number of query heads is a multiple of the key heads"
            )
        )
    inner = dt.accumulator(dtype)
    q, k, v = [build.cast(x, inner) for x in (q, k, v)]
    q = build.reshape(q, (b, t, heads, n // heads, h))
    logits = contract(q, k, ([4], [3]), ([0, 2], [0, 2]))  # [b, heads, t, group, s]
    logits = build.reshape(build.permute(logits, [0, 1, 3, 2, 4]), (b, n, t, s))
    logits = mul(logits, 1 / math.sqrt(h) if scale is None else cast_node(scale, inner))
    if bias is not None:
        logits = add(logits, build.broadcast_to(_four(bias, inner), logits.shape))
    window = (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size
    lengths = [None if x is None else lift(x).node for x in (query_seq_lengths, key_value_seq_lengths)]
    shown = None if mask is None else _four(mask, dt.bool_)
    seen = _visible(logits.shape, shown, is_causal, (lengths[0], lengths[1]), window)
    weights, residual = _masked_softmax(logits, seen)
    weights = build.reshape(weights, (b, heads, n // heads, t, s))
    out = contract(weights, v, ([4], [1]), ([0, 1], [0, 2]))  # [b, heads, group, t, depth]
    out = build.reshape(build.permute(out, [0, 3, 1, 2, 4]), (b, t, n, v.shape[3]))
    residual = build.permute(residual, [0, 2, 1])
    if is_single:
        out, residual = (build.reshape(x, x.shape[1:]) for x in (out, residual))
    result = Tracer(build.cast(out, dtype), weak)
    return (result, Tracer(build.cast(residual, dtype), weak)) if return_residual else result


def _four(x: Any, dtype: dt.DType) -> UOp:
    node = cast_node(x, dtype)
    return build.reshape(node, (*(1,) * (4 - node.ndim), *node.shape)) if node.ndim < 4 else node


__all__ = ["dot_product_attention"]
