"""Python functions called from inside programs: pure_callback, io_callback, and what debug is made of.

An impure callback must run although nobody may use its results, and ordered ones must run in program order: it
takes a token and gives a token, and the token is the content of a Ref. So callbacks are effects of the program like
any write, under every transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, describe
from fgrad.trace import tree
from fgrad.trace.arraylike import Array
from fgrad.trace.ref import Ref
from fgrad.trace.stage import hooks, is_tracing
from fgrad.trace.staging import function_name
from fgrad.trace.tracer import Tracer, aval_of, is_arraylike, lift
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import uop
from fgrad.uop.op import Op
from fgrad.uop.program import Host, gets

_tokens: list[Ref] = []


def _token() -> Ref:
    """The Ref whose versions order the effects of callbacks."""
    if not _tokens:
        assert hooks.from_host is not None
        _tokens.append(Ref(Aval(dt.uint8, ()), hooks.from_host(np.zeros((), np.uint8))))
    return _tokens[0]


@lru_cache(maxsize=1024)
def _flat(callback: Callable[..., Any], in_tree: tree.TreeDef, out_tree: tree.TreeDef) -> Callable[..., Any]:
    """`callback` from arrays to arrays: one object for equal calls, so that equal programs stay equal."""

    def flat(*arrays: Any) -> Sequence[Any]:
        args, kwargs = tree.unflatten(in_tree, arrays)
        result = callback(*args, **kwargs)
        leaves, spec = tree.flatten(result)
        if spec != out_tree and not (out_tree.num_leaves == 0 and result is None):
            path, want, given = tree.difference(out_tree, spec, "the result") or ("", "", "")
            raise ArgumentError(
                f"the callback {function_name(callback)} declared {want} for {path}, but returned {given}"
            )
        return [np.asarray(x) for x in leaves] if out_tree.num_leaves else []

    return flat


def _arguments(callback: Callable[..., Any], args: Any, kwargs: Any) -> tuple[list[Any], tree.TreeDef]:
    """-> (leaves, structure); raises ArgumentError for what is no array."""
    leaves, in_tree = tree.flatten((args, kwargs))
    for i, x in enumerate(leaves):
        if not is_arraylike(x):
            raise ArgumentError(
                f"the callback {function_name(callback)} takes arrays and numbers, but "
                f"{tree.path_of_argument(in_tree, i)} is {describe(x)}; bind it with functools.partial"
            )
    return leaves, in_tree


def _declared(callback: Callable[..., Any], result: Any) -> tuple[list[Aval], tree.TreeDef]:
    """-> (avals, structure) of what the callback is to return."""
    structs, out_tree = tree.flatten(result)
    try:
        return [aval_of(s) for s in structs], out_tree
    except TypeError:
        raise ArgumentError(
            f"the callback {function_name(callback)} needs result_shape_dtypes, a tree of "
            f"fgrad.ShapeDtypeStruct(shape, dtype) or arrays, got {describe(result)}"
        ) from None


def _call(callback: Callable[..., Any], result: Any, args: Any, kwargs: Any, effect: bool, vectorized: bool) -> Any:
    leaves, in_tree = _arguments(callback, args, kwargs)
    structs, out_tree = _declared(callback, result)
    avals = tuple([Aval(a.dtype, a.shape) for a in structs])
    outputs = (Aval(dt.uint8, ()), *avals) if effect else avals
    flat = _flat(callback, in_tree, out_tree)
    host = Host(flat, outputs, function_name(callback), ordered=effect, pure=not effect, vectorized=vectorized)
    nodes = [lift(x).node for x in leaves]
    if effect:
        token = _token()
        outs = gets(uop(Op.HOST, (lift(token.get()).node, *nodes), host))
        token.put(Tracer(outs[0]))
        outs = outs[1:]
    else:
        outs = gets(uop(Op.HOST, tuple(nodes), host))
    return tree.unflatten(out_tree, [Tracer(o) for o in outs])


def _now(callback: Callable[..., Any], result: Any, args: Any, kwargs: Any) -> Any:
    """Outside of any stage the function is called here and now."""
    assert hooks.from_host is not None
    leaves, in_tree = _arguments(callback, args, kwargs)
    a, k = tree.unflatten(in_tree, [np.asarray(x.concrete() if isinstance(x, Array) else x) for x in leaves])
    structs, out_tree = _declared(callback, result)
    got = callback(*a, **k)
    values = tree.leaves_of(got) if structs else []
    out = []
    for i, (value, struct) in enumerate(zip(values, structs, strict=True)):
        array = np.asarray(value)
        if array.shape != struct.shape:
            raise ValueError(
                f"result {i} of the callback {function_name(callback)} has shape {array.shape}, declared was {struct}"
            )
        out.append(hooks.from_host(array, dtype=struct.dtype))
    return tree.unflatten(out_tree, out)


def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, vmap_method: str | None = None,
    vectorized: bool | None = None, sharding: Any = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a pure Python function of NumPy arrays from inside a program.

    result_shape_dtypes   a pytree of ShapeDtypeStructs (or arrays): what `callback` returns
    vmap_method           "sequential" (the default: one call for each member of a batch), or "expand_dims" /
                          "broadcast_all" for functions that take extra leading axes

    It may be called any number of times, or not at all when its result is unused. It has no derivative: wrap it in
    custom_jvp or custom_vjp.

    >>> jit(lambda x: pure_callback(np.sort, x, x))(fnp.array([3.0, 1.0, 2.0]))
    Array([1., 2., 3.], dtype=float32)
    """
    if vmap_method not in (
        None,
        "sequential",
        "sequential_unrolled",
        "expand_dims",
        "broadcast_all",
        "legacy_vectorized",
    ):
        raise ValueError(f"vmap_method {vmap_method!r} is unknown; use sequential, expand_dims or broadcast_all")
    if not is_tracing():
        return _now(callback, result_shape_dtypes, args, kwargs)
    vector = bool(vectorized) or vmap_method in ("expand_dims", "broadcast_all", "legacy_vectorized")
    return _call(callback, result_shape_dtypes, args, kwargs, False, vector)


def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, ordered: bool = False, sharding: Any = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a Python function with side effects from inside a program, exactly once for each execution.

    Calls happen in the order of the program.

    result_shape_dtypes   a pytree of ShapeDtypeStructs: what `callback` returns; None for nothing
    ordered               accepted for compatibility: all callbacks with effects keep the order of the program

    >>> seen = []
    >>> jit(lambda x: io_callback(lambda v: seen.append(float(v)) or v, x, x))(fnp.array(2.0))
    Array(2., dtype=float32)
    >>> seen
    [2.0]
    """
    if not is_tracing():
        return _now(callback, result_shape_dtypes, args, kwargs)
    return _call(callback, result_shape_dtypes, args, kwargs, True, False)


__all__ = ["io_callback", "pure_callback"]
