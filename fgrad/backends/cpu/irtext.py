"""Small helpers for LLVM IR written by hand, and the runtime's way to sleep, wake and spin."""

import platform
import signal
from enum import IntEnum

from fgrad.backends.cpu.abi import Os, Runtime
from fgrad.hw.libc import IS_LINUX

MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}.get(
    platform.machine().lower(), platform.machine().lower()
)
# Linux system call numbers: futex, gettid, sched_setaffinity
_CALLS = {"x86_64": (202, 186, 203), "aarch64": (98, 178, 122)}
HAS_FUTEX = IS_LINUX and MACHINE in _CALLS
FUTEX, GETTID, SETAFFINITY = _CALLS.get(MACHINE, (0, 0, 0))
PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
}.get(MACHINE, "fence seq_cst")
_PAUSE_DECLARATION = {
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
}.get(MACHINE, "")

_POLL_NS = 50_000  # of the portable way to sleep: long against a poll, short against a wake
LIKELY = "!prof !0"  # on a two-way branch: the first way is the usual one
METADATA = '!0 = !{!"branch_weights", i32 100, i32 1}\n'


def field(name: str, base: str, offset: int | IntEnum | str) -> str:
    """Return the line ``%name = address of base + offset``; an offset may be a register."""
    at = offset if isinstance(offset, str) else int(offset)
    return f"%{name} = getelementptr i8, ptr %{base}, i64 {at}"


def word(name: str, base: str, index: Runtime | Os) -> str:
    """Return lines that load the pointer number `index` of a table of pointers as %name."""
    return f"{field(name + '.at', base, 8 * index)}\n  %{name} = load ptr, ptr %{name + '.at'}"


def primitives(has_futex: bool) -> str:
    """IR of nap, wake, clock, spin and spawn.

    void nap(rt, word, seen, ns)  sleep while the i32 at `word` is `seen`, at most ns (< 0: any);
                                  may return early, as when a signal arrives: callers look again
    void wake(rt, word, count)    end up to `count` sleeps there
    """
    return "\n".join([_PAUSE_DECLARATION, _FUTEX if has_futex else _POLLING, _CLOCK, _SPIN, _SPAWN])


_FUTEX = f"""
define internal void @nap(ptr %rt, ptr %word, i32 %seen, i64 %ns) nounwind noinline cold {{
  %time = alloca [2 x i64], align 8
  %forever = icmp slt i64 %ns, 0
  %seconds = udiv i64 %ns, 1000000000
  %rest = urem i64 %ns, 1000000000
  store i64 %seconds, ptr %time
  {field("time.rest", "time", 8)}
  store i64 %rest, ptr %time.rest
  %limit = select i1 %forever, ptr null, ptr %time
  {word("os", "rt", Runtime.OS)}
  {word("syscall", "os", Os.SYSCALL)}
  ; operation 128: wait, private to the process
  %x = call i64 (i64, ...) %syscall(i64 {FUTEX}, ptr %word, i64 128, i32 %seen, ptr %limit,
                                    ptr null, i64 0)
  ret void
}}
define internal void @wake(ptr %rt, ptr %word, i64 %count) nounwind noinline cold {{
  {word("os", "rt", Runtime.OS)}
  {word("syscall", "os", Os.SYSCALL)}
  ; operation 129: wake, private to the process
  %x = call i64 (i64, ...) %syscall(i64 {FUTEX}, ptr %word, i64 129, i64 %count, ptr null,
                                    ptr null, i64 0)
  ret void
}}
"""

_POLLING = f"""
define internal void @nap(ptr %rt, ptr %word, i32 %seen, i64 %ns) nounwind noinline cold {{
  %time = alloca [2 x i64], align 8
  store i64 0, ptr %time
  {field("time.rest", "time", 8)}
  store i64 {_POLL_NS}, ptr %time.rest
  {word("os", "rt", Runtime.OS)}
  {word("nanosleep", "os", Os.NANOSLEEP)}
  br label %look
look:
  %spent = phi i64 [0, %0], [%spent.next, %sleep]
  %now = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %now, %seen
  %early = icmp ult i64 %spent, %ns ; an endless limit is the largest number
  %go = and i1 %same, %early
  br i1 %go, label %sleep, label %out
sleep:
  %spent.next = add i64 %spent, {_POLL_NS}
  %interrupted = call i32 %nanosleep(ptr %time, ptr null)
  %ok = icmp eq i32 %interrupted, 0
  br i1 %ok, label %look, label %out
out:
  ret void
}}
define internal void @wake(ptr %rt, ptr %word, i64 %count) nounwind {{
  ret void
}}
"""

_CLOCK = f"""
define i64 @clock(ptr %rt) nounwind {{
  %time = alloca [2 x i64], align 8
  {word("os", "rt", Runtime.OS)}
  {word("gettime", "os", Os.CLOCK_GETTIME)}
  %x = call i32 %gettime(i32 {1 if IS_LINUX else 6}, ptr %time) ; CLOCK_MONOTONIC
  %seconds = load i64, ptr %time
  {field("time.rest", "time", 8)}
  %rest = load i64, ptr %time.rest
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %rest
  ret i64 %ns
}}
"""

_SPIN = f"""
define void @spin(i64 %count) nounwind {{
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  {PAUSE}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}}
"""

# Blocking signals, creating and unblocking are one native call: between two Python calls a signal
# handler could raise, and leave signals blocked or the thread unknown.
_SPAWN = f"""
; i32 spawn(rt, ident, entry, arg): start a thread that has all signals blocked; its number goes to
; ident; the result is an error number
define i32 @spawn(ptr %rt, ptr %ident, ptr %entry, ptr %arg) nounwind {{
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  store [16 x i64] [{", ".join(["i64 -1"] * 16)}], ptr %all
  {word("os", "rt", Runtime.OS)}
  {word("create", "os", Os.PTHREAD_CREATE)}
  {word("sigmask", "os", Os.PTHREAD_SIGMASK)}
  %x = call i32 %sigmask(i32 {int(signal.SIG_BLOCK)}, ptr %all, ptr %old)
  %error = call i32 %create(ptr %ident, ptr null, ptr %entry, ptr %arg)
  %y = call i32 %sigmask(i32 {int(signal.SIG_SETMASK)}, ptr %old, ptr null)
  ret i32 %error
}}
"""
