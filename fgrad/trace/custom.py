"""Functions with rules by users: what custom_jvp, custom_vjp and custom_vmap have in common.

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

from fgrad.errors import ArgumentError, MissingRuleError, ShapeError
from fgrad.trace import tree
from fgrad.trace.apply import check_leaves
from fgrad.trace.maybe import Maybe
from fgrad.trace.ref import (
    Lost,
    Ref,
    Reverse,
    begin,
    current,
    exists,
    hide_refs,
    show_refs,
    touched,
)
from fgrad.trace.stage import Stage, is_tracing, stages
from fgrad.trace.staging import function_name, need_function, trace
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, substitute, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, closure, gets

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
    """Stands for a tangent or cotangent that is zero, of the shape and dtype given, in rules that asked for it.

    >>> f = custom_jvp(lambda x, y: x * y)
    >>> def rule(primals, tangents):
    ...     dx, dy = tangents
    ...     print(dy)
    ...     return f(*primals), dx * primals[1]
    >>> rule = f.defjvp(rule, symbolic_zeros=True)
    >>> grad(f)(2.0, 3.0)
    SymbolicZero(float32[])
    Array(3., dtype=float32, weak_type=True)
    """

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

    >>> f = custom_vjp(lambda x, y: x * y)
    >>> def forward(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, y.value
    >>> f.defvjp(forward, lambda y, ct: (ct * y, None), symbolic_zeros=True)
    >>> grad(f)(2.0, 3.0)
    True False
    Array(3., dtype=float32, weak_type=True)
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


def tangent_of(d: Maybe, like: UOp | Aval, symbolic: bool) -> Any:
    """A tangent for the user: zeros where there is none, nothing for integers."""
    if d is None and symbolic:
        return SymbolicZero(Aval(like.dtype, like.shape))
    if not like.dtype.is_inexact:
        return np.zeros(like.shape, tree.float0)
    return Tracer(build.const(0, like.dtype, like.shape) if d is None else d)


def as_node(x: Any, like: UOp, what: str, path: str) -> Maybe:
    """The tangent `x` that a rule gave for `like`, None where it is zero; ShapeError names the rule and the path."""
    if is_zero(x):
        return None
    t = lift(x)
    if not like.dtype.is_inexact:
        return None
    if t.shape != like.shape:
        raise ShapeError(f"{what} must give {path} with shape {like.shape} like its primal, but gave shape {t.shape}")
    return build.cast(t.node, like.dtype)


def is_zero(x: Any) -> bool:
    """Whether a rule says with `x` that a tangent or cotangent is zero."""
    return x is None or isinstance(x, SymbolicZero) or getattr(x, "dtype", None) == tree.float0


def avals_of(nodes: Sequence[UOp]) -> tuple[Aval, ...]:
    """The dtypes and shapes of nodes, without weakness."""
    return tuple([Aval(n.dtype, n.shape) for n in nodes])
