"""Which arguments a function is differentiated with respect to, and whether they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, describe
from fgrad.trace import tree
from fgrad.trace.staging import function_name
from fgrad.trace.tracer import Tracer
from fgrad.trace.tree import float0
from fgrad.uop.aval import Aval

ArgNums = int | Sequence[int]


def positions_of(argnums: ArgNums, args: Sequence[Any], what: str) -> tuple[int, ...]:
    """argnums as non-negative positions in `args`."""
    many: tuple[Any, ...] = (argnums,) if isinstance(argnums, int | str) else tuple(argnums)
    for i in many:
        if not isinstance(i, int):
            raise ArgumentError(f"{what}: argnums are positions of arguments, integers from 0 on, got {argnums!r}")
        if not -len(args) <= i < len(args):
            raise ArgumentError(
                f"{what} with argnums={argnums} needs that argument by position, but was called with {len(args)} "
                f"positional argument{'s' if len(args) != 1 else ''}"
            )
    return tuple([i % len(args) for i in many])


def bind(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], at: Sequence[int]
) -> Callable[..., Any]:
    """`fun` as a function of the arguments at positions `at` only."""

    def bound(*moving: Any) -> Any:
        full = list(args)
        for i, x in zip(at, moving, strict=True):
            full[i] = x
        return fun(*full, **kwargs)

    bound.__name__ = function_name(fun)
    return bound


def without_aux(fun: Callable[..., Any], what: str) -> tuple[Callable[..., Any], list[Any]]:
    """`fun` returning (out, aux), as a function that returns (out, aux) with aux checked to be a pair."""
    sizes: list[Any] = []

    def pair(*args: Any, **kwargs: Any) -> Any:
        result = fun(*args, **kwargs)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(
                f"{what} with has_aux=True needs a function that returns a pair (output, aux), but "
                f"{function_name(fun)} returned {describe(result)}"
            )
        sizes.append(tree.structure(result[0]))
        return result

    pair.__name__ = function_name(fun)
    return pair, sizes


def need_differentiable(
    operands: Sequence[Tracer],
    spec: tree.TreeDef,
    what: str,
    holomorphic: bool,
    allow_int: bool,
    at: Sequence[int] | None = None,
) -> None:
    """Raise DtypeError for operands, leaves of a tuple of the arguments at positions `at`, that have no derivative."""
    for i, t in enumerate(operands):
        dtype = t.node.dtype
        first, *steps = spec.accessors()[i]
        path = f"args[{first.entry if at is None else at[first.entry]}]" + "".join([s.codify("") for s in steps])
        if holomorphic:
            if not dtype.is_complex:
                raise DtypeError(
                    f"{what} with holomorphic=True requires inputs with complex dtype, but got {dtype} ({path})"
                )
        elif dtype.is_complex and what == "jacfwd":
            raise DtypeError(
                f"jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got {dtype} "
                f"({path}); use holomorphic=True for the derivative of a holomorphic function, or jvp"
            )
        elif dtype.is_complex and what != "jacrev":
            continue
        elif not dtype.is_inexact and not allow_int:
            raise DtypeError(
                f"{what} requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but "
                f"got {dtype} ({path}); convert it with .astype(float32), or leave it out of argnums, or pass "
                "allow_int=True"
            )


def zero_tangent(aval: Aval) -> Any:
    return np.zeros(aval.shape, float0)
