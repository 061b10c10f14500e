"""Forking: locks that a fork cannot leave locked for ever, and what to mend in the child.

A child has one thread. A lock held by another thread of the parent at the moment of the fork would
stay locked in the child, and what it guards might be half written. So the forking thread takes
every lock made here, forks, and both sides run their hooks and release the locks. Rule that keeps
this free of deadlock: a thread that holds one of these locks takes no other one of them, and does
not fork.
"""

import os
import threading
from collections.abc import Callable

_locks: list[threading.Lock] = []
_held: list[threading.Lock] = []
_hooks: list[Callable[[bool], None]] = []


def fork_safe_lock() -> threading.Lock:
    """Return a lock that is held while the process forks. It lives as long as the process."""
    lock = threading.Lock()
    _locks.append(lock)
    return lock


def after_fork(hook: Callable[[bool], None]) -> None:
    """Call ``hook(is_child)`` after each fork on both sides, all locks of this module being held.

    Hooks run in the order in which they were given; they must not take those locks.
    """
    _hooks.append(hook)


def _before() -> None:
    for lock in tuple(_locks):
        lock.acquire()
        _held.append(lock)


def _after(is_child: bool) -> None:
    try:
        for hook in tuple(_hooks):
            hook(is_child)
    finally:
        while _held:
            _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(False),
        after_in_child=lambda: _after(True),
    )
