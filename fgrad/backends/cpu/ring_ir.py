"""IR of the ordered queue: submitters, one dispatcher thread, waiters, and the layout they share.

A bounded ring of cells, each with a sequence number that says whose turn it is: equal to the
position, a submitter may fill it; one more, the dispatcher may run it. The position plus one is the
ticket, and COMPLETED holds the newest finished ticket. The gate is a lock of a few instructions
that orders the start and end of a program against `cancel`, so that a cancel never hits the program
after.

Sleeping follows the pool's rule: raise the count of sleepers, look again, sleep while the word is
as seen; the other side writes the word, then reads the count.
"""

from enum import IntEnum

from fgrad.backends.cpu.abi import Ctl, Error
from fgrad.backends.cpu.irtext import PAUSE, field

CELL_BYTES = 64
LOG_ENTRIES = 256  # at least the cells of any ring, so that no failure in flight is lost
LOG_BYTES = 32


class Ring(IntEnum):
    """Byte offsets in a ring. What different threads write lies in different lines."""

    TAIL = 0  # next position to hand out
    COMPLETED = 64
    WAITERS = 72  # i32
    SEQ = 128  # i32, grows with each submission
    SLEEPING = 132  # i32
    SPIN = 192
    QUIT = 200
    EXITED = 208
    EPOCH = 216  # grows when a dispatcher is left behind
    MASK = 256  # cells - 1
    FIRST = 264  # position the dispatcher starts at
    GATE = 320  # i32
    RUNNING = 328  # ticket of the program that runs, 0 between programs
    TABLE = 336  # its table
    CANCEL_UPTO = 344  # every ticket up to this one is cancelled
    FAILURES = 384  # number of failures so far; the newest LOG_ENTRIES are in the log
    LOG = 512  # entries: ticket, error, where
    CELLS = 12288


class Cell(IntEnum):
    """Byte offsets in a cell."""

    SEQUENCE = 0
    FN = 8
    TABLE = 16


def ring_ir() -> str:
    """Return the IR of submit, dispatcher, await, cancel, progress and abandon."""
    return _SUBMIT + _GATE + _DISPATCHER + _AWAIT + _CANCEL + _PROGRESS + _ABANDON


_SUBMIT = f"""
; i64 submit(rt, ring, fn, table): the ticket, or -1 if the ring is full
define i64 @submit(ptr %rt, ptr %ring, ptr %fn, ptr %table) nounwind {{
  {field("mask.at", "ring", Ring.MASK)}
  %mask = load i64, ptr %mask.at
  br label %look
look:
  %pos = load atomic i64, ptr %ring monotonic, align 8
  %index = and i64 %pos, %mask
  %offset = mul i64 %index, {CELL_BYTES}
  %offset.cell = add i64 %offset, {int(Ring.CELLS)}
  {field("cell", "ring", "%offset.cell")}
  %sequence = load atomic i64, ptr %cell acquire, align 8
  %ahead = sub i64 %sequence, %pos
  %ready = icmp eq i64 %ahead, 0
  br i1 %ready, label %take, label %wrong
wrong:
  %full = icmp slt i64 %ahead, 0
  br i1 %full, label %refuse, label %look
refuse:
  ret i64 -1
take:
  %ticket = add i64 %pos, 1
  %swap = cmpxchg ptr %ring, i64 %pos, i64 %ticket acq_rel monotonic
  %mine = extractvalue {{i64, i1}} %swap, 1
  br i1 %mine, label %fill, label %look
fill:
  {field("fn.at", "cell", Cell.FN)}
  {field("table.at", "cell", Cell.TABLE)}
  store ptr %fn, ptr %fn.at
  store ptr %table, ptr %table.at
  store atomic i64 %ticket, ptr %cell release, align 8
  {field("seq.at", "ring", Ring.SEQ)}
  {field("sleeping.at", "ring", Ring.SLEEPING)}
  %seq = atomicrmw add ptr %seq.at, i32 1 seq_cst
  %sleeping = load atomic i32, ptr %sleeping.at seq_cst, align 4
  %cold = icmp ne i32 %sleeping, 0
  br i1 %cold, label %rouse, label %out
rouse:
  call void @wake(ptr %rt, ptr %seq.at, i64 1)
  br label %out
out:
  ret i64 %ticket
}}
"""

