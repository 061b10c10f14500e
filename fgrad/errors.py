"""Every exception fgrad raises on purpose, in one hierarchy; each is also the builtin it refines.

::

    FgradError
    ├── ArgumentError          (TypeError, ValueError) a call's arguments do not fit its signature
    │   ├── StaticArgumentError (ValueError)     a static or donated argument that does not exist
    │   └── MissingRuleError   (AttributeError)  a function with a rule of its own that was not given
    ├── ConfigError            (ValueError)      a configuration variable or its value is unknown
    ├── ShapeError             (ValueError)      shapes do not fit each other
    │   ├── AxisError          (IndexError)      an axis the array does not have
    │   └── DimensionNumbersError (TypeError)    dimension numbers and shapes do not fit
    ├── DtypeError             (TypeError)       dtypes do not fit the operation
    ├── OutOfBoundsError       (IndexError)      an index known to be outside its axis
    ├── ConcretizationError    (TypeError)       a tracer was asked for a value it does not have
    ├── LeakedTracerError      (RuntimeError)    a tracer was used after its trace had ended
    ├── KeyReuseError          (RuntimeError)    a random key was used twice, under FGRAD_CHECK=keys
    ├── NonScalarGradError     (TypeError)       grad of a function that returns no real scalar
    ├── VmapAxisError          (ValueError)      mapped axes are missing or disagree
    ├── OrderingError          (RuntimeError)    reads and writes that no order can satisfy
    ├── NanError               (FloatingPointError) a result is not a number, under FGRAD_CHECK=nan
    ├── DonatedError           (RuntimeError)    an array was used after it had been given away
    ├── CompileError           (RuntimeError)    a program could not be compiled
    │   └── LinkError                            compiled code cannot be made loadable
    ├── SpecError              (AssertionError)  fgrad broke one of its own rules
    └── DeviceError            (RuntimeError)    something happened on, or to, a device
        ├── DeviceMissingError                   no such device, or its driver is not here
        ├── DeviceLostError                      the device failed; everything on it is gone
        ├── DeviceHangError    (TimeoutError)    it made no progress until its deadline
        ├── OutOfMemoryError   (MemoryError)     the device has no room for a buffer
        ├── BadAccessError                       a kernel touched memory that is not its own
        ├── CallbackFailedError                  a Python callback raised inside a program
        ├── CancelledError                       the work was cancelled before it finished
        └── ForkedDeviceError                    a device opened before fork, used in the child

A message says what was wrong with the caller's own names and values, and what to do instead.
`note_user_line` adds the caller's source line below it.
"""

import os
import sys
from functools import lru_cache
from types import FrameType
from typing import TypeVar

__all__ = [
    "ArgumentError",
    "AxisError",
    "BadAccessError",
    "CallbackFailedError",
    "CancelledError",
    "CompileError",
    "ConcretizationError",
    "ConcretizationTypeError",
    "ConfigError",
    "DeviceError",
    "DeviceHangError",
    "DeviceLostError",
    "DeviceMissingError",
    "DonatedError",
    "DimensionNumbersError",
    "DtypeError",
    "FgradError",
    "ForkedDeviceError",
    "KeyReuseError",
    "LeakedTracerError",
    "LinkError",
    "MissingRuleError",
    "NanError",
    "NonScalarGradError",
    "OrderingError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "ShapeError",
    "SpecError",
    "StaticArgumentError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "VmapAxisError",
    "describe",
    "note_user_line",
    "user_frame",
]


class FgradError(Exception):
    """Base of every exception that fgrad raises on purpose.

    Catch it to separate "fgrad refused this" from errors in your own code. Anything else that
    leaves fgrad is a bug in fgrad.

    >>> try:
    ...     fnp.ones(3) + fnp.ones(4)
    ... except fgrad.errors.FgradError as error:
    ...     print(type(error).__name__)
    ShapeError
    """

    by_program = False  # whether a running program found it: then it is raised as it is


