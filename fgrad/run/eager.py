"""public: the decorator of every public array function.

Inside a stage the function inlines itself: its body runs on tracers. Outside, it is a cached jitted function of its own.
The body receives whatever the user gave (tracers, arrays, NumPy arrays, numbers) and calls `lift` on it; parameters named
in `static` are plain Python values and part of the cache key.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from fgrad.run.dispatch import Dispatcher
from fgrad.trace import tree
from fgrad.trace.stage import stages

F = TypeVar("F", bound=Callable[..., Any])
_UNSET = inspect.Parameter.empty


def freeze(x: Any) -> Any:
    """A hashable form of a static value: lists become tuples, dictionaries sorted tuples, host integers Python ints."""
    if isinstance(x, list | tuple):
        return tuple([freeze(y) for y in x])
    if isinstance(x, dict):
        return ("dict", tuple(sorted((k, freeze(v)) for k, v in x.items())))
    if isinstance(x, np.integer):
        return int(x)
    if isinstance(x, np.ndarray):
        return freeze(x.tolist())
    return x


def public(static: Sequence[str] = ()) -> Callable[[F], F]:
    """Make a public array function of a body written on tracers.

    static   names of the parameters that are plain Python values
    """

    def decorate(body: F) -> F:
        signature = inspect.signature(body)
        names = list(signature.parameters)
        static_names = frozenset(static)
        variadic = {n for n, p in signature.parameters.items() if p.kind is p.VAR_POSITIONAL}
        assert not static_names - set(names), f"{body.__name__} has no parameter {static_names - set(names)}"

        def make(statics: Any) -> Callable[..., Any]:
            fixed = dict(statics[1])

            def run(**dynamic: Any) -> Any:
                given = {**fixed, **dynamic}
                args: list[Any] = []
                for name in names:
                    if name in variadic and name in given:
                        args.extend(given.pop(name))
                        break
                    if variadic and name in given:
                        args.append(given.pop(name))
                return body(*args, **given)

            run.__name__ = body.__name__
            return run

        dispatcher = Dispatcher(make, body.__name__)

        @wraps(body)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if stages():
                return body(*args, **kwargs)
            bound = signature.bind(*args, **kwargs).arguments
            fixed = []
            dynamic = {}
            for name, value in bound.items():
                if name in static_names:
                    fixed.append((name, value))
                else:
                    dynamic[name] = value
            leaves, in_tree = tree.flatten(((), dynamic))
            try:
                hash(statics := (body.__name__, tuple(fixed)))
            except TypeError:
                statics = (body.__name__, tuple([(n, freeze(v)) for n, v in fixed]))
            return dispatcher.call(leaves, in_tree, _typed(statics))

        wrapper.dispatcher = dispatcher  # type: ignore[attr-defined]
        return cast(F, wrapper)

    return decorate


class _Typed(tuple):  # type: ignore[type-arg]
    """Static values that compare with their types: 1, 1.0 and True are different keys."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other) is True and _types(self) == _types(other)

    __hash__ = tuple.__hash__


def _types(x: Any) -> Any:
    return tuple([_types(y) for y in x]) if isinstance(x, tuple) else type(x)


def _typed(statics: tuple[Any, ...]) -> _Typed:
    return _Typed(statics)
