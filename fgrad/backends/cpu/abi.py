"""What generated code and the native runtime agree on: the table of an entry and its neighbours.

A program is one function ``void entry(int64_t *t)``. Its table `t` holds eight-byte words: first
the five of `Slot`, then the scalars as bits, the addresses of the inputs and those of the outputs.

    t[Slot.CTL]      control block of this call, layout `Ctl`
    t[Slot.RUNTIME]  table of pointers shared by the process, layout `Runtime`
    t[Slot.SCRATCH]  scratch memory; worker w of a parallel loop owns [w * bytes, (w + 1) * bytes)
    t[Slot.ARENA]    intermediates of the program
    t[Slot.HOST]     what calls back into Python need; its meaning belongs to the device

Generated code polls ``Ctl.CANCEL`` and adds one to ``Ctl.PROGRESS`` on each back edge of a loop
that may be long; it leaves when the word is not zero. It may set ``Ctl.ERROR`` and ``Ctl.WHERE``,
and leave. A parallel loop is ``pfor(runtime, fn, table, n)`` with `fn` being ``void fn(ptr table,
i64 task, i64 worker)``: each task in 0 <= task < n runs exactly once, 0 <= worker < `lanes` of the
pool. Loops may be nested, but the worker numbers of an inner loop start at 0 again: scratch belongs
to one loop.
"""

from enum import IntEnum


class Slot(IntEnum):
    """Words of an entry's table, counted in units of eight bytes."""

    CTL = 0
    RUNTIME = 1
    SCRATCH = 2
    ARENA = 3
    HOST = 4
    ARGUMENTS = 5  # first of: scalars, inputs, outputs


class Ctl(IntEnum):
    """Fields of a control block, byte offsets."""

    CANCEL = 0  # i32: not 0 asks the program to leave
    ERROR = 4  # i32: an `Error`, set by the program
    WHERE = 8  # i64: what the error is about; its meaning belongs to the program
    PROGRESS = 16  # i64: grows while the program gets on


CTL_BYTES = 64  # one cache line, so that polling one program does not slow another


class Error(IntEnum):
    """Values of ``Ctl.ERROR`` that the native layer knows; programs may use 16 and up."""

    NONE = 0
    CANCELLED = 1
    OUT_OF_BOUNDS = 2
    CALLBACK = 3
    FIRST_FREE = 16


class Runtime(IntEnum):
    """Words of the runtime table, counted in units of eight bytes.

    The functions behind the pointers:

    PFOR   void(ptr runtime, ptr fn, ptr table, i64 n)
    HOST   i64(i64 handle, i64 index, ptr args)       calls Python; not 0: leave the entry
    FILL   void(ptr target, i64 pattern, i64 bytes)   repeats the 8 bytes of the pattern
    COPY   void(ptr target, ptr source, i64 bytes)    of ranges that do not overlap
    CLOCK  i64(ptr runtime)                           nanoseconds, monotonic
    """

    OS = 0  # table of `Os`
    POOL = 1
    PFOR = 2
    HOST = 3  # set by the device, 0 until then
    FILL = 4
    COPY = 5
    CLOCK = 6
    FREE = 8  # from here on: pointers to micro-kernels and helpers, set with `native.provide`


RUNTIME_SLOTS = 512  # one page


class Os(IntEnum):
    """Words of the table of libc's functions; 0 where the system has none."""

    SYSCALL = 0
    GETCPU = 1
    CLOCK_GETTIME = 2
    NANOSLEEP = 3
    PTHREAD_CREATE = 4
    PTHREAD_SIGMASK = 5
