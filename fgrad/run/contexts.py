"""Blocks in which functions are traced, compiled or checked in another way than usual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.config import config
from fgrad.trace.stage import without_tracing

__all__ = ["checking_leaks", "debug_key_reuse", "disable_jit", "no_tracing"]

no_tracing = without_tracing


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Run jitted functions as plain Python inside the block, one operation at a time, to look into them.

    `cond`, `switch`, `while_loop`, `fori_loop` and `scan` are then Python's own. What is being traced by another
    transformation stays as it is. `FGRAD_DISABLE_JIT=1` does so everywhere.

    >>> with disable_jit():
    ...     jit(lambda x: x * 2 if x > 0 else x)(3.0)
    6.0
    """
    with config.override(disable_jit=disable):
        yield


@contextmanager
def checking_leaks(check: bool = True) -> Iterator[None]:
    """Raise LeakedTracerError inside the block where a function keeps a traced value after its trace.

    As FGRAD_CHECK=leaks.

    >>> kept = []
    >>> with checking_leaks():
    ...     jit(lambda x: kept.append(x))(1.0)
    Traceback (most recent call last):
    fgrad.errors.LeakedTracerError: jit(<lambda>) has ended, but a tracer of it (~float32[]) is kept by a list; ...
    """
    with config.override(check=config.check | {"leaks"} if check else config.check - {"leaks"}):
        yield


@contextmanager
def debug_key_reuse(check: bool = True) -> Iterator[None]:
    """Raise KeyReuseError inside the block where a random key is used a second time.

    As FGRAD_CHECK=keys.

    >>> with debug_key_reuse():
    ...     key, sub = random.split(random.key(0))
    ...     x, y = random.normal(key), random.normal(sub)
    """
    with config.override(check=config.check | {"keys"} if check else config.check - {"keys"}):
        yield
