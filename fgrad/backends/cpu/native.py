"""The native runtime, loaded once per process: its functions, and the table generated code gets.

The table of pointers (`abi.Runtime`) has one address for the life of the process and of its forked
children, so compiled programs may keep it. What changes, as the pool after a fork, changes inside.
"""

from dataclasses import dataclass
from typing import Any

from fgrad.backends.cpu.abi import RUNTIME_SLOTS, Os, Runtime
from fgrad.backends.cpu.code import Code, load_code
from fgrad.backends.cpu.forks import fork_safe_lock
from fgrad.backends.cpu.irtext import HAS_FUTEX, METADATA, primitives
from fgrad.backends.cpu.memory_ir import memory_ir
from fgrad.backends.cpu.pool_ir import POOL_BYTES, pool_ir
from fgrad.backends.cpu.ring_ir import ring_ir
from fgrad.hw.libc import PAGE, address_of, as_function, raw_block, words

_SIGNATURES = {
    "pfor": "void(*)(intptr_t, intptr_t, intptr_t, int64_t)",
    "worker": "void(*)(intptr_t)",
    "poke": "void(*)(intptr_t, intptr_t)",
    "submit": "int64_t(*)(intptr_t, intptr_t, intptr_t, intptr_t)",
    "dispatcher": "void(*)(intptr_t)",
    "await": "int64_t(*)(intptr_t, intptr_t, int64_t, int64_t)",
    "cancel": "void(*)(intptr_t, int64_t)",
    "progress": "int64_t(*)(intptr_t)",
    "abandon": "int64_t(*)(intptr_t)",
    "fill": "void(*)(intptr_t, int64_t, int64_t)",
    "copy": "void(*)(intptr_t, intptr_t, int64_t)",
    "clock": "int64_t(*)(intptr_t)",
    "spin": "void(*)(int64_t)",
    "spawn": "int(*)(intptr_t, intptr_t, intptr_t, intptr_t)",
}


@dataclass(frozen=True, slots=True)
class Native:
    """The loaded runtime.

    table      address of the runtime table, for ``t[Slot.RUNTIME]``
    functions  name -> callable; the GIL is released in each call
    addresses  name -> address
    """

    table: int
    functions: dict[str, Any]
    addresses: dict[str, int]
    code: Code


_lock = fork_safe_lock()
_native: Native | None = None


def native() -> Native:
    """Return the runtime, compiled or read from disk at the first call. Loops run serially in it
    until `workers.start` gave it a pool.
    """
    global _native
    if _native is None:
        loaded = load_native()  # outside the lock, as it takes others; a second copy does no harm
        with _lock:
            if _native is None:
                _native = loaded
    return _native


def load_native(has_futex: bool = HAS_FUTEX) -> Native:
    """Load a runtime with a table of its own.

    has_futex  False: sleep by polling, which works on every POSIX system
    """
    text = primitives(has_futex) + pool_ir(has_futex) + ring_ir() + memory_ir() + METADATA
    code = load_code(text, _SIGNATURES, level=2)
    functions = {
        name: as_function(code.addresses[name], signature)
        for name, signature in _SIGNATURES.items()
    }
    runtime, system = raw_block(8 * RUNTIME_SLOTS), raw_block(PAGE)
    libc = {
        Os.SYSCALL: "syscall",
        Os.GETCPU: "sched_getcpu",
        Os.CLOCK_GETTIME: "clock_gettime",
        Os.NANOSLEEP: "nanosleep",
        Os.PTHREAD_CREATE: "pthread_create",
        Os.PTHREAD_SIGMASK: "pthread_sigmask",
    }
    for slot, name in libc.items():
        words(system)[slot] = address_of(name)
    table = words(runtime)
    table[Runtime.OS] = system
    table[Runtime.POOL] = raw_block(POOL_BYTES)  # no workers
    table[Runtime.PFOR] = code.addresses["pfor"]
    table[Runtime.FILL] = code.addresses["fill"]
    table[Runtime.COPY] = code.addresses["copy"]
    table[Runtime.CLOCK] = code.addresses["clock"]
    return Native(runtime, functions, code.addresses, code)


def provide(slot: int, address: int) -> None:
    """Set a free word of the runtime table, for a micro-kernel; keep its Code alive."""
    if not Runtime.FREE <= slot < RUNTIME_SLOTS:
        first, last = int(Runtime.FREE), RUNTIME_SLOTS - 1
        raise ValueError(f"slot must be from {first} to {last}, got {slot}")
    words(native().table)[slot] = address
