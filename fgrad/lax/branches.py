"""cond and switch: one of several functions runs, chosen by a computed value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from fgrad.config import config
from fgrad.errors import ArgumentError, DtypeError, ShapeError, note_user_line
from fgrad.lax.staging import (
    as_one_program,
    close_together,
    refs_of,
    tracers,
    with_refs,
)
from fgrad.trace import tree
from fgrad.trace.apply import operand
from fgrad.trace.frames import trimmed
from fgrad.trace.ref import current, hide_refs
from fgrad.trace.stage import Stage, is_tracing
from fgrad.trace.staging import Traced, argument_names, function_name, trace
from fgrad.trace.tracer import ArrayLike, Tracer, is_arraylike, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, paused_gc, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Cond, gets

_NOTHING = object()
_numbers = count()  # of calls of cond


@trimmed
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NOTHING,
) -> Any:
    """true_fun(*operands) if `pred`, else false_fun(*operands); only the chosen one runs (under vmap: both).

    pred   a scalar; numbers count as true unless they are 0

    Both functions return the same structure, shapes and dtypes; ArgumentError says where they do
    not. Operands may be Refs.

    >>> cond(True, lambda x: x + 1, lambda x: x - 1, 3)
    Array(4, dtype=int64, weak_type=True)
    """
    if not (callable(true_fun) and callable(false_fun)):
        raise note_user_line(
            ArgumentError("cond needs two functions after the predicate: cond(pred, true_fun, false_fun, *operands)")
        )
    given = operands if operand is _NOTHING else (*operands, operand)
    shape = lift(pred).shape
    if shape != ():
        raise note_user_line(
            ShapeError(f"cond needs a scalar predicate, got shape {shape}; use where for a choice for each element")
        )
    if config.disable_jit and not is_tracing():
        return (true_fun if pred else false_fun)(*given)
    return _branch("cond", _truth(pred), (false_fun, true_fun), given)


@as_one_program("cond")
def _truth(pred: ArrayLike) -> Tracer:
    node = lift(pred).node
    return Tracer(build.cast(node if node.dtype is dt.bool_ else build.ne(node, 0), dt.int64))


@trimmed
def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _NOTHING,
) -> Any:
    """branches[index](*operands); an index outside is moved to the nearest branch.

    index   an integer scalar

    >>> switch(1, [fnp.sin, fnp.cos], 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    branches = tuple(branches)
    if not branches or not all(callable(b) for b in branches):
        raise note_user_line(ArgumentError("switch needs at least one branch, and every branch a function"))
    if not is_arraylike(index):
        raise note_user_line(
            DtypeError(f"switch needs an integer scalar index. Index type must be an integer, got {index!r}")
        )
    aval = lift(index).aval
    if aval.shape != () or not aval.dtype.is_int:
        kind = DtypeError if aval.shape == () else ShapeError
        what = "Index type must be an integer" if aval.shape == () else "Index must be scalar"
        raise note_user_line(kind(f"switch needs an integer scalar index. {what}, got {aval}"))
    given = operands if operand is _NOTHING else (*operands, operand)
    if len(branches) == 1:
        return branches[0](*given)
    if config.disable_jit and not is_tracing():
        return branches[min(max(int(index), 0), len(branches) - 1)](*given)
    return _branch("switch", _index(index), branches, given)


@as_one_program("switch")
def _index(index: ArrayLike) -> Tracer:
    node = lift(index).node
    if node.dtype is dt.uint64:
        node = build.minimum(node, (1 << 63) - 1)
    return Tracer(build.cast(node, dt.int64))


@as_one_program("cond")
def _branch(what: str, index: Any, branches: tuple[Callable[..., Any], ...], operands: tuple[Any, ...]) -> Any:
    leaves, in_tree = tree.flatten_arrays((hide_refs(operands), {}))
    args = [operand(x) for x in leaves]
    with paused_gc():
        avals = [t.aval for t in args]
        names = [argument_names(b, in_tree) for b in branches]
        number = next(_numbers)
        stages = [Stage(f"{what}({function_name(b)})", branch=(number, i)) for i, b in enumerate(branches)]
        sides = [trace(with_refs(b), in_tree, avals, s, n) for b, s, n in zip(branches, stages, names, strict=True)]
        results, weak = _agreed(what, branches, sides)
        read, written = refs_of(sides)
        functions = []
        for side, outs in zip(sides, results, strict=True):
            entries = [side.entry(r) for r in written]
            finals = [side.final(r, e) for r, e in zip(written, entries, strict=True)]
            functions.append(([*[side.entry(r) for r in read], *side.params, *entries], [*outs, *finals]))
        captured, programs = close_together(functions, what)
        sources = [
            *captured,
            *[current(r) for r in read],
            *[t.node for t in args],
            *[current(r) for r in written],
        ]
        out = gets(uop(Op.COND, (lift(index).node, *sources), Cond(tuple(programs))))
    n = len(weak)
    for ref, node in zip(written, out[n:], strict=True):
        ref.put(Tracer(node))
    return tree.unflatten(sides[0].out_tree, tracers(out[:n], weak))


def _agreed(
    what: str, branches: Sequence[Callable[..., Any]], sides: Sequence[Traced]
) -> tuple[list[list[UOp]], list[bool]]:
    """The results of all branches in common dtypes (weak ones give way); raises ArgumentError
    where shapes or dtypes differ.
    """
    first = sides[0]
    for b, side in zip(branches, sides, strict=True):
        place = tree.difference(first.out_tree, side.out_tree, "the result")
        if place is not None:
            path, one, other = place
            raise note_user_line(
                ArgumentError(
                    f"{what}: the branches must return the same structure, but {path} of "
                    f"{function_name(branches[0])} is {one} and of {function_name(b)} {other}"
                )
            )
    results: list[list[UOp]] = [[] for _ in sides]
    weak: list[bool] = []
    for i in range(len(first.outs)):
        kinds = [(s.outs[i].dtype, s.weak[i]) for s in sides]
        strong = [k for k in kinds if not k[1]]
        dtype, is_weak = dt.promote(*kinds) if len({k[0] for k in strong}) <= 1 else (kinds[0][0], False)
        if strong and any(k[0] is not dtype for k in strong):
            dtype = strong[0][0]
        weak.append(is_weak and not strong)
        for side, outs, (kind, side_weak) in zip(sides, results, kinds, strict=True):
            node = side.outs[i]
            if node.shape != first.outs[i].shape or (kind is not dtype and not side_weak):
                want = Aval(dtype, first.outs[i].shape)
                raise note_user_line(
                    ArgumentError(
                        f"{what}: the branches must return the same types, but at "
                        f"{tree.path_of(first.out_tree, i, 'the result')} one returned {want} and "
                        f"another {Aval(kind, node.shape)}; convert them with .astype or reshape"
                    )
                )
            outs.append(build.cast(node, dtype))
    return results, weak


__all__ = ["cond", "switch"]
