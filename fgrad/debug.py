"""Looking into running programs: prints, callbacks, checks, memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from string import Formatter
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.hw.pool import host_pool
from fgrad.trace import tree
from fgrad.trace.callback import io_callback
from fgrad.trace.frames import trim_public
from fgrad.trace.tracer import is_arraylike
from fgrad.uop.node import table_size

__all__ = ["callback", "check", "memory", "print"]


class _Print:
    """One format with its non-array arguments; equal ones are equal, so that programs stay equal."""

    __name__ = "debug.print"

    def __init__(self, text: str, spec: Any, fixed: tuple[tuple[int, Any], ...]) -> None:
        self.key = (text, spec, fixed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Print) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key[:2])

    def __call__(self, *arrays: Any) -> None:
        text, spec, fixed = self.key
        it = iter(arrays)
        known = dict(fixed)
        args, kwargs = tree.unflatten(spec, [known[i] if i in known else next(it) for i in range(spec.num_leaves)])
        sys.stdout.write(text.format(*args, **kwargs) + "\n")
        sys.stdout.flush()


def _check_format(what: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise ArgumentError when `fmt` asks for a value that is not given."""
    automatic = 0
    for _, field, _, _ in Formatter().parse(fmt):
        if field is None:
            continue
        name = re.split(r"[.\[]", field, maxsplit=1)[0]
        if not name:
            name, automatic = str(automatic), automatic + 1
        if name not in kwargs and not (name.isdecimal() and int(name) < len(args)):
            raise ArgumentError(f"{what}: {fmt!r} asks for {{{name}}}, which is not given")


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)` whenever the program gets here, also under jit, vmap, grad and in loops.

    Arrays among the arguments are formatted with their values. Prints keep the order of the program.

    >>> debug.print("x = {}", fnp.ones(2))
    x = [1. 1.]
    """
    _check_format("debug.print", fmt, args, kwargs)
    leaves, spec = tree.flatten((args, kwargs))
    fixed = tuple([(i, x) for i, x in enumerate(leaves) if not is_arraylike(x)])
    io_callback(_Print(fmt, spec, fixed), None, *[x for x in leaves if is_arraylike(x)])


def callback(fun: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call `fun` with NumPy arrays whenever the program gets here; its result is ignored.

    fun       called with the arguments as NumPy arrays, once for every run, in the program's order
    ordered   without effect: callbacks always keep the order of the program

    >>> seen = []
    >>> def f(x):
    ...     debug.callback(lambda value: seen.append(float(value)), x)
    ...     return x * 2
    >>> y = jit(f)(3.0).block_until_ready()
    >>> seen
    [3.0]
    """
    io_callback(_Ignore(fun), None, *args, **kwargs)


class _Ignore:
    """A callback whose result does not matter."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.__name__ = getattr(fun, "__name__", "callback")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ignore) and self.fun is other.fun

    def __hash__(self) -> int:
        return hash(self.fun)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.fun(*args, **kwargs)


class _Check:
    """Raises when its first argument is false."""

    __name__ = "debug.check"

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Check) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __call__(self, condition: Any, *args: Any, **kwargs: Any) -> None:
        if not np.all(condition):
            raise AssertionError(self.text.format(*args, **kwargs))


def check(condition: Any, fmt: str, *args: Any, **kwargs: Any) -> None:
    """Stop the program with an error when `condition` (a bool array) is not true everywhere.

    Eagerly an AssertionError; from a compiled program a CallbackFailedError that names it as its cause.

    fmt   a format string for the message, with `args` and `kwargs` as in `print`

    >>> debug.check(fnp.array(-1.0) > 0, "x must be positive, is {}", fnp.array(-1.0))
    Traceback (most recent call last):
    AssertionError: x must be positive, is -1.0
    """
    _check_format("debug.check", fmt, args, kwargs)
    io_callback(_Check(fmt), None, condition, *args, **kwargs)


def memory() -> dict[str, int]:
    """Bytes of the host pool (`in_use`, `cached`, `mapped`, `peak`) and the number of live program nodes (`nodes`).

    >>> sorted(debug.memory())
    ['cached', 'in_use', 'mapped', 'nodes', 'peak']
    """
    now = host_pool.statistics()
    return {"in_use": now.in_use, "cached": now.cached, "mapped": now.mapped, "peak": now.peak, "nodes": table_size()}

trim_public(globals(), __all__)
