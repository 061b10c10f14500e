"""vmap: a function of one example becomes a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any

from fgrad.errors import VmapAxisError
from fgrad.trace import tree
from fgrad.trace.apply import apply, check_leaves, close_over, operand
from fgrad.trace.batch import batch
from fgrad.trace.frames import trimmed
from fgrad.trace.stage import Stage
from fgrad.trace.staging import function_name
from fgrad.trace.tracer import is_arraylike
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp, open_param, paused_gc
from fgrad.uop.program import Program, close
from fgrad.uop.rewrite import step
from fgrad.uop.simplify import simplify_program

Axis = int | None


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

    Raises VmapAxisError when an output is mapped although its out axis is None.
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
                    raise VmapAxisError(
                        f"output {j} of the mapped function depends on the mapped axis, but its out_axes is None; "
                        "give it an axis, or reduce over the batch with a collective (axis_name=)"
                    )
                outs.append(o)
            elif is_batched:
                outs.append(move_axis(o, 0, axis))
            else:
                outs.append(build.expand(o, [(axis, size)]))
        closed = close(params, outs, program.effects)
    return step("trace/vmap", lambda _: simplify_program(closed), program)


def _axis(axis: Any, ndim: int, what: str, path: str) -> Axis:
    if axis is None:
        return None
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise VmapAxisError(f"vmap {what} of {path} is {axis!r}, but it has {ndim} axes")
    return axis % ndim


def _batch_size(avals: Sequence[Aval], axes: Sequence[Axis], spec: tree.TreeDef, axis_size: int | None) -> int:
    sizes = {}
    for i, (aval, axis) in enumerate(zip(avals, axes, strict=True)):
        if axis is not None:
            sizes[tree.path_of(spec, i, "args")] = aval.shape[axis]
    found = set(sizes.values()) | ({axis_size} if axis_size is not None else set())
    if not found:
        raise VmapAxisError("vmap needs at least one mapped argument (an in_axes that is not None), or axis_size")
    if len(found) > 1:
        listed = ", ".join(f"{path} has {n}" for path, n in sizes.items())
        stated = f"; axis_size is {axis_size}" if axis_size is not None else ""
        raise VmapAxisError(f"vmap got inconsistent sizes for the mapped axes: {listed}{stated}")
    return found.pop()


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
               keyword arguments are mapped along axis 0
    out_axes   where the batch axis goes in each output; None asks for an output that does not depend on it
    axis_name  a name for collectives (`lax.psum(x, name)`)

    Raises VmapAxisError when the sizes disagree or an axis does not exist.

    >>> vmap(lambda x: x.sum())(fnp.ones((3, 4)))
    Array([4., 4., 4.], dtype=float32)
    """
    if spmd_axis_name is not None:
        raise NotImplementedError("spmd_axis_name is not supported; fgrad runs in one process")
    if isinstance(in_axes, list):  # as in JAX, a list means the same as a tuple at the top
        in_axes = tuple(in_axes)
    name = function_name(fun)

    @trimmed
    @wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise VmapAxisError(
                f"vmap in_axes has {len(in_axes)} entries, but {name} was called with {len(args)} positional arguments"
            )
        leaves, in_tree = tree.flatten((args, kwargs))
        spec = tree.structure(args)
        given = tree.broadcast_prefix(in_axes, args, "vmap in_axes") if args else []
        given += [0] * (len(leaves) - len(given))
        mapped_at = [i for i, a in enumerate(given) if a is not None]
        check_leaves([leaves[i] for i in mapped_at], tree.structure([0] * len(mapped_at)), f"vmap({name})", "mapped")
        opaque = {i for i, x in enumerate(leaves) if given[i] is None and not is_arraylike(x)}
        operands = [operand(x) for i, x in enumerate(leaves) if i not in opaque]
        axes: list[Axis] = []
        seen = 0
        for i in range(len(leaves)):
            if i in opaque:
                continue
            path = tree.path_of(spec, i, "args") if i < spec.num_leaves else "a keyword argument"
            axes.append(_axis(given[i], operands[seen].ndim, "in_axes", path))
            seen += 1
        avals = [t.aval for t in operands]
        size = _batch_size(avals, axes, tree.structure([0] * len(avals)), axis_size)
        inner = [
            a if axis is None else Aval(a.dtype, (*a.shape[:axis], *a.shape[axis + 1 :]), a.weak)
            for a, axis in zip(avals, axes, strict=True)
        ]
        stage = Stage(f"vmap({name})")
        if axis_name is not None:
            stage.axes[axis_name] = size

        def run(*dynamic: Any) -> Any:
            it = iter(dynamic)
            full = [leaves[i] if i in opaque else next(it) for i in range(len(leaves))]
            a, k = tree.unflatten(in_tree, full)
            return fun(*a, **k)

        run.__name__ = name
        closed = close_over(run, operands, tree.flat_arguments(len(inner)), stage, inner)
        out = tree.unflatten(closed.out_tree, list(range(closed.out_tree.num_leaves)))
        wanted = tree.broadcast_prefix(out_axes, out, "vmap out_axes") if closed.out_avals else []
        outs = [
            _axis(w, a.ndim + 1, "out_axes", f"output {j}")
            for j, (w, a) in enumerate(zip(wanted, closed.out_avals, strict=True))
        ]
        program = batched_program(
            closed.program,
            (*(None,) * closed.captured, *axes, *(None,) * len(closed.refs)),
            (*outs, *(None,) * closed.hidden),
            size,
            axis_name,
        )
        results = apply(program, closed.nodes, [a.weak for a in closed.out_avals], closed.refs)
        return tree.unflatten(closed.out_tree, results[: len(outs)])

    return mapped
