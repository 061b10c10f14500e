"""while_loop, fori_loop and map: loops inside a program that ask, count, or only collect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.config import config
from fgrad.errors import ArgumentError, DtypeError, note_user_line
from fgrad.lax.branches import cond
from fgrad.lax.scans import Steps, length_of, need_same_tree, run_steps, unroll_of, write_back
from fgrad.lax.staging import (
    as_one_program,
    close_together,
    fits,
    mismatch,
    refs_of,
    tracers,
    wider,
    with_refs,
)  # fmt: skip
from fgrad.trace import tree
from fgrad.trace.apply import operand
from fgrad.trace.frames import trimmed
from fgrad.trace.ref import current, hide_refs, show_refs
from fgrad.trace.stage import Stage, is_tracing
from fgrad.trace.staging import Traced, argument_names, function_name, need_functions, trace
from fgrad.trace.tracer import ArrayLike, Tracer, lift
from fgrad.trace.vmap import vmap
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, paused_gc, uop
from fgrad.uop.op import Op
from fgrad.uop.program import While, gets


# ---- while
@trimmed
def while_loop(
    cond_fun: Callable[..., Any],
    body_fun: Callable[..., Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
) -> Any:
    """Run `val = body_fun(val)` as long as `cond_fun(val)`; gives the last value.

    init_val   a pytree of arrays; body_fun returns the same structure, shapes and dtypes, and the same Ref where
               there is one
    cond_fun   returns a bool scalar
    max_steps  at most so many steps. With it the loop can be differentiated in reverse mode too.

    >>> while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int64, weak_type=True)
    """
    need_functions("while_loop", cond_fun=cond_fun, body_fun=body_fun)
    if config.disable_jit and not is_tracing():
        val, left = init_val, max_steps
        while (left is None or left > 0) and cond_fun(val):
            val, left = body_fun(val), left and left - 1
        return val
    if max_steps is not None:
        return _bounded_while(cond_fun, body_fun, init_val, Steps(int(max_steps), False))
    return _while(cond_fun, body_fun, init_val)


@as_one_program("while_loop")
def _while(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any) -> Any:
    init_val = hide_refs(init_val)
    leaves, spec = tree.flatten(init_val)
    starts = [operand(x) for x in leaves]
    in_tree = tree.structure(((init_val,), {}))
    with paused_gc():
        avals, body, carries = _settled_body(body_fun, in_tree, [t.aval for t in starts], spec)
        stage = Stage(f"while_loop({function_name(cond_fun)})", repeats=True)
        test = trace(with_refs(cond_fun), in_tree, avals, stage, argument_names(cond_fun, in_tree))
        predicate = _predicate("while_loop", cond_fun, test)
        read, written = refs_of([test, body])
        if test.finals:
            raise note_user_line(
                ArgumentError(f"while_loop: the condition {function_name(cond_fun)} must not write to a Ref")
            )
        functions = []
        for traced, outs in ((test, [predicate]), (body, carries)):
            entries = [traced.entry(r) for r in written]
            finals = [traced.final(r, e) for r, e in zip(written, entries, strict=True)]
            params = [*[traced.entry(r) for r in read], *traced.params, *entries]
            functions.append((params, [*outs, *finals] if traced is body else outs))
        captured, (condition, step) = close_together(functions, "while_loop")
        consts = [*captured, *[current(r) for r in read]]
        begin = [build.cast(t.node, a.dtype) for t, a in zip(starts, avals, strict=True)]
        carry = [*begin, *[current(r) for r in written]]
        results = gets(uop(Op.WHILE, (*consts, *carry), While(condition, step, len(consts))))
    write_back(written, results[len(begin) :])
    return show_refs(tree.unflatten(spec, tracers(results[: len(begin)], [a.weak for a in avals])))


def _predicate(what: str, f: Callable[..., Any], traced: Traced) -> UOp:
    """The one bool scalar that a condition returns."""
    if len(traced.outs) != 1 or traced.outs[0].shape != () or traced.outs[0].dtype is not dt.bool_:
        got = ", ".join(str(a) for a in traced.out_avals)
        raise note_user_line(
            ArgumentError(
                f"{what}: the condition {function_name(f)} must return one bool scalar, got {got or 'nothing'}"
            )
        )
    return traced.outs[0]


def _settled_body(
    f: Callable[..., Any], in_tree: tree.TreeDef, avals: list[Aval], spec: tree.TreeDef
) -> tuple[list[Aval], Traced, list[UOp]]:
    """As `_settled`, for a body that returns only the carry."""
    shown = with_refs(f)

    def body(val: Any) -> Any:
        return hide_refs(shown(val))

    while True:
        stage = Stage(f"while_loop({function_name(f)})", repeats=True)
        traced = trace(body, in_tree, avals, stage, argument_names(f, in_tree))
        need_same_tree("while_loop", "the value", spec, traced.out_tree)
        carries, better = [], list(avals)
        for i, (o, w, a) in enumerate(zip(traced.outs, traced.weak, avals, strict=True)):
            stronger = wider(a, o, w)
            if stronger is not None:
                better[i] = stronger
                continue
            fitting = fits(o, w, a)
            if fitting is None:
                raise mismatch("while_loop", tree.path_of(spec, i, "val"), a, Aval(o.dtype, o.shape))
            carries.append(fitting)
            better[i] = Aval(a.dtype, a.shape, a.weak and w)
        if better == avals:
            return avals, traced, carries
        avals = better


def _bounded_while(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any, steps: Steps) -> Any:
    """A scan whose steps stand still once the condition is false."""

    def step(val: Any, _: None) -> tuple[Any, None]:
        return cond(cond_fun(val), body_fun, lambda v: v, val), None

    return run_steps(step, init_val, None, steps)[0]


# ---- for
@trimmed
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[..., Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Run `val = body_fun(i, val)` for i = lower .. upper-1; gives the last value.

    unroll   as in `scan`, where the bounds are known while tracing

    With bounds known while tracing it can be differentiated in both modes, otherwise in forward
    mode only.

    >>> fori_loop(0, 5, lambda i, x: x + i, 0)
    Array(10, dtype=int64, weak_type=True)
    """
    need_functions("fori_loop", body_fun=body_fun)
    for what, bound in (("lower", lower), ("upper", upper)):
        aval = lift(bound).aval
        if not aval.dtype.is_int or aval.shape != ():
            raise note_user_line(DtypeError(f"fori_loop needs {what} as an integer scalar, got {aval}"))
    if config.disable_jit and not is_tracing():
        for i in range(int(lower), int(upper)):
            init_val = body_fun(i, init_val)
        return init_val
    first, last = _known(lower), _known(upper)
    if first is not None and last is not None:
        return _counted(body_fun, init_val, first, max(last - first, 0), unroll)
    if unroll not in (None, False, 1) or unroll is True:
        raise note_user_line(
            ValueError("Can only use `unroll` in `fori_loop` if the loop bounds are statically known (while tracing)")
        )

    def body(state: Any) -> Any:
        i, end, val = state
        return _plus_one(i), end, body_fun(i, val)

    return _while(_not_done, body, (*_bounds(lower, upper), init_val))[2]


