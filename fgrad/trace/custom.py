"""Derivatives given by users: custom_jvp, custom_vjp, custom_gradient, and checkpoint.

Inside a stage such a function becomes a CALL whose rule the interpreters ask (`call.py`); outside it simply runs.
One rule object serves all calls of one function with arguments of one structure, so equal calls stay equal
programs.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any, TypeVar

import numpy as np
import optree

from fgrad.errors import ArgumentError, MissingRuleError, ShapeError, describe
from fgrad.trace import tree
from fgrad.trace.apply import check_leaves
from fgrad.trace.frames import trim_methods
from fgrad.trace.maybe import Maybe
from fgrad.trace.ref import (
    Held,
    Lost,
    Ref,
    Reverse,
    begin,
    carried,
    current,
    exists,
    hide_refs,
    ref_over,
    show_refs,
    touched,
    uncarried,
)
from fgrad.trace.stage import Stage, is_tracing, opened, stages
from fgrad.trace.staging import function_name, lift_results, need_function, trace
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, substitute, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, close, closure, gets

T = TypeVar("T")


class Positional:
    """How the arguments of a custom function are made positional: its rules know them by position only.

    kind   how the function is decorated, for messages
    """

    def __init__(self, fun: Callable[..., Any], kind: str) -> None:
        self.what = f"The input arguments to the {kind}-decorated function {function_name(fun)}"
        try:
            self.signature: inspect.Signature | None = inspect.signature(fun)
        except (TypeError, ValueError):
            self.signature = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in."""
        if self.signature is None:
            if kwargs:
                raise ArgumentError(f"{self.what} must be positional, for it has no signature; got {sorted(kwargs)}")
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.what}{self.signature} do not fit:\n{error}") from None
        bound.apply_defaults()
        named = [name for name in bound.kwargs if name in kwargs]
        if named:
            raise ArgumentError(
                f"{self.what}{self.signature} must be positional.\nThe following keyword arguments could not be "
                f"resolved to positions: {', '.join(named)}"
            )
        return bound.args

    def numbers(self, argnums: Sequence[int] | int, argnames: Sequence[str] | str | None) -> tuple[int, ...]:
        """Positions of arguments given by number or by name."""
        numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        names = [argnames] if isinstance(argnames, str) else list(argnames or ())
        known = list(self.signature.parameters) if self.signature is not None else []
        for name in names:
            if name not in known:
                raise ArgumentError(f"nondiff_argnames has {name!r}, which is no parameter of the function: {known}")
            numbers.append(known.index(name))
        return tuple(sorted(set(numbers)))


class SymbolicZero:
    """Stands for a tangent or cotangent that is zero, of the shape and dtype given, in rules that asked for it."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.aval.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.aval.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the zeros; float0 for those that belong to integers."""
        return self.aval.dtype.np if self.aval.dtype.is_inexact else tree.float0

    def instantiate(self) -> Any:
        """The zeros as an array."""
        return Tracer(build.const(0, self.aval.dtype, self.aval.shape))

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


@dataclass(frozen=True, slots=True)
class CustomVJPPrimal:
    """An argument of a forward rule that was given with `symbolic_zeros=True`.

    value      the argument
    perturbed  whether a derivative with respect to it is asked for
    """

    value: Any
    perturbed: bool


