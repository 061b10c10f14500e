"""From Python functions to the closed programs of loops and branches.

Several functions that run on the same operands (branches; condition and body) are closed
together: what any of them captures
becomes an operand of all. A Ref that one of them writes becomes an operand and a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from fgrad.errors import ArgumentError, note_user_line
from fgrad.trace import tree
from fgrad.trace.apply import apply, close_over, operand
from fgrad.trace.ref import Ref, hide_refs, show_refs
from fgrad.trace.stage import Stage, check_leaks, is_tracing
from fgrad.trace.staging import Traced
from fgrad.trace.tracer import Tracer, is_arraylike
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param
from fgrad.uop.program import Program, close, closure

F = TypeVar("F", bound=Callable[..., Any])


def as_one_program(what: str) -> Callable[[F], F]:
    """Decorate a function of (functions and arrays): outside of any stage a call of it is traced,
    compiled and run as a whole.

    Array arguments may be pytrees; leaves that are no arrays (functions, flags) are passed through.
    """

    def decorate(body: F) -> F:
        @wraps(body)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_tracing():
                return body(*args, **kwargs)
            leaves, spec = tree.flatten((args, kwargs), is_leaf=callable)
            moving = [
                i
                for i, x in enumerate(leaves)
                if is_arraylike(x) and not isinstance(x, bool | int) and not tree.is_nothing(x)
            ]

            def run(*arrays: Any) -> Any:
                full = list(leaves)
                for i, x in zip(moving, arrays, strict=True):
                    full[i] = x
                a, k = tree.unflatten(spec, full)
                return hide_refs(body(*a, **k))

            operands = [operand(leaves[i]) for i in moving]
            in_tree = tree.structure((tuple([0] * len(moving)), {}))
            closed = close_over(run, operands, in_tree, Stage(what))
            results = apply(closed.program, closed.nodes, [a.weak for a in closed.out_avals], closed.refs)
            return show_refs(tree.unflatten(closed.out_tree, results[: len(closed.out_avals)]))

        return cast(F, wrapper)

    return decorate


# ---- Refs and captures
def with_refs(f: F) -> F:
    """`f`, given pytrees in which Refs are hidden."""

    @wraps(f)
    def shown(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = show_refs((args, kwargs))
        return f(*args, **kwargs)

    return cast(F, shown)


def refs_of(functions: Sequence[Traced]) -> tuple[list[Ref], list[Ref]]:
    """-> (Refs that are only read, Refs that some function writes), in order of first touch."""
    every: dict[Ref, None] = {}
    written: dict[Ref, None] = {}
    for t in functions:
        every.update(dict.fromkeys(t.refs))
        written.update({t.refs[i]: None for i, _ in t.finals})
    return [r for r in every if r not in written], list(written)


def close_together(
    functions: Sequence[tuple[Sequence[UOp], Sequence[UOp]]], what: str
) -> tuple[list[UOp], list[Program]]:
    """(params, outs) of several functions -> (captured outer nodes, Programs over (*captured, *params))."""
    closed = [closure(params, outs) for params, outs in functions]
    union: dict[UOp, None] = {}
    for captured, _ in closed:
        union.update(dict.fromkeys(captured))
    everything = list(union)
    check_leaks(everything, what)
    programs = []
    for (params, _), (captured, program) in zip(functions, closed, strict=True):
        if captured == everything:
            programs.append(program)
            continue
        fresh = {c: open_param(c.dtype, c.shape, "captured") for c in everything}
        own = [open_param(p.dtype, p.shape) for p in params]
        outs = program.inline([*[fresh[c] for c in captured], *own])
        programs.append(close([*fresh.values(), *own], outs))
    return everything, programs


# ---- types of carries and results
def describe(aval: Aval) -> str:
    """dtype[shape] as in messages."""
    return str(Aval(aval.dtype, aval.shape))


def fits(node: UOp, weak: bool, aval: Aval) -> UOp | None:
    """`node` as a value of `aval`: itself, cast when only its weak dtype differs, or None."""
    if node.shape != aval.shape:
        return None
    if node.dtype is aval.dtype:
        return node
    if weak and dt.promote((node.dtype, True), (aval.dtype, False))[0] is aval.dtype:
        return build.cast(node, aval.dtype)
    return None


def wider(old: Aval, node: UOp, weak: bool) -> Aval | None:
    """The aval that a weak initial value takes when the body gives a stronger dtype; None when they cannot agree."""
    if node.shape != old.shape or not old.weak or weak:
        return None
    return Aval(node.dtype, old.shape) if node.dtype is not old.dtype else None


def mismatch(what: str, path: str, want: Aval, got: Aval) -> ArgumentError:
    """The error for a result at `path` that does not have the type it must have."""
    if want.dtype is got.dtype:
        way_out = "return an array of that shape"
    else:
        way_out = f"convert it with .astype, or start from a value of dtype {got.dtype}"
    return note_user_line(
        ArgumentError(
            f"{what}: {path} must have type {describe(want)}, as it began, but the function "
            f"returned "
            f"{describe(got)}; {way_out}"
        )
    )


def tracers(nodes: Sequence[UOp], weak: Sequence[bool]) -> list[Tracer]:
    """Tracers of nodes with their weakness."""
    return [Tracer(n, w) for n, w in zip(nodes, weak, strict=True)]


__all__ = [
    "as_one_program", "close_together", "describe", "fits", "mismatch", "refs_of", "tracers", "wider", "with_refs",
]  # fmt: skip
