"""jvp, linearize, vjp and linear_transpose: the transforms of differentiation, as functions on functions.

Each traces its function once (`close_over`), transforms the Program (memoised), and applies the result. Arguments
that are not differentiated are passed through untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

import optree

from fgrad.errors import ArgumentError, DtypeError, OrderingError, ShapeError, describe
from fgrad.trace import tree
from fgrad.trace.apply import Closed, apply, check_leaves, close_over, operand
from fgrad.trace.custom import with_known_refs
from fgrad.trace.derive import holds_rules, jvp_program, linearize_program, transpose_from, with_values
from fgrad.trace.differentiated import without_aux, zero_tangent
from fgrad.trace.frames import trim, trimmed
from fgrad.trace.ref import Held, Ref, carried, hide_refs, show_refs, uncarried
from fgrad.trace.stage import Stage
from fgrad.trace.staging import function_name, need_function
from fgrad.trace.tracer import Tracer, aval_of, lift
from fgrad.trace.tree import float0
from fgrad.uop import build
from fgrad.uop.aval import Aval
from fgrad.uop.node import UOp
from fgrad.uop.program import Program


def _close(fun: Callable[..., Any], args: Sequence[Any], what: str) -> tuple[Closed, list[Tracer], tree.TreeDef]:
    """Close `fun` over all leaves of `args`, Refs apart."""
    need_function(fun, what, at_once=True)
    args = tuple(args)
    hidden = hide_refs(args)
    leaves, spec = tree.flatten(hidden)
    check_leaves(leaves, spec, what)
    operands = [operand(x) for x in leaves]
    in_tree = tree.structure((hidden, {}))

    @wraps(fun)
    def shown(*given: Any) -> Any:
        return fun(*show_refs(given))

    stage = Stage(f"{what}({function_name(fun)})", concrete=True, is_reversed=what == "vjp")
    return close_over(fun if hidden is args else shown, operands, in_tree, stage), operands, spec


def _without_refs(x: Any) -> Any:
    """A pytree of cotangents, None in the places of Refs."""
    return tree.map_(lambda leaf: None if isinstance(leaf, Held) else leaf, x, is_leaf=lambda y: isinstance(y, Held))


def _tangents(
    primals: Sequence[Aval], spec: tree.TreeDef, tangents: Any, what: str, root: str = "tangents"
) -> list[Tracer | None]:
    """Tangent leaves beside primal leaves; None for integers. With `root` "cotangent", of an output."""
    leaves, tangent_spec = tree.flatten(tangents)
    cotangents = root == "cotangent"
    place = tree.difference(spec, tangent_spec, root)
    if place is not None:
        of = "the output" if cotangents else "its primal"
        raise ArgumentError(
            f"{what}: the {root if cotangents else 'tangents'} must have the structure of the "
            f"{'output' if cotangents else 'primals'}, but {place[0]} is {place[2]}, and {of} {place[1]}"
        )
    like = "a cotangent like the output" if cotangents else "tangents like their primals"
    partner = "output" if cotangents else "primal"
    out: list[Tracer | None] = []
    for i, (p, x) in enumerate(zip(primals, leaves, strict=True)):
        if not p.dtype.is_inexact:
            if getattr(x, "dtype", None) != float0:
                raise DtypeError(
                    f"{what}: the tangent of an integer or bool input ({tree.path_of(spec, i, 'primals')}, "
                    f"{p}) has "
                    f"dtype float0, got {getattr(x, 'dtype', type(x).__name__)}; use numpy.zeros(shape, "
                    "fgrad.dtypes.float0)"
                )
            out.append(None)
            continue
        t = operand(x)
        if t.shape != p.shape:
            raise ShapeError(
                f"{what} needs {like}, but {tree.path_of(spec, i, root)} has shape {t.shape} and the {partner} "
                f"{p.shape}"
            )
        if t.node.dtype is not p.dtype:
            if not t.weak or t.node.dtype.is_complex:
                raise DtypeError(
                    f"{what} needs {like}, but {tree.path_of(spec, i, root)} is {t.aval} and the {partner} {p}; "
                    f"convert it with .astype({p.dtype})"
                )
            t = Tracer(build.cast(t.node, p.dtype), p.weak)
        out.append(t)
    return out


@trimmed
def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """-> (fun(*primals), the derivative of fun there in direction `tangents`[, aux]).

    primals, tangents   sequences of the positional arguments (pytrees) and of their directions

    >>> jvp(lambda x: x ** 2, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    for name, x in (("primals", primals), ("tangents", tangents)):
        if not isinstance(x, list | tuple):
            raise ArgumentError(
                f"jvp needs {name} as a tuple or list with an entry for each argument, got {describe(x)}"
            )
    if len(primals) != len(tangents):
        raise TypeError(f"jvp got {len(primals)} primals and {len(tangents)} tangents")
    target, sizes = without_aux(fun, "jvp") if has_aux else (fun, [])

    def derived() -> tuple[Closed, list[Tracer | None], int, Program]:
        closed, operands, spec = _close(target, primals, "jvp")
        moving = _tangents([t.aval for t in operands], spec, tuple(tangents), "jvp")
        wrt = tuple([closed.captured + i for i, t in enumerate(moving) if t is not None])
        keep = sizes[-1].num_leaves if has_aux else len(closed.out_avals)
        return closed, moving, keep, with_values(jvp_program, closed.program, closed.nodes, wrt, keep)

    closed, moving, keep, program = with_known_refs(derived)
    nodes = [*closed.nodes, *[t.node for t in moving if t is not None]]
    weak = [a.weak for a in closed.out_avals] + [False] * closed.hidden
    weak += [a.weak for a in closed.out_avals[:keep] if a.dtype.is_inexact]
    results = apply(program, nodes, weak, closed.refs)
    n = len(closed.out_avals)
    moved = iter(results[n + closed.hidden :])
    douts = [next(moved) if a.dtype.is_inexact else zero_tangent(a) for a in closed.out_avals[:keep]]
    out = tree.unflatten(closed.out_tree, results[:n])
    if has_aux:
        return out[0], tree.unflatten(sizes[-1], douts), out[1]
    return out, tree.unflatten(closed.out_tree, douts)


@dataclass(frozen=True, slots=True)
class _Linear:
    """What a linear function knows beside its residuals, as part of its structure.

    program   (*residuals, *tangents) -> tangents of the floating outs
    sources   for each residual the argument leaf that it is, or None
    refs      the Refs that rules of the backward pass use: what these contain goes in and out of it, last
    """

    name: str
    program: Program
    in_avals: tuple[Aval, ...]
    in_tree: tree.TreeDef
    out_avals: tuple[Aval, ...]
    out_tree: tree.TreeDef
    sources: tuple[int | None, ...]
    refs: tuple[Ref, ...]
    is_transposed: bool

    def forward(self, residuals: list[UOp], tangents: tuple[Any, ...]) -> Any:
        """Tangents of the outputs."""
        given = _tangents(self.in_avals, self.in_tree, tangents, "the linear function")
        nodes = [*residuals, *[t.node for t in given if t is not None]]
        moved = iter(apply(self.program, nodes, [a.weak for a in self.out_avals if a.dtype.is_inexact]))
        out = [next(moved) if a.dtype.is_inexact else zero_tangent(a) for a in self.out_avals]
        return tree.unflatten(self.out_tree, out)

    def backward(self, residuals: list[UOp], cotangents: tuple[Any, ...]) -> Any:
        """Cotangents of the arguments."""
        if len(cotangents) != 1:
            raise ArgumentError(
                f"the vjp function of {self.name} was called with {len(cotangents)} arguments, but takes one: the "
                f"cotangent, which has the structure of the output of {self.name}"
            )
        leaves, ct_spec = tree.flatten(cotangents[0])
        given = cotangents[0]
        if ct_spec == self.out_tree:
            given = tree.unflatten(self.out_tree, _loose_integers(leaves, self.out_avals))
        cts = _tangents(self.out_avals, self.out_tree, given, f"the vjp of {self.name}", "cotangent")
        back = transpose_from(self.program, len(residuals))
        contents = [carried(lift(r.get()).node) for r in self.refs]
        nodes = [*residuals, *[t.node for t in cts if t is not None], *contents]
        moved = iter(apply(back, nodes, [a.weak for a in self.in_avals if a.dtype.is_inexact]))
        grads = [next(moved) if a.dtype.is_inexact else zero_tangent(a) for a in self.in_avals]
        for ref in self.refs:
            ref.put(Tracer(uncarried(lift(next(moved)).node, ref.aval)))
        return _without_refs(tree.unflatten(self.in_tree, grads))


class Linearized:
    """The linear function of `linearize` or `vjp`: holds the residuals, may be called any number of times.

    It is a pytree whose leaves are the residuals, so jitted functions may take and return it.

    args_res           a list with one entry for each argument: the argument where its leaves are residuals, None in
                       place of the others. An entry may be taken out (set to None) while the function is not needed
                       and put back before it is called.
    opaque_residuals   all other residuals
    """

    def __init__(self, linear: _Linear, args_res: list[Any], opaque_residuals: list[Any]) -> None:
        self.args_res = args_res
        self.opaque_residuals = opaque_residuals
        self._linear = linear
        self.__name__ = f"{'vjp' if linear.is_transposed else 'linearized'}_{linear.name}"

    def __call__(self, *args: Any) -> Any:
        try:
            linear = self._linear
            residuals = self._residuals()
            return linear.backward(residuals, args) if linear.is_transposed else linear.forward(residuals, args)
        except Exception as error:
            trim(error)
            raise

    def with_refs(self, *refs: Any) -> Callable[[Any], Any]:
        """The same function of `vjp`, which adds cotangents into Refs in place of returning them.

        refs   one for each primal: a Ref, or a pytree of them structured as the primal. Where anything else stands the
               cotangent is returned; in the place of a Ref the result has None

        >>> total = new_ref(0.0)
        >>> back = vjp(lambda x: x ** 2, 3.0)[1].with_refs(total)
        >>> back(1.0), back(1.0), total[...]
        ((None,), (None,), Array(12., dtype=float32))
        """

        def accumulate(cotangent: Any) -> Any:
            grads = self(cotangent)
            if not self._linear.is_transposed or len(refs) != len(grads):
                raise TypeError(
                    f"{self.__name__} was given {len(refs)} Refs; with_refs takes one for each primal of vjp"
                )
            return tuple([_add_into(r, g) for r, g in zip(refs, grads, strict=True)])

        return accumulate

    def __repr__(self) -> str:
        return f"<{self.__name__}>"

    def _residuals(self) -> list[UOp]:
        linear = self._linear
        opaque = iter(self.opaque_residuals)
        if all(source is None for source in linear.sources):
            return [lift(r).node for r in opaque]
        given: list[Any] = []
        for spec, arg in zip(linear.in_tree.children(), self.args_res, strict=True):
            given += [None] * spec.num_leaves if arg is None else spec.flatten_up_to(arg)
        out = []
        for source, like in zip(linear.sources, linear.program.params, strict=False):
            if source is None:
                out.append(lift(next(opaque)).node)
                continue
            path = tree.path_of(linear.in_tree, source, "args_res")
            if given[source] is None:
                raise ArgumentError(f"{self.__name__} needs {path}, which was taken out; put it back before the call")
            node = lift(given[source]).node
            if node.shape != like.shape:
                raise ShapeError(f"{path} of {self.__name__} must have shape {like.shape}, got {node.shape}")
            out.append(build.cast(node, like.dtype))
        return out


tree.register(
    Linearized,
    lambda f: ((f.args_res, f.opaque_residuals), f._linear, ("args_res", "opaque_residuals")),
    lambda linear, parts: Linearized(linear, *parts),
    path_entry_type=optree.GetAttrEntry,
)


def _add_into(ref: Any, cotangent: Any) -> Any:
    """Add a cotangent into a Ref, or a pytree of them; what has none is returned."""
    if isinstance(ref, Ref):
        ref.addupdate(..., cotangent)
        return None
    if not any(isinstance(r, Ref) for r in tree.leaves_of(ref)):
        return cotangent
    return tree.map_(_add_into, ref, cotangent)


def _linearized(
    fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool, what: str
) -> tuple[Any, Linearized, Any]:
    """-> (out, linear function, aux)."""
    target, sizes = without_aux(fun, what) if has_aux else (fun, [])

    def derived() -> tuple[Any, ...]:
        closed, operands, spec = _close(target, primals, what)
        wrt = tuple([closed.captured + i for i, t in enumerate(operands) if t.node.dtype.is_inexact])
        keep = sizes[-1].num_leaves if has_aux else len(closed.out_avals)
        ways = closed.reversed_refs
        forward, linear = with_values(linearize_program, closed.program, closed.nodes, wrt, keep, ways)
        if what == "vjp" and holds_rules(closed.program):  # what their rules use must be known before anything runs
            with suppress(Exception):  # other errors are for who calls the result
                transpose_from(linear, len(forward.outs) - len(closed.program.outs))
        return closed, operands, spec, keep, forward, linear

    closed, operands, spec, keep, forward, linear = with_known_refs(derived)
    results = apply(forward, closed.nodes, [a.weak for a in closed.out_avals], closed.refs)
    n = len(closed.out_avals)
    first = n + closed.hidden
    argument = {p: i for i, p in enumerate(forward.params[closed.captured :][: len(operands)])}
    sources = tuple([argument.get(o) for o in forward.outs[first:]])
    residuals = results[first:]
    mine = {s: r for s, r in zip(sources, residuals, strict=True) if s is not None}
    args_res = list(tree.unflatten(spec, [mine.get(i) for i in range(len(operands))]))
    known = _Linear(
        function_name(fun),
        linear,
        tuple([t.aval for t in operands]),
        spec,
        tuple(closed.out_avals[:keep]),
        sizes[-1] if has_aux else closed.out_tree,
        sources,
        tuple([closed.refs[w.ref_slot] for w in closed.reversed_refs]),
        is_transposed=what == "vjp",
    )
    opaque = [r for s, r in zip(sources, residuals, strict=True) if s is None]
    out = tree.unflatten(closed.out_tree, results[:n])
    function = Linearized(known, args_res, opaque)
    return (out[0], function, out[1]) if has_aux else (out, function, None)


def residuals_of(fun: Callable[..., Any], args: Sequence[Any]) -> list[tuple[UOp, int | None]]:
    """What the reverse derivative of `fun` keeps: nodes, and the number of the argument that each is, or None."""
    closed, operands, _ = _close(fun, tuple(args), "vjp")
    wrt = tuple([closed.captured + i for i, t in enumerate(operands) if t.node.dtype.is_inexact])
    forward, _ = linearize_program(closed.program, wrt, len(closed.out_avals))
    number = {p: i for i, p in enumerate(forward.params[closed.captured :])}
    return [(o, number.get(o)) for o in forward.outs[len(closed.out_avals) + closed.hidden :]]


@trimmed
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """-> (fun(*primals), f_jvp[, aux]): `f_jvp(*tangents)` is the derivative there, without running `fun` again.

    `f_jvp` is a pytree of its residuals, so jitted functions may take and return it.

    >>> y, f_jvp = linearize(fnp.square, 3.0)
    >>> float(y), float(f_jvp(1.0)), float(f_jvp(10.0))
    (9.0, 6.0, 60.0)
    """
    out, f_jvp, aux = _linearized(fun, primals, has_aux, "linearize")
    return (out, f_jvp, aux) if has_aux else (out, f_jvp)


@trimmed
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()) -> Any:
    """-> (fun(*primals), f_vjp[, aux]): `f_vjp(cotangent)` is the tuple of cotangents of the primals.

    The cotangent has the structure, shapes and dtypes of `fun`'s output. `fun` is run once; its residuals are kept
    by `f_vjp`, which is a pytree of them: jitted functions may take and return it.

    >>> y, back = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> back(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if reduce_axes:
        raise NotImplementedError("reduce_axes is not supported; apply lax.psum to the cotangents instead")
    out, f_vjp, aux = _linearized(fun, primals, has_aux, "vjp")
    return (out, f_vjp, aux) if has_aux else (out, f_vjp)


def _loose_integers(leaves: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Whatever stands for the cotangent of an integer output is nothing."""
    return [x if a.dtype.is_inexact else zero_tangent(a) for x, a in zip(leaves, avals, strict=True)]


