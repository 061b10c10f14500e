"""Reductions over sliding windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.reductions import Combining, folded, identity_of, monoid_of, with_init
from fgrad.lax.shapes import padded
from fgrad.numpy.common import public
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_real, is_scalar, lift
from fgrad.uop import build
from fgrad.uop.node import UOp
from fgrad.uop.op import Op


def pads_of(
    padding: Any, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """`padding` as one (low, high) for each axis: worked out for "SAME", "SAME_LOWER" and
    "VALID".
    """
    if isinstance(padding, str):
        name = padding.upper()
        if name == "VALID":
            return [(0, 0)] * len(sizes)
        if name not in ("SAME", "SAME_LOWER"):
            raise note_user_line(
                ArgumentError(f'padding is "SAME", "SAME_LOWER", "VALID" or pairs of ints, got {padding!r}')
            )
        out = []
        for n, k, s in zip(sizes, windows, strides, strict=True):
            total = max((-(-n // s) - 1) * s + k - n, 0)
            less, more = total // 2, total - total // 2
            out.append((less, more) if name == "SAME" else (more, less))
        return out
    pairs = [tuple([int(p) for p in pair]) for pair in padding]
    if len(pairs) != len(sizes) or any(len(p) != 2 for p in pairs):
        raise note_user_line(
            ArgumentError(f"padding needs one (low, high) for each of {len(sizes)} axes, got {padding!r}")
        )
    return [(lo, hi) for lo, hi in pairs]


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
) -> list[tuple[int, int]]:
    """`padding` as one (low, high) for each axis.

    padding   "SAME", "SAME_LOWER", "VALID", or pairs, which are returned

    >>> lax.padtype_to_pads((5,), (3,), (2,), "SAME")
    [(1, 1)]
    """
    shapes = [tuple([int(n) for n in row]) for row in (in_shape, window_shape, window_strides)]
    return pads_of(padding, *shapes)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """Every window of `operand` combined by `computation(x, y)`, an associative function.

    operand            an array, or a pytree of arrays of one shape, which `computation` takes together
    init_value         what each window starts from, and what stands outside of the operand; a tree like `operand`
    computation        of two trees of arrays; one of add, mul, max, min, and, or, xor is fastest
    window_dimensions  size of the window along every axis; strides and dilations likewise, 1 by
                       default
    padding            "SAME", "VALID", or one (low, high) for each axis

    Raises ShapeError and ArgumentError where shapes, windows and initial values do not fit.

    >>> reduce_window(fnp.arange(4.0), 0.0, lax.add, (2,))
    Array([1., 3., 5.], dtype=float32)
    """
    leaves, spec = tree.flatten(operand)
    inits = tree.leaves_of(init_value)
    if len(inits) != len(leaves) or len({lift(x).shape for x in leaves}) != 1:
        raise note_user_line(
            ArgumentError(
                f"reduce_window needs arrays of one shape and an initial value for each, got {len(inits)} for shapes "
                f"{[lift(x).shape for x in leaves]}"
            )
        )
    how = tuple(window_dimensions), window_strides, padding, base_dilation, window_dilation
    op = monoid_of(computation, lift(leaves[0]).node.dtype) if len(leaves) == 1 else None
    if op is None:
        out: Array = tree.unflatten(spec, _fold_windows(leaves, inits, Combining(computation, spec), *how))
        return out
    known = is_scalar(inits[0])
    one = _reduce_window(leaves[0], None if known else inits[0], inits[0] if known else None, op, *how)
    out = tree.unflatten(spec, [one])
    return out


def _factors(values: Any, n: int, what: str) -> tuple[int, ...]:
    out = (1,) * n if values is None else tuple([int(v) for v in values])
    if len(out) != n or any(v < 1 for v in out):
        raise note_user_line(ArgumentError(f"reduce_window needs {n} {what} of at least 1, got {values!r}"))
    return out


def _opened(
    node: UOp, outside: UOp, window: Any, strides: Any, padding: Any, grown: Any, spaced: Any
) -> tuple[UOp, list[int]]:
    """-> ([positions.., inside a window..], the axes inside); `outside` is the scalar that stands in the padding."""
    n = node.ndim
    if len(window) != n:
        raise note_user_line(
            ShapeError(f"reduce_window of shape {node.shape} needs {n} window_dimensions, got {window}")
        )
    window = _factors(window, n, "window_dimensions")
    strides = _factors(strides, n, "window_strides")
    grown, spaced = (
        _factors(grown, n, "base_dilation factors"),
        _factors(spaced, n, "window_dilation factors"),
    )
    sizes = [(m - 1) * d + 1 if m else 0 for m, d in zip(node.shape, grown, strict=True)]
    spans = [(k - 1) * d + 1 for k, d in zip(window, spaced, strict=True)]
    pads = pads_of(padding, sizes, spans, strides)
    rows = [(lo, hi, d - 1) for (lo, hi), d in zip(pads, grown, strict=True)]
    node = padded(node, rows, outside)
    for axis, (k, s, d) in enumerate(zip(window, strides, spaced, strict=True)):
        if k == 1 and s == 1:
            continue
        node = build.window(node, axis, k, s, d)
    return node, list(range(n, node.ndim))


_HOW = ("window", "strides", "padding", "grown", "spaced")


@public(static=("static", "op", *_HOW))
def _reduce_window(
    x: ArrayLike, init: Any, static: Any, op: Op, window: Any, strides: Any, padding: Any, grown: Any, spaced: Any
) -> Array:
    t = lift(x)
    nothing = build.const(identity_of(op, t.node.dtype), t.node.dtype)
    node, axes = _opened(t.node, nothing, window, strides, padding, grown, spaced)
    return Tracer(with_init(op, build.reduce_(node, axes, op), init if static is None else static), t.weak)


@public(static=("combine", *_HOW))
def _fold_windows(
    xs: list[Any], inits: list[Any], combine: Combining,
    window: Any, strides: Any, padding: Any, grown: Any, spaced: Any,
) -> list[Array]:  # fmt: skip
    nodes = [lift(x).node for x in xs]
    starts = [cast_real(i, x.dtype) for i, x in zip(inits, nodes, strict=True)]
    opened = [_opened(x, i, window, strides, padding, grown, spaced) for x, i in zip(nodes, starts, strict=True)]
    return [Tracer(v) for v in folded([x for x, _ in opened], starts, combine, opened[0][1])]


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape that `reduce_window` gives.

    >>> lax.reduce_window_shape_tuple((5, 5), (2, 2), (2, 2), "VALID")
    (2, 2)
    """
    n = len(operand_shape)
    grown, spaced = _factors(base_dilation, n, "base_dilation factors"), _factors(window_dilation, n, "dilations")
    sizes = [(m - 1) * d + 1 if m else 0 for m, d in zip(operand_shape, grown, strict=True)]
    spans = [(k - 1) * d + 1 for k, d in zip(window_dimensions, spaced, strict=True)]
    pads = pads_of(padding, sizes, spans, window_strides)
    rows = zip(sizes, spans, window_strides, pads, strict=True)
    return tuple([max(0, (m + lo + hi - k) // s + 1) for m, k, s, (lo, hi) in rows])


__all__ = ["padtype_to_pads", "reduce_window", "reduce_window_shape_tuple"]