class ArgumentError(FgradError, TypeError, ValueError):
    """A call's arguments do not fit the signature of what was called.

    NumPy and JAX raise TypeError for some of these and ValueError for others: this is both.

    Cause: a missing, surplus or misspelt argument, or one of the wrong kind: a tree whose structure
    differs from the other trees, a static argument that cannot be hashed, an `argnums` past the
    end.

    Way out: the message names the argument by its path (``args[0]['w']``) and says what fits there.

    >>> grad(lambda x: x * x, argnums=2)(1.0)
    Traceback (most recent call last):
    fgrad.errors.ArgumentError: grad with argnums=2 needs that argument by position, ...
    """


class StaticArgumentError(ArgumentError, ValueError):
    """`jit` was told that arguments are static or donated which the function does not have, or which
    are both.

    Way out: the message names the position or the name; positional-only parameters are named by
    position only.

    >>> jit(lambda x: x, static_argnames="mode")
    Traceback (most recent call last):
    fgrad.errors.StaticArgumentError: jit(<lambda>): static_argnames has 'mode', ...
    """


class MissingRuleError(ArgumentError, AttributeError):
    """A function that was declared to have a rule of its own was called before it was given the rule.

    Way out: call `defjvp`, `defvjp` or `def_vmap`, or take the decorator away.

    >>> custom_jvp(fnp.sin)(1.0)
    Traceback (most recent call last):
    fgrad.errors.MissingRuleError: No JVP defined for custom_jvp function sin using defjvp.
    """


class ConfigError(FgradError, ValueError):
    """A configuration variable, or the value given to it, is unknown.

    Way out: the message lists the nearest name or the accepted values; all variables stand in
    `fgrad.config.VARIABLES`.

    >>> config.update("thread", 4)
    Traceback (most recent call last):
    fgrad.errors.ConfigError: there is no setting 'thread'; did you mean threads?
    """


class ShapeError(FgradError, ValueError):
    """The shapes of the operands do not fit each other, or do not fit the operation.

    Cause: two sizes of one axis differ and neither is 1, a reshape changes the number of elements,
    an axis does not exist.

    Way out: the message shows both shapes. Add the missing axis with ``x[:, None]``, or check which
    of the two operands was transposed.

    >>> fnp.ones(3) + fnp.ones(4)
    Traceback (most recent call last):
    fgrad.errors.ShapeError: add: shapes (3,), (4,) do not broadcast together; add missing axes with x[:, ...
    """


class AxisError(ShapeError, IndexError):
    """An axis is named that the array does not have.

    Way out: the message shows the range; negative axes count from the end.

    >>> fnp.sum(fnp.ones(3), axis=1)
    Traceback (most recent call last):
    fgrad.errors.AxisError: sum: axis 1 is out of bounds for an array with 1 axes; use -1 to 0...
    """


class DimensionNumbersError(ShapeError, TypeError):
    """The dimension numbers of a gather, scatter or contraction contradict themselves or the shapes.

    Cause: an axis is named twice or does not exist, sizes that belong together differ, an axis of the
    operand is neither in the window nor left out of it.

    Way out: the message names the field and what it must hold. Indexing (``x[i]``, ``x.at[i]``)
    and `einsum` say the same with fewer numbers.

    >>> lax.gather(fnp.ones(3), fnp.array([[0]]), lax.GatherDimensionNumbers((), (), (0,)), (1,))
    Traceback (most recent call last):
    fgrad.errors.DimensionNumbersError: All components of the offset index in a gather op must either be a ...
    """


class DtypeError(FgradError, TypeError):
    """The dtype of an operand does not fit the operation.

    Cause: bit operations on floats, derivatives with respect to integers, a cast that would lose
    information and was not asked for.

    Way out: convert explicitly, ``x.astype(fnp.int32)``; pass a float (``3.0``) where a derivative
    is taken.

    >>> fnp.ones(3) << 1
    Traceback (most recent call last):
    fgrad.errors.DtypeError: left_shift: float32 has no bits to combine; convert with .astype, or use .view...
    """


