"""Looking at functions without running them: make_program, eval_shape, closure_convert."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from fgrad.errors import OrderingError
from fgrad.run.inspect import struct_of
from fgrad.trace import tree
from fgrad.trace.apply import apply, close_over, operand
from fgrad.trace.ref import Ref, hide_refs, show_refs
from fgrad.trace.stage import Stage, lift_buffers
from fgrad.trace.staging import function_name, need_function, trace
from fgrad.trace.tidy import tidy_program
from fgrad.trace.tracer import Tracer, aval_of, is_arraylike
from fgrad.uop.aval import Aval
from fgrad.uop.node import paused_gc
from fgrad.uop.program import Program


def make_program(
    fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), *, simplify: bool = False
) -> Callable[..., Program]:
    """A function that returns the Program of `fun` for arguments like these, instead of running it.

    The contents of Refs that it uses are parameters after those of the arguments; what it leaves in them are its last
    results, listed as `effects`.

    static_argnums   positions of arguments that are Python values
    simplify         show it as lowering will see it

    >>> print(make_program(lambda x: x * 2)(1.0))
    program(%0: float32[])
      %1 = CONST 2.0                             float32[]
      %2 = MUL %0 %1                             float32[]
      return %2
    """
    need_function(fun, "make_program")
    static = [static_argnums] if isinstance(static_argnums, int) else list(static_argnums)

    @wraps(fun)
    def made(*args: Any, **kwargs: Any) -> Program:
        fixed = {i % len(args): args[i] for i in static}
        moving = tuple([None if i in fixed else x for i, x in enumerate(args)])
        leaves, in_tree = tree.flatten(hide_refs((moving, kwargs)))

        @wraps(fun)
        def shown(*given: Any, **named: Any) -> Any:
            given, named = show_refs((given, named))
            return fun(*[fixed.get(i, x) for i, x in enumerate(given)], **named)

        with paused_gc():
            traced = trace(shown, in_tree, [aval_of(x) for x in leaves], Stage(f"make_program({function_name(fun)})"))
            finals = [node for _, node in traced.finals]
            program = lift_buffers((*traced.params, *traced.entries), (*traced.outs, *finals))[1]
            n, first = len(traced.outs), len(traced.params)
            effects = tuple([(first + i, n + k) for k, (i, _) in enumerate(traced.finals)])
            program = Program(program.params, program.outs, effects)
            return tidy_program(program) if simplify else program

    return made


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of `fun(*args, **kwargs)` as a tree of ShapeDtypeStructs; nothing is computed.

    Arguments are arrays or ShapeDtypeStructs; other leaves are passed through.

    >>> eval_shape(lambda a, b: a @ b, ShapeDtypeStruct((2, 3), "float32"), ShapeDtypeStruct((3,), "float32"))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    need_function(fun, "eval_shape", at_once=True)
    leaves, in_tree = tree.flatten((args, kwargs))
    shaped = [is_arraylike(x) or (hasattr(x, "shape") and hasattr(x, "dtype")) for x in leaves]
    at = [i for i, x in enumerate(leaves) if shaped[i] and not isinstance(x, Ref)]

    def run(*given: Any) -> Any:
        full = list(leaves)
        for i, x in zip(at, given, strict=True):
            full[i] = x
        a, k = tree.unflatten(in_tree, full)
        return fun(*a, **k)

    run.__name__ = function_name(fun)
    inner = tree.structure((tuple(at), {}))
    traced = trace(run, inner, [aval_of(leaves[i]) for i in at], Stage(f"eval_shape({function_name(fun)})"))
    return tree.unflatten(traced.out_tree, [struct_of(a) for a in traced.out_avals])


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """-> (a function of (*args, *consts), consts): the traced values `fun` closes over become arguments.

    >>> def scaled(x):
    ...     return grad(lambda s: closure_convert(lambda v: s * v, x)[0](x, s))(3.0)
    >>> scaled(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    need_function(fun, "closure_convert", at_once=True)
    leaves, _ = tree.flatten(example_args)
    operands = [operand(x) for x in leaves]
    in_tree = tree.structure((example_args, {}))
    closed = close_over(fun, operands, in_tree, Stage(f"closure_convert({function_name(fun)})"))
    if closed.refs:
        raise OrderingError("closure_convert takes a pure function, but this one uses a Ref from outside or a callback")
    n = closed.captured
    consts = [Tracer(node) for node in closed.nodes[:n]]

    def converted(*args: Any) -> Any:
        given = list(args[: len(args) - n])
        captured = list(args[len(args) - n :])
        moving = tree.leaves_of(tuple(given))
        nodes = [operand(x).node for x in (*captured, *moving)]
        return tree.unflatten(closed.out_tree, apply(closed.program, nodes, [a.weak for a in closed.out_avals]))

    return converted, consts


def typeof(x: Any) -> Aval:
    """dtype, shape and weakness of anything array-like.

    >>> str(typeof(fnp.ones((2, 3))))
    'float32[2,3]'
    """
    return aval_of(x)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun` under a name of its own in error messages and listings.

    >>> named_call(lambda x: x + 1, name="step")(fnp.array([1.0]))
    Array([2.], dtype=float32)
    """
    need_function(fun, "named_call")

    @wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    named.__name__ = name or function_name(fun)
    return named
