"""Derivatives given by users: custom_jvp, custom_vjp, custom_gradient, and checkpoint.

Inside a stage such a function becomes a CALL whose rule the interpreters ask (`call.py`); outside it simply runs.
One rule object serves all calls of one function with arguments of one structure, so equal calls stay equal
programs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any

import numpy as np
import optree

from fgrad.errors import ArgumentError, MissingRuleError, ShapeError
from fgrad.trace import tree
from fgrad.trace.apply import check_leaves
from fgrad.trace.maybe import Maybe
from fgrad.trace.stage import Stage, is_tracing, opened
from fgrad.trace.staging import function_name, lift_results, trace
from fgrad.trace.tracer import Tracer, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, substitute, uop
from fgrad.uop.op import Op
from fgrad.uop.program import Call, closure, gets


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

    `captured` are the outer nodes the body closed over: they come first among the CALL's sources.
    """

    def __init__(
        self, owner: Custom, in_tree: tree.TreeDef, fixed: tuple[tuple[int, Any], ...], captured: Sequence[UOp]
    ) -> None:
        self.owner = owner
        self.in_tree = in_tree
        self.fixed = fixed
        self.captured = list(captured)
        self.out_tree: Any = None
        self.residual_trees: dict[Any, tree.TreeDef] = {}

    def full(self, moving: Sequence[Any]) -> list[Any]:
        """The user's positional arguments, with the moving ones in their places."""
        it = iter(moving)
        fixed = dict(self.fixed)
        return [fixed[i] if i in fixed else next(it) for i in range(len(moving) + len(fixed))]

    def tracers(self, nodes: Sequence[UOp]) -> tuple[Any, ...]:
        """The moving arguments as pytrees of tracers."""
        out: tuple[Any, ...] = tree.unflatten(self.in_tree, [Tracer(n) for n in nodes[len(self.captured) :]])
        return out

    def rebound(self, outs: Sequence[UOp], nodes: Sequence[UOp], meaning: dict[UOp, UOp]) -> list[UOp]:
        """`outs` with what the user's function closed over, and what `opened_for` opened, replaced by what
        they are here.
        """
        mapping = {**dict(zip(self.captured, nodes, strict=False)), **meaning}
        return substitute(outs, mapping) if mapping else list(outs)


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
        update_wrapper(self, fun)
        self.fun = fun
        self.positional = Positional(fun, self.kind)
        self.nondiff = self.positional.numbers(nondiff_argnums, nondiff_argnames)
        self.symbolic = False
        self.rules: dict[Any, Rule] = {}

    def make_rule(self, in_tree: Any, fixed: Any, captured: Sequence[UOp]) -> Rule:
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
        nondiff = [i % len(args) for i in self.nondiff]
        fixed = tuple([(i, args[i]) for i in nondiff])
        moving = tuple([x for i, x in enumerate(args) if i not in nondiff])
        leaves, in_tree = tree.flatten(moving)
        check_leaves(leaves, in_tree, name)
        operands = [lift(x) for x in leaves]

        def body(*given: Any) -> Any:
            it = iter(given)
            known = dict(fixed)
            return self.fun(*[known[i] if i in known else next(it) for i in range(len(args))])

        # concrete: where the stages around know their values, the function may branch on its own
        stage = Stage(f"{self.kind}({name})", concrete=True)
        given_nodes = [t.node for t in operands]
        traced = trace(body, tree.structure((moving, {})), [t.aval for t in operands], stage, (), given_nodes)
        captured, program = closure(traced.params, traced.outs)
        rule = self._rule(in_tree, fixed, captured)
        rule.out_tree = traced.out_tree
        u = uop(Op.CALL, (*captured, *[t.node for t in operands]), Call(program, self.kind, name, rule))
        outs = [Tracer(n, w) for n, w in zip(gets(u), traced.weak, strict=True)]
        return tree.unflatten(traced.out_tree, outs)

    def _rule(self, in_tree: Any, fixed: Any, captured: Sequence[UOp]) -> Rule:
        if captured:
            return self.make_rule(in_tree, fixed, captured)
        try:
            rule = self.rules.get((in_tree, fixed))
        except TypeError:  # a fixed argument that cannot be hashed
            return self.make_rule(in_tree, fixed, captured)
        if rule is None:
            rule = self.rules[in_tree, fixed] = self.make_rule(in_tree, fixed, captured)
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
        n = len(self.captured)
        stage, both, meaning = opened_for(what, [*primals, *tangents])
        inner, moves = both[: len(primals)], both[len(primals) :]
        with opened(stage):
            args = self.tracers(inner)
            leaves = [_given(d, p, owner.symbolic) for d, p in zip(moves[n:], primals[n:], strict=True)]
            given = tree.unflatten(self.in_tree, leaves)
            fixed = [x for _, x in self.fixed]
            result = owner.rule(*fixed, args, given)
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise TypeError(
                    f"Custom JVP rule {function_name(owner.rule)} for function {name} must produce a pair (list or "
                    f"tuple of length two) representing primal and tangent outputs, but got {result!r}"
                )
            outs, out_tree = lift_results(result[0], what)
            if out_tree != self.out_tree:
                raise TypeError(
                    f"{what} must return outputs of the same structure as the function, {self.out_tree}, got {out_tree}"
                )
            moved, spec = tree.flatten(result[1], is_leaf=lambda x: x is None)
            if len(moved) != len(outs):
                raise TypeError(f"{what} must return tangents of the structure of its outputs, {out_tree}, got {spec}")
            douts = [
                _as_node(x, o.node, what, tree.path_of(out_tree, i, "tangent"))
                for i, (x, o) in enumerate(zip(moved, outs, strict=True))
            ]
        there = [d for d in douts if d is not None]
        fixed_up = self.rebound([*[o.node for o in outs], *there], primals, meaning)
        it = iter(fixed_up[len(outs) :])
        return fixed_up[: len(outs)], [None if d is None else next(it) for d in douts]


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

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] | int = (),
        nondiff_argnames: Sequence[str] | str | None = None,
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.rule: Callable[..., Any] | None = None

    def ready(self) -> bool:
        return self.rule is not None

    def make_rule(self, in_tree: Any, fixed: Any, captured: Sequence[UOp]) -> Rule:
        return _JvpRule(self, in_tree, fixed, captured)

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
    def fwd(self, primals: list[UOp], moves: Sequence[bool]) -> tuple[list[UOp], list[UOp]]:
        owner = self.owner
        assert isinstance(owner, custom_vjp) and owner.forward is not None
        name = function_name(owner.fun)
        what = f"the forward rule of {name}"
        stage, inner, meaning = opened_for(what, primals)
        with opened(stage):
            args: Sequence[Any] = self.tracers(inner)
            if owner.symbolic:
                flags = tree.unflatten(self.in_tree, moves[len(self.captured) :])
                args = tree.map_(CustomVJPPrimal, args, flags)
            result = owner.forward(*self.full(args))
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise TypeError(f"{what} must return a pair (output, residuals), got {result!r}")
            outs, out_tree = lift_results(result[0], what)
            if out_tree != self.out_tree:
                raise TypeError(
                    f"{what} must return outputs of the same structure as the function, {self.out_tree}, got {out_tree}"
                )
            residuals, res_tree = lift_results(result[1], what)
        nodes = [r.node for r in residuals]
        self.residual_trees[_avals(nodes)] = res_tree
        fixed_up = self.rebound([*[o.node for o in outs], *nodes], primals, meaning)
        return fixed_up[: len(outs)], fixed_up[len(outs) :]

    def bwd(self, residuals: list[UOp], cts: list[Maybe], avals: Sequence[Aval]) -> list[Maybe]:
        owner = self.owner
        assert isinstance(owner, custom_vjp) and owner.backward is not None
        name = function_name(owner.fun)
        what = f"the backward rule of {name}"
        res_tree = self.residual_trees[_avals(residuals)]
        stage, inner, meaning = opened_for(what, [*residuals, *cts])
        there, given = inner[: len(residuals)], inner[len(residuals) :]
        with opened(stage):
            res = tree.unflatten(res_tree, [Tracer(r) for r in there])
            ct = tree.unflatten(
                self.out_tree, [_given(c, o, owner.symbolic) for c, o in zip(given, avals, strict=True)]
            )
            got = owner.backward(*[x for _, x in self.fixed], res, ct)
            if not isinstance(got, tuple | list):
                raise TypeError(f"{what} must return a tuple with one cotangent for each argument, got {got!r}")
            moving = tree.unflatten(self.in_tree, list(range(self.in_tree.num_leaves)))
            if len(got) != len(moving):
                raise TypeError(
                    f"{what} must return one cotangent for each of the {len(moving)} differentiated arguments, "
                    f"returned {len(got)}"
                )
            out: list[Maybe] = [None] * len(self.captured)
            for i, (g, arg) in enumerate(zip(got, moving, strict=True)):
                out.extend([None if _is_zero(x) else lift(x).node for x in _cotangent_leaves(g, arg, i, what)])
        it = iter(substitute([x for x in out if x is not None], meaning))
        return [None if x is None else next(it) for x in out]


