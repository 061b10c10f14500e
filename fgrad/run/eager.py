"""public: the decorator of every public array function.

Inside a stage the function inlines itself: its body runs on tracers. Outside, it is a cached jitted function of its
own. The body receives whatever the user gave (tracers, arrays, NumPy arrays, numbers) and calls `lift` on it;
parameters named in `static` are plain Python values and part of the cache key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from fgrad.config import config
from fgrad.errors import ArgumentError, note_user_line
from fgrad.run.array import DeviceArray
from fgrad.run.dispatch import Dispatcher, Entry
from fgrad.run.shortcut import FALL_THROUGH, NoShortPath, leaf_test, short_call
from fgrad.run.statics import Statics
from fgrad.trace import tree
from fgrad.trace.frames import trim
from fgrad.trace.stage import open_stages, stages

F = TypeVar("F", bound=Callable[..., Any])
_NONE: frozenset[int] = frozenset()
_PLAIN = (int, float, bool, str, type(None))  # static values that a shortcut may have in its key
MAX_SHORTCUTS = 512  # of one function; further signatures take the general path


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


def public(static: Sequence[str] = (), moves: bool = False) -> Callable[[F], F]:
    """Make a public array function of a body written on tracers.

    static   names of the parameters that are plain Python values
    moves    it only puts elements to other places, so that arrays of keys can go through it
    """

    def decorate(body: F) -> F:
        names, variadic = parameters_of(body)
        static_names = frozenset(static)
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

        dispatcher = Dispatcher(make, body.__name__, talks=False)
        shortcuts = Shortcuts(body.__name__)
        known = shortcuts.known
        seen: dict[Any, Entry] = {}
        dispatcher.on_forget += [known.clear, seen.clear]
        fixed_at = tuple([n in static_names for n in names]) if not variadic else ()

        @wraps(body)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                if not open_stages:
                    try:
                        key = tuple([a.sig if a.__class__ is DeviceArray else a.__class__ for a in args])
                        if kwargs:
                            key += tuple([(k, v.__class__, v) for k, v in kwargs.items()])
                        return known[key](*args)
                    except FALL_THROUGH:
                        pass
                elif stages():
                    return body(*args, **kwargs)
                kind = kind_of_call(names, static_names, args, kwargs) if not variadic else None
                if kind is not None:
                    remembered = seen.get(kind)
                    if remembered is not None:
                        given = {n: a for n, a in zip(names, args, strict=False) if n not in static_names}
                        given |= {n: a for n, a in kwargs.items() if n not in static_names}
                        return dispatcher.run(remembered, tree.leaves_of(((), given)))
                try:
                    bound = _signature(body).bind(*args, **kwargs).arguments
                except TypeError as misfit:
                    raise ArgumentError(f"{body.__name__}: {misfit}") from None
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
                leaves = dispatcher.concrete_leaves(leaves, in_tree)
                entry = dispatcher.entry(leaves, in_tree, Statics(statics), _NONE)
                if (
                    not variadic
                    and len(leaves) == len(args)
                    and not any(fixed_at[: len(args)])
                    and set(kwargs) <= static_names
                ):
                    by_leaf = sorted(range(len(args)), key=names.__getitem__)  # trees order dictionaries by key
                    shortcuts.learn(entry, args, kwargs, by_leaf)
                if kind is not None and len(seen) < MAX_SHORTCUTS:
                    seen[kind] = entry
                return dispatcher.run(entry, leaves)
            except Exception as error:
                held = holders((args, kwargs)) if moves else []
                if not held:
                    trim(error)
                    if kwargs and isinstance(error, TypeError):
                        refuse_options(body.__name__, names, kwargs)
                    raise
            return moved(wrapper, held, args, kwargs)

        wrapper.dispatcher = dispatcher  # type: ignore[attr-defined]
        return cast(F, wrapper)

    return decorate


# ---- arrays whose elements are several words: keys
def holders(x: Any) -> list[Any]:
    """The arrays of keys among arguments: what has `word` and `of_words`."""
    if isinstance(x, tuple | list):
        return [h for y in x for h in holders(y)]
    if isinstance(x, dict):
        return holders(list(x.values()))
    return [x] if hasattr(x, "of_words") else []


def moved(function: Callable[..., Any], held: Sequence[Any], args: Any, kwargs: Any) -> Any:
    """The result of a function that moves elements: each word of the keys goes through it.

    Raises ArgumentError for keys of different kinds.
    """
    first = held[0]
    if any(h.dtype != first.dtype for h in held):
        kinds = " and ".join(dict.fromkeys([str(h.dtype) for h in held]))
        raise note_user_line(ArgumentError(f"{function.__name__} got keys of different kinds, {kinds}"))

    def words(x: Any, i: int) -> Any:
        if isinstance(x, tuple | list):
            return type(x)([words(y, i) for y in x])
        if isinstance(x, dict):
            return {k: words(y, i) for k, y in x.items()}
        return x.word(i) if hasattr(x, "of_words") else x

    results = [function(*words(args, i), **words(kwargs, i)) for i in range(first.dtype.itemsize // 4)]
    if isinstance(results[0], tuple | list):
        return [first.of_words(each) for each in zip(*results, strict=True)]
    return first.of_words(results)


_signature = lru_cache(maxsize=None)(inspect.signature)


def parameters_of(body: Callable[..., Any]) -> tuple[list[str], set[str]]:
    """-> (names of all parameters in order, those that take any number of arguments).

    Read off the code: `inspect.signature` of hundreds of functions would be a tenth of the time of `import fgrad`.
    """
    if hasattr(body, "__wrapped__"):
        parameters = _signature(body).parameters
        return list(parameters), {n for n, p in parameters.items() if p.kind is p.VAR_POSITIONAL}
    code = body.__code__
    positional = code.co_varnames[: code.co_argcount]
    at = code.co_argcount + code.co_kwonlyargcount
    keyword_only = code.co_varnames[code.co_argcount : at]
    many = code.co_varnames[at : at + 1] if code.co_flags & inspect.CO_VARARGS else ()
    at += len(many)
    rest = code.co_varnames[at : at + 1] if code.co_flags & inspect.CO_VARKEYWORDS else ()
    return [*positional, *many, *keyword_only, *rest], set(many)


_REFUSED = {
    "out": "arrays are immutable, so out= cannot be written; bind the result to the name",
    "where": "where= is not there; use fgrad.numpy.where on the result",
    "dtype": "dtype= is not there; use astype on the operands or the result",
}


def refuse_options(name: str, known: Sequence[str], given: dict[str, Any]) -> None:
    """Raise NotImplementedError for an option of NumPy's functions that function `name` has not."""
    for option, why in _REFUSED.items():
        if given.get(option) is not None and option not in known:
            raise note_user_line(NotImplementedError(f"{name}: {why}")) from None