_GATE = f"""
define internal void @lock(ptr %gate) nounwind {{
  br label %try
try:
  %swap = cmpxchg ptr %gate, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{i32, i1}} %swap, 1
  br i1 %mine, label %out, label %pause
pause:
  {PAUSE}
  br label %try
out:
  ret void
}}
define internal void @unlock(ptr %gate) nounwind {{
  store atomic i32 0, ptr %gate release, align 4
  ret void
}}
"""

_DISPATCHER = f"""
; ptr dispatcher(ptr arg): arg holds the runtime table and the ring.
; Runs one program after the other; on QUIT it leaves when nothing is queued, and when it was
; abandoned while a program ran, it leaves after that program without touching the ring.
define ptr @dispatcher(ptr %arg) nounwind {{
  %rt = load ptr, ptr %arg
  {field("ring.at", "arg", 8)}
  %ring = load ptr, ptr %ring.at
  {field("completed.at", "ring", Ring.COMPLETED)}
  {field("waiters.at", "ring", Ring.WAITERS)}
  {field("seq.at", "ring", Ring.SEQ)}
  {field("sleeping.at", "ring", Ring.SLEEPING)}
  {field("spin.at", "ring", Ring.SPIN)}
  {field("quit.at", "ring", Ring.QUIT)}
  {field("exited.at", "ring", Ring.EXITED)}
  {field("mask.at", "ring", Ring.MASK)}
  {field("first.at", "ring", Ring.FIRST)}
  {field("gate", "ring", Ring.GATE)}
  {field("running.at", "ring", Ring.RUNNING)}
  {field("running.table.at", "ring", Ring.TABLE)}
  {field("upto.at", "ring", Ring.CANCEL_UPTO)}
  {field("epoch.at", "ring", Ring.EPOCH)}
  %epoch = load i64, ptr %epoch.at
  %mask = load i64, ptr %mask.at
  %size = add i64 %mask, 1
  %first = load i64, ptr %first.at
  br label %next
next:
  %pos = phi i64 [%first, %0], [%ticket, %complete], [%ticket, %tell]
  %ticket = add i64 %pos, 1
  %index = and i64 %pos, %mask
  %offset = mul i64 %index, {CELL_BYTES}
  %offset.cell = add i64 %offset, {int(Ring.CELLS)}
  {field("cell", "ring", "%offset.cell")}
  {field("fn.at", "cell", Cell.FN)}
  {field("table.at", "cell", Cell.TABLE)}
  br label %look
look:
  %k = phi i64 [0, %next], [%k.next, %pause], [0, %sleep]
  %seq = load atomic i32, ptr %seq.at acquire, align 4
  %sequence = load atomic i64, ptr %cell acquire, align 8
  %ready = icmp eq i64 %sequence, %ticket
  br i1 %ready, label %begin, label %idle
idle:
  %quit = load atomic i64, ptr %quit.at acquire, align 8
  %stop = icmp ne i64 %quit, 0
  br i1 %stop, label %out, label %stay
stay:
  %spin = load i64, ptr %spin.at
  %k.next = add i64 %k, 1
  %hot = icmp ult i64 %k.next, %spin
  br i1 %hot, label %pause, label %sleep
pause:
  {PAUSE}
  br label %look
sleep:
  %up = atomicrmw add ptr %sleeping.at, i32 1 seq_cst
  call void @nap(ptr %rt, ptr %seq.at, i32 %seq, i64 -1)
  %down = atomicrmw sub ptr %sleeping.at, i32 1 seq_cst
  br label %look
begin:
  %fn = load ptr, ptr %fn.at
  %table = load ptr, ptr %table.at
  %sequence.free = add i64 %pos, %size
  store atomic i64 %sequence.free, ptr %cell release, align 8
  %ctl = load ptr, ptr %table ; the first word of a table
  {field("error.at", "ctl", Ctl.ERROR)}
  {field("where.at", "ctl", Ctl.WHERE)}
  call void @lock(ptr %gate)
  store atomic i32 0, ptr %ctl monotonic, align 4
  store atomic i32 0, ptr %error.at monotonic, align 4
  store i64 0, ptr %where.at
  store i64 %ticket, ptr %running.at
  store ptr %table, ptr %running.table.at
  %upto = load i64, ptr %upto.at
  call void @unlock(ptr %gate)
  %cancelled = icmp uge i64 %upto, %ticket
  br i1 %cancelled, label %skip, label %run
run:
  call void %fn(ptr %table)
  br label %end
skip:
  store atomic i32 {int(Error.CANCELLED)}, ptr %error.at monotonic, align 4
  br label %end
end:
  call void @lock(ptr %gate)
  %epoch.now = load i64, ptr %epoch.at
  %valid = icmp eq i64 %epoch.now, %epoch
  br i1 %valid, label %own, label %abandoned
abandoned:
  call void @unlock(ptr %gate)
  ret ptr null
own:
  store i64 0, ptr %running.at
  call void @unlock(ptr %gate)
  %cancel = load atomic i32, ptr %ctl monotonic, align 4
  %error.own = load atomic i32, ptr %error.at monotonic, align 4
  %clean = icmp eq i32 %error.own, 0
  %asked = icmp ne i32 %cancel, 0
  %left = and i1 %clean, %asked
  %error = select i1 %left, i32 {int(Error.CANCELLED)}, i32 %error.own
  %good = icmp eq i32 %error, 0
  br i1 %good, label %complete, label %failed
failed:
  store atomic i32 %error, ptr %error.at monotonic, align 4
  %where = load i64, ptr %where.at
  call void @note(ptr %ring, i64 %ticket, i32 %error, i64 %where)
  br label %complete
complete:
  store atomic i64 %ticket, ptr %completed.at seq_cst, align 8
  %waiters = load atomic i32, ptr %waiters.at seq_cst, align 4
  %nobody = icmp eq i32 %waiters, 0
  br i1 %nobody, label %next, label %tell
tell:
  call void @wake(ptr %rt, ptr %completed.at, i64 2147483647)
  br label %next
out:
  store atomic i64 1, ptr %exited.at release, align 8
  ret ptr null
}}
; append to the log of failures
define internal void @note(ptr %ring, i64 %ticket, i32 %error, i64 %where) nounwind noinline cold {{
  {field("failures.at", "ring", Ring.FAILURES)}
  %count = load atomic i64, ptr %failures.at monotonic, align 8
  %index = and i64 %count, {LOG_ENTRIES - 1}
  %offset = mul i64 %index, {LOG_BYTES}
  %offset.log = add i64 %offset, {int(Ring.LOG)}
  {field("entry", "ring", "%offset.log")}
  {field("entry.error", "entry", 8)}
  {field("entry.where", "entry", 16)}
  %wide = sext i32 %error to i64
  store i64 %ticket, ptr %entry
  store i64 %wide, ptr %entry.error
  store i64 %where, ptr %entry.where
  %count.next = add i64 %count, 1
  store atomic i64 %count.next, ptr %failures.at release, align 8
  ret void
}}
"""