class OutOfBoundsError(FgradError, IndexError):
    """An index is known to lie outside its axis.

    Cause: a constant or concrete index past the end. (A computed index inside a jitted function
    does not raise: reads give NaN or the dtype's extreme value and updates are dropped, unless
    ``FGRAD_CHECK=oob`` is set.)

    Way out: correct the index, or choose what should happen with ``x.at[i].get(mode="clip")``.

    >>> fnp.arange(3)[5]
    Traceback (most recent call last):
    fgrad.errors.OutOfBoundsError: index 5 out of bounds for axis 0 with size 3; ...
    """


class ConcretizationError(FgradError, TypeError):
    """A traced value was asked for a number that exists only when the program runs.

    Cause: inside `jit`, `vmap`, `scan` and the like a function runs once, on stand-ins for its
    arguments. ``if x > 0``, ``float(x)``, ``range(x)`` or ``np.asarray(x)`` ask for a value there.

    Way out: ``fnp.where(x > 0, x, -x)`` or `lax.cond` for a choice, `lax.fori_loop` or
    `lax.while_loop` for a loop, ``static_argnums`` for arguments that are configuration and not
    data.

    >>> jit(lambda x: x if x > 0 else -x)(1.0)  # which branch should be compiled?
    Traceback (most recent call last):
    fgrad.errors.ConcretizationError: a traced value (bool[]) was asked for its value inside jit(<lambda>), ...
    """


class LeakedTracerError(FgradError, RuntimeError):
    """A traced value was used outside the function whose trace made it.

    Cause: a value was kept from inside a transformed function, in a global, an attribute, a default
    or a generator, and used once that function had returned.

    Way out: return the value from the function; use `debug.print` or `debug.callback` to look at
    it; keep state in a `Ref`.

    >>> seen = []
    >>> y = jit(lambda x: seen.append(x * 2))(1.0)  # a stand-in, not a number
    >>> seen[0] + 1
    Traceback (most recent call last):
    fgrad.errors.LeakedTracerError: Encountered an unexpected tracer: add: x1 is a tracer (~float32[]) made ...
    """


class KeyReuseError(FgradError, RuntimeError):
    """A random key was used a second time.

    Raised under ``FGRAD_CHECK=keys`` only. Every function of `fgrad.random` that draws numbers, and
    `split`, use up the key that they are given; `fold_in` does not.

    Way out: the message names both uses. Take a new key for each: ``key, sub = random.split(key)``;
    where the same numbers are meant, ``random.clone(key)``.

    >>> key = random.key(0)
    >>> with config.override(check="keys"):
    ...     random.normal(key) + random.normal(key)
    Traceback (most recent call last):
    fgrad.errors.KeyReuseError: random.normal (...) takes a key that random.normal (...) has taken before, ...
    """


class NonScalarGradError(FgradError, TypeError):
    """`grad` was applied to a function whose result is not one real floating-point number.

    Way out: sum the result to get the gradient of the sum; `jacrev` or `jacfwd` for the whole
    Jacobian; `vjp` to choose the cotangent yourself; ``has_aux=True`` when the function returns
    ``(loss, something else)``.

    >>> grad(lambda x: x * 2)(fnp.ones(3))
    Traceback (most recent call last):
    fgrad.errors.NonScalarGradError: Gradient only defined for scalar-output functions. ...
    """


