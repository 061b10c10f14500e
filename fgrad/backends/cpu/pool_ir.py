"""IR of the worker pool: `pfor`, the loop of a worker, and the layout they share.

A job slot holds one parallel loop. Its STATE is ``generation << 32 | next task``; a thread takes
the next task by compare and swap on it, so a task runs exactly once and no lock is held while it
runs. Publishing closes the state (next task = 2**32 - 1), writes the fields, then opens the next
generation: a reader that paired old and new fields fails its swap. The fields are release and
acquire for that reason. A caller takes part in its own loop and waits only for tasks that already
run, so nested loops and several callers cannot block each other; without a free slot a loop runs
serially.

Sleeping: a worker reads SEQ, looks at every slot, spins, raises SLEEPERS and sleeps while SEQ is
what it read. A caller publishes, raises SEQ, then reads SLEEPERS. Both orders are sequentially
consistent, so one of the two sees the other and no wake is lost.
"""

from enum import IntEnum

from fgrad.backends.cpu.abi import Os, Runtime
from fgrad.backends.cpu.irtext import (
    GETTID,
    HAS_FUTEX,
    LIKELY,
    PAUSE,
    SETAFFINITY,
    field,
    word,
)

JOB_SLOTS = 8
JOB_BYTES = 128
MAX_WORKERS = 255
MAX_PLACED = 64  # processors and workers of the table of masks; machines with more are not placed


class Pool(IntEnum):
    """Byte offsets in a pool."""

    SEQ = 0  # i32, grows with each job
    SLEEPERS = 4  # i32
    SPIN = 64  # rounds before sleeping
    QUIT = 72
    WORKERS = 80
    LAST_CPU = 88  # of the last caller
    PLACED_CPUS = 96  # processors below this number have a row of masks; 0: no placement
    EXITED = 104  # workers that left
    JOBS = 128
    THREADS = 4096  # system thread numbers, by worker
    MASKS = 8192  # [cpu][worker], 64-bit masks of processors


class Job(IntEnum):
    """Byte offsets in a job slot; what callers write and what workers write are different lines."""

    STATE = 0
    FN = 8
    TABLE = 16
    COUNT = 24
    DONE = 64
    WAITING = 72
    TAKEN = 80


POOL_BYTES = Pool.MASKS + 8 * MAX_PLACED * MAX_PLACED


def pool_ir(has_futex: bool = HAS_FUTEX) -> str:
    """Return the IR of pfor, worker and poke."""
    return _DRAIN + _PFOR + (_PLACE if has_futex else _NO_PLACE) + _worker(has_futex) + _POKE


_DRAIN = f"""
; run tasks of a job until none is left to take
define internal void @drain(ptr %rt, ptr %job, i64 %me) nounwind {{
  {field("fn.at", "job", Job.FN)}
  {field("table.at", "job", Job.TABLE)}
  {field("count.at", "job", Job.COUNT)}
  {field("done.at", "job", Job.DONE)}
  {field("waiting.at", "job", Job.WAITING)}
  br label %look
look:
  %state = load atomic i64, ptr %job acquire, align 8
  %fn = load atomic ptr, ptr %fn.at acquire, align 8
  %table = load atomic ptr, ptr %table.at acquire, align 8
  %count = load atomic i64, ptr %count.at acquire, align 8
  %task = and i64 %state, 4294967295
  %open = icmp ult i64 %task, %count
  br i1 %open, label %take, label %out
take:
  %state.next = add i64 %state, 1
  %swap = cmpxchg ptr %job, i64 %state, i64 %state.next acq_rel acquire
  %mine = extractvalue {{i64, i1}} %swap, 1
  br i1 %mine, label %run, label %look, {LIKELY}
run:
  call void %fn(ptr %table, i64 %task, i64 %me)
  %before = atomicrmw add ptr %done.at, i64 1 seq_cst
  %done = add i64 %before, 1
  %last = icmp eq i64 %done, %count
  br i1 %last, label %finish, label %look
finish:
  %waiting = load atomic i64, ptr %waiting.at seq_cst, align 8
  %nobody = icmp eq i64 %waiting, 0
  br i1 %nobody, label %look, label %tell
tell:
  call void @wake(ptr %rt, ptr %done.at, i64 1)
  br label %look
out:
  ret void
}}
"""

