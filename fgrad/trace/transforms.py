"""grad and its family: the public transforms of differentiation, as functions on functions.

Each traces its function once (`close_over`), transforms the Program (memoised), and applies the result. Arguments
that are not differentiated are passed through untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, NonScalarGradError, ShapeError
from fgrad.trace import tree
from fgrad.trace.apply import Closed, apply, check_leaves, close_over, operand
from fgrad.trace.derive import gradient_program, jvp_program, linearize_program, transpose_from
from fgrad.trace.frames import trim, trimmed
from fgrad.trace.stage import Stage
from fgrad.trace.staging import function_name
from fgrad.trace.tracer import Tracer, aval_of, lift
from fgrad.uop import build
from fgrad.uop.aval import Aval

float0 = np.dtype([("float0", np.void, 0)])
"""The dtype of the tangents of integers and bools: it holds nothing (as in JAX)."""

ArgNums = int | Sequence[int]


def _positions(argnums: ArgNums, args: Sequence[Any], what: str) -> tuple[int, ...]:
    """argnums as non-negative positions in `args`."""
    many = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in many:
        if not isinstance(i, int) or not -len(args) <= i < len(args):
            raise ArgumentError(f"{what} with argnums={argnums} was called with {len(args)} positional arguments")
    return tuple([i % len(args) for i in many])


def _bind(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], at: Sequence[int]
) -> Callable[..., Any]:
    """`fun` as a function of the arguments at positions `at` only."""

    def bound(*moving: Any) -> Any:
        full = list(args)
        for i, x in zip(at, moving, strict=True):
            full[i] = x
        return fun(*full, **kwargs)

    bound.__name__ = function_name(fun)
    return bound


def _split_aux(fun: Callable[..., Any], what: str) -> tuple[Callable[..., Any], list[Any]]:
    """`fun` returning (out, aux), as a function that returns (out, aux) with aux checked to be a pair."""
    sizes: list[Any] = []

    def pair(*args: Any, **kwargs: Any) -> Any:
        result = fun(*args, **kwargs)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(
                f"{what} with has_aux=True needs a function that returns a pair (output, aux), got {result!r}"
            )
        sizes.append(tree.structure(result[0]))
        return result

    pair.__name__ = function_name(fun)
    return pair, sizes


def _differentiable(
    operands: Sequence[Tracer], spec: tree.TreeDef, what: str, holomorphic: bool, allow_int: bool
) -> None:
    for i, t in enumerate(operands):
        dtype = t.node.dtype
        path = tree.path_of(spec, i, "args")
        if holomorphic:
            if not dtype.is_complex:
                raise DtypeError(f"{what} with holomorphic=True needs complex inputs, but {path} is {t.aval}")
        elif dtype.is_complex and what != "jacrev":
            continue
        elif not dtype.is_inexact and not allow_int:
            raise DtypeError(
                f"{what} needs real- or complex-valued inputs (a floating dtype), but {path} is {t.aval}; convert it "
                "with .astype(float32), or leave it out of argnums, or pass allow_int=True"
            )


def _zero_tangent(aval: Aval) -> Any:
    return np.zeros(aval.shape, float0)


def _close(
    fun: Callable[..., Any], args: Sequence[Any], what: str, concrete: bool = True
) -> tuple[Closed, list[Tracer], tree.TreeDef]:
    """Close `fun` over all leaves of `args`."""
    leaves, spec = tree.flatten(tuple(args))
    check_leaves(leaves, spec, what)
    operands = [operand(x) for x in leaves]
    in_tree = tree.structure((tuple(args), {}))
    closed = close_over(fun, operands, in_tree, Stage(f"{what}({function_name(fun)})", concrete))
    return closed, operands, spec


def value_and_grad(
    fun: Callable[..., Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that returns `fun`'s value and its gradient with respect to the arguments at `argnums`.

    fun       returns a real scalar (or a pair (scalar, aux) with `has_aux`)
    argnums   position or positions to differentiate; these arguments are pytrees of floating arrays

    The gradient has the structure of the argument (a tuple of them for several positions).
    Raises NonScalarGradError for other outputs, DtypeError for integer inputs unless `allow_int`.

    >>> value_and_grad(lambda x: x ** 2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    if reduce_axes:
        raise NotImplementedError("reduce_axes is not supported; apply lax.psum to the gradient instead")

    @trimmed
    @wraps(fun)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        at = _positions(argnums, args, "grad")
        target, sizes = _split_aux(fun, "grad") if has_aux else (fun, [])
        moving = tuple([args[i] for i in at])
        leaves, spec = tree.flatten(moving)
        check_leaves(leaves, spec, "grad")
        operands = [operand(x) for x in leaves]
        _differentiable(operands, spec, "grad", holomorphic, allow_int)
        closed = close_over(
            _bind(target, args, kwargs, at), operands, tree.structure((moving, {})),
            Stage(f"grad({function_name(fun)})", concrete=True),
        )  # fmt: skip
        _check_scalar(fun, closed, sizes[-1] if has_aux else closed.out_tree, holomorphic)
        wrt = tuple([closed.captured + i for i, t in enumerate(operands) if t.node.dtype.is_inexact])
        program = gradient_program(closed.program, wrt)
        weak = [a.weak for a in closed.out_avals] + [False] * closed.hidden
        weak += [t.weak for t in operands if t.node.dtype.is_inexact]
        results = apply(program, closed.nodes, weak, closed.refs)
        n = len(closed.out_avals)
        value = tree.unflatten(closed.out_tree, results[:n])
        moved = iter(results[n + closed.hidden :])
        grads = [next(moved) if t.node.dtype.is_inexact else _zero_tangent(t.aval) for t in operands]
        gradient = tree.unflatten(spec, grads)
        return value, gradient[0] if isinstance(argnums, int) else gradient

    return value_and_gradient


def _check_scalar(fun: Callable[..., Any], closed: Closed, out_tree: tree.TreeDef, holomorphic: bool) -> None:
    name = function_name(fun)
    if out_tree.num_leaves != 1 or not out_tree.is_leaf():
        raise NonScalarGradError(
            f"grad needs a function that returns one scalar, but {name} returned a pytree with {out_tree.num_leaves} "
            "leaves; use has_aux=True for extra outputs, or vjp / jacrev"
        )
    aval = closed.out_avals[0]
    if aval.shape != ():
        raise NonScalarGradError(
            f"grad needs a function with scalar output, but {name} returned shape {aval.shape}; sum it, or use jacrev, "
            "or vmap(grad(...)) for one gradient for each element"
        )
    if not aval.dtype.is_inexact or (aval.dtype.is_complex and not holomorphic):
        raise NonScalarGradError(
            f"grad needs a function with real output (a floating dtype), but {name} returned {aval}; "
            + (
                "take its real part or abs, or use holomorphic=True"
                if aval.dtype.is_complex
                else "convert it to a float"
            )
        )


def grad(
    fun: Callable[..., Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that returns the gradient of the scalar function `fun`; with `has_aux`, the pair (gradient, aux).

    Parameters and errors as in `value_and_grad`.

    >>> grad(lambda x: x ** 3)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @trimmed
    @wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def _tangents(primals: Sequence[Tracer], spec: tree.TreeDef, tangents: Any, what: str) -> list[Tracer | None]:
    """Tangent leaves beside primal leaves; None for integers."""
    leaves, tangent_spec = tree.flatten(tangents)
    if tangent_spec != spec:
        raise TypeError(
            f"{what} needs tangents with the structure of the primals, got {tangent_spec} for primals {spec}"
        )
    out: list[Tracer | None] = []
    for i, (p, x) in enumerate(zip(primals, leaves, strict=True)):
        if not p.node.dtype.is_inexact:
            if getattr(x, "dtype", None) != float0:
                raise DtypeError(
                    f"{what}: the tangent of an integer or bool input ({tree.path_of(spec, i, 'primals')}, "
                    f"{p.aval}) has "
                    f"dtype float0, got {getattr(x, 'dtype', type(x).__name__)}; use numpy.zeros(shape, "
                    "fgrad.dtypes.float0)"
                )
            out.append(None)
            continue
        t = operand(x)
        if t.shape != p.shape:
            raise ShapeError(
                f"{what} needs tangents shaped as their primals, but {tree.path_of(spec, i, 'tangents')} has shape "
                f"{t.shape} and the primal {p.shape}"
            )
        if t.node.dtype is not p.node.dtype:
            if not t.weak:
                raise DtypeError(
                    f"{what} needs tangents of their primals' dtype, but {tree.path_of(spec, i, 'tangents')} is "
                    f"{t.aval} "
                    f"and the primal {p.aval}"
                )
            t = Tracer(build.cast(t.node, p.node.dtype), p.weak)
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
            raise TypeError(f"jvp needs {name} as a tuple or list of arguments, got {type(x).__name__}")
    if len(primals) != len(tangents):
        raise TypeError(f"jvp got {len(primals)} primals and {len(tangents)} tangents")
    target, sizes = _split_aux(fun, "jvp") if has_aux else (fun, [])
    closed, operands, spec = _close(target, tuple(primals), "jvp")
    moving = _tangents(operands, spec, tuple(tangents), "jvp")
    wrt = tuple([closed.captured + i for i, t in enumerate(moving) if t is not None])
    keep = sizes[-1].num_leaves if has_aux else len(closed.out_avals)
    program = jvp_program(closed.program, wrt, keep)
    nodes = [*closed.nodes, *[t.node for t in moving if t is not None]]
    weak = [a.weak for a in closed.out_avals] + [False] * closed.hidden
    weak += [a.weak for a in closed.out_avals[:keep] if a.dtype.is_inexact]
    results = apply(program, nodes, weak, closed.refs)
    n = len(closed.out_avals)
    moved = iter(results[n + closed.hidden :])
    douts = [next(moved) if a.dtype.is_inexact else _zero_tangent(a) for a in closed.out_avals[:keep]]
    out = tree.unflatten(closed.out_tree, results[:n])
    if has_aux:
        return out[0], tree.unflatten(sizes[-1], douts), out[1]
    return out, tree.unflatten(closed.out_tree, douts)


class Linearized:
    """The linear function of `linearize` or `vjp`: holds the residuals, may be called any number of times."""

    def __init__(self, call: Callable[..., Any], name: str) -> None:
        self._call = call
        self.__name__ = name

    def __call__(self, *args: Any) -> Any:
        try:
            return self._call(*args)
        except Exception as error:
            trim(error)
            raise


@trimmed
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """-> (fun(*primals), f_jvp[, aux]): `f_jvp(*tangents)` is the derivative there, without running `fun` again."""
    target, sizes = _split_aux(fun, "linearize") if has_aux else (fun, [])
    closed, operands, spec = _close(target, primals, "linearize")
    moving = [i for i, t in enumerate(operands) if t.node.dtype.is_inexact]
    wrt = tuple([closed.captured + i for i in moving])
    keep = sizes[-1].num_leaves if has_aux else len(closed.out_avals)
    forward, linear = linearize_program(closed.program, wrt, keep)
    results = apply(forward, closed.nodes, [a.weak for a in closed.out_avals], closed.refs)
    n = len(closed.out_avals)
    residuals = results[n + closed.hidden :]
    out_avals = closed.out_avals[:keep]
    out_tree = sizes[-1] if has_aux else closed.out_tree

    def f_jvp(*tangents: Any) -> Any:
        given = _tangents(operands, spec, tuple(tangents), "the linear function")
        nodes = [*[lift(r).node for r in residuals], *[t.node for t in given if t is not None]]
        moved = iter(apply(linear, nodes, [a.weak for a in out_avals if a.dtype.is_inexact]))
        return tree.unflatten(out_tree, [next(moved) if a.dtype.is_inexact else _zero_tangent(a) for a in out_avals])

    out = tree.unflatten(closed.out_tree, results[:n])
    linear_function = Linearized(f_jvp, f"linearized_{function_name(fun)}")
    return (out[0], linear_function, out[1]) if has_aux else (out, linear_function)


@trimmed
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()) -> Any:
    """-> (fun(*primals), f_vjp[, aux]): `f_vjp(cotangent)` is the tuple of cotangents of the primals.

    The cotangent has the structure, shapes and dtypes of `fun`'s output. `fun` is run once; its residuals are kept
    by `f_vjp`.

    >>> y, back = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> back(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if reduce_axes:
        raise NotImplementedError("reduce_axes is not supported; apply lax.psum to the cotangents instead")
    target, sizes = _split_aux(fun, "vjp") if has_aux else (fun, [])
    closed, operands, spec = _close(target, primals, "vjp")
    moving = [i for i, t in enumerate(operands) if t.node.dtype.is_inexact]
    wrt = tuple([closed.captured + i for i in moving])
    keep = sizes[-1].num_leaves if has_aux else len(closed.out_avals)
    forward, linear = linearize_program(closed.program, wrt, keep)
    n = len(closed.out_avals)
    results = apply(forward, closed.nodes, [a.weak for a in closed.out_avals], closed.refs)
    residuals = results[n + closed.hidden :]
    out_avals = closed.out_avals[:keep]
    out_tree = sizes[-1] if has_aux else closed.out_tree

    def f_vjp(*cotangent: Any) -> Any:
        if len(cotangent) != 1:
            raise TypeError(
                f"the function returned by vjp takes one cotangent, the shape of the output; got {len(cotangent)}"
            )
        leaves, ct_spec = tree.flatten(cotangent[0])
        if ct_spec != out_tree:
            raise TypeError(
                f"the cotangent must have the structure of {function_name(fun)}'s output, {out_tree}, got {ct_spec}"
            )
        cts = _tangents([Tracer(build.const(0, a.dtype, a.shape), a.weak) for a in out_avals], out_tree,
                        tree.unflatten(out_tree, _loose_integers(leaves, out_avals)), "vjp")  # fmt: skip
        back = transpose_from(linear, len(residuals))
        nodes = [*[lift(r).node for r in residuals], *[t.node for t in cts if t is not None]]
        moved = iter(apply(back, nodes, [operands[i].weak for i in moving]))
        grads = [next(moved) if t.node.dtype.is_inexact else _zero_tangent(t.aval) for t in operands]
        return tree.unflatten(spec, grads)

    out = tree.unflatten(closed.out_tree, results[:n])
    back_function = Linearized(f_vjp, f"vjp_{function_name(fun)}")
    return (out[0], back_function, out[1]) if has_aux else (out, back_function)


def _loose_integers(leaves: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Whatever stands for the cotangent of an integer output is nothing."""
    return [x if a.dtype.is_inexact else _zero_tangent(a) for x, a in zip(leaves, avals, strict=True)]


@trimmed
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[..., Any]:
    """The transpose of a linear function: `linear_transpose(fun, *primals)(cotangent)` is the tuple of cotangents.

    primals   arrays or ShapeDtypeStructs: only shapes and dtypes are used. Raises NotImplementedError naming the first
              operation that is not linear.
    """
    leaves, spec = tree.flatten(tuple(primals))
    avals = [aval_of(x) for x in leaves]
    in_tree = tree.structure((tuple(primals), {}))
    from_avals = [Tracer(build.const(0, a.dtype, a.shape), a.weak) for a in avals]
    closed = close_over(fun, from_avals, in_tree, Stage(f"linear_transpose({function_name(fun)})"))

    def transposed(cotangent: Any) -> Any:
        cts, ct_spec = tree.flatten(cotangent)
        if ct_spec != closed.out_tree:
            raise TypeError(f"the cotangent must have the structure {closed.out_tree}, got {ct_spec}")
        given = [operand(x) for x in cts]
        for t, a in zip(given, closed.out_avals, strict=True):
            if t.shape != a.shape or (t.node.dtype is not a.dtype and not t.weak):
                raise TypeError(f"linear_transpose needs a cotangent like the output, {a}, got {t.aval}")
        back = transpose_from(closed.program, closed.captured)
        nodes = [*closed.nodes[: closed.captured],
                 *[build.cast(t.node, a.dtype) for t, a in zip(given, closed.out_avals, strict=True)]]  # fmt: skip
        return tree.unflatten(spec, apply(back, nodes, [a.weak for a in avals]))

    return transposed