class VmapAxisError(FgradError, ValueError):
    """The axes to be mapped over are missing, or their sizes disagree.

    Cause: an argument has fewer axes than ``in_axes`` says, two mapped arguments have different
    sizes, every entry of ``in_axes`` is None, or a value that depends on the mapped axis is to be
    returned with ``out_axes=None`` or stored into something that is not mapped.

    Way out: ``in_axes=(0, None)`` for an argument shared by all; `axis_size` when nothing is
    mapped.

    >>> vmap(fnp.add)(fnp.ones((3, 2)), fnp.ones((4, 2)))
    Traceback (most recent call last):
    fgrad.errors.VmapAxisError: vmap got inconsistent sizes for array axes to be mapped:
      * one axis had size 3: axis 0 of argument x1 of type float32[3,2];
      * one axis had size 4: axis 0 of argument x2 of type float32[4,2]
    """


class OrderingError(FgradError, RuntimeError):
    """Reads and writes of one buffer cannot be put into any order that satisfies them all.

    Cause: two overlapping stores with nothing that orders them, or a read that needs contents which
    a write it must also follow has destroyed (the message then contains "cycle").

    Example: store to all of `b` twice and use both results, each stored into `b` itself rather than
    into ``AFTER(b, first store)``.

    Way out: give the second store the first one's `AFTER` as its target; take a snapshot
    (`clone()`, or a read of a `Ref`) before contents that are needed later are overwritten. Nothing
    has run when this is raised, and every array and Ref is what it was.

    >>> r = new_ref(1.0)
    >>> x = freeze(r)
    >>> r[...] = 2.0
    Traceback (most recent call last):
    fgrad.errors.OrderingError: this Ref was frozen and can be neither read nor written; ...
    """


class NanError(FgradError, FloatingPointError):
    """A function whose arguments were numbers has a NaN among its results.

    Raised under ``FGRAD_CHECK=nan`` only. The program was run a second time, op by op, to find
    where the NaN began.

    Way out: the message names the function, the operation and, where it is known, your line. Keep
    the operand in the operation's domain there: under a `where`, replace it before the operation.

    >>> with config.override(check="nan"):
    ...     fnp.log(-1.0)
    Traceback (most recent call last):
    fgrad.errors.NanError: log: the result (float32[]) has a NaN, and no argument had one; ...
    ...
    """


class DonatedError(FgradError, RuntimeError):
    """An array was used after its storage had been given to a jitted call.

    Cause: the argument was listed in ``donate_argnums`` (or ``donate_argnames``), so the call was
    free to write its results there.

    Way out: rebind the name (``params = step(params, g)``), copy the array before the call, or do
    not donate it.

    >>> step = jit(lambda x: x + 1, donate_argnums=0)
    >>> x = fnp.ones(3)
    >>> y = step(x)
    >>> x * 2
    Traceback (most recent call last):
    fgrad.errors.DonatedError: this array was donated to <lambda> and its memory has been reused; ...
    """


class CompileError(FgradError, RuntimeError):
    """A program could not be compiled.

    Cause: the generated code was refused by the compiler, or the compiler's process died. With the
    code that fgrad writes itself this is a bug in fgrad; with a kernel of yours, see the line that
    the message shows.

    Way out: ``FGRAD_SHOW=source`` prints what was compiled; report it with that text.

    >>> issubclass(fgrad.errors.CompileError, RuntimeError)
    True
    """


class LinkError(CompileError):
    """Compiled code needs something that fgrad's loader does not provide.

    Cause: the object file refers to a symbol outside itself (a library function the compiler fell
    back on), to writable global data or to thread-local storage, or holds a relocation of a kind
    that the loader does not know. The message names the symbol.

    Way out: report it. For a kernel of yours: use the functions of `fgrad.numpy` there.

    >>> issubclass(fgrad.errors.LinkError, fgrad.errors.CompileError)
    True
    """


class SpecError(FgradError, AssertionError):
    """A program broke the rules of its stage: fgrad has made a mistake.

    Cause: a pass built a node that the next one may not see. It is checked when
    ``FGRAD_CHECK=spec`` is set (or ``FGRAD_CHECK=1``), after every pass, so the pass named in the
    message is the guilty one.

    Way out: report it together with the printed program.

    >>> issubclass(fgrad.errors.SpecError, AssertionError)
    True
    """