def _known(x: Any) -> int | None:
    """The value of a bound that is known now."""
    if isinstance(x, Tracer):
        return int(build.scalar_of(x.node)) if build.is_const(x.node) else None
    return int(np.asarray(x))


def _counted(body_fun: Callable[..., Any], init_val: Any, first: int, n: int, unroll: int | bool | None = None) -> Any:
    def step(val: Any, i: Any) -> tuple[Any, None]:
        return body_fun(i, val), None

    step.__name__ = function_name(body_fun)
    steps = Steps(n, False, what="fori_loop", unroll=unroll_of("fori_loop", unroll, n))
    return _run_counted(step, init_val, steps, Steps(first, False))


@as_one_program("fori_loop")
def _run_counted(step: Callable[..., Any], init_val: Any, steps: Steps, first: Steps) -> Any:
    counter = build.iota(steps.length)
    if first.length:
        counter = build.add(counter, first.length)
    return run_steps(step, init_val, Tracer(counter, True), steps)[0]


@as_one_program("fori_loop")
def _bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Any, Any]:
    """Both bounds in one dtype; the counter is weak when both are."""
    a, b = lift(lower), lift(upper)
    dtype, weak = dt.promote((a.node.dtype, a.weak), (b.node.dtype, b.weak))
    return Tracer(build.cast(a.node, dtype), weak), Tracer(build.cast(b.node, dtype), weak)


def _not_done(state: Any) -> Tracer:
    return Tracer(build.lt(lift(state[0]).node, lift(state[1]).node))


def _plus_one(i: Any) -> Tracer:
    t = lift(i)
    return Tracer(build.add(t.node, 1), t.weak)


# ---- map
@trimmed
def map(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of every element along the leading axis of `xs`, one after the other, results stacked.

    batch_size   so many at a time, by vmap

    >>> map(lambda x: x * 2, fnp.arange(3))
    Array([0, 2, 4], dtype=int64)
    """
    need_functions("map", f=f)
    leaves, spec = tree.flatten(xs)
    n = length_of(leaves, spec, None, "map")
    if batch_size is None:
        return _mapped(f, xs, Steps(n, False, what="map"))
    if batch_size < 1:
        raise note_user_line(ArgumentError(f"map needs a batch_size of at least 1, got {batch_size}"))
    return _map_batches(f, xs, Steps(n, False), Steps(batch_size, False))


def _mapped(f: Callable[..., Any], xs: Any, steps: Steps) -> Any:
    def step(_: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    step.__name__ = function_name(f)
    return run_steps(step, None, xs, steps)[1]


@as_one_program("map")
def _map_batches(f: Callable[..., Any], xs: Any, steps: Steps, batch: Steps) -> Any:
    n, size = steps.length, batch.length
    many, rest = divmod(n, size)

    def part(x: Any, start: int, stop: int, shape: tuple[int, ...]) -> Tracer:
        t = lift(x)
        return Tracer(build.reshape(build.slice_axis(t.node, 0, start, stop), (*shape, *t.shape[1:])), t.weak)

    def flat(y: Any) -> Tracer:
        t = lift(y)
        return Tracer(build.reshape(t.node, (many * size, *t.shape[2:])), t.weak)

    def joined(a: Any, b: Any) -> Tracer:
        return Tracer(build.concatenate([lift(a).node, lift(b).node], 0), lift(a).weak)

    chunks = tree.map_(lambda x: part(x, 0, many * size, (many, size)), xs)
    out = tree.map_(flat, _mapped(vmap(f), chunks, Steps(many, False)))
    if not rest:
        return out
    more = vmap(f)(tree.map_(lambda x: part(x, many * size, n, (rest,)), xs))
    return tree.map_(joined, out, more)


__all__ = ["fori_loop", "map", "while_loop"]
