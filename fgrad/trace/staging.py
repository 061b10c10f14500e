"""Run a function once on tracers and collect what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fgrad.config import config
from fgrad.errors import ArgumentError, OrderingError, describe, note_user_line
from fgrad.trace import tree
from fgrad.trace.record import check_alive
from fgrad.trace.ref import Ref, Reverse, touched
from fgrad.trace.stage import Stage, check_may_trace, is_tracing, opened
from fgrad.trace.tracer import Tracer, is_arraylike, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, paused_gc, substitute


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced function: its open `params`, the nodes it returned (`outs`), and the structure and weakness of these.

    refs      the outer Refs it touched; `entries` are the parameters that stand for their contents at the beginning
    finals    (position in `refs`, node): the contents at the end of those that were written
    """

    params: list[UOp]
    outs: list[UOp]
    out_tree: tree.TreeDef
    weak: list[bool]
    refs: list[Ref]
    entries: list[UOp]
    finals: list[tuple[int, UOp]]

    @property
    def out_avals(self) -> list[Aval]:
        return [Aval(o.dtype, o.shape, w) for o, w in zip(self.outs, self.weak, strict=True)]

    def entry(self, ref: Ref) -> UOp:
        """The parameter that stands for the contents of `ref` at the beginning: a new one, if it was not touched."""
        if ref in self.refs:
            return self.entries[self.refs.index(ref)]
        return open_param(ref.aval.dtype, ref.aval.shape, "ref")

    def final(self, ref: Ref, entry: UOp) -> UOp:
        """The contents of `ref` at the end, which were `entry` at the beginning."""
        for i, node in self.finals:
            if self.refs[i] is ref:
                return node
        return entry


def function_name(fun: Callable[..., Any]) -> str:
    """The name a user knows `fun` by."""
    inner = getattr(fun, "func", fun)  # functools.partial
    return str(getattr(inner, "__name__", type(fun).__name__))


def need_function(fun: Any, what: str, at_once: bool = False) -> None:
    """Raise ArgumentError unless `fun` can be called; `at_once`: `what` takes its arguments too."""
    if not callable(fun):
        rest = "then its arguments" if at_once else f"and the arguments to what {what} returns"
        raise ArgumentError(f"{what} needs a function, got {describe(fun)}; pass the function itself, {rest}")


def need_functions(what: str, **given: Any) -> None:
    """Raise ArgumentError unless all arguments `given` to `what` can be called."""
    for name, f in given.items():
        if not callable(f):
            raise note_user_line(ArgumentError(f"{what} needs {name} as a function, got {describe(f)}"))


def argument_names(fun: Callable[..., Any], in_tree: tree.TreeDef) -> list[str]:
    """How a user would write each leaf of (args, kwargs) of `fun`: `w`, `params['w'][0]`."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = []
    for accessor in in_tree.accessors():
        which, key, *rest = accessor
        if which.entry == 0:  # (args, kwargs)
            at = key.entry
            root = positional[at] if at < len(positional) else f"args[{at}]"
        else:
            root = str(key.entry)
        names.append(root + "".join(step.codify("") for step in rest))
    return names


def lift_results(out: Any, what: str) -> tuple[list[Tracer], tree.TreeDef]:
    """The leaves of what a function returned, as tracers.

    Raises TypeError naming the path of a leaf that is no array.
    """
    leaves, spec = tree.flatten_arrays(out)
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Ref):
            raise ArgumentError(
                f"{what} returned a Ref ({leaf.aval}) at {tree.path_of(spec, i, 'the result')}, but a Ref cannot leave "
                "a traced function; return what it contains, ref[...] or freeze(ref)"
            )
        if not is_arraylike(leaf):
            raise ArgumentError(
                f"{what} must return arrays and numbers (in any pytree), but {tree.path_of(spec, i, 'the result')} is "
                f"{describe(leaf)}"
            )
    return [lift(x) for x in leaves], spec


def trace(
    fun: Callable[..., Any],
    in_tree: tree.TreeDef,
    avals: Sequence[Aval],
    stage: Stage,
    names: Sequence[str] = (),
    stands_for: Sequence[UOp] = (),
    wide: frozenset[int] = frozenset(),
) -> Traced:
    """Call `fun(*args, **kwargs)`, where `in_tree` is the structure of (args, kwargs), on one tracer for each aval.

    stands_for   what the parameters are, for a concrete stage
    wide         parameters that carry a Python float or complex with all its digits, so that nothing is lost beside
                 float64 and complex128 arrays
    """
    check_may_trace(stage.what)
    with paused_gc():
        params = [
            open_param(
                (dt.complex128 if a.dtype.is_complex else dt.float64) if i in wide else a.dtype,
                a.shape,
                f"{names[i] if i < len(names) else f'argument {i}'} of {stage.what}",
            )
            for i, a in enumerate(avals)
        ]
        stage.params.extend(params)
        if stage.concrete is not None:
            stage.concrete.update(zip(params, stands_for, strict=True))
        tracers = [
            Tracer(build.cast(p, dt.default_complex() if a.dtype.is_complex else a.dtype), a.weak, p)
            if i in wide else Tracer(p, a.weak)
            for i, (p, a) in enumerate(zip(params, avals, strict=True))
        ]
        with opened(stage):
            args, kwargs = tree.unflatten(in_tree, tracers)
            results, out_tree = lift_results(fun(*args, **kwargs), function_name(fun))
        outs, weak = [r.node for r in results], [r.weak for r in results]
        if "leaks" in config.check:
            del tracers, args, kwargs, results
            check_alive(stage.params, stage.what)
        seen = touched(stage)
        entries = [v.entry for _, v in seen if v.entry is not None]
        finals = [(i, v.now) for i, (_, v) in enumerate(seen) if v.is_written]
        traced = Traced(params, outs, out_tree, weak, [r for r, _ in seen], entries, finals)
        return traced if is_tracing() or stage.is_reversed else _without_reverse(traced)


def _without_reverse(traced: Traced) -> Traced:
    """The same where nobody asks for the backward pass."""
    if not any(isinstance(r, Reverse) for r in traced.refs):
        return traced
    forward = [i for i, r in enumerate(traced.refs) if not isinstance(r, Reverse)]
    zeros = {e: build.zeros_like(e) for r, e in zip(traced.refs, traced.entries, strict=True) if isinstance(r, Reverse)}
    finals = [(forward.index(i), node) for i, node in traced.finals if i in forward]
    nodes = substitute([*traced.outs, *[node for _, node in finals]], zeros)
    n = len(traced.outs)
    return replace(
        traced,
        outs=nodes[:n],
        refs=[traced.refs[i] for i in forward],
        entries=[traced.entries[i] for i in forward],
        finals=[(i, node) for (i, _), node in zip(finals, nodes[n:], strict=True)],
    )


def without_refs(traced: Traced, what: str) -> Traced:
    """`traced`; raises OrderingError if it uses Refs of its surroundings, which `what` cannot keep in order."""
    if traced.refs:
        raise note_user_line(
            OrderingError(
                f"{what} must not read or write a Ref ({traced.refs[0].aval}) from outside of it, or run a callback; "
                "pass what it needs as an array"
            )
        )
    return traced