_AWAIT = f"""
; i64 await(rt, ring, ticket, ns): wait once, return the newest finished ticket. It may be smaller:
; after ns, or when a signal arrived
define i64 @await(ptr %rt, ptr %ring, i64 %ticket, i64 %ns) nounwind {{
  {field("completed.at", "ring", Ring.COMPLETED)}
  {field("waiters.at", "ring", Ring.WAITERS)}
  {field("spin.at", "ring", Ring.SPIN)}
  %spin = load i64, ptr %spin.at
  br label %look
look:
  %k = phi i64 [0, %0], [%k.next, %pause]
  %now = load atomic i64, ptr %completed.at acquire, align 8
  %finished = icmp sge i64 %now, %ticket
  br i1 %finished, label %out, label %unfinished
unfinished:
  %k.next = add i64 %k, 1
  %hot = icmp ult i64 %k.next, %spin
  br i1 %hot, label %pause, label %drowsy
pause:
  {PAUSE}
  br label %look
drowsy:
  %up = atomicrmw add ptr %waiters.at, i32 1 seq_cst
  %now.again = load atomic i64, ptr %completed.at seq_cst, align 8
  %finished.again = icmp sge i64 %now.again, %ticket
  br i1 %finished.again, label %awake, label %sleep
sleep:
  %seen = trunc i64 %now.again to i32
  call void @nap(ptr %rt, ptr %completed.at, i32 %seen, i64 %ns)
  br label %awake
awake:
  %down = atomicrmw sub ptr %waiters.at, i32 1 seq_cst
  %now.last = load atomic i64, ptr %completed.at acquire, align 8
  br label %out
out:
  %result = phi i64 [%now, %look], [%now.last, %awake]
  ret i64 %result
}}
"""

