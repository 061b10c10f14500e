"""remember: bounded caches of what is computed from Programs, that hold no user array alive."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
_caches: list[Any] = []


def remember(maxsize: int) -> Callable[[_F], _F]:
    """Remember the last `maxsize` results of a function whose first argument is a Program.

    A program with BUFFERs in it is computed anew each time: a cache that kept it would keep the
    user's arrays. All further arguments must be hashable. `clear` forgets everything.
    """

    def decorate(f: _F) -> _F:
        cached = lru_cache(maxsize)(f)
        _caches.append(cached)

        @wraps(f)
        def call(program: Any, *args: Any) -> Any:
            for o in program.outs:
                if o.born >= 0:  # an open PARAM or a BUFFER lies below
                    return f(program, *args)
            return cached(program, *args)

        remembered: Any = call
        remembered.cache_info = cached.cache_info
        out: _F = remembered
        return out

    return decorate


def clear() -> None:
    """Empty every cache made by `remember`."""
    for cached in _caches:
        cached.cache_clear()