class DeviceError(FgradError, RuntimeError):
    """Something happened on, or to, a device.

    Base of the errors below; raised itself when a driver reports a failure that has no class of its
    own. The message names the device, the program and the driver's own words.

    >>> issubclass(fgrad.errors.DeviceMissingError, fgrad.errors.DeviceError)
    True
    """


class DeviceMissingError(DeviceError):
    """The device that was asked for is not here.

    Cause: an unknown name, an index past the last device, or a driver library that is not
    installed.

    Example: ``FGRAD_DEVICE=CUDA`` on a machine without an NVIDIA driver.

    Way out: ``python -m fgrad devices`` lists each device with the reason why it is not available.

    >>> device_put(1.0, "cuda")
    Traceback (most recent call last):
    fgrad.errors.DeviceMissingError: there is no device 'cuda'; known kinds: cpu, disk, npy, null, python, ...
    """


class DeviceLostError(DeviceError):
    """The device failed, and with it all work and memory on it.

    Cause: a fault the driver cannot recover from: an illegal address, a reset, a removed device. It
    is sticky: every later use of the device raises the first error again, chained to it.

    Way out: arrays that also live on the host are unaffected, as are other devices. Reset the
    device, upload again. ``FGRAD_SYNC=1`` waits after every program, so that the guilty one is
    named.

    >>> issubclass(fgrad.errors.DeviceLostError, RuntimeError)
    True
    """


class DeviceHangError(DeviceError, TimeoutError):
    """The device made no progress until its deadline.

    Cause: a loop that never ends, or a wait for a signal that nobody sends. The clock restarts
    whenever progress is seen, so slow work that moves does not raise. What can be cancelled (a CPU
    device) is usable again; any other device counts as lost from then on.

    Example: ``lax.while_loop(lambda s: True, ...)`` without ``max_steps``.

    Way out: the message states the position waited for and the last one seen, and the kernel that
    was running: look at the loop condition there.

    >>> issubclass(fgrad.errors.DeviceHangError, TimeoutError)
    True
    """


class OutOfMemoryError(DeviceError, MemoryError):
    """The device has no room for a buffer, even after its unused buffers were released.

    Cause: the arrays and the intermediates of a program together exceed the memory. The message
    says how much was wanted, used, cached and free in one piece. Nothing of the call has run.

    Way out: donate arguments that are not needed afterwards, use `checkpoint` around layers, take a
    smaller batch, drop references to old results.

    >>> fnp.zeros(1 << 50)
    Traceback (most recent call last):
    fgrad.errors.OutOfMemoryError: cpu: the system has no 4503599627370496 bytes; ...
    """


class BadAccessError(DeviceError):
    """A kernel read or wrote memory outside its arguments.

    Cause: generated code whose address is wrong, or memory of another library that has gone. (A
    computed index out of bounds reads a fill value, or is an OutOfBoundsError under
    ``FGRAD_CHECK=oob``.)

    Way out: run once with ``FGRAD_DEVICE=PYTHON``, which checks every access and names kernel,
    argument, index and limit; report it.

    >>> issubclass(fgrad.errors.BadAccessError, fgrad.errors.DeviceError)
    True
    """


class CallbackFailedError(DeviceError):
    """A Python function called from inside a running program raised.

    Cause: the function given to `pure_callback`, `io_callback` or `debug.callback`; its own
    exception is chained to this one with its traceback. The program stopped there: its results are
    not published, and arguments donated to it are consumed.

    Way out: mend the callback; it can be called directly with concrete arrays to try it.

    >>> def fails(x):
    ...     raise ValueError("no")
    >>> f = jit(lambda x: pure_callback(fails, x, x))
    >>> f(1.0).block_until_ready()
    Traceback (most recent call last):
    fgrad.errors.CallbackFailedError: a Python callback inside <lambda> raised ValueError('no')
    """