def _avals(nodes: Sequence[UOp]) -> Any:
    return tuple([(n.dtype, n.shape) for n in nodes])


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
    except (ValueError, TypeError) as e:
        raise TypeError(
            f"{what} must return cotangent {i} with the structure of its argument, {tree.structure(argument)}, got "
            f"{tree.structure(cotangent)}: {e}"
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

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] | int = (),
        nondiff_argnames: Sequence[str] | str | None = None,
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.forward: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None

    def ready(self) -> bool:
        return self.forward is not None

    def make_rule(self, in_tree: Any, fixed: Any, captured: Sequence[UOp]) -> Rule:
        return _VjpRule(self, in_tree, fixed, captured)

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
    """
    if fun is None:
        return lambda f: checkpoint(f, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums)
    name = function_name(fun)
    static = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)

    @wraps(fun)
    def remembered(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fun(*args, **kwargs)
        fixed = {i % len(args): args[i] for i in static}
        moving = tuple([x for i, x in enumerate(args) if i not in fixed])
        leaves, in_tree = tree.flatten((moving, kwargs))
        check_leaves(leaves, in_tree, f"checkpoint({name})")
        operands = [lift(x) for x in leaves]

        def body(*given: Any, **named: Any) -> Any:
            it = iter(given)
            return fun(*[fixed[i] if i in fixed else next(it) for i in range(len(args))], **named)

        traced = trace(body, in_tree, [t.aval for t in operands], Stage(f"checkpoint({name})"))
        captured, program = closure(traced.params, traced.outs)
        u = uop(Op.CALL, (*captured, *[t.node for t in operands]), Call(program, "checkpoint", name, policy))
        outs = [Tracer(n, w) for n, w in zip(gets(u), traced.weak, strict=True)]
        return tree.unflatten(traced.out_tree, outs)

    return remembered


__all__ = ["checkpoint", "custom_gradient", "custom_jvp", "custom_vjp"]
