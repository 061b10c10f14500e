"""vmap: a function of one example becomes a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, VmapAxisError, describe
from fgrad.trace import tree
from fgrad.trace.apply import apply, close_over, operand
from fgrad.trace.batch import batch
from fgrad.trace.frames import trimmed
from fgrad.trace.ref import Ref, current, ref_over
from fgrad.trace.stage import Stage, is_tracing, stages
from fgrad.trace.staging import argument_names, function_name, need_function
from fgrad.trace.tracer import Tracer, is_arraylike, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, paused_gc
from fgrad.uop.program import Program, close
from fgrad.uop.rewrite import step
from fgrad.uop.simplify import simplify_program

Axis = int | None


class UnmappedError(Exception):
    """Output number `args[0]` is mapped although its out axis is None; whoever knows its path says so to the user."""


def move_axis(x: UOp, source: int, destination: int) -> UOp:
    """`x` with one axis moved."""
    axes = [i for i in range(x.ndim) if i != source]
    axes.insert(destination, source)
    return build.permute(x, axes)


@lru_cache(maxsize=2048)
def batched_program(
    program: Program, in_axes: tuple[Axis, ...], out_axes: tuple[Axis, ...], size: int, axis_name: Any
) -> Program:
    """`program` over a batch: parameter i is mapped along in_axes[i], output j gets its batch axis at out_axes[j].

    Raises UnmappedError when an output is mapped although its out axis is None.
    """
    with paused_gc():
        inner, batched = batch(program, tuple([a is not None for a in in_axes]), size, axis_name)
        params, nodes = [], []
        for p, axis in zip(program.params, in_axes, strict=True):
            shape = p.shape if axis is None else (*p.shape[:axis], size, *p.shape[axis:])
            params.append(open_param(p.dtype, shape))
            nodes.append(params[-1] if axis is None else move_axis(params[-1], axis, 0))
        outs = []
        hidden = {out for _, out in program.effects}
        for j, (o, is_batched, axis) in enumerate(zip(inner.inline(nodes), batched, out_axes, strict=True)):
            if axis is None:
                if is_batched and j not in hidden:
                    raise UnmappedError(j)
                outs.append(o)
            elif is_batched:
                outs.append(move_axis(o, 0, axis))
            else:
                outs.append(build.expand(o, [(axis, size)]))
        closed = close(params, outs, program.effects)
    return step("trace/vmap", lambda _: simplify_program(closed), program)


def _out_axis(axis: Any, aval: Aval, path: str) -> Axis:
    if axis is None:
        return None
    if not isinstance(axis, int) or not -aval.ndim - 1 <= axis <= aval.ndim:
        raise VmapAxisError(f"vmap out_axes of {path} is {axis!r}, but the output has {aval.ndim + 1} axes")
    return axis % (aval.ndim + 1)


def _in_axes(axes: Sequence[Axis], avals: Sequence[Aval], names: Callable[[], list[str]]) -> list[Axis]:
    out: list[Axis] = []
    for i, (axis, aval) in enumerate(zip(axes, avals, strict=True)):
        if axis is not None and not -aval.ndim <= axis < aval.ndim:
            least = axis + 1 if axis >= 0 else -axis
            raise VmapAxisError(
                f"vmap was requested to map its argument along axis {axis}, which implies that its rank should be at "
                f"least {least}, but is only {aval.ndim} (its shape is {aval.shape}): {names()[i]}"
            )
        out.append(None if axis is None else axis % aval.ndim)
    return out


def _batch_size(
    avals: Sequence[Aval], axes: Sequence[Axis], names: Callable[[], list[str]], axis_size: int | None
) -> int:
    sizes = {aval.shape[axis] for aval, axis in zip(avals, axes, strict=True) if axis is not None}
    if axis_size is not None:
        sizes.add(axis_size)
    if not sizes:
        raise VmapAxisError("vmap must have at least one non-None value in in_axes (a mapped argument), or axis_size")
    if len(sizes) > 1:
        raise VmapAxisError(
            "vmap got inconsistent sizes for array axes to be mapped:\n" + _sizes(avals, axes, names(), axis_size)
        )
    return sizes.pop()


def _sizes(avals: Sequence[Aval], axes: Sequence[Axis], names: Sequence[str], axis_size: int | None) -> str:
    """Which axes have which size, the commonest first."""
    by_size: dict[int, list[str]] = {}
    for aval, axis, name in zip(avals, axes, names, strict=True):
        if axis is not None:
            what = f"axis {axis} of {name} of type {Aval(aval.dtype, aval.shape)}"
            by_size.setdefault(aval.shape[axis], []).append(what)
    if axis_size is not None:
        by_size.setdefault(axis_size, []).append("the argument axis_size")
    lines = []
    for size, which in sorted(by_size.items(), key=lambda item: -len(item[1])):
        if len(which) == 1:
            lines.append(f"  * one axis had size {size}: {which[0]}")
        else:
            many = "some" if lines else "most"
            lines.append(f"  * {many} axes ({len(which)} of them) had size {size}, e.g. {which[0]}")
    return ";\n".join(lines)


def _names(fun: Callable[..., Any], in_tree: tree.TreeDef, positional: int) -> list[str]:
    """What to call each leaf of (args, kwargs): `argument x[0]`, `kwargs['y']`."""
    names = argument_names(fun, in_tree)
    named = [a.codify("") for a in in_tree.accessors()[positional:]]  # [1]['y'][0]
    return [f"argument {n}" for n in names[:positional]] + [f"kwargs{n.removeprefix('[1]')}" for n in named]


def _one_nothing(x: Any, axis: Axis) -> Any:
    """A float0 array without its mapped axis."""
    return x if axis is None else np.zeros(np.delete(x.shape, axis), tree.float0)


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """A function that maps `fun` over an axis of its arguments.

    in_axes    axis to map of each positional argument (an int, None for "not mapped", or a tree prefix of these);
               keyword arguments are mapped along axis 0. Of a Ref, every member has its slice, and may write it
    out_axes   where the batch axis goes in each output; None asks for an output that does not depend on it
    axis_name  a name for collectives (`lax.psum(x, name)`)

    Raises VmapAxisError when the sizes disagree or an axis does not exist.

    >>> vmap(lambda x: x.sum())(fnp.ones((3, 4)))
    Array([4., 4., 4.], dtype=float32)
    """
    if spmd_axis_name is not None:
        raise NotImplementedError("spmd_axis_name is not supported; fgrad runs in one process")
    need_function(fun, "vmap")
    if isinstance(in_axes, list):  # as in JAX, a list means the same as a tuple at the top
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, int | tuple)):
        raise ArgumentError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed "
            f"to the function, but got {in_axes!r}"
        )
    for axis in tree.leaves_of((in_axes, out_axes)):
        if not isinstance(axis, int):
            raise ArgumentError(
                "vmap in_axes and out_axes must be an int, None, or trees of these, but an entry is "
                f"{axis!r} of type {type(axis).__name__}"
            )
    name = function_name(fun)

    @trimmed
    @wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise VmapAxisError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                f"passed to the function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)} for {name}"
            )
        leaves, in_tree = tree.flatten((args, kwargs))
        positional = len(tree.leaves_of(args))
        given = tree.broadcast_prefix(in_axes, args, "vmap in_axes", root="args") if args else []
        given += [0] * (len(leaves) - len(given))
        if any(isinstance(x, Ref) and a is not None for x, a in zip(leaves, given, strict=True)):
            return _over_refs(fun, leaves, given, in_tree, out_axes, axis_name, axis_size)
        for i, a in enumerate(given):
            if a is not None and not is_arraylike(leaves[i]) and not tree.is_nothing(leaves[i]):
                raise ArgumentError(
                    f"vmap({name}) maps over arrays, but {tree.path_of_argument(in_tree, i)} is {describe(leaves[i])}; "
                    "give it in_axes None to pass it on as it is"
                )
        opaque = {
            i: _one_nothing(x, given[i]) if tree.is_nothing(x) else x
            for i, x in enumerate(leaves)
            if tree.is_nothing(x) or (given[i] is None and not is_arraylike(x))
        }
        operands = [operand(x) for i, x in enumerate(leaves) if i not in opaque]
        avals = [t.aval for t in operands]

        def names() -> list[str]:
            return [n for i, n in enumerate(_names(fun, in_tree, positional)) if i not in opaque]

        axes = _in_axes([a for i, a in enumerate(given) if i not in opaque], avals, names)
        size = _batch_size(avals, axes, names, axis_size)
        inner = [
            a if axis is None else Aval(a.dtype, (*a.shape[:axis], *a.shape[axis + 1 :]), a.weak)
            for a, axis in zip(avals, axes, strict=True)
        ]
        stage = Stage(f"vmap({name})")
        if axis_name is not None:
            stage.axes[axis_name] = size

        def run(*dynamic: Any) -> Any:
            it = iter(dynamic)
            full = [opaque[i] if i in opaque else next(it) for i in range(len(leaves))]
            a, k = tree.unflatten(in_tree, full)
            return fun(*a, **k)

        run.__name__ = name
        closed = close_over(run, operands, tree.flat_arguments(len(inner)), stage, inner)
        out = tree.unflatten(closed.out_tree, list(range(closed.out_tree.num_leaves)))
        wanted = tree.broadcast_prefix(out_axes, out, "vmap out_axes", root="the result") if closed.out_avals else []
        wanted = [w for w, x in zip(wanted, tree.leaves_of(out), strict=False) if not tree.is_nothing(x)]
        outs = [
            _out_axis(w, a, tree.path_of(closed.out_tree, j, "the result"))
            for j, (w, a) in enumerate(zip(wanted, closed.out_avals, strict=True))
        ]
        try:
            program = batched_program(
                closed.program,
                (*(None,) * closed.captured, *axes, *(None,) * len(closed.refs)),
                (*outs, *(None,) * closed.hidden),
                size,
                axis_name,
            )
        except UnmappedError as error:
            path = tree.path_of(closed.out_tree, error.args[0], "the result")
            called = "" if axis_name is None else f" (axis_name={axis_name})"
            raise VmapAxisError(
                f"vmap has mapped output{called} but out_axes is None: {path} of {name} depends on the mapped axis; "
                "give it an axis at vmap out_axes, or reduce over the batch with a collective (axis_name=)"
            ) from None
        results = apply(program, closed.nodes, [a.weak for a in closed.out_avals], closed.refs)
        result = tree.unflatten(closed.out_tree, results[: len(outs)])
        if len(tree.leaves_of(result)) == len(outs):
            return result
        # float0 arrays are part of the structure, and have been given back as those of one member
        return tree.map_(lambda x: np.zeros((size, *x.shape), tree.float0) if tree.is_nothing(x) else x, result)

    return mapped


def _name(in_tree: tree.TreeDef, i: int) -> list[str]:
    """What to call argument leaf number `i`."""
    return [tree.path_of(in_tree, i, "arguments")]


def _over_refs(
    fun: Callable[..., Any],
    leaves: Sequence[Any],
    axes: Sequence[Axis],
    in_tree: tree.TreeDef,
    out_axes: Any,
    axis_name: Any,
    axis_size: int | None,
) -> Any:
    """`vmap` where some of the arguments `leaves` are Refs: their contents go in, and come out of it as written."""
    name = function_name(fun)
    refs: dict[Ref, int] = {}
    for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
        if isinstance(x, Ref) and axis is not None:
            (place,) = _in_axes([axis], [x.aval], partial(_name, in_tree, i))
            if refs.setdefault(x, place or 0) != place:
                raise VmapAxisError(f"vmap({name}) got one Ref twice, mapped along two axes")
    is_slice = [isinstance(x, Ref) and a is not None for x, a in zip(leaves, axes, strict=True)]
    plain = [x for x, s in zip(leaves, is_slice, strict=True) if not s]
    plain_axes = [a for a, s in zip(axes, is_slice, strict=True) if not s]
    written: list[Ref] = []
    written_axes: list[int] = []  # known when the function has been traced

    def run(rest: Any, contents: Any, reverse: Any) -> Any:
        now = [lift(x).node for x in contents]
        back: list[UOp | None] = [lift(x).node for x in reverse]
        back += [None] * (len(now) - len(back))
        members = {r: ref_over(x, y) for r, x, y in zip(refs, now, back, strict=True)}
        it = iter(rest)
        full = [members[x] if s else next(it) for x, s in zip(leaves, is_slice, strict=True)]
        args, kwargs = tree.unflatten(in_tree, full)
        result = fun(*args, **kwargs)
        if any(r in stages()[-1].refs for r in refs):
            raise VmapAxisError(f"vmap({name}) maps over a Ref that {name} also closes over; use the one it is given")
        finals = []
        for (ref, member), old, old_back in zip(members.items(), now, back, strict=True):
            for outer, inner, before in ((ref, member, old), (ref.reverse, member.reverse, old_back)):
                if before is not None and current(inner) is not before:
                    written.append(outer)
                    written_axes.append(refs[ref])
                    finals.append(Tracer(current(inner)))
        return result, finals

    run.__name__ = name
    reverse = [Tracer(current(r.reverse)) for r in refs] if is_tracing() else []
    every = list(refs.values())
    over = vmap(run, (plain_axes, every, every[: len(reverse)]), (out_axes, written_axes), axis_name, axis_size)
    result, finals = over(plain, [r.get() for r in refs], reverse)
    for ref, value in zip(written, finals, strict=True):
        ref.put(value)
    return result