class CancelledError(DeviceError):
    """The work was cancelled before it had finished.

    Cause: a second Ctrl-C while waiting, the interpreter's exit, or an explicit cancel. What the
    work would have produced does not exist.

    Way out: run it again; the device is still usable.

    >>> issubclass(fgrad.errors.CancelledError, fgrad.errors.DeviceError)
    True
    """


class ForkedDeviceError(DeviceError):
    """A device that was opened before `fork` was used in the child process.

    Cause: queues, threads and driver handles do not survive a fork, so the child's copies are dead.

    Example: ``multiprocessing.Pool`` with the "fork" start method, after fgrad has run something.

    Way out: ``multiprocessing.get_context("spawn")``, or fork before the device is first used.

    >>> issubclass(fgrad.errors.ForkedDeviceError, fgrad.errors.DeviceError)
    True
    """


# Names that code written for JAX catches: there one class per way of asking, here one for all.
UnexpectedTracerError = LeakedTracerError
ConcretizationTypeError = ConcretizationError
TracerArrayConversionError = ConcretizationError
TracerBoolConversionError = ConcretizationError
TracerIntegerConversionError = ConcretizationError


# Frames of these top-level modules stand between the user and us, but are not the user.
_PLUMBING = frozenset({"fgrad", "optree", "contextlib", "functools"})

_E = TypeVar("_E", bound=BaseException)


def is_plumbing(frame: FrameType) -> bool:
    """Whether a frame stands between the user and what they see: fgrad's own, or one that it uses."""
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in _PLUMBING or frame.f_code.co_filename.startswith("<fgrad")


def user_frame() -> str:
    """Return ``"file.py:line, in function"`` of the innermost frame outside the fgrad package.

    Frames of optree, contextlib and functools are passed over too, and so is generated code, which
    fgrad compiles under a file name that starts with ``<fgrad``. Returns "" when there is no such
    frame. Costs about a microsecond, so it may be called for every traced operation.

    >>> user_frame().endswith(":1, in <module>")
    True
    """
    frame = sys._getframe(1)
    while True:
        code = frame.f_code
        if not is_plumbing(frame):
            return f"{_shorten(code.co_filename)}:{frame.f_lineno}, in {code.co_qualname}"
        if frame.f_back is None:
            return ""
        frame = frame.f_back


def note_user_line(exc: _E) -> _E:
    """Add the caller's source line to `exc` as a note, once, and return `exc`.

    >>> error = note_user_line(ValueError("no"))
    >>> error.__notes__
    ['  at <doctest ...>:1, in <module>']
    """
    where = user_frame()
    already_noted = any(note.startswith("  at ") for note in getattr(exc, "__notes__", ()))
    if where and not already_noted:
        exc.add_note(f"  at {where}")
    return exc


def describe(x: object) -> str:
    """What an object is, for a message: its value and type, of arrays the dtype and shape, of others the type.

    >>> describe([1, 2])
    '[1, 2] of type list'
    """
    kind = type(x)
    if isinstance(x, type):
        return f"the class {x.__name__}"
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        sizes = ",".join([str(n) for n in x.shape])
        what = "an array" if kind.__name__ in ("Array", "Tracer", "ndarray") else f"a {kind.__name__}"
        return f"{what} {x.dtype}[{sizes}]"
    name = getattr(x, "__name__", "")
    if callable(x) and name:
        return f"the function {name}"
    text = repr(x)
    if " at 0x" in text.lower():  # it says nothing, and differs from run to run
        return f"an object of type {kind.__name__}"
    return f"{text if len(text) <= 80 else text[:77] + '...'} of type {kind.__name__}"


@lru_cache(maxsize=1024)
def _shorten(filename: str) -> str:
    """Return `filename` relative to the working directory if it lies below it."""
    try:
        inside = os.getcwd() + os.sep
    except OSError:  # the working directory was deleted
        return filename
    return filename.removeprefix(inside)