def kind_of_call(names: Sequence[str], static: frozenset[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What decides which compiled signature serves a call, cheaply; None for calls with anything unusual in them."""
    try:
        kind = [_kind(a, n in static) for n, a in zip(names, args, strict=False)]
        for n, a in kwargs.items():
            kind.append((n, _kind(a, n in static)))
        key = (len(args), tuple(kind), config.state)
        hash(key)
    except TypeError:
        return None
    return key


def _kind(x: Any, static: bool) -> Any:
    cls = x.__class__
    if cls is DeviceArray:
        return x.sig
    if cls is list or cls is tuple:
        return (cls, *[_kind(y, static) for y in x])
    if static:
        return (cls, x)
    if cls is float or cls is int or cls is bool or x is None:
        return cls
    raise TypeError  # tracers, host arrays, other trees: the general path's


class Shortcuts:
    """Generated code for calls whose positional arguments are all arrays and numbers, by their sigs and classes."""

    def __init__(self, name: str) -> None:
        self.known: dict[Any, Callable[..., Any]] = {}
        self.name = name
        self.scope: dict[str, Any] = {"_Array": DeviceArray}

    def _bind(self, prefix: str, value: Any) -> str:
        name = f"_{prefix}{len(self.scope)}"
        self.scope[name] = value
        return name

    def learn(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], by_leaf: Sequence[int]) -> None:
        """Generate the code for calls like this one; leaf i of `entry` is args[by_leaf[i]]."""
        if not entry.is_simple or len(self.known) >= MAX_SHORTCUTS:
            return
        if any(type(v) not in _PLAIN for v in kwargs.values()):
            return
        self.scope = {"_Array": DeviceArray}  # of this code alone: it goes when the code is forgotten
        try:
            key: Any = tuple([a.sig if type(a) is DeviceArray else type(a) for a in args])
            tests = [leaf_test(entry, i, self._bind) for i in range(len(args))]
            conditions = [t.replace("LEAF", f"_a{by_leaf[i]}") for i, (t, _) in enumerate(tests)]
            lines = [f"if not ({' and '.join(conditions) or 'True'}): raise KeyError"]
            lines += short_call(entry, [w for _, w in tests], self._bind)
        except NoShortPath:
            return
        parameters = ", ".join(f"_a{i}" for i in range(len(args)))
        text = f"def short({parameters}):\n" + "\n".join(f"    {line}" for line in lines)
        exec(compile(text, f"<fgrad {self.name}>", "exec"), self.scope)
        self.known[key + tuple([(k, type(v), v) for k, v in kwargs.items()]) if kwargs else key] = self.scope["short"]
