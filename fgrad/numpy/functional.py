"""Functions that take functions: along axes, over axes, over all elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import as_array, axes_of, axis_of
from fgrad.numpy.shapes import broadcast_shapes, expand_dims, moveaxis, reshape
from fgrad.trace.arraylike import Array
from fgrad.trace.frames import trimmed
from fgrad.trace.tracer import ArrayLike
from fgrad.trace.vmap import vmap

__all__ = ["apply_along_axis", "apply_over_axes", "iterable", "vectorize"]


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """func1d of every vector along `axis`; its result's axes stand in place of that axis.

    >>> apply_along_axis(lambda v: v[::-1], 1, array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int64)
    """
    x = as_array(arr)
    i = axis_of(axis, x.ndim, "apply_along_axis")
    mapped: Callable[..., Any] = lambda v: func1d(v, *args, **kwargs)  # noqa: E731
    for _ in range(x.ndim - 1):
        mapped = vmap(mapped)
    y = mapped(moveaxis(x, i, -1))
    inner = y.ndim - (x.ndim - 1)
    out: Array = moveaxis(y, tuple(range(x.ndim - 1, y.ndim)), tuple(range(i, i + inner))) if inner else y
    return out


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """func(a, axis) for one axis after the other; axes that it removes are put back with size 1.

    >>> apply_over_axes(sum, ones((2, 3, 4)), (0, 2)).shape
    (1, 3, 1)
    """
    x = as_array(a)
    for i in axes_of(axes, x.ndim, "apply_over_axes"):
        y = func(x, i)
        if y.ndim == x.ndim - 1:
            y = expand_dims(y, i)
        if y.ndim != x.ndim:
            raise note_user_line(
                ShapeError(f"apply_over_axes: func turned shape {x.shape} into {y.shape}; it may remove one axis")
            )
        x = y
    return x


def iterable(y: Any) -> bool:
    """Whether `iter(y)` works.

    0-d arrays cannot be iterated over.

    >>> iterable(array([1, 2])), iterable(array(1))
    (True, False)
    """
    return bool(np.iterable(y)) and not (isinstance(y, Array) and y.ndim == 0)


_TERM = re.compile(r"\(([^()]*)\)")


def _signature(text: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """ "(n,m),(m)->(n)" as names of the core axes of arguments and results."""
    compact = text.replace(" ", "")
    if not re.fullmatch(r"(\([^()]*\)(,\([^()]*\))*)?->\([^()]*\)(,\([^()]*\))*", compact):
        raise note_user_line(ArgumentError(f'vectorize: signature {text!r} is not of the form "(n,m),(m)->(n)"'))
    left, _, right = compact.partition("->")
    return tuple([[tuple([n for n in t.split(",") if n]) for t in _TERM.findall(s)] for s in (left, right)])  # type: ignore[return-value]


def _check_results(out: Any, cores: list[tuple[str, ...]], sizes: dict[str, int], what: str) -> None:
    """Raise unless the results are as many as `cores`, with axes of these names; `sizes` are those of the arguments."""
    if len(cores) > 1 and not isinstance(out, tuple):
        raise note_user_line(
            ArgumentError(f"{what}: output must be a tuple of {len(cores)} arrays, got {type(out).__name__}")
        )
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != len(cores):
        raise note_user_line(
            ArgumentError(f"{what}: wrong number of output arguments: expected {len(cores)}, got {len(outs)}")
        )
    known = dict(sizes)
    for o, core in zip(outs, cores, strict=True):
        shape = np.shape(o)
        if len(shape) != len(core):
            raise note_user_line(
                ShapeError(f"{what}: the results do not have its axes: ({','.join(core)}) has shape {shape}")
            )
        for name, n in zip(core, shape, strict=True):
            if known.setdefault(name, n) != n:
                raise note_user_line(
                    ShapeError(f"{what}: axis {name} has {known[name]} elements, and {n} in a result of shape {shape}")
                )


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = (),
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function of scalars (or of arrays with the core axes of `signature`), mapped over all other axes.

    excluded    positions (or names) of arguments that are passed on as they are
    signature   "(n,m),(m)->(n)": the core axes at the end of every argument and result; the others
                broadcast

    >>> vectorize(lambda a, b: a * b + 1)(array([1, 2]), array([[1], [3]]))
    Array([[2, 3],
           [4, 7]], dtype=int64)
    >>> vectorize(dot, signature="(n),(n)->()")(ones((2, 3)), arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    core_in, core_out = (None, None) if signature is None else _signature(signature)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = [k for k in kwargs if k not in excluded]
        if names:
            raise note_user_line(
                ArgumentError(f"vectorize: keyword arguments {names} are not mapped; list them in excluded=")
            )
        places = [k for k in range(len(args)) if k not in excluded]
        if core_in is not None and len(places) != len(core_in):
            raise note_user_line(
                ArgumentError(f"vectorize: {signature!r} has {len(core_in)} arguments, got {len(places)}")
            )
        arrays = [as_array(args[k]) for k in places]
        cores = [()] * len(arrays) if core_in is None else core_in
        sizes: dict[str, int] = {}
        for x, core in zip(arrays, cores, strict=True):
            if x.ndim < len(core):
                raise note_user_line(
                    ShapeError(f"vectorize: an argument of shape {x.shape} needs the axes ({','.join(core)})")
                )
            for name, n in zip(core, x.shape[x.ndim - len(core) :], strict=True):
                if sizes.setdefault(name, n) != n:
                    raise note_user_line(ShapeError(f"vectorize: axis {name} has {sizes[name]} and {n} elements"))
        loops = [x.shape[: x.ndim - len(core)] for x, core in zip(arrays, cores, strict=True)]
        full = broadcast_shapes(*loops) if loops else ()

        def call(*mapped: Any) -> Any:
            given = list(args)
            for k, x in zip(places, mapped, strict=True):
                given[k] = x
            out = pyfunc(*given, **kwargs)
            if core_out is not None:
                _check_results(out, core_out, sizes, f"vectorize with the signature {signature!r}")
            return out

        f: Callable[..., Any] = call
        squeezed = list(arrays)
        for back in range(1, len(full) + 1):  # the innermost loop axis is mapped first
            in_axes = []
            for k, own in enumerate(loops):
                mapped_here = len(own) >= back and not (own[-back] == 1 and full[-back] != 1)
                in_axes.append(0 if mapped_here else None)
                if len(own) >= back and not mapped_here:
                    gone = len(own) - back
                    squeezed[k] = reshape(squeezed[k], squeezed[k].shape[:gone] + squeezed[k].shape[gone + 1 :])
            f = vmap(f, in_axes=tuple(in_axes), axis_size=full[-back])
        return f(*squeezed)

    wrapped.__name__ = getattr(pyfunc, "__name__", "vectorized")
    wrapped.__doc__ = pyfunc.__doc__
    return trimmed(wrapped)