_PFOR = f"""
define void @pfor(ptr %rt, ptr %fn, ptr %table, i64 %n) nounwind {{
  {word("pool", "rt", Runtime.POOL)}
  {field("workers.at", "pool", Pool.WORKERS)}
  %workers = load i64, ptr %workers.at
  %short = icmp slt i64 %n, 2
  %alone = icmp eq i64 %workers, 0
  %huge = icmp sgt i64 %n, 4294967294 ; task numbers are 32 bits of the state
  %s1 = or i1 %short, %alone
  %s2 = or i1 %s1, %huge
  br i1 %s2, label %serial, label %find
serial:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %each, label %leave
each:
  %i = phi i64 [0, %serial], [%i.next, %each]
  call void %fn(ptr %table, i64 %i, i64 0)
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %n
  br i1 %i.more, label %each, label %leave
leave:
  ret void
find:
  %j = phi i64 [0, %0], [%j.next, %other]
  %offset = mul i64 %j, {JOB_BYTES}
  %offset.job = add i64 %offset, {int(Pool.JOBS)}
  {field("job", "pool", "%offset.job")}
  {field("taken.at", "job", Job.TAKEN)}
  %swap = cmpxchg ptr %taken.at, i64 0, i64 1 acq_rel monotonic
  %got = extractvalue {{i64, i1}} %swap, 1
  br i1 %got, label %publish, label %other
other:
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, {JOB_SLOTS}
  br i1 %j.more, label %find, label %serial
publish:
  {field("fn.at", "job", Job.FN)}
  {field("table.at", "job", Job.TABLE)}
  {field("count.at", "job", Job.COUNT)}
  {field("done.at", "job", Job.DONE)}
  {field("waiting.at", "job", Job.WAITING)}
  {field("sleepers.at", "pool", Pool.SLEEPERS)}
  %state = load atomic i64, ptr %job monotonic, align 8
  %closed = or i64 %state, 4294967295
  store atomic i64 %closed, ptr %job seq_cst, align 8
  store atomic i64 0, ptr %done.at release, align 8
  store atomic i64 0, ptr %waiting.at release, align 8
  store atomic ptr %fn, ptr %fn.at release, align 8
  store atomic ptr %table, ptr %table.at release, align 8
  store atomic i64 %n, ptr %count.at release, align 8
  %opened = add i64 %closed, 1
  store atomic i64 %opened, ptr %job release, align 8
  %seq = atomicrmw add ptr %pool, i32 1 seq_cst
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %cold = icmp ne i32 %sleepers, 0
  br i1 %cold, label %rouse, label %roused
rouse:
  %others = sub i64 %n, 1
  call void @wake(ptr %rt, ptr %pool, i64 %others)
  br label %roused
roused:
  %first = icmp eq i64 %j, 0 ; one caller at a time moves the workers
  br i1 %first, label %arrange, label %work
arrange:
  call void @place(ptr %rt, ptr %pool)
  br label %work
work:
  call void @drain(ptr %rt, ptr %job, i64 0)
  {field("spin.at", "pool", Pool.SPIN)}
  %spin = load i64, ptr %spin.at
  br label %wait
wait:
  %k = phi i64 [0, %work], [%k.next, %pause], [0, %sleep]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %finished = icmp sge i64 %done, %n
  br i1 %finished, label %out, label %unfinished
unfinished:
  %k.next = add i64 %k, 1
  %hot = icmp ult i64 %k.next, %spin
  br i1 %hot, label %pause, label %drowsy
pause:
  {PAUSE}
  br label %wait
drowsy:
  store atomic i64 1, ptr %waiting.at seq_cst, align 8
  %done.again = load atomic i64, ptr %done.at seq_cst, align 8
  %finished.again = icmp sge i64 %done.again, %n
  br i1 %finished.again, label %out, label %sleep
sleep:
  %seen = trunc i64 %done.again to i32
  call void @nap(ptr %rt, ptr %done.at, i32 %seen, i64 50000000)
  br label %wait
out:
  store atomic i64 0, ptr %taken.at release, align 8
  ret void
}}
"""

