"""The exceptions of programs that did not end well."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.backends.cpu.abi import Error
from fgrad.errors import CallbackFailedError, CancelledError, DeviceError, FgradError, OutOfBoundsError


def explain(
    name: str, error: int, where: int, raised: Callable[[], BaseException | None]
) -> Exception:
    """The exception for what a program left in its control block.

    name    of the program
    error   an `abi.Error`, or a number of its own
    raised  asked for the exception when a Python callback raised one
    """
    if error == Error.CANCELLED:
        return CancelledError(f"{name} was cancelled before it finished")
    if error == Error.CALLBACK:
        cause = raised()
        if isinstance(cause, FgradError) and cause.by_program:
            return cause
        problem = CallbackFailedError(f"a Python callback inside {name} raised {cause!r}")
        problem.__cause__ = cause
        return problem
    if error == Error.OUT_OF_BOUNDS:
        return OutOfBoundsError(f"{name} read or wrote out of bounds ({where})")
    return DeviceError(f"{name} failed with code {error} at {where}")


def as_raised(error: Exception) -> BaseException:
    """What a caller gets whose own thread ran the program: Ctrl-C and `sys.exit` in a callback as they are."""
    cause = error.__cause__
    if not isinstance(error, CallbackFailedError) or cause is None or isinstance(cause, Exception):
        return error
    return cause