class Rule:
    """What a CALL of a custom function knows: how to call the user's functions on nodes.

    `captured` are the outer nodes the body closed over: they come first among the CALL's sources. The contents of
    `refs` Refs come last, and after them what stands for these in the backward pass. `outer` says which of the Refs are
    no arguments, but closed over: for the others, the rules are given Refs of their own, so that calls with other Refs
    are the same program.
    """

    def __init__(
        self,
        owner: Custom,
        in_tree: tree.TreeDef,
        fixed: tuple[tuple[int, Any], ...],
        captured: Sequence[UOp],
        outer: tuple[weakref.ref[Ref] | None, ...],
    ) -> None:
        self.owner = owner
        self.in_tree = in_tree
        self.fixed = fixed
        self.captured = list(captured)
        self.refs = len(outer)
        self.outer = outer
        self.out_tree: Any = None

    def sections(self, nodes: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """What belongs to the arguments (and to `captured`, before them), to Refs, and to their backward pass."""
        plain = len(nodes) - 2 * self.refs
        return nodes[:plain], nodes[plain : plain + self.refs], nodes[plain + self.refs :]

    def check_outputs(self, what: str, out_tree: tree.TreeDef) -> None:
        """Raise ArgumentError unless the outputs of a rule are structured as those of the function."""
        place = tree.difference(self.out_tree, out_tree, "the output")
        if place is not None:
            path, want, got = place
            raise ArgumentError(
                f"{what} must return outputs structured as those of the function, but {path} is {got}, and of the "
                f"function {want}"
            )

    def full(self, moving: Sequence[Any]) -> list[Any]:
        """The user's positional arguments, with the moving ones in their places."""
        it = iter(moving)
        fixed = dict(self.known())
        return [fixed[i] if i in fixed else next(it) for i in range(len(moving) + len(fixed))]

    def known(self) -> list[tuple[int, Any]]:
        """The arguments that are not differentiated, by position."""
        return [(i, x() if isinstance(x, weakref.ref) else x) for i, x in self.fixed]

    def tracers(self, nodes: Sequence[UOp], refs: Sequence[Ref]) -> tuple[Any, ...]:
        """The moving arguments as pytrees of tracers and Refs."""
        leaves = [Tracer(n) for n in self.sections(nodes)[0][len(self.captured) :]]
        out: tuple[Any, ...] = show_refs(tree.unflatten(self.in_tree, leaves), lambda k: refs[k])
        return out

    def begin_refs(
        self, avals: Sequence[Aval], contents: Sequence[Maybe], reverse: Sequence[UOp] | None, why: str = ""
    ) -> list[Ref]:
        """The Refs in the open stage, beginning with `contents`; where that is None, who asks is told `why`."""
        refs = []
        for k, (aval, now) in enumerate(zip(avals, contents, strict=True)):
            outer = self.outer[k]
            ref = None if outer is None else outer()
            if ref is None:
                ref = Ref(aval, None)
            if now is None:
                stages()[-1].refs[ref] = Lost(why)
            else:
                begin(ref, now, None if reverse is None else reverse[k])
            refs.append(ref)
        return refs

    def check_known(self) -> None:
        """Raise _Unknown if the open stage has touched Refs that the CALL does not know of."""
        new = [r.of() if isinstance(r, Reverse) else r for r, _ in touched(stages()[-1])]
        if new:
            self.owner.closes_over.update([r for r in new if r is not None])
            raise _Unknown

    def rebound(self, outs: Sequence[UOp], nodes: Sequence[UOp], meaning: dict[UOp, UOp]) -> list[UOp]:
        """`outs` with what the user's function closed over, and what `opened_for` opened, replaced by what
        they are here.
        """
        mapping = {**dict(zip(self.captured, nodes, strict=False)), **meaning}
        return substitute(outs, mapping) if mapping else list(outs)


class _Unknown(BaseException):
    """A rule uses a Ref that its function was not traced with. From now on it is: trace again."""


def with_known_refs(transform: Callable[[], T]) -> T:
    """`transform()`, which traces a function and derives it, again while rules are found to use more Refs.

    What rules close over is not known before they run, and they run when a derivative is taken.
    """
    while True:
        try:
            return transform()
        except _Unknown:
            continue


def opened_for(what: str, nodes: Sequence[Maybe]) -> tuple[Stage, list[Any], dict[UOp, UOp]]:
    """-> (stage of a user's rule, the nodes it is given, what the PARAMs among them mean).

    Interpreters run on closed programs, and on PARAMs that belong to no stage. A loop inside the rule can only
    capture PARAMs of an open stage, so the rule is given such ones in place of all but constants.
    """
    new: dict[UOp, UOp] = {}
    out: list[Any] = []
    for u in nodes:
        if u is not None and not _is_constant(u):
            u = new.setdefault(u, open_param(u.dtype, u.shape, "an operand"))
        out.append(u)
    meaning = {p: u for u, p in new.items()}
    stage = Stage(what)
    stage.params = list(new.values())
    if all(u.born >= 0 for u in new):
        stage.concrete = meaning
    return stage, out, meaning


def _is_constant(u: UOp) -> bool:
    while len(u.src) == 1:
        u = u.src[0]
    return u.op is Op.CONST


class Custom:
    """A function with a rule of its own."""

    kind = ""
    needs = "", ""  # the rule it lacks at first, and how it is given

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] | int = (),
        nondiff_argnames: Sequence[str] | str | None = None,
    ) -> None:
        need_function(fun, self.kind)
        update_wrapper(self, fun)
        self.fun = fun
        self.positional = Positional(fun, self.kind)
        self.nondiff = self.positional.numbers(nondiff_argnums, nondiff_argnames)
        self.symbolic = False
        self.rules: dict[Any, Rule] = {}
        self.closes_over: weakref.WeakSet[Ref] = weakref.WeakSet()  # Refs that its rules were seen to use

    def make_rule(self, *args: Any) -> Rule:
        raise NotImplementedError

    def ready(self) -> bool:
        raise NotImplementedError

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return wraps(self.fun)(lambda *args, **kwargs: self(instance, *args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = function_name(self.fun)
        if not self.ready():
            raise MissingRuleError(f"No {self.needs[0]} defined for {self.kind} function {name} using {self.needs[1]}.")
        args = self.positional(args, kwargs)
        if not is_tracing():
            return self.fun(*args)
        for i in self.nondiff:
            if not -len(args) <= i < len(args):
                raise ArgumentError(
                    f"{name}: nondiff_argnums has {i}, but it was called with {len(args)} argument"
                    f"{'s' if len(args) != 1 else ''}, counted from 0"
                )
        nondiff = [i % len(args) for i in self.nondiff]
        moving = tuple([x for i, x in enumerate(args) if i not in nondiff])
        refs = [x for x in tree.leaves_of(moving) if isinstance(x, Ref)]
        refs = list(dict.fromkeys([*refs, *[r for r in self.closes_over if exists(r)]]))
        number = {r: k for k, r in enumerate(refs)}
        moving = hide_refs(moving, lambda r: number[r])
        leaves, in_tree = tree.flatten(moving)
        check_leaves(leaves, in_tree, name)
        operands = [lift(x) for x in leaves]
        named = {i: args[i] for i in nondiff}

        def body(*given: Any) -> Any:
            it = iter(show_refs(given, lambda k: refs[k]))
            return self.fun(*[named[i] if i in named else next(it) for i in range(len(args))])

        # concrete: where the stages around know their values, the function may branch on its own
        stage = Stage(f"{self.kind}({name})", concrete=True)
        given_nodes = [t.node for t in operands]
        traced = trace(body, tree.structure((moving, {})), [t.aval for t in operands], stage, (), given_nodes)
        refs += [r for r in traced.refs if r not in number and not isinstance(r, Reverse)]
        reverse = [r.reverse for r in refs]
        entries = [traced.entry(r) for r in (*refs, *reverse)]
        finals = [traced.final(r, e) for r, e in zip((*refs, *reverse), entries, strict=True)]
        captured, program = closure((*traced.params, *entries), (*traced.outs, *finals))
        fixed = tuple([(i, weakref.ref(x) if isinstance(x, Ref) else x) for i, x in named.items()])
        outer = tuple([weakref.ref(r) if r not in number or r in self.closes_over else None for r in refs])
        rule = self._rule(in_tree, fixed, captured, outer)
        rule.out_tree = traced.out_tree
        sources = (*captured, *given_nodes, *[current(r) for r in (*refs, *reverse)])
        members = gets(uop(Op.CALL, sources, Call(program, self.kind, name, rule)))
        n = len(traced.outs)
        for ref, node in zip((*refs, *reverse), members[n:], strict=True):
            ref.put(Tracer(node))
        outs = [Tracer(m, w) for m, w in zip(members[:n], traced.weak, strict=True)]
        return tree.unflatten(traced.out_tree, outs)

    def _rule(self, in_tree: Any, fixed: Any, captured: Sequence[UOp], outer: Any) -> Rule:
        if captured:
            return self.make_rule(self, in_tree, fixed, captured, outer)
        try:
            rule = self.rules.get((in_tree, fixed, outer))
        except TypeError:  # a fixed argument that cannot be hashed
            return self.make_rule(self, in_tree, fixed, captured, outer)
        if rule is None:
            rule = self.rules[in_tree, fixed, outer] = self.make_rule(self, in_tree, fixed, captured, outer)
        return rule


def _given(d: Maybe, like: UOp | Aval, symbolic: bool) -> Any:
    """A tangent for the user: zeros where there is none, nothing for integers."""
    if d is None and symbolic:
        return SymbolicZero(Aval(like.dtype, like.shape))
    if not like.dtype.is_inexact:
        return np.zeros(like.shape, tree.float0)
    return Tracer(build.const(0, like.dtype, like.shape) if d is None else d)


def _as_node(x: Any, like: UOp, what: str, path: str) -> Maybe:
    if _is_zero(x):
        return None
    t = lift(x)
    if not like.dtype.is_inexact:
        return None
    if t.shape != like.shape:
        raise ShapeError(f"{what} must give {path} with shape {like.shape} like its primal, but gave shape {t.shape}")
    return build.cast(t.node, like.dtype)


class _JvpRule(Rule):
    def jvp(self, primals: list[UOp], tangents: list[Maybe]) -> tuple[list[UOp], list[Maybe]]:
        owner = self.owner
        assert isinstance(owner, custom_jvp) and owner.rule is not None
        name = function_name(owner.fun)
        what = f"the jvp rule of {name}"
        stage, both, meaning = opened_for(what, [*primals, *tangents])
        inner, moves = both[: len(primals)], both[len(primals) :]
        with opened(stage):
            plain, contents, reverse = self.sections(inner)
            refs = self.begin_refs(_avals(contents), contents, reverse)
            args = self.tracers(inner, refs)
            moves_plain, moves_refs, moves_reverse = self.sections(moves)
            n = len(self.captured)
            leaves = [_given(d, p, owner.symbolic) for d, p in zip(moves_plain[n:], plain[n:], strict=True)]
            moved_refs = [
                ref_over(lift(_given(d, c, False)).node) if c.dtype.is_inexact else _given(d, c, False)
                for c, d in zip(contents, moves_refs, strict=True)
            ]
            starts = [current(r) if isinstance(r, Ref) else None for r in moved_refs]
            given = show_refs(tree.unflatten(self.in_tree, leaves), lambda k: moved_refs[k])
            result = owner.rule(*[x for _, x in self.known()], args, given)
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise ArgumentError(
                    f"Custom JVP rule {function_name(owner.rule)} for function {name} must produce a pair (list or "
                    f"tuple of length two) representing primal and tangent outputs, but got {describe(result)}"
                )
            outs, out_tree = lift_results(result[0], what)
            self.check_outputs(what, out_tree)
            moved, spec = tree.flatten(result[1], is_leaf=lambda x: x is None)
            if len(moved) != len(outs):
                path, want, got = tree.difference(out_tree, spec, "the tangent") or ("", "", "")
                raise ArgumentError(
                    f"{what} must return tangents of the structure of its outputs, but {path} is {got}, and the output "
                    f"{want}"
                )
            douts = [
                _as_node(x, o.node, what, tree.path_of(out_tree, i, "the tangent"))
                for i, (x, o) in enumerate(zip(moved, outs, strict=True))
            ]
            self.check_known()
            finals = [current(r) for r in (*refs, *[r.reverse for r in refs])]
            # the rule says what becomes of the tangents of its arguments; a Ref that it closes over and writes is still
            for k, (ref, start, d) in enumerate(zip(moved_refs, starts, moves_refs, strict=True)):
                now = current(ref) if isinstance(ref, Ref) else None
                is_given = self.outer[k] is None or now is not start
                douts.append((d if now is start else now) if is_given or finals[k] is contents[k] else None)
            douts += moves_reverse
        there = [d for d in douts if d is not None]
        outs_there = [*[o.node for o in outs], *finals]
        fixed_up = self.rebound([*outs_there, *there], primals, meaning)
        it = iter(fixed_up[len(outs_there) :])
        return fixed_up[: len(outs_there)], [None if d is None else next(it) for d in douts]


trim_methods(Custom, ("__call__",))


class custom_jvp(Custom):
    """A function whose forward derivative you give (reverse mode is its transpose).

    nondiff_argnums   arguments that are not differentiated; they come first in the rule
    nondiff_argnames  the same by name

    >>> @custom_jvp
    ... def f(x):
    ...     return fnp.log(1 + fnp.exp(x))
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return f(x), nn.sigmoid(x) * dx

    Source: the interface of jax.custom_jvp.
    """

    kind = "custom_jvp"
    needs = "JVP", "defjvp"
    rule: Callable[..., Any] | None = None

    def ready(self) -> bool:
        return self.rule is not None

    def make_rule(self, *args: Any) -> Rule:
        return _JvpRule(*args)

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Give the rule: `jvp(*nondiff, primals, tangents) -> (output, tangent of the output)`; returns it.

        symbolic_zeros   tangents that are zero arrive as `custom_derivatives.SymbolicZero`, not as arrays of zeros;
                         the rule may return such ones
        """
        self.rule, self.symbolic = jvp, symbolic_zeros
        self.rules.clear()  # equal programs must not be taken for those of an older rule
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Give one rule for each argument: `jvp_i(tangent_i, output, *primals)`; None for a zero derivative."""

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            out = self(*primals)
            parts = [j(t, out, *primals) for j, t in zip(jvps, tangents, strict=True) if j is not None]
            if not parts:
                return out, tree.map_(lambda o: o * 0, out)
            total = parts[0]
            for p in parts[1:]:
                total = tree.map_(lambda a, b: a + b, total, p)
            return out, total

        self.defjvp(rule)


class _VjpRule(Rule):
    def fwd(self, primals: list[UOp], moves: Sequence[bool]) -> tuple[list[UOp], list[UOp], _Backward]:
        owner = self.owner
        assert isinstance(owner, custom_vjp) and owner.forward is not None
        name = function_name(owner.fun)
        what = f"the forward rule of {name}"
        stage, inner, meaning = opened_for(what, primals)
        with opened(stage):
            _, contents, reverse = self.sections(inner)
            ref_avals = _avals(contents)
            refs = self.begin_refs(ref_avals, contents, reverse)
            args: Sequence[Any] = self.tracers(inner, refs)
            if owner.symbolic:
                flags = show_refs(tree.unflatten(self.in_tree, self.sections(moves)[0][len(self.captured) :]))
                args = tree.map_(_marked, args, flags)
            result = owner.forward(*self.full(args))
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise ArgumentError(f"{what} must return a pair (output, residuals), got {describe(result)}")
            outs, out_tree = lift_results(result[0], what)
            self.check_outputs(what, out_tree)
            residuals, res_tree = lift_results(hide_refs(result[1], lambda r: _number(r, refs, what)), what)
            self.check_known()
            finals = [current(r) for r in (*refs, *[r.reverse for r in refs])]
        nodes = [r.node for r in residuals]
        outs_there = [*[o.node for o in outs], *finals]
        fixed_up = self.rebound([*outs_there, *nodes], primals, meaning)
        given = fixed_up[: len(outs_there)]
        written = tuple([a is not b for a, b in zip(self.sections(given)[1], self.sections(primals)[1], strict=True)])
        back = _Backward(self, res_tree, _avals([o.node for o in outs]), ref_avals, written)
        return given, fixed_up[len(outs_there) :], back


@dataclass(frozen=True, slots=True)
class _Backward:
    """The way back of one call: its rule, the structure of its residuals, what its outs and Refs are.

    written   the Refs that the forward rule has written
    """

    rule: _VjpRule
    res_tree: tree.TreeDef
    outs: tuple[Aval, ...]
    refs: tuple[Aval, ...]
    written: tuple[bool, ...]

    @property
    def captured(self) -> int:
        """How many cotangents come before those of the user's arguments."""
        return len(self.rule.captured)

    def bwd(self, residuals: list[UOp], cts: list[Maybe]) -> list[Maybe]:
        """Cotangents of (captured, arguments, contents of Refs), then what the Refs are in the backward pass now."""
        rule, owner = self.rule, self.rule.owner
        assert isinstance(owner, custom_vjp) and owner.backward is not None
        name = function_name(owner.fun)
        what = f"the backward rule of {name}"
        for k, ct in enumerate(rule.sections(cts)[1]):
            if ct is not None and self.written[k]:
                raise NotImplementedError(
                    f"the derivative of what the forward rule of {name} has written to a Ref ({self.refs[k]}): {what} "
                    "only says what becomes of the cotangents of its results; return the value too, and use that"
                )
        stage, inner, meaning = opened_for(what, [*residuals, *cts])
        there, given = inner[: len(residuals)], inner[len(residuals) :]
        with opened(stage):
            ct_outs, _, states = rule.sections(given)
            begin = [None if s is None else uncarried(s, a) for s, a in zip(states, self.refs, strict=True)]
            why = f"{what} uses a Ref that was made inside the function that is differentiated; make it outside of that"
            refs = rule.begin_refs(self.refs, begin, None, why)
            res = show_refs(tree.unflatten(self.res_tree, [Tracer(r) for r in there]), lambda k: refs[k])
            ct = tree.unflatten(
                rule.out_tree, [_given(c, o, owner.symbolic) for c, o in zip(ct_outs, self.outs, strict=True)]
            )
            got = owner.backward(*[x for _, x in rule.known()], res, ct)
            if not isinstance(got, tuple | list):
                raise ArgumentError(
                    f"{what} must return a tuple with one cotangent for each argument, got {describe(got)}"
                )
            out = [*[None] * len(rule.captured), *self._of_arguments(got, what)]
            rule.check_known()
            ends = [b if b is None else current(r) for r, b in zip(refs, begin, strict=True)]
            out += [s if e is b or e is None else carried(e) for s, b, e in zip(states, begin, ends, strict=True)]
        it = iter(substitute([x for x in out if x is not None], meaning))
        return [None if x is None else next(it) for x in out]

    def _of_arguments(self, got: Sequence[Any], what: str) -> list[Maybe]:
        """The cotangents that the rule gave, one for each leaf of the arguments, then for the contents of each Ref."""
        rule = self.rule
        moving = tree.unflatten(rule.in_tree, list(range(rule.in_tree.num_leaves)))
        if len(got) != len(moving):
            many = len(moving) != 1
            raise ArgumentError(
                f"{what} must return one cotangent for each of the {len(moving)} differentiated "
                f"argument{'s' if many else ''}, but returned {len(got)}; None stands for no derivative"
            )
        out: list[Maybe] = []
        of_refs: list[Maybe] = [None] * rule.refs
        for i, (g, arg) in enumerate(zip(got, moving, strict=True)):
            leaves = tree.leaves_of(arg, is_leaf=lambda x: isinstance(x, Held))
            shown = tree.map_(lambda x: 0, arg, is_leaf=lambda x: isinstance(x, Held))
            for x, w in zip(_cotangent_leaves(g, shown, i, what), leaves, strict=True):
                node = None if _is_zero(x) else lift(x).node
                if not isinstance(w, Held):
                    out.append(node)
                elif node is not None:
                    of_refs[w.what] = _like(node, self.refs[w.what], what)
        return [*out, *of_refs]


def _marked(x: Any, moves: bool) -> Any:
    """An argument of a rule that asked for symbolic zeros."""
    return x if isinstance(x, Ref) else CustomVJPPrimal(x, moves)


def _number(ref: Ref, refs: Sequence[Ref], what: str) -> int:
    """The number of a Ref that a forward rule gives to the backward rule."""
    if ref in refs:
        return refs.index(ref)
    raise ArgumentError(
        f"{what} returned a Ref ({ref.aval}) among its residuals that is none of its arguments; return what it contains"
    )


def _like(ct: UOp, aval: Aval, what: str) -> Maybe:
    """The cotangent of the contents of a Ref."""
    if not aval.dtype.is_inexact:
        return None
    if ct.shape != aval.shape:
        raise ShapeError(f"{what} gave a cotangent of shape {ct.shape} for a Ref of shape {aval.shape}")
    return build.cast(ct, aval.dtype)


def _avals(nodes: Sequence[UOp]) -> tuple[Aval, ...]:
    return tuple([Aval(n.dtype, n.shape) for n in nodes])


def _is_zero(x: Any) -> bool:
    return x is None or isinstance(x, SymbolicZero) or getattr(x, "dtype", None) == tree.float0


def _cotangent_leaves(cotangent: Any, argument: Any, i: int, what: str) -> list[Any]:
    """The leaves of a cotangent beside those of its argument; a None stands for all below it."""
    out: list[Any] = []

    def add(x: Any, subtree: Any) -> None:
        spec = tree.structure(subtree)
        if x is not None and not spec.is_leaf():
            raise ValueError(f"{x!r} stands for {spec}")
        out.extend([x] * spec.num_leaves)

    try:
        optree.tree_map_(add, cotangent, argument, is_leaf=lambda x: x is None, namespace=tree.NAMESPACE)
    except (ValueError, TypeError):
        given = tree.structure(cotangent, is_leaf=lambda x: x is None)
        place = tree.difference(tree.structure(argument), given, f"cotangent {i}")
        path, want, found = place or (f"cotangent {i}", "another", "this")
        raise ArgumentError(
            f"{what} must return cotangents with the structure of the arguments, but {path} is {found}, and the "
            f"argument {want}"
        ) from None
    return out


class custom_vjp(Custom):
    """A function whose reverse derivative you give.

    nondiff_argnums   arguments that are not differentiated; they come first in the backward rule
    nondiff_argnames  the same by name

    >>> @custom_vjp
    ... def clip_gradient(x, limit):
    ...     return x
    >>> clip_gradient.defvjp(
    ...     lambda x, limit: (x, limit), lambda limit, ct: (fnp.clip(ct, -limit, limit), None))

    The backward rule returns one cotangent for each argument; None means no gradient. Source: the interface of
    jax.custom_vjp.
    """

    kind = "custom_vjp"
    needs = "VJP", "defvjp"
    forward: Callable[..., Any] | None = None
    backward: Callable[..., Any] | None = None

    def ready(self) -> bool:
        return self.forward is not None

    def make_rule(self, *args: Any) -> Rule:
        return _VjpRule(*args)

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Give the rules: `fwd(*args) -> (output, residuals)`, `bwd(*nondiff, residuals, ct) -> tuple of cotangents`.

        symbolic_zeros   `fwd` is given a `custom_derivatives.CustomVJPPrimal` in place of each array, and cotangents
                         that are zero arrive in `bwd` as `custom_derivatives.SymbolicZero`
        optimize_remat   nothing to ask for: what a forward rule computes for residuals that nobody reads is never run
        """
        self.forward, self.backward, self.symbolic = fwd, bwd, symbolic_zeros
        self.rules.clear()


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns its value and its own vjp: `fun(*args) -> (output, ct -> cotangents of args)`.

    >>> @custom_gradient
    ... def twice(x):
    ...     return 2 * x, lambda ct: (2 * ct,)
    """
    need_function(fun, "custom_gradient")

    @wraps(fun)
    def value(*args: Any) -> Any:
        return fun(*args)[0]

    wrapped = custom_vjp(value)

    def forward(*args: Any) -> Any:
        return fun(*args)[0], args

    def backward(args: Any, ct: Any) -> Any:
        got = fun(*args)[1](ct)
        return tuple(got) if isinstance(got, tuple | list) else (got,)

    wrapped.defvjp(forward, backward)
    return wrapped


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """A function whose intermediate values are computed again in the backward pass instead of being kept.

    policy          `policy(node) -> bool`: values to keep all the same (see `fgrad.checkpoint_policies`)
    static_argnums  arguments that are Python values

    >>> grad(checkpoint(lambda x: fnp.sin(fnp.sin(x))))(1.0) == grad(lambda x: fnp.sin(fnp.sin(x)))(1.0)
    Array(True, dtype=bool)
    """
    if fun is None:
        return lambda f: checkpoint(f, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums)
    need_function(fun, "checkpoint")
    name = function_name(fun)
    static = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)

    @wraps(fun)
    def remembered(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fun(*args, **kwargs)
        fixed = {i % len(args): args[i] for i in static}
        moving = tuple([x for i, x in enumerate(args) if i not in fixed])
        leaves, in_tree = tree.flatten(hide_refs((moving, kwargs)))
        check_leaves(leaves, in_tree, f"checkpoint({name})")
        operands = [lift(x) for x in leaves]

        def body(*given: Any, **named: Any) -> Any:
            given, named = show_refs((given, named))
            it = iter(given)
            return fun(*[fixed[i] if i in fixed else next(it) for i in range(len(args))], **named)

        traced = trace(body, in_tree, [t.aval for t in operands], Stage(f"checkpoint({name})"))
        n = len(traced.outs)
        captured, program = closure(
            (*traced.params, *traced.entries), [*traced.outs, *[node for _, node in traced.finals]]
        )
        sources = (*captured, *[t.node for t in operands], *[current(r) for r in traced.refs])
        members = gets(uop(Op.CALL, sources, Call(program, "checkpoint", name, policy)))
        for (i, _), node in zip(traced.finals, members[n:], strict=True):
            traced.refs[i].put(Tracer(node))
        return tree.unflatten(traced.out_tree, [Tracer(m, w) for m, w in zip(members[:n], traced.weak, strict=True)])

    return remembered


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` (a pytree of arrays), under a name that policies of `checkpoint` keep or leave out.

    >>> layer = checkpoint(lambda x: fnp.sin(checkpoint_name(fnp.cos(x), "inner")),
    ...                    policy=checkpoint_policies.save_only_these_names("inner"))
    """
    if not is_tracing():
        return x
    leaves, spec = tree.flatten(x)
    check_leaves(leaves, spec, "checkpoint_name")
    given = [lift(leaf) for leaf in leaves]
    params = [open_param(t.node.dtype, t.node.shape, "named") for t in given]
    named = gets(uop(Op.CALL, tuple([t.node for t in given]), Call(close(params, params), "named", name)))
    return tree.unflatten(spec, [Tracer(u, t.weak) for u, t in zip(named, given, strict=True)])


__all__ = ["checkpoint", "checkpoint_name", "custom_gradient", "custom_jvp", "custom_vjp"]