@trimmed
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[..., Any]:
    """The transpose of a linear function: `linear_transpose(fun, *primals)(cotangent)` is the tuple of cotangents.

    primals   arrays or ShapeDtypeStructs: only shapes and dtypes are used. Raises NotImplementedError naming the first
              operation that is not linear.

    >>> linear_transpose(lambda x: 3 * x[:2], ShapeDtypeStruct((3,), "float32"))(fnp.array([1.0, 2.0]))
    (Array([3., 6., 0.], dtype=float32),)
    """
    need_function(fun, "linear_transpose")
    leaves, spec = tree.flatten(tuple(primals))
    avals = [aval_of(x) for x in leaves]
    for i, a in enumerate(avals):
        if not a.dtype.is_inexact:
            raise DtypeError(
                "linear_transpose only supports float and complex inputs, but "
                f"{tree.path_of(spec, i, 'primals')} is {a}"
            )
    in_tree = tree.structure((tuple(primals), {}))
    from_avals = [Tracer(build.const(0, a.dtype, a.shape), a.weak) for a in avals]
    closed = close_over(fun, from_avals, in_tree, Stage(f"linear_transpose({function_name(fun)})"))
    if closed.refs:
        raise OrderingError(
            "linear_transpose takes a pure function, but this one uses a Ref from outside, or a callback"
        )

    def transposed(cotangent: Any) -> Any:
        cts, ct_spec = tree.flatten(cotangent)
        place = tree.difference(closed.out_tree, ct_spec, "cotangent")
        if place is not None:
            raise ArgumentError(
                f"linear_transpose: the cotangent tree does not match the output of {function_name(fun)}: {place[0]} "
                f"is {place[2]}, and the output {place[1]}"
            )
        given = [operand(x) for x in cts]
        for t, a in zip(given, closed.out_avals, strict=True):
            loose = t.weak and t.node.dtype.is_complex == a.dtype.is_complex
            if t.shape != a.shape or (t.node.dtype is not a.dtype and not loose):
                raise TypeError(f"linear_transpose: the cotangent type does not match the output, {a}, got {t.aval}")
        back = transpose_from(closed.program, closed.captured)
        nodes = [*closed.nodes[: closed.captured],
                 *[build.cast(t.node, a.dtype) for t, a in zip(given, closed.out_avals, strict=True)]]  # fmt: skip
        return tree.unflatten(spec, apply(back, nodes, [a.weak for a in avals]))

    return trimmed(transposed)
