"""clear_caches: forget every compiled program and transformed program."""

from __future__ import annotations

from fgrad.config import config
from fgrad.run.compile import forget_executables
from fgrad.run.dispatch import Dispatcher
from fgrad.trace import interpret
from fgrad.trace.vmap import batched_program
from fgrad.uop import cache


def clear_caches() -> None:
    """Empty all caches: of transformed programs, of executables, of the signatures of all functions.

    Functions are traced and compiled again at their next call; compiled code on disk stays.

    >>> clear_caches()
    """
    cache.clear()
    interpret.clear()
    batched_program.cache_clear()
    forget_executables()
    for dispatcher in list(Dispatcher.alive):
        dispatcher.forget()


def _settings_changed() -> None:
    """Passes that are to be checked or shown must run again; what they made is equal and found."""
    if config.show or "spec" in config.check:
        interpret.clear()
        batched_program.cache_clear()


config.on_change.append(_settings_changed)