_CANCEL = f"""
; void cancel(ring, ticket): cancel the program that runs and those queued, up to this ticket
define void @cancel(ptr %ring, i64 %ticket) nounwind {{
  {field("gate", "ring", Ring.GATE)}
  {field("running.at", "ring", Ring.RUNNING)}
  {field("running.table.at", "ring", Ring.TABLE)}
  {field("upto.at", "ring", Ring.CANCEL_UPTO)}
  call void @lock(ptr %gate)
  %upto = load i64, ptr %upto.at
  %further = icmp ugt i64 %ticket, %upto
  %upto.new = select i1 %further, i64 %ticket, i64 %upto
  store i64 %upto.new, ptr %upto.at
  %running = load i64, ptr %running.at
  %some = icmp ne i64 %running, 0
  %meant = icmp ule i64 %running, %ticket
  %hit = and i1 %some, %meant
  br i1 %hit, label %ask, label %out
ask:
  %table = load ptr, ptr %running.table.at
  %ctl = load ptr, ptr %table
  store atomic i32 1, ptr %ctl monotonic, align 4
  br label %out
out:
  call void @unlock(ptr %gate)
  ret void
}}
"""

_PROGRESS = f"""
; i64 progress(ring): the progress word of the program that runs, 0 between programs
define i64 @progress(ptr %ring) nounwind {{
  {field("gate", "ring", Ring.GATE)}
  {field("running.at", "ring", Ring.RUNNING)}
  {field("running.table.at", "ring", Ring.TABLE)}
  call void @lock(ptr %gate)
  %running = load i64, ptr %running.at
  %some = icmp ne i64 %running, 0
  br i1 %some, label %read, label %out
read:
  %table = load ptr, ptr %running.table.at
  %ctl = load ptr, ptr %table
  {field("word", "ctl", Ctl.PROGRESS)}
  %now = load atomic i64, ptr %word monotonic, align 8
  br label %out
out:
  %result = phi i64 [0, %0], [%now, %read]
  call void @unlock(ptr %gate)
  ret i64 %result
}}
"""

_ABANDON = f"""
; i64 abandon(ring): the dispatcher that runs a program will leave after it; 0 if none runs
define i64 @abandon(ptr %ring) nounwind {{
  {field("gate", "ring", Ring.GATE)}
  {field("running.at", "ring", Ring.RUNNING)}
  {field("epoch.at", "ring", Ring.EPOCH)}
  call void @lock(ptr %gate)
  %running = load i64, ptr %running.at
  %some = icmp ne i64 %running, 0
  br i1 %some, label %leave, label %out
leave:
  %epoch = load i64, ptr %epoch.at
  %epoch.next = add i64 %epoch, 1
  store i64 %epoch.next, ptr %epoch.at
  store i64 0, ptr %running.at
  br label %out
out:
  call void @unlock(ptr %gate)
  ret i64 %running
}}
"""
