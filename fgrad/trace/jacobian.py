"""jacfwd, jacrev, hessian: all derivatives at once, by mapping over a basis of tangents or cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from fgrad.errors import DtypeError
from fgrad.trace import tree
from fgrad.trace.apply import check_leaves, operand
from fgrad.trace.differentiated import ArgNums, bind, need_differentiable, positions_of, without_aux
from fgrad.trace.frames import trimmed
from fgrad.trace.staging import function_name, need_function
from fgrad.trace.tracer import Tracer
from fgrad.trace.transforms import linearize, vjp
from fgrad.trace.vmap import vmap
from fgrad.uop import build
from fgrad.uop.aval import Aval


def _basis(avals: Sequence[Aval]) -> list[Tracer]:
    """The standard basis of the space of these avals: leaf i is [n, *shape_i], n the number of all elements."""
    n = sum(a.size for a in avals)
    out = []
    start = 0
    for a in avals:
        rows = build.iota_along((n, a.size), 0)
        columns = build.add(build.iota_along((n, a.size), 1), start)
        eye = build.cast(build.eq(rows, columns), a.dtype)
        out.append(Tracer(build.reshape(eye, (n, *a.shape)), a.weak))
        start += a.size
    return out


def _unravel(jacobian: Any, avals: Sequence[Aval], axis: int) -> list[Any]:
    """Split the basis axis of one array into one array for each aval."""
    out = []
    start = 0
    for a in avals:
        index = [slice(None)] * jacobian.ndim
        index[axis] = slice(start, start + a.size)
        part = jacobian[tuple(index)]
        out.append(part.reshape(*jacobian.shape[:axis], *a.shape, *jacobian.shape[axis + 1 :]))
        start += a.size
    return out


def _prepare(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    argnums: ArgNums,
    what: str,
    holomorphic: bool,
    allow_int: bool,
) -> tuple[Callable[..., Any], tuple[Any, ...], list[Tracer], tree.TreeDef]:
    at = positions_of(argnums, args, what)
    moving = tuple([args[i] for i in at])
    leaves, spec = tree.flatten(moving)
    check_leaves(leaves, spec, what, at)
    operands = [operand(x) for x in leaves]
    need_differentiable(operands, spec, what, holomorphic, allow_int, at)
    return bind(fun, args, kwargs, at), moving, operands, spec


def jacfwd(
    fun: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of `fun` by forward mode, one tangent for each input element: best for tall Jacobians.

    Result leaf: shape output.shape + input.shape, in a tree output-structure of input-structure.

    >>> jacfwd(lambda x: fnp.stack([x[0] * x[1], x[0]]))(fnp.array([2.0, 3.0]))
    Array([[3., 2.],
           [1., 0.]], dtype=float32)
    """
    need_function(fun, "jacfwd")

    @trimmed
    @wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        target, sizes = without_aux(fun, "jacfwd") if has_aux else (fun, [])
        bound, moving, operands, spec = _prepare(target, args, kwargs, argnums, "jacfwd", holomorphic, False)
        result = linearize(bound, *moving, has_aux=has_aux)
        f_jvp = result[1]
        avals = [t.aval for t in operands]

        def along(*basis: Any) -> Any:
            return f_jvp(*tree.unflatten(spec, basis))

        columns = vmap(along, out_axes=-1)(*_basis(avals)) if avals else f_jvp(*moving)
        one = isinstance(argnums, int)

        def rows(y: Any) -> Any:
            parts = tree.unflatten(spec, _unravel(y, avals, y.ndim - 1))
            return parts[0] if one else parts

        out = tree.map_(rows, columns)
        return (out, result[2]) if has_aux else out

    return jacobian


def jacrev(
    fun: Callable[..., Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `fun` by reverse mode, one cotangent for each output element: best for wide Jacobians.

    Result leaf: shape output.shape + input.shape, in a tree output-structure of input-structure.

    >>> jacrev(lambda x: fnp.stack([x[0] * x[1], x[0]]))(fnp.array([2.0, 3.0]))
    Array([[3., 2.],
           [1., 0.]], dtype=float32)
    """
    need_function(fun, "jacrev")

    @trimmed
    @wraps(fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        target, _ = without_aux(fun, "jacrev") if has_aux else (fun, [])
        bound, moving, operands, spec = _prepare(target, args, kwargs, argnums, "jacrev", holomorphic, allow_int)
        result = vjp(bound, *moving, has_aux=has_aux)
        out, back = result[:2]
        leaves, out_spec = tree.flatten(out)
        avals = [x.aval for x in leaves]
        for i, a in enumerate(avals):
            if not a.dtype.is_inexact or (a.dtype.is_complex and not holomorphic):
                raise DtypeError(
                    f"jacrev requires real-valued outputs (a floating dtype), but {function_name(fun)} returned {a} at "
                    f"{tree.path_of(out_spec, i, 'the result')}"
                )
        one = isinstance(argnums, int)

        def along(*basis: Any) -> Any:
            return back(tree.unflatten(out_spec, basis))

        stacked = vmap(along)(*_basis(avals))
        per_input, _ = tree.flatten(stacked)
        split = [_unravel(x, avals, 0) for x in per_input]
        rows = []
        for j in range(len(avals)):
            parts = tree.unflatten(spec, [s[j] for s in split])
            rows.append(parts[0] if one else parts)
        jac = tree.unflatten(out_spec, rows)
        return (jac, result[2]) if has_aux else jac

    return jacobian


def hessian(
    fun: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The matrix of second derivatives of `fun`, forward over reverse.

    Its shape is output.shape + input.shape + input.shape. Arguments as in `jacfwd`.

    >>> hessian(lambda x: (x ** 3).sum())(fnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    need_function(fun, "hessian")
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


__all__ = ["hessian", "jacfwd", "jacrev"]
