"""Kernels written by users: a body that reads and writes Refs, run over a grid.

The body is traced like any other function. Its Refs are versions, so the library knows exactly what it reads and
writes, in which order, and can differentiate, batch and run it on every device; lowering puts the versions back
into memory, in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgrad.errors import ArgumentError, ShapeError
from fgrad.lax import fori_loop
from fgrad.run.inspect import ShapeDtypeStruct
from fgrad.trace import tree
from fgrad.trace.apply import apply, close_over, operand
from fgrad.trace.custom_vjp import custom_vjp
from fgrad.trace.frames import trim_public, trimmed
from fgrad.trace.ref import freeze, new_ref
from fgrad.trace.stage import Stage, is_tracing
from fgrad.trace.staging import function_name
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval

__all__ = ["kernel_call", "num_programs", "program_id"]

_grids: list[tuple[tuple[int, ...], list[Any]]] = []


def program_id(axis: int) -> Any:
    """The position of this run of the kernel's body along `axis` of the grid, an int64 scalar.

    Raises ArgumentError outside of a kernel's body, and for an axis that the grid has not.

    >>> def body(y):
    ...     i = program_id(0)
    ...     y[i] = i * i
    >>> kernel_call(body, ((4,), "int64"), grid=4)()
    Array([0, 1, 4, 9], dtype=int64)
    """
    return _innermost(axis)[1][axis]


def num_programs(axis: int) -> int:
    """The size of the grid along `axis`.

    Raises ArgumentError outside of a kernel's body, and for an axis that the grid has not.

    >>> def body(y):
    ...     y[program_id(0)] = num_programs(0)
    >>> kernel_call(body, ((3,), "int64"), grid=3)()
    Array([3, 3, 3], dtype=int64)
    """
    return _innermost(axis)[0][axis]


def _innermost(axis: int) -> tuple[tuple[int, ...], list[Any]]:
    if not _grids:
        raise ArgumentError("program_id and num_programs are for the body of a kernel_call")
    grid = _grids[-1]
    if not 0 <= axis < len(grid[0]):
        raise ArgumentError(f"the grid {grid[0]} has no axis {axis}")
    return grid


def _struct(x: Any) -> ShapeDtypeStruct:
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapeDtypeStruct(x.shape, x.dtype)
    shape, dtype = x
    return ShapeDtypeStruct(shape, dtype)


def _is_struct(x: Any) -> bool:
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return True
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], tuple) and all(isinstance(n, int) for n in x[0])


def kernel_call(
    body: Callable[..., None],
    out_shape: Any,
    grid: int | Sequence[int] = (),
    input_output_aliases: Mapping[int, int] | None = None,
    grad_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Callable[..., Any]:
    """A function of arrays that runs `body(*in_refs, *out_refs)` for every point of `grid`, in row-major order.

    out_shape              a pytree of ShapeDtypeStructs or (shape, dtype) pairs: the results. What the body does not
                           write is zero
    input_output_aliases   {input: output}: that output begins with the contents of that input
    grad_fn                `grad_fn(args, outs, cts) -> cotangents of args` (None: no gradient); without it the body is
                           differentiated like any function
    name                   for messages and listings; never part of a cache key

    A body may read and write both its input and its output Refs; writes to an input Ref stay inside the call.

    >>> double = kernel_call(lambda x, y: y.__setitem__(..., x[...] * 2), ((3,), "float32"))
    >>> double(fnp.ones(3))
    Array([2., 2., 2.], dtype=float32)
    """
    structs, out_tree = tree.flatten(out_shape, is_leaf=_is_struct)
    outs = [_struct(s) for s in structs]
    sizes = (grid,) if isinstance(grid, int) else tuple(grid)
    aliases = dict(input_output_aliases or {})
    label = name or function_name(body)
    if len(set(aliases.values())) != len(aliases):
        raise ArgumentError(f"kernel {label}: two inputs are aliased to one output in {aliases}")

    def run(*args: Any) -> list[Any]:
        tracers = [lift(a) for a in args]
        sources: dict[int, Tracer] = {}
        for i, o in aliases.items():
            if not (0 <= i < len(args) and 0 <= o < len(outs)):
                raise ArgumentError(f"kernel {label}: the alias {i} -> {o} is out of range")
            if tracers[i].shape != outs[o].shape or tracers[i].dtype != outs[o].dtype:
                raise ShapeError(
                    f"kernel {label}: input {i} ({tracers[i].aval}) is aliased to output {o} "
                    f"({outs[o].dtype}{list(outs[o].shape)}); they must have one shape and dtype"
                )
            sources[o] = tracers[i]
        results = [
            new_ref(sources[o] if o in sources else Tracer(build.const(0, dt.to_dtype(s.dtype), s.shape)))
            for o, s in enumerate(outs)
        ]
        by_input = {i: results[o] for i, o in aliases.items()}
        inputs = [by_input[i] if i in by_input else new_ref(t) for i, t in enumerate(tracers)]

        def point(flat: Any) -> None:
            ids, rest = [], flat
            for k in range(len(sizes)):
                below = math.prod(sizes[k + 1 :])
                ids.append(rest // below if below > 1 else rest)
                rest = rest % below if below > 1 else rest
            _grids.append((sizes, ids))
            try:
                body(*inputs, *results)
            finally:
                _grids.pop()

        if math.prod(sizes) == 1:
            point(Tracer(build.const(0, dt.int64)))
        else:
            fori_loop(0, math.prod(sizes), lambda i, _: point(i), None)
        for ref in inputs:
            if all(ref is not r for r in results):
                freeze(ref)
        return [freeze(r) for r in results]

    run.__name__ = label

    def whole(*args: Any) -> Any:
        """All of it as one program, also outside of a stage."""
        if is_tracing():
            return tuple(run(*args))
        leaves, _ = tree.flatten(args)
        operands = [operand(x) for x in leaves]
        closed = close_over(run, operands, tree.structure((tuple(leaves), {})), Stage(f"kernel {label}"))
        got = apply(closed.program, closed.nodes, [a.weak for a in closed.out_avals], closed.refs)
        return tuple(got[: len(closed.out_avals)])

    call = whole
    if grad_fn is not None:
        given = grad_fn
        differentiable = custom_vjp(whole)

        def forward(*args: Any) -> Any:
            got = whole(*args)
            return got, (args, got)

        def backward(kept: Any, cts: Any) -> Any:
            args, got = kept
            single = out_tree.is_leaf()
            back = given(args, got[0] if single else tree.unflatten(out_tree, got),
                         cts[0] if single else tree.unflatten(out_tree, cts))  # fmt: skip
            if not isinstance(back, tuple | list) or len(back) != len(args):
                raise TypeError(
                    f"kernel {label}: grad_fn must return one cotangent (or None) for each of {len(args)} arguments"
                )
            return tuple(back)

        differentiable.defvjp(forward, backward)
        call = differentiable  # type: ignore[assignment]

    def kernel(*args: Any) -> Any:
        for i, a in enumerate(args):
            _check_argument(a, i, label)
        return tree.unflatten(out_tree, list(call(*args)))

    kernel.__name__ = label
    return trimmed(kernel)


def _check_argument(x: Any, i: int, label: str) -> Aval:
    try:
        return lift(x).aval
    except TypeError as e:
        raise TypeError(f"kernel {label}: argument {i}: {e}") from None

trim_public(globals(), __all__)
