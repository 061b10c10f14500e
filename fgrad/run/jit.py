"""jit: a function compiled once for each signature of its arguments.

A jitted object is a real function. Its first calls take the general path (optree, a dictionary look-up);
`wrapper.py` then replaces its code by one generated for the signatures that were seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fgrad.config import config
from fgrad.errors import ArgumentError, StaticArgumentError, describe
from fgrad.run.dispatch import Dispatcher
from fgrad.run.inspect import Lowered
from fgrad.run.statics import Statics
from fgrad.run.wrapper import Wrapper
from fgrad.trace import tree
from fgrad.trace.frames import trimmed
from fgrad.trace.stage import is_tracing
from fgrad.trace.staging import function_name, lift_results, need_function
from fgrad.trace.tracer import aval_of

if TYPE_CHECKING:
    from fgrad.run.sizes import Size, Sizes

sizes_of: list[Callable[..., Sizes]] = []
"""`Sizes`, entered by its module, which is loaded as soon as somebody makes a `Size`."""


class Signature:
    """Which arguments of a function are static or donated, by position and by name."""

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: int | Sequence[int] | None,
        static_argnames: str | Iterable[str] | None,
        donate_argnums: int | Sequence[int] | None,
        donate_argnames: str | Iterable[str] | None,
    ) -> None:
        try:
            self.parameters: list[inspect.Parameter] | None = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):
            self.parameters = None
        self.name = function_name(fun)
        self.static = self._both(static_argnums, static_argnames, "static")
        self.donated = self._both(donate_argnums, donate_argnames, "donate")
        common = self.static[0] & self.donated[0] or self.static[1] & self.donated[1]
        if common:
            raise StaticArgumentError(
                f"jit({self.name}): arguments {sorted(map(str, common))} are both static and donated: static_argnames "
                "and donate_argnames cannot intersect"
            )

    def _both(self, nums: Any, names: Any, what: str) -> tuple[frozenset[int], frozenset[str]]:
        positions = {nums} if isinstance(nums, int) else set(nums or ())
        words = {names} if isinstance(names, str) else set(names or ())
        if self.parameters is None:
            if words and what == "donate":
                raise StaticArgumentError(
                    f"Getting the signature of function {self.name} failed. Pass donate_argnums instead of "
                    "donate_argnames."
                )
            return frozenset(positions), frozenset(words)
        by_position = [p for p in self.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        variadic = any(p.kind is p.VAR_POSITIONAL for p in self.parameters)
        known = {p.name for p in self.parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        others = {p.name for p in self.parameters} - known  # which no keyword can give
        takes_any = any(p.kind is p.VAR_KEYWORD for p in self.parameters)
        for i in list(positions):
            if i < 0:
                positions.remove(i)
                positions.add(i + len(by_position))
        for i in positions:
            if not variadic and not 0 <= i < len(by_position):
                has = f"{len(by_position)} positional parameter{'s' if len(by_position) != 1 else ''}"
                raise StaticArgumentError(
                    f"jit({self.name}): {what}_argnums has {i}, but the function has {has}, counted from 0"
                )
        for word in words:
            if word in others or (word not in known and not takes_any):
                raise StaticArgumentError(
                    f"jit({self.name}): {what}_argnames has {word!r}, which is no parameter of the function; it has "
                    f"{', '.join(p.name for p in self.parameters)}"
                )
        for i, p in enumerate(by_position):
            if i in positions and p.kind is p.POSITIONAL_OR_KEYWORD:
                words.add(p.name)
            if p.name in words:
                positions.add(i)
        return frozenset(positions), frozenset(words)

    def partition(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """-> (dynamic (args, kwargs), hashable static values)."""
        nums, names = self.static
        if not nums and not names:
            return (args, kwargs), ()
        dynamic = tuple([None if i in nums else x for i, x in enumerate(args)])
        fixed = tuple([(i, x) for i, x in enumerate(args) if i in nums])
        named = tuple([(k, v) for k, v in sorted(kwargs.items()) if k in names])
        rest = {k: v for k, v in kwargs.items() if k not in names}
        for key, value in (*fixed, *named):
            try:
                hash(value)
            except TypeError:
                given = f"args[{key}]" if isinstance(key, int) else key
                way_out = "pass a tuple" if isinstance(value, list) else "do not mark it static"
                raise ArgumentError(
                    f"jit({self.name}): the static argument {given} is {describe(value)}, which cannot be hashed; "
                    f"{way_out}"
                ) from None
        return (dynamic, rest), (Statics(fixed), Statics(named))

    def donated_leaves(self, dynamic: Any) -> frozenset[int]:
        """Which leaves of the dynamic (args, kwargs) are donated."""
        nums, names = self.donated
        if not nums and not names:
            return frozenset()
        args, kwargs = dynamic
        at = 0
        out: list[int] = []
        for i, x in enumerate(args):
            n = len(tree.flatten_arrays(x)[0])
            if i in nums:
                out.extend(range(at, at + n))
            at += n
        for k in sorted(kwargs):
            n = len(tree.flatten_arrays(kwargs[k])[0])
            if k in names:
                out.extend(range(at, at + n))
            at += n
        return frozenset(out)


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    dynamic_sizes: Mapping[str, Mapping[int, Size]] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    device: str | None = None,
    backend: str | None = None,
    **unsupported: Any,
) -> Any:
    """A version of `fun` that is traced and compiled once for each signature, then runs as one native call.

    fun                              takes and returns pytrees of arrays; may close over arrays (they become parameters)
    static_argnums, static_argnames  arguments that are Python values; must be hashable, each value compiles anew
    donate_argnums, donate_argnames  arguments whose memory the call may reuse; unusable afterwards
    dynamic_sizes                    {argument: {axis: Size("n", lo, hi)}}: axes whose length may be any in a range;
                                     one compilation serves them all. "x" names an argument and all arrays in it,
                                     "params['w']" one of these; see the guide

    Python numbers never compile anew by their value. The result has `.lower(*args)`, `.trace`, `.eval_shape`,
    `.clear_cache()` and `.cache_size()`. Raises StaticArgumentError for argument positions or names that do not exist.

    >>> jit(lambda x: x * 2)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if unsupported:
        raise NotImplementedError(
            f"jit does not take {', '.join(unsupported)}: fgrad runs on one device at a time, and settings of its "
            "compiler stand in fgrad.config"
        )
    if device is not None or backend is not None:
        raise NotImplementedError("jit(device=) is not supported; use fgrad.default_device or device_put")
    options = (dynamic_sizes, static_argnums, static_argnames, donate_argnums, donate_argnames)
    if fun is None:
        return trimmed(lambda f: _jit(f, *options))
    return _jit(fun, *options)


