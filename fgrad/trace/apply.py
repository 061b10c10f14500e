"""Close a function over its arguments into a Program, and put Programs to work on arrays.

All transforms are written with these two: `close_over` traces a function and closes it, `apply` inlines a program
into the open stage, or runs it when nothing is being traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fgrad.errors import ArgumentError, describe
from fgrad.trace import tree
from fgrad.trace.ref import Ref, Reverse, current
from fgrad.trace.stage import Stage, check_leaks, execute, hooks, is_tracing
from fgrad.trace.staging import argument_names, function_name, trace
from fgrad.trace.tracer import Tracer, is_arraylike, is_scalar, lift
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, paused_gc
from fgrad.uop.op import Op
from fgrad.uop.program import Program, closure
from fgrad.uop.rewrite import work


class Way(NamedTuple):
    """How a Ref goes through a program that is differentiated in reverse mode.

    slot, out           the parameter and the out of its `Reverse`; the cotangent of the out is what the Ref contains
                        when the backward pass begins, that of the parameter what it contains at the end of it
    ref_slot, ref_out   those of the Ref itself; the out is None if the forward pass does not write it
    """

    slot: int
    out: int
    ref_slot: int
    ref_out: int | None


@dataclass(frozen=True, slots=True)
class Closed:
    """A function as Program over (*captured, *params, *entries of Refs). `nodes` are what all these stand for.

    The Program's outs are the function's own (`out_avals`), then the final versions of the Refs it wrote; its
    effects say which parameter each of these came in by. `refs` has the Ref behind such a parameter.
    """

    program: Program
    nodes: list[UOp]
    captured: int
    in_avals: list[Aval]
    out_tree: tree.TreeDef
    out_avals: list[Aval]
    refs: dict[int, Ref]

    @property
    def hidden(self) -> int:
        """How many outs are final versions of Refs."""
        return len(self.program.outs) - len(self.out_avals)

    @property
    def reversed_refs(self) -> tuple[Way, ...]:
        """The Refs that rules of the backward pass may read and write."""
        outs = dict(self.program.effects)
        slots = {r: slot for slot, r in self.refs.items()}
        return tuple(
            [
                Way(slot, outs[slot], slots[of], outs.get(slots[of]))
                for slot, r in self.refs.items()
                if isinstance(r, Reverse) and slot in outs and (of := r.of()) is not None
            ]
        )


def operand(x: Any) -> Tracer:
    """The tracer of an argument.

    Outside of any stage a number becomes a 0-d array: its value must not be part of a program.
    """
    if not is_tracing() and is_scalar(x) and hooks.from_host is not None:
        t = lift(x)
        return Tracer(hooks.from_host(np.asarray(x), dtype=t.node.dtype, weak=t.weak).as_node(), t.weak)
    return lift(x)


def need_arrays(leaves: Sequence[Any], spec: tree.TreeDef, what: str, root: str) -> None:
    """Raise ArgumentError naming the path, below `root`, of the first leaf that is no array or number."""
    for i, x in enumerate(leaves):
        if not is_arraylike(x):
            way_out = "; close over it instead" if isinstance(x, Ref) else ""
            raise ArgumentError(
                f"{what} takes arrays and numbers, but {tree.path_of(spec, i, root)} is {describe(x)}{way_out}"
            )


def check_leaves(leaves: Sequence[Any], spec: tree.TreeDef, what: str, at: Sequence[int] | None = None) -> None:
    """Raise ArgumentError naming the path of the first leaf that is no array or number.

    The leaves are those of a tuple of arguments, of the ones at positions `at` where it is given.
    """
    for i, x in enumerate(leaves):
        if not is_arraylike(x):
            first, *steps = spec.accessors()[i]
            path = f"args[{first.entry if at is None else at[first.entry]}]" + "".join([s.codify("") for s in steps])
            way_out = "; take its contents with ref[...]" if isinstance(x, Ref) else ""
            raise ArgumentError(f"{what} takes arrays and numbers, but {path} is {describe(x)}{way_out}")


def close_over(
    fun: Callable[..., Any],
    operands: Sequence[Tracer],
    in_tree: tree.TreeDef,
    stage: Stage,
    avals: Sequence[Aval] | None = None,
) -> Closed:
    """Trace `fun(*args, **kwargs)` ((args, kwargs) has structure `in_tree`) on avals like those of `operands`."""
    nodes = [t.node for t in operands]
    avals = [t.aval for t in operands] if avals is None else list(avals)
    with paused_gc():
        traced = trace(fun, in_tree, avals, stage, argument_names(fun, in_tree), nodes)
        captured, program = closure((*traced.params, *traced.entries), [*traced.outs, *[f for _, f in traced.finals]])
        check_leaks(captured, stage.what)
        first = len(captured) + len(traced.params)
        effects = tuple([(first + i, len(traced.outs) + k) for k, (i, _) in enumerate(traced.finals)])
        if effects:
            program = Program(program.params, program.outs, effects)
    work.function = function_name(fun)
    refs = {first + i: r for i, r in enumerate(traced.refs)}
    entries = [current(r) for r in traced.refs]
    return Closed(program, [*captured, *nodes, *entries], len(captured), avals, traced.out_tree, traced.out_avals, refs)


def apply(
    program: Program,
    nodes: Sequence[UOp],
    weak: Sequence[bool] = (),
    refs: Mapping[int, Ref] | None = None,
) -> list[Any]:
    """The outputs of `program` on `nodes`: tracers inside a stage, else concrete arrays.

    weak   which of the first outputs have a weak dtype
    refs   the Refs behind parameters: the program's effects on them happen now
    """
    weak = [*weak, *[False] * (len(program.outs) - len(weak))]
    if is_tracing():
        with paused_gc():
            results: list[Any] = [Tracer(n, w) for n, w in zip(program.inline(nodes), weak, strict=True)]
    else:
        assert hooks.execute_program is not None
        results = hooks.execute_program(program, materialise(nodes), weak)
    for slot, out in program.effects:
        assert refs is not None, "a program with effects is applied where its Refs are known"
        if is_tracing():
            refs[slot].put(results[out])
        else:
            refs[slot].hold(results[out])
    return results


def materialise(nodes: Sequence[UOp]) -> list[Any]:
    """The concrete arrays that nodes without open PARAMs stand for."""
    rest = [n for n in nodes if n.op is not Op.BUFFER]
    values = dict(zip(rest, execute(rest), strict=True)) if rest else {}
    return [n.arg.owner if n.op is Op.BUFFER else values[n] for n in nodes]