_PLACE = f"""
; if the caller sits on another processor than last time, move the workers off it
define internal void @place(ptr %rt, ptr %pool) nounwind {{
  {field("placed.at", "pool", Pool.PLACED_CPUS)}
  %placed = load i64, ptr %placed.at
  %on = icmp ne i64 %placed, 0
  br i1 %on, label %ask, label %out
ask:
  {word("os", "rt", Runtime.OS)}
  {word("getcpu", "os", Os.GETCPU)}
  %here = call i32 %getcpu()
  %cpu = sext i32 %here to i64
  {field("last.at", "pool", Pool.LAST_CPU)}
  %last = load atomic i64, ptr %last.at monotonic, align 8
  %same = icmp eq i64 %last, %cpu
  %beyond = icmp uge i64 %cpu, %placed
  %stay = or i1 %same, %beyond
  br i1 %stay, label %out, label %move
move:
  store atomic i64 %cpu, ptr %last.at monotonic, align 8
  {field("workers.at", "pool", Pool.WORKERS)}
  %workers = load i64, ptr %workers.at
  {word("syscall", "os", Os.SYSCALL)}
  {field("threads", "pool", Pool.THREADS)}
  {field("masks", "pool", Pool.MASKS)}
  br label %each
each:
  %w = phi i64 [0, %move], [%w.next, %each.one]
  %more = icmp ult i64 %w, %workers
  br i1 %more, label %each.one, label %out
each.one:
  %thread.at = getelementptr i64, ptr %threads, i64 %w
  %thread = load i64, ptr %thread.at
  %row = mul i64 %cpu, {MAX_PLACED}
  %cell = add i64 %row, %w
  %mask.at = getelementptr i64, ptr %masks, i64 %cell
  %x = call i64 (i64, ...) %syscall(i64 {SETAFFINITY}, i64 %thread, i64 8, ptr %mask.at)
  %w.next = add i64 %w, 1
  br label %each
out:
  ret void
}}
"""

_NO_PLACE = """
define internal void @place(ptr %rt, ptr %pool) nounwind {
  ret void
}
"""


def _worker(has_futex: bool) -> str:
    """IR of ``ptr worker(ptr arg)``; arg holds the runtime table, the pool, its number (from 1)."""
    number = "%thread = add i64 0, 1"
    if has_futex:
        number = f"""{word("os", "rt", Runtime.OS)}
  {word("syscall", "os", Os.SYSCALL)}
  %thread = call i64 (i64, ...) %syscall(i64 {GETTID})"""
    return f"""
define ptr @worker(ptr %arg) nounwind {{
  %rt = load ptr, ptr %arg
  {field("pool.at", "arg", 8)}
  %pool = load ptr, ptr %pool.at
  {field("me.at", "arg", 16)}
  %me = load i64, ptr %me.at
  {field("sleepers.at", "pool", Pool.SLEEPERS)}
  {field("spin.at", "pool", Pool.SPIN)}
  {field("quit.at", "pool", Pool.QUIT)}
  {field("threads", "pool", Pool.THREADS)}
  {field("exited.at", "pool", Pool.EXITED)}
  %index = sub i64 %me, 1
  %thread.at = getelementptr i64, ptr %threads, i64 %index
  {number}
  store atomic i64 %thread, ptr %thread.at release, align 8
  br label %top
top:
  %seq = load atomic i32, ptr %pool acquire, align 4
  %quit = load atomic i64, ptr %quit.at acquire, align 8
  %stop = icmp ne i64 %quit, 0
  br i1 %stop, label %out, label %scan
scan:
  %j = phi i64 [0, %top], [%j.next, %scan]
  %offset = mul i64 %j, {JOB_BYTES}
  %offset.job = add i64 %offset, {int(Pool.JOBS)}
  {field("job", "pool", "%offset.job")}
  call void @drain(ptr %rt, ptr %job, i64 %me)
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, {JOB_SLOTS}
  br i1 %j.more, label %scan, label %idle
idle:
  %spin = load i64, ptr %spin.at
  br label %look
look:
  %k = phi i64 [0, %idle], [%k.next, %pause]
  %seq.now = load atomic i32, ptr %pool acquire, align 4
  %new = icmp ne i32 %seq.now, %seq
  br i1 %new, label %top, label %nothing
nothing:
  %k.next = add i64 %k, 1
  %hot = icmp ult i64 %k.next, %spin
  br i1 %hot, label %pause, label %sleep
pause:
  {PAUSE}
  br label %look
sleep:
  %up = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  call void @nap(ptr %rt, ptr %pool, i32 %seq, i64 -1)
  %down = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %top
out:
  %left = atomicrmw add ptr %exited.at, i64 1 seq_cst
  ret ptr null
}}
"""


_POKE = """
; end every sleep at a word, for stopping
define void @poke(ptr %rt, ptr %word) nounwind {
  %before = atomicrmw add ptr %word, i32 1 seq_cst
  call void @wake(ptr %rt, ptr %word, i64 2147483647)
  ret void
}
"""