def _jit(
    fun: Callable[..., Any], dynamic_sizes: Mapping[str, Mapping[int, Size]] | None, *options: Any
) -> Callable[..., Any]:
    need_function(fun, "jit")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(
            f"Expected a function, got a generator function: {function_name(fun)}; return arrays instead of yielding"
        )
    signature = Signature(fun, *options)

    def make(statics: Any) -> Callable[..., Any]:
        if not statics:
            return fun
        fixed, named = statics

        def run(*args: Any, **kwargs: Any) -> Any:
            full = list(args)
            for i, x in fixed:
                full[i] = x
            return fun(*full, **kwargs, **dict(named))

        run.__name__ = signature.name
        return run

    sizes = None
    if dynamic_sizes:
        if not sizes_of:
            raise ArgumentError(f"jit({signature.name}): dynamic_sizes={dynamic_sizes!r} has no fgrad.Size in it")
        sizes = sizes_of[0](dynamic_sizes, fun, signature.name)
    dispatcher = Dispatcher(make, signature.name, sizes=sizes)

    def general(*args: Any, **kwargs: Any) -> Any:
        """Everything the generated code does not know."""
        if config.disable_jit:
            return fun(*args, **kwargs)
        if is_tracing():
            if sizes is not None:
                leaves, in_tree = tree.flatten(signature.partition(args, kwargs)[0])
                sizes.find(in_tree, [aval_of(x) for x in leaves])
            results, out_tree = lift_results(fun(*args, **kwargs), signature.name)
            return tree.unflatten(out_tree, results)
        dynamic, statics = signature.partition(args, kwargs)
        leaves, in_tree = tree.flatten_arrays(dynamic)
        donated = signature.donated_leaves(dynamic)
        leaves = dispatcher.concrete_leaves(leaves, in_tree)
        entry = dispatcher.entry(leaves, in_tree, statics, donated)
        wrapper.learn(entry, in_tree, leaves)
        return dispatcher.run(entry, leaves)

    wrapper = Wrapper(fun, general, signature.name)
    dispatcher.on_forget.append(wrapper.reset)
    jitted = wrapper.function

    def lower(*args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for arguments like these (arrays, or ShapeDtypeStructs) without running."""
        dynamic, statics = signature.partition(args, kwargs)
        leaves, in_tree = tree.flatten_arrays(dynamic)
        return Lowered(dispatcher, leaves, in_tree, statics, signature.donated_leaves(dynamic))

    def clear_cache() -> None:
        """Forget all compiled signatures."""
        dispatcher.forget()

    def eval_shape(*args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result, as ShapeDtypeStructs."""
        return lower(*args, **kwargs).out_info

    extras: dict[str, Any] = {
        "lower": lower,
        "trace": lower,
        "clear_cache": clear_cache,
        "eval_shape": eval_shape,
        "cache_size": dispatcher.count,
        "_cache_size": dispatcher.count,
        "dispatcher": dispatcher,
        "__wrapped__": fun,
        "__doc__": getattr(fun, "__doc__", None),
        "__module__": getattr(fun, "__module__", __name__),
        "__qualname__": getattr(fun, "__qualname__", signature.name),
        "__name__": signature.name,
    }
    for name, value in extras.items():
        setattr(jitted, name, value)
    return jitted
