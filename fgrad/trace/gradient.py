"""grad and value_and_grad: the gradient of a function with one number as its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from fgrad.errors import NonScalarGradError
from fgrad.trace import tree
from fgrad.trace.apply import Closed, apply, check_leaves, close_over, operand
from fgrad.trace.custom import with_known_refs
from fgrad.trace.derive import gradient_program, with_values
from fgrad.trace.differentiated import ArgNums, bind, need_differentiable, positions_of, without_aux, zero_tangent
from fgrad.trace.frames import trimmed
from fgrad.trace.stage import Stage
from fgrad.trace.staging import function_name, need_function
from fgrad.uop.program import Program


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
    need_function(fun, "grad")

    @trimmed
    @wraps(fun)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        at = positions_of(argnums, args, "grad")
        target, sizes = without_aux(fun, "grad") if has_aux else (fun, [])
        moving = tuple([args[i] for i in at])
        leaves, spec = tree.flatten(moving)
        check_leaves(leaves, spec, "grad", at=at)
        operands = [operand(x) for x in leaves]
        need_differentiable(operands, spec, "grad", holomorphic, allow_int, at)

        def derived() -> tuple[Closed, Program]:
            stage = Stage(f"grad({function_name(fun)})", concrete=True, is_reversed=True)
            bound = bind(target, args, kwargs, at)
            closed = close_over(bound, operands, tree.structure((moving, {})), stage)
            _check_scalar(fun, closed, sizes[-1] if has_aux else closed.out_tree, holomorphic)
            wrt = tuple([closed.captured + i for i, t in enumerate(operands) if t.node.dtype.is_inexact])
            return closed, with_values(gradient_program, closed.program, closed.nodes, wrt, closed.reversed_refs)

        closed, program = with_known_refs(derived)
        weak = [a.weak for a in closed.out_avals] + [False] * closed.hidden
        weak += [t.weak for t in operands if t.node.dtype.is_inexact]
        results = apply(program, closed.nodes, weak, closed.refs)
        n = len(closed.out_avals)
        value = tree.unflatten(closed.out_tree, results[:n])
        moved = iter(results[n + closed.hidden :])
        grads = [next(moved) if t.node.dtype.is_inexact else zero_tangent(t.aval) for t in operands]
        gradient = tree.unflatten(spec, grads)
        return value, gradient[0] if isinstance(argnums, int) else gradient

    return value_and_gradient


def _check_scalar(fun: Callable[..., Any], closed: Closed, out_tree: tree.TreeDef, holomorphic: bool) -> None:
    name = function_name(fun)
    if out_tree.num_leaves != 1 or not out_tree.is_leaf():
        nothing = out_tree.num_leaves == 0
        raise NonScalarGradError(
            f"grad needs a function that returns one scalar, but {name} returned {tree.kind_of(out_tree)}; "
            + ("is a return missing?" if nothing else "use has_aux=True for extra outputs, or vjp / jacrev")
        )
    aval = closed.out_avals[0]
    if aval.shape != ():
        raise NonScalarGradError(
            f"Gradient only defined for scalar-output functions. Output of {name} had shape: {aval.shape}; sum it, or "
            "use jacrev, or vmap(grad(...)) for one gradient for each element"
        )
    if not aval.dtype.is_inexact or (aval.dtype.is_complex and not holomorphic):
        raise NonScalarGradError(
            "grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
            f"{aval.dtype} from {name}; " + (
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
