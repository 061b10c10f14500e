"""associative_scan: running combinations by any associative function, in logarithmic depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.lax.staging import as_one_program
from fgrad.numpy.common import axis_of
from fgrad.trace import tree
from fgrad.trace.staging import function_name
from fgrad.trace.tracer import Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop.node import UOp

Nodes = list[UOp]


def associative_scan(fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Running combinations along `axis`: out[i] = fn(.. fn(elems[0], elems[1]) .., elems[i]).

    fn       takes and returns trees structured as `elems`, works on many elements at once, and is
             associative
    reverse  combine from the end

    >>> associative_scan(fnp.add, fnp.arange(4))
    Array([0, 1, 3, 6], dtype=int64)
    """
    if not callable(fn):
        raise note_user_line(ArgumentError(f"associative_scan needs a function, got {type(fn).__name__}"))
    leaves = tree.leaves_of(elems)
    if not leaves:
        raise note_user_line(ArgumentError("associative_scan got no arrays"))
    sizes = set()
    for x in leaves:
        shape = lift(x).shape
        sizes.add(shape[axis_of(axis, len(shape), "associative_scan")])
    if len(sizes) > 1:
        raise note_user_line(
            ShapeError(f"associative_scan needs arrays of one length along axis {axis}, got {sorted(sizes)}")
        )
    return _prefix(fn, elems, {"reverse": bool(reverse), "axis": int(axis)})


@as_one_program("associative_scan")
def _prefix(fn: Callable[..., Any], elems: Any, how: dict[str, int]) -> Any:
    leaves, spec = tree.flatten(elems)
    weak = [lift(x).weak for x in leaves]
    nodes = [lift(x).node for x in leaves]
    axes = [how["axis"] % x.ndim for x in nodes]

    def combine(a: Nodes, b: Nodes) -> Nodes:
        left, right = [tree.unflatten(spec, [Tracer(v, w) for v, w in zip(s, weak, strict=True)]) for s in (a, b)]
        out, out_spec = tree.flatten(fn(left, right))
        name = function_name(fn)
        place = tree.difference(spec, out_spec, "the result")
        if place is not None:
            raise note_user_line(
                ArgumentError(
                    f"associative_scan: {name} must return the structure it is given, but {place[0]} is {place[2]}, "
                    f"and what it was given {place[1]}"
                )
            )
        for i, (y, x) in enumerate(zip(out, a, strict=True)):
            if lift(y).shape != x.shape:
                path = tree.path_of(spec, i, "the result")
                raise note_user_line(
                    ShapeError(
                        f"associative_scan: {name} must return arrays shaped like its arguments, which are many "
                        f"elements along the axis at once, but {path} has shape {lift(y).shape}, not {x.shape}"
                    )
                )
        return [cast_node(y, x.dtype) for y, x in zip(out, a, strict=True)]

    def every(xs: Nodes, start: int, stop: int, step: int = 1) -> Nodes:
        return [build.slice_axis(x, a, start, stop, step) for x, a in zip(xs, axes, strict=True)]

    def running(xs: Nodes) -> Nodes:
        """Combine pairs, run over the pairs, and put the elements between them back in."""
        n = xs[0].shape[axes[0]]
        if n < 2:
            return xs
        odd = running(combine(every(xs, 0, n - 1, 2), every(xs, 1, n, 2)))
        pairs = n // 2
        before = odd if n % 2 else every(odd, 0, pairs - 1)
        first = every(xs, 0, 1)
        even = first if n < 3 else _joined(first, combine(before, every(xs, 2, n, 2)), axes)
        return [_woven(e, o, a) for e, o, a in zip(even, odd, axes, strict=True)]

    if how["reverse"]:
        nodes = [build.flip(x, [a]) for x, a in zip(nodes, axes, strict=True)]
    out = running(nodes)
    if how["reverse"]:
        out = [build.flip(x, [a]) for x, a in zip(out, axes, strict=True)]
    return tree.unflatten(spec, [Tracer(x, w) for x, w in zip(out, weak, strict=True)])


def _joined(xs: Nodes, ys: Nodes, axes: list[int]) -> Nodes:
    return [build.concatenate([x, y], a) for x, y, a in zip(xs, ys, axes, strict=True)]


def _woven(even: UOp, odd: UOp, axis: int) -> UOp:
    """even[0], odd[0], even[1], .. along `axis`."""
    shape = list(even.shape)
    shape[axis] += odd.shape[axis]
    out = build.const(0, even.dtype, tuple(shape))
    for first, part in ((0, even), (1, odd)):
        box = [(first, part.shape[axis], 2) if i == axis else (0, n, 1) for i, n in enumerate(shape)]
        out = build.update(out, part, box=box)
    return out


__all__ = ["associative_scan"]
